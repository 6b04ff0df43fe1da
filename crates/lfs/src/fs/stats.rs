//! What a mounted volume counts, under the names that the kernel's F2FS gives its counters, so that
//! tables of both line up: `status` of debugfs, `iostat_info` of procfs, and what neither has.
//!
//! Invariants: blocks written are counted in one place only, by the disk; everything here is
//! derived from that, from the segment table, or counted where it happens; the list of events has a
//! limit, and says what it had to forget.

use std::collections::{BTreeMap, VecDeque};

use block::{BlockDevice, Bytes, Span, Time};

use super::{Fs, LogKind, Trigger};
use crate::SegNo;
use crate::disk::{CAUSES, Cause};
use crate::format::BLOCK_BYTES;

/// Events kept until somebody takes them.
const EVENTS: usize = 4096;

/// Where the time of a cleaning went (paper 2, figure 1a), on the device's clock.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CleaningTime {
    /// Choosing a victim and reading its summary.
    pub init: Span,
    /// Reading and copying.
    pub copy: Span,
    /// Waiting until copies are durable, before the record is written.
    pub flush: Span,
    /// Writing the record.
    pub journal: Span,
    /// The checkpoint that the paper's baseline makes after each cleaning.
    pub checkpoint: Span,
    /// Callers that had to wait for cleaning ahead of need.
    pub wait: Span,
}

impl CleaningTime {
    /// All of it.
    pub fn total(&self) -> Span {
        self.init + self.copy + self.flush + self.journal + self.checkpoint + self.wait
    }
    fn since(&self, before: &CleaningTime) -> CleaningTime {
        CleaningTime {
            init: less(self.init, before.init),
            copy: less(self.copy, before.copy),
            flush: less(self.flush, before.flush),
            journal: less(self.journal, before.journal),
            checkpoint: less(self.checkpoint, before.checkpoint),
            wait: less(self.wait, before.wait),
        }
    }
    pub(super) fn add(&mut self, other: &CleaningTime) {
        self.init += other.init;
        self.copy += other.copy;
        self.flush += other.flush;
        self.journal += other.journal;
        self.checkpoint += other.checkpoint;
        self.wait += other.wait;
    }
}

/// Where the time of a checkpoint went: each phase waits for the one before.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CheckpointTime {
    /// Directory blocks and nodes.
    pub nodes: Span,
    /// Node table and segment table.
    pub tables: Span,
    /// The pack but its last block, and the flush.
    pub pack: Span,
    /// The last block.
    pub end: Span,
}

impl CheckpointTime {
    /// All of it.
    pub fn total(&self) -> Span {
        self.nodes + self.tables + self.pack + self.end
    }
    fn since(&self, before: &CheckpointTime) -> CheckpointTime {
        CheckpointTime {
            nodes: less(self.nodes, before.nodes),
            tables: less(self.tables, before.tables),
            pack: less(self.pack, before.pack),
            end: less(self.end, before.end),
        }
    }
    pub(super) fn add(&mut self, other: &CheckpointTime) {
        self.nodes += other.nodes;
        self.tables += other.tables;
        self.pack += other.pack;
        self.end += other.end;
    }
}

/// Something that kept an operation waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A segment was cleaned.
    Cleaned {
        /// When it was done.
        at: Time,
        /// Blocks copied.
        copied: u32,
        /// Of them, pre-invalid ones.
        pre_invalid: u32,
        /// Node and table blocks that were dirty before, and after.
        dirty: [u32; 2],
        /// Where the time went.
        time: CleaningTime,
    },
    /// A checkpoint was made.
    Checkpoint {
        /// When it was done.
        at: Time,
        /// What asked for it.
        trigger: Trigger,
        /// Dirty blocks of directories, nodes and tables that it wrote.
        dirty: u32,
        /// Where the time went.
        time: CheckpointTime,
    },
}

