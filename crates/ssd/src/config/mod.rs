//! The configuration of a drive: a schema of keys, values with their origin, and the checked
//! [`Params`] a drive is built from.
//!
//! No silent fallback: an unknown key, a value that does not parse, a name that no registry
//! knows, two keys that contradict each other and an impossible geometry are errors naming the
//! key, what was found and what was expected.

mod file;
mod layer;
mod mqsim;
mod params;
mod presets;
mod resolve;
mod scale;
mod schema;
mod shape;
mod sheet;
mod tx;
mod value;
mod xml;

pub use file::{load_file, load_text};
pub use mqsim::{Imported, Unmatched, load_mqsim, load_mqsim_text};
pub use params::{
    BadParams, BufferParams, CheckpointParams, CommandTimes, DramParams, FirmwareParams, FtlKind,
    GcParams, HybridParams, LineBudget, LineKind, LinkParams, LockMode, MapParams, OobMode, Params,
    Placement, PlaneGroup, Plp, Streams, TxParams, WearParams,
};
pub use presets::{Preset, preset, presets, sheet};
pub use scale::Scaled;
pub use schema::{Key, KeyKind, SCHEMA, key, parse_share};
pub use sheet::{Sheet, SheetKind, SheetLoad, SheetPoint};

use std::collections::BTreeMap;

use block::{Bytes, Span};

use crate::buffer::PolicySpec;
use crate::ftl::VictimSpec;
use value::Value;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `default`, `preset NAME`, `FILE:LINE` or `command line`.
    pub from: String,
    /// The published source of a preset's value, if any.
    pub source: Option<String>,
    /// `calibrated`, `published`, `fitted`, `assumed`, `extrapolated` or `assumed-zero`.
    pub tag: Option<String>,
}

impl Origin {
    /// Who set it before scaling may have made it smaller. (A file says its line: it is never taken
    /// for something else.)
    fn whose(&self) -> &str {
        self.from.split_once(scale::MARK).map_or(&self.from, |(whose, _)| whose)
    }
    /// Nobody set it.
    fn is_default(&self) -> bool {
        self.whose() == "default"
    }
    /// A preset set it.
    fn is_preset(&self) -> bool {
        self.whose().strip_prefix("preset ").is_some_and(presets::is_known)
    }
}

/// What is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No such key.
    #[error("{from}: unknown key `{key}`{}", suggestion.as_ref().map(|s| format!("; did you mean `{s}`?")).unwrap_or_default())]
    UnknownKey {
        /// Where it was set.
        from: String,
        /// The key.
        key: String,
        /// The nearest key of the schema.
        suggestion: Option<String>,
    },
    /// A value that is not of the key's kind.
    #[error("{from}: `{key}` = `{found}`: expected {expected}")]
    BadValue {
        /// Where it was set.
        from: String,
        /// The key.
        key: String,
        /// The value found.
        found: String,
        /// What would have been right.
        expected: String,
    },
    /// Values that do not fit together.
    #[error("{keys}: {reason}")]
    Contradiction {
        /// The keys concerned.
        keys: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The file cannot be read or is not TOML.
    #[error("{file}{}: {reason}", line.map(|n| format!(":{n}")).unwrap_or_default())]
    File {
        /// The file.
        file: String,
        /// Line, from 1.
        line: Option<usize>,
        /// What was found and what was expected.
        reason: String,
    },
    /// No preset of that name.
    #[error("no preset `{name}`; there are: {known}")]
    UnknownPreset {
        /// The name asked for.
        name: String,
        /// All names.
        known: String,
    },
}

/// A value: as it was written, what it says, and who said it.
#[derive(Clone, Debug)]
struct Entry {
    text: String,
    value: Value,
    origin: Origin,
}

/// Values by key, with their origins. Every key of [`SCHEMA`] has a value: its default at first.
#[derive(Clone, Debug)]
pub struct Config {
    values: BTreeMap<&'static str, Entry>,
    base: Option<scale::Base>,
    scaled: Option<Scaled>,
}

