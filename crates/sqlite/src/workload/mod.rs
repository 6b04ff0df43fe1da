//! Workloads over a connection: sqlite-bench, YCSB, TPC-C, and what small programs do.
//!
//! A workload sets no PRAGMA: journal, locking and synchronous mode are the caller's, and what is
//! compared. Each takes a function that is called after every operation, when its transaction has
//! been committed: an experiment charges the host's time there.

pub mod bench;
mod minstd;
pub mod programs;
pub mod tpcc;
mod xorshift;
pub mod ycsb;

pub use minstd::MinStd;
pub use xorshift::Xorshift;

/// What is called after every operation.
pub type Each<'a> = &'a mut dyn FnMut();
