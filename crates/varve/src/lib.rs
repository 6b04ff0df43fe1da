//! A flash storage stack in user space, as a library: the parts of it that programs are written against.
//!
//! | | |
//! | --- | --- |
//! | [`sim`] | scenarios and their runs: a workload on a modelled drive, in virtual time |
//! | [`drive`] | the modelled drive; policies of your own for its buffer and its cleaning |
//! | [`trace`] | readers and generators of requests |
//! | [`log`] | the host log: random writes become sequential ones (paper 1) |
//! | [`fs`] | a log-structured file system on the F2FS format (paper 2) |
//! | [`image`] | a drive that lives on a file, with transactions (paper 4) |
//! | [`stack`] | all of these above each other, from one text |
//! | [`block`] | what they share: requests, devices, units, time |
//!
//! Time is an argument: a device is told when a request comes and says when it is done. Nothing here looks at
//! a clock, and the same seed gives the same bytes.
//!
//! The examples are what a program of one's own begins with: `policy`, `volume`, `transaction`, `sweep`.

pub use block;

/// Scenarios and their runs.
///
/// ```
/// let mut scenario = varve::sim::Scenario::default();
/// for pair in ["preset=paper-nolog", "scale=1/64"] {
///     scenario.set_pair(&format!("drive.{pair}"))?;
/// }
/// scenario.set("workload.gen", "zipf,size=64MiB,read=50,count=20k")?;
/// let document = varve::sim::run(&scenario)?;
/// assert!(document.number(0, varve::sim::metric::WAF).is_some_and(|waf| waf >= 0.0));
/// # Ok::<(), varve::sim::LabError>(())
/// ```
///
/// A sweep whose points are run one by one, wherever: each has an id and its result is a text; put together
/// they are the document of [`run`](sim::run).
///
/// ```
/// use varve::sim::{Finished, Index, Merged, Scenario, Study, VERSION, Watch};
/// let mut scenario = Scenario::default();
/// scenario.set("workload.gen", "zipf,size=16MiB,read=50,count=2k")?;
/// scenario.set("sweep.buffer.policy", "lru,s3-fifo")?;
/// let index: Index = Study::new(&scenario, VERSION)?.index().clone();
/// let mut results: Vec<Finished> = Vec::new();
/// for (_, id) in index.ids() {
///     let worker = Study::new(&scenario, VERSION)?;
///     let text = worker.finish(id, Watch::nobody())?.text();
///     results.push(Finished::read(&text).expect("as it was written"));
/// }
/// let merged = Merged::of_results(&index, &results)?;
/// assert_eq!(merged.document().text(), varve::sim::run(&scenario)?.text());
/// # Ok::<(), varve::sim::LabError>(())
/// ```
pub mod sim {
    pub use lab::cite::{Citation, cite};
    pub use lab::replay::Watch;
    pub use lab::scenario::Scenario;
    pub use lab::study::{Finished, Found, Index, Kind, Merged, Part, Store, Study, Table};
    pub use lab::{Document, Experiment, LabError, Point};
    pub use lab::{explain, hits, metric};

    /// Runs all points of a scenario, on as many threads as there are cores. [`Experiment::run`] can be
    /// watched and stopped.
    ///
    /// # Errors
    /// What of the scenario does not fit, and a run that fails.
    pub fn run(scenario: &Scenario) -> Result<Document, LabError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Experiment::new(scenario)?.run(threads, VERSION, Watch::nobody())
    }

    /// The version that documents carry. A program with policies of its own gives [`Study::new`] another one, that
    /// says which they are: results of other policies are not taken for these then.
    pub const VERSION: &str = env!("CARGO_PKG_VERSION");
}

/// The modelled drive: a [`block::BlockDevice`] in virtual time.
///
/// ```
/// use varve::block::{BlockDevice, Lba, Request, Sectors, Time};
/// let mut config = varve::drive::preset("paper-nolog")?.config;
/// config.scale("1/64", "here")?;
/// let mut drive = varve::drive::Drive::new(&config.resolve()?)?;
/// let done = drive.submit(Time::ZERO, Request::write(Lba(8), Sectors(8))).expect("written");
/// drive.submit(done, Request::flush()).expect("flushed");
/// assert!(drive.stats().nand.programs_total() > 0);
/// # Ok::<(), varve::drive::ConfigError>(())
/// ```
pub mod drive {
    pub use ssd::{
        Access, Admission, Batches, BufferShape, Choice, ClosedLine, Config, ConfigError, Drive,
        Frame, HitAccess, HitSim, List, Params, Policy, PolicyInfo, PolicyOption, Pool, ReqInfo,
        Setup, Stats, Stream, Victim, VictimInfo, VictimSpec, add_policy, add_victim, policies,
        preset, presets, replace_policy, replace_victim, victims,
    };
}

