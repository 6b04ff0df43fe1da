//! Damage of an image: of every place that is hit, the same pages are read or an error is.
//!
//! The image has 400 commits, several power-ons, a power cut, transactions that committed together
//! and discards behind it, and was cleaned. This file reads it by what docs/formats.md says, not
//! with the code under test.
//!
//! `VARVE_ROT=all` hits every bit of superblocks, headers and records; else some of each.
//!
//! What it shows: before superblock and headers were there twice and records spoke of others, a
//! damaged header or record made its pages look like programs cut short, and older versions came
//! back without an error.

mod common;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use block::Medium;
use block::{
    BlockDevice, Bytes, Data, Lba, Lpn, Request, Rng, Sectors, Time, Transactional, crc32c,
};
use common::Memory;
use varve_live::{CutMedium, ImageDrive, LiveError, Planted};

const PAGE: usize = 4096;
const CAPACITY: Bytes = Bytes(3 << 20);
/// Pages that are written; the first ones more often.
const PAGES: u64 = 420;

fn content(page: u32, version: u64) -> [u8; PAGE] {
    let mut bytes = [page as u8; PAGE];
    for (i, chunk) in bytes.chunks_exact_mut(16).enumerate() {
        chunk[..8].copy_from_slice(&version.to_le_bytes());
        chunk[8..].copy_from_slice(&(u64::from(page) << 32 | i as u64).to_le_bytes());
    }
    bytes
}

fn read(drive: &mut ImageDrive, page: u32) -> Result<Vec<u8>, String> {
    let mut found = vec![0; PAGE];
    let lba = Lba(u64::from(page) * 8);
    let request = Request::read(lba, Sectors(8)).with(Data::Read(&mut found));
    drive.submit(Time::ZERO, request).map_err(|e| e.to_string())?;
    Ok(found)
}

/// Transactions until the power goes, or `count` of them; the pages of the last one.
fn commits(drive: &mut ImageDrive, rng: &mut Rng, count: u64) -> Result<BTreeSet<u32>, String> {
    let mut last = BTreeSet::new();
    for n in 0..count {
        last.clear();
        let together = 1 + u64::from(n % 9 == 0);
        let mut tids = Vec::new();
        for _ in 0..together {
            let tid = drive.tx_begin().map_err(|e| e.to_string())?;
            tids.push(tid);
            for _ in 0..1 + rng.below(4) {
                let most = if rng.below(4) == 0 { PAGES } else { 60 };
                let page = rng.below(most) as u32;
                if last.insert(page) {
                    let data = content(page, rng.next_u64());
                    drive
                        .tx_write(Time::ZERO, tid, Lpn(page), Data::Write(&data))
                        .map_err(|e| e.to_string())?;
                }
            }
        }
        drive.tx_commit(Time::ZERO, &tids).map_err(|e| e.to_string())?;
        if n % 50 == 20 {
            let request = Request::discard(Lba(8 * rng.below(PAGES)), Sectors(16));
            drive.submit(Time::ZERO, request).map_err(|e| e.to_string())?;
            drive.submit(Time::ZERO, Request::flush()).map_err(|e| e.to_string())?;
            last.clear();
        }
    }
    Ok(last)
}

/// An image, and what its pages hold.
struct Sample {
    bytes: Vec<u8>,
    /// The same some commits earlier.
    earlier: Vec<u8>,
    pages: Vec<Vec<u8>>,
    /// Pages that the last commit wrote, of an image that was not let go: its damage looks like a
    /// program cut short, for nothing was written since (docs/contract.md).
    last: BTreeSet<u32>,
    planted: Option<Planted>,
}

