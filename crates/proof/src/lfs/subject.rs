//! A mounted volume over a disk whose power can be cut, as a subject.

use block::{DeviceError, Fate, SECTOR_BYTES, Span, Time};
use lfs::fs::{ReadPlan, Trigger};
use lfs::{Fs, FsError, FsOptions, Nid, Now, Stamp};
use nand::Cut;

use super::checkpoints::Checkpoints;
use super::look::Found;
use super::spec::FsSpec;
use super::syncs::{Round, Syncs};
use super::turns::Turns;
use crate::failure::{Contract, Failure};
use crate::shared::{Remains, SharedDisk, whole_cut};
use crate::subject::{DurableKind, Subject};

/// A volume under proof.
pub struct FsSubject {
    pub(super) disk: SharedDisk,
    /// None after a clean stop.
    fs: Option<Box<Fs<SharedDisk>>>,
    options: FsOptions,
    syncs: Syncs,
    /// Nobody waits for the device while he has the volume: who has it then.
    outside: bool,
    pub(super) turns: Turns,
    clock: Time,
    pause: Span,
    /// Blocks written before the volume was mounted.
    before: u64,
}

/// The moment `clock` microseconds: as good as any other.
pub(super) fn moment(clock: u64) -> Now {
    Now { at: Time::from_us(clock), wall: Stamp { seconds: clock, nanos: 0 } }
}

fn at(clock: Time) -> Now {
    Now { at: clock, ..moment(clock.as_ps() / 1_000_000) }
}

impl FsSubject {
    fn power_on(spec: &FsSpec, image: Remains, options: FsOptions) -> Result<FsSubject, FsError> {
        let disk = spec.power_on(image).map_err(DeviceError::Io)?;
        let (clock, pause) = (Time::from_us(1), spec.pause);
        let (syncs, turns) = (Syncs::new(), Turns::new(spec.turns.unwrap_or(0)));
        let outside = spec.turns.is_some();
        let mut subject =
            FsSubject { disk, fs: None, options, syncs, outside, turns, clock, pause, before: 0 };
        subject.mount()?;
        Ok(subject)
    }

    fn mount(&mut self) -> Result<(), FsError> {
        self.before = self.disk.get().written().0 / 8;
        let now = self.tick();
        let mut fs = Fs::mount(self.disk.clone(), self.options, now)?;
        fs.read_outside(now, self.outside);
        self.fs = Some(Box::new(fs));
        Ok(())
    }

    /// Whether nobody waits for the device while he has the volume.
    pub(super) fn is_outside(&self) -> bool {
        self.outside && self.fs.is_some()
    }

    /// Nothing happens until then.
    pub(super) fn pass(&mut self, to: Time) {
        self.clock = self.clock.max(to);
    }

    /// Reads what was planned; whether it counts.
    pub(super) fn read_planned(&mut self, plan: ReadPlan, out: &mut [u8]) -> bool {
        let at = self.fs.as_ref().map_or(self.clock, |fs| fs.ready().max(self.clock));
        let read = plan.read(at, &mut self.disk, out);
        read.is_ok() && self.fs.as_mut().is_some_and(|fs| fs.was_read(plan))
    }

    /// The next moment: some time after the last operation was answered. What that left behind (cleaning
    /// ahead of need) may still be under way.
    pub(super) fn tick(&mut self) -> Now {
        let ready = self.fs.as_ref().map_or(self.clock, |fs| fs.ready().max(self.clock));
        self.clock = ready + self.pause;
        at(self.clock)
    }

    /// The volume, and now.
    pub(super) fn volume(&mut self) -> Result<(&mut Fs<SharedDisk>, Now), FsError> {
        let now = at(self.clock);
        self.fs.as_deref_mut().map(|fs| (fs, now)).ok_or(FsError::ReadOnly("as it was unmounted"))
    }

    /// A clean stop.
    pub(super) fn stop(&mut self) -> Result<(), FsError> {
        let now = self.tick();
        self.bring()?;
        let Some(mut fs) = self.fs.take() else { return Ok(()) };
        fs.read_outside(now, false);
        self.syncs.end(&mut fs, now)?;
        fs.unmount(now)?;
        // Nobody mounts it before that is answered.
        self.clock = self.clock.max(self.disk.get().answered());
        Ok(())
    }

    /// A clean stop and a start.
    pub(super) fn remount(&mut self) -> Result<(), FsError> {
        self.stop()?;
        self.mount()
    }

    /// Somebody waits for a file from now on; which ask it is. None: too many wait.
    pub(super) fn ask(&mut self, ino: Nid) -> Result<Option<u64>, FsError> {
        let now = at(self.clock);
        let fs = self.fs.as_deref_mut().ok_or(FsError::ReadOnly("as it was unmounted"))?;
        fs.insist(true);
        let asked = self.syncs.ask(fs, now, ino);
        fs.insist(false);
        asked
    }

