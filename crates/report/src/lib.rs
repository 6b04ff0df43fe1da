//! What draws and formats, and knows no experiment: numbers for people, the values of documents,
//! charts, the frame of a page, and studies: tables with what a paper says beside them.
//!
//! Promises kept here:
//! * a quotient is rounded in one place, half away from zero, from whole numbers (`round.rs`), and a
//!   document's ratios in another (`json.rs`): the same values give the same bytes on every machine;
//! * what is not known is absent from a document, never 0;
//! * a page asks for nothing over a network.

pub mod chart;
mod error;
pub mod format;
pub mod json;
pub mod page;
mod read;
pub mod round;
pub mod study;

pub use error::ReportError;
