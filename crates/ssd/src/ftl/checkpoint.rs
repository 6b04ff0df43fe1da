//! Checkpoints of the map: two areas, written in turn, valid by CRC and a closing record.
//!
//! Order of durability: everything the checkpoint speaks of, then its body, then the closing
//! record, then what completes their word lines. Until that is on flash the checkpoint before is
//! the one relied upon: the next one's programs could still take this one along (contract C1, C5).
//! An area is erased only when the other one holds a closed checkpoint.

use block::{BlockId, DeviceError, Time, crc32c};
use nand::{BlockHeader, Cause, Kind, NandError, Oob, PageProgram, Payload, SlotWrite};

use super::PageFtl;
use super::head::padding;
use super::lines::NONE;
use crate::Bug;

const MAGIC: u32 = 0x5641_5256;

/// Where checkpoints go.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Lines of each area: the first `lines`, and the next `lines`.
    lines: u32,
    area: u32,
    /// The area of the newest closed checkpoint, which stays until a newer one is closed.
    closed: Option<u32>,
    /// Nothing may be appended to the current area (after power-on).
    sealed: bool,
    /// Number of the newest checkpoint.
    id: u64,
    /// Slots programmed when it was written.
    clock: u64,
    /// Blocks of the area whose last page is a checkpoint's, in a word line not yet complete.
    exposed: Vec<BlockId>,
}

impl State {
    /// No checkpoint yet.
    pub fn fresh(meta_lines: u32) -> State {
        State::found(meta_lines, None, 0, 0)
    }
    /// After power-on: the newest checkpoint lies in `closed` (the next goes to the other area).
    pub fn found(meta_lines: u32, closed: Option<u32>, id: u64, clock: u64) -> State {
        let area = closed.unwrap_or(0);
        let exposed = Vec::new();
        State { lines: meta_lines / 2, area, closed, sealed: true, id, clock, exposed }
    }
    pub fn area_lines(&self, area: u32) -> std::ops::Range<u32> {
        area * self.lines..(area + 1) * self.lines
    }
}

/// Lines that one area needs: a whole checkpoint, in whole lines.
pub(crate) fn area_lines(
    paged: bool,
    logical_slots: u64,
    lines: u64,
    blocks: u64,
    page: u64,
    slot: u64,
    line_slots: u64,
) -> u64 {
    let map = if paged { logical_slots.div_ceil(page / 8) } else { logical_slots };
    let bytes = 64 + 4 * map + 16 * lines + 8 * blocks;
    let spp = page / slot;
    // The body, rounded to pages, and a page for the closing record.
    let slots = (bytes.div_ceil(slot).div_ceil(spp) + 1) * spp;
    slots.div_ceil(line_slots).max(1)
}

/// A line that was open when a checkpoint was written.
#[derive(Clone, Debug)]
pub(super) struct OpenLine {
    pub line: u32,
    /// Which opening of a line it was: only blocks whose header says so belong to it. A bad block
    /// that a spare had replaced may be a member again after power-on.
    pub epoch: u64,
    /// The page each member had reached.
    pub reached: Vec<u32>,
}

/// A checkpoint as read back.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub area: u32,
    pub id: u64,
    pub seq: u64,
    pub epoch: u64,
    /// Open lines.
    pub open: Vec<OpenLine>,
    /// Map entries, or the directory of a paged map.
    pub entries: Vec<u32>,
}

impl PageFtl {
    /// Writes a checkpoint if one is due.
    pub fn checkpoint_if_due(&mut self) -> Result<(), DeviceError> {
        let (Some(state), Some(interval)) = (&self.checkpoint, self.p.checkpoint.interval_slots)
        else {
            return Ok(());
        };
        if self.clock.slots() - state.clock >= interval {
            self.write_checkpoint().map(|_| ())
        } else {
            Ok(())
        }
    }

