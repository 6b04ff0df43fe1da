//! Power-on by reading every record.
//!
//! 1. Every page of every line is read. The highest number of a slot wins; a discard with a
//!    higher number beats it; copies keep their number, so several places may be current.
//! 2. A merge that was under way, or whose sources are not yet erased, has left every slot twice.
//!    Lines of which every current slot also lies elsewhere are given up, so that no more lines
//!    are in use than there were before the merge, or after it.
//! 3. A line whose current slots lie at the offsets of one logical block stands for it in the
//!    block map. The others are log lines; nothing is appended to them.
//! 4. All other lines are erased before use: an erase cut short can look like a whole one.
//!
//! Nothing is written: a cut during recovery changes nothing.

use std::sync::Arc;

use block::{BlockId, DeviceError, Plant, Ppn, Time};
use nand::{Kind, Nand, Payload, ReadCause, SlotRead};

use super::erase::Waiting;
use super::lines::{NONE, Role};
use super::{HybridFtl, power};
use crate::Bug;
use crate::config::Params;
use crate::ftl::trim::{TrimEntry, decode};
use crate::stats::RecoveryStats;

/// One readable version of a slot.
#[derive(Clone, Copy)]
struct Found {
    slot: u32,
    /// The highest is current: the number of the version.
    rank: u64,
    seq: u64,
    line: u32,
    position: u32,
}

#[derive(Default)]
struct Scan {
    found: Vec<Found>,
    trims: Vec<TrimEntry>,
    /// Lines with records of discards.
    records: Vec<u32>,
    seq: u64,
    pages_read: u64,
    end: Time,
}

impl HybridFtl {
    /// Builds the FTL of a drive that is powered on with what `nand` holds.
    pub fn mount(p: &Arc<Params>, nand: Nand, bug: Plant<Bug>) -> Result<HybridFtl, DeviceError> {
        let mut ftl = HybridFtl::bare(p, nand);
        ftl.bug = bug;
        ftl.adopt_blocks();
        let mut scan = Scan::default();
        for line in 0..ftl.layout.len() {
            if ftl.lines[line as usize].role != Role::Retired {
                ftl.scan_line(line, &mut scan)?;
            }
        }
        let current = ftl.current(&scan);
        let kept = ftl.choose_lines(&current);
        ftl.adopt(&current, &kept);
        ftl.assign_roles(&kept, &scan.records);
        ftl.seq = scan.seq;
        ftl.now = scan.end;
        ftl.recovery = Some(RecoveryStats {
            pages_read: scan.pages_read,
            time: scan.end.since(Time::ZERO),
            lines: u64::from(ftl.layout.len()),
            from_checkpoint: false,
        });
        ftl.check_space();
        Ok(ftl)
    }

