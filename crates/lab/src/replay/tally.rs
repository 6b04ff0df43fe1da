//! What the replay loop itself counts: what it submitted, and how long it took.

use block::{AppId, Op, Span, Time};
use ssd::Stats;

use crate::LabError;
use crate::histogram::Histogram;

/// Applications whose latencies are kept apart at most (each costs two histograms of 64 KiB).
const MOST_APPS: usize = 256;

/// What one application submitted.
#[derive(Clone, Debug, Default)]
pub struct AppTally {
    /// Read and write requests.
    pub requests: u64,
    /// Latencies of reads and writes.
    pub latency: Option<Box<[Histogram; 2]>>,
}

/// What was submitted and how long it took, for the measured part of a run.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Requests submitted, by [`Op`].
    pub submitted: [u64; 4],
    /// Latencies from arrival to end, the host's queue included, by [`Op`].
    pub latency: Box<[Histogram; 4]>,
    /// By application number.
    pub apps: Vec<AppTally>,
    /// Time in the host's queue of the requests that waited there.
    pub queue: Histogram,
    /// The part of all latencies spent there, by [`Op`], in picoseconds.
    pub queued: [u128; 4],
    /// How long the host's queue held a request.
    pub queue_held: Span,
    /// When the first and the last request arrived. In the host's queue the first may have waited
    /// since before `start`.
    arrivals: Option<(Time, Time)>,
    /// When the measured part began.
    pub start: Time,
    /// When its last request ended.
    pub end: Time,
    /// Flushes added by the replay: `flush_every`, `PREFLUSH` flags and the last one.
    pub added_flushes: u64,
    /// Discards that cover no sector wholly: not submitted.
    pub empty_discards: u64,
    /// Whether times mean anything.
    pub timed: bool,
    by_app: bool,
    /// Until when the host's queue is known to have held a request.
    held_until: Time,
}

/// One request as the replay saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub app: AppId,
    pub op: Op,
    /// When it came to the host's queue.
    pub arrival: Time,
    /// When it was submitted.
    pub at: Time,
    /// When it was done.
    pub end: Time,
}

impl Tally {
    pub(super) fn new(start: Time, timed: bool) -> Tally {
        Tally {
            submitted: [0; 4],
            latency: Box::new(std::array::from_fn(|_| Histogram::default())),
            apps: Vec::new(),
            queue: Histogram::default(),
            queued: [0; 4],
            queue_held: Span::ZERO,
            arrivals: None,
            start,
            end: start,
            added_flushes: 0,
            empty_discards: 0,
            timed,
            by_app: false,
            held_until: start,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, served: Served) {
        let Served { app, op, arrival, at, end } = served;
        self.submitted[op as usize] += 1;
        self.end = self.end.max(end);
        let index = usize::from(app.0);
        if index >= self.apps.len() {
            self.grow(index);
        }
        let data = matches!(op, Op::Read | Op::Write);
        self.apps[index].requests += u64::from(data);
        if !self.timed {
            return;
        }
        let (latency, waited) = (end.since(arrival), at.since(arrival));
        self.latency[op as usize].add(latency);
        let (first, last) = self.arrivals.unwrap_or((arrival, arrival));
        self.arrivals = Some((first.min(arrival), last.max(arrival)));
        if waited > Span::ZERO {
            self.queue.add(waited);
            self.queued[op as usize] += u128::from(waited.as_ps());
            // Submissions never go back: what was counted lies before `held_until`.
            let from = arrival.max(self.held_until);
            if at > from {
                self.queue_held += at.since(from);
                self.held_until = at;
            }
        }
        if self.by_app
            && data
            && let Some(latencies) = &mut self.apps[index].latency
        {
            latencies[op as usize].add(latency);
        }
    }

    /// Whether the host's queue was never empty for long: it held a request for more than half of
    /// the time in which requests arrived and were submitted.
    pub fn saturated(&self) -> bool {
        let last = self.arrivals.map_or(self.start, |(_, last)| last);
        let span = self.held_until.max(last).since(self.start);
        self.queue_held > Span::ZERO && self.queue_held.as_ps() > span.as_ps() / 2
    }

    /// Requests, and the time in which they arrived, from the first to the last.
    pub fn offered(&self) -> (u64, Span) {
        let span = self.arrivals.map_or(Span::ZERO, |(first, last)| last.since(first));
        (self.latency.iter().map(|of| of.count()).sum(), span)
    }

    /// Makes room for an application never seen. Latencies are split from the first request of a
    /// second application on, with what came before credited to the only one there was.
    #[cold]
    fn grow(&mut self, index: usize) {
        let only = (self.apps.len() == 1 && self.timed && !self.by_app).then(|| {
            let [reads, writes, ..] = &*self.latency;
            Box::new([reads.clone(), writes.clone()])
        });
        self.apps.resize_with(index + 1, AppTally::default);
        if self.apps.len() > 1 && self.timed {
            self.by_app = true;
            for app in self.apps.iter_mut().take(MOST_APPS).filter(|app| app.latency.is_none()) {
                app.latency = Some(Box::default());
            }
            if only.is_some() {
                self.apps[0].latency = only;
            }
        }
    }

    /// Checks that the device served what was submitted, per operation and application, and that
    /// its accounting identities hold.
    ///
    /// # Errors
    /// [`LabError::Check`] naming what differs.
    pub fn check(&self, stats: &Stats, slots_per_page: u64) -> Result<(), LabError> {
        let fail = |contract: &str, what: String| {
            Err(LabError::Check { contract: contract.to_string(), what })
        };
        for (op, name) in ["read", "write", "flush", "discard"].iter().enumerate() {
            let (submitted, served) = (self.submitted[op], stats.host[op].ops);
            if submitted != served {
                return fail("served", format!("{name}: {submitted} submitted, {served} served"));
            }
        }
        for (i, app) in self.apps.iter().enumerate() {
            let served = stats.apps.get(i).map_or(0, |app| app.requests);
            if app.requests != served {
                let what = format!("app {i}: {} submitted, {served} served", app.requests);
                return fail("served", what);
            }
        }
        let (total, room) =
            (stats.nand.programs_total(), stats.nand.page_programs * slots_per_page);
        if total != room {
            let causes = stats.nand.programs;
            let what = format!(
                "programs by cause {causes:?} sum to {total} slots, but {} page programs of \
                 {slots_per_page} slots are {room}",
                stats.nand.page_programs
            );
            return fail("C8", what);
        }
        let (read, most) = (stats.nand.reads_total(), stats.nand.page_reads * slots_per_page);
        if read > most || read < stats.nand.page_reads {
            let what = format!(
                "{read} slots read by cause in {} page reads of {slots_per_page} slots",
                stats.nand.page_reads
            );
            return fail("C8", what);
        }
        Ok(())
    }
}
