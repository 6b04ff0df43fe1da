//! The journal of cleaning on a mounted volume (paper 2, sections IV-A and IV-B), with the seven
//! rules that keep it safe (`tests/scj_rules.rs`).
//!
//! Invariants:
//! * while a volume is mounted with a journal its superblock says so, and nobody else mounts it;
//! * from the durable state (checkpoint v, records of v in order, chain of v) every block of R is
//!   reachable, and no block of R is written over before the record that moves it is durable;
//! * a record is valid for one checkpoint, one slot, one volume; slots are used in order. Of records
//!   written together those before the first that is missing count, and none of their victims was
//!   used again before all of them were durable.

use std::collections::BTreeMap;

use block::{BlockDevice, Time};

use super::Fs;
use super::options::{Bug, Cleaning};
use super::records::Records;
use super::recover::Gained;
use crate::disk::{Cause, Disk};
use crate::format::{Block, MAGIC, NatEntry, NodeBlock, Origin, Summary, put_u32, zeroed};
use crate::scj::{
    BATCH_MAX, FIRST_SLOT, Identity, LIVE_MAGIC, Move, RECORD_BLOCKS, STATE_AT, STATE_COPY_AT,
    State, decode, encode, merge,
};
use crate::{BlockAddr, FsError, SegNo};

/// Where the magic stands in a superblock's block.
const MAGIC_AT: usize = 1024;
/// Slots at most: their number fits into a node's stamp.
const SLOTS_MOST: u32 = 0xFFF;
/// Bits of a node's stamp that say how many records there were when it was written.
const SEQUENCE: u64 = 0xFFF << 32;

/// The journal of this mount.
#[derive(Clone, Copy, Default)]
pub(super) struct Journal {
    slots: u32,
    /// The next free slot.
    next: u32,
}

impl Journal {
    pub(super) fn is_full(self) -> bool {
        self.next == self.slots
    }
    /// A checkpoint has made all records void.
    pub(super) fn restart(&mut self) {
        self.next = 0;
    }
    /// Records that still fit.
    pub(super) fn left(self) -> u32 {
        self.slots - self.next
    }
}

/// The wrong merge, a planted bug: from address to address, whatever the order.
fn merge_by_address<'a>(
    valid: impl Fn(BlockAddr) -> bool,
    records: impl Iterator<Item = &'a [Move]>,
) -> BTreeMap<BlockAddr, BlockAddr> {
    let pairs: BTreeMap<_, _> = records.flatten().map(|step| (step.old, step.new)).collect();
    let last = |from: BlockAddr| {
        (0..pairs.len()).fold(from, |at, _| pairs.get(&at).copied().unwrap_or(at))
    };
    let origins = pairs.keys().copied().filter(|old| valid(*old));
    origins.map(|old| (old, last(old))).filter(|(old, new)| old != new).collect()
}

/// What one cleaning journals.
pub(super) struct Record {
    /// Where blocks that recovery needs went.
    pub(super) moves: Vec<Move>,
    /// The victim's summary.
    pub(super) summary: Box<Block>,
}

fn slot_addr(slot: u32) -> BlockAddr {
    BlockAddr(FIRST_SLOT + slot * RECORD_BLOCKS)
}

/// What cannot be read may be a record that was relied on: that is no record that is missing.
fn read_pair<D: BlockDevice>(
    disk: &mut Disk<D>,
    slot: u32,
) -> Result<(Box<Block>, Box<Block>), FsError> {
    let (mut journal, mut summary) = (zeroed(), zeroed());
    disk.read(slot_addr(slot), &mut journal)?;
    disk.read(BlockAddr(slot_addr(slot).0 + 1), &mut summary)?;
    Ok((journal, summary))
}

/// How the journal of a volume is laid out. Where the block that says so is torn, the power went while
/// a mount wrote it over, and its copy is whole: there are no records of that mount.
pub(super) fn read_state<D: BlockDevice>(
    disk: &mut Disk<D>,
    uuid: &[u8; 16],
) -> Result<State, FsError> {
    for at in [STATE_AT, STATE_COPY_AT] {
        let mut block = zeroed();
        // The copy does not stand for a block that cannot be read: it may be of an older mount.
        disk.read(at, &mut block)?;
        if let Some(state) = State::decode(&block).filter(|state| state.uuid == *uuid) {
            return Ok(state);
        }
    }
    Err(FsError::Corrupt("the state block of the journal"))
}

