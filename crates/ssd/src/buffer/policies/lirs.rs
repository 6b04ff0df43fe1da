//! LIRS: pages with a short distance between their uses stay, the rest pass through a small queue.
//!
//! Invariants, with n entries in all: at most n - hir entries are `LIR`, all of them on the stack;
//! the others are in the queue, and on the stack where their bit says so; ghosts are on the stack
//! too and not resident; the bottom of the stack is an `LIR` entry (a stack without one is empty);
//! the stack holds at most 2 n pages, or else no ghost.

use super::lists;
use crate::buffer::ghosts::{Ghost, Ghosts};
use crate::buffer::{Access, Admission, Batches, Frame, List, Policy, Pool, Stream};

const LIR: u8 = 0;
const HIR: u8 = 1;
/// The entry is on the stack.
const STACKED: u8 = 0;
const NONE: u32 = u32::MAX;

/// Recency of entries (places below `entries`) and ghosts (from there on).
#[derive(Clone, Debug)]
struct Stack {
    links: Vec<(u32, u32)>,
    top: u32,
    bottom: u32,
    len: usize,
}

impl Stack {
    fn new(places: usize) -> Stack {
        Stack { links: vec![(NONE, NONE); places], top: NONE, bottom: NONE, len: 0 }
    }
    #[inline]
    fn push(&mut self, place: u32) {
        self.links[place as usize] = (NONE, self.top);
        match self.top {
            NONE => self.bottom = place,
            top => self.links[top as usize].0 = place,
        }
        self.top = place;
        self.len += 1;
    }
    #[inline]
    fn remove(&mut self, place: u32) {
        let (above, below) = self.links[place as usize];
        self.join(above, below);
        self.len -= 1;
    }
    #[inline]
    fn raise(&mut self, place: u32) {
        if self.top != place {
            self.remove(place);
            self.push(place);
        }
    }
    fn join(&mut self, above: u32, below: u32) {
        match above {
            NONE => self.top = below,
            above => self.links[above as usize].1 = below,
        }
        match below {
            NONE => self.bottom = above,
            below => self.links[below as usize].0 = above,
        }
    }
    /// Puts `new` where `old` is.
    #[inline]
    fn replace(&mut self, old: u32, new: u32) {
        let (above, below) = self.links[old as usize];
        self.links[new as usize] = (above, below);
        self.join(above, new);
        self.join(new, below);
    }
}

/// The stack S, the queue Q, and the entries that are `LIR`.
#[derive(Clone, Debug)]
pub(super) struct Lirs {
    stack: Stack,
    low: List,
    queue: List,
    ghosts: Ghosts<1>,
    entries: u32,
    low_limit: usize,
    incoming: u8,
}

impl Lirs {
    pub fn new(entries: usize, hir: usize, pages: u32) -> Lirs {
        let most_ghosts = 2 * entries + 1;
        Lirs {
            stack: Stack::new(entries + most_ghosts),
            low: List::default(),
            queue: List::default(),
            ghosts: Ghosts::new(most_ghosts, pages),
            entries: entries as u32,
            low_limit: entries.saturating_sub(hir.max(1)),
            incoming: LIR,
        }
    }

    /// Puts an entry on top of the stack, where it may be already.
    #[inline]
    fn stack_up(&mut self, pool: &mut Pool, frame: Frame) {
        if pool.bit(frame, STACKED) {
            self.stack.raise(frame.0);
        } else {
            pool.set_bit(frame, STACKED, true);
            self.stack.push(frame.0);
        }
    }
    #[inline]
    fn unstack(&mut self, pool: &mut Pool, frame: Frame) {
        if pool.bit(frame, STACKED) {
            pool.set_bit(frame, STACKED, false);
            self.stack.remove(frame.0);
        }
    }
    /// Makes an entry that is in no list `LIR`; the bottom of the stack may have to leave for it.
    fn keep(&mut self, pool: &mut Pool, frame: Frame) {
        pool.set_class(frame, LIR);
        pool.push_front(&mut self.low, frame);
        if self.low.len() > self.low_limit {
            let bottom = Frame(self.stack.bottom);
            self.unstack(pool, bottom);
            pool.unlink(&mut self.low, bottom);
            pool.set_class(bottom, HIR);
            pool.push_front(&mut self.queue, bottom);
        }
    }
    /// Takes from the bottom of the stack what is not `LIR`.
    #[inline]
    fn prune(&mut self, pool: &mut Pool) {
        while self.stack.bottom != NONE {
            let bottom = self.stack.bottom;
            if bottom >= self.entries {
                self.stack.remove(bottom);
                self.ghosts.remove(Ghost(bottom - self.entries));
            } else if pool.class(Frame(bottom)) == HIR {
                self.unstack(pool, Frame(bottom));
            } else {
                return;
            }
        }
    }
    /// Forgets the oldest ghosts while the stack is too high.
    #[inline]
    fn trim(&mut self) {
        while self.stack.len > 2 * self.entries as usize {
            let Some(oldest) = self.ghosts.pop(0) else { return };
            self.stack.remove(self.entries + oldest.0);
        }
    }
    #[inline]
    fn make_room(&mut self, pool: &mut Pool, out: &mut Batches) {
        let Some(oldest) = self.queue.back() else { return };
        pool.unlink(&mut self.queue, oldest);
        if pool.bit(oldest, STACKED) {
            let ghost = self.ghosts.push(0, pool.page(oldest).0);
            self.stack.replace(oldest.0, self.entries + ghost.0);
        }
        out.evict(oldest, Stream::Other);
    }
}

