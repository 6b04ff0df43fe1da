//! Layers over whatever keeps the bytes. Those above a switch are started anew at each power-on; those
//! below it stay.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::Medium;
use live::ImageDrive;
use remap::LogError;

use super::{Ground, Served};
use crate::StackError;
use crate::description::{Keys, Layer};
use crate::disk::{
    DataRecorded, Disk, DiskError, DiskMedium, LogDisk, MediumDisk, ModelDisk, PaperDisk, ReadOnly,
    Recorded, Recorder, Timing,
};
use crate::power::{DriveSupply, NoSwitch, Power, Switch};

/// A layer that can be started, more than once.
enum Ready {
    /// A modelled drive on the image that is the medium.
    DriveImage,
    Log(Keys),
    PaperLog(Keys),
    Record(Arc<Recorder>),
    /// With data: the log, and what it says it is of.
    RecordData(PathBuf, String),
    ReadOnly,
}

impl Ready {
    /// It looks at what passes, and has nothing to start.
    fn passes(&self) -> bool {
        matches!(self, Ready::Record(_) | Ready::ReadOnly)
    }
}

/// All layers of a stack.
pub(super) struct Layers {
    timing: Timing,
    /// Below the switch, if there is one.
    below: Vec<Ready>,
    /// What a cut leaves is drawn from this.
    seed: Option<u64>,
    /// Above the switch.
    above: Vec<Ready>,
}

impl Layers {
    /// Makes what outlives a power cut; `name` says what a trace is of.
    pub(super) fn prepare(layers: &[Layer], name: &str) -> Result<Layers, StackError> {
        let (mut below, mut above, mut seed) = (Vec::new(), Vec::new(), None);
        let mut timing = Timing::Off;
        for layer in layers {
            let ready = match layer {
                Layer::RealTime => {
                    timing = Timing::Model;
                    continue;
                }
                Layer::Cut { seed: drawn, .. } => {
                    seed = Some(*drawn);
                    continue;
                }
                Layer::Log(keys) => Ready::Log(keys.clone()),
                Layer::PaperLog(keys) => Ready::PaperLog(keys.clone()),
                Layer::Record(path) if with_data(path) && seed.is_some() => {
                    let what = "record(FILE.vlog): expected below cut(SEED): one log, one life";
                    return Err(StackError::Options(what.to_string()));
                }
                Layer::Record(path) if with_data(path) => {
                    Ready::RecordData(path.clone(), name.to_string())
                }
                Layer::Record(path) => {
                    let io = |error| StackError::Io { path: path.clone(), error };
                    Ready::Record(Arc::new(Recorder::create(path, name).map_err(io)?))
                }
                Layer::ReadOnly => Ready::ReadOnly,
                Layer::Lfs(_) => {
                    let what = "lfs: it has files, and blocks are asked for here";
                    return Err(StackError::Options(what.to_string()));
                }
            };
            if seed.is_some() { &mut above } else { &mut below }.push(ready);
        }
        Ok(Layers { timing, below, seed, above })
    }

    pub(super) fn timing(&self) -> Timing {
        self.timing
    }

    pub(super) fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Whether the lowest layer refuses whatever would change what is below.
    pub(super) fn only_read(&self) -> bool {
        matches!(self.below.first(), Some(Ready::ReadOnly))
    }

    /// Whether anything needs the bytes as a medium.
    pub(super) fn need_medium(&self) -> bool {
        self.seed.is_some() || !self.below.iter().all(Ready::passes)
    }

    /// The trace that is written, the highest if there are several.
    pub(super) fn recorders(&self) -> Vec<Arc<Recorder>> {
        let all = self.below.iter().chain(&self.above);
        all.filter_map(|ready| match ready {
            Ready::Record(to) => Some(Arc::clone(to)),
            _ => None,
        })
        .collect()
    }

    /// The same above a drive that lives on an image, which comes up anew after each cut.
    pub(super) fn with_drive_image(mut self) -> Layers {
        let lowest = if self.below.is_empty() { &mut self.above } else { &mut self.below };
        lowest.insert(0, Ready::DriveImage);
        self
    }

