//! What happened when: windows of equal numbers of requests over the measured part of a run.
//!
//! The length of a run is not known in advance, so windows start small and are joined in pairs
//! whenever there are [`MOST_WINDOWS`] of them: memory is fixed, and joining is exact because a
//! window holds differences and histograms, not quotients.
//!
//! What the drive does behind the last request, until all that was written is on flash, belongs to
//! no window: it has a place of its own ([`Series::drained`]). With it, every count sums to that of
//! the run exactly.

use block::{Op, Span, Time};
use ssd::Stats;

use report::json::{Json, Map, MapExt, millionths};

const MOST_WINDOWS: usize = 192;
const FIRST_LENGTH: u64 = 256;

/// Sub-buckets of the windows' histograms for each power of two: percentiles are at most 3 % too
/// high.
const SUB_BITS: u32 = 5;
/// Latencies from 2^FLOOR_BITS ps (1 ns) to 2^34 times that (17 s) are told apart.
const FLOOR_BITS: u32 = 10;
const BUCKETS: usize = 34 << SUB_BITS;
/// Buckets that a document joins in one bin: two bins for each power of two.
const JOINED: usize = 1 << (SUB_BITS - 1);

/// A small histogram: percentiles over windows of thousands, and the bins of a document.
#[derive(Clone)]
struct Small(Box<[u32]>);

impl Small {
    fn new() -> Small {
        Small(vec![0; BUCKETS].into_boxed_slice())
    }

    fn bucket(ps: u64) -> usize {
        let v = ps >> FLOOR_BITS;
        let b = if v < 1 << SUB_BITS {
            v as usize
        } else {
            let shift = 63 - SUB_BITS - v.leading_zeros();
            ((shift as usize + 1) << SUB_BITS) + (v >> shift) as usize - (1 << SUB_BITS)
        };
        b.min(BUCKETS - 1)
    }

    fn upper_edge(bucket: usize) -> u64 {
        let sub = 1usize << SUB_BITS;
        if bucket < sub {
            return ((bucket as u64 + 1) << FLOOR_BITS) - 1;
        }
        let shift = (bucket >> SUB_BITS) as u32 - 1;
        ((((bucket & (sub - 1)) + sub + 1) as u64) << (shift + FLOOR_BITS)) - 1
    }

    fn merge(&mut self, other: &Small) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Requests by bins, joined buckets.
    fn bins(&self) -> impl Iterator<Item = u64> {
        self.0.chunks(JOINED).map(|bin| bin.iter().map(|n| u64::from(*n)).sum())
    }

    /// The number of the first bin that is not empty, and the requests of all bins from there to the
    /// last that is not; an empty list without any.
    fn to_json(&self) -> Json {
        let bins: Vec<u64> = self.bins().collect();
        let used = |n: &u64| *n > 0;
        let (Some(first), Some(last)) = (bins.iter().position(used), bins.iter().rposition(used))
        else {
            return Json::List(Vec::new());
        };
        let counts = bins[first..=last].iter().map(|n| Json::Int(*n));
        Json::List([Json::Int(first as u64)].into_iter().chain(counts).collect())
    }

    /// The 99th percentile; `None` with less than 100 samples, where it would be the maximum.
    fn p99(&self) -> Option<u64> {
        let count: u64 = self.0.iter().map(|n| u64::from(*n)).sum();
        if count < 100 {
            return None;
        }
        let rank = (count * 99).div_ceil(100);
        let mut seen = 0;
        let at = self.0.iter().position(|n| {
            seen += u64::from(*n);
            seen >= rank
        });
        at.map(Small::upper_edge)
    }
}

/// Makes a column, or one value, of what had been counted before and behind a stretch of the run.
type Column<'a> = dyn Fn(&dyn Fn(&Edge, &Edge) -> Json) -> Json + 'a;

