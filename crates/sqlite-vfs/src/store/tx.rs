//! Transactions of the store: what is tagged, what commits together, what is taken back.
//!
//! Invariants:
//! * a commit is one call to the device for all its transactions, with the records of every object
//!   whose size or place they changed;
//! * a transaction that SQLite wants durable waits in the group only if the log has it (`commit`).

use std::collections::{BTreeMap, BTreeSet};

use block::{Data, DeviceError, Lpn, TxError, TxId};

use super::Bug;
use super::core::{Core, Done, Id, PAGE_BYTES};
use super::objects::{Owner, Tx};
use super::space::table_is_full;
use super::table::{Meta, PAGE};

/// Pages of the device's table of open transactions that only records may take.
const RECORDS: usize = 8;
/// Pages that may wait in memory at least, if the device commits as many.
const LEAST_OVERLAY: u32 = 256;

impl Core {
    /// Writes into `owner`'s transaction, which begins here if there is none. `group`: collect it.
    pub(super) fn write_tagged(
        &mut self,
        owner: Owner,
        group: bool,
        id: Id,
        data: &[u8],
        at: u64,
    ) -> Done<()> {
        self.begin(owner, group)?;
        let end = at + data.len() as u64;
        if end > self.size_of(Some(owner), id) {
            self.grow(owner, id, end)?;
        }
        self.pages_of(Some(owner), id, data, at, |core, page, bytes| {
            core.put(owner, id, page, bytes)
        })?;
        if end > self.size_of(Some(owner), id) {
            self.change(owner, id).size = end;
        }
        Ok(())
    }

    pub(super) fn truncate_tagged(
        &mut self,
        owner: Owner,
        group: bool,
        id: Id,
        size: u64,
    ) -> Done<()> {
        if size >= self.size_of(Some(owner), id) {
            return Ok(());
        }
        self.begin(owner, group)?;
        let base = self.shared_meta(id);
        let meta = self.change(owner, id);
        meta.size = size;
        let keep = Meta::extents_for(size).min(meta.extents.len());
        let gone = meta.extents.split_off(keep);
        // Extents that only this transaction knows go back when it ends, not before: it may have
        // written pages there.
        let fresh: Vec<u32> = gone.iter().copied().filter(|e| !base.extents.contains(e)).collect();
        meta.extents.extend(fresh);
        if let Some(tx) = self.open.get_mut(&owner) {
            let end = size.div_ceil(PAGE_BYTES);
            tx.kept.retain(|(object, page), _| *object != id || *page < end);
            tx.pages.retain(|(object, page)| *object != id || *page < end);
        }
        Ok(())
    }

    /// After a commit of unknown outcome nothing is written until the next mount.
    pub(super) fn usable(&mut self) -> Done<()> {
        let Some(cause) = &self.broken else { return Ok(()) };
        let broken = "a commit has failed; the store must be opened anew";
        let why = format!("{broken}: {cause}");
        Err(self.explain(DeviceError::ReadOnly(broken), &why))
    }

    /// Nobody reads what was seen before it was durable, and then was not.
    pub(super) fn readable(&mut self) -> Done<()> {
        // Whatever broke the store: what waits to be durable then never will be.
        if self.queue.is_owing() { self.usable() } else { Ok(()) }
    }

    fn begin(&mut self, owner: Owner, group: bool) -> Done<()> {
        self.usable()?;
        if !self.open.contains_key(&owner) {
            let mut tx = Tx::default();
            if !group {
                self.flush_group()?;
                tx.tid = Some(self.begin_tid()?);
            }
            self.open.insert(owner, tx);
        }
        Ok(())
    }

    /// The next transaction of the device. Where those that are open are too many, or the oldest one is too far behind, that
    /// goes on in memory: whoever commits meanwhile could do nothing about it.
    pub(super) fn begin_tid(&mut self) -> Done<TxId> {
        loop {
            let error = match self.device.tx_begin() {
                Err(error @ (TxError::Span { .. } | TxError::TooManyOpen(_))) => error,
                done => return done,
            };
            let oldest = self.open.iter().filter_map(|(owner, tx)| Some((tx.tid?, *owner))).min();
            match oldest.filter(|_| !self.has_bug(Bug::LimitsTold)) {
                Some((_, owner)) => self.take_back(owner)?,
                None => return Err(error),
            }
        }
    }

    /// The transaction's own version of an object's size and place.
    fn change(&mut self, owner: Owner, id: Id) -> &mut Meta {
        let shared = self.shared_meta(id);
        self.open.entry(owner).or_default().metas.entry(id).or_insert(shared)
    }

