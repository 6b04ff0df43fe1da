use std::collections::{BTreeMap, BTreeSet};

use ssd::BufferShape;

use super::{Tally, Twin, Use};

/// A vector of blocks from the least to the most recently changed: number, pages and whether they
/// are dirty.
pub struct Fab {
    n: usize,
    width: u32,
    blocks: Vec<(u32, BTreeMap<u32, bool>)>,
}

impl Fab {
    pub fn new(shape: BufferShape) -> Fab {
        Fab { n: shape.entries, width: shape.block_pages, blocks: Vec::new() }
    }
    fn evict(&mut self, tally: &mut Tally) {
        let most = self.blocks.iter().map(|block| block.1.len()).max().expect("not empty");
        let at = self.blocks.iter().position(|block| block.1.len() == most).expect("just found");
        self.blocks.remove(at).1.values().for_each(|dirty| tally.gone(*dirty));
    }
}

impl Twin for Fab {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        let hit = self.blocks.iter().any(|block| block.1.contains_key(&a.page));
        tally.hits += u64::from(hit);
        if !a.write {
            return;
        }
        if !hit && self.blocks.iter().map(|block| block.1.len()).sum::<usize>() == self.n {
            self.evict(tally);
        }
        let number = a.page / self.width;
        let mut block = match self.blocks.iter().position(|block| block.0 == number) {
            Some(at) => self.blocks.remove(at),
            None => (number, BTreeMap::new()),
        };
        block.1.insert(a.page, true);
        self.blocks.push(block);
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        if let Some(at) = self.blocks.iter().position(|block| block.1.contains_key(&page)) {
            let mut block = self.blocks.remove(at);
            block.1.remove(&page);
            if !block.1.is_empty() {
                self.blocks.push(block);
            }
        }
    }
    fn flush(&mut self) {
        let pages = self.blocks.iter_mut().flat_map(|block| block.1.values_mut());
        pages.for_each(|dirty| *dirty = false);
    }
}