/// What is counted where it happens.
#[derive(Default)]
pub(super) struct Counters {
    app_written: u64,
    app_read: u64,
    /// Blocks written by checkpoints, by cause.
    in_checkpoint: [u64; CAUSES],
    node_segments: u64,
    cleaning: CleaningTime,
    checkpoint: CheckpointTime,
    slots_high: u32,
    pre_invalid_peak: u64,
    events: VecDeque<Event>,
    forgotten: u64,
}

impl Counters {
    /// Somebody above read or wrote contents.
    pub(super) fn app(&mut self, read: u64, written: u64) {
        self.app_read += read;
        self.app_written += written;
    }
    /// A checkpoint took this, and wrote what lies between two counts of all blocks.
    pub(super) fn checkpoint(
        &mut self,
        time: &CheckpointTime,
        before: [u64; CAUSES],
        after: [u64; CAUSES],
    ) {
        self.checkpoint.add(time);
        for (sum, (before, after)) in self.in_checkpoint.iter_mut().zip(before.iter().zip(after)) {
            *sum += after - before;
        }
    }
    /// A cleaning took this.
    pub(super) fn cleaning(&mut self, time: &CleaningTime) {
        self.cleaning.add(time);
    }
    /// An operation waited for cleaning ahead of need.
    pub(super) fn waited(&mut self, span: Span) {
        self.cleaning.wait += span;
    }
    /// A segment of nodes, or of data, was cleaned.
    pub(super) fn cleaned_segment(&mut self, nodes: bool) {
        self.node_segments += u64::from(nodes);
    }
    /// So many slots of the journal are in use.
    pub(super) fn slots(&mut self, used: u32) {
        self.slots_high = self.slots_high.max(used);
    }
    /// So many blocks are pre-invalid.
    pub(super) fn pre_invalid(&mut self, blocks: u64) {
        self.pre_invalid_peak = self.pre_invalid_peak.max(blocks);
    }
    pub(super) fn event(&mut self, event: Event) {
        if self.events.len() == EVENTS {
            self.events.pop_front();
            self.forgotten += 1;
        }
        self.events.push_back(event);
    }
}

/// A log's head, and the segments of its kind.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LogStats {
    /// The head.
    pub segno: SegNo,
    /// Segments of this kind with valid and other blocks.
    pub dirty_seg: u64,
    /// Those with valid blocks only.
    pub full_seg: u64,
    /// Valid blocks in them.
    pub valid_blk: u64,
}

/// All counters of a volume since its mount, and what it has now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stats {
    /// Percent of the blocks that users may have which are valid.
    pub utilization: u64,
    /// Segments: full, partly valid, waiting for a checkpoint, free.
    pub segments: [u64; 4],
    /// The logs.
    pub logs: [LogStats; 6],
    /// Mean count of valid blocks of segments that are neither full nor empty.
    pub avg_vblocks: u64,
    /// Checkpoints.
    pub cp_calls: u64,
    /// By what asked for them.
    pub triggers: BTreeMap<Trigger, u64>,
    /// Blocks written, by [`Cause`] (first all of them, then those of checkpoints).
    pub written: [[u64; CAUSES]; 2],
    /// Segments cleaned: with data, with nodes.
    pub gc_segments: [u64; 2],
    /// Blocks copied by cleaning; of them, pre-invalid ones.
    pub moved: [u64; 2],
    /// Segments cleaned ahead of need, and read for nothing; operations that waited for that.
    pub ahead: [u64; 3],
    /// Bytes that programs wrote and read.
    pub app: [Bytes; 2],
    /// Journal records, and entries in them.
    pub journal: [u64; 2],
    /// Slots of the journal ever in use at once.
    pub slots_high: u32,
    /// Pre-invalid blocks now, and at most.
    pub pre_invalid: [u64; 2],
    /// Time of cleaning.
    pub cleaning: CleaningTime,
    /// Time of checkpoints.
    pub checkpoint: CheckpointTime,
    /// Flushes asked of the device.
    pub flushes: u64,
    /// Events forgotten because nobody took them.
    pub events_forgotten: u64,
}

