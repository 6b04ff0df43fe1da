//! The result document, schema `varve.run/2`: keys sorted, integers where the value is one, ratios
//! with six decimals, times in nanoseconds; what is not known is absent, never 0.

use block::{Op, Span};
use ssd::{BlockNow, BlocksNow, Config, Params, Stats};

use crate::replay::{Conditioning, MeasureAfter, Mode, Outcome, Tally};
use crate::scenario::Replay;
use crate::{LayerCounts, StackConfig};
use report::json::{Json, Map, MapExt};

/// Name and version of the document's layout.
pub const SCHEMA: &str = "varve.run/2";

const OPS: [(&str, Op); 4] =
    [("read", Op::Read), ("write", Op::Write), ("flush", Op::Flush), ("discard", Op::Discard)];

/// One run: what was asked and what came out.
pub struct RunResult<'a> {
    /// The keys that were swept and their values here.
    pub params: &'a [(String, String)],
    /// The seed of every draw.
    pub seed: u64,
    /// The drive.
    pub drive: &'a Params,
    /// What the replay found.
    pub outcome: &'a Outcome,
    /// What was written before.
    pub conditioning: Conditioning,
    /// Units written before because they are read first, if asked for.
    pub preloaded: Option<u64>,
}

impl RunResult<'_> {
    /// The member of `results`.
    pub fn to_json(&self) -> Json {
        let (stats, tally) = (&self.outcome.stats, &self.outcome.tally);
        let mut map = named(self.params, self.seed);
        map.put("host", host(self));
        of_drive(&mut map, stats);
        map.maybe("waf", ratio(self.outcome.amplification().whole()));
        layers(&mut map, self.outcome);
        if tally.timed {
            map.maybe("latency_ns", latency(self.outcome));
            map.put("host_queue", host_queue(self.outcome));
            times(&mut map, self.outcome);
            busy(&mut map, self);
        }
        let frames = self.outcome.frames.to_json();
        map.maybe("blocks", self.outcome.blocks.as_ref().map(|of| blocks(of, frames)));
        map.maybe("series", self.outcome.series.to_json(tally.timed));
        map.maybe("precondition", conditioning(&self.conditioning));
        map.maybe("preloaded_units", self.preloaded.map(Json::Int));
        Json::Map(map)
    }
}

/// What every member of `results` begins with: which run it is.
pub(crate) fn named(params: &[(String, String)], seed: u64) -> Map {
    let mut map = Map::new();
    let mut all: Map = params.iter().map(|(key, text)| (key.clone(), Json::text(text))).collect();
    all.put("seed", Json::Int(seed));
    map.put("params", Json::Map(all));
    map.put("name", Json::text(run_name(params, seed)));
    map
}

/// The member of `results` of a run that cannot be: why not.
pub(crate) fn impossible(params: &[(String, String)], seed: u64, reason: &str) -> Json {
    let mut map = named(params, seed);
    map.put("impossible", Json::text(reason));
    Json::Map(map)
}

/// `buffer.policy=lru buffer.size=16M seed=1`: what tells a run from the others of its sweep.
pub fn run_name(params: &[(String, String)], seed: u64) -> String {
    let mut name = String::new();
    for (key, text) in params {
        name.push_str(&format!("{key}={text} "));
    }
    name + &format!("seed={seed}")
}

/// What a drive counts, under the names that the result of a run has: for who submits to one himself.
pub fn drive_json(stats: &Stats) -> Json {
    let mut map = Map::new();
    map.put("host", Json::Map(served(stats)));
    map.maybe("waf", ratio(stats.waf()));
    of_drive(&mut map, stats);
    Json::Map(map)
}

fn ratio((above, below): (u64, u64)) -> Option<Json> {
    Json::ratio(above, below)
}

