//! The process a store belongs to.
//!
//! Invariants:
//! * whose store it is, is looked at before its lock: a thread of the parent may have held that at
//!   the fork, and then it is held here for good;
//! * what a child inherits is neither used nor dropped: the parent still writes the image, and the
//!   lock on it is the parent's.

use std::sync::{Mutex, MutexGuard, PoisonError};

use block::{DeviceError, TxError};

use super::core::Core;
use crate::vfs::Code;

/// A store of another process, of which this one was forked, is not to be used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the store was opened by process {owner}, of which process {here} was forked: a connection is \
     not carried across fork, open a new one"
)]
pub struct Inherited {
    /// The process whose store it is.
    pub owner: u32,
    /// The process that tried.
    pub here: u32,
}

impl From<Inherited> for Code {
    fn from(_: Inherited) -> Code {
        Code::IOERR
    }
}

impl From<Inherited> for TxError {
    fn from(inherited: Inherited) -> TxError {
        DeviceError::Io(inherited.to_string()).into()
    }
}

/// A store's state, for one process.
pub(super) struct Home {
    process: u32,
    /// Always there until the home is dropped.
    core: Option<Mutex<Core>>,
}

impl Home {
    pub(super) fn new(core: Core) -> Home {
        Home { process: std::process::id(), core: Some(Mutex::new(core)) }
    }

    /// Whether this process may use it.
    pub(super) fn own(&self) -> Result<(), Inherited> {
        let (owner, here) = (self.process, std::process::id());
        if owner == here { Ok(()) } else { Err(Inherited { owner, here }) }
    }

    pub(super) fn lock(&self) -> Result<MutexGuard<'_, Core>, Inherited> {
        self.own()?;
        let inherited = Inherited { owner: self.process, here: self.process };
        // A panic under the lock has become an I/O error; the state is as after any failed call.
        let core = self.core.as_ref().ok_or(inherited)?;
        Ok(core.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.own().is_err() {
            // Another thread may have been changing it at the fork. Its memory ends with the process.
            std::mem::forget(self.core.take());
        }
    }
}
