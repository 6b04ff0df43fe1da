//! Every key of a drive's configuration, once: name, kind, default, meaning.

use block::{Span, parse_time};

/// What a key's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// A whole number from the first to the second.
    Count(u64, u64),
    /// A size with its unit.
    Size,
    /// Bytes per second with its unit, or `none`.
    Rate,
    /// A time with its unit.
    Time,
    /// One or more times, separated by commas: one per page type. May be empty.
    Times,
    /// A share such as `7 %` or `12.5 %`.
    Share,
    /// `on` or `off`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A buffer policy, with its options.
    Policy,
    /// A victim policy, with its parameter.
    Victim,
    /// The letters C, W, D and P, each once.
    Order,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Dotted name.
    pub name: &'static str,
    /// What its value is.
    pub kind: KeyKind,
    /// Default, as text.
    pub default: &'static str,
    /// What it means.
    pub doc: &'static str,
}

use KeyKind::{Choice, Count, Flag, Order, Policy, Rate, Share, Size, Time, Times, Victim};

const fn k(name: &'static str, kind: KeyKind, default: &'static str, doc: &'static str) -> Key {
    Key { name, kind, default, doc }
}

/// All keys, sorted by name.
pub const SCHEMA: &[Key] = &[
    k("bad.factory", Share, "0 %", "share of blocks bad from the factory"),
    k(
        "bad.reserve",
        Share,
        "0 %",
        "share of blocks kept to replace bad ones, taken before over-provisioning",
    ),
    k(
        "buffer.policy",
        Policy,
        "lru",
        "replacement policy of the DRAM buffer (`varve list policies`)",
    ),
    k(
        "buffer.size",
        Size,
        "16 MiB",
        "DRAM for data and the policy's tables; without effect with policy `none`",
    ),
    k(
        "buffer.staging",
        Count(0, 1 << 20),
        "0",
        "programs of write-back in flight before a write waits; 0 = two per plane",
    ),
    k(
        "buffer.subunit",
        Choice(&["round", "mask"]),
        "round",
        "a part of a 4 KiB entry counts whole, or is kept by sector",
    ),
    k(
        "buffer.write",
        Choice(&["back", "through"]),
        "back",
        "a write is done in DRAM, or when programmed",
    ),
    k("bus.cmd", Time, "0", "command and address cycles of an operation"),
    k("bus.oob", Flag, "off", "programs also move the spare area over the bus"),
    k("bus.page_time", Time, "0", "bus time of a whole page, instead of bus.rate"),
    k("bus.rate", Rate, "none", "bus of a channel"),
    k("capacity", Size, "0", "logical size; 0 = what blocks and op give"),
    k("ckpt.interval", Share, "6.25 %", "share of the drive written between checkpoints"),
    k("ckpt.mode", Choice(&["none", "interval"]), "none", "whether the map is checkpointed"),
    k("dram.latency", Time, "100 ns", "of one buffer access"),
    k("dram.rate", Rate, "8 GB/s", "of the DRAM port"),
    k(
        "dram.size",
        Size,
        "0",
        "one budget for map, map cache and buffer; buffer.size is what is left",
    ),
    k("ftl", Choice(&["page", "hybrid-log"]), "page", "flash translation layer"),
    k("fw.complete", Time, "0", "latency of completing a command: added, occupies nothing"),
    k("fw.cores", Count(0, 64), "1", "controller cores; 0 = core time is free"),
    k("fw.latency.per_unit", Time, "0", "latency per 4 KiB written: added, occupies nothing"),
    k("fw.latency.read", Time, "0", "latency of a read command: added, occupies nothing"),
    k("fw.latency.read_4k", Time, "0", "of a read of at most 4 KiB; not set = fw.latency.read"),
    k("fw.latency.write", Time, "0", "latency of a write command: added, occupies nothing"),
    k("fw.per_unit", Time, "0", "core time per 4 KiB written: one of fw.cores is occupied"),
    k("fw.read", Time, "0", "core time of a read command: one of fw.cores is occupied"),
    k("fw.read_4k", Time, "0", "core time of a read of at most 4 KiB; not set = fw.read"),
    k("fw.write", Time, "0", "core time of any other command: one of fw.cores is occupied"),
    k("gc.background", Flag, "off", "clean when idle"),
    k("gc.bg_start", Share, "10 %", "free lines below which background cleaning runs"),
    k(
        "gc.exact",
        Choice(&["auto", "on", "off"]),
        "auto",
        "victims by their definition, not by one line of each bucket; auto: below 4096 lines",
    ),
    k("gc.idle", Time, "10 ms", "time without a host request before background cleaning"),
    k(
        "gc.pace",
        Choice(&["credit", "burst"]),
        "credit",
        "copies owed per host page, or a victim at once",
    ),
    k(
        "gc.per_stream",
        Flag,
        "off",
        "one cleaning head per host stream: what the host kept apart stays apart; with hotcold by age of the line",
    ),
    k("gc.reserve", Count(0, 1 << 20), "0", "free lines only cleaning may use; 0 = heads + 2"),
    k("gc.start", Count(0, 1 << 20), "0", "free lines below which cleaning starts; 0 = 2 + heads"),
    k(
        "gc.start_share",
        Share,
        "0 %",
        "the same as a share of all lines, which scaling keeps; 0 = gc.start",
    ),
    k("gc.stop", Count(0, 1 << 20), "0", "free lines at which cleaning stops; 0 = gc.start + 1"),
    k(
        "gc.victim",
        Victim,
        "auto",
        "victim policy (`varve list policies`); auto: greedy, or cost-benefit with transactions",
    ),
    k(
        "geometry.blocks",
        Count(0, 1 << 24),
        "0",
        "erase blocks per plane; 0 = what capacity and op need",
    ),
    k("geometry.cell_bits", Count(1, 5), "1", "bits per cell: page types and pages of a word line"),
    k("geometry.channels", Count(1, 256), "4", "channels"),
    k("geometry.dies", Count(1, 256), "2", "dies per channel"),
    k("geometry.oob", Size, "0", "spare bytes per page; 0 = one eighth of the page"),
    k("geometry.page", Size, "4 KiB", "data bytes per page"),
    k("geometry.pages", Count(1, 1 << 16), "64", "pages per block"),
    k("geometry.planes", Count(1, 8), "1", "planes per die"),
    k(
        "hybrid.assoc",
        Choice(&["block", "full"]),
        "full",
        "log blocks belong to one data block (BAST) or to all (FAST)",
    ),
    k(
        "hybrid.log_blocks",
        Share,
        "3 %",
        "lines used as log blocks, at least two with full associativity",
    ),
    k(
        "line",
        Choice(&["auto", "superblock", "channel", "die", "plane"]),
        "auto",
        "what is collected as a whole",
    ),
    k("link.rate", Rate, "none", "host link, each direction"),
    k("map.cache", Size, "0", "DRAM for translation pages of a paged map"),
    k("map.evict", Choice(&["clock", "lru"]), "clock", "replacement of translation pages"),
    k(
        "map.mode",
        Choice(&["full", "paged"]),
        "full",
        "the map lies in DRAM, or on flash with a cache",
    ),
    k("nand.cache_ops", Flag, "off", "cached reads and programs"),
    k("nand.erase", Time, "2 ms", "block erase"),
    k("nand.independent_planes", Flag, "off", "planes of a die read on their own"),
    k("nand.multi_plane", Flag, "on", "planes of a die program and read together"),
    k("nand.one_shot", Flag, "off", "a word line is programmed at once"),
    k(
        "nand.oob",
        Choice(&["lean", "full"]),
        "lean",
        "keep only logical numbers, or whole records (cuts, recovery)",
    ),
    k(
        "nand.page_types",
        Choice(&["uniform", "lsb-msb", "mlc-pairs"]),
        "uniform",
        "which pages are lower and upper",
    ),
    k("nand.program", Times, "200 us", "page program, per page type"),
    k("nand.read", Times, "40 us", "page sense, per page type"),
    k("nand.read_4k", Times, "", "page sense for at most 4 KiB, per page type; empty = nand.read"),
    k(
        "nand.suspend",
        Choice(&["none", "erase", "program", "both"]),
        "none",
        "what a read may interrupt, in whatever order dies serve",
    ),
    k("nand.suspend_max", Count(1, 255), "4", "interruptions of one operation"),
    k(
        "nand.suspend_min",
        Time,
        "100 us",
        "what must remain of an operation for a read to interrupt it",
    ),
    k("nand.t_cbsy", Time, "0", "between cached programs"),
    k("nand.t_rcbsy", Time, "0", "between cached reads"),
    k("nand.t_resume", Time, "0", "from a read's end to the interrupted operation going on"),
    k("nand.t_suspend", Time, "0", "from a read's arrival to its start"),
    k("op", Share, "7 %", "over-provisioning: (data - logical) / logical pages"),
    k(
        "order",
        Order,
        "CWDP",
        "striping: channel, way, die, plane, fastest first (way and die are one here)",
    ),
    k(
        "placement",
        Choice(&["stripe", "dynamic", "static"]),
        "stripe",
        "the next page of a line, the die free first, or LPN mod dies",
    ),
    k(
        "plp.mode",
        Choice(&["none", "capacitor", "full"]),
        "none",
        "power-loss protection of the buffer",
    ),
    k("plp.pages", Count(0, 1 << 30), "0", "buffer entries a capacitor can save"),
    k("queue_depth", Count(1, 1 << 16), "256", "commands in flight"),
    k(
        "sched",
        Choice(&["in-order", "read-first", "read-first(suspend)"]),
        "in-order",
        "what a die serves next: what was submitted first, or reads before programs and erases that \
         have not begun; `(suspend)`: they interrupt those that have, as nand.suspend says (none \
         said: both)",
    ),
    k(
        "streams.count",
        Count(1, 8),
        "1",
        "open host lines for policies hotcold, app, hint and buffer",
    ),
    k(
        "streams.policy",
        Choice(&["single", "user+gc", "hotcold", "app", "hint", "buffer", "lifetime"]),
        "user+gc",
        "which writes share a line",
    ),
    k("timing", Flag, "on", "off: no time is modelled (hit ratios, write amplification)"),
    k(
        "tx.commit",
        Choice(&["barrier", "counted"]),
        "counted",
        "the end page waits for the others of its transaction, or names them",
    ),
    k(
        "tx.lock",
        Choice(&["prefer", "hard", "ignore"]),
        "prefer",
        "lines with old pages of open transactions: collected last, never, or as any other",
    ),
    k("tx.losers", Count(1, 320), "320", "aborted transactions with pages on flash"),
    k("tx.max_open", Count(1, 256), "64", "transactions open at once"),
    k(
        "tx.mode",
        Choice(&["off", "nolog", "paper"]),
        "off",
        "transactions without logging (paper 4), or the paper's literal rules",
    ),
    k(
        "tx.pages",
        Count(0, 65_535),
        "0",
        "pages of open transactions; 0 = half of the spare pages, at most 10000",
    ),
    k("tx.pairs", Count(1, 204), "204", "pairs in a remap record"),
    k("tx.span", Count(2, 16_384), "16384", "numbers from the oldest open transaction to the next"),
    k("unit", Size, "4 KiB", "mapping unit"),
    k(
        "wl.delta",
        Count(1, 1 << 30),
        "100",
        "erase-count difference that starts static wear levelling",
    ),
    k("wl.mode", Choice(&["none", "dynamic", "dynamic+static"]), "dynamic", "wear levelling"),
    k("wl.period", Count(1, 1 << 30), "1000", "erases between two static moves"),
];