/// What is counted between the edges of windows.
#[derive(Clone, Copy, Default)]
struct Edge {
    at: Time,
    /// 4 KiB pages read and written.
    host_units: [u64; 2],
    write_bytes: u64,
    slot_bytes: u64,
    programs: [u64; 6],
    free_blocks: u64,
    /// Lines collected, their valid slots when chosen, and the time writes waited for a free line.
    victims: u64,
    victims_valid: u64,
    stall: Span,
    /// 4 KiB pages asked of the buffer, and found there; entries that are dirty now.
    asked: u64,
    found: u64,
    dirty: u64,
}

impl Edge {
    fn new(at: Time, stats: &Stats) -> Edge {
        let sum = |f: &dyn Fn(&ssd::AppStats) -> u64| stats.apps.iter().map(f).sum();
        Edge {
            at,
            victims: stats.gc.victims,
            victims_valid: stats.gc.valid_at_choice,
            stall: stats.gc.stall,
            asked: sum(&|app| app.read_units + app.write_units),
            found: sum(&|app| app.read_hits + app.write_hits),
            dirty: stats.buffer.dirty,
            host_units: [stats.of(Op::Read).units, stats.of(Op::Write).units],
            write_bytes: stats.of(Op::Write).bytes,
            slot_bytes: stats.slot_bytes,
            programs: stats.nand.programs,
            free_blocks: stats.free_blocks,
        }
    }
}

/// Latencies of reads, writes and flushes.
#[derive(Clone)]
struct Latencies([Small; 3]);

/// Operations whose latencies are kept, in that order, and the names of their columns.
const KEPT: [(Op, &str); 3] =
    [(Op::Read, "read_latency"), (Op::Write, "write_latency"), (Op::Flush, "flush_latency")];

impl Latencies {
    fn new() -> Latencies {
        Latencies(std::array::from_fn(|_| Small::new()))
    }
    fn of(&self, op: Op) -> &Small {
        &self.0[op as usize]
    }
}

struct Window {
    end: Edge,
    latencies: Latencies,
}

/// The windows of a run.
pub struct Series {
    start: Edge,
    windows: Vec<Window>,
    length: u64,
    filled: u64,
    /// Requests of the last closed window: fewer than `length` when the run ended inside it.
    last: u64,
    /// The open window's latencies.
    latencies: Latencies,
    /// What had been counted when all was on flash.
    drained: Option<Edge>,
    /// The drive has a buffer.
    buffered: bool,
}

impl Series {
    /// A series that starts now.
    pub(super) fn new(at: Time, stats: &Stats) -> Series {
        Series {
            start: Edge::new(at, stats),
            windows: Vec::with_capacity(MOST_WINDOWS),
            length: FIRST_LENGTH,
            filled: 0,
            last: 0,
            latencies: Latencies::new(),
            drained: None,
            buffered: stats.buffer.slots > 0,
        }
    }

    /// Notes a request; true if the window is full and [`Series::close`] is due.
    #[inline]
    pub(super) fn add(&mut self, op: Op, latency: Span) -> bool {
        if let Some(of) = self.latencies.0.get_mut(op as usize) {
            of.0[Small::bucket(latency.as_ps())] += 1;
        }
        self.filled += 1;
        self.filled == self.length
    }

    /// Ends the open window.
    pub(super) fn close(&mut self, at: Time, stats: &Stats) {
        if self.filled == 0 {
            return;
        }
        self.last = std::mem::take(&mut self.filled);
        let latencies = std::mem::replace(&mut self.latencies, Latencies::new());
        self.windows.push(Window { end: Edge::new(at, stats), latencies });
        if self.windows.len() == MOST_WINDOWS {
            self.join();
        }
    }

    /// Ends the series, and the run: its last request is done at `at`. A window that was full with
    /// that request ended when it was submitted, until now.
    pub(super) fn end(&mut self, at: Time, stats: &Stats) {
        self.close(at, stats);
        if let Some(last) = self.windows.last_mut() {
            last.end.at = last.end.at.max(at);
        }
    }

