//! Heads: the open lines, and the pages each is assembling.
//!
//! A head aims at one *program group* at a time: the next page of each plane of one stripe (and,
//! one-shot, all pages of that word line). Slots are given their places as they come; the group
//! is programmed when it is full, or padded and programmed when somebody must wait for it.

use block::{BlockId, DeviceError, Ppn, Time};
use nand::{
    BlockHeader, Cause, Done, Kind, NO_LPN, NandError, Oob, PageProgram, Payload, SlotWrite,
};

use super::PageFtl;
use super::lines::{LineKind, NONE};
use crate::Bug;
use crate::config::Placement;

/// Whom a head serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeadKind {
    Host,
    Gc,
    Map,
}

#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub kind: HeadKind,
    /// The open line, or [`NONE`].
    pub line: u32,
    stripe: u32,
    /// The pages of the program group, in slot order.
    pub target: Vec<(BlockId, u32)>,
    /// The slots assembled so far.
    pub slots: Vec<SlotWrite>,
    /// When the last of them is in the controller's memory.
    ready: Time,
    /// Number of this assembly, in order of their beginnings.
    pub assembly: u64,
}

impl Head {
    pub fn new(kind: HeadKind) -> Head {
        Head {
            kind,
            line: NONE,
            stripe: 0,
            target: Vec::with_capacity(16),
            slots: Vec::with_capacity(64),
            ready: Time::ZERO,
            assembly: 0,
        }
    }

    /// Whether it is still assembling what it began no later than assembly number `until`.
    pub fn waits_for(&self, until: u64) -> bool {
        !self.slots.is_empty() && self.assembly <= until
    }
}

/// What a slot to append is.
pub(crate) struct Append {
    pub oob: Oob,
    pub cause: Cause,
    pub payload: Payload,
    /// When its data is there.
    pub ready: Time,
}

impl PageFtl {
    /// Gives a slot its place in a head's assembly; the caller has updated nothing yet. Returns
    /// the place; the slot is valid from here on. Programs the group when it is full.
    pub(super) fn append(&mut self, head: usize, slot: Append) -> Result<Ppn, DeviceError> {
        if self.heads[head].target.is_empty() {
            self.aim(head, slot.oob.lpn)?;
        }
        let h = &mut self.heads[head];
        let spp = self.g.slots_per_page;
        let index = h.slots.len() as u32;
        if index == 0 {
            self.assemblies += 1;
            h.assembly = self.assemblies;
            h.ready = Time::ZERO;
        }
        let (page_index, slot_index) =
            if spp == 1 { (index, 0) } else { (index / spp, index % spp) };
        let (block, page) = h.target[page_index as usize];
        let ppn = Ppn(self.g.ppn(block, page).0 + slot_index);
        h.ready = h.ready.max(slot.ready);
        let lpn = slot.oob.lpn;
        let (kind, tid) = (slot.oob.kind, slot.oob.tid);
        let first_of_map = slot.oob.n == 0;
        h.slots.push(SlotWrite { oob: slot.oob, cause: slot.cause, payload: slot.payload });
        let full = h.slots.len() as u32 == h.target.len() as u32 * spp;
        let line = h.line;
        if kind != Kind::Padding {
            self.set_valid(ppn, line);
        }
        match kind {
            // A page of an open transaction: the map goes on naming the committed version.
            Kind::Data if tid != 0 => self.tx_placed(lpn, tid, ppn),
            Kind::Data => {
                if self.tx.is_some() {
                    self.tx_old_page_moves(lpn, ppn);
                }
                self.map.set(lpn, ppn.0 + 1);
            }
            Kind::Trim => {
                self.trims.placed(ppn);
                if tid != 0 {
                    self.tx_record_placed(tid);
                }
            }
            Kind::State => self.state_record_placed(ppn),
            Kind::Remap => self.remap_record_placed(ppn, tid),
            Kind::Map if first_of_map => {
                if let Some(paged) = &mut self.paged {
                    paged.placed(lpn, ppn);
                }
            }
            _ => {}
        }
        if full {
            self.program_head(head)?;
        }
        Ok(ppn)
    }

