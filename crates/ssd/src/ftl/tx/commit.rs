//! Commits: the end page, or one state record for several transactions.
//!
//! Room is made before; from the first record or end page on nothing is cleaned until the map
//! names the new pages. Old pages can be reclaimed only then, and no erase that relies on it ends
//! before the programs booked by then.

use block::{DeviceError, Time, TxError, TxId, crc32c};
use nand::{Kind, NO_LPN, Oob, Payload};

use super::begin::off;
use super::{END, PageFtl, Place, table};
use crate::Bug;
use crate::ftl::trim::{ENTRIES, TrimEntry};

/// What an end page says of the other pages of its transaction.
pub(super) struct Finals {
    pages: Vec<(u32, u64)>,
}

impl Finals {
    pub fn new(pages: impl Iterator<Item = (u32, u64)>) -> Finals {
        let mut pages: Vec<(u32, u64)> = pages.collect();
        pages.sort_unstable();
        Finals { pages }
    }
    /// How many there are.
    pub fn count(&self) -> u16 {
        self.pages.len() as u16
    }
    /// CRC32C over (lpn u32, seq u48) in ascending order.
    pub fn digest(&self) -> u32 {
        let mut bytes = Vec::with_capacity(10 * self.pages.len());
        for (lpn, seq) in &self.pages {
            bytes.extend(lpn.to_le_bytes());
            bytes.extend(&seq.to_le_bytes()[..6]);
        }
        crc32c(0, &bytes)
    }
}

impl PageFtl {
    /// Commits transactions together; when that is durable.
    pub fn tx_commit(&mut self, tids: &[u64]) -> Result<Time, TxError> {
        let mut tids = tids.to_vec();
        tids.sort_unstable();
        tids.dedup();
        if self.is_paper() {
            return self.paper_commit(&tids);
        }
        let Some(tx) = &self.tx else { return Err(off()) };
        if let Some(tid) = tids.iter().find(|tid| !tx.open.contains_key(tid)) {
            return Err(TxError::Unknown(TxId(*tid)));
        }
        let work: Vec<u64> = tids.iter().copied().filter(|tid| tx.open[tid].pages > 0).collect();
        let mut done = self.now;
        if !work.is_empty() {
            self.check_writable()?;
            // An end page must be the last page of one transaction; a record serves for all.
            let ends = |open: &super::Open| open.held.is_some() || open.trimmed > 0;
            let one = work.len() == 1 && ends(&tx.open[&work[0]]);
            if !one {
                for tid in &work {
                    self.tx_spill(*tid, 0)?;
                }
            }
            self.make_room()?;
            let result = if one { self.tx_end(work[0]) } else { self.tx_end_many(&work) };
            done = match result {
                Ok(done) => done,
                Err(error) => {
                    // Nobody knows what of it is on flash: only a power-on can tell.
                    self.read_only.get_or_insert("a commit failed midway");
                    return Err(error.into());
                }
            };
        }
        let Some(tx) = &mut self.tx else { return Err(off()) };
        for tid in &tids {
            tx.open.remove(tid);
            tx.stats.committed += 1;
        }
        tx.stats.together += u64::from(work.len() > 1);
        tx.forget_committed();
        self.pay_debt()?;
        Ok(done)
    }

    /// Ends one transaction with its held page, or with the last record of its discards.
    fn tx_end(&mut self, tid: u64) -> Result<Time, DeviceError> {
        let records = self.tx_trim_entries(tid);
        let held = self.tx.as_ref().is_some_and(|tx| tx.open[&tid].held.is_some());
        let before = records.len() - usize::from(!held);
        let mut said = Vec::new();
        for entries in &records[..before] {
            said.push(self.tx_append_trims(tid, entries.clone(), Oob::default(), Time::ZERO)?.1);
        }
        let barrier = self.tx.as_ref().is_some_and(|tx| !tx.counted);
        let mut ready = Time::ZERO;
        if barrier && !self.has_bug(Bug::TxNoBarrier) {
            ready = self.tx_flush(&[tid])?;
        }
        let Some(tx) = &self.tx else { return Ok(self.now) };
        let own = tx.open[&tid].held.as_ref().map(|held| tx.table.entry(held.entry).lpn);
        let pages = tx.table.chain(tx.open[&tid].first).map(|(_, entry)| entry);
        let pages = pages.filter(|e| e.place != Place::Trimmed && Some(e.lpn) != own);
        let finals =
            Finals::new(pages.map(|e| (e.lpn, e.seq)).chain(said.iter().map(|seq| (NO_LPN, *seq))));
        let oob = Oob { flags: END, n: finals.count(), digest: finals.digest(), ..Oob::default() };
        if self.has_bug(Bug::TxEarlyReuse) {
            self.tx_publish_early(tid)?;
        }
        let head = match records.last().filter(|_| !held) {
            Some(entries) => self.tx_append_trims(tid, entries.clone(), oob, ready)?.0,
            None => self.tx_append_held(tid, oob, ready)?,
        };
        self.program_head(head)?;
        let done = self.tx_flush(&[tid])?;
        self.tx_publish(tid, done);
        Ok(done)
    }

