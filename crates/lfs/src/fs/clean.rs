//! Cleaning: what is needed of a segment is copied elsewhere, and the segment is free (paper 2,
//! section II-B) — in the baselines after the next checkpoint, with a journal at once.
//!
//! Invariants:
//! * a copy's pointer or table entry follows in memory; nothing of it is on media yet;
//! * a baseline writes a node as it is in memory, into its own log: a checkpoint precedes the use
//!   of the victim. Journalled cleaning copies the block as it lies there, and the dirty node stays
//!   dirty (rule `raw`), into the cold log, where no chain leads (rule `pin`);
//! * with a journal: copies, flush, record with FUA, and only then the victim is let go (rule
//!   `flush`); several victims may share the flush and the write (`Scj::batch`).
//!
//! Here callers clean, and wait for it; `clean_ahead` copies by the same rules and lets nobody wait.

use block::BlockDevice;

use super::journal::Record;
use super::options::{Bug, Cleaning};
use super::stats::{CleaningTime, Event};
use super::tree::Pointer;
use super::victim::choose;
use super::{Fs, LogKind, Trigger};
use crate::disk::Cause;
use crate::format::{BLOCK_BYTES, Block, Origin, Summary};
use crate::scj::Move;
use crate::{BlockAddr, FsError, SegNo};

/// Rounds of cleaning that may end without more free segments than there ever were.
const STUCK: u32 = 4;

/// An error of cleaning: a node that is not there is no answer to who asked for something else.
pub(super) fn of_summaries(error: FsError) -> FsError {
    match error {
        FsError::NotFound => FsError::Corrupt("a summary names a node that is not there"),
        other => other,
    }
}

/// What cleaning did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CleaningCounts {
    /// Segments cleaned.
    pub segments: u64,
    /// Blocks copied.
    pub copied: u64,
    /// Of them, pre-invalid ones.
    pub pre_invalid: u64,
    /// Records written.
    pub records: u64,
    /// Entries in them.
    pub entries: u64,
    /// Of the segments, those cleaned in the background.
    pub background: u64,
    /// Of the segments, those cleaned ahead of need.
    pub ahead: u64,
    /// Victims read ahead of need for nothing: they were free, or used again, before they were copied.
    pub stale: u64,
    /// Operations that had to wait for cleaning ahead of need.
    pub waits: u64,
}

/// One cleaning.
#[derive(Default)]
pub(super) struct Cleaned {
    copied: u32,
    pre_invalid: u32,
    /// Dirty blocks of metadata before and after.
    dirty: [u32; 2],
    time: CleaningTime,
}

/// What was read of a victim: its summary, and blocks by place. A baseline's nodes are written as they
/// are in memory, and not read.
pub(super) struct Contents {
    pub(super) summary: Box<Block>,
    pub(super) addrs: Vec<BlockAddr>,
    /// Those blocks, and maybe more bytes behind them.
    pub(super) blocks: Vec<u8>,
}

impl Contents {
    fn block(&self, addr: BlockAddr) -> Result<&Block, FsError> {
        let missing = FsError::Corrupt("a block of a victim that was not read");
        let at = self.addrs.binary_search(&addr).map_err(|_| missing.clone())? * BLOCK_BYTES;
        let there = self.blocks.get(at..at + BLOCK_BYTES).ok_or(missing.clone())?;
        there.try_into().map_err(|_| missing)
    }
}

/// A victim whose blocks are copied, and what its record will say.
pub(super) struct Copied {
    pub(super) victim: SegNo,
    pub(super) record: Record,
    pub(super) done: Cleaned,
}

impl<D: BlockDevice> Fs<D> {
    /// What cleaning did since the mount.
    pub fn cleaning(&self) -> CleaningCounts {
        self.cleaner.counts()
    }

    /// Segments whose holes a log went through since the mount.
    pub fn threaded(&self) -> u64 {
        self.cleaner.threaded()
    }

