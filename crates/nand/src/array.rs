//! The array: the one place every flash operation passes.

use std::sync::Arc;

use block::{BlockId, EventHash, Span, Time};

use crate::image::{BlockImage, BlockMeta, Contents};
use crate::journal::Journal;
use crate::sched::Bookings;
use crate::trouble::Fate;
use crate::{
    Backing, BlockHeader, Cause, Fault, FaultPlan, Geometry, Image, Instant, Mark, NandStats, Oob,
    OpKind, OpRecord, Order, Payload, ReadCause, Sched, Ticket, Timing, Trail, WearTable,
};

/// One slot to program.
#[derive(Clone, Debug, Default)]
pub struct SlotWrite {
    /// The record beside it.
    pub oob: Oob,
    /// Why it is written.
    pub cause: Cause,
    /// Its data, if any was sent.
    pub payload: Payload,
}

/// One page of a program operation.
#[derive(Clone, Copy, Debug)]
pub struct PageProgram<'a> {
    /// Where.
    pub block: BlockId,
    /// Its slots, all of them.
    pub slots: &'a [SlotWrite],
    /// For the first page of a block.
    pub header: BlockHeader,
}

/// An operation as booked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Number of the (last) durable operation.
    pub op: u64,
    /// When it is done.
    pub end: Time,
    /// To ask later, where suspension may move the end.
    pub ticket: Ticket,
}

/// Why the array did not do as told. Breaking its rules is not among these: that panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NandError {
    /// The program reported failure at this block; the page holds nothing that may be used. The
    /// time is when the failure was known.
    ProgramFailed(BlockId, Time),
    /// The erase reported failure.
    EraseFailed(BlockId, Time),
    /// A cut of the fault plan struck: nothing works any more.
    PowerOff,
}

/// The flash array.
#[derive(Clone, Debug)]
pub struct Nand {
    pub(crate) geometry: Geometry,
    pub(crate) timing: Timing,
    pub(crate) sched: Sched,
    pub(crate) image: Image,
    /// Good blocks of the image by erase count.
    pub(crate) wear: WearTable,
    pub(crate) journal: Option<Journal>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) stats: NandStats,
    /// What operations waited for, if somebody asks.
    pub(crate) trail: Option<Box<Trail>>,
    hash: EventHash,
    now: Time,
    /// Durable operations so far.
    pub(crate) op: u64,
    /// Page reads so far.
    pub(crate) reads: u64,
    /// The latest end of all programs booked.
    programs_end: Time,
    off: Option<Time>,
    /// Where the cells are kept beside memory, if anywhere.
    pub(crate) backing: Option<Arc<dyn Backing>>,
    /// Why the backing failed: nothing works from then on.
    pub(crate) broken: Option<String>,
}

impl Nand {
    /// An erased array. `full` keeps whole records (needed for cuts and recovery); lean keeps
    /// only each slot's logical number.
    pub fn new(geometry: Geometry, timing: Timing, full: bool) -> Nand {
        let image = Image::blank(&geometry, full);
        Nand::from_image(geometry, timing, image)
    }

    /// Power-on of an array that holds `image`. Operation numbers start from 0 again.
    pub fn from_image(geometry: Geometry, timing: Timing, image: Image) -> Nand {
        let sched = Sched::new(&geometry, timing.order);
        Nand {
            sched,
            wear: WearTable::of(&image.meta),
            image,
            journal: None,
            faults: Vec::new(),
            stats: NandStats::default(),
            trail: None,
            hash: EventHash::default(),
            now: Time::ZERO,
            op: 0,
            reads: 0,
            programs_end: Time::ZERO,
            off: None,
            backing: None,
            broken: None,
            geometry,
            timing,
        }
    }