    /// Notes what had been counted when the drive had written everything it held back.
    pub(super) fn drained(&mut self, stats: &Stats) {
        let at = self.windows.last().map_or(self.start.at, |last| last.end.at);
        self.drained = Some(Edge::new(at, stats));
    }

    fn join(&mut self) {
        // The last window joins one that is full: windows are an even number, and all before are.
        self.last += self.length;
        self.length *= 2;
        let mut joined = Vec::with_capacity(MOST_WINDOWS);
        let mut old = std::mem::take(&mut self.windows).into_iter();
        while let (Some(mut a), Some(b)) = (old.next(), old.next()) {
            for (mine, theirs) in a.latencies.0.iter_mut().zip(&b.latencies.0) {
                mine.merge(theirs);
            }
            a.end = b.end;
            joined.push(a);
        }
        self.windows = joined;
    }

    /// The columns of a result document; `None` with less than two windows. A value that is not
    /// known for a window is null.
    pub fn to_json(&self, timed: bool) -> Option<Json> {
        if self.windows.len() < 2 {
            return None;
        }
        let mut columns = Map::new();
        let mut edges = vec![self.start];
        edges.extend(self.windows.iter().map(|w| w.end));
        let list = |f: &dyn Fn(&Edge, &Edge) -> Json| {
            Json::List(edges.windows(2).map(|pair| f(&pair[0], &pair[1])).collect())
        };
        if timed {
            let start = self.start.at;
            columns.put("time_ns", list(&|_, b| Json::span(b.at.since(start))));
        }
        let reads = |a: &Edge, b: &Edge| Json::Int(b.host_units[0] - a.host_units[0]);
        let writes = |a: &Edge, b: &Edge| Json::Int(b.host_units[1] - a.host_units[1]);
        columns.put("host_read_units", list(&reads));
        columns.put("host_write_units", list(&writes));
        columns.put("host_write_bytes", list(&|a, b| Json::Int(b.write_bytes - a.write_bytes)));
        columns.put("programs", programs(&list));
        let waf = |a: &Edge, b: &Edge| {
            let slots = b.programs.iter().sum::<u64>() - a.programs.iter().sum::<u64>();
            let ratio = millionths(slots * b.slot_bytes, b.write_bytes - a.write_bytes);
            ratio.map_or(Json::Null, Json::Millionths)
        };
        columns.put("waf", list(&waf));
        columns.put("free_blocks", list(&|_, b| Json::Int(b.free_blocks)));
        cleaning(&mut columns, &list);
        if self.buffered {
            columns.put("buffer_units", list(&|a, b| Json::Int(b.asked - a.asked)));
            columns.put("buffer_hits", list(&|a, b| Json::Int(b.found - a.found)));
            columns.put("buffer_dirty", list(&|_, b| Json::Int(b.dirty)));
        }
        if let (Some(last), Some(drained)) = (edges.last(), &self.drained) {
            let one = |f: &dyn Fn(&Edge, &Edge) -> Json| f(last, drained);
            let mut drain = Map::new();
            drain.put("programs", programs(&one));
            cleaning(&mut drain, &one);
            columns.put("drain", Json::Map(drain));
        }
        if timed {
            self.latencies(&mut columns);
        }
        columns.int("requests_per_window", self.length);
        columns.int("requests_in_last_window", self.last);
        Some(Json::Map(columns))
    }

    /// Latencies of each window: a percentile, and bins.
    fn latencies(&self, columns: &mut Map) {
        for (op, name) in [(Op::Read, "read_p99_ns"), (Op::Write, "write_p99_ns")] {
            let value = |w: &Window| w.latencies.of(op).p99().map_or(Json::Null, Json::Ns);
            columns.put(name, Json::List(self.windows.iter().map(value).collect()));
        }
        let mut all = Small::new();
        for (op, name) in KEPT {
            let bins = self.windows.iter().map(|w| w.latencies.of(op).to_json());
            columns.put(name, Json::List(bins.collect()));
            self.windows.iter().for_each(|w| all.merge(w.latencies.of(op)));
        }
        let used = all.bins().collect::<Vec<_>>().iter().rposition(|n| *n > 0);
        let edges = (0..used.map_or(0, |last| last + 1))
            .map(|bin| Json::Ns(Small::upper_edge(bin * JOINED + JOINED - 1)));
        columns.put("latency_edges_ns", Json::List(edges.collect()));
    }
}

