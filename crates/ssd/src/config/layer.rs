//! What belongs to one of the two FTLs only: keys, DRAM of the map, lines.

use super::params::{Params, PlaneGroup};
use super::{Config, ConfigError};
use crate::hybrid;

/// Keys that say something only to the page-mapped FTL. What a preset says of them is left aside.
const PAGE_ONLY: &[&str] = &[
    "ckpt.interval",
    "gc.background",
    "gc.bg_start",
    "gc.exact",
    "gc.idle",
    "gc.pace",
    "gc.per_stream",
    "gc.reserve",
    "gc.start",
    "gc.start_share",
    "gc.stop",
    "gc.victim",
    "map.cache",
    "map.evict",
    "streams.count",
    "streams.policy",
    "wl.delta",
    "wl.period",
];

/// Keys that make another drive, whoever sets them: the only value the hybrid FTL can honour.
const PAGE_ONLY_VALUES: &[(&str, &[&str])] = &[
    ("ckpt.mode", &["none"]),
    ("map.mode", &["full"]),
    ("placement", &["stripe"]),
    ("wl.mode", &["none", "dynamic"]),
];

/// Keys that say something only to the hybrid FTL.
const HYBRID_ONLY: &[&str] = &["hybrid.assoc", "hybrid.log_blocks"];

fn is_hybrid(c: &Config) -> bool {
    c.text("ftl") == "hybrid-log"
}

/// A key without effect on the FTL chosen is an error that names it.
pub(super) fn check_keys(c: &Config) -> Result<(), ConfigError> {
    let hybrid = is_hybrid(c);
    let idle = if hybrid { PAGE_ONLY } else { HYBRID_ONLY };
    let mut keys: Vec<&str> = idle.iter().copied().filter(|name| c.is_asked(name)).collect();
    if hybrid {
        let other = |(name, values): &&(&'static str, &[&str])| !values.contains(&c.text(name));
        keys.extend(PAGE_ONLY_VALUES.iter().filter(other).map(|(name, _)| *name));
        if c.size("unit") > c.size("geometry.page") {
            keys.push("unit");
        }
    }
    if keys.is_empty() {
        return Ok(());
    }
    let reason = if hybrid {
        "not a matter of ftl = hybrid-log, which cleans by merges only, keeps its map in DRAM without checkpoints, writes lines in stripe order, moves no cold data, and whose unit is at most a page; leave it at the default"
    } else {
        "a matter of ftl = hybrid-log only; without effect on ftl = page"
    };
    Err(ConfigError::Contradiction { keys: keys.join(", "), reason: reason.to_string() })
}

/// DRAM that the map takes: `rows` rows of lines over `groups`, each of `line` slots.
pub(super) fn map_bytes(
    c: &Config,
    slots: u64,
    rows: u64,
    groups: &[PlaneGroup],
    line: u64,
) -> u64 {
    if is_hybrid(c) {
        let logs = (rows * groups.len() as u64 * c.ppm("hybrid.log_blocks")).div_ceil(1_000_000);
        return hybrid::map_bytes(slots, line, logs);
    }
    if c.text("map.mode") == "paged" { c.size("map.cache").0 } else { 4 * slots }
}

/// The hybrid FTL must have lines for its data, its logs and to merge into.
pub(super) fn check_hybrid_lines(p: &Params, lines: u32) -> Result<(), ConfigError> {
    let (blocks, logs, rest) = hybrid::lines_needed(p);
    let needed = blocks + logs + rest;
    if needed <= lines {
        return Ok(());
    }
    let reason = format!(
        "{lines} lines do not hold {blocks} data blocks, {logs} log blocks and {rest} to merge into: {needed} lines are needed; give more over-provisioning, fewer log blocks or smaller lines"
    );
    Err(ConfigError::Contradiction { keys: "op, geometry, hybrid.log_blocks".to_string(), reason })
}