impl<D: BlockDevice> Fs<D> {
    pub(super) fn journals(&self) -> bool {
        matches!(self.options.cleaning, Cleaning::Scj(_))
    }

    /// Whether a journal of so many slots lies in the gap.
    fn fits(&self, slots: u32) -> bool {
        (1..=SLOTS_MOST).contains(&slots) && slot_addr(slots).0 <= self.layout.gap()
    }

    fn identity(&self, slot: u32) -> Identity {
        Identity { uuid: self.superblock.uuid, version: self.cp().version, slot }
    }

    /// How many records of this checkpoint there are, for a node's stamp (rule `trans`).
    pub(super) fn sequence(&self) -> u64 {
        u64::from(self.journal.next) << 32
    }

    /// What the format stamps nodes with: version and checksum of the checkpoint.
    pub(super) fn plain_stamp(&self) -> u64 {
        self.cp().version & 0xFFFF_FFFF | u64::from(self.checkpoints.crc()) << 32
    }

    /// What nodes are stamped with: the checkpoint that they are newer than, and with a journal
    /// how many records there are.
    pub(super) fn written_after(&self) -> u64 {
        let plain = self.plain_stamp();
        if self.journals() { plain & !SEQUENCE | self.sequence() } else { plain }
    }

    /// Whether a stamp says that a node is newer than the durable checkpoint.
    pub(super) fn same_epoch(&self, stamp: u64) -> bool {
        let plain = self.plain_stamp();
        if self.live { stamp & !SEQUENCE == plain & !SEQUENCE } else { stamp == plain }
    }

    /// Where a block that a recovered node names lies now: it follows the records that were
    /// written after the node (rule `trans`).
    pub(super) fn translate(&self, addr: BlockAddr, node: &NodeBlock) -> BlockAddr {
        if !self.live || self.options.bug.has(Bug::Trans) {
            return addr;
        }
        let from = (node.written_after() & SEQUENCE) >> 32;
        self.records.follow(addr, from as usize)
    }

    /// The blocks of records that are written together from the next slot on.
    fn record_blocks(&self, records: &[Record]) -> Vec<Box<Block>> {
        let mut blocks: Vec<Box<Block>> = Vec::with_capacity(2 * records.len());
        for (behind, record) in (0..).zip(records) {
            let identity = self.identity(self.journal.next + behind);
            blocks.push(encode(&identity, behind, &record.moves, &record.summary));
            blocks.push(record.summary.clone());
        }
        blocks
    }

    /// Records follow their copies without a flush between them: a power cut loses what they name.
    pub(super) fn trusts_order(&self) -> bool {
        self.options.unflushed || self.options.bug.has(Bug::Flush)
    }

    /// Makes what cleaning moved durable: copies first, then the records, in one write. Returns
    /// when the copies were.
    pub(super) fn write_records(&mut self, records: &[Record]) -> Result<Time, FsError> {
        let first = self.journal.next;
        let mut flushed = self.disk.clock();
        let blocks = self.record_blocks(records);
        if self.trusts_order() {
            for (i, block) in (0..).zip(&blocks) {
                self.disk.write(BlockAddr(slot_addr(first).0 + i), block, Cause::Journal)?;
            }
        } else {
            self.disk.flush()?;
            flushed = self.disk.clock();
            let blocks: Vec<&Block> = blocks.iter().map(|block| &**block).collect();
            self.disk.write_durable(slot_addr(first), &blocks, Cause::Journal)?;
        }
        self.count_records(records);
        Ok(flushed)
    }

    /// Writes the records of copies that are durable; nobody waits. When they are durable.
    pub(super) fn write_records_behind(&mut self, records: &[Record]) -> Result<Time, FsError> {
        let blocks = self.record_blocks(records);
        let blocks: Vec<&Block> = blocks.iter().map(|block| &**block).collect();
        let first = slot_addr(self.journal.next);
        let done = self.disk.write_durable_behind(first, &blocks, Cause::Journal)?;
        self.count_records(records);
        Ok(done)
    }

