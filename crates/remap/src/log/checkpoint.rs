//! Checkpoints in virtual time: pages and body go out a few blocks with each write of the client, and
//! the header follows when their flush has ended, while requests go on. The older root stays what
//! recovery finds until the flush of the header has ended.

use block::{BlockDevice, DeviceError, Time};

use super::HostLog;
use super::below::Payload;
use crate::error::LogError;
use crate::geometry::{BLOCK, Pba};
use crate::planted::Planted;
use crate::recovery::checkpoint;

/// A part of the log's volume between two checkpoints: within it one is written.
const PART: u64 = 4;

/// A checkpoint under way.
#[derive(Debug)]
pub(super) enum Staged {
    /// Pages and body are being written.
    Body(Body),
    /// A flush is under way.
    Flush {
        /// When it ends.
        ready: Time,
        /// Where the root's next header belongs, and the header.
        header: (Pba, Box<[u8; BLOCK]>),
        /// The other one is durable then.
        second: bool,
    },
}

/// One contiguous write of a checkpoint after the other, in small pieces.
#[derive(Debug)]
pub(super) struct Body {
    bytes: Vec<u8>,
    /// Where they belong, and how many blocks of them are written.
    at: Pba,
    done: u32,
    /// The root's place and header, when its body is what is being written.
    root: Option<(Pba, Box<[u8; BLOCK]>)>,
    /// Blocks of the whole checkpoint, about.
    total: u64,
    /// User blocks written when the last piece was, and what is owed beside whole blocks: in parts
    /// of the volume between two checkpoints.
    user: u64,
    rest: u64,
}

impl Body {
    fn left(&self) -> u32 {
        (self.bytes.len() / BLOCK) as u32 - self.done
    }
}

impl Staged {
    /// Blocks that are booked and not yet written.
    pub(super) fn owed(&self) -> u64 {
        match self {
            Staged::Body(body) => u64::from(body.left()) + if body.root.is_some() { 2 } else { 0 },
            Staged::Flush { second, .. } => 2 - u64::from(*second),
        }
    }
}

impl<D: BlockDevice> HostLog<D> {
    /// Begins a checkpoint if one is due.
    pub(super) fn begin_checkpoint(&mut self) -> Result<(), DeviceError> {
        let due = self.engine.wants_checkpoint() || self.engine.wants_freeing_checkpoint();
        if self.staged.is_some() || !due {
            return Ok(());
        }
        if self.engine.has(Planted::RootHeaderBeforeBody) {
            return self.checkpoint(false).map(|_| ());
        }
        self.seal_and_issue()?;
        self.engine.checkpoint_begin(false);
        let pages = u64::from(self.engine.checkpoint_pages_left());
        self.staged = Some(Staged::Body(Body {
            bytes: std::mem::take(&mut self.body),
            at: Pba(0),
            done: 0,
            root: None,
            total: pages + pages.div_ceil(64) + u64::from(self.engine.geometry().root),
            user: self.engine.counters().user,
            rest: 0,
        }));
        Ok(())
    }

    /// Writes of a checkpoint's body what the client's writes since the last piece owe.
    pub(super) fn write_body_in_pace(&mut self) -> Result<(), DeviceError> {
        let Some(Staged::Body(body)) = &mut self.staged else { return Ok(()) };
        let user = self.engine.counters().user;
        let volume = self.engine.checkpoint_volume();
        body.rest += (user - body.user) * body.total * PART;
        body.user = user;
        let due = body.rest / volume;
        if due > 0 {
            if let Some(Staged::Body(body)) = &mut self.staged {
                body.rest -= due * volume;
            }
            return self.write_body(due);
        }
        Ok(())
    }

    /// Writes so many blocks of the body; behind the last a flush begins.
    fn write_body(&mut self, blocks: u64) -> Result<(), DeviceError> {
        let Some(Staged::Body(mut body)) = self.staged.take() else { return Ok(()) };
        let mut due = blocks;
        while due > 0 {
            if body.left() == 0 {
                if let Some(header) = body.root.take() {
                    let flushed = self.below.flush_device();
                    let ready = self.stop_on(flushed)?;
                    body.bytes.clear();
                    self.body = body.bytes;
                    self.staged = Some(Staged::Flush { ready, header, second: false });
                    return Ok(());
                }
                self.next_piece(&mut body);
            }
            let n = body.left().min(u32::try_from(due).unwrap_or(u32::MAX));
            let (at, from) = (Pba(body.at.0 + body.done), body.done as usize * BLOCK);
            let bytes = &body.bytes[from..from + n as usize * BLOCK];
            let written = self.below.put(at, n, Payload::Bytes(bytes));
            self.stop_on(written)?;
            body.done += n;
            due -= u64::from(n);
        }
        self.staged = Some(Staged::Body(body));
        Ok(())
    }

    /// The next record of map pages, or the root's body.
    fn next_piece(&mut self, body: &mut Body) {
        body.done = 0;
        match self.engine.checkpoint_pages(&mut body.bytes) {
            Some(write) => body.at = write.pba,
            None => {
                let (at, root) = self.engine.checkpoint_root(&mut body.bytes);
                body.at = Pba(at.0 + 1);
                body.root = Some((at, Box::new(root.encode())));
            }
        }
    }

    /// Takes the steps of a checkpoint under way whose time has come.
    pub(super) fn step_checkpoint(&mut self) -> Result<(), DeviceError> {
        while self.failed.is_none() && let Some(Staged::Flush {
            header: (at, header), second, ..
        }) = self.staged.take_if(
            |staged| matches!(staged, Staged::Flush { ready, .. } if *ready <= self.below.clock),
        ) {
            let put = self.below.put(at, 1, Payload::Bytes(&header[..])).map(|_| ());
            self.stop_on(put)?;
            if second {
                // Whatever flush comes next makes it durable, long before this root is written again.
                self.engine.checkpoint_commit(&mut self.freed);
                continue;
            }
            let flushed = self.below.flush_device();
            let ready = self.stop_on(flushed)?;
            let last = Pba(at.0 + self.engine.geometry().root - 1);
            self.staged = Some(Staged::Flush { ready, header: (last, header), second: true });
        }
        Ok(())
    }

    /// Lets time pass until the checkpoint under way is over; whether there was one.
    pub(super) fn finish_checkpoint(&mut self) -> Result<bool, DeviceError> {
        let any = self.staged.is_some();
        while let Some(staged) = &self.staged {
            self.may_write()?;
            match staged {
                Staged::Body(_) => self.write_body(u64::MAX)?,
                Staged::Flush { ready, .. } => {
                    self.below.clock = self.below.clock.max(*ready);
                    self.step_checkpoint()?;
                }
            }
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
