//! The queue of cleaning ahead of need: victims on their way from chosen to free.
//!
//! | stage | enters | leaves |
//! | --- | --- | --- |
//! | reading | its blocks were asked for, and it bears a ticket | they are there, and there is room to copy them |
//! | copied | nothing in it is valid | a flush after the copies were answered is done, and no record is under way; in a baseline it is prefree at once |
//! | recorded | its record was written with those of the others | the write is answered: it is free |
//!
//! Invariants: victims leave each stage in the order in which they were copied; one write of records is
//! under way at most; a checkpoint that is durable empties the last two stages, for it says where
//! everything is.

use std::collections::VecDeque;

use block::Time;

use super::clean::{Contents, Copied};
use crate::SegNo;
use crate::disk::Mark;
use crate::scj::BATCH_MAX;

/// A victim that is read.
pub(super) struct Reading {
    pub(super) victim: SegNo,
    pub(super) ticket: u32,
    /// None: somebody reads it who does not have the volume.
    pub(super) contents: Option<Contents>,
    /// When all of it is there.
    pub(super) until: Time,
}

/// Victims whose records are being written.
struct Recorded {
    victims: Vec<SegNo>,
    /// When the records are durable.
    until: Time,
}

/// See above.
#[derive(Default)]
pub(super) struct Ahead {
    reading: VecDeque<Reading>,
    copied: Vec<Copied>,
    /// Behind the last copy.
    copies: Option<Mark>,
    recorded: Option<Recorded>,
    tickets: u32,
    blocked: bool,
    /// Checkpoints in a row that gained nothing for who needs room, and free segments before the last.
    asked: (u32, usize),
}

impl Ahead {
    /// Victims on their way.
    pub(super) fn under_way(&self) -> usize {
        let recorded = self.recorded.as_ref().map_or(0, |recorded| recorded.victims.len());
        self.reading.len() + self.copied.len() + recorded
    }
    /// Victims that are read.
    pub(super) fn reading(&self) -> usize {
        self.reading.len()
    }
    /// Whether every copy is durable, and its record, too.
    pub(super) fn is_settled(&self) -> bool {
        self.copied.is_empty() && self.recorded.is_none()
    }

    /// A number that no other victim has.
    pub(super) fn ticket(&mut self) -> u32 {
        self.tickets = self.tickets.wrapping_add(1).max(1);
        self.tickets
    }

    /// A victim is read; `first`: it is copied before the others.
    pub(super) fn read(&mut self, reading: Reading, first: bool) {
        if first {
            self.reading.push_front(reading);
        } else {
            self.reading.push_back(reading);
        }
    }
    /// When the next victim is there.
    pub(super) fn arrives(&self) -> Option<Time> {
        self.reading.front().filter(|reading| reading.contents.is_some()).map(|one| one.until)
    }
    /// Victims that are not there yet, and their places for [`Ahead::fill`].
    pub(super) fn unread(&self) -> Vec<(usize, SegNo)> {
        let all = self.reading.iter().enumerate();
        let unread = all.filter(|(_, reading)| reading.contents.is_none());
        unread.map(|(at, reading)| (at, reading.victim)).collect()
    }
    /// Whether the last step had to leave something because it is not in memory.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }
    /// Somebody who needs room asks for a checkpoint, with so many segments free: how many times in a row that
    /// gained nothing.
    pub(super) fn ask(&mut self, free: usize) -> u32 {
        let (times, before) = self.asked;
        self.asked = if free > before { (0, free) } else { (times + 1, free) };
        self.asked.0
    }
    /// There is room, or it was said that there is none.
    pub(super) fn answer(&mut self) {
        self.asked = (0, 0);
    }
    pub(super) fn block(&mut self, blocked: bool) {
        self.blocked = blocked;
    }
    /// It is there.
    pub(super) fn fill(&mut self, at: usize, contents: Contents, until: Time) {
        (self.reading[at].contents, self.reading[at].until) = (Some(contents), until);
    }
    /// It cannot be copied yet, and is the next again.
    pub(super) fn put_back(&mut self, reading: Reading) {
        self.reading.push_front(reading);
    }
    /// The next victim to copy, if it is there and there is room for its record.
    pub(super) fn take_read(&mut self, now: Time) -> Option<Reading> {
        let there = self.arrives().is_some_and(|until| until <= now);
        if there && self.has_room() { self.reading.pop_front() } else { None }
    }

    /// Records that are written together have room for another victim's.
    pub(super) fn has_room(&self) -> bool {
        self.copied.len() < BATCH_MAX as usize
    }
    /// Victims whose copies wait for a flush.
    pub(super) fn copied(&self) -> usize {
        self.copied.len()
    }
    /// Behind the last copy that waits for a flush.
    pub(super) fn copies(&self) -> Option<Mark> {
        self.copies
    }
    /// A victim was copied; everything of it was handed over before `mark`.
    pub(super) fn copy(&mut self, copied: Copied, mark: Mark) {
        self.copied.push(copied);
        self.copies = Some(mark);
    }
    /// The copied ones, whose copies are durable.
    pub(super) fn take_copied(&mut self) -> Vec<Copied> {
        self.copies = None;
        std::mem::take(&mut self.copied)
    }

    /// When the records that are being written are durable.
    pub(super) fn recorded_at(&self) -> Option<Time> {
        self.recorded.as_ref().map(|recorded| recorded.until)
    }
    /// The records that somebody else has written are durable.
    pub(super) fn written(&mut self, now: Time) {
        if let Some(recorded) = &mut self.recorded {
            recorded.until = now;
        }
    }
    /// Records are being written, those of these victims among them.
    pub(super) fn record(&mut self, victims: Vec<SegNo>, until: Time) {
        let recorded = self.recorded.get_or_insert(Recorded { victims: Vec::new(), until });
        recorded.victims.extend(victims);
        recorded.until = until;
    }
    /// The victims whose records are durable.
    pub(super) fn take_recorded(&mut self) -> Vec<SegNo> {
        self.recorded.take().map_or_else(Vec::new, |recorded| recorded.victims)
    }
}
