//! What a store knows: objects, transactions under way, the group, journals in memory.

use std::collections::{BTreeMap, BTreeSet};

use block::{Time, TxId};

use super::core::Id;
use super::locks::{Locks, Shm};
use super::past::Past;
use super::spool::Spool;
use super::table::Meta;
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
}
