//! Pages change their names without being written: remap records and aliases.
//!
//! A record's entry says that the version `seq` of slot `from` is version `fresh` of slot `to`
//! from now on, and that `from` is unmapped. Until the page itself is copied, its own record
//! still names the old slot: the place has an *alias*. An entry is needed while its alias is in
//! force; after that it is worth a discard of `from`, and becomes one when its record moves.

use std::collections::{BTreeMap, BTreeSet};

use block::{BlockId, DeviceError, Lpn, Ppn, Time, TxError, TxId};
use nand::{Cause, Kind, NO_LPN, Oob, Payload, SlotRead};

use super::begin::off;
use super::commit::Finals;
use super::{END, PageFtl};
use crate::Bug;
use crate::ftl::head::Append;
use crate::ftl::trim::TrimEntry;

/// Bytes of an entry on flash.
const ENTRY: usize = 20;
/// Records are merged when there are so many more than twice what the last merge left.
const MERGE: usize = 4;

/// One pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pair {
    pub to: u32,
    pub from: u32,
    /// The version moved; 0 if the source was unmapped.
    pub seq: u64,
    pub fresh: u64,
}

/// What a place's own record does not say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alias {
    pub lpn: u32,
    pub seq: u64,
}

/// The record about to be appended.
#[derive(Clone, Debug)]
enum Arriving {
    New(Vec<Pair>),
    From(Ppn),
}

/// Remapped pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Remaps {
    pub aliases: BTreeMap<u32, Alias>,
    records: BTreeMap<u32, Vec<Pair>>,
    arriving: Option<Arriving>,
    merged: usize,
    /// Pairs in a record.
    limit: usize,
}

impl Remaps {
    pub fn new(limit: usize) -> Remaps {
        Remaps { limit, ..Remaps::default() }
    }
    pub fn len(&self) -> usize {
        self.records.len()
    }
    pub fn adopt(&mut self, at: Ppn, pairs: Vec<Pair>) {
        self.records.insert(at.0, pairs);
    }
}

pub(super) fn encode(pairs: &[Pair]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 + ENTRY * pairs.len());
    bytes.extend((pairs.len() as u32).to_le_bytes());
    for pair in pairs {
        bytes.extend(pair.to.to_le_bytes());
        bytes.extend(pair.from.to_le_bytes());
        bytes.extend(&pair.seq.to_le_bytes()[..6]);
        bytes.extend(&pair.fresh.to_le_bytes()[..6]);
    }
    bytes
}

/// Reads a record's payload; `None` if it is none.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<Pair>> {
    let count = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let entries = bytes.get(4..4 + count.checked_mul(ENTRY)?)?;
    let u32_at = |e: &[u8], i: usize| u32::from_le_bytes([e[i], e[i + 1], e[i + 2], e[i + 3]]);
    let u48_at = |e: &[u8], i: usize| {
        u64::from(u32_at(e, i)) | u64::from(e[i + 4]) << 32 | u64::from(e[i + 5]) << 40
    };
    let pair = |e: &[u8]| Pair {
        to: u32_at(e, 0),
        from: u32_at(e, 4),
        seq: u48_at(e, 8),
        fresh: u48_at(e, 14),
    };
    Some(entries.chunks_exact(ENTRY).map(pair).collect())
}

impl PageFtl {
    /// A slot's record as it is to be understood.
    pub(in crate::ftl) fn named(&self, at: Ppn, oob: Oob) -> Oob {
        match self.alias(at) {
            Some(alias) if oob.kind == Kind::Data => Oob { lpn: alias.lpn, seq: alias.seq, ..oob },
            _ => oob,
        }
    }
    fn alias(&self, at: Ppn) -> Option<Alias> {
        self.tx.as_ref()?.remaps.aliases.get(&at.0).copied()
    }