    /// Writes a checkpoint; when its closing record is on flash.
    pub fn write_checkpoint(&mut self) -> Result<Time, DeviceError> {
        if self.checkpoint.is_none() {
            return Ok(self.now);
        }
        self.make_room()?;
        self.flush_map()?;
        if !self.trims_are_settled() {
            self.record_trims()?;
        }
        self.program_heads(|_| true)?;
        self.protect_pairs()?;
        let told = self.nand.sched_mut().tell_programs();
        let durable = self.now.max(self.nand.programs_end()).max(told);
        let Some(state) = &mut self.checkpoint else { return Ok(self.now) };
        state.id += 1;
        state.clock = self.clock.slots();
        let id = state.id;
        let body = self.encode_body();
        let slots = self.body_slots(&body, id);
        let area = self.area_for(slots.len(), durable)?;
        let Some(area) = area else { return Ok(durable) };
        let early = self.has_bug(Bug::CheckpointBeforeBody);
        let closing = self.closing_slot(&body, id);
        if early {
            self.program_meta(area, std::slice::from_ref(&closing), self.now)?;
        }
        let Some(body_end) = self.program_meta(area, &slots, durable)? else { return Ok(durable) };
        let mut end = body_end;
        if !early {
            match self.program_meta(area, &[closing], body_end)? {
                Some(closed) => end = closed,
                None => return Ok(durable),
            }
        }
        match self.protect_meta(end)? {
            Some(protected) => end = protected,
            None => return Ok(durable),
        }
        if let Some(state) = &mut self.checkpoint {
            state.closed = Some(area);
        }
        self.forget_trims();
        // A flush that follows relies on it for the discards it covers.
        self.staging.ends(end);
        Ok(end)
    }

    fn trims_are_settled(&self) -> bool {
        self.trims.is_empty()
    }

    /// The area to write to, erased if need be; `None` if no block of it works.
    fn area_for(&mut self, slots: usize, durable: Time) -> Result<Option<u32>, DeviceError> {
        let Some(state) = &self.checkpoint else { return Ok(None) };
        let spp = self.g.slots_per_page as usize;
        let needed = slots.div_ceil(spp) + 1;
        let (area, sealed) = (state.area, state.sealed);
        if !sealed && self.meta_room(area) >= needed {
            return Ok(Some(area));
        }
        // Never the one that is relied upon, even if the other has no working block left.
        let area = 1 - state.closed.unwrap_or(area);
        let lines = state.area_lines(area);
        for line in lines {
            for index in 0..self.lines.members(line).len() {
                let member = self.lines.members(line)[index];
                if member == NONE || self.nand.is_bad(BlockId(member)) {
                    continue;
                }
                match self.nand.erase(durable, BlockId(member), true) {
                    Ok(_) => {}
                    Err(NandError::EraseFailed(block, _)) => {
                        self.nand.mark_bad(durable, block).map_err(PageFtl::power)?;
                        self.spares.count_bad();
                        self.swap_bad_member(line, block);
                    }
                    Err(error) => return Err(PageFtl::power(error)),
                }
            }
        }
        if let Some(state) = &mut self.checkpoint {
            state.area = area;
            state.sealed = false;
            state.exposed.clear();
        }
        Ok((self.meta_room(area) >= needed).then_some(area))
    }

    /// Unprogrammed pages of an area.
    fn meta_room(&self, area: u32) -> usize {
        self.meta_blocks(area)
            .map(|block| (self.g.pages_per_block - self.nand.next_page(block)) as usize)
            .sum()
    }

