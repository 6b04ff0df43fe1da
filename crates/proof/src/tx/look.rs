//! What pages read as: from outside of all transactions, and as one of them sees them.

use block::{BlockDevice, Data, DeviceError, Lba, Lpn, Request, Sectors, Transactional, TxId};

use super::oracle::{TxOracle, broken};
use crate::drive::DriveSubject;
use crate::failure::{Contract, Failure};

pub(super) const PAGE: usize = 4096;

/// A page of bytes that stands for a token.
pub(super) fn fill(token: u64) -> Vec<u8> {
    token.to_le_bytes().repeat(PAGE / 8)
}

/// The token of a page of bytes; none if it is mixed.
fn token_of(bytes: &[u8]) -> Option<u64> {
    let first: [u8; 8] = bytes[..8].try_into().ok()?;
    bytes.chunks_exact(8).all(|word| word == first).then_some(u64::from_le_bytes(first))
}

impl TxOracle {
    /// Reads some pages from outside of all transactions.
    pub(super) fn read(
        &mut self,
        subject: &mut DriveSubject,
        page: u32,
        count: u32,
    ) -> Result<Vec<Option<u64>>, DeviceError> {
        let (lba, sectors) = (Lba(u64::from(page) * 8), Sectors(u64::from(count) * 8));
        let request = Request::read(lba, sectors);
        let (ack, found);
        if self.bytes {
            let mut bytes = vec![0xA5; PAGE * count as usize];
            ack = subject.submit(self.at, request.with(Data::Read(&mut bytes)))?;
            found = bytes.chunks_exact(PAGE).map(token_of).collect();
        } else {
            let mut stamps = vec![u64::MAX; count as usize];
            ack = subject.submit(self.at, request.with(Data::ReadStamps(&mut stamps)))?;
            found = stamps.into_iter().map(Some).collect();
        }
        self.done = self.done.max(ack);
        Ok(found)
    }

    /// Reads all pages that a transaction has written, as it sees them, and one it has not.
    pub(super) fn read_own(&mut self, subject: &mut DriveSubject, tx: u8) -> Result<(), Failure> {
        let Some(open) = self.open.get(&tx).cloned() else { return Ok(()) };
        for (page, token) in &open.pages {
            self.read_as(subject, open.tid, *page, *token)?;
        }
        Ok(())
    }

    pub(super) fn read_as(
        &mut self,
        subject: &mut DriveSubject,
        tid: TxId,
        page: u32,
        expected: u64,
    ) -> Result<(), Failure> {
        let at = self.tick(false);
        let drive = subject.drive_mut();
        let (result, found);
        if self.bytes {
            let mut bytes = vec![0xA5; PAGE];
            result = drive.tx_read(at, tid, Lpn(page), Data::Read(&mut bytes));
            found = token_of(&bytes);
        } else {
            let mut stamp = [u64::MAX];
            result = drive.tx_read(at, tid, Lpn(page), Data::ReadStamps(&mut stamp));
            found = Some(stamp[0]);
        }
        match result {
            Ok(ack) => self.answered(ack)?,
            Err(error) => {
                let what = format!("page {page} could not be read by {tid}: {error}");
                return Err(broken(Contract::C4, what));
            }
        }
        if found != Some(expected) {
            let what = format!("{tid} reads {found:x?} from page {page}, wrote {expected:x}");
            return Err(broken(Contract::C4, what));
        }
        Ok(())
    }
}
