//! What fixed loads cost, to the block and the nanosecond. When a checkpoint is made, which segment is cleaned
//! and what is waited for: none of that changes what is read, so no model of contents notices when it becomes
//! worse. The figures of the documents stand on it. Whoever changes a cost on purpose changes `costs.txt` with
//! it; a failing test prints the lines as they are now.

use crate::tools::model::{Body, Mix, Node, Tree, apply, draw, fresh, perform};
use block::{
    BlockDevice, Bytes, Data, DeviceError, Op as Asked, RamDevice, Request, Rng, Sectors, Span,
    Time,
};
use varve_lfs::{Fs, FsError, FsOptions, MkfsOptions, Now, Stamp, mkfs};

const WANTED: &str = include_str!("costs.txt");

const READ: Span = Span::from_us(60);
const WRITE: Span = Span::from_us(9);
const FLUSH: Span = Span::from_us(150);

/// Takes time: writes one after the other, a flush when they have ended.
struct Timed {
    below: RamDevice,
    free: Time,
    discarded: u64,
    /// Of all it was asked, in order: when, what, where, and with which contents.
    asks: u64,
}

/// One more of a row of numbers.
fn fold(so_far: u64, number: u64) -> u64 {
    (so_far ^ number).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(23)
}

impl BlockDevice for Timed {
    fn capacity(&self) -> Sectors {
        self.below.capacity()
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (op, blocks, forced) = (request.op, request.sectors.0 / 8, request.fua);
        let what = [op as u64, u64::from(forced), u64::from(request.hint.stream.0)];
        let place = [at.as_ns(), request.lba.0, request.sectors.0];
        self.asks = what.into_iter().chain(place).fold(self.asks, fold);
        if let Data::Write(bytes) = &request.data {
            self.asks = fold(self.asks, u64::from(block::crc32c(0, bytes)));
        }
        self.below.submit(at, request)?;
        Ok(match op {
            Asked::Read => at + READ,
            Asked::Write => {
                self.free = self.free.max(at) + WRITE.times(blocks);
                if forced { self.free + FLUSH } else { self.free }
            }
            Asked::Flush => self.free.max(at) + FLUSH,
            Asked::Discard => {
                self.discarded += blocks;
                at
            }
        })
    }
}

const MIX: Mix = Mix { write: 62, fsync: 10, clean: 2, sync: 1, blocks: 40, names: 24 };

/// Options that are set, one after the other.
const LOADS: &[&[(&str, &str)]] = &[
    &[],
    &[("cleaning", "bl415")],
    &[("cleaning", "bl415"), ("gc.victim", "cost-benefit"), ("drain", "on")],
    &[("gc.victim", "cost-benefit"), ("discard", "on"), ("prefree", "2")],
    &[("threaded", "on")],
    &[("late", "on"), ("cached_nodes", "64")],
    &[("ahead", "1"), ("depth", "1")],
    &[("ahead", "4"), ("depth", "3"), ("gc.victim", "cost-benefit")],
    &[("cleaning", "scj"), ("slots", "24"), ("threshold", "160"), ("batch", "1")],
    &[("cleaning", "scj"), ("slots", "200"), ("count_needed", "off"), ("batch", "4")],
    &[("cleaning", "scj"), ("slots", "12"), ("threshold", "600"), ("drain", "on")],
    &[("cleaning", "scj"), ("slots", "200"), ("threshold", "600"), ("ahead", "2"), ("depth", "2")],
    &[("cleaning", "scj"), ("slots", "16"), ("ahead", "8"), ("depth", "3"), ("discard", "on")],
    &[("cached_nodes", "64"), ("ahead", "16"), ("depth", "2"), ("prefree", "3")],
    &[("threaded", "on"), ("discard", "on"), ("late", "on")],
    &[("cleaning", "scj"), ("cached_nodes", "64"), ("threshold", "100"), ("slots", "8")],
];

/// The same where the volume is full most of the time, and names come and go.
const FULL: Mix = Mix { write: 64, fsync: 5, clean: 1, sync: 1, blocks: 90, names: 60 };

const FULL_LOADS: &[&[(&str, &str)]] = &[
    &[],
    &[("cleaning", "bl415"), ("discard", "on")],
    &[("ahead", "2"), ("depth", "2"), ("threaded", "on")],
    &[("ahead", "4"), ("depth", "1"), ("cached_nodes", "64")],
    &[("cleaning", "scj"), ("slots", "16"), ("threshold", "200")],
    &[("cleaning", "scj"), ("slots", "64"), ("ahead", "4"), ("depth", "3")],
    &[("cleaning", "scj"), ("slots", "200"), ("count_needed", "off"), ("drain", "on")],
    &[("gc.victim", "cost-benefit"), ("ahead", "16"), ("depth", "3"), ("prefree", "2")],
];