    /// Starts them over `ground`.
    pub(super) fn over(self, ground: Ground) -> Result<Served, StackError> {
        let Layers { mut below, seed, mut above, .. } = self;
        let ground = match ground {
            Ground::Drive(drive) if below.is_empty() || seed.is_none() => {
                // Its power goes, and comes back, whether or not a seed was named.
                below.append(&mut above);
                if below.iter().all(Ready::passes) {
                    return Ok((raise(&below, Ground::Disk(Arc::clone(&drive) as _))?, drive));
                }
                let (supply, first) = DriveSupply::new(drive);
                let open = Box::new(move |medium| raise(&below, Ground::Medium(medium)));
                let switch = Arc::new(Switch::new(Box::new(supply), first, open)?);
                return Ok((Arc::clone(&switch) as _, switch));
            }
            Ground::Drive(drive) => Ground::Disk(drive),
            other => other,
        };
        let Some(seed) = seed else { return Ok((raise(&below, ground)?, no_seed())) };
        let medium: Arc<dyn Medium> = match (below.is_empty(), ground) {
            (true, Ground::Medium(medium)) => medium,
            (_, ground) => Arc::new(DiskMedium::new(raise(&below, ground)?)),
        };
        let open = Box::new(move |medium| raise(&above, Ground::Medium(medium)));
        let switch = Arc::new(Switch::of_medium(medium, seed, open)?);
        Ok((Arc::clone(&switch) as _, switch))
    }
}

/// A record with data, by the name of its file.
fn with_data(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "vlog")
}

fn no_seed() -> Arc<dyn Power> {
    Arc::new(NoSwitch("it was started without --cut-seed"))
}

/// Starts layers: the one place where a layer is plugged in.
fn raise(layers: &[Ready], ground: Ground) -> Result<Arc<dyn Disk>, DiskError> {
    let mut ground = ground;
    for layer in layers {
        let disk: Arc<dyn Disk> = match layer {
            Ready::DriveImage => {
                let drive = ImageDrive::open_on(ground.medium());
                Arc::new(ModelDisk::new(drive.map_err(std::io::Error::other)?, Timing::Off))
            }
            Ready::Log(keys) => {
                let log = LogDisk::open_or_format(ground.medium(), keys);
                Arc::new(log.map_err(|error| std::io::Error::other(way_out(&error, keys)))?)
            }
            Ready::PaperLog(keys) => {
                let log = PaperDisk::open_or_format(ground.medium(), keys);
                Arc::new(log.map_err(std::io::Error::other)?)
            }
            Ready::Record(to) => Arc::new(Recorded::new(ground.disk()?, Arc::clone(to))),
            Ready::RecordData(path, of) => {
                Arc::new(DataRecorded::create(ground.disk()?, path, of)?)
            }
            Ready::ReadOnly => Arc::new(ReadOnly(ground.disk()?)),
        };
        ground = Ground::Disk(disk);
    }
    ground.disk()
}

impl Ground {
    fn medium(self) -> Arc<dyn Medium> {
        match self {
            Ground::Medium(medium) => medium,
            Ground::Disk(disk) => Arc::new(DiskMedium::new(disk)),
            Ground::Drive(drive) => Arc::new(DiskMedium::new(drive)),
        }
    }

    fn disk(self) -> Result<Arc<dyn Disk>, DiskError> {
        Ok(match self {
            Ground::Medium(medium) => Arc::new(MediumDisk::new(medium)?),
            Ground::Disk(disk) => disk,
            Ground::Drive(drive) => drive,
        })
    }
}

/// An error of the host log, and what can be done about it.
fn way_out(error: &LogError, keys: &Keys) -> String {
    match error {
        LogError::Unverified => format!("{error}: --verify off serves it as it is"),
        LogError::Corrupt(_) if keys.get("verify") != Some("clean") => format!(
            "{error} (`varve remap check` says more; --verify off serves what is left, if anything, \
             read-only: it may be older than what was flushed)"
        ),
        _ => error.to_string(),
    }
}
