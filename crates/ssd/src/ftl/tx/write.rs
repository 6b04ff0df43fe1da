//! What a transaction writes, discards and reads before it ends.

use block::{DeviceError, Lpn, Ppn, Time, TxError, TxId};
use nand::{Kind, Oob, Payload, ReadCause};

use super::begin::off;
use super::{END, Held, PageFtl, Place};
use crate::Bug;
use crate::ftl::head::Append;
use crate::ftl::host::{SlotData, Writer};

impl PageFtl {
    /// Takes a page of a transaction. It is programmed when the transaction's next page comes,
    /// or at its commit.
    pub fn tx_write(
        &mut self,
        ready: Time,
        tid: u64,
        lpn: u32,
        payload: Payload,
        last: bool,
    ) -> Result<(), TxError> {
        self.tx_admit(tid, lpn)?;
        self.tx_open(tid)?;
        if self.is_paper() {
            return self.paper_write(ready, (tid, lpn), payload, last);
        }
        self.tx_make_way(tid, lpn)?;
        let seq = self.take_seq();
        let entry = self.tx_enter(tid, lpn, Place::Held, seq);
        let Some(open) = self.tx.as_mut().and_then(|tx| tx.open.get_mut(&tid)) else {
            return Err(off());
        };
        open.held = Some(Held { entry, payload, ready });
        if last && self.has_bug(Bug::TxEndEarly) {
            self.tx_spill(tid, END)?;
        }
        Ok(())
    }

    /// The planted bug: the page that a transaction holds is gone when another one is refused.
    pub fn tx_lose_held(&mut self, tid: u64, lpn: u32) {
        if self.has_bug(Bug::TxHeldLost)
            && self.tx_admit(tid, lpn).is_err()
            && let Some(open) = self.tx.as_mut().and_then(|tx| tx.open.get_mut(&tid))
        {
            open.held = None;
        }
    }

    /// The page a transaction holds is programmed to make way for another one.
    fn tx_make_way(&mut self, tid: u64, lpn: u32) -> Result<(), TxError> {
        let Some(tx) = &mut self.tx else { return Err(off()) };
        let Some(open) = tx.open.get(&tid) else { return Err(TxError::Unknown(TxId(tid))) };
        match &open.held {
            Some(held) if tx.table.entry(held.entry).lpn == lpn => {
                tx.stats.held_replaced += 1;
                Ok(())
            }
            Some(_) => Ok(self.tx_spill(tid, 0)?),
            None => Ok(()),
        }
    }

    /// Gives a page its entry in the table: a new one, or the one it has, whose copy on flash is
    /// not wanted any more.
    fn tx_enter(&mut self, tid: u64, lpn: u32, place: Place, seq: u64) -> u32 {
        let Some(tx) = &mut self.tx else { return super::table::NONE };
        let trimmed = u32::from(place == Place::Trimmed);
        let Some(open) = tx.open.get_mut(&tid) else { return super::table::NONE };
        open.trimmed += trimmed;
        if let Some(number) = tx.table.find(lpn) {
            let entry = tx.table.entry_mut(number);
            let before = std::mem::replace(&mut entry.place, place);
            entry.seq = seq;
            match before {
                Place::Trimmed => open.trimmed -= 1,
                Place::Held if place != Place::Held => open.held = None,
                Place::Held => {}
                Place::At(at) => self.clear_valid(at),
            }
            return number;
        }
        let number = tx.table.insert(lpn, tid, place, seq, open.first);
        open.first = number;
        open.pages += 1;
        self.lock(lpn);
        number
    }

    /// Programs the page that a transaction holds.
    pub(super) fn tx_spill(&mut self, tid: u64, flags: u8) -> Result<(), DeviceError> {
        self.check_writable()?;
        self.make_room()?;
        self.tx_append_held(tid, Oob { flags, ..Oob::default() }, Time::ZERO)?;
        self.pay_debt()
    }