    /// Gives the object extents for `end` bytes.
    fn grow(&mut self, owner: Owner, id: Id, end: u64) -> Done<()> {
        self.may_grow(Some(owner), id, end)?;
        let wanted = Meta::extents_for(end);
        while self.change(owner, id).extents.len() < wanted {
            self.blank()?;
            let extent = self.space.extent()?;
            self.change(owner, id).extents.push(extent);
        }
        Ok(())
    }

    fn put(&mut self, owner: Owner, id: Id, page: u64, bytes: &[u8]) -> Done<()> {
        let (most, twice) = (self.most_kept(), self.has_bug(Bug::DiffAgainstUncommitted));
        let tx = self.open.entry(owner).or_default();
        tx.writes += 1;
        if tx.tid.is_none() {
            let written = tx.kept.insert((id, page), bytes.into());
            if let Some(written) = written.filter(|_| twice) {
                self.stray.insert((id, page), written);
            }
            // Where others have taken the room, that must be told now: a COMMIT could only fail.
            if tx.kept.len() >= most || self.is_crowded() {
                self.hand_over(owner)?;
            }
            return Ok(());
        }
        self.send(owner, id, page, bytes)
    }

    /// Pages a transaction may collect before it goes to the device by itself.
    pub(super) fn most_kept(&self) -> usize {
        ((self.device.tx_limits().pages as usize).saturating_sub(RECORDS) / 3).max(1)
    }

    /// Pages of a group at most: one commit of the device, with records of the objects in it.
    pub(super) fn most_grouped(&self) -> usize {
        let device = (self.device.tx_limits().pages as usize).saturating_sub(RECORDS) / 8 * 7;
        device.min(self.options.overlay.max(LEAST_OVERLAY) as usize).max(1)
    }

    /// Pages that transactions have on the device.
    fn held(&self) -> usize {
        self.open.values().map(|tx| tx.pages.len()).sum()
    }

    /// Whether a group with so many pages more would not fit beside what transactions have there.
    pub(super) fn is_beset(&self, more: usize) -> bool {
        let (held, most) = (self.held(), self.device.tx_limits().pages as usize);
        held > 0 && held + self.group.pages.len() + more + 2 * RECORDS >= most
    }

    /// Whether all that is collected would no longer fit beside what the device holds.
    fn is_crowded(&self) -> bool {
        let held = self.held();
        let kept: usize = self.open.values().map(|tx| tx.kept.len()).sum();
        held > 0 && held + kept + RECORDS >= self.device.tx_limits().pages as usize
    }

    /// One page to the device, in a transaction that has a number.
    pub(super) fn send(&mut self, owner: Owner, id: Id, page: u64, bytes: &[u8]) -> Done<()> {
        if !self.group.pages.is_empty() && self.is_beset(1) {
            // It must find room whenever it has to go.
            self.flush_group()?;
        }
        let tid = match self.open.get(&owner).and_then(|tx| tx.tid) {
            Some(tid) => tid,
            None => {
                let tid = self.begin_tid()?;
                self.open.entry(owner).or_default().tid = Some(tid);
                tid
            }
        };
        let held = self.held();
        let most = self.device.tx_limits().pages;
        // Room is left for the records, or what is full could not even be committed as it is.
        if held + RECORDS >= most as usize && !self.open[&owner].pages.contains(&(id, page)) {
            return Err(TxError::Full(most));
        }
        let lpn = self.place(Some(owner), id, page);
        let lpn = lpn.ok_or(DeviceError::Unsupported("a page without a place"))?;
        self.now = self.device.tx_write(self.now, tid, Lpn(lpn), Data::Write(bytes))?;
        self.stats.tagged += 1;
        if let Some(tx) = self.open.get_mut(&owner) {
            tx.pages.insert((id, page));
        }
        Ok(())
    }

