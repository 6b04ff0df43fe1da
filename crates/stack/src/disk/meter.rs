//! What comes in at one place, counted: requests, bytes, and how long each took in real time.
//!
//! Invariants: nothing is counted twice; counts only grow while the process lives, through power cuts
//! too; counting takes no lock and no memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::{Ask, Capabilities, Disk, DiskError, Done, Extent, Piece, Told, TransactError};

/// Buckets for each power of two: a bucket is at most a quarter of its lower edge wide.
const FINE_BITS: u32 = 2;
const FINE: u64 = 1 << FINE_BITS;
/// The first power of two of nanoseconds that has buckets of its own; what is faster is one bucket.
const FIRST: u32 = 10;
/// The last one; what is slower, 34 s and more, is one bucket, without an upper edge.
const LAST: u32 = 34;
const BUCKETS: usize = ((LAST - FIRST + 1) << FINE_BITS) as usize + 2;

/// The bucket of a latency in nanoseconds.
fn bucket(ns: u64) -> usize {
    match ns.checked_ilog2() {
        Some(power) if power > LAST => BUCKETS - 1,
        Some(power) if power >= FIRST => {
            let fine = (ns >> (power - FINE_BITS)) & (FINE - 1);
            (u64::from(power - FIRST) * FINE + fine + 1) as usize
        }
        _ => 0,
    }
}

/// The nanoseconds below which all of a bucket lies; none of the last one.
fn edge(bucket: usize) -> Option<u64> {
    let (power, fine) = (bucket as u64 / FINE, bucket as u64 % FINE);
    (bucket + 1 < BUCKETS).then(|| (FINE + fine) << (u64::from(FIRST - FINE_BITS) + power))
}

/// A kind of request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Read these bytes.
    Read(u64),
    /// Write these bytes.
    Write(u64),
    /// Make durable what was answered; `fsync` of a file.
    Flush,
    /// Forget, or make zero.
    Trim,
}

const NAMES: [&str; 4] = ["read", "write", "flush", "trim"];

/// One kind of request.
#[derive(Debug)]
struct Kind {
    count: AtomicU64,
    bytes: AtomicU64,
    ns: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Kind {
    fn new() -> Kind {
        Kind {
            count: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            ns: AtomicU64::new(0),
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
        }
    }

    /// Buckets that hold something, as upper edge in nanoseconds (`null`: none) and count. The count of
    /// all is their sum, so that a document agrees with itself while requests come in.
    fn document(&self) -> Value {
        let load = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let counts = self.buckets.iter().map(load).enumerate().filter(|(_, count)| *count > 0);
        let found: Vec<(Option<u64>, u64)> = counts.map(|(i, count)| (edge(i), count)).collect();
        json!({
            "count": found.iter().map(|(_, count)| count).sum::<u64>(),
            "bytes": load(&self.bytes),
            "ns": load(&self.ns),
            "latency_ns": found,
        })
    }
}

/// Counts of one place.
#[derive(Debug)]
pub struct Meter {
    kinds: [Kind; 4],
    errors: AtomicU64,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter { kinds: std::array::from_fn(|_| Kind::new()), errors: AtomicU64::new(0) }
    }
}

impl Meter {
    /// Bytes written.
    pub fn written(&self) -> u64 {
        self.kinds[1].bytes.load(Ordering::Relaxed)
    }

    /// Requests and bytes, by kind: reads, writes, flushes, trims.
    pub fn totals(&self) -> [(u64, u64); 4] {
        let load = |of: &AtomicU64| of.load(Ordering::Relaxed);
        std::array::from_fn(|i| (load(&self.kinds[i].count), load(&self.kinds[i].bytes)))
    }

    /// A request that came at `since` is answered now, or may be answered at `due`.
    pub fn answered(&self, asked: Asked, since: Instant, due: Option<Instant>) {
        let (kind, bytes) = match asked {
            Asked::Read(bytes) => (0, bytes),
            Asked::Write(bytes) => (1, bytes),
            Asked::Flush => (2, 0),
            Asked::Trim => (3, 0),
        };
        let now = Instant::now();
        let took = due.map_or(now, |due| due.max(now)).saturating_duration_since(since);
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let kind = &self.kinds[kind];
        kind.count.fetch_add(1, Ordering::Relaxed);
        kind.bytes.fetch_add(bytes, Ordering::Relaxed);
        kind.ns.fetch_add(ns, Ordering::Relaxed);
        kind.buckets[bucket(ns)].fetch_add(1, Ordering::Relaxed);
    }

    /// A request was refused.
    pub fn refused(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that ended so.
    fn ended(&self, asked: Asked, since: Instant, result: &Result<Done, DiskError>) {
        match result {
            Ok(done) => self.answered(asked, since, done.due()),
            Err(_) => self.refused(),
        }
    }

    /// All of it: `read`, `write`, `flush` and `trim`, each with `count`, `bytes`, the sum of latencies
    /// in `ns`, and `latency_ns`, a histogram; and `errors`.
    pub fn document(&self) -> Value {
        let kinds = NAMES.iter().zip(&self.kinds);
        let mut all: Map<String, Value> =
            kinds.map(|(name, kind)| (name.to_string(), kind.document())).collect();
        all.insert("errors".to_string(), json!(self.errors.load(Ordering::Relaxed)));
        Value::Object(all)
    }
}

/// A disk whose requests are counted.
#[derive(Debug)]
pub struct Metered {
    below: Arc<dyn Disk>,
    meter: Arc<Meter>,
}

impl Metered {
    /// Counts the requests of `below` in `meter`.
    pub fn new(below: Arc<dyn Disk>, meter: Arc<Meter>) -> Metered {
        Metered { below, meter }
    }