    /// Programs what a head has assembled, padded to whole pages (one-shot: whole word lines).
    pub(super) fn program_head(&mut self, head: usize) -> Result<(), DeviceError> {
        let spp = self.g.slots_per_page as usize;
        let mut slots = std::mem::take(&mut self.heads[head].slots);
        let mut target = std::mem::take(&mut self.heads[head].target);
        if slots.is_empty() {
            target.clear();
            self.heads[head].slots = slots;
            self.heads[head].target = target;
            return Ok(());
        }
        if !self.nand.timing().one_shot {
            target.truncate(slots.len().div_ceil(spp));
        }
        while slots.len() < target.len() * spp {
            slots.push(padding());
        }
        let h = &self.heads[head];
        let (line, mut ready, kind) = (h.line, h.ready.max(self.now), h.kind);
        if self.erases.any_booked()
            && slots.iter().any(|slot| !matches!(slot.cause, Cause::Gc | Cause::Padding))
        {
            ready = ready.max(self.cushion());
        }
        let header = self.header(line);
        let result = self.program_pages(&target, &slots, header, ready);
        let count = slots.len() as u32;
        self.clock += u64::from(count);
        self.lines.programmed(line, count);
        let outcome = match result {
            Ok(done) => {
                if kind == HeadKind::Host {
                    self.host_end = self.host_end.max(done.end);
                    self.staged.push_back(done.ticket);
                    self.booked.push(done.ticket);
                }
                if let Some(tx) = &mut self.tx {
                    for slot in slots.iter().filter(|slot| slot.oob.tid != 0) {
                        tx.booked(slot.oob.tid, done.ticket);
                    }
                }
                slots.clear();
                Ok(())
            }
            Err(NandError::ProgramFailed(block, known)) => {
                self.program_failed(head, &target, std::mem::take(&mut slots), block, known)
            }
            Err(error) => Err(PageFtl::power(error)),
        };
        target.clear();
        let h = &mut self.heads[head];
        if h.target.is_empty() && h.slots.is_empty() {
            h.target = target;
            h.slots = slots;
        }
        outcome
    }

    fn program_pages(
        &mut self,
        target: &[(BlockId, u32)],
        slots: &[SlotWrite],
        header: BlockHeader,
        ready: Time,
    ) -> Result<Done, NandError> {
        if let [(block, _)] = target {
            let page = [PageProgram { block: *block, slots, header }];
            return self.nand.program(ready, &page, false);
        }
        match target.len() {
            2 => self.program_group::<2>(target, slots, header, ready),
            3..=4 => self.program_group::<4>(target, slots, header, ready),
            5..=12 => self.program_group::<12>(target, slots, header, ready),
            // Planes of a die times pages of a word line: at most 8 x 5.
            _ => self.program_group::<40>(target, slots, header, ready),
        }
    }

    /// A group of at most N pages: the list of them is made on the stack.
    fn program_group<const N: usize>(
        &mut self,
        target: &[(BlockId, u32)],
        slots: &[SlotWrite],
        header: BlockHeader,
        ready: Time,
    ) -> Result<Done, NandError> {
        let spp = self.g.slots_per_page as usize;
        let mut pages = [PageProgram { block: target[0].0, slots: &slots[..spp], header }; N];
        for ((page, (block, _)), slots) in pages.iter_mut().zip(target).zip(slots.chunks_exact(spp))
        {
            *page = PageProgram { block: *block, slots, header };
        }
        self.nand.program(ready, &pages[..target.len()], false)
    }

    pub(super) fn header(&self, line: u32) -> BlockHeader {
        let entry = self.lines.get(line);
        BlockHeader { line, opened: entry.opened, epoch: entry.opened_epoch }
    }

