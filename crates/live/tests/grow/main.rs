//! A drive that grows: whatever a power cut leaves while it does is the drive as it was, or the larger one, with all
//! that was durable.

#[path = "../common/mod.rs"]
mod common;
mod errors;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use block::{
    BlockDevice, Bytes, CommitLog, Data, DeviceError, Growth, Lba, Medium, Request, Rng, Sectors,
    Time,
};
use common::Memory;
use varve_live::{CutMedium, ImageDrive, Left, LiveError, Planted};

const PAGE: usize = 4096;
const SMALL: Bytes = Bytes(4352 << 10);
/// Of blocks like those of `SMALL` and as much spare space, and of larger ones.
const SAME: Bytes = Bytes(5 << 20);
const LARGER: Bytes = Bytes(10 << 20);
const LIMIT: Bytes = Bytes(32 << 20);
const LOG: Bytes = Bytes(64 << 10);

fn content(page: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; PAGE];
    let mut rng = Rng::stream(page << 20 | version, "live/grow");
    bytes.fill_with(|| rng.below(256) as u8);
    bytes
}

fn write(drive: &mut ImageDrive, page: u64, version: u64) -> Result<(), DeviceError> {
    let request = Request::write(Lba(page * 8), Sectors(8));
    drive.submit(Time::ZERO, request.with(Data::Write(&content(page, version)))).map(|_| ())
}

fn flush(drive: &mut ImageDrive) -> Result<(), DeviceError> {
    drive.submit(Time::ZERO, Request::flush()).map(|_| ())
}

/// Versions of pages; those that are not there were never written.
type Ledger = BTreeMap<u64, u64>;

/// Writes pages of the whole drive, some of them several times, and makes that durable.
fn work(drive: &mut ImageDrive, ledger: &mut Ledger, seed: u64) {
    let (mut rng, pages) = (Rng::new(seed), drive.capacity().0 / 8);
    for version in 1..pages * 3 / 2 {
        let page = rng.below(pages / 2) * 2;
        write(drive, page, seed << 32 | version).expect("written");
        ledger.insert(page, seed << 32 | version);
    }
    flush(drive).expect("durable");
}

fn judge(drive: &mut ImageDrive, ledger: &Ledger) -> Result<(), String> {
    drive.drive().check().map_err(|error| error.to_string())?;
    for page in 0..drive.capacity().0 / 8 {
        let mut found = vec![0; PAGE];
        let read = Request::read(Lba(page * 8), Sectors(8)).with(Data::Read(&mut found));
        drive.submit(Time::ZERO, read).map_err(|error| format!("page {page}: {error}"))?;
        let expected = ledger.get(&page).map_or(vec![0; PAGE], |version| content(page, *version));
        if found != expected {
            return Err(format!("page {page} is not what it was"));
        }
    }
    Ok(())
}

/// A drive of the smallest size that is half full, and what it holds.
fn small() -> (Vec<u8>, Ledger) {
    let (memory, mut ledger) = (Arc::new(Memory::default()), Ledger::new());
    let below = Arc::clone(&memory) as Arc<dyn Medium>;
    let mut drive = ImageDrive::create_on_to_grow(below, SMALL, LOG, LIMIT).expect("an image");
    assert_eq!((drive.capacity().bytes(), drive.limit()), (SMALL, LIMIT));
    work(&mut drive, &mut ledger, 1);
    // It is killed, not closed.
    drop(drive);
    (memory.0.lock().unwrap().clone(), ledger)
}

fn memory(bytes: &[u8]) -> Arc<dyn Medium> {
    Arc::new(Memory(bytes.to_vec().into()))
}

