//! One sparse file and a model of it: what is written, set apart, punched and cut at every level of its tree is
//! read, sought and counted as the model says, to the node; also after a mount and after a crash behind an
//! fsync. And where nobody may wait for the device while he has the volume, nobody does.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::tools::model::NEW;
use crate::tools::now;
use block::{BlockDevice, Bytes, DeviceError, Op, RamDevice, Request, Rng, Sectors, Time};
use varve_lfs::format::FileType;
use varve_lfs::fs::{Seeking, Stretch};
use varve_lfs::{Fs, FsError, FsOptions, MkfsOptions, Nid, Now, mkfs};

const BLOCK: u64 = 4096;
/// Pointers of an inode, and of a node.
const OWN: u64 = 923;
const PER: u64 = 1018;
/// The first blocks below the five children of an inode, and the levels of these.
const CHILDREN: [(u64, u32); 5] = [
    (OWN, 0),
    (OWN + PER, 0),
    (OWN + 2 * PER, 1),
    (OWN + 2 * PER + PER * PER, 1),
    (OWN + 2 * PER + 2 * PER * PER, 2),
];

/// Knows whether somebody has the volume while it is asked to read.
struct Watched {
    below: RamDevice,
    held: Rc<Cell<bool>>,
    waited: Rc<Cell<u64>>,
}

impl BlockDevice for Watched {
    fn capacity(&self) -> Sectors {
        self.below.capacity()
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        if request.op == Op::Read && self.held.get() {
            self.waited.set(self.waited.get() + 1);
        }
        self.below.submit(at, request)
    }
}

/// A volume whose caller does the reads and jobs that nobody waits for.
struct Volume {
    fs: Option<Fs<Watched>>,
    held: Rc<Cell<bool>>,
    waited: Rc<Cell<u64>>,
    outside: bool,
    options: FsOptions,
    clock: u64,
}

/// Next to no nodes are kept in memory: each operation reads its own. Who cleans by himself waits.
fn options(outside: bool) -> FsOptions {
    let (cached_nodes, ahead) = if outside { (64, 2) } else { (4, 0) };
    FsOptions { cached_nodes, ahead, ..FsOptions::default() }
}

impl Volume {
    fn new(outside: bool) -> Volume {
        Volume::of(64, outside, options(outside))
    }

    fn of(mib: u64, outside: bool, options: FsOptions) -> Volume {
        let (held, waited) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        let below = RamDevice::new(Sectors(mib << 11));
        let device = Watched { below, held: held.clone(), waited: waited.clone() };
        let device = mkfs(device, &MkfsOptions::new([3; 16], 9), now(0)).unwrap().0;
        let mut volume = Volume { fs: None, held, waited, outside, options, clock: 1 };
        volume.mount(device);
        volume
    }

    fn mount(&mut self, device: Watched) {
        let mut fs = Fs::mount(device, self.options, now(self.clock)).unwrap();
        fs.read_outside(now(self.clock), self.outside);
        self.fs = Some(fs);
    }

    /// A clean stop, or the end of the process, and a mount.
    fn again(&mut self, clean: bool) {
        let mut fs = self.fs.take().unwrap();
        fs.read_outside(now(self.clock), false);
        let device = if clean { fs.unmount(now(self.clock)).unwrap() } else { fs.abandon() };
        self.mount(device);
    }

    /// Does something; what it needs is read, and jobs are done, by who does not have the volume.
    fn run<T>(&mut self, mut body: impl FnMut(&mut Fs<Watched>, Now) -> Result<T, FsError>) -> T {
        let fs = self.fs.as_mut().unwrap();
        for _ in 0..1_000 {
            self.clock += 1;
            let now = now(self.clock);
            self.held.set(true);
            let done = body(fs, now);
            self.held.set(false);
            if !matches!(done, Err(FsError::Again)) {
                return done.unwrap();
            }
            for mut fetch in
                [fs.wants().unwrap(), fs.wants_of_cleaning().unwrap()].into_iter().flatten()
            {
                fetch.read(now.at, fs.device_mut()).unwrap();
                fs.brought(fetch, true);
            }
            if let Some(job) = fs.next_job(now).unwrap() {
                job.perform(now.at, fs.device_mut()).unwrap();
                fs.job_done(now, &job, Ok(())).unwrap();
            }
        }
        panic!("it never ends");
    }
}

