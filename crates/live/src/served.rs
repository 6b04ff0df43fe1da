//! What the device answers: every interface of the drive inside, and durable when it says so.
//!
//! Invariants: nothing is asked of it in a process that was forked from its own, nor after an error of the file; a
//! flush, a write with FUA, a commit and a remap return when the file is synced.

use block::{
    BlockDevice, CommitLog, Data, DeviceError, Growth, Lpn, Op, Remap, Request, Sectors, Time,
    Transactional, TxError, TxId, TxLimits,
};

use crate::drive::ImageDrive;
use crate::planted::Planted;

impl ImageDrive {
    /// After an error of the file the drive inside is where that call left it: it is not asked again.
    pub(crate) fn usable(&self) -> Result<(), DeviceError> {
        if self.is_inherited() {
            let text = format!("the image was opened by process {}, before a fork", self.process);
            return Err(DeviceError::Io(text));
        }
        let broken = self.drive.nand().broken();
        broken.map_or(Ok(()), |text| Err(DeviceError::Io(text.to_string())))
    }

    /// The file's error, where the drive only says that it stands still.
    fn explain(&self, error: DeviceError) -> DeviceError {
        match (error, self.drive.nand().broken()) {
            (DeviceError::PowerOff, Some(text)) => DeviceError::Io(text.to_string()),
            (error, _) => error,
        }
    }
    fn explain_tx(&self, error: TxError) -> TxError {
        match error {
            TxError::Device(error) => TxError::Device(self.explain(error)),
            error => error,
        }
    }
    fn durable(&self, at: Time) -> Result<Time, DeviceError> {
        self.file.sync().map(|()| at).map_err(DeviceError::Io)
    }
}

impl BlockDevice for ImageDrive {
    fn capacity(&self) -> Sectors {
        self.drive.capacity()
    }
    fn atomic_unit(&self) -> block::Bytes {
        self.drive.atomic_unit()
    }
    fn flush_covers_submitted(&self) -> bool {
        self.drive.flush_covers_submitted()
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        self.usable()?;
        let durable = request.op == Op::Flush || request.fua;
        let done = self.drive.submit(at, request).map_err(|e| self.explain(e))?;
        if durable { self.durable(done) } else { Ok(done) }
    }
}

impl Transactional for ImageDrive {
    fn tx_limits(&self) -> TxLimits {
        self.drive.tx_limits()
    }
    fn tx_begin(&mut self) -> Result<TxId, TxError> {
        self.drive.tx_begin()
    }
    fn tx_write(
        &mut self,
        at: Time,
        tid: TxId,
        page: Lpn,
        data: Data<'_>,
    ) -> Result<Time, TxError> {
        self.usable()?;
        self.drive.tx_write(at, tid, page, data).map_err(|e| self.explain_tx(e))
    }
    fn tx_trim(&mut self, at: Time, tid: TxId, first: Lpn, count: u32) -> Result<Time, TxError> {
        self.usable()?;
        self.drive.tx_trim(at, tid, first, count).map_err(|e| self.explain_tx(e))
    }
    fn tx_read(&mut self, at: Time, tid: TxId, page: Lpn, data: Data<'_>) -> Result<Time, TxError> {
        self.usable()?;
        self.drive.tx_read(at, tid, page, data).map_err(|e| self.explain_tx(e))
    }
    fn tx_commit(&mut self, at: Time, tids: &[TxId]) -> Result<Time, TxError> {
        self.usable()?;
        let done = self.drive.tx_commit(at, tids).map_err(|e| self.explain_tx(e))?;
        if self.file.has(Planted::CommitNotSynced) {
            return Ok(done);
        }
        Ok(self.durable(done)?)
    }
    fn tx_abort(&mut self, at: Time, tid: TxId) -> Result<Time, TxError> {
        self.usable()?;
        self.drive.tx_abort(at, tid).map_err(|e| self.explain_tx(e))
    }
    fn commit_log(&mut self) -> Option<&mut dyn CommitLog> {
        (self.file.log().0 > 0).then_some(self)
    }
    fn growth(&mut self) -> Option<&mut dyn Growth> {
        (self.version.is_guarded() && !self.is_beside()).then_some(self)
    }
}

impl Remap for ImageDrive {
    fn remap(&mut self, at: Time, pairs: &[(Lpn, Lpn)]) -> Result<Time, TxError> {
        self.usable()?;
        let done = self.drive.remap(at, pairs).map_err(|e| self.explain_tx(e))?;
        Ok(self.durable(done)?)
    }
}