    /// Chooses the next program group of a head, opening a line if need be.
    pub(super) fn aim(&mut self, head: usize, lpn: u32) -> Result<(), DeviceError> {
        loop {
            if self.heads[head].line == NONE {
                self.open_line(head)?;
            }
            let line = self.heads[head].line;
            let count = self.lines.stripes(line).len() as u32;
            let first = match self.p.placement {
                Placement::Stripe => self.heads[head].stripe % count,
                Placement::Static => lpn % count,
                Placement::Dynamic => self.freest_stripe(line),
            };
            for step in 0..count {
                let stripe = (first + step) % count;
                if self.aim_at(head, line, stripe) {
                    self.heads[head].stripe = stripe + 1;
                    return Ok(());
                }
            }
            self.close_head(head);
        }
    }

    /// Aims at the next page of every live plane of a stripe that is furthest behind.
    fn aim_at(&mut self, head: usize, line: u32, stripe: u32) -> bool {
        let (start, len) = self.lines.stripes(line)[stripe as usize];
        let pages = self.g.pages_per_block;
        let mut target = std::mem::take(&mut self.heads[head].target);
        target.clear();
        let mut lowest = pages;
        for member in &self.lines.members(line)[start as usize..(start + len) as usize] {
            if *member != NONE {
                lowest = lowest.min(self.nand.next_page(BlockId(*member)));
            }
        }
        if lowest < pages {
            let word_line =
                if self.nand.timing().one_shot { self.nand.timing().cell_bits } else { 1 };
            for offset in 0..word_line {
                for member in &self.lines.members(line)[start as usize..(start + len) as usize] {
                    if *member != NONE && self.nand.next_page(BlockId(*member)) == lowest {
                        target.push((BlockId(*member), lowest + offset));
                    }
                }
            }
        }
        let found = !target.is_empty();
        self.heads[head].target = target;
        found
    }

    fn freest_stripe(&self, line: u32) -> u32 {
        let members = self.lines.members(line);
        let stripes = self.lines.stripes(line);
        let free_from = |stripe: &(u32, u32)| {
            let live =
                members[stripe.0 as usize..(stripe.0 + stripe.1) as usize].iter().find(|m| {
                    **m != NONE && self.nand.next_page(BlockId(**m)) < self.g.pages_per_block
                });
            live.map_or(Time::from_ps(u64::MAX), |m| {
                self.nand.sched().free_from(self.nand.die_of(BlockId(*m)))
            })
        };
        let best = stripes.iter().enumerate().min_by_key(|(i, stripe)| (free_from(stripe), *i));
        best.map_or(0, |(i, _)| i as u32)
    }

    fn open_line(&mut self, head: usize) -> Result<(), DeviceError> {
        // The last free line is not taken while another can be booked to become free.
        while self.free.count() <= 1 && !self.erases.is_empty() {
            self.force_erase()?;
        }
        if self.free.count() == 0 {
            return Err(DeviceError::NoSpace("every line is full and none can be erased"));
        }
        let kind = self.heads[head].kind;
        let line = self.free.take(kind != HeadKind::Gc).expect("counted above");
        self.erases.opened(line);
        self.epoch += 1;
        let (seq, epoch) = (self.seq, self.epoch);
        let holds = if kind == HeadKind::Map { LineKind::Map } else { LineKind::Data };
        self.lines.open(line, holds, seq, epoch);
        self.heads[head].line = line;
        self.heads[head].stripe = 0;
        self.free_sum += u128::from(self.free.count());
        self.free_samples += 1;
        Ok(())
    }

    /// Closes a head's line; what is not programmed of it stays unused until it is erased.
    pub(super) fn close_head(&mut self, head: usize) {
        let line = std::mem::replace(&mut self.heads[head].line, NONE);
        debug_assert!(self.heads[head].slots.is_empty());
        self.heads[head].target.clear();
        self.lines.close(line, self.clock);
    }

    /// Programs the partial assemblies of the heads for which `which` holds.
    pub(super) fn program_heads(
        &mut self,
        which: impl Fn(HeadKind) -> bool,
    ) -> Result<(), DeviceError> {
        for head in 0..self.heads.len() {
            if which(self.heads[head].kind) && !self.heads[head].slots.is_empty() {
                self.program_head(head)?;
            }
        }
        Ok(())
    }

