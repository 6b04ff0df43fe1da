//! Calls that are kept until somebody asks for them.

use varve_sqlite_vfs::event::{Call, Event};
use varve_sqlite_vfs::vfs::Kind;

use super::Tap;

/// What was done to a file, without its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// Read so many bytes at an offset.
    Read(u64, u64),
    /// Wrote so many bytes at an offset.
    Write(u64, u64),
    /// Cut to a length; a deleted file has none.
    Cut(u64),
    /// Made durable.
    Sync,
    /// The transaction is over and kept.
    Commit,
    /// A checkpoint begins.
    CheckpointStart,
    /// A checkpoint has copied its pages.
    CheckpointDone,
}

/// Keeps the calls of one database's files, in their order.
#[derive(Debug, Default)]
pub struct Recorder(Vec<(Kind, Heard)>);

impl Recorder {
    /// The calls since the last time.
    pub fn take(&mut self) -> Vec<(Kind, Heard)> {
        std::mem::take(&mut self.0)
    }
}

impl Tap for Recorder {
    fn event(&mut self, event: &Event<'_>) {
        let heard = match event.call {
            Call::Read { at, bytes } if bytes > 0 => Heard::Read(at, bytes),
            Call::Write { at, data } if !data.is_empty() => Heard::Write(at, data.len() as u64),
            Call::Truncate(size) => Heard::Cut(size),
            Call::Delete(_) => Heard::Cut(0),
            Call::Sync => Heard::Sync,
            Call::Commit => Heard::Commit,
            Call::CheckpointStart => Heard::CheckpointStart,
            Call::CheckpointDone => Heard::CheckpointDone,
            _ => return,
        };
        self.0.push((event.kind, heard));
    }
}
