//! Power-on: which transactions are committed, from flash alone.
//!
//! 1. The newest state record gives floor, bits and losers.
//! 2. An end page commits its transaction; under `counted` only if the number and digest of the
//!    others that can be read are the ones it names.
//! 3. Pages of committed transactions take part as any other, those of others are losers' pages.
//!
//! A page left over from an erase cut short may be a loser's: every page of every block is
//! looked at, also of blocks that belong to no line now, and no loser is forgotten before its
//! last page is erased.

use std::collections::{BTreeMap, BTreeSet};

use block::{BlockId, Ppn};
use nand::{Kind, NO_LPN, Oob, Payload, SlotRead};

use super::commit::Finals;
use super::record::Record;
use super::remap::{self, Alias, Pair};
use super::{END, Left, PageFtl};
use crate::Bug;
use crate::ftl::lines::NONE;
use crate::ftl::recovery::Scan;
use crate::ftl::trim;

/// A slot whose meaning depends on all of flash.
#[derive(Clone, Debug)]
struct Tagged {
    at: Ppn,
    oob: Oob,
    payload: Payload,
}

/// What the readable slots of one transaction say.
#[derive(Default)]
struct Seen {
    /// Newest version of each page.
    pages: BTreeMap<u32, u64>,
    /// Numbers of its records, and what they discard.
    records: BTreeSet<u64>,
    trims: Vec<trim::TrimEntry>,
    ends: Vec<Oob>,
}

impl Seen {
    /// Whether an end page's number and digest are those of the others.
    fn is_whole(&self, end: &Oob, count_only: bool) -> bool {
        let own = |lpn: u32| end.kind == Kind::Data && lpn == end.lpn;
        let gone = |lpn: u32, seq: u64| {
            self.trims.iter().any(|t| t.seq > seq && (t.first..t.first + t.count).contains(&lpn))
        };
        let pages = self.pages.iter().map(|(lpn, seq)| (*lpn, *seq));
        let pages = pages.filter(|(lpn, seq)| !own(*lpn) && !gone(*lpn, *seq));
        let records = self.records.iter().filter(|seq| **seq != end.seq);
        let finals = Finals::new(pages.chain(records.map(|seq| (NO_LPN, *seq))));
        finals.count() == end.n && (count_only || finals.digest() == end.digest)
    }
}

impl PageFtl {
    /// Looks for the slots of transactions and remaps before the scan takes anything into
    /// account, and decides what is committed. The scan books the reads.
    pub(in crate::ftl) fn tx_decide(&mut self, meta: u32, scan: &mut Scan) {
        if self.tx.is_none() || self.is_paper() {
            return;
        }
        let tagged = self.tagged_slots(meta);
        let newest = tagged
            .iter()
            .filter(|slot| slot.oob.kind == Kind::State)
            .filter_map(|slot| match &slot.payload {
                Payload::Bytes(bytes) => Some((slot.oob.seq, slot.at, Record::decode(bytes)?)),
                _ => None,
            })
            .max_by_key(|(seq, at, _)| (*seq, *at));
        let record = newest.as_ref().map(|(_, _, record)| record.clone()).unwrap_or_default();
        let ended = self.ended(&tagged);
        let committed = |tid: u64| tid == 0 || ended.contains(&tid) || record.covers(tid);
        let mut next = record.next.max(record.floor).max(1);
        for tid in record.losers.iter().chain(&record.committed) {
            next = next.max(tid + 1);
        }
        let mut losers: BTreeMap<u64, Left> = BTreeMap::new();
        for slot in &tagged {
            let tid = slot.oob.tid;
            next = next.max(tid + 1);
            if !committed(tid) {
                losers.entry(tid).or_default().slots += 1;
                continue;
            }
            if tid != 0 {
                scan.names.committed.insert(tid);
            }
            if slot.oob.kind == Kind::Remap
                && let Payload::Bytes(bytes) = &slot.payload
                && let Some(pairs) = remap::decode(bytes)
            {
                scan.names.add(slot.at, slot.oob.seq, pairs);
            }
        }
        // Blocks outside of all lines: bad ones, and spares that were in use.
        for block in (0..self.g.blocks()).map(BlockId) {
            if self.lines.line_of(block) != NONE {
                continue;
            }
            for tid in self.tids_in(block) {
                next = next.max(tid + 1);
                if !committed(tid) {
                    losers.entry(tid).or_default().slots += 1;
                }
            }
        }
        let restart = self.has_bug(Bug::TxTidsRestart);
        if let Some(tx) = &mut self.tx {
            tx.next = if restart { 1 } else { next };
            tx.losers = losers;
            tx.record = record;
            tx.record_at = newest.map(|(_, at, _)| at);
        }
    }

    fn tagged_slots(&self, meta: u32) -> Vec<Tagged> {
        let mut tagged = Vec::new();
        let lines = meta..self.lines.len();
        let blocks = lines.flat_map(|line| self.lines.members(line)).filter(|m| **m != NONE);
        for block in blocks.map(|m| BlockId(*m)) {
            let first = self.g.ppn(block, 0);
            for at in (0..self.g.slots_per_block()).map(|slot| Ppn(first.0 + slot)) {
                let (oob, payload) = match self.nand.slot(at) {
                    SlotRead::Good(oob, payload) => (*oob, payload),
                    SlotRead::DataRot(oob) => (*oob, &Payload::None),
                    SlotRead::Blank | SlotRead::Unreadable => continue,
                };
                if oob.tid != 0 || matches!(oob.kind, Kind::State | Kind::Remap) {
                    let kept = oob.kind != Kind::Data;
                    let payload = if kept { payload.clone() } else { Payload::None };
                    tagged.push(Tagged { at, oob, payload });
                }
            }
        }
        tagged
    }

