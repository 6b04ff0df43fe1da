//! The demand-paged map: translation pages on flash, a cache of whole ones in DRAM, a directory.
//!
//! The map itself is kept whole in the simulator's memory; this file decides which part of it
//! the *drive* has at hand, and books every read and program that the rest costs. With payloads
//! kept, translation pages are really written, and power-on reads them back.

use block::{Bytes, DeviceError, Ppn, Time};
use nand::{Cause, Geometry, Kind, Oob, Payload, ReadCause, SlotRead};

use super::PageFtl;
use super::head::Append;
use super::heads::HeadKind;
use super::lines::NONE;
use crate::Bug;

/// Bytes of an entry on flash.
const ENTRY: u32 = 8;

#[derive(Clone, Copy, Debug)]
struct Frame {
    tp: u32,
    dirty: bool,
    referenced: bool,
    /// LRU neighbours.
    prev: u32,
    next: u32,
}

#[derive(Clone, Debug)]
pub(super) struct PagedMap {
    /// Map entries in a translation page.
    entries: u32,
    /// Place of each translation page + 1; 0 = never written.
    directory: Vec<u32>,
    /// The flash copy is older than the map (after power-on): dirty as soon as it is cached.
    stale: Vec<bool>,
    frame_of: Vec<u32>,
    frames: Vec<Frame>,
    capacity: usize,
    hand: usize,
    lru: bool,
    head: u32,
    tail: u32,
    /// Translation pages that the victim in progress made dirty without being cached.
    moved: Vec<u32>,
    is_moved: Vec<bool>,
}

impl PagedMap {
    pub fn new(g: &Geometry, slots: u32, cache: Bytes, lru: bool) -> PagedMap {
        let entries = g.page_bytes / ENTRY;
        let pages = slots.div_ceil(entries) as usize;
        let capacity = ((cache.0 / u64::from(g.page_bytes)) as usize).clamp(2, pages.max(2));
        PagedMap {
            entries,
            directory: vec![0; pages],
            stale: vec![false; pages],
            frame_of: vec![NONE; pages],
            frames: Vec::with_capacity(capacity),
            capacity,
            hand: 0,
            lru,
            head: NONE,
            tail: NONE,
            moved: Vec::new(),
            is_moved: vec![false; pages],
        }
    }
    /// Map entries in a translation page.
    pub fn per_page(&self) -> u32 {
        self.entries
    }
    /// A translation page has a new place.
    pub fn placed(&mut self, tp: u32, at: Ppn) {
        self.directory[tp as usize] = at.0 + 1;
    }
    /// The directory, for checkpoints.
    pub fn directory(&self) -> &[u32] {
        &self.directory
    }
    pub fn set_directory(&mut self, tp: usize, entry: u32, stale: bool) {
        self.directory[tp] = entry;
        self.stale[tp] = stale;
    }

    fn unlink(&mut self, frame: u32) {
        let Frame { prev, next, .. } = self.frames[frame as usize];
        match prev {
            NONE => self.head = next,
            prev => self.frames[prev as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => self.frames[next as usize].prev = prev,
        }
    }
    fn push_front(&mut self, frame: u32) {
        let old = self.head;
        let f = &mut self.frames[frame as usize];
        f.prev = NONE;
        f.next = old;
        match old {
            NONE => self.tail = frame,
            old => self.frames[old as usize].prev = frame,
        }
        self.head = frame;
    }
    /// The frame to give up.
    fn choose(&mut self) -> u32 {
        if self.lru {
            return self.tail;
        }
        loop {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.frames.len();
            let frame = &mut self.frames[at];
            if !frame.referenced {
                return at as u32;
            }
            frame.referenced = false;
        }
    }
}

impl PageFtl {
    /// Looks a slot's map entry up: when it is at hand. `write` makes its page dirty.
    pub(super) fn map_touch(
        &mut self,
        at: Time,
        slot: u32,
        write: bool,
    ) -> Result<Time, DeviceError> {
        let Some(paged) = &mut self.paged else { return Ok(at) };
        let tp = slot / paged.entries;
        let frame = paged.frame_of[tp as usize];
        if frame != NONE {
            let f = &mut paged.frames[frame as usize];
            f.dirty |= write;
            f.referenced = true;
            if paged.lru && paged.head != frame {
                paged.unlink(frame);
                paged.push_front(frame);
            }
            self.map_stats.hits += 1;
            return Ok(at);
        }
        self.map_stats.misses += 1;
        self.load(at, tp, write)
    }

