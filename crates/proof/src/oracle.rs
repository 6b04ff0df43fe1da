//! The oracle of every block device: the [`Model`] and the host's clock.

use block::{BlockDevice, Data, DeviceError, EventHash, Hint, Lba, Request, Sectors, Span, Time};

use crate::failure::{Contract, Failure};
use crate::model::{Model, Point, Seen, Tolerance};
use crate::stamp::{self, SECTOR, SECTORS};
use crate::step::{Action, Class, Step};
use crate::subject::{Oracle, Subject};

/// Between two requests.
const TICK: Span = Span::from_ns(1);

/// A subject that is a block device.
pub trait PageSubject: Subject + BlockDevice {
    /// Pages a discard takes whole.
    fn discard_grain(spec: &Self::Spec) -> u32;
    /// Payloads are bytes, not stamps.
    fn bytes(spec: &Self::Spec) -> bool;
    /// What its faults excuse.
    fn tolerance(spec: &Self::Spec) -> Tolerance;
    /// No request may take longer (C10); zero: not looked at.
    fn bound(spec: &Self::Spec) -> Span;
    /// When all it has begun will have ended.
    fn busy(&self) -> Time;
    /// A clean stop.
    ///
    /// # Errors
    /// As a flush.
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError>;
}

/// Judges a block device by its pages.
pub struct PageOracle {
    model: Model,
    request: u32,
    /// When the last request was submitted.
    at: Time,
    /// When the last of them is answered.
    done: Time,
    /// When what earlier requests began has ended: no later request answers for that.
    busy: Time,
    bytes: bool,
    tolerance: Tolerance,
    bound: Span,
    found: Vec<Seen>,
    stamps: Vec<u64>,
    buffer: Vec<u8>,
}

impl PageOracle {
    /// The model, to ask what a page may hold.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The time of the next request.
    fn tick(&mut self, overlap: bool) -> Time {
        self.at = if overlap { self.at } else { self.at.max(self.done) } + TICK;
        self.at
    }

    fn answered(&mut self, ack: Time) -> Result<(), Failure> {
        let (from, bound) = (self.at.max(self.done).max(self.busy), self.bound);
        if ack < self.at {
            return Err(broken(format!("answered at {ack:?}, before {:?}", self.at)));
        }
        if bound > Span::ZERO && ack.since(from) > bound {
            return Err(broken(format!("{:?} for one request, bound {bound:?}", ack.since(from))));
        }
        self.done = self.done.max(ack);
        Ok(())
    }

    /// An error as answer: excused by a fault, or a broken promise.
    fn refused(&mut self, error: &DeviceError, what: &Step) -> Result<(), Failure> {
        let excused = match error {
            DeviceError::ReadOnly(_) | DeviceError::NoSpace(_) => self.tolerance.read_only,
            DeviceError::Unreadable(_) => self.tolerance.unreadable > 0,
            _ => false,
        };
        if excused {
            self.model.failed(self.request);
            return Ok(());
        }
        let contract = match error {
            DeviceError::Unreadable(_) => Contract::C6,
            _ => Contract::C10,
        };
        let how = match error {
            DeviceError::PowerOff => "ran in circles until the harness stopped it".to_string(),
            other => format!("was refused: {other}"),
        };
        Err(Failure::new(contract, format!("`{what}` {how}")))
    }

    /// Submits a write of the last version of some sectors.
    fn write<S: PageSubject>(
        &mut self,
        subject: &mut S,
        step: &Step,
        (sector, count): (u32, u32),
        fua: bool,
        version: u32,
    ) -> Result<(), Failure> {
        let lba = Lba(u64::from(sector));
        let mut request = Request::write(lba, Sectors(u64::from(count)));
        request.fua = fua;
        request.hint = hint(step);
        if self.bytes {
            self.buffer.resize(count as usize * SECTOR, 0);
            for (i, bytes) in self.buffer.chunks_exact_mut(SECTOR).enumerate() {
                stamp::fill_sector(bytes, sector + i as u32, version);
            }
            request.data = Data::Write(&self.buffer);
        } else {
            let (page, pages) = (sector / SECTORS as u32, count / SECTORS as u32);
            self.stamps.clear();
            self.stamps.extend((page..page + pages).map(|page| stamp::stamp(page, version)));
            request.data = Data::WriteStamps(&self.stamps);
        }
        match subject.submit(self.at, request) {
            Ok(ack) => {
                self.answered(ack)?;
                if fua {
                    let (first, last) =
                        (sector / SECTORS as u32, (sector + count - 1) / SECTORS as u32);
                    self.model.forced(self.request, ack, first, last - first + 1);
                }
                Ok(())
            }
            Err(error) => self.refused(&error, step),
        }
    }

