//! A timeline of a window of virtual time, for Perfetto: what each die did, the requests in flight,
//! what cleaning collected, and arrows from a request to what it stood behind.
//!
//! Promises: slices of a die do not overlap, and sum to what it was busy with in the window (to the
//! nanosecond: the format has no finer time); there is all of the window, or no file. Times and numbers
//! of requests count from the start of the measured part, as in every other document of the run.

mod drawing;
mod proto;
mod read;
mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use block::{Span, Time, parse_time};
use nand::{Kept, Piece, Spent, Work};
use ssd::Drive;

use super::{Explained, requests::column};
use crate::LabError;
use crate::files::write_whole;
use proto::{Names, Slice, Trace};

pub use drawing::{Drawing, Level, Operation, Request, Victim};

/// Slices of a timeline at most, unless somebody says otherwise.
pub const MOST_SLICES: usize = 1_000_000;

/// A window of virtual time, from the start of the measured part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its start.
    pub from: Span,
    /// Its end.
    pub to: Span,
}

impl FromStr for Window {
    type Err = String;

    /// `20s..20.5s`.
    fn from_str(text: &str) -> Result<Window, String> {
        let expected = || {
            format!(
                "timeline `{text}`: expected two times of the measured part, such as `20s..20.5s`"
            )
        };
        let (from, to) = text.split_once("..").ok_or_else(expected)?;
        let time = |text: &str| parse_time(text).map_err(|_| expected());
        let window = Window { from: time(from)?, to: time(to)? };
        if window.from < window.to { Ok(window) } else { Err(expected()) }
    }
}

/// A timeline to be written.
#[derive(Clone, Debug)]
pub struct TimelineWanted {
    /// Which part of the run.
    pub window: Window,
    /// The file.
    pub path: PathBuf,
    /// Slices at most.
    pub most: usize,
}

impl TimelineWanted {
    /// What can be told before the run.
    ///
    /// # Errors
    /// A window or a number that no timeline can have.
    pub(super) fn check(&self) -> Result<(), LabError> {
        let Window { from, to } = self.window;
        if self.most == 0 {
            let what = "--timeline-max 0: expected at least one slice";
            return Err(LabError::Input(what.to_string()));
        }
        if from >= to {
            return Err(LabError::Input(format!(
                "{}: the window ends at {} s and begins at {} s; expected a later end",
                self.path.display(),
                seconds(to),
                seconds(from)
            )));
        }
        Ok(())
    }
}

/// A request as it is drawn.
#[derive(Debug)]
struct Shown {
    request: Explained,
    at: Time,
    end: Time,
    /// Operations that it waited for.
    operations: Vec<u64>,
}

/// A timeline being gathered.
#[derive(Debug)]
pub(super) struct Timeline {
    wanted: TimelineWanted,
    /// When the measured part began, and how many requests came before it.
    start: Time,
    before: u64,
    from: Time,
    to: Time,
    /// When the last request was over.
    last: Time,
    requests: Vec<Shown>,
    levels: Vec<(Time, [u64; 2])>,
    /// When there was more than may be drawn.
    full: Option<Time>,
}

const REQUESTS: u64 = 1;
const DRIVE: u64 = 2;
const DIES: u64 = 3;
/// Tracks of the drive.
const CLEANING: u64 = 10;
const LEVELS: [(u64, &str); 2] = [(11, "free blocks"), (12, "dirty pages in the buffer")];
/// The first slot of requests, the first die.
const SLOT: u64 = 1_000;
const DIE: u64 = 1_000_000;

/// Places in the lists of names.
const OPS: [&str; 4] = ["read", "write", "flush", "discard"];
const VICTIM: usize = OPS.len() + Work::KINDS;
const NUMBERS: [&str; 9] =
    ["request", "app", "offset", "bytes", "latency_ns", "block", "page", "pages", "line"];
const VALID: usize = NUMBERS.len();
const VALID_NAME: &str = "valid";

/// What the time that a request waited for a cause is called.
fn waited(cause: Spent) -> String {
    format!("waited_for.{}", column(cause))
}

impl Timeline {
    pub(super) fn new(wanted: &TimelineWanted) -> Timeline {
        Timeline {
            wanted: wanted.clone(),
            start: Time::ZERO,
            before: 0,
            from: Time::ZERO,
            to: Time::ZERO,
            last: Time::ZERO,
            requests: Vec::new(),
            levels: Vec::new(),
            full: None,
        }
    }

    /// The measured part begins at `start`, after so many requests.
    pub(super) fn begin(&mut self, drive: &mut Drive, start: Time, before: u64) {
        let Window { from, to } = self.wanted.window;
        (self.start, self.before) = (start, before);
        let end = |span| start.checked_add(span).unwrap_or(Time::LIMIT);
        (self.from, self.to) = (end(from), end(to));
        self.last = start;
        self.requests.clear();
        self.levels.clear();
        if let Some(trail) = drive.nand_mut().trail_mut() {
            trail.keep_window(self.from, self.to, self.wanted.most);
        }
    }

