//! What a point is: a digest of everything that its result depends on. Two points of one id have the
//! same bytes wherever they are run, so a result that is there need not be made again.
//!
//! In an id are: the engine (its sources and its version), the layout of results, the seed, the
//! swept keys as the result names them, every key of the drive and of what stands above it, what is replayed
//! and how, and the bytes and the name of each trace. Not in it are the title, the folder of a
//! trace, where a value was written down, and the other points of the sweep.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use sha2::{Digest, Sha256};
use stack::description::text_of;
use workload::read::{file_sha256, files};

use crate::input::{DEMO_NAME, Origin, TraceFile, demo_trace};
use crate::result::SCHEMA;
use crate::{Experiment, LabError, Point};

/// Fingerprint of the sources that results come from.
pub const ENGINE: &str = env!("VARVE_ENGINE");
/// Digits of an id.
pub const ID_DIGITS: usize = 32;

/// A trace that an experiment reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Where it was read.
    pub path: String,
    /// Digest of its bytes, as they lie in the file.
    pub sha256: String,
    /// Its length.
    pub bytes: u64,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest of a text.
pub(super) fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// The files of a trace, each with its name, which a reader may look at.
type Files = Vec<(Input, String)>;

/// The traces of an experiment, by their names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Inputs(BTreeMap<TraceFile, Files>);

impl Inputs {
    /// Reads all of them.
    ///
    /// # Errors
    /// One that cannot be read.
    pub fn of(experiment: &Experiment) -> Result<Inputs, LabError> {
        let mut inputs = Inputs::default();
        for point in experiment.points() {
            for origin in experiment.workload(point).workload().origins() {
                inputs.add(origin)?;
            }
        }
        Ok(inputs)
    }

    fn add(&mut self, origin: &Origin) -> Result<(), LabError> {
        match origin {
            Origin::Recipe(_) => {}
            Origin::Demo => {
                let bytes = demo_trace();
                self.0.entry(PathBuf::from(DEMO_NAME).into()).or_insert_with(|| {
                    let sha256 = hex(&Sha256::digest(bytes));
                    let (path, bytes) = (DEMO_NAME.to_string(), bytes.len() as u64);
                    vec![(Input { path, sha256, bytes }, DEMO_NAME.to_string())]
                });
            }
            Origin::Files(files) => {
                for file in files {
                    if !self.0.contains_key(file) {
                        self.0.insert(file.clone(), read(file)?);
                    }
                }
            }
        }
        Ok(())
    }

    /// All files, in the order of the paths of their traces.
    pub fn list(&self) -> Vec<Input> {
        self.0.values().flatten().map(|(input, _)| input.clone()).collect()
    }

    /// What an id has of a trace: the digest and the name of each file, not its folder.
    fn of_file(&self, file: &TraceFile) -> String {
        let of = |(input, name): &(Input, String)| format!("{} {name:?}", input.sha256);
        self.0[file].iter().map(of).collect::<Vec<_>>().join(" ")
    }

    fn demo(&self) -> &str {
        let demo = self.0.get(&PathBuf::from(DEMO_NAME).into());
        demo.and_then(|files| files.first()).map_or("", |(input, _)| &input.sha256)
    }
}

/// Reads the files of a trace.
fn read(file: &TraceFile) -> Result<Files, LabError> {
    let first = file.located()?;
    let one = |path: PathBuf| {
        let sha256 = match file {
            // What was found has it.
            TraceFile::Pinned(pinned) => pinned.sha256().to_string(),
            TraceFile::Path(_) => file_sha256(&path).map_err(|e| LabError::io(&path, e))?,
        };
        let bytes = std::fs::metadata(&path).map_err(|e| LabError::io(&path, e))?.len();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let named = if path == first { file.to_string() } else { path.display().to_string() };
        Ok((Input { path: named, sha256, bytes }, name))
    };
    match file {
        TraceFile::Pinned(_) => Ok(vec![one(first.clone())?]),
        TraceFile::Path(_) => files(&first)?.into_iter().map(one).collect(),
    }
}

/// The id of a point.
pub(super) fn id(experiment: &Experiment, point: &Point, inputs: &Inputs, version: &str) -> String {
    let mut text = format!("{SCHEMA}\nengine {ENGINE}\nversion {version}\nseed {}\n", point.seed);
    for (key, value) in &point.params {
        let _ = writeln!(text, "swept {key} = {value:?}");
    }
    for (key, value, _) in point.config.entries() {
        let _ = writeln!(text, "drive {key} = {value:?}");
    }
    for (key, value) in point.stack.keys() {
        let _ = writeln!(text, "remap {key} = {value:?}");
    }
    let _ = writeln!(text, "layers {:?}", text_of(point.stack.written()));
    let _ = writeln!(text, "demo {}", inputs.demo());
    text += &experiment.setting(point).replayed(&|file| inputs.of_file(file));
    digest(&text)[..ID_DIGITS].to_string()
}
