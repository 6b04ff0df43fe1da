//! The oracle of a transactional drive: which calls must succeed, which must be refused and how,
//! what every page reads as, and what is found after a cut.

use std::collections::BTreeMap;

use block::{
    BlockDevice, Data, DeviceError, EventHash, Lba, Lpn, Remap, Request, Sectors, Span, Time,
    Transactional, TxError, TxId,
};

use super::look::fill;
use super::model::TxModel;
use crate::drive::{DriveSpec, DriveSubject};
use crate::failure::{Contract, Failure};
use crate::model::Point;
use crate::oracle::PageSubject;
use crate::step::{Action, Class, Step};
use crate::subject::{Oracle, Subject};

/// Between two requests.
const TICK: Span = Span::from_ns(1);

/// An open transaction as the host knows it.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub tid: TxId,
    pub pages: BTreeMap<u32, u64>,
}

/// Judges a transactional drive.
pub struct TxOracle {
    pub(super) model: TxModel,
    pub(super) open: BTreeMap<u8, Open>,
    request: u32,
    pub(super) at: Time,
    pub(super) done: Time,
    /// When what earlier steps began has ended: no later one answers for that.
    busy: Time,
    pub(super) bytes: bool,
    bound: Span,
    /// Locked lines are never collected, or blocks have failed: there may be no space.
    hard: bool,
    /// Blocks may have failed.
    faulty: bool,
    paper: bool,
    /// Pairs in one remap record.
    pairs: u32,
    /// An error left the drive read-only or full, as the configuration allows.
    gave_up: bool,
    found: Vec<Option<u64>>,
}

pub(super) fn broken(contract: Contract, what: String) -> Failure {
    Failure::new(contract, what)
}

impl TxOracle {
    pub(super) fn tick(&mut self, overlap: bool) -> Time {
        self.at = if overlap { self.at } else { self.at.max(self.done) } + TICK;
        self.at
    }

    pub(super) fn answered(&mut self, ack: Time) -> Result<(), Failure> {
        let (from, bound) = (self.at.max(self.done).max(self.busy), self.bound);
        if ack < self.at {
            return Err(broken(
                Contract::C10,
                format!("answered at {ack:?}, before {:?}", self.at),
            ));
        }
        if bound > Span::ZERO && ack.since(from) > bound {
            let took = ack.since(from);
            return Err(broken(Contract::C10, format!("{took:?} for one request")));
        }
        self.done = self.done.max(ack);
        Ok(())
    }

    /// An error that nothing the host did explains.
    fn refused(&mut self, step: &Step, error: &TxError) -> Result<(), Failure> {
        if self.hard
            && let TxError::Device(DeviceError::NoSpace(_) | DeviceError::ReadOnly(_)) = error
        {
            self.gave_up = true;
            self.model.failed(self.request);
            return Ok(());
        }
        if self.faulty && matches!(error, TxError::TooManyOpen(_)) {
            // Pages of losers in a block that has failed can never be erased.
            return Ok(());
        }
        let contract = match error {
            TxError::Device(DeviceError::Unreadable(_)) => Contract::C6,
            _ => Contract::C10,
        };
        Err(broken(contract, format!("`{step}` was refused: {error}")))
    }

    fn owner(&self, page: u32) -> Option<(u8, TxId)> {
        let holds = |open: &(&u8, &Open)| open.1.pages.contains_key(&page);
        self.open.iter().find(holds).map(|(tx, open)| (*tx, open.tid))
    }

    fn held_pages(&self) -> u32 {
        self.open.values().map(|open| open.pages.len() as u32).sum()
    }

    /// Why the drive must refuse to begin `tid`, if it must.
    fn may_not_begin(&self, subject: &DriveSubject, tid: TxId) -> Option<TxError> {
        let limits = subject.drive().tx_limits();
        if self.open.len() as u32 >= limits.max_open {
            return Some(TxError::TooManyOpen(limits.max_open));
        }
        let oldest = self.open.values().map(|open| open.tid).min()?;
        (tid.0 - oldest.0 >= limits.span).then_some(TxError::Span { oldest, span: limits.span })
    }

    /// Compares an answer with the one the host foresees; whether it was a success.
    fn foreseen(
        &mut self,
        step: &Step,
        result: Result<Time, TxError>,
        must: Option<TxError>,
    ) -> Result<bool, Failure> {
        match (result, must) {
            (Ok(ack), None) => {
                self.answered(ack)?;
                Ok(true)
            }
            (Err(error), Some(must)) if error == must => Ok(false),
            (Err(error), None) => {
                self.refused(step, &error)?;
                Ok(false)
            }
            (result, Some(must)) => {
                let what = format!("`{step}` gave {result:?}, must be refused: {must}");
                Err(broken(Contract::C4, what))
            }
        }
    }

