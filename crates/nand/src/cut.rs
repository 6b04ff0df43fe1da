//! The image a power cut leaves.
//!
//! At the instant of the cut an operation that has ended is on flash, one that has not begun
//! never happened, and one under way is torn. Operations booked after operation `op` never
//! happened: the controller stopped with it.

use block::{Time, crc32c};

use crate::image::{BlockImage, Contents};
use crate::{Image, Nand, OpKind, OpRecord, PageState};

/// When, relative to its operation, the power goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Instant {
    /// At the operation's start: it never happened.
    Before,
    /// While it is under way: it is torn.
    Inside,
    /// At the time of the request that booked it: everything still queued is lost.
    Booked,
}

/// What a program that was under way leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Torn {
    /// Nothing: the page reads as erased.
    Nothing,
    /// The first half of its slots, the rest unreadable.
    Prefix,
    /// Unreadable slots.
    Garbage,
    /// Each operation under way draws one of these, or "done", from the seed.
    Mixed(u64),
}

/// What an erase that was under way leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// The old contents.
    Old,
    /// Blank pages that must not be trusted.
    Blank,
    /// Unreadable pages.
    Garbage,
    /// Each page draws one of these from the seed.
    Mixed(u64),
}

/// A power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// The operation it hits (programs and erases count together from 0).
    pub op: u64,
    /// When.
    pub instant: Instant,
    /// What programs under way leave.
    pub torn: Torn,
    /// A torn program also damages the lower page on its word line.
    pub pair: bool,
    /// What erases under way leave.
    pub left: Left,
}

/// A draw that depends on the seed and the place only.
fn draw(seed: u64, what: u64, choices: u32) -> u32 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..].copy_from_slice(&what.to_le_bytes());
    crc32c(0x5EED, &bytes) % choices
}

impl Nand {
    /// The image that `cut` leaves, and the instant of the cut; `None` if the operation is no
    /// longer (or not yet) in the journal. The array itself is unchanged.
    pub fn image_at_cut(&self, cut: &Cut) -> Option<(Image, Time)> {
        let records = &self.journal.as_ref()?.records;
        let first = records.front()?.op;
        let hit = records.get(usize::try_from(cut.op.checked_sub(first)?).ok()?)?;
        debug_assert_eq!(hit.op, cut.op);
        let instant = match cut.instant {
            Instant::Before => hit.start,
            Instant::Inside => hit.end,
            Instant::Booked => hit.booked,
        };
        let mut image = self.image().clone();
        for record in records.iter().rev() {
            let is_hit = record.op == cut.op;
            let done = match cut.instant {
                _ if record.op > cut.op => false,
                Instant::Before | Instant::Inside => !is_hit && record.end <= instant,
                // Without timing an operation has no length: one of this very moment is lost too.
                Instant::Booked => {
                    record.end < instant || (record.end == instant && record.start < instant)
                }
            };
            if done {
                continue;
            }
            let begun = record.op <= cut.op
                && match cut.instant {
                    Instant::Inside => is_hit || record.start < instant,
                    Instant::Before | Instant::Booked => !is_hit && record.start < instant,
                };
            self.take_back(&mut image, record, begun.then_some(cut));
        }
        Some((image, instant))
    }

    /// The image that is left when the power goes at `instant`; what was under way is torn as
    /// `cut` says, whose operation and instant are not looked at. The array itself is unchanged.
    pub fn image_at(&self, instant: Time, cut: &Cut) -> Image {
        let mut image = self.image().clone();
        for record in self.journal.iter().flat_map(|journal| journal.records.iter().rev()) {
            if record.end > instant {
                self.take_back(&mut image, record, (record.start < instant).then_some(cut));
            }
        }
        image
    }

    /// Undoes one operation, or leaves it torn as `cut` says.
    fn take_back(&self, image: &mut Image, record: &OpRecord, torn: Option<&Cut>) {
        let at = record.block.index();
        match record.kind {
            OpKind::MarkBad => {
                if torn.is_none() {
                    image.meta[at].bad = false;
                }
            }
            OpKind::Program => match torn {
                None => self.unprogram(image, record),
                Some(cut) => self.tear_program(image, record, cut),
            },
            OpKind::Erase => {
                let Some(before) = &record.before else { return };
                let (old_meta, old_block) = (**before).clone();
                match torn {
                    None => {
                        image.meta[at] = old_meta;
                        set_block(image, at, old_block);
                    }
                    Some(cut) => self.tear_erase(image, record, cut.left),
                }
            }
        }
    }

