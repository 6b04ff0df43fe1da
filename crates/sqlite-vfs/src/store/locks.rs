//! Locks of one object for all connections of the process, as SQLite defines them.
//!
//! A connection whose COMMIT waits for its flush needs its shared lock for reading only when it is back. Until then
//! the next writer may pass it: what it reads afterwards is what it saw (`past`), and it cannot write before it has
//! let go.
//!
//! Connections that found a lock taken and sleep stand in a line; the first of it is woken when the lock is free, and
//! newcomers let it go first, a few times: it may have given up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::vfs::{Answer, Code, Level, flag};

/// How often newcomers let one go first who was woken.
const REFUSALS: u32 = 4;

/// What one file holds.
#[derive(Clone, Copy)]
struct Held {
    level: Level,
    /// Its COMMIT waits for a flush.
    waits: bool,
    /// The version it reads, since a writer has passed it.
    passed: Option<u64>,
}

/// Who holds what of the five states. A file not in the map holds nothing.
#[derive(Default)]
pub(super) struct Locks {
    held: BTreeMap<u64, Held>,
    version: u64,
    /// Files whose connections sleep until they may write, in their order.
    line: VecDeque<u64>,
    /// Who was woken, and how often others still let him go first.
    turn: Option<(u64, u32)>,
}

impl Locks {
    fn highest(&self, who: u64, counts: impl Fn(&Held) -> bool) -> Level {
        let others = self.held.iter().filter(|(file, held)| **file != who && counts(held));
        others.map(|(_, held)| held.level).max().unwrap_or(Level::None)
    }

    /// Why `who` may not have `want`.
    fn refusal(&self, who: u64, want: Level) -> Option<Code> {
        let stands = match want {
            Level::None => return None,
            Level::Shared => self.highest(who, |_| true) >= Level::Pending,
            _ => self.highest(who, |_| true) >= Level::Reserved,
        };
        let old = self.held.get(&who).is_some_and(|held| held.passed.is_some());
        match (want > Level::Shared && old, stands) {
            (true, _) => Some(Code::BUSY_SNAPSHOT),
            (false, true) => Some(Code::BUSY),
            (false, false) => None,
        }
    }

    pub(super) fn lock(&mut self, who: u64, want: Level) -> Answer<()> {
        let held = self.held.get(&who).copied();
        let held = held.unwrap_or(Held { level: Level::None, waits: false, passed: None });
        if held.level >= want {
            return Ok(());
        }
        if let Some(refusal) = self.refusal(who, want) {
            return Err(refusal);
        }
        if want == Level::Reserved {
            self.let_go_first(who)?;
        }
        if want == Level::Exclusive {
            if self.highest(who, |held| !held.waits) >= Level::Shared {
                // Readers are left: no new ones from here.
                self.held.insert(who, Held { level: Level::Pending, ..held });
                return Err(Code::BUSY);
            }
            self.pass(who);
        }
        self.held.insert(who, Held { level: want, ..held });
        Ok(())
    }

    /// Those who wait read what they saw, from here on.
    fn pass(&mut self, who: u64) {
        let version = self.version;
        let mut any = false;
        for held in self.held.iter_mut().filter(|(file, _)| **file != who).map(|(_, held)| held) {
            any |= held.passed.is_none();
            held.passed.get_or_insert(version);
        }
        self.version += u64::from(any);
    }

    /// Newcomers let one go first who was woken.
    fn let_go_first(&mut self, who: u64) -> Answer<()> {
        match &mut self.turn {
            Some((first, left)) if *first != who && *left > 0 => {
                *left -= 1;
                Err(Code::BUSY)
            }
            turn => {
                *turn = None;
                Ok(())
            }
        }
    }

    pub(super) fn unlock(&mut self, who: u64, to: Level) {
        if to == Level::None {
            self.held.remove(&who);
            self.turn.take_if(|(first, _)| *first == who);
        } else if let Some(held) = self.held.get_mut(&who) {
            held.level = to.min(held.level);
        }
    }

    pub(super) fn is_held(&self) -> bool {
        !self.held.is_empty()
    }