fn sample(let_go: bool, planted: Option<Planted>) -> Sample {
    let memory = Arc::new(Memory::default());
    let below = || Arc::clone(&memory) as Arc<dyn Medium>;
    drop(ImageDrive::create_on(below(), CAPACITY).expect("an image"));
    let mut rng = Rng::stream(15, "live/rot");
    let open = || ImageDrive::open_with(below(), planted.into()).expect("it opens");
    let mut drive = open();
    for page in 0..PAGES as u32 {
        let request = Request::write(Lba(u64::from(page) * 8), Sectors(8));
        let data = content(page, 1);
        drive.submit(Time::ZERO, request.with(Data::Write(&data))).expect("written");
    }
    drive.close().expect("closed");
    let mut drive = open();
    commits(&mut drive, &mut rng, 150).expect("committed");
    drop(drive);
    // The power goes in the middle of it.
    let cut = Arc::new(CutMedium::new(below(), 3));
    let mut drive = ImageDrive::open_with(Arc::clone(&cut) as _, planted.into()).expect("it opens");
    cut.cut_after(300);
    commits(&mut drive, &mut rng, 1000).expect_err("the power goes");
    drop(drive);
    let mut drive = open();
    commits(&mut drive, &mut rng, 100).expect("committed");
    drive.close().expect("closed");
    let earlier = memory.0.lock().unwrap().clone();
    let mut drive = open();
    let mut last = commits(&mut drive, &mut rng, 150).expect("committed");
    if let_go {
        drive.close().expect("closed");
        last.clear();
    } else {
        // As a killed process leaves it: nothing more is written.
        let left = memory.0.lock().unwrap().clone();
        drop(drive);
        *memory.0.lock().unwrap() = left;
    }
    let bytes = memory.0.lock().unwrap().clone();
    let mut drive = open();
    let pages = (0..(CAPACITY.0 / PAGE as u64) as u32)
        .map(|page| read(&mut drive, page).expect("readable"))
        .collect();
    drop(drive);
    assert!(*memory.0.lock().unwrap() == bytes, "reading has written");
    Sample { bytes, earlier, pages, last, planted }
}

/// What the image is made of, by docs/formats.md.
struct Shape {
    blocks: usize,
    pages: usize,
}

impl Shape {
    fn of(bytes: &[u8]) -> Shape {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!((&bytes[..8], number(8)), (&b"varveimg"[..], 2));
        Shape { blocks: number(12), pages: number(16) }
    }
    fn area(&self) -> usize {
        (self.pages * 64).next_multiple_of(PAGE)
    }
    fn stride(&self) -> usize {
        2 * PAGE + self.pages * PAGE + 2 * self.area()
    }
    fn block(&self, block: usize) -> usize {
        2 * PAGE + block * self.stride()
    }
    /// Bytes that are there twice.
    fn doubled(&self) -> Vec<Range<usize>> {
        let mut found = vec![0..PAGE, PAGE..2 * PAGE];
        for block in 0..self.blocks {
            let (first, second) = (self.block(block), self.block(block + 1) - PAGE);
            found.extend([first..first + 512, second..second + 512]);
        }
        found
    }
    /// Records that count: of the opening that the block's header names, and not torn.
    fn records(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for block in 0..self.blocks {
            let header = &bytes[self.block(block)..][..512];
            if header[12] & 2 == 0 {
                continue;
            }
            let mut opening = (block as u32).to_le_bytes().to_vec();
            opening.extend(&header[8..12]);
            opening.extend(&header[24..40]);
            let settled = u32::from_le_bytes(header[40..44].try_into().unwrap()) as usize;
            let torn = |page: usize| header[48 + page / 8] >> (page % 8) & 1 == 1;
            for page in (0..self.pages).filter(|page| *page >= settled || !torn(*page)) {
                let salt = crc32c(crc32c(0, &opening), &(page as u32).to_le_bytes());
                for area in 0..2 {
                    let records = self.block(block) + PAGE + self.pages * PAGE;
                    let at = records + area * self.area() + 64 * page;
                    let crc = crc32c(salt, &bytes[at..at + 60]);
                    if bytes[at + 60..at + 64] == crc.to_le_bytes() {
                        found.push(at..at + 64);
                    }
                }
            }
        }
        found
    }
    fn payloads(&self) -> Vec<usize> {
        let pages = |block| (0..self.pages).map(move |page| (block, page));
        let at = |(block, page)| self.block(block) + PAGE + page * PAGE;
        (0..self.blocks).flat_map(pages).map(at).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hit {
    Bit(usize),
    /// 4 KiB of zeroes.
    Zero(usize),
    /// A block as it was some commits earlier.
    Older(usize),
    /// All blocks.
    AllOlder,
}

/// What comes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    /// Everything is read as before, and nothing is said.
    Same,
    /// Everything is read as before, and the damage is named.
    Mended,
    /// Pages are read as before or are errors, or the image is refused.
    Error,
    /// Something else is read.
    Silent(String),
}

/// What must come of it at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Must {
    NotSilent,
    Error,
    Mend,
}