/// Readers and generators of requests.
///
/// ```
/// use varve::trace::{Source, parse_recipe};
/// let mut source = parse_recipe("uniform,size=1MiB,read=0,count=100", 1)?.open();
/// let mut records = Vec::new();
/// source.fill(&mut records)?;
/// assert!(!records.is_empty());
/// # Ok::<(), varve::trace::SourceError>(())
/// ```
pub mod trace {
    pub use workload::generate::parse_recipe;
    pub use workload::read::{ReadOptions, open};
    pub use workload::{Record, Source, SourceError, TraceOp};
}

/// The host log.
///
/// ```
/// use varve::block::{BlockDevice, Lba, RamDevice, Request, Sectors};
/// use varve::log::{HostLog, LogOptions};
/// let mut log = HostLog::format(RamDevice::new(Sectors(64 << 11)), &LogOptions::default())?;
/// let mut at = log.now();
/// for place in [800, 40, 1600] {
///     at = log.submit(at, Request::write(Lba(place), Sectors(8))).expect("written");
/// }
/// let (device, _) = log.close(at)?;
/// let log = HostLog::open(device, at, &LogOptions::default())?;
/// assert_eq!(log.engine().mapped(), 3);
/// # Ok::<(), varve::log::LogError>(())
/// ```
pub mod log {
    pub use remap::{Counters, HostLog, LiveLog, LogError, LogOptions};
}

/// The file system: [`Fs`](fs::Fs) over any [`block::BlockDevice`].
///
/// ```
/// use varve::block::{Bytes, RamDevice, Sectors};
/// use varve::fs::{FileType, Fs, FsOptions, MkfsOptions, NewInode, Nid, Now, mkfs};
/// let device = RamDevice::new(Sectors(128 << 11));
/// let (device, done) = mkfs(device, &MkfsOptions::new([1; 16], 1), Now::default())?;
/// let now = Now { at: done, ..Now::default() };
/// let mut volume = Fs::mount(device, FsOptions::default(), now)?;
/// let new = NewInode { permissions: 0o644, uid: 0, gid: 0 };
/// let file = volume.create(now, Nid::ROOT, b"hello", FileType::File, new, (0, 0))?;
/// volume.write(now, file, Bytes(0), b"world")?;
/// volume.fsync(now, file)?;
/// # Ok::<(), varve::fs::FsError>(())
/// ```
pub mod fs {
    pub use lfs::format::FileType;
    pub use lfs::fs::{Cleaning, NewInode, Scj};
    pub use lfs::{Fs, FsError, FsOptions, MkfsOptions, Nid, Now, Stamp, mkfs};
}

/// A drive that lives on a file, with transactions.
///
/// ```
/// use varve::block::{Bytes, Data, Lpn, Time, Transactional};
/// let folder = std::env::temp_dir().join(format!("varve-doc-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let mut drive = varve::image::ImageDrive::create(&folder.join("drive"), Bytes(64 << 20))?;
/// let tid = drive.tx_begin()?;
/// drive.tx_write(Time::ZERO, tid, Lpn(3), Data::Write(&[7; 4096]))?;
/// drive.tx_commit(Time::ZERO, &[tid])?;
/// # drop(drive);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod image {
    pub use live::{Damage, ImageDrive, LiveError};
}

/// Layers above each other, from one text: what `varve serve --stack` and scenarios are given.
///
/// ```
/// use varve::block::{BlockDevice, Bytes, Lba, Request, Sectors};
/// use varve::stack::{Description, Device, Modelled};
/// let said: Description = "ram(64 MiB)+log(gc.victim=cost-benefit)".parse()?;
/// let mut stack = Modelled::ram(Bytes(64 << 20)).below(&said.layers, "memory")?;
/// let at = stack.now();
/// stack.submit(at, Request::write(Lba(0), Sectors(8))).expect("written");
/// # Ok::<(), varve::stack::StackError>(())
/// ```
pub mod stack {
    pub use ::stack::live::Stack;
    pub use ::stack::{Base, Description, Device, Layer, LayerCounts, Modelled, StackError};
}
