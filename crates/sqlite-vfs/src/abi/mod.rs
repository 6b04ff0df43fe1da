//! The border between C and this crate's safe traits, SQLite's interface and fork: the only module
//! with unsafe code.
//!
//! Invariants:
//! * a pointer from SQLite is used only during the call that brought it, with two exceptions: the
//!   `sqlite3**` of `SQLITE_FCNTL_PDB`, which SQLite keeps valid until the file is closed, and the
//!   host VFS, which SQLite never frees;
//! * an open file owns its `Box<dyn File>`, taken out once, at xClose;
//! * no panic crosses the border: it becomes an `SQLITE_IOERR`;
//! * what is registered is never freed: SQLite may use a VFS until the process ends.

mod api;
pub(crate) mod ffi;
mod file;
mod host;
mod name;
mod process;
mod register;

pub use api::{Api, last_reason};
pub use host::{Host, HostFile};
pub use name::Name;
pub use process::{PerProcess, here};
pub use register::{RegisterError, register};
