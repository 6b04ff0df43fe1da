//! What a frozen checkpoint says of segments, from the moment it is frozen until it is durable.
//!
//! Invariants: until then R is what either of the two checkpoints says; from then on what the new one says, and
//! what was made durable since. What was cleared since stays in R.

use std::collections::BTreeMap;

use super::Segs;
use crate::format::{VALID_BYTES, msb_set};

/// What a frozen checkpoint says.
#[derive(Default)]
pub(super) struct Frozen {
    /// Of segments that were touched before it, in that order: what was valid then.
    maps: Vec<(u32, [u8; VALID_BYTES])>,
    /// What recovery from it needs beside that, since.
    needed: BTreeMap<u32, [u8; VALID_BYTES]>,
}

impl Frozen {
    /// Recovery needs a block from now on.
    pub(super) fn need(&mut self, seg: u32, at: usize) {
        msb_set(self.needed.entry(seg).or_insert([0; VALID_BYTES]), at, true);
    }
    /// Segments that were touched before.
    pub(super) fn segments(&self) -> impl Iterator<Item = u32> + '_ {
        self.maps.iter().map(|(seg, _)| *seg)
    }
}

impl Segs {
    /// A checkpoint is frozen: recovery may need what is valid now, beside what the one before says.
    /// `narrow`: it does not, a planted bug.
    pub(in crate::fs) fn freeze(&mut self, narrow: bool) {
        self.dirty.fill(false);
        self.dirty_count = 0;
        let mut maps = Vec::with_capacity(self.touched.len());
        for i in std::mem::take(&mut self.touched) {
            let seg = &mut self.segs[i as usize];
            seg.touched = false;
            maps.push((i, seg.cur));
            if !narrow {
                seg.rec.iter_mut().zip(&seg.cur).for_each(|(rec, cur)| *rec |= cur);
            }
        }
        self.frozen = Some(Frozen { maps, ..Frozen::default() });
    }

    /// It is durable: recovery needs what it says, and what was made durable since. `late`: what is valid by
    /// now, a planted bug.
    pub(in crate::fs) fn settle(&mut self, late: bool) {
        let Some(Frozen { maps, needed }) = self.frozen.take() else { return };
        for (i, map) in maps {
            let seg = &mut self.segs[i as usize];
            let mut rec = if late { seg.cur } else { map };
            let since = needed.get(&i).into_iter().flatten();
            rec.iter_mut().zip(since).for_each(|(rec, more)| *rec |= more);
            if seg.rec == rec && !seg.held && !seg.held_next {
                continue;
            }
            let before = if seg.copied { 0 } else { seg.only_needed() };
            (seg.rec, seg.held, seg.held_next) = (rec, seg.held_next, false);
            let after = seg.only_needed();
            seg.needed = seg.valid + after as u16;
            let after = if seg.copied { 0 } else { after };
            self.pre_invalid = self.pre_invalid + after - before;
            self.refresh(i);
        }
        // Those that were held since, and not touched before.
        for at in 0..self.touched.len() {
            let i = self.touched[at];
            let seg = &mut self.segs[i as usize];
            if std::mem::take(&mut seg.held_next) {
                seg.held = true;
                self.refresh(i);
            }
        }
    }
}
