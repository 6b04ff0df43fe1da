//! Clients that have the volume in turns: who needs what is not in memory gives it up, reads that, and comes
//! again; a schedule that is drawn says who has it meanwhile.
//!
//! Two clients: one whose operation waits for a read or a job (it is parked) and one that does the next one
//! first. Beside them somebody reads a file whose contents were planned earlier, and somebody does jobs: so
//! others go on between the parts of a checkpoint, and while records of cleaning are written.

use std::sync::Arc;

use block::{Bytes, DeviceError, Rng, Time};
use lfs::fs::{Job, ReadPlan};
use lfs::{Fetch, Fs, FsError, Now};

use super::checkpoints::Made;
use super::model::Tree;
use super::oracle::{FsOracle, no_answer, resolve};
use super::step::{FsAction, Path};
use super::subject::FsSubject;
use crate::failure::{Contract, Failure};
use crate::shared::SharedDisk;
use crate::step::{Action, Step};

/// Attempts before an operation waits for a read of the device.
const PATIENCE: u32 = 64;
/// Attempts after which it is said that an operation does not end.
const ENDLESS: u32 = 4_096;

/// The schedule, and what was read and not brought yet.
pub(super) struct Turns {
    rng: Rng,
    read: Vec<(Fetch, Time)>,
    /// The job that was done, and when that is answered.
    job: Option<(Job, Result<Time, DeviceError>)>,
}

impl Turns {
    pub(super) fn new(seed: u64) -> Turns {
        Turns { rng: Rng::stream(seed, "lfs/turns"), read: Vec::new(), job: None }
    }

    /// Whether somebody else has the volume first.
    pub(super) fn others_first(&mut self) -> bool {
        self.rng.ratio(1, 2)
    }
}

/// An operation that waits for a read.
pub(super) struct Parked {
    step: Step,
    version: u32,
}

/// A file that somebody reads, and what was in it when that was planned.
pub(super) struct Peeked {
    plan: ReadPlan,
    was: Arc<Vec<u8>>,
    path: Path,
}

impl FsSubject {
    /// Reads what is wanted, and does the next job; it is brought later. No: there is nothing.
    pub(super) fn fetch(&mut self) -> Result<bool, FsError> {
        let Ok((fs, now)) = self.volume() else { return Ok(false) };
        let job = fs.next_job(now)?;
        let wants = [fs.wants()?, fs.wants_of_cleaning()?];
        // What a flush is to cover was waited for.
        let at = now.at.max(fs.ready());
        let mut found = job.is_some();
        if let Some(job) = job {
            self.pass(at);
            let done = job.perform(at, &mut self.disk);
            self.turns.job = Some((job, done));
        }
        for mut fetch in wants.into_iter().flatten() {
            let there = fetch.read(at, &mut self.disk)?;
            self.turns.read.push((fetch, there));
            found = true;
        }
        Ok(found)
    }

    /// What was read, or done, is there.
    pub(super) fn bring(&mut self) -> Result<(), FsError> {
        for (fetch, there) in std::mem::take(&mut self.turns.read) {
            self.pass(there);
            self.volume()?.0.brought(fetch, true);
        }
        if let Some((job, done)) = self.turns.job.take() {
            if let Ok(there) = done {
                self.pass(there);
            }
            let (fs, now) = self.volume()?;
            fs.job_done(now, &job, done.map(|_| ()))?;
        }
        Ok(())
    }

    /// Does something, and does it anew as long as it needs what is not in memory; with `may_park` it may
    /// end with that, and somebody else has the volume first.
    pub(super) fn patiently<T>(
        &mut self,
        may_park: bool,
        mut body: impl FnMut(&mut Fs<SharedDisk>, Now) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        for attempt in 0_u32.. {
            let (fs, now) = self.volume()?;
            fs.insist(attempt >= PATIENCE);
            let done = body(fs, now);
            fs.insist(false);
            if !matches!(done, Err(FsError::Again)) || attempt >= ENDLESS {
                return done;
            }
            if self.fetch()? && may_park && self.turns.others_first() {
                return done;
            }
            self.bring()?;
        }
        Err(FsError::Again)
    }

    /// What cleaning wants is read by its thread, if it has the turn.
    pub(super) fn clean_in_turn(&mut self) -> Result<(), FsError> {
        if !self.is_outside() || self.turns.rng.ratio(1, 3) {
            return Ok(());
        }
        if self.volume().is_ok_and(|(fs, _)| fs.is_read_only()) {
            return Ok(());
        }
        // As a mount's thread: what it was told to read before may have been written over since.
        if self.turns.read.is_empty() && self.turns.job.is_none() {
            self.fetch()?;
            return Ok(());
        }
        let (fs, now) = self.volume()?;
        match fs.clean_on(now) {
            Ok(()) | Err(FsError::Again) => {}
            Err(error) => return Err(error),
        }
        self.bring()
    }
}