    /// A request is over.
    pub(super) fn served(
        &mut self,
        drive: &Drive,
        request: &Explained,
        [at, end]: [Time; 2],
        operations: &[u64],
    ) {
        self.last = self.last.max(end);
        if end <= self.from || at >= self.to {
            return;
        }
        if self.requests.len() >= self.wanted.most {
            self.full.get_or_insert(at);
            return;
        }
        let levels = drive.levels();
        if self.levels.last().is_none_or(|(_, last)| *last != levels) {
            self.levels.push((at, levels));
        }
        let operations = operations.to_vec();
        self.requests.push(Shown { request: request.clone(), at, end, operations });
    }

    /// Writes the file.
    ///
    /// # Errors
    /// More slices than may be drawn, or none; the system's.
    pub(super) fn finish(self, drive: &Drive) -> Result<(), LabError> {
        let kept = drive.nand().trail().map(nand::Trail::window).unwrap_or_default();
        let slices = kept.pieces.len() + self.requests.len();
        if kept.full || self.full.is_some() || slices > self.wanted.most {
            let Window { from, to } = self.wanted.window;
            return Err(LabError::Input(format!(
                "{}: more than {} slices from {} s to {} s: expected a shorter window, or a larger \
                 --timeline-max",
                self.wanted.path.display(),
                self.wanted.most,
                seconds(from),
                seconds(to)
            )));
        }
        if slices == 0 {
            let Window { from, to } = self.wanted.window;
            return Err(LabError::Input(format!(
                "{}: nothing happens from {} s to {} s: expected a window of the measured part, which lasts {} s",
                self.wanted.path.display(),
                seconds(from),
                seconds(to),
                seconds(self.last.since(self.start))
            )));
        }
        write_whole(&self.wanted.path, &self.draw(drive, &kept))
    }

    fn draw(&self, drive: &Drive, kept: &Kept) -> Vec<u8> {
        let works = Work::ALL.map(Work::label);
        let events: Vec<&str> = OPS.into_iter().chain(works).chain(["victim"]).collect();
        let waited = Spent::ALL.map(waited);
        let numbers = NUMBERS.into_iter().chain([VALID_NAME]).map(str::to_string);
        let annotations: Vec<String> = numbers.chain(waited).collect();
        let categories: Vec<&str> = Spent::NAMES.into_iter().chain(["request"]).collect();
        let mut trace = Trace::new(&Names {
            categories: &categories,
            events: &events,
            annotations: &annotations,
        });
        let flows = self.flows(kept);
        self.draw_requests(&mut trace, &flows);
        self.draw_drive(&mut trace, kept, &flows);
        self.draw_dies(&mut trace, drive, kept, &flows);
        trace.finish()
    }

    /// A time of the measured part; what began before it is drawn from its start.
    fn ns(&self, at: Time) -> u64 {
        at.max(self.start).since(self.start).as_ns()
    }

    /// Arrows: from requests to the operations they waited for, as far as both are drawn, and from
    /// victims to what was read and copied of them.
    fn flows(&self, kept: &Kept) -> Flows {
        let mut flows = Flows::default();
        let mut drawn: BTreeMap<u64, u64> =
            kept.pieces.iter().map(|piece| (piece.operation, piece.victim)).collect();
        for (index, shown) in self.requests.iter().enumerate() {
            for operation in shown.operations.iter().filter(|o| drawn.contains_key(o)) {
                let flow = flows.next();
                flows.of_request.entry(index).or_default().push(flow);
                flows.of_operation.entry(*operation).or_default().push(flow);
            }
        }
        drawn.retain(|_, victim| *victim > 0);
        for (operation, victim) in drawn {
            let flow = flows.next();
            flows.of_victim.entry(victim).or_default().push(flow);
            flows.of_operation.entry(operation).or_default().push(flow);
        }
        flows
    }

