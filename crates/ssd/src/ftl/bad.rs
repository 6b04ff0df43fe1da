//! Bad blocks: marked when they fail, their data moved, replaced from the plane's spares.

use block::{BlockId, DeviceError, Ppn, Time};
use nand::{Kind, SlotWrite};

use super::PageFtl;
use super::head::Append;
use super::lines::NONE;
use crate::Bug;

/// A spare whose header says which line it was put into.
struct Claim {
    line: u32,
    plane: u32,
    block: u32,
    epoch: u64,
    bad: bool,
}

impl PageFtl {
    /// Takes stock of the blocks at power-on: rows above the lines are spares; bad members are
    /// replaced by the spare that says it stands for them, or by a fresh one.
    pub(super) fn adopt_blocks(&mut self) {
        let rows = self.g.blocks_per_plane - self.p.bad.reserve_per_plane;
        let mut claims: Vec<Claim> = Vec::new();
        for plane in 0..self.g.planes() {
            for row in rows..self.g.blocks_per_plane {
                let block = self.g.block_at(plane, row);
                let bad = self.nand.is_bad(block);
                if bad {
                    self.spares.count_bad();
                }
                match self.nand.header(block) {
                    // One that failed too may still hold what has not been moved yet.
                    Some(header) if header.line < self.lines.len() => {
                        let (line, epoch) = (header.line, header.epoch);
                        claims.push(Claim { line, plane, block: block.0, epoch, bad });
                    }
                    _ if bad => {}
                    _ => self.spares.give(plane, block.0),
                }
            }
        }
        // Of several spares that stood for one member in turn the last one counts.
        claims.sort_unstable_by_key(|claim| (std::cmp::Reverse(claim.epoch), claim.block));
        // Taken from the end: the lowest number first.
        self.spares.reverse();
        for line in 0..self.lines.len() {
            for index in 0..self.lines.members(line).len() as u32 {
                let member = BlockId(self.lines.members(line)[index as usize]);
                if !self.nand.is_bad(member) {
                    continue;
                }
                self.spares.count_bad();
                let plane = self.g.plane_of(member);
                let claim = claims.iter().position(|c| c.line == line && c.plane == plane);
                let stand_in = match claim {
                    Some(at) => {
                        let claim = claims.remove(at);
                        if claim.bad {
                            self.lines.evacuate(line);
                        }
                        Some(claim.block)
                    }
                    // A bad block that still holds data stays until that has been moved.
                    None if self.nand.next_page(member) > 0 => {
                        self.lines.evacuate(line);
                        continue;
                    }
                    None => self.spares.take(plane),
                };
                self.lines.set_member(line, index, stand_in.unwrap_or(NONE));
            }
        }
        // A claim nobody honours is a spare that stood for a member which came back: unused.
        for claim in claims.iter().filter(|claim| !claim.bad) {
            self.spares.give(claim.plane, claim.block);
        }
    }

    /// A bad member leaves its erased line; a spare of its plane takes its place if there is one.
    pub(super) fn swap_bad_member(&mut self, line: u32, block: BlockId) {
        let plane = self.g.plane_of(block);
        let stand_in = self.spares.take(plane).unwrap_or(NONE);
        self.lines.replace_member(line, block, stand_in);
    }

    /// A program failed: the block is marked bad, the slots go elsewhere, the line is moved soon.
    pub(super) fn program_failed(
        &mut self,
        head: usize,
        target: &[(BlockId, u32)],
        slots: Vec<SlotWrite>,
        block: BlockId,
        known: Time,
    ) -> Result<(), DeviceError> {
        self.retire_in_open_line(block)?;
        let spp = self.g.slots_per_page;
        for (index, slot) in slots.into_iter().enumerate() {
            if slot.oob.kind == Kind::Padding {
                continue;
            }
            let (block, page) = target[index / spp as usize];
            let place = Ppn(self.g.ppn(block, page).0 + index as u32 % spp);
            self.tx_place_failed(slot.oob.tid, place);
            if !self.is_valid(place) {
                continue;
            }
            self.clear_valid(place);
            if slot.oob.kind == Kind::Trim {
                self.trims.moves(place);
            }
            if slot.oob.kind == Kind::State {
                self.state_record_moves(place);
            }
            if slot.oob.kind == Kind::Remap {
                self.remap_record_moves(place);
            }
            let again =
                Append { oob: slot.oob, cause: slot.cause, payload: slot.payload, ready: known };
            self.append(head, again)?;
        }
        // Somebody waits for these slots: they are programmed now, whole group or not.
        if self.heads.is_assembling(head) { self.program_head(head) } else { Ok(()) }
    }

    /// Marks a block of an open line bad and stops using it. Its line is closed by its head and
    /// collected before others.
    pub(super) fn retire_in_open_line(&mut self, block: BlockId) -> Result<(), DeviceError> {
        if self.has_bug(Bug::ReuseBadBlock) {
            return Ok(());
        }
        self.nand.mark_bad(self.now, block).map_err(PageFtl::power)?;
        self.spares.count_bad();
        let line = self.lines.line_of(block);
        if line == NONE {
            return Ok(());
        }
        self.lines.evacuate(line);
        // The head must not aim at the block again: close its line.
        if let Some(head) = self.heads.on(line) {
            self.close_head(head);
        }
        self.check_space();
        Ok(())
    }

    /// Too few good blocks are left to go on writing: the drive becomes read-only.
    pub(super) fn check_space(&mut self) {
        if self.spares.bad() == 0 || self.read_only.is_some() {
            return;
        }
        let line = u64::from(self.lines.full_slots());
        let needed = line * u64::from(super::line_budget(&self.p).needed());
        if self.data_slots() < needed {
            self.read_only = Some("too many blocks are bad");
        }
    }
}
