//! The fault plan at work: what it makes of each operation as the array carries it out.

use block::{BlockId, Ppn, Span, Time};

use crate::image::Overlay;
use crate::{Fault, Nand};

/// What becomes of one page's program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Works,
    Fails,
    Noop,
}

/// The fault plan at work.
impl Nand {
    pub(crate) fn program_fate(&mut self, block: BlockId) -> Fate {
        let op = self.op;
        let mut fate = Fate::Works;
        let mut i = 0;
        while i < self.faults.len() {
            let (hit, keep) = match self.faults[i] {
                Fault::ProgramFail { at, always } if at <= op => {
                    fate = Fate::Fails;
                    if always {
                        // From now on the fault belongs to this block.
                        self.faults[i] = Fault::ProgramFail { at: u64::MAX, always };
                        self.faults.push(Fault::BadBlock { block });
                    }
                    (true, false)
                }
                Fault::BadBlock { block: bad } if bad == block => {
                    fate = Fate::Fails;
                    (true, true)
                }
                Fault::ProgramNoop { at } if at <= op => {
                    fate = Fate::Noop;
                    (true, false)
                }
                _ => (false, true),
            };
            if hit && !keep {
                self.faults.remove(i);
            } else {
                i += 1;
            }
        }
        fate
    }

    /// Faults that leave the program alone and change what reads of the page find.
    pub(crate) fn lay_overlays(&mut self, block: BlockId, page: u32) {
        let op = self.op;
        let first = self.geometry.ppn(block, page);
        let slots = self.geometry.slots_per_page;
        let mut laid = Vec::new();
        self.faults.retain(|fault| match fault {
            Fault::BitRot { at, oob } if *at <= op => {
                laid.push(if *oob { Overlay::Unreadable } else { Overlay::DataRot });
                false
            }
            Fault::MisdirectWrite { at } if *at <= op && page > 0 => {
                laid.push(Overlay::Holds(Ppn(first.0 - slots)));
                false
            }
            _ => true,
        });
        for overlay in laid {
            self.lay(first, slots, overlay);
        }
    }

    fn lay(&mut self, first: Ppn, slots: u32, overlay: Overlay) {
        for slot in 0..slots {
            let what = match overlay {
                Overlay::Holds(other) => Overlay::Holds(Ppn(other.0 + slot)),
                same => same,
            };
            self.image.overlay.insert(Ppn(first.0 + slot), what);
        }
    }

    pub(crate) fn take_erase_fault(&mut self) -> bool {
        let op = self.op;
        let found =
            self.faults.iter().position(|f| matches!(f, Fault::EraseFail { at } if *at <= op));
        if let Some(i) = found {
            self.faults.remove(i);
        }
        found.is_some()
    }

    pub(crate) fn read_faults(&mut self, block: BlockId, page: u32, sense: Span) -> Span {
        let (read, mut sense) = (self.reads, sense);
        let first = self.geometry.ppn(block, page);
        let slots = self.geometry.slots_per_page;
        let base = sense;
        for i in (0..self.faults.len()).rev() {
            match self.faults[i] {
                Fault::ReadRetry { read: at, steps } if at <= read => {
                    sense += base.times(u64::from(steps));
                    self.stats.retries += u64::from(steps);
                }
                Fault::ReadUncorrectable { read: at } if at <= read => {
                    self.lay(first, slots, Overlay::Unreadable);
                }
                Fault::MisdirectRead { read: at } if at <= read && page > 0 => {
                    self.lay(first, slots, Overlay::Holds(Ppn(first.0 - slots)));
                }
                _ => continue,
            }
            self.faults.remove(i);
        }
        sense
    }

    /// Slow and stuck dies.
    pub(crate) fn delays(&mut self, die: u32, span: Span, at: Time) -> (Span, Time) {
        if self.faults.is_empty() {
            return (span, at);
        }
        let (op, mut span) = (self.op, span);
        let mut stuck = None;
        for (i, fault) in self.faults.iter().enumerate() {
            match fault {
                Fault::SlowDie { die: slow, factor, from, to }
                    if *slow == die && at >= *from && at < *to =>
                {
                    span = span.times(u64::from(*factor));
                }
                Fault::StuckOp { at: stuck_at, span: extra } if *stuck_at <= op => {
                    span += *extra;
                    stuck = Some(i);
                }
                _ => {}
            }
        }
        if let Some(i) = stuck {
            self.faults.remove(i);
        }
        (span, at)
    }
}