impl Stats {
    /// Blocks written for a cause.
    pub fn of(&self, cause: Cause) -> u64 {
        self.written[0][cause as usize]
    }
    fn in_checkpoint(&self, causes: &[Cause]) -> u64 {
        causes.iter().map(|cause| self.written[1][*cause as usize]).sum()
    }
    fn outside(&self, causes: &[Cause]) -> u64 {
        causes.iter().map(|cause| self.of(*cause)).sum::<u64>() - self.in_checkpoint(causes)
    }
    /// Blocks written to the device, whatever for.
    pub fn all_written(&self) -> u64 {
        self.written[0].iter().sum()
    }

    /// Every count under its name in the kernel's tables, then those that only this file system
    /// has; blocks unless a name says otherwise. `fs ..` are bytes, as in `iostat_info`.
    pub fn named(&self) -> Vec<(&'static str, u64)> {
        use Cause::{
            Data, Dentry, Journal, MovedData, MovedNode, Nat, Node, Pack, Sit, Ssa, Super,
        };
        const META: [Cause; 4] = [Pack, Sit, Nat, Ssa];
        let bytes = |blocks: u64| blocks * BLOCK_BYTES as u64;
        vec![
            ("Utilization", self.utilization),
            ("Valid", self.segments[0]),
            ("Dirty", self.segments[1]),
            ("Prefree", self.segments[2]),
            ("Free", self.segments[3]),
            ("avg. vblocks", self.avg_vblocks),
            ("CP calls", self.cp_calls),
            ("cp blocks", self.of(Pack)),
            ("sit blocks", self.of(Sit)),
            ("nat blocks", self.of(Nat)),
            ("ssa blocks", self.of(Ssa)),
            ("GC calls", self.gc_segments.iter().sum()),
            ("data segments", self.gc_segments[0]),
            ("node segments", self.gc_segments[1]),
            ("Try to move", self.moved[0]),
            ("data blocks", self.of(MovedData)),
            ("node blocks", self.of(MovedNode)),
            ("IPU blocks", 0),
            ("SSR blocks", 0),
            (
                "LFS blocks",
                [Data, Dentry, Node, MovedData, MovedNode].map(|c| self.of(c)).iter().sum(),
            ),
            ("app buffered data", self.app[0].0),
            ("app read data", self.app[1].0),
            ("fs data", bytes(self.outside(&[Data, Dentry]))),
            ("fs node", bytes(self.outside(&[Node]))),
            ("fs meta", bytes(self.outside(&META))),
            ("fs gc data", bytes(self.of(MovedData))),
            ("fs gc node", bytes(self.of(MovedNode))),
            ("fs cp data", bytes(self.in_checkpoint(&[Data, Dentry]))),
            ("fs cp node", bytes(self.in_checkpoint(&[Node]))),
            ("fs cp meta", bytes(self.in_checkpoint(&META))),
            ("superblock blocks", self.of(Super)),
            ("journal blocks", self.of(Journal)),
            ("journal records", self.journal[0]),
            ("journal entries", self.journal[1]),
            ("journal slots high", u64::from(self.slots_high)),
            ("pre-invalid now", self.pre_invalid[0]),
            ("pre-invalid peak", self.pre_invalid[1]),
            ("pre-invalid copied", self.moved[1]),
            ("ahead segments", self.ahead[0]),
            ("ahead for nothing", self.ahead[1]),
            ("ahead waits", self.ahead[2]),
            ("flushes", self.flushes),
            ("cleaning ns", self.cleaning.total().as_ps() / 1000),
            ("checkpoint ns", self.checkpoint.total().as_ps() / 1000),
        ]
        .into_iter()
        .chain(self.triggers.iter().map(|(trigger, n)| (trigger.name(), *n)))
        .collect()
    }

