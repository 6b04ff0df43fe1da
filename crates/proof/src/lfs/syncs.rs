//! Files that somebody waits for while others go on, as a mount's thread has them: asked for, flushed
//! without the volume, told.

use block::{BlockDevice, DeviceError, Request, Time};
use lfs::fs::Syncing;
use lfs::{Fs, FsError, Mark, Nid, Now};

use crate::shared::SharedDisk;

/// Asks at once at most.
const MOST: usize = 4;

/// A file that is waited for; the number says which ask it is.
struct Ask {
    number: u64,
    ino: Nid,
    told: bool,
}

/// Where the flush is that some of them wait for.
enum Flush {
    None,
    Wanted(Mark),
    /// Asked of the device, and when it is answered.
    UnderWay(Mark, Result<Time, DeviceError>),
}

/// What became of asks in a round.
#[derive(Default)]
pub(super) struct Round {
    /// Their nodes were written.
    pub(super) written: Vec<u64>,
    /// They are durable, or refused.
    pub(super) done: Vec<(u64, bool)>,
    /// Files that nobody waits for any more.
    pub(super) released: Vec<Nid>,
    /// They wait for a read, or for a job.
    pub(super) again: bool,
}

impl Round {
    /// What comes behind it.
    pub(super) fn extend(&mut self, next: Round) {
        self.written.extend(next.written);
        self.done.extend(next.done);
        self.released.extend(next.released);
        self.again = next.again;
    }
}

/// See above.
pub(super) struct Syncs {
    asks: Vec<Ask>,
    files: Vec<Syncing>,
    flush: Flush,
    number: u64,
}

impl Syncs {
    pub(super) fn new() -> Syncs {
        Syncs { asks: Vec::new(), files: Vec::new(), flush: Flush::None, number: 0 }
    }

    /// Somebody waits for a file from now on; which ask it is. None: too many wait.
    pub(super) fn ask(
        &mut self,
        fs: &mut Fs<SharedDisk>,
        now: Now,
        ino: Nid,
    ) -> Result<Option<u64>, FsError> {
        if self.asks.len() == MOST {
            return Ok(None);
        }
        // As the kernel does with an open file.
        fs.hold(now, ino)?;
        self.number += 1;
        self.asks.push(Ask { number: self.number, ino, told: false });
        self.files.push(Syncing::new(ino));
        Ok(Some(self.number))
    }

    /// When the flush under way is answered.
    pub(super) fn answered(&self) -> Option<Time> {
        match &self.flush {
            Flush::UnderWay(_, Ok(at)) => Some(*at),
            _ => None,
        }
    }

    /// The next thing that their thread does: begins a flush, or hears of one and takes files on.
    pub(super) fn round(
        &mut self,
        fs: &mut Fs<SharedDisk>,
        disk: &mut SharedDisk,
        now: Now,
    ) -> Result<Round, FsError> {
        let mut round = Round::default();
        match std::mem::replace(&mut self.flush, Flush::None) {
            Flush::Wanted(mark) => {
                self.flush = Flush::UnderWay(mark, disk.submit(now.at, Request::flush()));
                return Ok(round);
            }
            Flush::UnderWay(mark, done) => fs.flushed(mark, done.map(|_| ()))?,
            Flush::None => {}
        }
        // Should it have to come again, that was all, and is not done twice.
        match fs.sync_some(now, &mut self.files) {
            Ok(Some(mark)) => self.flush = Flush::Wanted(mark),
            Ok(None) => {}
            Err(FsError::Again) => round.again = true,
            Err(error) => return Err(error),
        }
        for (ask, file) in self.asks.iter_mut().zip(&self.files) {
            if file.wrote() && !std::mem::replace(&mut ask.told, true) {
                round.written.push(ask.number);
            }
        }
        let all = std::mem::take(&mut self.asks).into_iter().zip(std::mem::take(&mut self.files));
        let (done, left): (Vec<_>, Vec<_>) = all.partition(|(_, file)| file.is_done());
        (self.asks, self.files) = left.into_iter().unzip();
        for (ask, file) in done {
            round.done.push((ask.number, file.result().is_ok()));
            round.released.push(ask.ino);
        }
        Ok(round)
    }

    /// Nobody waits any more.
    pub(super) fn end(&mut self, fs: &mut Fs<SharedDisk>, now: Now) -> Result<(), FsError> {
        let asks = std::mem::replace(self, Syncs::new()).asks;
        asks.into_iter().try_for_each(|ask| fs.release(now, ask.ino))
    }
}
