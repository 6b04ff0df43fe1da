//! Clean-first LRU: within a window at the cold end, clean pages go before dirty ones.
//!
//! One LRU list, kept as its first N − w entries (`work`) and the window behind them. What falls
//! off `work` arrives in the window, so the window is in LRU order, never exceeds w, and is
//! exactly w long when the buffer is full: its last clean entry is what a scan would find.
//!
//! Invariants: class 0 = work, others = window.

use super::common::{check_held, share_or_third, walk_lists};
use crate::buffer::clean_first::{CleanFirst, Ranks};
use crate::buffer::policy::PolicyInfo;
use crate::buffer::{Access, Admission, Batches, Frame, List, Policy, PolicyOption, Pool, Stream};
use crate::config::KeyKind;
use block::Op;

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "cflru",
    aliases: &[],
    doc: "LRU that takes the last clean page of a window before any dirty one",
    source: "Park et al., CASES 2006: its abstract, the prose of Jeong et al., IEEE Access 2021, \
             and the meaning of open code; the window's default is our reading",
    options: &[PolicyOption {
        name: "window",
        kind: KeyKind::Share,
        default: "0 %",
        doc: "share of the window; 0 % = one third, rounded down",
    }],
    clairvoyant: false,
    make: |setup| {
        let entries = setup.shape.entries;
        let window = share_or_third(setup, "window")?;
        setup.buffer(Cflru {
            cap: entries - window,
            work: List::default(),
            window: CleanFirst::new(1, entries),
            ranks: Ranks::new(entries),
        })
    },
};

/// See the module.
#[derive(Clone, Debug)]
struct Cflru {
    cap: usize,
    work: List,
    window: CleanFirst,
    ranks: Ranks,
}

impl Cflru {
    fn unlink(&mut self, pool: &mut Pool, frame: Frame) {
        match pool.class(frame) {
            0 => pool.unlink(&mut self.work, frame),
            _ => self.window.unlink(&mut self.ranks, pool, frame),
        }
    }
    /// An entry in no list becomes the most recent; what falls off goes to the window.
    #[inline]
    fn push(&mut self, pool: &mut Pool, frame: Frame, op: Op) {
        pool.push_front(&mut self.work, frame);
        pool.set_class(frame, 0);
        if self.work.len() > self.cap
            && let Some(last) = self.work.back()
        {
            pool.unlink(&mut self.work, last);
            let dirty = pool.is_dirty(last) || (last == frame && op == Op::Write);
            self.window.push(&mut self.ranks, pool, last, dirty);
        }
    }
}

impl Policy for Cflru {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        if pool.class(frame) == 0 {
            return pool.to_front(&mut self.work, frame);
        }
        self.window.unlink(&mut self.ranks, pool, frame);
        self.push(pool, frame, a.op);
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, _: &Access<'_>, out: &mut Batches) -> Admission {
        if pool.free() == 0 {
            let window = self.window.last_clean(&self.ranks).or(self.window.last_dirty());
            if let Some(victim) = window.or(self.work.back()) {
                self.unlink(pool, victim);
                out.evict(victim, Stream::Other);
            }
        }
        Admission::Admit(0)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, a: &Access<'_>) {
        self.push(pool, frame, a.op);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        self.unlink(pool, frame);
    }
    fn cleaned(&mut self, pool: &mut Pool, frame: Frame) {
        if pool.class(frame) != 0 {
            self.window.cleaned(&mut self.ranks, pool, frame);
        }
    }
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("work", self.work.len());
        each("window", self.window.len());
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        let work = walk_lists(pool, &[(0, &self.work)])?;
        if work > self.cap || self.window.len() > pool.capacity() - self.cap {
            return Err(format!("{work} in work, {} in the window", self.window.len()));
        }
        self.window.check(&self.ranks, pool)?;
        check_held(pool, work + self.window.len())
    }
}
