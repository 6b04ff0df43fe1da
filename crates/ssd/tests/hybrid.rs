//! The hybrid FTL: it keeps what it is told, survives what peers abort on, and costs what log
//! blocks cost.

use block::{BlockDevice, Data, Lba, Request, Rng, Sectors, Time};
use varve_ssd::{Config, Drive, Params, Stats};

fn params(base: &[&str], pairs: &[&str]) -> Params {
    let mut config = Config::default();
    for pair in base.iter().chain(pairs) {
        config.set_pair(pair).unwrap();
    }
    config.resolve().unwrap_or_else(|e| panic!("{pairs:?}: {e}"))
}

const SMALL: &[&str] = &[
    "ftl=hybrid-log",
    "geometry.channels=2",
    "geometry.dies=1",
    "geometry.pages=8",
    "capacity=512 KiB",
    "op=80 %",
    "nand.oob=full",
    "buffer.size=32 KiB",
    "hybrid.log_blocks=10 %",
];

/// Both identities of the accounting, and every invariant.
fn audit(drive: &Drive, what: &str) {
    drive.check().unwrap_or_else(|e| panic!("{what}: {e}"));
    let stats = drive.stats();
    assert_eq!(stats.wear.sum, stats.nand.erases, "{what}: erases");
}

/// Random and sequential writes, discards, flushes and reads against an array of stamps, with
/// clean power cycles between.
fn exercise(pairs: &[&str], seed: u64) {
    let params = params(SMALL, pairs);
    let what = format!("{pairs:?}");
    let mut drive = Drive::new(&params).unwrap();
    let pages = u64::from(params.logical_pages);
    let mut model = vec![0u64; pages as usize];
    let mut rng = Rng::new(seed);
    let mut at = Time::ZERO;
    let mut cursor = 0;
    for round in 1..6000u64 {
        let sequential = round / 500 % 3 == 1;
        let page = if sequential { cursor % pages } else { rng.below(pages) };
        let count = rng.between(1, 5.min(pages - page));
        cursor = page + count;
        let (lba, sectors) = (Lba(page * 8), Sectors(count * 8));
        let range = page as usize..(page + count) as usize;
        let done = match rng.below(if sequential { 200 } else { 20 }) {
            0 => drive.submit(at, Request::flush()),
            1 => {
                let unit = u64::from(params.unit_pages);
                let (first, last) = (page.div_ceil(unit) * unit, (page + count) / unit * unit);
                if first < last {
                    model[first as usize..last as usize].fill(0);
                }
                drive.submit(at, Request::discard(lba, sectors))
            }
            2..6 => {
                let mut got = vec![0; count as usize];
                let request = Request::read(lba, sectors).with(Data::ReadStamps(&mut got));
                let done = drive.submit(at, request);
                assert_eq!(got, model[range], "round {round} {what}");
                done
            }
            n => {
                let stamps: Vec<u64> = (0..count).map(|i| round << 8 | i).collect();
                model[range].copy_from_slice(&stamps);
                let request = Request::write(lba, sectors).with(Data::WriteStamps(&stamps));
                drive.submit(at, if n == 19 { request.with_fua() } else { request })
            }
        };
        at = at.max(done.unwrap_or_else(|e| panic!("round {round} {what}: {e}")));
        if round % 500 == 0 {
            audit_running(&drive, &format!("round {round} {what}"));
        }
        if round % 1750 == 0 {
            drive.shutdown(at).unwrap();
            let (image, _) = drive.power_cut();
            drive = Drive::mount(&params, image).unwrap();
            audit_running(&drive, &format!("mounted after round {round} {what}"));
            at = drive.now();
            compare(&mut drive, &model, &what);
        }
    }
    compare(&mut drive, &model, &what);
    assert!(drive.stats().nand.erases > 0, "{what}: nothing was merged");
}

fn audit_running(drive: &Drive, what: &str) {
    drive.check().unwrap_or_else(|e| panic!("{what}: {e}"));
}

fn compare(drive: &mut Drive, model: &[u64], what: &str) {
    let now = drive.now();
    for (page, want) in model.iter().enumerate() {
        let mut got = [0];
        let request = Request::read(Lba(page as u64 * 8), Sectors(8));
        drive.submit(now, request.with(Data::ReadStamps(&mut got))).unwrap();
        assert_eq!(got[0], *want, "page {page}, {what}");
    }
}

