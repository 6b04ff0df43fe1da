//! The group: whole transactions that everybody sees, and that go to the device as one.
//!
//! Invariants:
//! * it is never taken back; it is on the device before any transaction that does not wait in it writes its
//!   first page there;
//! * where the store has a log, the header page with the next epoch goes with it, so that its pages are
//!   there exactly when its records are void (`commit`).

use block::{TxError, TxId};

use super::Bug;
use super::core::{Core, Done, Id, PAGE_BYTES};
use super::objects::{Group, Owner, Tx};
use super::table::Meta;

/// The owner of a group on its way: no connection's, for an address is never odd.
const GROUP: Owner = Owner::Connection(1);

impl Core {
    pub(super) fn join_group(&mut self, owners: &[Owner]) -> Done<()> {
        let more: usize = owners.iter().map(|owner| self.open[owner].kept.len()).sum();
        if self.group.late || self.group.pages.len() + more > self.most_kept() * 2 {
            self.flush_group()?;
        }
        self.join(owners);
        self.group.unlogged = true;
        let old = self.now.since(self.group.since) >= self.options.group_time;
        if self.group.writes >= self.options.group_limit() || old {
            // These transactions are over, and durable with their group: whoever comes next, or
            // asks for the group to be durable, is told what went wrong.
            self.group.late = self.flush_group().is_err();
        }
        Ok(())
    }

    /// Puts transactions into the group, for everybody to see.
    pub(super) fn join(&mut self, owners: &[Owner]) {
        if self.group.writes == 0 {
            self.group.since = self.now;
        }
        for owner in owners {
            let tx = self.open.remove(owner).unwrap_or_default();
            self.group.writes += tx.writes.max(1);
            self.group.pages.extend(tx.kept);
            for (id, meta) in tx.metas {
                self.regroup(id, meta);
            }
            self.stats.grouped += 1;
        }
    }

    /// The group's newest version of an object, without what its size does not need. What only the one
    /// before named is free, and what only this one had and gave up: nothing of it is on the device.
    pub(super) fn regroup(&mut self, id: Id, meta: Meta) {
        let end = meta.size.div_ceil(PAGE_BYTES);
        let late: Vec<_> =
            self.group.pages.range((id, end)..=(id, u64::MAX)).map(|(place, _)| *place).collect();
        for place in late {
            self.group.pages.remove(&place);
        }
        let durable = self.objects.get(&id).map(|o| o.meta.extents.clone()).unwrap_or_default();
        let fitted = meta.fitted();
        let old = self.group.metas.insert(id, fitted.clone()).unwrap_or_default().extents;
        let given_up = meta.extents.iter().chain(&old);
        let named = |e: &u32| durable.contains(e) || fitted.extents.contains(e);
        self.space.give_back(given_up.filter(|e| !named(e)).copied());
    }

    /// The group has given objects their places in the table: who has begun to change one goes on with
    /// these.
    fn tell_slots(&mut self) {
        for tx in self.open.values_mut() {
            for (id, meta) in &mut tx.metas {
                if let Some(object) = self.objects.get(id) {
                    meta.slots.clone_from(&object.meta.slots);
                }
            }
        }
    }

    /// Makes the group durable. After an error it waits on, whole.
    pub(super) fn flush_group(&mut self) -> Done<()> {
        self.flush_group_as(false)
    }

    /// The same; `sealed`: the epoch of the log that begins with it gets no records.
    pub(super) fn flush_group_as(&mut self, sealed: bool) -> Done<()> {
        if self.group.writes == 0 {
            return Ok(());
        }
        self.usable()?;
        let owner = GROUP;
        let tid = self.begin_tid()?;
        let group = std::mem::take(&mut self.group);
        let metas = group.metas.clone();
        self.open.insert(owner, Tx { tid: Some(tid), metas, ..Tx::default() });
        let done = self.send_group(owner, &group, sealed);
        if done.is_err() {
            // The pages stay in memory, and so do their places: only the number is given up.
            let given_up = self.open.remove(&owner).unwrap_or_default();
            for (id, meta) in given_up.metas {
                let kept = group.metas.get(&id).map(|m| m.slots.as_slice()).unwrap_or_default();
                self.space.slots.extend(meta.slots.into_iter().filter(|slot| !kept.contains(slot)));
            }
            self.group = group;
            self.abort_tid(tid)?;
        } else {
            self.stats.groups += 1;
            self.tell_slots();
            self.queue.void();
            self.begin_epoch(sealed);
            if self.ring.is_some() && self.has_bug(Bug::EpochApart) {
                let page = self.header_now();
                self.write_lpn(0, &page)?;
            }
        }
        done
    }

    fn send_group(&mut self, owner: Owner, group: &Group, sealed: bool) -> Done<()> {
        let early = self.ring.is_some() && self.has_bug(Bug::EpochEarly);
        if early {
            let tid = self.device.tx_begin()?;
            self.write_epoch(tid, sealed)?;
            self.commit_tids(&[tid])?;
        }
        let half = group.pages.len() / 2;
        for (sent, ((id, page), bytes)) in group.pages.iter().enumerate() {
            if sent == half && self.has_bug(Bug::HalfGroup) {
                let tid = self.open[&owner].tid.ok_or(TxError::Unknown(TxId(0)))?;
                self.now = self.device.tx_commit(self.now, &[tid])?;
                let next = self.device.tx_begin()?;
                self.open.entry(owner).or_default().tid = Some(next);
            }
            self.send(owner, *id, *page, bytes)?;
        }
        if let Some(tid) = self.open[&owner].tid
            && !early
            && !self.has_bug(Bug::EpochApart)
        {
            self.write_epoch(tid, sealed)?;
        }
        self.commit_now(&[owner])
    }
}
