//! Power-on.
//!
//! 1. The newest whole checkpoint, if any, gives the map and the lines that were open.
//! 2. The *tail* is scanned: blocks opened since (their header's epoch is later), and the open
//!    lines' blocks from the page on that the checkpoint names. Without a checkpoint every block
//!    is tail.
//! 3. A slot of the tail beats the checkpoint's place: a copy made by cleaning has an old number,
//!    but was current when it was copied. Among tail slots the highest number wins.
//! 4. Discards later than the checkpoint win over older versions.
//! 5. Of two copies of one version either may count (see `doubles`).
//! 6. Lines that hold anything are closed; the others are erased before use: an erase that was
//!    cut short can look like a whole one.
//!
//! Nothing is written: a cut during recovery changes nothing.

mod map_pages;

use std::sync::Arc;

use block::{BlockId, DeviceError, Plant, Ppn, Time};
use nand::{Kind, Nand, Oob, Payload, ReadCause, SlotRead};

use super::checkpoint::{Found, State, assemble};
use super::doubles::Double;
use super::lines::{LineState, NONE};
use super::{PageFtl, metadata_line_count, trim};
use crate::Bug;
use crate::config::Params;
use crate::stats::RecoveryStats;

/// The state of the scan.
pub(super) struct Scan {
    /// Highest number seen per slot, plus one; 0 = only the checkpoint speaks of it.
    pub best: Vec<u64>,
    /// Further places of versions met more than once.
    pub doubles: Vec<Double>,
    pub trims: Vec<(Ppn, Vec<trim::TrimEntry>)>,
    /// Which transactions are committed, and which slots have other names.
    pub names: super::tx::Names,
    /// A slot of a transaction was met, and the drive has none.
    foreign: bool,
    /// Newest translation pages: (page, number, place of its first slot).
    map_pages: Vec<(u32, u64, Ppn)>,
    seq: u64,
    epoch: u64,
    pages_read: u64,
    end: Time,
    /// Lines of which something was read that is not blank.
    pub used: Vec<bool>,
    lines: u64,
}

impl PageFtl {
    /// Builds the FTL of a drive that is powered on with what `nand` holds.
    pub fn mount(p: &Arc<Params>, nand: Nand, bug: Plant<Bug>) -> Result<PageFtl, DeviceError> {
        let ftl = PageFtl::mount_from(p, nand, bug, true)?;
        if ftl.has_whole_map() {
            return Ok(ftl);
        }
        // A translation page is lost to a fault. The data's own records are the second copy.
        PageFtl::mount_from(p, ftl.nand, bug, false)
    }

    fn mount_from(
        p: &Arc<Params>,
        nand: Nand,
        bug: Plant<Bug>,
        from_checkpoint: bool,
    ) -> Result<PageFtl, DeviceError> {
        let mut ftl = PageFtl::bare(p, nand);
        ftl.bug = bug;
        ftl.adopt_blocks();
        let meta = metadata_line_count(p);
        let mut scan = Scan {
            best: vec![0; ftl.map.len()],
            doubles: Vec::new(),
            trims: Vec::new(),
            names: super::tx::Names::default(),
            foreign: false,
            map_pages: Vec::new(),
            seq: 0,
            epoch: 0,
            pages_read: 0,
            end: Time::ZERO,
            used: vec![false; ftl.lines.len() as usize],
            lines: 0,
        };
        let found = if meta > 0 { ftl.newest_checkpoint(meta, &mut scan)? } else { None };
        let found = found.filter(|_| from_checkpoint);
        if let Some(found) = &found {
            ftl.load_checkpoint(found, &mut scan);
        }
        ftl.tx_decide(meta, &mut scan);
        ftl.scan_lines(meta, found.as_ref(), &mut scan)?;
        if scan.foreign {
            return Err(DeviceError::Unsupported(
                "the flash holds transactions: power it on with tx.mode as it was written",
            ));
        }
        scan.seq = scan.seq.max(scan.names.seq);
        if ftl.is_paper() {
            ftl.paper_recover(meta);
            scan.doubles.clear();
            scan.trims.clear();
        }
        ftl.load_map_pages(found.is_some(), &mut scan);
        ftl.apply_trims(found.as_ref().map_or(0, |f| f.seq), &mut scan);
        ftl.apply_remaps(&mut scan);
        ftl.count_valid();
        ftl.adopt_tx_records(&mut scan);
        ftl.mark_stale_map_pages();
        let spare = ftl.adopt_records(found.as_ref().map_or(0, |f| f.seq), &mut scan);
        ftl.empty_double_lines(meta, found.as_ref(), &scan, spare);
        ftl.sort_lines(meta, &scan);
        ftl.check_space();
        ftl.clock.resume(scan.seq, scan.epoch);
        if meta > 0 {
            ftl.checkpoint = Some(State::found(
                meta,
                found.as_ref().map(|f| f.area),
                scan.checkpoint_id(found.as_ref()),
                0,
            ));
        }
        ftl.recovery = Some(RecoveryStats {
            pages_read: scan.pages_read,
            time: scan.end.since(Time::ZERO),
            lines: scan.lines,
            from_checkpoint: found.is_some(),
        });
        ftl.now = scan.end;
        Ok(ftl)
    }