/// What the drive alone counts.
fn of_drive(map: &mut Map, stats: &Stats) {
    map.put("nand", nand(stats));
    map.int("erases", stats.nand.erases);
    map.maybe("waf_flash", ratio(stats.waf_flash()));
    map.maybe("programs_per_slot", ratio(stats.programs_per_slot()));
    map.put("gc", gc(stats));
    map.maybe("hit_ratio", hit_ratio(stats));
    map.put("buffer", buffer(stats));
    map.put("wear", wear(stats));
    map.int("bad_blocks", stats.bad_blocks);
    map.int("free_blocks", stats.free_blocks);
    map.int("valid_units", stats.valid_units);
    let (logical, data) = (stats.logical_units, stats.data_units);
    map.maybe("op", Json::ratio(data.saturating_sub(logical), logical));
    let effective = stats.effective_units.saturating_sub(logical);
    map.maybe("effective_spare", Json::ratio(effective, logical));
    extras(map, stats);
    map.put("event_hash", Json::text(format!("{:016x}", stats.event_hash)));
}

/// What the host asked of the drive.
fn served(stats: &Stats) -> Map {
    let mut map = Map::new();
    for (name, op) in OPS {
        let of = stats.of(op);
        let mut m = Map::new();
        m.int("ops", of.ops);
        m.int("units", of.units);
        m.int("bytes", of.bytes);
        map.put(name, Json::Map(m));
    }
    map.int("read_unwritten", stats.read_unwritten);
    map.int("served", stats.host.iter().map(|op| op.ops).sum());
    map.int("write_slots", stats.write_slots);
    map
}

fn host(run: &RunResult<'_>) -> Json {
    let (stats, tally) = (&run.outcome.stats, &run.outcome.tally);
    let mut map = served(stats);
    map.int("submitted", tally.submitted.iter().sum());
    map.int("flushes_added", tally.added_flushes);
    map.int("empty_discards", tally.empty_discards);
    Json::Map(map)
}

/// Layers above the drive, and what the drive adds of the write amplification of all together.
fn layers(map: &mut Map, outcome: &Outcome) {
    if outcome.layers.is_empty() {
        return;
    }
    map.put("layers", layers_json(&outcome.layers));
    let (programmed, written) = outcome.amplification().drive();
    map.maybe("waf_drive", Json::ratio(programmed, written));
}

/// What layers wrote below, by kind, and what each adds.
pub(crate) fn layers_json(layers: &[LayerCounts]) -> Json {
    let mut all = Map::new();
    for layer in layers {
        let mut one: Map = layer
            .counts
            .iter()
            .chain(&layer.gauges)
            .map(|(name, n)| ((*name).to_string(), Json::Int(*n)))
            .collect();
        one.int("backing", layer.backing);
        one.maybe("waf", Json::ratio(layer.below, layer.asked));
        // A second one of a kind has its number.
        let same = all.keys().filter(|name| name.starts_with(layer.name)).count();
        let name = match same {
            0 => layer.name.to_string(),
            n => format!("{}.{}", layer.name, n + 1),
        };
        all.put(&name, Json::Map(one));
    }
    Json::Map(all)
}

pub(crate) fn nand(stats: &Stats) -> Json {
    let by_cause = |names: &[&str], counts: &[u64], total: u64| {
        let mut map = Map::new();
        names.iter().zip(counts).for_each(|(name, n)| map.int(name, *n));
        map.int("total", total);
        Json::Map(map)
    };
    let n = &stats.nand;
    let mut map = Map::new();
    map.put("programs", by_cause(&nand::Cause::NAMES, &n.programs, n.programs_total()));
    map.put("reads", by_cause(&nand::ReadCause::NAMES, &n.reads, n.reads_total()));
    map.int("programmed_bytes", stats.programmed_bytes());
    map.int("page_programs", n.page_programs);
    map.int("page_reads", n.page_reads);
    Json::Map(map)
}

pub(crate) fn gc(stats: &Stats) -> Json {
    let g = &stats.gc;
    let mut map = Map::new();
    map.int("victims", g.victims);
    map.int("foreground", g.foreground);
    map.int("background", g.background);
    map.int("pages", g.pages);
    map.int("wl_pages", g.wl_pages);
    map.int("lock_pages", g.lock_pages);
    map.maybe("valid_per_victim", Json::ratio(g.valid_at_choice, g.victims));
    map.put("stall_ns", Json::span(g.stall));
    Json::Map(map)
}

