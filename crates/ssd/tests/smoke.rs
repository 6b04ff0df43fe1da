//! The whole drive, small: it keeps what it is told, through cleaning and power cycles.

use block::{BlockDevice, Data, Lba, Request, Rng, Sectors, Time};
use varve_ssd::{Config, Drive};

fn config(pairs: &[&str]) -> Config {
    let mut config = Config::default();
    for pair in [
        "geometry.channels=2",
        "geometry.dies=1",
        "geometry.pages=8",
        "capacity=512 KiB",
        "op=80 %",
        "nand.oob=full",
        "buffer.policy=lru",
        "buffer.size=32 KiB",
    ]
    .iter()
    .chain(pairs)
    {
        config.set_pair(pair).unwrap();
    }
    config
}

/// Random writes, discards, flushes and reads against an array of stamps.
fn exercise(pairs: &[&str], seed: u64) {
    let params = config(pairs).resolve().unwrap_or_else(|e| panic!("{pairs:?}: {e}"));
    let mut drive = Drive::new(&params).unwrap();
    let pages = params.logical_pages as u64;
    let mut model = vec![0u64; pages as usize];
    let mut rng = Rng::new(seed);
    let mut at = Time::ZERO;
    for round in 1..6000u64 {
        let page = rng.below(pages);
        let count = rng.between(1, 5.min(pages - page));
        let (lba, sectors) = (Lba(page * 8), Sectors(count * 8));
        let range = page as usize..(page + count) as usize;
        let done = match rng.below(20) {
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
                let done =
                    drive.submit(at, Request::read(lba, sectors).with(Data::ReadStamps(&mut got)));
                assert_eq!(got, model[range], "round {round} {pairs:?}");
                done
            }
            n => {
                let stamps: Vec<u64> = (0..count).map(|i| round << 8 | i).collect();
                model[range].copy_from_slice(&stamps);
                let request = Request::write(lba, sectors).with(Data::WriteStamps(&stamps));
                drive.submit(at, if n == 19 { request.with_fua() } else { request })
            }
        };
        at = at.max(done.unwrap_or_else(|e| panic!("round {round} {pairs:?}: {e}")));
        if round % 500 == 0 {
            drive.check().unwrap_or_else(|e| panic!("round {round} {pairs:?}: {e}"));
        }
    }
    drive.shutdown(at).unwrap();
    let stats = drive.stats();
    let full_scan = params.checkpoint.interval_slots.is_none();
    assert!(stats.nand.erases > 0, "{pairs:?}: nothing was cleaned");
    let (image, _) = drive.power_cut();
    let mut drive = Drive::mount(&params, image).unwrap();
    drive.check().unwrap_or_else(|e| panic!("mounted {pairs:?}: {e}"));
    assert_eq!(drive.stats().recovery.unwrap().from_checkpoint, !full_scan);
    let mut got = vec![0; pages as usize];
    let now = drive.now();
    for page in 0..pages {
        let at = page as usize;
        let request = Request::read(Lba(page * 8), Sectors(8));
        drive.submit(now, request.with(Data::ReadStamps(&mut got[at..at + 1]))).unwrap();
    }
    for page in 0..pages as usize {
        assert_eq!(got[page], model[page], "page {page} after power-on, {pairs:?}");
    }
}

