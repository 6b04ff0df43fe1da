//! The next records of a workload, by application: one application's wait must not hold up
//! another's requests.

use block::Time;
use workload::{BLOCK_RECORDS, Record, Source, SourceError};

/// Records looked ahead at most. An application whose next request lies beyond this many of the
/// others' is treated as having none for the moment.
pub(super) const LOOKAHEAD: usize = 2 * BLOCK_RECORDS;
/// Records at most where each application has a queue: all that has arrived has to be known.
pub(super) const QUEUED: usize = 1 << 20;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Slot {
    record: Record,
    /// Number of the record in the stream.
    number: u64,
    next: u32,
}

/// One application's records in the window, in order.
struct Lane {
    head: u32,
    tail: u32,
}

/// A window over a source, split by application. Its memory is fixed once all applications have
/// been seen.
pub(super) struct Lookahead<'a> {
    source: &'a mut dyn Source,
    block: Vec<Record>,
    slots: Vec<Slot>,
    free: u32,
    waiting: usize,
    lanes: Vec<Lane>,
    /// Lane of each application, by its number.
    lane_of: Vec<u32>,
    number: u64,
    newest: Time,
    ended: bool,
}

impl<'a> Lookahead<'a> {
    pub(super) fn new(source: &'a mut dyn Source) -> Lookahead<'a> {
        Lookahead {
            source,
            block: Vec::with_capacity(BLOCK_RECORDS),
            slots: Vec::with_capacity(LOOKAHEAD),
            free: NONE,
            waiting: 0,
            lanes: Vec::new(),
            lane_of: Vec::new(),
            number: 0,
            newest: Time::ZERO,
            ended: false,
        }
    }

    /// Fills the window as far as whole blocks fit; true if it holds a record.
    pub(super) fn refill(&mut self) -> Result<bool, SourceError> {
        while self.waiting + BLOCK_RECORDS <= LOOKAHEAD && self.read_on()? {}
        Ok(self.waiting > 0)
    }

    /// Reads on beyond that; false if there is nothing more, or no room.
    pub(super) fn read_on(&mut self) -> Result<bool, SourceError> {
        if self.ended || self.waiting + BLOCK_RECORDS > QUEUED {
            return Ok(false);
        }
        self.source.fill(&mut self.block)?;
        self.ended = self.block.is_empty();
        for i in 0..self.block.len() {
            self.append(self.block[i]);
        }
        Ok(!self.ended)
    }

    /// Whether records are left in the source that there is no room for.
    pub(super) fn is_full(&self) -> bool {
        !self.ended && self.waiting + BLOCK_RECORDS > QUEUED
    }

    /// Whether one of these applications has no record here.
    pub(super) fn lacks(&self, apps: usize) -> bool {
        (0..apps).any(|app| self.lane_of(app).is_none_or(|lane| self.head(lane).is_none()))
    }

    /// The time of the last record that was read.
    pub(super) fn newest(&self) -> Time {
        self.newest
    }

    fn append(&mut self, record: Record) {
        self.newest = record.at;
        let slot = Slot { record, number: self.number, next: NONE };
        self.number += 1;
        self.waiting += 1;
        let index = if self.free == NONE {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            let index = self.free;
            self.free = self.slots[index as usize].next;
            self.slots[index as usize] = slot;
            index
        };
        let app = usize::from(record.app.0);
        if self.lane_of.len() <= app {
            self.lane_of.resize(app + 1, NONE);
        }
        if self.lane_of[app] == NONE {
            self.lane_of[app] = self.lanes.len() as u32;
            self.lanes.push(Lane { head: NONE, tail: NONE });
        }
        let lane = &mut self.lanes[self.lane_of[app] as usize];
        match lane.tail {
            NONE => lane.head = index,
            tail => self.slots[tail as usize].next = index,
        }
        lane.tail = index;
    }

    /// Number of lanes so far. Lanes are numbered by first appearance and never go away.
    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Applications so far, by their numbers: one more than the last of them.
    pub(super) fn apps(&self) -> usize {
        self.lane_of.len()
    }

    /// The lane of an application, if it has one.
    pub(super) fn lane_of(&self, app: usize) -> Option<usize> {
        self.lane_of.get(app).filter(|lane| **lane != NONE).map(|lane| *lane as usize)
    }

    /// The next record of a lane and its number in the stream.
    pub(super) fn head(&self, lane: usize) -> Option<(u64, &Record)> {
        let slot = self.slots.get(self.lanes[lane].head as usize)?;
        Some((slot.number, &slot.record))
    }

    /// Takes the next record of a lane.
    pub(super) fn pop(&mut self, lane: usize) -> Option<Record> {
        let lane = &mut self.lanes[lane];
        let index = lane.head;
        let slot = self.slots.get_mut(index as usize)?;
        lane.head = slot.next;
        if lane.head == NONE {
            lane.tail = NONE;
        }
        slot.next = self.free;
        self.free = index;
        self.waiting -= 1;
        Some(slot.record)
    }
}
