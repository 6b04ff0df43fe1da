//! The device as blocks: neighbouring writes become one, and every block written is counted once.
//!
//! Invariants:
//! * what is read is what was written last;
//! * a flush is submitted when every write before it has been answered;
//! * time never falls: [`Disk::clock`] is when the next request may be made, [`Disk::time`] when all
//!   that was asked for is done;
//! * so many writes are under way at most; one more waits for the oldest;
//! * what nobody waits for (a read, a forced write, a flush) says when it is answered;
//! * a block that is read without the volume (`outside`) is one that nobody wrote meanwhile;
//! * after a write that failed nothing becomes durable, and what it held is not read from the device.

mod behind;
mod flushes;
mod outside;

use std::collections::{BTreeSet, VecDeque};

use block::{BlockDevice, Data, DeviceError, Lba, Request, SECTOR_BYTES, Sectors, StreamId, Time};

use crate::format::{BLOCK_BYTES, Block};
use crate::{BlockAddr, FsError};
pub use flushes::Mark;
pub use outside::Fetch;
pub(crate) use outside::{For, read_run, write_forced};

pub(crate) const SECTORS: u64 = BLOCK_BYTES as u64 / SECTOR_BYTES;
/// Blocks of a run at most.
const RUN: usize = 64;
/// Runs under way at most.
const UNDER_WAY: usize = 32;

/// Why a block is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Cause {
    Data,
    Dentry,
    Node,
    MovedData,
    MovedNode,
    Nat,
    Sit,
    Ssa,
    Pack,
    Journal,
    Super,
}

/// Number of causes.
pub const CAUSES: usize = Cause::Super as usize + 1;

impl Cause {
    /// All of them.
    pub const ALL: [Cause; CAUSES] = [
        Cause::Data,
        Cause::Dentry,
        Cause::Node,
        Cause::MovedData,
        Cause::MovedNode,
        Cause::Nat,
        Cause::Sit,
        Cause::Ssa,
        Cause::Pack,
        Cause::Journal,
        Cause::Super,
    ];

    /// What writes are hinted to be, by how long they are likely to live: what is written again and
    /// again (1), nodes (2), data (3), and what cleaning found alive (4).
    pub fn stream(self) -> StreamId {
        StreamId(match self {
            Cause::Nat | Cause::Sit | Cause::Ssa | Cause::Pack | Cause::Journal | Cause::Super => 1,
            Cause::Dentry | Cause::Node => 2,
            Cause::Data => 3,
            Cause::MovedData | Cause::MovedNode => 4,
        })
    }
}

/// Blocks of a device.
pub struct Disk<D> {
    device: D,
    time: Time,
    /// When the last write is answered.
    answered: Time,
    /// When the last read that nobody waited for is answered.
    fetched: Time,
    /// Answers to the last writes, oldest first.
    under_way: VecDeque<Time>,
    run: Vec<u8>,
    run_at: u32,
    /// The hint of its first block: a run lies in one log, or in an area of its own.
    run_of: StreamId,
    /// What the device said to a run that it did not take: the run stays, and so does the error.
    lost: Option<DeviceError>,
    written: [u64; CAUSES],
    flushes: u64,
    covered: flushes::Flushes,
    outside: outside::Outside,
}

impl<D: BlockDevice> Disk<D> {
    /// The blocks of `device`, from `at` on.
    pub fn new(device: D, at: Time) -> Disk<D> {
        let run = Vec::with_capacity(RUN * BLOCK_BYTES);
        let (run_at, written, flushes) = (0, [0; CAUSES], 0);
        let under_way = VecDeque::with_capacity(UNDER_WAY + 1);
        let (time, answered, fetched) = (at, at, at);
        let (lost, covered) = (None, flushes::Flushes::default());
        let outside = outside::Outside::default();
        Disk {
            device,
            time,
            answered,
            fetched,
            under_way,
            run,
            run_at,
            run_of: StreamId(0),
            lost,
            written,
            flushes,
            covered,
            outside,
        }
    }

