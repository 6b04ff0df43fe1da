//! Cleaning: what is needed of a segment is copied elsewhere, and the segment is free (paper 2,
//! section II-B) — in the baselines after the next checkpoint, with a journal at once.
//!
//! Invariants:
//! * a copy's pointer or table entry follows in memory; nothing of it is on media yet;
//! * a baseline writes a node as it is in memory, into its own log: a checkpoint precedes the use
//!   of the victim. Journalled cleaning copies the block as it lies there, and the dirty node stays
//!   dirty (rule `raw`), into the cold log, where no chain leads (rule `pin`);
//! * with a journal: copies, flush, record with FUA, and only then the victim is let go (rule
//!   `flush`).

use block::BlockDevice;

use super::options::{Bug, Cleaning};
use super::tree::Pointer;
use super::victim::choose;
use super::{Fs, LogKind, Trigger};
use crate::disk::Cause;
use crate::format::{Block, Origin, Summary, zeroed};
use crate::scj::Move;
use crate::{BlockAddr, FsError, SegNo};

/// Rounds of cleaning that may end without more free segments than there ever were.
const STUCK: u32 = 4;

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
}

impl<D: BlockDevice> Fs<D> {
    /// What cleaning did since the mount.
    pub fn cleaning(&self) -> CleaningCounts {
        self.cleaned
    }

    /// Segments whose holes a log went through since the mount.
    pub fn threaded(&self) -> u64 {
        self.threaded
    }

