//! SQLite's files on a transactional device, without a change to SQLite, to the application or to
//! its SQL.
//!
//! Invariants of this crate:
//! * it links to no SQLite: whoever registers a VFS brings the functions ([`Api`]);
//! * unsafe code is in the module `abi` alone, which turns SQLite's C interface into the traits of
//!   [`vfs`]; no panic leaves it;
//! * time is an argument: a store carries the time its device answered last.

#[allow(unsafe_code)]
mod abi;
pub mod counts;
pub mod event;
mod ordinary;
pub mod passthrough;
pub mod store;
pub mod tally;
pub mod vfs;

pub use abi::{Api, Host, Name, PerProcess, RegisterError, last_reason, register};
pub use counts::{Counter, Counts, KindCounts};
pub use passthrough::register_observed;
pub use store::{
    Checkpoint, Device, FIRST_CAPACITY, Inherited, OpenError, Stats, Store, StoreError,
    StoreOptions, Stores, USUAL_LIMIT, Virtual, Way,
};
