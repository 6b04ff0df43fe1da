//! Which extents and table pages of the device are free.
//!
//! Invariants:
//! * an extent is free, or belongs to the committed or a newer version of exactly one object, or
//!   waits in `limbo` until no record on flash can name it any more;
//! * extents from `behind` on are not on the device but in the image's annex, and hold journals and
//!   logs only: they are what a full store deletes with.

use std::collections::BTreeSet;

use block::{DeviceError, TxError};

/// Pages of an extent.
pub(super) const EXTENT: u64 = 256;

/// Extents behind the device that there may be at most: 256 GiB of journals and logs.
const MOST_BEHIND: u32 = 1 << 18;
/// The least that is kept for statements that free pages, and its share of the pages: one in 50.
const LEAST_KEPT: u64 = 64;
const KEPT_SHARE: u64 = 50;

pub(super) struct Space {
    pub(super) extents: BTreeSet<u32>,
    pub(super) slots: BTreeSet<u32>,
    /// Freed by a plain change: reusable once the table page that drops them is durable.
    pub(super) limbo: Vec<u32>,
    /// Extents of the device; the first number behind it.
    behind: u32,
    /// How many extents behind it have been taken so far, and those of them that are free.
    taken: u32,
    free_behind: BTreeSet<u32>,
}

impl Space {
    pub(super) fn new(extents: u32, slots: u32) -> Space {
        Space {
            extents: (0..extents).collect(),
            slots: (0..slots).collect(),
            limbo: Vec::new(),
            behind: extents,
            taken: 0,
            free_behind: BTreeSet::new(),
        }
    }

    pub(super) fn is_behind(&self, extent: u32) -> bool {
        extent >= self.behind
    }

    /// Pages that only a statement may take that frees more.
    pub(super) fn kept(&self) -> u64 {
        (u64::from(self.behind) * EXTENT / KEPT_SHARE).max(LEAST_KEPT)
    }

    /// Pages of the device's extents.
    pub(super) fn pages(&self) -> u64 {
        u64::from(self.behind) * EXTENT
    }

    /// An extent for a journal or a log where there is an annex: on the device while there is plenty.
    pub(super) fn side_extent(&mut self) -> Result<u32, TxError> {
        if self.extents.len() as u64 * EXTENT > self.kept() + EXTENT {
            return self.extent();
        }
        if let Some(free) = self.free_behind.pop_first() {
            return Ok(free);
        }
        if self.taken >= MOST_BEHIND {
            let full = DeviceError::NoSpace("the annex of the image is full");
            return Err(full.into());
        }
        self.taken += 1;
        Ok(self.behind + self.taken - 1)
    }

    /// Takes an extent that a record names; `false` if it is taken, or cannot be there.
    pub(super) fn claim(&mut self, extent: u32, annex: bool) -> bool {
        if extent < self.behind {
            return self.extents.remove(&extent);
        }
        let number = extent - self.behind;
        if !annex || number >= MOST_BEHIND {
            return false;
        }
        if number < self.taken {
            return self.free_behind.remove(&extent);
        }
        self.free_behind.extend(self.behind + self.taken..extent);
        self.taken = number + 1;
        true
    }

    /// Extents that are free again.
    pub(super) fn give(&mut self, extents: impl IntoIterator<Item = u32>) {
        for extent in extents {
            match extent < self.behind {
                true => self.extents.insert(extent),
                false => self.free_behind.insert(extent),
            };
        }
    }

    pub(super) fn extent(&mut self) -> Result<u32, TxError> {
        let full = DeviceError::NoSpace("every extent of the store is in use");
        self.extents.pop_first().ok_or(TxError::Device(full))
    }

    pub(super) fn slot(&mut self) -> Result<u32, TxError> {
        let full = DeviceError::NoSpace("the store's object table is full");
        self.slots.pop_first().ok_or(TxError::Device(full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journals_go_behind_when_the_device_is_nearly_full() {
        let mut space = Space::new(4, 16);
        let taken: Vec<u32> = (0..6).map(|_| space.side_extent().unwrap()).collect();
        assert_eq!(taken, [0, 1, 2, 4, 5, 6]);
        assert_eq!(space.extents.len(), 1, "left for databases");
        space.give(taken);
        assert_eq!((space.extents.len(), space.free_behind.len()), (4, 3));
    }

    #[test]
    fn an_extent_is_claimed_once() {
        let mut space = Space::new(4, 16);
        assert!(space.claim(3, true) && !space.claim(3, true));
        assert!(space.claim(6, true) && !space.claim(6, true) && space.claim(4, true));
        assert!(!space.claim(5, false) && !space.claim(u32::MAX, true));
        for _ in 0..2 {
            space.side_extent().unwrap();
        }
        assert_eq!((space.side_extent().unwrap(), space.side_extent().unwrap()), (5, 7));
    }
}
