//! The store at work: the user's operations, one flush thread and the compaction threads, in the
//! order of their clocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use block::{AppId, Bytes, Rng, Span, Time, UNIT_BYTES};

use super::super::ycsb::{self, KvOp, Operations};
use super::alloc::{Allocator, Extent, merge};
use super::cache::Cache;
use super::job::{Effect, Job, Plan, SET_ASIDE, Step, Writer, cost, cut, pieces};
use super::popularity::{Popularity, pages};
use super::tree::{Choice, File, Planned, Shape, Tree};
use super::{META, Params, Phase};
use crate::{BLOCK_RECORDS, Flags, Record, Source, SourceError, TraceOp};

/// A commit of the file system's journal takes this long (ps).
const COMMIT: u64 = 1_000_000_000;
/// Puts go on at this many bytes a second where level 0 is long (RocksDB's delayed write rate).
const DELAYED: u64 = 16 << 20;
/// The write-ahead log is written at this many bytes a second: the device's pace.
const LOG_RATE: u64 = 5_000_000_000;
/// Parts of a memtable that are inserted at once.
const PARTS: u64 = 16;

/// A full memtable: its keys (of the run), puts and bytes.
struct Memtable {
    keys: BTreeSet<u64>,
    entries: u64,
    inserted: u64,
    puts: u64,
}

impl Memtable {
    fn empty() -> Memtable {
        Memtable { keys: BTreeSet::new(), entries: 0, inserted: 0, puts: 0 }
    }
}

pub(super) struct Engine {
    p: Arc<Params>,
    out: VecDeque<Record>,
    /// Requests of the load go nowhere where only the run is asked for.
    muted: bool,
    origin: Option<u64>,
    tree: Tree,
    law: Popularity,
    space: Allocator,
    /// Freed since the last commit.
    freed: BTreeMap<u64, u64>,
    journal: u64,
    edits: u64,
    cache: Cache,
    layout: Rng,
    memtable: Memtable,
    full: VecDeque<Memtable>,
    flush: Option<Job>,
    compactions: Vec<Option<Job>>,
    user_at: u64,
    blocked: bool,
    /// Records to insert (or to fill with), then operations to run.
    inserts: u64,
    operations: Option<Operations>,
    ops: u64,
    failed: bool,
}

/// Bits of a hash as a number of [0, 1).
fn unit(x: u64) -> f64 {
    let mixed = (x ^ x >> 31).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 11) as f64 / (1u64 << 53) as f64
}

impl Engine {
    pub fn new(p: Arc<Params>) -> Engine {
        let stream = |purpose: &str| Rng::stream(p.seed, &format!("{}/lsm/{purpose}", p.app));
        let run = p.phase == Phase::Run || p.phase == Phase::LoadRun;
        let law = match run {
            true => Popularity::scrambled(p.records, p.count),
            false => Popularity::uniform(p.records),
        };
        let operations = run.then(|| {
            Operations::new(p.workload, p.records, p.count, stream("operation"), stream("key"))
        });
        let shape = Shape {
            file: p.file,
            base: p.level1,
            growth: p.growth,
            trigger: p.trigger as usize,
            records: p.records as f64,
            record: p.record as f64 * (1.0 + super::job::INDEX_PPM as f64 / 1e6),
        };
        let area = Extent { start: META, len: p.area - META };
        Engine {
            out: VecDeque::new(),
            muted: p.phase == Phase::Run,
            origin: None,
            tree: Tree::new(shape),
            law,
            space: Allocator::new(area, p.placement, stream("placement")),
            freed: BTreeMap::new(),
            journal: 0,
            edits: 0,
            cache: Cache::new((p.cache / p.block()) as usize),
            layout: stream("layout"),
            memtable: Memtable::empty(),
            full: VecDeque::new(),
            flush: None,
            compactions: (0..p.threads).map(|_| None).collect(),
            user_at: 0,
            blocked: false,
            inserts: if p.phase == Phase::Fill { p.count } else { p.records },
            ops: if run { p.count } else { 0 },
            operations,
            failed: false,
            p,
        }
    }

