//! What the layer above asks of the FTL: write a unit, read slots, discard, make durable.

use std::sync::Arc;

use block::{BlockId, DeviceError, Lpn, Ppn, StreamId, Time};
use nand::{Cause, Kind, Nand, Oob, Order, Payload, ReadCause, SlotRead};

use super::PageFtl;
use super::head::Append;
use super::heads::HeadKind;
use crate::Bug;
use crate::config::Streams;

/// What a read of one 4 KiB page found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlotData {
    /// Never written, or discarded: zeroes.
    Unmapped,
    /// Written, but no payload was kept.
    Untracked,
    /// The stamp of the page.
    Stamp(u64),
    /// The bytes of the page: from the offset on in the slot's bytes.
    Bytes(Arc<[u8]>, usize),
    /// It cannot be read.
    Unreadable,
}

impl SlotData {
    /// What 4 KiB page `piece` of a slot with this payload holds.
    pub fn of(nand: &Nand, payload: Result<Payload, ()>, piece: usize) -> SlotData {
        match payload {
            Err(()) => SlotData::Unreadable,
            Ok(Payload::None) => SlotData::Untracked,
            Ok(Payload::Stamp(stamp)) => SlotData::Stamp(stamp),
            Ok(Payload::Stamps(stamps)) => SlotData::Stamp(stamps[piece]),
            Ok(Payload::Bytes(bytes)) => SlotData::Bytes(bytes, piece * PAGE),
            Ok(Payload::Stored(at)) => match nand.fetch(at) {
                Some(bytes) => SlotData::Bytes(bytes, piece * PAGE),
                None => SlotData::Unreadable,
            },
        }
    }
}

/// Who writes, for the choice of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Writer {
    pub app: u16,
    pub hint: StreamId,
    pub batch: u8,
}

/// Pages of one die to read together.
#[derive(Clone, Debug)]
pub(crate) struct ReadBatch {
    pages: [(BlockId, u32); 8],
    pieces: [u32; 8],
    count: usize,
    slots: u32,
    /// The slot added last: its other 4 KiB pages are no further slot.
    last: u32,
    cause: ReadCause,
    at: Time,
    end: Time,
}

impl Default for ReadBatch {
    fn default() -> Self {
        ReadBatch {
            pages: [(BlockId(0), 0); 8],
            pieces: [0; 8],
            count: 0,
            slots: 0,
            last: 0,
            cause: ReadCause::Host,
            at: Time::ZERO,
            end: Time::ZERO,
        }
    }
}

const PAGE: usize = 4096;

impl PageFtl {
    /// 4 KiB pages in a slot.
    #[inline(always)]
    fn slot_pages(&self) -> u32 {
        self.g.slot_bytes / PAGE as u32
    }

    /// Whether a 4 KiB page holds data (written and not discarded).
    pub fn mapped(&self, page: u32) -> bool {
        self.map.entry(page / self.slot_pages()) != 0
    }

    /// Writes the 4 KiB pages of mapping unit `unit` whose bits are set in `mask`; `pieces` are
    /// their payloads in ascending order (empty: none). Missing pages of the unit are read first.
    pub fn write_unit(
        &mut self,
        ready: Time,
        unit: u32,
        mask: u32,
        pieces: &[Payload],
        writer: Writer,
    ) -> Result<(), DeviceError> {
        let slot_pages = self.slot_pages();
        if self.p.unit_pages == 1 {
            if self.tx_owner(unit).is_some() {
                // The buffer completes a block with what it has read: nothing new, and a fresh
                // number would hide the transaction's version.
                return Ok(());
            }
            let payload = pieces.first().cloned().unwrap_or_default();
            return self.write_slot(ready, unit, payload, 0, writer);
        }
        let slots_per_unit = self.p.unit_pages / slot_pages;
        let whole = u32::MAX >> (32 - self.p.unit_pages);
        let mut ready = ready;
        if mask != whole {
            // Read-modify-write: what is missing comes from flash before anything is written.
            for i in 0..slots_per_unit {
                let part = mask >> (i * slot_pages) & (u32::MAX >> (32 - slot_pages));
                let missing = slot_pages - part.count_ones();
                let slot = unit * slots_per_unit + i;
                if missing > 0 && self.map.get(slot).is_some_and(|m| m != 0) {
                    self.read_push(ready, slot, missing, ReadCause::Rmw)?;
                }
            }
            ready = ready.max(self.read_finish()?);
        }
        let mut given = pieces.iter();
        for i in 0..slots_per_unit {
            let slot = unit * slots_per_unit + i;
            if slot >= self.slots() {
                break;
            }
            let part = mask >> (i * slot_pages) & (u32::MAX >> (32 - slot_pages));
            // What cannot be read cannot be written again: a slot of it stays where it is, a part
            // of it takes the slot along. Reads of it are errors, never zeroes.
            let lost = part.count_ones() < slot_pages && self.is_lost(slot);
            if lost && part == 0 {
                continue;
            }
            let payload = self.merge(slot, part, &mut given);
            let flags = if lost { POISON } else { 0 };
            self.write_slot(ready, slot, payload, flags, writer)?;
        }
        Ok(())
    }

