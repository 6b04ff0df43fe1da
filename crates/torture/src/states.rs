//! The state of a drive after a power cut: pure, and always built forward from the blank drive.
//!
//! What a drive promises, and no more:
//! * A change that was answered before a flush **began** is durable when that flush was answered; a forced one
//!   is when it was answered itself.
//! * Whatever is not durable may be there or not, each block by itself, in any of the versions that were
//!   written since it was durable last: a drive writes its buffer back in an order of its own. A block has
//!   the size that is atomic for the drive: 512 or 4096 bytes.
//! * A forced change of several blocks is not one of them: cut before it was answered, each block is old or new.
//! * After a discard that is not durable: the old data, or zeroes.

use std::collections::BTreeMap;
use std::fmt;

use block::{Plant, Rng};
use stack::datalog::{Op, Record, SECTOR};

use crate::history::{History, Said, said};

/// What survives a cut of what was not durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Left {
    /// Nothing.
    Worst,
    /// Everything.
    All,
    /// Each block in a version drawn from the seed.
    Seed(u64),
    /// These blocks in these versions (1 is the first since it was durable), no others.
    Keep(Vec<(u64, u32)>),
    /// Nothing since this record: what a drive leaves whose flushes do nothing.
    Lying(usize),
}

/// A power cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The number of a record: it and whatever comes behind never happened.
    pub at: usize,
    /// What survives.
    pub left: Left,
}

/// Bugs that the self-test plants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Planted {
    /// A flush makes nothing durable.
    FlushIgnored,
    /// A forced write is one like any other.
    FuaAsWrite,
    /// A discard is durable at once.
    TrimEarly,
    /// A promise is heard of one flush late.
    MarkLate,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 4] =
        [Planted::FlushIgnored, Planted::FuaAsWrite, Planted::TrimEarly, Planted::MarkLate];
}

/// The hash of a state: the same for the same bytes, whoever builds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct StateHash(pub u128);

impl fmt::Display for StateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A drive after a cut.
#[derive(Clone, Debug)]
pub struct State {
    /// The source of each of its sectors.
    pub sectors: Vec<u32>,
    /// Of its bytes.
    pub hash: StateHash,
    /// Blocks that were pending.
    pub pending: usize,
    /// Those that did not survive in their last version.
    pub lost: usize,
}

/// One version of a block that is not durable.
#[derive(Clone, Copy, Debug)]
struct Version {
    record: usize,
    /// Sectors of the block that it wrote, a bit each.
    sectors: u8,
}

/// Builds states of a history, later and later.
#[derive(Debug)]
pub struct Builder<'a> {
    history: &'a History,
    /// Sectors of a block.
    block: u64,
    bug: Plant<Planted>,
    /// The record that comes next.
    next: usize,
    durable: Vec<u32>,
    hash: u128,
    pending: BTreeMap<u64, Vec<Version>>,
    promised: Vec<String>,
    /// Began, and was not promised.
    begun: Vec<String>,
    /// Said since the last flush: for a planted bug.
    late: Vec<String>,
}

