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
use crate::abi::here;
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
        Home { process: here(), core: Some(Mutex::new(core)) }
    }

    /// Whether this process may use it.
    pub(super) fn own(&self) -> Result<(), Inherited> {
        let (owner, here) = (self.process, here());
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
        // Whoever waits must hear of it, whatever happens here.
        fn whatever<T>(body: impl FnOnce() -> T) -> Result<T, DeviceError> {
            catch_unwind(AssertUnwindSafe(body))
                .map_err(|_| DeviceError::Io("a panic in the log".to_string()))
        }
        loop {
            let turn = match whatever(|| core.turn(number)) {
                Ok(turn) => turn,
                Err(error) => {
                    core.written(0, Err(error));
                    continue;
                }
            };
            match turn {
                Turn::Over(done) => return (core, done),
                Turn::Wait(changed) => {
                    core = changed.wait(core).unwrap_or_else(PoisonError::into_inner);
                }
                Turn::Write(batch, None) => {
                    let done = whatever(|| core.write_in_turn(&batch)).flatten();
                    core.written(batch.upto(), done);
                }
                Turn::Write(batch, Some(sink)) => {
                    drop(core);
                    let done = whatever(|| batch.write_to(&*sink)).flatten();
                    core = mutex.lock().unwrap_or_else(PoisonError::into_inner);
                    core.written(batch.upto(), done);
                }
            }
        }
    }

    /// The store, when nobody writes to the log.
    pub(super) fn quiet(&self) -> Result<MutexGuard<'_, Core>, Inherited> {
        let core = self.lock()?;
        let changed = core.queue.changed();
        let quiet = changed.wait_while(core, |core| core.queue.is_writing());
        Ok(quiet.unwrap_or_else(PoisonError::into_inner))
    }

    /// After a change that found no room because the device cannot grow while somebody writes to the log: waits until
    /// nobody does. `false`: it is full.
    pub(super) fn has_grown_quiet(&self) -> bool {
        let wanted = self.lock().is_ok_and(|mut core| std::mem::take(&mut core.wants_growth));
        wanted && self.quiet().is_ok()
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

#[cfg(test)]
mod tests {
    use block::{
        BlockDevice, Bytes, Lpn, RamDevice, Remap, Request, Sectors, Time, Transactional, TxId,
        TxLimits,
    };

    use super::super::record::{Body, Packer};
    use super::super::table::PAGE;
    use super::super::{Device, StoreOptions};
    use super::*;

    /// A device with a bug.
    struct Panics;

    impl BlockDevice for Panics {
        fn capacity(&self) -> Sectors {
            Sectors(64)
        }
        fn atomic_unit(&self) -> Bytes {
            Bytes(PAGE as u64)
        }
        fn submit(&mut self, _: Time, _: Request<'_>) -> Result<Time, DeviceError> {
            panic!("planted")
        }
    }

    impl Transactional for Panics {
        fn tx_limits(&self) -> TxLimits {
            panic!("planted")
        }
        fn tx_begin(&mut self) -> Result<TxId, TxError> {
            panic!("planted")
        }
        fn tx_write(
            &mut self,
            _: Time,
            _: TxId,
            _: Lpn,
            _: block::Data<'_>,
        ) -> Result<Time, TxError> {
            panic!("planted")
        }
        fn tx_trim(&mut self, _: Time, _: TxId, _: Lpn, _: u32) -> Result<Time, TxError> {
            panic!("planted")
        }
        fn tx_read(
            &mut self,
            _: Time,
            _: TxId,
            _: Lpn,
            _: block::Data<'_>,
        ) -> Result<Time, TxError> {
            panic!("planted")
        }
        fn tx_commit(&mut self, _: Time, _: &[TxId]) -> Result<Time, TxError> {
            panic!("planted")
        }
        fn tx_abort(&mut self, _: Time, _: TxId) -> Result<Time, TxError> {
            panic!("planted")
        }
    }

    impl Remap for Panics {
        fn remap(&mut self, _: Time, _: &[(Lpn, Lpn)]) -> Result<Time, TxError> {
            panic!("planted")
        }
    }

    /// Whoever comes after a panic in the log is told, and nobody waits for good.
    #[test]
    fn a_panic_in_the_log_is_an_error_for_all_who_wait() {
        let ram: Box<dyn Device> = Box::new(RamDevice::new(Sectors(64 * 2048)));
        let options = StoreOptions { log_pages: Some(16), ..StoreOptions::default() };
        let mut core = Core::format(ram, None, options).unwrap();
        core.device = Box::new(Panics);
        let home = Home::new(core);
        let commit = || {
            let mut core = home.lock().unwrap();
            let grain = core.ring.unwrap().grain();
            let mut body = Body::default();
            body.page(3, 0, None, &[7; PAGE]);
            let draft = body.finish(grain, &mut Packer::default());
            core.enqueue(draft)
        };
        let numbers = [commit(), commit()];
        for number in numbers {
            let (core, done) = home.settle(home.lock().unwrap(), number);
            let error = done.unwrap_err().to_string();
            assert!(error.contains("a panic in the log"), "{error}");
            assert!(core.broken.is_some() && !core.queue.is_writing());
        }
    }
}
