//! The line table: what cleaning collects as a whole, in what state, with how much valid data.
//!
//! Invariants:
//! * a line is in exactly one state; only `Closed` lines are in the bucket lists, in the closing
//!   order and in the dense array, and each of them is in all three;
//! * `valid` is the number of set valid bits of the line's slots;
//! * the members of a line lie one on each plane of its group, in stripe order;
//! * `data_slots` is the capacity of all lines but those set apart or retired.
//!
//! Callers read a line ([`LineTable::get`]) and name what happened to it; only this file writes
//! its fields, so that lists and sums change with them.

use std::collections::BTreeSet;

use block::BlockId;
use nand::Geometry;

use crate::config::PlaneGroup;

/// No line, no block, end of a list.
pub(crate) const NONE: u32 = u32::MAX;
/// Buckets of closed lines by valid count; larger lines share buckets.
const BUCKETS: u32 = 1024;

/// What a line is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LineState {
    /// Erased, waiting to be opened.
    Free,
    /// Being programmed by a head.
    Open,
    /// Programmed; may be collected.
    Closed,
    /// Being collected.
    Victim,
    /// Empty; waits for its erase to be safe.
    Erasing,
    /// Set apart for checkpoints.
    Meta,
    /// No usable block is left in it.
    Retired,
}

/// What a line's slots are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LineKind {
    /// Data and records.
    Data,
    /// Translation pages.
    Map,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub state: LineState,
    pub kind: LineKind,
    pub valid: u32,
    /// Slots programmed since it was opened (valid and invalid).
    pub used: u32,
    /// Slot programs of the drive when it closed: its age.
    pub closed_at: u64,
    /// Sequence number when it was opened.
    pub opened: u64,
    /// Which opening of a line this was.
    pub opened_epoch: u64,
    /// Number of the head that opened it last; [`u8::MAX`]: power-on found it.
    pub head: u8,
    bucket_prev: u32,
    bucket_next: u32,
    fifo_prev: u32,
    fifo_next: u32,
    dense_at: u32,
}

const FRESH: Line = Line {
    state: LineState::Free,
    kind: LineKind::Data,
    valid: 0,
    used: 0,
    closed_at: 0,
    opened: 0,
    opened_epoch: 0,
    head: u8::MAX,
    bucket_prev: NONE,
    bucket_next: NONE,
    fifo_prev: NONE,
    fifo_next: NONE,
    dense_at: NONE,
};

/// All lines of a drive.
#[derive(Clone, Debug)]
pub(crate) struct LineTable {
    lines: Vec<Line>,
    members: Vec<u32>,
    width: u32,
    line_of: Vec<u32>,
    stripes: Vec<Vec<(u32, u32)>>,
    /// Slots of a line without dead members.
    full_slots: u32,
    slots_per_block: u32,
    heads: Vec<u32>,
    tails: Vec<u32>,
    shift: u32,
    lowest: u32,
    fifo_head: u32,
    fifo_tail: u32,
    dense: Vec<u32>,
    /// Lines with a failed block, which must be moved soon.
    hurt: BTreeSet<u32>,
    /// Slots of the lines that data may be written to, on live members.
    data_slots: u64,
}

impl LineTable {
    /// Lines of `rows` rows of blocks over `groups`, all free.
    pub fn new(geometry: &Geometry, groups: &[PlaneGroup], rows: u32) -> LineTable {
        let width: u32 = groups[0].stripes.iter().map(|s| s.len() as u32).sum();
        let count = rows * groups.len() as u32;
        let full_slots = width * geometry.slots_per_block();
        let mut line_of = vec![NONE; geometry.blocks() as usize];
        let mut members = Vec::with_capacity((count * width) as usize);
        for row in 0..rows {
            for (g, group) in groups.iter().enumerate() {
                for plane in group.stripes.iter().flatten() {
                    let block = geometry.block_at(*plane, row);
                    line_of[block.index()] = row * groups.len() as u32 + g as u32;
                    members.push(block.0);
                }
            }
        }
        let stripes = groups
            .iter()
            .map(|group| {
                let mut start = 0;
                group
                    .stripes
                    .iter()
                    .map(|stripe| {
                        let range = (start, stripe.len() as u32);
                        start += range.1;
                        range
                    })
                    .collect()
            })
            .collect();
        let mut shift = 0;
        while (full_slots >> shift) > BUCKETS {
            shift += 1;
        }
        let buckets = ((full_slots >> shift) + 1) as usize;
        LineTable {
            lines: vec![FRESH; count as usize],
            members,
            width,
            line_of,
            stripes,
            full_slots,
            slots_per_block: geometry.slots_per_block(),
            heads: vec![NONE; buckets],
            tails: vec![NONE; buckets],
            shift,
            lowest: buckets as u32,
            fifo_head: NONE,
            fifo_tail: NONE,
            dense: Vec::with_capacity(count as usize),
            hurt: BTreeSet::new(),
            data_slots: u64::from(count) * u64::from(full_slots),
        }
    }

