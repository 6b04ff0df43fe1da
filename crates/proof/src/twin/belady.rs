use std::collections::{BTreeMap, BTreeSet};

use super::{Tally, Twin, Use};

/// Page to (next use, dirty); the victim is found by looking at all of them.
pub struct Belady {
    n: usize,
    clean_first: bool,
    pages: BTreeMap<u32, (u64, bool)>,
}

impl Belady {
    pub fn new(n: usize, clean_first: bool) -> Belady {
        Belady { n, clean_first, pages: BTreeMap::new() }
    }
    fn victim(&self) -> u32 {
        let last = self.pages.values().map(|e| e.0).max().expect("the buffer is full");
        let among = |clean: bool| {
            let mut same = self.pages.iter().rev().filter(|(_, e)| e.0 == last);
            same.find(|(_, e)| !clean || !e.1).map(|(page, _)| *page)
        };
        let first = if self.clean_first && last == u64::MAX { among(true) } else { None };
        first.or_else(|| among(false)).expect("one has it")
    }
}

impl Twin for Belady {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        if let Some(entry) = self.pages.get_mut(&a.page) {
            *entry = (a.next_use, entry.1 || a.write);
            tally.hits += 1;
            return;
        }
        if self.pages.len() == self.n {
            let (_, dirty) = self.pages.remove(&self.victim()).expect("it is there");
            tally.gone(dirty);
        }
        self.pages.insert(a.page, (a.next_use, a.write));
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        self.pages.remove(&page);
    }
    fn flush(&mut self) {
        self.pages.values_mut().for_each(|e| e.1 = false);
    }
}