    /// Reads pages into `found[..]`.
    fn read<S: PageSubject>(
        &mut self,
        subject: &mut S,
        at: Time,
        page: u32,
        count: u32,
    ) -> Result<(), DeviceError> {
        let sectors = SECTORS as u64;
        let lba = Lba(u64::from(page) * sectors);
        let request = Request::read(lba, Sectors(u64::from(count) * sectors));
        let ack = if self.bytes {
            self.buffer.resize(count as usize * SECTOR * SECTORS, 0);
            subject.submit(at, request.with(Data::Read(&mut self.buffer)))?
        } else {
            self.stamps.clear();
            self.stamps.resize(count as usize, u64::MAX);
            subject.submit(at, request.with(Data::ReadStamps(&mut self.stamps)))?
        };
        self.done = self.done.max(ack);
        if self.bytes {
            let pages = self.buffer.chunks_exact(SECTOR * SECTORS).zip(page..);
            self.found.extend(pages.map(|(bytes, page)| Seen::from_bytes(page, bytes)));
        } else {
            let pages = self.stamps.iter().zip(page..);
            self.found.extend(pages.map(|(stamp, page)| Seen::from_stamp(page, *stamp)));
        }
        Ok(())
    }

    /// Reads pages into `found`, one by one if one of them cannot be read.
    fn read_each<S: PageSubject>(
        &mut self,
        subject: &mut S,
        page: u32,
        count: u32,
    ) -> Result<(), Failure> {
        self.found.clear();
        match self.read(subject, self.at, page, count) {
            Ok(()) => return Ok(()),
            Err(DeviceError::Unreadable(_)) => {}
            Err(error) => return Err(broken(format!("a read was refused: {error}"))),
        }
        self.found.clear();
        for one in page..page + count {
            let at = self.tick(false);
            match self.read(subject, at, one, 1) {
                Ok(()) => {}
                Err(DeviceError::Unreadable(_)) => self.found.push(Seen::Unreadable),
                Err(error) => return Err(broken(format!("a read was refused: {error}"))),
            }
        }
        Ok(())
    }

    /// Judges `found`; what faults excuse is counted.
    fn judge(
        &self,
        page: u32,
        older: bool,
        expect: impl Fn(u32, Seen) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut damaged = 0;
        for (seen, page) in self.found.iter().zip(page..) {
            let Err(failure) = expect(page, *seen) else { continue };
            let excused = match seen {
                Seen::Unreadable => true,
                other => older && self.model.was_submitted(*other),
            };
            damaged += 1;
            if !excused || damaged > self.tolerance.unreadable {
                return Err(failure);
            }
        }
        Ok(())
    }

