//! The engine: decides and books. No I/O, no clock, no lock; a driver moves the data.
//!
//! Invariants:
//! * records are numbered when they are opened, user and gc together, without gaps;
//! * the map holds the newest admitted write of every block; live counts follow it;
//! * a block moves only to a record newer than every record of its old segment;
//! * a segment is free only when what emptied it is durable, nobody reads it, and no record in it
//!   is newer than the checkpoint.

mod admit;
mod buffer;
mod checkpoint;
mod clean;
mod head;
mod house;
mod limits;
mod look;
mod placement;
mod replay;
mod shadow;

use block::{Plant, Rng, StreamId};

use crate::counters::Counters;
use crate::error::LogError;
use crate::geometry::{BLOCK, Geometry, Pba, Seg};
use crate::map::{Map, PageAt};
use crate::options::{Ack, LogOptions, Placed};
use crate::planted::Planted;
use crate::record::Kind;
use crate::root::{HeadAt, Super};
use crate::segment::{Segments, State};
use crate::victim::Victim;

pub use buffer::Buffering;
use buffer::{Batch, Buffer};
pub use checkpoint::CheckpointWrite;
use head::Heads;
pub(crate) use head::kinds;
use house::House;
pub use house::{Occasion, Work};
use limits::Limits;
use placement::Placement;
pub use placement::{KNOWN_CLASSES, Known};

/// The map's value of a block that is not mapped.
pub(crate) const UNMAPPED: u32 = 0;
/// The map's value of a block whose data is known to be damaged.
pub(crate) const POISONED: u32 = u32::MAX;
/// Records after which a checkpoint is due, however short they are.
const MOST_RECORDS: u64 = 65_536;

/// A chain of segments that is written in sequence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HeadKind {
    /// The client's writes, of one class.
    User(u8),
    /// Copies made by cleaning, of one class.
    Gc(u8),
    /// Map pages of checkpoints.
    Meta,
}

impl HeadKind {
    pub(crate) fn record(self) -> Kind {
        match self {
            HeadKind::User(_) => Kind::User,
            HeadKind::Gc(_) => Kind::Gc,
            HeadKind::Meta => Kind::Meta,
        }
    }
    /// What its writes are hinted to be to a drive below: map pages, then each head of the client, and
    /// of cleaning.
    pub(crate) fn stream(self) -> StreamId {
        StreamId(match self {
            HeadKind::Meta => 1,
            HeadKind::User(n) => 2 + 2 * n,
            HeadKind::Gc(n) => 3 + 2 * n,
        })
    }
    pub(crate) fn is_user(self) -> bool {
        matches!(self, HeadKind::User(_))
    }
    /// Its place among all, in the order of [`crate::HeadsAt`].
    pub(crate) fn place(self, users: u8) -> usize {
        match self {
            HeadKind::User(0) => 0,
            HeadKind::Gc(0) => 1,
            HeadKind::Meta => 2,
            HeadKind::User(n) => 2 + usize::from(n),
            HeadKind::Gc(n) => 1 + usize::from(users) + usize::from(n),
        }
    }
    /// Whether it is one of so many.
    fn is_among(self, users: u8, gcs: u8) -> bool {
        match self {
            HeadKind::User(n) => n < users,
            HeadKind::Gc(n) => n < gcs,
            HeadKind::Meta => true,
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
    /// In this slot of the buffer: only [`Engine::run`] says so.
    Held(u32),
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
    limits: Limits,
    uuid: [u8; 16],
    instance: u32,
    epoch: u32,
    map: Map,
    segments: Segments,
    heads: Heads,
    placement: Placement,
    buffer: Buffer,
    batch: Batch,
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
    /// No record has been open for too long before.
    seal_from: u64,
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
        let whole = |name: &str, value: &str, expected: &str| LogError::Option {
            name: name.to_string(),
            value: value.to_string(),
            expected: format!("{expected} with map_memory"),
        };
        if options.map_memory.0 != 0 && options.placement != Placed::Two {
            return Err(whole(
                "placement",
                "not two",
                "two (others keep 4 bytes a block in memory)",
            ));
        }
        if options.map_memory.0 != 0 && options.ack == Ack::Buffer {
            return Err(whole(
                "ack",
                "buffer",
                "device (a buffer is emptied without reading the map)",
            ));
        }
        let mut engine = Engine {
            geometry,
            limits: Limits::new(&geometry, &options),
            uuid: sup.uuid,
            instance: sup.instance(),
            epoch: 0,
            map: Map::new(directory),
            segments: Segments::new(geometry.segments, geometry.segment),
            heads: Heads::new(1, 1),
            placement: Placement::new(Placed::Two, geometry.logical, None),
            buffer: Buffer::new(0),
            batch: Batch::default(),
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
            seal_from: 0,
            counters: Counters::default(),
            read_only: None,
            planted,
            options,
        };
        engine.place_as(engine.fitting());
        Ok(engine)
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
        self.heads[kind].at()
    }

    /// The heads there are.
    pub(crate) fn head_kinds(&self) -> impl Iterator<Item = HeadKind> + use<> {
        kinds(self.heads.users(), self.heads.gcs())
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
        self.unflushed >= u64::from(self.options.self_flush) && self.dirty()
    }

    /// Whether there is something a flush has to make durable.
    pub fn dirty(&self) -> bool {
        self.durable < self.seq
    }

    /// Blocks of log after which a checkpoint is due.
    fn checkpoint_volume(&self) -> u64 {
        // Each checkpoint empties the buffer.
        let buffer = 16 * u64::from(self.buffer_size());
        self.limits.checkpoint.max(buffer)
    }

    /// Whether a checkpoint is due.
    #[inline]
    fn wants_checkpoint(&self) -> bool {
        let limit = self.limits.map;
        self.written - self.checkpoint_written >= self.checkpoint_volume()
            || self.seq - self.checkpoint_seq >= MOST_RECORDS
            || (limit != u32::MAX && self.map.dirty_pages() >= limit / 2)
    }
}
