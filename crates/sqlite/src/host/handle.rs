//! A device that a store works on while an experiment looks at it.
//!
//! Invariant: one call is under way at a time; nobody keeps the lock between two.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{
    BlockDevice, Data, DeviceError, Lpn, Remap, Request, Sectors, Time, Transactional, TxError,
    TxId, TxLimits,
};

/// One device, held by two; clones are the same one.
#[derive(Debug)]
pub struct Handle<D>(Arc<Mutex<D>>);

impl<D> Clone for Handle<D> {
    fn clone(&self) -> Self {
        Handle(Arc::clone(&self.0))
    }
}

impl<D> Handle<D> {
    /// Shares a device.
    pub fn new(device: D) -> Handle<D> {
        Handle(Arc::new(Mutex::new(device)))
    }

    /// The device, while the store does nothing.
    pub fn get(&self) -> MutexGuard<'_, D> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: BlockDevice> BlockDevice for Handle<D> {
    fn capacity(&self) -> Sectors {
        self.get().capacity()
    }
    fn atomic_unit(&self) -> block::Bytes {
        self.get().atomic_unit()
    }
    fn flush_covers_submitted(&self) -> bool {
        self.get().flush_covers_submitted()
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        self.get().submit(at, request)
    }
}

impl<D: Transactional> Transactional for Handle<D> {
    fn tx_limits(&self) -> TxLimits {
        self.get().tx_limits()
    }
    fn tx_begin(&mut self) -> Result<TxId, TxError> {
        self.get().tx_begin()
    }
    fn tx_write(
        &mut self,
        at: Time,
        tid: TxId,
        page: Lpn,
        data: Data<'_>,
        last: bool,
    ) -> Result<Time, TxError> {
        self.get().tx_write(at, tid, page, data, last)
    }
    fn tx_trim(&mut self, at: Time, tid: TxId, first: Lpn, count: u32) -> Result<Time, TxError> {
        self.get().tx_trim(at, tid, first, count)
    }
    fn tx_read(&mut self, at: Time, tid: TxId, page: Lpn, data: Data<'_>) -> Result<Time, TxError> {
        self.get().tx_read(at, tid, page, data)
    }
    fn tx_commit(&mut self, at: Time, tids: &[TxId]) -> Result<Time, TxError> {
        self.get().tx_commit(at, tids)
    }
    fn tx_abort(&mut self, at: Time, tid: TxId) -> Result<Time, TxError> {
        self.get().tx_abort(at, tid)
    }
}

impl<D: Remap> Remap for Handle<D> {
    fn remap(&mut self, at: Time, pairs: &[(Lpn, Lpn)]) -> Result<Time, TxError> {
        self.get().remap(at, pairs)
    }
}
