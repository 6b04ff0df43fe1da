//! Pages of a database as the paper's MySQL might write them: **a generator shaped like it, not
//! MySQL**. 16 KiB pages in one file, a buffer pool, a redo log with an fsync for each group of
//! commits, batches of dirty pages through a doublewrite area.
//!
//! What is assumed: dirty pages are written when they are a quarter of the pool, 64 at a time, those
//! dirty the longest first; the redo log goes round 1/16 of the pool; everything goes past the page
//! cache.

use std::collections::{BTreeMap, VecDeque};

use block::{BlockDevice, Rng, Time};
use workload::generate::tpcc::{Deck, NuRand, Transaction};
use workload::generate::ycsb::ScrambledZipfian;

use super::{Done, File, Kind, Load, Volume};
use crate::LabError;

/// Blocks of a page.
const PAGE: u64 = 4;
/// Records of 1 KiB in a page.
const PER_PAGE: u64 = 15;
/// Pages written together.
const BATCH: usize = 64;
/// Bytes of redo for a page that is changed.
const REDO: u64 = 700;

/// Which pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// YCSB-A: one record, read or updated, by a scrambled Zipfian law.
    YcsbA,
    /// TPC-C: the deck of transactions over stock, customers and orders.
    Tpcc,
}

#[derive(Clone, Copy, Default)]
struct Page {
    /// When it was used; 0 if it is not in the pool.
    used: u64,
    dirty: bool,
}

/// The load.
pub struct Database {
    shape: Shape,
    pages: Vec<Page>,
    by_use: BTreeMap<u64, u64>,
    dirty: VecDeque<u64>,
    pool: usize,
    ticks: u64,
    threads: Vec<Connection>,
    data: Option<File>,
    redo: Option<File>,
    twice: Option<File>,
    redo_blocks: u64,
    /// Bytes of redo made, and durable since when.
    made: u64,
    durable: (u64, Time),
    keys: ScrambledZipfian,
    deck: Deck,
    law: NuRand,
    /// Where orders are appended.
    orders: u64,
    rng: Rng,
}

/// A connection: what it waits for at its next step.
#[derive(Clone, Copy, Default)]
struct Connection {
    /// It commits when so much redo is durable, and began then.
    commit: Option<u64>,
}

impl Database {
    /// A database of so many blocks, a pool of so many.
    pub fn new(shape: Shape, threads: usize, blocks: u64, pool: u64, seed: u64) -> Database {
        let pages = (blocks / PAGE).max(BATCH as u64 * 2);
        let mut rng = Rng::stream(seed, "database");
        Database {
            shape,
            pages: vec![Page::default(); pages as usize],
            by_use: BTreeMap::new(),
            dirty: VecDeque::new(),
            pool: (pool / PAGE).max(BATCH as u64) as usize,
            ticks: 0,
            threads: vec![Connection::default(); threads],
            data: None,
            redo: None,
            twice: None,
            redo_blocks: (pool / 16).max(64),
            made: 0,
            durable: (0, Time::ZERO),
            keys: ScrambledZipfian::new(0, pages * PER_PAGE),
            deck: Deck::new(Rng::stream(seed, "deck")),
            law: NuRand::new(&mut rng),
            orders: 0,
            rng,
        }
    }

    /// A page is used: read if it is not in the pool. Returns when it is there.
    fn touch<D: BlockDevice>(
        &mut self,
        volume: &mut Volume<D>,
        page: u64,
        change: bool,
        at: Time,
    ) -> Result<Time, LabError> {
        self.ticks += 1;
        let slot = &mut self.pages[page as usize];
        let known = slot.used != 0;
        self.by_use.remove(&slot.used);
        slot.used = self.ticks;
        self.by_use.insert(self.ticks, page);
        if change && !slot.dirty {
            slot.dirty = true;
            self.dirty.push_back(page);
        }
        let mut there = at;
        if !known && let Some(data) = self.data {
            there = volume.read_direct(at.max(volume.ready()), data, page * PAGE, PAGE)?;
        }
        while self.by_use.len() > self.pool {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            if self.pages[oldest as usize].dirty {
                self.flush(volume)?;
            }
            self.pages[oldest as usize].used = 0;
        }
        if self.dirty.len() > self.pool / 4 {
            self.flush(volume)?;
        }
        Ok(there)
    }

