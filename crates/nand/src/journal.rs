//! The recent durable operations, with what is needed to take each back. A power cut is the
//! image as it stands less what had not ended.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{BlockId, Time};

use crate::BlockImage;
use crate::image::BlockMeta;

/// What a durable operation did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpKind {
    /// Programmed a page.
    Program,
    /// Erased a block.
    Erase,
    /// Marked a block bad.
    MarkBad,
}

/// One durable operation.
#[derive(Clone, Debug)]
pub struct OpRecord {
    /// Its number.
    pub op: u64,
    /// What it did.
    pub kind: OpKind,
    /// Where.
    pub block: BlockId,
    /// Page programmed; 0 for an erase.
    pub page: u32,
    /// The request time it was booked at.
    pub booked: Time,
    /// When the cells began to change.
    pub start: Time,
    /// When it was done.
    pub end: Time,
    pub(crate) before: Option<Box<(BlockMeta, Arc<BlockImage>)>>,
}

/// The recent operations in order of their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    pub records: VecDeque<OpRecord>,
}

impl Journal {
    /// Forgets what ended by `now`, from the oldest on. What has ended can no longer be cut.
    pub fn prune(&mut self, now: Time) {
        while self.records.front().is_some_and(|record| record.end <= now) {
            self.records.pop_front();
        }
    }
}