    pub(super) fn reserved(&self) -> bool {
        self.held.values().any(|held| held.level >= Level::Reserved)
    }

    /// Its COMMIT waits for a flush, or does no longer.
    pub(super) fn wait(&mut self, who: u64, waits: bool) {
        if let Some(held) = self.held.get_mut(&who) {
            held.waits = waits && held.level <= Level::Shared;
        }
    }

    pub(super) fn passed_at(&self, who: u64) -> Option<u64> {
        self.held.get(&who)?.passed
    }

    /// The versions that somebody reads from.
    pub(super) fn passed(&self) -> BTreeSet<u64> {
        self.held.values().filter_map(|held| held.passed).collect()
    }

    pub(super) fn is_passed(&self) -> bool {
        self.held.values().any(|held| held.passed.is_some())
    }

    /// The version under which is kept what changes now.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    // Connections that sleep.

    pub(super) fn stand_in_line(&mut self, who: u64, want: Level) {
        if want == Level::Reserved {
            self.line.push_back(who);
        }
    }

    /// Whether one who sleeps is to try again.
    pub(super) fn is_free(&self, who: u64, want: Level) -> bool {
        let first = want != Level::Reserved
            || self.line.front() == Some(&who) && self.turn.is_none_or(|(first, _)| first == who);
        let readers =
            want == Level::Exclusive && self.highest(who, |held| !held.waits) >= Level::Shared;
        first && !readers && self.refusal(who, want).is_none()
    }

    /// One wakes up; `free`: he was woken, and tries again.
    pub(super) fn leave_line(&mut self, who: u64, free: bool) {
        let stood = self.line.contains(&who);
        self.line.retain(|file| *file != who);
        if stood && free {
            self.turn = Some((who, REFUSALS));
        }
    }
}

/// Shared memory of a write-ahead log: regions on the heap, eight locks.
#[derive(Default)]
pub(super) struct Shm {
    /// Atomics, because several threads write them through the pointers SQLite was given.
    pub(super) regions: Vec<Box<[AtomicU64]>>,
    /// By file: locks held shared, locks held exclusively, as bits.
    held: BTreeMap<u64, (u32, u32)>,
}

impl Shm {
    pub(super) fn join(&mut self, who: u64) {
        self.held.entry(who).or_default();
    }

    pub(super) fn leave(&mut self, who: u64) {
        self.held.remove(&who);
        if self.held.is_empty() {
            // The next one to come finds the state in the log itself.
            self.regions.clear();
        }
    }

    /// Everybody begins with the log itself again.
    pub(super) fn clear(&self) {
        for word in self.regions.iter().flat_map(|region| region.iter()) {
            word.store(0, Ordering::SeqCst);
        }
    }

