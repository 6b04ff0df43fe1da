//! Bugs found in other simulators and emulators, by running them or by reading their code. One
//! test each, so that they cannot happen here unseen.

use block::{BlockDevice, Lba, Request, Rng, Sectors, Span, Time};
use nand::Cause;
use ssd::{Config, Drive};
use varve_lab::histogram::Histogram;

fn config(pairs: &[&str]) -> Config {
    let mut config = Config::default();
    for pair in pairs {
        config.set_pair(pair).unwrap();
    }
    config
}

fn drive(pairs: &[&str]) -> Drive {
    Drive::new(&config(pairs).resolve().unwrap()).unwrap()
}

const SMALL: &[&str] = &[
    "geometry.channels=2",
    "geometry.dies=2",
    "geometry.blocks=64",
    "geometry.pages=32",
    "line=die",
    "op=28 %",
];

fn small(more: &[&str]) -> Drive {
    drive(&[SMALL, more].concat())
}

fn write(page: u64, pages: u64) -> Request<'static> {
    Request::write(Lba(page * 8), Sectors(pages * 8))
}

fn read(page: u64, pages: u64) -> Request<'static> {
    Request::read(Lba(page * 8), Sectors(pages * 8))
}

fn pages(d: &Drive) -> u64 {
    d.capacity().0 / 8
}

/// Fills the drive and writes `count` pages at random, one every 100 µs.
fn churn(d: &mut Drive, count: u64) {
    let (all, mut rng) = (pages(d), Rng::new(9));
    for page in 0..all {
        d.submit(Time::ZERO, write(page, 1)).unwrap();
    }
    for i in 0..count {
        d.submit(Time::from_us(100 * i), write(rng.below(all), 1)).unwrap();
    }
}

#[test]
fn bug_01_a_bus_above_1000_mt_is_not_free() {
    let mut last = Span::from_us(1_000);
    for rate in (200..=2400).step_by(100) {
        let rate = format!("bus.rate={rate} MT/s x8");
        let mut d = small(&[&rate, "buffer.policy=none", "geometry.page=8 KiB"]);
        d.submit(Time::ZERO, write(0, 2)).unwrap();
        let at = Time::from_us(1_000_000);
        let latency = d.submit(at, read(0, 2)).unwrap().since(at);
        assert!(latency < last, "{rate}: {latency:?} after {last:?}");
        last = latency;
    }
}

#[test]
fn bug_02_map_write_backs_are_programmed_and_counted_by_the_array() {
    let mut d = small(&["map.mode=paged", "map.cache=8 KiB", "op=60 %", "buffer.policy=none"]);
    churn(&mut d, 20_000);
    let at = d.now();
    d.submit(at, Request::flush()).unwrap();
    let stats = d.stats();
    let ordered = stats.map.evict_programs + stats.map.gc_programs;
    assert!(stats.map.dirty_evictions > 1_000, "{:?}", stats.map);
    let done = stats.nand.programs[Cause::Map as usize];
    assert!(done == ordered || done + 1 == ordered, "{done} of {ordered}");
    d.check().unwrap();
}

#[test]
fn bug_03_the_time_unit_of_a_trace_matters() {
    let arrivals = |text: &str| {
        let mut d = small(&["buffer.policy=none"]);
        let ends: Vec<Time> = text
            .split(',')
            .map(|at| Time::ZERO + block::parse_time(at).unwrap())
            .map(|at| d.submit(at, write(at.as_ps() % 7, 1)).unwrap())
            .collect();
        (ends, d.stats().event_hash)
    };
    let us = arrivals("0 us, 250 us, 900 us");
    assert_eq!(us, arrivals("0 ns, 250000 ns, 900000 ns"));
    assert_eq!(us, arrivals("0 ps, 250000000 ps, 900000000 ps"));
    assert_ne!(us, arrivals("0 ns, 250 ns, 900 ns"));
}

#[test]
fn bug_04_programs_of_one_die_follow_one_another() {
    let mut d = drive(&[
        "geometry.channels=1",
        "geometry.dies=1",
        "geometry.blocks=64",
        "geometry.pages=32",
        "op=28 %",
        "nand.program=300 us",
        "bus.page_time=12 us",
        "buffer.policy=none",
    ]);
    for k in 1..=8u64 {
        let end = d.submit(Time::ZERO, write(k, 1)).unwrap();
        assert_eq!(end, Time::from_us(k * 312), "program {k}");
    }
}

