//! The cells: what a read finds, what a program puts there, what an erase leaves.

use std::sync::Arc;

use block::{BlockId, Ppn};

use crate::image::{BlockImage, BlockMeta, Contents, Overlay};
use crate::trouble::Fate;
use crate::{BlockHeader, NO_LPN, Nand, Oob, PageProgram, PageState, Payload};

/// What a read finds in a slot.
#[derive(Debug, PartialEq, Eq)]
pub enum SlotRead<'a> {
    /// Erased.
    Blank,
    /// The record and the payload.
    Good(&'a Oob, &'a Payload),
    /// The record is fine, the payload fails its check.
    DataRot(&'a Oob),
    /// Nothing can be trusted.
    Unreadable,
}

impl Nand {
    /// What a read of a slot finds.
    ///
    /// # Panics
    /// If only logical numbers are kept.
    pub fn slot(&self, ppn: Ppn) -> SlotRead<'_> {
        let mut ppn = ppn;
        match self.image.overlay.get(&ppn) {
            Some(Overlay::Unreadable) => return SlotRead::Unreadable,
            Some(Overlay::Holds(other)) => ppn = *other,
            Some(Overlay::DataRot) | None => {}
        }
        match self.truth(ppn) {
            SlotRead::Good(oob, _) if self.image.overlay.get(&ppn) == Some(&Overlay::DataRot) => {
                SlotRead::DataRot(oob)
            }
            found => found,
        }
    }

    /// What the cells of a slot hold, whatever faults make of reading them: for checkers.
    ///
    /// # Panics
    /// If only logical numbers are kept.
    pub fn truth(&self, ppn: Ppn) -> SlotRead<'_> {
        let Contents::Full(blocks) = &self.image.contents else {
            panic!("only logical numbers are kept");
        };
        let (block, page, slot) = self.geometry.place(ppn);
        let image = &blocks[block.index()];
        if image.states.is_empty() {
            return SlotRead::Blank;
        }
        let at = (page * self.geometry.slots_per_page + slot) as usize;
        match image.states[at] {
            PageState::Blank => SlotRead::Blank,
            PageState::Torn => SlotRead::Unreadable,
            PageState::Good => match &image.payloads {
                Some(payloads) => SlotRead::Good(&image.oobs[at], &payloads[at]),
                None => SlotRead::Good(&image.oobs[at], &Payload::None),
            },
        }
    }

    /// The bytes of a payload that only the backing holds; `None` if they cannot be read.
    pub fn fetch(&self, at: Ppn) -> Option<Arc<[u8]>> {
        self.backing.as_ref()?.read(at)
    }

    /// The logical number beside a slot that holds data ([`NO_LPN`] otherwise), for cleaning.
    #[inline(always)]
    pub fn lpn(&self, ppn: Ppn) -> u32 {
        match &self.image.contents {
            Contents::Lean(lpns) => lpns[ppn.index()].wrapping_sub(1),
            Contents::Full(_) => match self.slot(ppn) {
                SlotRead::Good(oob, _) | SlotRead::DataRot(oob) => oob.lpn,
                SlotRead::Blank | SlotRead::Unreadable => NO_LPN,
            },
        }
    }

    /// The header beside the first page of a block.
    pub fn header(&self, block: BlockId) -> Option<BlockHeader> {
        match &self.image.contents {
            Contents::Full(blocks) => blocks[block.index()].header,
            Contents::Lean(_) => None,
        }
    }

    /// Writes one page's cells and counts it.
    pub(crate) fn store(&mut self, program: &PageProgram<'_>, page: u32, fate: Fate) {
        let (block, at) = (program.block, program.block.index());
        let slots = self.geometry.slots_per_page;
        assert!(page < self.geometry.pages_per_block, "block {block} is full");
        assert!(!self.image.meta[at].bad, "program of bad block {block}");
        assert_eq!(program.slots.len(), slots as usize, "a program fills its page");
        self.image.meta[at].next_page = page + 1;
        let BlockMeta { disturbed, erases, .. } = self.image.meta[at];
        let place = self.geometry.ppn(block, page);
        if let Some(backing) = &self.backing
            && fate == Fate::Works
            && let Err(error) = backing.program(program, page, erases)
        {
            self.broken = Some(error);
            return;
        }
        match &mut self.image.contents {
            Contents::Lean(lpns) => {
                let first = (block.0 * self.geometry.slots_per_block() + page * slots) as usize;
                for (cell, slot) in
                    lpns[first..first + slots as usize].iter_mut().zip(program.slots)
                {
                    *cell = slot.oob.lpn.wrapping_add(1);
                    self.stats.programs[slot.cause as usize] += 1;
                }
            }
            Contents::Full(blocks) => {
                let image = Arc::make_mut(&mut blocks[at]);
                if image.states.is_empty() {
                    *image = BlockImage::erased(self.geometry.slots_per_block() as usize);
                }
                let first = (page * slots) as usize;
                for (i, slot) in program.slots.iter().enumerate() {
                    self.stats.programs[slot.cause as usize] += 1;
                    image.states[first + i] = match fate {
                        // Cells that an erase left half-way do not hold what is put there.
                        _ if disturbed => PageState::Torn,
                        Fate::Works => PageState::Good,
                        Fate::Fails => PageState::Torn,
                        Fate::Noop => PageState::Blank,
                    };
                    image.oobs[first + i] = slot.oob;
                    let payload = match (&self.backing, &slot.payload) {
                        (None, payload) => payload.clone(),
                        (Some(_), Payload::None) => Payload::None,
                        (Some(_), _) => Payload::Stored(Ppn(place.0 + i as u32)),
                    };
                    if payload != Payload::None || image.payloads.is_some() {
                        let room = image.states.len();
                        image.payloads.get_or_insert_with(|| vec![Payload::None; room].into())
                            [first + i] = payload;
                    }
                }
                if page == 0 && fate == Fate::Works && !disturbed {
                    image.header = Some(program.header);
                }
            }
        }
        if !self.image.overlay.is_empty() {
            let first = self.geometry.ppn(block, page);
            for slot in 0..slots {
                self.image.overlay.remove(&Ppn(first.0 + slot));
            }
        }
    }

    pub(crate) fn wipe(&mut self, block: BlockId) {
        let at = block.index();
        let old = self.image.meta[at];
        self.image.meta[at] = BlockMeta { erases: old.erases + 1, ..BlockMeta::default() };
        self.wear.remove(old.erases);
        self.wear.add(old.erases + 1);
        if let Some(backing) = &self.backing
            && let Err(error) = backing.erase(block, old.erases + 1)
        {
            self.broken = Some(error);
        }
        let slots = self.geometry.slots_per_block() as usize;
        match &mut self.image.contents {
            Contents::Lean(lpns) => lpns[at * slots..(at + 1) * slots].fill(0),
            Contents::Full(blocks) => blocks[at] = Arc::clone(&self.image.blank),
        }
        if !self.image.overlay.is_empty() {
            let first = (at * slots) as u32;
            self.image.overlay.retain(|ppn, _| !(first..first + slots as u32).contains(&ppn.0));
        }
    }
}
