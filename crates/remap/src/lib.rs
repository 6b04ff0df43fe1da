//! The host log: address remapping over any block device (paper 1).

pub mod paper;