    fn count_records(&mut self, records: &[Record]) {
        self.journal.next += records.len() as u32;
        self.counted.slots(self.journal.next);
        let entries = records.iter().map(|record| record.moves.len()).sum();
        self.cleaner.recorded(records.len(), entries);
    }

    /// A planted bug.
    pub(super) fn reset_slot(&mut self) -> Result<(), FsError> {
        Ok(self.disk.write(slot_addr(0), &zeroed(), Cause::Journal)?)
    }

    /// Reads the records of the durable checkpoint.
    pub(super) fn read_records(&mut self) -> Result<(), FsError> {
        if !self.live {
            return Ok(());
        }
        let state = read_state(&mut self.disk, &self.superblock.uuid)?;
        if !self.fits(state.slots) {
            return Err(FsError::Corrupt("the journal's slots leave the gap"));
        }
        let mut missing = None;
        for slot in 0..state.slots {
            let identity = self.identity(slot);
            let back = if self.options.bug.has(Bug::VersionIgnored) { 30 } else { 0 };
            let (journal, summary) = read_pair(&mut self.disk, slot)?;
            let found = (0..=back).find_map(|ago| {
                let version = identity.version.saturating_sub(ago);
                let record = decode(&Identity { version, ..identity }, &journal, &summary);
                let (behind, moves) = record?;
                Some((slot.saturating_sub(behind), moves, Summary::decode(&summary)))
            });
            match (found, missing) {
                (Some((_, moves, summary)), None) => {
                    self.records.push(moves, summary);
                }
                // Written together with the one that is missing, cut off: nobody relied on it yet.
                (Some((first, ..)), Some(gap)) if first <= gap => {}
                (Some(_), Some(_)) => {
                    return Err(FsError::Corrupt("a record is missing among valid ones"));
                }
                (None, _) => missing = missing.or(Some(slot)),
            }
        }
        Ok(())
    }

    /// Whose each moved block is, as of the checkpoint (rule `ssa`): from its segment's first
    /// record. A segment that was a head then was closed before it was a victim, and its summary
    /// was written with what the head held; what the pack does not hold of it must not be rebuilt
    /// from blocks that may be others' by now.
    fn origins(&mut self) -> Result<BTreeMap<SegNo, Summary>, FsError> {
        let mut known = BTreeMap::new();
        let place = |addr| self.layout.place(addr).map(|(seg, _)| seg);
        for (i, victim) in self.records.victims(place).into_iter().enumerate() {
            let Some(seg) = victim else { continue };
            if known.contains_key(&seg) {
                continue;
            }
            let summary = match self.options.bug.has(Bug::Ssa) {
                true => Summary::decode(&*self.read_summary(seg)?),
                false => self.records.summary(i).clone(),
            };
            known.insert(seg, summary);
        }
        Ok(known)
    }

    /// Applies the records: tables, nodes and pointers name the places that blocks have now.
    pub(super) fn apply_records(&mut self, gained: &mut Gained) -> Result<(), FsError> {
        let segs = &self.segs;
        let records = self.records.moves();
        let moved = match self.options.bug.has(Bug::Order) {
            true => merge_by_address(|addr| segs.is_valid(addr), records),
            false => merge(|addr| segs.is_valid(addr), records),
        };
        let known = self.origins()?;
        let mut all: Vec<(BlockAddr, BlockAddr, Origin, bool)> = Vec::new();
        for (old, new) in moved {
            let place = self.layout.place(old);
            let (seg, at) = place.ok_or(FsError::Corrupt("a record names no block"))?;
            let summary = known.get(&seg).ok_or(FsError::Corrupt("a record without a victim"))?;
            all.push((old, new, summary.origins[at as usize], summary.nodes));
        }
        // One block's new place may be another's old one.
        for (old, ..) in &all {
            self.segs.forget(*old)?;
        }
        // Should the records be read once more, they lead here again: these places stay. Those in between,
        // which later records moved blocks away from, nobody reads; a recovery may write there.
        for (_, new, origin, nodes) in &all {
            self.segs.mark(*new, 0)?;
            self.segs.need(*new)?;
            gained.add(self, *new, *origin, *nodes)?;
        }
        for (old, new, origin, _) in all.iter().filter(|(.., nodes)| *nodes) {
            let entry = self.nat_entry(origin.nid)?;
            if entry.addr != *old {
                return Err(FsError::Corrupt("a record moves a node that was elsewhere"));
            }
            self.set_nat(origin.nid, NatEntry { addr: *new, ..entry })?;
        }
        for (old, new, origin, _) in all.iter().filter(|(.., nodes)| !*nodes) {
            let at = self.owner(*old, *origin)?;
            self.repoint(at, *new)?;
        }
        Ok(())
    }

