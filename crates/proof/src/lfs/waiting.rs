//! The oracle of files that somebody waits for while others go on.
//!
//! Nodes that were written and not flushed may be there after a cut, or not; but roll-forward follows them
//! in order, so that what is there is a beginning of them. What was heard of is there, and what was
//! written before it.

use super::checkpoints::Made;
use super::model::{Id, Tree};
use super::oracle::{FsOracle, no_answer, resolve};
use super::step::Path;
use super::subject::FsSubject;
use crate::failure::{Contract, Failure};
use crate::step::Step;

/// A file as it was when its nodes were written.
#[derive(Clone)]
pub(super) struct Written {
    pub(super) number: u64,
    pub(super) id: Id,
    pub(super) was: Tree,
}

/// A file that somebody waits for.
pub(super) struct Asked {
    pub(super) number: u64,
    pub(super) path: Path,
    pub(super) id: Option<Id>,
}

impl FsOracle {
    /// What a cut may leave of what is not heard of: each beginning of the chain.
    pub(super) fn beginnings(&self) -> Vec<Tree> {
        let mut all = self.chain();
        all.extend(self.frozen.clone());
        all
    }

    /// Of that, what is without a checkpoint that is frozen.
    fn chain(&self) -> Vec<Tree> {
        let mut all = vec![self.durable.clone()];
        for one in &self.written {
            all.push(all[all.len() - 1].with_synced_id(&one.was, one.id));
        }
        all
    }

    /// Nobody waits, and nothing is on its way.
    pub(super) fn forget_asks(&mut self) {
        self.asks.clear();
        self.written.clear();
    }

    pub(super) fn ask(
        &mut self,
        subject: &mut FsSubject,
        step: &Step,
        path: Path,
    ) -> Result<(), Failure> {
        self.allowed = self.beginnings();
        let found = subject.patiently(false, |fs, now| resolve(fs, now, path));
        let Ok(ino) = found else { return Ok(()) };
        let number = subject.ask(ino).map_err(|error| no_answer(step, &error))?;
        let id = self.now.find(path).ok().filter(|_| self.now.is_single_file(path));
        self.asks.extend(number.map(|number| Asked { number, path, id }));
        Ok(())
    }

    pub(super) fn round(&mut self, subject: &mut FsSubject, step: &Step) -> Result<(), Failure> {
        self.allowed = self.beginnings();
        let mut known = self.written.len();
        let round = subject.round().map_err(|error| no_answer(step, &error))?;
        // Nothing was changed: a checkpoint is of the state now, whenever in the round it was begun.
        self.allowed.extend(self.with_all(&round.written));
        let written = self.asked(&round.written);
        let ended = self.ended;
        if self.catch_up(subject) != Made::None && self.ended > ended {
            known = 0;
            if self.frozen.is_some() {
                // Written before the one that ended, or after it.
                self.written.extend(written);
            }
        } else {
            self.written.extend(written);
        }
        self.allowed.extend(self.beginnings());
        for (number, durable) in round.done {
            let Some(at) = self.asks.iter().position(|ask| ask.number == number) else { continue };
            let ask = self.asks.swap_remove(at);
            if !durable {
                let what = format!("`{step}`: the fsync of {} was refused", ask.path);
                return Err(Failure::new(Contract::C10, what));
            }
            known -= self.heard(&ask, known);
        }
        self.allowed.push(self.durable.clone());
        Ok(())
    }

    /// The files of asks, as they are now.
    fn asked(&self, numbers: &[u64]) -> Vec<Written> {
        let of = |number: &u64| self.asks.iter().find(|ask| ask.number == *number);
        let all = numbers.iter().filter_map(of);
        let there = all.filter_map(|ask| Some((ask.number, self.there(ask)?)));
        there.map(|(number, id)| Written { number, id, was: self.now.clone() }).collect()
    }

    fn with_all(&self, numbers: &[u64]) -> Vec<Tree> {
        let last = self.chain().pop().unwrap_or_else(|| self.durable.clone());
        let mut all = vec![last];
        for one in self.asked(numbers) {
            all.push(all[all.len() - 1].with_synced_id(&one.was, one.id));
        }
        all
    }

    /// The file of an ask, if it is still one, under whatever name.
    fn there(&self, ask: &Asked) -> Option<Id> {
        ask.id.filter(|id| self.now.is_single(*id))
    }

    /// A file is durable that was waited for, and so is what was written before its nodes, which are among
    /// those known before this round: its own, or those that another's fsync had written. How many of
    /// them that are.
    fn heard(&mut self, ask: &Asked, known: usize) -> usize {
        let written = &self.written[..known];
        let own = written.iter().rposition(|one| one.number == ask.number);
        let at = own.or_else(|| written.iter().rposition(|one| Some(one.id) == ask.id));
        // None: it was durable already.
        let count = at.map_or(0, |at| at + 1);
        for one in self.written.drain(..count) {
            self.durable = self.durable.with_synced_id(&one.was, one.id);
        }
        count
    }
}