    fn load(&mut self, at: Time, tp: u32, write: bool) -> Result<Time, DeviceError> {
        let mut evicted = None;
        let Some(paged) = &mut self.paged else { return Ok(at) };
        let frame = if paged.frames.len() < paged.capacity {
            paged.frames.push(Frame { tp, dirty: false, referenced: true, prev: NONE, next: NONE });
            paged.frames.len() as u32 - 1
        } else {
            let frame = paged.choose();
            let old = paged.frames[frame as usize];
            paged.frame_of[old.tp as usize] = NONE;
            paged.unlink(frame);
            if old.dirty {
                evicted = Some(old.tp);
            }
            frame
        };
        let dirty = write || paged.stale[tp as usize];
        paged.stale[tp as usize] = false;
        paged.frames[frame as usize] =
            Frame { tp, dirty, referenced: true, prev: NONE, next: NONE };
        paged.frame_of[tp as usize] = frame;
        paged.push_front(frame);
        let entry = paged.directory[tp as usize];
        if let Some(old) = evicted {
            self.map_stats.dirty_evictions += 1;
            if !self.has_bug(Bug::DropMapEviction) {
                self.map_stats.evict_programs += 1;
                self.write_map_page(old, at)?;
            }
        }
        // The page may have moved while the evicted one was written.
        let entry = match &self.paged {
            Some(paged) => paged.directory[tp as usize],
            None => entry,
        };
        if entry == 0 {
            return Ok(at);
        }
        self.read_map_page(at, Ppn(entry - 1))
    }

    fn read_map_page(&mut self, at: Time, place: Ppn) -> Result<Time, DeviceError> {
        let (block, page, _) = self.g.place(place);
        if page >= self.nand.next_page(block) {
            return Ok(at);
        }
        let pieces = [self.g.page_bytes / 4096];
        self.nand
            .read(at, &[(block, page)], &pieces, self.g.slots_per_page, ReadCause::Map)
            .map_err(PageFtl::power)
    }

    /// Programs a translation page, once all data it names is on flash: a page that named data
    /// which a power cut takes back would hide the older version.
    fn write_map_page(&mut self, tp: u32, ready: Time) -> Result<(), DeviceError> {
        let mut ready = ready;
        if self.full {
            // Lean runs cannot be cut: there the controller is taken to order the two without
            // keeping a die waiting.
            self.program_heads(|kind| kind != HeadKind::Map)?;
            let told = self.nand.sched_mut().tell_programs();
            ready = ready.max(self.nand.programs_end()).max(told);
        }
        let Some(paged) = &self.paged else { return Ok(()) };
        let (entries, old) = (paged.entries, paged.directory[tp as usize]);
        let spp = self.g.slots_per_page;
        if old != 0 {
            for slot in 0..spp {
                self.clear_valid(Ppn(old - 1 + slot));
            }
        }
        let seq = self.clock.next_seq();
        let first = (tp * entries) as usize;
        let last = (first + entries as usize).min(self.map.len());
        let bytes: Vec<u8> = if self.full {
            self.map.entries()[first..last]
                .iter()
                .flat_map(|e| u64::from(*e).to_le_bytes())
                .collect()
        } else {
            Vec::new()
        };
        let slot_bytes = self.g.slot_bytes as usize;
        for slot in 0..spp as usize {
            let part = bytes.get(slot * slot_bytes..).unwrap_or(&[]);
            let part = &part[..part.len().min(slot_bytes)];
            let payload = if self.full { Payload::Bytes(part.into()) } else { Payload::None };
            let oob = Oob { kind: Kind::Map, lpn: tp, n: slot as u16, seq, ..Oob::default() };
            // Its first slot enters it in the directory.
            self.append(self.heads.of_map(), Append { oob, cause: Cause::Map, payload, ready })?;
        }
        Ok(())
    }

