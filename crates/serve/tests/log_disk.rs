//! The host log, live: many threads at once, power cuts, damage.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use block::Medium;
use block::Rng;
use live::CutMedium;
use remap::{LogOptions, Planted, check_store};
use stack::Keys;
use stack::disk::{Disk, DiskError, LogDisk, MediumStore, Piece, RamDisk};

const BLOCK: usize = 4096;

fn memory(mib: u64) -> Arc<dyn Medium> {
    Arc::new(RamDisk::new(mib << 20).unwrap())
}

fn options(pairs: &[(&str, &str)]) -> LogOptions {
    let mut options = LogOptions::default();
    for (name, value) in [("segment", "64 KiB"), ("gc.batch", "7"), ("seal_after", "5 ms")] {
        options.set(name, value).unwrap();
    }
    for (name, value) in pairs {
        options.set(name, value).unwrap();
    }
    options
}

/// A block that says where and which it is.
fn block(lpn: u64, version: u64) -> Vec<u8> {
    let mut rng = Rng::new(lpn << 32 | version);
    let mut bytes = version.to_le_bytes().to_vec();
    bytes.extend(lpn.to_le_bytes());
    while bytes.len() < BLOCK {
        bytes.extend(rng.next_u64().to_le_bytes());
    }
    bytes
}

/// The version in a block; panics on anything that was never written there.
fn version(lpn: u64, bytes: &[u8]) -> u64 {
    if bytes.iter().all(|b| *b == 0) {
        return 0;
    }
    let version = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(version < 1 << 40 && bytes == block(lpn, version), "block {lpn}");
    version
}

/// Each thread owns every `threads`-th block and works on them; all of them meet in segments,
/// batches and flushes. Says the version each block has, and the last that was flushed.
fn work(disk: &LogDisk, threads: u64, steps: u64, first: u64) -> Vec<(u64, u64)> {
    let blocks = disk.capabilities().size / BLOCK as u64;
    let state: Vec<(AtomicU64, AtomicU64)> =
        (0..blocks).map(|_| (AtomicU64::new(0), AtomicU64::new(0))).collect();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let state = &state;
            scope.spawn(move || {
                let mut rng = Rng::new(first + thread);
                let mut floating = Vec::new();
                for step in 0..steps {
                    let lpn = rng.below(blocks / threads) * threads + thread;
                    let at = lpn * BLOCK as u64;
                    let (newest, durable) = &state[lpn as usize];
                    match rng.below(10) {
                        0 => {
                            if disk.flush().is_err() {
                                return;
                            }
                            for (lpn, version) in floating.drain(..) {
                                let (_, durable): &(AtomicU64, AtomicU64) = &state[lpn as usize];
                                durable.fetch_max(version, Ordering::SeqCst);
                            }
                        }
                        1 | 2 => {
                            let mut out = vec![0; BLOCK];
                            match disk.read(at, &mut out) {
                                Ok(_) => {
                                    let found = version(lpn, &out);
                                    let newest = newest.load(Ordering::SeqCst);
                                    // Of a run before this one, if not written in it.
                                    assert!(newest == 0 || found == newest, "block {lpn}");
                                }
                                Err(_) => return,
                            }
                        }
                        n => {
                            let number = first + step + 1;
                            newest.store(number, Ordering::SeqCst);
                            match disk.write(at, &block(lpn, number), n == 3) {
                                Ok(_) => {}
                                // A live log has room for every overwrite.
                                Err(error @ DiskError::NoSpace(_)) => panic!("{error}"),
                                Err(_) => return,
                            }
                            match n {
                                3 => drop(durable.fetch_max(number, Ordering::SeqCst)),
                                _ => floating.push((lpn, number)),
                            }
                        }
                    }
                }
            });
        }
    });
    state.into_iter().map(|(a, b)| (a.into_inner(), b.into_inner())).collect()
}

#[test]
fn many_threads_read_what_they_wrote_while_segments_are_cleaned() {
    let medium = memory(8);
    let disk = LogDisk::format(medium.clone(), &options(&[])).unwrap();
    let state = work(&disk, 8, 3000, 0);
    disk.check().unwrap();
    let counters = disk.counters();
    let count = |name: &str| counters.iter().find(|(n, _)| *n == name).unwrap().1;
    assert!(count("segments_cleaned") > 20 && count("checkpoints") > 1, "{counters:?}");
    disk.close().unwrap();
    drop(disk);
    let report = check_store(&mut MediumStore(medium.clone()), &options(&[])).unwrap();
    assert!(report.damaged.is_empty() && report.summary.clean, "{report:?}");
    let disk = LogDisk::open(medium, &options(&[])).unwrap();
    assert_eq!(disk.summary().records, 0);
    let mut out = vec![0; BLOCK];
    for (lpn, (newest, _)) in (0..).zip(&state) {
        disk.read(lpn * BLOCK as u64, &mut out).unwrap().wait().unwrap();
        assert_eq!(version(lpn, &out), *newest);
    }
}

