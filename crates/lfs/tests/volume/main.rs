//! Volumes on devices in memory and in files. One program: each of its own would compile the file system once more,
//! for the devices that it is tried on.

#[path = "../tools/mod.rs"]
mod tools;

mod ahead;
mod costs;
mod crash;
mod damage;
mod errors;
mod files;
mod idle;
mod limits;
mod media;
mod mkfs;
mod ops;
mod parts;
mod posix;
mod sequences;
mod stats;
mod torn;
