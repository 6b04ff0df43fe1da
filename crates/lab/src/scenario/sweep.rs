//! Keys that take several values in turn: of the drive, of what stands above it, and of the setting,
//! which is all else: traces, presets, the replay.

use std::path::PathBuf;

use super::{Entry, Place, Scenario, build};
use crate::LabError;
use crate::input::DEMO_NAME;
use crate::input::pinned::Pinned;

/// One key and the values it takes in turn.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// A key of the drive's schema, of the stack above it, or of the setting.
    pub key: String,
    /// Its values. Sizes may be a share of the drive: `1%`.
    pub values: Vec<String>,
    /// Where it was asked for.
    pub place: Place,
    /// Folder that relative paths among the values start from.
    pub(super) folder: PathBuf,
}

/// Keys of the drive's part that are no keys of a drive.
const DRIVES: [&str; 3] = ["preset", "file", "scale"];

/// The name under which a key is swept.
pub(super) fn key(text: &str) -> String {
    if DRIVES.contains(&text) { format!("drive.{text}") } else { text.to_string() }
}

/// Whether a value makes another setting, and not only another drive.
fn is_setting(key: &str) -> bool {
    let of_drive = key.strip_prefix("drive.").is_some_and(|key| DRIVES.contains(&key));
    of_drive || key.starts_with("workload.") || key.starts_with("replay.")
}

impl Sweep {
    /// A sweep as it was asked for, its values checked.
    ///
    /// # Errors
    /// A key that cannot be swept, a value that is wrong or there twice.
    pub(super) fn new(scenario: &Scenario, entry: &Entry, key: &str) -> Result<Sweep, LabError> {
        if entry.values.is_empty() {
            return Err(entry.error("expected at least one value"));
        }
        if key == "seed" || key == "seeds" {
            return Err(entry.error(
                "seeds stand above all tables: expected `seed = [1, 2]` there, or --seed 1,2",
            ));
        }
        let (values, place) = (entry.values.clone(), entry.place.clone());
        let folder = scenario.folder.clone();
        let sweep = Sweep { key: self::key(key), values, place, folder };
        if sweep.is_setting() {
            for value in &sweep.values {
                let mut tried = Scenario::default();
                sweep.apply(&mut tried, value)?;
            }
        } else {
            build::check_swept(entry, key)?;
        }
        // `1M` and `1024K` are one size: what a value is counts, not how it is written.
        let same = |value: &String| match crate::points::value(&sweep.key, value) {
            Some((_, number)) => number.pretty(),
            // Two files of one name are two.
            None => sweep.file(value).map_or_else(
                || sweep.label(value),
                |path| path.canonicalize().unwrap_or(path).display().to_string(),
            ),
        };
        let labels: Vec<String> = sweep.values.iter().map(same).collect();
        if let Some(twice) = super::twice(&labels) {
            let at = labels.iter().rposition(|label| label == twice).unwrap_or(0);
            let value = sweep.label(&sweep.values[at]);
            return Err(entry.error(format!(
                "`{value}` is there twice: its runs are the same, and a mean of them would not be one"
            )));
        }
        Ok(sweep)
    }

    /// Whether its values make other settings, and not only other drives.
    pub(crate) fn is_setting(&self) -> bool {
        is_setting(&self.key)
    }

    /// Whether a value is the path of a file.
    fn is_path(&self, value: &str) -> bool {
        let named = value == DEMO_NAME
            || value.starts_with("gen:")
            || matches!(Pinned::parse(value), Some(Ok(_)));
        self.key == "drive.file" || self.key == "workload.trace" && !named
    }

    /// A value as results have it: of a path the name of the file, of a digest its beginning.
    pub fn label(&self, value: &str) -> String {
        if let ("workload.trace", Some(Ok(pinned))) = (self.key.as_str(), Pinned::parse(value)) {
            return pinned.short();
        }
        if !self.is_path(value) {
            return value.to_string();
        }
        // As much of a path as tells it from the others.
        let end = |path: &str, parts: usize| {
            let start = path.rmatch_indices('/').nth(parts - 1).map_or(0, |(at, _)| at + 1);
            path[start..].to_string()
        };
        let others = || self.values.iter().filter(|other| *other != value && self.is_path(other));
        let deepest = value.matches('/').count() + 1;
        let told = |parts: &usize| others().all(|other| end(other, *parts) != end(value, *parts));
        end(value, (1..deepest).find(told).unwrap_or(deepest))
    }

    /// The file that a value names by its path.
    pub(super) fn file(&self, value: &str) -> Option<PathBuf> {
        self.is_path(value).then(|| self.folder.join(value))
    }

    /// A value that means the same from every folder.
    pub(super) fn anywhere(&self, value: &str) -> String {
        let Some(path) = self.file(value) else { return value.to_string() };
        std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// Sets a value.
    fn apply(&self, scenario: &mut Scenario, value: &str) -> Result<(), LabError> {
        let folder = std::mem::replace(&mut scenario.folder, self.folder.clone());
        let result = scenario.apply(Entry {
            key: self.key.clone(),
            values: vec![value.to_string()],
            source: None,
            tag: None,
            by: None,
            said: None,
            was: None,
            place: self.place.clone(),
        });
        scenario.folder = folder;
        result
    }
}

impl Scenario {
    /// The scenario of one setting: with these values, and without their sweeps.
    ///
    /// # Errors
    /// A value that does not fit.
    pub(crate) fn with(&self, values: &[(&Sweep, &str)]) -> Result<Scenario, LabError> {
        let mut scenario = self.clone();
        scenario.sweeps.retain(|sweep| !sweep.is_setting());
        for (sweep, value) in values {
            sweep.apply(&mut scenario, value)?;
        }
        Ok(scenario)
    }

    /// Whether settings are swept, and not only keys of the drive.
    pub(super) fn sweeps_settings(&self) -> bool {
        self.sweeps.iter().any(Sweep::is_setting)
    }
}
