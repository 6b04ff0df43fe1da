//! The log over memory: what is read is what was written, the tables agree, everything is counted.

mod common;

use block::{BlockDevice, Data, DeviceError, Request, Rng, Time};
use common::{CutDevice, Oracle, lba, random_step, read_all, sectors, small};
use varve_remap::HostLog;

fn run(pairs: &[(&str, &str)], seed: u64, steps: usize) -> HostLog<CutDevice> {
    let mut log = HostLog::format(CutDevice::new(1200), &small(pairs)).unwrap();
    let (mut oracle, mut rng) = (Oracle::default(), Rng::stream(seed, "log"));
    let hot = log.engine().geometry().logical;
    for i in 0..steps {
        let at = Time::from_us(i as u64 * 100);
        random_step(&mut log, at, &mut oracle, &mut rng, hot)
            .unwrap_or_else(|e| panic!("{i}: {e}"));
        if i % 97 == 0 {
            log.check().unwrap();
        }
    }
    let at = Time::from_us(steps as u64 * 100);
    assert_eq!(read_all(&mut log, at), oracle.state(oracle.done.len(), hot));
    log.check().unwrap();
    let report = log.check_media().unwrap();
    assert_eq!(report.damaged, []);
    log.check().unwrap();
    log
}

#[test]
fn reads_return_the_newest_write_while_segments_are_cleaned_and_checkpoints_are_taken() {
    let log = run(&[], 1, 4000);
    let c = log.counters();
    assert!(c.cleaned > 50 && c.gc > 100 && c.checkpoints > 5 && c.trims > 50, "{c:?}");
}

#[test]
fn every_policy_and_option_keeps_contents() {
    let all: &[&[(&str, &str)]] = &[
        &[("gc.victim", "cost-benefit"), ("gc.order", "lba")],
        &[("gc.victim", "age-threshold(3)")],
        &[("gc.victim", "fifo")],
        &[("gc.victim", "random")],
        &[("ack", "buffer"), ("buffer", "64 KiB")],
        &[("verify", "read")],
        &[("placement", "sepbit"), ("reserve", "75")],
        &[("placement", "auto"), ("reserve", "75")],
        &[("placement", "known"), ("reserve", "85"), ("verify", "read")],
        &[("discard", "off"), ("segment", "128 KiB")],
        &[("reserve", "30"), ("self_flush", "64 KiB"), ("seal_after", "1 ms")],
    ];
    for (i, pairs) in all.iter().enumerate() {
        let log = run(pairs, 10 + i as u64, 1500);
        assert!(log.counters().cleaned > 5, "{pairs:?}: {:?}", log.counters());
    }
}

#[test]
fn a_clean_stop_leaves_nothing_to_replay() {
    let options = small(&[]);
    let mut log = HostLog::format(CutDevice::new(1200), &options).unwrap();
    let (mut oracle, mut rng) = (Oracle::default(), Rng::new(5));
    let hot = log.engine().geometry().logical;
    for round in 0..5 {
        for _ in 0..300 {
            let at = log.now();
            random_step(&mut log, at, &mut oracle, &mut rng, hot).unwrap();
        }
        let at = log.now();
        let (device, at) = log.close(at).unwrap();
        let device = device.power_cycle(round);
        log = HostLog::open(device, at, &options).unwrap();
        assert!(log.summary().clean && log.summary().records == 0, "{:?}", log.summary());
        let at = log.now();
        assert_eq!(read_all(&mut log, at), oracle.state(oracle.done.len(), hot));
        log.check().unwrap();
    }
}

#[test]
fn parts_of_blocks_are_merged_with_what_was_there() {
    let mut log = HostLog::format(CutDevice::new(1200), &small(&[])).unwrap();
    let capacity = log.capacity().0;
    let mut expected = vec![0u8; capacity as usize * 512];
    let mut rng = Rng::new(9);
    for i in 0..2000u64 {
        let sectors = 1 + rng.below(30);
        let first = rng.below(capacity - sectors);
        let (a, b) = (first as usize * 512, (first + sectors) as usize * 512);
        let (lba, sectors) = (block::Lba(first), block::Sectors(sectors));
        if rng.ratio(1, 3) {
            let mut out = vec![1; b - a];
            log.submit(Time::from_us(i), Request::read(lba, sectors).with(Data::Read(&mut out)))
                .unwrap();
            assert!(out == expected[a..b], "{i}");
        } else {
            let bytes: Vec<u8> = (a..b).map(|k| (k as u64 * 31 + i * 7) as u8 | 1).collect();
            log.submit(Time::from_us(i), Request::write(lba, sectors).with(Data::Write(&bytes)))
                .unwrap();
            expected[a..b].copy_from_slice(&bytes);
        }
    }
    log.check().unwrap();
}

