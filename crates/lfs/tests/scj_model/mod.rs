//! A tiny log-structured file system with a cleaning journal, whose rules can be switched off, over
//! a device with a volatile cache.

mod recovery;

use std::collections::{BTreeMap, BTreeSet};

use block::Rng;
use varve_lfs::BlockAddr;
use varve_lfs::scj::Move;

const SEGMENTS: u32 = 14;
const PER_SEG: u32 = 4;
const BLOCKS: usize = (SEGMENTS * PER_SEG) as usize;
pub const FILES: usize = 4;
const FILE_BLOCKS: usize = 3;
const SLOTS: u32 = 4;

/// The rules, as in the design: each may be off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// The cleaner copies the on-disk block, never the dirty node that is in memory.
    Raw,
    /// Blocks reachable from fsynced nodes belong to what recovery needs.
    FsyncJ,
    /// Segments with nodes of the roll-forward chain are no victims before the next checkpoint.
    Pin,
    /// Pointers of a rolled-forward node pass through the records written after it.
    Trans,
    /// Summaries are read as of the checkpoint, not from the copy that is overwritten in place.
    Ssa,
    /// Merging follows the order of records per original block, not a union of address pairs.
    Order,
    /// FLUSH before the record and FUA on it, before the victim is used again.
    Flush,
    /// A rule of fsync: data is flushed before the marked node is written.
    DataFlush,
}

/// How often each operation is drawn, of 100; the rest are checkpoints.
#[derive(Clone, Copy)]
pub struct Mix {
    pub write: u64,
    pub truncate: u64,
    pub fsync: u64,
    pub clean: u64,
    /// Files that are used.
    pub files: usize,
    pub steps: (u64, u64),
}

pub type Pointers = [Option<u32>; FILE_BLOCKS];

#[derive(Clone, Copy, PartialEq, Debug)]
enum What {
    Data(usize, usize),
    Node(usize),
}

#[derive(Clone, PartialEq, Debug)]
enum Block {
    Data { file: usize, index: usize, version: u32 },
    Node { file: usize, cp: u32, marked: bool, map: Pointers, next: u32, slot: u32 },
}

#[derive(Clone, Debug)]
struct Checkpoint {
    version: u32,
    nat: [Option<u32>; FILES],
    valid: [bool; BLOCKS],
    summary: Vec<Option<What>>,
    heads: BTreeSet<u32>,
    chain: u32,
}

#[derive(Clone, Debug)]
struct Record {
    version: u32,
    moves: Vec<Move>,
}

/// One place of the device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Place {
    Block(u32),
    Ssa(u32),
    Pack(u32),
    Slot(u32),
}

#[derive(Clone, Debug)]
enum Contents {
    Block(Block),
    Ssa(Vec<Option<What>>),
    Pack(Box<Checkpoint>),
    Slot(Record),
}

type Media = BTreeMap<Place, Contents>;

/// Power went, inside a flush.
pub struct Crash;

#[derive(Clone, Copy)]
enum Log {
    Data = 0,
    Node = 1,
    Moved = 2,
}

pub struct Model {
    rng: Rng,
    off: Vec<Rule>,
    crashes: bool,
    durable: Media,
    image: Media,
    volatile: Vec<(Place, Contents)>,
    cur: [bool; BLOCKS],
    rec: [bool; BLOCKS],
    summary: Vec<Option<What>>,
    nat: [Option<u32>; FILES],
    map: [Pointers; FILES],
    dirty: BTreeSet<usize>,
    user: [Pointers; FILES],
    clock: u32,
    version: u32,
    slot: u32,
    chain: BTreeSet<u32>,
    heads: [(u32, u32); 3],
    next_node: Option<u32>,
    pub cleans: u64,
    pub stable: [Pointers; FILES],
    pub in_flight: [Option<Pointers>; FILES],
}

fn seg(block: u32) -> u32 {
    block / PER_SEG
}

fn blocks_of(segment: u32) -> std::ops::Range<u32> {
    segment * PER_SEG..(segment + 1) * PER_SEG
}

impl Model {
    pub fn new(seed: u64, off: &[Rule]) -> Model {
        let mut model = Model {
            rng: Rng::new(seed),
            off: off.to_vec(),
            crashes: false,
            durable: Media::new(),
            image: Media::new(),
            volatile: Vec::new(),
            cur: [false; BLOCKS],
            rec: [false; BLOCKS],
            summary: vec![None; BLOCKS],
            nat: [None; FILES],
            map: [[None; FILE_BLOCKS]; FILES],
            dirty: BTreeSet::new(),
            user: [[None; FILE_BLOCKS]; FILES],
            clock: 0,
            version: 0,
            slot: 0,
            chain: BTreeSet::new(),
            heads: [(0, 0), (1, 0), (2, 0)],
            next_node: Some(3),
            cleans: 0,
            stable: [[None; FILE_BLOCKS]; FILES],
            in_flight: [None; FILES],
        };
        assert!(model.checkpoint().is_ok(), "the first checkpoint is not cut");
        model.crashes = true;
        model
    }