impl<'a> Builder<'a> {
    /// At the blank drive. `atomic` is the size of a block in bytes: 512 or 4096.
    pub fn new(history: &'a History, atomic: u64) -> Builder<'a> {
        Builder::with(history, atomic, Plant::default())
    }

    #[doc(hidden)]
    pub fn with(history: &'a History, atomic: u64, bug: Plant<Planted>) -> Builder<'a> {
        assert!(atomic == 512 || atomic == 4096, "{atomic}: a block of 512 or 4096 bytes");
        Builder {
            history,
            block: atomic / SECTOR,
            bug,
            next: 0,
            durable: vec![0; (history.size() / SECTOR) as usize],
            hash: 0,
            pending: BTreeMap::new(),
            promised: Vec::new(),
            begun: Vec::new(),
            late: Vec::new(),
        }
    }

    /// The record that has not happened yet.
    pub fn at(&self) -> usize {
        self.next
    }

    /// Promises so far.
    pub fn promised(&self) -> &[String] {
        &self.promised
    }

    /// What began and was not promised.
    pub fn begun(&self) -> &[String] {
        &self.begun
    }

    /// The hash of what is durable.
    pub fn durable(&self) -> StateHash {
        StateHash(self.hash)
    }

    /// Blocks that are not durable, with their versions: from the block's number how many.
    pub fn pending(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.open().into_iter().map(|(block, versions)| (block, versions.len() as u32))
    }

    /// The forced change that comes next, as versions of its blocks: a cut before its answer may be one within it. A change
    /// of one block is there or not, and either is another cut; any other is there in part as what is pending then.
    pub fn under_way(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.next_forced()
            .map(|(block, _)| (block, self.pending.get(&block).map_or(0, Vec::len) as u32 + 1))
    }

    fn next_forced(&self) -> impl Iterator<Item = (u64, Version)> + use<'a> {
        let record = self.history.records().get(self.next);
        let changes = |r: &&Record| matches!(r.op, Op::Write | Op::Trim | Op::Zero);
        let forced = record.filter(changes).filter(|record| self.is_forced(record));
        let number = self.next;
        let parts: Vec<_> = forced.map(|record| self.parts(record)).into_iter().flatten().collect();
        let several = parts.len() > 1;
        let version = move |(block, sectors)| (block, Version { record: number, sectors });
        parts.into_iter().filter(move |_| several).map(version)
    }

    /// All that is not durable, of the change that is under way too.
    fn open(&self) -> BTreeMap<u64, Vec<Version>> {
        let mut open = self.pending.clone();
        for (block, version) in self.next_forced() {
            open.entry(block).or_default().push(version);
        }
        open
    }

    /// Lets everything before record `at` happen. Never goes back.
    pub fn forward(&mut self, at: usize) {
        assert!(at >= self.next, "states are built forward: {} is over", self.next);
        while self.next < at.min(self.history.records().len()) {
            self.step();
        }
    }

    fn step(&mut self) {
        let (number, history) = (self.next, self.history);
        let record = &history.records()[number];
        self.next += 1;
        match record.op {
            Op::FlushBegin => {}
            Op::FlushEnd => {
                if !self.bug.has(Planted::FlushIgnored) {
                    self.flushed(record.at as usize);
                }
                self.promised.append(&mut self.late);
            }
            Op::Mark => self.mark(record),
            Op::Write | Op::Trim | Op::Zero => self.change(number, record),
        }
    }

    fn mark(&mut self, record: &Record) {
        if record.ours {
            return;
        }
        match said(self.history.log().text(record)) {
            Said::Ready => {}
            Said::Begin(what) => self.begun.push(what.to_string()),
            Said::Promise(what) => {
                self.begun.retain(|begun| begun != what);
                let late = self.bug.has(Planted::MarkLate);
                let to = if late { &mut self.late } else { &mut self.promised };
                to.push(what.to_string());
            }
        }
    }

    fn set(&mut self, sector: u64, source: u32) {
        let at = sector as usize;
        self.hash = self
            .hash
            .wrapping_sub(self.history.weight(sector, self.durable[at]))
            .wrapping_add(self.history.weight(sector, source));
        self.durable[at] = source;
    }

    /// The sectors that a version wrote.
    fn written(&self, block: u64, version: Version) -> impl Iterator<Item = (u64, u32)> + use<'a> {
        let (history, first, count) = (self.history, block * self.block, self.block);
        (0..count)
            .filter(move |i| version.sectors >> i & 1 == 1)
            .map(move |i| (first + i, history.source(version.record, first + i)))
    }

    /// What was answered before record `began` is durable.
    fn flushed(&mut self, began: usize) {
        let pending = std::mem::take(&mut self.pending);
        for (block, versions) in pending {
            let (done, left): (Vec<_>, Vec<_>) =
                versions.into_iter().partition(|version| version.record < began);
            for version in done {
                for (sector, source) in self.written(block, version) {
                    self.set(sector, source);
                }
            }
            if !left.is_empty() {
                self.pending.insert(block, left);
            }
        }
    }