fn moment(at: Time) -> Now {
    let seconds = 1_600_000_000 + at.as_ns() / 1_000_000_000;
    Now { at, wall: Stamp { seconds, nanos: 7 } }
}

fn costs(fs: &Fs<Timed>) -> String {
    let stats = fs.stats();
    let named = stats.named().into_iter().filter(|(_, count)| *count > 0);
    let named: Vec<String> = named.map(|(name, count)| format!("{name} {count}")).collect();
    let (device, now) = (fs.device(), fs.done().as_ns());
    let (discarded, asks) = (device.discarded, device.asks);
    format!("{}, discarded {discarded}, at {now} ns, asks {asks:016x}", named.join(", "))
}

/// Now and then some of a file, from anywhere in it.
fn read(fs: &mut Fs<Timed>, tree: &Tree, rng: &mut Rng) {
    let is_file = |node: &Node| matches!(&node.body, Body::File(bytes) if !bytes.is_empty());
    let files: Vec<_> =
        tree.iter().filter(|(_, node)| is_file(node)).map(|(ino, _)| *ino).collect();
    if rng.ratio(1, 5) && !files.is_empty() {
        let ino = files[rng.below(files.len() as u64) as usize];
        let (from, mut out) = (rng.below(200_000), vec![0; rng.between(1, 60_000) as usize]);
        let at = fs.ready();
        fs.read(moment(at), ino, Bytes(from), &mut out).unwrap();
    }
}

/// A load, the end of the process in the middle of it, and a clean stop.
fn run(seed: u64, mix: Mix, pairs: &[(&str, &str)]) -> Vec<String> {
    let mut options = FsOptions { dirty: 24, ..FsOptions::default() };
    pairs.iter().for_each(|(key, value)| options.set(key, value).unwrap());
    let name: Vec<String> = pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let name = if name.is_empty() { "as it comes".to_string() } else { name.join(", ") };
    let name = if mix.names == FULL.names { format!("full, {name}") } else { name };
    let format = MkfsOptions { log_blocks_per_seg: 4, ..MkfsOptions::new([3; 16], 9) };
    let device = Timed {
        below: RamDevice::new(Sectors(1_500 * 8)),
        free: Time::ZERO,
        discarded: 0,
        asks: 0,
    };
    let device = mkfs(device, &format, moment(Time::ZERO)).unwrap().0;
    let mut fs = Fs::mount(device, options, moment(Time::from_us(1))).unwrap();
    let (mut tree, mut rng, mut found) = (fresh(), Rng::stream(seed, "costs"), Vec::new());
    for step in 0..600 {
        let op = draw(&mut rng, &tree, mix);
        // Seconds pass now and then, and nobody asks for anything.
        let pause = if rng.ratio(1, 40) { 40_000_000 } else { rng.below(400) };
        let at = fs.ready() + Span::from_us(pause);
        if pause > 400 {
            fs.idle(moment(at), 2).unwrap();
        }
        let at = fs.ready().max(at);
        match perform(&mut fs, moment(at), &op) {
            Err(FsError::NoSpace) => {}
            real => {
                // What the model says of it, other tests compare.
                let _ = apply(&mut tree, &op, real.as_ref().ok().copied().flatten());
            }
        }
        read(&mut fs, &tree, &mut rng);
        if step == 400 {
            found.push(format!("{name}: {}", costs(&fs)));
            let at = fs.done();
            fs.sync(moment(at)).unwrap();
            let at = fs.done();
            fs = Fs::mount(fs.abandon(), options, moment(at)).unwrap();
            found.push(format!("{name}, mounted: {}", costs(&fs)));
        }
    }
    found.push(format!("{name}, at the end: {}", costs(&fs)));
    let at = fs.done();
    fs.check(moment(at)).unwrap();
    found
}

#[test]
fn a_fixed_load_costs_what_it_did() {
    let loads = LOADS.iter().map(|pairs| (MIX, pairs));
    let loads = loads.chain(FULL_LOADS.iter().map(|pairs| (FULL, pairs)));
    let found: Vec<String> =
        (0..).zip(loads).flat_map(|(seed, (mix, pairs))| run(seed, mix, pairs)).collect();
    println!("{}", found.join("\n"));
    for (found, wanted) in found.iter().zip(WANTED.lines()) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found.len(), WANTED.lines().count());
}
