//! Power-on between a copy and the erase of its original: the same version lies in two places.
//!
//! Either place may count. Which one is chosen decides whether there is a line to clean into:
//! * the original counts, so that a line of nothing but copies is empty;
//! * should fewer lines be empty than cleaning keeps in reserve, a line all of whose current slots
//!   have a double elsewhere gives them up. That empties originals whose erase was under way: all
//!   their copies are on flash by then, and some of the originals may be gone.
//!
//! Together with [`PageFtl::cushion`] this keeps one line empty over any number of power cuts
//! (contract C10).

use std::collections::{BTreeMap, BTreeSet};

use block::Ppn;
use nand::{Kind, SlotRead};

use super::PageFtl;
use super::checkpoint::Found;
use super::lines::NONE;
use super::recovery::Scan;
use super::trim::TrimEntry;

/// A second place of a version that the scan has met.
#[derive(Clone, Copy, Debug)]
pub(super) struct Double {
    slot: u32,
    seq: u64,
    at: Ppn,
}

/// A trim record that says nothing which an older one does not say.
#[derive(Clone, Debug)]
pub(super) struct SpareRecord {
    at: Ppn,
    entries: Vec<TrimEntry>,
}

impl PageFtl {
    /// The scan met version `seq` of a slot at `at`, and has met it before.
    pub(super) fn met_again(&mut self, slot: u32, seq: u64, at: Ppn, doubles: &mut Vec<Double>) {
        let held = Ppn(self.map.entry(slot) - 1);
        let readable = |at: Ppn| matches!(self.nand.slot(at), SlotRead::Good(..));
        let better = match (readable(held), readable(at)) {
            (true, true) => self.line_epoch(at) < self.line_epoch(held),
            (held, at) => at && !held,
        };
        let (kept, other) = if better { (at, held) } else { (held, at) };
        if readable(kept) && readable(other) {
            doubles.push(Double { slot, seq, at: other });
        }
        self.map.set(slot, kept.0 + 1);
    }

    /// Which opening of a line put a slot where it is.
    fn line_epoch(&self, at: Ppn) -> u64 {
        self.nand.header(self.g.block_of(at)).map_or(0, |header| header.epoch)
    }

    /// Takes over the trim records that are needed, oldest line first; returns those that only
    /// repeat what others say.
    pub(super) fn adopt_records(&mut self, covered: u64, scan: &mut Scan) -> Vec<SpareRecord> {
        let mut records = std::mem::take(&mut scan.trims);
        records.retain(|(at, entries)| {
            let line = self.lines.line_of(self.g.block_of(*at));
            // (A fault may have made the map name a record's place.)
            line != NONE
                && !self.is_valid(*at)
                && entries.iter().any(|e| e.seq > covered && self.is_live(e))
        });
        records.sort_by_key(|(at, _)| (self.line_epoch(*at), *at));
        let mut said = BTreeSet::new();
        let mut spare = Vec::new();
        for (at, mut entries) in records {
            entries.retain(|e| e.seq > covered && self.is_live(e));
            let before = said.len();
            said.extend(entries.iter().copied());
            if said.len() > before {
                let line = self.lines.line_of(self.g.block_of(at));
                self.set_valid(at, line);
                self.trims.adopt(at, entries);
            } else {
                spare.push(SpareRecord { at, entries });
            }
        }
        spare
    }

    /// Empties lines whose current slots all lie elsewhere too, if hardly any line is empty.
    /// Works on valid counts only: no line has a state yet.
    pub(super) fn empty_double_lines(
        &mut self,
        meta: u32,
        found: Option<&Found>,
        scan: &Scan,
        mut spare: Vec<SpareRecord>,
    ) {
        let usable = (meta..self.lines.len()).filter(|l| self.lines.capacity(*l) > 0);
        let empty = usable.filter(|line| !self.holds(*line, scan)).count();
        if empty >= self.thresholds().reserve as usize {
            return;
        }
        let mut doubles = self.doubles_of_current(found, scan);
        let mut lines: Vec<u32> = doubles
            .keys()
            .map(|slot| Ppn(self.map.entry(*slot) - 1))
            .chain(self.trims.places())
            .map(|at| self.lines.line_of(self.g.block_of(at)))
            .collect();
        lines.sort_unstable();
        lines.dedup();
        lines.sort_by_key(|line| self.opened_epoch(*line));
        for line in lines {
            self.empty_double_line(line, scan, &mut doubles, &mut spare);
        }
    }