impl Default for Config {
    fn default() -> Self {
        let origin = Origin { from: "default".to_string(), source: None, tag: None };
        let values = SCHEMA
            .iter()
            .map(|key| {
                let value = key.kind.read(key.default).expect("a test reads all defaults");
                let (text, origin) = (key.default.to_string(), origin.clone());
                (key.name, Entry { text, value, origin })
            })
            .collect();
        Config { values, base: None, scaled: None }
    }
}

impl Config {
    /// Sets a key from its text, which is read at once, and not again.
    ///
    /// # Errors
    /// Unknown key, or a value that is not of the key's kind.
    pub fn set(&mut self, name: &str, text: &str, origin: Origin) -> Result<(), ConfigError> {
        let Some(key) = key(name) else {
            return Err(ConfigError::UnknownKey {
                from: origin.from,
                key: name.to_string(),
                suggestion: schema::nearest(name),
            });
        };
        let value = key.kind.read(text).map_err(|expected| ConfigError::BadValue {
            from: origin.from.clone(),
            key: name.to_string(),
            found: text.to_string(),
            expected,
        })?;
        self.values.insert(key.name, Entry { text: text.trim().to_string(), value, origin });
        if let Some(scaled) = &mut self.scaled {
            // It is not what scaling made of it any more.
            scaled.changed.retain(|(changed, ..)| *changed != key.name);
        }
        Ok(())
    }

    /// Sets `key=value` as given on a command line.
    ///
    /// # Errors
    /// As [`Config::set`], and a text without `=`.
    pub fn set_pair(&mut self, pair: &str) -> Result<(), ConfigError> {
        let origin = Origin { from: "command line".to_string(), source: None, tag: None };
        match pair.split_once('=') {
            Some(("scale", text)) => self.scale(text.trim(), &origin.from),
            Some((name, text)) => self.set(name.trim(), text, origin),
            None => Err(ConfigError::BadValue {
                from: origin.from,
                key: pair.to_string(),
                found: pair.to_string(),
                expected: "key=value".to_string(),
            }),
        }
    }

    /// The effective configuration: every key, its text and its origin, sorted by key.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, &str, &Origin)> {
        self.values.iter().map(|(key, entry)| (*key, entry.text.as_str(), &entry.origin))
    }

    /// Whether a key was set by anybody.
    pub fn is_set(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|entry| !entry.origin.is_default())
    }

    /// Whether a key was set by the user, not only by the preset the user started from: what a
    /// preset says may be left without effect by another choice, what the user says may not.
    pub fn is_asked(&self, name: &str) -> bool {
        let by_the_user = |origin: &Origin| !origin.is_default() && !origin.is_preset();
        self.values.get(name).is_some_and(|entry| by_the_user(&entry.origin))
    }

    /// The text of a key.
    ///
    /// # Panics
    /// If the schema has no such key.
    pub fn text(&self, name: &str) -> &str {
        &self.values[name].text
    }

    /// The checked parameters of a drive.
    ///
    /// # Errors
    /// The keys that contradict each other or make an impossible drive.
    pub fn resolve(&self) -> Result<Params, ConfigError> {
        resolve::resolve(self)
    }

    fn value(&self, name: &str) -> &Value {
        &self.values[name].value
    }
    /// One time is a list, too.
    fn times(&self, name: &str) -> Vec<Span> {
        match self.value(name) {
            Value::Times(times) => times.clone(),
            Value::Time(time) => vec![*time],
            other => panic!("{name} is {other:?}"),
        }
    }
}

/// Values of a kind; which kind a key is of, the schema says.
macro_rules! read {
    ($($(#[$doc:meta])* $name:ident: $kind:ident => $of:ty),* $(,)?) => {
        impl Config {
            $($(#[$doc])* fn $name(&self, name: &str) -> $of {
                match self.value(name) {
                    Value::$kind(value) => value.clone(),
                    other => panic!("{name} is {other:?}"),
                }
            })*
        }
    };
}

read! {
    count: Count => u64,
    size: Size => Bytes,
    rate: Rate => u64,
    time: Time => Span,
    ppm: Share => u64,
    flag: Flag => bool,
    policy: Policy => PolicySpec,
    victim: Victim => Option<VictimSpec>,
}
