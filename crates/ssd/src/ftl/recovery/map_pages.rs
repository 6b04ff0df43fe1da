//! Translation pages at power-on: which of them count, and which are behind what the scan found.

use block::Ppn;
use nand::{Kind, SlotRead};

use super::{PageFtl, Scan};

impl PageFtl {
    /// Translation pages of the tail replace the checkpoint's; what they say stands where the
    /// tail's data says nothing.
    pub(super) fn load_map_pages(&mut self, from_checkpoint: bool, scan: &mut Scan) {
        if self.paged.is_none() {
            return;
        }
        scan.map_pages.sort_unstable_by_key(|(_, seq, _)| *seq);
        let spp = self.g.slots_per_page;
        for (tp, seq, at) in scan.map_pages.clone() {
            let whole = (0..spp).all(|slot| {
                matches!(self.nand.slot(Ppn(at.0 + slot)),
                    SlotRead::Good(oob, _) if oob.kind == Kind::Map && oob.lpn == tp && oob.seq == seq)
            });
            if whole && let Some(paged) = &mut self.paged {
                paged.placed(tp, at);
            }
        }
        let Some(paged) = &self.paged else { return };
        let (entries, pages) = (paged.per_page() as usize, paged.directory().len());
        for tp in 0..pages {
            let stored = self.stored_map_page(tp);
            let first = tp * entries;
            let last = (first + entries).min(self.map.len());
            if from_checkpoint && let Some(stored) = &stored {
                for (slot, entry) in (first..last).zip(stored) {
                    if scan.best[slot] == 0 {
                        self.map.set(slot as u32, *entry);
                    }
                }
            }
        }
    }

    /// A translation page whose copy on flash is not the map (the tail's data and discards are
    /// newer) is dirty as soon as it is cached, and a checkpoint writes it first.
    pub(super) fn mark_stale_map_pages(&mut self) {
        let Some(paged) = &self.paged else { return };
        let (entries, pages) = (paged.per_page() as usize, paged.directory().len());
        for tp in 0..pages {
            let first = tp * entries;
            let last = (first + entries).min(self.map.len());
            let same =
                self.stored_map_page(tp).is_some_and(|s| s[..] == self.map.entries()[first..last]);
            let empty = self.map.entries()[first..last].iter().all(|e| *e == 0);
            if let Some(paged) = &mut self.paged {
                let entry = paged.directory()[tp];
                paged.set_directory(tp, entry, !(same || empty && entry == 0));
            }
        }
    }

    /// Whether every translation page that a checkpoint relies on can be read.
    pub(super) fn has_whole_map(&self) -> bool {
        let relies = self.recovery.is_some_and(|r| r.from_checkpoint);
        let Some(paged) = self.paged.as_ref().filter(|_| relies) else { return true };
        let kept = paged.directory().iter().enumerate().filter(|(_, entry)| **entry != 0);
        kept.into_iter().all(|(tp, _)| self.stored_map_page(tp).is_some())
    }
}
