//! The array's cells in an image.
//!
//! Pages of one block that follow each other are gathered and written together. What must be
//! durable before what is said once here, in [`nand::Backing`]'s calls:
//! * before the first write after power-on: what power-on has found;
//! * before an erase: everything programmed (what it destroys was superseded by that);
//! * before the first page of a block: its erase;
//! * before the last page of a block: everything programmed;
//! * before a record that speaks for others: everything, erases too.
//!
//! So at power-on only the last page of a full block, and the pages of blocks that are not full,
//! can have a record in the file and no payload.
//!
//! An image of version 2 also says what is there, so that it can be missed (see `load`):
//! * a record: how many pages of its own block and of one other were durable when it was written;
//!   the records of one sync lie in one area, those of the next in the other;
//! * a block's headers, erased ones too: how many pages of the other open blocks were durable when
//!   they were written; all its own pages, once it is full and durable; after power-on what was
//!   found, before anything else is written;
//! * the superblock: what all blocks hold when the image is let go, withdrawn and durable so before
//!   the first write after that.

mod backing;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{BlockId, Plant, Ppn, crc32c};
use nand::Oob;

use crate::header::{BlockState, MOST_CLAIMS};
use crate::layout::{Layout, PAGE};
use crate::load::Loaded;
use crate::planted::Planted;
use crate::record::{Claim, Claims, HAS_CRC, encode};
use crate::run::Run;
use crate::superblock::{Held, Superblock};
use block::Medium;

/// What was written to the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStats {
    /// Calls that wrote.
    pub writes: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Calls of `fdatasync`.
    pub syncs: u64,
}

impl FileStats {
    pub(crate) fn and(self, more: FileStats) -> FileStats {
        FileStats {
            writes: self.writes + more.writes,
            bytes: self.bytes + more.bytes,
            syncs: self.syncs + more.syncs,
        }
    }
}

/// What is known of a page beside its record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Check {
    /// CRC32C of its payload.
    pub crc: u32,
    /// Whether it has one that was sound when it was written.
    pub sound: bool,
}

/// A block opened since power-on whose header does not say yet that all its pages are there.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    /// Pages programmed.
    pages: u32,
    /// Those of them that are durable.
    durable: u32,
    /// All of them are, and the headers that say so are in the file.
    said: bool,
}

#[derive(Debug)]
struct State {
    run: Run,
    /// Whether anything was written since the last sync.
    dirty: bool,
    /// Whether the file may be written: what was found at power-on is durable (a process that was
    /// killed may have left it to the system's cache) and said, and the superblock does not call
    /// the image let go.
    begun: bool,
    superblock: Superblock,
    /// Whether a copy of it is damaged.
    rewrite: bool,
    /// Blocks whose headers say less than was found at power-on.
    stale: Vec<BlockId>,
    /// Where the next records go.
    area: usize,
    /// The other block that a record spoke of last.
    told: u32,
    held: Vec<Held>,
    /// Blocks whose erase is not durable, and whether it is in the file: it waits for the sync
    /// that makes durable what was programmed before it, and costs none of its own.
    erased: BTreeMap<u32, bool>,
    blocks: Vec<BlockState>,
    open: BTreeMap<u32, Open>,
    checks: Vec<Check>,
    stats: FileStats,
    /// Why the file failed.
    failed: Option<String>,
}

/// The backing of a live drive.
#[derive(Debug)]
pub(crate) struct ImageFile {
    layout: Layout,
    base: u64,
    medium: Arc<dyn Medium>,
    planted: Plant<Planted>,
    state: Mutex<State>,
}