    pub fn len(&self) -> u32 {
        self.lines.len() as u32
    }
    /// Slots of a line without dead members.
    #[inline(always)]
    pub fn full_slots(&self) -> u32 {
        self.full_slots
    }
    #[inline(always)]
    pub fn get(&self, line: u32) -> &Line {
        &self.lines[line as usize]
    }
    /// The line of a block, or [`NONE`] for reserve blocks.
    #[inline(always)]
    pub fn line_of(&self, block: BlockId) -> u32 {
        self.line_of[block.index()]
    }
    /// Blocks of a line in stripe order; [`NONE`] = dead member.
    #[inline(always)]
    pub fn members(&self, line: u32) -> &[u32] {
        let at = (line * self.width) as usize;
        &self.members[at..at + self.width as usize]
    }
    /// The members programmed together: ranges into [`LineTable::members`].
    #[inline(always)]
    pub fn stripes(&self, line: u32) -> &[(u32, u32)] {
        &self.stripes[line as usize % self.stripes.len()]
    }
    /// Slots on live members.
    pub fn capacity(&self, line: u32) -> u32 {
        let live = self.members(line).iter().filter(|m| **m != NONE).count() as u32;
        live * self.slots_per_block
    }
    /// Slots of all lines that data may be written to, on live members.
    pub fn data_slots(&self) -> u64 {
        self.data_slots
    }
    /// What a line adds to [`LineTable::data_slots`].
    fn share(&self, line: u32) -> u64 {
        match self.get(line).state {
            LineState::Meta | LineState::Retired => 0,
            _ => u64::from(self.capacity(line)),
        }
    }
    /// Does what changes a line's members or state, and keeps the sum.
    fn with_share(&mut self, line: u32, change: impl FnOnce(&mut LineTable)) {
        self.data_slots -= self.share(line);
        change(self);
        self.data_slots += self.share(line);
    }

    /// The line is kept for checkpoints.
    pub fn set_apart(&mut self, line: u32) {
        self.with_share(line, |table| table.lines[line as usize].state = LineState::Meta);
    }
    /// No block of the line is left.
    pub fn retire(&mut self, line: u32) {
        self.with_share(line, |table| table.lines[line as usize].state = LineState::Retired);
        self.hurt.remove(&line);
    }
    /// Nothing of the line is wanted; it waits for its erase.
    pub fn emptied(&mut self, line: u32) {
        self.lines[line as usize].state = LineState::Erasing;
    }
    /// The line's blocks are erased.
    pub fn empty(&mut self, line: u32) {
        let entry = &mut self.lines[line as usize];
        debug_assert_eq!(entry.valid, 0);
        entry.state = LineState::Free;
        entry.used = 0;
        self.hurt.remove(&line);
    }
    /// A head writes to the line from now on.
    pub fn open(&mut self, line: u32, head: u8, kind: LineKind, seq: u64, epoch: u64) {
        let entry = &mut self.lines[line as usize];
        debug_assert_eq!(entry.state, LineState::Free);
        entry.state = LineState::Open;
        entry.kind = kind;
        entry.head = head;
        entry.opened = seq;
        entry.opened_epoch = epoch;
    }
    /// Slots of the line were programmed.
    #[inline(always)]
    pub fn programmed(&mut self, line: u32, slots: u32) {
        self.lines[line as usize].used += slots;
    }
    /// The line turned out to hold translation pages.
    pub fn holds_map(&mut self, line: u32) {
        self.lines[line as usize].kind = LineKind::Map;
    }
    /// A block of the line has failed: its data must be moved soon.
    pub fn evacuate(&mut self, line: u32) {
        self.hurt.insert(line);
    }
    /// The first closed line with a failed block.
    pub fn first_hurt(&self) -> Option<u32> {
        self.hurt.iter().copied().find(|line| self.get(*line).state == LineState::Closed)
    }

