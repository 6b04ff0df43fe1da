//! Why something cannot be drawn or read back.

/// An error of this crate. Whoever runs an experiment gives it his own exit code.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// A document that was given does not fit: what was found and what was expected.
    #[error("{0}")]
    Input(String),
    /// A table, a drawing and a statement do not fit each other: an error of the program.
    #[error("{0}")]
    Failed(String),
}