/// Slots programmed, by cause.
fn programs(list: &Column<'_>) -> Json {
    let causes = nand::Cause::NAMES.iter().enumerate();
    let columns = causes.map(|(i, name)| {
        (name.to_string(), list(&|a, b| Json::Int(b.programs[i] - a.programs[i])))
    });
    Json::Map(columns.collect())
}

/// What cleaning did.
fn cleaning(columns: &mut Map, list: &Column<'_>) {
    columns.put("gc_victims", list(&|a, b| Json::Int(b.victims - a.victims)));
    let valid = |a: &Edge, b: &Edge| Json::Int(b.victims_valid - a.victims_valid);
    columns.put("gc_valid_at_choice", list(&valid));
    columns.put("gc_stall_ns", list(&|a, b| Json::Ns(b.stall.as_ps() - a.stall.as_ps())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_keeps_sums_and_bounds_memory() {
        let mut stats = Stats { slot_bytes: 8192, ..Stats::default() };
        let mut series = Series::new(Time::ZERO, &stats);
        for i in 1..=1_000_000u64 {
            stats.host[Op::Write as usize].units += 1;
            stats.host[Op::Write as usize].bytes += 8192;
            stats.nand.programs[0] += 1;
            stats.nand.programs[1] += 2;
            if series.add(Op::Write, Span::from_us(20)) {
                series.close(Time::from_us(i), &stats);
            }
        }
        series.close(Time::from_us(1_000_000), &stats);
        assert!(series.windows.len() < MOST_WINDOWS);
        let text = series.to_json(true).unwrap().pretty();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let sum = |v: &serde_json::Value| -> u64 {
            v.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum()
        };
        assert_eq!(sum(&json["host_write_units"]), 1_000_000);
        let last = json["host_write_units"].as_array().unwrap().last().unwrap();
        assert_eq!(&json["requests_in_last_window"], last, "one page a request");
        assert!(last.as_u64() < json["requests_per_window"].as_u64(), "the run ends inside it");
        assert_eq!(sum(&json["programs"]["gc"]), 2_000_000);
        assert!(json["waf"].as_array().unwrap().iter().all(|w| w.as_f64() == Some(3.0)));
        let p99 = json["write_p99_ns"][0].as_f64().unwrap();
        assert!((20_000.0..20_700.0).contains(&p99), "{p99}");
        assert!(json["read_p99_ns"][0].is_null(), "unknown is not 0");
        // Every window's bins hold its requests, where the edges say that they are.
        let edges = json["latency_edges_ns"].as_array().unwrap();
        let mut writes = 0;
        for window in json["write_latency"].as_array().unwrap() {
            let [first, counts @ ..] = window.as_array().unwrap().as_slice() else { panic!() };
            assert_eq!(counts.len(), 1, "all took as long");
            let first = first.as_u64().unwrap() as usize;
            let edge = |at: usize| edges[at].as_f64().unwrap();
            assert!(edge(first - 1) < 20_000.0 && 20_000.0 <= edge(first));
            assert!(edge(first) <= 1.5 * edge(first - 1) + 0.01);
            writes += counts[0].as_u64().unwrap();
        }
        assert_eq!(writes, 1_000_000);
        assert_eq!(json["read_latency"][0], serde_json::json!([]));
        assert!(json.get("buffer_hits").is_none(), "there is no buffer");
    }

    #[test]
    fn the_columns_of_cleaning_and_the_buffer_are_differences() {
        let mut stats = Stats { slot_bytes: 4096, ..Stats::default() };
        stats.buffer.slots = 8;
        stats.apps.resize_with(2, ssd::AppStats::default);
        let mut series = Series::new(Time::ZERO, &stats);
        for i in 1..=3 * FIRST_LENGTH {
            stats.gc.victims += 1;
            stats.gc.valid_at_choice += 5;
            stats.gc.stall += Span::from_us(2);
            stats.apps[1].read_units += 3;
            stats.apps[1].read_hits += 1;
            stats.apps[0].write_units += 1;
            stats.buffer.dirty = i;
            if series.add(Op::Flush, Span::from_us(1)) {
                series.close(Time::from_us(i), &stats);
            }
        }
        let text = series.to_json(true).unwrap().pretty();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (column, each) in [
            ("gc_victims", 1),
            ("gc_valid_at_choice", 5),
            ("gc_stall_ns", 2000),
            ("buffer_units", 4),
            ("buffer_hits", 1),
        ] {
            let value = each * FIRST_LENGTH;
            assert_eq!(json[column], serde_json::json!([value, value, value]), "{column}");
        }
        let dirty = [1, 2, 3].map(|n| n * FIRST_LENGTH);
        assert_eq!(json["buffer_dirty"], serde_json::json!(dirty));
        let flushes = |at: usize| json["flush_latency"][at][1].as_u64();
        assert_eq!((flushes(0), flushes(2)), (Some(FIRST_LENGTH), Some(FIRST_LENGTH)));
    }

    #[test]
    fn what_comes_behind_the_last_request_is_in_no_window() {
        let mut stats = Stats { slot_bytes: 4096, ..Stats::default() };
        let mut series = Series::new(Time::ZERO, &stats);
        for i in 1..=2 * FIRST_LENGTH {
            stats.nand.programs[0] += 1;
            if series.add(Op::Write, Span::from_us(9)) {
                series.close(Time::from_us(i), &stats);
            }
        }
        series.end(Time::from_us(2 * FIRST_LENGTH + 9), &stats);
        stats.nand.programs[1] += 7;
        stats.gc.stall += Span::from_us(3);
        series.drained(&stats);
        let text = series.to_json(true).unwrap().pretty();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["programs"]["host"], serde_json::json!([FIRST_LENGTH, FIRST_LENGTH]));
        assert_eq!(json["programs"]["gc"], serde_json::json!([0, 0]));
        assert_eq!(json["drain"]["programs"]["gc"], 7);
        assert_eq!(json["drain"]["programs"]["host"], 0);
        assert_eq!(json["drain"]["gc_stall_ns"], 3000);
        // The last window was full with the last request, and lasts until that is done.
        let ends = [FIRST_LENGTH * 1000, (2 * FIRST_LENGTH + 9) * 1000];
        assert_eq!(json["time_ns"], serde_json::json!(ends));
    }

    #[test]
    fn the_last_window_counts_its_requests_through_joining() {
        for requests in (1..4 * MOST_WINDOWS as u64 * FIRST_LENGTH).step_by(97) {
            let stats = Stats::default();
            let mut series = Series::new(Time::ZERO, &stats);
            for _ in 0..requests {
                if series.add(Op::Read, Span::from_us(1)) {
                    series.close(Time::ZERO, &stats);
                }
            }
            series.close(Time::ZERO, &stats);
            let whole = (series.windows.len() as u64 - 1) * series.length;
            assert_eq!(whole + series.last, requests);
            assert!((1..=series.length).contains(&series.last));
        }
    }

    #[test]
    fn buckets_hold_their_values() {
        for ps in (0..44u32).flat_map(|s| [1u64 << s, (1 << s) + (1 << s) / 3]) {
            let upper = Small::upper_edge(Small::bucket(ps));
            assert!(upper >= ps && upper - ps <= ps / 32 + 1024, "{ps} {upper}");
        }
    }
}
