//! When each page is used next: what a clairvoyant policy is told.

use block::Op;
use ssd::HitAccess;

use super::pages::{Pages, is_access};
use super::table::PageTable;
use crate::LabError;
use crate::replay::Watch;

/// More accesses than this are not held in memory (4 bytes each).
const MOST: usize = 1 << 30;
const NEVER: u32 = u32::MAX;

/// The next use of every access of a workload, by its number.
pub struct Future {
    next: Vec<u32>,
    at: usize,
    pub distinct: u64,
}

impl Future {
    /// Reads the whole workload.
    pub fn read(pages: &mut Pages, watch: Watch<'_>) -> Result<Future, LabError> {
        let mut next: Vec<u32> = Vec::new();
        let (mut last, mut seen) = (PageTable::default(), PageTable::default());
        let mut block = Vec::new();
        while pages.fill(&mut block)? {
            // These are read once more, and told of then.
            watch.tick(0)?;
            for access in block.drain(..) {
                if access.op == Op::Discard {
                    // What is used after a discard is another page to a buffer.
                    last.set(access.page.0, 0);
                    continue;
                }
                if !is_access(access.op) {
                    continue;
                }
                if next.len() == MOST {
                    return Err(LabError::Input(format!(
                        "a clairvoyant policy holds one number per access: at most {MOST}"
                    )));
                }
                let number = next.len() as u32;
                // Numbers are kept plus one: 0 is none.
                match last.set(access.page.0, number + 1) {
                    0 => {}
                    before => next[before as usize - 1] = number,
                }
                seen.set(access.page.0, 1);
                next.push(NEVER);
            }
        }
        Ok(Future { next, at: 0, distinct: seen.len as u64 })
    }

    /// Tells the next accesses their future.
    pub fn tell(&mut self, block: &mut [HitAccess]) {
        for access in block.iter_mut().filter(|a| is_access(a.op)) {
            let next = self.next[self.at];
            access.next_use = if next == NEVER { u64::MAX } else { u64::from(next) };
            self.at += 1;
        }
    }
}
