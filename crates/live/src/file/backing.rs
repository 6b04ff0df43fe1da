//! The image as the array's backing: when which of the orders of [`super`] is kept.

use std::sync::Arc;

use block::{BlockId, Ppn, crc32c};
use nand::{Backing, Oob, PageProgram, Payload};

use super::{Held, ImageFile, Open, State};
use crate::header::BlockState;
use crate::layout::PAGE;
use crate::planted::Planted;
use crate::record::{LOST, closes_others};

impl ImageFile {
    /// What is stored at a place; `None`: something else than was written there.
    fn fetch(&self, s: &State, at: Ppn) -> Result<Option<Vec<u8>>, String> {
        let (block, page) = self.layout.split(at);
        let check = s.checks[at.index()];
        let bytes = match s.run.page(block, page) {
            Some(bytes) => bytes.to_vec(),
            None => {
                let mut bytes = vec![0; PAGE as usize];
                let read = self.medium.read(self.layout.page(block, page), &mut bytes);
                read.map_err(|error| format!("page {page} of block {block}: {error}"))?;
                bytes
            }
        };
        Ok((check.sound && crc32c(0, &bytes) == check.crc).then_some(bytes))
    }
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
            s.held[block.index()] = Held::default();
            s.open.insert(block.0, Open::default());
            self.write_header(s, block)?;
        }
        let at = Ppn(block.0 * self.layout.pages + page);
        let stored = match &slot.payload {
            Payload::None => self.append(s, at, &slot.oob, None),
            Payload::Bytes(bytes) if bytes.len() <= PAGE as usize => {
                self.append(s, at, &slot.oob, Some(bytes))
            }
            // An error is not damage: what cannot be read now may be read later, where it is.
            Payload::Stored(from) => match self.fetch(s, *from)? {
                Some(bytes) => self.append(s, at, &slot.oob, Some(&bytes)),
                // The copy says that what it stands for was lost.
                None => {
                    let oob = Oob { flags: slot.oob.flags | LOST, ..slot.oob };
                    self.append(s, at, &oob, None)
                }
            },
            _ => Err("an image keeps bytes, not stamps".to_string()),
        };
        if let Some(open) = s.open.get_mut(&block.0) {
            open.pages = page + 1;
        }
        stored
    }

    fn erase(&self, block: BlockId, erases: u32) -> Result<(), String> {
        let s = &mut *self.lock();
        s.blocks[block.index()] = BlockState { erases, ..BlockState::default() };
        s.held[block.index()] = Held::default();
        s.erased.insert(block.0, false);
        s.open.remove(&block.0);
        if self.has(Planted::EraseBeforeCopies) { self.write_erase(s, block) } else { Ok(()) }
    }

    fn mark_bad(&self, block: BlockId, erases: u32) -> Result<(), String> {
        let s = &mut *self.lock();
        self.settle(s)?;
        let state = BlockState { erases, bad: true, ..BlockState::default() };
        s.blocks[block.index()] = state;
        s.held[block.index()] = Held::default();
        s.open.remove(&block.0);
        self.write_header(s, block)
    }

    fn read(&self, at: Ppn) -> Option<Arc<[u8]>> {
        let s = self.lock();
        self.fetch(&s, at).ok().flatten().map(Arc::from)
    }
}