/// One power cut while a drive grows, and one in what follows. `None`: it came too late.
fn cut(
    (start, ledger): &(Vec<u8>, Ledger),
    to: Bytes,
    at: u64,
    planted: Option<Planted>,
) -> Result<Option<Left>, String> {
    let below = memory(start);
    let medium = Arc::new(CutMedium::new(Arc::clone(&below), at));
    let said = |error: LiveError| error.to_string();
    let mut drive =
        ImageDrive::open_with(Arc::clone(&medium) as _, planted.into()).map_err(said)?;
    let mut ledger = ledger.clone();
    medium.cut_after(at);
    let grown = drive.grow(to, LOG).is_ok();
    if grown {
        judge(&mut drive, &ledger)?;
        if medium.left().is_none() {
            let _ = write(&mut drive, 1, 7)
                .and_then(|()| flush(&mut drive))
                .map(|()| ledger.insert(1, 7));
        }
    }
    let left = medium.left();
    drop(drive);
    if left.is_none() {
        medium.cut_now().map_err(|error| error.to_string())?;
    }
    // The power goes again when it is opened, or soon after.
    let again = Arc::new(CutMedium::new(Arc::clone(&below), at + 1));
    again.cut_after(1 + at % 7);
    if let Ok(mut drive) = ImageDrive::open_with(Arc::clone(&again) as _, planted.into()) {
        let _ =
            write(&mut drive, 3, 9).and_then(|()| flush(&mut drive)).map(|()| ledger.insert(3, 9));
    }
    if again.left().is_none() {
        again.cut_now().map_err(|error| error.to_string())?;
    }
    let mut drive = ImageDrive::open_with(Arc::clone(&below), planted.into()).map_err(said)?;
    let capacity = drive.capacity().bytes();
    if capacity != to && (grown || capacity != SMALL) {
        return Err(format!("it holds {}; it had grown: {grown}", capacity.human()));
    }
    let mut floating = ledger.clone();
    floating.insert(3, 9);
    let mut other = ledger.clone();
    other.insert(1, 7);
    let mut both = floating.clone();
    both.insert(1, 7);
    // (What was not answered may be there.)
    let found = [&ledger, &floating, &other, &both].map(|ledger| judge(&mut drive, ledger));
    if found.iter().all(Result::is_err) {
        return found[0].clone().map(|()| None);
    }
    // It goes on, and grows on.
    let mut ledger = [&ledger, &floating, &other, &both]
        .into_iter()
        .zip(&found)
        .find_map(|(ledger, found)| found.is_ok().then(|| ledger.clone()))
        .unwrap_or_default();
    let next = if capacity == SMALL { to } else { Bytes(2 * to.0) };
    drive.grow(next, LOG).map_err(said)?;
    judge(&mut drive, &ledger)?;
    write(&mut drive, next.0 / PAGE as u64 - 1, 5).map_err(|error| error.to_string())?;
    ledger.insert(next.0 / PAGE as u64 - 1, 5);
    drive.close().map_err(|error| error.to_string())?;
    judge(&mut ImageDrive::open_on(below).map_err(said)?, &ledger)?;
    Ok(left)
}

fn everything() -> bool {
    std::env::var("VARVE_CUTS").is_ok_and(|v| v == "all")
}

/// Operations of growing.
fn operations((start, _): &(Vec<u8>, Ledger), to: Bytes) -> u64 {
    let medium = Arc::new(CutMedium::new(memory(start), 1));
    let mut drive = ImageDrive::open_on(Arc::clone(&medium) as _).expect("open");
    let before = medium.operations();
    drive.grow(to, LOG).expect("grown");
    medium.operations() - before
}

/// Cuts at operations of growing, and the two behind it; those that were met, and what was wrong.
fn cuts(start: &(Vec<u8>, Ledger), to: Bytes) -> (u64, Vec<String>) {
    let (mut met, mut bad) = (0, Vec::new());
    let step = if everything() { 1 } else { 3 };
    for at in (1..=operations(start, to) + 2).step_by(step) {
        match cut(start, to, at, None) {
            Ok(left) => met += u64::from(left.is_some()),
            Err(wrong) => bad.push(format!("cut {at}: {wrong}")),
        }
    }
    (met, bad)
}

/// Which of the two ways of growing these sizes take: else one of them would not be looked at.
#[test]
fn blocks_are_added_or_a_larger_image_is_made_behind() {
    let (start, ledger) = small();
    for (to, added) in [(SAME, true), (LARGER, false)] {
        let below = memory(&start);
        let mut drive = ImageDrive::open_on(Arc::clone(&below)).expect("open");
        let before = drive.end();
        drive.grow(to, LOG).expect("grown");
        judge(&mut drive, &ledger).expect("all of it");
        let end = drive.end();
        drop(drive);
        let mut drive = ImageDrive::open_on(below).expect("open");
        judge(&mut drive, &ledger).expect("all of it, opened again");
        assert_eq!((drive.end(), drive.capacity().bytes()), (end, to), "what it has grown to");
        // A whole image for more than this one held is longer than it was.
        let by = drive.end().0 - before.0;
        assert_eq!(by < before.0, added, "{} by {by} to {}", before.human(), to.human());
        // And again, which counts on from what this one was.
        let more = Bytes(to.0 + (256 << 10));
        drive.grow(more, LOG).expect("grown again");
        judge(&mut drive, &ledger).expect("all of it, grown twice");
        assert_eq!(drive.capacity().bytes(), more);
    }
}

/// A log that is to be longer is made with a whole image, also where blocks would do; one that is a little short stays.
#[test]
fn its_log_grows_with_it() {
    let (start, ledger) = small();
    for (asked, found) in [(LOG.0, LOG.0), (LOG.0 * 5 / 4, LOG.0), (LOG.0 * 4, LOG.0 * 4)] {
        let mut drive = ImageDrive::open_on(memory(&start)).expect("open");
        drive.grow(SAME, Bytes(asked)).expect("grown");
        judge(&mut drive, &ledger).expect("all of it");
        assert_eq!(drive.log_bytes(), found, "asked for {asked}");
    }
}

