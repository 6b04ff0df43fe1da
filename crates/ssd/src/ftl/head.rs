//! Appending: how slots get their places, and how what the heads assemble is programmed.
//!
//! A head aims at one *program group* at a time: the next page of each plane of one stripe (and,
//! one-shot, all pages of that word line). Slots are given their places as they come; the group
//! is programmed when it is full, or padded and programmed when somebody must wait for it.

use block::{BlockId, DeviceError, Ppn, Time};
use nand::{
    BlockHeader, Cause, Done, Kind, NO_LPN, NandError, Oob, PageProgram, Payload, SlotWrite, Ticket,
};

use super::PageFtl;
use super::heads::{Assembled, HeadKind};
use super::lines::{LineKind, NONE};
use crate::Bug;
use crate::config::Placement;

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
        let lpn = slot.oob.lpn;
        self.find_place(head, lpn)?;
        let (kind, tid, first_of_map) = (slot.oob.kind, slot.oob.tid, slot.oob.n == 0);
        let placed = self.heads.push(head, slot, self.g.slots_per_page);
        let ppn = Ppn(self.g.ppn(placed.block, placed.page).0 + placed.slot);
        if kind != Kind::Padding {
            self.set_valid(ppn, placed.line);
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
        if placed.full {
            self.program_head(head)?;
        }
        Ok(ppn)
    }

    /// Sees to it that the next slot of a head has a place. What moves calls it before anything of the
    /// old place changes: there may be no line to open, and then the slot must still count there.
    #[inline]
    pub(super) fn find_place(&mut self, head: usize, lpn: u32) -> Result<(), DeviceError> {
        if self.heads.is_aimless(head) { self.aim(head, lpn) } else { Ok(()) }
    }

    /// Programs what a head has assembled, padded to whole pages (one-shot: whole word lines).
    pub(super) fn program_head(&mut self, head: usize) -> Result<(), DeviceError> {
        let spp = self.g.slots_per_page as usize;
        let Assembled { mut slots, mut target, ready } = self.heads.take(head);
        if slots.is_empty() {
            target.clear();
            self.heads.give_back(head, slots, target);
            return Ok(());
        }
        if !self.nand.timing().one_shot {
            target.truncate(slots.len().div_ceil(spp));
        }
        while slots.len() < target.len() * spp {
            slots.push(padding());
        }
        let (line, kind) = (self.heads.line(head), self.heads.kind(head));
        let mut ready = ready.max(self.now);
        if self.erases.any_booked()
            && slots.iter().any(|slot| !matches!(slot.cause, Cause::Gc | Cause::Padding))
        {
            ready = ready.max(self.cushion());
        }
        let header = self.header(line);
        let result = self.program_pages(&target, &slots, header, ready);
        let count = slots.len() as u32;
        self.clock.programmed(u64::from(count));
        self.lines.programmed(line, count);
        let outcome = match result {
            Ok(done) => {
                if kind == HeadKind::Host {
                    self.staging.programmed(done.ticket, done.end);
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
        self.heads.give_back(head, slots, target);
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
            if self.heads.line(head) == NONE {
                self.open_line(head)?;
            }
            let line = self.heads.line(head);
            let count = self.lines.stripes(line).len() as u32;
            let mut stripe = match self.p.placement {
                Placement::Stripe => self.heads.stripe(head),
                Placement::Static => lpn % count,
                Placement::Dynamic => self.freest_stripe(line),
            };
            for _ in 0..count {
                // In turn: a division only where a line has fewer stripes than the one before.
                stripe = if stripe < count { stripe } else { stripe % count };
                if self.aim_at(head, line, stripe) {
                    return Ok(());
                }
                stripe += 1;
            }
            self.close_head(head);
        }
    }

    /// Aims at the next page of every live plane of a stripe that is furthest behind.
    fn aim_at(&mut self, head: usize, line: u32, stripe: u32) -> bool {
        let (start, len) = self.lines.stripes(line)[stripe as usize];
        let pages = self.g.pages_per_block;
        let members = &self.lines.members(line)[start as usize..(start + len) as usize];
        let nand = &self.nand;
        let word_line = if nand.timing().one_shot { nand.timing().cell_bits } else { 1 };
        self.heads.aim(head, stripe, |target| {
            let mut lowest = pages;
            for member in members.iter().filter(|member| **member != NONE) {
                let next = nand.next_page(BlockId(*member));
                if next < lowest {
                    lowest = next;
                    target.clear();
                }
                if next == lowest && next < pages {
                    target.push((BlockId(*member), next));
                }
            }
            let planes = target.len();
            for offset in 1..word_line {
                for at in 0..planes {
                    let (block, first) = target[at];
                    target.push((block, first + offset));
                }
            }
        })
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
        let kind = self.heads.kind(head);
        let line = self.free.take(kind != HeadKind::Gc).expect("counted above");
        self.erases.opened(line);
        let (seq, epoch) = (self.clock.seq(), self.clock.next_epoch());
        let holds = if kind == HeadKind::Map { LineKind::Map } else { LineKind::Data };
        self.lines.open(line, head as u8, holds, seq, epoch);
        self.heads.open(head, line);
        self.cleaner.saw_free(self.unused_lines());
        Ok(())
    }

    /// Closes a head's line; what is not programmed of it stays unused until it is erased.
    pub(super) fn close_head(&mut self, head: usize) {
        let line = self.heads.close(head);
        self.lines.close(line, self.clock.slots());
    }

    /// Programs the partial assemblies of the heads for which `which` holds.
    pub(super) fn program_heads(
        &mut self,
        which: impl Fn(HeadKind) -> bool,
    ) -> Result<(), DeviceError> {
        for head in 0..self.heads.len() {
            if which(self.heads.kind(head)) && self.heads.is_assembling(head) {
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
            let line = self.heads.line(head);
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
        if self.heads.is_assembling(head) {
            self.program_head(head)?;
        }
        self.heads.lose_aim(head);
        while self.nand.next_page(block) <= end {
            let spp = self.g.slots_per_page as usize;
            let slots = vec![padding(); spp];
            let line = self.lines.line_of(block);
            let header = self.header(line);
            let page = [PageProgram { block, slots: &slots, header }];
            match self.nand.program(self.now, &page, false) {
                Ok(done) => self.protected(done.ticket, done.end),
                Err(NandError::ProgramFailed(_, known)) => {
                    // Until it has failed it can still damage the page it was to protect.
                    let ticket = self.nand.sched().ticket(self.nand.die_of(block), known);
                    self.protected(ticket, known);
                    return self.retire_in_open_line(block);
                }
                Err(error) => return Err(PageFtl::power(error)),
            }
            self.clock.programmed(spp as u64);
            self.lines.programmed(line, spp as u32);
        }
        Ok(())
    }

    /// A program that a flush relies on, though it holds nothing.
    fn protected(&mut self, ticket: Ticket, end: Time) {
        self.staging.relies_on(ticket, end, self.nand.sched(), self.now);
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