#[test]
fn keeps_what_it_is_told() {
    let variants: &[&[&str]] = &[
        &[],
        &["buffer.policy=none", "buffer.size=0"],
        &["buffer.write=through"],
        &["geometry.page=16 KiB", "capacity=1 MiB", "op=150 %"],
        &["geometry.page=16 KiB", "unit=16 KiB", "capacity=1 MiB"],
        &["geometry.page=16 KiB", "unit=8 KiB", "capacity=1 MiB", "op=120 %"],
        &["geometry.planes=2", "geometry.page=8 KiB", "capacity=1 MiB", "op=120 %"],
        &["geometry.planes=2", "nand.one_shot=on", "geometry.cell_bits=2", "capacity=1 MiB"],
        &["line=superblock", "capacity=2 MiB"],
        &["line=superblock", "geometry.planes=2", "nand.multi_plane=off", "capacity=4 MiB"],
        &["geometry.cell_bits=2", "nand.page_types=lsb-msb", "op=150 %", "geometry.pages=16"],
        &[
            "geometry.cell_bits=2",
            "nand.page_types=mlc-pairs",
            "geometry.pages=32",
            "op=150 %",
            "capacity=2 MiB",
        ],
        &["nand.cache_ops=on"],
        &["nand.suspend=both", "nand.suspend_min=10 us", "nand.t_suspend=5 us"],
        &["wl.mode=none"],
        &["timing=off"],
        &["bad.reserve=10 %", "bad.factory=3 %"],
        &["bad.factory=3 %", "op=120 %"],
        &["plp.mode=full"],
    ];
    for (i, pairs) in variants.iter().enumerate() {
        for assoc in ["hybrid.assoc=block", "hybrid.assoc=full"] {
            let mut pairs = pairs.to_vec();
            pairs.push(assoc);
            exercise(&pairs, 177 + i as u64);
        }
    }
}

/// 64 MiB over 8 dies; logical blocks of 512 pages.
const DRIVE: &[&str] = &[
    "geometry.channels=4",
    "geometry.dies=2",
    "geometry.pages=64",
    "line=superblock",
    "capacity=64 MiB",
    "op=40 %",
    "buffer.policy=none",
];

fn waf(stats: &Stats) -> f64 {
    let (programs, writes) = stats.waf();
    programs as f64 / writes as f64
}

/// Writes `writes` pages as `next` says and returns the counters of it.
fn run(drive: &mut Drive, writes: u64, mut next: impl FnMut() -> u64) -> Stats {
    drive.reset_stats();
    let mut at = drive.now();
    for _ in 0..writes {
        at = drive.submit(at, Request::write(Lba(next() * 8), Sectors(8))).unwrap();
    }
    drive.check().unwrap();
    drive.stats()
}

fn steady(pairs: &[&str], drive_writes: u64) -> (Stats, Stats) {
    let mut drive = Drive::new(&params(DRIVE, pairs)).unwrap();
    let pages = u64::from(drive.params().logical_pages);
    let mut cursor = 0;
    let mut in_order = || {
        cursor += 1;
        (cursor - 1) % pages
    };
    run(&mut drive, pages, &mut in_order);
    let sequential = run(&mut drive, 2 * pages, &mut in_order);
    let mut rng = Rng::new(5);
    let random = run(&mut drive, drive_writes * pages, || rng.below(pages));
    (sequential, random)
}

/// FlashSim's FAST and BAST abort on their shipped configuration under random writes: ten drive
/// writes of uniform random must pass, writes in order must cost nothing, and random ones much
/// more than a page map's.
#[test]
fn flashsim_fast_and_bast_abort_on_random_writes() {
    let page = steady(&["ftl=page"], 10);
    let full = steady(&["ftl=hybrid-log", "hybrid.assoc=full"], 10);
    let block = steady(&["ftl=hybrid-log", "hybrid.assoc=block"], 10);
    for (name, (sequential, random)) in [("page", &page), ("FAST", &full), ("BAST", &block)] {
        println!(
            "{name}: WAF {:.3} in order, {:.2} at random; {:?}, {:?}",
            waf(sequential),
            waf(random),
            sequential.merges,
            random.merges
        );
    }
    for (sequential, random) in [&full, &block] {
        assert!(waf(sequential) < 1.01, "in order: {}", waf(sequential));
        assert_eq!(sequential.merges.full + sequential.merges.partial, 0);
        assert_eq!(sequential.merges.switch, 2 * 32, "two passes over 32 logical blocks");
        assert!(random.merges.full > 0);
        assert!(waf(random) > 3.0 * waf(&page.1), "{} {}", waf(random), waf(&page.1));
    }
    assert!(full.1.merges.partial > 0, "writes that begin a block are merged in part");
    // A log block of BAST is given up nearly empty when 32 blocks share a few of them.
    assert!(waf(&block.1) > waf(&full.1));
}

