//! The papers' experiments, repeated: what a paper reports beside what comes out here.
//!
//! Nothing here is tuned until it agrees: statements about direction are checked and told as they
//! come out, and every table says what it was run on.

pub mod isolation;
mod parallel;
pub mod remap;
pub mod scj;
mod text;
