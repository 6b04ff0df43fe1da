//! The flat map: 32-bit words in pages of 4 KiB, made on first touch.
//!
//! One table of words serves two planes: places (word = block of the client), and, if the log keeps
//! them, CRCs (from the first page behind the map on). Invariants: a page that is not in memory and
//! has no place below is all zeroes; a page that changes while a checkpoint has not written it yet
//! is copied first; only pages whose newest contents are below may leave memory.

use std::collections::BTreeMap;

use block::crc32c;

use crate::geometry::{BLOCK, PAGE_WORDS, Pba};

const DIRTY: u8 = 1;
/// Belongs to the checkpoint under way and is not written yet.
const FROZEN: u8 = 2;
/// Written by the checkpoint under way; its place counts when that is committed.
const WRITTEN: u8 = 4;
/// Used since the clock hand passed.
const USED: u8 = 8;
/// Its copy below is damaged.
const BAD: u8 = 16;

type Page = Box<[u32; PAGE_WORDS as usize]>;

/// Where the last committed copy of a page lies.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PageAt {
    /// Its place; 0 = it is all zeroes.
    pub pba: Pba,
    /// CRC of its bytes.
    pub crc: u32,
}

#[derive(Debug)]
pub struct Map {
    pages: Vec<Option<Page>>,
    flags: Vec<u8>,
    directory: Vec<PageAt>,
    dirty: Vec<u32>,
    /// Contents at the checkpoint of pages that changed before it wrote them.
    shadow: BTreeMap<u32, Page>,
    /// Pages of the checkpoint under way that are not written yet.
    frozen: Vec<u32>,
    /// What the checkpoint under way has written: page and place.
    moved: Vec<(u32, PageAt)>,
    resident: u32,
    /// Pages that have a place below and are not in memory.
    absent: u32,
    /// Pages whose copy below is damaged.
    bad: u32,
    hand: u32,
}

fn split(word: u32) -> (usize, usize) {
    ((word / PAGE_WORDS) as usize, (word % PAGE_WORDS) as usize)
}

fn zeroed() -> Page {
    Box::new([0; PAGE_WORDS as usize])
}

impl Map {
    pub fn new(directory: Vec<PageAt>) -> Map {
        let n = directory.len();
        let absent = directory.iter().filter(|at| at.pba.0 != 0).count() as u32;
        Map {
            pages: (0..n).map(|_| None).collect(),
            flags: vec![0; n],
            directory,
            dirty: Vec::new(),
            shadow: BTreeMap::new(),
            frozen: Vec::new(),
            moved: Vec::new(),
            resident: 0,
            absent,
            bad: 0,
            hand: 0,
        }
    }

    /// A word. The page must be in memory or have no place below.
    #[inline]
    pub fn get(&self, word: u32) -> u32 {
        let (page, at) = split(word);
        match &self.pages[page] {
            Some(words) => words[at],
            None => 0,
        }
    }

    /// Marks a page as used, for the clock.
    #[inline]
    pub fn touch(&mut self, page: u32) {
        self.flags[page as usize] |= USED;
    }

    #[inline]
    pub fn set(&mut self, word: u32, value: u32) {
        let (page, at) = split(word);
        if self.flags[page] & (DIRTY | FROZEN) != DIRTY || self.pages[page].is_none() {
            self.prepare(page);
        }
        if let Some(words) = &mut self.pages[page] {
            words[at] = value;
        }
    }

    /// Makes a page ready to be changed.
    #[cold]
    fn prepare(&mut self, page: usize) {
        if self.pages[page].is_none() {
            assert!(self.directory[page].pba.0 == 0, "a map page is changed that is not in memory");
            self.pages[page] = Some(zeroed());
            self.resident += 1;
        }
        let flags = &mut self.flags[page];
        if *flags & FROZEN != 0 {
            *flags &= !FROZEN;
            if let Some(words) = &self.pages[page] {
                self.shadow.insert(page as u32, words.clone());
            }
        }
        if *flags & DIRTY == 0 {
            *flags |= DIRTY;
            self.dirty.push(page as u32);
        }
    }

    /// Lets the next checkpoint write a page though it does not change.
    pub fn make_dirty(&mut self, page: u32) {
        self.prepare(page as usize);
    }

