//! Where the time went: what each request of a run waited for.
//!
//! Nobody asks for it by default, and then it costs nothing. Promises: for every request the times by
//! cause sum to its latency, exactly; what is measured is the same with and without.

mod causes;
mod words;

use block::{AppId, Op, Span, Time};
use nand::{Account, Breakdown, Spent, Work};

use crate::{Device, LabError};

pub use causes::Causes;
pub use words::{Row, Rows, rows, short, slowest_lines};

/// What is to be found out about requests, beside what every run tells.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Latency by cause, in the result of each run.
    pub causes: bool,
}

impl Wanted {
    /// Nothing at all: a run needs no probe.
    pub fn is_nothing(&self) -> bool {
        !self.causes
    }
}

/// One request, and what its time went to.
#[derive(Clone, Debug)]
pub struct Explained {
    /// Its number: requests of the measured part and flushes that the replay added count from 1.
    pub number: u64,
    /// Who submitted it.
    pub app: AppId,
    /// What it was.
    pub op: Op,
    /// Its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// When it came to the host's queue, from the start of the measured part; before that, if it
    /// waited there since.
    pub arrival: Span,
    /// From arrival to end.
    pub latency: Span,
    /// The same by cause.
    pub by_cause: Breakdown,
    /// Flash operations that it waited for, by [`Work::index`].
    pub operations: [u32; Work::KINDS],
    /// The die of the one that ended last.
    pub die: Option<u32>,
}

/// Looks at a run, request by request.
#[derive(Debug)]
pub struct Probe {
    causes: Causes,
    account: Account,
    start: Time,
    number: u64,
    submitted: u64,
}

/// What a probe is told of a request when it is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Over {
    pub app: AppId,
    pub op: Op,
    pub offset: u64,
    pub bytes: u64,
    pub arrival: Time,
    pub at: Time,
    pub end: Time,
}

impl Probe {
    /// A probe for what is wanted; none if that is nothing.
    pub fn new(wanted: &Wanted) -> Option<Probe> {
        (!wanted.is_nothing()).then(|| Probe {
            causes: Causes::default(),
            account: Account::default(),
            start: Time::ZERO,
            number: 0,
            submitted: 0,
        })
    }

    /// The replay begins at `start`.
    pub(crate) fn begin<D: Device>(&mut self, device: &mut D, start: Time) {
        if let Some(drive) = device.drive_mut() {
            drive.keep_trail();
        }
        self.restart(start);
    }

    /// What was before is warm-up.
    pub(crate) fn restart(&mut self, start: Time) {
        self.causes = Causes::default();
        (self.start, self.number) = (start, 0);
    }

    /// A request is submitted at `at`.
    pub(crate) fn submits<D: Device>(&mut self, device: &mut D, at: Time) {
        self.submitted += 1;
        if let Some(drive) = device.drive_mut() {
            drive.begin_request(self.submitted, at);
        }
    }

    /// The request submitted last is over.
    pub(crate) fn served<D: Device>(&mut self, device: &mut D, over: Over) -> Result<(), LabError> {
        self.account.clear();
        self.account.by_cause.add(Spent::Queue, over.at.since(over.arrival));
        match device.drive_mut() {
            Some(drive) => drive.explain(over.at, over.end, &mut self.account),
            None => self.account.by_cause.add(Spent::Other, over.end.since(over.at)),
        }
        self.number += 1;
        let request = Explained {
            number: self.number,
            app: over.app,
            op: over.op,
            offset: over.offset,
            bytes: over.bytes,
            arrival: over.arrival.since(self.start),
            latency: over.end.since(over.arrival),
            by_cause: self.account.by_cause,
            operations: self.account.operations,
            die: self.account.die,
        };
        if request.by_cause.total() != request.latency {
            return Err(LabError::Check {
                contract: "by cause".to_string(),
                what: format!(
                    "request {} took {:?}, its causes {:?}",
                    request.number, request.latency, request.by_cause
                ),
            });
        }
        self.causes.add(&request);
        Ok(())
    }

    /// What it found.
    pub fn into_causes(self) -> Causes {
        self.causes
    }
}
