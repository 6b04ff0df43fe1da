//! The host log: address remapping over any block device (paper 1).
