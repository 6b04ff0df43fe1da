//! NVMe over TCP as both ends know it, and the end that asks: a host of our own, and a namespace with transactions as a
//! device.
//!
//! Invariants:
//! * no byte of a controller is trusted: an answer to nothing asked, or of another length, is an error;
//! * a host that has lost its connection is lost: nothing here connects again behind anybody's back.

pub mod nvme;
pub mod random;
pub mod stream;