impl ImageFile {
    /// Over a file of which `loaded` was read; what of it serves the array is taken out of it.
    /// `base`: where it begins in what a person knows as the image.
    pub fn new(
        superblock: Superblock,
        (layout, base): (Layout, u64),
        medium: Arc<dyn Medium>,
        loaded: &mut Loaded,
        rewrite: bool,
        planted: Plant<Planted>,
    ) -> ImageFile {
        let state = State {
            run: Run::default(),
            dirty: false,
            begun: false,
            superblock,
            rewrite,
            stale: std::mem::take(&mut loaded.stale),
            area: 0,
            told: 0,
            held: std::mem::take(&mut loaded.held),
            erased: BTreeMap::new(),
            blocks: std::mem::take(&mut loaded.blocks),
            open: BTreeMap::new(),
            checks: std::mem::take(&mut loaded.checks),
            stats: FileStats::default(),
            failed: None,
        };
        ImageFile { layout, base, medium, planted, state: Mutex::new(state) }
    }

    /// Nothing below panics while it holds the lock but a broken rule of the array.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn has(&self, bug: Planted) -> bool {
        self.planted.has(bug)
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Where it begins in its file: places below are counted from there.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The configuration that it was made with.
    pub fn config(&self) -> String {
        self.lock().superblock.config.clone()
    }

    pub fn planted(&self) -> Plant<Planted> {
        self.planted
    }

    /// Nothing is written from here on.
    pub fn give_up(&self, text: &str) {
        self.lock().failed.get_or_insert_with(|| text.to_string());
    }

    /// Whether nothing is written any more.
    pub fn has_failed(&self) -> bool {
        self.lock().failed.is_some()
    }

    /// The first byte behind the drive.
    pub fn end(&self) -> u64 {
        self.layout.bytes()
    }

    /// Bytes of the log of commits, and where it begins.
    pub fn log(&self) -> (u64, u64) {
        (self.layout.log, self.layout.log_start())
    }

    /// The least that an append to it writes.
    pub fn log_grain(&self) -> u32 {
        self.medium.grain()
    }

    /// Reads of the log of commits.
    pub fn read_log(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.medium.read(self.layout.log_start() + at, out)
    }

    /// Writes to the log of commits; durable on return. What else was written waits for its own sync.
    pub fn append_log(&self, at: u64, bytes: &[u8]) -> Result<(), String> {
        let synced = !self.has(Planted::LogNotSynced);
        {
            let s = &mut *self.lock();
            self.begun(s)?;
            s.stats.writes += 1;
            s.stats.bytes += bytes.len() as u64;
            s.stats.syncs += u64::from(synced);
        }
        // Nobody else waits for it: it is a part of the file of its own.
        let at = self.layout.log_start() + at;
        let written = match synced {
            true => self.medium.write_durable(at, bytes),
            false => self.medium.write(at, bytes),
        };
        written.map_err(|e| fail(&mut self.lock(), &e))
    }

    /// Reads behind the drive.
    pub fn read_behind(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.medium.read(at, out)
    }

