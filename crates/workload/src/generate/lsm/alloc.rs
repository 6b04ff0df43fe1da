//! Where files lie: extents of one area, freed space used again, as a file system does.
//!
//! Invariants: free extents are disjoint, never empty, and no two of them touch; what is handed
//! out was free. All numbers are bytes and multiples of 4 KiB.

use std::collections::BTreeMap;

use block::{Rng, UNIT_BYTES};

/// A piece of the area: first byte and number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    pub start: u64,
    pub len: u64,
}

/// Which free extent a file gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Placement {
    /// The first large enough after the last file's, round and round.
    NextFit,
    /// The first large enough.
    FirstFit,
    /// The first large enough after a random place.
    Random,
}

/// The free extents of one area.
pub(super) struct Allocator {
    free: BTreeMap<u64, u64>,
    area: Extent,
    cursor: u64,
    placement: Placement,
    rng: Rng,
}

impl Allocator {
    /// An empty area.
    pub fn new(area: Extent, placement: Placement, rng: Rng) -> Allocator {
        let free = BTreeMap::from([(area.start, area.len)]);
        Allocator { free, area, cursor: area.start, placement, rng }
    }

    /// Space for `len` bytes, rounded up to 4 KiB: one extent if any is large enough, else the
    /// free extents after the cursor in order; `None` if there is too little.
    pub fn take(&mut self, len: u64) -> Option<Vec<Extent>> {
        let len = len.next_multiple_of(UNIT_BYTES).max(UNIT_BYTES);
        let units = self.area.len / UNIT_BYTES;
        let from = match self.placement {
            Placement::NextFit => self.cursor,
            Placement::FirstFit => self.area.start,
            Placement::Random => self.area.start + self.rng.below(units) * UNIT_BYTES,
        };
        // The free extent around `from` counts from there on only if the rest of it is enough.
        let around = self.free.range(..from).next_back();
        let around = around.and_then(|(s, l)| (s + l >= from + len).then_some(from));
        let later = self.free.range(from..).find(|(_, l)| **l >= len).map(|(s, _)| *s);
        let any = || self.free.iter().find(|(_, l)| **l >= len).map(|(s, _)| *s);
        if let Some(start) = around.or(later).or_else(any) {
            let extent = Extent { start, len };
            self.remove(extent);
            return Some(vec![extent]);
        }
        if self.free.values().sum::<u64>() < len {
            return None;
        }
        let (mut pieces, mut missing) = (Vec::new(), len);
        while missing > 0 {
            let next = self.free.range(from..).next().or_else(|| self.free.iter().next());
            let (start, found) = next.map(|(s, l)| (*s, *l))?;
            let piece = Extent { start, len: found.min(missing) };
            self.remove(piece);
            pieces.push(piece);
            missing -= piece.len;
        }
        Some(pieces)
    }

    /// Takes `extent`, which lies in one free extent, out of it.
    fn remove(&mut self, extent: Extent) {
        let Some((&start, &len)) = self.free.range(..=extent.start).next_back() else { return };
        let (end, free_end) = (extent.start + extent.len, start + len);
        debug_assert!(end <= free_end, "not free");
        self.free.remove(&start);
        if start < extent.start {
            self.free.insert(start, extent.start - start);
        }
        if end < free_end {
            self.free.insert(end, free_end - end);
        }
        self.cursor = end;
    }

    /// Gives `extent` back.
    pub fn give(&mut self, extent: Extent) {
        merge(&mut self.free, extent);
    }
}

/// Adds `extent` to disjoint extents, joining it with those it touches.
pub(super) fn merge(free: &mut BTreeMap<u64, u64>, mut extent: Extent) {
    if extent.len == 0 {
        return;
    }
    if let Some((&start, &len)) = free.range(..extent.start).next_back() {
        debug_assert!(start + len <= extent.start, "freed twice");
        if start + len == extent.start {
            free.remove(&start);
            extent = Extent { start, len: len + extent.len };
        }
    }
    if let Some(len) = free.remove(&(extent.start + extent.len)) {
        extent.len += len;
    }
    free.insert(extent.start, extent.len);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_out_was_free_and_comes_back() {
        for placement in [Placement::NextFit, Placement::FirstFit, Placement::Random] {
            let area = Extent { start: 1 << 20, len: 4 << 20 };
            let mut alloc = Allocator::new(area, placement, Rng::new(1));
            let (mut rng, mut held) = (Rng::new(2), Vec::<Extent>::new());
            let mut used = vec![false; 1280];
            for _ in 0..5_000 {
                let bytes = |held: &[Extent]| held.iter().map(|e| e.len).sum::<u64>();
                let len = rng.between(1, 300_000);
                let room = area.len - bytes(&held) >= len.next_multiple_of(4096);
                let before = bytes(&held);
                match alloc.take(len) {
                    Some(pieces) => {
                        assert!(room);
                        held.extend(&pieces);
                        assert_eq!(bytes(&held) - before, len.next_multiple_of(4096));
                        for page in
                            pieces.iter().flat_map(|e| e.start / 4096..(e.start + e.len) / 4096)
                        {
                            assert!(!std::mem::replace(&mut used[page as usize], true));
                        }
                    }
                    None => assert!(!room),
                }
                while !held.is_empty() && (rng.ratio(2, 5) || !room) {
                    let extent = held.swap_remove(rng.below(held.len() as u64) as usize);
                    let pages = extent.start / 4096..(extent.start + extent.len) / 4096;
                    pages.for_each(|page| used[page as usize] = false);
                    alloc.give(extent);
                    if held.len() < 3 {
                        break;
                    }
                }
            }
            held.into_iter().for_each(|extent| alloc.give(extent));
            assert_eq!(alloc.free, BTreeMap::from([(area.start, area.len)]));
        }
    }

    #[test]
    fn next_fit_goes_on_and_comes_round() {
        let area = Extent { start: 0, len: 40 << 10 };
        let mut alloc = Allocator::new(area, Placement::NextFit, Rng::new(1));
        let mut starts = Vec::new();
        for _ in 0..7 {
            let piece = alloc.take(12 << 10).unwrap()[0];
            starts.push(piece.start >> 10);
            alloc.give(piece);
        }
        assert_eq!(starts, [0, 12, 24, 0, 12, 24, 0]);
    }
}