    /// Blocks of the device.
    pub fn blocks(&self) -> u64 {
        self.device.capacity().0 / SECTORS
    }
    /// Whether a cut may leave part of a block.
    pub(crate) fn tears(&self) -> bool {
        self.device.atomic_unit().0 < BLOCK_BYTES as u64
    }
    /// When what was done so far is done.
    pub fn time(&self) -> Time {
        self.time.max(self.answered).max(self.fetched)
    }
    /// When the next request may be made: writes, and reads that nobody waited for, go on beside it.
    pub fn clock(&self) -> Time {
        self.time
    }
    /// An operation begins.
    pub fn begin(&mut self, at: Time) {
        self.time = self.time.max(at);
        self.fetched = self.time;
        self.outside.fresh();
    }
    /// When the contents are there that the present operation reads.
    pub fn fetched(&self) -> Time {
        self.fetched.max(self.time)
    }
    /// Blocks written, by cause.
    pub fn written(&self, cause: Cause) -> u64 {
        self.written[cause as usize]
    }
    /// Blocks written, by the number of their cause.
    pub(crate) fn written_all(&self) -> [u64; CAUSES] {
        self.written
    }
    /// Flushes.
    pub fn flushes(&self) -> u64 {
        self.flushes
    }
    /// The device, with nothing held back.
    ///
    /// # Errors
    /// What the device says to the last writes.
    pub fn into_device(mut self) -> Result<D, DeviceError> {
        self.drain()?;
        Ok(self.device)
    }
    /// The device, without what is held back: a stop.
    pub fn abandon(self) -> D {
        self.device
    }
    /// The device, to be told something that is no request.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }
    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    fn drain(&mut self) -> Result<(), DeviceError> {
        if let Some(error) = &self.lost {
            return Err(error.clone());
        }
        if self.run.is_empty() {
            return Ok(());
        }
        let sectors = Sectors((self.run.len() / BLOCK_BYTES) as u64 * SECTORS);
        let lba = Lba(u64::from(self.run_at) * SECTORS);
        let request = Request::write(lba, sectors).of_stream(self.run_of);
        let request = request.with(Data::Write(&self.run));
        let done = self.device.submit(self.time, request);
        let done = done.inspect_err(|error| self.lost = Some(error.clone()))?;
        self.run.clear();
        self.covered.sent(self.time, done);
        self.answered = self.answered.max(done);
        self.under_way.push_back(done);
        if self.under_way.len() > UNDER_WAY
            && let Some(oldest) = self.under_way.pop_front()
        {
            self.time = self.time.max(oldest);
        }
        Ok(())
    }

    /// Waits for all writes.
    ///
    /// # Errors
    /// What the device says to them.
    pub fn wait(&mut self) -> Result<(), DeviceError> {
        self.drain()?;
        self.time = self.time.max(self.answered);
        self.under_way.clear();
        Ok(())
    }

    /// What is held back goes only if a read wants some of it: reads do not break runs.
    fn drain_under(&mut self, at: BlockAddr, bytes: usize) -> Result<(), DeviceError> {
        let held = (self.run.len() / BLOCK_BYTES) as u64;
        let (run, read) = (u64::from(self.run_at), u64::from(at.0));
        let apart = read + (bytes / BLOCK_BYTES) as u64 <= run || run + held <= read;
        if apart { Ok(()) } else { self.drain() }
    }

    /// Reads a block.
    ///
    /// # Errors
    /// What the device says.
    pub fn read(&mut self, at: BlockAddr, out: &mut Block) -> Result<(), FsError> {
        self.read_run(at, out)
    }

    /// Reads blocks that follow each other; `out` has the length of whole blocks.
    ///
    /// # Errors
    /// What the device says.
    pub fn read_run(&mut self, at: BlockAddr, out: &mut [u8]) -> Result<(), FsError> {
        self.time = self.time.max(self.ask(at, out)?);
        Ok(())
    }

    /// As [`Disk::read_run`], but the next request need not wait for the answer.
    ///
    /// # Errors
    /// What the device says.
    pub fn fetch_run(&mut self, at: BlockAddr, out: &mut [u8]) -> Result<(), FsError> {
        self.fetched = self.fetched.max(self.ask(at, out)?);
        Ok(())
    }

    /// Reads these blocks at once, neighbours together; `out` has room for all of them.
    ///
    /// # Errors
    /// What the device says.
    pub fn read_all(&mut self, addrs: &[BlockAddr], out: &mut [u8]) -> Result<(), FsError> {
        self.time = self.fetch_all(addrs, out)?;
        Ok(())
    }

    /// As [`Disk::read_all`], but nobody waits: when the last of them is answered.
    ///
    /// # Errors
    /// What the device says.
    pub fn fetch_all(&mut self, addrs: &[BlockAddr], out: &mut [u8]) -> Result<Time, FsError> {
        if self.outside.holds_back() {
            // All that is missing is wanted at once, and nothing taken before all of it is there.
            let there = addrs.iter().filter(|at| self.outside.is_there(**at, 1)).count();
            if there < addrs.len() {
                return Err(FsError::Again);
            }
        }
        let (mut rest, mut answered) = (out, self.time);
        for run in addrs.chunk_by(|a, b| b.0 == a.0 + 1) {
            let (part, more) = rest.split_at_mut(run.len() * BLOCK_BYTES);
            answered = answered.max(self.ask(run[0], part)?);
            rest = more;
        }
        Ok(answered)
    }

    fn ask(&mut self, at: BlockAddr, out: &mut [u8]) -> Result<Time, FsError> {
        if self.outside.is_on() && self.outside.take(at, out) {
            return Ok(self.time);
        }
        if self.outside.holds_back() {
            return Err(FsError::Again);
        }
        self.drain_under(at, out.len())?;
        Ok(read_run(&mut self.device, self.time, at, out)?)
    }