/// The victim policy that depends on what else the drive does.
pub(super) const AUTO: &str = "auto";

/// The key of a name.
pub fn key(name: &str) -> Option<&'static Key> {
    SCHEMA.binary_search_by(|key| key.name.cmp(name)).ok().map(|i| &SCHEMA[i])
}

/// The key nearest to a misspelt name, if one is near.
pub(super) fn nearest(name: &str) -> Option<String> {
    let distance = |a: &str, b: &str| {
        let (a, b) = (a.as_bytes(), b.as_bytes());
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, x) in a.iter().enumerate() {
            let mut last = row[0];
            row[0] = i + 1;
            for (j, y) in b.iter().enumerate() {
                let next = (last + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
                last = row[j + 1];
                row[j + 1] = next;
            }
        }
        row[b.len()]
    };
    let tail = |key: &str| key.rsplit('.').next().unwrap_or(key).to_string();
    SCHEMA
        .iter()
        .map(|key| (distance(name, key.name).min(distance(name, &tail(key.name)) + 1), key.name))
        .min()
        .filter(|(d, _)| *d <= 3)
        .map(|(_, name)| name.to_string())
}

/// Comma-separated times; empty = none.
pub(super) fn parse_times(text: &str) -> Result<Vec<Span>, String> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| parse_time(part).map_err(|e| e.expected.to_string()))
        .collect()
}

