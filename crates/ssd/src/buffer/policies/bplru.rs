//! Block padding LRU: writes only, erase blocks in LRU order, written back whole.
//!
//! Reads that miss pass by; reads that hit change nothing. A block written from its first page to
//! its last, in order, goes to the cold end at once, since nobody is expected to write it again
//! soon. The victim is completed with the pages that flash still has.
//!
//! Invariants: the tag of a block is the offset that continues its run of writes, or `BROKEN`: a
//! write out of order or a discard in the block breaks a run, a write of its first page begins one.

use super::common::check_held;
use crate::buffer::blocks::{BlockId, Blocks, Queue};
use crate::buffer::policy::PolicyInfo;
use crate::buffer::{Access, Admission, Batches, Frame, Policy, Pool, Stream};
use block::{Lpn, Op};

const BROKEN: u32 = u32::MAX;

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "bplru",
    aliases: &[],
    doc: "writes only: erase blocks in LRU order, completed when they go",
    source: "Kim and Ahn, FAST 2008: its abstract and the meaning of open code",
    options: &[],
    clairvoyant: false,
    make: |setup| {
        let shape = setup.shape;
        let width = shape.block_pages.max(1);
        setup.buffer(Bplru {
            width,
            pages: shape.pages,
            queue: Queue::default(),
            blocks: Blocks::new(width, shape.entries, shape.entries, shape.pages),
        })
    },
};

/// See the module.
#[derive(Clone, Debug)]
struct Bplru {
    width: u32,
    pages: u32,
    queue: Queue,
    blocks: Blocks,
}

impl Bplru {
    /// A page of a block was written.
    #[inline]
    fn written(&mut self, id: BlockId, page: Lpn) {
        let offset = page.0 - self.blocks.first_page(id);
        let goes_on = offset == 0 || offset == self.blocks.tag(id);
        self.blocks.set_tag(id, if goes_on { offset + 1 } else { BROKEN });
        if goes_on && offset + 1 == self.width {
            self.blocks.unlink(&mut self.queue, id);
            self.blocks.push_back(&mut self.queue, id);
        } else {
            self.blocks.promote(&mut self.queue, id);
        }
    }
}

impl Policy for Bplru {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        if a.op == Op::Write {
            self.written(self.blocks.of(frame), pool.page(frame));
        }
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, a: &Access<'_>, out: &mut Batches) -> Admission {
        if a.op != Op::Write {
            return Admission::Bypass;
        }
        if pool.free() == 0
            && let Some(victim) = self.queue.back()
        {
            let given = out.len();
            while let Some(frame) = self.blocks.pop(pool, victim) {
                out.evict(frame, Stream::Other);
            }
            out.sort_by_page(pool, given);
            let first = self.blocks.first_page(victim);
            out.pad(first..first.saturating_add(self.width).min(self.pages));
            self.blocks.unlink(&mut self.queue, victim);
            self.blocks.release(victim);
        }
        Admission::Admit(0)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        let block = self.blocks.find(a.page).unwrap_or_else(|| {
            let block = self.blocks.create(a.page, BROKEN);
            self.blocks.push_front(&mut self.queue, block);
            block
        });
        self.blocks.add(pool, block, frame);
        self.written(block, a.page);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        let block = self.blocks.take(pool, frame);
        self.blocks.set_tag(block, BROKEN);
        if self.blocks.len(block) == 0 {
            self.blocks.unlink(&mut self.queue, block);
            self.blocks.release(block);
        }
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("blocks", self.queue.len());
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        check_held(pool, self.blocks.check(pool, &self.queue, 0)?)
    }
}
