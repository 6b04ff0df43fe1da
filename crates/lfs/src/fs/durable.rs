//! The durable checkpoint, and what was made since the mount.
//!
//! | what | promise |
//! | --- | --- |
//! | last | as it lies on media, with its CRC, in pack `pack`; the next one goes to the other |
//! | SIT bitmap | which copy of each table block that checkpoint names |
//! | made | by what asked for them, since the mount |
//! | frozen | handed over but for its last block: a cut leaves it or `last`; one at most |

use std::collections::{BTreeMap, BTreeSet};

use block::Time;

use super::Trigger;
use super::stats::CheckpointTime;
use crate::disk::{CAUSES, Mark};
use crate::format::{Block, Checkpoint, u32_at};
use crate::{BlockAddr, FsError, Nid, Now, Stamp};

/// What is counted of a checkpoint.
pub(super) struct Counted {
    pub(super) trigger: Trigger,
    pub(super) dirty: u32,
    /// Blocks written before it.
    pub(super) before: [u64; CAUSES],
    pub(super) time: CheckpointTime,
    /// When its present phase began.
    pub(super) last: Time,
}

/// A frozen checkpoint.
pub(super) struct Frozen {
    checkpoint: Checkpoint,
    at: BlockAddr,
    block: Box<Block>,
    sit_bitmap: Vec<u8>,
    nat_bitmap: Vec<u8>,
    mark: Mark,
    counted: Counted,
    unsaved: BTreeSet<Nid>,
}

impl Frozen {
    /// All of it but its last block was handed over before `mark`.
    pub fn new(
        (at, block): (BlockAddr, Box<Block>),
        (sit_bitmap, nat_bitmap): (Vec<u8>, Vec<u8>),
        mark: Mark,
        counted: Counted,
        unsaved: BTreeSet<Nid>,
    ) -> Result<Frozen, FsError> {
        let made = Checkpoint::decode(&block);
        let checkpoint = made.ok_or(FsError::Corrupt("a checkpoint just made"))?;
        Ok(Frozen { checkpoint, at, block, sit_bitmap, nat_bitmap, mark, counted, unsaved })
    }
    pub fn version(&self) -> u64 {
        self.checkpoint.version
    }
    /// Behind what must be durable before its last block is written.
    pub fn mark(&self) -> Mark {
        self.mark
    }
    /// Its last block, where that goes, and its version.
    pub fn end(&self) -> (BlockAddr, Box<Block>, u64) {
        (self.at, self.block.clone(), self.version())
    }
    /// What it will make durable.
    pub fn unsaved(&self) -> impl Iterator<Item = Nid> + '_ {
        self.unsaved.iter().copied()
    }
}

/// See above.
pub(super) struct Checkpoints {
    last: Checkpoint,
    crc: u32,
    pack: usize,
    sit_bitmap: Vec<u8>,
    at: Time,
    /// By the wall clock.
    stamp: Stamp,
    made: BTreeMap<Trigger, u64>,
    begun: BTreeMap<Trigger, u64>,
    frozen: Option<Frozen>,
}

impl Checkpoints {
    /// The one that a mount found.
    pub fn found(last: Checkpoint, crc: u32, pack: usize, now: Now) -> Checkpoints {
        let sit_bitmap = last.sit_bitmap.clone();
        Checkpoints {
            last,
            crc,
            pack,
            sit_bitmap,
            at: now.at,
            stamp: now.wall,
            made: BTreeMap::new(),
            begun: BTreeMap::new(),
            frozen: None,
        }
    }
    /// One is frozen.
    pub fn freeze(&mut self, frozen: Frozen) {
        *self.begun.entry(frozen.counted.trigger).or_insert(0) += 1;
        self.frozen = Some(frozen);
    }
    pub fn frozen(&self) -> Option<&Frozen> {
        self.frozen.as_ref()
    }
    /// What is behind the last block of the frozen one is durable.
    pub fn flushed(&mut self, now: Time) {
        if let Some(Frozen { counted, .. }) = &mut self.frozen {
            counted.time.pack = now.since(counted.last);
            counted.last = now;
        }
    }
    /// The frozen one is durable, in the other pack: its NAT bitmap, and what is counted of it.
    pub fn made(&mut self, now: Now, clock: Time) -> Option<(Vec<u8>, Counted)> {
        let Frozen { checkpoint, block, sit_bitmap, nat_bitmap, mut counted, .. } =
            self.frozen.take()?;
        (self.last, self.crc, self.pack) = (checkpoint, u32_at(&block[..], 4092), 1 - self.pack);
        (self.sit_bitmap, self.at, self.stamp) = (sit_bitmap, now.at, now.wall);
        *self.made.entry(counted.trigger).or_insert(0) += 1;
        counted.time.end = clock.since(counted.last);
        Some((nat_bitmap, counted))
    }
    /// Checkpoints frozen, by what asked for them.
    pub fn begun(&self) -> &BTreeMap<Trigger, u64> {
        &self.begun
    }
    pub fn last(&self) -> &Checkpoint {
        &self.last
    }
    /// CRC of its last block, which what is written after it carries.
    pub fn crc(&self) -> u32 {
        self.crc
    }
    /// The pack that the next one goes to.
    pub fn next_pack(&self) -> usize {
        1 - self.pack
    }
    pub fn sit_bitmap(&self) -> &[u8] {
        &self.sit_bitmap
    }
    /// When it was made.
    pub fn at(&self) -> Time {
        self.at
    }
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }
    /// Checkpoints made, by what asked for them.
    pub fn by_trigger(&self) -> &BTreeMap<Trigger, u64> {
        &self.made
    }
    pub fn count(&self) -> u64 {
        self.made.values().sum()
    }
}
