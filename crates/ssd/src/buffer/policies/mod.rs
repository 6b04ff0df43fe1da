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
        make: |_, pages, mask| super::front::boxed(none::NoBuffer, 0, pages, mask),
    },
    PolicyInfo {
        name: "fifo",
        aliases: &[],
        doc: "one queue, hits change nothing",
        source: "textbook",
        make: |n, pages, mask| super::front::boxed(fifo::Fifo::default(), n, pages, mask),
    },
    PolicyInfo {
        name: "lru",
        aliases: &[],
        doc: "one list, hits move to its front",
        source: "textbook",
        make: |n, pages, mask| super::front::boxed(lru::Lru::default(), n, pages, mask),
    },
];