    /// The version that a mapped place on flash holds.
    fn version_at(&self, at: Ppn) -> u64 {
        match (self.alias(at), self.nand.truth(at)) {
            (Some(alias), _) => alias.seq,
            (None, SlotRead::Good(oob, _)) => oob.seq,
            // Nothing names a version that cannot be read; the destination cannot be either.
            _ => 0,
        }
    }

    /// Makes destinations name the pages of sources, in order; when that is durable.
    pub fn remap(&mut self, pairs: &[(u32, u32)]) -> Result<Time, TxError> {
        let Some(tx) = &self.tx else { return Err(off()) };
        if tx.paper.is_some() {
            return Err(super::paper::NOT_THERE.into());
        }
        for (to, from) in pairs {
            for page in [*to, *from] {
                if let Some(owner) = tx.owner(page) {
                    return Err(TxError::Conflict { page: Lpn(page), owner: TxId(owner) });
                }
            }
        }
        if pairs.iter().any(|(to, from)| to == from) {
            return Err(DeviceError::Unsupported("a page cannot take its own name").into());
        }
        if pairs.is_empty() {
            return Ok(self.now);
        }
        self.check_writable()?;
        if self.remaps_pile_up() {
            self.merge_remaps()?;
        }
        self.make_room()?;
        // More than one record is a transaction of its own.
        let limit = self.pairs_of_record();
        let tid = if pairs.len() > limit { self.tx_begin()? } else { 0 };
        let result = self.remap_now(pairs, tid);
        if result.is_err() {
            self.read_only.get_or_insert("a remap failed midway");
        }
        Ok(result?)
    }

    fn remap_now(&mut self, pairs: &[(u32, u32)], tid: u64) -> Result<Time, DeviceError> {
        // What gets a new name is on flash first, where no later program can damage it.
        self.program_heads(|_| true)?;
        self.protect_pairs()?;
        let told = self.nand.sched_mut().tell_programs();
        let open = self.tx.as_ref().and_then(|tx| tx.open.get(&tid));
        let after = open.map_or(Time::ZERO, |open| open.after);
        let ready = self.now.max(self.nand.programs_end()).max(told).max(after);
        let mut entries = Vec::with_capacity(pairs.len());
        let mut names: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
        for (to, from) in pairs {
            let found = names.get(from).copied().unwrap_or_else(|| {
                let mapped = self.map.entry(*from);
                (mapped, if mapped == 0 { 0 } else { self.version_at(Ppn(mapped - 1)) })
            });
            let fresh = self.take_seq();
            entries.push(Pair { to: *to, from: *from, seq: found.1, fresh });
            names.insert(*from, (0, 0));
            names.insert(*to, (found.0, fresh));
        }
        let mut said = Vec::new();
        let limit = self.pairs_of_record();
        let count = entries.len().div_ceil(limit);
        for (i, chunk) in entries.chunks(limit).enumerate() {
            let finals = Finals::new(said.iter().map(|seq| (NO_LPN, *seq)));
            let end =
                Oob { flags: END, n: finals.count(), digest: finals.digest(), ..Oob::default() };
            let last = i + 1 == count && tid != 0;
            let mut ready = ready;
            if last {
                self.program_head(0)?;
                let told = self.nand.sched_mut().tell_programs();
                ready = ready.max(self.nand.programs_end()).max(told);
            }
            let oob = if last { end } else { Oob::default() };
            said.push(self.append_remaps(chunk.to_vec(), Oob { tid, ..oob }, ready)?);
        }
        self.program_head(0)?;
        self.protect_pairs()?;
        let told = self.nand.sched_mut().tell_programs();
        let done = self.now.max(self.nand.programs_end()).max(told);
        // A page that only changed its name stays valid.
        let kept: BTreeSet<u32> = names.values().map(|(mapped, _)| *mapped).collect();
        for (slot, (mapped, fresh)) in names {
            let old = self.map.replace(slot, mapped);
            if old != 0 && !kept.contains(&old) {
                self.clear_valid(Ppn(old - 1));
            }
            if mapped != 0
                && let Some(tx) = &mut self.tx
            {
                tx.remaps.aliases.insert(mapped - 1, Alias { lpn: slot, seq: fresh });
            }
        }
        let Some(tx) = &mut self.tx else { return Ok(done) };
        if tid != 0 {
            tx.open.remove(&tid);
            tx.committed.insert(tid);
            tx.fading.push(done);
            tx.stats.committed += 1;
            tx.forget_committed();
        }
        tx.proven = tx.proven.max(done);
        tx.stats.remapped += pairs.len() as u64;
        self.pay_debt()?;
        Ok(done)
    }

