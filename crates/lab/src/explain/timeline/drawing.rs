//! What a timeline's file shows, in its own terms: requests in flight, what dies did, what was cleaned,
//! levels, and who waited for what.
//!
//! Invariants: requests and operations are in order of their tracks and of time; a request's and a
//! victim's operations are places in the list of operations; times by cause sum to the latency.

use std::collections::BTreeMap;
use std::path::Path;

use nand::Spent;

use super::read::{Slice, Track, read};
use super::wire::Wrong;
use super::{CLEANING, DIES, LEVELS, NUMBERS, REQUESTS, VALID_NAME};
use crate::LabError;

/// A request in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its place among those that were in flight with it.
    pub slot: usize,
    /// `read`, `write`, `flush` or `discard`.
    pub op: String,
    /// Its number in the measured part.
    pub number: u64,
    /// Who submitted it.
    pub app: u64,
    /// Its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub bytes: u64,
    /// When the device got it, in nanoseconds of the measured part.
    pub start_ns: u64,
    /// When it was over.
    pub end_ns: u64,
    /// From its arrival, which may be before it was submitted.
    pub latency_ns: u64,
    /// The latency by cause.
    pub causes: [u64; Spent::COUNT],
    /// Operations that it waited for.
    pub operations: Vec<usize>,
}

/// A time without interruption in which a die did one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The die: its place in [`Drawing::dies`].
    pub die: usize,
    /// When it began, in nanoseconds of the measured part.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// `gc program`.
    pub name: String,
    /// What waiting for it counts as: a name of [`Spent`].
    pub cause: String,
    /// The request that ordered it; 0 if none of the measured part did.
    pub request: u64,
    /// The first block.
    pub block: u64,
    /// Its page in the block.
    pub page: u64,
    /// Pages, of all planes.
    pub pages: u64,
}

/// A line that cleaning collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// When dies began to work at it, in nanoseconds of the measured part.
    pub start_ns: u64,
    /// When they ended, or began with the next.
    pub end_ns: u64,
    /// The line.
    pub line: u64,
    /// Slots that were valid in it.
    pub valid: u64,
    /// What was read and copied of it.
    pub operations: Vec<usize>,
}

/// A number over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// What is counted.
    pub name: String,
    /// From which nanosecond on it was how much.
    pub values: Vec<(u64, u64)>,
}

/// What a timeline's file shows.
#[derive(Clone, Debug, Default)]
pub struct Drawing {
    /// Names of slots.
    pub slots: Vec<String>,
    /// Names of dies.
    pub dies: Vec<String>,
    /// Requests that were in flight.
    pub requests: Vec<Request>,
    /// What dies did.
    pub operations: Vec<Operation>,
    /// What was cleaned.
    pub victims: Vec<Victim>,
    /// Free blocks, dirty pages.
    pub levels: Vec<Level>,
}

impl Drawing {
    /// Reads a timeline of at most so many slices.
    ///
    /// # Errors
    /// The system's; a file that is no timeline of ours: the byte, what was found, what was expected.
    pub fn load(path: &Path, most: usize) -> Result<Drawing, LabError> {
        let file = std::fs::read(path).map_err(|error| LabError::io(path, error))?;
        Drawing::from_bytes(&file, most)
            .map_err(|wrong| LabError::Input(format!("{}: {wrong}", path.display())))
    }

