//! The heads: open lines, and the program group that each is assembling.
//!
//! | what | promise |
//! | --- | --- |
//! | order | heads of host streams, then those of cleaning, then that of translation pages; without streams the first serves all |
//! | target | the pages of the program group in slot order; none while nobody has aimed |
//! | slots | assembled so far, at most what the target holds; given their places as they come |
//! | assembly | a number for each assembly, in order of their beginnings: who waits for "everything begun by now" remembers one |

use block::{BlockId, Time};
use nand::SlotWrite;

use super::head::Append;
use super::lines::NONE;
use crate::config::{Params, Streams};

/// Whom a head serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeadKind {
    Host,
    Gc,
    Map,
}

#[derive(Clone, Debug)]
struct Head {
    kind: HeadKind,
    /// The open line, or [`NONE`].
    line: u32,
    stripe: u32,
    target: Vec<(BlockId, u32)>,
    slots: Vec<SlotWrite>,
    /// When the last of them is in the controller's memory.
    ready: Time,
    assembly: u64,
}

/// Where an appended slot goes.
pub(super) struct Placed {
    pub line: u32,
    pub block: BlockId,
    pub page: u32,
    /// Which slot of the page.
    pub slot: u32,
    /// The group is full.
    pub full: bool,
}

/// What a head has assembled, taken to be programmed.
pub(super) struct Assembled {
    pub slots: Vec<SlotWrite>,
    pub target: Vec<(BlockId, u32)>,
    /// When the last of the slots is in the controller's memory.
    pub ready: Time,
}

/// See above.
#[derive(Clone, Debug)]
pub(super) struct Heads {
    heads: Vec<Head>,
    host: usize,
    gc: (usize, usize),
    map: usize,
    assemblies: u64,
}

impl Heads {
    /// The heads of a drive, none of them with a line.
    pub fn new(p: &Params) -> Heads {
        let host = super::host_streams(p) as usize;
        let count = super::head_count(p) as usize;
        let map = count - usize::from(p.map.cache.is_some());
        let gc = if p.streams == Streams::Single { (0, 1) } else { (host, map - host) };
        let kind = |at: usize| match at {
            _ if at < host => HeadKind::Host,
            _ if at < map => HeadKind::Gc,
            _ => HeadKind::Map,
        };
        let head = |at| Head {
            kind: kind(at),
            line: NONE,
            stripe: 0,
            target: Vec::with_capacity(16),
            slots: Vec::with_capacity(64),
            ready: Time::ZERO,
            assembly: 0,
        };
        Heads { heads: (0..count).map(head).collect(), host, gc, map, assemblies: 0 }
    }

