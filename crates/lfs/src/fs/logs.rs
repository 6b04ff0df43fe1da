//! Six logs: appended to, or (option `threaded`, when free segments run low) threaded through the
//! holes of segments that hold something.
//!
//! Invariants: the heads are six different segments, each with room for a block (the next one is opened before the
//! last block of one is taken, and that is closed at once); a closed segment's summary is in the SSA; so behind
//! the last block of the warm node log its next one is known before it is written.

use block::BlockDevice;

use super::Fs;
use super::options::Bug;
use crate::disk::Cause;
use crate::format::{Journal, Origin, SUM_ENTRIES, Summary};
use crate::{BlockAddr, FsError, SegNo};

/// A log, in the order of the format's `alloc_type`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LogKind {
    /// Directory blocks.
    HotData = 0,
    /// File data.
    WarmData = 1,
    /// Data moved by cleaning, and of cold files.
    ColdData = 2,
    /// Direct nodes and inodes of directories.
    HotNode = 3,
    /// Those of files.
    WarmNode = 4,
    /// Indirect nodes, and nodes moved by journalled cleaning.
    ColdNode = 5,
}

impl LogKind {
    /// All of them, in order.
    pub const ALL: [LogKind; 6] = [
        LogKind::HotData,
        LogKind::WarmData,
        LogKind::ColdData,
        LogKind::HotNode,
        LogKind::WarmNode,
        LogKind::ColdNode,
    ];

    pub(super) fn is_node(self) -> bool {
        self >= LogKind::HotNode
    }
}

pub(super) struct Log {
    pub(super) seg: SegNo,
    /// The next block.
    pub(super) offset: u32,
    pub(super) summary: Summary,
    /// It goes from hole to hole.
    pub(super) threaded: bool,
}

impl<D: BlockDevice> Fs<D> {
    /// The next block of a log, for `origin`. It is valid from now on.
    pub(super) fn alloc(&mut self, kind: LogKind, origin: Origin) -> Result<BlockAddr, FsError> {
        let fresh = self.prepare_log(kind)?;
        let addr = self.append(kind, origin);
        self.segs.mark(addr, self.elapsed())?;
        if self.options.threaded {
            // Fsync may have named what is not valid any more: no hole before the next checkpoint.
            self.segs.need(addr)?;
        }
        self.finish(kind, fresh)?;
        Ok(addr)
    }

    /// The next block of a log, for a block that only recovery needs.
    pub(super) fn alloc_needed(
        &mut self,
        kind: LogKind,
        origin: Origin,
    ) -> Result<BlockAddr, FsError> {
        let fresh = self.prepare_log(kind)?;
        let addr = self.append(kind, origin);
        self.segs.need(addr)?;
        self.finish(kind, fresh)?;
        Ok(addr)
    }

    /// What a log goes on in if its next block is the last one of its segment. Where there is nothing, that block is not
    /// taken: no log is ever full.
    fn prepare_log(&mut self, kind: LogKind) -> Result<Option<Log>, FsError> {
        self.disk.begun();
        let log = &self.logs[kind as usize];
        if self.segs.is_needed(self.layout.block(log.seg, log.offset)) {
            return Err(FsError::Corrupt("a log would write over a block that is needed"));
        }
        if self.behind(kind) < self.layout.per_seg {
            return Ok(None);
        }
        match self.thread_log(kind)? {
            Some(log) => Ok(Some(log)),
            None => self.open_log(kind).map(Some),
        }
    }

    /// Where a log goes on behind its next block.
    fn behind(&self, kind: LogKind) -> u32 {
        let log = &self.logs[kind as usize];
        match log.threaded {
            true => self.segs.hole(log.seg, log.offset + 1),
            false => log.offset + 1,
        }
    }

    fn append(&mut self, kind: LogKind, origin: Origin) -> BlockAddr {
        let behind = self.behind(kind);
        let log = &mut self.logs[kind as usize];
        let addr = self.layout.block(log.seg, log.offset);
        log.summary.origins[log.offset as usize] = origin;
        log.offset = behind;
        addr
    }

    fn finish(&mut self, kind: LogKind, fresh: Option<Log>) -> Result<(), FsError> {
        let Some(fresh) = fresh else { return Ok(()) };
        let old = std::mem::replace(&mut self.logs[kind as usize], fresh);
        self.write_summary(old.seg, &old.summary)?;
        self.segs.close(old.seg);
        Ok(())
    }

    /// A log on a free segment.
    pub(super) fn open_log(&mut self, kind: LogKind) -> Result<Log, FsError> {
        let hold = self.holds(kind);
        let seg = self.segs.open(kind as u8, hold)?;
        Ok(Log { seg, offset: 0, summary: Summary::new(kind.is_node()), threaded: false })
    }

    /// A log through the holes of a segment of its kind, if that is wanted now. Never the warm node
    /// log: roll-forward follows it from end to end.
    fn thread_log(&mut self, kind: LogKind) -> Result<Option<Log>, FsError> {
        let low =
            self.segs.free() <= 2 * self.cp().reserved_segments as usize + self.dirty_segments();
        if !self.options.threaded || kind == LogKind::WarmNode || !low {
            return Ok(None);
        }
        let per_seg = self.layout.per_seg;
        let mut same = self.segs.candidates().filter(|(seg, _)| {
            let one = self.segs.of(*seg);
            let other = self.cleaner.victim() != Some(*seg);
            other && one.kind == kind as u8 && u32::from(one.needed) < per_seg
        });
        let Some((seg, _)) = same.next() else { return Ok(None) };
        drop(same);
        let mut summary = Summary::decode(&*self.read_summary(seg)?);
        if summary.nodes != kind.is_node() {
            return Err(FsError::Corrupt("a segment's summary is of another kind than its entry"));
        }
        for at in (0..SUM_ENTRIES as u32).filter(|at| *at < per_seg) {
            if !self.segs.is_needed(self.layout.block(seg, at)) {
                summary.origins[at as usize] = Origin::default();
            }
        }
        self.segs.take(seg, kind as u8, true);
        let offset = self.segs.hole(seg, 0);
        self.cleaner.thread();
        Ok(Some(Log { seg, offset, summary, threaded: true }))
    }

    /// Whether a segment of this log rests until the next checkpoint once it is written to: in the
    /// baselines any, so that roll-forward finds what it needs; with journalled cleaning those of
    /// the roll-forward chain (rule `pin`).
    pub(super) fn holds(&self, kind: LogKind) -> bool {
        !self.journals() || kind == LogKind::WarmNode
    }

    pub(super) fn write_summary(&mut self, seg: SegNo, summary: &Summary) -> Result<(), FsError> {
        if self.options.bug.has(Bug::NoSummary) {
            return Ok(());
        }
        let block = summary.encode(&Journal::Empty);
        self.disk.write(self.layout.summary(seg), &block, Cause::Ssa)?;
        self.summaries.keep(seg, block);
        Ok(())
    }

    /// Where the warm node log goes on.
    pub(super) fn chain_head(&self) -> BlockAddr {
        let log = &self.logs[LogKind::WarmNode as usize];
        self.layout.block(log.seg, log.offset)
    }
}