#[test]
fn it_is_as_it_was_or_larger_whatever_a_power_cut_leaves() {
    let start = small();
    for to in [SAME, LARGER] {
        let (met, bad) = cuts(&start, to);
        println!("to {}: {met} cuts, {} bad", to.human(), bad.len());
        assert!(bad.is_empty(), "{} of {met}: {:?}", bad.len(), bad.first());
        assert!(met > 15, "{met}");
    }
}

#[test]
fn the_alarm_works() {
    let start = small();
    for (bug, to) in [
        (Planted::PointerEarly, SAME),
        (Planted::PointerEarly, LARGER),
        (Planted::OldGivenEarly, LARGER),
    ] {
        // What is written last is where it matters.
        let mut places = (1..=operations(&start, to)).rev();
        let found = places.find_map(|at| cut(&start, to, at, Some(bug)).err());
        println!("{bug:?} to {}: {found:?}", to.human());
        assert!(found.is_some(), "{bug:?} to {} is not found", to.human());
    }
}

/// A file system that has no room for more than so many bytes.
#[derive(Debug)]
struct Narrow(Arc<dyn Medium>, u64);

impl Medium for Narrow {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(at, out)
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        match at + bytes.len() as u64 > self.1 {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => self.0.write(at, bytes),
        }
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
    fn cut(&self, at: u64) -> io::Result<()> {
        self.0.cut(at)
    }
}

#[test]
fn where_the_host_has_no_room_it_stays_what_it_was() {
    let (start, ledger) = small();
    for (to, more) in [(SAME, 1 << 19), (LARGER, 1 << 20), (LARGER, 6 << 20)] {
        let below = memory(&start);
        let narrow = Arc::new(Narrow(Arc::clone(&below), start.len() as u64 + more));
        let (mut drive, mut ledger) = (ImageDrive::open_on(narrow).expect("open"), ledger.clone());
        let refused = Growth::grow(&mut drive, Time::ZERO, to, LOG);
        let Err(DeviceError::NoSpace(what)) = refused else { panic!("{refused:?}") };
        assert!(what.contains("no room for the image to grow"), "{what}");
        judge(&mut drive, &ledger).expect("as it was");
        let length = below.size().expect("told");
        assert_eq!(length, start.len() as u64, "the room is given back");
        work(&mut drive, &mut ledger, 2);
        assert!(Growth::grow(&mut drive, Time::ZERO, to, LOG).is_err());
        drop(drive);
        let mut drive = ImageDrive::open_on(below).expect("open");
        assert_eq!(drive.capacity().bytes(), SMALL);
        judge(&mut drive, &ledger).expect("as it was");
        drive.grow(to, LOG).expect("room");
        judge(&mut drive, &ledger).expect("all of it");
    }
}

/// Where there is room for more blocks, but not for a longer log and all that goes with it, it gets the blocks; and the
/// power may go at any time of that.
#[test]
fn where_there_is_no_room_for_a_longer_log_it_gets_blocks() {
    let (start, ledger) = small();
    let room = start.len() as u64 + (4 << 20);
    let longer = Bytes(LOG.0 * 4);
    let mut last = 0;
    for at in 1.. {
        let below = memory(&start);
        let medium = Arc::new(CutMedium::new(Arc::clone(&below), at));
        let narrow = Narrow(Arc::clone(&medium) as _, room);
        let mut drive = ImageDrive::open_on(Arc::new(narrow)).expect("open");
        medium.cut_after(at);
        let grown = drive.grow(SAME, longer).is_ok();
        let went = medium.left().is_some();
        if !went {
            assert!(grown, "at {at}");
            assert_eq!((drive.capacity().bytes(), drive.log_bytes()), (SAME, LOG.0));
            assert!(below.size().expect("told") <= room);
        }
        drop(drive);
        let mut drive = ImageDrive::open_on(below).expect("open");
        assert!([SMALL, SAME].contains(&drive.capacity().bytes()), "at {at}");
        judge(&mut drive, &ledger).unwrap_or_else(|e| panic!("at {at}: {e}"));
        last = at;
        if !went {
            break;
        }
    }
    assert!(last > 20, "{last}");
}