    /// Cleaning moved a slot: its translation page changes once the victim is done.
    pub(super) fn map_moved(&mut self, slot: u32) {
        let Some(paged) = &mut self.paged else { return };
        let tp = slot / paged.entries;
        let frame = paged.frame_of[tp as usize];
        if frame != NONE {
            paged.frames[frame as usize].dirty = true;
        } else if !paged.is_moved[tp as usize] {
            paged.is_moved[tp as usize] = true;
            paged.moved.push(tp);
        }
    }

    /// Writes the translation pages that cleaning changed, once each.
    pub(super) fn write_moved_map(&mut self) -> Result<(), DeviceError> {
        while let Some(tp) = self.paged.as_mut().and_then(|paged| paged.moved.pop()) {
            let Some(paged) = &mut self.paged else { return Ok(()) };
            paged.is_moved[tp as usize] = false;
            let frame = paged.frame_of[tp as usize];
            if frame != NONE {
                paged.frames[frame as usize].dirty = true;
                continue;
            }
            let entry = paged.directory[tp as usize];
            let mut ready = self.now;
            if entry != 0 {
                ready = self.read_map_page(ready, Ppn(entry - 1))?;
            }
            self.map_stats.gc_programs += 1;
            self.write_map_page(tp, ready)?;
        }
        Ok(())
    }

    /// Cleaning met a translation page: it is written again elsewhere.
    pub(super) fn move_map_page(&mut self, first: Ppn, ready: Time) -> Result<(), DeviceError> {
        let spp = self.g.slots_per_page;
        if !(0..spp).any(|slot| self.is_valid(Ppn(first.0 + slot))) {
            // Written again since it was read.
            return Ok(());
        }
        let found = self.paged.as_ref().and_then(|paged| {
            // Its record says which it is; lean runs look it up in the directory.
            let tp = self.nand.lpn(first) as usize;
            (paged.directory.get(tp) == Some(&(first.0 + 1))).then_some(tp as u32).or_else(|| {
                paged.directory.iter().position(|e| *e == first.0 + 1).map(|tp| tp as u32)
            })
        });
        let Some(tp) = found else {
            for slot in 0..spp {
                if self.is_valid(Ppn(first.0 + slot)) {
                    self.clear_valid(Ppn(first.0 + slot));
                }
            }
            return Ok(());
        };
        self.map_stats.gc_programs += 1;
        self.cleaner.moved_map(spp);
        self.write_map_page(tp, ready)
    }

    /// Writes every dirty translation page (for a checkpoint).
    pub(super) fn flush_map(&mut self) -> Result<(), DeviceError> {
        let Some(paged) = &mut self.paged else { return Ok(()) };
        let mut dirty: Vec<u32> = paged.frames.iter().filter(|f| f.dirty).map(|f| f.tp).collect();
        dirty.extend((0..paged.stale.len()).filter(|tp| paged.stale[*tp]).map(|tp| tp as u32));
        paged.stale.fill(false);
        // The victim in progress may have moved slots of pages that are not cached.
        dirty.append(&mut paged.moved);
        paged.is_moved.fill(false);
        dirty.sort_unstable();
        dirty.dedup();
        for frame in &mut paged.frames {
            frame.dirty = false;
        }
        for tp in dirty {
            self.map_stats.checkpoint_programs += 1;
            self.write_map_page(tp, self.now)?;
        }
        Ok(())
    }

    /// The entries of a translation page as they stand on flash (at power-on).
    pub(super) fn stored_map_page(&self, tp: usize) -> Option<Vec<u32>> {
        let paged = self.paged.as_ref()?;
        let place = paged.directory[tp].checked_sub(1)?;
        let mut entries = Vec::with_capacity(paged.entries as usize);
        for slot in 0..self.g.slots_per_page {
            match self.nand.slot(Ppn(place + slot)) {
                SlotRead::Good(oob, Payload::Bytes(bytes))
                    if oob.kind == Kind::Map && oob.lpn as usize == tp =>
                {
                    entries.extend(
                        bytes.chunks_exact(8).map(|e| u32::from_le_bytes([e[0], e[1], e[2], e[3]])),
                    );
                }
                _ => return None,
            }
        }
        Some(entries)
    }
}
