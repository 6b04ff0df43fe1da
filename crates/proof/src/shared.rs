//! A disk whose power can be cut, also while something above it has it, and what the cuts and
//! operations of a plan are there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{CutDevice, DiskCut, Fate, Forward, Op};
use nand::{Cut, Instant, Left, Torn};

use crate::subject::DurableKind;

/// One disk, by several handles.
#[derive(Clone, Debug)]
pub(crate) struct SharedDisk(Arc<Mutex<CutDevice>>);

impl SharedDisk {
    pub(crate) fn new(disk: CutDevice) -> SharedDisk {
        SharedDisk(Arc::new(Mutex::new(disk)))
    }
    pub(crate) fn get(&self) -> MutexGuard<'_, CutDevice> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Forward for SharedDisk {
    type To = CutDevice;
    fn look<R>(&self, look: impl FnOnce(&CutDevice) -> R) -> R {
        look(&self.get())
    }
    fn ask<R>(&mut self, ask: impl FnOnce(&mut CutDevice) -> R) -> R {
        ask(&mut self.get())
    }
}

/// What a cut of a plan means for a disk: `torn` is about the operation under way, `left` about the
/// unflushed ones before it, where "blank" (an erase that looks done) means done.
pub fn disk_cut(cut: &Cut) -> DiskCut {
    let torn = match cut.torn {
        Torn::Nothing => Fate::Old,
        Torn::Prefix => Fate::Half,
        Torn::Garbage => Fate::Garbage,
        Torn::Mixed(seed) => Fate::Mixed(seed),
    };
    let rest = match cut.left {
        Left::Old => Fate::Old,
        Left::Blank => Fate::New,
        Left::Garbage => Fate::Garbage,
        Left::Mixed(seed) => Fate::Mixed(seed),
    };
    DiskCut { op: cut.op, inside: cut.instant == Instant::Inside, torn, rest }
}

/// The same for a disk that keeps pieces whole (C1, C2), each of which is old or new: blocks of 4 KiB,
/// or sectors.
pub(crate) fn whole_cut(cut: &Cut, kept: fn(u64) -> Fate) -> DiskCut {
    let drawn = |salt: u64| kept(cut.op.wrapping_mul(0x9E37) ^ salt);
    let torn = match cut.torn {
        Torn::Nothing => Fate::Old,
        Torn::Prefix => Fate::New,
        Torn::Garbage => drawn(1),
        Torn::Mixed(seed) => kept(seed),
    };
    let rest = match cut.left {
        Left::Old => Fate::Old,
        Left::Blank => Fate::New,
        Left::Garbage => drawn(2),
        Left::Mixed(seed) => kept(seed),
    };
    DiskCut { op: cut.op, inside: cut.instant == Instant::Inside, torn, rest }
}

impl From<Op> for DurableKind {
    /// What an operation that a disk made durable is to a search.
    fn from(op: Op) -> DurableKind {
        match op {
            Op::Flush => DurableKind::Flush,
            _ => DurableKind::Program,
        }
    }
}