#[test]
fn after_a_power_cut_each_block_holds_what_was_flushed_or_something_newer() {
    let (lower, opts) = (memory(8), options(&[]));
    LogDisk::format(lower.clone(), &opts).unwrap().close().unwrap();
    let mut rng = Rng::new(17);
    let mut known: Vec<(u64, u64)> = Vec::new();
    for round in 1..30 {
        let cut = Arc::new(CutMedium::new(lower.clone(), round));
        let disk = LogDisk::open(cut.clone(), &opts).unwrap();
        disk.check().unwrap();
        let mut out = vec![0; BLOCK];
        for (lpn, (newest, durable)) in (0..).zip(&mut known) {
            disk.read(lpn * BLOCK as u64, &mut out).unwrap().wait().unwrap();
            let found = version(lpn, &out);
            assert!((*durable..=*newest).contains(&found), "round {round}, block {lpn}: {found}");
            (*newest, *durable) = (found, found);
        }
        cut.cut_after(1 + rng.below(600));
        for (i, (newest, durable)) in work(&disk, 4, 400, round * 1_000_000).iter().enumerate() {
            if known.len() <= i {
                known.push((0, 0));
            }
            known[i].0 = known[i].0.max(*newest);
            known[i].1 = known[i].1.max(*durable);
        }
        drop(disk);
        // What the threads left running is cut, too.
        let _ = cut.cut_now();
    }
}

/// Eight threads write their own sector of one block, and one writes a block beside it.
fn sectors_of_one_block(planted: Option<Planted>) -> bool {
    let disk = LogDisk::format_with(memory(8), &options(&[]), planted.into()).unwrap();
    let disk = &disk;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8u64)
            .map(|sector| {
                scope.spawn(move || {
                    (1..=250u8).all(|n| {
                        let at = 5 * BLOCK as u64 + sector * 512;
                        disk.write(at, &[n; 512], false).unwrap().wait().unwrap();
                        let mut back = [0; 512];
                        disk.read(at, &mut back).unwrap().wait().unwrap();
                        back == [n; 512]
                    })
                })
            })
            .collect();
        threads.into_iter().all(|thread| thread.join().unwrap())
    })
}

#[test]
fn writes_of_parts_of_one_block_do_not_undo_each_other() {
    assert!(sectors_of_one_block(None));
    assert!((0..50).any(|_| !sectors_of_one_block(Some(Planted::RmwWithoutLock))));
}

/// Memory that cannot read a certain block, wherever it lies, until it is mended.
#[derive(Debug)]
struct Flaky {
    below: Arc<dyn Medium>,
    block: Vec<u8>,
    mended: AtomicBool,
}

impl Medium for Flaky {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.below.read(at, out)?;
        match !self.mended.load(Ordering::SeqCst) && out.chunks(BLOCK).any(|b| b == self.block) {
            true => Err(io::Error::other("not now")),
            false => Ok(()),
        }
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.below.write(at, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.below.sync()
    }
    fn size(&self) -> io::Result<u64> {
        self.below.size()
    }
    fn discard(&self, at: u64, bytes: u64) -> io::Result<()> {
        self.below.discard(at, bytes)
    }
}

/// Cleaning meets a block that cannot be read now; nothing of it is given up.
#[test]
fn what_cleaning_cannot_read_stays_where_it_is() {
    const COLD: u64 = 5;
    let medium =
        Arc::new(Flaky { below: memory(8), block: block(COLD, 1), mended: AtomicBool::new(false) });
    let disk = LogDisk::format(Arc::clone(&medium) as _, &options(&[])).unwrap();
    let blocks = disk.capabilities().size / BLOCK as u64;
    let write = |lpn: u64, version: u64| {
        disk.write(lpn * BLOCK as u64, &block(lpn, version), false).unwrap().wait().unwrap();
    };
    (0..blocks).for_each(|lpn| write(lpn, 1));
    let mut rng = Rng::new(1);
    for step in 0..4 * blocks {
        let lpn = rng.below(blocks);
        write(if lpn == COLD { COLD + 1 } else { lpn }, 2 + step);
    }
    disk.flush().unwrap().wait().unwrap();
    let counter = |disk: &LogDisk, name: &str| {
        disk.counters().into_iter().find(|(found, _)| *found == name).map(|(_, count)| count)
    };
    assert_eq!(counter(&disk, "blocks_poisoned"), Some(0));
    assert!(counter(&disk, "segments_quarantined") > Some(0));
    let mut out = vec![0; BLOCK];
    assert!(disk.read(COLD * BLOCK as u64, &mut out).is_err());
    medium.mended.store(true, Ordering::SeqCst);
    disk.read(COLD * BLOCK as u64, &mut out).unwrap().wait().unwrap();
    assert_eq!(version(COLD, &out), 1);
}