    pub fn len(&self) -> usize {
        self.heads.len()
    }
    /// Streams of the host.
    #[inline]
    pub fn of_host(&self) -> usize {
        self.host
    }
    /// The first head of cleaning, and how many there are.
    pub fn of_cleaning(&self) -> (usize, usize) {
        self.gc
    }
    /// The head of translation pages.
    pub fn of_map(&self) -> usize {
        self.map
    }
    #[inline]
    pub fn kind(&self, head: usize) -> HeadKind {
        self.heads[head].kind
    }
    /// The open line of a head, or [`NONE`].
    #[inline]
    pub fn line(&self, head: usize) -> u32 {
        self.heads[head].line
    }
    /// Lines that are open.
    pub fn lines(&self) -> impl Iterator<Item = u32> + '_ {
        self.heads.iter().map(|head| head.line).filter(|line| *line != NONE)
    }
    /// The head that has a line open.
    pub fn on(&self, line: u32) -> Option<usize> {
        self.heads.iter().position(|head| head.line == line)
    }
    /// Whether nobody has chosen where a head writes next.
    #[inline]
    pub fn is_aimless(&self, head: usize) -> bool {
        self.heads[head].target.is_empty()
    }
    /// Whether a head has slots that are not programmed.
    #[inline]
    pub fn is_assembling(&self, head: usize) -> bool {
        !self.heads[head].slots.is_empty()
    }
    /// Slots of all heads that are not programmed.
    pub fn assembled(&self) -> impl Iterator<Item = &SlotWrite> {
        self.heads.iter().flat_map(|head| &head.slots)
    }
    /// Whether a head assembles a slot of one of these transactions.
    pub fn assembles_any(&self, head: usize, tids: &[u64]) -> bool {
        self.heads[head].slots.iter().any(|slot| tids.contains(&slot.oob.tid))
    }
    /// The slot that will be programmed at a place.
    pub fn slot_for(
        &self,
        block: BlockId,
        page: u32,
        slot: u32,
        per_page: u32,
    ) -> Option<&SlotWrite> {
        self.heads.iter().find_map(|head| {
            let at = head.target.iter().position(|target| *target == (block, page))?;
            head.slots.get(at * per_page as usize + slot as usize)
        })
    }
    /// Number of the assembly begun last.
    pub fn assemblies(&self) -> u64 {
        self.assemblies
    }
    /// Whether a head is still assembling what it began no later than assembly number `until`.
    pub fn waits_for(&self, head: usize, until: u64) -> bool {
        !self.heads[head].slots.is_empty() && self.heads[head].assembly <= until
    }
    /// The same of any head.
    pub fn any_waits_for(&self, until: u64) -> bool {
        (0..self.heads.len()).any(|head| self.waits_for(head, until))
    }

    /// Adds a slot to a head's group, which has been aimed.
    #[inline(always)]
    pub fn push(&mut self, head: usize, slot: Append, per_page: u32) -> Placed {
        let h = &mut self.heads[head];
        let index = h.slots.len() as u32;
        if index == 0 {
            self.assemblies += 1;
            h.assembly = self.assemblies;
            h.ready = Time::ZERO;
        }
        let (at, within) =
            if per_page == 1 { (index, 0) } else { (index / per_page, index % per_page) };
        let (block, page) = h.target[at as usize];
        h.ready = h.ready.max(slot.ready);
        h.slots.push(SlotWrite { oob: slot.oob, cause: slot.cause, payload: slot.payload });
        let full = h.slots.len() as u32 == h.target.len() as u32 * per_page;
        Placed { line: h.line, block, page, slot: within, full }
    }
    /// Takes what a head has assembled: it is programmed now.
    #[inline(always)]
    pub fn take(&mut self, head: usize) -> Assembled {
        let h = &mut self.heads[head];
        let (slots, target) = (std::mem::take(&mut h.slots), std::mem::take(&mut h.target));
        Assembled { slots, target, ready: h.ready }
    }
    /// Gives emptied vectors back, so that nothing is allocated for the next group; not if the head
    /// has begun one meanwhile.
    #[inline(always)]
    pub fn give_back(&mut self, head: usize, slots: Vec<SlotWrite>, target: Vec<(BlockId, u32)>) {
        let h = &mut self.heads[head];
        if h.target.is_empty() && h.slots.is_empty() {
            (h.slots, h.target) = (slots, target);
        }
    }
    /// The stripe that a head's next group goes to.
    pub fn stripe(&self, head: usize) -> u32 {
        self.heads[head].stripe
    }
    /// Aims a head: `fill` lists the pages of the group for stripe `stripe`; whether there are any.
    pub fn aim(
        &mut self,
        head: usize,
        stripe: u32,
        fill: impl FnOnce(&mut Vec<(BlockId, u32)>),
    ) -> bool {
        let h = &mut self.heads[head];
        h.target.clear();
        fill(&mut h.target);
        if h.target.is_empty() {
            return false;
        }
        h.stripe = stripe + 1;
        true
    }
    /// A head aims at nothing: its next group begins where its line stands then.
    pub fn lose_aim(&mut self, head: usize) {
        self.heads[head].target.clear();
    }
    /// A head opens a line, at its first stripe.
    pub fn open(&mut self, head: usize, line: u32) {
        self.heads[head].line = line;
        self.heads[head].stripe = 0;
    }
    /// A head goes on with a line that power-on found open.
    pub fn resume(&mut self, head: usize, line: u32) {
        self.heads[head].line = line;
    }
    /// A head lets its line go; which one.
    pub fn close(&mut self, head: usize) -> u32 {
        let h = &mut self.heads[head];
        debug_assert!(h.slots.is_empty(), "a head is programmed before its line is closed");
        h.target.clear();
        std::mem::replace(&mut h.line, NONE)
    }
}
