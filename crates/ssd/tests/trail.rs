//! What a request's time went to: on all kinds of drives the parts sum to the whole, what a die did
//! is what it is said to have been busy with, and on a drive small enough to be worked out by hand
//! the parts are those.

use block::{BlockDevice, Lba, Request, Rng, Sectors, Span, Time};
use nand::{Account, Breakdown, Piece, Spent, Work};
use varve_ssd::{Config, Drive};

fn drive(keys: &[&str]) -> Drive {
    let mut config = Config::default();
    for key in keys {
        config.set_pair(key).unwrap();
    }
    Drive::new(&config.resolve().unwrap_or_else(|e| panic!("{keys:?}: {e}"))).unwrap()
}

fn pages(first: u64, count: u64) -> (Lba, Sectors) {
    (Lba(first * 8), Sectors(count * 8))
}

/// Submits a request and explains it.
fn ask(drive: &mut Drive, number: u64, at: Time, request: Request<'_>) -> (Time, Account) {
    drive.begin_request(number, at);
    let end = drive.submit(at, request).unwrap();
    let mut account = Account::default();
    drive.explain(at, end, &mut account);
    assert_eq!(account.by_cause.total(), end.since(at), "request {number}: {account:?}");
    (end, account)
}

/// A load of small requests, several in flight, with overwrites, flushes and discards.
fn load(drive: &mut Drive, seed: u64, requests: u64) -> Breakdown {
    let (mut rng, mut now, mut sum) = (Rng::new(seed), drive.now(), Breakdown::default());
    let space = drive.capacity().0 / 8;
    let mut ends: Vec<Time> = Vec::new();
    for number in 1..=requests {
        let (lba, len) = pages(rng.below(space - 8), 1 + rng.below(8));
        let request = match rng.below(20) {
            0 => Request::flush(),
            1 => Request::discard(lba, len),
            2..=8 => Request::read(lba, len),
            9 => Request::write(lba, len).with_fua(),
            _ => Request::write(lba, len),
        };
        // Up to eight in flight; now and then a pause.
        if ends.len() == 8 {
            let (first, end) =
                ends.iter().copied().enumerate().min_by_key(|(_, end)| *end).unwrap();
            ends.swap_remove(first);
            now = now.max(end);
        }
        if rng.below(50) == 0 {
            now += Span::from_us(rng.below(20_000));
        }
        let (end, account) = ask(drive, number, now, request);
        ends.push(end);
        for (cause, span) in account.by_cause.parts() {
            sum.add(cause, span);
        }
    }
    drive.begin_request(requests + 1, now);
    let end = ends.into_iter().fold(now, Time::max);
    drive.submit(end, Request::flush()).unwrap();
    sum
}

const SMALL: [&str; 8] = [
    "geometry.channels=2",
    "geometry.dies=2",
    "geometry.pages=8",
    "capacity=2 MiB",
    "op=80 %",
    "buffer.policy=lru",
    "buffer.size=32 KiB",
    "fw.read=3 us",
];

/// Kinds of drives: buffers, units, planes, words lines, maps, streams, checkpoints, FTLs.
const DRIVES: &[&[&str]] = &[
    &[],
    &["buffer.policy=none", "buffer.size=0"],
    &["buffer.write=through"],
    &["link.rate=1 GB/s", "fw.cores=2", "fw.write=2 us", "fw.complete=1 us"],
    &["geometry.page=16 KiB", "capacity=4 MiB"],
    &["geometry.page=16 KiB", "unit=16 KiB", "capacity=4 MiB"],
    &["geometry.planes=2", "nand.one_shot=on", "geometry.cell_bits=2", "capacity=8 MiB"],
    &["geometry.planes=2", "nand.multi_plane=on", "placement=dynamic", "capacity=4 MiB"],
    &["gc.pace=burst", "bus.rate=50 MB/s"],
    &["gc.background=on", "gc.idle=10 us"],
    &["ckpt.mode=interval", "nand.oob=full"],
    &["nand.oob=full", "geometry.cell_bits=2", "nand.page_types=lsb-msb", "op=150 %"],
    &["map.mode=paged", "map.cache=8 KiB", "op=150 %", "capacity=8 MiB"],
    &["map.mode=paged", "map.cache=8 KiB", "op=150 %", "capacity=8 MiB", "nand.oob=full"],
    &["streams.policy=hotcold", "streams.count=2", "op=120 %"],
    &["wl.mode=dynamic+static", "wl.delta=2", "wl.period=10"],
    &["ftl=hybrid-log"],
    &["ftl=hybrid-log", "nand.oob=full"],
    &["line=superblock", "capacity=4 MiB"],
];

