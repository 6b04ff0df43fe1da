//! Blocks of neighbouring pages, for policies that evict by the block.
//!
//! Invariants: a block exists exactly while a page of it is resident in its region, so there are at
//! most as many blocks as entries, and the table never grows; the pages of a block are a list of the
//! pool; a block is in exactly one queue of the policy.

use block::Lpn;

use super::index::Index;
use super::{Frame, List, Pool};

const NONE: u32 = u32::MAX;

/// The number of a block in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockId(u32);

#[derive(Clone, Copy, Debug)]
struct Block {
    number: u32,
    prev: u32,
    next: u32,
    /// The policy's own.
    tag: u32,
    pages: List,
}

/// A list of blocks: its ends and length. The links lie in the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Queue { head: NONE, tail: NONE, len: 0 }
    }
}

impl Queue {
    pub fn len(&self) -> usize {
        self.len as usize
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The least recent end.
    pub fn back(&self) -> Option<BlockId> {
        (self.tail != NONE).then_some(BlockId(self.tail))
    }
}

/// The blocks that hold entries.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    table: Vec<Block>,
    free: u32,
    index: Index,
    /// The block of each entry of the pool.
    of: Vec<u32>,
    width: u32,
}

impl Blocks {
    /// A table for blocks of `width` pages, `limit` entries at most, of a pool of `entries` and a
    /// space of `pages`.
    pub fn new(width: u32, limit: usize, entries: usize, pages: u32) -> Blocks {
        let empty = Block { number: 0, prev: NONE, next: NONE, tag: 0, pages: List::default() };
        let mut table = vec![empty; limit];
        for (i, block) in table.iter_mut().enumerate() {
            block.next = if i + 1 < limit { i as u32 + 1 } else { NONE };
        }
        let index = Index::new(limit, pages.div_ceil(width));
        let free = if limit == 0 { NONE } else { 0 };
        Blocks { table, free, index, of: vec![NONE; entries], width }
    }

    /// The block of an entry.
    #[inline]
    pub fn of(&self, frame: Frame) -> BlockId {
        BlockId(self.of[frame.0 as usize])
    }
    /// The block that a page belongs to, if it exists.
    #[inline]
    pub fn find(&self, page: Lpn) -> Option<BlockId> {
        let at = self.index.get(page.0 / self.width);
        (at != NONE).then_some(BlockId(at))
    }
    /// Makes the block that a page belongs to, empty and in no queue.
    #[inline]
    pub fn create(&mut self, page: Lpn, tag: u32) -> BlockId {
        let (at, number) = (self.free, page.0 / self.width);
        let block = &mut self.table[at as usize];
        self.free = block.next;
        *block = Block { number, prev: NONE, next: NONE, tag, pages: List::default() };
        self.index.insert(number, at);
        BlockId(at)
    }
    /// Frees an empty block that is in no queue.
    #[inline]
    pub fn release(&mut self, id: BlockId) {
        let block = &mut self.table[id.0 as usize];
        debug_assert!(block.pages.is_empty());
        self.index.remove(block.number);
        block.next = self.free;
        self.free = id.0;
    }
    /// Entries of a block.
    #[inline]
    pub fn len(&self, id: BlockId) -> usize {
        self.table[id.0 as usize].pages.len()
    }
    pub fn tag(&self, id: BlockId) -> u32 {
        self.table[id.0 as usize].tag
    }
    pub fn set_tag(&mut self, id: BlockId, tag: u32) {
        self.table[id.0 as usize].tag = tag;
    }
    /// First page of a block.
    pub fn first_page(&self, id: BlockId) -> u32 {
        self.table[id.0 as usize].number * self.width
    }

    /// An entry in no list enters a block.
    #[inline]
    pub fn add(&mut self, pool: &mut Pool, id: BlockId, frame: Frame) {
        self.of[frame.0 as usize] = id.0;
        pool.push_front(&mut self.table[id.0 as usize].pages, frame);
    }
    /// An entry leaves its block; which that was.
    #[inline]
    pub fn take(&mut self, pool: &mut Pool, frame: Frame) -> BlockId {
        let id = self.of(frame);
        pool.unlink(&mut self.table[id.0 as usize].pages, frame);
        id
    }
    /// The entry longest in a block leaves it.
    #[inline]
    pub fn pop(&mut self, pool: &mut Pool, id: BlockId) -> Option<Frame> {
        let pages = &mut self.table[id.0 as usize].pages;
        let frame = pages.back()?;
        pool.unlink(pages, frame);
        Some(frame)
    }

    /// Puts a block at the front of a queue it is not in.
    #[inline]
    pub fn push_front(&mut self, queue: &mut Queue, id: BlockId) {
        let block = &mut self.table[id.0 as usize];
        (block.prev, block.next) = (NONE, queue.head);
        match queue.head {
            NONE => queue.tail = id.0,
            head => self.table[head as usize].prev = id.0,
        }
        queue.head = id.0;
        queue.len += 1;
    }
    /// Puts a block at the back of a queue it is not in.
    pub fn push_back(&mut self, queue: &mut Queue, id: BlockId) {
        let block = &mut self.table[id.0 as usize];
        (block.prev, block.next) = (queue.tail, NONE);
        match queue.tail {
            NONE => queue.head = id.0,
            tail => self.table[tail as usize].next = id.0,
        }
        queue.tail = id.0;
        queue.len += 1;
    }
    /// Takes a block out of the queue it is in.
    #[inline]
    pub fn unlink(&mut self, queue: &mut Queue, id: BlockId) {
        let Block { prev, next, .. } = self.table[id.0 as usize];
        match prev {
            NONE => queue.head = next,
            prev => self.table[prev as usize].next = next,
        }
        match next {
            NONE => queue.tail = prev,
            next => self.table[next as usize].prev = prev,
        }
        queue.len -= 1;
    }
    /// Moves a block of a queue to its front.
    #[inline]
    pub fn promote(&mut self, queue: &mut Queue, id: BlockId) {
        if queue.head != id.0 {
            self.unlink(queue, id);
            self.push_front(queue, id);
        }
    }

    /// Checks the blocks of a queue, whose entries have this class, against the pool; how many
    /// entries they hold.
    pub fn check(&self, pool: &Pool, queue: &Queue, class: u8) -> Result<usize, String> {
        let (mut at, mut walked, mut entries) = (queue.head, 0, 0);
        while at != NONE {
            let block = &self.table[at as usize];
            if self.index.get(block.number) != at || block.pages.is_empty() {
                return Err(format!("block {} is empty or not indexed", block.number));
            }
            let mut linked = 0;
            for frame in pool.iter(&block.pages) {
                let inside = pool.page(frame).0 / self.width == block.number;
                if !inside || self.of(frame).0 != at || pool.class(frame) != class {
                    return Err(format!("page {} is in the wrong block", pool.page(frame).0));
                }
                linked += 1;
            }
            if linked != block.pages.len() {
                return Err(format!("block {}: {linked} pages linked", block.number));
            }
            (walked, entries, at) = (walked + 1, entries + linked, block.next);
        }
        if walked == queue.len() {
            Ok(entries)
        } else {
            Err(format!("{} blocks counted, {walked} linked", queue.len()))
        }
    }
}