    /// Appends a record; its number. It goes where host data goes, never among copies.
    fn append_remaps(
        &mut self,
        pairs: Vec<Pair>,
        oob: Oob,
        ready: Time,
    ) -> Result<u64, DeviceError> {
        let seq = self.take_seq();
        let payload = Payload::Bytes(encode(&pairs).into());
        let oob = Oob { kind: Kind::Remap, lpn: NO_LPN, seq, ..oob };
        if let Some(tx) = &mut self.tx {
            tx.remaps.arriving = Some(Arriving::New(pairs));
            tx.stats.remap_records += 1;
        }
        self.append(0, Append { oob, cause: Cause::Tx, payload, ready })?;
        Ok(seq)
    }

    /// The record about to be appended has a place.
    pub(in crate::ftl) fn remap_record_placed(&mut self, to: Ppn, tid: u64) {
        let Some(tx) = &mut self.tx else { return };
        let pairs = match tx.remaps.arriving.take() {
            Some(Arriving::New(pairs)) => Some(pairs),
            Some(Arriving::From(from)) => tx.remaps.records.remove(&from.0),
            None => None,
        };
        if let Some(pairs) = pairs {
            tx.remaps.records.insert(to.0, pairs);
        }
        if tid != 0 {
            tx.count_placed(tid);
        }
    }

    /// The record at a place is about to be appended again: its program failed.
    pub(in crate::ftl) fn remap_record_moves(&mut self, from: Ppn) {
        if let Some(tx) = &mut self.tx {
            tx.remaps.arriving = Some(Arriving::From(from));
        }
    }

    /// Whether a record lies at a place.
    pub(in crate::ftl) fn is_remap_record(&self, at: Ppn) -> bool {
        self.tx.as_ref().is_some_and(|tx| tx.remaps.records.contains_key(&at.0))
    }

    /// Whether a pair's page still bears its old name on flash, and is what the map names.
    pub(super) fn alias_holds(&self, pair: &Pair) -> bool {
        let mapped = self.map.entry(pair.to);
        mapped != 0
            && self
                .alias(Ppn(mapped - 1))
                .is_some_and(|alias| alias.lpn == pair.to && alias.seq == pair.fresh)
    }

    /// What is needed of some pairs as pairs; discards of the others' sources, where those are
    /// unmapped, wait to be recorded.
    fn sift(&mut self, pairs: Vec<Pair>) -> Vec<Pair> {
        let drop_all = self.has_bug(Bug::RemapDropped);
        let mut kept = Vec::new();
        // A page that was renamed twice needs every step of the way.
        let needed = self.needed_steps(&pairs);
        for (pair, needed) in pairs.into_iter().zip(needed) {
            if needed && !drop_all {
                kept.push(pair);
                continue;
            }
            let (to, from, seq) = (pair.to, pair.from, pair.fresh);
            if self.map.entry(from) == 0 {
                self.trims.wait(TrimEntry { first: from, count: 1, seq });
            }
            if pair.seq == 0 && self.map.entry(to) == 0 {
                self.trims.wait(TrimEntry { first: to, count: 1, seq });
            }
        }
        kept
    }

