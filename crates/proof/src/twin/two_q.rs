use std::collections::BTreeSet;

use super::{Tally, Twin, Use};

/// Three vectors, each from the oldest to the newest; the resident ones hold (page, dirty).
pub struct TwoQ {
    n: usize,
    k_in: usize,
    k_out: usize,
    a1_in: Vec<(u32, bool)>,
    am: Vec<(u32, bool)>,
    a1_out: Vec<u32>,
}

impl TwoQ {
    pub fn new(n: usize, share_in: u64, share_out: u64) -> TwoQ {
        let part = |share| ((n as u64 * share / 1_000_000) as usize).max(1);
        TwoQ {
            n,
            k_in: part(share_in),
            k_out: part(share_out),
            a1_in: Vec::new(),
            am: Vec::new(),
            a1_out: Vec::new(),
        }
    }
    fn reclaim(&mut self, tally: &mut Tally) {
        if self.a1_in.len() > self.k_in || self.am.is_empty() {
            let (page, dirty) = self.a1_in.remove(0);
            if self.a1_out.len() == self.k_out {
                self.a1_out.remove(0);
            }
            self.a1_out.push(page);
            tally.gone(dirty);
        } else {
            tally.gone(self.am.remove(0).1);
        }
    }
}

impl Twin for TwoQ {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        if let Some(at) = self.am.iter().position(|e| e.0 == a.page) {
            let (page, dirty) = self.am.remove(at);
            self.am.push((page, dirty || a.write));
            tally.hits += 1;
            return;
        }
        if let Some(entry) = self.a1_in.iter_mut().find(|e| e.0 == a.page) {
            entry.1 |= a.write;
            tally.hits += 1;
            return;
        }
        let known = self.a1_out.contains(&a.page);
        self.a1_out.retain(|p| *p != a.page);
        if self.a1_in.len() + self.am.len() == self.n {
            self.reclaim(tally);
        }
        let list = if known { &mut self.am } else { &mut self.a1_in };
        list.push((a.page, a.write));
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        self.a1_in.retain(|e| e.0 != page);
        self.am.retain(|e| e.0 != page);
        self.a1_out.retain(|p| *p != page);
    }
    fn flush(&mut self) {
        self.a1_in.iter_mut().chain(&mut self.am).for_each(|e| e.1 = false);
    }
}
