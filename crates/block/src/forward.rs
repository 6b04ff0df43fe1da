//! A device that hands on all that is asked of it: a handle, a lock, a wrapper that only counts.
//!
//! Invariant: nothing that a device can be asked is left out, or a handle would promise less, or more,
//! than what is behind it. Whoever adds to a device's traits adds it here, once.

use crate::{
    BlockDevice, Bytes, Data, DeviceError, Lpn, Remap, Request, Sectors, Time, Transactional,
    TxError, TxId, TxLimits,
};

/// Stands for another device.
pub trait Forward {
    /// The other device.
    type To: ?Sized;
    /// Looks at it.
    fn look<R>(&self, look: impl FnOnce(&Self::To) -> R) -> R;
    /// Asks it for something.
    fn ask<R>(&mut self, ask: impl FnOnce(&mut Self::To) -> R) -> R;
}

impl<F: Forward> BlockDevice for F
where
    F::To: BlockDevice,
{
    fn capacity(&self) -> Sectors {
        self.look(|to| to.capacity())
    }
    fn atomic_unit(&self) -> Bytes {
        self.look(|to| to.atomic_unit())
    }
    fn flush_covers_submitted(&self) -> bool {
        self.look(|to| to.flush_covers_submitted())
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        self.ask(|to| to.submit(at, request))
    }
}

impl<F: Forward> Transactional for F
where
    F::To: Transactional,
{
    fn tx_limits(&self) -> TxLimits {
        self.look(|to| to.tx_limits())
    }
    fn tx_begin(&mut self) -> Result<TxId, TxError> {
        self.ask(|to| to.tx_begin())
    }
    fn tx_write(
        &mut self,
        at: Time,
        tid: TxId,
        page: Lpn,
        data: Data<'_>,
    ) -> Result<Time, TxError> {
        self.ask(|to| to.tx_write(at, tid, page, data))
    }
    fn tx_trim(&mut self, at: Time, tid: TxId, first: Lpn, count: u32) -> Result<Time, TxError> {
        self.ask(|to| to.tx_trim(at, tid, first, count))
    }
    fn tx_read(&mut self, at: Time, tid: TxId, page: Lpn, data: Data<'_>) -> Result<Time, TxError> {
        self.ask(|to| to.tx_read(at, tid, page, data))
    }
    fn tx_commit(&mut self, at: Time, tids: &[TxId]) -> Result<Time, TxError> {
        self.ask(|to| to.tx_commit(at, tids))
    }
    fn tx_abort(&mut self, at: Time, tid: TxId) -> Result<Time, TxError> {
        self.ask(|to| to.tx_abort(at, tid))
    }
}

impl<F: Forward> Remap for F
where
    F::To: Remap,
{
    fn remap(&mut self, at: Time, pairs: &[(Lpn, Lpn)]) -> Result<Time, TxError> {
        self.ask(|to| to.remap(at, pairs))
    }
    fn remap_most(&self) -> usize {
        self.look(|to| to.remap_most())
    }
}
