//! Transactions without logging (paper 4).
//!
//! State: the P2P table (pages of open transactions), one held page per transaction, the lock
//! count of each line, the losers, and what the newest state record says. Invariants, checked by
//! `check.rs` (the names of the design are in brackets):
//! * the map names committed versions only, the table pages of open transactions only [I1];
//! * a line's lock count is the number of entries whose mapped page lies in it [I2];
//! * a page is in at most one open transaction [I3];
//! * every committed transaction with a tagged page on flash is committed by what flash alone
//!   says, and no loser with a page on flash is [I6].
//!
//! Correctness rests on sequence numbers, evidence and numbers that never return: nothing on
//! flash refers to an old page, so cleaning may move one.

mod begin;
mod check;
mod clean;
mod commit;
mod evidence;
mod mount;
mod paper;
mod record;
mod remap;
mod table;
mod write;

pub(in crate::ftl) use mount::Names;
pub(crate) use table::Place;

use std::collections::{BTreeMap, BTreeSet};

use block::{Ppn, Time};
use nand::{Payload, Ticket};

use super::PageFtl;
use crate::config::{LockMode, TxParams};
use crate::stats::TxStats;
use paper::Paper;
use record::Record;
use remap::Remaps;
use table::Table;

/// OOB flag bit 0: the end page of a transaction.
pub(super) const END: u8 = 1;

/// Slots that transactions need beside the logical space: their pages, and records.
pub(crate) fn slots_needed(tx: &TxParams, logical: u32) -> u32 {
    let remaps = logical.div_ceil(tx.pairs) + 1;
    tx.pages + tx.pages.div_ceil(super::trim::ENTRIES as u32) + 2 + remaps
}

/// The newest page of an open transaction: programmed when it is known to be last, or not.
#[derive(Clone, Debug)]
struct Held {
    entry: u32,
    payload: Payload,
    ready: Time,
}

/// What is left of a transaction on flash.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    /// Slots of it that have been given a place and not been erased since.
    slots: u64,
    /// The others are gone by then.
    until: Time,
}

/// An open transaction.
#[derive(Clone, Debug)]
struct Open {
    /// Its entries in the table, chained.
    first: u32,
    pages: u32,
    /// Of them, pages that read as zeroes once it is committed.
    trimmed: u32,
    held: Option<Held>,
    left: Left,
    /// Programs of it that may be under way.
    tickets: Vec<Ticket>,
    /// When those asked for before are done.
    flushed: Time,
    /// None of its pages may be on flash before.
    after: Time,
}

const FRESH: Open = Open {
    first: table::NONE,
    pages: 0,
    trimmed: 0,
    held: None,
    left: Left { slots: 0, until: Time::ZERO },
    tickets: Vec::new(),
    flushed: Time::ZERO,
    after: Time::ZERO,
};

/// Everything about transactions.
#[derive(Clone, Debug)]
pub(crate) struct Tx {
    counted: bool,
    lock: LockMode,
    max_open: u32,
    span: u64,
    loser_limit: u32,
    table: Table,
    open: BTreeMap<u64, Open>,
    /// The transaction that begins next.
    next: u64,
    /// Per line: entries of the table whose mapped page lies in it.
    locks: Vec<u32>,
    /// Not committed, and what is left of them.
    losers: BTreeMap<u64, Left>,
    /// Committed ones from the oldest open one on.
    committed: BTreeSet<u64>,
    /// What the newest state record says, and where it is.
    record: Record,
    record_at: Option<Ppn>,
    /// The state record about to be appended.
    arriving: Option<Record>,
    /// What proves the latest commit is on flash by then.
    proven: Time,
    /// No plain page is on flash before: one of them may show what the latest commit then wrote.
    shown: Time,
    /// Ends of erases that took a loser's last page, and of commits: before that a power cut
    /// leaves one loser more.
    fading: Vec<Time>,
    remaps: Remaps,
    /// The paper's literal rules instead.
    paper: Option<Paper>,
    stats: TxStats,
}

