//! Locks of one object for all connections of the process, as SQLite defines them.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use crate::vfs::{Answer, Code, Level, flag};

/// Who holds what of the five states. A file not in the map holds nothing.
#[derive(Default)]
pub(super) struct Locks(BTreeMap<u64, Level>);

impl Locks {
    fn others(&self, who: u64) -> impl Iterator<Item = Level> + '_ {
        self.0.iter().filter(move |(file, _)| **file != who).map(|(_, level)| *level)
    }

    pub(super) fn lock(&mut self, who: u64, want: Level) -> Answer<()> {
        let held = self.0.get(&who).copied().unwrap_or(Level::None);
        if held >= want {
            return Ok(());
        }
        let highest = self.others(who).max().unwrap_or(Level::None);
        if want == Level::Shared {
            if highest >= Level::Pending {
                return Err(Code::BUSY);
            }
        } else if highest >= Level::Reserved {
            return Err(Code::BUSY);
        } else if want == Level::Exclusive && highest >= Level::Shared {
            // Readers are left: no new ones from here.
            self.0.insert(who, Level::Pending);
            return Err(Code::BUSY);
        }
        self.0.insert(who, want);
        Ok(())
    }

    pub(super) fn unlock(&mut self, who: u64, to: Level) {
        if to == Level::None {
            self.0.remove(&who);
        } else if let Some(held) = self.0.get_mut(&who) {
            *held = to.min(*held);
        }
    }

    pub(super) fn reserved(&self) -> bool {
        self.0.values().any(|level| *level >= Level::Reserved)
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
}