#[test]
fn trimmed_blocks_read_zero_at_once_and_unmapped_ones_cost_nothing() {
    let mut log = HostLog::format(CutDevice::new(1200), &small(&[])).unwrap();
    let ones = vec![1; 8 * 4096];
    let at = Time::ZERO;
    log.submit(at, Request::write(lba(4), sectors(8)).with(Data::Write(&ones))).unwrap();
    let before = log.counters().trims;
    // Parts of blocks at the ends stay.
    log.submit(at, Request::discard(block::Lba(5 * 8 + 1), block::Sectors(16))).unwrap();
    let mut out = vec![7; 8 * 4096];
    log.submit(at, Request::read(lba(4), sectors(8)).with(Data::Read(&mut out))).unwrap();
    let zero: Vec<bool> = out.chunks(4096).map(|b| b.iter().all(|x| *x == 0)).collect();
    assert_eq!(zero, [false, false, true, false, false, false, false, false]);
    let traffic = log.traffic();
    log.submit(at, Request::discard(lba(100), sectors(50))).unwrap();
    let mut out = vec![7; 50 * 4096];
    log.submit(at, Request::read(lba(100), sectors(50)).with(Data::Read(&mut out))).unwrap();
    assert!(out.iter().all(|b| *b == 0));
    assert_eq!(log.traffic(), traffic);
    assert_eq!(log.counters().trims, before + 1);
}

#[test]
fn a_log_without_payload_counts_the_same_and_refuses_data() {
    let steps = |payload: &str| {
        let options = small(&[("payload", payload)]);
        let mut log = HostLog::format(CutDevice::new(1200), &options).unwrap();
        let mut rng = Rng::new(3);
        let hot = log.engine().geometry().logical;
        for i in 0..5000 {
            let first = rng.below(u64::from(hot) - 4) as u32;
            log.submit(Time::from_us(i), Request::write(lba(first), sectors(3))).unwrap();
        }
        log.check().unwrap();
        (*log.counters(), log)
    };
    let (stored, _) = steps("stored");
    let (counted, mut log) = steps("none");
    assert_eq!(stored, counted);
    assert!(stored.cleaned > 100);
    let data = Request::write(lba(0), sectors(1)).with(Data::Write(&[0; 4096]));
    assert!(matches!(log.submit(log.now(), data), Err(DeviceError::Unsupported(_))));
}

#[test]
fn a_log_made_over_another_believes_nothing_of_it() {
    let options = small(&[]);
    let mut log = HostLog::format(CutDevice::new(1200), &options).unwrap();
    let ones = vec![1; 8 * 4096];
    log.submit(Time::ZERO, Request::write(lba(4), sectors(8)).with(Data::Write(&ones))).unwrap();
    log.submit(Time::ZERO, Request::flush()).unwrap();
    let log = HostLog::format(log.into_device(), &options).unwrap();
    let mut log = HostLog::open(log.into_device(), Time::ZERO, &options).unwrap();
    assert_eq!(log.summary().records, 0);
    let at = log.now();
    assert!(read_all(&mut log, at).iter().all(|version| *version == 0));
}

/// What the disk below has would be there after a power cut, all of it.
fn all_is_flushed(log: &HostLog<block::CutDevice>) -> bool {
    let disk = log.device();
    let (now, left) = (disk.image(), disk.image_at_end(block::Fate::Old));
    let read = |image: &block::DiskImage| {
        let mut bytes = vec![0; image.sectors().0 as usize * 512];
        image.read_at(block::Lba(0), &mut bytes).unwrap();
        bytes
    };
    read(&now) == read(&left)
}

#[test]
fn nothing_stays_behind_a_flush_not_even_the_copy_of_a_header_of_a_root() {
    let slow = block::Span::from_us(1);
    let disk = block::CutDevice::new(sectors(1200)).with_latency(slow, slow);
    let options = small(&[("self_flush", "64 KiB"), ("discard", "off")]);
    let mut log = HostLog::format(disk, &options).unwrap();
    let blocks = u64::from(log.engine().geometry().logical);
    let (mut rng, mut at, bytes) = (Rng::new(3), log.now(), vec![7; 4096]);
    for i in 0..150 {
        at = log.now() + block::Span::from_ns(rng.below(1_500));
        let write = Request::write(lba(rng.below(blocks) as u32), sectors(1));
        log.submit(at, write.with(Data::Write(&bytes))).unwrap();
        // The first covers the write; the second finds a log that has nothing left to flush.
        for pause in [rng.below(3_000), 10_000] {
            at = log.now() + block::Span::from_ns(pause);
            log.submit(at, Request::flush()).unwrap();
        }
        assert!(all_is_flushed(&log), "write {i}");
    }
    assert!(log.counters().checkpoints > 3, "{:?} at {at:?}", log.counters());
}

/// Memory as recovery wants it.
struct Memory(Vec<u8>);