    pub fn directory(&self) -> &[PageAt] {
        &self.directory
    }

    pub fn dirty_pages(&self) -> u32 {
        self.dirty.len() as u32
    }

    pub fn resident(&self) -> u32 {
        self.resident + self.shadow.len() as u32
    }

    /// Whether every page can be looked at as it is: none is absent, none damaged. Asked before each
    /// request, so that a map in memory costs nothing.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.absent == 0 && self.bad == 0
    }

    /// Whether that is so by the pages themselves.
    pub fn counts_are_right(&self) -> bool {
        let gone = |(page, at): (&Option<Page>, &PageAt)| page.is_none() && at.pba.0 != 0;
        let absent = self.pages.iter().zip(&self.directory).filter(|one| gone(*one)).count();
        let bad = self.flags.iter().filter(|flags| **flags & BAD != 0).count();
        (absent, bad) == (self.absent as usize, self.bad as usize)
    }

    /// Whether a page must be read before it can be looked at, and whence.
    #[inline]
    pub fn missing(&self, page: u32) -> Option<PageAt> {
        let i = page as usize;
        let at = self.directory[i];
        (self.pages[i].is_none() && at.pba.0 != 0).then_some(at)
    }

    /// Whether the copy of a page below is damaged.
    pub fn is_bad(&self, page: u32) -> bool {
        self.flags[page as usize] & BAD != 0
    }

    pub fn set_bad(&mut self, page: u32) {
        self.bad += u32::from(!self.is_bad(page));
        self.flags[page as usize] |= BAD;
        self.install(page, None);
    }

    /// Puts a page read from below into memory; `None` for one that is damaged. Returns whether it
    /// was sound.
    pub fn install(&mut self, page: u32, bytes: Option<&[u8]>) -> bool {
        let i = page as usize;
        let mut words = zeroed();
        if let Some(bytes) = bytes {
            if crc32c(0, bytes) != self.directory[i].crc {
                self.set_bad(page);
                return false;
            }
            for (word, b) in words.iter_mut().zip(bytes.chunks_exact(4)) {
                *word = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
            }
        }
        if self.pages[i].is_none() {
            self.resident += 1;
            self.absent -= u32::from(self.directory[i].pba.0 != 0);
        }
        self.pages[i] = Some(words);
        self.flags[i] |= USED;
        true
    }

    /// Lets clean pages leave memory until `most` are left, as far as there are any. The pages
    /// from `keep.0` to `keep.1` stay, in each plane of `plane` pages.
    pub fn evict(&mut self, most: u32, keep: (u32, u32), plane: u32) {
        let n = self.pages.len() as u32;
        let mut steps = 2 * n;
        while self.resident() > most && steps > 0 {
            steps -= 1;
            let page = self.hand;
            self.hand = (self.hand + 1) % n;
            let i = page as usize;
            let busy = self.flags[i] & (DIRTY | FROZEN | WRITTEN | BAD) != 0;
            if self.pages[i].is_none() || busy || (keep.0..=keep.1).contains(&(page % plane)) {
                continue;
            }
            if self.flags[i] & USED != 0 {
                self.flags[i] &= !USED;
                continue;
            }
            self.pages[i] = None;
            self.resident -= 1;
            self.absent += u32::from(self.directory[i].pba.0 != 0);
        }
    }

    /// All dirty pages belong to the checkpoint that begins.
    pub fn freeze(&mut self) {
        assert!(self.frozen.is_empty() && self.moved.is_empty(), "two checkpoints at once");
        self.frozen = std::mem::take(&mut self.dirty);
        // Ascending: pages of one region lie together.
        self.frozen.sort_unstable();
        for page in &self.frozen {
            let flags = &mut self.flags[*page as usize];
            *flags = *flags & !DIRTY | FROZEN;
        }
        self.frozen.reverse();
    }

    /// Number of pages the checkpoint still has to write; pages that are all zeroes are done
    /// without.
    pub fn left_to_write(&mut self) -> u32 {
        while let Some(page) = self.frozen.last().copied() {
            let zero = match self.shadow.get(&page) {
                Some(words) => words.iter().all(|w| *w == 0),
                None => {
                    self.pages[page as usize].as_ref().is_none_or(|w| w.iter().all(|w| *w == 0))
                }
            };
            if !zero {
                break;
            }
            self.frozen.pop();
            self.written(page, PageAt::default());
        }
        self.frozen.len() as u32
    }

    /// Takes the next page of the checkpoint, which goes to `pba`: its number and CRC; its bytes are
    /// appended to `out`.
    pub fn write_next(&mut self, pba: Pba, out: &mut Vec<u8>) -> Option<(u32, u32)> {
        let page = self.frozen.pop()?;
        let start = out.len();
        let words = self.shadow.get(&page).or(self.pages[page as usize].as_ref())?;
        out.resize(start + BLOCK, 0);
        // In place: a page is copied as a whole, not word by word.
        for (bytes, word) in out[start..].chunks_exact_mut(4).zip(words.iter()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let crc = crc32c(0, &out[start..]);
        self.written(page, PageAt { pba, crc });
        Some((page, crc))
    }

    fn written(&mut self, page: u32, at: PageAt) {
        self.shadow.remove(&page);
        let flags = &mut self.flags[page as usize];
        *flags = *flags & !FROZEN | WRITTEN;
        self.moved.push((page, at));
    }

    /// The directory as it is once the checkpoint is committed, 8 bytes a page.
    pub fn encode_directory(&self, out: &mut Vec<u8>) {
        let start = out.len();
        for at in &self.directory {
            out.extend_from_slice(&at.pba.0.to_le_bytes());
            out.extend_from_slice(&at.crc.to_le_bytes());
        }
        for (page, at) in &self.moved {
            let place = start + *page as usize * 8;
            out[place..place + 4].copy_from_slice(&at.pba.0.to_le_bytes());
            out[place + 4..place + 8].copy_from_slice(&at.crc.to_le_bytes());
        }
    }

    /// Pages that the checkpoint under way has written, and where.
    pub fn under_way(&self) -> impl Iterator<Item = (u32, Pba)> {
        self.moved.iter().map(|(page, at)| (*page, at.pba))
    }

    /// The checkpoint is durable: its places count. Calls `old` with each place that no longer
    /// does.
    pub fn commit(&mut self, mut old: impl FnMut(Pba)) {
        assert!(self.frozen.is_empty(), "a checkpoint is committed that is not written");
        for (page, at) in std::mem::take(&mut self.moved) {
            let i = page as usize;
            self.flags[i] &= !WRITTEN;
            let before = std::mem::replace(&mut self.directory[i], at);
            if before.pba.0 != 0 {
                old(before.pba);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of a checkpoint is written as it was when that began, whatever changes meanwhile; one of zeroes is not.
    #[test]
    fn a_checkpoint_writes_pages_as_they_were_when_it_began() {
        let mut map = Map::new(vec![PageAt::default(); 4]);
        // Full, changed while it waits; full, and left alone; emptied again; emptied, and filled while it waits.
        for page in 0..4 {
            (0..PAGE_WORDS)
                .for_each(|at| map.set(page * PAGE_WORDS + at, if page < 2 { at + 1 } else { 0 }));
        }
        map.freeze();
        map.set(0, 77);
        (0..PAGE_WORDS).for_each(|at| map.set(3 * PAGE_WORDS + at, 5));
        let (mut bytes, mut pages) = (Vec::new(), Vec::new());
        while map.left_to_write() > 0 {
            let (page, _) = map.write_next(Pba(100 + pages.len() as u32), &mut bytes).unwrap();
            pages.push(page);
        }
        assert_eq!(pages, [0, 1]);
        let word = |at: u32| u32::from_le_bytes(bytes[at as usize * 4..][..4].try_into().unwrap());
        assert_eq!((word(0), word(PAGE_WORDS), word(PAGE_WORDS - 1)), (1, 1, PAGE_WORDS));
        map.commit(|_| panic!("nothing was there before"));
        assert_eq!((map.get(0), map.get(3 * PAGE_WORDS), map.dirty_pages()), (77, 5, 2));
        let places: Vec<u32> = map.directory().iter().map(|at| at.pba.0).collect();
        assert_eq!(places, [100, 101, 0, 0]);
    }
}
