use std::collections::{BTreeMap, BTreeSet};

use ssd::BufferShape;

use super::{Tally, Twin, Use};

struct Block {
    number: u32,
    /// Page, and whether it is dirty.
    pages: BTreeMap<u32, bool>,
    /// The pages written one after another from the first one on.
    run: Vec<u32>,
}

/// A vector of blocks, the next victim first.
pub struct Bplru {
    n: usize,
    width: u32,
    pages: u32,
    blocks: Vec<Block>,
}

impl Bplru {
    pub fn new(shape: BufferShape) -> Bplru {
        let (n, width, pages) = (shape.entries, shape.block_pages, shape.pages);
        Bplru { n, width, pages, blocks: Vec::new() }
    }
    fn resident(&self) -> usize {
        self.blocks.iter().map(|block| block.pages.len()).sum()
    }
    fn evict(&mut self, tally: &mut Tally, written: &BTreeSet<u32>) {
        let victim = self.blocks.remove(0);
        victim.pages.values().for_each(|dirty| tally.gone(*dirty));
        if victim.pages.values().any(|dirty| *dirty) {
            let first = victim.number * self.width;
            for page in first..(first + self.width).min(self.pages) {
                let given = victim.pages.get(&page) == Some(&true);
                tally.padded += u64::from(!given && written.contains(&page));
            }
        }
    }
}

impl Twin for Bplru {
    fn access(&mut self, a: Use, tally: &mut Tally, written: &BTreeSet<u32>) {
        let hit = self.blocks.iter().any(|block| block.pages.contains_key(&a.page));
        tally.hits += u64::from(hit);
        if !a.write {
            return;
        }
        if !hit && self.resident() == self.n {
            self.evict(tally, written);
        }
        let number = a.page / self.width;
        let mut block = match self.blocks.iter().position(|block| block.number == number) {
            Some(at) => self.blocks.remove(at),
            None => Block { number, pages: BTreeMap::new(), run: Vec::new() },
        };
        block.pages.insert(a.page, true);
        let first = number * self.width;
        if a.page == first || block.run.last().is_some_and(|last| last + 1 == a.page) {
            if a.page == first {
                block.run.clear();
            }
            block.run.push(a.page);
        } else {
            block.run.clear();
        }
        if block.run.len() as u32 == self.width {
            self.blocks.insert(0, block);
        } else {
            self.blocks.push(block);
        }
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        for block in &mut self.blocks {
            if block.pages.remove(&page).is_some() {
                block.run.clear();
            }
        }
        self.blocks.retain(|block| !block.pages.is_empty());
    }
    fn flush(&mut self) {
        let pages = self.blocks.iter_mut().flat_map(|block| block.pages.values_mut());
        pages.for_each(|dirty| *dirty = false);
    }
}