    /// Writes behind the drive. That there is no room to grow says nothing of what is there.
    pub fn write_behind(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let s = &mut *self.lock();
        usable(s)?;
        s.stats.writes += 1;
        s.stats.bytes += bytes.len() as u64;
        self.medium.write(at, bytes).inspect_err(|error| {
            use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
            if !matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge) {
                fail(s, error);
            }
        })
    }

    /// Makes durable what was written behind the drive. It is the drive's sync, too: one that fails
    /// may have lost what the drive wrote, and the next one would say nothing of that.
    pub fn sync_behind(&self) -> io::Result<()> {
        let s = &mut *self.lock();
        usable(s)?;
        s.stats.syncs += 1;
        self.medium.sync().inspect_err(|error| drop(fail(s, error)))
    }

    pub fn stats(&self) -> FileStats {
        self.lock().stats
    }

    /// Makes everything programmed so far durable.
    pub fn sync(&self) -> Result<(), String> {
        self.sync_state(&mut self.lock())
    }

    fn write(&self, s: &mut State, at: u64, bytes: &[u8]) -> Result<(), String> {
        self.begun(s)?;
        s.stats.writes += 1;
        s.stats.bytes += bytes.len() as u64;
        s.dirty = true;
        self.medium.write(at, bytes).map_err(|e| fail(s, &e))
    }

    fn sync_medium(&self, s: &mut State) -> Result<(), String> {
        // What was written before a sync that fails is in an unknown state, and a second
        // sync would say nothing of it: there is no second one.
        if let Some(failed) = &s.failed {
            return Err(failed.clone());
        }
        s.stats.syncs += 1;
        self.medium.sync().map_err(|e| fail(s, &e))?;
        s.dirty = false;
        Ok(())
    }

    /// The file may be written.
    fn begun(&self, s: &mut State) -> Result<(), String> {
        if let Some(failed) = &s.failed {
            return Err(failed.clone());
        }
        if !std::mem::replace(&mut s.begun, true) {
            self.begin(s)?;
        }
        Ok(())
    }

    /// Before the first write after power-on.
    fn begin(&self, s: &mut State) -> Result<(), String> {
        self.sync_medium(s)?;
        if !self.layout.is_guarded() {
            return Ok(());
        }
        let withdraw = s.superblock.held.is_some() && !self.has(Planted::HeldNotWithdrawn);
        if withdraw || s.rewrite {
            self.write_superblock(s, None)?;
            self.sync_medium(s)?;
        }
        for block in std::mem::take(&mut s.stale) {
            self.write_header(s, block)?;
        }
        Ok(())
    }

    fn write_superblock(&self, s: &mut State, held: Option<Held>) -> Result<(), String> {
        s.superblock.number += 1;
        s.superblock.held = held;
        s.rewrite = false;
        let bytes = s.superblock.encode().ok_or("the configuration does not fit the superblock")?;
        let copies = if self.has(Planted::OneSuperblock) { 1 } else { self.layout.copies() };
        for copy in 0..copies {
            self.write(s, self.layout.superblock(copy), &bytes)?;
        }
        Ok(())
    }

    fn write_header(&self, s: &mut State, block: BlockId) -> Result<(), String> {
        let mut state = s.blocks[block.index()];
        if self.has(Planted::TornNotSaid) {
            state.torn = Default::default();
        }
        let claims: Vec<Claim> = s.open.keys().filter_map(|other| self.claim(s, *other)).collect();
        let quiet = self.has(Planted::OthersNotClaimed);
        let claims = claims.into_iter().filter(|claim| claim.block != block && !quiet);
        let claims: Vec<Claim> = claims.take(MOST_CLAIMS).collect();
        let bytes = state.encode(self.layout.version, block, &claims);
        let copies = if self.has(Planted::OneHeader) { 1 } else { self.layout.copies() };
        for copy in 0..copies {
            self.write(s, self.layout.header(block, copy), &bytes)?;
        }
        Ok(())
    }

    fn sync_state(&self, s: &mut State) -> Result<(), String> {
        self.write_run(s)?;
        if s.dirty {
            self.sync_medium(s)?;
            s.erased.retain(|_, written| !*written);
            s.area = (s.area + 1) % self.layout.areas();
            self.say_full(s)?;
        }
        let waiting: Vec<u32> = s.erased.iter().filter(|e| !*e.1).map(|e| *e.0).collect();
        for block in waiting {
            self.write_erase(s, BlockId(block))?;
        }
        match &s.failed {
            Some(failed) => Err(failed.clone()),
            None => Ok(()),
        }
    }

    /// Everything programmed is durable: the headers of blocks that are full say so.
    fn say_full(&self, s: &mut State) -> Result<(), String> {
        s.open.retain(|_, open| !open.said);
        let mut full = Vec::new();
        for (block, open) in &mut s.open {
            open.durable = open.pages;
            if open.pages == self.layout.pages {
                open.said = true;
                full.push(BlockId(*block));
            }
        }
        for block in full.into_iter().filter(|_| self.layout.is_guarded()) {
            s.blocks[block.index()].settled = self.layout.pages;
            self.write_header(s, block)?;
        }
        Ok(())
    }

    /// The image is let go: everything is durable, and the blocks that are not full say how far.
    pub fn let_go(&self) -> Result<(), String> {
        let s = &mut *self.lock();
        self.sync_state(s)?;
        if !s.begun {
            return Ok(());
        }
        for (block, open) in std::mem::take(&mut s.open) {
            if !open.said {
                let block = BlockId(block);
                s.blocks[block.index()].settled = open.pages;
                self.write_header(s, block)?;
            }
        }
        self.settle(s)?;
        if self.layout.is_guarded() {
            let held = s.held.iter().fold(Held::default(), |all, held| all.and(*held));
            self.write_superblock(s, Some(held))?;
            self.sync_medium(s)?;
            // Whoever writes now begins anew.
            s.begun = false;
        }
        Ok(())
    }

    /// Makes everything durable, erases too.
    fn settle(&self, s: &mut State) -> Result<(), String> {
        self.sync_state(s)?;
        if s.erased.is_empty() { Ok(()) } else { self.sync_state(s) }
    }

    fn write_erase(&self, s: &mut State, block: BlockId) -> Result<(), String> {
        s.erased.insert(block.0, true);
        self.write_header(s, block)
    }

    fn write_run(&self, s: &mut State) -> Result<(), String> {
        let run = std::mem::take(&mut s.run);
        if run.records.is_empty() {
            return Ok(());
        }
        let area = s.area;
        self.write(s, self.layout.page(run.block, run.first), &run.pages)?;
        self.write(s, self.layout.record(run.block, area, run.first), &run.records)?;
        // The buffers serve the next run.
        s.run = Run { block: BlockId::default(), first: 0, ..run };
        s.run.pages.clear();
        s.run.records.clear();
        Ok(())
    }

    /// How much of an open block is durable, if anything is.
    fn claim(&self, s: &State, block: u32) -> Option<Claim> {
        let open = s.open.get(&block)?;
        let pages = if self.has(Planted::ClaimsEarly) { open.pages } else { open.durable };
        let erases = s.blocks[block as usize].erases;
        (pages > 0).then_some(Claim { block: BlockId(block), erases, pages })
    }

    /// What a record of `block` says of others.
    fn claims(&self, s: &mut State, block: BlockId) -> Claims {
        let own = self.claim(s, block.0).map_or(0, |claim| claim.pages);
        // One after the other: several may be open.
        let others = s.open.range(s.told + 1..).chain(s.open.range(..=s.told));
        let mut others = others.map(|(other, _)| *other).filter(|other| *other != block.0);
        let other = others.find_map(|other| self.claim(s, other));
        if let Some(claim) = other {
            s.told = claim.block.0;
        }
        Claims { own, other: other.filter(|_| !self.has(Planted::OthersNotClaimed)) }
    }

    fn append(
        &self,
        s: &mut State,
        at: Ppn,
        oob: &Oob,
        payload: Option<&[u8]>,
    ) -> Result<(), String> {
        let (block, page) = self.layout.split(at);
        if !s.run.follows(block, page) {
            self.write_run(s)?;
            (s.run.block, s.run.first) = (block, page);
        }
        let mut oob = Oob { flags: oob.flags & !HAS_CRC, data_crc: 0, ..*oob };
        let start = s.run.pages.len();
        s.run.pages.extend_from_slice(payload.unwrap_or_default());
        s.run.pages.resize(start + PAGE as usize, 0);
        s.checks[at.index()] = Check::default();
        if payload.is_some() {
            oob.flags |= HAS_CRC;
            oob.data_crc = crc32c(0, &s.run.pages[start..]);
            s.checks[at.index()] = Check { crc: oob.data_crc, sound: true };
        }
        let same = self.has(Planted::SameSalt);
        let salt = if same { 0 } else { s.blocks[block.index()].salt(block) };
        let claims = self.claims(s, block);
        let (bytes, crc) = encode(self.layout, &oob, claims, salt, page);
        s.run.records.extend_from_slice(&bytes);
        s.held[block.index()].add(crc);
        Ok(())
    }
}

/// Whether the file may be written behind the drive.
fn usable(s: &State) -> io::Result<()> {
    s.failed.as_ref().map_or(Ok(()), |text| Err(io::Error::other(text.clone())))
}

fn fail(s: &mut State, error: &io::Error) -> String {
    let text = error.to_string();
    s.failed = Some(text.clone());
    text
}
