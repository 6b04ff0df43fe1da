//! Commits as records of what they change (docs/design/store.md): the pages follow later, with those of
//! many others, as one transaction of the device.
//!
//! Invariants:
//! * a commit is told durable when its record is, and the records of everything before it that its own was
//!   made against: whoever makes one owes it, and waits for it without the store's lock (`queue`);
//! * the records of an epoch are void from the very commit of the device on that has its pages: the header
//!   page with the next epoch is written in it;
//! * a record is made against what everybody saw before: never against what no commit has made;
//! * a session's first two commits go as pages, the second one with the next epoch: one that stays alone costs no
//!   more than without a log, and an epoch that nothing was appended to may stay;
//! * after a failed append nobody knows what the log holds: nothing is written, and what was seen too early is not
//!   read, until the next mount.

use std::collections::BTreeSet;

use block::{CommitLog, Data, DeviceError, Lpn};

use super::Bug;
use super::core::{Core, Done, Id, PAGE_BYTES};
use super::objects::Owner;
use super::record::{Body, Draft};
use super::ring::with_log;
use super::table::{Meta, PAGE};

impl Core {
    /// Whether commits go to the log.
    pub(super) fn is_logging(&self) -> bool {
        self.ring.is_some() && self.options.delta
    }

    pub(super) fn log<T>(
        &mut self,
        body: impl FnOnce(&mut dyn CommitLog) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        with_log(self.device.as_mut(), self.layout.log, self.layout.log_page(), body)
    }

    /// The header page, with the epoch that its records are of; `sealed`: there will be none.
    pub(super) fn header(&self, epoch: u64, sealed: bool) -> Vec<u8> {
        self.layout.encode(self.next_id, self.ring.map_or(0, |ring| ring.store()), epoch, sealed)
    }

    /// The same as it is now.
    pub(super) fn header_now(&self) -> Vec<u8> {
        self.header(self.ring.map_or(0, |ring| ring.epoch()), false)
    }

    /// Commits transactions that were collected by one record; durable when what is owed is.
    pub(super) fn commit_to_log(&mut self, owners: &[Owner]) -> Done<()> {
        if self.unflushed || self.objects.values().any(|object| object.stale) {
            // What was written plainly, and this record may be made against.
            self.sync_plain()?;
        }
        if self.group.unlogged && !self.has_bug(Bug::UnloggedMissing) {
            // What was answered without a record, and what this record is made against.
            self.flush_group()?;
        }
        if self.has_bug(Bug::TwoRecords) && owners_objects(self, owners) > 1 {
            return self.commit_apart(owners);
        }
        if self.group.writes == 0
            && let Some(ring) = self.ring.as_mut().filter(|ring| !ring.is_open())
        {
            let begins = ring.pass();
            return self.commit_pages(owners, begins);
        }
        let Some(draft) = self.draft(owners)? else {
            for owner in owners {
                let tx = self.open.remove(owner).unwrap_or_default();
                // It may have grown and shrunk again.
                tx.metas.iter().for_each(|(id, meta)| self.meta_back(*id, meta));
            }
            return Ok(());
        };
        let pages: usize = owners.iter().map(|owner| self.open[owner].kept.len()).sum();
        let fits = self.ring.is_some_and(|ring| ring.takes(&draft));
        if !fits || pages > self.most_grouped() {
            return self.commit_now(owners);
        }
        self.make_room(pages, &draft)?;
        self.open_epoch()?;
        let number = self.enqueue(draft);
        self.owed = Some(number);
        for id in self.touched(owners) {
            if let Some(object) = self.objects.get_mut(&id) {
                object.logged = number;
            }
        }
        self.join(owners);
        self.stats.logged += 1;
        Ok(())
    }

    /// Objects that transactions have changed.
    fn touched(&self, owners: &[Owner]) -> BTreeSet<Id> {
        let txs = owners.iter().filter_map(|owner| self.open.get(owner));
        txs.flat_map(|tx| tx.kept.keys().map(|(id, _)| *id).chain(tx.metas.keys().copied()))
            .collect()
    }

    /// The record of what `owners` change; `None`: nothing.
    fn draft(&mut self, owners: &[Owner]) -> Done<Option<Draft>> {
        let Some(ring) = self.ring else { return Ok(None) };
        let mut body = Body::default();
        for owner in owners {
            // Taken out while pages of others are read.
            let Some(tx) = self.open.remove(owner) else { continue };
            let mut old = [0; PAGE];
            for ((id, page), bytes) in &tx.kept {
                let before = self.seen_before(*id, *page, &mut old);
                body.page(*id, *page as u32, before, bytes);
            }
            for (id, meta) in &tx.metas {
                if !self.has_bug(Bug::MetasLeftOut) {
                    self.add_meta(&mut body, *id, meta);
                }
            }
            self.open.insert(*owner, tx);
        }
        self.stray.clear();
        Ok((!body.is_empty()).then(|| body.finish(ring.grain(), &mut self.packer)))
    }

