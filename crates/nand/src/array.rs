//! The array: the one place every flash operation passes.

use std::sync::Arc;

use block::{BlockId, EventHash, Ppn, Span, Time};

use crate::image::{BlockImage, BlockMeta, Contents, Overlay};
use crate::journal::Journal;
use crate::{
    BlockHeader, Cause, Fault, FaultPlan, Geometry, Image, Instant, NO_LPN, NandStats, Oob, OpKind,
    OpRecord, PageState, Payload, ReadCause, Sched, Ticket, Timing,
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

/// What a read finds in a slot.
#[derive(Debug, PartialEq, Eq)]
pub enum SlotRead<'a> {
    /// Erased.
    Blank,
    /// The record and the payload.
    Good(&'a Oob, &'a Payload),
    /// The record is fine, the payload fails its check.
    DataRot(&'a Oob),
    /// Nothing can be trusted.
    Unreadable,
}

/// The flash array.
#[derive(Clone, Debug)]
pub struct Nand {
    geometry: Geometry,
    timing: Timing,
    sched: Sched,
    image: Image,
    pub(crate) journal: Option<Journal>,
    faults: Vec<Fault>,
    stats: NandStats,
    hash: EventHash,
    now: Time,
    /// Durable operations so far.
    op: u64,
    /// Page reads so far.
    reads: u64,
    /// The latest end of all programs booked.
    programs_end: Time,
    off: Option<Time>,
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
        let sched = Sched::new(&geometry);
        Nand {
            sched,
            image,
            journal: None,
            faults: Vec::new(),
            stats: NandStats::default(),
            hash: EventHash::default(),
            now: Time::ZERO,
            op: 0,
            reads: 0,
            programs_end: Time::ZERO,
            off: None,
            geometry,
            timing,
        }
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
                self.image.meta[block.index()].bad = true;
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
        let mut failed = None;
        for program in pages {
            let page = self.image.meta[program.block.index()].next_page;
            let fate =
                if self.faults.is_empty() { Fate::Works } else { self.program_fate(program.block) };
            if fate == Fate::Fails {
                failed.get_or_insert(program.block);
            }
            self.store(program, page, fate);
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
        let booked = self.sched.erase(&self.timing, self.now, at, die, told);
        let before = self.journal.is_some().then(|| {
            let Contents::Full(blocks) = &self.image.contents else { unreachable!() };
            Box::new((self.image.meta[block.index()], Arc::clone(&blocks[block.index()])))
        });
        let fails = !self.faults.is_empty() && self.take_erase_fault();
        if !fails {
            self.wipe(block);
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
        self.image.meta[block.index()].bad = true;
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
        let plane = self.geometry.plane_of(block);
        let die = self.geometry.die_of_plane(plane);
        let total: u32 = pieces.iter().sum();
        let page_type = self.timing.page_type(page, self.geometry.pages_per_block);
        let mut sense = self.timing.read_span(page_type, total);
        if !self.faults.is_empty() {
            sense = self.read_faults(block, page, sense);
        }
        let (sense, at) = self.delays(die, sense, at);
        let plane = plane % self.geometry.planes_per_die;
        let booked = self.sched.read(&self.timing, self.now, at, die, plane, pieces, sense);
        if let Some(shift) = self.sched.take_shift()
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
        self.stats.reads[cause as usize] += u64::from(slots);
        self.stats.page_reads += pages.len() as u64;
        self.reads += pages.len() as u64;
        self.hash.add(u64::from(block.0) << 32 | u64::from(page) << 2 | 1);
        self.hash.add(booked.end.as_ps());
        Ok(booked.end)
    }

    /// What a read of a slot finds.
    ///
    /// # Panics
    /// If only logical numbers are kept.
    pub fn slot(&self, ppn: Ppn) -> SlotRead<'_> {
        let mut ppn = ppn;
        match self.image.overlay.get(&ppn) {
            Some(Overlay::Unreadable) => return SlotRead::Unreadable,
            Some(Overlay::Holds(other)) => ppn = *other,
            Some(Overlay::DataRot) | None => {}
        }
        match self.truth(ppn) {
            SlotRead::Good(oob, _) if self.image.overlay.get(&ppn) == Some(&Overlay::DataRot) => {
                SlotRead::DataRot(oob)
            }
            found => found,
        }
    }

    /// What the cells of a slot hold, whatever faults make of reading them: for checkers.
    ///
    /// # Panics
    /// If only logical numbers are kept.
    pub fn truth(&self, ppn: Ppn) -> SlotRead<'_> {
        let Contents::Full(blocks) = &self.image.contents else {
            panic!("only logical numbers are kept");
        };
        let (block, page, slot) = self.geometry.place(ppn);
        let image = &blocks[block.index()];
        if image.states.is_empty() {
            return SlotRead::Blank;
        }
        let at = (page * self.geometry.slots_per_page + slot) as usize;
        match image.states[at] {
            PageState::Blank => SlotRead::Blank,
            PageState::Torn => SlotRead::Unreadable,
            PageState::Good => match &image.payloads {
                Some(payloads) => SlotRead::Good(&image.oobs[at], &payloads[at]),
                None => SlotRead::Good(&image.oobs[at], &Payload::None),
            },
        }
    }

    /// The logical number beside a slot that holds data ([`NO_LPN`] otherwise), for cleaning.
    #[inline(always)]
    pub fn lpn(&self, ppn: Ppn) -> u32 {
        match &self.image.contents {
            Contents::Lean(lpns) => lpns[ppn.index()].wrapping_sub(1),
            Contents::Full(_) => match self.slot(ppn) {
                SlotRead::Good(oob, _) | SlotRead::DataRot(oob) => oob.lpn,
                SlotRead::Blank | SlotRead::Unreadable => NO_LPN,
            },
        }
    }

    /// The header beside the first page of a block.
    pub fn header(&self, block: BlockId) -> Option<BlockHeader> {
        match &self.image.contents {
            Contents::Full(blocks) => blocks[block.index()].header,
            Contents::Lean(_) => None,
        }
    }

    /// The die of a block.
    #[inline(always)]
    pub fn die_of(&self, block: BlockId) -> u32 {
        self.geometry.die_of_plane(self.geometry.plane_of(block))
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
        if self.off.is_some() { Err(NandError::PowerOff) } else { Ok(()) }
    }

    /// Writes one page's cells and counts it.
    fn store(&mut self, program: &PageProgram<'_>, page: u32, fate: Fate) {
        let (block, at) = (program.block, program.block.index());
        let slots = self.geometry.slots_per_page;
        assert!(page < self.geometry.pages_per_block, "block {block} is full");
        assert!(!self.image.meta[at].bad, "program of bad block {block}");
        assert_eq!(program.slots.len(), slots as usize, "a program fills its page");
        self.image.meta[at].next_page = page + 1;
        let disturbed = self.image.meta[at].disturbed;
        match &mut self.image.contents {
            Contents::Lean(lpns) => {
                let first = (block.0 * self.geometry.slots_per_block() + page * slots) as usize;
                for (cell, slot) in
                    lpns[first..first + slots as usize].iter_mut().zip(program.slots)
                {
                    *cell = slot.oob.lpn.wrapping_add(1);
                    self.stats.programs[slot.cause as usize] += 1;
                }
            }
            Contents::Full(blocks) => {
                let image = Arc::make_mut(&mut blocks[at]);
                if image.states.is_empty() {
                    *image = BlockImage::erased(self.geometry.slots_per_block() as usize);
                }
                let first = (page * slots) as usize;
                for (i, slot) in program.slots.iter().enumerate() {
                    self.stats.programs[slot.cause as usize] += 1;
                    image.states[first + i] = match fate {
                        // Cells that an erase left half-way do not hold what is put there.
                        _ if disturbed => PageState::Torn,
                        Fate::Works => PageState::Good,
                        Fate::Fails => PageState::Torn,
                        Fate::Noop => PageState::Blank,
                    };
                    image.oobs[first + i] = slot.oob;
                    if slot.payload != Payload::None || image.payloads.is_some() {
                        let room = image.states.len();
                        image.payloads.get_or_insert_with(|| vec![Payload::None; room].into())
                            [first + i] = slot.payload.clone();
                    }
                }
                if page == 0 && fate == Fate::Works && !disturbed {
                    image.header = Some(program.header);
                }
            }
        }
        if !self.image.overlay.is_empty() {
            let first = self.geometry.ppn(block, page);
            for slot in 0..slots {
                self.image.overlay.remove(&Ppn(first.0 + slot));
            }
        }
    }

    fn wipe(&mut self, block: BlockId) {
        let at = block.index();
        let old = self.image.meta[at];
        self.image.meta[at] = BlockMeta { erases: old.erases + 1, ..BlockMeta::default() };
        let slots = self.geometry.slots_per_block() as usize;
        match &mut self.image.contents {
            Contents::Lean(lpns) => lpns[at * slots..(at + 1) * slots].fill(0),
            Contents::Full(blocks) => blocks[at] = Arc::clone(&self.image.blank),
        }
        if !self.image.overlay.is_empty() {
            let first = (at * slots) as u32;
            self.image.overlay.retain(|ppn, _| !(first..first + slots as u32).contains(&ppn.0));
        }
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
    #[inline]
    fn strike(&mut self, op: u64) -> Result<(), NandError> {
        if self.faults.is_empty() {
            return Ok(());
        }
        let cut = self.faults.iter().find_map(|fault| match fault {
            Fault::Cut(cut) if cut.op == op => Some(*cut),
            _ => None,
        });
        let Some(cut) = cut else { return Ok(()) };
        let Some((image, instant)) = self.image_at_cut(&cut) else { return Ok(()) };
        debug_assert!(cut.instant != Instant::Booked || instant <= self.now);
        self.image = image;
        self.off = Some(instant);
        Err(NandError::PowerOff)
    }
}

/// What becomes of one page's program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Works,
    Fails,
    Noop,
}

