//! The engine: decides and books. No I/O, no clock, no lock; a driver moves the data.
//!
//! Invariants:
//! * records are numbered when they are opened, user and gc together, without gaps;
//! * the map holds the newest admitted write of every block; live counts follow it;
//! * a block moves only to a record newer than every record of its old segment;
//! * a segment is free only when what emptied it is durable, nobody reads it, and no record in it
//!   is newer than the checkpoint.

mod admit;
mod checkpoint;
mod clean;
mod head;
mod house;
mod replay;

use block::{Lpn, Plant, Rng};

use crate::counters::Counters;
use crate::error::LogError;
use crate::geometry::{BLOCK, Geometry, PAGE_WORDS, Pba, Seg};
use crate::map::{Map, PageAt};
use crate::options::LogOptions;
use crate::planted::Planted;
use crate::record::Kind;
use crate::root::{HeadAt, Super};
use crate::segment::{Segments, State};
use crate::victim::Victim;

pub use checkpoint::CheckpointWrite;
use head::Head;
use house::House;
pub use house::{Occasion, Work};

/// The map's value of a block that is not mapped.
pub(crate) const UNMAPPED: u32 = 0;
/// The map's value of a block whose data is known to be damaged.
pub(crate) const POISONED: u32 = u32::MAX;
/// Records after which a checkpoint is due, however short they are.
const MOST_RECORDS: u64 = 65_536;

/// A chain of segments that is written in sequence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HeadKind {
    /// The client's writes.
    User = 0,
    /// Copies made by cleaning.
    Gc = 1,
    /// Map pages of checkpoints.
    Meta = 2,
}

impl HeadKind {
    pub(crate) fn record(self) -> Kind {
        match self {
            HeadKind::User => Kind::User,
            HeadKind::Gc => Kind::Gc,
            HeadKind::Meta => Kind::Meta,
        }
    }
}

/// Where a block of the client is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Nowhere: it reads as zeroes.
    Unmapped,
    /// Its data is damaged: it reads as an error.
    Damaged,
    /// There.
    At(Pba),
}

/// Takes what the engine wants written. Blocks of one call are contiguous; a header may come before
/// or after the data it describes has been written, and needs no order with it.
pub trait Sink {
    /// `count` blocks of the request, from its `first`-th on, belong at `pba`.
    fn data(&mut self, head: HeadKind, pba: Pba, first: u32, count: u32);
    /// This header belongs at `pba`.
    fn header(&mut self, head: HeadKind, pba: Pba, block: &[u8; BLOCK]);
}

/// Blocks admitted that are not known to be durable.
#[derive(Clone, Copy, Debug)]
struct Floating {
    seq: u64,
    from: u32,
    to: u32,
}

/// The tables of a log and all decisions over them.
#[derive(Debug)]
pub struct Engine {
    geometry: Geometry,
    options: LogOptions,
    uuid: [u8; 16],
    instance: u32,
    epoch: u32,
    map: Map,
    segments: Segments,
    heads: [Head; 3],
    /// Newest record opened.
    seq: u64,
    /// All records up to this are durable.
    durable: u64,
    floating: Vec<Floating>,
    /// Blocks admitted since the last flush.
    unflushed: u64,
    /// Clock of ages: blocks written to segments.
    written: u64,
    generation: u64,
    /// The last record in the committed checkpoint.
    checkpoint_seq: u64,
    /// `written` at the committed checkpoint.
    checkpoint_written: u64,
    /// Segments whose pages only a checkpoint can move.
    moving: u32,
    pending: Option<checkpoint::Begun>,
    house: House,
    /// A buffer for what checkpoints write.
    spare: Vec<u8>,
    policy: Box<dyn Victim>,
    rng: Rng,
    now: u64,
    /// Newest record that says or undoes anything.
    content: u64,
    /// Up to here records are known to be durable by what some header on its way says.
    announced: u64,
    /// When the last record was sealed.
    sealed: u64,
    counters: Counters,
    /// Why nothing may be written.
    read_only: Option<String>,
    planted: Plant<Planted>,
}