    /// Whether a later program can damage an earlier page.
    pub(super) fn has_pairs(&self) -> bool {
        pair_padding(&self.p) > 0
    }

    /// Completes the word lines of open lines, so that no later program can damage a page that is
    /// on flash now. Costs nothing where pages share no cells, or are programmed together.
    pub(super) fn protect_pairs(&mut self) -> Result<(), DeviceError> {
        if !self.has_pairs() || self.has_bug(Bug::IgnoreTornPair) {
            return Ok(());
        }
        for head in 0..self.heads.len() {
            let line = self.heads[head].line;
            if line == NONE {
                continue;
            }
            for index in 0..self.lines.members(line).len() {
                let member = self.lines.members(line)[index];
                if member != NONE {
                    self.protect_block(head, BlockId(member))?;
                }
            }
        }
        Ok(())
    }

    fn protect_block(&mut self, head: usize, block: BlockId) -> Result<(), DeviceError> {
        let pages = self.g.pages_per_block;
        let next = self.nand.next_page(block);
        // Padding needs no protection: find the last page that holds anything.
        let Some(last) = (0..next).rev().find(|page| self.holds_something(block, *page)) else {
            return Ok(());
        };
        let end = self.nand.timing().word_line_end(last, pages);
        if end < next {
            return Ok(());
        }
        // The group being assembled has its places already: they must not move.
        if !self.heads[head].slots.is_empty() {
            self.program_head(head)?;
        }
        self.heads[head].target.clear();
        while self.nand.next_page(block) <= end {
            let spp = self.g.slots_per_page as usize;
            let slots = vec![padding(); spp];
            let line = self.lines.line_of(block);
            let header = self.header(line);
            let page = [PageProgram { block, slots: &slots, header }];
            match self.nand.program(self.now, &page, false) {
                Ok(done) => self.host_end = self.host_end.max(done.end),
                Err(NandError::ProgramFailed(_, known)) => {
                    // Until it has failed it can still damage the page it was to protect.
                    self.host_end = self.host_end.max(known);
                    return self.retire_in_open_line(block);
                }
                Err(error) => return Err(PageFtl::power(error)),
            }
            self.clock += spp as u64;
            self.lines.programmed(line, spp as u32);
        }
        Ok(())
    }

    fn holds_something(&self, block: BlockId, page: u32) -> bool {
        let first = self.g.ppn(block, page);
        (0..self.g.slots_per_page).any(|slot| {
            let ppn = Ppn(first.0 + slot);
            self.is_valid(ppn) || self.nand.lpn(ppn) != NO_LPN
        })
    }
}

/// Pages of a block that may have to be padded so that the pages before them are safe.
fn pair_padding(p: &crate::config::Params) -> u32 {
    match p.timing.page_types {
        _ if p.timing.one_shot => 0,
        nand::PageTypes::Uniform => 0,
        nand::PageTypes::Cyclic => p.timing.cell_bits - 1,
        nand::PageTypes::MlcPairs => 5,
    }
}

/// Slots that one head may have to pad before an erase: its program group, and the word lines of
/// the blocks it is programming.
pub(crate) fn erase_padding(p: &crate::config::Params) -> u32 {
    let group = &p.groups[0];
    let stripe = group.stripes.iter().map(|planes| planes.len() as u32).max().unwrap_or(1);
    let word_line = if p.timing.one_shot { p.timing.cell_bits } else { 1 };
    let slots = p.geometry.slots_per_page;
    let planes: u32 = group.stripes.iter().map(|planes| planes.len() as u32).sum();
    stripe * word_line * slots - 1 + planes * pair_padding(p) * slots
}

pub(super) fn padding() -> SlotWrite {
    SlotWrite {
        oob: Oob { kind: Kind::Padding, lpn: NO_LPN, ..Oob::default() },
        cause: Cause::Padding,
        payload: Payload::None,
    }
}
