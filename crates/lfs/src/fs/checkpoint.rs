//! Checkpoints: what is in memory becomes what a mount finds (paper 2, section II-C).
//!
//! Invariants: each phase waits for the one before; tables go into the copies that are not live and
//! the pack into the place of the older one, so that the durable checkpoint stays whole until the
//! last block of the new one, written after a flush and durable itself, replaces it.

use std::collections::BTreeSet;

use block::BlockDevice;

use super::durable::{Counted, Frozen};
use super::jobs::Covering;
use super::options::Bug;
use super::stats::{CheckpointTime, Event};
use super::{Fs, LogKind};
use crate::disk::{Cause, Disk};
use crate::format::{
    Block, Checkpoint, Flags, Heads, Journal, OrphanBlock, SIT_PER_BLOCK, msb_set, msb_test, zeroed,
};
use crate::{BlockAddr, FsError, Nid, Now, SegNo};

/// What asked for a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Trigger {
    Mount,
    Unmount,
    Sync,
    Dirty,
    Prefree,
    Cleaning,
    JournalFull,
    PreInvalid,
    Emergency,
    /// Nobody asked for anything for a while.
    Idle,
    /// Background cleaning.
    Background,
    Recovery,
    Fsync(FsyncFallback),
}

/// Why an fsync was a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum FsyncFallback {
    NotRegular,
    Links,
    Renamed,
    ParentNotDurable,
    ParentXattrs,
    ParentRenames,
    Xattrs,
    FreedNodes,
    NoRoom,
    /// Its data was written again before each flush.
    Rewritten,
}

impl Trigger {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::Mount => "CP mount",
            Trigger::Unmount => "CP unmount",
            Trigger::Sync => "CP sync",
            Trigger::Dirty => "CP dirty",
            Trigger::Prefree => "CP prefree",
            Trigger::Cleaning => "CP cleaning",
            Trigger::JournalFull => "CP journal full",
            Trigger::PreInvalid => "CP pre-invalid",
            Trigger::Emergency => "CP emergency",
            Trigger::Recovery => "CP recovery",
            Trigger::Idle => "CP idle",
            Trigger::Background => "CP background",
            Trigger::Fsync(why) => why.name(),
        }
    }
}

impl FsyncFallback {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            FsyncFallback::NotRegular => "CP fsync: not regular",
            FsyncFallback::Links => "CP fsync: links",
            FsyncFallback::Renamed => "CP fsync: renamed",
            FsyncFallback::ParentNotDurable => "CP fsync: parent not durable",
            FsyncFallback::ParentXattrs => "CP fsync: parent's xattrs",
            FsyncFallback::ParentRenames => "CP fsync: parent's renames",
            FsyncFallback::Xattrs => "CP fsync: xattrs",
            FsyncFallback::FreedNodes => "CP fsync: freed nodes",
            FsyncFallback::NoRoom => "CP fsync: no room",
            FsyncFallback::Rewritten => "CP fsync: rewritten",
        }
    }
}

/// Blocks of a pack beside orphans: two checkpoint blocks and six summaries.
const FIXED: u32 = 8;

impl<D: BlockDevice> Fs<D> {
    /// Makes everything durable.
    ///
    /// # Errors
    /// What the device says; [`FsError::ReadOnly`].
    pub fn sync(&mut self, now: Now) -> Result<(), FsError> {
        self.sync_on(now, &mut Covering::default())
    }

    /// As [`Fs::sync`], where somebody may have to come again: what he keeps says which checkpoint he waits
    /// for, whatever others change meanwhile.
    ///
    /// # Errors
    /// Those of [`Fs::sync`]; [`FsError::Again`].
    pub fn sync_on(&mut self, now: Now, how: &mut Covering) -> Result<(), FsError> {
        self.lessen(now, |fs| fs.make_durable(how, Trigger::Sync))
    }

    /// Makes everything durable, marks the volume as cleanly unmounted and gives the device back.
    /// A volume that is read-only (since an error, too: see [`Fs::failed`]) is left as it is.
    ///
    /// # Errors
    /// What the device says; [`FsError::ReadOnly`] if it said that to what was still to be done.
    pub fn unmount(mut self, now: Now) -> Result<D, FsError> {
        let writable = self.writable().is_ok();
        self.read_outside(now, false);
        if writable {
            self.writable()?;
            self.begin(now);
            self.write_checkpoint(Trigger::Unmount)?;
            if self.live {
                self.go_plain()?;
            }
        }
        Ok(self.disk.into_device()?)
    }

    /// Orphans that a pack has room for.
    pub(super) fn orphan_room(&self) -> usize {
        (self.layout.pack_room() - FIXED) as usize * OrphanBlock::MOST
    }

    /// Whether nothing is changed that neither the durable nor a frozen checkpoint has.
    pub(super) fn is_settled(&self) -> bool {
        self.nodes.dirty() == 0
            && self.pages.dirty() == 0
            && self.nat.dirty_blocks() == 0
            && !self.segs.is_dirty()
    }