    fn opened_epoch(&self, line: u32) -> u64 {
        let members = self.lines.members(line).iter().filter(|m| **m != NONE);
        members
            .filter_map(|m| self.nand.header(block::BlockId(*m)))
            .map(|h| h.epoch)
            .max()
            .unwrap_or(0)
    }

    fn holds(&self, line: u32, scan: &Scan) -> bool {
        scan.used[line as usize] && self.lines.get(line).valid > 0
    }

    /// Slots whose current version has another readable place, and that place.
    fn doubles_of_current(&self, found: Option<&Found>, scan: &Scan) -> BTreeMap<u32, Ppn> {
        let mut doubles = BTreeMap::new();
        for double in &scan.doubles {
            let entry = self.map.entry(double.slot);
            if scan.best[double.slot as usize] == double.seq + 1
                && entry != 0
                && entry - 1 != double.at.0
            {
                doubles.insert(double.slot, double.at);
            }
        }
        let Some(found) = found else { return doubles };
        // Originals that a checkpoint speaks of were not scanned: they are looked up.
        let per_page = self.paged.as_ref().map(|paged| paged.per_page() as usize);
        let mut stored: (usize, Option<Vec<u32>>) = (usize::MAX, None);
        for slot in 0..self.map.len() {
            let (best, entry) = (scan.best[slot], self.map.entry(slot as u32));
            if best == 0 || best - 1 > found.seq || entry == 0 {
                continue;
            }
            let settled = match per_page {
                None => found.entries[slot],
                Some(n) => {
                    if stored.0 != slot / n {
                        stored = (slot / n, self.stored_map_page(slot / n));
                    }
                    stored.1.as_ref().and_then(|page| page.get(slot % n)).copied().unwrap_or(0)
                }
            };
            if settled == 0 || settled == entry {
                continue;
            }
            let at = Ppn(settled - 1);
            let same = matches!(self.nand.slot(at), SlotRead::Good(oob, _)
                if oob.kind == Kind::Data && oob.lpn == slot as u32 && oob.seq == best - 1);
            if same {
                doubles.insert(slot as u32, at);
            }
        }
        doubles
    }

    fn empty_double_line(
        &mut self,
        line: u32,
        scan: &Scan,
        doubles: &mut BTreeMap<u32, Ppn>,
        spare: &mut Vec<SpareRecord>,
    ) {
        let elsewhere = |ftl: &PageFtl, at: Ppn| {
            let other = ftl.lines.line_of(ftl.g.block_of(at));
            other != NONE && other != line && ftl.holds(other, scan) && !ftl.is_valid(at)
        };
        let lies_here = |ftl: &PageFtl, at: Ppn| ftl.lines.line_of(ftl.g.block_of(at)) == line;
        let slots: Vec<(u32, Ppn)> = doubles
            .iter()
            .filter(|(slot, double)| {
                lies_here(self, Ppn(self.map.entry(**slot) - 1)) && elsewhere(self, **double)
            })
            .map(|(slot, double)| (*slot, *double))
            .collect();
        let records: Vec<(Ppn, Ppn)> = self
            .trims
            .places()
            .filter(|at| lies_here(self, *at))
            .filter_map(|at| {
                let entries = self.trims.entries(at);
                let double = spare.iter().find(|s| {
                    elsewhere(self, s.at) && entries.iter().all(|e| s.entries.contains(e))
                })?;
                Some((at, double.at))
            })
            .collect();
        if (slots.len() + records.len()) as u32 != self.lines.get(line).valid {
            return;
        }
        for (slot, double) in slots {
            let old = Ppn(self.map.entry(slot) - 1);
            self.clear_valid(old);
            self.map.set(slot, double.0 + 1);
            self.set_valid(double, self.lines.line_of(self.g.block_of(double)));
            doubles.remove(&slot);
        }
        for (old, double) in records {
            self.clear_valid(old);
            // One spare may stand for several records: it is taken over once, with all it says.
            self.trims.take(old);
            if let Some(at) = spare.iter().position(|s| s.at == double) {
                let record = spare.swap_remove(at);
                self.set_valid(double, self.lines.line_of(self.g.block_of(double)));
                self.trims.adopt(double, record.entries);
            }
        }
    }
}
