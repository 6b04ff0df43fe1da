//! What stands above the drive, as keys of a scenario.

use remap::Options;
use remap::paper::PaperOptions;

/// Whether, and how, addresses are remapped above the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RemapMode {
    /// Not at all: the drive alone.
    #[default]
    Off,
    /// By the host log.
    Varve,
    /// By the paper's rules.
    Paper,
}

impl RemapMode {
    /// Names, in order of the variants.
    pub const NAMES: [&str; 3] = ["off", "varve", "paper"];

    /// The name.
    pub fn name(self) -> &'static str {
        RemapMode::NAMES[self as usize]
    }
}

/// What stands above the drive.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// Whether addresses are remapped.
    pub mode: RemapMode,
    /// Options of the host log.
    pub log: Options,
    /// Options of the paper's rules.
    pub paper: PaperOptions,
    /// Keys that were set, with their texts.
    set: Vec<(String, String)>,
}

impl Default for StackConfig {
    fn default() -> StackConfig {
        // A trace carries no payload: the log counts what it would write.
        let paper = PaperOptions { payload: false, ..PaperOptions::default() };
        StackConfig { mode: RemapMode::Off, log: Options::default(), paper, set: Vec::new() }
    }
}

impl StackConfig {
    /// Sets one key, without its head `remap.`: `mode`, an option of the host log, or, as
    /// `paper.NAME`, one of the paper's rules.
    ///
    /// # Errors
    /// What was expected.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), String> {
        match key.split_once('.') {
            None if key == "mode" => {
                self.mode = match text {
                    "off" => RemapMode::Off,
                    "varve" => RemapMode::Varve,
                    "paper" => RemapMode::Paper,
                    _ => return Err(format!("found `{text}`, expected off, varve or paper")),
                };
            }
            Some(("paper", name)) => self.paper.set(name, text)?,
            _ => self.log.set(key, text).map_err(|e| e.to_string())?,
        }
        self.set.retain(|(name, _)| name != key);
        self.set.push((key.to_string(), text.to_string()));
        self.set.sort();
        Ok(())
    }

    /// The keys that were set and their texts, sorted.
    pub fn keys(&self) -> &[(String, String)] {
        &self.set
    }
}
