//! Where the time went: what each request of a run waited for.
//!
//! Nobody asks for it by default, and then it costs nothing. Promises: for every request the times by
//! cause sum to its latency, exactly; what is measured is the same with and without.

mod causes;
mod requests;
mod timeline;
mod words;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use block::{AppId, Op, Span, Time};
pub use nand::{Account, Breakdown, Spent, Work};

use requests::RequestLog;
use timeline::Timeline;

use crate::files::can_write;
use crate::{Device, LabError};

pub use causes::Causes;
pub use requests::column;
pub use timeline::{
    Drawing, Level, MOST_SLICES, Operation, Request, TimelineWanted, Victim, Window,
};
pub use words::{Row, Rows, rows, short, slowest_lines, spoken};

/// Who is told of each request, on the thread of the run, in the order of their submission.
#[derive(Clone)]
pub struct Listener(pub Arc<dyn Fn(&Explained) + Send + Sync>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// What is to be found out about requests, beside what every run tells.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Latency by cause, in the result of each run.
    pub causes: bool,
    /// A log of the requests of the only run.
    pub requests: Option<PathBuf>,
    /// Who wants the same, request by request.
    pub listener: Option<Listener>,
    /// A timeline of a part of the only run.
    pub timeline: Option<TimelineWanted>,
}

impl Wanted {
    /// Nothing at all: a run needs no probe.
    pub fn is_nothing(&self) -> bool {
        !self.causes && self.is_of_all_runs()
    }

    /// Nothing that only one run can be asked.
    pub(crate) fn is_of_all_runs(&self) -> bool {
        self.requests.is_none() && self.listener.is_none() && self.timeline.is_none()
    }

    /// Looks whether files can be written under the names given, before anything runs.
    ///
    /// # Errors
    /// A name of no known kind, or that is given twice; the system's.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        if let Some(path) = &self.requests {
            requests::is_compressed(path)?;
            can_write(path)?;
        }
        let Some(timeline) = &self.timeline else { return Ok(()) };
        timeline.check()?;
        if self.requests.as_ref() == Some(&timeline.path) {
            let path = timeline.path.display();
            let what = format!("{path}: a log and a timeline; expected two names");
            return Err(LabError::Input(what));
        }
        can_write(&timeline.path)
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
    causes: Option<Causes>,
    log: Option<RequestLog>,
    listener: Option<Listener>,
    timeline: Option<Timeline>,
    /// The measured part has begun.
    measuring: bool,
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
        if wanted.is_nothing() {
            return None;
        }
        Some(Probe {
            causes: wanted.causes.then(Causes::default),
            log: wanted.requests.as_deref().map(RequestLog::create),
            listener: wanted.listener.clone(),
            timeline: wanted.timeline.as_ref().map(Timeline::new),
            measuring: false,
            account: Account::default(),
            start: Time::ZERO,
            number: 0,
            submitted: 0,
        })
    }

    /// The replay begins at `start`; with a warm-up, the measured part later.
    pub(crate) fn begin<D: Device>(&mut self, device: &mut D, start: Time, warm_up: bool) {
        if let Some(drive) = device.drive_mut() {
            drive.keep_trail();
        }
        if !warm_up {
            self.measure(device, start);
        }
    }

    /// The measured part begins: what was before is warm-up.
    pub(crate) fn measure<D: Device>(&mut self, device: &mut D, start: Time) {
        (self.start, self.number, self.measuring) = (start, 0, true);
        if let (Some(timeline), Some(drive)) = (&mut self.timeline, device.drive_mut()) {
            timeline.begin(drive, start, self.submitted);
        }
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
        if !self.measuring {
            return Ok(());
        }
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
        if let Some(causes) = &mut self.causes {
            causes.add(&request);
        }
        if let Some(log) = &mut self.log {
            log.push(&request);
        }
        if let Some(Listener(told)) = &self.listener {
            told(&request);
        }
        if let (Some(timeline), Some(drive)) = (&mut self.timeline, device.drive_mut()) {
            timeline.served(drive, &request, [over.at, over.end], &self.account.numbers);
        }
        Ok(())
    }

    /// The run is over: files are written. What it found of causes, if it was asked, and why a file was
    /// not written: what the run measured is no less true.
    pub(crate) fn finish<D: Device>(self, device: &mut D) -> (Option<Causes>, Vec<LabError>) {
        let log = self.log.map(RequestLog::finish);
        let timeline = match (self.timeline, device.drive_mut()) {
            (Some(timeline), Some(drive)) => Some(timeline.finish(drive)),
            _ => None,
        };
        let unwritten = [log, timeline].into_iter().flatten().filter_map(Result::err);
        (self.causes, unwritten.collect())
    }
}
