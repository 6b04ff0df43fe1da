//! Room: what is in use, and what is done before an operation to have enough.

use block::BlockDevice;

use super::file::BLOCK;
use super::names::ENTRY_COST;
use super::options::Cleaning;
use super::{Fs, LogKind, Trigger};
use crate::disk::For;
use crate::{FsError, Nid, Now};

/// Blocks, and node numbers, that nothing new gets: a full volume still renames, and lets two names
/// change places, which needs them for a moment or for a directory that grows.
const KEPT: u64 = 4 * ENTRY_COST;

/// What a volume holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// 4 KiB blocks that users may have.
    pub blocks: u64,
    /// Of them, blocks in use.
    pub used_blocks: u64,
    /// Of the others, blocks that new data and new names may have: a few are kept for renames.
    pub available_blocks: u64,
    /// Node numbers.
    pub nodes: u64,
    /// Of them, those in use.
    pub used_nodes: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// Segments of the main area that are free.
    pub free_segments: u64,
}

impl<D: BlockDevice> Fs<D> {
    /// What the volume holds.
    ///
    /// # Errors
    /// None today.
    pub fn usage(&mut self, now: Now) -> Result<Usage, FsError> {
        self.look(now, |fs| {
            let (blocks, used_blocks) = (fs.cp().user_blocks, fs.counts.blocks());
            Ok(Usage {
                blocks,
                used_blocks,
                available_blocks: blocks.saturating_sub(used_blocks + KEPT),
                nodes: u64::from(fs.layout.nids()),
                used_nodes: fs.counts.nodes(),
                inodes: fs.counts.inodes(),
                free_segments: fs.segs.free() as u64,
            })
        })
    }

    /// Refuses what would need more blocks or node numbers than there are.
    pub(super) fn room(&mut self, blocks: u64, nodes: u64) -> Result<(), FsError> {
        let fits = self.counts.blocks() + blocks <= self.cp().user_blocks;
        if fits && self.nat.available(self.counts.nodes()) >= nodes {
            Ok(())
        } else {
            Err(FsError::NoSpace)
        }
    }

    /// The same before something new is added, which leaves what is kept.
    pub(super) fn room_to_add(&mut self, blocks: u64, nodes: u64) -> Result<(), FsError> {
        self.room(blocks + KEPT, nodes + KEPT)
    }

    /// Refuses a write that has no room: blocks that the file has, set apart or written, need none.
    pub(super) fn room_to_write(&mut self, ino: Nid, at: u64, len: u64) -> Result<(), FsError> {
        let added = self.room_to_add(len.div_ceil(BLOCK) + 7, 6);
        if added.is_ok() || self.inode(ino)?.is_inline_data() {
            return added;
        }
        match self.holes(ino, at / BLOCK, (at + len).div_ceil(BLOCK))? {
            0 => Ok(()),
            missing => self.room_to_add(missing + 6, 6),
        }
    }

    /// Without more free segments than these nothing may be added: a checkpoint takes those that
    /// what is dirty fills and one more for each log that it writes to; cleaning one to go into.
    pub(super) fn floor_free(&self) -> usize {
        self.dirty_segments() + 5
    }

    /// Before an operation that adds nothing, or little, and may give back much: what a full volume
    /// still does.
    pub(super) fn balance_little(&mut self) -> Result<(), FsError> {
        match self.balance() {
            Err(FsError::NoSpace) => {
                // What is dirty is durable then, and the next checkpoint needs little.
                self.checkpoint(Trigger::Emergency)?;
                if self.segs.free() > 3 { Ok(()) } else { Err(FsError::NoSpace) }
            }
            other => other,
        }
    }

    /// Before an operation: not too much is dirty, and there are free segments.
    pub(super) fn balance(&mut self) -> Result<(), FsError> {
        let (nodes, pages, most) = (self.nodes.dirty(), self.pages.dirty(), self.options.dirty);
        let much = |most: usize| nodes > most || pages > most || nodes + pages > most + most / 2;
        if self.is_frozen() && much(2 * most) {
            // What is dirty is bounded while a checkpoint is on its way, too.
            return Err(FsError::Again);
        }
        if much(most) {
            self.ask_checkpoint(Trigger::Dirty)?;
        }
        let most = self.layout.main_segs as usize * self.options.prefree as usize;
        if self.segs.prefree() * 100 > most {
            self.ask_checkpoint(Trigger::Prefree)?;
        }
        self.make_room()
    }

    /// Segments that a checkpoint may need.
    pub(super) fn dirty_segments(&self) -> usize {
        let per = self.layout.per_seg as usize;
        let data = self.held_back.div_ceil(per as u64) as usize;
        self.nodes.dirty().div_ceil(per) + 2 * self.pages.dirty().div_ceil(per) + data
    }

    /// Somebody above holds back so many blocks of data (a cache that writes later): free segments
    /// for them are kept, as the kernel does in its pure log mode.
    pub fn hold_back(&mut self, blocks: u64) {
        self.held_back = blocks;
    }

    /// With so few free segments or fewer, cleaning comes first.
    ///
    /// A rest of less than a segment that fits into the heads needs no segment. Seen in traces of
    /// kernel 6.1: half of its calls end without having gained a segment, because the copies of one
    /// victim made the head of cold data a fresh segment (docs/scj.md).
    pub(super) fn least_free(&self) -> usize {
        use LogKind::{ColdData, HotData, HotNode, WarmData, WarmNode};
        let per = self.layout.per_seg as usize;
        let segments = |blocks: usize, heads: &[LogKind]| {
            let room = heads.iter().map(|kind| per - self.logs[*kind as usize].offset as usize);
            let fits = room.min().is_some_and(|least| blocks % per <= least);
            blocks / per + usize::from(!fits)
        };
        self.cp().reserved_segments as usize
            + segments(self.nodes.dirty(), &[HotNode, WarmNode])
            + 2 * segments(self.pages.dirty(), &[HotData])
            + segments(self.held_back as usize, &[HotData, WarmData, ColdData])
    }

    /// With so few free segments or fewer, callers clean.
    pub(super) fn wanted_free(&self) -> usize {
        if self.options.late { self.floor_free() } else { self.least_free() }
    }

    /// After an operation: the adaptive checkpoint (paper 2, section V).
    pub(super) fn after_change(&mut self) -> Result<(), FsError> {
        let Cleaning::Scj(scj) = self.options.cleaning else { return Ok(()) };
        self.counted.pre_invalid(self.segs.pre_invalid());
        let threshold = scj.threshold.unwrap_or(self.layout.blocks / 128);
        if self.segs.pre_invalid() <= threshold {
            return Ok(());
        }
        let before = self.disk.set_aside(For::Cleaning);
        let made = self.ask_checkpoint(Trigger::PreInvalid);
        self.disk.go_on(before);
        match made {
            // The operation is done; the next one asks again.
            Err(FsError::Again) => Ok(()),
            made => made,
        }
    }
}