/// The fault plan at work.
impl Nand {
    fn program_fate(&mut self, block: BlockId) -> Fate {
        let op = self.op;
        let mut fate = Fate::Works;
        let mut i = 0;
        while i < self.faults.len() {
            let (hit, keep) = match self.faults[i] {
                Fault::ProgramFail { at, always } if at <= op => {
                    fate = Fate::Fails;
                    if always {
                        // From now on the fault belongs to this block.
                        self.faults[i] = Fault::ProgramFail { at: u64::MAX, always };
                        self.faults.push(Fault::BadBlock { block });
                    }
                    (true, false)
                }
                Fault::BadBlock { block: bad } if bad == block => {
                    fate = Fate::Fails;
                    (true, true)
                }
                Fault::ProgramNoop { at } if at <= op => {
                    fate = Fate::Noop;
                    (true, false)
                }
                _ => (false, true),
            };
            if hit && !keep {
                self.faults.remove(i);
            } else {
                i += 1;
            }
        }
        fate
    }

    /// Faults that leave the program alone and change what reads of the page find.
    fn lay_overlays(&mut self, block: BlockId, page: u32) {
        let op = self.op;
        let first = self.geometry.ppn(block, page);
        let slots = self.geometry.slots_per_page;
        let mut laid = Vec::new();
        self.faults.retain(|fault| match fault {
            Fault::BitRot { at, oob } if *at <= op => {
                laid.push(if *oob { Overlay::Unreadable } else { Overlay::DataRot });
                false
            }
            Fault::MisdirectWrite { at } if *at <= op && page > 0 => {
                laid.push(Overlay::Holds(Ppn(first.0 - slots)));
                false
            }
            _ => true,
        });
        for overlay in laid {
            self.lay(first, slots, overlay);
        }
    }

