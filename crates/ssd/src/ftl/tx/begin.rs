//! Transactions begin and are aborted; losers are kept few.

use block::{BlockId, DeviceError, Lpn, Ppn, Time, TxError, TxId, TxLimits};
use nand::SlotRead;

use super::table::Place;
use super::{FRESH, Open, PageFtl, Tx};
use crate::Bug;
use crate::ftl::lines::{LineState, NONE};

/// Transaction numbers have 48 bits.
const LAST: u64 = (1 << 48) - 2;

impl Tx {
    pub fn limits(&self) -> TxLimits {
        TxLimits {
            max_open: self.max_open,
            pages: self.table.capacity(),
            span: self.span,
            next: TxId(self.next),
        }
    }

    /// Whether `tid` may be used: open already, or one that can begin now.
    fn may_begin(&self, tid: u64) -> Result<(), TxError> {
        if tid < self.next || tid > LAST {
            return Err(TxError::Unknown(TxId(tid)));
        }
        if self.open.len() as u32 >= self.max_open {
            return Err(TxError::TooManyOpen(self.max_open));
        }
        let oldest = self.oldest();
        if !self.open.is_empty() && tid - oldest >= self.span {
            return Err(TxError::Span { oldest: TxId(oldest), span: self.span });
        }
        Ok(())
    }
}

impl PageFtl {
    /// What transactions may take.
    pub fn tx_limits(&self) -> Option<TxLimits> {
        self.tx.as_ref().map(|tx| tx.limits())
    }

    /// Opens the next transaction.
    pub fn tx_begin(&mut self) -> Result<u64, TxError> {
        let Some(tx) = &self.tx else { return Err(off()) };
        let tid = tx.next;
        self.tx_open(tid)?;
        Ok(tid)
    }

    /// Opens a transaction, unless it is open.
    pub(super) fn tx_open(&mut self, tid: u64) -> Result<(), TxError> {
        let Some(tx) = &self.tx else { return Err(off()) };
        if tx.open.contains_key(&tid) {
            return Ok(());
        }
        tx.may_begin(tid)?;
        if tx.losers.len() + tx.open.len() >= tx.loser_limit as usize {
            self.tx_erase_losers()?;
        }
        let now = self.now;
        let Some(tx) = &mut self.tx else { return Err(off()) };
        let limit = tx.loser_limit as usize;
        if tx.losers.len() + tx.open.len() >= limit {
            return Err(TxError::TooManyOpen(tx.open.len() as u32));
        }
        // A loser whose last erase has not ended is back after a power cut, and a commit that has
        // not ended leaves one: this transaction must not become one more before that.
        tx.fading.retain(|end| *end > now);
        let crowded = tx.losers.len() + tx.open.len() + tx.fading.len() >= limit;
        let fading = tx.fading.iter().copied().max().filter(|_| crowded);
        let after = fading.unwrap_or(Time::ZERO);
        tx.next = tid + 1;
        tx.open.insert(tid, Open { after, ..FRESH });
        tx.stats.begun += 1;
        Ok(())
    }

    /// Whether a write of a page for a transaction would be refused, before anything is done.
    pub fn tx_admit(&self, tid: u64, lpn: u32) -> Result<(), TxError> {
        let Some(tx) = &self.tx else { return Err(off()) };
        if !tx.open.contains_key(&tid) {
            tx.may_begin(tid)?;
        }
        match tx.owner(lpn) {
            // In the paper's table every write is an entry.
            Some(owner) if owner == tid && tx.paper.is_none() => Ok(()),
            Some(owner) if owner == tid && tx.owned() < tx.table.capacity() => Ok(()),
            Some(owner) if owner == tid => Err(TxError::Full(tx.table.capacity())),
            Some(owner) => Err(TxError::Conflict { page: Lpn(lpn), owner: TxId(owner) }),
            None if tx.owned() >= tx.table.capacity() => Err(TxError::Full(tx.table.capacity())),
            None => Ok(()),
        }
    }

    /// Ends a transaction; the committed versions are what the map names.
    pub fn tx_abort(&mut self, tid: u64) {
        if self.is_paper() {
            return self.paper_abort(tid);
        }
        let bug = self.has_bug(Bug::TxAbortMapsCopy);
        let Some(tx) = &mut self.tx else { return };
        let Some(open) = tx.open.remove(&tid) else { return };
        if open.left.slots > 0 {
            tx.losers.insert(tid, open.left);
        } else {
            // Its last slot may be back if the power goes before the erase ends.
            tx.fading.push(open.left.until);
        }
        tx.stats.aborted += 1;
        for (lpn, place) in self.tx_unchain(open.first) {
            let Place::At(at) = place else { continue };
            if bug {
                self.invalidate(lpn);
                self.map.set(lpn, at.0 + 1);
            } else {
                self.clear_valid(at);
            }
        }
    }

