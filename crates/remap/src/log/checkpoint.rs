//! Checkpoints in virtual time: pages and body are written at once, and the header follows when
//! their flush has ended, while requests go on. The older root stays what recovery finds until the
//! flush of the header has ended.

use block::{BlockDevice, DeviceError, Time};

use super::HostLog;
use super::below::Payload;
use crate::error::LogError;
use crate::geometry::{BLOCK, Pba};
use crate::planted::Planted;
use crate::recovery::checkpoint;

/// A checkpoint under way.
#[derive(Debug)]
pub(super) struct Staged {
    /// When the flush of what was written last ends.
    ready: Time,
    /// Where the root lies and its header, until that is written.
    header: Option<(Pba, Box<[u8; BLOCK]>)>,
}

impl Staged {
    /// Blocks that are booked and not yet written.
    pub(super) fn owed(&self) -> u64 {
        if self.header.is_some() { 2 } else { 0 }
    }
}

impl<D: BlockDevice> HostLog<D> {
    /// Begins a checkpoint if one is due.
    pub(super) fn begin_checkpoint(&mut self) -> Result<(), DeviceError> {
        if self.staged.is_some() || !self.engine.wants_checkpoint() {
            return Ok(());
        }
        if self.engine.has(Planted::RootHeaderBeforeBody) {
            return self.checkpoint(false).map(|_| ());
        }
        self.seal_and_issue()?;
        let result = self.write_body();
        let staged = self.stop_on(result)?;
        self.staged = Some(staged);
        Ok(())
    }

    fn write_body(&mut self) -> Result<Staged, DeviceError> {
        let mut buffer = std::mem::take(&mut self.scratch);
        self.engine.checkpoint_begin(false);
        while let Some(write) = self.engine.checkpoint_pages(&mut buffer) {
            self.below.put(write.pba, write.blocks, Payload::Bytes(&buffer))?;
        }
        let (at, root) = self.engine.checkpoint_root(&mut buffer);
        let blocks = (buffer.len() / BLOCK) as u32;
        self.below.put(Pba(at.0 + 1), blocks, Payload::Bytes(&buffer))?;
        self.scratch = buffer;
        let ready = self.below.flush_device()?;
        Ok(Staged { ready, header: Some((at, Box::new(root.encode()))) })
    }

    /// Takes the steps of a checkpoint under way whose time has come.
    pub(super) fn step_checkpoint(&mut self) -> Result<(), DeviceError> {
        while self.failed.is_none()
            && let Some(staged) = self.staged.take_if(|staged| staged.ready <= self.below.clock)
        {
            match staged.header {
                Some((at, header)) => {
                    let result = self.write_header(at, &header);
                    let ready = self.stop_on(result)?;
                    self.staged = Some(Staged { ready, header: None });
                }
                None => self.engine.checkpoint_commit(&mut self.freed),
            }
        }
        Ok(())
    }

    fn write_header(&mut self, at: Pba, header: &[u8; BLOCK]) -> Result<Time, DeviceError> {
        let last = Pba(at.0 + self.engine.geometry().root - 1);
        self.below.put(at, 1, Payload::Bytes(header))?;
        self.below.put(last, 1, Payload::Bytes(header))?;
        self.below.flush_device()
    }

    /// Lets time pass until the checkpoint under way is over; whether there was one.
    pub(super) fn finish_checkpoint(&mut self) -> Result<bool, DeviceError> {
        let any = self.staged.is_some();
        while let Some(staged) = &self.staged {
            self.may_write()?;
            self.below.clock = self.below.clock.max(staged.ready);
            self.step_checkpoint()?;
        }
        self.discard_freed()?;
        Ok(any)
    }

    fn seal_and_issue(&mut self) -> Result<(), DeviceError> {
        self.may_write()?;
        let mut feed = Self::feed(&mut self.gather, &mut self.reverse, &self.engine);
        self.engine.seal_all(&mut feed);
        self.issue().map(|_| ())
    }

    /// A whole checkpoint of now, waited for.
    pub(super) fn checkpoint(&mut self, clean: bool) -> Result<Time, DeviceError> {
        self.finish_checkpoint()?;
        self.seal_and_issue()?;
        let result = checkpoint(&mut self.engine, &mut self.below, clean);
        let freed = result.map_err(|error| match error {
            LogError::Device(error) => error,
            other => DeviceError::Io(other.to_string()),
        });
        let freed = self.stop_on(freed)?;
        self.freed.extend(freed);
        self.discard_freed()?;
        Ok(self.below.done)
    }
}