    /// Before anything else of a mount with a journal is written: the superblock says so.
    pub(super) fn go_live(&mut self) -> Result<(), FsError> {
        let Cleaning::Scj(scj) = self.options.cleaning else { return Ok(()) };
        if !self.fits(scj.slots) {
            return Err(FsError::Invalid("the journal's slots do not fit into the gap"));
        }
        if !(1..=BATCH_MAX).contains(&scj.batch) {
            return Err(FsError::Invalid("1 to 16 records share a write"));
        }
        self.journal = Journal { slots: scj.slots, next: 0 };
        if self.live {
            return Ok(());
        }
        self.write_state()?;
        self.set_magic(1, LIVE_MAGIC)?;
        self.set_magic(0, LIVE_MAGIC)?;
        self.disk.flush()?;
        Ok(())
    }

    /// After the checkpoint of a mount: the journal is laid out as this mount wants it, or gone.
    pub(super) fn settle_live(&mut self) -> Result<(), FsError> {
        self.records = Records::default();
        if self.journals() {
            self.live = true;
            self.write_state()
        } else if self.live {
            self.go_plain()
        } else {
            Ok(())
        }
    }

    fn write_state(&mut self) -> Result<(), FsError> {
        let Cleaning::Scj(scj) = self.options.cleaning else { return Ok(()) };
        let (uuid, version) = (self.superblock.uuid, self.cp().version);
        let state = State { slots: scj.slots, uuid, version };
        let block = state.encode();
        if self.options.bug.has(Bug::StateTogether) {
            return Ok(self.disk.write_durable(STATE_AT, &[&block, &block], Cause::Journal)?);
        }
        if !self.disk.tears() {
            return Ok(self.disk.write_durable(STATE_AT, &[&block], Cause::Journal)?);
        }
        // One after the other, and the one that a cut has torn before the one that is whole.
        let torn_first = !self.options.bug.has(Bug::WholeFirst) && !self.has_state(STATE_AT);
        let both = [STATE_COPY_AT, STATE_AT];
        let order = if torn_first { [both[1], both[0]] } else { both };
        for at in order {
            self.disk.write_durable(at, &[&block], Cause::Journal)?;
        }
        Ok(())
    }

    fn has_state(&mut self, at: BlockAddr) -> bool {
        let mut block = zeroed();
        let read = self.disk.read(at, &mut block);
        read.is_ok() && State::decode(&block).is_some_and(|s| s.uuid == self.superblock.uuid)
    }

    /// The volume is plain F2FS again.
    pub(super) fn go_plain(&mut self) -> Result<(), FsError> {
        for i in 0..2 {
            self.set_magic(i, MAGIC)?;
            self.disk.flush()?;
        }
        self.live = false;
        Ok(())
    }

    fn set_magic(&mut self, i: u32, magic: u32) -> Result<(), FsError> {
        let mut block = self.superblock.encode();
        let mut found = zeroed();
        if self.disk.read(BlockAddr(i), &mut found).is_ok() {
            // What stands before the superblock is somebody else's.
            block[..MAGIC_AT].copy_from_slice(&found[..MAGIC_AT]);
        }
        put_u32(&mut block[..], MAGIC_AT, magic);
        self.disk.write(BlockAddr(i), &block, Cause::Super)?;
        Ok(())
    }
}
