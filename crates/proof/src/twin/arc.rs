use std::collections::BTreeSet;

use super::{Tally, Twin, Use};

/// The four lists of the paper, each from the least to the most recent.
pub struct Arc {
    c: usize,
    /// In 1/65536 of an entry.
    p: u64,
    t1: Vec<(u32, bool)>,
    t2: Vec<(u32, bool)>,
    b1: Vec<u32>,
    b2: Vec<u32>,
}

impl Arc {
    pub fn new(c: usize) -> Arc {
        Arc { c, p: 0, t1: Vec::new(), t2: Vec::new(), b1: Vec::new(), b2: Vec::new() }
    }
    fn full(&self) -> bool {
        self.t1.len() + self.t2.len() == self.c
    }
    fn replace(&mut self, in_b2: bool, tally: &mut Tally) {
        if !self.full() {
            return;
        }
        let t1 = (self.t1.len() as u64) << 16;
        if !self.t1.is_empty() && (t1 > self.p || in_b2 && t1 == self.p) || self.t2.is_empty() {
            let (page, dirty) = self.t1.remove(0);
            self.b1.push(page);
            tally.gone(dirty);
        } else {
            let (page, dirty) = self.t2.remove(0);
            self.b2.push(page);
            tally.gone(dirty);
        }
    }
    /// Case IV: the page is in no list.
    fn unknown(&mut self, tally: &mut Tally) {
        let l1 = self.t1.len() + self.b1.len();
        let l2 = self.t2.len() + self.b2.len();
        if l1 == self.c {
            if self.t1.len() < self.c {
                self.b1.remove(0);
                self.replace(false, tally);
            } else {
                tally.gone(self.t1.remove(0).1);
            }
        } else if l1 + l2 >= self.c {
            if l1 + l2 == 2 * self.c {
                self.b2.remove(0);
            }
            self.replace(false, tally);
        }
    }
}

impl Twin for Arc {
    fn access(&mut self, a: Use, tally: &mut Tally, _: &BTreeSet<u32>) {
        for list in [1, 2] {
            let t = if list == 1 { &mut self.t1 } else { &mut self.t2 };
            if let Some(at) = t.iter().position(|e| e.0 == a.page) {
                let (page, dirty) = t.remove(at);
                self.t2.push((page, dirty || a.write));
                tally.hits += 1;
                return;
            }
        }
        let (b1, b2) = (self.b1.len() as u64, self.b2.len() as u64);
        if let Some(at) = self.b1.iter().position(|p| *p == a.page) {
            let delta = if b1 >= b2 { 1 << 16 } else { (b2 << 16) / b1 };
            self.p = (self.p + delta).min((self.c as u64) << 16);
            self.b1.remove(at);
            self.replace(false, tally);
            self.t2.push((a.page, a.write));
        } else if let Some(at) = self.b2.iter().position(|p| *p == a.page) {
            let delta = if b2 >= b1 { 1 << 16 } else { (b1 << 16) / b2 };
            self.p = self.p.saturating_sub(delta);
            self.b2.remove(at);
            self.replace(true, tally);
            self.t2.push((a.page, a.write));
        } else {
            self.unknown(tally);
            self.t1.push((a.page, a.write));
        }
    }
    fn discard(&mut self, page: u32, _: &BTreeSet<u32>) {
        self.t1.retain(|e| e.0 != page);
        self.t2.retain(|e| e.0 != page);
        self.b1.retain(|p| *p != page);
        self.b2.retain(|p| *p != page);
    }
    fn flush(&mut self) {
        self.t1.iter_mut().chain(&mut self.t2).for_each(|e| e.1 = false);
    }
}
