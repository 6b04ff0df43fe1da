//! Programs of host data that the host may have to wait for.
//!
//! | what | promise |
//! | --- | --- |
//! | `end` | the latest end, as booked or told, of a program of a host head, or of what a flush relies on |
//! | `booked` | programs that the request being served has booked; a new request has none |
//! | `staged` | programs in flight, oldest first: what back-pressure counts |
//! | `relied` | what else a flush relies on and a read may still move |

use std::collections::VecDeque;

use block::Time;
use nand::{Order, Sched, Ticket};

/// See above.
#[derive(Clone, Debug, Default)]
pub(super) struct Staging {
    end: Time,
    booked: Vec<Ticket>,
    staged: VecDeque<Ticket>,
    relied: Vec<Ticket>,
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
        self.ends(end);
        self.staged.push_back(ticket);
        self.booked.push(ticket);
    }
    /// A flush is not over before this, which does not move.
    pub fn ends(&mut self, end: Time) {
        self.end = self.end.max(end);
    }
    /// A flush is not over before this operation.
    pub fn relies_on(&mut self, ticket: Ticket, end: Time, scheduler: &Sched, now: Time) {
        self.ends(end);
        if self.relied.len() % 64 == 63 {
            self.relied.retain(|ticket| scheduler.peek(*ticket) > now);
        }
        self.relied.push(ticket);
    }
    /// When all of it has ended. None of it may be moved any more; what a flush does not rely on,
    /// erases and copies, still may.
    pub fn all_done(&mut self, scheduler: &mut Sched) -> Time {
        let relied = self.relied.drain(..);
        let told = self.staged.iter().copied().chain(relied).map(|ticket| scheduler.tell(ticket));
        self.end = told.fold(self.end, Time::max);
        self.end
    }
    /// When what the request being served has booked is done, `now` at the earliest.
    pub fn request_done(&self, scheduler: &mut Sched, now: Time) -> Time {
        self.booked.iter().map(|ticket| scheduler.tell(*ticket)).fold(now, Time::max)
    }
    /// What has ended need not be remembered.
    pub fn forget(&mut self, scheduler: &Sched, now: Time) {
        while self.staged.front().is_some_and(|ticket| scheduler.peek(*ticket) <= now) {
            self.staged.pop_front();
        }
    }
    /// When at most `limit` programs are in flight. Only the ones waited for are pinned; reads may
    /// still move the others.
    pub fn at_most(&mut self, limit: u32, scheduler: &mut Sched, order: Order, now: Time) -> Time {
        if order == Order::ReadFirst {
            let when = first_to_end(&mut self.staged, limit, scheduler, now);
            self.ends(when);
            return when;
        }
        let mut when = Time::ZERO;
        while self.staged.len() > limit as usize {
            if let Some(ticket) = self.staged.pop_front() {
                when = when.max(scheduler.tell(ticket));
            }
        }
        self.ends(when);
        self.forget(scheduler, now);
        when
    }
}

/// When at most `limit` of the programs in flight are left: where reads go first it is not the
/// oldest that end first. Those that do are under way, most of them, so little is pinned with them.
pub(crate) fn first_to_end(
    staged: &mut VecDeque<Ticket>,
    limit: u32,
    scheduler: &mut Sched,
    now: Time,
) -> Time {
    if staged.len() <= limit as usize {
        return Time::ZERO;
    }
    staged.retain(|ticket| scheduler.peek(*ticket) > now);
    let mut when = Time::ZERO;
    while staged.len() > limit as usize {
        let ends = staged.iter().enumerate().map(|(i, ticket)| (scheduler.peek(*ticket), i));
        let Some((_, first)) = ends.min() else { break };
        if let Some(ticket) = staged.remove(first) {
            when = when.max(scheduler.tell(ticket));
        }
    }
    when
}