    /// Takes those that wait a step further.
    pub(super) fn round(&mut self) -> Result<Round, FsError> {
        // Time passes until the flush is answered.
        self.clock = self.syncs.answered().map_or(self.clock, |done| done.max(self.clock));
        let mut syncs = std::mem::replace(&mut self.syncs, Syncs::new());
        let round = self.rounds(&mut syncs);
        self.syncs = syncs;
        let round = round?;
        for ino in &round.released {
            self.patiently(false, |fs, now| fs.release(now, *ino))?;
        }
        Ok(round)
    }

    /// Takes them on; where they wait for a read, or a job, others may go on first.
    fn rounds(&mut self, syncs: &mut Syncs) -> Result<Round, FsError> {
        let (mut disk, mut all) = (self.disk.clone(), Round::default());
        loop {
            let (fs, now) = self.volume()?;
            all.extend(syncs.round(fs, &mut disk, now)?);
            if !all.again {
                return Ok(all);
            }
            self.fetch()?;
            if self.turns.others_first() {
                return Ok(all);
            }
            self.bring()?;
        }
    }

    /// Checkpoints since the mount.
    pub(super) fn checkpoints(&self) -> Checkpoints {
        self.fs.as_ref().map_or(Checkpoints::default(), |fs| {
            let begun = fs.checkpoints_begun();
            Checkpoints {
                begun: begun.values().sum(),
                after: begun.get(&Trigger::PreInvalid).copied().unwrap_or(0),
                ended: fs.checkpoints().values().sum(),
            }
        })
    }

    /// Whether a checkpoint is between its parts.
    pub fn is_frozen(&self) -> bool {
        self.fs.as_ref().is_some_and(|fs| fs.is_frozen())
    }

    /// Segments cleaned and records written since the mount.
    pub fn cleaned(&self) -> (u64, u64) {
        self.fs.as_ref().map_or((0, 0), |fs| (fs.cleaning().segments, fs.cleaning().records))
    }

    /// Everything that is to be seen; after a clean stop it is mounted for that.
    pub(super) fn look(&mut self) -> Result<Found, FsError> {
        if self.fs.is_none() {
            self.mount()?;
        }
        let (fs, now) = self.volume()?;
        fs.insist(true);
        let found = Found::read(fs, now);
        fs.insist(false);
        found
    }

    /// The volume against itself (C7).
    pub(super) fn check_volume(&mut self) -> Result<(), Failure> {
        let Ok((fs, now)) = self.volume() else { return Ok(()) };
        fs.insist(true);
        let checked = fs.check(now);
        fs.insist(false);
        checked.map_err(|error| Failure::new(Contract::C7, error.to_string()))
    }

    /// Every block written has a cause (C8). Asked for only where nothing is held back.
    pub(super) fn check_counts(&self) -> Result<(), Failure> {
        let Some(fs) = &self.fs else { return Ok(()) };
        let counted: u64 = lfs::Cause::ALL.iter().map(|cause| fs.written(*cause)).sum();
        let written = self.disk.get().written().0 / 8 - self.before;
        if counted == written {
            return Ok(());
        }
        let what = format!("{written} blocks written, {counted} of them with a cause");
        Err(Failure::new(Contract::C8, what))
    }

    /// What is left after a clean stop.
    ///
    /// # Errors
    /// If it cannot be stopped.
    pub fn into_image(mut self) -> Result<Remains, Failure> {
        self.stop().map_err(|error| Failure::new(Contract::C10, error.to_string()))?;
        self.disk.get().image()
    }
}

impl Subject for FsSubject {
    type Spec = FsSpec;
    type Image = Remains;

    fn build(spec: &FsSpec) -> Result<FsSubject, Failure> {
        FsSubject::power_on(spec, spec.image(), spec.options)
            .map_err(|error| Failure::new(Contract::C10, format!("no volume: {error}")))
    }

    fn mount(spec: &FsSpec, image: Remains) -> Result<FsSubject, Failure> {
        FsSubject::power_on(spec, image, spec.recover)
            .map_err(|error| Failure::new(Contract::C12, format!("power-on failed: {error}")))
    }

    fn ready(&self) -> Time {
        self.clock
    }
    fn ops(&self) -> u64 {
        self.disk.get().ops()
    }
    fn op(&self, op: u64) -> Option<DurableKind> {
        self.disk.get().op(op)
    }
    fn has_pairs(&self) -> bool {
        false
    }

    /// The harshest end: what no flush covers is gone.
    fn image(&self) -> Result<Remains, Failure> {
        self.disk.get().image()
    }
    fn image_at_cut(&self, cut: &Cut) -> Option<(Remains, Time)> {
        let disk = self.disk.get();
        let kept = if disk.atomic_unit().0 == SECTOR_BYTES { Fate::Sectors } else { Fate::Blocks };
        disk.image_at_cut(cut, &whole_cut(cut, kept))
    }
    fn forget(&mut self, before: Time) {
        self.disk.get().forget(before);
    }
    /// The oracle does it, which may read.
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }
    fn event_hash(&self) -> u64 {
        self.disk.get().event_hash()
    }
}
