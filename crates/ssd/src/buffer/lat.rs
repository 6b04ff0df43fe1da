//! The look-up table of append-only isolation: two bits per chunk of the drive, and what some
//! readings of "re-access" need beside them (spec section 3; paper 3, Algorithm 1).

use std::ops::Range;

/// What makes the write of a page that is not buffered a *re-access* of its chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    /// The chunk was written large before, be it a page earlier: the printed algorithm, which
    /// makes the policy an LRU.
    Literal,
    /// The chunk had been written large when the request began.
    PerRequest,
    /// The page lies below the highest page of the chunk that was written large.
    Frontier,
    /// The chunk was written large, and the page held data.
    Mapped,
    /// The page held data.
    MappedAny,
    /// As `Mapped`, but only small requests count.
    Evidence,
    /// As `Mapped`, but a chunk that is written again from its start on is append-only again.
    Sweep,
}

impl Reading {
    /// Bytes per chunk beside the two bits.
    fn extra(self, chunk: u32) -> u64 {
        match self {
            Reading::Frontier | Reading::Sweep if chunk <= 256 => 1,
            Reading::Frontier | Reading::Sweep => 2,
            _ => 0,
        }
    }
}

/// The write of a page that is not buffered.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteMiss {
    pub page: u32,
    pub large: bool,
    /// It held data before its request.
    pub mapped: bool,
}

/// Which chunks were written large (LRB), and which of them were written again (WRB).
#[derive(Clone, Debug)]
pub(super) struct Lat {
    reading: Reading,
    /// Pages per chunk.
    chunk: u32,
    pages: u32,
    large: Vec<u64>,
    rewritten: Vec<u64>,
    /// The page after the one of each chunk that was written large last (`Sweep`) or is the
    /// highest such (`Frontier`).
    next: Vec<u16>,
    /// The chunk that the request at work entered last, and its bits then.
    entered: (u64, u32, bool, bool),
}

impl Lat {
    pub fn new(reading: Reading, chunk: u32, pages: u32) -> Lat {
        let chunks = pages.div_ceil(chunk) as usize;
        let words = chunks.div_ceil(64);
        let next = if reading.extra(chunk) > 0 { chunks } else { 0 };
        Lat {
            reading,
            chunk,
            pages,
            large: vec![0; words],
            rewritten: vec![0; words],
            next: vec![0; next],
            entered: (0, u32::MAX, false, false),
        }
    }

    /// DRAM it takes; `bits`: the two bits per chunk only, as the paper counts.
    pub fn bytes(&self, bits: bool) -> u64 {
        let chunks = u64::from(self.pages.div_ceil(self.chunk));
        let extra = if bits { 0 } else { self.reading.extra(self.chunk) };
        (2 * chunks).div_ceil(8) + extra * chunks
    }

    /// A request touches a page: what the bits of its chunk were when it came there.
    pub fn enter(&mut self, request: u64, page: u32) {
        let chunk = page / self.chunk;
        if self.reading == Reading::PerRequest
            && (self.entered.0, self.entered.1) != (request, chunk)
        {
            self.entered = (request, chunk, get(&self.large, chunk), get(&self.rewritten, chunk));
        }
    }

    /// A buffered page was written.
    pub fn write_hit(&mut self, page: u32) {
        set(&mut self.rewritten, page / self.chunk);
    }

    /// A page that is not buffered is written; whether it is append-only.
    pub fn write_miss(&mut self, miss: WriteMiss) -> bool {
        let (chunk, offset) = (miss.page / self.chunk, (miss.page % self.chunk) as u16);
        let (mut large, mut rewritten) = (get(&self.large, chunk), get(&self.rewritten, chunk));
        if self.reading == Reading::PerRequest {
            (large, rewritten) = (self.entered.2, self.entered.3);
        }
        let again = match self.reading {
            Reading::Literal | Reading::PerRequest => large,
            Reading::Frontier => large && offset < self.next[chunk as usize],
            Reading::Mapped => large && miss.mapped,
            Reading::MappedAny => miss.mapped,
            Reading::Evidence => large && miss.mapped && !miss.large,
            Reading::Sweep => {
                let goes_on = offset == 0 || offset == self.next[chunk as usize];
                large && miss.mapped && !(miss.large && goes_on)
            }
        };
        if self.reading == Reading::Sweep && miss.large {
            if offset == 0 {
                clear(&mut self.rewritten, chunk);
                rewritten = false;
            }
            self.next[chunk as usize] = offset + 1;
        }
        let append = miss.large && !rewritten && !again;
        if miss.large {
            set(&mut self.large, chunk);
        }
        if append && self.reading == Reading::Frontier {
            let next = &mut self.next[chunk as usize];
            *next = (*next).max(offset + 1);
        }
        if !append && (miss.large || again) {
            set(&mut self.rewritten, chunk);
        }
        append
    }

    /// Whether a page that is not buffered, and is read, lies in an append-only chunk.
    pub fn read_miss(&self, page: u32) -> bool {
        if self.reading == Reading::PerRequest {
            return self.entered.2 && !self.entered.3;
        }
        let chunk = page / self.chunk;
        get(&self.large, chunk) && !get(&self.rewritten, chunk)
    }

    /// Pages were discarded: chunks without data forget.
    pub fn forget(&mut self, pages: Range<u32>, written: &dyn Fn(u32) -> bool) {
        if pages.is_empty() {
            return;
        }
        for chunk in pages.start / self.chunk..=(pages.end - 1) / self.chunk {
            if !get(&self.large, chunk) && !get(&self.rewritten, chunk) {
                continue;
            }
            let (first, end) = (chunk * self.chunk, ((chunk + 1) * self.chunk).min(self.pages));
            // Discards come in ascending order: what is left lies behind them.
            if !(first..end).rev().any(written) {
                clear(&mut self.large, chunk);
                clear(&mut self.rewritten, chunk);
                if let Some(next) = self.next.get_mut(chunk as usize) {
                    *next = 0;
                }
            }
        }
    }

    /// Chunks written large, those of them not written again since, and all written again.
    pub fn counts(&self) -> (u64, u64, u64) {
        let ones = |words: &mut dyn Iterator<Item = u64>| -> u64 {
            words.map(|word| u64::from(word.count_ones())).sum()
        };
        let append = self.large.iter().zip(&self.rewritten).map(|(l, r)| l & !r);
        (
            ones(&mut self.large.iter().copied()),
            ones(&mut append.into_iter()),
            ones(&mut self.rewritten.iter().copied()),
        )
    }
}

#[inline]
fn get(words: &[u64], at: u32) -> bool {
    words[at as usize / 64] >> (at % 64) & 1 == 1
}
#[inline]
fn set(words: &mut [u64], at: u32) {
    words[at as usize / 64] |= 1 << (at % 64);
}
#[inline]
fn clear(words: &mut [u64], at: u32) {
    words[at as usize / 64] &= !(1 << (at % 64));
}
