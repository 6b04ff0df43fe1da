//! What is done when nobody asks for anything: background cleaning, checkpoints by age, discards.
//!
//! Invariants: a call does a bounded amount of work and says when the next makes sense; it never
//! fails for want of space. Discarded is only what neither memory nor recovery names.

use block::{BlockDevice, Bytes, Span, Time};

use super::clean::of_summaries;
use super::options::{Bug, Victim};
use super::victim::choose;
use super::{Fs, Trigger};
use crate::{FsError, Now, SegNo};

/// What is dirty longer than this becomes durable.
const INTERVAL: Span = Span::from_us(60_000_000);
/// Pauses between calls: with much to gain, and with little.
const PAUSES: [Span; 2] = [Span::from_us(30_000_000), Span::from_us(60_000_000)];

/// What a call of [`Fs::idle`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Idle {
    /// Segments cleaned.
    pub cleaned: u32,
    /// A checkpoint was made.
    pub checkpoint: bool,
    /// When to call again, if nothing else happens until then.
    pub again: Time,
}

fn later(now: Now, pause: Span) -> Time {
    now.at.checked_add(pause).unwrap_or(Time::LIMIT)
}

impl<D: BlockDevice> Fs<D> {
    /// Background work: a checkpoint if the last one is a minute old and something is dirty; up to
    /// `budget` segments cleaned, the best by cost and age, as long as a quarter of each is gained
    /// (less when free segments are few). To be called when the caller has had nothing to do for
    /// some seconds. Does nothing on a volume that is read-only.
    ///
    /// # Errors
    /// What the device says.
    pub fn idle(&mut self, now: Now, budget: u32) -> Result<Idle, FsError> {
        let none = Idle { cleaned: 0, checkpoint: false, again: later(now, PAUSES[1]) };
        if self.writable().is_err() {
            return Ok(none);
        }
        let quiet = |fs: &mut Fs<D>| match fs.balance_little() {
            Err(FsError::NoSpace) => Ok(()),
            other => other,
        };
        if self.disk.is_outside() && self.options.ahead > 0 {
            return self.change_after(now, quiet, |fs| fs.idle_outside(now, budget));
        }
        self.change_after(now, quiet, |fs| {
            let before = fs.checkpoints.count();
            if now.at.since(fs.checkpoints.at()) >= INTERVAL {
                fs.ask_checkpoint(Trigger::Idle)?;
            }
            let mut cleaned = 0;
            while cleaned < budget && fs.clean_in_background()? {
                cleaned += 1;
            }
            fs.finish_ahead()?;
            if cleaned > 0 && fs.segs.prefree() > 0 {
                fs.ask_checkpoint(Trigger::Background)?;
            }
            let checkpoint = fs.checkpoints.count() > before;
            let more = fs.worth_cleaning().is_some();
            let again = later(now, PAUSES[usize::from(!more)]);
            Ok(Idle { cleaned, checkpoint, again })
        })
    }

    /// The same where nobody may be waited for: what is to be done is begun.
    fn idle_outside(&mut self, now: Now, budget: u32) -> Result<Idle, FsError> {
        let prefree = self.segs.prefree() > 0 && !self.journals();
        let checkpoint = prefree || now.at.since(self.checkpoints.at()) >= INTERVAL;
        if checkpoint {
            self.ask_checkpoint(if prefree { Trigger::Background } else { Trigger::Idle })?;
        }
        let cleaned = self.read_some(budget, Fs::worth_cleaning)?;
        (0..cleaned).for_each(|_| self.cleaner.in_background());
        let again = later(now, PAUSES[usize::from(cleaned == 0)]);
        Ok(Idle { cleaned, checkpoint, again })
    }

    /// Cleans up to `most` segments now, those that the volume's own policy takes; returns how many.
    /// No checkpoint follows, so in the baselines they are free after the next one. Where cleaning goes on
    /// ahead of need and nobody may be waited for it is begun.
    ///
    /// # Errors
    /// What the device says; [`FsError::ReadOnly`], [`FsError::NoSpace`].
    pub fn clean(&mut self, now: Now, most: u32) -> Result<u32, FsError> {
        self.change(now, |fs| {
            if fs.disk.is_outside() && fs.options.ahead > 0 {
                return fs.read_some(most, |fs| choose(&fs.segs, fs.options.victim));
            }
            let mut cleaned = 0;
            while cleaned < most && fs.segs.free() > fs.floor_free() {
                if fs.journals() && fs.journal.is_full() {
                    fs.checkpoint_here(Trigger::JournalFull)?;
                }
                let Some(victim) = choose(&fs.segs, fs.options.victim) else { break };
                if !fs.clean_one(victim)? {
                    break;
                }
                cleaned += 1;
            }
            fs.finish_ahead()?;
            Ok(cleaned)
        })
    }

    /// Cleans a victim; where cleaning goes on ahead of need, by its queue: records are in the order of
    /// copying. No: there is no room.
    fn clean_one(&mut self, victim: SegNo) -> Result<bool, FsError> {
        if self.options.ahead > 0 && !self.options.bug.has(Bug::AheadIdle) {
            return self.clean_in_queue(victim);
        }
        let cleaned = self.move_segment(victim).map_err(of_summaries)?;
        self.count_cleaning(cleaned);
        Ok(true)
    }

    /// The next victim in the background, if it gains enough.
    fn worth_cleaning(&self) -> Option<SegNo> {
        let victim = choose(&self.segs, Victim::CostBenefit)?;
        let few = self.segs.free() < 2 * self.least_free();
        let valid = u32::from(self.segs.of(victim).valid);
        (few || valid * 4 <= self.layout.per_seg * 3).then_some(victim)
    }

    fn clean_in_background(&mut self) -> Result<bool, FsError> {
        // Copies need room before anything is gained.
        if self.segs.free() <= self.floor_free() {
            return Ok(false);
        }
        if self.journals() && self.journal.is_full() {
            self.checkpoint_here(Trigger::JournalFull)?;
        }
        let Some(victim) = self.worth_cleaning() else { return Ok(false) };
        let cleaned = self.clean_one(victim)?;
        if cleaned {
            self.cleaner.in_background();
        }
        Ok(cleaned)
    }

    /// Discards all free segments, discarded before or not; returns how much that is.
    ///
    /// # Errors
    /// What the device says; [`FsError::ReadOnly`].
    pub fn trim_free(&mut self, now: Now) -> Result<Bytes, FsError> {
        self.lessen(now, |fs| {
            // What waits for a checkpoint is free then, too.
            fs.checkpoint(Trigger::Sync)?;
            fs.discard_free(true)
        })
    }

    pub(super) fn discard_free(&mut self, all: bool) -> Result<Bytes, FsError> {
        let mut blocks = 0;
        for (seg, count) in self.segs.take_discards(all) {
            let count = count * self.layout.per_seg;
            self.disk.discard(self.layout.block(seg, 0), count)?;
            blocks += u64::from(count);
        }
        Ok(Bytes(blocks * crate::format::BLOCK_BYTES as u64))
    }
}
