//! Transactions of a modelled drive in memory, whose power can go in the middle of a commit.

use block::{Data, DeviceError, Lpn, Remap, Time, Transactional, TxError, TxId, TxLimits};
use ssd::Drive;

use super::drive::{CutDrive, State};

impl CutDrive {
    /// Asks the drive; a cut of the fault plan may strike there.
    fn tx<R>(
        &mut self,
        at: Time,
        ask: impl FnOnce(&mut Drive) -> Result<R, TxError>,
    ) -> Result<R, TxError> {
        let State::On(drive) = &mut self.state else { return Err(DeviceError::PowerOff.into()) };
        drive.nand_mut().prune_journal(at);
        let result = ask(drive);
        match &result {
            Err(TxError::Device(DeviceError::PowerOff)) => self.struck(),
            _ => self.now = drive.now(),
        }
        result
    }

    /// The same of what is durable when it returns: the power may be meant to go in it, as in a flush.
    fn tx_durable(
        &mut self,
        at: Time,
        ask: impl FnOnce(&mut Drive) -> Result<Time, TxError>,
    ) -> Result<Time, TxError> {
        let done = self.tx(at, ask)?;
        match self.at_flush {
            true => Err(self.cut_between(at, done).into()),
            false => Ok(done),
        }
    }
}

impl Transactional for CutDrive {
    fn tx_limits(&self) -> TxLimits {
        match &self.state {
            State::On(drive) => drive.tx_limits(),
            State::Off(_) => TxLimits { max_open: 0, pages: 0, span: 0, next: TxId(0) },
        }
    }
    fn tx_begin(&mut self) -> Result<TxId, TxError> {
        self.tx(self.now, Drive::tx_begin)
    }
    fn tx_write(
        &mut self,
        at: Time,
        tid: TxId,
        page: Lpn,
        data: Data<'_>,
    ) -> Result<Time, TxError> {
        self.tx(at, |drive| drive.tx_write(at, tid, page, data))
    }
    fn tx_trim(&mut self, at: Time, tid: TxId, first: Lpn, count: u32) -> Result<Time, TxError> {
        self.tx(at, |drive| drive.tx_trim(at, tid, first, count))
    }
    fn tx_read(&mut self, at: Time, tid: TxId, page: Lpn, data: Data<'_>) -> Result<Time, TxError> {
        self.tx(at, |drive| drive.tx_read(at, tid, page, data))
    }
    fn tx_commit(&mut self, at: Time, tids: &[TxId]) -> Result<Time, TxError> {
        self.tx_durable(at, |drive| drive.tx_commit(at, tids))
    }
    fn tx_abort(&mut self, at: Time, tid: TxId) -> Result<Time, TxError> {
        self.tx(at, |drive| drive.tx_abort(at, tid))
    }
}

impl Remap for CutDrive {
    fn remap(&mut self, at: Time, pairs: &[(Lpn, Lpn)]) -> Result<Time, TxError> {
        self.tx_durable(at, |drive| drive.remap(at, pairs))
    }
}
