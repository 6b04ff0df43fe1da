//! Statistics of a stream in one pass and bounded memory: what `varve trace info` prints.

use std::collections::BTreeMap;

use block::{AppId, Bytes, Span, Time, UNIT_BYTES};

use crate::record::{BLOCK_RECORDS, Record, Source, SourceError, TraceOp};

/// Upper bounds of the request sizes told apart; a last class holds all that are larger. The odd
/// ones (12 KiB, 60 KiB) separate `< 16 KiB` and `< 64 KiB` from requests of just that size.
pub const SIZE_BOUNDS: [u64; 15] = [
    512,
    1 << 10,
    2 << 10,
    4 << 10,
    8 << 10,
    12 << 10,
    16 << 10,
    32 << 10,
    60 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    4 << 20,
];

/// Pages of one chunk of a bitmap: 2 MiB of address space in 128 bytes.
const CHUNK_PAGES: u64 = 512;
const WORDS: usize = CHUNK_PAGES as usize / 64;
/// Windows listed one by one; later ones only count in mean and maximum.
const LISTED_WINDOWS: usize = 1024;

/// What to collect.
#[derive(Clone, Copy, Debug)]
pub struct InfoOptions {
    /// Length of a working-set window.
    pub window: Span,
    /// Chunks of page bitmaps (2 MiB of address space, about 150 bytes each) kept at most; pages
    /// beyond are counted in [`TraceInfo::untracked_pages`].
    pub max_chunks: usize,
}

impl Default for InfoOptions {
    fn default() -> Self {
        InfoOptions { window: Span::from_ps(10_000_000_000_000), max_chunks: 1 << 21 }
    }
}

/// Requests and bytes of one kind.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Tally {
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
    /// Bytes of a request on average; 0 without requests.
    pub fn mean(&self) -> Bytes {
        Bytes(self.bytes.checked_div(self.requests).unwrap_or(0))
    }
}

/// The counts of a trace or of one of its apps.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Reads.
    pub read: Tally,
    /// Writes.
    pub write: Tally,
    /// Flushes; they have no bytes.
    pub flush: Tally,
    /// Discards.
    pub discard: Tally,
    /// Writes of zeroes without data; they count neither as writes nor in footprints.
    pub zero: Tally,
    /// Distinct 4 KiB pages read or written.
    pub footprint_pages: u64,
    /// Distinct 4 KiB pages read.
    pub read_pages: u64,
    /// Distinct 4 KiB pages written.
    pub written_pages: u64,
    /// Pages written, each as often as it was.
    pub page_writes: u64,
    /// Of these, writes of a page written before.
    pub page_rewrites: u64,
    /// Reads and writes that start where the previous one of their kind ended.
    pub sequential: u64,
    /// Reads and writes whose start and length are multiples of 4 KiB.
    pub aligned: u64,
    /// First byte behind the highest one touched, of reads, writes, zeroes and discards.
    pub end: Bytes,
}

impl Counts {
    /// All requests.
    pub fn requests(&self) -> u64 {
        let all = [self.read, self.write, self.flush, self.discard, self.zero];
        all.iter().map(|t| t.requests).sum()
    }
    /// Reads and writes.
    pub fn transfers(&self) -> Tally {
        Tally {
            requests: self.read.requests + self.write.requests,
            bytes: self.read.bytes.saturating_add(self.write.bytes),
        }
    }
}

/// Requests of one size class.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SizeClass {
    /// Largest size in the class; `None` = no bound.
    pub up_to: Option<Bytes>,
    /// Reads.
    pub read: Tally,
    /// Writes.
    pub write: Tally,
}

/// Distinct pages touched per window of time.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct WorkingSet {
    /// Length of a window.
    pub window: Span,
    /// Windows with at least one read or write.
    pub windows: u64,
    /// Pages of the first 1024 windows: (number of the window since the start, pages).
    pub listed: Vec<(u64, u64)>,
    /// Sum over all windows, for the mean.
    pub total_pages: u64,
    /// Pages of the largest window.
    pub max_pages: u64,
}

/// One application's part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AppInfo {
    /// Its number.
    pub app: AppId,
    /// Its counts.
    pub counts: Counts,
}