    fn read_page(&mut self, block: BlockId, page: u32, scan: &mut Scan) -> Result<(), DeviceError> {
        let spp = self.g.slots_per_page;
        scan.pages_read += 1;
        let end = self
            .nand
            .read(Time::ZERO, &[(block, page)], &[1], spp, ReadCause::Recovery)
            .map_err(PageFtl::power)?;
        scan.end = scan.end.max(end);
        Ok(())
    }

    fn newest_checkpoint(
        &mut self,
        meta: u32,
        scan: &mut Scan,
    ) -> Result<Option<Found>, DeviceError> {
        let mut newest: Option<Found> = None;
        for area in 0..2 {
            let mut slots: Vec<(Oob, Vec<u8>)> = Vec::new();
            for line in area * (meta / 2)..(area + 1) * (meta / 2) {
                for index in 0..self.lines.members(line).len() {
                    let member = self.lines.members(line)[index];
                    if member != NONE {
                        self.read_meta_block(BlockId(member), &mut slots, scan)?;
                    }
                }
            }
            let trust = self.has_bug(Bug::CheckpointBeforeBody);
            let found = assemble(area, &slots, trust);
            // Numbers of torn checkpoints are never used again.
            let last = slots.iter().map(|(oob, _)| oob.seq).max().unwrap_or(0);
            scan.epoch = scan.epoch.max(last);
            if let Some(found) = found
                && newest.as_ref().is_none_or(|n| n.id < found.id)
            {
                newest = Some(found);
            }
        }
        Ok(newest)
    }

    fn read_meta_block(
        &mut self,
        block: BlockId,
        slots: &mut Vec<(Oob, Vec<u8>)>,
        scan: &mut Scan,
    ) -> Result<(), DeviceError> {
        for page in 0..self.g.pages_per_block {
            self.read_page(block, page, scan)?;
            let first = self.g.ppn(block, page);
            let mut blank = 0;
            for slot in 0..self.g.slots_per_page {
                match self.nand.slot(Ppn(first.0 + slot)) {
                    SlotRead::Good(oob, Payload::Bytes(bytes)) => {
                        slots.push((*oob, bytes.to_vec()))
                    }
                    SlotRead::Blank => blank += 1,
                    _ => {}
                }
            }
            if blank == self.g.slots_per_page {
                break;
            }
        }
        Ok(())
    }

    fn load_checkpoint(&mut self, found: &Found, scan: &mut Scan) {
        scan.seq = scan.seq.max(found.seq);
        scan.epoch = scan.epoch.max(found.epoch);
        match &mut self.paged {
            Some(paged) => {
                for (tp, entry) in found.entries.iter().enumerate() {
                    paged.set_directory(tp, *entry, false);
                }
            }
            None => self.map.load(&found.entries),
        }
    }

