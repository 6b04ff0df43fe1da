//! Damage of what was flushed, which cleaning meets: what it finds is written off, and is an error until it is
//! written again; what it cannot list stays where it is; nothing else is touched. In both shells, and after a
//! cut.

mod common;

use std::io;
use std::sync::{Arc, Mutex};

use block::{BlockDevice, Data, DeviceError, Lpn, Medium, Request, Rng, Sectors, Time};
use common::{BLOCK, lba, sectors, small};
use varve_remap::live::LiveError;
use varve_remap::{HostLog, LogOptions, Pba, Place};

const BLOCKS: usize = 1_200;

/// A disk of which places can be damaged, or be unreadable; a discard leaves what was there.
#[derive(Clone, Debug)]
struct Disk(Arc<Mutex<Held>>);

#[derive(Debug)]
struct Held {
    bytes: Vec<u8>,
    unreadable: Vec<usize>,
    /// Reads that met those.
    refused: u64,
}

impl Disk {
    fn new() -> Disk {
        let bytes = vec![0; BLOCKS * BLOCK];
        Disk(Arc::new(Mutex::new(Held { bytes, unreadable: Vec::new(), refused: 0 })))
    }
    /// One bit of a block is another.
    fn damage(&self, at: Pba) {
        self.0.lock().unwrap().bytes[at.0 as usize * BLOCK + 77] ^= 0x10;
    }
    fn lose(&self, at: Pba) {
        self.0.lock().unwrap().unreadable.push(at.0 as usize);
    }
    /// Before the first of `bytes` that cannot be read.
    fn get(&self, from: usize, out: &mut [u8]) -> Result<(), usize> {
        let mut held = self.0.lock().unwrap();
        let blocks = from / BLOCK..(from + out.len()).div_ceil(BLOCK);
        if let Some(lost) = held.unreadable.iter().copied().find(|lost| blocks.contains(lost)) {
            held.refused += 1;
            return Err(lost);
        }
        out.copy_from_slice(&held.bytes[from..][..out.len()]);
        Ok(())
    }
    /// What is written again can be read again.
    fn put(&self, from: usize, bytes: &[u8]) {
        let mut held = self.0.lock().unwrap();
        let blocks = from / BLOCK..(from + bytes.len()).div_ceil(BLOCK);
        held.unreadable.retain(|lost| !blocks.contains(lost));
        held.bytes[from..][..bytes.len()].copy_from_slice(bytes);
    }
}

impl Medium for Disk {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.get(at as usize, out).map_err(|lost| io::Error::other(format!("block {lost}")))
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.put(at as usize, bytes);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn size(&self) -> io::Result<u64> {
        Ok((BLOCKS * BLOCK) as u64)
    }
    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn discard_is_fast(&self) -> bool {
        true
    }
}

impl BlockDevice for Disk {
    fn capacity(&self) -> Sectors {
        sectors(BLOCKS as u32)
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let from = request.lba.0 as usize * 512;
        match request.data {
            Data::Read(out) => {
                self.get(from, out).map_err(|lost| DeviceError::Unreadable(lba(lost as u32)))?;
            }
            Data::Write(bytes) => self.put(from, bytes),
            _ => {}
        }
        Ok(at)
    }
}

type Log = common::both::Log<Disk>;

impl Log {
    fn place(&self, block: u32) -> Pba {
        match self.look(|engine| engine.lookup(Lpn(block))) {
            Place::At(pba) => pba,
            other => panic!("block {block} is {other:?}"),
        }
    }
    /// A part of a block is written; whether that was done.
    fn write_part(&mut self, block: u32) -> bool {
        match self {
            Log::Modelled(log) => {
                let part = block::Lba(lba(block).0 + 2);
                let write = Request::write(part, Sectors(3)).with(Data::Write(&[1; 1536]));
                let done = log.submit(log.now(), write);
                assert!(matches!(done, Ok(_) | Err(DeviceError::Unreadable(_))), "{done:?}");
                done.is_ok()
            }
            Log::Live(log) => {
                let done = log.write(u64::from(block) * BLOCK as u64 + 100, &[1; 1500]);
                assert!(matches!(done, Ok(()) | Err(LiveError::Damaged(_))), "{done:?}");
                done.is_ok()
            }
        }
    }
    fn trim(&mut self, block: u32) {
        match self {
            Log::Modelled(log) => {
                log.submit(log.now(), Request::discard(lba(block), sectors(1))).map(drop).unwrap();
            }
            Log::Live(log) => log.trim(u64::from(block) * BLOCK as u64, BLOCK as u64).unwrap(),
        }
    }
    fn check(&self) {
        match self {
            Log::Modelled(log) => log.check().unwrap(),
            Log::Live(log) => log.check().unwrap(),
        }
    }
    fn blocks(&self) -> u32 {
        self.look(|engine| engine.geometry().logical)
    }
    /// Blocks written off, segments set aside, segments cleaned.
    fn counted(&self) -> (u64, u64, u64) {
        self.look(|engine| {
            let counters = engine.counters();
            (counters.poisoned, counters.quarantined, counters.cleaned)
        })
    }
}

