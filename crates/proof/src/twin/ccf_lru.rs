use std::collections::BTreeSet;

use super::{Tally, Twin, Use};

struct Entry {
    page: u32,
    dirty: bool,
    cold: bool,
}

/// Two vectors from the least to the most recently used.
pub struct CcfLru {
    n: usize,
    mixed: Vec<Entry>,
    cold_clean: Vec<Entry>,
}

impl CcfLru {
    pub fn new(n: usize) -> CcfLru {
        CcfLru { n, mixed: Vec::new(), cold_clean: Vec::new() }
    }
    fn victim(&mut self) -> Entry {
        if !self.cold_clean.is_empty() {
            return self.cold_clean.remove(0);
        }
        while !self.mixed.is_empty() {
            let last = self.mixed.remove(0);
            match (last.cold, last.dirty) {
                (true, _) => return last,
                (false, true) => self.mixed.push(Entry { cold: true, ..last }),
                (false, false) => self.cold_clean.push(last),
            }
        }
        self.cold_clean.remove(0)
    }
}

impl Twin for CcfLru {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        let found = [&mut self.mixed, &mut self.cold_clean].into_iter().find_map(|list| {
            let at = list.iter().position(|e| e.page == a.page)?;
            Some(list.remove(at))
        });
        if let Some(old) = found {
            tally.hits += 1;
            self.mixed.push(Entry { dirty: old.dirty || a.write, cold: false, ..old });
            return;
        }
        if self.mixed.len() + self.cold_clean.len() == self.n {
            let victim = self.victim();
            tally.gone(victim.dirty);
        }
        let list = if a.write { &mut self.mixed } else { &mut self.cold_clean };
        list.push(Entry { page: a.page, dirty: a.write, cold: false });
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        self.mixed.retain(|e| e.page != page);
        self.cold_clean.retain(|e| e.page != page);
    }
    fn flush(&mut self) {
        self.mixed.iter_mut().chain(&mut self.cold_clean).for_each(|e| e.dirty = false);
    }
}
