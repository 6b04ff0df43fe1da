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

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{BlockId, Ppn, crc32c};
use nand::{Backing, OOB_BYTES, Oob, PageProgram, Payload};

use crate::layout::{BlockState, HAS_CRC, LOST, Layout, PAGE, closes_others, encode_oob};
use crate::medium::Medium;
use crate::planted::Planted;

/// Pages gathered at most.
const RUN: usize = 256;

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

/// Pages of one block that follow each other and are not in the file yet.
#[derive(Debug, Default)]
struct Run {
    block: BlockId,
    first: u32,
    pages: Vec<u8>,
    oobs: Vec<u8>,
}

impl Run {
    fn count(&self) -> u32 {
        (self.oobs.len() / OOB_BYTES) as u32
    }
    fn follows(&self, block: BlockId, page: u32) -> bool {
        let count = self.count();
        count > 0 && (count as usize) < RUN && block == self.block && page == self.first + count
    }
    fn page(&self, block: BlockId, page: u32) -> Option<&[u8]> {
        let inside = block == self.block && (self.first..self.first + self.count()).contains(&page);
        let at = page.checked_sub(self.first).filter(|_| inside)? as usize * PAGE as usize;
        self.pages.get(at..at + PAGE as usize)
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

#[derive(Debug)]
struct State {
    run: Run,
    /// Whether anything was written since the last sync.
    dirty: bool,
    /// Whether what was found at power-on is durable: a process that was killed may have left it to
    /// the system's cache.
    settled: bool,
    /// Blocks whose erase is not durable, and whether it is in the file: it waits for the sync
    /// that makes durable what was programmed before it, and costs none of its own.
    erased: BTreeMap<u32, bool>,
    blocks: Vec<BlockState>,
    /// Blocks opened since power-on and not full, and their pages.
    partial: BTreeMap<u32, u32>,
    checks: Vec<Check>,
    stats: FileStats,
    /// Why the file failed.
    failed: Option<String>,
}

/// The backing of a live drive.
#[derive(Debug)]
pub(crate) struct ImageFile {
    layout: Layout,
    medium: Arc<dyn Medium>,
    planted: Option<Planted>,
    state: Mutex<State>,
}

impl ImageFile {
    pub fn new(
        layout: Layout,
        medium: Arc<dyn Medium>,
        blocks: Vec<BlockState>,
        checks: Vec<Check>,
        planted: Option<Planted>,
    ) -> ImageFile {
        let state = State {
            run: Run::default(),
            dirty: false,
            settled: false,
            erased: BTreeMap::new(),
            blocks,
            partial: BTreeMap::new(),
            checks,
            stats: FileStats::default(),
            failed: None,
        };
        ImageFile { layout, medium, planted, state: Mutex::new(state) }
    }

    /// Nothing below panics while it holds the lock but a broken rule of the array.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn has(&self, bug: Planted) -> bool {
        self.planted == Some(bug)
    }

    pub fn stats(&self) -> FileStats {
        self.lock().stats
    }

    /// Makes everything programmed so far durable.
    pub fn sync(&self) -> Result<(), String> {
        self.sync_state(&mut self.lock())
    }

    fn write(&self, s: &mut State, at: u64, bytes: &[u8]) -> Result<(), String> {
        if let Some(failed) = &s.failed {
            return Err(failed.clone());
        }
        if !s.settled {
            s.settled = true;
            s.stats.syncs += 1;
            self.medium.sync().map_err(|e| fail(s, &e))?;
        }
        s.stats.writes += 1;
        s.stats.bytes += bytes.len() as u64;
        s.dirty = true;
        self.medium.write(at, bytes).map_err(|e| fail(s, &e))
    }

    fn sync_state(&self, s: &mut State) -> Result<(), String> {
        self.write_run(s)?;
        if s.dirty {
            s.stats.syncs += 1;
            // What was written before a sync that fails is in an unknown state, and a second
            // sync would say nothing of it: there is no second one.
            self.medium.sync().map_err(|e| fail(s, &e))?;
            s.dirty = false;
            s.erased.retain(|_, written| !*written);
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

    /// The image is let go: everything is durable, and the blocks that are not full say how far.
    pub fn let_go(&self) -> Result<(), String> {
        let s = &mut *self.lock();
        self.sync_state(s)?;
        for (block, pages) in std::mem::take(&mut s.partial) {
            let block = BlockId(block);
            s.blocks[block.index()].settled = pages;
            self.write(s, self.layout.header(block), &s.blocks[block.index()].encode())?;
        }
        self.settle(s)
    }

    /// Makes everything durable, erases too.
    fn settle(&self, s: &mut State) -> Result<(), String> {
        self.sync_state(s)?;
        if s.erased.is_empty() { Ok(()) } else { self.sync_state(s) }
    }

    fn write_erase(&self, s: &mut State, block: BlockId) -> Result<(), String> {
        s.erased.insert(block.0, true);
        self.write(s, self.layout.header(block), &s.blocks[block.index()].encode())
    }

    fn write_run(&self, s: &mut State) -> Result<(), String> {
        let run = std::mem::take(&mut s.run);
        if run.oobs.is_empty() {
            return Ok(());
        }
        self.write(s, self.layout.page(run.block, run.first), &run.pages)?;
        self.write(s, self.layout.oob(run.block, run.first), &run.oobs)?;
        // The buffers serve the next run.
        s.run = Run { block: BlockId::default(), first: 0, ..run };
        s.run.pages.clear();
        s.run.oobs.clear();
        Ok(())
    }

    fn fetch(&self, s: &State, at: Ppn) -> Option<Vec<u8>> {
        let (block, page) = self.layout.split(at);
        let check = s.checks[at.index()];
        let bytes = match s.run.page(block, page) {
            Some(bytes) => bytes.to_vec(),
            None => {
                let mut bytes = vec![0; PAGE as usize];
                self.medium.read(self.layout.page(block, page), &mut bytes).ok()?;
                bytes
            }
        };
        (check.sound && crc32c(0, &bytes) == check.crc).then_some(bytes)
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
        s.run.oobs.extend_from_slice(&encode_oob(&oob, salt));
        Ok(())
    }
}

fn fail(s: &mut State, error: &std::io::Error) -> String {
    let text = error.to_string();
    s.failed = Some(text.clone());
    text
}

impl Backing for ImageFile {
    fn program(&self, program: &PageProgram<'_>, page: u32, erases: u32) -> Result<(), String> {
        let s = &mut *self.lock();
        let block = program.block;
        let [slot] = program.slots else {
            return Err("an image has one slot in a page".to_string());
        };
        let last = page + 1 == self.layout.pages && !self.has(Planted::LastPageEarly);
        let closes = closes_others(slot.oob.kind) && !self.has(Planted::RecordBeforeOthers);
        if closes || page == 0 && s.erased.contains_key(&block.0) {
            self.settle(s)?;
        } else if last {
            self.sync_state(s)?;
        }
        if page == 0 {
            let state =
                BlockState { header: Some(program.header), erases, ..BlockState::default() };
            s.blocks[block.index()] = state;
            self.write(s, self.layout.header(block), &state.encode())?;
        }
        match page + 1 == self.layout.pages {
            true => s.partial.remove(&block.0),
            false => s.partial.insert(block.0, page + 1),
        };
        let at = Ppn(block.0 * self.layout.pages + page);
        match &slot.payload {
            Payload::None => self.append(s, at, &slot.oob, None),
            Payload::Bytes(bytes) if bytes.len() <= PAGE as usize => {
                self.append(s, at, &slot.oob, Some(bytes))
            }
            Payload::Stored(from) => match self.fetch(s, *from) {
                Some(bytes) => self.append(s, at, &slot.oob, Some(&bytes)),
                // The copy says that what it stands for was lost.
                None => {
                    let oob = Oob { flags: slot.oob.flags | LOST, ..slot.oob };
                    self.append(s, at, &oob, None)
                }
            },
            _ => Err("an image keeps bytes, not stamps".to_string()),
        }
    }

    fn erase(&self, block: BlockId, erases: u32) -> Result<(), String> {
        let s = &mut *self.lock();
        s.blocks[block.index()] = BlockState { erases, ..BlockState::default() };
        s.erased.insert(block.0, false);
        s.partial.remove(&block.0);
        if self.has(Planted::EraseBeforeCopies) { self.write_erase(s, block) } else { Ok(()) }
    }

    fn mark_bad(&self, block: BlockId, erases: u32) -> Result<(), String> {
        let s = &mut *self.lock();
        self.settle(s)?;
        let state = BlockState { erases, bad: true, ..BlockState::default() };
        s.blocks[block.index()] = state;
        self.write(s, self.layout.header(block), &state.encode())
    }

    fn read(&self, at: Ppn) -> Option<Arc<[u8]>> {
        let s = self.lock();
        self.fetch(&s, at).map(Arc::from)
    }
}