#[test]
fn keeps_what_it_is_told() {
    let variants: &[&[&str]] = &[
        &[],
        &["buffer.policy=none", "buffer.size=0"],
        &["buffer.write=through"],
        &["geometry.page=16 KiB", "capacity=1 MiB"],
        &["geometry.page=16 KiB", "unit=16 KiB", "capacity=1 MiB"],
        &["geometry.page=16 KiB", "unit=8 KiB", "capacity=1 MiB"],
        &["geometry.page=8 KiB", "unit=32 KiB", "capacity=1 MiB"],
        &["geometry.planes=2", "geometry.page=8 KiB", "capacity=1 MiB"],
        &["geometry.planes=2", "nand.one_shot=on", "geometry.cell_bits=2", "capacity=1 MiB"],
        &["geometry.cell_bits=2", "nand.page_types=lsb-msb", "op=150 %", "geometry.pages=16"],
        &[
            "geometry.cell_bits=2",
            "nand.page_types=mlc-pairs",
            "geometry.pages=32",
            "op=150 %",
            "capacity=2 MiB",
        ],
        &["nand.cache_ops=on", "gc.pace=burst"],
        &["ckpt.mode=interval"],
        &["ckpt.mode=interval", "geometry.page=16 KiB", "capacity=2 MiB"],
        &["map.mode=paged", "map.cache=8 KiB", "op=150 %"],
        &[
            "map.mode=paged",
            "map.cache=16 KiB",
            "ckpt.mode=interval",
            "op=150 %",
            "geometry.page=8 KiB",
            "capacity=4 MiB",
        ],
        &["streams.policy=hotcold", "streams.count=2", "op=120 %"],
        &["gc.victim=fifo", "line=die"],
        &["gc.victim=cost-benefit", "wl.mode=dynamic+static", "wl.delta=2", "wl.period=10"],
        &[
            "nand.suspend=both",
            "nand.suspend_min=10 us",
            "nand.t_suspend=5 us",
            "gc.background=on",
            "gc.idle=1 us",
        ],
        &["placement=dynamic"],
        &["placement=static", "line=superblock"],
        &["timing=off"],
        &["bad.reserve=10 %", "bad.factory=3 %"],
        &["plp.mode=full"],
    ];
    for (i, pairs) in variants.iter().enumerate() {
        exercise(pairs, 77 + i as u64);
    }
}

#[test]
fn a_key_of_entries_is_refused_where_there_are_none() {
    let resolve = |policy: &str, subunit: &str| {
        let mut config = Config::default();
        for pair in ["capacity=64 MiB", "op=28 %", policy, subunit] {
            config.set_pair(pair).unwrap();
        }
        config.resolve().map(|_| ()).map_err(|e| e.to_string())
    };
    let error = resolve("buffer.policy=none", "buffer.subunit=mask").unwrap_err();
    assert!(
        error.contains("buffer.policy, buffer.subunit: policy `none` has no entries"),
        "{error}"
    );
    resolve("buffer.policy=lru", "buffer.subunit=mask").unwrap();
}

#[test]
fn a_share_that_leaves_nothing_is_refused() {
    let resolve = |pairs: &[&str]| {
        let mut config = Config::default();
        for pair in pairs {
            config.set_pair(pair).unwrap();
        }
        config.resolve().map(|_| ()).map_err(|e| e.to_string())
    };
    for sized in ["capacity=64 MiB", "geometry.blocks=64"] {
        let error = resolve(&[sized, "op=28 %", "bad.reserve=100 %"]).unwrap_err();
        assert_eq!(error, "bad.reserve: 100 % of all blocks as spares leave none for data");
    }
    resolve(&["capacity=64 MiB", "op=28 %", "bad.reserve=99 %"]).unwrap();
    // A capacitor of no entries would answer flushes at once, and save nothing.
    let capacitor = ["capacity=64 MiB", "op=28 %", "plp.mode=capacitor"];
    let error = resolve(&capacitor).unwrap_err();
    assert!(error.starts_with("plp.mode, plp.pages: a capacitor that saves 0 entries"), "{error}");
    resolve(&[&capacitor[..], &["plp.pages=1"]].concat()).unwrap();
}

#[test]
fn a_part_of_the_buffer_is_no_more_than_all_of_it() {
    let build = |policy: &str| {
        let mut config = Config::default();
        for pair in ["capacity=64 MiB", "op=28 %", "buffer.size=1 MiB", policy] {
            config.set_pair(pair).unwrap();
        }
        config.resolve().map(|_| ()).map_err(|e| e.to_string())
    };
    for (policy, part) in
        [("s3-fifo", "small"), ("2q", "in"), ("lirs", "hir"), ("w-tinylfu", "window")]
    {
        let error = build(&format!("buffer.policy={policy}({part}=200 %)")).unwrap_err();
        assert!(error.contains(part) && error.contains("100 %"), "{policy}: {error}");
    }
    // What ghosts remember is no part of it.
    build("buffer.policy=s3-fifo(ghost=200 %)").unwrap();
}