/// Drives whose dies may do two things at a time.
const OVERLAPPING: &[&[&str]] = &[
    &["nand.cache_ops=on"],
    &["nand.cache_ops=on", "gc.pace=burst"],
    &["geometry.planes=2", "nand.independent_planes=on", "capacity=4 MiB"],
];

/// Drives whose reads interrupt programs and erases.
const INTERRUPTING: &[&[&str]] = &[
    &["nand.suspend=both", "nand.t_suspend=5 us"],
    &["nand.suspend=both", "nand.t_suspend=5 us", "gc.background=on", "gc.idle=1 us"],
];

/// In which orders dies serve.
const ORDERS: [&str; 2] = ["sched=in-order", "sched=read-first"];

/// A list of drives, each with every order of its dies.
fn ordered(drives: &[&[&'static str]]) -> Vec<Vec<&'static str>> {
    let each = |keys: &&[&'static str]| ORDERS.map(|order| [*keys, &[order]].concat());
    drives.iter().flat_map(each).collect()
}

fn small(keys: &[&str]) -> Drive {
    let all: Vec<&str> = SMALL.iter().copied().chain(keys.iter().copied()).collect();
    drive(&all)
}

/// The pieces of each die of a whole run.
fn watched(keys: &[&str], seed: u64) -> (Drive, Breakdown, Vec<Piece>) {
    let mut drive = small(keys);
    drive.keep_trail();
    drive.nand_mut().trail_mut().unwrap().keep_window(Time::ZERO, Time::LIMIT, 10_000_000);
    let sum = load(&mut drive, seed, 3_000);
    drive.check().unwrap();
    let kept = drive.nand().trail().unwrap().window();
    assert!(!kept.full);
    (drive, sum, kept.pieces)
}

fn of_die(pieces: &[Piece], die: usize) -> impl Iterator<Item = &Piece> {
    pieces.iter().filter(move |piece| piece.die as usize == die)
}

#[test]
fn every_request_is_explained_and_dies_did_what_they_were_busy_with() {
    for keys in ordered(DRIVES) {
        let (drive, sum, pieces) = watched(&keys, 7);
        assert_eq!(sum.of(Spent::Other), Span::ZERO, "{keys:?}: {sum:?}");
        assert!(sum.of(Spent::Own) > Span::ZERO, "{keys:?}: {sum:?}");
        let stats = drive.stats();
        for (die, busy) in stats.nand.die_busy.iter().enumerate() {
            let (mut last, mut took) = (Time::ZERO, Span::ZERO);
            for piece in of_die(&pieces, die) {
                assert!(piece.start >= last, "{keys:?}: die {die}: {piece:?} overlaps");
                last = piece.end;
                took += piece.end - piece.start;
            }
            assert_eq!(took, *busy, "{keys:?}: die {die}");
        }
        let slots = |work: Work| {
            let of = pieces.iter().filter(|piece| piece.work == work);
            of.map(|piece| u64::from(piece.pages)).sum::<u64>()
        };
        let pages = Work::ALL.into_iter().filter(|work| matches!(work, Work::Program(_)));
        assert_eq!(pages.map(slots).sum::<u64>(), stats.nand.page_programs, "{keys:?}");
        assert_eq!(slots(Work::Erase), stats.nand.erases, "{keys:?}");
    }
}

#[test]
fn causes_that_a_drive_has_are_found() {
    let (_, sum, _) =
        watched(&["map.mode=paged", "map.cache=8 KiB", "op=150 %", "capacity=8 MiB"], 9);
    for cause in [Spent::Map, Spent::Metadata, Spent::HostProgram, Spent::Own, Spent::Firmware] {
        assert!(sum.of(cause) > Span::ZERO, "{cause:?}: {sum:?}");
    }
    let (_, sum, _) = watched(&["capacity=8 MiB", "op=25 %", "geometry.pages=32"], 9);
    for cause in [Spent::Gc, Spent::Erase] {
        assert!(sum.of(cause) > Span::ZERO, "{cause:?}: {sum:?}");
    }
    let (_, sum, _) = watched(&["link.rate=500 MB/s", "bus.rate=50 MB/s"], 9);
    for cause in [Spent::Link, Spent::Bus, Spent::Dram, Spent::Erase, Spent::HostRead] {
        assert!(sum.of(cause) > Span::ZERO, "{cause:?}: {sum:?}");
    }
}

#[test]
fn what_overlaps_on_a_die_is_explained_too() {
    for keys in ordered(OVERLAPPING) {
        let (drive, _, pieces) = watched(&keys, 11);
        for (die, busy) in drive.stats().nand.die_busy.iter().enumerate() {
            let (mut last, mut took) = (Time::ZERO, Span::ZERO);
            for piece in of_die(&pieces, die) {
                let start = piece.start.max(last);
                took += piece.end.since(start);
                last = last.max(piece.end);
            }
            assert_eq!(took, *busy, "{keys:?}: die {die}");
        }
    }
}

/// Operations that are interrupted are in two pieces or more. A read that comes while another has
/// interrupted is booked beside it in order, and what a die is said to be busy with counts both; where
/// reads go first it stands behind that one.
#[test]
fn what_is_interrupted_is_in_pieces() {
    for keys in ordered(INTERRUPTING) {
        let (drive, _, pieces) = watched(&keys, 11);
        let first = keys.contains(&ORDERS[1]);
        for (die, busy) in drive.stats().nand.die_busy.iter().enumerate() {
            let took = of_die(&pieces, die).map(|piece| piece.end - piece.start);
            assert_eq!(took.fold(Span::ZERO, |sum, one| sum + one), *busy, "{keys:?}: die {die}");
            let apart = |piece: &&Piece| first || !matches!(piece.work, Work::Read(_));
            let rest = of_die(&pieces, die).filter(apart);
            let mut last = Time::ZERO;
            for piece in rest {
                assert!(piece.start >= last, "{keys:?}: die {die}: {piece:?} overlaps");
                last = piece.end;
            }
        }
        let mut numbers: Vec<u64> = pieces.iter().map(|piece| piece.operation).collect();
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        let parts = (all - numbers.len()) as u64;
        assert!(parts > 0 && parts <= drive.stats().nand.suspends, "{keys:?}: {parts}");
    }
}

#[test]
fn nothing_that_is_measured_changes() {
    let all: Vec<&[&str]> = [DRIVES, OVERLAPPING, INTERRUPTING].concat();
    for keys in ordered(&all) {
        let (mut plain, mut told) = (small(&keys), small(&keys));
        told.keep_trail();
        for drive in [&mut plain, &mut told] {
            let (mut rng, mut now) = (Rng::new(5), Time::ZERO);
            for _ in 0..1_500 {
                let (lba, len) = pages(rng.below(drive.capacity().0 / 8 - 4), 1 + rng.below(4));
                let read = rng.below(3) == 0;
                let request = if read { Request::read(lba, len) } else { Request::write(lba, len) };
                let end = drive.submit(now, request).unwrap();
                now += Span::from_ps(end.since(now).as_ps() / 3);
            }
        }
        assert_eq!(format!("{:?}", plain.stats()), format!("{:?}", told.stats()), "{keys:?}");
        assert_eq!(plain.nand().event_hash(), told.nand().event_hash(), "{keys:?}");
    }
}

/// One die, no buffer, no bus to speak of: sense 50 us, program 500 us, erase 2 ms.
const BY_HAND: [&str; 12] = [
    "geometry.channels=1",
    "geometry.dies=1",
    "geometry.planes=1",
    "geometry.page=4 KiB",
    "geometry.pages=8",
    "capacity=1 MiB",
    "op=80 %",
    "buffer.policy=none",
    "buffer.size=0",
    "nand.read=50 us",
    "nand.program=500 us",
    "bus.rate=4096 MB/s",
];

#[test]
fn parts_are_those_worked_out_by_hand() {
    let mut drive = drive(&BY_HAND);
    drive.keep_trail();
    let (a, len) = pages(1, 1);
    let (b, _) = pages(2, 1);
    let us = |n| Time::from_us(n);
    let (first, written) = ask(&mut drive, 1, us(0), Request::write(a, len));
    // The page crosses the bus, then the cells are programmed; nobody is in its way.
    assert_eq!(written.by_cause.of(Spent::Own), first.since(us(0)));
    assert_eq!(first.since(us(0)), Span::from_us(501));
    let (second, _) = ask(&mut drive, 2, us(1_000), Request::write(b, len));
    assert_eq!(second, us(1_501));
    // A read of the first page 100 us later: it stands behind the program for 401 us.
    let (end, read) = ask(&mut drive, 3, us(1_100), Request::read(a, len));
    assert_eq!(end, us(1_552));
    assert_eq!(read.by_cause.of(Spent::HostProgram), Span::from_us(401));
    assert_eq!(read.by_cause.of(Spent::Own), Span::from_us(51));
    // Another behind that: for the program and the read.
    let (end, read) = ask(&mut drive, 4, us(1_200), Request::read(b, len));
    assert_eq!(end, us(1_603));
    assert_eq!(read.by_cause.of(Spent::HostProgram), Span::from_us(301));
    assert_eq!(read.by_cause.of(Spent::HostRead), Span::from_us(51));
    assert_eq!(read.by_cause.of(Spent::Own), Span::from_us(51));
    assert_eq!(read.operations[Work::Program(nand::Cause::Host).index()], 1);
    assert_eq!(read.operations[Work::Read(nand::ReadCause::Host).index()], 2);
}