    fn is_forced(&self, record: &Record) -> bool {
        record.fua && !self.bug.has(Planted::FuaAsWrite)
    }

    /// The blocks of a change, and which sectors of each it writes.
    fn parts(&self, record: &Record) -> impl Iterator<Item = (u64, u8)> + use<> {
        let (first, end) = (record.at / SECTOR, (record.at + record.bytes) / SECTOR);
        let size = self.block;
        (first / size..end.div_ceil(size)).map(move |block| {
            let within = (0..size).filter(|i| (first..end).contains(&(block * size + i)));
            (block, within.fold(0u8, |all, i| all | 1 << i))
        })
    }

    fn change(&mut self, number: usize, record: &Record) {
        let early = self.bug.has(Planted::TrimEarly) && record.op == Op::Trim;
        let forced = self.is_forced(record) || early;
        for (block, sectors) in self.parts(record) {
            if !forced {
                let versions = self.pending.entry(block).or_default();
                versions.push(Version { record: number, sectors });
                continue;
            }
            // What it replaces cannot come back.
            if let Some(versions) = self.pending.get_mut(&block) {
                versions.iter_mut().for_each(|version| version.sectors &= !sectors);
                versions.retain(|version| version.sectors != 0);
                if versions.is_empty() {
                    self.pending.remove(&block);
                }
            }
            for (sector, source) in self.written(block, Version { record: number, sectors }) {
                self.set(sector, source);
            }
        }
    }

    /// The drive, if the power goes now. ([`Left::Lying`] is for whoever goes to that record first.)
    pub fn state(&self, left: &Left) -> State {
        let open = self.open();
        let mut state = State {
            sectors: self.durable.clone(),
            hash: StateHash(self.hash),
            pending: open.len(),
            lost: open.len(),
        };
        let keep: BTreeMap<u64, u32> = match left {
            Left::Worst | Left::Lying(_) => return state,
            Left::All => self.pending().collect(),
            Left::Keep(kept) => kept.iter().copied().collect(),
            Left::Seed(seed) => {
                let mut rng = Rng::stream(*seed, "torture/left");
                self.pending()
                    .map(|(block, versions)| (block, rng.between(0, u64::from(versions)) as u32))
                    .collect()
            }
        };
        let mut hash = self.hash;
        for (block, versions) in &open {
            let count = keep.get(block).map_or(0, |count| *count as usize).min(versions.len());
            state.lost -= usize::from(count == versions.len());
            for version in &versions[..count] {
                for (sector, source) in self.written(*block, *version) {
                    let now = &mut state.sectors[sector as usize];
                    hash = hash
                        .wrapping_sub(self.history.weight(sector, *now))
                        .wrapping_add(self.history.weight(sector, source));
                    *now = source;
                }
            }
        }
        state.hash = StateHash(hash);
        state
    }
}

/// Builds the state of any cut: goes on from where it is if it can.
#[derive(Debug)]
pub struct States<'a> {
    history: &'a History,
    atomic: u64,
    builder: Builder<'a>,
}

/// A state, and what the program had said by then.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The drive.
    pub state: State,
    /// What was promised.
    pub promised: Vec<String>,
    /// What began and was not promised.
    pub begun: Vec<String>,
}

impl<'a> States<'a> {
    /// Of a history, with blocks of `atomic` bytes.
    pub fn new(history: &'a History, atomic: u64) -> States<'a> {
        States { history, atomic, builder: Builder::new(history, atomic) }
    }

    /// At a cut.
    pub fn builder(&mut self, at: usize) -> &Builder<'a> {
        if at < self.builder.at() {
            self.builder = Builder::new(self.history, self.atomic);
        }
        self.builder.forward(at);
        &self.builder
    }

    /// The state of a cut.
    pub fn at(&mut self, cut: &Cut) -> Moment {
        let honest = match cut.left {
            Left::Lying(since) => since.min(cut.at),
            _ => cut.at,
        };
        let state = self.builder(honest).state(&cut.left);
        let builder = self.builder(cut.at);
        Moment { state, promised: builder.promised.clone(), begun: builder.begun.clone() }
    }
}
