//! A disk as the virtio block device of a virtual machine, by the vhost-user protocol: the machine's rings
//! are read where its memory lies, and nothing but a kick and a call crosses between the processes.
//!
//! ```text
//! config      what the device tells of itself: features, the configuration space
//! request     one chain of descriptors: what is asked, and its status
//! device      rings: a worker for each
//! server      one virtual machine after the other
//! stats       what is counted
//! ```
//!
//! Invariants:
//! * nothing in a chain is believed: data is copied, never mapped into a request, in pieces of at most 1 MiB; a chain
//!   without a place for its status is handed back with nothing written;
//! * a write is forced unless the driver knows of FLUSH and has the write cache on;
//! * a chain that was taken is handed back before its ring is stopped.
//!
//! Sources: VIRTIO 1.2, sections 2.7 and 5.2; QEMU's "Vhost-user Protocol".

mod config;
mod device;
mod request;
mod server;
mod stats;
#[cfg(all(test, feature = "vhost-user-tests"))]
mod tests;

pub use server::{Handle, Options, Server};