    /// Free segments, by cleaning and checkpoints, if there are too few. As many as wanted may be
    /// more than there can be (a volume that is full, or was filled by others); then what the
    /// next operation and a checkpoint need is enough. Without even that: no space.
    pub(super) fn make_room(&mut self) -> Result<(), FsError> {
        if self.options.ahead > 0 {
            return self.make_room_ahead();
        }
        let (mut best, mut stuck) = (0, 0);
        // Each round gains a block or is a checkpoint.
        for _ in 0..4 * self.layout.main_segs {
            if self.segs.free() > self.wanted_free() {
                return Ok(());
            }
            if self.nodes.dirty() > 2 * self.options.dirty {
                self.checkpoint_here(Trigger::Dirty)?;
            }
            let gained = match self.options.cleaning {
                Cleaning::Bl415 => self.clean_415(),
                Cleaning::Bl6 => self.clean_6(),
                Cleaning::Scj(_) => self.clean_journalled(),
            };
            let gained = gained.map_err(of_summaries)?;
            stuck = if self.segs.free() > best { 0 } else { stuck + 1 };
            best = best.max(self.segs.free());
            let enough = self.segs.free() > self.floor_free();
            if !gained || (enough && stuck >= STUCK) {
                break;
            }
            if self.options.cleaning == Cleaning::Bl6
                && self.segs.free() > self.dirty_segments() + 3
            {
                return Ok(());
            }
        }
        if self.segs.free() > self.floor_free() { Ok(()) } else { Err(FsError::NoSpace) }
    }

    fn clean_415(&mut self) -> Result<bool, FsError> {
        let victim = choose(&self.segs, self.options.victim);
        let waiting = self.segs.prefree() > 0;
        let cleaned = victim.map(|victim| self.move_segment(victim)).transpose()?;
        let before = self.disk.clock();
        self.checkpoint_here(Trigger::Cleaning)?;
        if let Some(mut cleaned) = cleaned {
            cleaned.time.checkpoint = self.disk.clock().since(before);
            self.count_cleaning(cleaned);
        }
        Ok(victim.is_some() || waiting)
    }

    /// One call of the kernel's: a victim counts as free although only a checkpoint releases it.
    fn clean_6(&mut self) -> Result<bool, FsError> {
        let mut gained = self.segs.prefree() > 0;
        if gained {
            self.checkpoint_here(Trigger::Cleaning)?;
        }
        let mut freed = 0;
        while self.segs.free() + freed <= self.wanted_free() {
            let Some(victim) = choose(&self.segs, self.options.victim) else { break };
            let cleaned = self.move_segment(victim)?;
            self.count_cleaning(cleaned);
            freed += 1;
            gained = true;
            if self.segs.free() <= self.dirty_segments() + 3 && self.segs.prefree() > 0 {
                self.checkpoint_here(Trigger::Cleaning)?;
                freed = 0;
            }
        }
        Ok(gained)
    }

    fn clean_journalled(&mut self) -> Result<bool, FsError> {
        if self.journal.is_full() {
            self.checkpoint_here(Trigger::JournalFull)?;
            return Ok(true);
        }
        let Cleaning::Scj(scj) = self.options.cleaning else { return Ok(false) };
        let most = scj.batch.min(self.journal.left()) as usize;
        let mut batch: Vec<Copied> = Vec::new();
        // Copies of further victims take room that only their records give back.
        while batch.is_empty() || batch.len() < most && self.segs.free() > self.floor_free() {
            let Some(victim) = choose(&self.segs, self.options.victim) else { break };
            self.disk.fresh();
            match self.copy_segment(victim) {
                Err(FsError::Again) if !batch.is_empty() => break,
                copied => batch.push(copied?),
            }
        }
        if !batch.is_empty() {
            for cleaned in self.let_go(batch)? {
                self.count_cleaning(cleaned);
            }
            return Ok(true);
        }
        let before = self.segs.free();
        self.checkpoint_here(Trigger::Emergency)?;
        Ok(self.segs.free() > before || choose(&self.segs, self.options.victim).is_some())
    }

    pub(super) fn count_cleaning(&mut self, one: Cleaned) {
        self.counted.cleaning(&one.time);
        let Cleaned { copied, pre_invalid, dirty, time } = one;
        let at = self.disk.clock();
        self.counted.event(Event::Cleaned { at, copied, pre_invalid, dirty, time });
    }