/// The file as it should be.
#[derive(Clone, Default)]
struct Model {
    size: u64,
    /// Blocks that have a place, and what is in them; none: set apart.
    blocks: BTreeMap<u64, Option<Vec<u8>>>,
    /// Nodes: their level, and the first block below them.
    nodes: BTreeSet<(u32, u64)>,
    /// Blocks behind the end are meant.
    kept: bool,
}

impl Model {
    /// The nodes on the way to a block.
    fn reach(&mut self, index: u64) {
        let Some((base, level)) = CHILDREN.into_iter().rev().find(|(base, _)| *base <= index)
        else {
            return;
        };
        for level in 0..=level {
            let span = PER.pow(level + 1);
            self.nodes.insert((level, base + (index - base) / span * span));
        }
    }

    fn fill(&mut self, at: u64, data: &[u8]) {
        for (i, byte) in (at..).zip(data) {
            let block = self.blocks.entry(i / BLOCK).or_default();
            block.get_or_insert_with(|| vec![0; BLOCK as usize])[(i % BLOCK) as usize] = *byte;
        }
    }

    fn write(&mut self, at: u64, data: &[u8]) {
        let end = at + data.len() as u64;
        (at / BLOCK..end.div_ceil(BLOCK)).for_each(|index| self.reach(index));
        self.fill(at, data);
        self.size = self.size.max(end);
    }

    fn allocate(&mut self, at: u64, len: u64, keep: bool) {
        for index in at / BLOCK..(at + len).div_ceil(BLOCK) {
            self.reach(index);
            self.blocks.entry(index).or_insert(None);
        }
        self.kept |= keep && at + len > self.size;
        if !keep {
            self.size = self.size.max(at + len);
        }
    }

    /// Parts of blocks that are there become zeroes, whole ones go.
    fn clear(&mut self, from: u64, to: u64) {
        let touched = from / BLOCK..to.div_ceil(BLOCK);
        let there: Vec<u64> = self.blocks.range(touched).map(|(index, _)| *index).collect();
        for index in there {
            let (first, last) = (from.max(index * BLOCK), to.min((index + 1) * BLOCK));
            if last - first == BLOCK {
                self.blocks.remove(&index);
            } else if first < last {
                self.fill(first, &vec![0; (last - first) as usize]);
            }
        }
    }

    fn punch(&mut self, at: u64, len: u64) {
        let last = if self.kept { u64::MAX } else { self.size.next_multiple_of(BLOCK) };
        if at < last.min(at + len) {
            self.clear(at, last.min(at + len));
        }
    }

    fn zero(&mut self, at: u64, len: u64, keep: bool) {
        self.clear(at, at + len);
        self.allocate(at, len, keep);
    }

    fn truncate(&mut self, size: u64) {
        if size < self.size {
            self.kept = false;
            let first = size.div_ceil(BLOCK);
            if !size.is_multiple_of(BLOCK) {
                self.clear(size, first * BLOCK);
            }
            self.blocks.split_off(&first);
            self.nodes.retain(|(_, base)| *base < first);
        }
        self.size = size;
    }

    fn read(&self, at: u64, len: u64) -> Vec<u8> {
        let byte = |i: u64| match self.blocks.get(&(i / BLOCK)) {
            Some(Some(block)) => block[(i % BLOCK) as usize],
            _ => 0,
        };
        (at..self.size.min(at + len).max(at)).map(byte).collect()
    }

