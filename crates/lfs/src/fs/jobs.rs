//! What is asked of the device, and waited for, by somebody who does not have the volume: flushes, records of
//! cleaning, the end of a checkpoint.
//!
//! | step | with the volume | without |
//! | --- | --- | --- |
//! | what is to be done | [`Fs::next_job`] | |
//! | it is done | | [`Job::perform`] |
//! | it was done, or failed | [`Fs::job_done`] | |
//!
//! A checkpoint has two parts. It is *frozen* with the volume: nodes, directory blocks, tables and the pack are
//! handed over as they are, and what is changed from then on belongs to the next one. A flush follows, and the
//! pack's last block, forced; then, with the volume, the checkpoint *ends*. Where nobody else does the jobs
//! (virtual time, mounting, unmounting) all of it is one, by the same two parts.
//!
//! Invariants:
//! * one job at a time: records and ends of checkpoints reach the media in their order;
//! * between its two parts a cut leaves the checkpoint before or the frozen one. So no block that either names
//!   is written over, no fsync writes nodes or is answered for what is in memory (its nodes would belong to
//!   neither for sure), and no victim is copied or recorded;
//! * who needs a checkpoint that has not ended comes again ([`FsError::Again`]); who does not goes on.

use block::{BlockDevice, DeviceError, Request, Time};

use super::durable::Frozen;
use super::options::Bug;
use super::{Fs, Trigger};
use crate::disk::{Cause, Mark, write_forced};
use crate::{BlockAddr, FsError, Now};

#[derive(Debug)]
enum What {
    Flush(Mark),
    /// Records of cleaning.
    Records(BlockAddr, Vec<u8>),
    /// The last block of the checkpoint of this version.
    End(BlockAddr, Vec<u8>, u64),
}

/// Something to be asked of the device.
#[derive(Debug)]
pub struct Job {
    number: u64,
    what: What,
}

impl Job {
    /// Asks the device for it, when all is answered that was handed over ([`Fs::ready`]); when it is done.
    ///
    /// # Errors
    /// What the device says.
    pub fn perform<D: BlockDevice>(&self, now: Time, device: &mut D) -> Result<Time, DeviceError> {
        match &self.what {
            What::Flush(_) => device.submit(now, Request::flush()),
            What::Records(at, bytes) | What::End(at, bytes, _) => {
                write_forced(device, now, *at, bytes)
            }
        }
    }
}

/// Which job somebody does now.
#[derive(Default)]
pub(super) struct Jobs {
    under_way: Option<u64>,
    last: u64,
}

/// Which checkpoint makes durable what somebody waits for; none was begun for him yet.
#[derive(Clone, Copy, Default, Debug)]
pub struct Covering(Option<u64>);

impl Covering {
    /// It is frozen, or durable.
    pub(super) fn is_begun(self) -> bool {
        self.0.is_some()
    }
}

impl<D: BlockDevice> Fs<D> {
    /// What is to be asked of the device next, by who asked for it; none: nothing, or somebody does it now.
    ///
    /// # Errors
    /// What the device said to a write of it.
    pub fn next_job(&mut self, now: Now) -> Result<Option<Job>, FsError> {
        self.begin(now);
        if self.jobs.under_way.is_some() || self.writable().is_err() {
            return Ok(None);
        }
        let what = self.next_what().inspect_err(|error| self.health.fail(error))?;
        Ok(what.map(|what| {
            self.jobs.last += 1;
            self.jobs.under_way = Some(self.jobs.last);
            Job { number: self.jobs.last, what }
        }))
    }