    fn keeps(&self, rule: Rule) -> bool {
        !self.off.contains(&rule)
    }

    // --- device

    fn put(&mut self, place: Place, contents: Contents) {
        self.volatile.push((place, contents.clone()));
        self.image.insert(place, contents);
    }

    fn flush(&mut self) -> Result<(), Crash> {
        if self.crashes && self.rng.ratio(1, 50) {
            return Err(Crash);
        }
        self.durable.extend(self.volatile.drain(..));
        Ok(())
    }

    // --- allocation

    fn needed(&self, block: u32) -> bool {
        self.cur[block as usize] || self.rec[block as usize]
    }

    fn busy(&self, segment: u32) -> bool {
        self.heads.iter().any(|head| head.0 == segment) || self.next_node == Some(segment)
    }

    fn free(&self) -> Vec<u32> {
        let empty = |g: &u32| !self.busy(*g) && !blocks_of(*g).any(|b| self.needed(b));
        (0..SEGMENTS).filter(empty).collect()
    }

    fn pick_free(&mut self) -> u32 {
        let free = self.free();
        *self.rng.pick(&free)
    }

    fn alloc(&mut self, log: Log) -> u32 {
        let (full, at) = self.heads[log as usize];
        if at == PER_SEG {
            let summary = blocks_of(full).map(|b| self.summary[b as usize]).collect();
            self.put(Place::Ssa(full), Contents::Ssa(summary));
            let opened = match (log, self.next_node.take()) {
                (Log::Node, Some(next)) => {
                    self.heads[log as usize] = (next, 0);
                    self.next_node = Some(self.pick_free());
                    next
                }
                (_, kept) => {
                    self.next_node = kept;
                    self.pick_free()
                }
            };
            self.heads[log as usize] = (opened, 0);
            blocks_of(opened).for_each(|b| self.summary[b as usize] = None);
        }
        let head = &mut self.heads[log as usize];
        head.1 += 1;
        head.0 * PER_SEG + head.1 - 1
    }

    fn next_node_address(&self) -> u32 {
        let (segment, at) = self.heads[Log::Node as usize];
        if at < PER_SEG {
            segment * PER_SEG + at
        } else {
            self.next_node.expect("chosen early") * PER_SEG
        }
    }

    // --- operations

    fn write(&mut self, file: usize, index: usize) {
        let new = self.alloc(Log::Data);
        self.clock += 1;
        let version = self.clock;
        self.put(Place::Block(new), Contents::Block(Block::Data { file, index, version }));
        self.user[file][index] = Some(version);
        self.summary[new as usize] = Some(What::Data(file, index));
        self.cur[new as usize] = true;
        self.dirty.insert(file);
        if let Some(old) = self.map[file][index].replace(new) {
            self.cur[old as usize] = false;
        }
    }

    fn truncate(&mut self, file: usize, index: usize) {
        self.user[file][index] = None;
        if let Some(old) = self.map[file][index].take() {
            self.cur[old as usize] = false;
            self.dirty.insert(file);
        }
    }

    fn write_node(&mut self, file: usize, marked: bool) -> u32 {
        let new = self.alloc(Log::Node);
        let (cp, map, slot) = (self.version, self.map[file], self.slot);
        let next = self.next_node_address();
        let node = Block::Node { file, cp, marked, map, next, slot };
        self.put(Place::Block(new), Contents::Block(node));
        self.summary[new as usize] = Some(What::Node(file));
        self.cur[new as usize] = true;
        self.dirty.remove(&file);
        self.chain.insert(seg(new));
        if let Some(old) = self.nat[file].replace(new) {
            self.cur[old as usize] = false;
        }
        new
    }

