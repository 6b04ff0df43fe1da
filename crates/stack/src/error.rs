//! Why there is no stack.

use std::path::PathBuf;

use live::LiveError;
use ssd::ConfigError;

use crate::disk::DiskError;
use crate::grammar::SyntaxError;

/// Why there is no stack, or why it does not end well.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// The text is no stack.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// The parts do not fit together, or ask for what is not there.
    #[error("{0}")]
    Options(String),
    /// The file or device cannot be used.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Somebody else has it.
    #[error("{}: in use by another process", path.display())]
    InUse {
        /// Which.
        path: PathBuf,
    },
    /// The drive's configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The drive's image.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// A live layer did not start, or not end.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A promise of the contract does not hold.
    #[error("consistency check failed ({contract}): {what}")]
    Broken {
        /// The promise, `C1` to `C12`.
        contract: String,
        /// What was found.
        what: String,
    },
}