    fn emit(&mut self, at: u64, op: TraceOp, offset: u64, len: u64) {
        if self.muted {
            return;
        }
        let origin = *self.origin.get_or_insert(at);
        self.out.push_back(Record {
            at: (Time::ZERO + Span::from_ps(at - origin)).min(Time::LIMIT),
            offset: Bytes(offset),
            len: Bytes(len),
            response: None,
            app: AppId(0),
            op,
            flags: Flags::default(),
            hint: 0,
        });
    }

    fn take(&mut self, len: u64) -> Result<Vec<Extent>, SourceError> {
        if let Some(extents) = self.space.take(len) {
            return Ok(extents);
        }
        let area = Bytes(self.p.area).human();
        Err(SourceError::Recipe(format!("recipe `lsm`: area=`{area}`: too small for the files")))
    }

    /// A journal commit: a few pages, a flush, the commit page, a flush; then the discards of what
    /// was freed, each run once.
    fn commit(&mut self, at: u64) {
        let pages = self.layout.between(1, 9);
        for pages in [pages, 1] {
            let ring = (META - super::JOURNAL) / UNIT_BYTES;
            self.journal = if self.journal + pages > ring { 0 } else { self.journal };
            let offset = super::JOURNAL + self.journal * UNIT_BYTES;
            self.emit(at, TraceOp::Write, offset, pages * UNIT_BYTES);
            self.emit(at, TraceOp::Flush, 0, 0);
            self.journal += pages;
        }
        for (start, len) in std::mem::take(&mut self.freed) {
            if self.p.discard {
                self.emit(at, TraceOp::Discard, start, len);
            }
            self.space.give(Extent { start, len });
        }
    }

    fn start_jobs(&mut self, now: u64) -> Result<(), SourceError> {
        if self.flush.is_none()
            && let Some(memtable) = self.full.front()
        {
            let (entries, inserted, puts) = (memtable.entries, memtable.inserted, memtable.puts);
            let distinct = match (memtable.keys.len() as u64, puts) {
                (0, 0) => inserted as f64,
                (0, puts) => self.law.share(puts as f64) * self.p.records as f64,
                (keys, _) => (keys + inserted) as f64,
            };
            self.flush = Some(self.plan_flush(now, entries, distinct, inserted, puts)?);
        }
        for slot in 0..self.compactions.len() {
            while self.compactions[slot].is_none() {
                let Some(choice) = self.tree.choose() else { break };
                if choice.lower.is_empty() && choice.upper.len() == 1 && choice.level > 0 {
                    // Nothing below: the file only changes its level.
                    for file in self.tree.remove(choice.level, &choice.upper) {
                        let File { low, high, inserted, puts, size, extents, .. } = file;
                        let planned = Planned { low, high, inserted, puts, size };
                        self.tree.add(choice.level + 1, planned, extents);
                    }
                    continue;
                }
                self.compactions[slot] = Some(self.plan_compaction(now, choice)?);
            }
        }
        Ok(())
    }

    fn plan_flush(
        &mut self,
        at: u64,
        entries: u64,
        distinct: f64,
        inserted: u64,
        puts: u64,
    ) -> Result<Job, SourceError> {
        let mut plan = Plan::default();
        let (sizes, rate) = (self.p.sizes, self.p.rate);
        let log = self.take(self.p.memtable * SET_ASIDE / 100)?;
        let cut = cut(sizes, &mut self.layout);
        plan.run(TraceOp::Write, &log, (0, entries * self.p.record), sizes.write, cut, LOG_RATE);
        plan.steps.push_back(Step::Commit);
        let size = ((distinct * self.tree.shape.record) as u64).max(1);
        let extents = self.take(size.max(self.p.memtable) * SET_ASIDE / 100)?;
        let mut writer = Writer::new(extents, size, sizes, &mut self.layout);
        writer.advance(&mut plan, size, sizes, rate);
        let extents = writer.close(&mut plan, rate);
        plan.steps.extend([Step::Manifest, Step::Commit, Step::Apply, Step::Commit]);
        let records = self.p.records as f64;
        let (inserted, puts) = (inserted as f64 / records, puts as f64);
        let file = Planned { low: 0.0, high: 1.0, inserted, puts, size };
        Ok(Job { at, steps: plan.steps, effect: Some(Effect::Flush { file, extents, log }) })
    }