fn judge(sample: &Sample, memory: &Arc<Memory>) -> Outcome {
    let below = Arc::clone(memory) as Arc<dyn Medium>;
    let mut drive = match ImageDrive::open_with(below, sample.planted.into()) {
        Ok(drive) => drive,
        Err(LiveError::Damaged { damage, .. }) if !damage.is_empty() => return Outcome::Error,
        Err(error) => return Outcome::Silent(format!("not called damaged: {error}")),
    };
    if let Err(broken) = drive.drive().check() {
        return Outcome::Silent(broken.to_string());
    }
    let mut errors = 0;
    for (number, expected) in (0..).zip(&sample.pages) {
        match read(&mut drive, number) {
            Err(_) => errors += 1,
            Ok(found) if found == *expected || sample.last.contains(&number) => {}
            Ok(_) => return Outcome::Silent(format!("page {number} has changed")),
        }
    }
    match (errors, drive.damage()) {
        (0, []) => Outcome::Same,
        (0, _) => Outcome::Mended,
        _ => Outcome::Error,
    }
}

/// Hits the image at each place, on all processors, until `enough` are wrong; these, and how many
/// were errors.
fn hit_until(sample: &Sample, hits: &[(Hit, Must)], enough: usize) -> (Vec<String>, usize) {
    let (next, errors) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get());
    let shape = Shape::of(&sample.bytes);
    let work = || {
        let memory = Arc::new(Memory::default());
        memory.0.lock().unwrap().clone_from(&sample.bytes);
        let mut wrong = Vec::new();
        while let Some((hit, must)) = hits.get(next.fetch_add(1, Ordering::Relaxed)) {
            let range = match *hit {
                Hit::Bit(bit) => bit / 8..bit / 8 + 1,
                Hit::Zero(at) => at..at + PAGE,
                Hit::Older(block) => shape.block(block)..shape.block(block + 1),
                Hit::AllOlder => shape.block(0)..shape.block(shape.blocks),
            };
            {
                let part = &mut memory.0.lock().unwrap()[range.clone()];
                match *hit {
                    Hit::Bit(bit) => part[0] ^= 1 << (bit % 8),
                    Hit::Zero(_) => part.fill(0),
                    Hit::Older(_) | Hit::AllOlder => {
                        part.copy_from_slice(&sample.earlier[range.clone()])
                    }
                }
            }
            let outcome = judge(sample, &memory);
            match hit {
                // A block that holds nothing that counts is erased even by who only reads.
                Hit::Older(_) | Hit::AllOlder => {
                    memory.0.lock().unwrap().clone_from(&sample.bytes);
                }
                _ => memory.0.lock().unwrap()[range.clone()].copy_from_slice(&sample.bytes[range]),
            }
            let right = match (&outcome, must) {
                (Outcome::Silent(_), _) => false,
                (_, Must::NotSilent) => true,
                (Outcome::Error, must) => *must == Must::Error,
                (Outcome::Mended, must) => *must == Must::Mend,
                (Outcome::Same, _) => false,
            };
            errors.fetch_add(usize::from(outcome != Outcome::Same), Ordering::Relaxed);
            if !right {
                wrong.push(format!("{hit:?}: {must:?}, found {outcome:?}"));
                if wrong.len() == enough {
                    next.store(hits.len(), Ordering::Relaxed);
                }
            }
        }
        if *memory.0.lock().unwrap() != sample.bytes {
            wrong.push("who only reads has written".to_string());
        }
        wrong
    };
    let wrong = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    (wrong, errors.into_inner())
}

