//! The drives of the matrix: one geometry, every kind of mapping; and what stands above.

use super::cell::Cell;

/// An eighth of the paper's drive: the same pages and times on 16 planes instead of 128.
const BASE: &[(&str, &str)] = &[
    ("drive.preset", "paper-remap"),
    ("drive.geometry.channels", "4"),
    ("drive.geometry.dies", "2"),
    ("drive.line", "superblock"),
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

const FULL: Mapping =
    Mapping { name: "full map", keys: &[("drive.map.mode", "full")], cache: None };
const CACHED: Mapping =
    Mapping { name: "cached 1/64", keys: &[("drive.map.mode", "paged")], cache: Some(64) };
const UNITS: Mapping =
    Mapping { name: "16 KiB units", keys: &[("drive.unit", "16 KiB")], cache: None };

/// Mappings from the largest in DRAM to the coarsest.
pub(super) static MAPPINGS: [Mapping; 6] = [
    FULL,
    Mapping { name: "cached 1/4", cache: Some(4), ..CACHED },
    Mapping { name: "cached 1/16", cache: Some(16), ..CACHED },
    CACHED,
    UNITS,
    Mapping { name: "hybrid", keys: &[("drive.ftl", "hybrid-log")], cache: None },
];

/// Drives that the paper's numbers are compared with: a drive with its map in DRAM, and one whose map is on
/// flash.
pub(super) static COMPARED: [Mapping; 2] = [FULL, CACHED];
/// The first of them with a coarser map, which is in DRAM, too.
pub(super) static COARSE: [Mapping; 1] = [Mapping { name: FULL.name, ..UNITS }];

const PLANES: u64 = 16;
const PAGE_KIB: u64 = 16;
/// Pages of the paper's blocks, and what erasing one takes: a smaller block takes less in proportion.
const PAGES: u64 = 512;
const ERASE_US: u64 = 5000;

/// KiB of a line: what the drive erases together, a 320th of its flash.
pub(super) fn line_kib(mib: u64) -> u64 {
    (mib * 1024 / 256).max(PLANES * PAGE_KIB)
}

/// The least a cache holds, in translation pages.
const LEAST_CACHE: u64 = 2;

impl Mapping {
    /// A drive of `mib` MiB with this mapping.
    pub(super) fn drive(&self, mib: u64) -> Cell {
        let pages = line_kib(mib) / PLANES / PAGE_KIB;
        let mut cell = Cell::default()
            .with_all(BASE)
            .with("drive.capacity", format!("{mib} MiB"))
            .with("drive.geometry.pages", pages.to_string())
            .with("drive.nand.erase", format!("{} us", ERASE_US * pages / PAGES))
            .with_all(self.keys);
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
    [("pass-through", "off"), ("paper", "paper-log"), ("varve", "log")];