    fn fsync(&mut self, file: usize) -> Result<(), Crash> {
        self.in_flight = [None; FILES];
        self.in_flight[file] = Some(self.user[file]);
        if self.keeps(Rule::DataFlush) {
            self.flush()?;
        }
        let node = self.write_node(file, true);
        self.flush()?;
        if self.keeps(Rule::FsyncJ) {
            self.rec[node as usize] = true;
            self.map[file].iter().flatten().for_each(|b| self.rec[*b as usize] = true);
        }
        self.stable[file] = self.user[file];
        self.in_flight = [None; FILES];
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), Crash> {
        self.in_flight = self.user.map(Some);
        for file in std::mem::take(&mut self.dirty) {
            self.write_node(file, false);
        }
        self.flush()?;
        let version = self.version + 1;
        let pack = Checkpoint {
            version,
            nat: self.nat,
            valid: self.cur,
            summary: self.summary.clone(),
            heads: self.heads.iter().map(|head| head.0).collect(),
            chain: self.next_node_address(),
        };
        self.put(Place::Pack(version % 2), Contents::Pack(Box::new(pack)));
        self.flush()?;
        (self.version, self.rec, self.slot) = (version, self.cur, 0);
        self.chain.clear();
        self.stable = self.user;
        self.in_flight = [None; FILES];
        Ok(())
    }

    fn victim(&mut self) -> Option<u32> {
        let mut best: Option<((usize, u64), u32)> = None;
        for g in 0..SEGMENTS {
            let n = blocks_of(g).filter(|b| self.needed(*b)).count();
            let pinned = self.keeps(Rule::Pin) && self.chain.contains(&g);
            if self.busy(g) || n == 0 || n == PER_SEG as usize || pinned {
                continue;
            }
            let key = (n, self.rng.next_u64());
            if best.is_none_or(|(least, _)| key < least) {
                best = Some((key, g));
            }
        }
        best.map(|(_, g)| g)
    }

    /// Whether a segment was cleaned.
    fn clean(&mut self) -> Result<bool, Crash> {
        if self.slot == SLOTS {
            self.checkpoint()?;
        }
        let Some(victim) = self.victim() else { return Ok(false) };
        if self.free().len() < 2 {
            return Ok(false);
        }
        let mut moves = Vec::new();
        for old in blocks_of(victim) {
            if !self.needed(old) {
                continue;
            }
            let new = self.alloc(Log::Moved);
            let what = self.summary[old as usize].expect("a block that is needed has a summary");
            let Some(Contents::Block(block)) = self.image.get(&Place::Block(old)) else {
                panic!("block {old} was never written");
            };
            let mut block = block.clone();
            if self.cur[old as usize] {
                self.relocate(what, new, &mut block);
            }
            self.put(Place::Block(new), Contents::Block(block));
            self.summary[new as usize] = Some(what);
            self.cur[new as usize] = self.cur[old as usize];
            if self.rec[old as usize] {
                moves.push(Move { old: BlockAddr(old), new: BlockAddr(new) });
                self.rec[new as usize] = true;
            }
        }
        if self.keeps(Rule::Flush) {
            self.flush()?;
        }
        let record = Record { version: self.version, moves };
        self.put(Place::Slot(self.slot), Contents::Slot(record));
        if self.keeps(Rule::Flush) {
            self.flush()?;
        }
        for b in blocks_of(victim) {
            (self.cur[b as usize], self.rec[b as usize]) = (false, false);
        }
        self.slot += 1;
        self.cleans += 1;
        Ok(true)
    }

    fn relocate(&mut self, what: What, new: u32, block: &mut Block) {
        match what {
            What::Data(file, index) => {
                self.map[file][index] = Some(new);
                self.dirty.insert(file);
            }
            What::Node(file) => {
                if !self.keeps(Rule::Raw) && self.dirty.remove(&file) {
                    let Block::Node { map, .. } = block else { panic!("a node at {new}") };
                    *map = self.map[file];
                }
                self.nat[file] = Some(new);
            }
        }
    }

    /// Whether there is room to go on.
    fn make_room(&mut self) -> Result<bool, Crash> {
        for _ in 0..8 {
            if self.free().len() >= 4 {
                return Ok(true);
            }
            if !self.clean()? {
                self.checkpoint()?;
            }
        }
        if self.free().len() < 4 {
            self.checkpoint()?;
        }
        Ok(self.free().len() >= 4)
    }

    /// Works until the power goes, the steps are done or the volume is too full (false).
    pub fn work(&mut self, mix: Mix) -> Result<bool, Crash> {
        for _ in 0..self.rng.between(mix.steps.0, mix.steps.1) {
            if !self.make_room()? {
                return Ok(false);
            }
            let file = self.rng.below(mix.files as u64) as usize;
            let index = self.rng.below(FILE_BLOCKS as u64) as usize;
            let mut draw = self.rng.below(100);
            let mut is = |share: u64| {
                let hit = draw < share;
                draw = draw.wrapping_sub(share);
                hit
            };
            if is(mix.write) {
                self.write(file, index);
            } else if is(mix.truncate) {
                self.truncate(file, index);
            } else if is(mix.fsync) {
                self.fsync(file)?;
            } else if is(mix.clean) {
                self.clean()?;
            } else {
                self.checkpoint()?;
            }
        }
        Ok(true)
    }
}