    fn from_bytes(file: &[u8], most: usize) -> Result<Drawing, Wrong> {
        let tracks = read(file, most)?;
        let mut drawing = Drawing::default();
        let dies = of_group(&tracks, DIES);
        let mut by_flow: BTreeMap<u64, usize> = BTreeMap::new();
        for (die, track) in dies.iter().enumerate() {
            drawing.dies.push(track.name.clone());
            for slice in &track.slices {
                let place = drawing.operations.len();
                by_flow.extend(slice.flows.iter().map(|flow| (*flow, place)));
                drawing.operations.push(operation(die, slice)?);
            }
        }
        let waited = |slice: &Slice| -> Vec<usize> {
            slice.flows.iter().filter_map(|flow| by_flow.get(flow).copied()).collect()
        };
        for (slot, track) in of_group(&tracks, REQUESTS).iter().enumerate() {
            drawing.slots.push(track.name.clone());
            for slice in &track.slices {
                drawing.requests.push(request(slot, slice, waited(slice))?);
            }
        }
        for slice in tracks.get(&CLEANING).map_or(&[][..], |track| &track.slices) {
            drawing.victims.push(Victim {
                start_ns: slice.start_ns,
                end_ns: slice.end_ns,
                line: note(slice, LINE)?,
                valid: note(slice, VALID_NAME)?,
                operations: waited(slice),
            });
        }
        let levels = LEVELS.iter().filter_map(|(uuid, _)| tracks.get(uuid));
        drawing.levels.extend(
            levels.map(|track| Level { name: track.name.clone(), values: track.counts.clone() }),
        );
        Ok(drawing)
    }

    /// From the first begin to the last end, in nanoseconds of the measured part; nothing if nothing is drawn.
    pub fn span_ns(&self) -> Option<(u64, u64)> {
        let requests = self.requests.iter().map(|request| (request.start_ns, request.end_ns));
        let operations = self.operations.iter().map(|one| (one.start_ns, one.end_ns));
        requests.chain(operations).reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
    }
}

/// Annotations by name, in the order of the writer's list.
const REQUEST: &str = NUMBERS[0];
const APP: &str = NUMBERS[1];
const OFFSET: &str = NUMBERS[2];
const BYTES: &str = NUMBERS[3];
const LATENCY: &str = NUMBERS[4];
const BLOCK: &str = NUMBERS[5];
const PAGE: &str = NUMBERS[6];
const PAGES: &str = NUMBERS[7];
const LINE: &str = NUMBERS[8];

fn of_group(tracks: &BTreeMap<u64, Track>, group: u64) -> Vec<&Track> {
    let mut found: Vec<&Track> =
        tracks.values().filter(|track| track.group == Some(group)).collect();
    found.sort_by_key(|track| track.rank);
    found
}

/// An annotation that a slice must have.
fn note(slice: &Slice, name: &str) -> Result<u64, Wrong> {
    let found = slice.notes.iter().find(|(called, _)| &**called == name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let said: Vec<&str> = slice.notes.iter().map(|(called, _)| &**called).collect();
        let found = format!("a slice `{}` with the annotations {said:?}", slice.name);
        Wrong::new(slice.at, found, format!("one called `{name}`"))
    })
}

fn operation(die: usize, slice: &Slice) -> Result<Operation, Wrong> {
    Ok(Operation {
        die,
        start_ns: slice.start_ns,
        end_ns: slice.end_ns,
        name: slice.name.to_string(),
        cause: slice.category.to_string(),
        request: note(slice, REQUEST)?,
        block: note(slice, BLOCK)?,
        page: note(slice, PAGE)?,
        pages: note(slice, PAGES)?,
    })
}

fn request(slot: usize, slice: &Slice, operations: Vec<usize>) -> Result<Request, Wrong> {
    let latency_ns = note(slice, LATENCY)?;
    // What took no time is not in the file.
    let waited = |cause: Spent| {
        let name = super::waited(cause);
        slice.notes.iter().find(|(called, _)| **called == *name).map_or(0, |(_, ns)| *ns)
    };
    let causes = Spent::ALL.map(waited);
    let sum = causes.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    if sum != latency_ns {
        let found = format!("a request of {latency_ns} ns whose causes sum to {sum} ns");
        return Err(Wrong::new(slice.at, found, "causes that sum to its latency"));
    }
    Ok(Request {
        slot,
        op: slice.name.to_string(),
        number: note(slice, REQUEST)?,
        app: note(slice, APP)?,
        offset: note(slice, OFFSET)?,
        bytes: note(slice, BYTES)?,
        start_ns: slice.start_ns,
        end_ns: slice.end_ns,
        latency_ns,
        causes,
        operations,
    })
}
