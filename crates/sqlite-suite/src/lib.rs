//! A store in memory that holds every file of SQLite's test program, whatever its name.
//!
//! Invariants:
//! * no SQLite is linked, all functions come from the caller;
//! * unsafe code is in the module `entry` alone, and no panic leaves it.

#[allow(unsafe_code)]
mod entry;
mod setup;
