//! A store that grows with its device.
//!
//! Invariants:
//! * it grows between two changes, when nothing is on its way to the log, no transaction has pages on the device and
//!   nothing lies behind it: what transactions have there is taken back into memory first;
//! * all that was answered is on the device's pages before: what the log holds is void, and the new one is empty;
//! * the table of objects and the numbers of extents stay; there are more of these;
//! * a device that cannot grow now is as full as it is: the reason is kept, and asked for again when nothing else is left.

use block::{Bytes, Data, DeviceError, Lpn, TxError};

use super::core::{Core, Done, Id, PAGE_BYTES};
use super::objects::Owner;
use super::open::usual_log;
use super::space::EXTENT;
use super::table::{Header, PAGE};
use crate::vfs::Kind;

/// A database fills one part in so many before more room is made: in a fuller store cleaning copies more.
const ROOM: u64 = 2;

impl Core {
    /// Before an object takes pages up to `end` of it: more room, if the device grows and there is little left.
    pub(super) fn make_room_for(&mut self, owner: Option<Owner>, id: Id, end: u64) -> Done<()> {
        let used = self.used() + end.saturating_sub(self.size_of(None, id).div_ceil(PAGE_BYTES));
        let own = self.meta(owner, id).map_or(0, |meta| meta.extents.len()) as u64;
        let short = (self.space.free() + own) * EXTENT < end + self.space.kept();
        if self.is_filling(used) || short {
            self.grow_for(used.max(end), short)?;
        }
        Ok(())
    }

    /// Whether an object that lies where there is room needs one more extent and there are few.
    pub(super) fn make_extent(&mut self) -> Done<()> {
        if self.space.is_tight() { self.grow_for(self.used() + EXTENT, true) } else { Ok(()) }
    }

    /// Pages that databases have. (A journal or a log goes again.)
    fn used(&self) -> u64 {
        let databases =
            self.objects.iter().filter(|(_, o)| Kind::of_name(&o.name) == Kind::Database);
        databases.map(|(id, _)| self.size_of(None, *id).div_ceil(PAGE_BYTES)).sum()
    }

    /// A transaction has more pages than the device keeps, and no journal that it could go on with: a larger device
    /// keeps more. `false`: it is as large as it gets.
    pub(super) fn grow_for_transaction(&mut self) -> Done<bool> {
        let before = self.stats.growths;
        self.grow_for(self.space.pages() / ROOM + 1, true)?;
        Ok(self.stats.growths > before)
    }

    fn is_filling(&self, used: u64) -> bool {
        used * ROOM > self.space.pages() && self.no_growth.is_none()
    }

    /// Extents that the device may have one day.
    fn most_extents(&mut self) -> u32 {
        if self.beside.is_some() {
            return 0;
        }
        let layout = self.layout;
        let most = self.device.growth().map_or(0, |growth| growth.most().0 / PAGE_BYTES);
        let beyond = most.saturating_sub(u64::from(layout.extent(0))) / EXTENT;
        u32::try_from(beyond).unwrap_or(u32::MAX)
    }

    /// Twice as many extents, until `used` pages fill half of them.
    fn grow_for(&mut self, used: u64, needed: bool) -> Done<()> {
        let there = self.space.extents_there();
        let most = self.most_extents();
        if most <= there || self.space.is_used_behind() {
            return Ok(());
        }
        if self.queue.is_writing() {
            self.wants_growth |= needed;
            return Ok(());
        }
        let wanted = (used * ROOM).div_ceil(EXTENT).max(u64::from(there) + 1);
        let mut extents = u64::from(there).max(1);
        while extents < wanted {
            extents *= 2;
        }
        let extents = extents.min(u64::from(most)) as u32;
        match self.grow_to(self.layout.extent(extents)) {
            Err(TxError::Device(DeviceError::NoSpace(what))) => {
                // What is there is there: whoever needs more is told why there is none.
                self.no_growth = Some(what);
                Ok(())
            }
            done => done,
        }
    }

    /// What a person has asked for.
    pub(super) fn grow_by_order(&mut self, capacity: Bytes) -> Done<()> {
        if self.space.is_used_behind() {
            let text = "a journal or a log lies behind the drive of this full store: DELETE something, or end the \
                        transaction that it is of, then resize";
            return Err(self.explain(DeviceError::Unsupported("a journal behind the drive"), text));
        }
        let pages = u32::try_from(capacity.0 / PAGE_BYTES).unwrap_or(u32::MAX);
        self.grow_to(pages)
    }

    /// Lets the device have so many pages. [`DeviceError::NoSpace`]: it is as it was.
    pub(super) fn grow_to(&mut self, pages: u32) -> Done<()> {
        self.usable()?;
        let owners: Vec<Owner> =
            self.open.iter().filter(|(_, tx)| tx.tid.is_some()).map(|(owner, _)| *owner).collect();
        for owner in owners {
            self.take_back(owner)?;
        }
        self.flush_group()?;
        self.sync_plain()?;
        let (capacity, now) = (Bytes(u64::from(pages) * PAGE_BYTES), self.now);
        let asked = self.options.log_pages.map(|pages| u64::from(pages) * PAGE_BYTES);
        let log = Bytes(asked.unwrap_or_else(|| usual_log(capacity)));
        let fixed = DeviceError::Unsupported("this device does not grow");
        let growth = self.device.growth().ok_or(fixed)?;
        self.now = growth.grow(now, capacity, log)?;
        (self.no_growth, self.wants_growth) = (None, false);
        self.layout.pages = pages;
        self.space.grow_to(self.layout.extents());
        let layout = self.layout;
        if let Some(behind) = &mut self.behind {
            behind.moved(layout);
        }
        if let Some(ring) = self.ring {
            let (store, epoch) = (ring.store(), ring.epoch());
            let header = Header { layout, next: self.next_id, store, epoch, sealed: false };
            self.ring = self.find_ring(&header)?;
        }
        self.stats.growths += 1;
        Ok(())
    }

    /// Takes the pages that a transaction has on the device into memory; it has no number then.
    pub(super) fn take_back(&mut self, owner: Owner) -> Done<()> {
        let Some(tid) = self.open.get(&owner).and_then(|tx| tx.tid) else { return Ok(()) };
        let places: Vec<(Id, u64)> = self.open[&owner].pages.iter().copied().collect();
        for (id, page) in places {
            let lpn = self.place(Some(owner), id, page);
            let lpn = lpn.ok_or(DeviceError::Unsupported("a page without a place"))?;
            let mut bytes = vec![0; PAGE];
            let read = self.device.tx_read(self.now, tid, Lpn(lpn), Data::Read(&mut bytes));
            self.now = read?;
            if let Some(tx) = self.open.get_mut(&owner) {
                tx.kept.insert((id, page), bytes.into());
            }
        }
        if let Some(tx) = self.open.get_mut(&owner) {
            tx.pages.clear();
            tx.tid = None;
        }
        self.abort_tid(tid)
    }
}
