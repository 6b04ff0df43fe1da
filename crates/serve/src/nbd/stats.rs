//! What a server counts.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of one connection since they were last handed on.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// Counts of a server.
        #[derive(Debug, Default)]
        pub struct Stats {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        impl Stats {
            /// Adds what a connection counted, which begins anew.
            pub fn take(&self, counts: &mut Counts) {
                $(if counts.$name > 0 {
                    self.$name.fetch_add(counts.$name, Ordering::Relaxed);
                })*
                *counts = Counts::default();
            }
            /// By name.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Ordering::Relaxed)),)*]
            }
        }
    };
}

counters! {
    /// Connections accepted.
    connections,
    /// Connections closed at once because there were too many.
    refused,
    /// Handshakes that did not lead to an export.
    handshakes_failed,
    /// READ.
    reads,
    /// Bytes of data and holes in answers to READ.
    read_bytes,
    /// WRITE.
    writes,
    /// Bytes written.
    write_bytes,
    /// FLUSH.
    flushes,
    /// Commands other than FLUSH that were to be durable when answered.
    forced,
    /// Flushes of the disk that served FLUSH and FUA.
    disk_flushes,
    /// TRIM.
    trims,
    /// WRITE_ZEROES.
    zeroes,
    /// BLOCK_STATUS.
    statuses,
    /// Commands answered with an error.
    errors,
}
