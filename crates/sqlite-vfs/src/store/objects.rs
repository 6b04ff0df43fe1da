//! What a store knows: objects, transactions under way, the group, journals in memory; and how an object comes
//! and goes.

use std::collections::{BTreeMap, BTreeSet};

use block::{Data, Lpn, Time, TxId};

use super::core::{Core, Done, Id};
use super::locks::{Locks, Shm};
use super::past::Past;
use super::spool::Spool;
use super::table::{Meta, PAGE};
use super::wal::Wal;

/// Whose transaction it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Owner {
    /// A connection: all databases it writes commit together.
    Connection(usize),
    /// A database: its journal tells when it commits.
    Object(Id),
}

#[derive(Default)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) meta: Meta,
    /// `meta` differs from the table by a plain change.
    pub(super) stale: bool,
    pub(super) locks: Locks,
    /// What it was, for those who read it as it was.
    pub(super) past: Past,
    /// Its last commit that is a record of the log.
    pub(super) logged: u64,
    pub(super) shm: Shm,
    /// Files open on it.
    pub(super) open: u32,
    /// Its state as a write-ahead log, while it is open as one.
    pub(super) wal: Option<Wal>,
}

/// A transaction: on the device under a number, or collected for the group.
#[derive(Default)]
pub(super) struct Tx {
    pub(super) tid: Option<TxId>,
    /// Pages the device holds for it.
    pub(super) pages: BTreeSet<(Id, u64)>,
    pub(super) metas: BTreeMap<Id, Meta>,
    /// Pages collected for the group.
    pub(super) kept: BTreeMap<(Id, u64), Box<[u8]>>,
    pub(super) writes: u64,
    /// SQLite has asked that it be durable.
    pub(super) synced: bool,
    /// Its journal was deleted: SQLite commits it now, and lowers its lock then.
    pub(super) unlocks: bool,
}

impl Tx {
    /// Whether all of it is on the device.
    pub(super) fn is_handed_over(&self) -> bool {
        self.tid.is_some() && self.kept.is_empty()
    }
}

/// Whole transactions that wait to become one.
#[derive(Default)]
pub(super) struct Group {
    pub(super) pages: BTreeMap<(Id, u64), Box<[u8]>>,
    pub(super) metas: BTreeMap<Id, Meta>,
    pub(super) writes: u64,
    pub(super) since: Time,
    /// It should be durable by now and is not: nobody joins it before it is.
    pub(super) late: bool,
    /// Some of it is in no log: after a crash its end may be missing.
    pub(super) unlogged: bool,
}

/// A journal of this process.
#[derive(Default)]
pub(super) struct Journal {
    pub(super) data: Spool,
    /// The object that holds a durable copy, after the device had no room for a transaction.
    pub(super) durable: Option<Id>,
    /// SQLite has asked for it to be durable since it began: then it does so before each page that
    /// the journal must undo.
    pub(super) asked: bool,
}

impl Core {
    /// The object of that name, made if it is not there. Nothing is written yet.
    pub(super) fn make(&mut self, name: &str) -> Id {
        if let Some(id) = self.id_of(name) {
            return id;
        }
        let id = self.next_id;
        self.next_id += 1;
        self.names.insert(name.to_string(), id);
        self.objects.insert(id, Object { name: name.to_string(), ..Object::default() });
        id
    }

    /// Drops an object that no record names yet, with what was written of it.
    pub(super) fn forget(&mut self, id: Id) -> Done<()> {
        if self.objects.get(&id).is_some_and(|object| object.meta.slots.is_empty())
            && let Some(object) = self.objects.remove(&id)
        {
            self.names.remove(&object.name);
            return self.let_go(&object.meta.extents);
        }
        Ok(())
    }

    /// Removes an object with its record, in a transaction of its own.
    pub(super) fn remove_object(&mut self, id: Id) -> Done<()> {
        self.usable()?;
        // A client may have left a transaction open on it, with its journal: it ends here.
        self.abort(Owner::Object(id))?;
        self.flush_group()?;
        let Some(object) = self.objects.get(&id) else { return Ok(()) };
        let meta: Meta = object.meta.clone();
        if !meta.slots.is_empty() {
            let tid = self.begin_tid()?;
            let erased = self.erase_records(tid, &meta).and_then(|()| self.commit_tids(&[tid]));
            if let Err(error) = erased {
                if self.broken.is_none() {
                    // The record is as it was; what was begun may not hold its pages for good.
                    self.abort_tid(tid)?;
                }
                return Err(error);
            }
        }
        if let Some(object) = self.objects.remove(&id) {
            self.names.remove(&object.name);
        }
        self.space.slots.extend(meta.slots);
        self.let_go(&meta.extents)
    }

    /// Overwrites an object's records, in a transaction.
    fn erase_records(&mut self, tid: TxId, meta: &Meta) -> Done<()> {
        for slot in &meta.slots {
            let page = Lpn(self.layout.slot(*slot));
            self.now = self.device.tx_write(self.now, tid, page, Data::Write(&[0; PAGE]))?;
        }
        if meta.extents.iter().any(|extent| self.space.is_behind(*extent)) {
            // Sectors behind the drive are sealed with the object's number: none is used twice.
            let page = self.header_now();
            self.now = self.device.tx_write(self.now, tid, Lpn(0), Data::Write(&page))?;
        }
        Ok(())
    }
}