    fn lay(&mut self, first: Ppn, slots: u32, overlay: Overlay) {
        for slot in 0..slots {
            let what = match overlay {
                Overlay::Holds(other) => Overlay::Holds(Ppn(other.0 + slot)),
                same => same,
            };
            self.image.overlay.insert(Ppn(first.0 + slot), what);
        }
    }

    fn take_erase_fault(&mut self) -> bool {
        let op = self.op;
        let found =
            self.faults.iter().position(|f| matches!(f, Fault::EraseFail { at } if *at <= op));
        if let Some(i) = found {
            self.faults.remove(i);
        }
        found.is_some()
    }

    fn read_faults(&mut self, block: BlockId, page: u32, sense: Span) -> Span {
        let (read, mut sense) = (self.reads, sense);
        let first = self.geometry.ppn(block, page);
        let slots = self.geometry.slots_per_page;
        let base = sense;
        for i in (0..self.faults.len()).rev() {
            match self.faults[i] {
                Fault::ReadRetry { read: at, steps } if at <= read => {
                    sense += base.times(u64::from(steps));
                    self.stats.retries += u64::from(steps);
                }
                Fault::ReadUncorrectable { read: at } if at <= read => {
                    self.lay(first, slots, Overlay::Unreadable);
                }
                Fault::MisdirectRead { read: at } if at <= read && page > 0 => {
                    self.lay(first, slots, Overlay::Holds(Ppn(first.0 - slots)));
                }
                _ => continue,
            }
            self.faults.remove(i);
        }
        sense
    }

    /// Slow and stuck dies.
    fn delays(&mut self, die: u32, span: Span, at: Time) -> (Span, Time) {
        if self.faults.is_empty() {
            return (span, at);
        }
        let (op, mut span) = (self.op, span);
        let mut stuck = None;
        for (i, fault) in self.faults.iter().enumerate() {
            match fault {
                Fault::SlowDie { die: slow, factor, from, to }
                    if *slow == die && at >= *from && at < *to =>
                {
                    span = span.times(u64::from(*factor));
                }
                Fault::StuckOp { at: stuck_at, span: extra } if *stuck_at <= op => {
                    span += *extra;
                    stuck = Some(i);
                }
                _ => {}
            }
        }
        if let Some(i) = stuck {
            self.faults.remove(i);
        }
        (span, at)
    }
}