impl Engine {
    /// The engine of an empty log, or of one whose directory is given; segments are all free.
    pub(crate) fn new(
        sup: &Super,
        options: &LogOptions,
        directory: Vec<PageAt>,
        planted: Plant<Planted>,
    ) -> Result<Engine, LogError> {
        let geometry = sup.geometry;
        let policy = options.gc_victim.build();
        let mut options = options.clone();
        options.segment = block::Bytes(u64::from(geometry.segment) * BLOCK as u64);
        let kinds = [HeadKind::User, HeadKind::Gc, HeadKind::Meta];
        Ok(Engine {
            geometry,
            uuid: sup.uuid,
            instance: sup.instance(),
            epoch: 0,
            map: Map::new(directory),
            segments: Segments::new(geometry.segments, geometry.segment),
            heads: kinds.map(Head::new),
            seq: 0,
            durable: 0,
            floating: Vec::new(),
            unflushed: 0,
            written: 0,
            generation: 0,
            checkpoint_seq: 0,
            checkpoint_written: 0,
            moving: 0,
            pending: None,
            house: House::default(),
            spare: Vec::new(),
            policy,
            rng: Rng::stream(options.seed, "remap/victim"),
            now: 0,
            content: 0,
            announced: 0,
            sealed: 0,
            counters: Counters::default(),
            read_only: None,
            planted,
            options,
        })
    }

    /// The shape of the log.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The options in force.
    pub fn options(&self) -> &LogOptions {
        &self.options
    }

    /// What was done since the log was made or opened.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Tells the time: nanoseconds on the driver's clock.
    pub fn set_now(&mut self, ns: u64) {
        self.now = ns;
    }

    /// Why nothing may be written, if so.
    pub fn read_only(&self) -> Option<&str> {
        self.read_only.as_deref()
    }

    #[doc(hidden)]
    pub fn has(&self, bug: Planted) -> bool {
        self.planted.has(bug)
    }

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

    /// CRC of a block as the second plane has it, if the log keeps them.
    #[inline]
    pub fn crc(&self, lpn: Lpn) -> Option<u32> {
        self.geometry.crc_plane.then(|| self.map.get(self.crc_word(lpn.0)))
    }

    fn crc_word(&self, lpn: u32) -> u32 {
        self.geometry.map_pages() * PAGE_WORDS + lpn
    }

