use std::collections::{BTreeMap, BTreeSet};

use super::{Tally, Twin, Use};

/// Pages of a block, and whether they are dirty.
type Block = (u32, BTreeMap<u32, bool>);

/// Two vectors of blocks, the next victim first: 0 = random (LRU), 1 = sequential (FIFO).
pub struct Vbbms {
    cap: [usize; 2],
    width: [u32; 2],
    regions: [Vec<Block>; 2],
}

impl Vbbms {
    pub fn new(n: usize, random: usize, width: [u32; 2]) -> Vbbms {
        Vbbms { cap: [random, n - random], width, regions: [Vec::new(), Vec::new()] }
    }
    fn held(&self, region: usize) -> usize {
        self.regions[region].iter().map(|block| block.1.len()).sum()
    }
    fn remove(&mut self, page: u32) -> Option<bool> {
        for region in &mut self.regions {
            for at in 0..region.len() {
                if let Some(dirty) = region[at].1.remove(&page) {
                    if region[at].1.is_empty() {
                        region.remove(at);
                    }
                    return Some(dirty);
                }
            }
        }
        None
    }
    fn add(&mut self, region: usize, page: u32, dirty: bool, tally: &mut Tally) {
        while self.held(region) >= self.cap[region] {
            let victim = self.regions[region].remove(0);
            victim.1.values().for_each(|dirty| tally.gone(*dirty));
        }
        let number = page / self.width[region];
        let blocks = &mut self.regions[region];
        let at = blocks.iter().position(|block| block.0 == number).unwrap_or_else(|| {
            blocks.push((number, BTreeMap::new()));
            blocks.len() - 1
        });
        blocks[at].1.insert(page, dirty);
        if region == 0 {
            let block = blocks.remove(at);
            blocks.push(block);
        }
    }
}

impl Twin for Vbbms {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        let random = &mut self.regions[0];
        if let Some(at) = random.iter().position(|block| block.1.contains_key(&a.page)) {
            let mut block = random.remove(at);
            *block.1.get_mut(&a.page).expect("found") |= a.write;
            random.push(block);
            tally.hits += 1;
        } else if let Some(dirty) = self.remove(a.page) {
            tally.hits += 1;
            self.add(0, a.page, dirty || a.write, tally);
        } else {
            self.add(usize::from(a.len > 4096), a.page, a.write, tally);
        }
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        self.remove(page);
    }
    fn flush(&mut self) {
        let blocks = self.regions.iter_mut().flatten();
        blocks.flat_map(|block| block.1.values_mut()).for_each(|dirty| *dirty = false);
    }
}
