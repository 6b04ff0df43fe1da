//! The process a store belongs to.
//!
//! Invariants:
//! * whose store it is, is looked at before its lock: a thread of the parent may have held that at
//!   the fork, and then it is held here for good;
//! * what a child inherits is neither used nor dropped: the parent still writes the image, and the
//!   lock on it is the parent's;
//! * whoever waits, for a flush or for a lock, waits without the store's lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use block::{DeviceError, TxError};

use super::core::{Core, Done, Id};
use super::queue::Turn;
use crate::vfs::{Code, Level};

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

/// A lock that was taken by others.
#[derive(Clone, Copy)]
pub(super) struct Missed {
    pub(super) id: Id,
    pub(super) file: u64,
    pub(super) want: Level,
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

    /// Returns when commit `number` is durable, and takes a part in that if nobody else does: all that waits goes to
    /// the log with one write.
    pub(super) fn settle<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        number: u64,
    ) -> (MutexGuard<'a, Core>, Done<()>) {
        let Some(mutex) = &self.core else {
            let gone = Inherited { owner: self.process, here: self.process };
            return (core, Err(gone.into()));
        };
        loop {
            match core.turn(number) {
                Turn::Over(done) => return (core, done),
                Turn::Wait(changed) => {
                    core = changed.wait(core).unwrap_or_else(PoisonError::into_inner);
                }
                Turn::Write(batch, None) => {
                    let done = core.write_in_turn(&batch);
                    core.written(&batch, done);
                }
                Turn::Write(batch, Some(sink)) => {
                    drop(core);
                    // Whoever waits must hear of it, whatever happens here.
                    let done = catch_unwind(AssertUnwindSafe(|| batch.write_to(&*sink)));
                    let panicked = |_| Err(DeviceError::Io("a panic in the log".to_string()));
                    core = mutex.lock().unwrap_or_else(PoisonError::into_inner);
                    core.written(&batch, done.unwrap_or_else(panicked));
                }
            }
        }
    }

    /// Sleeps until a lock that was missed can be had, at most for `limit`. `false`: this is no store to wait for.
    pub(super) fn sleep(&self, missed: Missed, limit: Duration) -> bool {
        let Missed { id, file, want } = missed;
        let Ok(mut core) = self.lock() else { return false };
        let Some(object) = core.objects.get_mut(&id) else { return false };
        object.locks.stand_in_line(file, want);
        let woken = Arc::new(Condvar::new());
        core.sleepers.insert(file, (missed, Arc::clone(&woken)));
        let taken = |core: &mut Core| !core.can_be_had(missed);
        let slept = woken.wait_timeout_while(core, limit, taken);
        let (mut core, slept) = slept.unwrap_or_else(PoisonError::into_inner);
        core.sleepers.remove(&file);
        if let Some(object) = core.objects.get_mut(&id) {
            object.locks.leave_line(file, !slept.timed_out());
        }
        // The next one in line may have waited for this one.
        core.wake();
        true
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
