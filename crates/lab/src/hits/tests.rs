//! Counting agrees with itself: curve and policy, one thread and many, sizes alone and together.

use block::{Bytes, Rng, Time};
use ssd::{BufferShape, PolicySpec};
use workload::{Flags, Record, Source, SourceError, TraceOp};

use super::*;

struct Given {
    records: Vec<Record>,
    at: usize,
}

impl Source for Given {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        let end = (self.at + workload::BLOCK_RECORDS).min(self.records.len());
        block.extend_from_slice(&self.records[self.at..end]);
        self.at = end;
        Ok(())
    }
}

const PAGES: u64 = 4096;

fn records(seed: u64) -> Vec<Record> {
    let mut rng = Rng::new(seed);
    let record = |n: u64| {
        let hot = rng.ratio(3, 4);
        let first = rng.below(if hot { PAGES / 16 } else { PAGES - 8 });
        let op = match rng.below(40) {
            0 => TraceOp::Discard,
            1..20 => TraceOp::Read,
            _ => TraceOp::Write,
        };
        Record {
            at: Time::from_ps(n),
            offset: Bytes(first * 4096),
            len: Bytes(rng.between(1, 8) * 4096),
            response: None,
            app: block::AppId((n % 2) as u16),
            op,
            flags: Flags::default(),
            hint: 0,
        }
    };
    (0..20_000).map(record).collect()
}

fn plan(cells: &[(&str, u64)], threads: usize, curve: Option<Sample>) -> HitPlan {
    let cell = |(policy, entries): &(&str, u64)| Cell {
        policy: PolicySpec::parse(policy).unwrap(),
        size: Bytes(entries * 4096),
    };
    HitPlan {
        cells: cells.iter().map(cell).collect(),
        capacity: Bytes(PAGES * 4096),
        shape: BufferShape::alone(0, 0),
        discards: true,
        threads,
        curve,
    }
}

fn counted(plan: &HitPlan) -> Hits {
    count(plan, &|| Ok(Box::new(Given { records: records(7), at: 0 })), Watch::nobody()).unwrap()
}

const CELLS: [(&str, u64); 6] = [
    ("lru", 64),
    ("lru", 700),
    ("arc", 200),
    ("s3-fifo", 200),
    ("belady", 200),
    ("aoi(cap=4)", 200),
];

#[test]
fn any_number_of_threads_counts_the_same() {
    let one = counted(&plan(&CELLS, 1, None));
    let many = counted(&plan(&CELLS, 4, None));
    for (a, b) in one.rows.iter().zip(&many.rows) {
        assert_eq!((&a.cell, &a.apps, &a.buffer), (&b.cell, &b.apps, &b.buffer));
    }
}

#[test]
fn no_policy_beats_the_clairvoyant() {
    let rows = counted(&plan(&CELLS, 2, None)).rows;
    let hits = |name: &str| {
        rows.iter()
            .find(|r| r.cell.policy.text() == name && r.entries == 200)
            .unwrap()
            .accesses(None)
            .1
    };
    assert!(hits("belady") > hits("arc") && hits("belady") > hits("s3-fifo"));
}

#[test]
fn the_exact_curve_is_lru_at_every_size() {
    let sizes = [1, 2, 3, 63, 64, 65, 700, 4000];
    let cells: Vec<(&str, u64)> = sizes.iter().map(|n| ("lru", *n)).collect();
    let found = counted(&plan(&cells, 2, Some(Sample::All)));
    let curve = found.curve.unwrap();
    for row in &found.rows {
        let (units, hits) = row.accesses(None);
        assert_eq!(curve.misses(row.entries), units - hits, "{} entries", row.entries);
    }
}

#[test]
fn a_sample_is_as_far_off_as_it_says() {
    let found = counted(&plan(&[("lru", 64)], 1, Some(Sample::All)));
    let sampled = counted(&plan(&[("lru", 64)], 1, Some(Sample::OneIn(8)))).curve.unwrap();
    let exact = found.curve.unwrap();
    for entries in [128, 512, 2048] {
        let ratio = |curve: &Curve| curve.misses(entries) * 1_000_000 / curve.accesses();
        let off = ratio(&exact).abs_diff(ratio(&sampled));
        assert!(off <= 4 * sampled.error(entries) + 2000, "{entries}: {off}");
    }
}

/// Curves of the same accesses, exact and of a sample; the pages lie where `at` says.
fn curves(pages: &[u32], at: u32) -> (Curve, Curve) {
    let (mut exact, mut sampled) = (Curve::new(Sample::All), Curve::new(Sample::OneIn(16)));
    for page in pages {
        let access = HitAccess {
            page: block::Lpn(at + page),
            op: block::Op::Read,
            app: block::AppId(0),
            request: 1,
            len: 4096,
            next_use: u64::MAX,
        };
        exact.add(&access);
        sampled.add(&access);
    }
    (exact, sampled)
}

/// Each place of the pages is another sample of them. (Parts of one stack said too little of uniform accesses.)
/// The hash spreads neighbours more evenly than a draw would, so that less is off than the parts say.
#[test]
fn the_standard_error_of_a_sample_is_what_samples_differ_by() {
    const N: u64 = 6_000;
    let mut rng = Rng::new(9);
    let uniform: Vec<u32> = (0..8 * N).map(|_| rng.below(N) as u32).collect();
    // A third of the accesses go to a tenth of the pages, and so on within these.
    let mut skewed = || {
        let mut below = N;
        while below > 20 && rng.ratio(1, 3) {
            below /= 10;
        }
        rng.below(below) as u32
    };
    let skewed: Vec<u32> = (0..8 * N).map(|_| skewed()).collect();
    let scan: Vec<u32> = (0..8 * N).map(|i| (i % (N / 2) + i / (2 * N) * (N / 6)) as u32).collect();
    for (name, pages) in [("uniform", uniform), ("skewed", skewed), ("scans", scan)] {
        // (A buffer as large as what is scanned again and again is beside a cliff: see the header of `curve`.)
        let sizes = [N / 100, N / 30, N / 8, N / 4, N / 2];
        for entries in sizes.into_iter().take(if name == "scans" { 4 } else { 5 }) {
            let (mut within, mut squares, mut said) = (0, 0.0, 0.0);
            const PLACES: u32 = 40;
            for place in 0..PLACES {
                let (exact, sampled) = curves(&pages, place * 2 * N as u32);
                let ratio = |c: &Curve| c.misses(entries) as f64 * 1e6 / c.accesses() as f64;
                let (off, error) = (ratio(&exact) - ratio(&sampled), sampled.error(entries) as f64);
                within += u32::from(off.abs() <= 2.0 * error);
                squares += off * off / f64::from(PLACES);
                said += error * error / f64::from(PLACES);
            }
            let share = (said / squares.max(1.0)).sqrt();
            assert!(within >= PLACES * 9 / 10, "{name}, {entries} entries: {within}");
            assert!((0.8..2.5).contains(&share), "{name}, {entries} entries: {share}");
        }
    }
}

#[test]
fn a_page_beyond_the_space_is_told() {
    let mut small = plan(&[("lru", 64)], 1, None);
    small.capacity = Bytes(4096);
    let error =
        count(&small, &|| Ok(Box::new(Given { records: records(7), at: 0 })), Watch::nobody())
            .unwrap_err();
    assert!(error.to_string().contains("the address space ends at page 1"), "{error}");
}