    /// The pages dirty the longest: into the doublewrite area, then to their places.
    fn flush<D: BlockDevice>(&mut self, volume: &mut Volume<D>) -> Result<(), LabError> {
        let count = self.dirty.len().min(BATCH);
        let mut batch: Vec<u64> = self.dirty.drain(..count).collect();
        batch.sort_unstable();
        let (Some(mut twice), Some(mut data)) = (self.twice, self.data) else { return Ok(()) };
        volume.write_direct(volume.ready(), &mut twice, 0, count as u64 * PAGE)?;
        volume.fsync(volume.ready(), twice)?;
        for page in &batch {
            volume.write_direct(volume.ready(), &mut data, page * PAGE, PAGE)?;
            self.pages[*page as usize].dirty = false;
        }
        volume.fsync(volume.ready(), data)
    }

    /// Everything that was made so far becomes durable.
    fn commit<D: BlockDevice>(&mut self, volume: &mut Volume<D>) -> Result<(), LabError> {
        let Some(mut redo) = self.redo else { return Ok(()) };
        let (from, to) = (self.durable.0 / 4096, self.made.div_ceil(4096));
        let mut first = from;
        while first < to {
            let place = first % self.redo_blocks;
            let count = (to - first).min(self.redo_blocks - place);
            volume.write_direct(volume.ready(), &mut redo, place, count)?;
            first += count;
        }
        volume.fsync(volume.ready(), redo)?;
        self.durable = (self.made, volume.ready());
        Ok(())
    }

    /// A transaction's pages, and whether each is changed.
    fn draw(&mut self) -> Vec<(u64, bool)> {
        let pages = self.pages.len() as u64;
        if self.shape == Shape::YcsbA {
            let update = self.rng.ratio(1, 2);
            return vec![(self.keys.draw(&mut self.rng) / PER_PAGE, update)];
        }
        // Six tenths stock, three tenths customers, the rest orders.
        let (stock, customers) = (pages * 6 / 10, pages * 3 / 10);
        let orders = pages - stock - customers;
        let mut used = Vec::new();
        let customer = |this: &mut Database| {
            let drawn = this.law.customer(3000, &mut this.rng);
            let district = this.rng.below(customers);
            stock + (district + drawn) % customers
        };
        match self.deck.deal() {
            Transaction::NewOrder => {
                used.push((customer(self), false));
                for _ in 0..self.rng.between(5, 15) {
                    let item = self.law.item(100_000, &mut self.rng);
                    let warehouse = self.rng.below(stock);
                    used.push(((warehouse + item / PER_PAGE) % stock, true));
                }
                self.orders += 1;
                used.push((stock + customers + self.orders / PER_PAGE % orders, true));
            }
            Transaction::Payment => used.push((customer(self), true)),
            Transaction::OrderStatus => used.push((customer(self), false)),
            Transaction::Delivery => {
                for _ in 0..10 {
                    used.push((customer(self), true));
                    let back = self.rng.below(2100.min(self.orders + 1));
                    let order = (self.orders - back) / PER_PAGE % orders;
                    used.push((stock + customers + order, true));
                }
            }
            Transaction::StockLevel => {
                for _ in 0..20 {
                    used.push((self.rng.below(stock), false));
                }
            }
        }
        used
    }
}

impl<D: BlockDevice> Load<D> for Database {
    fn threads(&self) -> usize {
        self.threads.len()
    }

    fn fill(&mut self, volume: &mut Volume<D>) -> Result<(), LabError> {
        let dir = volume.mkdir(volume.ready(), "db")?;
        let mut file = |name: &str, blocks: u64| -> Result<Option<File>, LabError> {
            let mut file = volume.create(volume.ready(), dir, name)?;
            let mut first = 0;
            while first < blocks {
                let count = (blocks - first).min(256);
                volume.write_direct(volume.ready(), &mut file, first, count)?;
                first += count;
            }
            Ok(Some(file))
        };
        self.data = file("data", self.pages.len() as u64 * PAGE)?;
        self.redo = file("redo", self.redo_blocks)?;
        self.twice = file("doublewrite", BATCH as u64 * PAGE)?;
        volume.sync(volume.ready())
    }

    fn step(&mut self, volume: &mut Volume<D>, thread: usize, at: Time) -> Result<Done, LabError> {
        if let Some(needed) = self.threads[thread].commit.take() {
            if self.durable.0 < needed {
                self.commit(volume)?;
            }
            return Ok(Done { kind: Kind::Update, at: self.durable.1.max(at), sync: None });
        }
        let used = self.draw();
        let mut there = at;
        let changed = used.iter().filter(|(_, change)| *change).count() as u64;
        for (page, change) in used {
            there = self.touch(volume, page, change, there)?;
        }
        if changed == 0 {
            return Ok(Done { kind: Kind::Read, at: there, sync: None });
        }
        self.made += changed * REDO;
        self.threads[thread].commit = Some(self.made);
        Ok(Done { kind: Kind::Part, at: there, sync: None })
    }
}
