//! A load of files as a member of a result document's `results`.

use block::{Op, UNIT_BYTES};
use lfs::Cause;

use super::{Kind, Measured};
use crate::result::{gc, layers_json, named, nand, per_second, wear};
use report::json::{Json, Map, MapExt};

/// Blocks written by the file system, by cause, in the document's words.
const CAUSES: [(&str, Cause); 11] = [
    ("data", Cause::Data),
    ("dentry", Cause::Dentry),
    ("journal", Cause::Journal),
    ("moved_data", Cause::MovedData),
    ("moved_node", Cause::MovedNode),
    ("nat", Cause::Nat),
    ("node", Cause::Node),
    ("pack", Cause::Pack),
    ("sit", Cause::Sit),
    ("ssa", Cause::Ssa),
    ("super", Cause::Super),
];

/// What came out. Write amplification is of everything: bytes programmed for each that programs wrote.
pub(super) fn files_json(found: &Measured, swept: &[(String, String)], seed: u64) -> Map {
    let (below, layers) = (&found.below.0, &found.below.1);
    let mut map = named(swept, seed);
    map.put("files", Json::Map(files(found)));
    map.put("nand", nand(below));
    map.int("erases", below.nand.erases);
    let bytes = found.user * UNIT_BYTES;
    map.maybe("waf", Json::ratio(below.programmed_bytes(), bytes));
    let amplification = found.amplification();
    map.maybe("waf_files", Json::ratio(below.of(Op::Write).bytes, bytes));
    let (programmed, written) = amplification.drive();
    map.maybe("waf_drive", Json::ratio(programmed, written));
    if !layers.is_empty() {
        map.put("layers", layers_json(layers));
    }
    map.put("gc", gc(below));
    let mut latency = Map::new();
    latency.maybe("read", found.latency[Kind::Read as usize].to_json(true));
    latency.maybe("write", found.latency[Kind::Update as usize].to_json(true));
    map.put("latency_ns", Json::Map(latency));
    map.put("time_ns", Json::span(found.elapsed));
    map.put("wear", wear(below));
    map.int("bad_blocks", below.bad_blocks);
    map.int("free_blocks", below.free_blocks);
    map
}

/// What the file system counted.
fn files(found: &Measured) -> Map {
    let mut map = Map::new();
    map.int("user_blocks", found.user);
    map.int("operations", found.operations);
    map.maybe("operations_per_s", per_second(found.operations, found.elapsed));
    map.int("user_blocks_per_s", found.rate());
    let mut written: Map = CAUSES
        .iter()
        .map(|(name, cause)| ((*name).to_string(), Json::Int(found.stats.of(*cause))))
        .collect();
    written.int("total", found.written());
    map.put("written_blocks", Json::Map(written));
    map.int("segments_cleaned", found.cleaned());
    map.put("cleaning_ns", Json::span(found.stats.cleaning.total()));
    let triggers = found.stats.triggers.iter();
    let by_trigger: Map =
        triggers.map(|(trigger, n)| (trigger.name().to_string(), Json::Int(*n))).collect();
    map.put("checkpoints", Json::Map(by_trigger));
    map.int("flushes", found.stats.flushes);
    let share = |(used, all): (u64, u64)| Json::ratio(used, all);
    map.maybe("used_after_fill", share(found.usage[0]));
    map.maybe("used_at_end", share(found.usage[1]));
    map
}