    fn draw_requests(&self, trace: &mut Trace, flows: &Flows) {
        trace.group(REQUESTS, "requests in flight");
        // The first slot that is free: as many as were ever in flight.
        let mut slots: Vec<Time> = Vec::new();
        for (index, shown) in self.requests.iter().enumerate() {
            let slot = slots.iter().position(|free| *free <= shown.at).unwrap_or(slots.len());
            if slot == slots.len() {
                slots.push(shown.end);
                trace.track(
                    SLOT + slot as u64,
                    REQUESTS,
                    &format!("slot {slot}"),
                    slot as u64,
                    false,
                );
            }
            slots[slot] = shown.end;
            let r = &shown.request;
            let mut annotations = vec![
                (0, r.number),
                (1, u64::from(r.app.0)),
                (2, r.offset),
                (3, r.bytes),
                (4, r.latency.as_ns()),
            ];
            let parts = r.by_cause.in_ns().into_iter().enumerate().filter(|(_, ns)| *ns > 0);
            annotations.extend(parts.map(|(cause, ns)| (VALID + 1 + cause, ns)));
            trace.slice(&Slice {
                track: SLOT + slot as u64,
                start_ns: self.ns(shown.at),
                end_ns: self.ns(shown.end),
                name: r.op as usize,
                category: Spent::COUNT,
                annotations: &annotations,
                flows: flows.of_request.get(&index).map_or(&[], Vec::as_slice),
            });
        }
    }

    fn draw_drive(&self, trace: &mut Trace, kept: &Kept, flows: &Flows) {
        trace.group(DRIVE, "drive");
        trace.track(CLEANING, DRIVE, "cleaning", 0, false);
        // A victim is drawn while dies work at it; the next one's begin is its end at the latest.
        let mut spans: BTreeMap<u64, (Time, Time)> = BTreeMap::new();
        for piece in kept.pieces.iter().filter(|piece| piece.victim > 0) {
            let span = spans.entry(piece.victim).or_insert((piece.start, piece.end));
            *span = (span.0.min(piece.start), span.1.max(piece.end));
        }
        let mut last = Time::ZERO;
        for victim in &kept.victims {
            let Some((start, end)) = spans.get(&victim.number) else { continue };
            let next = spans.range(victim.number + 1..).next().map_or(*end, |(_, next)| next.0);
            let start = (*start).max(last);
            let end = (*end).min(next).max(start);
            last = end;
            trace.slice(&Slice {
                track: CLEANING,
                start_ns: self.ns(start),
                end_ns: self.ns(end),
                name: VICTIM,
                category: Spent::Gc as usize,
                annotations: &[
                    (NUMBERS.len() - 1, u64::from(victim.line)),
                    (VALID, u64::from(victim.valid)),
                ],
                flows: flows.of_victim.get(&victim.number).map_or(&[], Vec::as_slice),
            });
        }
        for (which, (track, name)) in LEVELS.into_iter().enumerate() {
            trace.track(track, DRIVE, name, 1 + which as u64, true);
            let mut last = None;
            for (at, levels) in &self.levels {
                if last != Some(levels[which]) {
                    trace.count(track, self.ns(*at), levels[which]);
                    last = Some(levels[which]);
                }
            }
        }
    }

    fn draw_dies(&self, trace: &mut Trace, drive: &Drive, kept: &Kept, flows: &Flows) {
        trace.group(DIES, "dies");
        let per_channel = drive.nand().geometry().dies_per_channel;
        let mut die = None;
        let (mut last, mut begun) = (Time::ZERO, std::collections::BTreeSet::new());
        for piece in &kept.pieces {
            let track = DIE + u64::from(piece.die);
            if die != Some(piece.die) {
                (die, last) = (Some(piece.die), Time::ZERO);
                let (channel, within) = (piece.die / per_channel, piece.die % per_channel);
                let name = format!("channel {channel} die {within}");
                trace.track(track, DIES, &name, u64::from(piece.die), false);
            }
            // Where a die does two things at a time, what began later is drawn from the end of the other.
            let start = piece.start.max(last);
            if start >= piece.end {
                continue;
            }
            last = piece.end;
            let first = begun.insert(piece.operation);
            let arrows = flows.of_operation.get(&piece.operation).filter(|_| first);
            self.draw_piece(trace, track, start, piece, arrows.map_or(&[], Vec::as_slice));
        }
    }

    fn draw_piece(&self, trace: &mut Trace, track: u64, start: Time, piece: &Piece, flows: &[u64]) {
        trace.slice(&Slice {
            track,
            start_ns: self.ns(start),
            end_ns: self.ns(piece.end),
            name: OPS.len() + piece.work.index(),
            category: piece.work.spent(true) as usize,
            annotations: &[
                // Of what came before the measured part nobody knows.
                (0, piece.request.saturating_sub(self.before)),
                (5, u64::from(piece.block.0)),
                (6, u64::from(piece.page)),
                (7, u64::from(piece.pages)),
            ],
            flows,
        });
    }
}

#[derive(Debug, Default)]
struct Flows {
    last: u64,
    of_request: BTreeMap<usize, Vec<u64>>,
    of_operation: BTreeMap<u64, Vec<u64>>,
    of_victim: BTreeMap<u64, Vec<u64>>,
}

impl Flows {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// Seconds of a span, exactly.
fn seconds(span: Span) -> String {
    let ps = span.as_ps();
    let text = format!("{}.{:012}", ps / 1_000_000_000_000, ps % 1_000_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