impl Tx {
    pub fn new(p: &TxParams, lines: u32) -> Tx {
        Tx {
            counted: p.counted,
            lock: if p.paper { LockMode::Hard } else { p.lock },
            paper: p.paper.then(Paper::default),
            max_open: p.max_open,
            span: p.span,
            loser_limit: p.losers,
            table: Table::new(p.pages),
            open: BTreeMap::new(),
            next: 1,
            locks: vec![0; lines as usize],
            losers: BTreeMap::new(),
            committed: BTreeSet::new(),
            record: Record::default(),
            record_at: None,
            arriving: None,
            proven: Time::ZERO,
            shown: Time::ZERO,
            fading: Vec::new(),
            remaps: Remaps::new(p.pairs as usize),
            stats: TxStats::default(),
        }
    }

    /// Whether an open transaction has written a page; which one.
    pub fn owner(&self, lpn: u32) -> Option<u64> {
        if let Some(paper) = &self.paper {
            return paper.owner(lpn);
        }
        self.table.get(lpn).map(|entry| entry.tid)
    }
    /// Counters begin anew.
    pub fn clear_stats(&mut self) {
        self.stats = TxStats::default();
    }
    /// Whether any transaction has written a page and is open.
    pub fn owns_any(&self) -> bool {
        self.owned() > 0
    }
    /// Entries in use.
    fn owned(&self) -> u32 {
        self.table.len() + self.paper.as_ref().map_or(0, |paper| paper.len() as u32)
    }
    /// Open ones, oldest first.
    fn oldest(&self) -> u64 {
        self.open.keys().next().copied().unwrap_or(self.next)
    }
    /// Below the oldest that is open all are committed, or losers: none need be remembered.
    fn forget_committed(&mut self) {
        let floor = self.oldest();
        self.committed = self.committed.split_off(&floor);
    }
    /// Whether a transaction of which a page is on flash is committed.
    fn is_committed(&self, tid: u64) -> bool {
        tid < self.next && !self.open.contains_key(&tid) && !self.losers.contains_key(&tid)
    }
    /// A slot of an open transaction has a place.
    fn placed(&mut self, lpn: u32, tid: u64, at: Ppn) {
        if let Some(number) = self.table.find(lpn)
            && self.table.entry(number).tid == tid
        {
            self.table.entry_mut(number).place = Place::At(at);
        }
        self.count_placed(tid);
    }
    fn count_placed(&mut self, tid: u64) {
        if let Some(open) = self.open.get_mut(&tid) {
            open.left.slots += 1;
        }
    }
    /// A program that ends with `ticket` holds a slot of a transaction.
    pub fn booked(&mut self, tid: u64, ticket: Ticket) {
        if let Some(open) = self.open.get_mut(&tid) {
            open.tickets.push(ticket);
        }
    }
}

impl PageFtl {
    /// The transaction that has written a slot and is open.
    #[inline]
    pub fn tx_owner(&self, slot: u32) -> Option<u64> {
        self.tx.as_ref().and_then(|tx| tx.owner(slot))
    }

    /// The first of some slots that an open transaction has written.
    pub fn tx_owned(&self, first: u32, count: u32) -> Option<u32> {
        let tx = self.tx.as_ref()?;
        if !tx.owns_any() {
            return None;
        }
        if let Some(paper) = &tx.paper {
            return paper.lpns().filter(|lpn| (first..first + count).contains(lpn)).min();
        }
        if count <= tx.table.len() {
            return (first..first + count).find(|slot| tx.owner(*slot).is_some());
        }
        let range = first..first + count;
        tx.table.iter().map(|entry| entry.lpn).filter(|lpn| range.contains(lpn)).min()
    }

    /// Counters of transactions.
    pub fn tx_stats(&self) -> Option<TxStats> {
        self.tx.as_ref().map(|tx| TxStats { losers: tx.losers.len() as u64, ..tx.stats })
    }

    /// The line of a mapped slot's entry.
    fn line_of_entry(&self, entry: u32) -> u32 {
        self.lines.line_of(self.g.block_of(Ppn(entry - 1)))
    }
}