/// A share in parts per million.
///
/// # Errors
/// What was expected.
pub fn parse_share(text: &str) -> Result<u64, String> {
    let expected = || "a share such as `7 %` or `12.5 %`".to_string();
    let number = text.trim().strip_suffix('%').ok_or_else(expected)?.trim();
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if part.len() > 4 || !whole.bytes().chain(part.bytes()).all(|b| b.is_ascii_digit()) {
        return Err(expected());
    }
    let whole: u64 = whole.parse().map_err(|_| expected())?;
    let part: u64 = format!("{part:0<4}").parse().map_err(|_| expected())?;
    if whole > 10_000 { Err(expected()) } else { Ok(whole * 10_000 + part) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_sorted_and_its_defaults_are_valid() {
        assert!(SCHEMA.windows(2).all(|w| w[0].name < w[1].name));
        for key in SCHEMA {
            key.kind.check(key.default).unwrap_or_else(|e| panic!("{}: {e}", key.name));
        }
    }

    /// A swept key's own value never reaches a drive: what nobody knows is refused when it is set.
    #[test]
    fn a_name_that_nobody_knows_is_of_no_kind() {
        for (name, text) in [
            ("buffer.policy", "zzz"),
            ("buffer.policy", "lru(x=1)"),
            ("buffer.policy", ""),
            ("gc.victim", "greedyy"),
            ("gc.victim", "dchoice(x)"),
            ("order", "CWDD"),
            ("order", ""),
        ] {
            let expected = key(name).unwrap().kind.check(text).unwrap_err();
            assert!(!expected.is_empty(), "{name} = {text}");
        }
        key("gc.victim").unwrap().kind.check("dchoice(3)").unwrap();
        key("order").unwrap().kind.check("PDWC").unwrap();
    }

    #[test]
    fn a_misspelt_key_finds_its_neighbour() {
        assert_eq!(nearest("gc.victm").as_deref(), Some("gc.victim"));
        assert_eq!(nearest("victim").as_deref(), Some("gc.victim"));
        assert_eq!(nearest("something.else.entirely"), None);
    }
}