    /// For each pair, whether an alias in force came about by it.
    fn needed_steps(&self, pairs: &[Pair]) -> Vec<bool> {
        let Some(tx) = &self.tx else { return vec![false; pairs.len()] };
        let mut steps: BTreeMap<(u32, u64), Pair> = BTreeMap::new();
        for pair in tx.remaps.records.values().flatten().chain(pairs) {
            steps.insert((pair.to, pair.fresh), *pair);
        }
        let mut needed: BTreeSet<(u32, u64)> = BTreeSet::new();
        for pair in steps.values().filter(|pair| self.alias_holds(pair)) {
            let mut at = Some(*pair);
            while let Some(step) = at {
                if !needed.insert((step.to, step.fresh)) {
                    break;
                }
                at = steps.get(&(step.from, step.seq)).copied();
            }
        }
        pairs.iter().map(|pair| needed.contains(&(pair.to, pair.fresh))).collect()
    }

    /// Cleaning met a record: what is needed of it is written again.
    pub(in crate::ftl) fn move_remap_record(&mut self, from: Ppn) -> Result<(), DeviceError> {
        let Some(tx) = &mut self.tx else { return Ok(()) };
        let Some(pairs) = tx.remaps.records.get(&from.0).cloned() else { return Ok(()) };
        let kept = self.sift(pairs);
        if !kept.is_empty() {
            self.find_place(0, NO_LPN)?;
        }
        self.clear_valid(from);
        let Some(tx) = &mut self.tx else { return Ok(()) };
        tx.remaps.records.remove(&from.0);
        if kept.is_empty() {
            return Ok(());
        }
        let ready = self.tx_proven().max(self.now);
        self.append_remaps(kept, Oob::default(), ready).map(|_| ())
    }

    fn pairs_of_record(&self) -> usize {
        self.tx.as_ref().map_or(1, |tx| tx.remaps.limit)
    }

    fn remaps_pile_up(&self) -> bool {
        self.tx.as_ref().is_some_and(|tx| tx.remaps.len() >= 2 * tx.remaps.merged + MERGE)
    }

    /// Whether records could be fewer.
    pub(in crate::ftl) fn can_merge_remaps(&self) -> bool {
        self.tx.as_ref().is_some_and(|tx| tx.remaps.len() > tx.remaps.merged + 1)
    }

    /// Says again, in as few records as possible, what is needed of all of them. The old ones are
    /// not valid any more, but no line of them is erased before the new ones are on flash.
    pub(in crate::ftl) fn merge_remaps(&mut self) -> Result<(), DeviceError> {
        let Some(tx) = &mut self.tx else { return Ok(()) };
        let records = tx.remaps.records.clone();
        let mut pairs: Vec<Pair> = records.values().flatten().copied().collect();
        pairs.sort_unstable();
        pairs.dedup();
        let kept = self.sift(pairs);
        for at in records.keys() {
            self.clear_valid(Ppn(*at));
        }
        let Some(tx) = &mut self.tx else { return Ok(()) };
        tx.remaps.records.clear();
        let limit = tx.remaps.limit;
        tx.remaps.merged = kept.len().div_ceil(limit);
        let ready = self.tx_proven().max(self.now);
        for chunk in kept.chunks(limit) {
            self.append_remaps(chunk.to_vec(), Oob::default(), ready)?;
        }
        Ok(())
    }

    /// A block was erased: its places mean nothing any more.
    pub(in crate::ftl) fn forget_aliases(&mut self, block: BlockId) {
        let first = self.g.ppn(block, 0).0;
        let last = first + self.g.slots_per_block();
        let Some(tx) = &mut self.tx else { return };
        while let Some((at, _)) = tx.remaps.aliases.range(first..last).next() {
            let at = *at;
            tx.remaps.aliases.remove(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_survive_their_bytes() {
        let pair = |i: u32| Pair { to: i, from: i + 7, seq: u64::from(i) << 17, fresh: 1 << 47 };
        let pairs: Vec<Pair> = (0..204).map(pair).collect();
        let bytes = encode(&pairs);
        assert!(bytes.len() <= 4096);
        assert_eq!(decode(&bytes), Some(pairs));
        assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
    }
}