fn hits(reads: (u64, u64), writes: (u64, u64), requests: (u64, u64)) -> Option<Json> {
    let mut map = Map::new();
    map.put("total", Json::ratio(reads.0 + writes.0, reads.1 + writes.1)?);
    map.maybe("read", Json::ratio(reads.0, reads.1));
    map.maybe("write", Json::ratio(writes.0, writes.1));
    map.maybe("request", Json::ratio(requests.0, requests.1));
    Some(Json::Map(map))
}

fn hit_ratio(stats: &Stats) -> Option<Json> {
    if stats.buffer.slots == 0 {
        return None;
    }
    let sum = |f: &dyn Fn(&ssd::AppStats) -> u64| stats.apps.iter().map(f).sum::<u64>();
    let mut all = hits(
        (sum(&|a| a.read_hits), sum(&|a| a.read_units)),
        (sum(&|a| a.write_hits), sum(&|a| a.write_units)),
        (sum(&|a| a.request_hits), sum(&|a| a.requests)),
    )?;
    let used: Vec<_> = stats.apps.iter().enumerate().filter(|(_, a)| a.requests > 0).collect();
    if let (true, Json::Map(map)) = (used.len() > 1, &mut all) {
        let by_app = used.into_iter().filter_map(|(id, a)| {
            let one = hits(
                (a.read_hits, a.read_units),
                (a.write_hits, a.write_units),
                (a.request_hits, a.requests),
            );
            Some((id.to_string(), one?))
        });
        map.put("by_app", Json::Map(by_app.collect()));
    }
    Some(all)
}

fn buffer(stats: &Stats) -> Json {
    let b = &stats.buffer;
    let mut map = Map::new();
    map.int("slots", b.slots);
    map.int("dirty_evictions", b.dirty_evictions);
    map.int("padded", b.padded);
    map.int("clean_evictions", b.clean_evictions);
    map.int("flushed", b.flushed);
    map.int("peak", b.peak);
    map.int("partial_units", b.partial_units);
    Json::Map(map)
}

fn latency(outcome: &Outcome) -> Option<Json> {
    let mut map = Map::new();
    for (name, op) in OPS {
        let tally = &outcome.tally;
        let mut of = tally.latency[op as usize].to_json(true);
        if let Some(Json::Map(of)) = &mut of {
            of.maybe("mean_by_cause", mean_by_cause(tally, op));
            let causes = outcome.causes.as_ref();
            let by_cause = causes.and_then(|all| all.to_json(op, &tally.latency[op as usize]));
            of.maybe("by_cause", by_cause);
        }
        map.maybe(name, of);
    }
    let mut by_app = Map::new();
    for (id, app) in outcome.tally.apps.iter().enumerate() {
        let Some(latency) = &app.latency else { continue };
        let mut one = Map::new();
        one.maybe("read", latency[0].to_json(false));
        one.maybe("write", latency[1].to_json(false));
        if !one.is_empty() {
            by_app.put(&id.to_string(), Json::Map(one));
        }
    }
    if !by_app.is_empty() {
        map.put("by_app", Json::Map(by_app));
    }
    (!map.is_empty()).then_some(Json::Map(map))
}

/// What was written before the measured load, and whether that had settled.
fn conditioning(done: &Conditioning) -> Option<Json> {
    let mut map = Map::new();
    map.int("written_bytes", done.written);
    if let Some(settled) = done.settled {
        map.put("settled", Json::Bool(settled));
        map.int("windows", done.windows);
        map.maybe("last_window_waf", Json::ratio(done.last.0, done.last.1));
    }
    (done.written > 0).then_some(Json::Map(map))
}

/// The mean latency of an operation, in the part spent in the host's queue and the rest.
fn mean_by_cause(tally: &Tally, op: Op) -> Option<Json> {
    let (of, count) = (&tally.latency[op as usize], tally.latency[op as usize].count());
    let (mean, n) = (of.mean()?, u128::from(count));
    let queued = Span::from_ps(((tally.queued[op as usize] + n / 2) / n) as u64).min(mean);
    let mut map = Map::new();
    map.put("host_queue", Json::span(queued));
    map.put("device", Json::span(Span::from_ps(mean.as_ps() - queued.as_ps())));
    Some(Json::Map(map))
}

