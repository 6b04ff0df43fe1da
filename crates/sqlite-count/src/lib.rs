//! What a program's SQLite does, counted from inside a program that knows nothing of it: a library
//! that `varve sqlite measure -- PROGRAM` preloads, and nobody else loads.
//!
//! Invariants:
//! * no SQLite is linked: each call goes on to the SQLite it was meant for, of which a process may
//!   have several;
//! * unsafe code is in the module `preload` alone, and no panic leaves it.

mod count;
#[allow(unsafe_code)]
mod preload;