    /// Puts `block` (or nothing, [`NONE`]) in the place of member `old`.
    pub fn replace_member(&mut self, line: u32, old: BlockId, new: u32) {
        let place = self.members(line).iter().position(|m| *m == old.0);
        let at = (line * self.width) as usize + place.expect("a member of the line");
        self.with_share(line, |table| table.members[at] = new);
        self.line_of[old.index()] = NONE;
        if new != NONE {
            self.line_of[new as usize] = line;
        }
    }
    /// Gives a line back its place in a stripe: used when the table is rebuilt at power-on.
    pub fn set_member(&mut self, line: u32, index: u32, block: u32) {
        let at = (line * self.width + index) as usize;
        let old = self.members[at];
        if old != NONE && self.line_of[old as usize] == line {
            self.line_of[old as usize] = NONE;
        }
        self.with_share(line, |table| table.members[at] = block);
        if block != NONE {
            self.line_of[block as usize] = line;
        }
    }

    /// A slot of the line holds current data.
    #[inline(always)]
    pub fn add_valid(&mut self, line: u32) {
        self.lines[line as usize].valid += 1;
    }

    /// A slot of the line no longer holds current data. O(1).
    #[inline(always)]
    pub fn drop_valid(&mut self, line: u32) {
        let entry = &mut self.lines[line as usize];
        debug_assert!(entry.valid > 0, "line {line} has no valid slot to lose");
        let old = entry.valid >> self.shift;
        entry.valid -= 1;
        let new = entry.valid >> self.shift;
        if old != new && entry.state == LineState::Closed {
            self.unlink_bucket(line, old);
            self.link_bucket(line, new);
        }
    }

    /// The line is programmed and may be collected from now on.
    pub fn close(&mut self, line: u32, now: u64) {
        debug_assert!(self.lines[line as usize].state != LineState::Closed);
        let (dense_at, tail) = (self.dense.len() as u32, self.fifo_tail);
        self.dense.push(line);
        let entry = &mut self.lines[line as usize];
        entry.state = LineState::Closed;
        entry.closed_at = now;
        entry.dense_at = dense_at;
        entry.fifo_prev = tail;
        entry.fifo_next = NONE;
        let bucket = entry.valid >> self.shift;
        match tail {
            NONE => self.fifo_head = line,
            tail => self.lines[tail as usize].fifo_next = line,
        }
        self.fifo_tail = line;
        self.link_bucket(line, bucket);
    }

    /// Takes a closed line out of all lists.
    pub fn take(&mut self, line: u32, state: LineState) {
        let entry = self.lines[line as usize];
        debug_assert_eq!(entry.state, LineState::Closed);
        self.unlink_bucket(line, entry.valid >> self.shift);
        match entry.fifo_prev {
            NONE => self.fifo_head = entry.fifo_next,
            prev => self.lines[prev as usize].fifo_next = entry.fifo_next,
        }
        match entry.fifo_next {
            NONE => self.fifo_tail = entry.fifo_prev,
            next => self.lines[next as usize].fifo_prev = entry.fifo_prev,
        }
        let last = self.dense.pop().expect("a closed line is in the array");
        if last != line {
            self.dense[entry.dense_at as usize] = last;
            self.lines[last as usize].dense_at = entry.dense_at;
        }
        self.lines[line as usize].state = state;
    }

    /// The closed line that was closed first.
    pub fn oldest(&self) -> Option<u32> {
        (self.fifo_head != NONE).then_some(self.fifo_head)
    }
    /// The line closed after `line`.
    pub fn younger(&self, line: u32) -> Option<u32> {
        let next = self.lines[line as usize].fifo_next;
        (next != NONE).then_some(next)
    }
    /// The closed lines in the order in which they were closed.
    pub fn in_order(&self) -> impl Iterator<Item = u32> {
        std::iter::successors(self.oldest(), |line| self.younger(*line))
    }
    /// All closed lines, in no meaningful order: for random draws.
    pub fn closed(&self) -> &[u32] {
        &self.dense
    }
    /// The first of the lines in each non-empty bucket, from the emptiest.
    pub fn bucket_firsts(&self) -> impl Iterator<Item = u32> {
        self.heads[(self.lowest as usize).min(self.heads.len())..]
            .iter()
            .copied()
            .filter(|h| *h != NONE)
    }
    /// A closed line with the fewest valid slots: exactly, or within one bucket.
    pub fn emptiest(&mut self, exact: bool) -> Option<u32> {
        while self.lowest < self.heads.len() as u32 && self.heads[self.lowest as usize] == NONE {
            self.lowest += 1;
        }
        let first = *self.heads.get(self.lowest as usize)?;
        if !exact || self.shift == 0 {
            return Some(first);
        }
        let mut best = first;
        let mut at = first;
        while at != NONE {
            if self.get(at).valid < self.get(best).valid {
                best = at;
            }
            at = self.get(at).bucket_next;
        }
        Some(best)
    }