fn host_queue(outcome: &Outcome) -> Json {
    let tally = &outcome.tally;
    let mut map = Map::new();
    let (submitted, arriving) = tally.offered();
    map.int("waited", tally.queue.count());
    map.maybe("waited_share", Json::ratio(tally.queue.count(), submitted));
    map.maybe("wait_ns", tally.queue.to_json(false));
    map.put("held_ns", Json::span(tally.queue_held));
    map.put("saturated", Json::Bool(tally.saturated()));
    map.maybe("offered_per_s", per_second(submitted, arriving));
    map.maybe("served_per_s", per_second(submitted, tally.end.since(tally.start)));
    Json::Map(map)
}

/// `n` in `span`, by the second; `None` if there was no time.
pub(crate) fn per_second(n: u64, span: Span) -> Option<Json> {
    let rate = (u128::from(n) * 1_000_000_000_000).checked_div(u128::from(span.as_ps()));
    rate.and_then(|r| u64::try_from(r).ok()).map(Json::Int)
}

fn times(map: &mut Map, outcome: &Outcome) {
    let span = outcome.tally.end.since(outcome.tally.start);
    map.put("time_ns", Json::span(span));
    let per_second = |n| per_second(n, span);
    let (reads, writes) = (outcome.stats.of(Op::Read), outcome.stats.of(Op::Write));
    map.maybe("iops", per_second(reads.ops + writes.ops));
    map.maybe("bytes_per_s", per_second(reads.bytes + writes.bytes));
}

/// Shares of the time in which everything ended that was booked, the last flush included: what
/// the buffer still held is in the work, so its time is in the time.
fn busy(map: &mut Map, run: &RunResult<'_>) {
    let (stats, tally) = (&run.outcome.stats, &run.outcome.tally);
    let drained = tally.end.max(stats.booked_until).since(tally.start);
    map.put("drained_ns", Json::span(drained));
    let time = drained.as_ps();
    let share = |span: Span| Json::ratio(span.as_ps(), time);
    let mut busy = Map::new();
    let list = |spans: &[Span]| {
        let shares: Option<Vec<_>> = spans.iter().map(|span| share(*span)).collect();
        shares.map(Json::List)
    };
    busy.maybe("link", list(&stats.busy_link));
    let cores = u64::from(run.drive.firmware.cores);
    busy.maybe("fw", Json::ratio(stats.busy_fw.as_ps(), time.saturating_mul(cores)));
    busy.maybe("dram", share(stats.busy_dram));
    busy.maybe("channel", list(&stats.nand.channel_busy));
    busy.maybe("die", list(&stats.nand.die_busy));
    map.put("busy", Json::Map(busy));
    let mut timeline = Map::new();
    timeline.int("gaps_dropped", stats.nand.gaps_dropped);
    map.put("timeline", Json::Map(timeline));
    map.int("suspends", stats.nand.suspends);
    map.int("read_retries", stats.nand.retries);
}

pub(crate) fn wear(stats: &Stats) -> Json {
    let w = &stats.wear;
    let mut map = Map::new();
    map.int("min", u64::from(w.min));
    map.int("max", u64::from(w.max));
    map.maybe("mean", Json::ratio(w.sum, w.blocks));
    map.put("histogram", Json::List(w.histogram.iter().map(|n| Json::Int(*n)).collect()));
    Json::Map(map)
}

/// Every block at the end, by number, and before; null is a bad one, or one of which it is not known.
fn blocks(of: &BlocksNow, frames: Option<Json>) -> Json {
    let list = |f: &dyn Fn(&BlockNow) -> Option<u32>| {
        let known = |block| f(block).map_or(Json::Null, |n| Json::Int(u64::from(n)));
        Json::List(of.blocks.iter().map(known).collect())
    };
    let mut map = Map::new();
    map.int("dies", u64::from(of.dies));
    map.int("planes", u64::from(of.planes));
    map.put("erases", list(&|block| block.erases));
    if of.blocks.iter().any(|block| block.valid.is_some()) {
        map.put("valid", list(&|block| block.valid));
    }
    map.maybe("frames", frames);
    Json::Map(map)
}