/// Blocks that stay as they are from the first on: one of eight.
fn stays(block: u32) -> bool {
    block % 8 == 3
}

fn first(block: u32) -> u8 {
    block as u8 | 1
}

/// Writes what does not stay until `enough`, some flushes between.
fn churn(log: &mut Log, enough: impl Fn(&Log) -> bool) {
    let (mut rng, blocks) = (Rng::new(7), u64::from(log.blocks()));
    for round in 0..400u32 {
        for _ in 0..200 {
            let block = rng.below(blocks) as u32;
            if !stays(block) {
                log.write(block, 0x80 | round as u8);
            }
        }
        log.flush();
        if round > 4 && enough(log) {
            return;
        }
    }
    panic!("cleaning never came by: {:?}", log.counted());
}

/// A full log, all of it flushed.
fn full(live: bool, options: &LogOptions) -> (Disk, Log) {
    let disk = Disk::new();
    let mut log = Log::format(live, &disk, options);
    (0..log.blocks()).for_each(|block| log.write(block, first(block)));
    log.flush();
    (disk, log)
}

fn all_but(log: &mut Log, damaged: &[u32]) {
    for block in (0..log.blocks()).filter(|block| stays(*block)) {
        let wanted = match damaged.contains(&block) {
            true => None,
            false => Some(first(block)),
        };
        assert_eq!(log.read(block), wanted, "block {block}");
    }
    log.check();
}

#[test]
fn what_cleaning_finds_damaged_is_an_error_until_it_is_written_again() {
    for live in [false, true] {
        // A log that keeps CRCs beside the map is asked the same.
        for verify in ["clean", "read"] {
            let options = small(&[("verify", verify)]);
            let (disk, mut log) = full(live, &options);
            let hit = [3, 11, 403];
            hit.iter().for_each(|block| disk.damage(log.place(*block)));
            churn(&mut log, |log| log.counted().0 == 3);
            let ways = format!("live {live}, verify {verify}");
            assert_eq!((log.counted().0, log.counted().1), (3, 0), "{ways}");
            all_but(&mut log, &hit);
            assert!(hit.iter().all(|block| !log.write_part(*block)), "{ways}: a part alone");
            // It is damaged after the end of the process, and after checkpoints.
            log.flush();
            log = log.again(&disk, &options);
            all_but(&mut log, &hit);
            let before = log.counted().2;
            churn(&mut log, |log| log.counted().2 > before + 100);
            assert_eq!(log.counted().0, 0, "{ways}: written off once");
            all_but(&mut log, &hit);
            // What is written again, or trimmed, is sound.
            log.write(3, first(3));
            log.trim(11);
            assert_eq!(log.read(11), Some(0), "{ways}");
            log.write(11, first(11));
            all_but(&mut log, &[403]);
            log.flush();
            log = log.again(&disk, &options);
            all_but(&mut log, &[403]);
        }
    }
}

#[test]
fn what_is_damaged_and_written_again_in_time_is_not_written_off() {
    for live in [false, true] {
        let options = small(&[]);
        let (disk, mut log) = full(live, &options);
        [3, 11, 19].iter().for_each(|block| disk.damage(log.place(*block)));
        [3, 11, 19].iter().for_each(|block| log.write(*block, first(*block)));
        log.flush();
        churn(&mut log, |log| log.counted().2 > 200);
        assert_eq!((log.counted().0, log.counted().1), (0, 0), "live {live}");
        all_but(&mut log, &[]);
    }
}

