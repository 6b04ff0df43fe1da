//! What fixed loads cost, to the block and the nanosecond. When the log flushes, cleans and takes a checkpoint,
//! which segment it cleans and where a block goes: none of that changes what is read, so no model of contents
//! notices when it becomes worse. The figures of the documents stand on it. Whoever changes a cost on purpose
//! changes `costs.txt` with it; a failing test prints the lines as they are now.

mod common;

use block::{
    BlockDevice, Data, DeviceError, Lba, Op, RamDevice, Request, Rng, Sectors, Span, Time,
};
use common::sectors;
use varve_remap::paper::{PaperLog, PaperOptions};
use varve_remap::{HostLog, LogOptions};

const WANTED: &str = include_str!("costs.txt");

const READ: Span = Span::from_us(60);
const WRITE: Span = Span::from_us(20);
const FLUSH: Span = Span::from_us(150);

/// Counts what it is asked, and takes time: writes one after the other, a flush when they have ended.
struct Timed {
    /// What it holds; nothing where only time counts.
    below: Option<RamDevice>,
    blocks: u64,
    free: Time,
    asked: [u64; 4],
    /// Blocks read and written.
    moved: [u64; 2],
    /// Of all it was asked, in order: when, what, where, and with which contents.
    asks: u64,
}

/// One more of a row of numbers.
fn fold(so_far: u64, number: u64) -> u64 {
    (so_far ^ number).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23)
}

impl Timed {
    fn new(blocks: u64, stored: bool) -> Timed {
        let below = stored.then(|| RamDevice::new(Sectors(blocks * 8)));
        Timed { below, blocks, free: Time::ZERO, asked: [0; 4], moved: [0; 2], asks: 0 }
    }
}

impl BlockDevice for Timed {
    fn capacity(&self) -> Sectors {
        Sectors(self.blocks * 8)
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (op, blocks) = (request.op, request.sectors.0 / 8);
        let what = [op as u64, u64::from(request.fua), u64::from(request.hint.stream.0)];
        let place = [at.as_ns(), request.lba.0, request.sectors.0];
        self.asks = what.into_iter().chain(place).fold(self.asks, fold);
        if let Data::Write(bytes) = &request.data {
            self.asks = fold(self.asks, u64::from(block::crc32c(0, bytes)));
        }
        if let Some(below) = &mut self.below {
            below.submit(at, request)?;
        }
        self.asked[op as usize] += 1;
        match op {
            Op::Read => {
                self.moved[0] += blocks;
                Ok(at + READ)
            }
            Op::Write => {
                self.moved[1] += blocks;
                self.free = self.free.max(at) + WRITE.times(blocks);
                Ok(self.free)
            }
            Op::Flush => Ok(self.free.max(at) + FLUSH),
            Op::Discard => Ok(at),
        }
    }
}