    /// Whether a slot's data cannot be read.
    fn is_lost(&self, slot: u32) -> bool {
        let entry = self.map.entry(slot);
        self.full && entry != 0 && self.payload_at(slot, Ppn(entry - 1)).is_err()
    }

    /// The payload of a slot after some of its pages changed.
    fn merge(&self, slot: u32, part: u32, given: &mut std::slice::Iter<'_, Payload>) -> Payload {
        if !self.full {
            return Payload::None;
        }
        merge_pieces(self.slot_pages(), part, given, || self.read_payload(slot))
    }

    fn write_slot(
        &mut self,
        ready: Time,
        slot: u32,
        payload: Payload,
        flags: u8,
        writer: Writer,
    ) -> Result<(), DeviceError> {
        self.make_room()?;
        let mut ready = ready.max(self.tx_shown());
        if self.paged.is_some() {
            ready = self.map_touch(ready, slot, true)?;
        }
        let head = self.stream_of(slot, writer);
        let seq = self.clock.next_seq();
        self.find_place(head, slot)?;
        self.invalidate(slot);
        self.lifetime.wrote(slot, seq);
        let oob = Oob { kind: Kind::Data, flags, lpn: slot, seq, ..Oob::default() };
        self.append(head, Append { oob, cause: self.host_cause(), payload, ready })?;
        self.pay_debt()
    }

    pub(super) fn host_cause(&self) -> Cause {
        Cause::Host
    }

    /// The current place of a slot, if any, stops being current.
    #[inline]
    pub(super) fn invalidate(&mut self, slot: u32) {
        let old = self.map.entry(slot);
        if old != 0 {
            self.clear_valid(Ppn(old - 1));
        }
    }

    pub(super) fn stream_of(&mut self, slot: u32, writer: Writer) -> usize {
        let n = self.heads.of_host();
        if let Some(known) = &mut self.known.0 {
            return usize::from(known.written(Lpn(slot))).min(n - 1);
        }
        if n == 1 {
            return 0;
        }
        match self.p.streams {
            Streams::App => writer.app as usize % n,
            Streams::Hint => writer.hint.index() % n,
            Streams::Lifetime => self.lifetime.of_host(self.age_of(slot)),
            Streams::Buffer => (writer.batch as usize).min(n - 1),
            Streams::HotCold => {
                let known = self.map.entry(slot) != 0;
                usize::from(self.heat.write(slot) && known)
            }
            Streams::Single | Streams::UserGc => 0,
        }
    }

    /// How many versions ago the host wrote the version of a slot that it is about to replace.
    fn age_of(&self, slot: u32) -> Option<u64> {
        let now = self.clock.seq();
        let at = Ppn(self.map.entry(slot).checked_sub(1)?);
        if !self.full {
            return self.lifetime.age(slot, now);
        }
        let (block, page, within) = self.g.place(at);
        let seq = if page >= self.nand.next_page(block) {
            self.heads.slot_for(block, page, within, self.g.slots_per_page)?.oob.seq
        } else {
            match self.nand.slot(at) {
                SlotRead::Good(oob, _) | SlotRead::DataRot(oob) => oob.seq,
                SlotRead::Blank | SlotRead::Unreadable => return None,
            }
        };
        Some(now.saturating_sub(seq))
    }