    /// The planted bug: old pages are reclaimed before the end page is on flash.
    fn tx_publish_early(&mut self, tid: u64) -> Result<(), DeviceError> {
        let Some(tx) = &self.tx else { return Ok(()) };
        let pages: Vec<u32> = tx
            .table
            .chain(tx.open[&tid].first)
            .filter(|(_, e)| matches!(e.place, Place::At(_)))
            .map(|(_, e)| e.lpn)
            .collect();
        for lpn in pages {
            self.unlock(lpn);
            self.invalidate(lpn);
            self.map.set(lpn, 0);
        }
        self.collect_whole(true)?;
        while !self.erases.is_empty() {
            self.force_erase()?;
        }
        Ok(())
    }

    /// Ends several transactions: their pages, then one state record that names them all.
    fn tx_end_many(&mut self, tids: &[u64]) -> Result<Time, DeviceError> {
        for tid in tids {
            for entries in self.tx_trim_entries(*tid) {
                self.tx_append_trims(*tid, entries, Oob::default(), Time::ZERO)?;
            }
        }
        let ready = self.tx_flush(tids)?;
        if self.has_bug(Bug::TxManyApart) {
            let head = self.write_state_record(&tids[..1], ready)?;
            self.program_head(head)?;
        }
        let head = self.write_state_record(tids, ready)?;
        if let Some(tx) = &mut self.tx {
            tx.stats.records_commit += 1;
        }
        self.program_head(head)?;
        self.protect_pairs()?;
        let told = self.nand.sched_mut().tell_programs();
        let done = self.now.max(self.nand.programs_end()).max(told);
        for tid in tids {
            self.tx_publish(*tid, done);
        }
        Ok(done)
    }

    /// Puts every page of some transactions on flash, where no later program can damage it; when
    /// it is there.
    fn tx_flush(&mut self, tids: &[u64]) -> Result<Time, DeviceError> {
        for head in 0..self.heads.len() {
            if self.heads.assembles_any(head, tids) {
                self.program_head(head)?;
            }
        }
        if self.has_pairs() {
            self.protect_pairs()?;
            let told = self.nand.sched_mut().tell_programs();
            return Ok(self.now.max(self.nand.programs_end()).max(told));
        }
        let mut done = self.now;
        for tid in tids {
            let open = self.tx.as_mut().and_then(|tx| tx.open.get_mut(tid));
            let tickets = open.map(|open| std::mem::take(&mut open.tickets)).unwrap_or_default();
            for ticket in tickets {
                done = done.max(self.nand.sched_mut().tell(ticket));
            }
            // Who asks again must be told the same.
            if let Some(open) = self.tx.as_mut().and_then(|tx| tx.open.get_mut(tid)) {
                open.flushed = open.flushed.max(done);
                done = done.max(open.flushed);
            }
        }
        Ok(done)
    }

    /// The map names the pages of a transaction; its old pages may be reclaimed.
    fn tx_publish(&mut self, tid: u64, done: Time) {
        let first = self.tx.as_ref().map_or(table::NONE, |tx| tx.open[&tid].first);
        for (lpn, place) in self.tx_unchain(first) {
            self.invalidate(lpn);
            let entry = match place {
                Place::At(at) => at.0 + 1,
                Place::Trimmed | Place::Held => 0,
            };
            self.map.set(lpn, entry);
        }
        if let Some(tx) = &mut self.tx {
            tx.open.remove(&tid);
            tx.committed.insert(tid);
            tx.proven = tx.proven.max(done);
            tx.fading.push(done);
        }
    }

    /// The discards of a transaction as entries of records, each record's together.
    fn tx_trim_entries(&mut self, tid: u64) -> Vec<Vec<TrimEntry>> {
        let Some(tx) = &self.tx else { return Vec::new() };
        if tx.open[&tid].trimmed == 0 {
            return Vec::new();
        }
        let chain = tx.table.chain(tx.open[&tid].first).map(|(_, entry)| entry);
        let mut lpns: Vec<u32> =
            chain.filter(|e| e.place == Place::Trimmed).map(|e| e.lpn).collect();
        lpns.sort_unstable();
        let seq = self.take_seq();
        let mut entries: Vec<TrimEntry> = Vec::new();
        for lpn in lpns {
            match entries.last_mut() {
                Some(last) if last.first + last.count == lpn => last.count += 1,
                _ => entries.push(TrimEntry { first: lpn, count: 1, seq }),
            }
        }
        entries.chunks(ENTRIES).map(<[TrimEntry]>::to_vec).collect()
    }

    /// Appends a record of a transaction's discards: to which head, and its number.
    fn tx_append_trims(
        &mut self,
        tid: u64,
        entries: Vec<TrimEntry>,
        oob: Oob,
        ready: Time,
    ) -> Result<(usize, u64), DeviceError> {
        let seq = self.take_seq();
        let after = self.tx.as_ref().map_or(ready, |tx| tx.open[&tid].after);
        let oob = Oob { kind: Kind::Trim, lpn: NO_LPN, seq, tid, ..oob };
        self.append_trims(0, entries, oob, ready.max(after))?;
        Ok((0, seq))
    }

    /// A state record's bytes, as a payload.
    pub(super) fn record_payload(bytes: Vec<u8>) -> Payload {
        Payload::Bytes(bytes.into())
    }
}
