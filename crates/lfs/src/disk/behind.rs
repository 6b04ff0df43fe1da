//! What nobody waits for: forced writes and flushes behind a mark, asked of the device here, or by somebody
//! else who does not have the volume (`outside`).
//!
//! Invariant: a mark is durable when the flush that covers it is answered, whoever asked for it.

use block::{BlockDevice, DeviceError, Request, Time};

use super::{Cause, Disk, Mark, write_forced};
use crate::BlockAddr;
use crate::format::{BLOCK_BYTES, Block};

impl<D: BlockDevice> Disk<D> {
    /// Writes blocks that are durable when they are answered, but nobody waits: when that is. Where
    /// somebody else asks the device for it nobody knows ([`Time::LIMIT`]): he says when it is done.
    ///
    /// # Errors
    /// What the device says.
    pub fn write_durable_behind(
        &mut self,
        at: BlockAddr,
        blocks: &[&Block],
        cause: Cause,
    ) -> Result<Time, DeviceError> {
        self.drain()?;
        self.outside.changed(at, blocks.len() as u32);
        let bytes: Vec<u8> = blocks.iter().flat_map(|block| block.iter().copied()).collect();
        if self.outside.is_on() {
            self.outside.force(at, bytes);
            return Ok(Time::LIMIT);
        }
        self.written[cause as usize] += blocks.len() as u64;
        self.force(at, &bytes)
    }

    pub(super) fn force(&mut self, at: BlockAddr, bytes: &[u8]) -> Result<Time, DeviceError> {
        let done = write_forced(&mut self.device, self.time, at, bytes)?;
        self.answered = self.answered.max(done);
        Ok(done)
    }

    /// What was to be forced, and is asked of the device by somebody else.
    pub(crate) fn take_forced(&mut self) -> Option<(BlockAddr, Vec<u8>)> {
        self.outside.take_forced()
    }
    /// Whether a flush is wished for, and of use; it is not wished for any more.
    pub(crate) fn take_wish(&mut self) -> bool {
        let wish = self.outside.take_wish();
        wish.is_some_and(|mark| !self.is_durable(mark))
    }
    /// Whether something is asked for by somebody else, or to be.
    pub(crate) fn has_wishes(&self) -> bool {
        self.outside.has_wishes()
    }
    /// Nothing is to be forced any more.
    pub(crate) fn forget_forced(&mut self) {
        self.outside.forget_forced();
    }
    /// Somebody else has written blocks that were to be forced.
    pub(crate) fn forced(&mut self, cause: Cause, bytes: usize) {
        self.written[cause as usize] += (bytes / BLOCK_BYTES) as u64;
    }

    /// All that was written so far, to be asked about later.
    pub fn mark(&self) -> Mark {
        self.covered.mark()
    }

    /// Whether what was written before a mark is durable by now.
    pub fn is_durable(&mut self, mark: Mark) -> bool {
        self.covered.is_durable(self.time, mark)
    }

    /// Submits a flush that nobody waits for and that covers a mark (or wishes for one, where somebody
    /// else asks for it). Not yet (no) while another is under way, or some of what it is to cover is not
    /// answered.
    ///
    /// # Errors
    /// What the device says.
    pub fn flush_behind(&mut self, mark: Mark) -> Result<bool, DeviceError> {
        if self.covered.waits(mark) {
            self.drain()?;
        }
        if self.outside.is_on() {
            return Ok(self.outside.wish_flush(mark));
        }
        let answered = self.covered.answered(mark).is_none_or(|by| by <= self.time);
        if self.covered.is_busy(self.time) || !(answered || self.covered.early) {
            return Ok(false);
        }
        if let Some(error) = &self.lost {
            return Err(error.clone());
        }
        let done = self.device.submit(self.time, Request::flush())?;
        self.flushes += 1;
        self.covered.submitted(self.time, done);
        Ok(true)
    }

    /// Waits for all writes, for a flush that somebody else asks of the device: what it will cover.
    ///
    /// # Errors
    /// What the device says to the writes.
    pub fn ticket(&mut self) -> Result<Mark, DeviceError> {
        self.wait()?;
        Ok(self.covered.mark())
    }

    /// That flush is done.
    pub fn flushed(&mut self, ticket: Mark) {
        self.flushes += 1;
        self.covered.cover(ticket);
    }

    /// When something happens that a mark waits for: a flush is answered, or one may be submitted.
    pub fn due(&self, mark: Mark) -> Option<Time> {
        self.covered.due(self.time, mark)
    }

    /// Flushes count for what was submitted, answered or not: a planted bug.
    pub(crate) fn count_flushes_early(&mut self) {
        self.covered.early = true;
    }
}