    /// Keeps what is programmed from here on in `backing`, which holds what the image holds.
    ///
    /// # Panics
    /// If only logical numbers are kept, or cuts may be asked for: a backing takes nothing back.
    pub fn back(&mut self, backing: Arc<dyn Backing>) {
        assert!(self.image.is_full(), "a backing needs whole records");
        assert!(self.journal.is_none(), "a backing takes nothing back");
        self.backing = Some(backing);
    }
    /// Whether a block that looks erased is: what a backing holds of an erase is all or nothing.
    pub fn erases_are_whole(&self) -> bool {
        self.backing.is_some()
    }
    /// Why the backing failed, if it did.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Keeps a journal of recent operations, so that a cut can be asked for.
    pub fn keep_journal(&mut self) {
        assert!(self.image.is_full(), "cuts need whole records");
        self.journal.get_or_insert_default();
    }

    /// The faults to come. Factory-bad blocks are marked at once.
    pub fn set_faults(&mut self, plan: &FaultPlan) {
        self.faults = plan.faults.clone();
        if self.faults.iter().any(|fault| matches!(fault, Fault::Cut(_))) {
            self.keep_journal();
        }
        for fault in &plan.faults {
            if let Fault::BadBlock { block } = fault {
                self.set_bad(*block);
            }
        }
    }

    /// The time of the request being served; operations booked from here on belong to it.
    #[inline]
    pub fn set_now(&mut self, now: Time) {
        self.now = now;
    }
    /// Forgets journal records of operations that ended by `now`.
    pub fn prune_journal(&mut self, now: Time) {
        if let Some(journal) = &mut self.journal {
            journal.prune(now);
        }
    }
    /// The recent durable operations, oldest first.
    pub fn journal(&self) -> impl Iterator<Item = &OpRecord> {
        self.journal.iter().flat_map(|journal| journal.records.iter())
    }