    /// A checkpoint, if there is anything that is not durable. Where somebody else does the jobs it is begun,
    /// and the caller comes again.
    pub(super) fn checkpoint(&mut self, trigger: Trigger) -> Result<(), FsError> {
        let outside = self.disk.is_outside();
        if self.is_frozen() && outside {
            return Err(FsError::Again);
        }
        if self.is_settled() && !self.is_frozen() {
            return Ok(());
        }
        if outside {
            self.freeze_checkpoint(trigger)?;
            return Err(FsError::Again);
        }
        self.write_checkpoint(trigger)
    }

    /// A checkpoint at once, whoever waits: callers that clean for themselves cannot come again. While one
    /// is frozen they do, before they begin.
    pub(super) fn checkpoint_here(&mut self, trigger: Trigger) -> Result<(), FsError> {
        if self.is_frozen() {
            return Err(FsError::Again);
        }
        if self.is_settled() { Ok(()) } else { self.write_checkpoint(trigger) }
    }

    /// Both parts of a checkpoint, here and now.
    pub(super) fn write_checkpoint(&mut self, trigger: Trigger) -> Result<(), FsError> {
        self.freeze_checkpoint(trigger)?;
        if !self.options.bug.has(Bug::CheckpointFlush) {
            self.disk.flush()?;
        }
        self.checkpoints.flushed(self.disk.clock());
        if let Some((at, block, _)) = self.checkpoints.frozen().map(Frozen::end) {
            self.disk.write_durable(at, &[&block.clone()], Cause::Pack)?;
        }
        self.end_checkpoint()
    }

    /// The first part (see `jobs`): everything is handed over as it is.
    pub(super) fn freeze_checkpoint(&mut self, trigger: Trigger) -> Result<(), FsError> {
        self.writable()?;
        self.prepare_checkpoint()?;
        match self.hand_over_all(trigger) {
            // A want of room is an answer elsewhere, and some try again with less.
            Err(FsError::NoSpace) => Err(self.health.end_for_room()),
            handed => handed,
        }
    }

    fn hand_over_all(&mut self, trigger: Trigger) -> Result<(), FsError> {
        let (dirty, before) = (self.dirty_blocks(), self.disk.written_all());
        let unsaved = if self.disk.is_outside() { self.unsaved() } else { BTreeSet::new() };
        let mut time = CheckpointTime::default();
        let mut last = self.disk.clock();
        let mut lap = |disk: &Disk<D>| {
            let span = disk.clock().since(last);
            last = disk.clock();
            span
        };
        self.write_pages()?;
        for (_, nid) in self.nodes.all_dirty() {
            self.write_node(nid, (false, false), Cause::Node)?;
        }
        self.disk.wait()?;
        time.nodes = lap(&self.disk);
        let nat_bitmap = self.nat.write(&mut self.disk, &self.layout)?;
        let sit_bitmap = self.write_sit()?;
        self.disk.wait()?;
        time.tables = lap(&self.disk);
        let mut blocks = self.pack_blocks(trigger == Trigger::Unmount, &sit_bitmap, &nat_bitmap);
        let start = self.layout.pack(self.checkpoints.next_pack());
        let end_block = blocks.pop().ok_or(FsError::Corrupt("an empty pack"))?;
        for (i, block) in blocks.iter().enumerate() {
            self.disk.write(BlockAddr(start.0 + i as u32), block, Cause::Pack)?;
        }
        if self.options.bug.has(Bug::SlotReset) {
            self.reset_slot()?;
        }
        let at = BlockAddr(start.0 + blocks.len() as u32);
        let bug = |bug| self.options.bug.has(bug);
        self.nat.freeze();
        self.segs.freeze(bug(Bug::FrozenNarrow));
        self.checkpoints.freeze(Frozen::new(
            (at, end_block),
            (sit_bitmap, nat_bitmap),
            self.disk.mark(),
            Counted { trigger, dirty, before, time, last },
            unsaved,
        )?);
        self.hold_heads();
        self.epoch.begin();
        Ok(())
    }

    /// The second part: the frozen one is durable.
    pub(super) fn end_checkpoint(&mut self) -> Result<(), FsError> {
        let Some((nat_bitmap, counted)) = self.checkpoints.made(self.now, self.disk.clock()) else {
            return Ok(());
        };
        self.nat.settle(nat_bitmap);
        self.let_go_all();
        self.disk.forget_forced();
        self.segs.settle(self.options.bug.has(Bug::FrozenLost));
        self.journal.restart();
        if self.options.discard {
            self.discard_free(false)?;
        }
        let Counted { trigger, dirty, before, time, .. } = counted;
        self.counted.checkpoint(&time, before, self.disk.written_all());
        let at = self.disk.clock();
        self.counted.event(Event::Checkpoint { at, trigger, dirty, time });
        Ok(())
    }

    /// Heads that rest until the next checkpoint once they are written to.
    pub(super) fn hold_heads(&mut self) {
        for kind in LogKind::ALL {
            if self.holds(kind) {
                self.segs.hold(self.logs[kind as usize].seg);
            }
        }
    }