    /// Scans the tail.
    fn scan_lines(
        &mut self,
        meta: u32,
        found: Option<&Found>,
        scan: &mut Scan,
    ) -> Result<(), DeviceError> {
        for line in meta..self.lines.len() {
            let open = found.and_then(|f| f.open.iter().find(|o| o.line == line));
            let mut scanned = false;
            for index in 0..self.lines.members(line).len() {
                let member = self.lines.members(line)[index];
                if member == NONE {
                    continue;
                }
                let block = BlockId(member);
                let header = self.nand.header(block);
                let epoch = header.map_or(0, |h| h.epoch);
                scan.epoch = scan.epoch.max(epoch);
                // A block without a header is none of the tail: what it holds is left from an
                // erase cut short, or was cut off with its first page. Neither is newer than
                // the checkpoint's word on it.
                let from = match (found, open) {
                    (Some(f), _) if epoch > f.epoch => 0,
                    (Some(_), Some(open)) if open.epoch == epoch => {
                        open.reached.get(index).copied().unwrap_or(0)
                    }
                    (Some(_), _) => {
                        // Settled before the checkpoint: its header is read, no more.
                        self.read_page(block, 0, scan)?;
                        scan.used[line as usize] = true;
                        continue;
                    }
                    (None, _) => 0,
                };
                scan.used[line as usize] |= from > 0;
                scanned = true;
                self.scan_block(block, line, from, scan)?;
            }
            scan.lines += u64::from(scanned);
        }
        Ok(())
    }

