//! SQLite over the stack: the workloads of paper 4 on the real library, in process.
//!
//! Everything here drives an ordinary connection that the caller has opened, over any VFS and in
//! any mode: SQLite and its SQL are the unmodified ones. The same seed gives the same statements
//! with the same values, so that bytes and pages can be held against published tables.

pub mod crash;
pub mod files;
pub mod host;
pub mod image;
pub mod measure;
pub mod pages;
pub mod program;
pub mod source;
pub mod stacked;
pub mod transfer;
pub mod workload;