/// The power may go at any time of a growth that finds no room, and while it gives back what it took.
#[test]
fn a_cut_in_a_growth_without_room_leaves_what_was() {
    let (start, ledger) = small();
    let mut cuts = 0;
    for (to, more) in [(SAME, 1 << 19), (LARGER, 1 << 20)] {
        for at in 1.. {
            let below = memory(&start);
            let medium = Arc::new(CutMedium::new(Arc::clone(&below), at));
            let narrow = Narrow(Arc::clone(&medium) as _, start.len() as u64 + more);
            let mut drive = ImageDrive::open_on(Arc::new(narrow)).expect("open");
            medium.cut_after(at);
            assert!(Growth::grow(&mut drive, Time::ZERO, to, LOG).is_err(), "at {at}");
            let went = medium.left().is_some();
            drop(drive);
            if !went {
                break;
            }
            cuts += 1;
            let mut drive = ImageDrive::open_on(below).expect("open");
            assert_eq!(drive.capacity().bytes(), SMALL, "at {at}");
            judge(&mut drive, &ledger).unwrap_or_else(|e| panic!("at {at}: {e}"));
        }
    }
    println!("{cuts} power cuts");
    assert!(cuts > 4, "{cuts}");
}

/// An image made to stay as it is, as all were before: it opens, goes on, and grows when it is told to.
#[test]
fn one_that_was_made_to_stay_as_it_is_grows_by_order() {
    for log in [Bytes(0), LOG] {
        let (below, mut ledger) = (memory(&[]), Ledger::new());
        let made = ImageDrive::create_on_with_log(Arc::clone(&below), SMALL, log);
        let mut drive = made.expect("an image");
        let version = drive.version();
        assert_eq!(drive.limit(), SMALL);
        work(&mut drive, &mut ledger, 1);
        assert!(drive.grow(SMALL, log).is_err(), "no larger");
        judge(&mut drive, &ledger).expect("as it was");
        drive.grow(SAME, LOG).expect("grown");
        work(&mut drive, &mut ledger, 2);
        judge(&mut drive, &ledger).expect("all of it");
        assert_eq!((drive.version(), drive.limit()), (version, SAME));
        drive.close().expect("closed");
        let mut drive = ImageDrive::open_on(below).expect("open");
        assert_eq!((drive.version(), drive.capacity().bytes()), (version, SAME));
        judge(&mut drive, &ledger).expect("all of it");
    }
}

#[test]
fn a_damaged_pointer_is_named_and_mended_by_the_other_copy() {
    let (start, ledger) = small();
    for copy in [0, PAGE] {
        let mut bytes = start.clone();
        bytes[copy + 30] ^= 4;
        let below = memory(&bytes);
        let mut drive = ImageDrive::open_on(Arc::clone(&below)).expect("open");
        assert_eq!(drive.damage().len(), 1, "{:?}", drive.damage());
        assert_eq!(drive.damage()[0].at, copy as u64);
        judge(&mut drive, &ledger).expect("all of it");
        drop(drive);
        let drive = ImageDrive::open_on(below).expect("open");
        assert!(drive.damage().is_empty(), "{:?}", drive.damage());
    }
    let mut bytes = start;
    bytes[30] ^= 4;
    bytes[PAGE + 30] ^= 4;
    let error = ImageDrive::open_on(memory(&bytes)).expect_err("both are damaged");
    assert!(matches!(error, LiveError::Damaged { .. }), "{error}");
}

/// Many sizes one after the other; files, and readers beside.
#[test]
fn from_a_small_file_to_a_large_one() {
    let path = std::env::temp_dir().join(format!("varve-grow-{}", std::process::id()));
    let (limit, first) = (Bytes(80 << 20), Bytes(1280 << 10));
    let mut drive = ImageDrive::create_to_grow(&path, first, LOG, limit).expect("an image");
    println!("{} at first", drive.end().human());
    let (mut ledger, mut capacity) = (Ledger::new(), first);
    let beside = ImageDrive::open_beside(&path).expect("beside").moment().expect("a moment");
    while capacity < limit {
        for page in (0..capacity.0 / PAGE as u64).step_by(37) {
            write(&mut drive, page, capacity.0 + page).expect("written");
            ledger.insert(page, capacity.0 + page);
        }
        flush(&mut drive).expect("durable");
        capacity = Bytes(capacity.0 * 2);
        drive.grow(capacity, LOG).expect("grown");
        assert!(!beside.is_unchanged());
        let mut other = ImageDrive::open_beside(&path).expect("beside");
        assert_eq!(other.capacity().bytes(), capacity);
        judge(&mut other, &ledger).expect("all of it");
    }
    judge(&mut drive, &ledger).expect("all of it");
    println!("{} for {}", drive.end().human(), capacity.human());
    drive.close().expect("closed");
    let mut drive = ImageDrive::open(&path).expect("open");
    judge(&mut drive, &ledger).expect("all of it");
    drop(drive);
    std::fs::remove_file(&path).expect("removed");
}