    /// Ends all transactions.
    pub fn tx_abort_all(&mut self) {
        let open: Vec<u64> =
            self.tx.as_ref().map(|tx| tx.open.keys().copied().collect()).unwrap_or_default();
        for tid in open {
            self.tx_abort(tid);
        }
    }

    /// Takes a transaction's entries out of the table; their old pages are no longer locked.
    pub(super) fn tx_unchain(&mut self, first: u32) -> Vec<(u32, Place)> {
        let mut entries = Vec::new();
        let mut at = first;
        while at != super::table::NONE {
            let Some(tx) = &mut self.tx else { break };
            let entry = *tx.table.entry(at);
            at = tx.table.remove(at);
            self.unlock(entry.lpn);
            entries.push((entry.lpn, entry.place));
        }
        entries
    }

    /// The mapped page of a slot, if there is one, is an old page of one entry more.
    pub(super) fn lock(&mut self, lpn: u32) {
        let mapped = self.map.entry(lpn);
        if mapped != 0 {
            let line = self.line_of_entry(mapped);
            if let Some(tx) = &mut self.tx {
                tx.locks[line as usize] += 1;
            }
        }
    }
    /// Of one entry fewer.
    pub(super) fn unlock(&mut self, lpn: u32) {
        let mapped = self.map.entry(lpn);
        if mapped != 0 {
            let line = self.line_of_entry(mapped);
            if let Some(tx) = &mut self.tx {
                tx.locks[line as usize] = tx.locks[line as usize].saturating_sub(1);
            }
        }
    }

    /// Too many losers: lines that hold their pages are collected and erased, the emptiest first,
    /// until a fifth of the room is free.
    fn tx_erase_losers(&mut self) -> Result<(), DeviceError> {
        let room = |ftl: &PageFtl| {
            ftl.tx.as_ref().is_none_or(|tx| {
                let limit = tx.loser_limit as usize;
                tx.losers.is_empty() || tx.losers.len() + tx.open.len() < limit - limit / 5
            })
        };
        self.program_heads(|_| true)?;
        while !self.erases.is_empty() {
            self.force_erase()?;
        }
        let mut lines: Vec<(u32, u32)> = (0..self.lines.len())
            .filter(|line| self.line_holds_losers(*line))
            .map(|line| (self.lines.get(line).valid, line))
            .collect();
        lines.sort_unstable();
        for (_, line) in lines {
            if room(self) {
                break;
            }
            if !self.line_holds_losers(line) {
                continue;
            }
            self.make_room()?;
            if let Some(head) = self.heads.on(line) {
                self.program_head(head)?;
                if self.heads.line(head) == line {
                    self.close_head(head);
                }
            }
            if matches!(self.lines.get(line).state, LineState::Closed | LineState::Victim) {
                self.collect_line(line)?;
            }
            while !self.erases.is_empty() {
                self.force_erase()?;
            }
        }
        Ok(())
    }

    fn line_holds_losers(&self, line: u32) -> bool {
        let Some(tx) = &self.tx else { return false };
        let members = self.lines.members(line).iter().filter(|m| **m != NONE);
        let mut tids = members.flat_map(|member| self.tids_in(BlockId(*member)));
        !tx.losers.is_empty() && tids.any(|tid| tx.losers.contains_key(&tid))
    }

    /// The transactions of a block's readable tagged slots.
    pub(super) fn tids_in(&self, block: BlockId) -> impl Iterator<Item = u64> + '_ {
        let first = self.g.ppn(block, 0);
        let used = self.nand.next_page(block) > 0;
        let slots = if used { self.g.slots_per_block() } else { 0 };
        (0..slots).filter_map(move |slot| match self.nand.truth(Ppn(first.0 + slot)) {
            SlotRead::Good(oob, _) if oob.tid != 0 => Some(oob.tid),
            _ => None,
        })
    }
}

pub(super) fn off() -> TxError {
    TxError::Device(DeviceError::Unsupported(
        "the drive was made without transactions (tx.mode = off)",
    ))
}
