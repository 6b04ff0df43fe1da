//! Front-ends: a stack becomes a device that ordinary programs use.
//!
//! A front-end speaks to clients and knows [`Disk`] only; a stack is a [`Disk`] over whatever
//! keeps the bytes.

pub mod conform;
pub mod control;
pub mod disk;
pub mod doctor;
pub mod fuse;
mod kernel;
pub mod mount;
pub mod nbd;
pub mod notice;
pub mod power;
pub mod stack;

pub use disk::{Capabilities, Disk, DiskError, Done, Extent};
