//! A stack from what the user asked for: what keeps the bytes, what lies above it, and its power
//! switch.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::Bytes;
use block::Medium;
use live::{FileMedium, ImageDrive, LiveError};
use remap::LogError;
use ssd::{Config, ConfigError, Origin, Params};

use crate::disk::{
    CutDrive, Disk, DiskError, LogDisk, MediumDisk, Meter, Metered, ModelDisk, NamedMedium,
    PaperDisk, RamDisk, ReadOnly, Recorded, Recorder, Timing,
};
use crate::power::{NoSwitch, Open, Power, Switch};

/// The name that stands for the drive which lives on an image.
pub const ON_IMAGE: &str = "image";

/// What keeps the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Backing {
    /// Memory.
    Ram(Bytes),
    /// A file, as it is; made with this size if it is not there.
    Image(PathBuf, Option<Bytes>),
    /// A raw block device, as it is.
    Device(PathBuf),
    /// A modelled drive in memory: a preset, and keys set beside it.
    Ssd(String, Vec<String>),
    /// A modelled drive on an image; made with this capacity if it is not there.
    SsdImage(PathBuf, Option<Bytes>),
}

/// The layer that turns random writes into sequential ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remap {
    /// None: pass-through, the baseline.
    Off,
    /// Ours.
    Varve,
    /// As paper 1 has it.
    Paper,
}

impl Remap {
    /// A stack in words, with this layer above what is `below`.
    fn above(self, below: String) -> String {
        match self {
            Remap::Off => below,
            Remap::Varve => format!("host log over {below}"),
            Remap::Paper => format!("paper 1's log over {below}"),
        }
    }
}

/// A stack, as the user asks for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StackOptions {
    /// What keeps the bytes.
    pub backing: Backing,
    /// What lies above it.
    pub remap: Remap,
    /// What the host log reads is compared with its checksums.
    pub verify: bool,
    /// When a modelled drive answers.
    pub timing: Timing,
    /// The power can be cut, and what is left is drawn from this.
    pub cut_seed: Option<u64>,
    /// Refuses whatever would change it.
    pub read_only: bool,
    /// A trace of what is asked of it is written here; nothing is there yet.
    pub record: Option<PathBuf>,
}

/// Why there is no stack.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The options do not fit together, or ask for what is not there.
    #[error("{0}")]
    Options(String),
    /// The file or device cannot be used.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Somebody else has it.
    #[error("{}: in use by another process", path.display())]
    InUse {
        /// Which.
        path: PathBuf,
    },
    /// The drive's configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The drive's image.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// A layer did not start.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// A stack that runs.
#[derive(Clone, Debug)]
pub struct Stack {
    /// What it is, in words.
    pub name: String,
    /// What is served.
    pub disk: Arc<dyn Disk>,
    /// Its switch.
    pub power: Arc<dyn Power>,
    /// What is asked of it.
    pub meter: Arc<Meter>,
    /// The trace of what is asked of it, if one is written.
    pub recorder: Option<Arc<Recorder>>,
}

impl Stack {
    /// A clean stop: what was acknowledged is durable, the next start quick and the trace whole. With
    /// the power off nothing is written to the disk any more.
    ///
    /// # Errors
    /// The disk's, or what kept the trace from being whole.
    pub fn stop(&self) -> Result<(), StackError> {
        let closed = match self.power.state().on && !self.disk.capabilities().read_only {
            true => self.disk.close(),
            false => Ok(()),
        };
        let traced = self.recorder.as_ref().map_or(Ok(()), |recorder| {
            let path = recorder.path().to_path_buf();
            recorder.finish().map(drop).map_err(|error| StackError::Io { path, error })
        });
        // Of two errors that of the data counts more.
        closed?;
        traced
    }
}

/// What is served, and its switch.
type Served = (Arc<dyn Disk>, Arc<dyn Power>);

/// The layers above a medium, for each power-on: the one place where a remap layer is plugged in.
fn layers(remap: Remap, verify: bool) -> Open {
    match remap {
        Remap::Off => Box::new(|medium| Ok(Arc::new(MediumDisk::new(medium)?))),
        Remap::Varve => Box::new(move |medium| {
            let log = LogDisk::open_or_format(medium, verify);
            Ok(Arc::new(log.map_err(|error| std::io::Error::other(way_out(&error, verify)))?))
        }),
        Remap::Paper => Box::new(|medium| {
            let log = PaperDisk::open_or_format(medium).map_err(std::io::Error::other)?;
            Ok(Arc::new(log))
        }),
    }
}

