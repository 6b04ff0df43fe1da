//! What a server offers, by name.

use std::sync::Arc;

use super::wire::{MAX_PAYLOAD, flag};
use stack::disk::Disk;

/// A disk under a name.
#[derive(Clone, Debug)]
pub struct Export {
    /// Its name; the first export of a server also answers to the empty one.
    pub name: String,
    /// What it is, in words; may be empty.
    pub description: String,
    /// What is served.
    pub disk: Arc<dyn Disk>,
    /// Bytes of the smallest request that a client may send which asked for the limit; a power of
    /// two.
    pub smallest: u32,
}

impl Export {
    /// A disk under a name, for requests from 4 KiB up.
    pub fn new(name: &str, disk: Arc<dyn Disk>) -> Export {
        Export { name: name.to_string(), description: String::new(), disk, smallest: 4096 }
    }

    /// What it can do, as the protocol says it; some only with structured replies.
    pub fn flags(&self, structured: bool) -> u16 {
        let capabilities = self.disk.capabilities();
        let mut flags = flag::HAS_FLAGS | flag::FLUSH | flag::FUA | flag::MULTI_CONN;
        if structured {
            flags |= flag::DF;
        }
        if capabilities.read_only {
            return flags | flag::READ_ONLY;
        }
        if capabilities.trim {
            flags |= flag::TRIM;
        }
        flags | flag::WRITE_ZEROES | flag::FAST_ZERO
    }

    /// Smallest, preferred and largest request in bytes.
    pub fn sizes(&self) -> [u32; 3] {
        let preferred = self.disk.capabilities().block.max(4096).max(self.smallest);
        [self.smallest, preferred, MAX_PAYLOAD]
    }

    /// What it can do, in words.
    pub fn list(&self) -> String {
        let (c, flags) = (self.disk.capabilities(), self.flags(true));
        let names = [
            (flag::READ_ONLY, "read-only"),
            (flag::FLUSH, "flush"),
            (flag::FUA, "fua"),
            (flag::TRIM, "trim"),
            (flag::WRITE_ZEROES, "write-zeroes"),
            (flag::FAST_ZERO, "fast-zero"),
            (flag::MULTI_CONN, "multi-conn"),
            (flag::DF, "df"),
        ];
        let named: Vec<&str> =
            names.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect();
        let [least, preferred, most] = self.sizes();
        let cache = if c.volatile { "write back" } else { "none" };
        format!(
            "{} bytes; {}; write cache: {cache}; atomic: {} bytes; requests: {least} to {most} \
             bytes, preferred {preferred}; block status: base:allocation",
            c.size,
            named.join(", "),
            c.atomic,
        )
    }
}
