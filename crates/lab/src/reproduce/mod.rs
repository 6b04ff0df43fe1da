//! The papers' experiments, repeated: what a paper reports beside what comes out here.
//!
//! Nothing here is tuned until it agrees: statements about direction are checked and told as they
//! come out, and every table says what it was run on.

pub mod isolation;
mod parallel;
pub mod remap;
pub mod scj;
mod study;
mod text;

pub use study::{
    Cell, Check, Claim, Expect, Here, Plot, Rows, Section, Statement, Study, Table, Verdict, book,
};
