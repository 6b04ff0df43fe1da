//! Which extents and table pages of the device are free.
//!
//! Invariants:
//! * an extent is free, or belongs to the committed or a newer version of exactly one object, or
//!   waits in `limbo` until no record on flash can name it any more;
//! * one of the device that is taken reads as zeroes whatever happens: pages of it that are never written are read (SQLite
//!   leaves out those that it has freed), and a power cut may keep the record that names it and lose what was
//!   written there, and then no journal or log of before may be found. A discard is durable with a flush that follows it;
//! * extents from `behind` on are not on the device but in the image's annex, and hold journals and
//!   logs only: they are what a full store deletes with;
//! * the first `MOST_BEHIND` of these numbers are of stores made before what lies there was sealed:
//!   they are used up, and never taken. A program of that time knows no others, and refuses them.

use std::collections::BTreeSet;

use block::{DeviceError, TxError};

use super::behind::{BARE_EXTENT, SEALED_EXTENT};

/// Pages of an extent.
pub(super) const EXTENT: u64 = 256;

/// Extents behind the device that there may be at most: 288 GiB of journals and logs.
pub(super) const MOST_BEHIND: u32 = 1 << 18;
/// The least that is kept for statements that free pages, and its share of the pages: one in 50.
const LEAST_KEPT: u64 = 64;
const KEPT_SHARE: u64 = 50;
/// Extents that are discarded before one of them is taken.
const AT_ONCE: usize = 64;

pub(super) struct Space {
    /// Free, and zeroes.
    blank: BTreeSet<u32>,
    /// Free and discarded, and zeroes after the next flush.
    discarded: BTreeSet<u32>,
    /// Free, with whatever lies there: those that a mount has found.
    unknown: BTreeSet<u32>,
    pub(super) slots: BTreeSet<u32>,
    /// Freed by a plain change: reusable once the table page that drops them is durable.
    pub(super) limbo: Vec<u32>,
    /// Extents of the device; the first number behind it.
    behind: u32,
    /// How many sealed extents behind it have been taken so far, and those of them that are free.
    taken: u32,
    free_behind: BTreeSet<u32>,
    /// Extents behind it that are not sealed, and how many sealed ones would lie where these do.
    bare: BTreeSet<u32>,
    covered: u32,
}

impl Space {
    pub(super) fn new(extents: u32, slots: u32) -> Space {
        Space {
            blank: (0..extents).collect(),
            discarded: BTreeSet::new(),
            unknown: BTreeSet::new(),
            slots: (0..slots).collect(),
            limbo: Vec::new(),
            behind: extents,
            taken: 0,
            free_behind: BTreeSet::new(),
            bare: BTreeSet::new(),
            covered: 0,
        }
    }

    pub(super) fn is_behind(&self, extent: u32) -> bool {
        extent >= self.behind
    }

    /// The first number of a sealed extent.
    fn sealed(&self) -> u32 {
        self.behind + MOST_BEHIND
    }

    /// Pages that only a statement may take that frees more.
    pub(super) fn kept(&self) -> u64 {
        (u64::from(self.behind) * EXTENT / KEPT_SHARE).max(LEAST_KEPT)
    }

    /// Extents of the device that are free, and all of them.
    pub(super) fn free(&self) -> u64 {
        (self.blank.len() + self.discarded.len() + self.unknown.len()) as u64
    }

    pub(super) fn extents_there(&self) -> u32 {
        self.behind
    }

    /// Whether the next journal or log would lie behind the device.
    pub(super) fn is_tight(&self) -> bool {
        self.free() * EXTENT <= self.kept() + EXTENT
    }

    /// Whether anything lies behind the device.
    pub(super) fn is_used_behind(&self) -> bool {
        self.taken as usize != self.free_behind.len() || !self.bare.is_empty()
    }