#[test]
fn the_beginning_of_a_block_in_order_is_merged_in_part() {
    for assoc in ["hybrid.assoc=block", "hybrid.assoc=full"] {
        let mut drive = Drive::new(&params(DRIVE, &["ftl=hybrid-log", assoc])).unwrap();
        let pages = u64::from(drive.params().logical_pages);
        let mut cursor = 0;
        let fill = run(&mut drive, pages, || {
            cursor += 1;
            cursor - 1
        });
        assert_eq!(fill.merges.switch, 32, "{assoc}");
        // The first 384 of the 512 pages of each block.
        let mut cursor = 0;
        let stats = run(&mut drive, 32 * 384, || {
            cursor += 1;
            (cursor - 1) / 384 * 512 + (cursor - 1) % 384
        });
        let merged = stats.merges.partial;
        assert!(merged >= 28, "{assoc}: {merged} partial merges");
        assert_eq!(stats.nand.programs[1], merged * 128, "{assoc}: copies");
        assert_eq!(stats.merges.full, 0, "{assoc}");
    }
}

/// Pages that leave a buffer one by one, each to another block, wait in memory in a log line until that is
/// merged. They are programs of the host all the same: counted as such, and waited for.
#[test]
fn what_a_merge_writes_for_the_first_time_is_no_copy() {
    let shape = ["geometry.page=16 KiB", "capacity=1 MiB", "op=150 %", "hybrid.assoc=block"];
    let params = params(SMALL, &[&shape[..], &["buffer.staging=2"]].concat());
    let mut drive = Drive::new(&params).unwrap();
    let pages = u64::from(params.logical_pages);
    let (mut rng, mut at) = (Rng::new(5), Time::ZERO);
    for _ in 0..2000 {
        let request = Request::write(Lba(rng.below(pages) * 8), Sectors(8));
        at = drive.submit(at, request).unwrap();
    }
    let acknowledged = at;
    at = drive.submit(at, Request::flush()).unwrap();
    audit(&drive, "scattered");
    let stats = drive.stats();
    let left = stats.buffer.dirty_evictions + stats.buffer.flushed;
    let [host, gc] = [nand::Cause::Host, nand::Cause::Gc].map(|c| stats.nand.programs[c as usize]);
    assert_eq!((host, gc), (left, stats.gc.pages), "{left} pages left the buffer");
    // Two programs in flight are two merges of a block, and a flush is one of each of eight pages.
    let behind = at.since(acknowledged).as_ps();
    assert!(behind * 50 < at.as_ps(), "{behind} of {} ps", at.as_ps());
    assert!(stats.gc.stall <= at.since(Time::ZERO), "{:?}", stats.gc.stall);
}

/// Ten drive writes at random in odd shapes, with flushes that pad.
#[test]
fn endurance_in_small_and_odd_shapes() {
    for assoc in ["hybrid.assoc=block", "hybrid.assoc=full"] {
        for pairs in [
            &["geometry.page=16 KiB", "capacity=4 MiB"][..],
            &["geometry.planes=2", "geometry.page=8 KiB", "capacity=4 MiB"],
            &["hybrid.log_blocks=0 %", "op=60 %"],
            &["line=superblock", "capacity=3 MiB", "op=120 %", "hybrid.log_blocks=30 %"],
            &["nand.one_shot=on", "geometry.cell_bits=2", "capacity=2 MiB"],
            &["unit=8 KiB", "geometry.page=8 KiB", "timing=off"],
            &["buffer.size=128 KiB", "capacity=2 MiB"],
        ] {
            let pairs = [pairs, &["op=150 %", assoc]].concat();
            let mut drive = Drive::new(&params(SMALL, &pairs)).unwrap();
            let pages = u64::from(drive.params().logical_pages);
            let mut rng = Rng::new(9);
            let mut at = Time::ZERO;
            for round in 0..10 * pages {
                let page = rng.below(pages);
                at = drive.submit(at, Request::write(Lba(page * 8), Sectors(8))).unwrap();
                if round % 17 == 0 {
                    at = drive.submit(at, Request::flush()).unwrap();
                }
            }
            drive.shutdown(at).unwrap();
            audit(&drive, &format!("{pairs:?}"));
        }
    }
}