impl FsOracle {
    /// The cleaner's turn comes before a step: what a cut may leave then.
    pub(super) fn let_clean(
        &mut self,
        subject: &mut FsSubject,
        step: &Step,
    ) -> Result<Vec<Tree>, Failure> {
        let allowed = self.beginnings();
        subject.clean_in_turn().map_err(|error| no_answer(step, &error))?;
        self.catch_up(subject);
        Ok(allowed)
    }

    /// Whether an operation may be done behind the next one: those that are one operation of the volume.
    fn may_park(&self, action: FsAction) -> bool {
        let whole = !matches!(action, FsAction::Allocate(..) | FsAction::Fsync(_) | FsAction::Sync);
        whole && self.parked.is_none()
    }

    /// An operation, or the one that waits after it.
    pub(super) fn in_turn(
        &mut self,
        subject: &mut FsSubject,
        step: &Step,
        action: FsAction,
    ) -> Result<(), Failure> {
        let waits = self.parked.take();
        self.versions += 1;
        self.operate(subject, step, (action, self.versions), waits.is_none())?;
        if let Some(Parked { step, version }) = waits {
            let allowed = std::mem::take(&mut self.allowed);
            self.resume(subject, Parked { step, version })?;
            self.allowed.extend(allowed);
        }
        Ok(())
    }

    /// What waits is done to its end.
    pub(super) fn resume(
        &mut self,
        subject: &mut FsSubject,
        Parked { step, version }: Parked,
    ) -> Result<(), Failure> {
        let Action::File(action) = step.action else { return Ok(()) };
        subject.bring().map_err(|error| no_answer(&step, &error))?;
        self.operate(subject, &step, (action, version), false)
    }

    /// Before something that ends everything, or looks at all of it.
    pub(super) fn finish_turns(&mut self, subject: &mut FsSubject) -> Result<(), Failure> {
        if let Some(parked) = self.parked.take() {
            let allowed = std::mem::take(&mut self.allowed);
            self.resume(subject, parked)?;
            self.allowed.extend(allowed);
        }
        self.end_peek(subject)
    }

    /// It waits: nothing was changed, but checkpoints may have been made on the way.
    pub(super) fn park(&mut self, subject: &FsSubject, step: &Step, version: u32) {
        self.allowed = self.beginnings();
        if self.catch_up(subject) != Made::None {
            self.allowed.push(self.now.clone());
            self.allowed.extend(self.beginnings());
        }
        self.parked = Some(Parked { step: *step, version });
    }

    /// Whether this one may wait.
    pub(super) fn parks(&self, subject: &FsSubject, action: FsAction, may: bool) -> bool {
        may && subject.is_outside() && self.may_park(action)
    }

    /// Somebody begins to read a file; before, what was begun to be read ends.
    pub(super) fn peek(
        &mut self,
        subject: &mut FsSubject,
        step: &Step,
        path: Path,
    ) -> Result<(), Failure> {
        self.allowed = self.beginnings();
        self.end_peek(subject)?;
        let Some(was) = contents(&self.now, path) else { return Ok(()) };
        let planned = subject.patiently(false, |fs, now| {
            let ino = resolve(fs, now, path)?;
            fs.plan_read(now, ino, Bytes(0), was.len() + 1)
        });
        let plan = planned.map_err(|error| no_answer(step, &error))?;
        self.peeked = Some(Peeked { plan, was, path });
        Ok(())
    }

    /// He reads now what was planned then: if it counts, it is what was there then.
    fn end_peek(&mut self, subject: &mut FsSubject) -> Result<(), Failure> {
        let Some(Peeked { plan, was, path }) = self.peeked.take() else { return Ok(()) };
        let mut found = vec![0xEE; plan.bytes()];
        let counts = subject.read_planned(plan, &mut found);
        if !counts || found == **was {
            return Ok(());
        }
        let what = format!("what was read of {path} is not what was in it when that was planned");
        Err(Failure::new(Contract::C6, what))
    }
}

fn contents(tree: &Tree, path: Path) -> Option<Arc<Vec<u8>>> {
    tree.file(path).ok().map(|(_, bytes)| Arc::clone(bytes))
}