    /// What happened since `before`; what there is now stays.
    pub fn since(&self, before: &Stats) -> Stats {
        let mut now = self.clone();
        for (set, old) in now.written.iter_mut().zip(&before.written) {
            set.iter_mut().zip(old).for_each(|(n, old)| *n -= old);
        }
        for (trigger, old) in &before.triggers {
            now.triggers.entry(*trigger).and_modify(|n| *n -= old);
        }
        now.triggers.retain(|_, n| *n > 0);
        now.cp_calls -= before.cp_calls;
        let pairs = [
            (&mut now.gc_segments, before.gc_segments),
            (&mut now.moved, before.moved),
            (&mut now.journal, before.journal),
        ];
        for (now, old) in pairs {
            now.iter_mut().zip(old).for_each(|(n, old)| *n -= old);
        }
        now.ahead.iter_mut().zip(before.ahead).for_each(|(n, old)| *n -= old);
        now.app.iter_mut().zip(before.app).for_each(|(n, old)| n.0 -= old.0);
        now.flushes -= before.flushes;
        now.cleaning = now.cleaning.since(&before.cleaning);
        now.checkpoint = now.checkpoint.since(&before.checkpoint);
        now
    }
}

fn less(now: Span, before: Span) -> Span {
    Span::from_ps(now.as_ps() - before.as_ps())
}

impl<D: BlockDevice> Fs<D> {
    /// All counters.
    pub fn stats(&self) -> Stats {
        let per_seg = u64::from(self.layout.per_seg);
        let mut logs = [LogStats::default(); 6];
        for (log, kind) in logs.iter_mut().zip(LogKind::ALL) {
            log.segno = self.logs[kind as usize].seg;
        }
        let (mut valid, mut dirty, mut partly) = (0, 0, 0);
        for seg in self.segs.iter() {
            let blocks = u64::from(seg.valid);
            let log = &mut logs[usize::from(seg.kind)];
            let full = blocks == per_seg;
            log.valid_blk += blocks;
            log.full_seg += u64::from(full);
            log.dirty_seg += u64::from(!full && blocks > 0);
            valid += u64::from(full);
            if !full && blocks > 0 {
                dirty += 1;
                partly += blocks;
            }
        }
        let (counted, cleaned) = (&self.counted, self.cleaner.counts());
        Stats {
            utilization: self.counts.blocks() * 100 / self.cp().user_blocks.max(1),
            segments: [valid, dirty, self.segs.prefree() as u64, self.segs.free() as u64],
            logs,
            avg_vblocks: partly / dirty.max(1),
            cp_calls: self.checkpoints.count(),
            triggers: self.checkpoints.by_trigger().clone(),
            written: [self.disk.written_all(), counted.in_checkpoint],
            gc_segments: [cleaned.segments - counted.node_segments, counted.node_segments],
            moved: [cleaned.copied, cleaned.pre_invalid],
            ahead: [cleaned.ahead, cleaned.stale, cleaned.waits],
            app: [Bytes(counted.app_written), Bytes(counted.app_read)],
            journal: [cleaned.records, cleaned.entries],
            slots_high: counted.slots_high,
            pre_invalid: [self.segs.pre_invalid(), counted.pre_invalid_peak],
            cleaning: counted.cleaning,
            checkpoint: counted.checkpoint,
            flushes: self.disk.flushes(),
            events_forgotten: counted.forgotten,
        }
    }

    /// What kept operations waiting since this was asked last: the newest 4,096 at most.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.counted.events.drain(..).collect()
    }

    /// Node and table blocks that are not on media.
    pub(super) fn dirty_blocks(&self) -> u32 {
        let tables = self.nat.dirty_blocks() + self.segs.dirty_count();
        (self.nodes.dirty() + self.pages.dirty() + tables) as u32
    }
}