    fn plan_compaction(&mut self, at: u64, choice: Choice) -> Result<Job, SourceError> {
        let (sizes, rate) = (self.p.sizes, self.p.rate);
        let upper = self.tree.held(choice.level, &choice.upper);
        let lower = self.tree.held(choice.level + 1, &choice.lower);
        let inputs: Vec<&File> = upper.iter().chain(&lower).copied().collect();
        let planned = self.tree.merge(&inputs, choice.output, &self.law);
        // Each file of level 0 is a run; the files of another level are one.
        let mut runs: Vec<Vec<(Vec<Extent>, u64)>> = Vec::new();
        for (level, files) in [(choice.level, &upper), (choice.level + 1, &lower)] {
            for (n, file) in files.iter().enumerate() {
                if level == 0 || n == 0 {
                    runs.push(Vec::new());
                }
                if let Some(run) = runs.last_mut() {
                    run.push((file.extents.clone(), file.size));
                }
            }
        }
        let mut plan = Plan::default();
        let mut files: Vec<(Planned, Vec<Extent>)> = Vec::new();
        let mut writers = VecDeque::new();
        for planned in planned {
            let extents = self.take(planned.size.max(self.p.file) * SET_ASIDE / 100)?;
            writers
                .push_back((planned, Writer::new(extents, planned.size, sizes, &mut self.layout)));
        }
        let total_out: u64 = writers.iter().map(|(planned, _)| planned.size).sum();
        let totals: Vec<u64> = runs.iter().map(|run| run.iter().map(|f| f.1).sum()).collect();
        let mut read = vec![0u64; runs.len()];
        let mut places = vec![(0usize, 0u64); runs.len()];
        // Half of the inputs are read in whole requests, the others as the kernel cuts calls.
        let mut way = || match cut(sizes, &mut self.layout).filter(|_| sizes.cut) {
            Some(cut) if self.layout.ratio(1, 2) => (sizes.write.max(sizes.read), Some(cut)),
            _ => (sizes.read, None),
        };
        let ways: Vec<(u64, Option<u64>)> = runs.iter().map(|_| way()).collect();
        let mut closed = 0;
        loop {
            let behind = (0..runs.len()).filter(|r| read[*r] < totals[*r]);
            let part = |read: &[u64], r: usize| read[r] as f64 / totals[r] as f64;
            let order = |a: &usize, b: &usize| part(&read, *a).total_cmp(&part(&read, *b));
            let next = behind.min_by(|a, b| order(a, b).then(a.cmp(b)));
            if let Some(run) = next {
                let (file, from) = places[run];
                let (extents, size) = &runs[run][file];
                if from == 0 {
                    plan.index(extents, *size, rate);
                }
                let to = (from + sizes.ahead).min(*size);
                let (call, cut) = ways[run];
                plan.run(TraceOp::Read, extents, (from, to), call, cut, rate);
                read[run] += to - from;
                places[run] = if to == *size { (file + 1, 0) } else { (file, to) };
            }
            let least = (0..runs.len()).map(|r| part(&read, r)).fold(1.0, f64::min);
            let ready = if next.is_none() { total_out } else { (least * total_out as f64) as u64 };
            while let Some((planned, writer)) = writers.front_mut() {
                let size = planned.size;
                writer.advance(&mut plan, ready.saturating_sub(closed).min(size), sizes, rate);
                if ready < closed + size {
                    break;
                }
                closed += size;
                if let Some((planned, writer)) = writers.pop_front() {
                    files.push((planned, writer.close(&mut plan, rate)));
                }
            }
            if next.is_none() {
                break;
            }
        }
        plan.steps.extend([Step::Manifest, Step::Commit, Step::Apply, Step::Commit]);
        Ok(Job { at, steps: plan.steps, effect: Some(Effect::Compaction { choice, files }) })
    }

