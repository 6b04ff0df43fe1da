//! Damage to the image of a host log is never served as data: three hundred damaged images, each served
//! over NBD, read, written to until everything has been cleaned, trimmed, stopped and opened again.

mod server;

use std::collections::BTreeMap;
use std::sync::Arc;

use block::Medium;
use block::Rng;
use remap::{LogOptions, Pba, Planted};
use server::run;
use stack::disk::{Disk, LogDisk, RamDisk};
use varve_serve::nbd::client::{ALL, Client};
use varve_serve::nbd::wire::{Errno, command};
use varve_serve::nbd::{Export, Limits};

const BLOCK: usize = 4096;
const MIB: usize = 1 << 20;
/// Bytes of an image.
const IMAGE: usize = 6 * MIB;
/// Blocks that one request reads.
const RUN: u64 = 16;

fn options() -> LogOptions {
    let mut options = LogOptions::default();
    for (name, value) in [("segment", "64 KiB"), ("seal_after", "5 ms"), ("verify", "read")] {
        options.set(name, value).unwrap();
    }
    options
}

/// A block that says where and which it is.
fn block(lpn: u64, version: u64) -> Vec<u8> {
    let mut rng = Rng::new(lpn << 32 | version);
    (0..BLOCK / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

/// What a block must hold: `None`, zeroes.
type Contents = BTreeMap<u64, Option<u64>>;

fn expected(lpn: u64, version: Option<u64>) -> Vec<u8> {
    version.map_or(vec![0; BLOCK], |version| block(lpn, version))
}

/// An image, and what was flushed to it: with records of cleaning and trims behind its last checkpoint
/// if it was not `closed`.
fn image(closed: bool) -> (Vec<u8>, Contents) {
    let ram: Arc<dyn Medium> = Arc::new(RamDisk::new(IMAGE as u64).unwrap());
    let disk = LogDisk::format(Arc::clone(&ram), &options()).unwrap();
    let blocks = disk.capabilities().size / BLOCK as u64;
    let (mut rng, mut known) = (Rng::new(1), Contents::new());
    for step in 0..3 * blocks {
        let lpn = if step < blocks { step } else { rng.below(blocks) };
        let at = lpn * BLOCK as u64;
        if step >= blocks && rng.ratio(1, 20) {
            disk.trim(at, BLOCK as u64, false).unwrap().wait().unwrap();
            known.insert(lpn, None);
        } else {
            disk.write(at, &block(lpn, step), false).unwrap().wait().unwrap();
            known.insert(lpn, Some(step));
        }
    }
    disk.flush().unwrap().wait().unwrap();
    match closed {
        true => disk.close().unwrap(),
        // Left alone, it says what was flushed; then the process is gone.
        false => std::thread::sleep(std::time::Duration::from_millis(200)),
    }
    drop(disk);
    let mut bytes = vec![0; IMAGE];
    ram.read(0, &mut bytes).unwrap();
    (bytes, known)
}

/// Changes something of an image; says what.
fn damage(bytes: &mut [u8], rng: &mut Rng, closed: bool) -> String {
    // Roots and super blocks are few: half of the damage is theirs, else none would be hit.
    let blocks = match rng.below(4) {
        0 => 8,
        1 => 64,
        _ => bytes.len() / BLOCK,
    };
    let at = rng.below(blocks as u64) as usize * BLOCK;
    let inside = at + rng.below(BLOCK as u64) as usize;
    // What was flushed and what says so may be gone together if whole runs of blocks are: only what was
    // closed survives that as an error.
    match rng.below(if closed { 6 } else { 5 }) {
        0 => {
            bytes[inside] ^= 1 << rng.below(8);
            format!("a bit of byte {inside}")
        }
        1 => {
            bytes[at..at + BLOCK].fill(0);
            format!("zeroes in block {}", at / BLOCK)
        }
        2 => {
            let sector = inside / 512 * 512;
            bytes[sector..sector + 512].fill_with(|| rng.next_u64() as u8);
            format!("another sector at {sector}")
        }
        3 => {
            let other = rng.below((bytes.len() / BLOCK) as u64) as usize * BLOCK;
            bytes.copy_within(other..other + BLOCK, at);
            format!("block {} copied to {}", other / BLOCK, at / BLOCK)
        }
        4 => {
            bytes[at..at + BLOCK].fill_with(|| rng.next_u64() as u8);
            format!("noise in block {}", at / BLOCK)
        }
        _ => {
            let end = (at + 16 * BLOCK).min(bytes.len());
            bytes[at..end].fill(0);
            format!("zeroes in 16 blocks from {}", at / BLOCK)
        }
    }
}

/// What came of one damaged image.
#[derive(Default, Debug)]
struct Tally {
    /// It did not open.
    refused: u64,
    /// Blocks that were answered with an error.
    errors: u64,
    /// Answers that were right.
    right: u64,
    /// Wrong answers with success.
    wrong: Vec<String>,
}

/// Reads everything through a client; blocks that once were errors stay errors until they are written.
fn read_all(c: &mut Client, known: &Contents, bad: &mut Vec<u64>, tally: &mut Tally) {
    let all: Vec<u64> = known.keys().copied().collect();
    let before = std::mem::take(bad);
    for run in all.chunks(RUN as usize) {
        let bytes = (run.len() * BLOCK) as u32;
        let whole = c.ask(command::READ, 0, run[0] * BLOCK as u64, bytes, &[]).expect("a reply");
        let mut judge = |lpn: u64, found: &[u8]| match found == expected(lpn, known[&lpn]) {
            true if before.contains(&lpn) => {
                tally.wrong.push(format!("block {lpn} was damaged, and is not any more"));
            }
            true => tally.right += 1,
            false => tally.wrong.push(format!("block {lpn}")),
        };
        if whole.errno == 0 {
            run.iter().zip(whole.data.chunks(BLOCK)).for_each(|(lpn, found)| judge(*lpn, found));
            continue;
        }
        for lpn in run {
            let one = c.ask(command::READ, 0, lpn * BLOCK as u64, BLOCK as u32, &[]);
            let one = one.expect("a reply");
            match one.errno {
                0 => judge(*lpn, &one.data),
                errno => {
                    assert_eq!(errno, Errno::Io as u32, "block {lpn}");
                    bad.push(*lpn);
                    tally.errors += 1;
                }
            }
        }
    }
}

/// Serves a damaged image, works on it, opens it again.
fn serve(bytes: &[u8], known: &Contents, seed: u64, verify: bool, tally: &mut Tally) {
    let ram: Arc<dyn Medium> = Arc::new(RamDisk::new(IMAGE as u64).unwrap());
    ram.write(0, bytes).unwrap();
    let (mut known, mut bad) = (known.clone(), Vec::new());
    let mut options = options();
    options.verify = verify;
    for round in 0..3 {
        let Ok(disk) = LogDisk::open(Arc::clone(&ram), &options) else {
            tally.refused += 1;
            return;
        };
        let disk: Arc<dyn Disk> = Arc::new(disk);
        let server = run(vec![Export::new("disk", Arc::clone(&disk))], Limits::default());
        let mut c = Client::connect(&server.address, "disk", ALL).expect("a client");
        read_all(&mut c, &known, &mut bad, tally);
        if round < 2 && !disk.capabilities().read_only {
            let mut rng = Rng::new(seed << 8 | round);
            let blocks = known.len() as u64;
            // Enough that every segment is cleaned; a quarter stays as it is.
            for step in 0..2 * blocks {
                let lpn = rng.below(blocks / 4 * 3);
                let at = lpn * BLOCK as u64;
                let version = (seed + 1) << 24 | round << 20 | step;
                let (reply, now) = match rng.below(16) {
                    0 => (c.ask(command::TRIM, 0, at, BLOCK as u32, &[]), None),
                    _ => {
                        let bytes = block(lpn, version);
                        (c.ask(command::WRITE, 0, at, BLOCK as u32, &bytes), Some(version))
                    }
                };
                // A page of the map that is damaged refuses writes, too.
                if reply.expect("a reply").errno == 0 {
                    known.insert(lpn, now);
                    bad.retain(|b| *b != lpn);
                }
            }
            c.flush().ok();
            read_all(&mut c, &known, &mut bad, tally);
        }
        c.leave().expect("left");
        drop(server);
        let counted = |name| disk.counters().iter().find(|(n, _)| *n == name).map(|(_, n)| *n);
        if !bad.is_empty() && verify {
            assert!(counted("blocks_damaged") > Some(0) && counted("requests_damaged") > Some(0));
        }
        disk.close().ok();
    }
}

fn tally(seeds: std::ops::Range<u64>, verify: bool) -> Tally {
    let images = [image(true), image(false)];
    let mut all = Tally::default();
    for seed in seeds {
        let closed = seed % 2 == 0;
        let (bytes, known) = &images[usize::from(!closed)];
        let (mut bytes, mut rng) = (bytes.clone(), Rng::stream(seed, "damage"));
        let what = damage(&mut bytes, &mut rng, closed);
        let before = all.wrong.len();
        serve(&bytes, known, seed, verify, &mut all);
        for wrong in &mut all.wrong[before..] {
            *wrong = format!("seed {seed}, {what}: {wrong}");
        }
    }
    all
}

/// No answer is wrong: it is right, or it is an error. Damaged blocks that cleaning meets stay damaged.
/// `VARVE_ROT=all`: of more images.
#[test]
fn no_damaged_image_answers_wrongly() {
    let all = std::env::var("VARVE_ROT").is_ok_and(|v| v == "all");
    let found = tally(0..if all { 600 } else { 120 }, true);
    println!("{} images refused, {} errors, {} right", found.refused, found.errors, found.right);
    assert!(found.refused > 0 && found.errors > 100, "{found:?}");
    assert!(found.wrong.is_empty(), "{:#?}", found.wrong);
}

/// The alarm works: without verification there are wrong answers.
#[test]
fn without_verification_damage_is_served() {
    let found = tally(0..40, false);
    assert!(!found.wrong.is_empty());
}

/// A header that is damaged loses what was flushed with it; where the newest one was flushed and nothing
/// has said so since, it looks like a write that was never finished. That limit stands in the contract.
#[test]
fn the_newest_flush_is_missed_as_soon_as_something_says_that_it_was_answered() {
    let newest = |planted: Option<Planted>, idle: bool| {
        let ram: Arc<dyn Medium> = Arc::new(RamDisk::new(IMAGE as u64).unwrap());
        let mut options = options();
        if !idle {
            options.set("seal_after", "1000 s").unwrap();
        }
        let disk = LogDisk::format_with(Arc::clone(&ram), &options, planted.into()).unwrap();
        for lpn in 0..3 {
            disk.write(lpn * BLOCK as u64, &block(lpn, 1), true).unwrap().wait().unwrap();
        }
        if idle {
            let bytes = || {
                let mut bytes = vec![0; IMAGE];
                ram.read(0, &mut bytes).unwrap();
                bytes
            };
            // Left alone, it says what was flushed. The planted one never does.
            let (answered, most) = (bytes(), if planted.is_some() { 20 } else { 1_000 });
            let _said = (0..most).any(|_| {
                std::thread::sleep(std::time::Duration::from_millis(10));
                bytes() != answered
            });
        }
        drop(disk);
        let g = *remap::recover(
            &mut stack::disk::MediumStore(Arc::clone(&ram)),
            &options,
            false,
            block::Plant::default(),
        )
        .unwrap()
        .engine
        .geometry();
        // The third record: a header and a block each.
        let header = Pba(g.first + 4);
        ram.write(u64::from(header.0) * BLOCK as u64 + 8, &[0xff; 8]).unwrap();
        LogDisk::open(ram, &options).map(drop).map_err(|error| error.to_string())
    };
    let missed = newest(None, true).unwrap_err();
    assert!(missed.contains("record 3 is missing"), "{missed}");
    assert_eq!(newest(Some(Planted::NoMark), true), Ok(()));
    assert_eq!(newest(None, false), Ok(()));
}

/// A write of a part of a block completes it from what is there: damage would get a CRC that fits.
#[test]
fn a_part_of_a_damaged_block_is_refused_even_where_reads_are_not_verified() {
    let ram: Arc<dyn Medium> = Arc::new(RamDisk::new(IMAGE as u64).unwrap());
    let disk = LogDisk::format(Arc::clone(&ram), &options()).unwrap();
    disk.verify_reads(false);
    disk.write(0, &block(0, 1), true).unwrap().wait().unwrap();
    let mut image = vec![0; IMAGE];
    ram.read(0, &mut image).unwrap();
    let place = image.windows(16).position(|bytes| bytes == &block(0, 1)[..16]).unwrap();
    ram.write(place as u64 + 2000, &[0x55; 9]).unwrap();
    let part = disk.write(512, &[1; 512], false).map(|_| ());
    assert!(matches!(part, Err(stack::disk::DiskError::Damaged(_))), "{part:?}");
    disk.write(0, &block(0, 2), false).unwrap().wait().unwrap();
    disk.write(512, &[1; 512], false).unwrap().wait().unwrap();
}
