//! Which extents and table pages of the device are free.
//!
//! Invariant: an extent is free, or belongs to the committed or a newer version of exactly one
//! object, or waits in `limbo` until no record on flash can name it any more.

use std::collections::BTreeSet;

use block::{DeviceError, TxError};

/// Pages of an extent.
pub(super) const EXTENT: u64 = 256;

#[derive(Default)]
pub(super) struct Space {
    pub(super) extents: BTreeSet<u32>,
    pub(super) slots: BTreeSet<u32>,
    /// Freed by a plain change: reusable once the table page that drops them is durable.
    pub(super) limbo: Vec<u32>,
}

impl Space {
    pub(super) fn extent(&mut self) -> Result<u32, TxError> {
        let full = DeviceError::NoSpace("every extent of the store is in use");
        self.extents.pop_first().ok_or(TxError::Device(full))
    }

    pub(super) fn slot(&mut self) -> Result<u32, TxError> {
        let full = DeviceError::NoSpace("the store's object table is full");
        self.slots.pop_first().ok_or(TxError::Device(full))
    }
}