#[test]
fn bug_05_write_amplification_is_what_the_formula_says_and_causes_are_apart() {
    // 61 % full: 1.51 by the formula of FIFO; a peer had 43.
    let mut d = drive(&[
        "geometry.channels=1",
        "geometry.dies=1",
        "geometry.blocks=1024",
        "geometry.pages=64",
        "line=plane",
        "op=63.9344 %",
        "gc.victim=fifo",
        "buffer.policy=none",
        "timing=off",
        "wl.mode=none",
    ]);
    let all = pages(&d);
    churn(&mut d, 3 * all);
    d.reset_stats();
    let (start, mut rng) = (d.now(), Rng::new(4));
    for _ in 0..4 * all {
        d.submit(start, write(rng.below(all), 1)).unwrap();
    }
    let stats = d.stats();
    let waf = stats.waf().0 as f64 / stats.waf().1 as f64;
    let rho = stats.logical_units as f64 / stats.effective_units as f64;
    let expected = varve_lab::selfcheck::formulas::fifo(rho);
    assert!((waf / expected - 1.0).abs() < 0.02, "{waf} {expected}");
    assert!((expected - 1.51).abs() < 0.02, "{expected}");
    assert_eq!((stats.gc.wl_pages, stats.nand.programs[Cause::Map as usize]), (0, 0));
    assert_eq!(stats.nand.programs[Cause::Host as usize], 4 * all);
}

#[test]
fn bug_06_the_hybrid_map_outlives_ten_drive_writes() {
    for assoc in ["hybrid.assoc=full", "hybrid.assoc=block"] {
        let mut d = small(&["ftl=hybrid-log", assoc, "timing=off", "op=40 %", "line=auto"]);
        let all = pages(&d);
        churn(&mut d, 10 * all);
        d.check().unwrap();
        let stats = d.stats();
        assert_eq!(stats.of(block::Op::Write).ops, 11 * all, "{assoc}");
        assert!(stats.merges.full > 0, "{assoc}: {:?}", stats.merges);
    }
}

#[test]
fn bug_07_every_geometry_runs_full_or_is_refused() {
    let (mut ran, mut refused) = (0, 0);
    for blocks in [4, 8, 16, 64] {
        for op in [5, 7, 12, 28, 50] {
            for line in ["auto", "superblock", "die", "plane"] {
                let pairs = [
                    "geometry.channels=2".to_string(),
                    "geometry.dies=2".to_string(),
                    "geometry.pages=64".to_string(),
                    format!("geometry.blocks={blocks}"),
                    format!("op={op} %"),
                    format!("line={line}"),
                    "timing=off".to_string(),
                ];
                let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
                let built = config(&pairs).resolve().and_then(|params| Drive::new(&params));
                let Ok(mut d) = built else {
                    refused += 1;
                    continue;
                };
                let count = 2 * pages(&d);
                churn(&mut d, count);
                d.check().unwrap_or_else(|error| panic!("{pairs:?}: {error}"));
                let served = d.stats().of(block::Op::Write).ops;
                assert_eq!(served, pages(&d) + count, "{pairs:?}");
                ran += 1;
            }
        }
    }
    assert!(ran >= 30 && refused > 0, "{ran} ran, {refused} refused");
}

/// Resident memory in KiB, as Linux tells.
fn resident_kib() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn bug_08_memory_does_not_grow_with_the_number_of_requests() {
    let mut d = small(&["buffer.size=256 KiB", "map.mode=paged", "map.cache=16 KiB", "op=60 %"]);
    churn(&mut d, 20_000);
    let (mut rng, all, start) = (Rng::new(1), pages(&d), d.now().as_ps());
    let before = resident_kib();
    for i in 0..400_000 {
        let at = Time::from_ps(start + i * 200_000_000);
        d.submit(at, write(rng.below(all), 1)).unwrap();
    }
    // A peer grew by 700 B a write, which would be 270 MiB here. The other tests of this file
    // run beside this one: their drives are what the allowance is for.
    if let (Some(before), Some(after)) = (before, resident_kib()) {
        assert!(after < before + 100 * 1024, "{before} KiB, then {after} KiB");
    }
    assert!(d.stats().gc.victims > 1_000);
}

