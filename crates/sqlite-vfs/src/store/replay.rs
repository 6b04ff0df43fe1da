//! Power-on of the log of commits: what its records say is put over the pages of the device.
//!
//! Invariants:
//! * records are applied in their order, over the pages of the commit of the device that began the epoch;
//! * one record at a time is unpacked: many small ones may say much;
//! * nothing is written: what was found waits in memory, and goes to the device before anything else does;
//! * a log whose epoch was sealed by the last close is not read: nothing was appended to it;
//! * a record that cannot be applied is damage: none that was written by the rules is one.

use std::collections::BTreeSet;

use block::TxError;
use live::Damage;

use super::core::{Core, Id, PAGE_BYTES};
use super::objects::Object;
use super::record::{HEADER, Record};
use super::ring::{Blind, Scan, scan};
use super::table::{Meta, PAGE, decode};
use super::{Bug, StoreError};

impl Core {
    /// Reads the log and applies what counts.
    pub(super) fn replay(&mut self) -> Result<(), StoreError> {
        let Some(ring) = self.ring else { return Ok(()) };
        let now = self.now;
        let (read, start, bytes) = self
            .log(|log| {
                let mut bytes = vec![0; usize::try_from(log.log_bytes()).unwrap_or(usize::MAX)];
                Ok((log.log_read(now, 0, &mut bytes)?, log.log_start(), bytes))
            })
            .map_err(TxError::from)?;
        self.now = read;
        let blind =
            Blind { chain: self.has_bug(Bug::ChainDropped), crc: self.has_bug(Bug::LogUnchecked) };
        let found =
            scan(&bytes, start, ring.store(), ring.epoch(), blind).map_err(StoreError::Damaged)?;
        let next = (found.end as usize).min(bytes.len());
        let head = next..(next + HEADER).min(bytes.len());
        self.tail = Some((start + found.end, bytes[head].to_vec()));
        self.apply(&found, &bytes, start)?;
        if self.has_bug(Bug::AppendBehindTorn)
            && let Some(ring) = &mut self.ring
        {
            ring.go_on(&found);
        }
        Ok(())
    }

    fn apply(&mut self, found: &Scan, log: &[u8], start: u64) -> Result<(), StoreError> {
        let mut records: Vec<(&Record, usize)> =
            found.records.iter().zip(found.starts.iter().copied()).collect();
        if self.has_bug(Bug::ReplayReversed) {
            records.reverse();
        }
        for (record, at) in records {
            self.apply_one(record, &log[at..]).map_err(|wrong| match wrong {
                Wrong::Not(what) => StoreError::Damaged(Damage {
                    at: start + at as u64,
                    what: format!(
                        "commit {} of epoch {} in the log of commits {what}",
                        record.place.number, record.place.epoch
                    ),
                }),
                Wrong::Device(error) => error.into(),
            })?;
            self.group.writes += 1;
            self.stats.replayed += 1;
        }
        self.group.since = self.now;
        Ok(())
    }

    fn apply_one(&mut self, record: &Record, log: &[u8]) -> Result<(), Wrong> {
        let said = record.said(log);
        let (changes, metas) = said.as_ref().and_then(|said| said.parts()).ok_or_else(|| {
            Wrong::Not("cannot be read: expected ranges and records of objects".to_string())
        })?;
        let mut touched = BTreeSet::new();
        for change in &changes {
            let place = (change.object, u64::from(change.page));
            if !self.group.pages.contains_key(&place) {
                let mut page = vec![0; PAGE];
                if change.bytes.len() < PAGE {
                    let end = self.size_of(None, change.object).div_ceil(PAGE_BYTES);
                    if place.1 >= end {
                        let what = format!(
                            "changes page {} of object {}, which has {end} pages",
                            change.page, change.object
                        );
                        return Err(Wrong::Not(what));
                    }
                    self.read_page(None, place.0, place.1, &mut page)?;
                }
                self.group.pages.insert(place, page.into());
                touched.insert(place);
            }
            if let Some(page) = self.group.pages.get_mut(&place) {
                page[change.at..change.at + change.bytes.len()].copy_from_slice(change.bytes);
            }
        }
        for (id, bytes) in metas {
            let meta = self.meta_of(id, bytes)?;
            let before = self.shared_meta(id).extents;
            for extent in meta.extents.iter().filter(|extent| !before.contains(extent)) {
                if !self.space.claim(*extent, false) {
                    let what = format!("names extent {extent}, which is not free or not there");
                    return Err(Wrong::Not(what));
                }
            }
            self.regroup(id, meta);
        }
        let (most, pages) = (self.device.tx_limits().pages as usize, self.group.pages.len());
        if pages > most {
            let what = format!("and those before it change {pages} pages: expected {most} at most");
            return Err(Wrong::Not(what));
        }
        match touched.into_iter().find(|(id, page)| self.place(None, *id, *page).is_none()) {
            None => Ok(()),
            Some((id, page)) => {
                Err(Wrong::Not(format!("changes page {page} of object {id}, which has no place")))
            }
        }
    }

    /// An object's size and place as a record has them; the object is made if it is not there.
    fn meta_of(&mut self, id: Id, bytes: &[u8]) -> Result<Meta, Wrong> {
        let mut meta = self.shared_meta(id).fitted();
        if let Ok(size) = <[u8; 8]>::try_from(bytes) {
            meta.size = u64::from_le_bytes(size);
            return Ok(meta);
        }
        let mut page = bytes.to_vec();
        page.resize(PAGE, 0);
        let part = decode(&page).filter(|part| part.id == id);
        let part =
            part.ok_or_else(|| Wrong::Not(format!("has no record of object {id} where one is")))?;
        if !self.objects.contains_key(&id) {
            self.names.insert(part.name.clone(), id);
            self.objects.insert(id, Object { name: part.name.clone(), ..Object::default() });
            self.next_id = self.next_id.max(id + 1);
        }
        meta.size = part.size;
        meta.put_part(part.part, &part.extents);
        Ok(meta.fitted())
    }
}

/// Why a record is not applied.
enum Wrong {
    Not(String),
    Device(TxError),
}

impl From<TxError> for Wrong {
    fn from(error: TxError) -> Wrong {
        Wrong::Device(error)
    }
}
