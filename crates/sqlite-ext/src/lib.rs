//! The VFS as a loadable extension: entry points for a host's SQLite.
//!
//! Invariants:
//! * no SQLite is linked, all functions come from the host;
//! * unsafe code is in the module `entry` alone, and no panic leaves it;
//! * a name that sounds durable is never answered by memory.

mod count;
#[allow(unsafe_code)]
mod entry;
mod setup;
