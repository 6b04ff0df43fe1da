//! What loses its power under a layer, also while the layer has it: a disk, a modelled drive, or a
//! stack over one; and what the cuts of a plan are there.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{
    BlockDevice, CutDevice, DeviceError, DiskCut, DiskImage, Fate, Forward, Op, Request, Sectors,
    Time,
};
use nand::{Cut, Image, Instant, Left, Torn};

use crate::failure::Failure;
use crate::subject::DurableKind;

/// What is left without power.
#[derive(Clone, Debug)]
pub enum Remains {
    /// Of a disk.
    Disk(DiskImage),
    /// Of a modelled drive.
    Flash(Box<Image>),
}

impl Remains {
    /// What is left of a disk.
    ///
    /// # Panics
    /// It is of a drive.
    pub fn disk(self) -> DiskImage {
        match self {
            Remains::Disk(image) => image,
            Remains::Flash(_) => panic!("the remains of a drive, where a disk was"),
        }
    }
}

/// A device whose power can be cut at each of its durable operations, after the fact.
pub(crate) trait Cuttable: BlockDevice + Send {
    /// Durable operations since power-on: they are numbered from 0.
    fn ops(&self) -> u64;
    /// What an operation did, if it can still be cut.
    fn op(&self, op: u64) -> Option<DurableKind>;
    /// Whether a torn program can damage another page.
    fn has_pairs(&self) -> bool {
        false
    }
    /// Its own energy completes what is under way.
    fn saves_itself(&self) -> bool {
        false
    }
    /// The harshest end: what no flush covers is gone.
    fn image(&self) -> Result<Remains, Failure>;
    /// What a cut leaves, and its instant; on a disk it means `disk`.
    fn image_at_cut(&self, cut: &Cut, disk: &DiskCut) -> Option<(Remains, Time)>;
    /// No cut before this time will be asked for.
    fn forget(&mut self, before: Time);
    /// Sectors that it was asked to write since power-on.
    fn written(&self) -> Sectors;
    /// When all that it was asked for is answered.
    fn answered(&self) -> Time;
    /// The hash of everything done since power-on.
    fn event_hash(&self) -> u64;
    /// A clean stop.
    ///
    /// # Errors
    /// The device's.
    fn stop(&mut self) -> Result<(), DeviceError> {
        let at = self.answered();
        self.submit(at, Request::flush()).map(drop)
    }
    /// Its own invariants.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }
}

impl Cuttable for CutDevice {
    fn ops(&self) -> u64 {
        CutDevice::ops(self)
    }
    fn op(&self, op: u64) -> Option<DurableKind> {
        CutDevice::op(self, op).map(DurableKind::from)
    }
    fn image(&self) -> Result<Remains, Failure> {
        Ok(Remains::Disk(self.image_at_end(Fate::Old)))
    }
    fn image_at_cut(&self, _: &Cut, disk: &DiskCut) -> Option<(Remains, Time)> {
        let (image, instant) = CutDevice::image_at_cut(self, disk)?;
        Some((Remains::Disk(image), instant))
    }
    fn forget(&mut self, before: Time) {
        CutDevice::forget(self, before);
    }
    fn written(&self) -> Sectors {
        CutDevice::written(self)
    }
    fn answered(&self) -> Time {
        CutDevice::answered(self)
    }
    fn event_hash(&self) -> u64 {
        CutDevice::event_hash(self)
    }
}

/// One such device, by several handles.
#[derive(Clone)]
pub(crate) struct SharedDisk(Arc<Mutex<Box<dyn Cuttable>>>);

impl SharedDisk {
    pub(crate) fn new(disk: impl Cuttable + 'static) -> SharedDisk {
        SharedDisk(Arc::new(Mutex::new(Box::new(disk))))
    }
    pub(crate) fn get(&self) -> MutexGuard<'_, Box<dyn Cuttable>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Debug for SharedDisk {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedDisk").finish_non_exhaustive()
    }
}

impl Forward for SharedDisk {
    type To = dyn Cuttable;
    fn look<R>(&self, look: impl FnOnce(&Self::To) -> R) -> R {
        look(&**self.get())
    }
    fn ask<R>(&mut self, ask: impl FnOnce(&mut Self::To) -> R) -> R {
        ask(&mut **self.get())
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
