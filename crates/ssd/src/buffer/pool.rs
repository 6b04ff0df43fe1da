//! The pool: contents, dirtiness, and the links that a policy's lists are made of.
//!
//! Invariants: an entry is free, or resident and in exactly one list of the policy; the dirty
//! list holds exactly the dirty entries, in the order in which they became dirty.

use block::{Lpn, StreamId};
use nand::Payload;

use super::index::Index;

const NONE: u32 = u32::MAX;

/// The number of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame(pub(crate) u32);

impl Frame {
    /// From 0, below [`Pool::capacity`]: for who keeps something of his own of each entry.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    page: u32,
    prev: u32,
    next: u32,
    app: u16,
    class: u8,
    /// Bit 0: dirty; bits 1..8: the policy's own.
    flags: u8,
}

/// A list of entries: its ends and length. The links lie in the pool.
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        List { head: NONE, tail: NONE, len: 0 }
    }
}

impl List {
    /// Entries.
    pub fn len(&self) -> usize {
        self.len as usize
    }
    /// No entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The most recent end.
    pub fn front(&self) -> Option<Frame> {
        (self.head != NONE).then_some(Frame(self.head))
    }
    /// The least recent end.
    pub fn back(&self) -> Option<Frame> {
        (self.tail != NONE).then_some(Frame(self.tail))
    }
}

/// The buffer's entries.
#[derive(Clone, Debug)]
pub struct Pool {
    slots: Vec<Slot>,
    index: Index,
    free: u32,
    resident: usize,
    peak: usize,
    dirty_links: Vec<(u32, u32)>,
    dirty: List,
    payloads: Vec<Payload>,
    masks: Vec<u8>,
    /// What the writers said; empty until one says anything.
    streams: Vec<StreamId>,
}

impl Pool {
    /// `entries` free entries for a space of `pages` 4 KiB pages.
    pub(crate) fn new(entries: usize, pages: u32, mask: bool) -> Pool {
        assert!(entries < NONE as usize);
        let free = Slot { page: 0, prev: NONE, next: NONE, app: 0, class: 0, flags: 0 };
        let mut slots = vec![free; entries];
        for (i, slot) in slots.iter_mut().enumerate() {
            slot.next = if i + 1 < entries { i as u32 + 1 } else { NONE };
        }
        Pool {
            slots,
            index: Index::new(entries, pages),
            free: if entries == 0 { NONE } else { 0 },
            resident: 0,
            peak: 0,
            dirty_links: vec![(NONE, NONE); entries],
            dirty: List::default(),
            payloads: Vec::new(),
            masks: if mask { vec![0; entries] } else { Vec::new() },
            streams: Vec::new(),
        }
    }

    /// Entries in all.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }
    /// Entries that hold a page.
    pub fn resident(&self) -> usize {
        self.resident
    }
    /// Entries that hold none.
    pub fn free(&self) -> usize {
        self.slots.len() - self.resident
    }
    /// Most entries ever resident.
    pub fn peak(&self) -> usize {
        self.peak
    }
    /// The entry of a page.
    #[inline(always)]
    pub fn find(&self, page: Lpn) -> Option<Frame> {
        let at = self.index.get(page.0);
        (at != NONE).then_some(Frame(at))
    }
    /// The entry of this number, if it holds a page.
    #[inline]
    pub fn at(&self, index: usize) -> Option<Frame> {
        let frame = Frame(u32::try_from(index).ok()?);
        let page = self.slots.get(index)?.page;
        (self.find(Lpn(page)) == Some(frame)).then_some(frame)
    }
    /// The page of an entry.
    #[inline(always)]
    pub fn page(&self, frame: Frame) -> Lpn {
        Lpn(self.slots[frame.0 as usize].page)
    }
    /// The application that wrote or read it in.
    pub fn app(&self, frame: Frame) -> u16 {
        self.slots[frame.0 as usize].app
    }
    /// Whether it must be programmed before it goes.
    #[inline(always)]
    pub fn is_dirty(&self, frame: Frame) -> bool {
        self.slots[frame.0 as usize].flags & 1 != 0
    }
    /// The class the policy gave it.
    #[inline(always)]
    pub fn class(&self, frame: Frame) -> u8 {
        self.slots[frame.0 as usize].class
    }
    /// Gives it a class.
    #[inline(always)]
    pub fn set_class(&mut self, frame: Frame, class: u8) {
        self.slots[frame.0 as usize].class = class;
    }
    /// One of the policy's own seven bits (0..7).
    #[inline(always)]
    pub fn bit(&self, frame: Frame, bit: u8) -> bool {
        self.slots[frame.0 as usize].flags >> (bit + 1) & 1 != 0
    }
    /// Sets one of the policy's own bits.
    #[inline(always)]
    pub fn set_bit(&mut self, frame: Frame, bit: u8, on: bool) {
        let flags = &mut self.slots[frame.0 as usize].flags;
        *flags = *flags & !(2 << bit) | u8::from(on) << (bit + 1);
    }

