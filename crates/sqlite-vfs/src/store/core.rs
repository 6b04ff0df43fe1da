//! The state of a store: objects on a device, and pages as one owner or as everybody sees them.
//!
//! Invariants:
//! * what everybody sees of a page is the group's version, else the device's committed one; an
//!   owner sees its own transaction's version before these;
//! * an object's `meta` is what the device's table says, but for plain changes (`stale`);
//! * the clock never runs backwards: every device call starts when the one before was done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar};

use block::{Data, DeviceError, Lba, Lpn, Plant, Request, Sectors, Time, TxError, TxId};
use live::{Damage, Named};

use super::behind::Behind;
use super::beside::Beside;
use super::device::Device;
use super::home::Missed;
use super::objects::{Group, Journal, Object, Owner, Tx};
use super::queue::Queue;
use super::record::Packer;
use super::ring::Ring;
use super::space::{EXTENT, Space};
use super::table::{Layout, Meta, PAGE};
use super::{Bug, Stats, StoreOptions};

pub(super) type Done<T> = Result<T, TxError>;
/// Number of an object in its store.
pub(super) type Id = u32;
pub(super) const PAGE_BYTES: u64 = PAGE as u64;

pub(super) struct Core {
    pub(super) device: Box<dyn Device>,
    /// Room that is not the device's, for journals and logs when it is full.
    pub(super) behind: Option<Behind>,
    pub(super) now: Time,
    pub(super) layout: Layout,
    /// Where the log of commits goes on, if there is one.
    pub(super) ring: Option<Ring>,
    /// Packs its records.
    pub(super) packer: Packer,
    /// Bytes of the image behind the last record that a power-on has found, and their place.
    pub(super) tail: Option<(u64, Vec<u8>)>,
    /// It is read beside its writer.
    pub(super) beside: Option<Beside>,
    /// Its records that are not durable yet.
    pub(super) queue: Queue,
    /// The commit that the call on its way has made, and that must be durable before it answers.
    pub(super) owed: Option<u64>,
    /// Connections that sleep until a lock is free, by their files.
    pub(super) sleepers: BTreeMap<u64, (Missed, Arc<Condvar>)>,
    pub(super) space: Space,
    pub(super) objects: BTreeMap<Id, Object>,
    pub(super) names: BTreeMap<String, Id>,
    pub(super) journals: BTreeMap<String, Journal>,
    /// Super-journals that were there when the power came.
    pub(super) left: BTreeSet<String>,
    /// Memory of the journal that ended last, for the next one.
    pub(super) spare: Vec<u8>,
    pub(super) open: BTreeMap<Owner, Tx>,
    pub(super) group: Group,
    pub(super) options: StoreOptions,
    pub(super) stats: Stats,
    pub(super) bug: Plant<Bug>,
    /// Plain writes that no flush has followed.
    pub(super) unflushed: bool,
    pub(super) next_file: u64,
    pub(super) next_id: Id,
    pub(super) error: Option<String>,
    /// The name under which files of this store are opened.
    pub(super) path: String,
    /// The one that it had when a COMMIT over several of its databases was cut off.
    pub(super) was_called: Option<String>,
    /// Behind a wire: the databases that were asked for here.
    pub(super) known: BTreeSet<String>,
    /// It is in an image file, which is found again by no name but its own.
    pub(super) in_image: bool,
    /// That file, as its name meant it when it was opened.
    pub(super) named: Option<Named>,
    /// Why the device could not grow when it was last asked to.
    pub(super) no_growth: Option<&'static str>,
    /// It was needed, and could not be because somebody writes to the log.
    pub(super) wants_growth: bool,
    /// Bytes of a durable journal that no flush has followed.
    pub(super) unsynced_copy: bool,
    /// The journal write that fails, counted from here.
    pub(super) journal_fault: Option<u64>,
    /// Why a commit failed of which nobody knows whether it counts.
    pub(super) broken: Option<String>,
    /// What there is to say of the error on its way, besides its own text.
    pub(super) why: Option<String>,
    /// What was found damaged behind the device last.
    pub(super) damage: Option<Damage>,
    /// What a planted bug takes for the pages of before.
    pub(super) stray: BTreeMap<(Id, u64), Box<[u8]>>,
}

impl Core {
    /// Whether the name of its image means another file now, or none.
    pub(super) fn has_moved(&self) -> bool {
        self.named.as_ref().is_some_and(Named::has_moved)
    }

    pub(super) fn has_bug(&self, bug: Bug) -> bool {
        self.bug.has(bug)
    }

    // Reasons.

