//! The VFS as a loadable extension: entry points for a host's SQLite.
//!
//! Invariants:
//! * no SQLite is linked, all functions come from the host;
//! * unsafe code is in the module `entry` and what is in it alone, and no panic leaves it;
//! * the library exports its entry points and nothing else: it stands before no function of an
//!   SQLite, of which a process may have several;
//! * a name that sounds durable is never answered by memory.

#[allow(unsafe_code)]
mod entry;
mod setup;