    fn begin(&mut self, subject: &mut DriveSubject, step: &Step, tx: u8) -> Result<(), Failure> {
        if self.open.contains_key(&tx) {
            return Ok(());
        }
        let next = subject.drive().tx_limits().next;
        let must = self.may_not_begin(subject, next);
        let mut given = None;
        let result = subject.drive_mut().tx_begin().map(|tid| {
            given = Some(tid);
            self.at
        });
        if self.foreseen(step, result, must)?
            && let Some(tid) = given
        {
            self.open.insert(tx, Open { tid, pages: BTreeMap::new() });
        }
        Ok(())
    }

    /// The number by which the drive knows a transaction, which may be one it must yet begin.
    fn tid_of(&self, subject: &DriveSubject, tx: u8) -> (TxId, Option<TxError>) {
        match self.open.get(&tx) {
            Some(open) => (open.tid, None),
            None => {
                let next = subject.drive().tx_limits().next;
                (next, self.may_not_begin(subject, next))
            }
        }
    }

    fn tx_write(
        &mut self,
        subject: &mut DriveSubject,
        step: &Step,
        tx: u8,
        page: u32,
    ) -> Result<bool, Failure> {
        let (tid, mut must) = self.tid_of(subject, tx);
        let limit = subject.drive().tx_limits().pages;
        must = must.or(match self.owner(page) {
            Some((owner, _)) if owner == tx => None,
            Some((_, owner)) => Some(TxError::Conflict { page: Lpn(page), owner }),
            None if self.held_pages() >= limit => Some(TxError::Full(limit)),
            None => None,
        });
        let token = self.model.token(page);
        let at = self.tick(step.overlap);
        let bytes = if self.bytes { fill(token) } else { Vec::new() };
        let stamp = [token];
        let data = if self.bytes { Data::Write(&bytes) } else { Data::WriteStamps(&stamp) };
        // Only the paper's rules look at the hint.
        let last = step.app == 1 || self.paper;
        let (drive, page_at) = (subject.drive_mut(), Lpn(page));
        let result = match last {
            true => drive.tx_write_last(at, tid, page_at, data),
            false => drive.tx_write(at, tid, page_at, data),
        };
        if self.foreseen(step, result, must)? {
            let fresh = || Open { tid, pages: BTreeMap::new() };
            self.open.entry(tx).or_insert_with(fresh).pages.insert(page, token);
            return Ok(true);
        }
        // The transaction is as it was.
        self.read_own(subject, tx)?;
        Ok(false)
    }

    fn tx_trim(
        &mut self,
        subject: &mut DriveSubject,
        step: &Step,
        tx: u8,
        (page, count): (u32, u32),
    ) -> Result<(), Failure> {
        let (tid, mut must) = self.tid_of(subject, tx);
        let limit = subject.drive().tx_limits().pages;
        let mut fresh = 0;
        for page in page..page + count {
            must = must.or(match self.owner(page) {
                Some((owner, _)) if owner == tx => None,
                Some((_, owner)) => Some(TxError::Conflict { page: Lpn(page), owner }),
                None if self.held_pages() >= limit => Some(TxError::Full(limit)),
                None => {
                    fresh += 1;
                    None
                }
            });
        }
        if must.is_none() && self.held_pages() + fresh > limit {
            must = Some(TxError::Full(limit));
        }
        let at = self.tick(step.overlap);
        let result = subject.drive_mut().tx_trim(at, tid, Lpn(page), count);
        if self.foreseen(step, result, must)? {
            let fresh = || Open { tid, pages: BTreeMap::new() };
            let open = self.open.entry(tx).or_insert_with(fresh);
            open.pages.extend((page..page + count).map(|page| (page, 0)));
        }
        Ok(())
    }

    fn commit(&mut self, subject: &mut DriveSubject, step: &Step, set: u32) -> Result<(), Failure> {
        let which: Vec<u8> = (0..32).filter(|tx| set >> tx & 1 == 1).collect();
        let ended: Vec<Open> = which.iter().filter_map(|tx| self.open.get(tx).cloned()).collect();
        if ended.is_empty() {
            return Ok(());
        }
        let tids: Vec<TxId> = ended.iter().map(|open| open.tid).collect();
        let pages = ended.iter().flat_map(|open| open.pages.iter().map(|(p, t)| (*p, *t)));
        self.model.commit(self.request, pages.collect::<Vec<_>>().into_iter());
        let result = subject.drive_mut().tx_commit(self.at, &tids);
        if let Ok(ack) = &result {
            self.model.committed(*ack);
        }
        self.foreseen(step, result, None)?;
        self.open.retain(|tx, _| !which.contains(tx));
        // They have ended.
        let again = subject.drive_mut().tx_commit(self.at, &tids);
        if again != Err(TxError::Unknown(tids[0])) && !self.gave_up {
            let what = format!("a second commit of {} gave {again:?}", tids[0]);
            return Err(broken(Contract::C4, what));
        }
        Ok(())
    }

