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

use block::{BlockId, DeviceError, Ppn};
use nand::{Kind, NO_LPN, Oob, Payload};

use super::commit::Finals;
use super::record::Record;
use super::{END, PageFtl};
use crate::Bug;
use crate::ftl::lines::NONE;
use crate::ftl::recovery::Scan;
use crate::ftl::trim;

/// A slot whose meaning depends on all of flash.
#[derive(Clone, Debug)]
pub(in crate::ftl) struct Tagged {
    pub at: Ppn,
    pub line: u32,
    pub oob: Oob,
    pub payload: Payload,
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
    /// Decides about every tagged slot of the scan and gives the committed ones to it.
    pub(in crate::ftl) fn tx_recover(&mut self, scan: &mut Scan) -> Result<(), DeviceError> {
        let tagged = std::mem::take(&mut scan.tagged);
        if self.tx.is_none() {
            return match tagged.is_empty() {
                true => Ok(()),
                false => Err(DeviceError::Unsupported(
                    "the flash holds transactions: power it on with tx.mode as it was written",
                )),
            };
        }
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
        let committed = |tid: u64| ended.contains(&tid) || record.covers(tid);
        let mut next = record.next.max(record.floor).max(1);
        for tid in record.losers.iter().chain(&record.committed) {
            next = next.max(tid + 1);
        }
        let mut losers: BTreeMap<u64, u64> = BTreeMap::new();
        let mut take = Vec::new();
        for slot in tagged.into_iter().filter(|slot| slot.oob.tid != 0) {
            next = next.max(slot.oob.tid + 1);
            if committed(slot.oob.tid) {
                take.push(slot);
            } else {
                *losers.entry(slot.oob.tid).or_default() += 1;
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
                    *losers.entry(tid).or_default() += 1;
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
        for slot in take {
            self.take_slot(slot.at, slot.line, slot.oob, &slot.payload, scan);
        }
        Ok(())
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

    /// The newest state record is needed, wherever it is.
    pub(in crate::ftl) fn adopt_state_record(&mut self) {
        let Some(at) = self.tx.as_ref().and_then(|tx| tx.record_at) else { return };
        let line = self.lines.line_of(self.g.block_of(at));
        if line != NONE && !self.is_valid(at) {
            self.set_valid(at, line);
        } else if let Some(tx) = &mut self.tx {
            tx.record_at = None;
        }
    }
}