    /// Turns a collected transaction into one with a number on the device.
    fn hand_over(&mut self, owner: Owner) -> Done<()> {
        self.flush_group()?;
        if self.open.get(&owner).is_some_and(|tx| tx.tid.is_none()) {
            let tid = self.begin_tid()?;
            self.open.entry(owner).or_default().tid = Some(tid);
        }
        while let Some(((id, page), bytes)) =
            self.open.get_mut(&owner).and_then(|tx| tx.kept.pop_first())
        {
            if let Err(error) = self.send(owner, id, page, &bytes) {
                // What could not be sent stays, and is read from here.
                self.open.entry(owner).or_default().kept.insert((id, page), bytes);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Commits the transactions of `owners` together. Those that wait in the group answer now and
    /// are durable later. After an error all of them are taken back.
    pub(super) fn commit(&mut self, owners: &[Owner]) -> Done<()> {
        self.commit_as(owners, false)
    }

    /// The same, on the device when it returns.
    pub(super) fn commit_whole(&mut self, owners: &[Owner]) -> Done<()> {
        self.commit_as(owners, true)
    }

    /// SQLite has asked for a transaction to be durable, before it commits it.
    pub(super) fn is_wanted(&mut self, owner: Owner) {
        if let Some(tx) = self.open.get_mut(&owner) {
            tx.synced = true;
        }
    }

    fn commit_as(&mut self, owners: &[Owner], whole: bool) -> Done<()> {
        self.usable()?;
        let there: Vec<Owner> =
            owners.iter().copied().filter(|owner| self.open.contains_key(owner)).collect();
        if there.is_empty() {
            return Ok(());
        }
        self.stats.commits += 1;
        let collected = there.iter().all(|owner| self.open[owner].tid.is_none());
        let lazy = self.options.group > 0 || there.iter().all(|owner| !self.open[owner].synced);
        let kept = self.keep_before(&there);
        let kept = kept.and_then(|()| self.have_slots(&there));
        let done = kept.and_then(|()| match collected && !whole {
            true if lazy => self.join_group(&there),
            true if self.is_logging() => self.commit_to_log(&there),
            _ => self.commit_now(&there),
        });
        if done.is_err() {
            for owner in there {
                self.abort(owner)?;
            }
        }
        // It is taken back: to wait and to try again would commit nothing.
        done.map_err(|error| match error {
            limit @ (TxError::Conflict { .. } | TxError::TooManyOpen(_) | TxError::Span { .. }) => {
                DeviceError::Io(limit.to_string()).into()
            }
            error => error,
        })
    }

    /// Whether the table has pages for the records of these transactions beside those that the group needs: one that
    /// is answered must find its own when the group goes to the device.
    fn have_slots(&self, owners: &[Owner]) -> Done<()> {
        if self.has_bug(Bug::SlotsUncounted) {
            return Ok(());
        }
        let mut metas: BTreeMap<Id, &Meta> =
            self.group.metas.iter().map(|(id, m)| (*id, m)).collect();
        for owner in owners {
            metas.extend(self.open[owner].metas.iter().map(|(id, meta)| (*id, meta)));
        }
        let short = |(id, meta): (&Id, &&Meta)| {
            let there = self.objects.get(id).map_or(0, |object| object.meta.slots.len());
            meta.fitted().parts().saturating_sub(meta.slots.len().max(there))
        };
        let wanted: usize = metas.iter().map(short).sum();
        if wanted > self.space.slots.len() { Err(table_is_full()) } else { Ok(()) }
    }

    pub(super) fn commit_now(&mut self, owners: &[Owner]) -> Done<()> {
        self.commit_pages(owners, false)
    }

    /// Commits on the device; `begins`: with the next epoch of the log.
    pub(super) fn commit_pages(&mut self, owners: &[Owner], begins: bool) -> Done<()> {
        self.flush_group()?;
        // The first of several may be the oldest one that is open.
        while owners.iter().any(|owner| !self.open[owner].is_handed_over()) {
            for owner in owners {
                self.hand_over(*owner)?;
            }
        }
        let mut tids = Vec::new();
        let late = self.has_bug(Bug::SizeOutsideTransaction);
        for owner in owners {
            if !late {
                self.write_records(*owner)?;
            }
            tids.extend(self.open[owner].tid);
        }
        match tids.first() {
            Some(tid) if begins => self.write_epoch(*tid, false)?,
            _ => {}
        }
        self.commit_tids(&tids)?;
        if begins {
            self.begin_epoch(false);
        }
        // All of it is durable: whatever fails from here on, everything here says so first.
        let mut free = Vec::new();
        for owner in owners {
            let metas = self.open.remove(owner).unwrap_or_default().metas;
            for (id, meta) in metas {
                free.extend(self.replace(id, meta));
                if let Some(object) = self.objects.get_mut(&id) {
                    object.stale = late;
                }
            }
        }
        self.let_go(&free)?;
        if late { self.write_stale() } else { Ok(()) }
    }

    /// Commits on the device.
    pub(super) fn commit_tids(&mut self, tids: &[TxId]) -> Done<()> {
        match self.device.tx_commit(self.now, tids) {
            Ok(now) => {
                self.now = now;
                Ok(())
            }
            Err(error) => {
                // Committed or not: only a mount can tell, and until then nothing may be reused.
                if let TxError::Device(_) = error {
                    self.break_off(&error);
                }
                Err(error)
            }
        }
    }

    /// Extents that no durable record names any more are free. Their pages are of no use to anybody,
    /// but an error here is one of a device that was to be told of a change that is durable.
    pub(super) fn let_go(&mut self, extents: &[u32]) -> Done<()> {
        self.space.give(extents.iter().copied());
        self.discard_extents(extents).inspect_err(|error| self.break_off(error))
    }

    /// Writes the records of a transaction's objects that it has changed.
    fn write_records(&mut self, owner: Owner) -> Done<()> {
        let metas: Vec<Id> = self.open[&owner].metas.keys().copied().collect();
        let tid = self.open[&owner].tid.ok_or(TxError::Unknown(TxId(0)))?;
        for id in metas {
            let old = self.objects.get(&id).map(|o| o.meta.clone()).unwrap_or_default();
            // Extents kept for pages beyond the new size are let go with the commit.
            let mut meta = self.change(owner, id).clone();
            meta.extents.truncate(Meta::extents_for(meta.size));
            if meta == old && !meta.slots.is_empty() {
                continue;
            }
            while meta.slots.len() < meta.parts() {
                meta.slots.push(self.space.slot()?);
            }
            let gone = meta.slots.split_off(meta.parts());
            let name = self.objects.get(&id).map(|o| o.name.clone()).unwrap_or_default();
            self.change(owner, id).slots = meta.slots.clone();
            for part in (0..meta.parts()).filter(|part| meta.changed(&old, *part)) {
                let page = Lpn(self.layout.slot(meta.slots[part]));
                let bytes = meta.encode(id, &name, part);
                self.now = self.device.tx_write(self.now, tid, page, Data::Write(&bytes))?;
                self.stats.table += 1;
            }
            for slot in gone {
                let page = Lpn(self.layout.slot(slot));
                let zero = [0u8; PAGE];
                self.now = self.device.tx_write(self.now, tid, page, Data::Write(&zero))?;
            }
        }
        Ok(())
    }

    /// Makes `meta` what the table says; answers the extents that only the old version named.
    fn replace(&mut self, id: Id, mut meta: Meta) -> Vec<u32> {
        let Some(object) = self.objects.get_mut(&id) else { return Vec::new() };
        let all: BTreeSet<u32> = object.meta.extents.iter().chain(&meta.extents).copied().collect();
        let slots: BTreeSet<u32> = object.meta.slots.iter().copied().collect();
        meta.extents.truncate(Meta::extents_for(meta.size));
        let free: Vec<u32> = all.into_iter().filter(|e| !meta.extents.contains(e)).collect();
        self.space.slots.extend(slots.into_iter().filter(|slot| !meta.slots.contains(slot)));
        object.meta = meta;
        object.stale = false;
        free
    }

    /// Takes a transaction back.
    pub(super) fn abort(&mut self, owner: Owner) -> Done<()> {
        let Some(tx) = self.open.remove(&owner) else { return Ok(()) };
        self.stats.aborts += 1;
        for (id, meta) in &tx.metas {
            self.meta_back(*id, meta);
        }
        tx.tid.map_or(Ok(()), |tid| self.abort_tid(tid))
    }

    /// Takes back what a transaction has changed of one object.
    pub(super) fn take_back_of(&mut self, owner: Owner, id: Id) -> Done<()> {
        self.take_back(owner)?;
        let Some(tx) = self.open.get_mut(&owner) else { return Ok(()) };
        tx.kept.retain(|(object, _), _| *object != id);
        if let Some(meta) = tx.metas.remove(&id) {
            self.meta_back(id, &meta);
        }
        Ok(())
    }

    /// A transaction's version of an object's size and place is gone.
    pub(super) fn meta_back(&mut self, id: Id, meta: &Meta) {
        let shared = self.shared_meta(id);
        let fresh = |mine: &[u32], old: &[u32]| -> Vec<u32> {
            mine.iter().copied().filter(|place| !old.contains(place)).collect()
        };
        self.space.give_back(fresh(&meta.extents, &shared.extents));
        self.space.slots.extend(fresh(&meta.slots, &shared.slots));
    }

    /// Takes a transaction of the device back. What one that could not be taken back holds is of no use to anybody:
    /// nothing is written until the next mount, which ends it.
    pub(super) fn abort_tid(&mut self, tid: TxId) -> Done<()> {
        let aborted = self.device.tx_abort(self.now, tid).map(|now| self.now = now);
        aborted.inspect_err(|error| self.break_off(error))
    }

    /// Whether `owner`'s transaction has written `id`.
    pub(super) fn wrote(&self, owner: Owner, id: Id) -> bool {
        self.open.get(&owner).is_some_and(|tx| {
            let mine = (id, 0)..=(id, u64::MAX);
            tx.metas.contains_key(&id)
                || tx.pages.range(mine.clone()).next().is_some()
                || tx.kept.range(mine).next().is_some()
        })
    }
}
