//! 2Q: pages seen once wait in a queue, pages asked for again after they left it are kept.
//!
//! Invariants: an entry of class `IN` is in the queue of new pages, one of class `MAIN` in the
//! main list; `out` remembers at most `out_limit` pages that left the queue, none of them
//! resident.

use super::lists;
use crate::buffer::ghosts::Ghosts;
use crate::buffer::{Access, Admission, Batches, Frame, List, Policy, Pool, Stream};

const IN: u8 = 0;
const MAIN: u8 = 1;

/// A1in, Am and A1out of the paper.
#[derive(Clone, Debug)]
pub(super) struct TwoQ {
    new: List,
    main: List,
    out: Ghosts<1>,
    in_limit: usize,
    out_limit: usize,
}

impl TwoQ {
    pub fn new(in_limit: usize, out_limit: usize, pages: u32) -> TwoQ {
        let (in_limit, out_limit) = (in_limit.max(1), out_limit.max(1));
        TwoQ {
            new: List::default(),
            main: List::default(),
            out: Ghosts::new(out_limit, pages),
            in_limit,
            out_limit,
        }
    }

    #[inline]
    fn make_room(&mut self, pool: &mut Pool, out: &mut Batches) {
        if self.new.len() > self.in_limit || self.main.is_empty() {
            let Some(oldest) = self.new.back() else { return };
            pool.unlink(&mut self.new, oldest);
            self.out.push_limited(0, pool.page(oldest).0, self.out_limit);
            out.evict(oldest, Stream::Other);
        } else if let Some(coldest) = self.main.back() {
            pool.unlink(&mut self.main, coldest);
            out.evict(coldest, Stream::Other);
        }
    }
}

impl Policy for TwoQ {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        if pool.class(frame) == MAIN {
            pool.to_front(&mut self.main, frame);
        }
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, access: &Access<'_>, out: &mut Batches) -> Admission {
        let ghost = self.out.find(access.page.0);
        if let Some(ghost) = ghost {
            self.out.remove(ghost);
        }
        if pool.free() == 0 {
            self.make_room(pool, out);
        }
        Admission::Admit(if ghost.is_some() { MAIN } else { IN })
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        let list = if pool.class(frame) == MAIN { &mut self.main } else { &mut self.new };
        pool.push_front(list, frame);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        let list = if pool.class(frame) == MAIN { &mut self.main } else { &mut self.new };
        pool.unlink(list, frame);
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn forget(&mut self, pages: std::ops::Range<u32>, _: &dyn Fn(u32) -> bool) {
        self.out.forget(pages, |_| {});
    }
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("a1in", self.new.len());
        each("am", self.main.len());
        each("a1out", self.out.len(0));
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        lists::check(pool, &[("A1in", &self.new), ("Am", &self.main)], |f| {
            usize::from(pool.class(f))
        })?;
        self.out.check(|page| pool.find(block::Lpn(page)).is_some())
    }
}