impl varve_remap::Store for Memory {
    fn blocks(&self) -> u64 {
        (self.0.len() / 4096) as u64
    }
    fn read(&mut self, at: varve_remap::Pba, out: &mut [u8]) -> Result<(), DeviceError> {
        out.copy_from_slice(&self.0[at.0 as usize * 4096..][..out.len()]);
        Ok(())
    }
    fn read_stamps(&mut self, _: varve_remap::Pba, _: &mut [u64]) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported("bytes"))
    }
    fn write(&mut self, at: varve_remap::Pba, bytes: &[u8]) -> Result<(), DeviceError> {
        self.0[at.0 as usize * 4096..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// A log that was closed with a block in each of 18 pages of its map: the device, when, and all that is on it.
fn with_a_map(options: &varve_remap::LogOptions) -> (block::RamDevice, block::Time, Vec<u8>) {
    let device = block::RamDevice::new(sectors(80 * 512));
    let mut log = HostLog::format(device, options).unwrap();
    let bytes = vec![7; 4096];
    for page in 0..18 {
        let write = Request::write(lba(page * 1024), sectors(1)).with(Data::Write(&bytes));
        log.submit(log.now(), write).unwrap();
    }
    let at = log.now();
    let (mut device, at) = log.close(at).unwrap();
    let mut image = vec![0; device.capacity().0 as usize * 512];
    device
        .submit(at, Request::read(lba(0), device.capacity()).with(Data::Read(&mut image)))
        .unwrap();
    (device, at, image)
}

#[test]
fn cleaning_never_writes_a_damaged_page_of_the_map_anew() {
    // Of the map not all is kept in memory.
    let options = small(&[("map_memory", "64 KiB")]);
    let mut store = Memory(with_a_map(&options).2);
    let mut engine =
        varve_remap::recover(&mut store, &options, true, block::Plant::default()).unwrap().engine;
    let (page, place) = engine.missing(block::Lpn(5 * 1024), 1).expect("not in memory");
    let seg = engine.geometry().seg(place).unwrap();
    // Read once, and found damaged.
    assert!(!engine.install(page, &vec![9; 4096]));
    while let Err((page, at)) = engine.move_pages(seg) {
        engine.install(page, &store.0[at.0 as usize * 4096..][..4096]);
    }
    assert_eq!(engine.counters().quarantined, 1);
    engine.checkpoint_begin(false);
    let (mut written, mut body) = (Vec::new(), Vec::new());
    while engine.checkpoint_write(u32::MAX, &mut written).is_some() {
        std::mem::swap(&mut written, &mut body);
    }
    assert!(engine.damaged_map(block::Lpn(5 * 1024), 1));
    // The directory still names the place where the damage is.
    assert_eq!(body[page as usize * 8..][..4], place.0.to_le_bytes());
}

/// Whether the map is all in memory or not: what a page of it said is not known, so nothing is read there.
#[test]
fn blocks_of_a_damaged_page_of_the_map_are_errors_and_not_zeroes() {
    for memory in ["0", "64 KiB"] {
        let options = small(&[("map_memory", memory)]);
        let (mut device, at, image) = with_a_map(&options);
        let lazy = small(&[("map_memory", "64 KiB")]);
        let plant = block::Plant::default();
        let engine = varve_remap::recover(&mut Memory(image), &lazy, true, plant).unwrap().engine;
        let (_, place) = engine.missing(block::Lpn(5 * 1024), 1).expect("not in memory");
        let damage = Request::write(lba(place.0), sectors(1)).with(Data::Write(&[9; 4096]));
        device.submit(at, damage).unwrap();
        let mut log = HostLog::open(device, at, &options).unwrap();
        for page in 0..18 {
            for beside in [0, 1] {
                let mut out = [1; 4096];
                let read = Request::read(lba(page * 1024 + beside), sectors(1));
                let done = log.submit(log.now(), read.with(Data::Read(&mut out)));
                match page {
                    5 => assert!(matches!(done, Err(DeviceError::Unreadable(_))), "{memory}"),
                    _ => assert!(done.is_ok() && out == [[7, 0][beside as usize]; 4096]),
                }
            }
        }
    }
}

/// What a log says of its memory is its tables, and a page of the map for each that is there.
#[test]
fn memory_grows_by_the_pages_of_the_map() {
    let mut log = HostLog::format(CutDevice::new(1200), &small(&[])).unwrap();
    let empty = log.engine().memory();
    let tables = u64::from(log.engine().geometry().segments);
    assert!((tables..64 << 10).contains(&empty), "{empty} bytes for {tables} segments");
    let bytes = [1; 4096];
    log.submit(Time::ZERO, Request::write(lba(0), sectors(1)).with(Data::Write(&bytes))).unwrap();
    assert_eq!(log.engine().memory(), empty + 4096);
}