    fn remap(
        &mut self,
        subject: &mut DriveSubject,
        step: &Step,
        (to, from, count): (u32, u32, u32),
    ) -> Result<(), Failure> {
        if to.abs_diff(from) < count {
            return Ok(());
        }
        let pairs: Vec<(Lpn, Lpn)> = (0..count).map(|i| (Lpn(to + i), Lpn(from + i))).collect();
        let owned = pairs.iter().flat_map(|(to, from)| [*to, *from]);
        let must = owned
            .filter_map(|page| self.owner(page.0).map(|(_, owner)| (page, owner)))
            .map(|(page, owner)| TxError::Conflict { page, owner })
            .next();
        // More than one record's pairs are a transaction of their own.
        let next = subject.drive().tx_limits().next;
        let must = must
            .or_else(|| if count > self.pairs { self.may_not_begin(subject, next) } else { None });
        if must.is_none() {
            let moved: Vec<(u32, u64)> = pairs
                .iter()
                .flat_map(|(to, from)| [(to.0, self.model.last(from.0)), (from.0, 0)])
                .collect();
            self.model.commit(self.request, moved.into_iter());
        }
        let result = subject.drive_mut().remap(self.at, &pairs);
        if let Ok(ack) = &result {
            self.model.committed(*ack);
        }
        self.foreseen(step, result, must).map(|_| ())
    }

    fn plain(
        &mut self,
        subject: &mut DriveSubject,
        step: &Step,
        (page, count): (u32, u32),
        write: Option<bool>,
    ) -> Result<(), Failure> {
        let (lba, sectors) = (Lba(u64::from(page) * 8), Sectors(u64::from(count) * 8));
        let owned = (page..page + count).find(|page| self.owner(*page).is_some());
        let must =
            owned.map(|page| TxError::Device(DeviceError::InTransaction(Lba(u64::from(page) * 8))));
        let mut tokens = vec![0; count as usize];
        if write.is_some() {
            for (token, page) in tokens.iter_mut().zip(page..) {
                *token = self.model.token(page);
            }
        }
        let bytes: Vec<u8> = match (self.bytes, write) {
            (true, Some(_)) => tokens.iter().flat_map(|token| fill(*token)).collect(),
            _ => Vec::new(),
        };
        if must.is_none() {
            for (token, page) in tokens.iter().zip(page..) {
                self.model.plain(self.request, page, *token);
            }
        }
        let request = match write {
            None => Request::discard(lba, sectors),
            Some(fua) => {
                let data =
                    if self.bytes { Data::Write(&bytes) } else { Data::WriteStamps(&tokens) };
                Request { fua, ..Request::write(lba, sectors).with(data) }
            }
        };
        let result = subject.submit(self.at, request).map_err(TxError::from);
        if let (Ok(ack), Some(true)) = (&result, write) {
            self.model.forced(self.request, *ack, page, count);
        }
        self.foreseen(step, result, must).map(|_| ())
    }