    /// Adds a slot to the read being gathered; books what cannot be joined with it.
    pub fn read_push(
        &mut self,
        at: Time,
        slot: u32,
        pieces: u32,
        cause: ReadCause,
    ) -> Result<(), DeviceError> {
        let mut at = at;
        if self.paged.is_some() {
            at = self.map_touch(at, slot, false)?;
        }
        let entry = self.map.entry(slot);
        if entry == 0 {
            return Ok(());
        }
        let (block, page, _) = self.g.place(Ppn(entry - 1));
        if page >= self.nand.next_page(block) {
            // Still in the controller's memory: no flash time.
            return Ok(());
        }
        let batch = &mut self.reading;
        if batch.count > 0 && (batch.cause != cause || batch.at < at) {
            self.read_issue()?;
        }
        let batch = &mut self.reading;
        if batch.count > 0 {
            let (last, last_page) = batch.pages[batch.count - 1];
            if last == block && last_page == page {
                // (After a fault took a translation page, two slots may name one place.)
                let merged = batch.pieces[batch.count - 1] + pieces;
                batch.pieces[batch.count - 1] = merged.min(self.g.page_bytes / 4096);
                batch.slots += u32::from(batch.last != slot);
                batch.last = slot;
                return Ok(());
            }
            let next_plane = block.0 == last.0 + 1 && page == last_page;
            let same_die = self.nand.die_of(block) == self.nand.die_of(last);
            if self.p.multi_plane && next_plane && same_die && batch.count < 8 {
                batch.pages[batch.count] = (block, page);
                batch.pieces[batch.count] = pieces;
                batch.count += 1;
                batch.slots += 1;
                batch.last = slot;
                return Ok(());
            }
            self.read_issue()?;
        }
        let batch = &mut self.reading;
        batch.pages[0] = (block, page);
        batch.pieces[0] = pieces;
        batch.count = 1;
        batch.slots = 1;
        batch.last = slot;
        batch.cause = cause;
        batch.at = at;
        Ok(())
    }

    fn read_issue(&mut self) -> Result<(), DeviceError> {
        let b = &self.reading;
        let (pages, pieces, n) = (b.pages, b.pieces, b.count);
        let end = self
            .nand
            .read(b.at, &pages[..n], &pieces[..n], b.slots, b.cause)
            .map_err(PageFtl::power)?;
        self.reading.end = self.reading.end.max(end);
        self.reading.count = 0;
        self.reading.slots = 0;
        Ok(())
    }

    /// Books what is gathered; when the last byte of all reads since the last call is there.
    pub fn read_finish(&mut self) -> Result<Time, DeviceError> {
        if self.reading.count > 0 {
            self.read_issue()?;
        }
        Ok(std::mem::take(&mut self.reading.end))
    }

    /// The payload of a slot, wherever its newest version is.
    fn read_payload(&self, slot: u32) -> Option<Payload> {
        let entry = self.map.get(slot)?;
        if entry == 0 {
            return None;
        }
        self.payload_at(slot, Ppn(entry - 1)).ok()
    }

    /// The payload of a slot at a place; an error means it cannot be read.
    pub(super) fn payload_at(&self, logical: u32, ppn: Ppn) -> Result<Payload, ()> {
        let (block, page, slot) = self.g.place(ppn);
        if page >= self.nand.next_page(block) {
            let assembled = self.heads.slot_for(block, page, slot, self.g.slots_per_page);
            return assembled.map(|s| s.payload.clone()).ok_or(());
        }
        match self.nand.slot(ppn) {
            SlotRead::Good(oob, payload) => {
                // The record must name the slot that the map says is here (a misdirected write).
                let lpn = if self.tx.is_some() { self.named(ppn, *oob).lpn } else { oob.lpn };
                let names = oob.kind == Kind::Data && lpn == logical;
                let poisoned = oob.flags & POISON != 0;
                if names && !poisoned { Ok(payload.clone()) } else { Err(()) }
            }
            SlotRead::Blank | SlotRead::DataRot(_) | SlotRead::Unreadable => Err(()),
        }
    }

    /// What a 4 KiB page holds, without time: the caller has booked the read.
    pub fn page_data(&self, page: u32) -> SlotData {
        let (slot, piece) = (page / self.slot_pages(), (page % self.slot_pages()) as usize);
        if !self.full {
            return if self.mapped(page) { SlotData::Untracked } else { SlotData::Unmapped };
        }
        let entry = self.map.entry(slot);
        if entry == 0 {
            return SlotData::Unmapped;
        }
        SlotData::of(&self.nand, self.payload_at(slot, Ppn(entry - 1)), piece)
    }