    /// The device has so many extents. Nothing may lie behind it.
    pub(super) fn grow_to(&mut self, extents: u32) {
        self.blank.extend(self.behind..extents);
        self.behind = self.behind.max(extents);
        (self.taken, self.covered) = (0, 0);
        self.free_behind.clear();
    }

    /// Pages of the device's extents.
    pub(super) fn pages(&self) -> u64 {
        u64::from(self.behind) * EXTENT
    }

    /// An extent for a journal or a log where there is an annex: on the device while there is plenty.
    pub(super) fn side_extent(&mut self) -> Result<u32, TxError> {
        if !self.is_tight() {
            return self.extent();
        }
        let sealed = self.sealed();
        if let Some(free) = self.free_behind.range(sealed + self.covered..).next().copied() {
            self.free_behind.remove(&free);
            return Ok(free);
        }
        self.reach(self.covered);
        if self.taken >= MOST_BEHIND {
            let full = DeviceError::NoSpace("the annex of the image is full");
            return Err(full.into());
        }
        self.taken += 1;
        Ok(sealed + self.taken - 1)
    }

    /// Lets the sealed extents up to `count` count as taken; those that were not are free.
    fn reach(&mut self, count: u32) {
        let sealed = self.sealed();
        self.free_behind.extend(sealed + self.taken..sealed + self.taken.max(count));
        self.taken = self.taken.max(count);
    }

    /// Takes an extent that a record names; `false` if it is taken, or cannot be there.
    pub(super) fn claim(&mut self, extent: u32, annex: bool) -> bool {
        if extent < self.behind {
            return self.blank.remove(&extent) || self.unknown.remove(&extent);
        }
        let number = extent - self.behind;
        if !annex || number >= 2 * MOST_BEHIND {
            return false;
        }
        let Some(number) = number.checked_sub(MOST_BEHIND) else {
            let end = u64::from(number + 1) * BARE_EXTENT;
            self.covered = self.covered.max(end.div_ceil(SEALED_EXTENT) as u32);
            return self.bare.insert(extent);
        };
        self.reach(number + 1);
        self.free_behind.remove(&extent)
    }

    /// What is free lay there before: who knows what it holds.
    pub(super) fn was_found(&mut self) {
        self.unknown.append(&mut self.blank);
    }

    /// Extents that are free again, and of which nothing was written to the device.
    pub(super) fn give_back(&mut self, extents: impl IntoIterator<Item = u32>) {
        for extent in extents {
            if extent < self.behind {
                self.blank.insert(extent);
            } else if extent >= self.sealed() {
                self.free_behind.insert(extent);
            }
        }
    }

    /// Extents that are free again; those of the device are being discarded.
    pub(super) fn give(&mut self, extents: impl IntoIterator<Item = u32>) {
        for extent in extents {
            if extent < self.behind {
                self.discarded.insert(extent);
            } else {
                self.give_back([extent]);
            }
        }
    }

    /// The device was flushed.
    pub(super) fn flushed(&mut self) {
        self.blank.append(&mut self.discarded);
    }

    /// What is to be discarded, some at once, and flushed before an extent can be taken; `None`: one can, or
    /// there is none.
    pub(super) fn next_discards(&mut self) -> Option<Vec<u32>> {
        if !self.blank.is_empty() || self.free() == 0 {
            return None;
        }
        let some: Vec<u32> = self.unknown.iter().copied().take(AT_ONCE).collect();
        for extent in &some {
            self.unknown.remove(extent);
            self.discarded.insert(*extent);
        }
        Some(some)
    }

    /// One of [`Space::next_discards`] was asked for before.
    pub(super) fn extent(&mut self) -> Result<u32, TxError> {
        let full = DeviceError::NoSpace("every extent of the store is in use");
        self.blank.pop_first().ok_or(TxError::Device(full))
    }

    pub(super) fn slot(&mut self) -> Result<u32, TxError> {
        self.slots.pop_first().ok_or_else(table_is_full)
    }
}