    fn step(&mut self, subject: &mut DriveSubject, step: &Step) -> Result<(), Failure> {
        match step.action {
            Action::Write { page, count, fua } => {
                self.plain(subject, step, (page, count), Some(fua))
            }
            Action::WriteBytes { sector, count, fua } => {
                let last = (sector + count).div_ceil(8);
                self.plain(subject, step, (sector / 8, last - sector / 8), Some(fua))
            }
            Action::Discard { page, count } => self.plain(subject, step, (page, count), None),
            Action::Read { page, count } => match self.read(subject, page, count) {
                Ok(found) => {
                    let mut pages = found.into_iter().zip(page..);
                    pages.try_for_each(|(seen, page)| self.model.expect_last(page, seen))
                }
                Err(error) => self.refused(step, &error.into()),
            },
            Action::Flush | Action::Shutdown => {
                let result = match step.action {
                    Action::Flush => subject.submit(self.at, Request::flush()),
                    _ => subject.drive_mut().shutdown(self.at),
                };
                if let Ok(ack) = &result {
                    self.model.flushed(self.request, *ack);
                }
                self.foreseen(step, result.map_err(TxError::from), None).map(|_| ())
            }
            Action::Idle(_) => Ok(()),
            Action::Begin { tx } => self.begin(subject, step, tx),
            Action::TxWrite { tx, page, count } => {
                for page in page..page + count {
                    if !self.tx_write(subject, step, tx, page)? {
                        break;
                    }
                }
                Ok(())
            }
            Action::TxTrim { tx, page, count } => self.tx_trim(subject, step, tx, (page, count)),
            Action::TxRead { tx, page, count } => {
                let Some(open) = self.open.get(&tx).cloned() else { return Ok(()) };
                for page in page..page + count {
                    let own = open.pages.get(&page).copied();
                    let expected = own.unwrap_or_else(|| self.model.last(page));
                    self.read_as(subject, open.tid, page, expected)?;
                }
                Ok(())
            }
            Action::Commit { set } => self.commit(subject, step, set),
            Action::Abort { tx } => {
                let Some(open) = self.open.remove(&tx) else { return Ok(()) };
                let result = subject.drive_mut().tx_abort(self.at, open.tid);
                self.foreseen(step, result, None)?;
                // The committed versions are back at once.
                for page in open.pages.keys() {
                    let found = self.read(subject, *page, 1);
                    let found = found.map_err(|e| broken(Contract::C6, e.to_string()))?;
                    self.model.expect_last(*page, found[0])?;
                }
                Ok(())
            }
            Action::Remap { to, from, count } => self.remap(subject, step, (to, from, count)),
            Action::File(_) => {
                let what = format!("`{step}` is not for a drive");
                Err(Failure::new(Contract::C10, what))
            }
        }
    }
}

impl Oracle<DriveSubject> for TxOracle {
    type Step = Step;

    fn new(spec: &DriveSpec, subject: &DriveSubject) -> TxOracle {
        let tx = spec.params().tx.as_ref();
        TxOracle {
            model: TxModel::new(spec.params().logical_pages),
            open: BTreeMap::new(),
            request: 0,
            at: subject.ready(),
            done: subject.ready(),
            busy: subject.ready(),
            bytes: spec.is_bytes(),
            bound: spec.longest(),
            faulty: spec.may_stop(),
            hard: tx.is_some_and(|tx| tx.lock == ssd::LockMode::Hard) || spec.may_stop(),
            paper: tx.is_some_and(|tx| tx.paper),
            pairs: tx.map_or(1, |tx| tx.pairs),
            gave_up: false,
            found: Vec::new(),
        }
    }

    fn apply(&mut self, subject: &mut DriveSubject, step: &Step) -> Result<Class, Failure> {
        if let Action::Idle(span) = step.action {
            self.done = self.done.max(self.at) + span;
            return Ok(step.class());
        }
        let before = self.at;
        self.busy = subject.busy();
        self.tick(step.overlap);
        self.request += 1;
        self.model.settle(before);
        subject.forget(before);
        if self.gave_up {
            return Ok(step.class());
        }
        self.step(subject, step)?;
        subject.check()?;
        Ok(step.class())
    }

    fn shutdown(&mut self, subject: &mut DriveSubject) -> Result<(), Failure> {
        self.apply(subject, &Step::new(Action::Shutdown)).map(|_: Class| ())
    }

    fn request(&self) -> u32 {
        self.request
    }

    fn recovered(&mut self, subject: &mut DriveSubject, point: &Point) -> Result<(), Failure> {
        let (at, done) = (self.at, self.done);
        self.at = subject.ready() + TICK;
        self.done = self.at;
        let found = self.read(subject, 0, self.model.pages());
        (self.at, self.done) = (at, done);
        self.found = found.map_err(|e| broken(Contract::C6, format!("reading back: {e}")))?;
        self.model.expect_after(&self.found, point)?;
        // Nobody from before the cut is open.
        for open in self.open.values() {
            let at = subject.ready() + TICK;
            let again = subject.drive_mut().tx_commit(at, &[open.tid]);
            if again != Err(TxError::Unknown(open.tid)) {
                let what = format!("{} may be committed after a power cut: {again:?}", open.tid);
                return Err(broken(Contract::C4, what));
            }
        }
        Ok(())
    }

    fn digest(&self) -> u64 {
        let mut hash = EventHash::default();
        for seen in &self.found {
            hash.add(seen.unwrap_or(u64::MAX));
        }
        hash.value()
    }

    fn restart(&mut self, other: &TxOracle, subject: &DriveSubject) {
        self.model.restart(&other.model, &other.found);
        self.open.clear();
        self.request = 0;
        self.gave_up = false;
        self.at = subject.ready();
        self.done = self.at;
    }
}