    fn step<S: PageSubject>(&mut self, subject: &mut S, step: &Step) -> Result<(), Failure> {
        let sectors = SECTORS as u32;
        match step.action {
            Action::Write { page, count, fua } => {
                let version = self.model.write(self.request, page, count);
                self.write(subject, step, (page * sectors, count * sectors), fua, version)
            }
            Action::WriteBytes { sector, count, fua } => {
                let version = self.model.write_sectors(self.request, sector, count);
                self.write(subject, step, (sector, count), fua, version)
            }
            Action::Read { page, count } => {
                self.read_each(subject, page, count)?;
                let model = &self.model;
                self.judge(page, self.tolerance.stale, |page, seen| model.expect_last(page, seen))
            }
            Action::Discard { page, count } => {
                self.model.discard(self.request, page, count);
                let lba = Lba(u64::from(page * sectors));
                let request = Request::discard(lba, Sectors(u64::from(count * sectors)));
                match subject.submit(self.at, Request { hint: hint(step), ..request }) {
                    Ok(ack) => self.answered(ack),
                    Err(error) => self.refused(&error, step),
                }
            }
            Action::Flush => match subject.submit(self.at, Request::flush()) {
                Ok(ack) => {
                    self.model.flushed(self.request, ack);
                    self.answered(ack)
                }
                Err(error) => self.refused(&error, step),
            },
            Action::Idle(_) => Ok(()),
            Action::Begin { .. }
            | Action::TxWrite { .. }
            | Action::TxTrim { .. }
            | Action::TxRead { .. }
            | Action::Commit { .. }
            | Action::Abort { .. }
            | Action::Remap { .. }
            | Action::File(_) => Err(broken(format!("`{step}` is not for this device"))),
            Action::Shutdown => match subject.stop(self.at) {
                Ok(ack) => {
                    self.model.flushed(self.request, ack);
                    self.answered(ack)
                }
                Err(error) => self.refused(&error, step),
            },
        }
    }
}

impl<S: PageSubject> Oracle<S> for PageOracle {
    type Step = Step;

    fn new(spec: &S::Spec, subject: &S) -> PageOracle {
        let pages = (subject.capacity().0 / SECTORS as u64) as u32;
        PageOracle {
            model: Model::new(pages, S::discard_grain(spec)),
            request: 0,
            at: subject.ready(),
            done: subject.ready(),
            busy: subject.ready(),
            bytes: S::bytes(spec),
            tolerance: S::tolerance(spec),
            bound: S::bound(spec),
            found: Vec::with_capacity(pages as usize),
            stamps: Vec::new(),
            buffer: Vec::new(),
        }
    }

    fn apply(&mut self, subject: &mut S, step: &Step) -> Result<Class, Failure> {
        if let Action::Idle(span) = step.action {
            self.done = self.done.max(self.at) + span;
            return Ok(step.class());
        }
        // What a device does between two requests it may book from the earlier one's time on.
        let before = self.at;
        self.tick(step.overlap);
        self.request += 1;
        self.model.settle(before);
        subject.forget(before);
        self.busy = subject.busy();
        self.step(subject, step)?;
        Ok(step.class())
    }

    fn shutdown(&mut self, subject: &mut S) -> Result<(), Failure> {
        self.apply(subject, &Step::new(Action::Shutdown)).map(|_: Class| ())
    }

    fn request(&self) -> u32 {
        self.request
    }

    fn recovered(&mut self, subject: &mut S, point: &Point) -> Result<(), Failure> {
        let (at, done) = (self.at, self.done);
        // The read-back runs on the mounted device's clock, not on the cut one's.
        self.at = subject.ready() + TICK;
        self.done = self.at;
        let pages = self.model.pages();
        let read = self.read_each(subject, 0, pages);
        let took = self.done.since(subject.ready());
        (self.at, self.done) = (at, done);
        read?;
        if self.bound > Span::ZERO && took > self.bound.times(u64::from(pages)) {
            return Err(broken(format!("{took:?} to read {pages} pages back")));
        }
        let model = &self.model;
        self.judge(0, self.tolerance.older, |page, seen| model.expect_after(page, seen, point))
    }

    fn digest(&self) -> u64 {
        let mut hash = EventHash::default();
        for seen in &self.found {
            match seen {
                Seen::Page(content) => content.iter().for_each(|v| hash.add(u64::from(*v))),
                Seen::Elsewhere { place } => hash.add(1 << 32 | u64::from(*place)),
                Seen::Unreadable => hash.add(2 << 32),
                Seen::Garbage => hash.add(3 << 32),
            }
        }
        hash.value()
    }

    fn restart(&mut self, other: &PageOracle, subject: &S) {
        self.model.restart(&other.model, &other.found);
        self.request = 0;
        // Reading everything back has taken a while.
        self.at = subject.ready();
        self.done = self.at;
        self.tolerance = other.tolerance;
    }
}

fn hint(step: &Step) -> Hint {
    Hint { app: block::AppId(u16::from(step.app)), stream: block::StreamId(step.app) }
}

fn broken(what: String) -> Failure {
    Failure::new(Contract::C10, what)
}