    pub(super) fn write_sit(&mut self) -> Result<Vec<u8>, FsError> {
        let mut bitmap = self.checkpoints.sit_bitmap().to_vec();
        for i in self.segs.dirty_tables() {
            let mut block = zeroed();
            let first = i * SIT_PER_BLOCK as u32;
            for seg in first..(first + SIT_PER_BLOCK as u32).min(self.layout.main_segs) {
                self.segs.entry(SegNo(seg)).put(&mut block[..], (seg - first) as usize);
            }
            let copy = msb_test(&bitmap, i as usize) == (self.options.bug.has(Bug::LiveCopy));
            self.disk.write(self.layout.sit_block(i, copy), &block, Cause::Sit)?;
            msb_set(&mut bitmap, i as usize, copy);
        }
        Ok(bitmap)
    }

    fn heads(&self, first: LogKind) -> Heads {
        let log = |i: usize| &self.logs[first as usize + i];
        Heads {
            segments: std::array::from_fn(|i| log(i).seg),
            offsets: std::array::from_fn(|i| log(i).offset as u16),
        }
    }

    fn pack_blocks(&self, unmount: bool, sit: &[u8], nat: &[u8]) -> Vec<Box<Block>> {
        let orphans: Vec<Nid> = self.orphans.iter().collect();
        let chunks = orphans.chunks(OrphanBlock::MOST);
        let count = chunks.len() as u32;
        let logs = if unmount { 6 } else { 3 };
        let seal = self.seal_to_come().filter(|_| !unmount);
        let mut flags = if seal.is_some() { Flags::NOCRC_RECOVERY } else { Flags::CRC_RECOVERY };
        if unmount {
            flags = flags.with(Flags::UMOUNT);
        }
        if count > 0 {
            flags = flags.with(Flags::ORPHANS);
        }
        let mut cp = Checkpoint {
            version: self.cp().version + 1,
            valid_blocks: self.counts.blocks(),
            free_segments: self.segs.free_after(),
            node_heads: self.heads(LogKind::HotNode),
            data_heads: self.heads(LogKind::HotData),
            flags,
            pack_blocks: 2 + count + logs,
            start_sum: 1 + count,
            valid_nodes: self.counts.nodes() as u32,
            valid_inodes: self.counts.inodes() as u32,
            next_free_nid: self.nat.hint(),
            elapsed: self.elapsed(),
            alloc_types: std::array::from_fn(|i| u8::from(self.logs[i].threaded)),
            seal,
            sit_bitmap: sit.to_vec(),
            nat_bitmap: nat.to_vec(),
            ..self.cp().clone()
        };
        if self.options.bug.has(Bug::BitmapOrder) {
            let bytes = cp.sit_bitmap.iter_mut().chain(&mut cp.nat_bitmap);
            bytes.for_each(|byte| *byte = byte.reverse_bits());
        }
        let mut blocks = vec![cp.encode()];
        for (i, inos) in chunks.enumerate() {
            let (index, count) = (i as u16 + 1, count as u16);
            blocks.push(OrphanBlock { inos: inos.to_vec(), index, count }.encode());
        }
        let summaries = self.logs.iter().take(logs as usize);
        blocks.extend(summaries.map(|log| log.summary.encode(&Journal::Empty)));
        blocks.push(cp.encode());
        blocks
    }
}

#[cfg(test)]
mod tests {
    use block::{RamDevice, Sectors, Time};

    use super::*;
    use crate::format::FileType;
    use crate::fs::{FsOptions, NewInode};
    use crate::{MkfsOptions, Stamp, mkfs};

    /// What was handed over by then is half a checkpoint: whoever goes on would write over it.
    #[test]
    fn a_checkpoint_that_finds_no_segment_ends_all_changes() {
        let now = |us| Now { at: Time::from_us(us), wall: Stamp { seconds: 1, nanos: 2 } };
        let device = RamDevice::new(Sectors(64 << 11));
        let small = MkfsOptions { log_blocks_per_seg: 2, gap: 512, ..MkfsOptions::new([5; 16], 9) };
        let device = mkfs(device, &small, now(0)).unwrap().0;
        let mut fs = Fs::mount(device, FsOptions::default(), now(1)).unwrap();
        let new = NewInode { permissions: 0o644, uid: 0, gid: 0 };
        for n in 0..60 {
            let name = format!("file {n}");
            let made = fs.create(now(2), Nid::ROOT, name.as_bytes(), FileType::File, new, (0, 0));
            made.unwrap();
        }
        while fs.segs.open(LogKind::WarmData as u8, false).is_ok() {}
        let unsaved = fs.unsaved().len();
        let ended = FsError::ReadOnly("since a checkpoint found no free segment");
        assert_eq!(fs.write_checkpoint(Trigger::Sync), Err(ended.clone()));
        assert_eq!(fs.write_checkpoint(Trigger::Sync), Err(ended.clone()));
        assert_eq!((fs.sync(now(3)), fs.cause()), (Err(ended), Some(&FsError::NoSpace)));
        assert!(fs.unsaved().len() > unsaved / 2, "what is lost is known");
        let mut fs = Fs::mount(fs.abandon(), FsOptions::default(), now(4)).unwrap();
        assert_eq!(fs.readdir(now(5), Nid::ROOT).unwrap().len(), 2, "the checkpoint before");
    }
}