    fn counted(
        &self,
        asked: Asked,
        work: impl FnOnce(&dyn Disk) -> Result<Done, DiskError>,
    ) -> Result<Done, DiskError> {
        let since = Instant::now();
        let result = work(&*self.below);
        self.meter.ended(asked, since, &result);
        result
    }
}

impl Disk for Metered {
    fn capabilities(&self) -> Capabilities {
        self.below.capabilities()
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        self.counted(Asked::Read(into.len() as u64), |below| below.read(at, into))
    }
    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        self.counted(Asked::Write(from.len() as u64), |below| below.write(at, from, fua))
    }
    fn joins_writes(&self) -> bool {
        self.below.joins_writes()
    }
    fn write_each(
        &self,
        pieces: &[Piece<'_>],
        ended: &mut dyn FnMut(usize, Result<Done, DiskError>),
    ) {
        let since = Instant::now();
        self.below.write_each(pieces, &mut |i, result| {
            self.meter.ended(Asked::Write(pieces[i].bytes.len() as u64), since, &result);
            ended(i, result);
        });
    }
    fn flush(&self) -> Result<Done, DiskError> {
        self.counted(Asked::Flush, |below| below.flush())
    }
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        self.counted(Asked::Trim, |below| below.trim(at, bytes, fua))
    }
    fn zero(&self, at: u64, bytes: u64, keep: bool, fua: bool) -> Result<Done, DiskError> {
        self.counted(Asked::Trim, |below| below.zero(at, bytes, keep, fua))
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        self.below.zero_is_fast(at, bytes, keep)
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        self.below.extents(at, bytes, most)
    }
    /// Pages of a transaction count as they are asked for; a commit is what makes them durable.
    fn transact(&self, ask: Ask<'_>) -> Result<Told, TransactError> {
        let asked = match &ask {
            Ask::Limits | Ask::Begin | Ask::Abort(_) => return self.below.transact(ask),
            Ask::Write(_, _, from) => Asked::Write(from.len() as u64),
            Ask::Read(_, _, into) => Asked::Read(into.len() as u64),
            Ask::Trim(..) | Ask::Remap(_) => Asked::Trim,
            Ask::Commit(_) => Asked::Flush,
        };
        let since = Instant::now();
        let result = self.below.transact(ask);
        match &result {
            Ok(Told::Done(done)) => self.meter.answered(asked, since, done.due()),
            Ok(_) => self.meter.answered(asked, since, None),
            Err(_) => self.meter.refused(),
        }
        result
    }
    fn close(&self) -> Result<(), DiskError> {
        self.below.close()
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.below.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latency_lies_below_the_edge_of_its_bucket_and_not_below_that_before() {
        let mut samples: Vec<u64> = (0..64).flat_map(|p| [1 << p, (1 << p) + 1]).collect();
        samples.extend((0..64).map(|power| (1u64 << power).wrapping_sub(1)));
        samples.extend([1279, 1280, 5 << 20, (7 << 25) - 1, u64::MAX]);
        for ns in samples {
            let i = bucket(ns);
            assert!(edge(i).is_none_or(|edge| ns < edge), "{ns} in {i}");
            assert!(i == 0 || edge(i - 1).is_some_and(|edge| edge <= ns), "{ns} in {i}");
        }
        assert_eq!((edge(0), edge(1), edge(BUCKETS - 1)), (Some(1024), Some(1280), None));
        for i in 1..BUCKETS - 1 {
            let (low, high) = (edge(i - 1).expect("an edge"), edge(i).expect("an edge"));
            assert!(low < high && high - low <= low / 4, "{i}: {low} {high}");
        }
    }

    #[test]
    fn what_came_is_counted_and_what_was_refused_is_not() {
        let meter = Arc::new(Meter::default());
        let ram = super::super::RamDisk::new(1 << 20).expect("a disk");
        let disk = Metered::new(Arc::new(ram), Arc::clone(&meter));
        for _ in 0..3 {
            disk.write(4096, &[7; 512], false).expect("written").wait().unwrap();
        }
        disk.read(0, &mut [0; 8192]).expect("read").wait().unwrap();
        assert!(disk.write(1 << 20, &[7], false).is_err());
        let pieces = [Piece { at: 0, bytes: &[1; 100] }, Piece { at: 1 << 20, bytes: &[1] }];
        disk.write_each(&pieces, &mut |i, result| assert_eq!(result.is_ok(), i == 0));
        let all = meter.document();
        assert_eq!((&all["write"]["count"], &all["write"]["bytes"]), (&json!(4), &json!(1636)));
        assert_eq!((&all["read"]["count"], &all["read"]["bytes"]), (&json!(1), &json!(8192)));
        assert_eq!((&all["flush"]["count"], &all["errors"]), (&json!(0), &json!(2)));
        assert_eq!(all["flush"]["latency_ns"], json!([]));
    }
}
