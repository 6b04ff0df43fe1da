//! ARC: pages seen once and pages seen again, and a target between them that ghosts move.
//!
//! Invariants, with c entries in all: an entry of class `ONCE` is in T1, one of class `AGAIN` in
//! T2; B1 and B2 remember pages that left them, none of them resident; T1 + B1 <= c, all four
//! together <= 2 c; the target for T1 is from 0 to c, in units of 1/65536.

use super::lists;
use crate::buffer::ghosts::Ghosts;
use crate::buffer::{Access, Admission, Batches, Frame, List, Policy, Pool, Stream};

const ONCE: u8 = 0;
const AGAIN: u8 = 1;
/// One entry in units of the target.
const ONE: u64 = 1 << 16;

/// T1, T2, and as ghost lists 0 and 1 their B1 and B2.
#[derive(Clone, Debug)]
pub(super) struct Arc {
    entries: usize,
    target: u64,
    once: List,
    again: List,
    ghosts: Ghosts<2>,
}

impl Arc {
    pub fn new(entries: usize, pages: u32) -> Arc {
        Arc {
            entries,
            target: 0,
            once: List::default(),
            again: List::default(),
            ghosts: Ghosts::new(entries + 1, pages),
        }
    }

    /// A ghost of this class was asked for: its list should have been longer.
    fn adapt(&mut self, class: u8) {
        let sizes = [ONCE, AGAIN].map(|class| self.ghosts.len(usize::from(class)) as u64);
        let (own, other) = (sizes[usize::from(class)], sizes[usize::from(AGAIN - class)]);
        let step = if own >= other { ONE } else { other * ONE / own };
        self.target = if class == ONCE {
            (self.target + step).min(self.entries as u64 * ONE)
        } else {
            self.target.saturating_sub(step)
        };
    }

    /// One of the two lists gives up its coldest entry and remembers it.
    #[inline]
    fn replace(&mut self, pool: &mut Pool, for_again: bool, out: &mut Batches) {
        let once = self.once.len() as u64 * ONE;
        let over = once > self.target || for_again && once == self.target;
        let from_once = !self.once.is_empty() && over || self.again.is_empty();
        let (list, class) =
            if from_once { (&mut self.once, ONCE) } else { (&mut self.again, AGAIN) };
        let Some(coldest) = list.back() else { return };
        pool.unlink(list, coldest);
        self.ghosts.push(usize::from(class), pool.page(coldest).0);
        out.evict(coldest, Stream::Other);
    }

    /// Makes room for a page that nothing is remembered of.
    #[inline]
    fn make_room(&mut self, pool: &mut Pool, out: &mut Batches) {
        let seen_once = self.once.len() + self.ghosts.len(usize::from(ONCE));
        if seen_once == self.entries {
            if self.ghosts.pop(usize::from(ONCE)).is_none() {
                // T1 fills the buffer: its coldest goes, and is not remembered.
                if let Some(coldest) = self.once.back() {
                    pool.unlink(&mut self.once, coldest);
                    out.evict(coldest, Stream::Other);
                }
                return;
            }
        } else {
            // One too many, or more where entries come to the buffer that are not ours.
            while pool.resident() + self.ghosts.total() >= 2 * self.entries
                && self.ghosts.pop(usize::from(AGAIN)).is_some()
            {}
        }
        if pool.free() == 0 {
            self.replace(pool, false, out);
        }
    }
}

impl Policy for Arc {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        if pool.class(frame) == AGAIN {
            pool.to_front(&mut self.again, frame);
        } else {
            pool.unlink(&mut self.once, frame);
            pool.set_class(frame, AGAIN);
            pool.push_front(&mut self.again, frame);
        }
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, access: &Access<'_>, out: &mut Batches) -> Admission {
        if let Some(ghost) = self.ghosts.find(access.page.0) {
            let class = self.ghosts.list(ghost) as u8;
            self.adapt(class);
            self.ghosts.remove(ghost);
            if pool.free() == 0 {
                self.replace(pool, class == AGAIN, out);
            }
            Admission::Admit(AGAIN)
        } else {
            self.make_room(pool, out);
            Admission::Admit(ONCE)
        }
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        let list = if pool.class(frame) == AGAIN { &mut self.again } else { &mut self.once };
        pool.push_front(list, frame);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        let list = if pool.class(frame) == AGAIN { &mut self.again } else { &mut self.once };
        pool.unlink(list, frame);
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn forget(&mut self, pages: std::ops::Range<u32>, _: &dyn Fn(u32) -> bool) {
        self.ghosts.forget(pages, |_| {});
    }
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("t1", self.once.len());
        each("t2", self.again.len());
        each("b1", self.ghosts.len(usize::from(ONCE)));
        each("b2", self.ghosts.len(usize::from(AGAIN)));
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        lists::check(pool, &[("T1", &self.once), ("T2", &self.again)], |f| {
            usize::from(pool.class(f))
        })?;
        self.ghosts.check(|page| pool.find(block::Lpn(page)).is_some())?;
        let once = self.once.len() + self.ghosts.len(usize::from(ONCE));
        let total = pool.resident() + self.ghosts.total();
        if once <= self.entries && total <= 2 * self.entries {
            Ok(())
        } else {
            Err(format!("{once} seen once, {total} in all, {} entries", self.entries))
        }
    }
}