    fn meta_blocks(&self, area: u32) -> impl Iterator<Item = BlockId> + '_ {
        let lines = self.checkpoint.as_ref().map_or(0..0, |state| state.area_lines(area));
        lines
            .flat_map(|line| self.lines.members(line))
            .filter(|m| **m != NONE && !self.nand.is_bad(BlockId(**m)))
            .map(|m| BlockId(*m))
    }

    /// Programs slots into an area, page by page over its blocks; when the last is done. `None`
    /// if a program failed: this checkpoint is given up, the last one stands.
    fn program_meta(
        &mut self,
        area: u32,
        slots: &[SlotWrite],
        at: Time,
    ) -> Result<Option<Time>, DeviceError> {
        let spp = self.g.slots_per_page as usize;
        let mut end = at;
        for chunk in slots.chunks(spp) {
            let mut page = chunk.to_vec();
            page.resize_with(spp, padding);
            let block = self.meta_blocks(area).min_by_key(|b| (self.nand.next_page(*b), b.0));
            let Some(block) = block.filter(|b| self.nand.next_page(*b) < self.g.pages_per_block)
            else {
                return Ok(None);
            };
            match self.program_meta_page(area, block, &page, at)? {
                Some(done) => end = end.max(done),
                None => return Ok(None),
            }
            if let Some(state) = &mut self.checkpoint
                && !state.exposed.contains(&block)
            {
                state.exposed.push(block);
            }
        }
        Ok(Some(end))
    }

    /// Programs a page of an area; when it is done. `None` if that failed.
    fn program_meta_page(
        &mut self,
        area: u32,
        block: BlockId,
        page: &[SlotWrite],
        at: Time,
    ) -> Result<Option<Time>, DeviceError> {
        let header = BlockHeader { line: self.lines.line_of(block), opened: 0, epoch: 0 };
        self.clock.programmed(page.len() as u64);
        match self.nand.program(at, &[PageProgram { block, slots: page, header }], true) {
            Ok(done) => Ok(Some(done.end)),
            Err(NandError::ProgramFailed(block, _)) => {
                self.nand.mark_bad(self.now, block).map_err(PageFtl::power)?;
                self.spares.count_bad();
                if let Some(state) = &mut self.checkpoint {
                    state.sealed = true;
                    // The next one goes to this area again: the other holds the last good one.
                    state.area = 1 - area;
                    state.exposed.clear();
                }
                Ok(None)
            }
            Err(error) => Err(PageFtl::power(error)),
        }
    }

    /// Completes the word lines of the checkpoint just closed: no later program of its area can
    /// damage it then. When that is done; `None` if a program failed.
    fn protect_meta(&mut self, at: Time) -> Result<Option<Time>, DeviceError> {
        let Some(state) = &mut self.checkpoint else { return Ok(Some(at)) };
        let (area, exposed) = (state.area, std::mem::take(&mut state.exposed));
        let mut end = at;
        if !self.has_pairs() || self.has_bug(Bug::CheckpointLeftOpen) {
            return Ok(Some(end));
        }
        let (pages, slots) = (self.g.pages_per_block, self.g.slots_per_page as usize);
        for block in exposed {
            let last = self.nand.next_page(block) - 1;
            let complete = self.nand.timing().word_line_end(last, pages);
            while self.nand.next_page(block) <= complete {
                match self.program_meta_page(area, block, &vec![padding(); slots], at)? {
                    Some(done) => end = end.max(done),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(end))
    }

    fn encode_body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        if !self.full {
            // Only its size matters where no payload is kept.
            let entries = self.paged.as_ref().map_or(self.map.len(), |p| p.directory().len());
            body.resize(32 + 4 * entries + 8 * self.lines.len() as usize, 0);
            return body;
        }
        let mut u64s = |n: u64| body.extend(n.to_le_bytes());
        u64s(self.clock.seq());
        u64s(self.clock.epoch());
        let mut u32s: Vec<u32> = Vec::new();
        let all = if self.has_bug(Bug::CheckpointTwoHeads) { 2 } else { usize::MAX };
        let open: Vec<u32> = self.heads.lines().take(all).collect();
        u32s.push(open.len() as u32);
        for line in open {
            u32s.push(line);
            let epoch = self.lines.get(line).opened_epoch;
            u32s.extend([epoch as u32, (epoch >> 32) as u32]);
            let members = self.lines.members(line);
            u32s.push(members.len() as u32);
            u32s.extend(members.iter().map(|m| match *m {
                NONE => u32::MAX,
                block => self.nand.next_page(BlockId(block)),
            }));
        }
        let entries = self.paged.as_ref().map_or(self.map.entries(), |p| p.directory());
        u32s.push(entries.len() as u32);
        u32s.extend(entries);
        body.extend(u32s.iter().flat_map(|n| n.to_le_bytes()));
        body
    }

    fn body_slots(&self, body: &[u8], id: u64) -> Vec<SlotWrite> {
        body.chunks(self.g.slot_bytes as usize)
            .enumerate()
            .map(|(i, part)| SlotWrite {
                oob: Oob { kind: Kind::Checkpoint, lpn: i as u32, seq: id, ..Oob::default() },
                cause: Cause::Metadata,
                payload: if self.full { Payload::Bytes(part.into()) } else { Payload::None },
            })
            .collect()
    }

    fn closing_slot(&self, body: &[u8], id: u64) -> SlotWrite {
        let mut bytes = Vec::with_capacity(12);
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(crc32c(0, body).to_le_bytes());
        SlotWrite {
            oob: Oob {
                kind: Kind::CheckpointEnd,
                lpn: super::checkpoint::NO,
                seq: id,
                ..Oob::default()
            },
            cause: Cause::Metadata,
            payload: if self.full { Payload::Bytes(bytes.into()) } else { Payload::None },
        }
    }
}