    fn scan_block(
        &mut self,
        block: BlockId,
        line: u32,
        from: u32,
        scan: &mut Scan,
    ) -> Result<(), DeviceError> {
        let mut blanks = 0;
        for page in from..self.g.pages_per_block {
            self.read_page(block, page, scan)?;
            let first = self.g.ppn(block, page);
            let mut any = false;
            for slot in 0..self.g.slots_per_page {
                any |= self.scan_slot(Ppn(first.0 + slot), line, scan);
            }
            scan.used[line as usize] |= any;
            // One blank page may be a program that never took; two end the block.
            blanks = if any { 0 } else { blanks + 1 };
            // An erase cut short may have left a page behind many blank ones; where it may be a
            // transaction's, it must be seen.
            if blanks == 2 && self.tx.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Takes one slot into account; false if it is blank.
    fn scan_slot(&mut self, at: Ppn, line: u32, scan: &mut Scan) -> bool {
        let (oob, payload) = match self.nand.slot(at) {
            SlotRead::Blank => return false,
            SlotRead::Unreadable if self.has_bug(Bug::IgnoreOobCrc) => {
                // The planted bug: whatever the cells say is taken for a record.
                let lpn = at.0 % self.map.len() as u32;
                (Oob { kind: Kind::Data, lpn, seq: scan.seq + 1, ..Oob::default() }, Payload::None)
            }
            SlotRead::Unreadable => return true,
            SlotRead::DataRot(oob) => (*oob, Payload::None),
            SlotRead::Good(oob, payload) => (*oob, payload.clone()),
        };
        scan.seq = scan.seq.max(oob.seq);
        if oob.tid != 0 || matches!(oob.kind, Kind::State | Kind::Remap) {
            scan.foreign |= self.tx.is_none();
            if !scan.names.committed.contains(&oob.tid) {
                return true;
            }
        }
        let mut oob = oob;
        if oob.kind == Kind::Data && self.tx.is_some() {
            (oob.lpn, oob.seq) = scan.names.renamed(at, oob.lpn, oob.seq);
        }
        self.take_slot(at, line, oob, &payload, scan);
        true
    }

    /// Takes a slot into account that counts.
    fn take_slot(&mut self, at: Ppn, line: u32, oob: Oob, payload: &Payload, scan: &mut Scan) {
        match oob.kind {
            Kind::Data if (oob.lpn as usize) < self.map.len() => {
                let seq =
                    if self.has_bug(Bug::NewestByAddress) { u64::from(at.0) } else { oob.seq };
                let best = &mut scan.best[oob.lpn as usize];
                if *best < seq + 1 {
                    *best = seq + 1;
                    self.map.set(oob.lpn, at.0 + 1);
                } else if *best == seq + 1 {
                    self.met_again(oob.lpn, seq, at, &mut scan.doubles);
                }
            }
            Kind::Trim => {
                if let Payload::Bytes(bytes) = payload
                    && let Some(entries) = trim::decode(bytes)
                {
                    for entry in &entries {
                        scan.seq = scan.seq.max(entry.seq);
                    }
                    scan.trims.push((at, entries));
                }
            }
            Kind::Map if oob.n == 0 => {
                self.lines.holds_map(line);
                scan.map_pages.push((oob.lpn, oob.seq, at));
            }
            Kind::Map => self.lines.holds_map(line),
            _ => {}
        }
    }

    fn apply_trims(&mut self, covered: u64, scan: &mut Scan) {
        let trust_all = !self.has_bug(Bug::TrimLost);
        for (_, entries) in scan.trims.iter().filter(|_| trust_all) {
            for entry in entries.iter().filter(|e| e.seq > covered) {
                let last = (entry.first.saturating_add(entry.count)).min(self.map.len() as u32);
                for slot in entry.first..last {
                    let best = &mut scan.best[slot as usize];
                    if *best < entry.seq + 1 {
                        *best = entry.seq + 1;
                        self.map.set(slot, 0);
                    }
                }
            }
        }
    }

    /// Valid bits and counts from the map; records are valid as long as they are needed.
    fn count_valid(&mut self) {
        for slot in 0..self.map.len() {
            let entry = self.map.entry(slot as u32);
            if entry == 0 {
                continue;
            }
            let at = Ppn(entry - 1);
            let line = self.lines.line_of(self.g.block_of(at));
            if line == NONE || self.is_valid(at) {
                // The block left its line: what the map says is gone with it. Or a fault let two
                // entries name one place: only one of them can be right.
                self.map.set(slot as u32, 0);
            } else {
                self.set_valid(at, line);
            }
        }
        let directory = self.paged.as_ref().map_or(Vec::new(), |paged| paged.directory().to_vec());
        for (tp, entry) in directory.into_iter().enumerate().filter(|(_, entry)| *entry != 0) {
            let places = (0..self.g.slots_per_page).map(|slot| Ppn(entry - 1 + slot));
            let line = self.lines.line_of(self.g.block_of(Ppn(entry - 1)));
            if line == NONE || places.clone().any(|at| self.is_valid(at)) {
                // A fault made data out of it. What it said is in the map by now.
                if let Some(paged) = &mut self.paged {
                    paged.set_directory(tp, 0, true);
                }
                continue;
            }
            self.lines.holds_map(line);
            for at in places {
                self.set_valid(at, line);
            }
        }
    }

    /// Gives every line its state.
    fn sort_lines(&mut self, meta: u32, scan: &Scan) {
        for line in 0..self.lines.len() {
            if line < meta {
                self.lines.set_apart(line);
            } else if self.lines.capacity(line) == 0 {
                self.lines.retire(line);
            } else if scan.used[line as usize] && self.lines.get(line).valid > 0 {
                self.lines.close(line, 0);
            } else if self.nand.erases_are_whole() && self.is_blank(line) {
                self.release(line);
            } else {
                self.lines.emptied(line);
                // It only has to be erased before it is used.
                self.erases.found(line);
            }
        }
        if self.tx.is_some() {
            self.sort_waiting();
        }
        if self.has_bug(Bug::TxAppendAfterCut) {
            self.append_after_cut();
        }
    }

    /// Whether nothing was programmed in a line since it was erased.
    fn is_blank(&self, line: u32) -> bool {
        let mut members = self.lines.members(line).iter().filter(|m| **m != NONE);
        members.all(|m| self.nand.next_page(BlockId(*m)) == 0)
    }

    /// The planted bug: the last line with room is opened again.
    fn append_after_cut(&mut self) {
        let pages = self.g.pages_per_block;
        let members = |line| self.lines.members(line).iter().filter(|m| **m != NONE);
        let room = |line: &u32| members(*line).any(|m| self.nand.next_page(BlockId(*m)) < pages);
        let Some(line) = self.lines.closed().iter().copied().rev().find(room) else { return };
        self.lines.take(line, LineState::Open);
        self.heads.resume(0, line);
    }
}

impl Scan {
    fn checkpoint_id(&self, found: Option<&Found>) -> u64 {
        // `epoch` was raised above every number met in the metadata areas.
        self.epoch.max(found.map_or(0, |f| f.id))
    }
}