#[test]
fn zeroes_trims_and_holes() {
    let disk = LogDisk::format(memory(8), &options(&[])).unwrap();
    let at = |block: u64| block * BLOCK as u64;
    disk.write(at(4), &[7; 8 * BLOCK], false).unwrap().wait().unwrap();
    disk.trim(at(5) + 1, 3 * BLOCK as u64, false).unwrap().wait().unwrap();
    disk.zero(at(10) + 100, BLOCK as u64, false, true).unwrap().wait().unwrap();
    let mut out = vec![1; 8 * BLOCK];
    disk.read(at(4), &mut out).unwrap().wait().unwrap();
    let expected = |i: usize| match i {
        i if (2 * BLOCK..4 * BLOCK).contains(&i) => 0,
        i if (6 * BLOCK + 100..7 * BLOCK + 100).contains(&i) => 0,
        _ => 7,
    };
    assert!((0..out.len()).all(|i| out[i] == expected(i)));
    let found = disk.extents(0, at(20), 16).unwrap();
    let holes: Vec<(u64, bool)> = found.iter().map(|e| (e.bytes / BLOCK as u64, e.hole)).collect();
    assert_eq!(holes, [(4, true), (2, false), (2, true), (4, false), (8, true)]);
    let size = disk.capabilities().size;
    assert!(matches!(disk.read(size, &mut [0; 512]), Err(DiskError::Range { .. })));
}

#[test]
fn the_map_is_paged_under_its_cap() {
    let medium = memory(256);
    let opts = options(&[("map_memory", "64 KiB"), ("verify", "read")]);
    let disk = LogDisk::format(medium.clone(), &opts).unwrap();
    let blocks = disk.capabilities().size / BLOCK as u64;
    let mut rng = Rng::new(3);
    let mut known = std::collections::BTreeMap::new();
    for number in 1..4000 {
        let lpn = rng.below(blocks);
        disk.write(lpn * BLOCK as u64, &block(lpn, number), false).unwrap().wait().unwrap();
        known.insert(lpn, number);
    }
    let check = |disk: &LogDisk| {
        let mut out = vec![0; BLOCK];
        for (lpn, number) in &known {
            disk.read(lpn * BLOCK as u64, &mut out).unwrap().wait().unwrap();
            assert_eq!(version(*lpn, &out), *number);
        }
    };
    check(&disk);
    disk.flush().unwrap().wait().unwrap();
    drop(disk);
    let disk = LogDisk::open(medium, &opts).unwrap();
    check(&disk);
}

#[test]
fn what_may_be_somebodys_is_not_formatted() {
    let medium = memory(16);
    medium.write(300_000, b"a file system").unwrap();
    assert!(LogDisk::open_or_format(medium, &Keys::default()).is_err());
    let medium = memory(16);
    let disk = LogDisk::open_or_format(medium.clone(), &Keys::default()).unwrap();
    disk.write(0, &block(0, 7), true).unwrap().wait().unwrap();
    drop(disk);
    let disk = LogDisk::open_or_format(medium, &Keys::default()).unwrap();
    let mut out = vec![0; BLOCK];
    disk.read(0, &mut out).unwrap().wait().unwrap();
    assert_eq!(version(0, &out), 7);
}

/// Pieces of all kinds that are given together, by several threads, beside a reader of each: what is
/// there is what they would have left one after the other, and each is told of once.
#[test]
fn pieces_given_together_end_as_one_by_one() {
    const SHARE: u64 = 256 << 10;
    let disk = LogDisk::format(memory(8), &options(&[])).unwrap();
    let size = disk.capabilities().size;
    let work = |thread: u64| {
        let (mut rng, base) = (Rng::new(900 + thread), thread * SHARE);
        let mut model = vec![0u8; SHARE as usize];
        for round in 0..300u64 {
            let count = rng.between(1, 40) as usize;
            let ranges: Vec<(u64, usize)> = (0..count)
                .map(|_| match rng.below(8) {
                    0 => (rng.below(SHARE - 9000), rng.below(9000) as usize),
                    1 => (size - base - rng.below(4096), 4096),
                    n => {
                        let blocks = if n == 2 { rng.between(1, 12) } else { 1 };
                        (rng.below(SHARE / 4096 - 12) * 4096, blocks as usize * BLOCK)
                    }
                })
                .collect();
            let filled = |i: usize| vec![(round * 41 + i as u64 + 1) as u8; ranges[i].1];
            let bytes: Vec<Vec<u8>> = (0..count).map(filled).collect();
            let pieces: Vec<Piece<'_>> = (ranges.iter().zip(&bytes))
                .map(|((at, _), bytes)| Piece { at: base + at, bytes })
                .collect();
            let mut told = vec![0; count];
            disk.write_each(&pieces, &mut |i, result| {
                told[i] += 1;
                let beyond = pieces[i].at + pieces[i].bytes.len() as u64 > size;
                assert_eq!(beyond, matches!(result, Err(DiskError::Range { .. })), "{result:?}");
                assert!(beyond || result.is_ok(), "{result:?}");
                if !beyond {
                    let at = ranges[i].0 as usize;
                    model[at..at + ranges[i].1].copy_from_slice(&bytes[i]);
                }
            });
            assert!(told.iter().all(|n| *n == 1), "{told:?}");
            let mut found = vec![0; SHARE as usize];
            disk.read(base, &mut found).unwrap().wait().unwrap();
            assert!(found == model, "thread {thread}, round {round}");
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || work(thread)))));
    disk.check().unwrap();
}