pub(super) fn table_is_full() -> TxError {
    TxError::Device(DeviceError::NoSpace("the store's object table is full"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_go_behind_when_the_device_is_nearly_full() {
        let mut space = Space::new(4, 16);
        let taken: Vec<u32> = (0..6).map(|_| space.side_extent().unwrap()).collect();
        let sealed = 4 + MOST_BEHIND;
        assert_eq!(taken, [0, 1, 2, sealed, sealed + 1, sealed + 2]);
        assert_eq!(space.free(), 1, "left for databases");
        space.give(taken);
        assert_eq!((space.free(), space.free_behind.len()), (4, 3));
    }

    #[test]
    fn more_extents_are_free_and_none_lies_behind() {
        let mut space = Space::new(2, 16);
        let first = [space.extent().unwrap(), space.side_extent().unwrap()];
        assert_eq!(first, [0, 2 + MOST_BEHIND]);
        assert!(space.is_used_behind() && space.is_tight());
        space.give([2 + MOST_BEHIND]);
        assert!(!space.is_used_behind());
        space.grow_to(4);
        assert_eq!((space.extents_there(), space.free(), space.is_behind(3)), (4, 3, false));
        assert!(space.claim(3, true) && !space.claim(0, true));
        assert!(Space::new(1, 16).claim(1 + 8, true));
        let mut old = Space::new(1, 16);
        old.claim(1 + 8, true);
        assert!(old.is_used_behind(), "what is not sealed is never free");
    }

    #[test]
    fn an_extent_is_taken_when_it_is_blank() {
        let mut space = Space::new(3, 16);
        assert_eq!((space.next_discards(), space.extent()), (None, Ok(0)));
        space.was_found();
        assert_eq!((space.free(), space.extent().is_err()), (2, true));
        assert_eq!(space.next_discards(), Some(vec![1, 2]));
        assert!(space.extent().is_err(), "not durable yet");
        space.flushed();
        assert_eq!(space.extent(), Ok(1));
        space.give([0]);
        space.give_back([1]);
        assert_eq!((space.free(), space.extent(), space.extent()), (3, Ok(1), Ok(2)));
        assert_eq!(space.next_discards(), Some(vec![]), "a flush is all that it wants");
        space.flushed();
        assert_eq!((space.extent(), space.next_discards()), (Ok(0), None));
    }

    #[test]
    fn an_extent_is_claimed_once() {
        let mut space = Space::new(4, 16);
        let sealed = 4 + MOST_BEHIND;
        assert!(space.claim(3, true) && !space.claim(3, true));
        assert!(space.claim(sealed + 2, true) && !space.claim(sealed + 2, true));
        assert!(space.claim(sealed, true) && !space.claim(sealed, true));
        assert!(!space.claim(sealed + 1, false) && !space.claim(u32::MAX, true));
        assert!(!space.claim(sealed + MOST_BEHIND, true));
        for _ in 0..2 {
            space.side_extent().unwrap();
        }
        let next = [space.side_extent().unwrap(), space.side_extent().unwrap()];
        assert_eq!(next, [sealed + 1, sealed + 3]);
    }

    #[test]
    fn no_sealed_extent_lies_over_a_bare_one() {
        let mut space = Space::new(1, 16);
        let sealed = 1 + MOST_BEHIND;
        assert!(space.claim(1 + 8, true) && !space.claim(1 + 8, true), "bare, once");
        assert!(space.claim(sealed + 20, true));
        // Nine of 1 MiB each end where eight of 1.125 MiB do.
        assert_eq!(space.side_extent().unwrap(), sealed + 8);
        space.give([1 + 8]);
        assert_eq!(space.side_extent().unwrap(), sealed + 9, "not before the next mount");
        let mut fresh = Space::new(1, 16);
        assert!(fresh.claim(1 + 8, true));
        assert_eq!(fresh.side_extent().unwrap(), sealed + 8, "nothing sealed there yet");
    }
}
