//! Copying what is valid of a victim: what a record becomes when its slot moves.

use block::{DeviceError, Lpn, Ppn};
use nand::{Cause, Kind, Oob, Payload, SlotRead};

use super::cleaner::Cursor;
use crate::Bug;
use crate::config::Streams;
use crate::ftl::PageFtl;
use crate::ftl::head::Append;
use crate::ftl::host::POISON;
use crate::ftl::lifetime::HOT;
use crate::ftl::lines::LineKind;

impl PageFtl {
    /// Copies what is valid of a page that was read; how many slots that is.
    pub(super) fn copy_page(
        &mut self,
        cursor: Cursor,
        first: Ppn,
        ready: block::Time,
    ) -> Result<u32, DeviceError> {
        let slots = self.g.slots_per_page;
        if self.lines.get(cursor.line).kind == LineKind::Map {
            if let Err(error) = self.move_map_page(first, ready) {
                self.cleaner.unread(first, ready);
                return Err(error);
            }
            return Ok(slots);
        }
        let mut copied = 0;
        for from in (0..slots).map(|slot| Ppn(first.0 + slot)) {
            // What the host wrote again since it was read is not copied.
            if self.is_valid(from) {
                if let Err(error) = self.copy_slot(from, ready, cursor.wear) {
                    // What is left of the page is to be copied as long as it is not anywhere else.
                    self.cleaner.unread(first, ready);
                    return Err(error);
                }
                copied += 1;
            }
        }
        Ok(copied)
    }

    fn copy_slot(&mut self, from: Ppn, ready: block::Time, wear: bool) -> Result<(), DeviceError> {
        // What the drive knows of its records stands, whatever a misdirected read shows here.
        if self.trims.holds(from) {
            return self.move_trim_record(from, ready);
        }
        if self.is_state_record(from) {
            return self.move_state_record();
        }
        if self.is_remap_record(from) {
            return self.move_remap_record(from);
        }
        let (oob, mut payload) = if self.full {
            match self.nand.slot(from) {
                SlotRead::Good(oob, payload) => (*oob, payload.clone()),
                SlotRead::DataRot(oob) => {
                    (Oob { flags: oob.flags | POISON, ..*oob }, Payload::None)
                }
                SlotRead::Blank | SlotRead::Unreadable => (Oob::default(), Payload::None),
            }
        } else {
            (Oob { kind: Kind::Data, lpn: self.nand.lpn(from), ..Oob::default() }, Payload::None)
        };
        if self.is_paper() && self.paper_old_page_lost(from) {
            return Ok(());
        }
        // A page of an open transaction keeps its number; any other is plain from now on, once
        // what proves its transaction is on flash.
        let open = self.tx.is_some()
            && oob.kind == Kind::Data
            && self.tx_at(oob.lpn, from) == Some(oob.tid);
        let named = if self.tx.is_some() { self.named(from, oob) } else { oob };
        let told = oob.tid != 0 && !open || named != oob;
        let ready = if told { ready.max(self.tx_proven()) } else { ready };
        let oob = named;
        let tid = if open { oob.tid } else { 0 };
        let mut oob = match self.is_paper() && open {
            true => oob,
            false => Oob { tid, flags: oob.flags & POISON, n: 0, digest: 0, ..oob },
        };
        if oob.kind != Kind::Data || !open && self.map.get(oob.lpn) != Some(from.0 + 1) {
            // No record, or one that names another slot (a misdirected program): the data here
            // is lost.
            payload = Payload::None;
            match self.lost_record(from) {
                Some(lost) => oob = lost,
                None => {
                    self.clear_valid(from);
                    return Ok(());
                }
            }
        }
        if self.paged.is_some() {
            self.map_moved(oob.lpn);
        }
        let head = self.gc_head(from, oob.lpn, oob.seq);
        self.find_place(head, oob.lpn)?;
        self.clear_valid(from);
        let cause = if self.has_bug(Bug::GcCountedAsHost) { Cause::Host } else { Cause::Gc };
        if self.tx.is_some() {
            oob = self.copied_record(oob);
        }
        self.cleaner.copied(wear);
        self.append(head, Append { oob, cause, payload, ready })?;
        Ok(())
    }

    /// The record of a slot whose own cannot be read: the map is asked who lies there (a scan,
    /// but only after an uncorrectable error). Its data is gone; the copy says so. `None` if
    /// nobody does: what lay there is not wanted.
    fn lost_record(&self, from: Ppn) -> Option<Oob> {
        if let Some(oob) = self.tx_record_at(from) {
            return Some(Oob { kind: Kind::Data, flags: POISON, ..oob });
        }
        let lpn = self.map.slot_at(from)?;
        Some(Oob { kind: Kind::Data, flags: POISON, lpn, seq: self.clock.seq(), ..Oob::default() })
    }

    fn gc_head(&self, from: Ppn, slot: u32, seq: u64) -> usize {
        let (first, count) = self.heads.of_cleaning();
        if count == 1 {
            return first;
        }
        if let Some(known) = &self.known.0 {
            return first + usize::from(known.moved(Lpn(slot))).min(count - 1);
        }
        let line = self.lines.line_of(self.g.block_of(from));
        let head = self.lines.get(line).head;
        match self.p.streams {
            Streams::Lifetime => {
                let now = self.clock.seq();
                let age = self.lifetime.age(slot, now).unwrap_or(now.saturating_sub(seq));
                return first + self.lifetime.of_copy(head == HOT, age);
            }
            // What the host kept apart stays apart, as long as it is known.
            Streams::Hint | Streams::App | Streams::Buffer => {
                let head = usize::from(head);
                let stream = if head < first { head } else { head - first };
                return first + stream.min(count - 1);
            }
            _ => {}
        }
        // Hot and cold copies stay apart by the age of their line.
        let age = self.clock.slots() - self.lines.get(line).closed_at;
        let old = age > u64::from(self.slots());
        first + if old { 0 } else { 1.min(count - 1) }
    }
}