    /// What of a victim is copied: places, and whether each is valid.
    pub(super) fn needed_of(&self, victim: SegNo) -> Vec<(BlockAddr, u32, bool)> {
        // Room at once: a list that grows would be moved several times for each victim.
        let mut all = Vec::with_capacity(usize::from(self.segs.of(victim).needed));
        let used = self.segs.used_of(victim, self.journals());
        all.extend(used.map(|(at, valid)| (self.layout.block(victim, at), at, valid)));
        all
    }

    /// Cleans one segment.
    pub(super) fn move_segment(&mut self, victim: SegNo) -> Result<Cleaned, FsError> {
        let copied = self.copy_segment(victim)?;
        if !self.journals() {
            return Ok(copied.done);
        }
        let done = self.let_go(vec![copied])?.pop();
        done.ok_or(FsError::Corrupt("a cleaning that was not"))
    }

    /// Makes the moves of victims durable, in their order, and frees the victims.
    fn let_go(&mut self, batch: Vec<Copied>) -> Result<Vec<Cleaned>, FsError> {
        let (mut records, mut victims, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for one in batch {
            victims.push(one.victim);
            all.push(one.done);
            if !one.record.moves.is_empty() {
                records.push(one.record);
            }
        }
        if !records.is_empty() {
            let copied = self.disk.clock();
            let flushed = self.write_records(&records)?;
            // They waited together: the last of them is told of it.
            if let Some(last) = all.last_mut() {
                last.time.flush = flushed.since(copied);
                last.time.journal = self.disk.clock().since(flushed);
            }
        }
        victims.into_iter().for_each(|victim| self.let_one_go(victim));
        Ok(all)
    }

    /// What was copied of a victim is found without it: it is free.
    pub(super) fn let_one_go(&mut self, victim: SegNo) {
        if !self.options.bug.has(Bug::BatchEarly) {
            self.segs.release(victim);
        }
    }

    /// Reads what is needed of a segment and copies it.
    fn copy_segment(&mut self, victim: SegNo) -> Result<Copied, FsError> {
        if self.is_frozen() {
            // Copies would belong to neither checkpoint for sure.
            return Err(FsError::Again);
        }
        let start = self.disk.clock();
        let summary = self.read_summary(victim)?;
        let chosen = self.disk.clock();
        let addrs = self.wanted_blocks(victim, &summary);
        let bytes = addrs.len() * BLOCK_BYTES;
        let mut blocks = self.cleaner.buffer(bytes);
        self.disk.read_all(&addrs, &mut blocks[..bytes])?;
        self.prepare_owners(&self.needed_of(victim), &Summary::decode(&summary))?;
        let mut copied = self.copy_contents(victim, Contents { summary, addrs, blocks })?;
        copied.done.time.init = chosen.since(start);
        copied.done.time.copy = self.disk.clock().since(chosen);
        Ok(copied)
    }

    /// The blocks to read of a victim.
    pub(super) fn wanted_blocks(&self, victim: SegNo, summary: &Block) -> Vec<BlockAddr> {
        if !self.journals() && Summary::decode(summary).nodes {
            return Vec::new();
        }
        self.needed_of(victim).iter().map(|(addr, ..)| *addr).collect()
    }

    /// Copies what is needed of a segment; with a journal the segment waits for its record.
    pub(super) fn copy_contents(
        &mut self,
        victim: SegNo,
        contents: Contents,
    ) -> Result<Copied, FsError> {
        // No log may be threaded through it meanwhile.
        self.cleaner.begin(victim);
        let mut one = Cleaned { dirty: [self.dirty_blocks(); 2], ..Cleaned::default() };
        let summary = Summary::decode(&contents.summary);
        let wanted = self.needed_of(victim);
        let journals = self.journals();
        let mut moves = Vec::with_capacity(if journals { wanted.len() } else { 0 });
        for (old, at, valid) in wanted {
            let origin = summary.origins[at as usize];
            if !journals && summary.nodes {
                self.move_node(old, origin)?;
            } else if !journals {
                self.move_data(old, origin, contents.block(old)?)?;
            } else {
                let there = contents.block(old)?;
                let new = self.copy_block(old, origin, (summary.nodes, valid), there)?;
                if self.segs.in_rec(old) {
                    moves.push(Move { old, new });
                    self.segs.need(new)?;
                }
            }
            one.copied += 1;
            one.pre_invalid += u32::from(!valid);
        }
        self.cleaner.end(contents.blocks, one.copied, one.pre_invalid);
        self.counted.cleaned_segment(summary.nodes);
        if self.options.drain {
            self.disk.wait()?;
        }
        one.dirty[1] = self.dirty_blocks();
        if self.options.bug.has(Bug::DiscardEarly) && journals {
            self.disk.discard(self.layout.block(victim, 0), self.layout.per_seg)?;
        }
        if journals {
            self.segs.set_copied(victim);
        }
        if self.options.bug.has(Bug::BatchEarly) && journals {
            self.segs.release(victim);
        }
        Ok(Copied { victim, record: Record { moves, summary: contents.summary }, done: one })
    }

    fn move_node(&mut self, old: BlockAddr, origin: Origin) -> Result<(), FsError> {
        if self.nat_entry(origin.nid)?.addr != old {
            return Err(FsError::Corrupt("a summary names a node that lies elsewhere"));
        }
        let ino = self.node(origin.nid)?.ino();
        if self.nodes.is_dirty(ino, origin.nid) {
            self.epoch.moved(ino, origin.nid);
        }
        self.write_node(origin.nid, (false, false), Cause::MovedNode)?;
        Ok(())
    }

    /// The pointer that names a valid data block.
    pub(super) fn owner(&mut self, old: BlockAddr, origin: Origin) -> Result<Pointer, FsError> {
        let at = Pointer { nid: origin.nid, slot: usize::from(origin.slot) };
        let fits = self.nat_entry(origin.nid)?.version == origin.version;
        if fits && self.pointed(at)? == old {
            return Ok(at);
        }
        Err(FsError::Corrupt("a summary names a pointer that names another block"))
    }

    fn move_data(&mut self, old: BlockAddr, origin: Origin, block: &Block) -> Result<(), FsError> {
        let at = self.owner(old, origin)?;
        let new = self.alloc(LogKind::ColdData, origin)?;
        self.disk.write(new, block, Cause::MovedData)?;
        self.segs.clear(old, self.elapsed())?;
        self.repoint(at, new)
    }

    /// A verbatim copy; if the block is valid, what names it follows.
    fn copy_block(
        &mut self,
        old: BlockAddr,
        origin: Origin,
        (node, valid): (bool, bool),
        block: &Block,
    ) -> Result<BlockAddr, FsError> {
        let wrong = self.options.bug.has(Bug::CopyInChain);
        let (log, cause) = match node {
            true if wrong => (LogKind::WarmNode, Cause::MovedNode),
            true => (LogKind::ColdNode, Cause::MovedNode),
            false => (LogKind::ColdData, Cause::MovedData),
        };
        if !valid {
            let new = self.alloc_needed(log, origin)?;
            self.disk.write(new, block, cause)?;
            return Ok(new);
        }
        let at = if node { None } else { Some(self.owner(old, origin)?) };
        let entry = self.nat_entry(origin.nid)?;
        if node && entry.addr != old {
            return Err(FsError::Corrupt("a summary names a node that lies elsewhere"));
        }
        let mut newer = None;
        if node && self.options.bug.has(Bug::Raw) {
            let mut there = self.node(origin.nid)?.clone();
            let found = crate::format::NodeBlock(Box::new(*block));
            there.stamp(found.written_after(), found.next());
            newer = Some(there.0);
        }
        let new = self.alloc(log, origin)?;
        self.disk.write(new, newer.as_deref().unwrap_or(block), cause)?;
        match at {
            Some(at) => self.repoint(at, new)?,
            None => self.set_nat(origin.nid, crate::format::NatEntry { addr: new, ..entry })?,
        }
        self.segs.clear(old, self.elapsed())?;
        Ok(new)
    }

    /// A pointer follows a block that was moved, which may not be durable yet; counts stay.
    pub(super) fn repoint(&mut self, at: Pointer, new: BlockAddr) -> Result<(), FsError> {
        let node = self.node_mut(at.nid)?;
        node.set_word(at.slot, new.0);
        let ino = node.ino();
        if !self.options.bug.has(Bug::MovedEarly) {
            self.epoch.wrote(ino, self.disk.mark());
        }
        if self.node(ino)?.has_extent() {
            self.node_mut(ino)?.clear_extent();
        }
        Ok(())
    }
}