    /// Closed lines from the emptiest on, of equally full ones the first first: bucket after
    /// bucket, each sorted when its turn comes.
    pub fn by_valid(&self) -> impl Iterator<Item = u32> {
        let lowest = (self.lowest as usize).min(self.heads.len());
        self.heads[lowest..].iter().filter(|head| **head != NONE).flat_map(|head| {
            let next = |at: &u32| Some(self.get(*at).bucket_next).filter(|next| *next != NONE);
            let mut lines: Vec<u32> = std::iter::successors(Some(*head), next).collect();
            lines.sort_unstable_by_key(|line| (self.get(*line).valid, *line));
            lines
        })
    }

    fn link_bucket(&mut self, line: u32, bucket: u32) {
        let at = bucket as usize;
        let tail = self.tails[at];
        let entry = &mut self.lines[line as usize];
        entry.bucket_prev = tail;
        entry.bucket_next = NONE;
        match tail {
            NONE => self.heads[at] = line,
            tail => self.lines[tail as usize].bucket_next = line,
        }
        self.tails[at] = line;
        self.lowest = self.lowest.min(bucket);
    }

    fn unlink_bucket(&mut self, line: u32, bucket: u32) {
        let Line { bucket_prev: prev, bucket_next: next, .. } = self.lines[line as usize];
        match prev {
            NONE => self.heads[bucket as usize] = next,
            prev => self.lines[prev as usize].bucket_next = next,
        }
        match next {
            NONE => self.tails[bucket as usize] = prev,
            next => self.lines[next as usize].bucket_prev = prev,
        }
    }

    /// Checks the lists against the states (O(lines)); the error says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let closed = self.lines.iter().filter(|l| l.state == LineState::Closed).count();
        let mut in_buckets = 0;
        for (bucket, head) in self.heads.iter().enumerate() {
            let mut at = *head;
            while at != NONE {
                let line = self.get(at);
                if line.state != LineState::Closed || line.valid >> self.shift != bucket as u32 {
                    return Err(format!("line {at} ({line:?}) is in bucket {bucket}"));
                }
                in_buckets += 1;
                at = line.bucket_next;
            }
        }
        let in_order = self.in_order().count();
        if in_buckets != closed || in_order != closed || self.dense.len() != closed {
            return Err(format!(
                "{closed} closed lines: {in_buckets} in buckets, {in_order} in order, {} in the array",
                self.dense.len()
            ));
        }
        let data: u64 = (0..self.len()).map(|line| self.share(line)).sum();
        if data != self.data_slots {
            return Err(format!("lines have {data} data slots, {} are counted", self.data_slots));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_another_line_took_stays_there_when_its_old_place_is_filled() {
        let params = crate::preset("paper-nolog").unwrap().config.resolve().unwrap();
        let mut table = LineTable::new(&params.geometry, &params.groups, 2);
        let [first, other] = [0, 1].map(|line| BlockId(table.members(line)[0]));
        table.set_member(0, 0, other.0);
        assert_eq!((table.line_of(first), table.line_of(other)), (NONE, 0));
        table.set_member(1, 0, first.0);
        assert_eq!((table.line_of(first), table.line_of(other)), (1, 0));
        assert_eq!([table.members(0)[0], table.members(1)[0]], [other.0, first.0]);
    }

    #[test]
    fn a_line_without_blocks_has_no_room_for_data() {
        let params = crate::preset("paper-nolog").unwrap().config.resolve().unwrap();
        let mut table = LineTable::new(&params.geometry, &params.groups, 2);
        let all = table.data_slots();
        table.retire(1);
        assert_eq!(table.get(1).state, LineState::Retired);
        assert_eq!(table.data_slots(), all - u64::from(table.capacity(1)));
        // Once is enough.
        table.retire(1);
        assert_eq!(table.data_slots(), all - u64::from(table.capacity(1)));
    }
}
