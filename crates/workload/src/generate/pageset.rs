//! A set of page numbers that is walked in order: dirty pages, sorted and merged for free.

/// Pages `0..n`, one bit each, with a second level of one bit for each 64.
#[derive(Clone, Debug)]
pub(super) struct PageSet {
    words: Vec<u64>,
    summary: Vec<u64>,
    len: u64,
}

impl PageSet {
    pub(super) fn new(pages: u64) -> PageSet {
        let words = pages.div_ceil(64) as usize;
        PageSet { words: vec![0; words], summary: vec![0; words.div_ceil(64)], len: 0 }
    }

    /// Number of pages in the set.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn contains(&self, page: u64) -> bool {
        self.words[(page / 64) as usize] >> (page % 64) & 1 == 1
    }

    pub(super) fn insert(&mut self, page: u64) {
        let word = (page / 64) as usize;
        let bit = 1 << (page % 64);
        self.len += u64::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
        self.summary[word / 64] |= 1 << (word % 64);
    }

    fn remove(&mut self, page: u64) {
        let word = (page / 64) as usize;
        self.words[word] &= !(1 << (page % 64));
        self.len -= 1;
        if self.words[word] == 0 {
            self.summary[word / 64] &= !(1 << (word % 64));
        }
    }

    /// The first page of the set at or after `from`.
    pub(super) fn next(&self, from: u64) -> Option<u64> {
        let mut word = (from / 64) as usize;
        let here = self.words.get(word)? & (u64::MAX << (from % 64));
        if here != 0 {
            return Some(word as u64 * 64 + u64::from(here.trailing_zeros()));
        }
        word += 1;
        let mut group = word / 64;
        let mut bits = self.summary.get(group)? & (u64::MAX << (word % 64));
        while bits == 0 {
            group += 1;
            bits = *self.summary.get(group)?;
        }
        let word = group * 64 + bits.trailing_zeros() as usize;
        Some(word as u64 * 64 + u64::from(self.words[word].trailing_zeros()))
    }

    /// Takes the first run of pages in `from..to`, at most `most` of them: `(first, pages)`.
    pub(super) fn take_run(&mut self, from: u64, to: u64, most: u64) -> Option<(u64, u64)> {
        let first = self.next(from).filter(|page| *page < to)?;
        let end = to.min(first + most);
        let mut page = first;
        while page < end && self.contains(page) {
            self.remove(page);
            page += 1;
        }
        Some((first, page - first))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use block::Rng;

    use super::*;

    #[test]
    fn equals_a_plain_set() {
        let (mut rng, n) = (Rng::new(3), 20_000);
        let (mut set, mut model) = (PageSet::new(n), BTreeSet::new());
        for _ in 0..4_000 {
            let start = rng.below(n);
            for page in start..(start + rng.below(6)).min(n) {
                set.insert(page);
                model.insert(page);
            }
            if rng.ratio(1, 3) {
                let (from, most) = (rng.below(n), rng.between(1, 5));
                let to = from + rng.below(n - from) + 1;
                let first = model.range(from..to).next().copied();
                let run = first.map(|first| {
                    let run = (first..to.min(first + most)).take_while(|p| model.contains(p));
                    (first, run.count() as u64)
                });
                assert_eq!(set.take_run(from, to, most), run);
                if let Some((first, pages)) = run {
                    (first..first + pages).for_each(|page| assert!(model.remove(&page)));
                }
            }
            assert_eq!(set.len(), model.len() as u64);
        }
        let all: Vec<u64> = std::iter::from_fn(|| set.take_run(0, n, 1)).map(|r| r.0).collect();
        assert_eq!(all, model.into_iter().collect::<Vec<_>>());
        assert_eq!(set.len(), 0);
    }
}
