//! Two lists of fixed length: candidates, and pages that were hit.
//!
//! Invariants: class 0 = candidate, 1 = hot; hot never exceeds its share; unless it may borrow, the
//! candidates never exceed theirs, so that a part of the buffer stays unused until hot has filled.

use super::common::{check_lists, share_or_third};
use crate::buffer::policy::PolicyInfo;
use crate::buffer::{Access, Admission, Batches, Frame, List, Policy, PolicyOption, Pool, Stream};
use crate::config::KeyKind;

const HOT: u8 = 1;

pub(super) const INFO: PolicyInfo = PolicyInfo {
    name: "2-level-lru",
    aliases: &[],
    doc: "candidates and, of fixed length, pages that were hit",
    source: "described in prose by Jeong et al., IEEE Access 2021; Chang and Kuo (2002) was not \
             obtained; what the prose leaves open is our reading",
    options: &[
        PolicyOption {
            name: "hot",
            kind: KeyKind::Share,
            default: "0 %",
            doc: "share of the hot list; 0 % = one third, rounded down",
        },
        PolicyOption {
            name: "borrow",
            kind: KeyKind::Flag,
            default: "off",
            doc: "candidates use what the hot list does not",
        },
    ],
    clairvoyant: false,
    make: |setup| {
        let hot_cap = share_or_third(setup, "hot")?;
        let Some(cap) = setup.shape.entries.checked_sub(hot_cap).filter(|cap| *cap > 0) else {
            return Err("its hot list leaves no entry for candidates".to_string());
        };
        let borrow = setup.flag("borrow");
        let (candidates, hot) = (List::default(), List::default());
        setup.buffer(TwoLevelLru { cap, hot_cap, borrow, candidates, hot })
    },
};

/// See the module.
#[derive(Clone, Debug)]
struct TwoLevelLru {
    cap: usize,
    hot_cap: usize,
    borrow: bool,
    candidates: List,
    hot: List,
}

impl TwoLevelLru {
    fn list(&mut self, class: u8) -> &mut List {
        if class == HOT { &mut self.hot } else { &mut self.candidates }
    }
}

impl Policy for TwoLevelLru {
    #[inline]
    fn hit(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        if pool.class(frame) == HOT {
            return pool.to_front(&mut self.hot, frame);
        }
        pool.unlink(&mut self.candidates, frame);
        pool.push_front(&mut self.hot, frame);
        pool.set_class(frame, HOT);
        if self.hot.len() > self.hot_cap
            && let Some(coldest) = self.hot.back()
        {
            pool.unlink(&mut self.hot, coldest);
            pool.push_front(&mut self.candidates, coldest);
            pool.set_class(coldest, 0);
        }
    }
    #[inline]
    fn admit(&mut self, pool: &mut Pool, _: &Access<'_>, out: &mut Batches) -> Admission {
        let full = pool.free() == 0 || (!self.borrow && self.candidates.len() >= self.cap);
        if full && let Some(coldest) = self.candidates.back().or(self.hot.back()) {
            pool.unlink(self.list(pool.class(coldest)), coldest);
            out.evict(coldest, Stream::Other);
        }
        Admission::Admit(0)
    }
    #[inline]
    fn inserted(&mut self, pool: &mut Pool, frame: Frame, _: &Access<'_>) {
        pool.push_front(&mut self.candidates, frame);
    }
    fn removed(&mut self, pool: &mut Pool, frame: Frame) {
        pool.unlink(self.list(pool.class(frame)), frame);
    }
    fn cleaned(&mut self, _: &mut Pool, _: Frame) {}
    fn occupancy(&self, each: &mut dyn FnMut(&'static str, usize)) {
        each("candidate", self.candidates.len());
        each("hot", self.hot.len());
    }
    fn check(&self, pool: &Pool) -> Result<(), String> {
        if self.hot.len() > self.hot_cap || (!self.borrow && self.candidates.len() > self.cap) {
            return Err("a list exceeds its share".to_string());
        }
        check_lists(pool, &[(0, &self.candidates), (HOT, &self.hot)])
    }
}
