//! The drives that come with varve. Each is a file of `presets/`, embedded; every value in it
//! names its source and says how sure it is.

use super::file::{Source, load};
use super::{Config, ConfigError, Sheet};

/// A drive by name.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// One line.
    pub title: String,
    /// What one should know before using it; may be empty.
    pub notes: String,
    /// Its values over the defaults.
    pub config: Config,
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$((
            $name,
            include_str!(concat!("../../presets/", $name, ".toml")),
            include_str!(concat!("../../presets/", $name, ".sheet.toml")),
        )),*]
    };
}

/// Names, files and sheets; the drives of the papers first.
const FILES: &[(&str, &str, &str)] = files![
    "paper-nolog",
    "paper-isolation",
    "paper-remap",
    "samsung-970pro",
    "femu-default",
    "mqsim-default",
    "simplessd-mlc",
    "simplessd21-mlc",
    "wd-zn540",
    "confzns-tlc",
    "cnex-mlc",
    "tlc-planar",
    "qlc-extrapolated",
    "ull-slc",
    "emmc",
    "sd-card",
];

/// The names of all presets.
pub fn presets() -> Vec<&'static str> {
    FILES.iter().map(|(name, ..)| *name).collect()
}

/// Whether there is a preset of a name.
pub(super) fn is_known(name: &str) -> bool {
    FILES.iter().any(|(known, ..)| *known == name)
}

/// The preset of a name.
///
/// # Errors
/// No such name; the error lists those there are.
pub fn preset(name: &str) -> Result<Preset, ConfigError> {
    let (name, text, _) = find(name)?;
    let file = format!("presets/{name}.toml");
    let loaded = load(&Source { file: &file, preset: Some(name), text })?;
    Ok(Preset { name, title: loaded.title, notes: loaded.notes, config: loaded.config })
}

/// What is published of a preset's drive, beside what the preset gives.
///
/// # Errors
/// No such name.
pub fn sheet(name: &str) -> Result<Sheet, ConfigError> {
    let (name, _, text) = find(name)?;
    Sheet::parse(&format!("presets/{name}.sheet.toml"), text)
}

type File = (&'static str, &'static str, &'static str);

fn find(name: &str) -> Result<&'static File, ConfigError> {
    FILES.iter().find(|(known, ..)| *known == name).ok_or_else(|| ConfigError::UnknownPreset {
        name: name.to_string(),
        known: presets().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_every_preset_has_a_source_and_a_tag() {
        for (name, text, _) in FILES {
            let file = format!("presets/{name}.toml");
            let loaded = load(&Source { file: &file, preset: Some(name), text })
                .unwrap_or_else(|error| panic!("{error}"));
            assert!(text.starts_with(&format!("name = \"{name}\"\n")), "{file}");
            assert!(!loaded.title.is_empty(), "{name} has no title");
            let mut set = 0;
            for (key, _, origin) in loaded.config.entries() {
                if origin.from != "default" {
                    assert_eq!(origin.from, format!("preset {name}"));
                    assert!(origin.source.is_some() && origin.tag.is_some(), "{name}: {key}");
                    set += 1;
                }
            }
            assert!(set >= 10, "{name} sets {set} keys");
        }
    }

    #[test]
    fn every_preset_makes_a_drive() {
        for name in presets() {
            let params = preset(name).unwrap().config.resolve();
            params.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }

    #[test]
    fn no_preset_has_a_latency_of_zero() {
        for name in presets() {
            let config = preset(name).unwrap().config;
            for key in ["nand.read", "nand.program"] {
                assert!(config.times(key).iter().all(|time| time.as_ps() > 0), "{name}: {key}");
            }
            assert!(config.time("nand.erase").as_ps() > 0, "{name}");
        }
    }

    #[test]
    fn an_unknown_preset_lists_the_known_ones() {
        let error = preset("970").unwrap_err().to_string();
        assert!(error.contains("no preset `970`") && error.contains("samsung-970pro"));
    }
}