    fn seek(&self, at: u64, hole: bool) -> Option<u64> {
        if at >= self.size {
            return None;
        }
        let last = self.size.div_ceil(BLOCK);
        let is_data = |index: &u64| self.blocks.get(index).is_some_and(Option::is_some);
        let index = match hole {
            true => (at / BLOCK..last).find(|index| !is_data(index)),
            false => self.blocks.range(at / BLOCK..last).map(|(index, _)| *index).find(is_data),
        };
        let found = index.map(|index| (index * BLOCK).max(at));
        found.or(hole.then_some(self.size))
    }
}

/// A place of the file, near a boundary of its tree mostly.
fn place(rng: &mut Rng) -> u64 {
    let far = CHILDREN[4].0 + PER * PER + 5;
    let zones = [
        0,
        OWN,
        OWN + PER,
        CHILDREN[2].0,
        CHILDREN[2].0 + 3 * PER,
        CHILDREN[3].0,
        CHILDREN[4].0,
        far,
    ];
    let index = (*rng.pick(&zones) + rng.below(10)).saturating_sub(5);
    let skip = if rng.ratio(1, 2) { rng.below(BLOCK) } else { 0 };
    index * BLOCK + skip
}

fn step(volume: &mut Volume, ino: Nid, model: &mut Model, rng: &mut Rng) {
    let (at, len) = (place(rng), *rng.pick(&[1, 100, BLOCK, 3 * BLOCK + 7]));
    match rng.below(10) {
        0..4 => {
            let data: Vec<u8> =
                (0..len).map(|i| (i as u8).wrapping_mul(rng.next_u64() as u8 | 1)).collect();
            volume.run(|fs, now| fs.write(now, ino, Bytes(at), &data));
            model.write(at, &data);
        }
        4 => {
            let (keep, zero) = (rng.ratio(1, 2), rng.ratio(1, 2));
            volume.run(|fs, now| match zero {
                true => fs.zero_range(now, ino, Bytes(at), Bytes(len), keep),
                false => fs.allocate(now, ino, Bytes(at), Bytes(len), keep),
            });
            if zero { model.zero(at, len, keep) } else { model.allocate(at, len, keep) }
        }
        5 | 6 => {
            // A few bytes, or up to the next boundary and beyond.
            let len = if rng.ratio(1, 2) { len } else { place(rng).saturating_sub(at).max(1) };
            let mut how = Stretch::new(Bytes(at), Bytes(len)).unwrap();
            volume.run(|fs, now| {
                while !fs.punch_on(now, ino, &mut how)? {}
                Ok(())
            });
            model.punch(at, len);
        }
        _ => {
            volume.run(|fs, now| fs.truncate(now, ino, Bytes(at)));
            model.truncate(at);
        }
    }
}

fn compare(volume: &mut Volume, ino: Nid, model: &Model, rng: &mut Rng, what: &str) {
    let found = volume.run(|fs, now| fs.attributes(now, ino));
    assert_eq!(found.size, Bytes(model.size), "{what}");
    let nodes = volume.run(|fs, now| fs.usage(now)).used_nodes;
    assert_eq!(nodes - 2, model.nodes.len() as u64, "{what}: nodes: {:?}", model.nodes);
    let counted = 1 + model.nodes.len() + model.blocks.len();
    assert_eq!(found.blocks, counted as u64, "{what}: the file's blocks");
    for _ in 0..6 {
        let (at, hole) = (place(rng), rng.ratio(1, 2));
        let sought = volume.run(|fs, now| fs.seek(now, ino, Bytes(at), hole));
        assert_eq!(sought, model.seek(at, hole).map(Bytes), "{what}: from {at}, hole {hole}");
        let mut out = vec![0xEE; 2 * BLOCK as usize + 9];
        let read = volume.run(|fs, now| fs.read(now, ino, Bytes(at), &mut out));
        assert!(out[..read] == model.read(at, out.len() as u64), "{what}: {read} bytes from {at}");
    }
}

