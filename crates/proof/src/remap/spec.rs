//! What a plan of a host log says: the disk, the mode and its options.

use block::{BlockDevice, CutDevice, DiskFault, Plant, Sectors, Span, parse_switch, parse_time};
use nand::{Fault, Outcome};
use remap::paper::{PaperLog, PaperOptions};
use remap::{HostLog, LogOptions, Planted};

use crate::atlas;
use crate::plan::{Plan, PlanError};
use crate::remap::oracle::Promise;
use crate::shared::Remains;
use crate::stamp::SECTORS;

/// The kinds of host logs, as a plan and a stack call them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogKind {
    /// The one to use.
    Log,
    /// The paper's, as written.
    PaperLog,
}

impl LogKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            LogKind::Log => "log",
            LogKind::PaperLog => "paper-log",
        }
    }
}

/// Which log.
#[derive(Clone, Debug)]
pub enum RemapMode {
    /// The paper's, as written.
    Paper(PaperOptions),
    /// The one to use, with its options and perhaps a planted bug.
    Log(LogOptions, Plant<Planted>),
}

/// Who does what the engine of the one to use says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shell {
    /// In virtual time.
    Modelled,
    /// Threads, as in a server, whose turns are drawn from this seed.
    Live(u64),
}

/// What a host log is built from.
#[derive(Clone, Debug)]
pub struct RemapSpec {
    /// Which log, with its options.
    pub mode: RemapMode,
    /// Who drives it.
    pub shell: Shell,
    disk: Disk,
    /// Until the first loss of power.
    faults: Vec<DiskFault>,
    pub(crate) promise: Promise,
    pages: u32,
    made: Made,
}

/// The disk below.
#[derive(Clone, Copy, Debug, Default)]
struct Disk {
    blocks: u32,
    write: Span,
    flush: Span,
    lies: bool,
    strict: bool,
}

/// What making the log took of the disk: faults come later.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Made {
    pub(crate) ops: u64,
    pub(crate) reads: u64,
}

impl RemapSpec {
    /// The log of a plan.
    ///
    /// # Errors
    /// If its configuration makes none.
    pub fn of(plan: &Plan) -> Result<RemapSpec, PlanError> {
        let mut disk = Disk { blocks: 512, ..Disk::default() };
        let (mut paper, mut log) = (PaperOptions::default(), LogOptions::default());
        let mut shell = Shell::Modelled;
        for (key, text) in &plan.config {
            let set = match key.split_once('.') {
                Some(("remap", "mode")) => Ok(()),
                Some(("remap", "live")) => {
                    text.parse().map(|seed| shell = Shell::Live(seed)).map_err(|_| {
                        "a number: the seed of the order in which its threads run".to_string()
                    })
                }
                Some(("disk", name)) => disk.set(name, text),
                Some(("paper-log", name)) => paper.set(name, text),
                Some(("log", name)) => log.set(name, text).map_err(|e| e.to_string()),
                Some(("varve", name)) => Err(format!("`log.{name}`, as it is called now")),
                Some(("paper", name)) => Err(format!("`paper-log.{name}`, as it is called now")),
                _ => Err("a key of remap, disk, log or paper-log".to_string()),
            };
            set.map_err(|e| PlanError::Config(format!("`{key} = {text}`: expected {e}")))?;
        }
        let mode = match plan.config.get("remap.mode").map(String::as_str) {
            Some("paper-log") => RemapMode::Paper(paper),
            Some("log") => {
                RemapMode::Log(log, crate::planted::of(plan, Planted::ALL, "the host log")?)
            }
            _ => return Err(PlanError::Config("`remap.mode`: expected log or paper-log".into())),
        };
        let faults = plan.faults.iter().map(disk_fault).collect::<Result<Vec<_>, _>>()?;
        let damaged =
            disk.lies || plan.faults.iter().any(|fault| atlas::outcome(fault) == Outcome::Detected);
        // A misdirected write is missing in one place and damages another.
        let misdirected = |fault: &DiskFault| matches!(fault, DiskFault::Misdirected { .. });
        let single = !disk.lies && faults.len() <= 1 && !faults.iter().any(misdirected);
        let may_fail = faults.iter().any(|fault| matches!(fault, DiskFault::Op { .. }));
        let promise = match &mode {
            // It promises nothing; asked is what every device owes.
            RemapMode::Paper(_) => {
                Promise { atomic: 1, may_fail, damaged, verified: false, single }
            }
            RemapMode::Log(options, _) => {
                let atomic = options.atomic_blocks();
                Promise { atomic, may_fail, damaged, verified: options.verify, single }
            }
        };
        let mut spec =
            RemapSpec { mode, shell, disk, faults, promise, pages: 0, made: Made::default() };
        spec.measure().map_err(PlanError::Config)?;
        Ok(spec)
    }

