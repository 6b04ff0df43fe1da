//! Flash-aware buffer: writes only; the erase block with most pages goes, whole.
//!
//! Reads that miss pass by; reads that hit change nothing. Among blocks with equally many pages the
//! one that changed last longest ago goes: a write or a discard in a block is a change.
//!
//! Invariants: `buckets[n]` holds the blocks of n pages, most recently changed first; `most` is the
//! highest that holds any, or 0.

use super::common::check_held;
use crate::buffer::blocks::{BlockId, Blocks, Queue};
use crate::buffer::policy::PolicyInfo;
use crate::buffer::{Access, Admission, Batches, Frame, Policy, Pool, Stream};
use block::Op;

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "fab",
    aliases: &[],
    doc: "writes only: the erase block with most pages in the buffer goes",
    source: "Jo et al., IEEE TCE 2006: the meaning of open code; the paper was not read",
    options: &[],
    clairvoyant: false,
    make: |setup| {
        let shape = setup.shape;
        let width = shape.block_pages.max(1);
        let most = (width as usize).min(shape.entries);
        setup.buffer(Fab {
            buckets: vec![Queue::default(); most + 1],
            most: 0,
            blocks: Blocks::new(width, shape.entries, shape.entries, shape.pages),
        })
    },
};

/// See the module.
#[derive(Clone, Debug)]
struct Fab {
    buckets: Vec<Queue>,
    most: usize,
    blocks: Blocks,
}

impl Fab {
    /// A block that had `before` pages changed: it goes to the front of its bucket, or, empty, for
    /// good.
    #[inline]
    fn changed(&mut self, id: BlockId, before: usize) {
        if before > 0 {
            self.blocks.unlink(&mut self.buckets[before], id);
        }
        let now = self.blocks.len(id);
        if now > 0 {
            self.blocks.push_front(&mut self.buckets[now], id);
            self.most = self.most.max(now);
        } else {
            self.blocks.release(id);
        }
        while self.most > 0 && self.buckets[self.most].is_empty() {
            self.most -= 1;
        }
    }
}

impl Policy for Fab {
    #[inline]
    fn hit(&mut self, _: &mut Pool, frame: Frame, a: &Access<'_>) {
        if a.op == Op::Write {
            let block = self.blocks.of(frame);
            let bucket = &mut self.buckets[self.blocks.len(block)];
            self.blocks.promote(bucket, block);
        }
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, a: &Access<'_>, out: &mut Batches) -> Admission {
        if a.op != Op::Write {
            return Admission::Bypass;
        }
        if pool.free() == 0
            && let Some(victim) = self.buckets[self.most].back()
        {
            let before = self.blocks.len(victim);
            let given = out.len();
            while let Some(frame) = self.blocks.pop(pool, victim) {
                out.evict(frame, Stream::Other);
            }
            out.sort_by_page(pool, given);
            self.changed(victim, before);
        }
        Admission::Admit(0)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        let block = self.blocks.find(a.page).unwrap_or_else(|| self.blocks.create(a.page, 0));
        let before = self.blocks.len(block);
        self.blocks.add(pool, block, frame);
        self.changed(block, before);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        let block = self.blocks.take(pool, frame);
        self.changed(block, self.blocks.len(block) + 1);
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("blocks", self.buckets.iter().map(Queue::len).sum());
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        let mut held = 0;
        for (pages, queue) in self.buckets.iter().enumerate() {
            let walked = self.blocks.check(pool, queue, 0)?;
            if walked != pages * queue.len() {
                return Err(format!("a block in the bucket of {pages} has another number"));
            }
            held += walked;
        }
        if self.buckets.iter().rposition(|queue| !queue.is_empty()).unwrap_or(0) != self.most {
            return Err(format!("{} is not the highest bucket in use", self.most));
        }
        check_held(pool, held)
    }
}
