//! The durable checkpoint, and what was made since the mount.
//!
//! | what | promise |
//! | --- | --- |
//! | last | as it lies on media, with its CRC, in pack `pack`; the next one goes to the other |
//! | SIT bitmap | which copy of each table block that checkpoint names |
//! | made | by what asked for them, since the mount |

use std::collections::BTreeMap;

use block::Time;

use super::Trigger;
use crate::format::Checkpoint;
use crate::{Now, Stamp};

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
        }
    }
    /// One was made, in the other pack.
    pub fn made(
        &mut self,
        last: Checkpoint,
        crc: u32,
        sit_bitmap: Vec<u8>,
        trigger: Trigger,
        now: Now,
    ) {
        (self.last, self.crc, self.pack) = (last, crc, 1 - self.pack);
        (self.sit_bitmap, self.at, self.stamp) = (sit_bitmap, now.at, now.wall);
        *self.made.entry(trigger).or_insert(0) += 1;
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
