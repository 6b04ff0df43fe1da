//! A scenario: a drive, a workload, a way to replay it, and what to sweep. One text describes a
//! whole experiment; a command line is turned into the same thing.
//!
//! ```toml
//! title = "Random overwrites on a small drive"
//! seed = [1, 2, 3]
//!
//! [drive]
//! preset = "femu-default"       # or file = "my-drive.toml"
//! scale = "1/64"                # a smaller drive of as many lines; "fit" = as small as the workload
//! capacity = "256 MiB"          # any key of `varve list keys`
//! gc.victim = "greedy"
//!
//! [remap]                       # the host log above it
//! mode = "log"                  # off, log, paper-log; and any option of the log
//!
//! [workload]
//! trace = "hm_0.csv.zst"        # or gen = "uniform,size=256MiB", or [tenant.NAME] tables, or
//!                               # { sha256 = "..", url = ".." }: in $VARVE_TRACES on every host
//! fit = "exact"                 # exact, wrap, compact, compact:SIZE
//!
//! # [tenant.NAME]               # trace or gen, stretch, loop, loop-discard, and how its traces are read, as in
//! # app = "src1_1"              # [workload]: format, app (one volume of several), time-unit, columns ..
//!
//! [replay]
//! mode = "closed"               # open, closed, dependent, untimed
//! qd = 32
//! precondition = "steady"       # none, seq, steady, steady(workload)
//! share = "fifo"                # or A:B=3:1: a queue for each application, taken in turn by weight
//! slowdown = false              # each application alone, too: what it loses by the others
//!
//! [sweep]
//! workload.trace = ["hm_0.csv.zst", "@demo"]  # any key of the workload and the replay, drive.preset,
//! buffer.policy = ["lru", "cflru"]            # drive.file, drive.scale, remap.KEY, stack, keys of the drive
//! ```

mod build;
mod entries;
mod sweep;
mod write;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use block::Bytes;
use ssd::Config;
use workload::read::files as files_of;

use crate::files::Reads;
use crate::input::{Origin, TraceFile, Workload};
use crate::replay::{MeasureAfter, Mode, Precondition, Speed};
use crate::{LabError, StackConfig};

pub use build::{share_of, twice};
pub use entries::{Entry, Place, entries};
pub use sweep::Sweep;

/// How a scenario's workload is replayed, before the drive is known.
#[derive(Clone, Debug)]
pub struct Replay {
    /// When requests are submitted.
    pub mode: Mode,
    /// How much faster than the workload says.
    pub speed: Speed,
    /// State of the drive at the start.
    pub precondition: Precondition,
    /// Units read before they are written are written first.
    pub preload: bool,
    /// Where the measured part begins.
    pub measure_after: Option<MeasureAfter>,
    /// A flush after so many writes.
    pub flush_every: Option<u64>,
    /// A queue for each application, and their weights, as text.
    pub share: Option<String>,
    /// Each application is replayed alone, too.
    pub slowdown: bool,
}

/// The scale of a drive that is as small as its workload lets it be.
pub const FIT: &str = "fit";

/// Requests in flight of a closed replay that does not say.
pub const DEFAULT_DEPTH: u32 = 32;

impl Default for Replay {
    fn default() -> Self {
        Replay {
            mode: Mode::Open,
            speed: Speed::ONE,
            precondition: Precondition::None,
            preload: false,
            measure_after: None,
            flush_every: None,
            share: None,
            slowdown: false,
        }
    }
}

/// A whole experiment.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// One line for people.
    pub title: String,
    /// Seeds; every combination of the sweeps is run with each.
    pub seeds: Vec<u64>,
    /// What stands above the drive.
    pub stack: StackConfig,
    /// The workload.
    pub workload: Workload,
    /// The replay.
    pub replay: Replay,
    /// Keys that are swept, the first slowest.
    pub sweeps: Vec<Sweep>,
    base: Option<(Base, Place)>,
    scale: Option<(String, Place)>,
    /// By what the drive was scaled before its values were written down.
    scaled: Option<(String, Place)>,
    drive: Vec<Entry>,
    /// Requests in flight, and whether that is of each application.
    depth: Option<u32>,
    per_app: bool,
    mode: Option<String>,
    /// Folder that relative paths of traces and drives start from.
    folder: PathBuf,
}