    /// Reads are for somebody who does not have the volume from now on, or (`false`) for the device.
    pub fn read_outside(&mut self, on: bool) {
        self.outside.switch(on);
    }
    /// Whether reads are for somebody who does not have the volume.
    pub fn is_outside(&self) -> bool {
        self.outside.is_on()
    }
    /// Reads are for the device all the same, for now.
    pub(crate) fn insist(&mut self, insists: bool) {
        self.outside.insist(insists);
    }
    /// The present operation has changed something: it is done to its end.
    pub(crate) fn begun(&mut self) {
        self.outside.begun();
    }
    /// A part of it that is whole in itself is done, and what comes has changed nothing yet.
    pub(crate) fn fresh(&mut self) {
        self.outside.fresh();
    }
    /// Blocks are wanted for this from now on; for what, and whether something was changed, before.
    pub(crate) fn set_aside(&mut self, whose: For) -> (For, bool) {
        let begun = self.outside.has_begun();
        self.outside.fresh();
        (self.outside.wanted_for(whose), begun)
    }
    /// As it was before: what was done in between is whole in itself.
    pub(crate) fn go_on(&mut self, (whose, begun): (For, bool)) {
        self.outside.wanted_for(whose);
        match begun {
            true => self.outside.begun(),
            false => self.outside.fresh(),
        }
    }
    /// A planted bug: what was read without the volume counts, whatever was written since.
    pub(crate) fn trust_reads(&mut self) {
        self.outside.trusting = true;
    }

    /// Refuses to go on as long as a block would have to be waited for.
    pub(crate) fn expect_there(&mut self, at: BlockAddr) -> Result<(), FsError> {
        let there = !self.outside.holds_back() || self.outside.is_there(at, 1);
        if there { Ok(()) } else { Err(FsError::Again) }
    }

    /// What is wanted, to be read by somebody who does not have the volume.
    pub(crate) fn fetch(&mut self, whose: For) -> Result<Option<Fetch>, DeviceError> {
        let fetch = self.outside.fetch(whose);
        for (at, count) in fetch.iter().flat_map(Fetch::runs) {
            self.drain_under(at, count as usize * BLOCK_BYTES)?;
        }
        Ok(fetch)
    }
    /// Whether somebody reads for an operation now.
    pub(crate) fn is_reading(&self) -> bool {
        self.outside.is_reading()
    }
    /// Whether something is wanted.
    pub(crate) fn has_wants(&self, whose: For) -> bool {
        self.outside.has_wants(whose)
    }
    /// It was read, or could not be.
    pub(crate) fn bring(&mut self, fetch: Fetch, read: bool) {
        self.outside.bring(fetch, read);
    }

    /// Somebody reads these from the device from now on.
    pub(crate) fn lend(&mut self, runs: Vec<(BlockAddr, u32)>) -> Result<u64, DeviceError> {
        for (at, count) in &runs {
            self.drain_under(*at, *count as usize * BLOCK_BYTES)?;
        }
        Ok(self.outside.begin(runs))
    }
    /// He has; of them, those that were written since.
    pub(crate) fn give_back(&mut self, id: u64) -> BTreeSet<u32> {
        self.outside.end(id)
    }

    /// Writes a block.
    ///
    /// # Errors
    /// What the device says, to this or an earlier write.
    pub fn write(&mut self, at: BlockAddr, block: &Block, cause: Cause) -> Result<(), DeviceError> {
        let held = self.run.len() / BLOCK_BYTES;
        if held == RUN || at.0 != self.run_at.wrapping_add(held as u32) {
            self.drain()?;
        }
        if self.run.is_empty() {
            self.run_at = at.0;
            self.run_of = cause.stream();
        }
        self.run.extend_from_slice(block);
        self.outside.changed(at, 1);
        self.covered.hand(1);
        self.written[cause as usize] += 1;
        Ok(())
    }

    /// Waits for all writes and makes them durable.
    ///
    /// # Errors
    /// What the device says.
    pub fn flush(&mut self) -> Result<(), DeviceError> {
        self.wait()?;
        self.time = self.time.max(self.device.submit(self.time, Request::flush())?);
        self.flushes += 1;
        self.covered.flushed();
        Ok(())
    }

    /// Waits for all writes, then writes blocks that are durable when it returns.
    ///
    /// # Errors
    /// What the device says.
    pub fn write_durable(
        &mut self,
        at: BlockAddr,
        blocks: &[&Block],
        cause: Cause,
    ) -> Result<(), DeviceError> {
        self.wait()?;
        self.outside.changed(at, blocks.len() as u32);
        let bytes: Vec<u8> = blocks.iter().flat_map(|block| block.iter().copied()).collect();
        self.written[cause as usize] += blocks.len() as u64;
        self.time = self.time.max(self.force(at, &bytes)?);
        Ok(())
    }

    /// Nothing is done until then.
    pub fn pass(&mut self, to: Time) {
        self.time = self.time.max(to);
    }

    /// Gives blocks back to the device.
    ///
    /// # Errors
    /// What the device says.
    pub fn discard(&mut self, at: BlockAddr, count: u32) -> Result<(), DeviceError> {
        self.drain()?;
        self.outside.changed(at, count);
        let lba = Lba(u64::from(at.0) * SECTORS);
        let request = Request::discard(lba, Sectors(u64::from(count) * SECTORS));
        self.answered = self.answered.max(self.device.submit(self.time, request)?);
        Ok(())
    }
}