    /// The next step of `job`, which goes on at a later time or is done.
    fn step(&mut self, mut job: Job) -> Option<Job> {
        let at = job.at;
        match job.steps.pop_front()? {
            Step::Io(op, offset, len, cost) => {
                self.emit(at, op, offset, len);
                job.at = at.saturating_add(cost);
            }
            Step::Manifest => {
                let page = self.edits / 10 % (super::JOURNAL / UNIT_BYTES);
                self.edits += 1;
                self.emit(at, TraceOp::Write, page * UNIT_BYTES, UNIT_BYTES);
            }
            Step::Commit => {
                self.commit(at);
                job.at = at.saturating_add(COMMIT);
            }
            Step::Free(extent) => merge(&mut self.freed, extent),
            Step::Apply => self.apply(job.effect.take(), at),
        }
        (!job.steps.is_empty()).then_some(job)
    }

    fn apply(&mut self, effect: Option<Effect>, now: u64) {
        match effect {
            Some(Effect::Flush { file, extents, log }) => {
                self.tree.add(0, file, extents);
                log.into_iter().for_each(|extent| merge(&mut self.freed, extent));
                self.full.pop_front();
            }
            Some(Effect::Compaction { choice, files }) => {
                for file in self.tree.apply(choice, files) {
                    file.extents.into_iter().for_each(|e| merge(&mut self.freed, e));
                }
            }
            None => {}
        }
        if self.blocked && !self.stalls() {
            self.blocked = false;
            self.user_at = self.user_at.max(now);
        }
    }

    /// Two memtables are full, or level 0 is as long as it may be.
    fn stalls(&self) -> bool {
        self.full.len() >= 2 || self.tree.levels[0].len() as u64 >= self.p.stop
    }

    /// How long `puts` puts take, `ps` each unless level 0 is long.
    fn pace(&self, puts: u64, ps: u64) -> u64 {
        let long = self.tree.levels[0].len() as u64 >= self.p.slowdown;
        let ps = if long { ps.max(cost(self.p.record, DELAYED)) } else { ps };
        puts.saturating_mul(ps)
    }

    /// Moves a full memtable to the flush thread.
    fn rotate(&mut self) {
        if self.memtable.entries >= self.p.entries() {
            self.full.push_back(std::mem::replace(&mut self.memtable, Memtable::empty()));
            self.blocked = self.stalls();
        }
    }

    /// The user's next step, or `false` at the end.
    fn user(&mut self) -> bool {
        if self.inserts > 0 {
            let room = self.p.entries() - self.memtable.entries;
            let part = (self.p.entries() / PARTS).max(1).min(room).min(self.inserts);
            self.inserts -= part;
            self.memtable.entries += part;
            match self.p.phase {
                Phase::Fill => self.memtable.puts += part,
                _ => self.memtable.inserted += part,
            }
            self.user_at = self.user_at.saturating_add(self.pace(part, self.p.insert_ps));
            self.rotate();
            return true;
        }
        if self.ops == 0 {
            return false;
        }
        self.muted = false;
        self.ops -= 1;
        let Some(operation) = self.operations.as_mut().map(Operations::draw_ranked) else {
            return false;
        };
        let (at, (op, rank)) = (self.user_at, operation);
        let (key, puts) = match op {
            KvOp::Read(key) => (key, false),
            KvOp::Update(key) | KvOp::ReadModifyWrite(key) => (key, true),
            KvOp::Insert(_) | KvOp::Scan(..) => return false,
        };
        self.get(at, key, rank);
        if matches!(op, KvOp::ReadModifyWrite(_)) {
            // The benchmark reads, then updates, which reads again.
            self.get(at, key, rank);
        }
        if puts {
            self.memtable.keys.insert(key);
            self.memtable.entries += 1;
            self.memtable.puts += 1;
            self.rotate();
        }
        // Compactions take the processor: with each that runs an operation takes as long again.
        let busy = self.compactions.iter().flatten().count() as u64;
        self.user_at = at.saturating_add(self.pace(1, self.p.op_ps * (1 + busy)));
        true
    }

