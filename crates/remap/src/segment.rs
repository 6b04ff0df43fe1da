//! The segment table: state, live count and age of each segment, free and pending lists.
//!
//! Invariants: a segment is in one state; a closed one with live blocks stands in the bucket of its
//! live count, and nothing else does; an empty closed one is pending until the three conditions of
//! reuse hold.

use std::collections::VecDeque;

use crate::geometry::Seg;

const NONE: u32 = u32::MAX;
/// Entries of a bucket that are compared for their age.
const TIES: u32 = 64;

/// What a segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nothing in it matters.
    Free,
    /// A head writes to it, or has it reserved.
    Open,
    /// Full; a candidate for cleaning.
    Closed,
    /// Being cleaned.
    Cleaning,
    /// Empty; waits until it may be used again.
    Pending,
    /// A header in it is damaged: it stays as it is.
    Quarantined,
}

#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub state: State,
    pub meta: bool,
    pub live: u32,
    /// Clock of ages (blocks written) when it was closed.
    pub age: u64,
    /// Its newest record.
    pub last: u64,
    /// The newest record open when it became empty.
    pub emptied: u64,
    /// Readers.
    pub holds: u32,
    /// The head of its kind that wrote it, and the client's blocks when it was entered. Not known of one that
    /// was written before the log was opened.
    pub head: u8,
    pub born: u64,
    prev: u32,
    next: u32,
}

const BLANK: Segment = Segment {
    state: State::Free,
    meta: false,
    live: 0,
    age: 0,
    last: 0,
    emptied: 0,
    holds: 0,
    head: u8::MAX,
    born: 0,
    prev: NONE,
    next: NONE,
};

/// All segments.
#[derive(Debug)]
pub struct Segments {
    all: Vec<Segment>,
    /// First and last closed segment of each live count.
    buckets: Vec<(u32, u32)>,
    /// One bit for each bucket that is not empty.
    used: Vec<u64>,
    free: VecDeque<u32>,
    /// Wait for what emptied them to be durable.
    undurable: VecDeque<u32>,
    /// Wait for a checkpoint.
    unchecked: Vec<u32>,
    /// Are read: as long as that lasts neither a flush nor a checkpoint frees them.
    held: Vec<u32>,
    closed: u32,
}

impl Segments {
    pub fn new(count: u32, blocks: u32) -> Segments {
        Segments {
            all: vec![BLANK; count as usize],
            buckets: vec![(NONE, NONE); blocks as usize + 1],
            used: vec![0; (blocks as usize + 1).div_ceil(64)],
            free: VecDeque::new(),
            undurable: VecDeque::new(),
            unchecked: Vec::new(),
            held: Vec::new(),
            closed: 0,
        }
    }

    pub fn get(&self, seg: Seg) -> &Segment {
        &self.all[seg.0 as usize]
    }

    pub fn all(&self) -> &[Segment] {
        &self.all
    }

    pub fn get_mut(&mut self, seg: Seg) -> &mut Segment {
        &mut self.all[seg.0 as usize]
    }

    pub fn free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Pending segments that a flush, and those that a checkpoint would free.
    pub fn pending(&self) -> (u32, u32) {
        (self.undurable.len() as u32, self.unchecked.len() as u32)
    }

    /// Pending segments that wait for their readers first.
    pub fn held(&self) -> u32 {
        self.held.len() as u32
    }

    /// Takes the segment that has been free longest.
    pub fn take(&mut self) -> Option<Seg> {
        let seg = self.free.pop_front()?;
        self.all[seg as usize] = Segment { state: State::Open, ..BLANK };
        Some(Seg(seg))
    }

    /// Makes a segment free whatever it was: a log is opened.
    pub fn release(&mut self, seg: Seg) {
        self.all[seg.0 as usize] = BLANK;
        self.free.push_back(seg.0);
    }