fn work(seed: u64, outside: bool) -> u64 {
    let (mut volume, mut rng) = (Volume::new(outside), Rng::stream(seed, "files"));
    let file = FileType::File;
    let ino = volume.run(|fs, now| fs.create(now, Nid::ROOT, b"a", file, NEW, (0, 0)));
    let mut model = Model::default();
    // Its data is in blocks, not in the inode.
    volume.run(|fs, now| fs.write(now, ino, Bytes(0), &[1; 5000]));
    model.write(0, &[1; 5000]);
    for n in 0..150 {
        let what = format!("seed {seed}, outside {outside}, step {n}");
        step(&mut volume, ino, &mut model, &mut rng);
        compare(&mut volume, ino, &model, &mut rng, &what);
        if rng.ratio(1, 10) {
            let clean = rng.ratio(1, 2);
            volume.run(|fs, now| fs.fsync(now, ino));
            volume.again(clean);
            compare(&mut volume, ino, &model, &mut rng, &format!("{what}, clean {clean}"));
        }
        if n % 25 == 0 {
            volume.held.set(false);
            let (now, fs) = (now(volume.clock), volume.fs.as_mut().unwrap());
            fs.insist(true);
            fs.check(now).unwrap_or_else(|error| panic!("{what}: {error}"));
            fs.insist(false);
        }
    }
    volume.waited.get()
}

#[test]
fn a_sparse_file_is_what_was_made_of_it_at_every_level() {
    for seed in 0..12 {
        work(seed, false);
    }
}

#[test]
fn and_nobody_waits_for_the_device_who_has_the_volume() {
    for seed in 20..28 {
        assert_eq!(work(seed, true), 0, "seed {seed}: reads with the volume");
    }
}

/// Who comes again for a checkpoint that is on its way finds what he did before.
#[test]
fn zeroes_over_more_nodes_than_may_be_dirty_come_to_an_end() {
    let mut volume = Volume::of(256, true, FsOptions { dirty: 2, ..options(true) });
    let ino = volume.run(|fs, now| fs.create(now, Nid::ROOT, b"a", FileType::File, NEW, (0, 0)));
    let len = 12 * PER * BLOCK;
    volume.run(|fs, now| fs.zero_range(now, ino, Bytes(0), Bytes(len), false));
    for index in (0..12 * PER).step_by(100) {
        volume.run(|fs, now| fs.write(now, ino, Bytes(index * BLOCK), &[1; 5_000]));
    }
    volume.run(|fs, now| fs.zero_range(now, ino, Bytes(0), Bytes(len), false));
    assert_eq!(volume.run(|fs, now| fs.seek(now, ino, Bytes(0), false)), None);
    assert!(volume.run(|fs, now| fs.attributes(now, ino)).blocks > 12 * PER);
    assert_eq!(volume.waited.get(), 0, "reads with the volume");
}

/// A search, and a look for room, over nodes that are all to be read.
#[test]
fn who_looks_at_many_nodes_asks_for_many_at_once() {
    let mut volume = Volume::of(256, true, options(true));
    let ino = volume.run(|fs, now| fs.create(now, Nid::ROOT, b"a", FileType::File, NEW, (0, 0)));
    let place = |n: u64| Bytes((OWN + n * PER) * BLOCK);
    for n in 0..700 {
        volume.run(|fs, now| fs.write(now, ino, place(n), &[1; 100]));
    }
    let end = volume.run(|fs, now| fs.attributes(now, ino)).size;
    volume.run(|fs, now| fs.punch(now, ino, Bytes(0), Bytes(1 << 40)));
    volume.again(true);
    let (mut how, mut rounds) = (Seeking::new(Bytes(0), false), 0);
    let found = volume.run(|fs, now| {
        rounds += 1;
        fs.seek_on(now, ino, &mut how)
    });
    assert_eq!(found, None);
    assert!(rounds < 20, "{rounds} rounds");
    volume.again(true);
    let (mut how, mut rounds) = (Stretch::new(Bytes(0), end).unwrap(), 0);
    let refused = volume.run(|fs, now| {
        rounds += 1;
        match fs.allocate_on(now, ino, &mut how, false) {
            Ok(false) => Err(FsError::Again),
            Ok(true) => Ok(false),
            Err(FsError::NoSpace) => Ok(true),
            Err(error) => Err(error),
        }
    });
    assert!(refused && rounds < 20, "{rounds} rounds");
    assert_eq!(volume.waited.get(), 0, "reads with the volume");
}

