//! The oracle of devices that promise order: the [`Ledger`] and the host's clock.

use block::{BlockDevice, Data, DeviceError, EventHash, Lba, Request, Sectors, Span, Time};

use crate::failure::{Contract, Failure};
use crate::model::{Point, Seen};
use crate::remap::ledger::Ledger;
use crate::stamp::{self, SECTOR, SECTORS};
use crate::step::{Action, Class, Step};
use crate::subject::{Oracle, Subject};

/// Between two requests.
const TICK: Span = Span::from_ns(1);

/// What a device that promises order promises, and what its faults excuse.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Promise {
    /// Pages of a request that are there as a whole or not at all.
    pub atomic: u32,
    /// Operations may end in errors, after which the device may refuse all others.
    pub may_fail: bool,
    /// Contents may be damaged: errors and older contents are excused, wrong data is not.
    pub damaged: bool,
    /// Damage is noticed by every read; else it may show while nothing has checked it.
    pub verified: bool,
    /// At most one write is damaged, where it belongs: what speaks of it elsewhere is sound.
    pub single: bool,
}

/// A subject that promises order.
pub trait LogSubject: Subject + BlockDevice {
    /// What it promises.
    fn promise(spec: &Self::Spec) -> Promise;
    /// Power-on said that something is missing or damaged, and gave nothing to read.
    fn refused(&self) -> Option<&str>;
    /// A clean stop.
    ///
    /// # Errors
    /// As a flush.
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError>;
}

/// Judges a device that promises order.
pub struct LogOracle {
    ledger: Ledger,
    promise: Promise,
    request: u32,
    at: Time,
    done: Time,
    /// A request ended in an error that a fault excuses: what was admitted is not certain.
    failed: bool,
    found: Vec<Seen>,
    again: Vec<Seen>,
    buffer: Vec<u8>,
}

impl LogOracle {
    /// The time of the next request.
    fn tick(&mut self, overlap: bool) -> Time {
        self.at = if overlap { self.at } else { self.at.max(self.done) } + TICK;
        self.at
    }

    fn answered(&mut self, ack: Time) -> Result<(), Failure> {
        if ack < self.at {
            let what = format!("answered at {ack:?}, before {:?}", self.at);
            return Err(Failure::new(Contract::C10, what));
        }
        self.done = self.done.max(ack);
        Ok(())
    }

    /// An error as answer: excused by a fault, or a broken promise.
    fn refused(&mut self, error: &DeviceError, what: &Step) -> Result<(), Failure> {
        let excused = match error {
            DeviceError::Io(_) | DeviceError::ReadOnly(_) => {
                self.promise.may_fail || self.promise.damaged
            }
            DeviceError::Unreadable(_) => self.promise.damaged,
            _ => false,
        };
        self.failed = true;
        if excused {
            return Ok(());
        }
        let contract = match error {
            DeviceError::Unreadable(_) => Contract::C6,
            _ => Contract::C10,
        };
        Err(Failure::new(contract, format!("`{what}` was refused: {error}")))
    }

    fn write<S: LogSubject>(
        &mut self,
        subject: &mut S,
        step: &Step,
        (sector, count): (u32, u32),
        fua: bool,
    ) -> Result<(), Failure> {
        let version = self.ledger.write(self.at, self.request, sector, count);
        self.buffer.resize(count as usize * SECTOR, 0);
        for (i, bytes) in self.buffer.chunks_exact_mut(SECTOR).enumerate() {
            stamp::fill_sector(bytes, sector + i as u32, version);
        }
        let mut request = Request::write(Lba(u64::from(sector)), Sectors(u64::from(count)));
        request.fua = fua;
        let answer = subject.submit(self.at, request.with(Data::Write(&self.buffer)));
        self.done(answer, fua, step)
    }

    /// The answer of a request; `durable`: it makes everything before it durable.
    fn done(
        &mut self,
        answer: Result<Time, DeviceError>,
        durable: bool,
        step: &Step,
    ) -> Result<(), Failure> {
        match answer {
            Ok(ack) => {
                if durable {
                    self.ledger.durable(self.request, ack);
                }
                self.answered(ack)
            }
            Err(error) => self.refused(&error, step),
        }
    }