    /// Free segments, by cleaning and checkpoints, if there are too few. As many as wanted may be
    /// more than there can be (a volume that is full, or was filled by others); then what the
    /// next operation and a checkpoint need is enough. Without even that: no space.
    pub(super) fn make_room(&mut self) -> Result<(), FsError> {
        let (mut best, mut stuck) = (0, 0);
        // Each round gains a block or is a checkpoint.
        for _ in 0..4 * self.layout.main_segs {
            if self.segs.free() > self.least_free() {
                return Ok(());
            }
            if self.nodes.dirty() > 2 * self.options.dirty {
                self.checkpoint(Trigger::Dirty)?;
            }
            let gained = match self.options.cleaning {
                Cleaning::Bl415 => self.clean_415(),
                Cleaning::Bl6 => self.clean_6(),
                Cleaning::Scj(_) => self.clean_journalled(),
            };
            // A node that is not there is no answer to who asked for something else.
            let gained = gained.map_err(|error| match error {
                FsError::NotFound => FsError::Corrupt("a summary names a node that is not there"),
                other => other,
            })?;
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
        if let Some(victim) = victim {
            self.move_segment(victim)?;
        }
        self.checkpoint(Trigger::Cleaning)?;
        Ok(victim.is_some() || waiting)
    }

    /// One call of the kernel's: a victim counts as free although only a checkpoint releases it.
    fn clean_6(&mut self) -> Result<bool, FsError> {
        let mut gained = self.segs.prefree() > 0;
        if gained {
            self.checkpoint(Trigger::Cleaning)?;
        }
        let mut freed = 0;
        while self.segs.free() + freed <= self.least_free() {
            let Some(victim) = choose(&self.segs, self.options.victim) else { break };
            self.move_segment(victim)?;
            freed += 1;
            gained = true;
            if self.segs.free() <= self.dirty_segments() + 3 && self.segs.prefree() > 0 {
                self.checkpoint(Trigger::Cleaning)?;
                freed = 0;
            }
        }
        Ok(gained)
    }

    fn clean_journalled(&mut self) -> Result<bool, FsError> {
        if self.journal.is_full() {
            self.checkpoint(Trigger::JournalFull)?;
            return Ok(true);
        }
        if let Some(victim) = choose(&self.segs, self.options.victim) {
            self.move_segment(victim)?;
            return Ok(true);
        }
        let before = self.segs.free();
        self.checkpoint(Trigger::Emergency)?;
        Ok(self.segs.free() > before || choose(&self.segs, self.options.victim).is_some())
    }

    pub(super) fn read_summary(&mut self, seg: SegNo) -> Result<Box<Block>, FsError> {
        let mut block = zeroed();
        self.disk.read(self.layout.summary(seg), &mut block)?;
        Ok(block)
    }

    pub(super) fn move_segment(&mut self, victim: SegNo) -> Result<(), FsError> {
        // No log may be threaded through it meanwhile.
        self.victim = Some(victim);
        let summary_block = self.read_summary(victim)?;
        let summary = Summary::decode(&summary_block);
        let mut moves = Vec::new();
        for at in 0..self.layout.per_seg {
            let (old, origin) = (self.layout.block(victim, at), summary.origins[at as usize]);
            let (valid, needed) = (self.segs.is_valid(old), self.segs.in_rec(old));
            if self.journals() && (valid || needed) {
                let new = self.copy_block(old, origin, summary.nodes, valid)?;
                if needed {
                    moves.push(Move { old, new });
                    self.segs.need(new)?;
                }
            } else if valid && summary.nodes {
                self.move_node(old, origin)?;
            } else if valid {
                self.move_data(old, origin)?;
            } else {
                continue;
            }
            self.cleaned.copied += 1;
            self.cleaned.pre_invalid += u64::from(!valid);
        }
        self.victim = None;
        self.cleaned.segments += 1;
        if self.journals() {
            if !moves.is_empty() {
                self.write_record(&moves, &summary_block)?;
                self.cleaned.records += 1;
                self.cleaned.entries += moves.len() as u64;
            }
            self.segs.release(victim);
        }
        Ok(())
    }

    fn move_node(&mut self, old: BlockAddr, origin: Origin) -> Result<(), FsError> {
        if self.nat_entry(origin.nid)?.addr != old {
            return Err(FsError::Corrupt("a summary names a node that lies elsewhere"));
        }
        let ino = self.node(origin.nid)?.ino();
        if self.nodes.is_dirty(ino, origin.nid) {
            self.epoch.moved.insert((ino, origin.nid));
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

    fn move_data(&mut self, old: BlockAddr, origin: Origin) -> Result<(), FsError> {
        let at = self.owner(old, origin)?;
        let mut block = zeroed();
        self.disk.read(old, &mut block)?;
        let new = self.alloc(LogKind::ColdData, origin)?;
        self.disk.write(new, &block, Cause::MovedData)?;
        self.segs.clear(old, self.elapsed())?;
        self.repoint(at, new)
    }

    /// A verbatim copy; if the block is valid, what names it follows.
    fn copy_block(
        &mut self,
        old: BlockAddr,
        origin: Origin,
        node: bool,
        valid: bool,
    ) -> Result<BlockAddr, FsError> {
        let mut block = zeroed();
        self.disk.read(old, &mut block)?;
        let (log, cause) = match node {
            true => (LogKind::ColdNode, Cause::MovedNode),
            false => (LogKind::ColdData, Cause::MovedData),
        };
        if !valid {
            let new = self.alloc_needed(log, origin)?;
            self.disk.write(new, &block, cause)?;
            return Ok(new);
        }
        let at = if node { None } else { Some(self.owner(old, origin)?) };
        let entry = self.nat_entry(origin.nid)?;
        if node && entry.addr != old {
            return Err(FsError::Corrupt("a summary names a node that lies elsewhere"));
        }
        if node && self.options.bug == Some(Bug::Raw) {
            let mut there = self.node(origin.nid)?.clone();
            let found = crate::format::NodeBlock(block);
            there.stamp(found.written_after(), found.next());
            block = there.0;
        }
        let new = self.alloc(log, origin)?;
        self.disk.write(new, &block, cause)?;
        match at {
            Some(at) => self.repoint(at, new)?,
            None => self.set_nat(origin.nid, crate::format::NatEntry { addr: new, ..entry })?,
        }
        self.segs.clear(old, self.elapsed())?;
        Ok(new)
    }

    /// A pointer follows a block that was moved; counts stay.
    pub(super) fn repoint(&mut self, at: Pointer, new: BlockAddr) -> Result<(), FsError> {
        let node = self.node_mut(at.nid)?;
        node.set_word(at.slot, new.0);
        let ino = node.ino();
        if self.node(ino)?.has_extent() {
            self.node_mut(ino)?.clear_extent();
        }
        Ok(())
    }
}