    fn scan_line(&mut self, line: u32, scan: &mut Scan) -> Result<(), DeviceError> {
        for member in 0..self.layout.members(line).len() {
            let block = BlockId(self.layout.members(line)[member]);
            if let Some(header) = self.nand.header(block) {
                self.epoch = self.epoch.max(header.epoch);
                let entry = &mut self.lines[line as usize];
                entry.epoch = entry.epoch.max(header.epoch);
            }
            // One blank page may be a program that never took; two end the block.
            let mut blanks = 0;
            for page in 0..self.g.pages_per_block {
                let spp = self.g.slots_per_page;
                scan.pages_read += 1;
                let end = self
                    .nand
                    .read(Time::ZERO, &[(block, page)], &[1], spp, ReadCause::Recovery)
                    .map_err(power)?;
                scan.end = scan.end.max(end);
                let first = self.g.ppn(block, page);
                let mut any = false;
                for slot in 0..spp {
                    any |= self.scan_slot(line, Ppn(first.0 + slot), scan);
                }
                blanks = if any { 0 } else { blanks + 1 };
                if blanks == 2 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes one slot into account; false if it is blank.
    fn scan_slot(&mut self, line: u32, at: Ppn, scan: &mut Scan) -> bool {
        let (oob, payload) = match self.nand.slot(at) {
            SlotRead::Blank => return false,
            SlotRead::Unreadable => return true,
            SlotRead::DataRot(oob) => (*oob, None),
            SlotRead::Good(oob, payload) => (*oob, Some(payload)),
        };
        scan.seq = scan.seq.max(oob.seq);
        let position = self.layout.position(&self.g, at).1;
        let entry = &mut self.lines[line as usize];
        entry.reached = entry.reached.max(position + 1);
        match oob.kind {
            Kind::Data if (oob.lpn as usize) < self.map.len() => {
                let by_address = self.bug.has(Bug::NewestByAddress);
                let rank = if by_address { u64::from(at.0) } else { oob.seq };
                scan.found.push(Found { slot: oob.lpn, rank, seq: oob.seq, line, position });
            }
            Kind::Trim => {
                if scan.records.last() != Some(&line) {
                    scan.records.push(line);
                }
                if let Some(Payload::Bytes(bytes)) = payload
                    && let Some(entries) = decode(bytes)
                {
                    scan.trims.extend(entries);
                }
            }
            _ => {}
        }
        true
    }

    /// The versions that are current, in order of slots.
    fn current(&self, scan: &Scan) -> Vec<Found> {
        // Number of the newest version plus one; 0 = none.
        let mut best = vec![0u64; self.map.len()];
        for found in &scan.found {
            let best = &mut best[found.slot as usize];
            *best = (*best).max(found.rank + 1);
        }
        if !self.has_bug(Bug::TrimLost) {
            for trim in &scan.trims {
                let last = trim.first.saturating_add(trim.count).min(self.slots());
                for best in &mut best[trim.first.min(last) as usize..last as usize] {
                    // Nothing found has this number: a version has one of its own.
                    *best = (*best).max(trim.seq + 1);
                }
            }
        }
        let newest = |f: &&Found| best[f.slot as usize] == f.rank + 1;
        let mut current: Vec<Found> = scan.found.iter().filter(newest).copied().collect();
        current.sort_unstable_by_key(|f| (f.slot, self.lines[f.line as usize].epoch, f.position));
        current
    }

    /// The lines that are needed for every current slot to have a place. Giving up the newest
    /// first takes back a merge cut short; the oldest first completes one that is whole: the
    /// better of both counts.
    fn choose_lines(&self, current: &[Found]) -> Vec<bool> {
        let mut by_line: Vec<Vec<u32>> = vec![Vec::new(); self.lines.len()];
        for found in current {
            by_line[found.line as usize].push(found.slot);
        }
        let mut order: Vec<u32> = (0..self.layout.len()).collect();
        order.sort_unstable_by_key(|l| (self.lines[*l as usize].epoch, *l));
        let give_up = |order: &mut dyn Iterator<Item = u32>| {
            let mut places = vec![0u32; self.map.len()];
            for found in current {
                places[found.slot as usize] += 1;
            }
            let mut kept = vec![false; self.lines.len()];
            for line in order {
                let slots = &by_line[line as usize];
                for slot in slots {
                    places[*slot as usize] -= 1;
                }
                if slots.iter().any(|slot| places[*slot as usize] == 0) {
                    kept[line as usize] = true;
                    for slot in slots {
                        places[*slot as usize] += 1;
                    }
                }
            }
            kept
        };
        let count = |kept: &[bool]| kept.iter().filter(|k| **k).count();
        let oldest_first = give_up(&mut order.iter().copied());
        let newest_first = give_up(&mut order.iter().rev().copied());
        if count(&newest_first) < count(&oldest_first) { newest_first } else { oldest_first }
    }

    /// Enters the current slots: each where it was put first, of the lines kept.
    fn adopt(&mut self, current: &[Found], kept: &[bool]) {
        for found in current.iter().filter(|f| kept[f.line as usize]) {
            if self.map[found.slot as usize] == 0 {
                let at = self.layout.ppn(&self.g, found.line, found.position);
                self.map[found.slot as usize] = at.0 + 1;
                self.newest[found.slot as usize] = found.seq;
                self.lines[found.line as usize].valid += 1;
                self.mapped_total += 1;
            }
        }
    }

    /// Gives every line its role.
    fn assign_roles(&mut self, kept: &[bool], records: &[u32]) {
        let mut owners: Vec<Option<u32>> = vec![None; self.lines.len()];
        for slot in 0..self.slots() {
            let entry = self.map[slot as usize];
            if entry == 0 {
                continue;
            }
            let (line, position) = self.layout.position(&self.g, Ppn(entry - 1));
            let (owner, offset) = self.split(slot);
            let said = owners[line as usize].get_or_insert(owner);
            if *said != owner || position != offset {
                *said = NONE;
            }
        }
        let mut logs = Vec::new();
        for line in 0..self.layout.len() {
            let entry = &mut self.lines[line as usize];
            entry.flushed = entry.reached;
            if entry.role == Role::Retired {
                continue;
            }
            let valid = entry.valid;
            if records.contains(&line) && valid == 0 {
                entry.role = Role::Record;
                self.trims.old.push(line);
            } else if !kept[line as usize] || valid == 0 {
                entry.role = Role::Erasing;
                self.waiting.push_back(Waiting::after_mount(line));
            } else {
                match owners[line as usize] {
                    Some(owner) if owner != NONE => {
                        let rival = std::mem::replace(&mut self.data_of[owner as usize], line);
                        // Of two, the one with more current slots is the data block.
                        if rival == NONE {
                            continue;
                        }
                        let (stays, goes) = if self.lines[rival as usize].valid >= valid {
                            (rival, line)
                        } else {
                            (line, rival)
                        };
                        self.data_of[owner as usize] = stays;
                        logs.push(goes);
                    }
                    _ => logs.push(line),
                }
            }
        }
        for (owner, line) in self.data_of.iter().enumerate().filter(|(_, l)| **l != NONE) {
            let entry = &mut self.lines[*line as usize];
            entry.role = Role::Data;
            entry.owner = owner as u32;
        }
        logs.sort_unstable_by_key(|l| (self.lines[*l as usize].epoch, *l));
        for line in &logs {
            self.lines[*line as usize].role = Role::Log;
        }
        self.logs = logs;
    }
}