    pub(super) fn lock(&mut self, who: u64, first: usize, count: usize, flags: i32) -> Answer<()> {
        let mask = ((1u32 << count) - 1) << first;
        let others = self.held.iter().filter(|(file, _)| **file != who);
        let (shared, exclusive) =
            others.fold((0, 0), |sum, (_, held)| (sum.0 | held.0, sum.1 | held.1));
        let mine = self.held.entry(who).or_default();
        if flags & flag::SHM_UNLOCK != 0 {
            mine.0 &= !mask;
            mine.1 &= !mask;
        } else if flags & flag::SHM_SHARED != 0 {
            if exclusive & mask != 0 {
                return Err(Code::BUSY);
            }
            mine.0 |= mask;
        } else {
            if (shared | exclusive) & mask != 0 {
                return Err(Code::BUSY);
            }
            mine.1 |= mask;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_waits_for_readers_and_lets_no_new_ones_in() {
        let mut locks = Locks::default();
        for file in [1, 2] {
            locks.lock(file, Level::Shared).unwrap();
        }
        locks.lock(1, Level::Reserved).unwrap();
        assert_eq!(locks.lock(2, Level::Reserved), Err(Code::BUSY));
        assert_eq!(locks.lock(1, Level::Exclusive), Err(Code::BUSY));
        assert_eq!(locks.lock(3, Level::Shared), Err(Code::BUSY));
        locks.unlock(2, Level::None);
        locks.lock(1, Level::Exclusive).unwrap();
        assert!(locks.reserved());
        locks.unlock(1, Level::Shared);
        locks.lock(3, Level::Shared).unwrap();
        assert!(!locks.reserved());
    }

    #[test]
    fn who_waits_for_a_flush_is_passed_and_cannot_write_on_what_he_saw() {
        let mut locks = Locks::default();
        let commit = |locks: &mut Locks, who| {
            for level in [Level::Shared, Level::Reserved, Level::Exclusive] {
                locks.lock(who, level)?;
            }
            locks.unlock(who, Level::Shared);
            locks.wait(who, true);
            Ok(())
        };
        commit(&mut locks, 1).unwrap();
        assert_eq!(locks.passed_at(1), None);
        commit(&mut locks, 2).unwrap();
        assert_eq!((locks.passed_at(1), locks.passed_at(2), locks.version()), (Some(0), None, 1));
        locks.wait(1, false);
        assert_eq!(locks.lock(1, Level::Reserved), Err(Code::BUSY_SNAPSHOT));
        // It may still read, so it is not passed again.
        assert_eq!(commit(&mut locks, 3), Err(Code::BUSY));
        locks.unlock(1, Level::None);
        locks.lock(3, Level::Exclusive).unwrap();
        assert_eq!((locks.passed_at(2), locks.is_passed()), (Some(1), true));
        locks.unlock(2, Level::None);
        assert!(!locks.is_passed());
        locks.unlock(3, Level::None);
        commit(&mut locks, 1).unwrap();
    }

    #[test]
    fn the_first_in_line_is_let_go_first_but_not_for_good() {
        let mut locks = Locks::default();
        locks.lock(1, Level::Shared).unwrap();
        locks.lock(1, Level::Reserved).unwrap();
        for file in [2, 3] {
            locks.stand_in_line(file, Level::Reserved);
        }
        assert!(!locks.is_free(2, Level::Reserved));
        locks.unlock(1, Level::None);
        assert!(locks.is_free(2, Level::Reserved) && !locks.is_free(3, Level::Reserved));
        locks.leave_line(2, true);
        assert!(!locks.is_free(3, Level::Reserved), "another one was woken");
        for _ in 0..REFUSALS {
            assert_eq!(locks.lock(1, Level::Reserved), Err(Code::BUSY));
        }
        locks.lock(1, Level::Reserved).unwrap();
        assert!(!locks.is_free(3, Level::Reserved));
        locks.unlock(1, Level::None);
        assert!(locks.is_free(3, Level::Reserved), "who was woken has given up");
        locks.leave_line(3, true);
        locks.lock(3, Level::Shared).unwrap();
        locks.lock(3, Level::Reserved).unwrap();
        locks.unlock(3, Level::None);
        locks.lock(1, Level::Reserved).unwrap();
    }

    #[test]
    fn shared_memory_locks_exclude_each_other() {
        let mut shm = Shm::default();
        shm.lock(1, 3, 1, flag::SHM_LOCK | flag::SHM_SHARED).unwrap();
        shm.lock(2, 3, 1, flag::SHM_LOCK | flag::SHM_SHARED).unwrap();
        let exclusive = flag::SHM_LOCK | flag::SHM_EXCLUSIVE;
        assert_eq!(shm.lock(2, 0, 8, exclusive), Err(Code::BUSY));
        shm.lock(1, 3, 1, flag::SHM_UNLOCK | flag::SHM_SHARED).unwrap();
        shm.lock(2, 3, 1, exclusive).unwrap();
        assert_eq!(shm.lock(1, 3, 1, flag::SHM_LOCK | flag::SHM_SHARED), Err(Code::BUSY));
    }

    #[test]
    fn shared_memory_is_forgotten_when_it_is_cleared() {
        let mut shm = Shm::default();
        shm.regions.push([3, 0, 5].map(AtomicU64::new).into());
        shm.clear();
        let left = shm.regions[0].iter().map(|word| word.load(Ordering::SeqCst));
        assert_eq!(left.collect::<Vec<_>>(), [0; 3]);
    }
}