    /// Reads a key: from the newest file on until one has it.
    fn get(&mut self, at: u64, key: u64, rank: u64) {
        if self.memtable.keys.contains(&key) || self.full.iter().any(|m| m.keys.contains(&key)) {
            return;
        }
        let hash = ycsb::hash(key);
        let (place, inserted_at) = (unit(hash), unit(hash ^ 0x5555));
        let (mut before, mut level, mut back) = (0.0, 0, 0);
        while level < self.tree.levels.len() {
            let files = &self.tree.levels[level];
            let file = match level {
                0 => files.len().checked_sub(1 + back).map(|n| &files[n]),
                _ => files.get(files.partition_point(|f| f.high <= place)),
            };
            (level, back) =
                if level == 0 && file.is_some() { (0, back + 1) } else { (level + 1, 0) };
            let Some(file) = file.filter(|f| f.low <= place) else { continue };
            before += file.inserted;
            let updated = file.puts > 0.0
                && unit(hash.wrapping_add(file.id << 20)) < self.law.touched(rank, file.puts);
            let found = inserted_at < before || updated;
            if self.p.filter && !found && unit(hash ^ file.id << 7) >= 0.01 {
                continue;
            }
            let blocks = (file.size / self.p.block()).max(1);
            let block = (place - file.low) / (file.high - file.low) * blocks as f64;
            let block = (block as u64).min(blocks - 1);
            let (start, len) = pages(block * self.p.block(), self.p.block().min(file.size));
            let pieces: Vec<Extent> = pieces(&file.extents, start, len).collect();
            if !self.cache.touch(file.id, block) {
                pieces.iter().for_each(|e| self.emit(at, TraceOp::Read, e.start, e.len));
            }
            if found {
                return;
            }
        }
    }

    /// What is due first happens; `false` at the end of the stream.
    fn advance(&mut self, now: &mut u64) -> Result<bool, SourceError> {
        self.start_jobs(*now)?;
        let user = if self.blocked { u64::MAX } else { self.user_at };
        let flush = self.flush.as_ref().map_or(u64::MAX, |job| job.at);
        let due = |job: &Option<Job>| job.as_ref().map_or(u64::MAX, |job| job.at);
        let slot = (0..self.compactions.len()).min_by_key(|slot| due(&self.compactions[*slot]));
        let compaction = slot.map_or(u64::MAX, |slot| due(&self.compactions[slot]));
        *now = user.min(flush).min(compaction);
        if *now == u64::MAX {
            return Ok(false);
        }
        if flush == *now {
            self.flush = self.flush.take().and_then(|job| self.step(job));
        } else if let (Some(slot), true) = (slot, compaction == *now) {
            self.compactions[slot] = self.compactions[slot].take().and_then(|job| self.step(job));
        } else {
            return Ok(self.user());
        }
        Ok(true)
    }
}

/// The engine and its clock as a source.
pub(super) struct LsmSource {
    pub engine: Engine,
    pub now: u64,
    pub ended: bool,
}

impl Source for LsmSource {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        while block.len() < BLOCK_RECORDS {
            if let Some(record) = self.engine.out.pop_front() {
                block.push(record);
            } else if self.ended || self.engine.failed {
                break;
            } else {
                match self.engine.advance(&mut self.now) {
                    Ok(more) => self.ended = !more,
                    Err(error) => {
                        self.engine.failed = true;
                        block.clear();
                        return Err(error);
                    }
                }
            }
        }
        Ok(())
    }
}
