//! Looking blocks up: the map, the pages of it that are in memory, and CRCs.

use block::Lpn;

use super::{Engine, POISONED, Place, UNMAPPED};
use crate::geometry::{BLOCK, PAGE_WORDS, Pba};

impl Engine {
    /// Where a block is. Its map page must be in memory (see [`Engine::missing`]).
    #[inline]
    pub fn lookup(&self, lpn: Lpn) -> Place {
        match self.map.get(lpn.0) {
            UNMAPPED => Place::Unmapped,
            POISONED => Place::Damaged,
            pba => Place::At(Pba(pba)),
        }
    }

    /// Whether what is read is to be compared with its CRC.
    #[inline]
    pub fn verifies(&self) -> bool {
        self.options.verify
    }

    /// Switches that on, where the log keeps CRCs, or off.
    pub fn verify_reads(&mut self, on: bool) {
        self.options.verify = on && self.geometry.crc_plane;
    }

    /// CRC of a block as the second plane has it, or the buffer, if the log keeps them.
    #[inline]
    pub fn crc(&self, lpn: Lpn) -> Option<u32> {
        let logged = || self.map.get(self.crc_word(lpn.0));
        self.geometry.crc_plane.then(|| self.buffered_crc(lpn).unwrap_or_else(logged))
    }

    pub(super) fn crc_word(&self, lpn: u32) -> u32 {
        self.geometry.map_pages() * PAGE_WORDS + lpn
    }

    /// How many blocks from `lpn` on, `most` at most, are in one piece: at places that follow each
    /// other, or all unmapped, or all damaged.
    pub fn run(&self, lpn: Lpn, most: u32) -> (Place, u32) {
        let held = |lpn: Lpn| self.buffered(lpn).map(|(slot, _)| slot);
        if let Some(slot) = held(lpn) {
            return (Place::Held(slot), 1);
        }
        let first = self.lookup(lpn);
        let mut count = 1;
        while count < most && held(Lpn(lpn.0 + count)).is_none() {
            let expected = match first {
                Place::At(pba) => Place::At(Pba(pba.0 + count)),
                other => other,
            };
            if self.lookup(Lpn(lpn.0 + count)) != expected {
                break;
            }
            count += 1;
        }
        (first, count)
    }

    /// Whether the whole map is in memory, sound, and stays there: nothing of it has to be read or let go.
    #[inline]
    pub fn holds_map(&self) -> bool {
        self.options.map_memory.0 == 0 && self.map.is_whole()
    }

    /// The first map page that must be read before these blocks can be looked at: its number and
    /// its place.
    pub fn missing(&self, lpn: Lpn, count: u32) -> Option<(u32, Pba)> {
        let pages = lpn.0 / PAGE_WORDS..=(lpn.0 + count.max(1) - 1) / PAGE_WORDS;
        let plane = self.geometry.map_pages();
        let planes: &[u32] = if self.geometry.crc_plane { &[0, 1] } else { &[0] };
        for page in pages {
            for p in planes {
                let page = page + p * plane;
                if let Some(at) = self.map.missing(page) {
                    return Some((page, at.pba));
                }
            }
        }
        None
    }

    /// Whether a map page, or a page of CRCs, is not in memory, and where it is.
    pub fn page_missing(&self, page: u32) -> Option<Pba> {
        self.map.missing(page).map(|at| at.pba)
    }

    /// Gives a map page that was missing. Returns whether its CRC is right; if not, its blocks are
    /// damaged.
    pub fn install(&mut self, page: u32, bytes: &[u8]) -> bool {
        self.map.install(page, Some(bytes))
    }

    /// Whether a map page of these blocks, or a page of their CRCs, was found damaged.
    pub fn damaged_map(&self, lpn: Lpn, count: u32) -> bool {
        let pages = lpn.0 / PAGE_WORDS..=(lpn.0 + count.max(1) - 1) / PAGE_WORDS;
        let crcs = self.geometry.crc_plane.then_some(self.geometry.map_pages());
        let bad = |page: u32| self.map.is_bad(page);
        pages.into_iter().any(|page| bad(page) || crcs.is_some_and(|first| bad(first + page)))
    }

    /// Lets clean map pages leave memory if there are more than `map_memory` allows; the pages of
    /// these blocks stay.
    pub fn trim_memory(&mut self, lpn: Lpn, count: u32) {
        let most = self.map_limit();
        if most == u32::MAX {
            return;
        }
        for page in lpn.0 / PAGE_WORDS..=(lpn.0 + count.max(1) - 1) / PAGE_WORDS {
            self.map.touch(page);
        }
        if self.map.resident() > most {
            let keep = (lpn.0 / PAGE_WORDS, (lpn.0 + count.max(1) - 1) / PAGE_WORDS);
            self.map.evict(most, keep, self.geometry.map_pages());
        }
    }

    /// Map pages that may be in memory.
    pub(crate) fn map_limit(&self) -> u32 {
        self.limits.map
    }

    /// Bytes of memory that map, directory and segment table take.
    pub fn memory(&self) -> u64 {
        let pages = u64::from(self.map.resident()) * BLOCK as u64;
        let directory = self.map.directory().len() as u64 * (8 + 8 + 1);
        let table = size_of::<crate::segment::Segment>() as u64;
        let segments = u64::from(self.geometry.segments) * table;
        pages + directory + segments + self.placement.memory()
    }

    /// Number of blocks that are mapped. Looks at the whole map.
    pub fn mapped(&self) -> u64 {
        let at = |lpn: &u32| matches!(self.lookup(Lpn(*lpn)), Place::At(_));
        (0..self.geometry.logical).filter(at).count() as u64
    }
}