    fn unprogram(&self, image: &mut Image, record: &OpRecord) {
        image.meta[record.block.index()].next_page = record.page;
        self.set_states(image, record, record.page, |_| PageState::Blank);
        if record.page == 0
            && let Contents::Full(blocks) = &mut image.contents
        {
            std::sync::Arc::make_mut(&mut blocks[record.block.index()]).header = None;
        }
    }

    fn tear_program(&self, image: &mut Image, record: &OpRecord, cut: &Cut) {
        let slots = self.geometry().slots_per_page;
        let torn = match cut.torn {
            Torn::Mixed(seed) => match draw(seed, record.op, 4) {
                0 => Torn::Nothing,
                1 => Torn::Prefix,
                2 => Torn::Garbage,
                _ => return,
            },
            fixed => fixed,
        };
        match torn {
            // Reads as blank, but the cells were touched: the block must not be appended to. Of a
            // word line programmed at once a later page may have taken.
            Torn::Nothing => {
                let block = record.block.index();
                let reached = image.meta[block].next_page;
                self.unprogram(image, record);
                image.meta[block].next_page = reached;
                image.meta[block].disturbed = true;
                return;
            }
            Torn::Prefix => self.set_states(image, record, record.page, |slot| {
                if slot < slots / 2 { PageState::Good } else { PageState::Torn }
            }),
            _ => self.set_states(image, record, record.page, |_| PageState::Torn),
        }
        let pages = self.geometry().pages_per_block;
        if record.page == 0
            && let Contents::Full(blocks) = &mut image.contents
        {
            // The header lies in the same page.
            std::sync::Arc::make_mut(&mut blocks[record.block.index()]).header = None;
        }
        if cut.pair
            && let Some(lower) = self.timing().paired_lower(record.page, pages)
        {
            self.set_states(image, record, lower, |_| PageState::Torn);
        }
    }

    fn tear_erase(&self, image: &mut Image, record: &OpRecord, left: Left) {
        let at = record.block.index();
        let Some(before) = &record.before else { return };
        let (old_meta, old_block) = (**before).clone();
        image.meta[at] = old_meta;
        image.meta[at].disturbed = true;
        set_block(image, at, old_block);
        let pages = self.geometry().pages_per_block;
        for page in 0..pages {
            let left = match left {
                Left::Mixed(seed) => match draw(seed, record.op << 20 | u64::from(page), 3) {
                    0 => Left::Old,
                    1 => Left::Blank,
                    _ => Left::Garbage,
                },
                fixed => fixed,
            };
            let state = match left {
                Left::Old => continue,
                Left::Blank => PageState::Blank,
                _ => PageState::Torn,
            };
            self.set_states(image, record, page, |_| state);
            if page == 0
                && let Contents::Full(blocks) = &mut image.contents
            {
                std::sync::Arc::make_mut(&mut blocks[at]).header = None;
            }
        }
    }

    fn set_states(
        &self,
        image: &mut Image,
        record: &OpRecord,
        page: u32,
        state: impl Fn(u32) -> PageState,
    ) {
        let geometry = self.geometry();
        let Contents::Full(blocks) = &mut image.contents else { return };
        let block = std::sync::Arc::make_mut(&mut blocks[record.block.index()]);
        if block.states.is_empty() {
            *block = BlockImage::erased(geometry.slots_per_block() as usize);
        }
        let first = page * geometry.slots_per_page;
        for slot in 0..geometry.slots_per_page {
            block.states[(first + slot) as usize] = state(slot);
        }
    }
}

fn set_block(image: &mut Image, at: usize, block: std::sync::Arc<BlockImage>) {
    if let Contents::Full(blocks) = &mut image.contents {
        blocks[at] = block;
    }
}