#[derive(Clone, Debug)]
enum Base {
    Preset(String),
    File(PathBuf),
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            title: String::new(),
            seeds: vec![1],
            stack: StackConfig::default(),
            workload: Workload::default(),
            replay: Replay::default(),
            sweeps: Vec::new(),
            base: None,
            scale: None,
            scaled: None,
            drive: Vec::new(),
            depth: None,
            per_app: false,
            mode: None,
            folder: PathBuf::new(),
        }
    }
}

impl Scenario {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// File, line, what was found and what was expected.
    pub fn load(path: &Path) -> Result<Scenario, LabError> {
        let text = std::fs::read_to_string(path).map_err(|e| {
            LabError::Input(format!("{}: {e}; expected a scenario file", path.display()))
        })?;
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        Scenario::from_text(&path.display().to_string(), &text, folder)
    }

    /// Reads a scenario from the text of a file called `name`; relative paths in it start from
    /// `folder`.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn from_text(name: &str, text: &str, folder: PathBuf) -> Result<Scenario, LabError> {
        let mut scenario = Scenario { folder, ..Scenario::default() };
        for entry in entries(name, text)? {
            scenario.apply(entry)?;
        }
        Ok(scenario)
    }

    /// Sets `key=value` as given on a command line; `key` is a key of the scenario or of the
    /// drive. Commas separate the members of a list of `sweep.` and `seed`.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub fn set_pair(&mut self, pair: &str) -> Result<(), LabError> {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(LabError::Input(format!("--set `{pair}`: expected key=value")));
        };
        self.set(key.trim(), value.trim())
    }

    /// Sets one key from its text, as the command line does.
    ///
    /// # Errors
    /// As [`Scenario::set_pair`].
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), LabError> {
        let known = ssd::key(key).is_some() || !build::is_scenario_key(key);
        let key = if known { format!("drive.{key}") } else { key.to_string() };
        let key = match key.strip_prefix("sweep.") {
            Some(swept) => format!("sweep.{}", sweep::key(swept)),
            None => key,
        };
        let list = key == "seed" || key == "seeds" || key.starts_with("sweep.");
        let values = match list {
            true => split_list(value),
            false => vec![value.to_string()],
        };
        self.set_list(&key, values)
    }

    /// Sets one key from the members of a list, as the command line does.
    ///
    /// # Errors
    /// As [`Scenario::set_pair`].
    pub fn set_list(&mut self, key: &str, values: Vec<String>) -> Result<(), LabError> {
        let (key, place) = (key.to_string(), Place::command_line());
        // A later word on the command line replaces a list of the file. A single value beside a
        // list would have no effect, and stand in every result as if it had.
        let replaced = self.sweeps.iter().position(|s| format!("sweep.{}", s.key) == key);
        let before = self.sweeps.len();
        if let Some(place) = replaced {
            self.sweeps.remove(place);
        }
        let plain = key.strip_prefix("drive.").unwrap_or(&key);
        if let Some(sweep) = self.sweeps.iter().find(|s| s.key == plain || s.key == key) {
            let plain = &sweep.key;
            return Err(place.error(format!(
                "`{plain}` = `{}`: `{plain}` is swept ({}); expected sweep.{plain}=VALUE[,VALUE..]",
                values.join(","),
                sweep.place
            )));
        }
        self.folder_for_command_line(|s| {
            s.apply(Entry {
                key: key.clone(),
                values,
                source: None,
                tag: None,
                by: None,
                said: None,
                was: None,
                place,
            })
        })?;
        // In the same place: the order of keys is that of the results, and in their names.
        if let (Some(place), true) = (replaced, self.sweeps.len() == before) {
            self.sweeps[place..].rotate_right(1);
        }
        Ok(())
    }

    /// Paths given on a command line start from the current folder, not from the scenario's.
    fn folder_for_command_line(
        &mut self,
        f: impl FnOnce(&mut Scenario) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let folder = std::mem::take(&mut self.folder);
        let result = f(self);
        self.folder = folder;
        result
    }

    /// Forgets the drive, so that another one can be named.
    pub fn forget_drive(&mut self) {
        self.base = None;
        self.scale = None;
        self.scaled = None;
        self.drive.clear();
    }

    /// What the user should know before a run: values of an imported configuration that have no
    /// counterpart here.
    ///
    /// # Errors
    /// A configuration that cannot be read.
    pub fn notes(&self) -> Result<Vec<String>, LabError> {
        build::notes(self)
    }

    /// The files that it names: drives and traces, the swept ones too.
    pub fn reads(&self) -> Vec<Reads> {
        let files = |origin: &Origin| match origin {
            Origin::Files(files) => files.clone(),
            Origin::Demo | Origin::Recipe(_) => Vec::new(),
        };
        let mut traces: Vec<TraceFile> = self.workload.origins().flat_map(files).collect();
        let mut reads = Vec::new();
        if let Some((Base::File(path), _)) = &self.base {
            reads.push(("drive", path.clone()));
        }
        for sweep in &self.sweeps {
            for file in sweep.values.iter().filter_map(|value| sweep.file(value)) {
                match sweep.key.as_str() {
                    "drive.file" => reads.push(("drive", file)),
                    _ => traces.push(file.into()),
                }
            }
        }
        // One that is not there is read by nobody.
        let traces = traces.iter().filter_map(|trace| trace.located().ok());
        let traces = traces.flat_map(|path| files_of(&path).unwrap_or_else(|_| vec![path]));
        reads.extend(traces.map(|path| ("trace", path)));
        reads
    }

    /// Whether the workload decides how large the drive is.
    pub(crate) fn fits_drive(&self) -> bool {
        self.scale.as_ref().is_some_and(|(text, _)| text == FIT)
    }

    /// The scenario with its drive scaled to hold `extent` bytes, if that is what it asks for:
    /// the smallest of the scaled drives that does.
    ///
    /// # Errors
    /// A drive that is too small even unscaled, or wrong in itself.
    pub(crate) fn settled(&self, extent: Bytes) -> Result<Scenario, LabError> {
        let Some((text, place)) = &self.scale else { return Ok(self.clone()) };
        if text != FIT {
            return Ok(self.clone());
        }
        let with = |n: u64| {
            let scale = (n > 1).then(|| (format!("1/{n}"), place.clone()));
            Scenario { scale, ..self.clone() }
        };
        let capacity = |scenario: &Scenario| -> Result<u64, LabError> {
            let params = without_buffer(scenario.config()?)?.resolve()?;
            Ok(scenario.stack.capacity(&params)?.0)
        };
        let whole = with(1);
        build::has_size(&whole.config()?, FIT, place)?;
        let most = capacity(&whole)?;
        if most < extent.0 {
            let extent = extent.human();
            let what = format!("the whole drive has {most} bytes for a workload of {extent}");
            return Err(place.error(format!(
                "scale = {FIT}: {what}; expected a larger drive, or a workload laid out with `fit`"
            )));
        }
        let config = whole.config()?;
        // What is swept may be what makes a drive of it: a size of the buffer without its policy is none.
        let config = if config.resolve().is_ok() { config } else { without_buffer(config)? };
        for n in config.scales().into_iter().rev() {
            let smaller = with(n);
            if capacity(&smaller).is_ok_and(|bytes| bytes >= extent.0) {
                return Ok(smaller);
            }
        }
        Ok(whole)
    }

    /// The drive before anything is swept.
    ///
    /// # Errors
    /// What is wrong with its values.
    pub fn config(&self) -> Result<Config, LabError> {
        build::config(self)
    }

    /// The replay mode, with the depth it was given.
    pub fn mode(&self) -> Mode {
        self.replay.mode
    }

    /// What is replayed, and how, as text: each trace file by the name that `name` gives it.
    pub(crate) fn replayed(&self, name: &dyn Fn(&TraceFile) -> String) -> String {
        write::replayed(self, name)
    }

    /// The text of a scenario file that repeats this experiment from any folder.
    ///
    /// # Errors
    /// What is wrong with the drive's values.
    pub fn to_toml(&self) -> Result<String, LabError> {
        write::to_toml(self)
    }
}

/// The same drive as far as its size goes, which the buffer has no part in: its policy may be swept, and
/// what the scenario says beside that fit none but the swept ones.
fn without_buffer(mut config: Config) -> Result<Config, LabError> {
    let from = "sized without its buffer".to_string();
    let origin = || ssd::Origin { from: from.clone(), source: None, tag: None };
    if config.is_asked("buffer.size") {
        config.set("buffer.size", "0", origin())?;
    }
    config.set("buffer.policy", "none", origin())?;
    Ok(config)
}

/// Splits at commas outside parentheses: `lru,cflru(window=0.5,x=1)` has two members.
pub fn split_list(text: &str) -> Vec<String> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0i32, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..i].trim().to_string());
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim().to_string());
    parts.retain(|part| !part.is_empty());
    parts
}