    /// How many blocks from `lpn` on, `most` at most, are in one piece: at places that follow each
    /// other, or all unmapped, or all damaged.
    pub fn run(&self, lpn: Lpn, most: u32) -> (Place, u32) {
        let first = self.lookup(lpn);
        let mut count = 1;
        while count < most {
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
        match self.options.map_memory.0 {
            0 => u32::MAX,
            bytes => (bytes / BLOCK as u64).max(16) as u32,
        }
    }

    /// Bytes of memory that map, directory and segment table take.
    pub fn memory(&self) -> u64 {
        let pages = u64::from(self.map.resident()) * BLOCK as u64;
        let directory = self.map.directory().len() as u64 * (8 + 8 + 1);
        let table = size_of::<crate::segment::Segment>() as u64;
        pages + directory + u64::from(self.geometry.segments) * table
    }

    /// Number of blocks that are mapped. Looks at the whole map.
    pub fn mapped(&self) -> u64 {
        let at = |lpn: &u32| matches!(self.lookup(Lpn(*lpn)), Place::At(_));
        (0..self.geometry.logical).filter(at).count() as u64
    }

    /// Free segments.
    pub fn free_segments(&self) -> u32 {
        self.segments.free()
    }

    /// The state of a segment: its live blocks, and whether it is free.
    pub fn segment(&self, seg: Seg) -> (u32, bool) {
        let s = self.segments.get(seg);
        (s.live, s.state == State::Free)
    }

    /// Whether a record is open: what was admitted to it is on nobody's way yet.
    pub fn has_open_records(&self) -> bool {
        self.heads.iter().any(|head| head.open.is_some())
    }

    /// Newest record opened, and newest that is durable.
    pub fn seqs(&self) -> (u64, u64) {
        (self.seq, self.durable)
    }

    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    pub(crate) fn map_mut(&mut self) -> &mut Map {
        &mut self.map
    }

    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// The log's short number, in every record.
    pub fn instance(&self) -> u32 {
        self.instance
    }

    /// Where a head is: for the first chain of a root.
    pub(crate) fn head_at(&self, kind: HeadKind) -> HeadAt {
        let head = &self.heads[kind as usize];
        HeadAt { seg: head.seg, offset: head.offset, next: head.next }
    }

    /// Holds a place's segment: it is not used again until [`Engine::release`].
    pub fn hold(&mut self, pba: Pba) {
        if let Some(seg) = self.geometry.seg(pba) {
            self.segments.get_mut(seg).holds += 1;
        }
    }

    /// Lets go what [`Engine::hold`] held.
    pub fn release(&mut self, pba: Pba) {
        if let Some(seg) = self.geometry.seg(pba) {
            self.segments.get_mut(seg).holds -= 1;
        }
    }

    /// Whether what is at a place is known to be durable. After a failed write or flush only such
    /// places may be read.
    pub fn is_durable(&self, pba: Pba) -> bool {
        !self.floating.iter().any(|f| (f.from..f.to).contains(&pba.0))
    }

    /// All records up to `seq` are durable.
    fn set_durable(&mut self, seq: u64, freed: &mut Vec<Seg>) {
        self.durable = self.durable.max(seq);
        let durable = self.durable;
        self.floating.retain(|f| f.seq > durable);
        self.reclaim(freed);
    }

    /// Frees what may be freed.
    pub fn reclaim(&mut self, freed: &mut Vec<Seg>) {
        let durable = match self.has(Planted::ReuseBeforeDurable) {
            true => u64::MAX,
            false => self.durable,
        };
        let before = freed.len();
        self.segments.reclaim(durable, self.checkpoint_seq, |seg| freed.push(seg));
        self.counters.freed += (freed.len() - before) as u64;
    }

    /// A flush of everything admitted so far begins: seals both open records. Returns the newest
    /// record, for [`Engine::flush_end`].
    pub fn flush_begin(&mut self, sink: &mut impl Sink) -> u64 {
        (self.unflushed, self.house.sealed) = (0, false);
        self.house.tries += 1;
        self.house.flushing += 1;
        self.seal_all(sink)
    }

    /// A flush has ended that began with this record: segments that become free are added to `freed`.
    pub fn flush_end(&mut self, seq: u64, freed: &mut Vec<Seg>) {
        self.house.flushing -= 1;
        self.set_durable(seq, freed);
    }

    /// Whether so much was admitted since the last flush that the log should flush by itself.
    fn wants_flush(&self) -> bool {
        self.unflushed >= u64::from(self.options.self_flush)
    }

    /// Whether there is something a flush has to make durable.
    pub fn dirty(&self) -> bool {
        self.durable < self.seq
    }

    /// Blocks of log after which a checkpoint is due.
    fn checkpoint_volume(&self) -> u64 {
        (self.geometry.physical() / 64).max(4 * u64::from(self.geometry.segment))
    }

    /// Whether a checkpoint is due.
    fn wants_checkpoint(&self) -> bool {
        let limit = self.map_limit();
        self.written - self.checkpoint_written >= self.checkpoint_volume()
            || self.seq - self.checkpoint_seq >= MOST_RECORDS
            || (limit != u32::MAX && self.map.dirty_pages() >= limit / 2)
    }
}