fn hit_all(sample: &Sample, hits: &[(Hit, Must)]) -> (Vec<String>, usize) {
    hit_until(sample, hits, usize::MAX)
}

/// Bits of a range, all or one in `step` (which moves on from range to range).
fn bits(range: &Range<usize>, step: usize) -> impl Iterator<Item = usize> + use<> {
    let step = if std::env::var("VARVE_ROT").is_ok_and(|v| v == "all") { 1 } else { step };
    let first = 8 * range.start;
    (first + first / 64 % step..8 * range.end).step_by(step)
}

/// Every structure of an image that was let go, each hit on its own.
fn hits(sample: &Sample, step: usize) -> Vec<(Hit, Must)> {
    let shape = Shape::of(&sample.bytes);
    let (doubled, records) = (shape.doubled(), shape.records(&sample.bytes));
    let mut hits = Vec::new();
    for range in &doubled {
        hits.extend(bits(range, step).map(|bit| (Hit::Bit(bit), Must::Mend)));
    }
    // Of an image that was not let go the newest records may be called cut short.
    let must = if sample.last.is_empty() { Must::Error } else { Must::NotSilent };
    for range in &records {
        hits.extend(bits(range, step / 2).map(|bit| (Hit::Bit(bit), must)));
    }
    for at in (0..sample.bytes.len()).step_by(PAGE) {
        let touches = |range: &Range<usize>| range.start < at + PAGE && at < range.end;
        let must = match () {
            () if doubled.iter().any(touches) => Must::Mend,
            () if records.iter().any(touches) => must,
            () => Must::NotSilent,
        };
        hits.push((Hit::Zero(at), must));
    }
    hits
}

fn none_silent<T: std::fmt::Debug>(wrong: &[T], hits: usize) {
    assert!(wrong.is_empty(), "{} of {hits}: {:?}", wrong.len(), &wrong[..wrong.len().min(9)]);
}

#[test]
fn every_structure_of_an_image_that_was_let_go_is_missed() {
    let sample = sample(true, None);
    let hits = hits(&sample, 331);
    let (wrong, errors) = hit_all(&sample, &hits);
    println!("{} places hit: {errors} errors or mended, 0 silent", hits.len());
    none_silent(&wrong, hits.len());
}

#[test]
fn one_bit_of_a_payload_is_an_error_where_the_page_counts() {
    let sample = sample(true, None);
    let mut rng = Rng::stream(2, "live/rot");
    let mut hits = Vec::new();
    for sector in Shape::of(&sample.bytes)
        .payloads()
        .into_iter()
        .flat_map(|at| (0..8).map(move |s| at + 512 * s))
    {
        hits.push((Hit::Bit(8 * sector + rng.below(4096) as usize), Must::NotSilent));
    }
    let (wrong, errors) = hit_all(&sample, &hits);
    let pages = sample.pages.iter().filter(|page| page.iter().any(|b| *b != 0)).count();
    println!("{} sectors hit: {errors} errors, {pages} pages hold data", hits.len());
    none_silent(&wrong, hits.len());
    assert!(errors >= 8 * pages, "{errors} errors, of {pages} pages with 8 sectors each");
}

#[test]
fn of_an_image_that_was_not_let_go_only_the_last_commit_can_look_cut_short() {
    let sample = sample(false, None);
    assert!(!sample.last.is_empty());
    let hits = hits(&sample, 331);
    let (wrong, errors) = hit_all(&sample, &hits);
    println!("{} places hit: {errors} errors or mended", hits.len());
    none_silent(&wrong, hits.len());
}

#[test]
fn a_block_as_it_was_some_commits_earlier_is_missed() {
    // (Of one that was not let go a few may go unseen: nothing counts its records.)
    let sample = sample(true, None);
    let blocks = Shape::of(&sample.bytes).blocks;
    let mut hits: Vec<_> = (0..blocks).map(|block| (Hit::Older(block), Must::NotSilent)).collect();
    hits.push((Hit::AllOlder, Must::Error));
    let (wrong, errors) = hit_all(&sample, &hits);
    println!("{blocks} blocks: {errors} errors");
    assert!(wrong.is_empty() && errors > 0, "{wrong:?}");
}