    /// Reads pages into `found`, one by one if one of them cannot be read.
    fn read<S: LogSubject>(
        &mut self,
        subject: &mut S,
        page: u32,
        count: u32,
    ) -> Result<(), Failure> {
        self.found.clear();
        let whole = self.read_run(subject, page, count);
        match whole {
            Ok(()) => return Ok(()),
            Err(DeviceError::Unreadable(_) | DeviceError::Io(_)) => {}
            Err(error) => return Err(refused_read(&error)),
        }
        self.found.clear();
        for page in page..page + count {
            self.tick(false);
            match self.read_run(subject, page, 1) {
                Ok(()) => {}
                Err(DeviceError::Unreadable(_) | DeviceError::Io(_)) => {
                    self.found.push(Seen::Unreadable);
                }
                Err(error) => return Err(refused_read(&error)),
            }
        }
        Ok(())
    }

    fn read_run<S: LogSubject>(
        &mut self,
        subject: &mut S,
        page: u32,
        count: u32,
    ) -> Result<(), DeviceError> {
        self.buffer.resize(count as usize * SECTOR * SECTORS, 0);
        let sectors = SECTORS as u64;
        let request =
            Request::read(Lba(u64::from(page) * sectors), Sectors(u64::from(count) * sectors));
        let ack = subject.submit(self.at, request.with(Data::Read(&mut self.buffer)))?;
        self.done = self.done.max(ack);
        let pages = self.buffer.chunks_exact(SECTOR * SECTORS).zip(page..);
        self.found.extend(pages.map(|(bytes, page)| Seen::from_bytes(page, bytes)));
        Ok(())
    }

    /// What damage excuses: an error, an older content of the same page; and anything at all while
    /// nothing has checked it.
    fn excused(&self, seen: Seen) -> bool {
        match seen {
            Seen::Unreadable => self.promise.damaged || self.failed,
            Seen::Page(_) => {
                (self.promise.damaged || self.failed) && self.ledger.was_submitted(seen)
            }
            Seen::Elsewhere { .. } | Seen::Garbage => {
                self.promise.damaged && !self.promise.verified
            }
        }
    }

    /// Whether damage is noticed by every read, and nothing else makes it uncertain what is there.
    fn checks(&self) -> bool {
        self.promise.verified && self.promise.single && !self.failed
    }

    fn step<S: LogSubject>(&mut self, subject: &mut S, step: &Step) -> Result<(), Failure> {
        let sectors = SECTORS as u32;
        match step.action {
            Action::Write { page, count, fua } => {
                self.write(subject, step, (page * sectors, count * sectors), fua)
            }
            Action::WriteBytes { sector, count, fua } => {
                self.write(subject, step, (sector, count), fua)
            }
            // There is nothing to read.
            Action::Read { .. } if self.promise.damaged && subject.refused().is_some() => Ok(()),
            Action::Read { page, count } => {
                self.read(subject, page, count)?;
                let judged = self.found.iter().zip(page..);
                for (seen, page) in judged {
                    let expected = self.ledger.expect_last(page, *seen);
                    // What is verified is right or an error, as long as every request was answered.
                    let stale = self.checks() && matches!(seen, Seen::Page(_));
                    if expected.is_err() && (stale || !self.excused(*seen)) {
                        return expected;
                    }
                }
                Ok(())
            }
            Action::Discard { page, count } => {
                self.ledger.discard(self.request, page, count);
                let lba = Lba(u64::from(page * sectors));
                let request = Request::discard(lba, Sectors(u64::from(count * sectors)));
                let answer = subject.submit(self.at, request);
                self.done(answer, false, step)
            }
            Action::Flush => {
                let answer = subject.submit(self.at, Request::flush());
                self.done(answer, true, step)
            }
            Action::Shutdown => {
                let answer = subject.stop(self.at);
                self.done(answer, true, step)
            }
            Action::Idle(_) => Ok(()),
            Action::Begin { .. }
            | Action::TxWrite { .. }
            | Action::TxTrim { .. }
            | Action::TxRead { .. }
            | Action::Commit { .. }
            | Action::Abort { .. }
            | Action::Remap { .. }
            | Action::File(_) => {
                Err(Failure::new(Contract::C10, format!("`{step}` is not for this device")))
            }
        }
    }