    /// `error`, of which `why` says more than its own text.
    pub(super) fn explain(&mut self, error: impl Into<TxError>, why: &str) -> TxError {
        self.why = Some(why.to_string());
        error.into()
    }

    /// Keeps the reason of a call that failed, for `PRAGMA varve_error`, and answers it.
    pub(super) fn refused(&mut self, error: &TxError) -> String {
        let reason = self.why.take().unwrap_or_else(|| error.to_string());
        self.error = Some(reason.clone());
        reason
    }

    /// Nothing is written from here on, because nobody knows what `error` has left.
    pub(super) fn break_off(&mut self, error: &TxError) {
        self.broken.get_or_insert_with(|| error.to_string());
    }

    // The device, in time.

    /// Reads a page of an object, wherever it lies.
    pub(super) fn read_of(&mut self, id: Id, lpn: u32, out: &mut [u8]) -> Done<()> {
        match self.behind.as_ref().filter(|behind| behind.has(lpn)) {
            Some(behind) => {
                let read = behind.read(id, lpn, out, self.has_bug(Bug::BehindUnchecked));
                read.map_err(|wrong| self.not_read(lpn, wrong))
            }
            None => self.read_lpn(lpn, out),
        }
    }

    /// Writes a page of an object, wherever it lies.
    pub(super) fn write_of(&mut self, id: Id, lpn: u32, data: &[u8]) -> Done<()> {
        match self.behind.as_mut().filter(|behind| behind.has(lpn)) {
            Some(behind) => {
                let written = behind.write(id, lpn, data);
                written.inspect_err(|error| self.failed_behind(error))
            }
            None => self.write_lpn(lpn, data),
        }
    }

    pub(super) fn read_lpn(&mut self, lpn: u32, out: &mut [u8]) -> Done<()> {
        self.now = read_plain(self.device.as_mut(), self.now, lpn, out)?;
        Ok(())
    }

    pub(super) fn write_lpn(&mut self, lpn: u32, data: &[u8]) -> Done<()> {
        let request = Request::write(Lba(u64::from(lpn) * 8), Sectors(8)).with(Data::Write(data));
        self.now = self.device.submit(self.now, request)?;
        self.unflushed = true;
        Ok(())
    }

    pub(super) fn flush_device(&mut self) -> Done<()> {
        self.now = self.device.submit(self.now, Request::flush())?;
        self.unflushed = false;
        self.space.flushed();
        self.stats.flushes += 1;
        Ok(())
    }

    /// Sees to it that a free extent reads as zeroes, durably.
    pub(super) fn blank(&mut self) -> Done<()> {
        let Some(some) = self.space.next_discards() else { return Ok(()) };
        if !self.has_bug(Bug::ExtentNotDiscarded) {
            self.discard_extents(&some)?;
        }
        if self.has_bug(Bug::ExtentNotFlushed) {
            self.space.flushed();
            return Ok(());
        }
        self.flush_device()
    }

    pub(super) fn discard_extents(&mut self, extents: &[u32]) -> Done<()> {
        for extent in extents.iter().filter(|extent| !self.space.is_behind(**extent)) {
            let first = u64::from(self.layout.extent(*extent)) * 8;
            let request = Request::discard(Lba(first), Sectors(EXTENT * 8));
            self.now = self.device.submit(self.now, request)?;
        }
        Ok(())
    }

    pub(super) fn lpn(&self, meta: &Meta, page: u64) -> Option<u32> {
        let extent = meta.extents.get(usize::try_from(page / EXTENT).ok()?)?;
        Some(self.layout.extent(*extent) + (page % EXTENT) as u32)
    }

    // Objects.

    pub(super) fn id_of(&self, name: &str) -> Option<Id> {
        self.names.get(name).copied()
    }

    /// What everybody sees of an object's size and place.
    pub(super) fn shared_meta(&self, id: Id) -> Meta {
        self.meta(None, id).cloned().unwrap_or_default()
    }

    /// The newest version of an object's size and place that `owner` sees.
    pub(super) fn meta(&self, owner: Option<Owner>, id: Id) -> Option<&Meta> {
        owner
            .and_then(|owner| self.open.get(&owner)?.metas.get(&id))
            .or_else(|| self.group.metas.get(&id))
            .or_else(|| self.objects.get(&id).map(|o| &o.meta))
    }

    /// Where a page lies for `owner`; `None` beyond the object's extents.
    pub(super) fn place(&self, owner: Option<Owner>, id: Id, page: u64) -> Option<u32> {
        self.lpn(self.meta(owner, id)?, page)
    }