    /// Puts an entry at the front of a list it is not in.
    #[inline]
    pub fn push_front(&mut self, list: &mut List, frame: Frame) {
        let slot = &mut self.slots[frame.0 as usize];
        slot.prev = NONE;
        slot.next = list.head;
        match list.head {
            NONE => list.tail = frame.0,
            head => self.slots[head as usize].prev = frame.0,
        }
        list.head = frame.0;
        list.len += 1;
    }
    /// Takes an entry out of the list it is in.
    #[inline]
    pub fn unlink(&mut self, list: &mut List, frame: Frame) {
        let Slot { prev, next, .. } = self.slots[frame.0 as usize];
        match prev {
            NONE => list.head = next,
            prev => self.slots[prev as usize].next = next,
        }
        match next {
            NONE => list.tail = prev,
            next => self.slots[next as usize].prev = prev,
        }
        list.len -= 1;
    }
    /// Moves an entry of a list to its front.
    #[inline]
    pub fn to_front(&mut self, list: &mut List, frame: Frame) {
        if list.head != frame.0 {
            self.unlink(list, frame);
            self.push_front(list, frame);
        }
    }
    /// The entry before `frame`, towards the front.
    pub fn towards_front(&self, frame: Frame) -> Option<Frame> {
        let prev = self.slots[frame.0 as usize].prev;
        (prev != NONE).then_some(Frame(prev))
    }

    /// Makes a page resident, clean, in no list. At least one entry is free.
    #[inline]
    pub(crate) fn insert(&mut self, page: Lpn, app: u16, class: u8) -> Frame {
        let at = self.free;
        assert!(at != NONE, "the policy left no entry free");
        let slot = &mut self.slots[at as usize];
        self.free = slot.next;
        *slot = Slot { page: page.0, prev: NONE, next: NONE, app, class, flags: 0 };
        self.index.insert(page.0, at);
        self.resident += 1;
        self.peak = self.peak.max(self.resident);
        if !self.masks.is_empty() {
            self.masks[at as usize] = 0;
        }
        Frame(at)
    }
    /// Frees an entry that is in no list of the policy.
    #[inline]
    pub(crate) fn release(&mut self, frame: Frame) -> Payload {
        self.set_clean(frame);
        let slot = &mut self.slots[frame.0 as usize];
        self.index.remove(slot.page);
        slot.next = self.free;
        self.free = frame.0;
        self.resident -= 1;
        match self.payloads.get_mut(frame.0 as usize) {
            Some(payload) => std::mem::take(payload),
            None => Payload::None,
        }
    }
    #[inline]
    pub(crate) fn set_dirty(&mut self, frame: Frame) {
        let flags = &mut self.slots[frame.0 as usize].flags;
        if *flags & 1 != 0 {
            return;
        }
        *flags |= 1;
        let tail = self.dirty.tail;
        self.dirty_links[frame.0 as usize] = (tail, NONE);
        match tail {
            NONE => self.dirty.head = frame.0,
            tail => self.dirty_links[tail as usize].1 = frame.0,
        }
        self.dirty.tail = frame.0;
        self.dirty.len += 1;
    }
    #[inline]
    pub(crate) fn set_clean(&mut self, frame: Frame) {
        let flags = &mut self.slots[frame.0 as usize].flags;
        if *flags & 1 == 0 {
            return;
        }
        *flags &= !1;
        let (prev, next) = self.dirty_links[frame.0 as usize];
        match prev {
            NONE => self.dirty.head = next,
            prev => self.dirty_links[prev as usize].1 = next,
        }
        match next {
            NONE => self.dirty.tail = prev,
            next => self.dirty_links[next as usize].0 = prev,
        }
        self.dirty.len -= 1;
    }
    /// The entry that has been dirty longest.
    pub(crate) fn first_dirty(&self) -> Option<Frame> {
        self.dirty.front()
    }
    /// The entry that became dirty next.
    pub(crate) fn dirty_after(&self, frame: Frame) -> Option<Frame> {
        let next = self.dirty_links[frame.0 as usize].1;
        (next != NONE).then_some(Frame(next))
    }
    /// Dirty entries.
    pub fn dirty(&self) -> usize {
        self.dirty.len()
    }
    pub(crate) fn payload(&self, frame: Frame) -> &Payload {
        self.payloads.get(frame.0 as usize).unwrap_or(&Payload::None)
    }
    pub(crate) fn set_payload(&mut self, frame: Frame, payload: Payload) {
        if self.payloads.is_empty() {
            if payload == Payload::None {
                return;
            }
            self.payloads = vec![Payload::None; self.slots.len()];
        }
        self.payloads[frame.0 as usize] = payload;
    }
    /// The stream of the write that made the entry dirty.
    pub(crate) fn stream(&self, frame: Frame) -> StreamId {
        self.streams.get(frame.0 as usize).copied().unwrap_or_default()
    }
    #[inline(always)]
    pub(crate) fn set_stream(&mut self, frame: Frame, stream: StreamId) {
        if !self.streams.is_empty() || stream.is_some() {
            self.keep_stream(frame, stream);
        }
    }
    /// Room for them is made when the first write names one.
    fn keep_stream(&mut self, frame: Frame, stream: StreamId) {
        if self.streams.is_empty() {
            self.streams = vec![StreamId::NONE; self.slots.len()];
        }
        self.streams[frame.0 as usize] = stream;
    }
    /// The sectors of a page that the entry holds (bit i = sector i); all of them where entries
    /// count whole.
    pub(crate) fn mask(&self, frame: Frame) -> u8 {
        self.masks.get(frame.0 as usize).copied().unwrap_or(0xFF)
    }
    pub(crate) fn add_mask(&mut self, frame: Frame, bits: u8) {
        if let Some(mask) = self.masks.get_mut(frame.0 as usize) {
            *mask |= bits;
        }
    }

    /// Entries of a list, from the front: for checks.
    pub fn iter<'a>(&'a self, list: &List) -> impl Iterator<Item = Frame> + 'a {
        let mut at = list.head;
        std::iter::from_fn(move || {
            (at != NONE).then(|| {
                let frame = Frame(at);
                at = self.slots[at as usize].next;
                frame
            })
        })
    }
}
