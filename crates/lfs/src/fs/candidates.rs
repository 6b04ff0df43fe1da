//! Segments that may be cleaned, by what cleaning them costs: the cheapest is found at once.
//!
//! Invariants: a segment is in the list of its cost or in none; a list is in the order in which its
//! segments last changed, so that its first is its oldest (as far as changes that say nothing of
//! age, such as a checkpoint, do not mix them).

use crate::SegNo;
use crate::format::SUM_ENTRIES;

/// Costs are 0 to 512 blocks.
const COSTS: usize = SUM_ENTRIES + 1;
const WORDS: usize = COSTS.div_ceil(64);
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
    cost: u16,
}

const OUT: Link = Link { before: NONE, after: NONE, cost: u16::MAX };

pub(super) struct Candidates {
    links: Vec<Link>,
    /// First and last of each list.
    lists: Vec<(u32, u32)>,
    /// Which lists have a segment.
    filled: [u64; WORDS],
}

impl Candidates {
    pub(super) fn new(segments: usize) -> Candidates {
        let lists = vec![(NONE, NONE); COSTS];
        Candidates { links: vec![OUT; segments], lists, filled: [0; WORDS] }
    }

    /// Puts a segment at the end of the list of its cost, or out of all lists.
    pub(super) fn set(&mut self, seg: u32, cost: Option<u16>) {
        self.take(seg);
        let Some(cost) = cost else { return };
        let (first, last) = &mut self.lists[usize::from(cost)];
        self.links[seg as usize] = Link { before: *last, after: NONE, cost };
        match *last {
            NONE => *first = seg,
            last => self.links[last as usize].after = seg,
        }
        *last = seg;
        self.filled[usize::from(cost) / 64] |= 1 << (cost % 64);
    }

    fn take(&mut self, seg: u32) {
        let Link { before, after, cost } = std::mem::replace(&mut self.links[seg as usize], OUT);
        if cost == u16::MAX {
            return;
        }
        let list = &mut self.lists[usize::from(cost)];
        match before {
            NONE => list.0 = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NONE => list.1 = before,
            after => self.links[after as usize].before = before,
        }
        if list.0 == NONE {
            self.filled[usize::from(cost) / 64] &= !(1 << (cost % 64));
        }
    }

    pub(super) fn cost(&self, seg: u32) -> Option<u16> {
        Some(self.links[seg as usize].cost).filter(|cost| *cost != u16::MAX)
    }

    /// The oldest segment of each cost, cheapest first.
    pub(super) fn oldest(&self) -> impl Iterator<Item = (SegNo, u16)> {
        self.filled.iter().enumerate().flat_map(move |(i, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < 64).then_some((i as u32 * 64 + bit) as u16)
            })
            .map(|cost| (SegNo(self.lists[usize::from(cost)].0), cost))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_and_of_those_the_oldest_comes_first() {
        let mut all = Candidates::new(10);
        for (seg, cost) in [(1, 512), (2, 63), (3, 64), (4, 63), (5, 0), (6, 64)] {
            all.set(seg, Some(cost));
        }
        let listed = |all: &Candidates| all.oldest().map(|(s, c)| (s.0, c)).collect::<Vec<_>>();
        assert_eq!(listed(&all), [(5, 0), (2, 63), (3, 64), (1, 512)]);
        all.set(5, None);
        all.set(2, Some(63));
        all.set(3, Some(64));
        assert_eq!(listed(&all), [(4, 63), (6, 64), (1, 512)]);
        all.set(4, None);
        all.set(2, None);
        assert_eq!(listed(&all), [(6, 64), (1, 512)]);
        assert_eq!((all.cost(6), all.cost(2)), (Some(64), None));
    }
}
