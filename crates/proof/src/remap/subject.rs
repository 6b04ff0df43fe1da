//! A host log over a disk whose power can be cut, as a subject.

use block::{
    BlockDevice, CutDevice, DeviceError, DiskCut, DiskImage, Fate, Op, Request, Sectors, Time,
};
use nand::{Cut, Instant, Left, Torn};
use remap::paper::PaperLog;

use crate::failure::{Contract, Failure};
use crate::remap::oracle::{LogSubject, Promise};
use crate::remap::spec::{RemapMode, RemapSpec};
use crate::subject::{DurableKind, Subject};

/// A log, or what refused to be one.
enum Stack {
    Paper(Box<PaperLog<CutDevice>>),
    /// Power-on failed.
    Refused(String),
}

/// A host log under proof.
pub struct HostSubject {
    stack: Stack,
    capacity: Sectors,
}

impl HostSubject {
    fn disk(&self) -> Option<&CutDevice> {
        match &self.stack {
            Stack::Paper(log) => Some(log.device()),
            Stack::Refused(_) => None,
        }
    }

    fn off() -> DeviceError {
        DeviceError::ReadOnly("the log was not opened")
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

impl Subject for HostSubject {
    type Spec = RemapSpec;
    type Image = DiskImage;

    fn build(spec: &RemapSpec) -> Result<HostSubject, Failure> {
        let broken = |e: String| Failure::new(Contract::C10, format!("no log: {e}"));
        let stack = match &spec.mode {
            RemapMode::Paper(options) => {
                let log = PaperLog::format(spec.new_disk(), options);
                Stack::Paper(Box::new(log.map_err(|e| broken(e.to_string()))?))
            }
        };
        Ok(HostSubject { stack, capacity: capacity(spec) })
    }

    fn mount(spec: &RemapSpec, image: DiskImage) -> Result<HostSubject, Failure> {
        let disk = spec.disk_of(image);
        let opened = match &spec.mode {
            RemapMode::Paper(options) => {
                let log = PaperLog::open(disk, options);
                log.map(|log| Stack::Paper(Box::new(log))).map_err(|e| e.to_string())
            }
        };
        let stack = opened.unwrap_or_else(Stack::Refused);
        Ok(HostSubject { stack, capacity: capacity(spec) })
    }

    fn ready(&self) -> Time {
        match &self.stack {
            Stack::Paper(log) => log.now(),
            Stack::Refused(_) => Time::ZERO,
        }
    }
    fn ops(&self) -> u64 {
        self.disk().map_or(0, CutDevice::ops)
    }

    fn op(&self, op: u64) -> Option<DurableKind> {
        Some(match self.disk()?.op(op)? {
            Op::Flush => DurableKind::Flush,
            _ => DurableKind::Program,
        })
    }

    fn has_pairs(&self) -> bool {
        false
    }

    /// The harshest end: what no flush covers is gone.
    fn image(&self) -> Result<DiskImage, Failure> {
        let disk =
            self.disk().ok_or_else(|| Failure::new(Contract::C1, "the log was not opened"))?;
        Ok(disk.image_at_end(Fate::Old))
    }

    fn image_at_cut(&self, cut: &Cut) -> Option<(DiskImage, Time)> {
        self.disk()?.image_at_cut(&disk_cut(cut))
    }

    fn forget(&mut self, before: Time) {
        match &mut self.stack {
            Stack::Paper(log) => log.device_mut().forget(before),
            Stack::Refused(_) => {}
        }
    }

    fn check(&self) -> Result<(), Failure> {
        match &self.stack {
            Stack::Paper(log) => {
                let (stats, written) = (log.stats(), log.device().written());
                if stats.adds_up() && stats.backing * 8 == written.0 {
                    return Ok(());
                }
                let what = format!("{stats:?}, {written} sectors written");
                Err(Failure::new(Contract::C8, what))
            }
            Stack::Refused(_) => Ok(()),
        }
    }

    fn event_hash(&self) -> u64 {
        self.disk().map_or(0, CutDevice::event_hash)
    }
}

fn capacity(spec: &RemapSpec) -> Sectors {
    Sectors(u64::from(spec.pages()) * 8)
}

impl BlockDevice for HostSubject {
    fn capacity(&self) -> Sectors {
        self.capacity
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        match &mut self.stack {
            Stack::Paper(log) => log.submit(at, request),
            Stack::Refused(_) => Err(HostSubject::off()),
        }
    }
}

impl LogSubject for HostSubject {
    fn promise(spec: &RemapSpec) -> Promise {
        spec.promise
    }
    fn refused(&self) -> Option<&str> {
        match &self.stack {
            Stack::Refused(why) => Some(why),
            Stack::Paper(_) => None,
        }
    }
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        match &mut self.stack {
            Stack::Paper(log) => log.stop(at),
            Stack::Refused(_) => Err(HostSubject::off()),
        }
    }
}
