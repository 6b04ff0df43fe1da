//! Why an image cannot be made or opened.

use std::path::PathBuf;

use crate::damage::{Damage, in_short};

fn named(holder: Option<u32>) -> String {
    match holder {
        Some(process) if process == std::process::id() => {
            format!("this process, {process}, by another name")
        }
        Some(process) => format!("another process, {process}"),
        None => "another process".to_string(),
    }
}

/// What is wrong with an image, or with where it should be.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The image.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The file is no image, or one that this program cannot read.
    #[error("{}: {what}", path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
        /// What was found and what was expected.
        what: String,
    },
    /// What the image says was durable is not there, and nobody can say what it named: nothing
    /// older is served in its place.
    #[error("{}: damaged: {}", path.display(), in_short(damage))]
    Damaged {
        /// The image.
        path: PathBuf,
        /// All that was found.
        damage: Vec<Damage>,
    },
    /// Another process has it open for writing, or this one, by another name.
    #[error("{}: in use by {}", path.display(), named(*holder))]
    InUse {
        /// The image.
        path: PathBuf,
        /// Its number, where the system says it.
        holder: Option<u32>,
    },
    /// The process that has it open changes it without a pause.
    #[error(
        "{}: the process that has it open changes it all the time: found no moment to read it in 5 s",
        path.display()
    )]
    Restless {
        /// The image.
        path: PathBuf,
    },
    /// No drive can be made for so many bytes.
    #[error("{}: no drive can be made for that: expected 512 KiB to 12 TiB", capacity.human())]
    Capacity {
        /// What it should hold.
        capacity: block::Bytes,
    },
    /// No drive can be made of this configuration.
    #[error("{0}")]
    Config(#[from] ssd::ConfigError),
    /// The drive does not start.
    #[error("{}: {error}", path.display())]
    Device {
        /// The image.
        path: PathBuf,
        /// Why.
        error: block::DeviceError,
    },
}

impl LiveError {
    /// The same, with places of an image that begins at `base` in its file.
    pub(crate) fn moved(self, base: u64) -> LiveError {
        match self {
            LiveError::Damaged { path, damage } => {
                let damage = damage.into_iter().map(|damage| damage.moved(base)).collect();
                LiveError::Damaged { path, damage }
            }
            error => error,
        }
    }
}
