//! Checkpoints in virtual time: what they write goes out beside requests, and their flushes end while
//! requests go on.

use block::{BlockDevice, DeviceError, Time};

use super::HostLog;
use super::below::Payload;
use crate::engine::{HeadKind, Work};

impl<D: BlockDevice> HostLog<D> {
    /// Begins a checkpoint of everything admitted so far.
    pub(super) fn begin_checkpoint(&mut self, clean: bool) -> Result<(), DeviceError> {
        self.may_write()?;
        self.end_batch()?;
        let mut feed = Self::feed(&mut self.gather, &mut self.reverse, &self.engine);
        self.engine.seal_all(&mut feed);
        self.issue()?;
        self.engine.checkpoint_begin(clean);
        Ok(())
    }

    /// Takes a step of the checkpoint under way.
    pub(super) fn step_checkpoint(&mut self, step: Work) -> Result<(), DeviceError> {
        match step {
            Work::Write(most) => {
                let mut left = most;
                while let Some(write) = self.engine.checkpoint_write(left, &mut self.body) {
                    let (body, stream) = (Payload::Bytes(&self.body), HeadKind::Meta.stream());
                    let put = self.below.put(write.pba, write.blocks, body, stream);
                    self.stop_on(put)?;
                    left -= write.blocks;
                }
            }
            Work::RootFlush => {
                let flushed = self.below.flush_device();
                self.root_flush = Some(self.stop_on(flushed)?);
                self.engine.root_flush_begin();
            }
            Work::RootHeader => {
                if let Some((at, header)) = self.engine.root_header() {
                    let (body, stream) = (Payload::Bytes(&header[..]), HeadKind::Meta.stream());
                    let put = self.below.put(at, 1, body, stream);
                    self.stop_on(put)?;
                }
                self.engine.root_header_written(&mut self.freed);
            }
            _ => {}
        }
        Ok(())
    }

    /// Lets time pass until the checkpoint under way is over.
    fn finish_checkpoint(&mut self) -> Result<(), DeviceError> {
        while let Some(step) = self.engine.checkpoint_next(true) {
            self.may_write()?;
            match (step, self.root_flush) {
                (Work::Wait, Some(ready)) => {
                    self.below.clock = self.below.clock.max(ready);
                    self.settle()?;
                }
                _ => self.step_checkpoint(step)?,
            }
        }
        self.discard_freed()
    }

    /// A whole checkpoint of now, after which nothing is written: waited for.
    pub(super) fn last_checkpoint(&mut self) -> Result<Time, DeviceError> {
        self.finish_checkpoint()?;
        self.begin_checkpoint(true)?;
        self.finish_checkpoint()?;
        Ok(self.below.done)
    }
}