    fn unlink(&mut self, seg: u32) {
        let Segment { prev, next, live, .. } = self.all[seg as usize];
        let bucket = &mut self.buckets[live as usize];
        match prev {
            NONE => bucket.0 = next,
            p => self.all[p as usize].next = next,
        }
        match next {
            NONE => bucket.1 = prev,
            n => self.all[n as usize].prev = prev,
        }
        let live = live as usize;
        if self.buckets[live].0 == NONE {
            self.used[live / 64] &= !(1 << (live % 64));
        }
        let s = &mut self.all[seg as usize];
        (s.prev, s.next) = (NONE, NONE);
    }

    fn link(&mut self, seg: u32) {
        let live = self.all[seg as usize].live as usize;
        let last = self.buckets[live].1;
        self.all[seg as usize].prev = last;
        self.all[seg as usize].next = NONE;
        match last {
            NONE => self.buckets[live].0 = seg,
            l => self.all[l as usize].next = seg,
        }
        self.buckets[live].1 = seg;
        self.used[live / 64] |= 1 << (live % 64);
    }

    /// A head leaves a segment. `seq` is the newest record open.
    pub fn close(&mut self, seg: Seg, age: u64, seq: u64) {
        let s = self.get_mut(seg);
        s.age = age;
        if s.live == 0 {
            self.pend(seg, seq);
        } else {
            s.state = State::Closed;
            self.closed += 1;
            self.link(seg.0);
        }
    }

    fn pend(&mut self, seg: Seg, seq: u64) {
        let s = self.get_mut(seg);
        s.state = State::Pending;
        s.emptied = seq;
        self.undurable.push_back(seg.0);
    }

    #[inline]
    pub fn gain(&mut self, seg: Seg) {
        let s = &mut self.all[seg.0 as usize];
        debug_assert!(s.state == State::Open, "a block becomes live in a segment that is not open");
        s.live += 1;
    }

    /// A block of a segment is no longer live; `seq` is the newest record open. Returns whether the segment has
    /// ended by that.
    #[inline]
    pub fn lose(&mut self, seg: Seg, seq: u64) -> bool {
        let s = &mut self.all[seg.0 as usize];
        if s.state != State::Closed {
            s.live -= 1;
            return false;
        }
        self.unlink(seg.0);
        let s = &mut self.all[seg.0 as usize];
        s.live -= 1;
        let ended = s.live == 0;
        if ended {
            self.closed -= 1;
            self.pend(seg, seq);
        } else {
            self.link(seg.0);
        }
        ended
    }

    /// Takes a closed segment to clean it.
    pub fn begin_cleaning(&mut self, seg: Seg) {
        self.unlink(seg.0);
        self.closed -= 1;
        self.get_mut(seg).state = State::Cleaning;
    }

    /// Cleaning of a segment is over. Returns whether it is empty; else it is set aside.
    pub fn end_cleaning(&mut self, seg: Seg, seq: u64) -> bool {
        if self.get(seg).live == 0 {
            self.pend(seg, seq);
            return true;
        }
        self.get_mut(seg).state = State::Quarantined;
        false
    }

    /// Frees what may be used again: durable up to `durable`, checkpoint at `checkpoint`. Calls
    /// `freed` with each.
    pub fn reclaim(&mut self, durable: u64, checkpoint: u64, mut freed: impl FnMut(Seg)) {
        let mut waiting = std::mem::take(&mut self.unchecked);
        waiting.append(&mut self.held);
        for _ in 0..self.undurable.len() {
            let Some(seg) = self.undurable.pop_front() else { break };
            match self.all[seg as usize].emptied > durable {
                true => self.undurable.push_back(seg),
                false => waiting.push(seg),
            }
        }
        for seg in waiting {
            let s = self.all[seg as usize];
            match (s.holds > 0, s.last > checkpoint) {
                (true, _) => self.held.push(seg),
                (false, true) => self.unchecked.push(seg),
                (false, false) => {
                    self.release(Seg(seg));
                    freed(Seg(seg));
                }
            }
        }
    }

