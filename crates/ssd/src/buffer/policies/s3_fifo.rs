//! S3-FIFO: a small queue that most pages do not survive, a main queue, and a queue of ghosts.
//!
//! Invariants: the lowest bit of an entry's class says which queue it is in, the two bits above
//! count its hits since it entered that queue, up to three; a ghost is not resident.

use super::lists;
use crate::buffer::ghosts::Ghosts;
use crate::buffer::{Access, Admission, Batches, Frame, List, Policy, Pool, Stream};

/// Queue, in the lowest bit of the class.
const SMALL: u8 = 0;
const MAIN: u8 = 1;
/// One hit, in the class.
const ONE_HIT: u8 = 2;
/// Three hits: no more are counted.
const MOST_HITS: u8 = 6;

/// The three queues.
#[derive(Clone, Debug)]
pub(super) struct S3Fifo {
    small: List,
    main: List,
    ghosts: Ghosts<1>,
    limits: Limits,
    ever_evicted: bool,
}

/// Lengths of the queues, and the hits that take an entry from the small to the main one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub small: usize,
    pub main: usize,
    pub ghosts: usize,
    pub hits: u8,
}

impl S3Fifo {
    pub fn new(limits: Limits, pages: u32) -> S3Fifo {
        S3Fifo {
            small: List::default(),
            main: List::default(),
            ghosts: Ghosts::new(limits.ghosts, pages),
            limits,
            ever_evicted: false,
        }
    }

    /// Takes the oldest out of the small queue until one of them leaves the buffer.
    #[inline]
    fn shrink_small(&mut self, pool: &mut Pool, out: &mut Batches) -> bool {
        while let Some(oldest) = self.small.back() {
            pool.unlink(&mut self.small, oldest);
            if pool.class(oldest) < self.limits.hits * ONE_HIT {
                self.ghosts.push_limited(0, pool.page(oldest).0, self.limits.ghosts);
                out.evict(oldest, Stream::Other);
                return true;
            }
            pool.set_class(oldest, MAIN);
            pool.push_front(&mut self.main, oldest);
        }
        false
    }

    /// Lets the main queue go round until one of its entries leaves the buffer.
    #[inline]
    fn shrink_main(&mut self, pool: &mut Pool, out: &mut Batches) -> bool {
        while let Some(oldest) = self.main.back() {
            let class = pool.class(oldest);
            if class < ONE_HIT {
                pool.unlink(&mut self.main, oldest);
                out.evict(oldest, Stream::Other);
                return true;
            }
            pool.set_class(oldest, class - ONE_HIT);
            pool.to_front(&mut self.main, oldest);
        }
        false
    }

    #[inline]
    fn make_room(&mut self, pool: &mut Pool, out: &mut Batches) {
        self.ever_evicted = true;
        let main_first = self.main.len() > self.limits.main || self.small.is_empty();
        if main_first || !self.shrink_small(pool, out) {
            self.shrink_main(pool, out);
        }
    }
}

impl Policy for S3Fifo {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        let class = pool.class(frame);
        if class < MOST_HITS {
            pool.set_class(frame, class + ONE_HIT);
        }
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, access: &Access<'_>, out: &mut Batches) -> Admission {
        let ghost = self.ghosts.find(access.page.0);
        if let Some(ghost) = ghost {
            self.ghosts.remove(ghost);
        }
        if pool.free() == 0 {
            self.make_room(pool, out);
        }
        let filling = !self.ever_evicted && self.small.len() >= self.limits.small;
        Admission::Admit(if ghost.is_some() || filling { MAIN } else { SMALL })
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        let queue = if pool.class(frame) == MAIN { &mut self.main } else { &mut self.small };
        pool.push_front(queue, frame);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        let in_main = pool.class(frame) & MAIN != 0;
        pool.unlink(if in_main { &mut self.main } else { &mut self.small }, frame);
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn forget(&mut self, pages: std::ops::Range<u32>, _: &dyn Fn(u32) -> bool) {
        self.ghosts.forget(pages, |_| {});
    }
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("small", self.small.len());
        each("main", self.main.len());
        each("ghost", self.ghosts.len(0));
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        let queues = [("the small queue", &self.small), ("the main queue", &self.main)];
        lists::check(pool, &queues, |f| usize::from(pool.class(f) & MAIN))?;
        self.ghosts.check(|page| pool.find(block::Lpn(page)).is_some())
    }
}