/// A block that cannot be read now may be read another time: live it stays where it is; in virtual time a
/// sector that was lost once is lost.
#[test]
fn what_cannot_be_read_is_never_another_block() {
    for live in [false, true] {
        let options = small(&[]);
        let (disk, mut log) = full(live, &options);
        disk.lose(log.place(11));
        let wanted = if live { (0, 1) } else { (1, 0) };
        churn(&mut log, |log| (log.counted().0, log.counted().1) == wanted);
        assert!(disk.0.lock().unwrap().refused > 0);
        if !live {
            all_but(&mut log, &[11]);
            continue;
        }
        let refused = match &log {
            Log::Live(log) => log.read(11 * BLOCK as u64, &mut [0; BLOCK]).is_err(),
            Log::Modelled(_) => unreachable!("a live log"),
        };
        assert!(refused, "it cannot be read");
        disk.0.lock().unwrap().unreadable.clear();
        churn(&mut log, |log| log.counted().2 > 200);
        all_but(&mut log, &[]);
        // The next start may clean it, and gains the whole segment.
        log.flush();
        log = log.again(&disk, &options);
        let before = log.counted().2;
        churn(&mut log, |log| log.counted().2 > before + 100);
        assert_eq!((log.counted().0, log.counted().1), (0, 0));
        all_but(&mut log, &[]);
    }
}

/// A header that is damaged hides what lies under it from cleaning, not from reads.
#[test]
fn what_lies_under_a_damaged_header_stays_where_it_is() {
    for live in [false, true] {
        let options = small(&[]);
        let (disk, mut log) = full(live, &options);
        // The header lies before its blocks: of a segment's first record it is the segment's first block.
        let (geometry, place) = (log.look(|engine| *engine.geometry()), log.place(403));
        let seg = geometry.seg(place).unwrap();
        disk.damage(geometry.base(seg));
        churn(&mut log, |log| log.counted().1 == 1);
        let kept: Vec<u32> = (0..log.blocks())
            .filter(|block| stays(*block) && geometry.seg(log.place(*block)) == Some(seg))
            .collect();
        assert!(kept.contains(&403), "live {live}: {kept:?}");
        let before = log.counted().2;
        churn(&mut log, |log| log.counted().2 > before + 100);
        assert_eq!(log.place(403), place, "live {live}: set aside once and for all");
        assert_eq!((log.counted().0, log.counted().1), (0, 1), "live {live}");
        all_but(&mut log, &[]);
    }
}

/// The counters of a live log say what was met, and add up.
#[test]
fn the_counters_of_a_live_log_say_what_was_met() {
    let (disk, mut log) = full(true, &small(&[("verify", "read")]));
    [3, 11].iter().for_each(|block| disk.damage(log.place(*block)));
    assert_eq!([3, 11, 19].map(|block| log.read(block)), [None, None, Some(first(19))]);
    assert_eq!(log.read(3), None);
    log.trim(11);
    log.flush();
    let Log::Live(log) = &log else { unreachable!("a live log") };
    log.stop();
    let counters = log.counters();
    let named = |name: &str| {
        let found = counters.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no {name}: {counters:?}")).1
    };
    let engine = log.with_engine(|engine| *engine.counters());
    assert_eq!((named("blocks_damaged"), named("requests_damaged")), (2, 3));
    assert_eq!((named("reads_verified"), named("trims")), (1, 1));
    assert_eq!(named("user_blocks"), u64::from(log.blocks()));
    assert!(named("flushes_asked") >= 2 && named("syncs") <= named("flushes_asked"));
    // Headers of map pages go with these.
    let sent = ["user_blocks", "header_blocks", "gc_blocks"].map(&named).iter().sum::<u64>();
    assert!((named("user_blocks") + 1..=sent).contains(&named("log_blocks")), "{counters:?}");
    assert!((1..=named("log_blocks")).contains(&named("log_writes")), "{counters:?}");
    let all = sent + named("meta_blocks") + named("root_blocks");
    assert_eq!(all, engine.written());
    assert_eq!(named("segments_free"), u64::from(log.with_engine(|engine| engine.free_segments())));
    assert!(named("memory_bytes") > 4 * u64::from(log.blocks()), "{counters:?}");
    log.verify_reads(false);
    log.read(3 * BLOCK as u64, &mut [0; BLOCK]).unwrap();
}