    /// Forgets whole slots. Takes effect in the map at once; durable at the next flush.
    pub fn discard(&mut self, first: u32, count: u32) -> Result<(), DeviceError> {
        // The record this leads to must not need the lines that only cleaning may use.
        self.make_room()?;
        let mut any = false;
        for slot in first..first + count {
            if self.map.entry(slot) != 0 {
                if self.paged.is_some() {
                    let now = self.now;
                    self.map_touch(now, slot, true)?;
                }
                if !self.has_bug(Bug::LeakValid) {
                    self.invalidate(slot);
                }
                self.map.set(slot, 0);
                any = true;
            }
        }
        if any && !self.has_bug(Bug::TrimLost) {
            self.clock.next_seq();
            self.trim(first, count)?;
        }
        Ok(())
    }

    /// Programs what the request being served has written; when that is done. Unlike
    /// [`PageFtl::sync`] it waits for nobody else's programs and protects no paired pages: a
    /// write through is on flash, but only a flush or FUA promises that it stays there.
    pub fn write_through(&mut self) -> Result<Time, DeviceError> {
        self.program_heads(|kind| kind == HeadKind::Host)?;
        Ok(self.staging.request_done(self.nand.sched_mut(), self.now))
    }

    /// Puts everything written so far on flash, pending discards too; returns when it is there.
    pub fn sync(&mut self) -> Result<Time, DeviceError> {
        self.make_room()?;
        self.record_trims()?;
        self.program_heads(|kind| kind == HeadKind::Host)?;
        self.protect_pairs()?;
        if self.has_bug(Bug::AckBeforeDrain) {
            return Ok(self.now);
        }
        Ok(self.now.max(self.staging.all_done(self.nand.sched_mut())))
    }

    /// Waits until at most `limit` programs of host data are in flight; when that is. Only the
    /// ones waited for are pinned; the others may still be suspended.
    pub fn back_pressure(&mut self, limit: u32) -> Time {
        let order = self.nand.timing().order;
        self.staging.at_most(limit, self.nand.sched_mut(), order, self.now)
    }

    /// The same where nobody waits: the next write that does waits for all that is too much. Where
    /// dies serve in order it waits for its own alone, as it ever did.
    pub fn press_nobody(&mut self, limit: u32) {
        match self.nand.timing().order {
            Order::InOrder => drop(self.back_pressure(limit)),
            Order::ReadFirst => self.staging.forget(self.nand.sched(), self.now),
        }
    }
}

/// OOB flag bit 2: the data was lost before it was copied; reads of it are errors.
pub(crate) const POISON: u8 = 4;

/// The payload of a slot of `pages` pages after those whose bits are set in `part` changed to the
/// next of `given`; `old` is what it held.
pub(crate) fn merge_pieces(
    pages: u32,
    part: u32,
    given: &mut std::slice::Iter<'_, Payload>,
    old: impl Fn() -> Option<Payload>,
) -> Payload {
    let new: Vec<Option<&Payload>> =
        (0..pages).map(|i| if part >> i & 1 == 1 { given.next() } else { None }).collect();
    if pages == 1 {
        return match new[0] {
            Some(payload) => payload.clone(),
            None => old().unwrap_or(Payload::None),
        };
    }
    let old = old();
    let bytes = new.iter().flatten().any(|p| matches!(p, Payload::Bytes(_)))
        || matches!(old, Some(Payload::Bytes(_)));
    if bytes {
        let mut all = match old {
            Some(Payload::Bytes(old)) => old.to_vec(),
            _ => vec![0; pages as usize * PAGE],
        };
        for (i, piece) in new.iter().enumerate() {
            if let Some(Payload::Bytes(data)) = piece {
                all[i * PAGE..][..PAGE].copy_from_slice(data);
            }
        }
        return Payload::Bytes(all.into());
    }
    let mut stamps = match old {
        Some(Payload::Stamps(old)) => old.to_vec(),
        _ => vec![0; pages as usize],
    };
    for (i, piece) in new.iter().enumerate() {
        if let Some(Payload::Stamp(stamp)) = piece {
            stamps[i] = *stamp;
        }
    }
    if stamps.iter().all(|s| *s == 0) { Payload::None } else { Payload::Stamps(stamps.into()) }
}