/// Statistics of a trace.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct TraceInfo {
    /// Everything together. Pages of different apps are different pages.
    pub total: Counts,
    /// Time of the first request.
    pub first: Time,
    /// Time of the last request.
    pub last: Time,
    /// Requests by size.
    pub sizes: Vec<SizeClass>,
    /// Working set per window.
    pub working_set: WorkingSet,
    /// By app, in order of their numbers.
    pub apps: Vec<AppInfo>,
    /// Page visits not tracked for want of memory; 0 = every count above is exact.
    pub untracked_pages: u64,
}

impl TraceInfo {
    /// From the first request to the last.
    pub fn span(&self) -> Span {
        self.last.since(self.first)
    }
}

/// Bits of the pages of one chunk.
#[derive(Clone, Copy, Default)]
struct Chunk {
    read: [u64; WORDS],
    written: [u64; WORDS],
}

/// What one request changed in a page set.
#[derive(Clone, Copy, Default)]
struct Touched {
    pages: u64,
    new: u64,
    new_of_kind: u64,
    untracked: u64,
}

/// Sets of pages read and written.
struct Pages {
    chunks: BTreeMap<(u16, u64), Chunk>,
    max: usize,
}

impl Pages {
    fn touch(&mut self, app: u16, offset: u64, len: u64, write: bool) -> Touched {
        let mut touched = Touched::default();
        let (mut page, end) = (offset / UNIT_BYTES, (offset + (len - 1)) / UNIT_BYTES + 1);
        while page < end {
            let stop = end.min((page / CHUNK_PAGES + 1) * CHUNK_PAGES);
            touched.pages += stop - page;
            let key = (app, page / CHUNK_PAGES);
            let room = self.chunks.len() < self.max;
            let chunk = match self.chunks.get_mut(&key) {
                Some(chunk) => chunk,
                None if room => self.chunks.entry(key).or_default(),
                None => {
                    touched.untracked += stop - page;
                    page = stop;
                    continue;
                }
            };
            while page < stop {
                let (word, bit) = ((page % CHUNK_PAGES / 64) as usize, page % 64);
                let n = (64 - bit).min(stop - page);
                let mask = (u64::MAX >> (64 - n)) << bit;
                let any = chunk.read[word] | chunk.written[word];
                let kind = if write { &mut chunk.written[word] } else { &mut chunk.read[word] };
                touched.new += u64::from((mask & !any).count_ones());
                touched.new_of_kind += u64::from((mask & !*kind).count_ones());
                *kind |= mask;
                page += n;
            }
        }
        touched
    }
}

/// Collects statistics record by record.
pub struct InfoCollector {
    info: TraceInfo,
    apps: BTreeMap<u16, AppState>,
    pages: Pages,
    window: Pages,
    /// Number and distinct pages of the current window.
    current: Option<(u64, u64)>,
}

#[derive(Default)]
struct AppState {
    counts: Counts,
    read_end: Option<u64>,
    write_end: Option<u64>,
}

impl InfoCollector {
    /// Nothing seen yet.
    pub fn new(options: &InfoOptions) -> InfoCollector {
        let pages = || Pages { chunks: BTreeMap::new(), max: options.max_chunks };
        let bounds = SIZE_BOUNDS.iter().map(|b| Some(Bytes(*b))).chain([None]);
        let mut info = TraceInfo {
            sizes: bounds.map(|up_to| SizeClass { up_to, ..SizeClass::default() }).collect(),
            ..TraceInfo::default()
        };
        info.working_set.window = options.window;
        InfoCollector {
            info,
            apps: BTreeMap::new(),
            pages: pages(),
            window: pages(),
            current: None,
        }
    }