/// Blocks of a directory that hold no entry any more are given back.
#[test]
fn an_emptied_directory_is_as_small_as_a_new_one() {
    let mut volume = Volume::new(false);
    let dir = volume.run(|fs, now| fs.mkdir(now, Nid::ROOT, b"d", NEW));
    let name = |n: u32| format!("{n:0>60}").into_bytes();
    for n in 0..2_000 {
        volume.run(|fs, now| fs.create(now, dir, &name(n), FileType::File, NEW, (0, 0)));
    }
    volume.run(|fs, now| fs.sync(now));
    let blocks = |volume: &mut Volume| volume.run(|fs, now| fs.attributes(now, dir)).blocks;
    assert!(blocks(&mut volume) > 60);
    for n in 0..2_000 {
        volume.run(|fs, now| fs.unlink(now, dir, &name(n)));
    }
    let usage = volume.run(|fs, now| fs.usage(now));
    // The first block has the two dots.
    let nodes = usage.used_nodes - usage.inodes;
    assert_eq!(blocks(&mut volume), 1 + nodes + 1);
    volume.again(true);
    assert_eq!(blocks(&mut volume), 1 + nodes + 1);
    volume.run(|fs, now| fs.rmdir(now, Nid::ROOT, b"d"));
    let usage = volume.run(|fs, now| fs.usage(now));
    assert_eq!((usage.used_nodes, usage.inodes), (1, 1));
}

/// A volume that has met what contradicts itself takes no changes any more, and says why.
#[test]
fn a_volume_that_met_damage_takes_no_changes() {
    let mut volume = Volume::new(false);
    let ino = volume.run(|fs, now| fs.create(now, Nid::ROOT, b"a", FileType::File, NEW, (0, 0)));
    volume.run(|fs, now| fs.write(now, ino, Bytes(OWN * BLOCK), &[1; 4096]));
    volume.again(true);
    // Of all blocks the direct node is the only one that begins with a pointer and names this inode.
    let fs = volume.fs.take().unwrap();
    let mut device = fs.unmount(now(50)).unwrap();
    let blocks = device.capacity().0 / 8;
    let mut hit = 0;
    for at in 0..blocks {
        let mut block = vec![0; 4096];
        let lba = block::Lba(at * 8);
        let read = Request::read(lba, Sectors(8)).with(block::Data::Read(&mut block));
        device.submit(Time::ZERO, read).unwrap();
        // The footer: number, inode.
        let word = |i: usize| u32::from_le_bytes(block[i..i + 4].try_into().unwrap());
        let (nid, owner) = (word(4072), word(4076));
        if owner == ino.0 && nid != ino.0 && nid > 3 {
            block[4076..4080].copy_from_slice(&(ino.0 + 1).to_le_bytes());
            let write = Request::write(lba, Sectors(8)).with(block::Data::Write(&block));
            device.submit(Time::ZERO, write).unwrap();
            hit += 1;
        }
    }
    assert!(hit >= 1, "no node was found");
    volume.mount(device);
    let fs = volume.fs.as_mut().unwrap();
    assert_eq!((fs.failed(), fs.is_read_only()), (None, false));
    let refused = fs.truncate(now(60), ino, Bytes(0));
    assert!(matches!(refused, Err(FsError::Corrupt(_))), "{refused:?}");
    assert!(fs.failed().is_some_and(|why| why.contains("contradicts itself")), "{:?}", fs.failed());
    assert!(matches!(fs.cause(), Some(FsError::Corrupt(_))), "{:?}", fs.cause());
    assert!(fs.is_read_only());
    let refused = fs.create(now(61), Nid::ROOT, b"b", FileType::File, NEW, (0, 0));
    assert!(matches!(refused, Err(FsError::ReadOnly(_))), "{refused:?}");
    assert_eq!(fs.lookup(now(62), Nid::ROOT, b"a"), Ok(ino), "it is read on");
}