#[test]
fn bug_09_the_deviation_of_a_known_sample_is_right() {
    let mut histogram = Histogram::default();
    // Squares of picoseconds: 10^18 and more each, 2 * 10^5 of them.
    for _ in 0..100_000 {
        histogram.add(Span::from_us(1_000));
        histogram.add(Span::from_us(3_000));
    }
    assert_eq!(histogram.mean(), Some(Span::from_us(2_000)));
    assert_eq!(histogram.stddev(), Some(Span::from_us(1_000)));
}

#[test]
fn bug_10_a_seed_decides_everything_and_only_it() {
    let run = |seed: u64| {
        let config =
            config(&[SMALL, &["gc.victim=random", "bad.factory=1 %", "bad.reserve=6 %"]].concat());
        let mut params = config.resolve().unwrap();
        params.seed = seed;
        let mut d = Drive::new(&params).unwrap();
        churn(&mut d, 20_000);
        let stats = d.stats();
        (stats.event_hash, format!("{stats:?}"))
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
}

#[test]
fn bug_11_an_unknown_policy_is_an_error_that_names_it() {
    for (pair, key) in [
        ("gc.victim=greedyy", "gc.victim"),
        ("buffer.policy=lruu", "buffer.policy"),
        ("order=CWDX", "order"),
    ] {
        // Where it is set, before anything runs: a sweep may never come to use it.
        let error = config(SMALL).set_pair(pair).expect_err(pair);
        let text = error.to_string();
        assert!(text.contains(key) && text.contains("expected"), "{text}");
        assert_eq!(varve_lab::LabError::from(error).exit_code(), 3);
    }
    assert!(Config::default().set_pair("gc.victms=greedy").is_err());
}

#[test]
fn bug_12_no_preset_erases_in_no_time_and_a_full_drive_takes_writes() {
    for name in ssd::presets() {
        let params = ssd::preset(name).unwrap().config.resolve().unwrap();
        assert!(params.timing.t_erase > Span::ZERO, "{name}");
        let times = params.timing.t_read.iter().chain(&params.timing.t_program);
        assert!(times.into_iter().all(|t| *t > Span::ZERO), "{name}");
    }
    let mut d = small(&["op=12 %"]);
    churn(&mut d, 30_000);
    d.submit(d.now(), Request::flush()).unwrap();
    d.check().unwrap();
    assert_eq!(d.stats().valid_units, pages(&d));
}

#[test]
fn bug_13_discards_percentiles_and_waf_are_there_and_comparisons_begin_with_the_keys() {
    // Half of the drive discarded: cleaning copies less.
    let waf = |discard: bool| {
        let mut d = small(&["buffer.policy=none", "timing=off"]);
        churn(&mut d, 0);
        let half = pages(&d) / 2;
        if discard {
            d.submit(d.now(), Request::discard(Lba(half * 8), Sectors(half * 8))).unwrap();
        }
        let (mut rng, at) = (Rng::new(6), d.now());
        for _ in 0..40_000 {
            d.submit(at, write(rng.below(half), 1)).unwrap();
        }
        let (programs, written) = d.stats().waf();
        programs as f64 / written as f64
    };
    let (kept, discarded) = (waf(false), waf(true));
    assert!(discarded < 0.8 * kept, "{discarded} {kept}");

    let mut histogram = Histogram::default();
    (1..=10_000).for_each(|us| histogram.add(Span::from_us(us)));
    let p99 = histogram.percentile(9_900).unwrap().as_ns();
    assert!((9_900_000..9_980_000).contains(&p99), "{p99}");

    let load = |rate: &str, mean: u64| varve_lab::compare::Loaded {
        name: rate.to_string(),
        document: serde_json::json!({
            "schema": "varve.run/2",
            "config": { "bus.rate": { "value": rate }, "op": { "value": "7 %" } },
            "results": [{ "name": "run", "latency_ns": { "read": { "mean": mean } } }],
        }),
    };
    let found = varve_lab::compare::compare(&[load("333 MB/s", 3_458), load("800 MB/s", 82)], &[]);
    assert_eq!(found.differences.len(), 1);
    assert_eq!(found.differences[0].key, "bus.rate");
    assert_eq!(found.rows[0].metric, "read.mean");
}