    /// Reads everything back from a subject just mounted.
    fn read_back<S: LogSubject>(&mut self, subject: &mut S) -> Result<(), Failure> {
        let pages = self.ledger.pages();
        if let Some(why) = subject.refused() {
            if !self.promise.damaged {
                return Err(Failure::new(Contract::C1, format!("power-on failed: {why}")));
            }
            self.found.clear();
            self.found.resize(pages as usize, Seen::Unreadable);
            return Ok(());
        }
        let (at, done) = (self.at, self.done);
        // It runs on the mounted device's clock, not on the cut one's.
        self.at = subject.ready() + TICK;
        self.done = self.at;
        let read = self.read(subject, 0, pages);
        (self.at, self.done) = (at, done);
        read
    }

    fn judge(&mut self, point: &Point) -> Result<(), Failure> {
        let floor = self.ledger.floor(point);
        if !self.promise.damaged {
            return self.ledger.expect_prefix(&self.found, floor);
        }
        let said = if self.checks() { self.ledger.announced(point) } else { 0 };
        let older = |seen: Seen, page: u32| {
            self.checks() && matches!(seen, Seen::Page(_)) && !self.ledger.fits(page, seen, said)
        };
        let mut all = self.found.iter().zip(0..);
        let wrong = all.find(|(seen, page)| !self.excused(**seen) || older(**seen, *page));
        wrong.map_or(Ok(()), |(seen, page)| self.ledger.expect_last(page, *seen))
    }
}

fn refused_read(error: &DeviceError) -> Failure {
    Failure::new(Contract::C10, format!("a read was refused: {error}"))
}

impl<S: LogSubject> Oracle<S> for LogOracle {
    type Step = Step;

    fn new(spec: &S::Spec, subject: &S) -> LogOracle {
        let pages = (subject.capacity().0 / SECTORS as u64) as u32;
        let promise = S::promise(spec);
        LogOracle {
            ledger: Ledger::new(pages, promise.atomic),
            promise,
            request: 0,
            at: subject.ready(),
            done: subject.ready(),
            failed: false,
            found: Vec::with_capacity(pages as usize),
            again: Vec::new(),
            buffer: Vec::new(),
        }
    }

    fn apply(&mut self, subject: &mut S, step: &Step) -> Result<Class, Failure> {
        if let Action::Idle(span) = step.action {
            self.done = self.done.max(self.at) + span;
            return Ok(step.class());
        }
        let before = self.at;
        self.tick(step.overlap);
        self.request += 1;
        self.ledger.settle(before, self.promise.damaged);
        subject.forget(before);
        self.step(subject, step)?;
        Ok(step.class())
    }

    fn shutdown(&mut self, subject: &mut S) -> Result<(), Failure> {
        if subject.refused().is_some() {
            return Ok(());
        }
        self.apply(subject, &Step::new(Action::Shutdown)).map(|_: Class| ())
    }

    fn request(&self) -> u32 {
        self.request
    }

    fn recovered(&mut self, subject: &mut S, point: &Point) -> Result<(), Failure> {
        self.read_back(subject)?;
        self.judge(point)
    }

    /// I6: a recovery that was cut is repeated, and finds the same.
    fn recovered_again(&mut self, subject: &mut S, point: &Point) -> Result<(), Failure> {
        std::mem::swap(&mut self.found, &mut self.again);
        self.read_back(subject)?;
        self.judge(point)?;
        let differs = self.found.iter().zip(&self.again).position(|(now, before)| now != before);
        match differs {
            Some(page) if !self.promise.damaged => Err(Failure::new(
                Contract::C3,
                format!(
                    "I6: after a cut in recovery page {page} holds {:?}, before it {:?}",
                    self.found[page], self.again[page]
                ),
            )),
            _ => Ok(()),
        }
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

    fn restart(&mut self, other: &LogOracle, subject: &S) {
        self.ledger.restart(&other.ledger, &other.found);
        self.promise = other.promise;
        self.failed = other.promise.damaged;
        self.request = 0;
        self.at = subject.ready();
        self.done = self.at;
    }
}