    /// The closed segment with the fewest live blocks; of those the oldest, then the lowest number
    /// (of the first 64 of the bucket).
    pub fn emptiest(&self) -> Option<Seg> {
        self.bucket_from(0).and_then(|live| self.oldest_of(live))
    }

    /// The lowest bucket from `live` on that is not empty.
    pub fn bucket_from(&self, live: u32) -> Option<u32> {
        let first = live as usize / 64;
        for (i, word) in self.used.iter().enumerate().skip(first) {
            let word = if i == first { word & (u64::MAX << (live % 64)) } else { *word };
            if word != 0 {
                return Some(i as u32 * 64 + word.trailing_zeros());
            }
        }
        None
    }

    /// The oldest of the first segments of a bucket.
    pub fn oldest_of(&self, live: u32) -> Option<Seg> {
        let mut best: Option<(u64, u32)> = None;
        let mut seg = self.buckets[live as usize].0;
        for _ in 0..TIES {
            if seg == NONE {
                break;
            }
            let key = (self.all[seg as usize].age, seg);
            best = Some(best.map_or(key, |b| b.min(key)));
            seg = self.all[seg as usize].next;
        }
        best.map(|(_, seg)| Seg(seg))
    }

    pub fn closed(&self) -> u32 {
        self.closed
    }

    /// Checks lists against states.
    pub fn check(&self) -> Result<(), String> {
        let mut linked = 0;
        for (live, (first, _)) in self.buckets.iter().enumerate() {
            let mut seg = *first;
            while seg != NONE {
                let s = &self.all[seg as usize];
                if s.state != State::Closed || s.live as usize != live {
                    return Err(format!("segment {seg} in bucket {live}: {s:?}"));
                }
                linked += 1;
                seg = s.next;
            }
            if (self.used[live / 64] >> (live % 64) & 1 == 1) != (*first != NONE) {
                return Err(format!("bit of bucket {live}"));
            }
        }
        let count = |state| self.all.iter().filter(|s| s.state == state).count();
        let pending = self.undurable.len() + self.unchecked.len() + self.held.len();
        if linked != count(State::Closed) || linked != self.closed as usize {
            return Err(format!("{linked} in buckets, {} closed", count(State::Closed)));
        }
        if pending != count(State::Pending) || self.free.len() != count(State::Free) {
            return Err(format!("pending {pending}, free {}", self.free.len()));
        }
        let bad = self
            .all
            .iter()
            .position(|s| matches!(s.state, State::Free | State::Pending) && s.live != 0);
        bad.map_or(Ok(()), |i| Err(format!("segment {i} is unused and has live blocks")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While somebody reads it, an empty segment is neither free nor worth a checkpoint.
    #[test]
    fn an_empty_segment_that_is_read_waits_for_its_readers_alone() {
        let mut all = Segments::new(1, 16);
        all.release(Seg(0));
        let seg = all.take().unwrap();
        all.get_mut(seg).last = 7;
        all.get_mut(seg).holds = 2;
        all.close(seg, 1, 7);
        let reclaimed = |all: &mut Segments, durable, checkpoint| {
            let mut freed = 0;
            all.reclaim(durable, checkpoint, |_| freed += 1);
            all.check().unwrap();
            freed
        };
        for readers in [2, 1] {
            all.get_mut(seg).holds = readers;
            assert_eq!(reclaimed(&mut all, 7, 6), 0);
            assert_eq!((all.pending(), all.held()), ((0, 0), 1), "neither would free anything");
        }
        all.get_mut(seg).holds = 0;
        assert_eq!(reclaimed(&mut all, 7, 6), 0);
        assert_eq!(all.pending(), (0, 1), "now it would");
        // A reader that came while it waited for that.
        all.get_mut(seg).holds = 1;
        assert_eq!(reclaimed(&mut all, 7, 7), 0);
        assert_eq!((all.pending(), all.held()), ((0, 0), 1));
        all.get_mut(seg).holds = 0;
        assert_eq!((reclaimed(&mut all, 7, 7), all.free()), (1, 1));
    }
}