/// Nobody can have written a block that the log does not have: what a forged record says of one is passed over, and
/// what else it says is done.
#[test]
fn a_record_that_names_blocks_behind_the_last_one_changes_only_those_that_there_are() {
    let bytes = |lpn: u32| vec![lpn as u8 + 1; BLOCK];
    for beyond in [0, 1, 1 << 20] {
        let disk = Disk::new();
        let mut log = HostLog::format(disk.clone(), &small(&[])).unwrap();
        let logical = log.engine().geometry().logical;
        // One record: blocks 4 to 6, and of block 5 it will say that it is one behind the last.
        let all = [bytes(4), bytes(5), bytes(6)].concat();
        let write = Request::write(lba(4), sectors(3)).with(Data::Write(&all));
        log.submit(Time::ZERO, write).unwrap();
        log.submit(Time::ZERO, Request::discard(lba(6), sectors(1))).unwrap();
        log.submit(Time::ZERO, Request::flush()).unwrap();
        drop(log);
        let forged = [(5, logical + beyond), (6 | (1 << 31), (logical + beyond) | (1 << 31))];
        for (is, becomes) in forged {
            let mut held = disk.0.lock().unwrap();
            let records = held.bytes.chunks_exact_mut(BLOCK).filter(|b| b.starts_with(b"varvelog"));
            let mut changed = 0;
            for record in records {
                let entries = usize::from(u16::from_le_bytes([record[46], record[47]]));
                for entry in record[64..].chunks_exact_mut(8).take(entries) {
                    if entry[..4] == u32::to_le_bytes(is) {
                        entry[..4].copy_from_slice(&u32::to_le_bytes(becomes));
                        changed += 1;
                    }
                }
                let crc = block::crc32c(block::crc32c(0, &record[..60]), &record[64..]);
                record[60..64].copy_from_slice(&crc.to_le_bytes());
            }
            assert_eq!(changed, 1, "one entry of {is:#x}");
        }
        let mut log = HostLog::open(disk, Time::ZERO, &small(&[])).unwrap();
        log.check().unwrap_or_else(|error| panic!("{beyond} behind the last block: {error}"));
        assert_eq!(log.engine().mapped(), 2, "blocks 4 and 6");
        let mut out = vec![0; BLOCK];
        for (lpn, expected) in [(4, bytes(4)), (5, vec![0; BLOCK]), (6, bytes(6))] {
            let read = Request::read(lba(lpn), sectors(1)).with(Data::Read(&mut out));
            log.submit(log.now(), read).unwrap();
            assert!(out == expected, "block {lpn}, {beyond} behind the last block");
        }
    }
}

/// A request looks for pages of the map unless all are there and sound.
#[test]
fn a_map_holds_all_until_it_may_not_or_a_page_of_it_is_damaged() {
    let holds = |log: &HostLog<Disk>| log.engine().holds_map();
    let (all, part) = (small(&[]), small(&[("map_memory", "64 KiB")]));
    let disk = Disk::new();
    let mut log = HostLog::format(disk.clone(), &all).unwrap();
    assert!(holds(&log), "nothing is mapped");
    let bytes = vec![1; BLOCK];
    let write = Request::write(lba(4), sectors(1)).with(Data::Write(&bytes));
    log.submit(Time::ZERO, write).unwrap();
    assert!(holds(&log));
    let at = log.now();
    log.close(at).unwrap();
    assert!(holds(&HostLog::open(disk.clone(), at, &all).unwrap()), "read when it was opened");
    let log = HostLog::open(disk.clone(), at, &part).unwrap();
    assert!(!holds(&log), "pages come when they are asked for, and go");
    let (_, place) = log.engine().missing(Lpn(4), 1).expect("not asked for yet");
    drop(log);
    disk.damage(place);
    let mut log = HostLog::open(disk, at, &all).unwrap();
    assert!(!holds(&log));
    let mut out = vec![0; BLOCK];
    let read = Request::read(lba(4), sectors(1)).with(Data::Read(&mut out));
    assert!(matches!(log.submit(at, read), Err(DeviceError::Unreadable(_))));
}
