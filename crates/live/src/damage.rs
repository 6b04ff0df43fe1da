//! What is damaged in an image, and where.

use std::fmt;

/// One damaged place of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Byte of the image.
    pub at: u64,
    /// What was found, and what was expected.
    pub what: String,
}

impl Damage {
    /// The same place, counted from `base` bytes before.
    pub(crate) fn moved(self, base: u64) -> Damage {
        Damage { at: self.at + base, ..self }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.what)
    }
}

/// Several in one line: the first, and how many more.
pub fn in_short(damage: &[Damage]) -> String {
    match damage {
        [] => "none".to_string(),
        [one] => one.to_string(),
        [first, more @ ..] => format!("{first} (and {} more)", more.len()),
    }
}
