//! The drives of the matrix: one geometry, every kind of mapping; and what stands above.

use super::cell::Cell;

/// An eighth of the paper's drive: the same pages and times on 16 planes instead of 128, blocks of
/// 128 pages instead of 512, so that a small drive has lines enough.
const BASE: &[(&str, &str)] = &[
    ("drive.preset", "paper-remap"),
    ("drive.geometry.channels", "4"),
    ("drive.geometry.dies", "2"),
    ("drive.geometry.pages", "128"),
    ("drive.link.rate", "775 MB/s"),
    ("drive.buffer.size", "8 MiB"),
];

/// A kind of mapping in the drive.
pub(super) struct Mapping {
    /// Its name in the tables.
    pub(super) name: &'static str,
    /// Its keys; a cache is `1/n` of the map.
    keys: &'static [(&'static str, &'static str)],
    /// The map's cache is such a part of it.
    cache: Option<u64>,
}

/// Mappings from the largest in DRAM to the coarsest.
pub(super) const MAPPINGS: [Mapping; 6] = [
    Mapping { name: "full map", keys: &[("drive.map.mode", "full")], cache: None },
    Mapping { name: "cached 1/4", keys: &[("drive.map.mode", "paged")], cache: Some(4) },
    Mapping { name: "cached 1/16", keys: &[("drive.map.mode", "paged")], cache: Some(16) },
    Mapping { name: "cached 1/64", keys: &[("drive.map.mode", "paged")], cache: Some(64) },
    Mapping { name: "16 KiB units", keys: &[("drive.unit", "16 KiB")], cache: None },
    Mapping { name: "hybrid", keys: &[("drive.ftl", "hybrid-log")], cache: None },
];

/// The least a cache holds, in translation pages.
const LEAST_CACHE: u64 = 8;

impl Mapping {
    /// A drive of `mib` MiB with this mapping.
    pub(super) fn drive(&self, mib: u64) -> Cell {
        let cell = Cell::default().with_all(BASE).with("drive.capacity", format!("{mib} MiB"));
        let mut cell = cell.with_all(self.keys);
        if let Some(part) = self.cache {
            // Four bytes for each 4 KiB.
            let map = mib << 10;
            let kib = (map / part / 1024).max(LEAST_CACHE * 16).next_multiple_of(16);
            cell = cell.with("drive.map.cache", format!("{kib} KiB"));
        }
        cell
    }
}

/// What stands above the drive.
pub(super) const STACKS: [(&str, &str); 3] =
    [("pass-through", "off"), ("paper", "paper"), ("varve", "varve")];