impl Policy for Lirs {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        if pool.class(frame) == HIR {
            let keep = pool.bit(frame, STACKED) || self.low.len() < self.low_limit;
            self.stack_up(pool, frame);
            if keep {
                pool.unlink(&mut self.queue, frame);
                self.keep(pool, frame);
            } else {
                pool.to_front(&mut self.queue, frame);
            }
        } else {
            self.stack.raise(frame.0);
        }
        self.prune(pool);
        self.trim();
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, access: &Access<'_>, out: &mut Batches) -> Admission {
        let ghost = self.ghosts.find(access.page.0);
        if let Some(ghost) = ghost {
            self.stack.remove(self.entries + ghost.0);
            self.ghosts.remove(ghost);
        }
        let keep = ghost.is_some() || self.low.len() < self.low_limit;
        self.incoming = if keep { LIR } else { HIR };
        if pool.free() == 0 {
            self.make_room(pool, out);
        }
        Admission::Admit(self.incoming)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        self.stack_up(pool, frame);
        if self.incoming == LIR {
            self.keep(pool, frame);
        } else {
            pool.set_class(frame, HIR);
            pool.push_front(&mut self.queue, frame);
        }
        self.prune(pool);
        self.trim();
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        self.unstack(pool, frame);
        let list = if pool.class(frame) == LIR { &mut self.low } else { &mut self.queue };
        pool.unlink(list, frame);
        self.prune(pool);
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn forget(&mut self, pages: std::ops::Range<u32>, _: &dyn Fn(u32) -> bool) {
        let (stack, entries) = (&mut self.stack, self.entries);
        self.ghosts.forget(pages, |ghost| stack.remove(entries + ghost.0));
    }
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("lir", self.low.len());
        each("hir", self.queue.len());
        each("stack", self.stack.len);
        each("ghost", self.ghosts.len(0));
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        lists::check(pool, &[("the LIR list", &self.low), ("Q", &self.queue)], |f| {
            usize::from(pool.class(f))
        })?;
        self.ghosts.check(|page| pool.find(block::Lpn(page)).is_some())?;
        if self.low.len() > self.low_limit {
            return Err(format!("{} LIR entries, limit {}", self.low.len(), self.low_limit));
        }
        self.check_stack(pool)
    }
}

impl Lirs {
    fn check_stack(&self, pool: &Pool) -> Result<(), String> {
        let stacked = |list| pool.iter(list).filter(|f| pool.bit(*f, STACKED)).count();
        let (low, high) = (stacked(&self.low), stacked(&self.queue));
        let (mut at, mut above, mut walked) = (self.stack.top, NONE, 0);
        while at != NONE && walked <= self.stack.len {
            if self.stack.links[at as usize].0 != above {
                return Err(format!("place {at} of S is linked wrongly"));
            }
            if at < self.entries && !pool.bit(Frame(at), STACKED) {
                return Err(format!("entry {at} is on S and not marked"));
            }
            (above, at, walked) = (at, self.stack.links[at as usize].1, walked + 1);
        }
        let counted = low + high + self.ghosts.total();
        if walked != self.stack.len || walked != counted || above != self.stack.bottom {
            return Err(format!("S: {} long, {walked} linked, {counted} counted", self.stack.len));
        }
        if low != self.low.len() {
            return Err(format!("{low} of {} LIR entries are on S", self.low.len()));
        }
        let bottom = self.stack.bottom;
        if bottom != NONE && (bottom >= self.entries || pool.class(Frame(bottom)) != LIR) {
            return Err("the bottom of S is not LIR".to_string());
        }
        Ok(())
    }
}