/// Parts that only some drives have.
fn extras(map: &mut Map, stats: &Stats) {
    let (m, g) = (&stats.map, &stats.merges);
    if *m != ssd::MapStats::default() {
        let mut one = Map::new();
        one.int("hits", m.hits);
        one.int("misses", m.misses);
        one.int("dirty_evictions", m.dirty_evictions);
        one.int("evict_programs", m.evict_programs);
        one.int("gc_programs", m.gc_programs);
        one.int("checkpoint_programs", m.checkpoint_programs);
        map.put("map", Json::Map(one));
    }
    if *g != ssd::MergeStats::default() {
        let mut one = Map::new();
        one.int("switch", g.switch);
        one.int("partial", g.partial);
        one.int("full", g.full);
        map.put("merges", Json::Map(one));
    }
    if let Some(r) = &stats.recovery {
        let mut one = Map::new();
        one.int("pages_read", r.pages_read);
        one.put("time_ns", Json::span(r.time));
        one.int("lines", r.lines);
        one.put("from_checkpoint", Json::Bool(r.from_checkpoint));
        map.put("recovery", Json::Map(one));
    }
}

/// What stands above the drive: the keys that were set.
pub fn stack_json(stack: &StackConfig) -> Json {
    Json::Map(stack.keys().iter().map(|(key, text)| (key.clone(), Json::text(text))).collect())
}

/// The effective configuration of a drive: every key with its value, its origin, and the source
/// and tag where there are some.
pub fn config_json(config: &Config) -> Json {
    let mut map = Map::new();
    for (key, text, origin) in config.entries() {
        let mut one = Map::new();
        one.put("value", Json::text(text));
        one.put("from", Json::text(&origin.from));
        one.maybe("source", origin.source.as_ref().map(Json::text));
        one.maybe("tag", origin.tag.as_ref().map(Json::text));
        map.put(key, Json::Map(one));
    }
    Json::Map(map)
}

/// How the workload was replayed.
pub fn replay_json(replay: &Replay, queue_depth: u32) -> Json {
    let mut map = Map::new();
    let mode = match replay.mode {
        Mode::Open => "open",
        Mode::Closed { .. } => "closed",
        Mode::Dependent => "dependent",
        Mode::Untimed => "untimed",
    };
    map.put("mode", Json::text(mode));
    if let Mode::Closed { depth, per_app } = replay.mode {
        map.int("qd", u64::from(depth));
        map.put("per_app", Json::Bool(per_app));
    }
    if matches!(replay.mode, Mode::Open | Mode::Dependent) {
        map.put("speed", Json::text(replay.speed.to_string()));
    }
    map.int("device_queue_depth", u64::from(queue_depth));
    map.put("precondition", Json::text(replay.precondition.name()));
    map.put("preload", Json::text(if replay.preload { "reads" } else { "none" }));
    match replay.measure_after {
        None => {}
        Some(MeasureAfter::Requests(n)) => map.int("measure_after_requests", n),
        Some(MeasureAfter::Time(span)) => map.put("measure_after_ns", Json::span(span)),
    }
    map.maybe("flush_every", replay.flush_every.map(Json::Int));
    map.maybe("share", replay.share.as_ref().map(Json::text));
    if replay.slowdown {
        map.put("slowdown", Json::Bool(true));
    }
    Json::Map(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drives_counters_have_the_names_of_a_runs() {
        let mut stats =
            Stats { slot_bytes: 4096, logical_units: 8, data_units: 10, ..Stats::default() };
        stats.host[Op::Write as usize].bytes = 4096;
        stats.nand.programs[nand::Cause::Host as usize] = 1;
        stats.nand.programs[nand::Cause::Gc as usize] = 2;
        let text = drive_json(&stats).pretty();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["waf"], 3.0);
        assert_eq!(json["host"]["write"]["bytes"], 4096);
        assert_eq!(json["op"], 0.25);
        assert!(json.get("latency_ns").is_none(), "it has none of its own");
        for id in ["waf_flash", "nand.programs.gc", "gc.pages", "wear.max", "host.read_unwritten"] {
            assert!(crate::metric::ALL.iter().any(|metric| metric.id() == id), "{id}");
            let found = id.split('.').fold(&json, |at, key| &at[key]);
            assert!(!found.is_null(), "{id}");
        }
    }
}
