//! Blocks that were found damaged: the first hundred are told, each once and with its cause; 65,536 are
//! counted.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::LiveError;

/// Blocks that are remembered, so that none is counted or told twice.
const REMEMBERED: usize = 1 << 16;
/// Blocks that are told one by one.
const TOLD: usize = 100;

/// What was found.
#[derive(Debug)]
pub(super) struct Damage {
    say: fn(&str),
    seen: Mutex<BTreeSet<u64>>,
    blocks: AtomicU64,
    reads: AtomicU64,
}

impl Damage {
    pub fn new(say: fn(&str)) -> Damage {
        let (blocks, reads) = (AtomicU64::new(0), AtomicU64::new(0));
        Damage { say, seen: Mutex::default(), blocks, reads }
    }

    /// A block of the client is damaged, for a reason.
    pub fn found(&self, block: u64, cause: &str) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= REMEMBERED || !seen.insert(block) {
            return;
        }
        self.blocks.fetch_add(1, Ordering::Relaxed);
        match seen.len() {
            n if n < TOLD => {
                (self.say)(&format!("block {block} of the host log is damaged: {cause}"))
            }
            TOLD => (self.say)(&format!(
                "{TOLD} blocks of the host log are damaged; others are counted only"
            )),
            _ => {}
        }
    }

    /// A request is refused because of it.
    pub fn refuse(&self, what: String) -> LiveError {
        self.reads.fetch_add(1, Ordering::Relaxed);
        LiveError::Damaged(what)
    }

    /// Blocks found, and requests refused because of them.
    pub fn counts(&self) -> (u64, u64) {
        (self.blocks.load(Ordering::Relaxed), self.reads.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn say(what: &str) {
        SAID.lock().unwrap().push(what.to_string());
    }

    #[test]
    fn the_first_hundred_are_told_once_each_and_all_are_counted() {
        let damage = Damage::new(say);
        for round in 0..2 {
            (0..150).for_each(|block| damage.found(block, &format!("cause {block}, {round}")));
        }
        assert_eq!(damage.counts(), (150, 0));
        let said = SAID.lock().unwrap();
        assert_eq!(said.len(), TOLD);
        assert!(said[7].contains("block 7") && said[7].contains("cause 7, 0"), "{}", said[7]);
        assert!(said[98].contains("block 98") && said[99].contains("counted only"), "{said:?}");
        let refused = damage.refuse("block 7".to_string());
        assert!(matches!(refused, LiveError::Damaged(what) if what == "block 7"));
        assert_eq!(damage.counts(), (150, 1));
        (150..=REMEMBERED as u64 + 9).for_each(|block| damage.found(block, "more"));
        assert_eq!(damage.counts(), (REMEMBERED as u64, 1), "no more are remembered");
    }
}