/// What is there twice serves, is named, and is mended by the next write.
#[test]
fn the_next_write_mends_what_is_there_twice() {
    let sample = sample(true, None);
    let shape = Shape::of(&sample.bytes);
    for range in shape.doubled().into_iter().step_by(7) {
        let memory = Arc::new(Memory::default());
        memory.0.lock().unwrap().clone_from(&sample.bytes);
        memory.0.lock().unwrap()[range.start + 9] ^= 4;
        let open = || ImageDrive::open_on(Arc::clone(&memory) as _).expect("the other one serves");
        let mut drive = open();
        let [damage] = drive.damage() else { panic!("{:?}", drive.damage()) };
        assert_eq!(damage.at, range.start as u64);
        assert!(damage.what.contains("serves"), "{damage}");
        let data = content(3, 77);
        let write = Request::write(Lba(24), Sectors(8)).with(Data::Write(&data));
        drive.submit(Time::ZERO, write).expect("written");
        drive.close().expect("closed");
        let mut drive = open();
        assert_eq!(drive.damage(), []);
        assert_eq!(read(&mut drive, 3).expect("read"), data);
    }
}

/// Two whole headers of a block: the later state counts. If neither is later, nobody can say which is true.
#[test]
fn of_two_headers_that_differ_the_later_one_counts_or_the_image_is_refused() {
    let sample = sample(true, None);
    let shape = Shape::of(&sample.bytes);
    let header = |block: usize, copy: usize| match copy {
        0 => shape.block(block),
        _ => shape.block(block + 1) - PAGE,
    };
    let settled =
        |at: usize| u32::from_le_bytes(sample.bytes[at + 40..at + 44].try_into().unwrap());
    let full = |block: &usize| settled(header(*block, 0)) as usize == shape.pages;
    let block = (0..shape.blocks).find(full).expect("a block that is full");
    // Opens the image with a byte of one header changed, and its CRC right.
    let opened = |copy: usize, byte: usize, change: &dyn Fn(u8) -> u8| {
        let (mut bytes, at) = (sample.bytes.clone(), header(block, copy));
        bytes[at + byte] = change(bytes[at + byte]);
        let crc = crc32c(0, &bytes[at..at + 508]);
        bytes[at + 508..at + 512].copy_from_slice(&crc.to_le_bytes());
        ImageDrive::open_on(Arc::new(Memory(bytes.into())) as _)
    };
    for copy in 0..2 {
        // The count of erases: of an earlier opening, the other one counts.
        let mut drive = opened(copy, 8, &|erases| erases.checked_sub(1).expect("erased before"))
            .unwrap_or_else(|error| panic!("header {copy} is of an earlier state: {error}"));
        for (number, expected) in (0..).zip(&sample.pages) {
            assert!(read(&mut drive, number).as_ref() == Ok(expected), "page {number}");
        }
        // Which pages are torn: that changes with no state.
        match opened(copy, 48, &|torn| torn ^ 1) {
            Err(LiveError::Damaged { damage, .. }) => {
                let named = |d: &varve_live::Damage| d.at == header(block, 0) as u64;
                let named = damage.iter().find(|d| named(d)).expect("the block is named");
                assert!(named.what.contains("different things"), "{named}");
            }
            other => panic!("header {copy}: {:?}", other.map(|_| "opened")),
        }
    }
}

#[test]
fn the_alarm_works() {
    for bug in Planted::OF_DAMAGE {
        let found = [true, false].into_iter().find_map(|let_go| {
            let sample = sample(let_go, Some(bug));
            let older = let_go.then_some((Hit::AllOlder, Must::Error));
            let hits: Vec<_> = older.into_iter().chain(hits(&sample, 2053)).collect();
            hit_until(&sample, &hits, 1).0.into_iter().next()
        });
        println!("{bug:?}: {found:?}");
        assert!(found.is_some(), "{bug:?} is not found");
    }
}
