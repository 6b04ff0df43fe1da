//! What stands above the drive, as keys of a scenario.

use block::{BlockDevice, Bytes, UNIT_BYTES};
use lfs::fs::{Cleaning, Scj};
use remap::LogOptions;
use remap::paper::PaperOptions;
use ssd::Params;
use stack::description::LAYERS;
use stack::rules::{self, Top, World};
use stack::{Base, Description, Keys, Layer, Modelled, StackError};

/// Whether, and how, addresses are remapped above the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RemapMode {
    /// Not at all: the drive alone.
    #[default]
    Off,
    /// By the host log.
    Log,
    /// By the paper's rules.
    PaperLog,
}

impl RemapMode {
    /// Names, in order of the variants.
    pub const NAMES: [&str; 3] = ["off", "log", "paper-log"];

    /// The name.
    pub fn name(self) -> &'static str {
        RemapMode::NAMES[self as usize]
    }
}

/// Layers above the drive of a scenario: `+log(..)+lfs`. A single `+` is none.
///
/// # Errors
/// What was found and what was expected.
pub(crate) fn above(text: &str) -> Result<Vec<Layer>, String> {
    let Some(text) = text.trim().strip_prefix('+') else {
        return Err(format!("found `{text}`, expected `+` and layers: {LAYERS}"));
    };
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let layers = Layer::list(text).map_err(|e| e.to_string())?;
    let drive = Base::Drive { preset: String::new(), keys: Vec::new() };
    let stack = Description { base: drive, layers };
    rules::check(&stack, World::Modelled, Top::Files).map_err(|e| e.to_string())?;
    Ok(stack.layers)
}

fn is_lfs(layer: &Layer) -> bool {
    matches!(layer, Layer::Lfs(_))
}

/// What stands above the drive.
#[derive(Clone, Debug, Default)]
pub struct StackConfig {
    /// Whether addresses are remapped right above the drive.
    pub mode: RemapMode,
    /// Keys that were set, with their texts.
    set: Vec<(String, String)>,
    /// Layers that were written as a stack, above all others.
    written: Vec<Layer>,
}

impl StackConfig {
    /// Sets one key, without its head `remap.`: `mode`, an option of the host log, or, as
    /// `paper-log.NAME`, one of the paper's rules.
    ///
    /// # Errors
    /// What was expected.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        match key.split_once('.') {
            None if key == "mode" => {
                self.mode = match text {
                    "off" => RemapMode::Off,
                    "log" => RemapMode::Log,
                    "paper-log" => RemapMode::PaperLog,
                    "varve" => {
                        return Err("found `varve`, expected `log`, as it is called now".into());
                    }
                    "paper" => {
                        return Err(
                            "found `paper`, expected `paper-log`, as it is called now".into()
                        );
                    }
                    _ => return Err(format!("found `{text}`, expected off, log or paper-log")),
                };
            }
            Some(("paper", name)) => {
                return Err(format!("expected `remap.paper-log.{name}`, as it is called now"));
            }
            Some(("paper-log", name)) => PaperOptions::default().set(name, text)?,
            _ => LogOptions::default().set(key, text).map_err(|e| e.to_string())?,
        }
        self.set.retain(|(name, _)| name != key);
        self.set.push((key.to_string(), text.to_string()));
        self.set.sort();
        Ok(())
    }

    /// Puts these layers above all others.
    pub fn write(&mut self, layers: Vec<Layer>) {
        self.written = layers;
    }

    /// The keys that were set and their texts, sorted.
    pub fn keys(&self) -> &[(String, String)] {
        &self.set
    }

    /// The layers that were written as a stack.
    pub fn written(&self) -> &[Layer] {
        &self.written
    }

    /// All layers above the drive, the lowest first.
    pub fn layers(&self) -> Vec<Layer> {
        let paper = |key: &str| key.strip_prefix("paper-log.").map(str::to_string);
        let of = |wanted: bool| -> Keys {
            let keys = self.set.iter().filter(|(key, _)| key != "mode");
            let named = keys.filter(|(key, _)| paper(key).is_some() == wanted);
            let pairs: Vec<_> = named
                .map(|(key, text)| (paper(key).unwrap_or_else(|| key.clone()), text.clone()))
                .collect();
            pairs.into()
        };
        let lowest = match self.mode {
            RemapMode::Off => None,
            RemapMode::Log => Some(Layer::Log(of(false))),
            RemapMode::PaperLog => Some(Layer::PaperLog(of(true))),
        };
        lowest.into_iter().chain(self.written.iter().cloned()).collect()
    }

    /// A fresh drive and what is above it.
    ///
    /// # Errors
    /// A stack that cannot be.
    pub fn build(&self, params: &Params) -> Result<Modelled, StackError> {
        let name = self
            .layers()
            .iter()
            .fold("drive".to_string(), |name, layer| format!("{name}+{}", layer.name()));
        let blocks: Vec<Layer> = self.layers().into_iter().filter(|layer| !is_lfs(layer)).collect();
        Modelled::drive(params)?.below(&blocks, &name)
    }

    /// How the file system on top is mounted: as `varve mount` does where nothing is said.
    ///
    /// # Errors
    /// An option that is not there.
    pub fn lfs(&self) -> Result<lfs::FsOptions, StackError> {
        let cleaning = Cleaning::Scj(Scj::default());
        let options = lfs::FsOptions { cleaning, ..lfs::FsOptions::default() };
        match self.layers().last() {
            Some(Layer::Lfs(keys)) => keys.lfs(options),
            _ => Ok(options),
        }
    }

    /// Bytes that a stack over such a drive offers.
    ///
    /// # Errors
    /// A stack that cannot be.
    pub fn capacity(&self, params: &Params) -> Result<Bytes, StackError> {
        let takes = |layer: &Layer| matches!(layer, Layer::Log(_) | Layer::PaperLog(_));
        let layers: Vec<Layer> = self.layers().into_iter().filter(takes).collect();
        if layers.is_empty() {
            return Ok(Bytes(u64::from(params.logical_pages) * UNIT_BYTES));
        }
        Ok(Modelled::drive(params)?.below(&layers, "")?.capacity().bytes())
    }
}