/// An error of the host log, and what can be done about it.
fn way_out(error: &LogError, verify: bool) -> String {
    match error {
        LogError::Unverified => format!("{error}: --verify off serves it as it is"),
        LogError::Corrupt(_) if verify => format!(
            "{error} (`varve remap check` says more; --verify off serves what is left, if anything, \
             read-only: it may be older than what was flushed)"
        ),
        _ => error.to_string(),
    }
}

impl StackOptions {
    /// Starts the stack.
    ///
    /// # Errors
    /// [`StackError`].
    pub fn build(&self) -> Result<Stack, StackError> {
        self.check()?;
        let (name, disk, power) = match &self.backing {
            Backing::Ram(size) => {
                let ram = Arc::new(RamDisk::new(whole(*size)?)?);
                let name = format!("ram, {}", size.human());
                // Nothing lies between the client and the memory.
                let bare = self.remap == Remap::Off && self.cut_seed.is_none();
                let (disk, power) = match bare {
                    true => (ram as Arc<dyn Disk>, no_seed()),
                    false => self.over(ram)?,
                };
                (name, disk, power)
            }
            Backing::Image(path, size) => {
                let (medium, made) = open_file(path, *size, self.read_only)?;
                let served = self.over(Arc::new(medium));
                if made && served.is_err() {
                    unmake(path);
                }
                let (disk, power) = served?;
                (format!("file {}", path.display()), disk, power)
            }
            Backing::Device(path) => {
                let medium = open_device(path, self.read_only)?;
                let (disk, power) = self.over(Arc::new(medium))?;
                (format!("device {}", path.display()), disk, power)
            }
            Backing::Ssd(preset, keys) => {
                let params = params(preset, keys)?;
                let drive = CutDrive::new(&params, self.cut_seed.unwrap_or(1))?;
                let disk = Arc::new(ModelDisk::new(drive, self.timing));
                (format!("modelled drive {preset} in memory"), Arc::clone(&disk) as _, disk as _)
            }
            Backing::SsdImage(path, size) => {
                let (disk, power) = self.on_image(path, *size)?;
                (format!("modelled drive on {}", path.display()), disk, power)
            }
        };
        let name = self.remap.above(name);
        let disk = if self.read_only { Arc::new(ReadOnly(disk)) } else { disk };
        let meter = Arc::new(Meter::default());
        let disk: Arc<dyn Disk> = Arc::new(Metered::new(disk, Arc::clone(&meter)));
        let (disk, recorder) = match &self.record {
            None => (disk, None),
            Some(path) => {
                let io = |error| StackError::Io { path: path.clone(), error };
                let recorder = Arc::new(Recorder::create(path, &name).map_err(io)?);
                let recorded: Arc<dyn Disk> = Arc::new(Recorded::new(disk, Arc::clone(&recorder)));
                (recorded, Some(recorder))
            }
        };
        Ok(Stack { name, disk, power, meter, recorder })
    }

    fn check(&self) -> Result<(), StackError> {
        let modelled = matches!(self.backing, Backing::Ssd(..) | Backing::SsdImage(..));
        let wrong = |what: &str| Err(StackError::Options(what.to_string()));
        if modelled && self.remap != Remap::Off {
            return wrong("--remap lies over memory, a file or a device, not over --ssd");
        }
        if self.read_only && self.remap != Remap::Off {
            return wrong("--remap writes when it opens: not with --read-only");
        }
        if !self.verify && self.remap != Remap::Varve {
            return wrong(
                "--verify off: only the host log (--remap varve) has checksums of what it reads",
            );
        }
        if self.timing == Timing::Model && !matches!(self.backing, Backing::Ssd(..)) {
            return wrong("--timing model needs a modelled drive in memory (--ssd PRESET)");
        }
        if self.read_only && self.cut_seed.is_some() {
            return wrong("--cut-seed: nothing can be lost of what may only be read");
        }
        Ok(())
    }

    /// The layers over `medium`, with a switch if there is a seed.
    fn over(&self, medium: Arc<dyn Medium>) -> Result<Served, StackError> {
        switched(layers(self.remap, self.verify), medium, self.cut_seed)
    }

