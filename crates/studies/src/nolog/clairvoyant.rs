//! A drive that knows when each page dies: the same run once before, and what it wrote in which order.
//!
//! It bounds what placement can give, as a buffer that knows the future does for buffers: no drive can
//! know, and another way to collect lines may do better still. What the host writes does not depend on
//! the drive; that the second run followed the first is looked at, page by page.

use std::sync::{Arc, Mutex, PoisonError};

use block::Lpn;
use lab::LabError;
use ssd::Known;

/// A version that is never replaced.
const NEVER: u32 = u32::MAX;

/// The pages that a run writes, in their order; it tells nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder(Arc<Mutex<Vec<u32>>>);

impl Recorder {
    /// What was written.
    pub(super) fn order(&self) -> Vec<u32> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Known for Recorder {
    fn written(&mut self, slot: Lpn) -> u8 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(slot.0);
        0
    }
    fn moved(&self, _: Lpn) -> u8 {
        0
    }
    fn boxed(&self) -> Box<dyn Known> {
        Box::new(self.clone())
    }
}

/// What a run has in common with the one before.
#[derive(Debug, Default)]
struct Followed {
    writes: usize,
    strayed: usize,
}

/// Three streams: what dies within a step, within eight, and the rest.
#[derive(Clone, Debug)]
pub(super) struct Clairvoyant {
    order: Arc<[u32]>,
    /// Of each write, that which replaces it.
    next: Arc<[u32]>,
    /// Of each page, the write that replaces what it holds.
    death: Vec<u32>,
    at: u32,
    step: u64,
    followed: Arc<Mutex<Followed>>,
}

impl Clairvoyant {
    /// Of a run that wrote `order` on a drive of so many pages, whose first class lives `step` writes.
    pub(super) fn new(order: Vec<u32>, pages: u64, step: u64) -> Clairvoyant {
        let mut death = vec![NEVER; pages as usize];
        let mut next = vec![NEVER; order.len()];
        for (i, page) in order.iter().enumerate().rev() {
            next[i] = std::mem::replace(&mut death[*page as usize], i as u32);
        }
        let (order, next) = (order.into(), next.into());
        Clairvoyant { order, next, death, at: 0, step: step.max(1), followed: Arc::default() }
    }

    fn stream(&self, page: Lpn) -> u8 {
        let left = u64::from(self.death[page.index()].saturating_sub(self.at));
        match left / self.step {
            0 => 0,
            1..8 => 1,
            _ => 2,
        }
    }

    /// Whether the run wrote what was expected.
    ///
    /// # Errors
    /// It did not: nothing was known then.
    pub(super) fn followed(&self) -> Result<(), LabError> {
        let found = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        let (writes, expected) = (found.writes, self.order.len());
        if found.strayed == 0 && writes == expected {
            return Ok(());
        }
        Err(LabError::Failed(format!(
            "clairvoyant placement: {writes} pages were written where {expected} had been, {} of them others",
            found.strayed
        )))
    }
}

impl Known for Clairvoyant {
    fn written(&mut self, slot: Lpn) -> u8 {
        let at = self.at as usize;
        {
            let mut found = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
            found.writes += 1;
            found.strayed += usize::from(self.order.get(at) != Some(&slot.0));
        }
        self.death[slot.index()] = self.next.get(at).copied().unwrap_or(NEVER);
        self.at += 1;
        self.stream(slot)
    }
    fn moved(&self, slot: Lpn) -> u8 {
        self.stream(slot)
    }
    fn boxed(&self) -> Box<dyn Known> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_seen_a_run_knows_when_its_pages_die() {
        let mut known = Clairvoyant::new(vec![3, 1, 3, 3], 8, 1);
        // Before the run: page 3 dies with the first write, page 1 with the second.
        assert_eq!([3, 1, 0].map(|page| known.moved(Lpn(page))), [0, 1, 2]);
        let streams = [3, 1, 3, 3].map(|page| known.written(Lpn(page)));
        assert_eq!(streams, [1, 2, 0, 2]);
        known.followed().unwrap();
    }

    #[test]
    fn a_run_that_strays_is_told() {
        let mut known = Clairvoyant::new(vec![3, 1], 8, 1);
        known.written(Lpn(3));
        assert!(known.followed().is_err(), "one write is missing");
        known.written(Lpn(2));
        let error = known.followed().unwrap_err().to_string();
        assert!(
            error.contains("2 pages were written where 2 had been, 1 of them others"),
            "{error}"
        );
    }
}
