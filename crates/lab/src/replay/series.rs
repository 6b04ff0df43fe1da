//! What happened when: windows of equal numbers of requests over the measured part of a run.
//!
//! The length of a run is not known in advance, so windows start small and are joined in pairs
//! whenever there are [`MOST_WINDOWS`] of them: memory is fixed, and joining is exact because a
//! window holds differences and histograms, not quotients.

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

/// A small histogram: only percentiles over windows of thousands are asked of it.
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
}

impl Edge {
    fn new(at: Time, stats: &Stats) -> Edge {
        Edge {
            at,
            host_units: [stats.of(Op::Read).units, stats.of(Op::Write).units],
            write_bytes: stats.of(Op::Write).bytes,
            slot_bytes: stats.slot_bytes,
            programs: stats.nand.programs,
            free_blocks: stats.free_blocks,
        }
    }
}

struct Window {
    end: Edge,
    reads: Small,
    writes: Small,
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
    reads: Small,
    writes: Small,
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
            reads: Small::new(),
            writes: Small::new(),
        }
    }

    /// Notes a request; true if the window is full and [`Series::close`] is due.
    #[inline]
    pub(super) fn add(&mut self, op: Op, latency: Span) -> bool {
        match op {
            Op::Read => self.reads.0[Small::bucket(latency.as_ps())] += 1,
            Op::Write => self.writes.0[Small::bucket(latency.as_ps())] += 1,
            Op::Flush | Op::Discard => {}
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
        let reads = std::mem::replace(&mut self.reads, Small::new());
        let writes = std::mem::replace(&mut self.writes, Small::new());
        self.windows.push(Window { end: Edge::new(at, stats), reads, writes });
        if self.windows.len() == MOST_WINDOWS {
            self.join();
        }
    }

    fn join(&mut self) {
        // The last window joins one that is full: windows are an even number, and all before are.
        self.last += self.length;
        self.length *= 2;
        let mut joined = Vec::with_capacity(MOST_WINDOWS);
        let mut old = std::mem::take(&mut self.windows).into_iter();
        while let (Some(mut a), Some(b)) = (old.next(), old.next()) {
            for (mine, theirs) in [(&mut a.reads, &b.reads), (&mut a.writes, &b.writes)] {
                for (x, y) in mine.0.iter_mut().zip(&theirs.0) {
                    *x += y;
                }
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
        let mut programs = Map::new();
        for (i, name) in nand::Cause::NAMES.iter().enumerate() {
            programs.put(name, list(&|a, b| Json::Int(b.programs[i] - a.programs[i])));
        }
        columns.put("programs", Json::Map(programs));
        let waf = |a: &Edge, b: &Edge| {
            let slots = b.programs.iter().sum::<u64>() - a.programs.iter().sum::<u64>();
            let ratio = millionths(slots * b.slot_bytes, b.write_bytes - a.write_bytes);
            ratio.map_or(Json::Null, Json::Millionths)
        };
        columns.put("waf", list(&waf));
        columns.put("free_blocks", list(&|_, b| Json::Int(b.free_blocks)));
        if timed {
            let p99 = |f: &dyn Fn(&Window) -> Option<u64>| {
                let value = |w| f(w).map_or(Json::Null, Json::Ns);
                Json::List(self.windows.iter().map(value).collect())
            };
            columns.put("read_p99_ns", p99(&|w| w.reads.p99()));
            columns.put("write_p99_ns", p99(&|w| w.writes.p99()));
        }
        columns.int("requests_per_window", self.length);
        columns.int("requests_in_last_window", self.last);
        Some(Json::Map(columns))
    }
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
