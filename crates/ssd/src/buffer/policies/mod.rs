//! The registry: one file and one line per policy.

mod fifo;
mod lru;
mod none;

use super::policy::PolicyInfo;

/// All policies.
pub(super) const REGISTRY: &[PolicyInfo] = &[
    PolicyInfo {
        name: "none",
        aliases: &[],
        doc: "no buffer: reads and writes go to flash",
        source: "-",
        options: &[],
        clairvoyant: false,
        make: |setup| setup.buffer(none::NoBuffer),
    },
    PolicyInfo {
        name: "fifo",
        aliases: &[],
        doc: "one queue, hits change nothing",
        source: "textbook",
        options: &[],
        clairvoyant: false,
        make: |setup| setup.buffer(fifo::Fifo::default()),
    },
    PolicyInfo {
        name: "lru",
        aliases: &[],
        doc: "one list, hits move to its front",
        source: "textbook",
        options: &[],
        clairvoyant: false,
        make: |setup| setup.buffer(lru::Lru::default()),
    },
];
