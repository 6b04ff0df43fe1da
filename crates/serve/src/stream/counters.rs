//! What a server counts, by name.

/// Two structs of the same fields: `Counts`, what one connection has counted since it was last handed on,
/// and `Stats`, all of a server.
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
            $($(#[$doc])* pub $name: std::sync::atomic::AtomicU64,)*
        }

        impl Stats {
            /// Adds what a connection counted, which begins anew.
            pub fn take(&self, counts: &mut Counts) {
                $(if counts.$name > 0 {
                    self.$name.fetch_add(counts.$name, std::sync::atomic::Ordering::Relaxed);
                })*
                *counts = Counts::default();
            }
            /// By name.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((
                    stringify!($name),
                    self.$name.load(std::sync::atomic::Ordering::Relaxed),
                ),)*]
            }
        }
    };
}

pub(crate) use counters;