    pub(super) fn size_of(&self, owner: Option<Owner>, id: Id) -> u64 {
        self.meta(owner, id).map_or(0, |meta| meta.size)
    }

    /// One page as `owner` sees it. Beyond the object's extents it reads as zeroes.
    pub(super) fn read_page(
        &mut self,
        owner: Option<Owner>,
        id: Id,
        page: u64,
        out: &mut [u8],
    ) -> Done<()> {
        let mut tid = None;
        if let Some(tx) = owner.and_then(|owner| self.open.get(&owner)) {
            if let Some(kept) = tx.kept.get(&(id, page)) {
                out.copy_from_slice(kept);
                return Ok(());
            }
            if tx.pages.contains(&(id, page)) {
                tid = tx.tid;
            }
        }
        if tid.is_none()
            && let Some(kept) = self.group.pages.get(&(id, page))
        {
            out.copy_from_slice(kept);
            return Ok(());
        }
        let lpn = self.place(owner, id, page);
        match (lpn, tid) {
            (Some(lpn), Some(tid)) => {
                self.now = self.device.tx_read(self.now, tid, Lpn(lpn), Data::Read(out))?;
            }
            (Some(lpn), None) => self.read_of(id, lpn, out)?,
            (None, _) => out.fill(0),
        }
        self.stats.reads += 1;
        Ok(())
    }

    /// Reads from any offset; answers how many bytes there were.
    pub(super) fn read(
        &mut self,
        owner: Option<Owner>,
        id: Id,
        out: &mut [u8],
        at: u64,
    ) -> Done<usize> {
        let size = self.size_of(owner, id);
        let there = size.saturating_sub(at).min(out.len() as u64) as usize;
        let mut buffer = Vec::new();
        let mut done = 0;
        while done < there {
            let (page, inside) = split(at + done as u64);
            let take = (PAGE - inside).min(there - done);
            let part = &mut out[done..done + take];
            if take == PAGE {
                self.read_page(owner, id, page, part)?;
            } else {
                buffer.resize(PAGE, 0);
                self.read_page(owner, id, page, &mut buffer)?;
                part.copy_from_slice(&buffer[inside..inside + take]);
            }
            done += take;
        }
        Ok(there)
    }

    /// Calls `put` with every whole page that a write of `data` at `at` makes, read from what
    /// `owner` sees where only parts are written. Bytes beyond the old size count as zeroes.
    pub(super) fn pages_of(
        &mut self,
        owner: Option<Owner>,
        id: Id,
        data: &[u8],
        at: u64,
        mut put: impl FnMut(&mut Core, u64, &[u8]) -> Done<()>,
    ) -> Done<()> {
        let size = self.size_of(owner, id);
        let mut buffer = Vec::new();
        let mut done = 0;
        while done < data.len() {
            let (page, inside) = split(at + done as u64);
            let take = (PAGE - inside).min(data.len() - done);
            if take == PAGE {
                put(self, page, &data[done..done + PAGE])?;
            } else {
                buffer.resize(PAGE, 0);
                let old = size.saturating_sub(page * PAGE_BYTES).min(PAGE_BYTES) as usize;
                if old > 0 {
                    self.read_page(owner, id, page, &mut buffer)?;
                }
                buffer[old..].fill(0);
                buffer[inside..inside + take].copy_from_slice(&data[done..done + take]);
                put(self, page, &buffer)?;
            }
            done += take;
        }
        Ok(())
    }

    // Locks that others wait for.

    /// Whether a lock that was missed can be had.
    pub(super) fn can_be_had(&self, missed: Missed) -> bool {
        let object = self.objects.get(&missed.id);
        object.is_none_or(|object| object.locks.is_free(missed.file, missed.want))
    }

    /// A lock was lowered: wakes those who can have it.
    pub(super) fn wake(&mut self) {
        if self.has_bug(Bug::NobodyWoken) {
            return;
        }
        let sleepers = self.sleepers.values();
        let free = sleepers.filter(|(missed, _)| self.can_be_had(*missed));
        let woken = free.inspect(|(_, woken)| woken.notify_one()).count();
        self.stats.woken += woken as u64;
    }

    // Plain changes.

