//! Programs of host data that the host may have to wait for.
//!
//! | what | promise |
//! | --- | --- |
//! | `end` | the latest end of a program of a host head, or of what a flush relies on |
//! | `booked` | programs that the request being served has booked; a new request has none |
//! | `staged` | programs in flight, oldest first: what back-pressure counts |

use std::collections::VecDeque;

use block::Time;
use nand::{Sched, Ticket};

/// See above.
#[derive(Clone, Debug, Default)]
pub(super) struct Staging {
    end: Time,
    booked: Vec<Ticket>,
    staged: VecDeque<Ticket>,
}

impl Staging {
    /// Nothing in flight; room for what `pages` of a staging buffer hold.
    pub fn new(pages: u32) -> Staging {
        Staging { staged: VecDeque::with_capacity(pages as usize + 64), ..Staging::default() }
    }
    /// A request begins.
    pub fn begin(&mut self) {
        self.booked.clear();
    }
    /// A program of a host head is booked.
    pub fn programmed(&mut self, ticket: Ticket, end: Time) {
        self.relies_on(end);
        self.staged.push_back(ticket);
        self.booked.push(ticket);
    }
    /// A flush is not over before this.
    pub fn relies_on(&mut self, end: Time) {
        self.end = self.end.max(end);
    }
    /// The latest end of all these programs, as booked.
    pub fn end(&self) -> Time {
        self.end
    }
    /// When what the request being served has booked is done, `now` at the earliest.
    pub fn request_done(&self, scheduler: &mut Sched, now: Time) -> Time {
        self.booked.iter().map(|ticket| scheduler.tell(*ticket)).fold(now, Time::max)
    }
    /// Nobody waits for what is in flight beyond `limit` programs.
    pub fn let_go(&mut self, limit: u32) {
        let beyond = self.staged.len().saturating_sub(limit as usize);
        self.staged.drain(..beyond);
    }
    /// When at most `limit` programs are in flight. Only the ones waited for are pinned; the others
    /// may still be suspended.
    pub fn at_most(&mut self, limit: u32, scheduler: &mut Sched, now: Time) -> Time {
        let mut when = Time::ZERO;
        while self.staged.len() > limit as usize {
            if let Some(ticket) = self.staged.pop_front() {
                when = when.max(scheduler.tell(ticket));
            }
        }
        // What has ended need not be remembered.
        while self.staged.front().is_some_and(|ticket| scheduler.peek(*ticket) <= now) {
            self.staged.pop_front();
        }
        when
    }
}