/// Two heads of the host and four of cleaning, and hardly a line more than one victim needs.
#[test]
fn a_reserve_for_every_head_that_a_victim_is_copied_to_is_the_least() {
    let pairs = [
        "capacity=2 MiB",
        "geometry.page=4 KiB",
        "unit=4 KiB",
        "op=60 %",
        "streams.policy=lifetime",
        "gc.reserve=1",
        "gc.start=2",
        "gc.victim=random",
        "timing=off",
    ];
    let params = config(&pairs).resolve().unwrap_or_else(|e| panic!("{e}"));
    for seed in 1..=8 {
        let mut drive = Drive::new(&params).unwrap();
        let pages = drive.capacity().0 / 8;
        let (mut rng, mut model) = (Rng::new(seed), vec![0u64; pages as usize]);
        for stamp in 1..=12_000u64 {
            let below = if rng.ratio(rng.clone().below(4), 4) { pages / 8 } else { pages };
            let page = rng.below(below);
            let stamps = [stamp];
            let write = Request::write(Lba(page * 8), Sectors(8)).with(Data::WriteStamps(&stamps));
            drive.submit(Time::ZERO, write).unwrap_or_else(|e| panic!("{seed}, {stamp}: {e}"));
            model[page as usize] = stamp;
        }
        drive.check().unwrap();
        let mut got = vec![0; pages as usize];
        let read = Request::read(Lba(0), Sectors(pages * 8)).with(Data::ReadStamps(&mut got));
        drive.submit(Time::ZERO, read).unwrap();
        assert_eq!(got, model, "seed {seed}");
    }
}

/// Whatever the pace of cleaning, cold lines are moved to worn blocks.
#[test]
fn wear_is_levelled_at_either_pace() {
    for pace in ["gc.pace=credit", "gc.pace=burst"] {
        let pairs = ["wl.mode=dynamic+static", "wl.delta=2", "wl.period=4", pace, "timing=off"];
        let mut drive = Drive::new(&config(&pairs).resolve().unwrap()).unwrap();
        let pages = drive.capacity().0 / 8;
        let mut rng = Rng::new(5);
        for i in 0..8_000 {
            let page = if i < pages { i } else { rng.below(pages / 8) };
            drive.submit(Time::ZERO, Request::write(Lba(page * 8), Sectors(8))).unwrap();
        }
        drive.check().unwrap();
        let (moved, wear) = (drive.stats().gc.wl_pages, drive.stats().wear);
        assert!(moved > 0, "{pace}");
        assert!(wear.max - wear.min <= 12, "{pace}: {} to {} erases", wear.min, wear.max);
    }
}

/// Nothing is interrupted: that something might be changes no time. (Where reads go first those of
/// cleaning do, too.)
#[test]
fn a_flush_waits_for_the_same_whatever_reads_may_move() {
    let orders: [&[&str]; 4] =
        [&[], &["nand.suspend=erase"], &["nand.suspend=program"], &["nand.suspend=both"]];
    let kinds: [&[&str]; 3] = [
        &[],
        &["geometry.cell_bits=2", "nand.page_types=lsb-msb", "op=150 %", "geometry.pages=16"],
        &["ftl=hybrid-log", "op=150 %"],
    ];
    for kind in kinds {
        let ends = orders.map(|order| {
            let pairs = [&["buffer.policy=none", "buffer.size=0"][..], kind, order].concat();
            let mut drive = Drive::new(&config(&pairs).resolve().unwrap()).unwrap();
            let pages = drive.capacity().0 / 8;
            let (mut at, mut ends) = (Time::ZERO, Vec::new());
            for i in 0..6 * pages {
                // In order, so that what is cleaned holds nothing.
                let write = Request::write(Lba(i % pages * 8), Sectors(8));
                let write = if i % 17 == 0 { write.with_fua() } else { write };
                at = at.max(drive.submit(at, write).unwrap());
                if i % 5 == 0 {
                    at = at.max(drive.submit(at, Request::flush()).unwrap());
                }
                ends.push(at);
            }
            let stats = drive.stats();
            assert!(stats.nand.erases > 20 && stats.nand.suspends == 0, "{pairs:?}");
            ends
        });
        for (other, order) in ends.iter().zip(orders).skip(1) {
            let first = other.iter().zip(&ends[0]).position(|(a, b)| a != b);
            assert_eq!(first, None, "{kind:?} {order:?}");
        }
    }
}

