//! Front-ends: a stack becomes a device that ordinary programs use.
//!
//! A front-end speaks to clients and knows [`stack::disk::Disk`] only; a stack is a disk over whatever
//! keeps the bytes.

pub mod conform;
pub mod control;
pub mod doctor;
pub mod faults;
pub mod fuse;
mod kernel;
pub mod mount;
pub mod nbd;
pub mod nvme;
pub mod stream;
#[cfg(feature = "vhost-user")]
pub mod vhost;

pub use wire::random;