/// A program that fails costs a block, not data.
#[test]
fn failed_programs_and_erases_lose_nothing() {
    for assoc in ["hybrid.assoc=block", "hybrid.assoc=full"] {
        for seed in 0..20 {
            let params = params(SMALL, &["bad.reserve=10 %", "op=150 %", assoc]);
            let mut rng = Rng::new(seed);
            let faults = (0..8)
                .map(|i| match i % 4 {
                    3 => nand::Fault::EraseFail { at: rng.below(3000) },
                    n => nand::Fault::ProgramFail { at: rng.below(3000), always: n == 2 },
                })
                .collect();
            let mut drive = Drive::with_faults(&params, &nand::FaultPlan { faults }).unwrap();
            let pages = u64::from(params.logical_pages);
            let mut model = vec![0; pages as usize];
            let mut at = Time::ZERO;
            for round in 1..3000u64 {
                let page = rng.below(pages);
                model[page as usize] = round;
                let stamps = [round];
                let request = Request::write(Lba(page * 8), Sectors(8));
                let done = drive.submit(at, request.with(Data::WriteStamps(&stamps)));
                at = at.max(done.unwrap_or_else(|e| panic!("seed {seed} round {round}: {e}")));
            }
            let what = format!("seed {seed} {assoc}");
            audit_running(&drive, &what);
            assert!(drive.stats().bad_blocks > 0);
            drive.shutdown(at).unwrap();
            let (image, _) = drive.power_cut();
            let mut drive = Drive::mount(&params, image).unwrap();
            audit_running(&drive, &what);
            compare(&mut drive, &model, &what);
        }
    }
}

#[test]
fn knobs_of_the_other_ftl_are_refused_by_name() {
    let refused = |pairs: &[&str]| {
        let mut config = Config::default();
        for pair in DRIVE.iter().chain(pairs) {
            config.set_pair(pair).unwrap();
        }
        config.resolve().map(|_| ()).expect_err(pairs[0]).to_string()
    };
    for pair in [
        "gc.victim=fifo",
        "gc.pace=burst",
        "gc.start_share=5 %",
        "gc.background=on",
        "gc.per_stream=on",
        "streams.policy=hotcold",
        "map.mode=paged",
        "ckpt.mode=interval",
        "unit=8 KiB",
        "placement=dynamic",
        "wl.mode=dynamic+static",
        "wl.delta=5",
    ] {
        let key = pair.split('=').next().unwrap();
        let said = refused(&[pair, "ftl=hybrid-log"]);
        assert!(said.contains(key), "{pair}: {said}");
    }
    for pair in ["hybrid.assoc=block", "hybrid.log_blocks=5 %"] {
        let said = refused(&[pair]);
        assert!(said.contains(pair.split('=').next().unwrap()), "{pair}: {said}");
    }
    let said = refused(&["hybrid.log_blocks=60 %", "ftl=hybrid-log"]);
    assert!(said.contains("hybrid.log_blocks"), "{said}");
}

#[test]
fn a_slot_of_several_pages_is_read_once() {
    let units = ["geometry.page=16 KiB", "unit=16 KiB", "capacity=2 MiB", "buffer.policy=none"];
    let base: Vec<&str> =
        SMALL.iter().filter(|pair| !pair.starts_with("buffer")).copied().collect();
    for (slot, pairs) in [(4, &units[..]), (2, &[&units[..], &["unit=8 KiB"]].concat())] {
        let mut drive = Drive::new(&params(&base, pairs)).unwrap();
        let mut at = drive.submit(Time::ZERO, Request::write(Lba(0), Sectors(64))).unwrap();
        at = at.max(drive.submit(at, Request::flush()).unwrap());
        drive.reset_stats();
        drive.submit(at, Request::read(Lba(0), Sectors(64))).unwrap();
        let stats = drive.stats();
        assert_eq!(stats.nand.reads_total(), 8 / slot, "{pairs:?}");
    }
}

/// Block policies give up what the map merges, from its first page to its last: written so, a log
/// line takes the place of its block, and nothing is copied.
#[test]
fn blocks_that_a_policy_gives_up_whole_are_switched() {
    for policy in ["buffer.policy=bplru", "buffer.policy=fab"] {
        let pairs = ["line=superblock", "buffer.size=256 KiB", "capacity=2 MiB", policy];
        let mut drive = Drive::new(&params(SMALL, &pairs)).unwrap();
        let pages = drive.capacity().0 / 8;
        let line = drive.params().buffer_shape().block_pages as u64;
        assert_eq!(line, 16, "two blocks of eight pages");
        let mut at = Time::ZERO;
        let mut rng = Rng::new(9);
        for round in 0..2 * pages / line {
            // All of a block, not in order.
            let mut order: Vec<u64> = (0..line).collect();
            for last in (1..order.len()).rev() {
                order.swap(last, rng.below(last as u64 + 1) as usize);
            }
            for page in order {
                let lba = Lba((round * line % pages + page) * 8);
                at = at.max(drive.submit(at, Request::write(lba, Sectors(8))).unwrap());
            }
        }
        let stats = drive.stats();
        assert_eq!(stats.gc.pages, 0, "{policy}: copied");
        assert!(stats.merges.switch > 8, "{policy}: {:?}", stats.merges);
    }
}