    fn on_image(&self, path: &Path, size: Option<Bytes>) -> Result<Served, StackError> {
        let timing = self.timing;
        if let (false, Some(size)) = (path.exists(), size) {
            drop(ImageDrive::create(path, size)?);
        }
        if self.cut_seed.is_none() {
            let disk = Arc::new(ModelDisk::new(ImageDrive::open(path)?, timing));
            return Ok((disk, no_seed()));
        }
        let file = Arc::new(open_file(path, None, false)?.0);
        let open: Open = Box::new(move |medium| {
            let drive = ImageDrive::open_on(medium).map_err(std::io::Error::other)?;
            Ok(Arc::new(ModelDisk::new(drive, timing)))
        });
        switched(open, file, self.cut_seed)
    }
}

fn switched(open: Open, medium: Arc<dyn Medium>, seed: Option<u64>) -> Result<Served, StackError> {
    match seed {
        None => Ok((open(medium)?, no_seed())),
        Some(seed) => {
            let switch = Arc::new(Switch::new(medium, seed, open)?);
            Ok((Arc::clone(&switch) as _, switch))
        }
    }
}

fn no_seed() -> Arc<dyn Power> {
    Arc::new(NoSwitch("it was started without --cut-seed"))
}

fn whole(size: Bytes) -> Result<u64, StackError> {
    match size.0 {
        0 => Err(StackError::Options("a size of 0 bytes".to_string())),
        bytes if bytes.is_multiple_of(4096) => Ok(bytes),
        bytes => Err(StackError::Options(format!("{bytes} bytes: expected a multiple of 4096"))),
    }
}

fn params(preset: &str, keys: &[String]) -> Result<Params, StackError> {
    let mut config: Config = ssd::preset(preset)?.config;
    let origin = |from: &str| Origin { from: from.to_string(), source: None, tag: None };
    for pair in keys {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(StackError::Options(format!("--set {pair}: expected KEY=VALUE")));
        };
        config.set(key.trim(), value.trim(), origin("--set"))?;
    }
    // A drive that is served holds data, and comes back after a cut.
    config.set("nand.oob", "full", origin("serve"))?;
    Ok(config.resolve()?)
}

/// What was made for a stack that did not start goes again: the next start would take it as it is.
fn unmake(path: &Path) {
    // If it stays, who looks finds it, and the error that is told is the one that matters.
    let _ = std::fs::remove_file(path);
}

/// A file, and whether it was made.
fn open_file(
    path: &Path,
    size: Option<Bytes>,
    read_only: bool,
) -> Result<(NamedMedium<FileMedium>, bool), StackError> {
    let io = |error| StackError::Io { path: path.to_path_buf(), error };
    let mut options = OpenOptions::new();
    options.read(true).write(!read_only);
    let (file, made) = match (path.exists(), size) {
        (false, Some(size)) if !read_only => {
            let bytes = whole(size)?;
            let file = options.create_new(true).open(path).map_err(io)?;
            if let Err(error) = file.set_len(bytes) {
                unmake(path);
                return Err(io(error));
            }
            (file, true)
        }
        _ => (options.open(path).map_err(io)?, false),
    };
    let kind = file.metadata().map_err(io)?.file_type();
    if !kind.is_file() {
        let hint = if kind.is_block_device() { " (a device: --device)" } else { "" };
        return Err(StackError::Options(format!("{}: not a file{hint}", path.display())));
    }
    own(path, &file)?;
    Ok((named(path, file), made))
}

/// A file whose failures are told by its name.
fn named(path: &Path, file: File) -> NamedMedium<FileMedium> {
    NamedMedium::new(path.display().to_string(), FileMedium(file))
}

fn open_device(path: &Path, read_only: bool) -> Result<NamedMedium<FileMedium>, StackError> {
    let io = |error| StackError::Io { path: path.to_path_buf(), error };
    let mut options = OpenOptions::new();
    options.read(true).write(!read_only);
    // The system refuses a device that is mounted.
    options.custom_flags(rustix::fs::OFlags::EXCL.bits() as i32);
    let file = options.open(path).map_err(io)?;
    if !file.metadata().map_err(io)?.file_type().is_block_device() {
        return Err(StackError::Options(format!("{}: not a block device", path.display())));
    }
    own(path, &file)?;
    Ok(named(path, file))
}

/// One process at a time.
fn own(path: &Path, file: &File) -> Result<(), StackError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(StackError::InUse { path: path.to_path_buf() }),
        Err(TryLockError::Error(error)) => Err(StackError::Io { path: path.to_path_buf(), error }),
    }
}