const NO: u32 = nand::NO_LPN;

/// Puts a checkpoint together from the slots read of one area: `(record, payload)`.
pub(super) fn assemble(area: u32, slots: &[(Oob, Vec<u8>)], trust_unclosed: bool) -> Option<Found> {
    let mut ends: Vec<&(Oob, Vec<u8>)> =
        slots.iter().filter(|(oob, _)| oob.kind == Kind::CheckpointEnd).collect();
    ends.sort_by_key(|(oob, _)| std::cmp::Reverse(oob.seq));
    for (end, payload) in ends {
        let word = |i: usize| {
            payload.get(4 * i..4 * i + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        };
        let (Some(MAGIC), Some(len), Some(crc)) = (word(0), word(1), word(2)) else { continue };
        let mut parts: Vec<(u32, &Vec<u8>)> = slots
            .iter()
            .filter(|(oob, _)| oob.kind == Kind::Checkpoint && oob.seq == end.seq)
            .map(|(oob, part)| (oob.lpn, part))
            .collect();
        parts.sort_by_key(|(index, _)| *index);
        let body: Vec<u8> = parts.iter().flat_map(|(_, part)| part.iter().copied()).collect();
        let whole = body.len() == len as usize && crc32c(0, &body) == crc;
        if !whole && !trust_unclosed {
            continue;
        }
        if !whole {
            // The planted bug: a body that is not there is believed all the same.
            let (seq, epoch) = (1 << 47, 1 << 47);
            return Some(Found {
                area,
                id: end.seq,
                seq,
                epoch,
                open: Vec::new(),
                entries: Vec::new(),
            });
        }
        if let Some(found) = decode(area, end.seq, &body) {
            return Some(found);
        }
    }
    None
}

fn decode(area: u32, id: u64, body: &[u8]) -> Option<Found> {
    let u64_at = |i: usize| Some(u64::from_le_bytes(body.get(i..i + 8)?.try_into().ok()?));
    let (seq, epoch) = (u64_at(0)?, u64_at(8)?);
    let mut words =
        body.get(16..)?.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let mut open = Vec::new();
    for _ in 0..words.next()? {
        let (line, low, high) = (words.next()?, words.next()?, words.next()?);
        let epoch = u64::from(high) << 32 | u64::from(low);
        let count = words.next()?;
        let reached = (0..count).map_while(|_| words.next()).collect();
        open.push(OpenLine { line, epoch, reached });
    }
    let count = words.next()?;
    let entries: Vec<u32> = words.collect();
    (entries.len() == count as usize).then_some(Found { area, id, seq, epoch, open, entries })
}