    /// Programs one page of each entry together: planes of one die at one page index, or the
    /// pages of a word line. All start and end at the same time.
    ///
    /// # Errors
    /// [`NandError::ProgramFailed`] (nothing of the operation may be used), [`NandError::PowerOff`].
    ///
    /// # Panics
    /// If a page is not the next of its block, or the block is full or marked bad.
    pub fn program(
        &mut self,
        at: Time,
        pages: &[PageProgram<'_>],
        told: bool,
    ) -> Result<Done, NandError> {
        self.powered()?;
        let first = &pages[0];
        let die = self.die_of(first.block);
        let page = self.image.meta[first.block.index()].next_page;
        let page_type = self.timing.page_type(page, self.geometry.pages_per_block);
        let span = self.timing.program_span(page_type);
        let (span, at) = self.delays(die, span, at);
        let booked =
            self.sched.program(&self.timing, self.now, at, die, pages.len() as u32, span, told);
        self.programs_end = self.programs_end.max(booked.end);
        if self.trail.is_some() {
            self.note_program(at, pages, booked);
        }
        let mut failed = None;
        let holds = self.timing.order == Order::ReadFirst && self.timing.enabled;
        for program in pages {
            let page = self.image.meta[program.block.index()].next_page;
            let fate =
                if self.faults.is_empty() { Fate::Works } else { self.program_fate(program.block) };
            if fate == Fate::Fails {
                failed.get_or_insert(program.block);
            }
            if holds {
                self.sched.holds(die, program.block, page);
            }
            self.store(program, page, fate);
            self.powered()?;
            if !self.faults.is_empty() {
                self.lay_overlays(program.block, page);
            }
            let op =
                self.record(OpKind::Program, program.block, page, booked.start, booked.end, None);
            self.strike(op)?;
        }
        self.stats.page_programs += pages.len() as u64;
        match failed {
            Some(block) => Err(NandError::ProgramFailed(block, booked.end)),
            None => Ok(Done {
                op: self.op - 1,
                end: booked.end,
                ticket: self.sched.ticket(die, booked.end),
            }),
        }
    }

    /// Erases a block.
    ///
    /// # Errors
    /// [`NandError::EraseFailed`], [`NandError::PowerOff`].
    ///
    /// # Panics
    /// If the block is marked bad.
    pub fn erase(&mut self, at: Time, block: BlockId, told: bool) -> Result<Done, NandError> {
        self.powered()?;
        assert!(!self.image.meta[block.index()].bad, "erase of bad block {block}");
        let die = self.die_of(block);
        let (span, at) = self.delays(die, self.timing.t_erase, at);
        let booked = self.sched.erase(&self.timing, self.now, at, die, span, told);
        if self.trail.is_some() {
            self.note_erase(at, block, booked);
        }
        let before = self.journal.is_some().then(|| {
            let Contents::Full(blocks) = &self.image.contents else { unreachable!() };
            Box::new((self.image.meta[block.index()], Arc::clone(&blocks[block.index()])))
        });
        let fails = !self.faults.is_empty() && self.take_erase_fault();
        if !fails {
            self.wipe(block);
            self.powered()?;
        }
        self.stats.erases += 1;
        let op = self.record(OpKind::Erase, block, 0, booked.start, booked.end, before);
        self.strike(op)?;
        if fails {
            return Err(NandError::EraseFailed(block, booked.end));
        }
        Ok(Done { op, end: booked.end, ticket: self.sched.ticket(die, booked.end) })
    }

    /// Marks a block bad for good (a program of its spare area; its time is not modelled).
    ///
    /// # Errors
    /// [`NandError::PowerOff`].
    pub fn mark_bad(&mut self, at: Time, block: BlockId) -> Result<(), NandError> {
        self.powered()?;
        self.set_bad(block);
        if let Some(backing) = &self.backing
            && let Err(error) = backing.mark_bad(block, self.image.meta[block.index()].erases)
        {
            self.broken = Some(error);
            return Err(NandError::PowerOff);
        }
        let op = self.record(OpKind::MarkBad, block, 0, at, at, None);
        self.strike(op)
    }

    /// Books a read of pages of one die (one, or one per plane at one page index), each moving
    /// `pieces` pieces of 4 KiB; `slots` are counted under `cause`. What is read is asked for
    /// with [`Nand::slot`].
    ///
    /// # Errors
    /// [`NandError::PowerOff`].
    pub fn read(
        &mut self,
        at: Time,
        pages: &[(BlockId, u32)],
        pieces: &[u32],
        slots: u32,
        cause: ReadCause,
    ) -> Result<Time, NandError> {
        self.powered()?;
        let (block, page) = pages[0];
        let (die, plane) = self.geometry.die_and_plane(block);
        let total: u32 = pieces.iter().sum();
        let page_type = self.timing.page_type(page, self.geometry.pages_per_block);
        let mut sense = self.timing.read_span(page_type, total);
        if !self.faults.is_empty() {
            sense = self.read_faults(block, page, sense);
        }
        let (sense, at) = self.delays(die, sense, at);
        let booked = self.sched.read(&self.timing, self.now, at, die, plane, pages, pieces, sense);
        if self.trail.is_some() || self.sched.has_shifted() {
            self.note_moves(at, pages, pieces, sense, cause, booked);
        }
        self.stats.reads[cause as usize] += u64::from(slots);
        self.stats.page_reads += pages.len() as u64;
        self.reads += pages.len() as u64;
        self.hash.add(u64::from(block.0) << 32 | u64::from(page) << 2 | 1);
        self.hash.add(booked.end.as_ps());
        Ok(booked.end)
    }

    /// What a read waited for, and what it interrupted, for those who ask.
    #[cold]
    fn note_moves(
        &mut self,
        at: Time,
        pages: &[(BlockId, u32)],
        pieces: &[u32],
        sense: Span,
        cause: ReadCause,
        booked: Bookings,
    ) {
        let shift = self.sched.take_shift();
        if self.trail.is_some() {
            self.note_read(at, pages, pieces, sense, cause, booked, shift.as_ref());
        }
        if let Some(shift) = shift
            && let Some(journal) = &mut self.journal
        {
            // A cut must find an interrupted operation still under way.
            for record in &mut journal.records {
                let plane = self.geometry.plane_of(record.block);
                if self.geometry.die_of_plane(plane) == shift.die {
                    shift.apply(&mut record.start, &mut record.end);
                }
            }
        }
    }

    /// The die of a block.
    #[inline(always)]
    pub fn die_of(&self, block: BlockId) -> u32 {
        self.geometry.die_and_plane(block).0
    }
    /// Pages of a block programmed since its erase.
    #[inline(always)]
    pub fn next_page(&self, block: BlockId) -> u32 {
        self.image.meta[block.index()].next_page
    }
    /// Times a block was erased.
    pub fn erases(&self, block: BlockId) -> u32 {
        self.image.meta[block.index()].erases
    }
    /// Whether a block is marked bad.
    pub fn is_bad(&self, block: BlockId) -> bool {
        self.image.meta[block.index()].bad
    }
    /// Shape.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }
    /// Times.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }
    /// Switches timing on or off (a fast precondition).
    pub fn set_timing(&mut self, enabled: bool) {
        self.timing.enabled = enabled;
    }
    /// The timelines.
    pub fn sched(&self) -> &Sched {
        &self.sched
    }
    /// When the operations of `mark` have ended for certain; `end` was the latest of their ends as
    /// booked when it was made.
    pub fn ended_by(&self, mark: Mark, end: Time) -> Time {
        self.sched.ended_by(&self.timing, mark, end)
    }
    /// Somebody relies on the ends of `mark`: they do not move any more.
    pub fn rely(&mut self, mark: Mark) {
        self.sched.rely(mark);
    }
    /// The timelines, to pin a ticket's end.
    pub fn sched_mut(&mut self) -> &mut Sched {
        &mut self.sched
    }
    /// What the cells hold now.
    pub fn image(&self) -> &Image {
        &self.image
    }
    /// The image the power-off left, once a cut of the plan struck, and when it struck.
    pub fn power_off(self) -> (Image, Option<Time>) {
        (self.image, self.off)
    }
    /// Durable operations so far.
    pub fn ops(&self) -> u64 {
        self.op
    }
    /// The latest end of all programs booked so far.
    pub fn programs_end(&self) -> Time {
        self.programs_end
    }
    /// The hash of all operations so far: number, kind, place, start, end.
    pub fn event_hash(&self) -> u64 {
        self.hash.value()
    }
    /// Restarts the counters; contents, timelines and operation numbers stay.
    pub fn reset_stats(&mut self) {
        self.stats = NandStats::default();
        self.sched.reset_stats();
    }
    /// The counters.
    pub fn stats(&self) -> NandStats {
        NandStats {
            suspends: self.sched.suspends(),
            gaps_dropped: self.sched.gaps_dropped(),
            channel_busy: self.sched.channel_busy(),
            die_busy: self.sched.die_busy(),
            ..self.stats.clone()
        }
    }

    #[inline(always)]
    fn powered(&self) -> Result<(), NandError> {
        if self.off.is_some() || self.broken.is_some() { Err(NandError::PowerOff) } else { Ok(()) }
    }

    #[inline]
    fn record(
        &mut self,
        kind: OpKind,
        block: BlockId,
        page: u32,
        start: Time,
        end: Time,
        before: Option<Box<(BlockMeta, Arc<BlockImage>)>>,
    ) -> u64 {
        let op = self.op;
        self.op += 1;
        self.hash.add(op << 2 | kind as u64);
        self.hash.add(u64::from(block.0) << 32 | u64::from(page));
        self.hash.add(start.as_ps() ^ end.as_ps().rotate_left(32));
        if let Some(journal) = &mut self.journal {
            let booked = self.now;
            journal.records.push_back(OpRecord {
                op,
                kind,
                block,
                page,
                booked,
                start,
                end,
                before,
            });
        }
        op
    }

    /// Executes a cut of the plan at this operation.
    #[inline(always)]
    fn strike(&mut self, op: u64) -> Result<(), NandError> {
        if self.faults.is_empty() { Ok(()) } else { self.strike_by_plan(op) }
    }

    #[cold]
    fn strike_by_plan(&mut self, op: u64) -> Result<(), NandError> {
        let cut = self.faults.iter().find_map(|fault| match fault {
            Fault::Cut(cut) if cut.op == op => Some(*cut),
            _ => None,
        });
        let Some(cut) = cut else { return Ok(()) };
        let Some((image, instant)) = self.image_at_cut(&cut) else { return Ok(()) };
        debug_assert!(cut.instant != Instant::Booked || instant <= self.now);
        self.wear = WearTable::of(&image.meta);
        self.image = image;
        self.off = Some(instant);
        Err(NandError::PowerOff)
    }
}
