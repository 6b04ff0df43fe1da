//! What the time of a request went to.
//!
//! Every booking is noted with the moment from which it could have begun and the moment at which it
//! ended (those of the array: [`nand::Trail`]). A request ends when the last of them does, and that one
//! began when another ended: going back from the end to the submission, each stretch of time has one
//! cause, so the parts sum to the whole, whatever the layers above made of the drive's answers.

use block::Time;
use nand::{Account, Spent};

use crate::Drive;

impl Drive {
    /// From here on it is noted what requests wait for; nothing of what was booked before is.
    pub fn keep_trail(&mut self) {
        self.side.steps = Some(Box::default());
        self.ftl.nand_mut().keep_trail();
    }

    /// What is booked from here on is for request `number` of the client, submitted at `at`: it is
    /// the one that can be explained.
    pub fn begin_request(&mut self, number: u64, at: Time) {
        if let Some(steps) = &mut self.side.steps {
            steps.begin(number, at);
        }
        if let Some(trail) = self.ftl.nand_mut().trail_mut() {
            trail.begin(number, at);
        }
    }

    /// What a timeline counts: free blocks, and dirty pages of the buffer.
    pub fn levels(&self) -> [u64; 2] {
        [self.ftl.free_blocks(), self.front.stats().0.dirty]
    }

    /// What the time of the current request went to, from its submission to its end. Does nothing
    /// if no trail is kept.
    pub fn explain(&self, from: Time, end: Time, account: &mut Account) {
        let (Some(steps), Some(trail)) = (&self.side.steps, self.nand().trail()) else { return };
        let mut until = end;
        while until > from {
            let step = steps.ending(until);
            // Of two that end now, the later request's: it is the one that waited.
            let flash = trail.ending(until);
            until = match (step, flash) {
                (Some(step), flash) if flash.is_none_or(|request| request <= step.request) => {
                    let at = step.at.max(from);
                    account.by_cause.add(step.spent, until.since(at));
                    at
                }
                (_, Some(_)) => trail.explain(from, until, account).unwrap_or(from),
                _ => {
                    let before = steps.before(until).max(trail.before(until)).unwrap_or(from);
                    let before = before.max(from);
                    account.by_cause.add(Spent::Other, until.since(before));
                    before
                }
            };
        }
    }
}