    /// Counts one record.
    pub fn add(&mut self, r: &Record) {
        if self.apps.is_empty() {
            self.info.first = r.at;
        }
        self.info.last = self.info.last.max(r.at);
        let state = self.apps.entry(r.app.0).or_default();
        let counts = &mut state.counts;
        if r.op != TraceOp::Flush {
            counts.end = counts.end.max(Bytes(r.offset.0.saturating_add(r.len.0)));
        }
        match r.op {
            TraceOp::Read => counts.read.add(r.len.0),
            TraceOp::Write => counts.write.add(r.len.0),
            TraceOp::Flush => counts.flush.add(0),
            TraceOp::Discard => counts.discard.add(r.len.0),
            TraceOp::Zero => counts.zero.add(r.len.0),
        }
        if matches!(r.op, TraceOp::Read | TraceOp::Write) && r.len.0 > 0 {
            self.transfer(r);
        }
    }

    fn transfer(&mut self, r: &Record) {
        let write = r.op == TraceOp::Write;
        let (app, offset, len) = (r.app.0, r.offset.0, r.len.0.min(u64::MAX - r.offset.0));
        let state = self.apps.entry(app).or_default();
        let counts = &mut state.counts;
        let last = if write { &mut state.write_end } else { &mut state.read_end };
        counts.sequential += u64::from(*last == Some(offset));
        *last = Some(offset + len);
        counts.aligned += u64::from(offset % UNIT_BYTES == 0 && len % UNIT_BYTES == 0);
        let touched = self.pages.touch(app, offset, len, write);
        counts.footprint_pages += touched.new;
        self.info.untracked_pages += touched.untracked;
        if write {
            counts.written_pages += touched.new_of_kind;
            counts.page_writes += touched.pages;
            counts.page_rewrites += touched.pages - touched.untracked - touched.new_of_kind;
        } else {
            counts.read_pages += touched.new_of_kind;
        }
        let class = SIZE_BOUNDS.partition_point(|b| *b < len);
        let class = &mut self.info.sizes[class];
        if write { &mut class.write } else { &mut class.read }.add(len);
        self.in_window(r, write);
    }

    fn in_window(&mut self, r: &Record, write: bool) {
        let window =
            r.at.since(self.info.first).as_ps() / self.info.working_set.window.as_ps().max(1);
        if self.current.is_some_and(|(n, _)| n != window) {
            self.end_window();
        }
        let touched =
            self.window.touch(r.app.0, r.offset.0, r.len.0.min(u64::MAX - r.offset.0), write);
        self.current.get_or_insert((window, 0)).1 += touched.new;
    }

    fn end_window(&mut self) {
        let Some((n, pages)) = self.current.take() else { return };
        let set = &mut self.info.working_set;
        set.windows += 1;
        set.total_pages += pages;
        set.max_pages = set.max_pages.max(pages);
        if set.listed.len() < LISTED_WINDOWS {
            set.listed.push((n, pages));
        }
        self.window.chunks.clear();
    }

    /// The statistics.
    pub fn finish(mut self) -> TraceInfo {
        self.end_window();
        for (app, state) in &self.apps {
            sum(&mut self.info.total, &state.counts);
            self.info.apps.push(AppInfo { app: AppId(*app), counts: state.counts });
        }
        self.info
    }
}

fn sum(total: &mut Counts, part: &Counts) {
    let add = |a: &mut Tally, b: &Tally| {
        a.requests += b.requests;
        a.bytes = a.bytes.saturating_add(b.bytes);
    };
    add(&mut total.read, &part.read);
    add(&mut total.write, &part.write);
    add(&mut total.flush, &part.flush);
    add(&mut total.discard, &part.discard);
    add(&mut total.zero, &part.zero);
    total.footprint_pages += part.footprint_pages;
    total.read_pages += part.read_pages;
    total.written_pages += part.written_pages;
    total.page_writes += part.page_writes;
    total.page_rewrites += part.page_rewrites;
    total.sequential += part.sequential;
    total.aligned += part.aligned;
    total.end = total.end.max(part.end);
}

/// Reads a source to its end.
///
/// # Errors
/// The source's.
pub fn trace_info<S: Source + ?Sized>(
    source: &mut S,
    options: &InfoOptions,
) -> Result<TraceInfo, SourceError> {
    let mut collector = InfoCollector::new(options);
    let mut block = Vec::with_capacity(BLOCK_RECORDS);
    loop {
        source.fill(&mut block)?;
        if block.is_empty() {
            return Ok(collector.finish());
        }
        block.iter().for_each(|r| collector.add(r));
    }
}