    /// The transactions that an end page commits.
    fn ended(&self, tagged: &[Tagged]) -> BTreeSet<u64> {
        let mut seen: BTreeMap<u64, Seen> = BTreeMap::new();
        for slot in tagged.iter().filter(|slot| slot.oob.tid != 0) {
            let (oob, seen) = (slot.oob, seen.entry(slot.oob.tid).or_default());
            if oob.flags & END != 0 {
                seen.ends.push(oob);
            }
            match (oob.kind, &slot.payload) {
                (Kind::Data, _) => {
                    let newest = seen.pages.entry(oob.lpn).or_default();
                    *newest = (*newest).max(oob.seq);
                }
                (Kind::Trim, Payload::Bytes(bytes)) => {
                    if let Some(entries) = trim::decode(bytes) {
                        seen.records.insert(oob.seq);
                        seen.trims.extend(entries);
                    }
                }
                (Kind::Remap, Payload::Bytes(_)) => {
                    seen.records.insert(oob.seq);
                }
                _ => {}
            }
        }
        let counted = self.tx.as_ref().is_some_and(|tx| tx.counted);
        let count_only = self.has_bug(Bug::TxCountOnly);
        seen.iter()
            .filter(|(_, seen)| {
                seen.ends.iter().any(|end| !counted || seen.is_whole(end, count_only))
            })
            .map(|(tid, _)| *tid)
            .collect()
    }

    /// The sources of committed pairs are unmapped as of their pair.
    pub(in crate::ftl) fn apply_remaps(&mut self, scan: &mut Scan) {
        let pairs: Vec<Pair> = scan.names.pairs().collect();
        for pair in pairs {
            let unmapped = [Some(pair.from), Some(pair.to).filter(|_| pair.seq == 0)];
            for slot in unmapped.into_iter().flatten() {
                let Some(best) = scan.best.get_mut(slot as usize) else { continue };
                if *best < pair.fresh + 1 {
                    *best = pair.fresh + 1;
                    self.map.set(slot, 0);
                }
            }
        }
    }

    /// The newest state record is needed, and the remap records that still say something, newest
    /// first.
    pub(in crate::ftl) fn adopt_tx_records(&mut self, scan: &mut Scan) {
        let names = std::mem::take(&mut scan.names);
        let Some(tx) = &mut self.tx else { return };
        for (at, lpn, seq) in &names.renamed {
            tx.remaps.aliases.insert(at.0, Alias { lpn: *lpn, seq: *seq });
        }
        if let Some(at) = tx.record_at {
            let line = self.lines.line_of(self.g.block_of(at));
            if line != NONE && !self.is_valid(at) {
                self.set_valid(at, line);
            } else if let Some(tx) = &mut self.tx {
                tx.record_at = None;
            }
        }
        let mut records = names.records;
        records.sort_by_key(|(at, seq, _)| std::cmp::Reverse((*seq, *at)));
        let mut said = BTreeSet::new();
        for (at, _, pairs) in records {
            let gone = |slot: u32| self.map.get(slot) == Some(0);
            let needed = |pair: &Pair| {
                names.used.contains(pair) || gone(pair.from) || pair.seq == 0 && gone(pair.to)
            };
            let line = self.lines.line_of(self.g.block_of(at));
            let more = pairs.iter().any(|pair| needed(pair) && !said.contains(pair));
            if more && line != NONE && !self.is_valid(at) {
                said.extend(pairs.iter().copied());
                self.set_valid(at, line);
                if let Some(tx) = &mut self.tx {
                    tx.remaps.adopt(at, pairs);
                }
            }
        }
    }
}

/// What the scan must know of names, and what it finds.
#[derive(Default)]
pub(in crate::ftl) struct Names {
    pub committed: BTreeSet<u64>,
    records: Vec<(Ppn, u64, Vec<Pair>)>,
    steps: BTreeMap<(u32, u64), Pair>,
    used: BTreeSet<Pair>,
    renamed: Vec<(Ppn, u32, u64)>,
    /// The highest number of any pair.
    pub seq: u64,
}

impl Names {
    fn add(&mut self, at: Ppn, seq: u64, pairs: Vec<Pair>) {
        for pair in &pairs {
            self.seq = self.seq.max(pair.fresh);
            if pair.seq != 0 {
                self.steps.insert((pair.from, pair.seq), *pair);
            }
        }
        self.records.push((at, seq, pairs));
    }
    fn pairs(&self) -> impl Iterator<Item = Pair> {
        self.records.iter().flat_map(|(_, _, pairs)| pairs.iter().copied())
    }
    /// The slot and version that a data slot is by now.
    pub fn renamed(&mut self, at: Ppn, lpn: u32, seq: u64) -> (u32, u64) {
        let mut name = (lpn, seq);
        while let Some(pair) = self.steps.get(&name) {
            self.used.insert(*pair);
            name = (pair.to, pair.fresh);
        }
        if name != (lpn, seq) {
            self.renamed.push((at, name.0, name.1));
        }
        name
    }
}