    /// Writes outside any transaction; durable after the next [`Core::sync_plain`].
    pub(super) fn write_plain(&mut self, id: Id, data: &[u8], at: u64) -> Done<()> {
        self.usable()?;
        self.flush_group()?;
        let end = at + data.len() as u64;
        self.keep_past(id, at / PAGE_BYTES..end.div_ceil(PAGE_BYTES))?;
        let wanted = Meta::extents_for(end);
        let missing =
            wanted.saturating_sub(self.objects.get(&id).map_or(0, |o| o.meta.extents.len()));
        let fresh = self.take_extents(id, missing)?;
        if let Some(object) = self.objects.get_mut(&id) {
            object.meta.extents.extend(fresh);
            object.stale |= missing > 0;
        }
        self.pages_of(None, id, data, at, |core, page, bytes| {
            core.stats.plain += 1;
            let lpn = core.objects.get(&id).and_then(|object| core.lpn(&object.meta, page));
            let lpn = lpn.ok_or(DeviceError::Unsupported("a page without a place"))?;
            core.write_of(id, lpn, bytes)
        })?;
        if let Some(object) = self.objects.get_mut(&id)
            && object.meta.size < end
        {
            object.meta.size = end;
            object.stale = true;
        }
        Ok(())
    }

    /// Cuts an object outside any transaction; the record is written at once.
    pub(super) fn truncate_plain(&mut self, id: Id, size: u64) -> Done<()> {
        self.usable()?;
        self.flush_group()?;
        let pages = size.div_ceil(PAGE_BYTES)..self.size_of(None, id).div_ceil(PAGE_BYTES);
        self.keep_past(id, pages)?;
        let Some(object) = self.objects.get_mut(&id) else { return Ok(()) };
        if size >= object.meta.size {
            return Ok(());
        }
        object.meta.size = size;
        let keep = Meta::extents_for(size);
        self.space.limbo.extend(object.meta.extents.split_off(keep.min(object.meta.extents.len())));
        object.stale = true;
        self.write_stale()
    }

    /// Writes the records that plain changes have left behind, with plain writes, or, where one has several parts, in
    /// a transaction: a table with some of them is damaged.
    pub(super) fn write_stale(&mut self) -> Done<()> {
        let stale: Vec<Id> =
            self.objects.iter().filter(|(_, o)| o.stale).map(|(id, _)| *id).collect();
        for id in stale {
            let Some(object) = self.objects.get(&id) else { continue };
            let (mut meta, name) = (object.meta.clone(), object.name.clone());
            while meta.slots.len() < meta.parts() {
                meta.slots.push(self.space.slot()?);
            }
            let gone = meta.slots.split_off(meta.parts());
            let whole = meta.slots.len() + gone.len() > 1 && !self.has_bug(Bug::PartsApart);
            let tid = if whole { Some(self.begin_tid()?) } else { None };
            for part in 0..meta.parts() {
                let (slot, page) = (meta.slots[part], meta.encode(id, &name, part));
                self.write_record(tid, slot, &page)?;
                self.stats.table += 1;
            }
            for slot in &gone {
                self.write_record(tid, *slot, &[0; PAGE])?;
            }
            if let Some(tid) = tid {
                self.commit_tids(&[tid])?;
            }
            self.space.slots.extend(gone);
            if let Some(object) = self.objects.get_mut(&id) {
                object.meta = meta;
                object.stale = false;
            }
        }
        Ok(())
    }

    /// One part of a record, in a transaction or plainly.
    fn write_record(&mut self, tid: Option<TxId>, slot: u32, page: &[u8]) -> Done<()> {
        let lpn = self.layout.slot(slot);
        let Some(tid) = tid else { return self.write_lpn(lpn, page) };
        let written = self.device.tx_write(self.now, tid, Lpn(lpn), Data::Write(page));
        self.now = written.inspect_err(|error| self.break_off(error))?;
        Ok(())
    }

    /// Makes all plain changes durable.
    pub(super) fn sync_plain(&mut self) -> Done<()> {
        self.usable()?;
        if let Some(behind) = &mut self.behind {
            // Before the records that name it: an older journal may have lain there.
            let synced = behind.sync();
            synced.inspect_err(|error| self.failed_behind(error))?;
        }
        self.write_stale()?;
        if self.unflushed {
            self.flush_device()?;
        }
        let free = std::mem::take(&mut self.space.limbo);
        self.let_go(&free)?;
        self.unsynced_copy = false;
        Ok(())
    }
}

fn split(at: u64) -> (u64, usize) {
    (at / PAGE_BYTES, (at % PAGE_BYTES) as usize)
}

pub(super) fn read_plain(
    device: &mut dyn Device,
    now: Time,
    lpn: u32,
    out: &mut [u8],
) -> Done<Time> {
    let request = Request::read(Lba(u64::from(lpn) * 8), Sectors(8)).with(Data::Read(out));
    Ok(device.submit(now, request)?)
}
