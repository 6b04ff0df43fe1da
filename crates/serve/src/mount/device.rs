//! A stack's disk as the block device below a file system.

pub use stack::disk::DiskDevice;