    /// Appends the page that a transaction holds, not before `ready`; to which head. `oob` gives
    /// flags, count and digest.
    pub(super) fn tx_append_held(
        &mut self,
        tid: u64,
        oob: Oob,
        ready: Time,
    ) -> Result<usize, DeviceError> {
        let Some(tx) = &mut self.tx else { return Ok(0) };
        let Some(open) = tx.open.get_mut(&tid) else { return Ok(0) };
        let after = open.after;
        let Some(held) = open.held.take() else { return Ok(0) };
        let (lpn, seq) = (tx.table.entry(held.entry).lpn, tx.table.entry(held.entry).seq);
        let head = self.stream_of(lpn, Writer::default());
        let slot = Append {
            oob: Oob { kind: Kind::Data, lpn, seq, tid, ..oob },
            cause: self.host_cause(),
            payload: held.payload.clone(),
            ready: held.ready.max(ready).max(after),
        };
        let result = self.append(head, slot);
        if result.is_err()
            && let Some(tx) = &mut self.tx
            && tx.table.entry(held.entry).place == Place::Held
            && let Some(open) = tx.open.get_mut(&tid)
        {
            // It was not given a place: the transaction is as it was.
            open.held = Some(held);
        }
        result.map(|_| head)
    }

    pub(super) fn check_writable(&self) -> Result<(), DeviceError> {
        self.read_only.map_or(Ok(()), |why| Err(DeviceError::ReadOnly(why)))
    }

    pub(super) fn take_seq(&mut self) -> u64 {
        self.clock.next_seq()
    }

    /// A discard by a transaction: recorded at its commit.
    pub fn tx_trim(&mut self, tid: u64, first: u32, count: u32) -> Result<(), TxError> {
        if self.is_paper() {
            return Err(super::paper::NOT_THERE.into());
        }
        let mut fresh = 0;
        for lpn in first..first + count {
            self.tx_admit(tid, lpn)?;
            fresh += u32::from(self.tx_owner(lpn).is_none());
        }
        // What the host did wrong it hears first, also from a drive that takes nothing any more.
        let Some(tx) = &self.tx else { return Err(off()) };
        if tx.table.len() + fresh > tx.table.capacity() {
            return Err(TxError::Full(tx.table.capacity()));
        }
        self.check_writable()?;
        self.tx_open(tid)?;
        for lpn in first..first + count {
            let seq = self.take_seq();
            self.tx_enter(tid, lpn, Place::Trimmed, seq);
        }
        Ok(())
    }

    /// What a transaction sees of a page, if it has written it: when it is there, and what.
    pub fn tx_read(
        &mut self,
        at: Time,
        tid: u64,
        lpn: u32,
    ) -> Result<Option<(Time, SlotData)>, TxError> {
        let Some(tx) = &self.tx else { return Err(off()) };
        let Some(open) = tx.open.get(&tid) else { return Err(TxError::Unknown(TxId(tid))) };
        if tx.paper.is_some() {
            if tx.owner(lpn) != Some(tid) {
                return Ok(None);
            }
            let Some(place) = self.paper_place(lpn) else {
                return Ok(Some((at, SlotData::Unmapped)));
            };
            let ready = self.tx_read_flash(at, place)?;
            let found = SlotData::of(&self.nand, self.payload_at(lpn, place), 0);
            return Ok(Some((ready, found)));
        }
        let Some(entry) = tx.table.get(lpn).filter(|entry| entry.tid == tid) else {
            return Ok(None);
        };
        let place = match entry.place {
            Place::Trimmed => return Ok(Some((at, SlotData::Unmapped))),
            Place::Held => {
                let held = open.held.as_ref().map(|held| held.payload.clone());
                return Ok(Some((at, SlotData::of(&self.nand, Ok(held.unwrap_or_default()), 0))));
            }
            Place::At(place) => place,
        };
        let ready = self.tx_read_flash(at, place)?;
        Ok(Some((ready, SlotData::of(&self.nand, self.payload_at(lpn, place), 0))))
    }

    fn tx_read_flash(&mut self, at: Time, place: Ppn) -> Result<Time, DeviceError> {
        let (block, page, _) = self.g.place(place);
        if page >= self.nand.next_page(block) {
            return Ok(at);
        }
        self.nand.read(at, &[(block, page)], &[1], 1, ReadCause::Host).map_err(PageFtl::power)
    }

    /// Pages that a transaction has written.
    pub fn tx_pages(&self, tid: u64) -> Vec<Lpn> {
        let Some(tx) = &self.tx else { return Vec::new() };
        if let Some(paper) = &tx.paper {
            return paper.lpns_of(tid).into_iter().map(Lpn).collect();
        }
        let first = tx.open.get(&tid).map_or(super::table::NONE, |open| open.first);
        tx.table.chain(first).map(|(_, entry)| Lpn(entry.lpn)).collect()
    }

    /// Whether a transaction is open.
    pub fn tx_is_open(&self, tid: u64) -> bool {
        self.tx.as_ref().is_some_and(|tx| tx.open.contains_key(&tid))
    }
}