    /// Makes the log once, to see whether it can be made and what it offers.
    fn measure(&mut self) -> Result<(), String> {
        let device = CutDevice::new(Sectors(u64::from(self.disk.blocks) * SECTORS as u64));
        let (capacity, device) = match &self.mode {
            RemapMode::Paper(options) => {
                let log = PaperLog::format(device, options).map_err(|e| e.to_string())?;
                (log.capacity(), log.device().clone())
            }
            RemapMode::Log(options, _) => {
                let log = HostLog::format(device, options).map_err(|e| e.to_string())?;
                (log.capacity(), log.device().clone())
            }
        };
        self.pages = (capacity.0 / SECTORS as u64) as u32;
        self.made = Made { ops: device.ops(), reads: device.reads() };
        Ok(())
    }

    /// 4 KiB pages offered.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// What making the log took of the disk.
    pub(crate) fn made(&self) -> Made {
        self.made
    }

    /// A new disk, with its faults.
    pub(crate) fn new_disk(&self) -> CutDevice {
        let blank = CutDevice::new(Sectors(u64::from(self.disk.blocks) * SECTORS as u64));
        self.with_habits(blank).with_faults(self.faults.clone())
    }

    /// The same disk with power again.
    pub(crate) fn disk_of(&self, image: Remains) -> CutDevice {
        self.with_habits(CutDevice::power_on(image.disk()))
    }

    fn with_habits(&self, disk: CutDevice) -> CutDevice {
        let d = &self.disk;
        disk.with_latency(d.write, d.flush).lying(d.lies).strict(d.strict)
    }
}

impl Disk {
    fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        let time = || parse_time(text).map_err(|e| e.expected.to_string());
        match name {
            "blocks" => {
                let blocks = text.parse().ok().filter(|n| (8..=1 << 20).contains(n));
                self.blocks = blocks.ok_or("8 to 1048576 blocks")?;
            }
            "write" => self.write = time()?,
            "flush" => self.flush = time()?,
            "lies" => self.lies = parse_switch(text).map_err(|e| e.expected)?,
            "strict" => self.strict = parse_switch(text).map_err(|e| e.expected)?,
            _ => return Err("one of blocks, write, flush, lies, strict".to_string()),
        }
        Ok(())
    }
}

/// A fault of a plan as one of a disk: the same names mean the same thing one layer up.
fn disk_fault(fault: &Fault) -> Result<DiskFault, PlanError> {
    Ok(match *fault {
        Fault::ProgramFail { at, always } => DiskFault::Op { op: at, always },
        Fault::ProgramNoop { at } => DiskFault::Phantom { op: at },
        Fault::MisdirectWrite { at } => DiskFault::Misdirected { op: at, by: 1 + at % 5 },
        Fault::ReadUncorrectable { read } => DiskFault::Read { read },
        Fault::BitRot { at, oob } => DiskFault::Rot { op: at, head: oob },
        ref other => {
            let name = atlas::name(other);
            return Err(PlanError::Malformed(format!("`{name}` is no fault of a disk")));
        }
    })
}
