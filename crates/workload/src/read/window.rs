//! Traces whose lines are not in order of time: a sorting window that also matches issues with
//! completions, and the even spreading of whole-second times.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use block::Span;

use super::stage::{Done, Raw, ReadSummary, span_of};
use crate::record::TraceOp;

/// Requests held at most; beyond it the oldest leaves whatever its time.
const HELD: usize = 1 << 20;
/// A clock that jumps by more than this between two lines is broken.
const LEAP_PS: u128 = 10 * 86_400 * 1_000_000_000_000;

/// A request whose place in the order was handed out before it came. To move it would be to make up a
/// time, so it is an error in every format: none of those with a window of their own is known to need a
/// larger one, and whoever has such a trace can ask for it.
#[cold]
fn late(by: u128, window: u128) -> Cow<'static, str> {
    if by <= window {
        return Cow::Owned(format!(
            "at most {HELD} requests between a time and an earlier one that follows: more are not held to be \
             sorted; expected a trace in order of time"
        ));
    }
    let (by, window) = (span_of(by).human(), span_of(window).human());
    Cow::Owned(format!(
        "a time at most {window} before the latest above ({by} before: `--sort-window '{by}'` takes this line)"
    ))
}

/// Sorts requests by time within a window.
pub(crate) struct Window {
    /// A request leaves when one this much later has been seen ..
    sort: u128,
    /// .. or, if it still waits for its completion, this much later.
    hold: u128,
    newest: Option<u128>,
    sent: u128,
    count: u64,
    /// (time, order of arrival, slot), oldest first.
    heap: BinaryHeap<Reverse<(u128, u64, u32)>>,
    slots: Vec<(Raw, bool)>,
    free: Vec<u32>,
    /// Slot of the request that waits at (app, operation, offset).
    waiting: BTreeMap<(u16, TraceOp, u64), u32>,
    flushes: VecDeque<(u16, u32)>,
    pairs: bool,
}

impl Window {
    /// Without completions (`hold` = `sort`), or with.
    pub fn new(sort: u128, hold: u128) -> Window {
        Window {
            sort,
            hold,
            newest: None,
            sent: 0,
            count: 0,
            heap: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            waiting: BTreeMap::new(),
            flushes: VecDeque::new(),
            pairs: hold > sort,
        }
    }

    /// Takes one request.
    pub fn push(&mut self, raw: Raw, sum: &mut ReadSummary) -> Result<(), Cow<'static, str>> {
        if let Some(newest) = self.newest {
            if raw.at.abs_diff(newest) > LEAP_PS {
                return Err(Cow::Borrowed("a time within 10 days of the lines before it"));
            }
            if raw.at < self.sent {
                return Err(late(newest - raw.at, self.sort));
            }
            sum.sorted += u64::from(raw.at < newest);
        }
        self.newest = self.newest.max(Some(raw.at));
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push((raw, false));
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[slot as usize] = (raw, self.pairs);
        self.heap.push(Reverse((raw.at, self.count, slot)));
        self.count += 1;
        if self.pairs && raw.op == TraceOp::Flush {
            self.flushes.push_back((raw.app, slot));
        } else if self.pairs {
            let old = self.waiting.insert((raw.app, raw.op, raw.offset), slot);
            // Issued again (requeued) before it completed: the first attempt waits no longer.
            if let Some(old) = old {
                self.slots[old as usize].1 = false;
            }
        }
        Ok(())
    }

    /// Gives the request that `done` ends its response time.
    pub fn complete(&mut self, done: Done, sum: &mut ReadSummary) {
        let slot = if done.op == TraceOp::Flush {
            // A flush completes without its sector: the oldest of its device is meant.
            let at = self.flushes.iter().position(|(app, _)| *app == done.app);
            at.and_then(|i| self.flushes.remove(i)).map(|(_, slot)| slot)
        } else {
            self.waiting.remove(&(done.app, done.op, done.offset))
        };
        let Some(slot) = slot else {
            sum.orphan_completions += 1;
            return;
        };
        let (raw, waits) = &mut self.slots[slot as usize];
        *waits = false;
        let took = done.at.checked_sub(raw.at).and_then(|ps| u64::try_from(ps).ok());
        raw.response = took.map(Span::from_ps);
    }

    /// The next request whose place is settled.
    pub fn pop(&mut self, end: bool) -> Option<Raw> {
        let Reverse((at, _, slot)) = *self.heap.peek()?;
        let (raw, waits) = self.slots[slot as usize];
        let patience = if waits { self.hold } else { self.sort };
        let age = self.newest.unwrap_or(at) - at;
        if age <= patience && !end && self.heap.len() <= HELD {
            return None;
        }
        self.heap.pop();
        self.free.push(slot);
        if waits && raw.op != TraceOp::Flush {
            let key = (raw.app, raw.op, raw.offset);
            if self.waiting.get(&key) == Some(&slot) {
                self.waiting.remove(&key);
            }
        } else if waits {
            // Flushes leave about in the order they came: it is near the front.
            if let Some(i) = self.flushes.iter().position(|(_, s)| *s == slot) {
                self.flushes.remove(i);
            }
        }
        self.sent = at;
        Some(raw)
    }
}

/// Spreads the requests of each whole second evenly over it, in file order.
pub(crate) struct Spread {
    /// Seconds a line may come late.
    late: u64,
    newest: u64,
    /// Every second before this one has been handed out.
    sent: u64,
    held: usize,
    seconds: BTreeMap<u64, Vec<Raw>>,
    ready: VecDeque<Raw>,
}

const SECOND_PS: u128 = 1_000_000_000_000;

impl Spread {
    /// Lines may come `late` seconds late.
    pub fn new(late: u64) -> Spread {
        Spread {
            late,
            newest: 0,
            sent: 0,
            held: 0,
            seconds: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    /// Takes one request whose time is a whole second.
    pub fn push(&mut self, raw: Raw, sum: &mut ReadSummary) -> Result<(), Cow<'static, str>> {
        let second = (raw.at / SECOND_PS).min(u128::from(u64::MAX)) as u64;
        if second < self.sent {
            let ps = |seconds: u64| u128::from(seconds) * SECOND_PS;
            return Err(late(ps(self.newest - second), ps(self.late)));
        }
        sum.sorted += u64::from(second < self.newest);
        self.newest = self.newest.max(second);
        self.seconds.entry(second).or_default().push(raw);
        self.held += 1;
        Ok(())
    }

    /// The next request whose place is settled.
    pub fn pop(&mut self, end: bool) -> Option<Raw> {
        if self.ready.is_empty() {
            let (&second, _) = self.seconds.first_key_value()?;
            if self.newest - second <= self.late && !end && self.held <= HELD {
                return None;
            }
            let raws = self.seconds.remove(&second)?;
            let n = raws.len() as u128;
            self.held -= raws.len();
            self.sent = second.saturating_add(1);
            for (i, mut raw) in raws.into_iter().enumerate() {
                raw.at = u128::from(second) * SECOND_PS + SECOND_PS * i as u128 / n;
                self.ready.push_back(raw);
            }
        }
        self.ready.pop_front()
    }
}