    /// What everybody sees of a page before this commit, read into `out` if it is not in memory; `None`: nothing, or
    /// nothing that can be read.
    fn seen_before<'a>(
        &'a mut self,
        id: Id,
        page: u64,
        out: &'a mut [u8; PAGE],
    ) -> Option<&'a [u8]> {
        if self.stray.contains_key(&(id, page)) {
            return self.stray.get(&(id, page)).map(|bytes| &**bytes);
        }
        if page >= self.size_of(None, id).div_ceil(PAGE_BYTES) {
            return None;
        }
        if self.group.pages.contains_key(&(id, page)) {
            return self.group.pages.get(&(id, page)).map(|bytes| &**bytes);
        }
        self.read_page(None, id, page, out).is_ok().then_some(out)
    }

    /// Adds what is new of an object's size and place: the size alone, or the parts of its record.
    fn add_meta(&self, body: &mut Body, id: Id, meta: &Meta) {
        let (new, old) = (meta.fitted(), self.shared_meta(id).fitted());
        let known = !old.slots.is_empty() || self.group.metas.contains_key(&id);
        if known && new.extents == old.extents {
            if new.size != old.size {
                body.size(id, new.size);
            }
            return;
        }
        let name = self.objects.get(&id).map(|o| o.name.as_str()).unwrap_or_default();
        for part in (0..new.parts()).filter(|part| !known || new.changed(&old, *part)) {
            body.meta(id, &new.encode(id, name, part));
        }
    }

    /// Makes room in the log, and in memory for so many pages more.
    fn make_room(&mut self, pages: usize, draft: &Draft) -> Done<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        let full = !ring.has_room(draft);
        if full && self.bug.has(Bug::RingReusedEarly) {
            ring.wrap();
            return Ok(());
        }
        if full || self.group.pages.len() + pages > self.most_grouped() || self.is_beset(pages) {
            self.flush_group()?;
        }
        Ok(())
    }

    /// Nothing is appended to an epoch that was found: it may end in a record that a power cut tore.
    fn open_epoch(&mut self) -> Done<()> {
        match self.ring.is_none_or(|ring| ring.is_open()) {
            true => Ok(()),
            false => self.flush_group(),
        }
    }

    /// Writes the header page of the next epoch into a transaction of the device.
    pub(super) fn write_epoch(&mut self, tid: block::TxId, sealed: bool) -> Done<()> {
        let Some(ring) = self.ring else { return Ok(()) };
        let page = self.header(ring.epoch() + 1, sealed || self.has_bug(Bug::SealedEarly));
        self.now = self.device.tx_write(self.now, tid, Lpn(0), Data::Write(&page))?;
        Ok(())
    }

    /// The transaction with that page is durable.
    pub(super) fn begin_epoch(&mut self, sealed: bool) {
        match &mut self.ring {
            Some(ring) if sealed => ring.seal(),
            Some(ring) => ring.begin(),
            None => {}
        }
    }

    // Planted bugs.

    /// One record for each database of a commit.
    fn commit_apart(&mut self, owners: &[Owner]) -> Done<()> {
        for owner in owners {
            let tx = self.open.remove(owner).unwrap_or_default();
            let mut ids: Vec<Id> = tx.kept.keys().map(|(id, _)| *id).collect();
            ids.extend(tx.metas.keys());
            ids.sort_unstable();
            ids.dedup();
            for id in ids {
                let mut part = super::objects::Tx { writes: 1, synced: true, ..Default::default() };
                part.kept = tx
                    .kept
                    .iter()
                    .filter(|((of, _), _)| *of == id)
                    .map(|(k, v)| (*k, v.clone()))
                    .collect();
                part.metas = tx
                    .metas
                    .iter()
                    .filter(|(of, _)| **of == id)
                    .map(|(k, v)| (*k, v.clone()))
                    .collect();
                self.open.insert(Owner::Object(id), part);
                self.commit_to_log(&[Owner::Object(id)])?;
            }
        }
        Ok(())
    }
}

/// Objects that transactions have written.
fn owners_objects(core: &Core, owners: &[Owner]) -> usize {
    let kept = owners.iter().filter_map(|owner| core.open.get(owner)).flat_map(|tx| tx.kept.keys());
    kept.map(|(id, _)| *id).collect::<BTreeSet<Id>>().len()
}

#[cfg(test)]
mod tests {
    use super::super::StoreOptions;
    use super::*;

    #[test]
    fn a_commit_that_changes_nothing_keeps_no_room() {
        let device = Box::new(block::RamDevice::new(block::Sectors(64 * 2048)));
        let options = StoreOptions { log_pages: Some(64), ..StoreOptions::default() };
        let mut core = Core::format(device, None, options).unwrap();
        let (id, owner) = (core.make("main"), Owner::Connection(8));
        for fill in 1..4 {
            core.write_tagged(owner, true, id, &[fill; PAGE], 0).unwrap();
            core.is_wanted(owner);
            core.commit(&[owner]).unwrap();
        }
        let free = core.space.free();
        core.write_tagged(owner, true, id, &[9; PAGE], 700 * PAGE_BYTES).unwrap();
        assert!(core.space.free() < free);
        core.truncate_tagged(owner, true, id, PAGE_BYTES).unwrap();
        core.is_wanted(owner);
        core.commit(&[owner]).unwrap();
        assert_eq!((core.space.free(), core.stats.logged), (free, 1), "{:?}", core.stats);
    }
}