/// A drive that is a third full: the first requests after power-on find dies that are not erasing
/// all the rest.
#[test]
fn after_power_on_lines_are_erased_as_they_are_needed() {
    let params = config(&["capacity=4 MiB", "op=40 %"]).resolve().unwrap();
    let mut drive = Drive::new(&params).unwrap();
    let pages = drive.capacity().0 / 8;
    let mut at = Time::ZERO;
    for page in 0..pages / 3 {
        at = at.max(drive.submit(at, Request::write(Lba(page * 8), Sectors(8))).unwrap());
    }
    drive.submit(at, Request::flush()).unwrap();
    for round in 0..3 {
        let image = drive.power_cut().0;
        drive = Drive::mount(&params, image).unwrap();
        let at = drive.now();
        let stamps = [round + 1];
        let write = Request::write(Lba(8 * round), Sectors(8)).with(Data::WriteStamps(&stamps));
        let done = drive.submit(at, write).unwrap();
        let done = done.max(drive.submit(at, Request::flush()).unwrap());
        let read = drive.submit(done, Request::read(Lba(160), Sectors(8))).unwrap();
        let erases = drive.stats().nand.erases;
        assert!(erases < 12, "{erases} erases at once");
        assert!(read.since(done) < params.timing.t_erase.times(2), "round {round}");
        drive.check().unwrap();
    }
    // The rest is there when it is wanted.
    let mut at = drive.now();
    for page in 0..3 * pages {
        let write = Request::write(Lba(page % pages * 8), Sectors(8));
        at = at.max(drive.submit(at, write).unwrap());
    }
    drive.check().unwrap();
}

#[test]
fn a_drive_without_time_gets_none_by_being_timed_again() {
    let mut drive = Drive::new(&config(&["timing=off"]).resolve().unwrap()).unwrap();
    drive.set_timing(false);
    drive.set_timing(true);
    let at = Time::from_us(5);
    for request in [Request::write(Lba(0), Sectors(8)), Request::flush()] {
        assert_eq!(drive.submit(at, request).unwrap(), at);
    }
}

/// A page of a small request and three of a large one, programmed by a flush or at once.
#[test]
fn what_a_flush_writes_goes_to_the_stream_of_its_entry() {
    for write in ["buffer.write=back", "buffer.write=through"] {
        let programs = |streams: &str| {
            let pairs = [
                "geometry.page=16 KiB",
                "capacity=4 MiB",
                "buffer.policy=vbbms",
                "buffer.size=256 KiB",
                streams,
                write,
            ];
            let more: &[&str] =
                if streams.ends_with("buffer") { &["streams.count=2"] } else { &[] };
            let params = config(&[&pairs[..], more].concat()).resolve().unwrap();
            let mut drive = Drive::new(&params).unwrap();
            let mut at = drive.submit(Time::ZERO, Request::write(Lba(0), Sectors(24))).unwrap();
            at = at.max(drive.submit(at, Request::write(Lba(800), Sectors(8))).unwrap());
            at = at.max(drive.submit(at, Request::write(Lba(80), Sectors(24))).unwrap());
            drive.submit(at, Request::flush()).unwrap();
            drive.check().unwrap();
            drive.stats().nand.page_programs
        };
        // Seven pages in slots of 4 KiB: the one of the small request is alone.
        let (one, two) = (programs("streams.policy=user+gc"), programs("streams.policy=buffer"));
        match write {
            "buffer.write=back" => assert_eq!((one, two), (2, 3)),
            _ => assert_eq!((one, two), (3, 3)),
        }
    }
}
