//! The four mechanisms together: tenants that share a drive, and what each mechanism is worth there.
//!
//! * [`Turnstile`] keeps virtual time in order between clients that run in threads of their own;
//! * [`Port`] is a client's part of the drive;
//! * [`run`] is `varve reproduce compose`.

mod cell;
mod files;
mod measured;
mod port;
mod store;
mod study;
mod text;
mod turnstile;

pub use port::Port;
pub use study::{Options, Scale, run};
pub use turnstile::Turnstile;