    fn next_what(&mut self) -> Result<Option<What>, FsError> {
        if let Some((at, bytes)) = self.disk.take_forced() {
            return Ok(Some(What::Records(at, bytes)));
        }
        if let Some(mark) = self.checkpoints.frozen().map(Frozen::mark) {
            if !self.disk.is_durable(mark) && !self.options.bug.has(Bug::CheckpointFlush) {
                return Ok(Some(What::Flush(self.disk.ticket()?)));
            }
            self.disk.ticket()?;
            self.checkpoints.flushed(self.disk.clock());
            if self.options.bug.has(Bug::FrozenLate) {
                self.write_sit()?;
                self.disk.ticket()?;
            }
            let end = self.checkpoints.frozen().map(Frozen::end);
            return Ok(end.map(|(at, block, version)| What::End(at, block.to_vec(), version)));
        }
        if self.disk.take_wish() {
            return Ok(Some(What::Flush(self.disk.ticket()?)));
        }
        Ok(None)
    }

    /// A job was done, or failed.
    ///
    /// # Errors
    /// The device's; [`FsError::ReadOnly`].
    pub fn job_done(
        &mut self,
        now: Now,
        job: &Job,
        done: Result<(), DeviceError>,
    ) -> Result<(), FsError> {
        if self.jobs.under_way == Some(job.number) {
            self.jobs.under_way = None;
        }
        let done = done.map_err(FsError::Device).and_then(|()| {
            self.writable()?;
            self.begin(now);
            match &job.what {
                What::Flush(mark) => self.disk.flushed(*mark),
                What::Records(_, bytes) => {
                    self.disk.forced(Cause::Journal, bytes.len());
                    self.ahead.written(self.disk.clock());
                }
                What::End(_, bytes, version) => {
                    self.disk.forced(Cause::Pack, bytes.len());
                    if self.checkpoints.frozen().is_some_and(|one| one.version() == *version) {
                        return self.end_checkpoint();
                    }
                }
            }
            Ok(())
        });
        done.inspect_err(|error| self.health.fail(error))
    }

    /// Nobody will say how a job ended: no more changes. Others do not wait for it.
    pub fn job_lost(&mut self, error: &FsError) {
        self.jobs.under_way = None;
        self.health.fail(error);
    }

    /// Whether somebody does a job now.
    pub fn is_job_under_way(&self) -> bool {
        self.jobs.under_way.is_some()
    }

    /// Whether there is something for [`Fs::next_job`].
    pub fn has_jobs(&self) -> bool {
        let any = self.is_frozen() || self.disk.has_wishes();
        any && self.jobs.under_way.is_none() && self.writable().is_ok()
    }

    /// Whether a checkpoint is between its parts.
    pub fn is_frozen(&self) -> bool {
        self.checkpoints.frozen().is_some()
    }

    /// Does here and now what nobody else does any more.
    pub(super) fn finish_jobs(&mut self) {
        self.jobs.under_way = None;
        // An error of a job leaves none to do.
        while let Ok(Some(job)) = self.next_job(self.now) {
            let done = job.perform(self.disk.time(), self.disk.device_mut());
            if let Ok(until) = done {
                self.disk.pass(until);
            }
            let now = self.now;
            if self.job_done(now, &job, done.map(|_| ())).is_err() {
                return;
            }
        }
    }

    /// A checkpoint, if there is anything that is not durable; where somebody else does the jobs it is begun
    /// only (and none while one is frozen), and nobody waits.
    pub(super) fn ask_checkpoint(&mut self, trigger: Trigger) -> Result<(), FsError> {
        if !self.disk.is_outside() {
            return self.checkpoint(trigger);
        }
        if self.is_frozen() || self.is_settled() { Ok(()) } else { self.freeze_checkpoint(trigger) }
    }

    /// Makes durable all that is changed now, or goes on with that.
    pub(super) fn make_durable(
        &mut self,
        how: &mut Covering,
        trigger: Trigger,
    ) -> Result<(), FsError> {
        if let Some(version) = how.0 {
            return if self.cp().version >= version { Ok(()) } else { Err(FsError::Again) };
        }
        let was = self.is_frozen();
        let made = self.checkpoint(trigger);
        if !was && self.is_frozen() {
            how.0 = Some(self.cp().version + 1);
        }
        made
    }
}