/// Blocks of the device, and options.
type Load = (u64, &'static [(&'static str, &'static str)]);

const SMALL: (&str, &str) = ("segment", "64 KiB");
const COUNTED: (&str, &str) = ("payload", "none");
const ROOMY: (&str, &str) = ("reserve", "40");

const LOADS: &[Load] = &[
    (3_000, &[SMALL, COUNTED]),
    (3_000, &[SMALL]),
    (3_000, &[SMALL, ("verify", "read")]),
    (3_000, &[SMALL, COUNTED, ("reserve", "30")]),
    (3_000, &[SMALL, COUNTED, ("gc.victim", "greedy")]),
    (3_000, &[SMALL, COUNTED, ("gc.victim", "age-threshold(3)")]),
    (3_000, &[SMALL, COUNTED, ("gc.victim", "fifo")]),
    (3_000, &[SMALL, COUNTED, ("gc.victim", "random")]),
    (3_000, &[SMALL, ("gc.order", "lba"), ("gc.batch", "3")]),
    (3_000, &[SMALL, COUNTED, ("gc.start", "60"), ("gc.batch", "1")]),
    (3_000, &[SMALL, COUNTED, ("self_flush", "128 KiB"), ("seal_after", "200 us")]),
    (3_000, &[SMALL, ("discard", "off"), ("capacity", "4 MiB")]),
    (6_000, &[("segment", "128 KiB"), COUNTED, ROOMY, ("placement", "sepbit")]),
    (6_000, &[("segment", "128 KiB"), COUNTED, ROOMY, ("placement", "auto")]),
    (6_000, &[("segment", "128 KiB"), ROOMY, ("placement", "known")]),
    (3_000, &[SMALL, COUNTED, ("ack", "buffer"), ("buffer", "32 KiB")]),
    (3_000, &[SMALL, ("ack", "buffer"), ("buffer", "512 KiB"), ROOMY]),
    (6_000, &[("segment", "128 KiB"), ROOMY, ("placement", "sepbit"), ("ack", "buffer")]),
    (40_000, &[("segment", "1 MiB"), COUNTED]),
    (24_000, &[SMALL, ("map_memory", "64 KiB"), ("reserve", "5")]),
    (12_000, &[("segment", "128 KiB"), COUNTED, ROOMY, ("placement", "auto")]),
    (12_000, &[("segment", "128 KiB"), COUNTED, ROOMY, ("placement", "auto"), ("ack", "buffer")]),
    (6_000, &[SMALL, COUNTED, ("reserve", "5"), ("gc.start", "9")]),
    // A write waits for room, and cleaning lets go of the part of the map that it needs.
    (24_000, &[SMALL, ("map_memory", "64 KiB"), ("verify", "read"), ("gc.victim", "greedy")]),
    (6_000, &[("segment", "128 KiB"), COUNTED, ROOMY, ("placement", "known"), ("ack", "buffer")]),
    // A small buffer, and classes with little room or a part of the map.
    (
        3_000,
        &[SMALL, ("ack", "buffer"), ("buffer", "8 KiB"), ("verify", "read"), ("discard", "off")],
    ),
    (6_000, &[SMALL, ("reserve", "20"), ("placement", "sepbit"), ("gc.start", "20")]),
    (12_000, &[SMALL, COUNTED, ROOMY, ("placement", "auto"), ("gc.victim", "greedy")]),
    (24_000, &[SMALL, ("map_memory", "96 KiB"), ("gc.order", "lba"), ("gc.batch", "3"), ROOMY]),
];

const PAPER: &[&[(&str, &str)]] = &[
    &[],
    &[("partition", "trans"), ("partition_blocks", "100")],
    &[("insert", "after"), ("commit_pairs", "7")],
    &[("flush", "commit"), ("trim", "invalidate"), ("commit_after", "2 ms")],
    &[("memory", "64 KiB"), ("partition_blocks", "64")],
    &[("clean_below", "30"), ("clean_moves", "9")],
];

/// Requests: most writes go to a fifth of the blocks; some cover parts of blocks; some pauses are long.
struct Client {
    rng: Rng,
    at: Time,
    stored: bool,
    /// The paper's log: whole blocks only, and no room when all blocks are valid.
    whole: bool,
    refused: u64,
    /// Sectors in use.
    used: u64,
}

impl Client {
    fn step(&mut self, log: &mut impl BlockDevice) {
        let blocks = self.used / 8;
        let first = match self.rng.ratio(4, 5) {
            true => self.rng.below(blocks / 5),
            false => self.rng.below(blocks - 8),
        };
        let (mut lba, mut count) = (Lba(first * 8), sectors(self.rng.between(1, 8) as u32));
        let kind = self.rng.below(40);
        if kind < 3 && !self.whole {
            // From the middle of a block to the middle of another.
            (lba, count) = (Lba(lba.0 + 3), Sectors(count.0 - 5));
        }
        let bytes = vec![self.rng.next_u64() as u8; count.bytes().index()];
        let request = match kind {
            3 => Request::flush(),
            4 => Request::discard(lba, count),
            5..9 => Request::read(lba, count),
            _ => {
                let mut write = Request::write(lba, count);
                write.fua = kind == 9;
                write.hint.stream = block::StreamId((first % 7) as u8);
                if self.stored { write.with(Data::Write(&bytes)) } else { write }
            }
        };
        let mut out = vec![0; count.bytes().index()];
        let request = match self.stored && request.op == Op::Read {
            true => request.with(Data::Read(&mut out)),
            false => request,
        };
        let done = match log.submit(self.at, request) {
            Ok(done) => done,
            Err(DeviceError::NoSpace(_)) if self.whole => {
                self.refused += 1;
                self.at
            }
            Err(error) => panic!("{kind}: {error}"),
        };
        // One waits for every answer; another does not.
        self.at = match self.rng.below(50) {
            0 => done.max(self.at) + Span::from_us(20_000),
            n if n < 30 => done.max(self.at),
            _ => self.at + Span::from_us(5),
        };
    }
}

fn named(pairs: &[(&str, &str)]) -> String {
    let all: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if all.is_empty() { "as it comes".to_string() } else { all.join(", ") }
}

fn costs(log: &HostLog<Timed>) -> String {
    log.check().unwrap();
    let (device, (placed, apart)) = (log.device(), log.engine().placement());
    format!(
        "{:?}, asked {:?}, moved {:?}, {placed:?} {apart}, {} free, at {} ns, asks {:016x}",
        log.counters(),
        device.asked,
        device.moved,
        log.engine().free_segments(),
        log.now().as_ns(),
        device.asks
    )
}

/// A load, and where contents are stored, the end of the process in the middle of it and a clean stop.
fn run(seed: u64, (blocks, pairs): Load) -> Vec<String> {
    let mut options = LogOptions::default();
    pairs.iter().for_each(|(key, value)| options.set(key, value).unwrap());
    let name = format!("{blocks} blocks, {}", named(pairs));
    let mut log = HostLog::format(Timed::new(blocks, options.payload), &options).unwrap();
    let used = log.capacity().0 / 8 * 8;
    let (rng, stored) = (Rng::stream(seed, "costs"), options.payload);
    let mut client = Client { rng, at: log.now(), stored, whole: false, refused: 0, used };
    (0..3 * blocks / 4 + 2_000).for_each(|_| client.step(&mut log));
    let mut found = vec![format!("{name}: {}", costs(&log))];
    if stored {
        let at = log.now();
        log = HostLog::open(log.into_device(), at, &options).unwrap();
        client.at = log.now();
        found.push(format!("{name}, opened: {:?} until {} ns", log.summary(), log.now().as_ns()));
        (0..1_000).for_each(|_| client.step(&mut log));
        log.stop(client.at).unwrap();
        found.push(format!("{name}, stopped: {}", costs(&log)));
    }
    found
}

fn paper(seed: u64, pairs: &[(&str, &str)]) -> String {
    let mut options = PaperOptions { payload: false, ..PaperOptions::default() };
    pairs.iter().for_each(|(key, value)| options.set(key, value).unwrap());
    let mut log = PaperLog::format(Timed::new(3_000, false), &options).unwrap();
    let used = log.capacity().0 / 8 * 8 * 6 / 10;
    let mut client = Client {
        rng: Rng::stream(seed, "paper"),
        at: log.now(),
        stored: false,
        whole: true,
        refused: 0,
        used,
    };
    (0..3_000).for_each(|_| client.step(&mut log));
    assert!(log.stats().adds_up());
    let (device, now) = (log.device(), log.now().as_ns());
    let (asked, moved, asks) = (device.asked, device.moved, device.asks);
    format!(
        "paper, {}: {:?}, asked {asked:?}, moved {moved:?}, refused {}, at {now} ns, asks {asks:016x}",
        named(pairs),
        log.stats(),
        client.refused
    )
}

/// Compares lines with those of the same names.
fn compare(found: Vec<String>) {
    println!("{}", found.join("\n"));
    let name = |line: &str| line.split(": ").next().unwrap_or_default().to_string();
    for found in found {
        let wanted = WANTED.lines().find(|wanted| name(wanted) == name(&found));
        assert_eq!(Some(&found[..]), wanted);
    }
}

/// Of the loads those with these numbers.
fn logs(which: std::ops::Range<usize>) {
    let some = (0..).zip(LOADS).skip(which.start).take(which.len());
    compare(some.flat_map(|(seed, load)| run(seed, *load)).collect());
}

#[test]
fn a_fixed_load_costs_what_it_did() {
    logs(0..12);
}

#[test]
fn one_with_classes_or_a_buffer_costs_what_it_did() {
    logs(12..18);
}

#[test]
fn one_of_many_blocks_costs_what_it_did() {
    logs(18..LOADS.len());
}

#[test]
fn one_by_the_papers_rules_costs_what_it_did() {
    compare((0..).zip(PAPER).map(|(seed, pairs)| paper(seed, pairs)).collect());
}
