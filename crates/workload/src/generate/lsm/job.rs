//! What the background threads do, request by request: a flush or a compaction is planned whole
//! when it starts, then goes step by step beside the others.

use std::collections::VecDeque;

use block::{Rng, UNIT_BYTES};

use super::alloc::Extent;
use super::tree::{Choice, Planned};
use crate::TraceOp;

/// The index and what else follows a file's data, in millionths of it.
pub(super) const INDEX_PPM: u64 = 6_500;
/// Space set aside for a file before it is written, in percent of the largest it may become.
pub(super) const SET_ASIDE: u64 = 110;

/// What a job does next.
#[derive(Debug)]
pub(super) enum Step {
    /// A request, and how long the job is busy with it (ps).
    Io(TraceOp, u64, u64, u64),
    /// The version edit of a finished job is written.
    Manifest,
    /// The file system's journal commits; what was freed before is discarded.
    Commit,
    /// Space set aside and not used is free again.
    Free(Extent),
    /// The tree changes.
    Apply,
}

/// What the tree gets.
#[derive(Debug)]
pub(super) enum Effect {
    Flush { file: Planned, extents: Vec<Extent>, log: Vec<Extent> },
    Compaction { choice: Choice, files: Vec<(Planned, Vec<Extent>)> },
}

/// A job at work.
pub(super) struct Job {
    /// When its next step is due (ps).
    pub at: u64,
    pub steps: VecDeque<Step>,
    pub effect: Option<Effect>,
}

/// Sizes of requests and speeds of threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub read: u64,
    pub write: u64,
    pub ahead: u64,
    pub cut: bool,
}

/// Time for `len` bytes at `rate` bytes a second.
pub(super) fn cost(len: u64, rate: u64) -> u64 {
    (u128::from(len) * 1_000_000_000_000 / u128::from(rate)) as u64
}

/// The pieces of the device that bytes `from..from + len` of a file lie in.
pub(super) fn pieces(extents: &[Extent], from: u64, len: u64) -> impl Iterator<Item = Extent> {
    let mut base = 0;
    extents.iter().filter_map(move |extent| {
        let (start, end) = (from.max(base), (from + len).min(base + extent.len));
        let piece = Extent {
            start: extent.start + start.saturating_sub(base),
            len: end.saturating_sub(start),
        };
        base += extent.len;
        (piece.len > 0).then_some(piece)
    })
}

/// Steps of a job in the making.
#[derive(Default)]
pub(super) struct Plan {
    pub steps: VecDeque<Step>,
}

impl Plan {
    fn io(&mut self, op: TraceOp, extents: &[Extent], from: u64, len: u64, rate: u64) {
        for piece in pieces(extents, from, len) {
            let len = piece.len.next_multiple_of(UNIT_BYTES);
            self.steps.push_back(Step::Io(op, piece.start, len, cost(len, rate)));
        }
    }

    /// Bytes of a file in calls of `call`, each cut in two after `cut` bytes.
    pub fn run(
        &mut self,
        op: TraceOp,
        extents: &[Extent],
        (mut at, end): (u64, u64),
        call: u64,
        cut: Option<u64>,
        rate: u64,
    ) {
        while at < end {
            let len = call.min(end - at);
            let head = cut.filter(|cut| *cut < len).unwrap_or(len);
            self.io(op, extents, at, head, rate);
            self.io(op, extents, at + head, len - head, rate);
            at += len;
        }
    }

    /// The index of a file is read.
    pub fn index(&mut self, extents: &[Extent], size: u64, rate: u64) {
        let len = (size * INDEX_PPM / 1_000_000).next_multiple_of(UNIT_BYTES);
        let end = size.next_multiple_of(UNIT_BYTES);
        self.io(TraceOp::Read, extents, end.saturating_sub(len), len.min(end), rate);
    }
}

/// Where the kernel cuts the calls of one size for a file: it depends on where the buffer lay, so
/// it is the same for the whole file.
pub(super) fn cut(sizes: Sizes, rng: &mut Rng) -> Option<u64> {
    let pages = sizes.write / UNIT_BYTES;
    let cut = match rng.below(8) {
        0 => None,
        1..3 => Some(pages / 2),
        _ => Some(rng.between(pages / 4, pages - pages / 8)),
    };
    cut.filter(|pages| sizes.cut && *pages > 0).map(|pages| pages * UNIT_BYTES)
}

/// A file being written, in calls of one size.
pub(super) struct Writer {
    pub extents: Vec<Extent>,
    size: u64,
    done: u64,
    cut: Option<u64>,
}

impl Writer {
    pub fn new(extents: Vec<Extent>, size: u64, sizes: Sizes, rng: &mut Rng) -> Writer {
        let cut = cut(sizes, rng);
        Writer { extents, size, done: 0, cut }
    }

    /// Writes whole calls up to byte `to` of the file, and what is left if that is its end.
    pub fn advance(&mut self, plan: &mut Plan, to: u64, sizes: Sizes, rate: u64) {
        while self.done < self.size {
            let len = sizes.write.min(self.size - self.done);
            if self.done + len > to {
                return;
            }
            let range = (self.done, self.done + len);
            plan.run(TraceOp::Write, &self.extents, range, sizes.write, self.cut, rate);
            self.done += len;
        }
    }

    /// The last page again with the footer, a commit, the surplus back, and the check that the
    /// file opens. What stays set aside is the file's.
    pub fn close(mut self, plan: &mut Plan, rate: u64) -> Vec<Extent> {
        let end = self.size.next_multiple_of(UNIT_BYTES);
        for op in [TraceOp::Read, TraceOp::Write] {
            plan.io(op, &self.extents, end - UNIT_BYTES, UNIT_BYTES, rate);
        }
        let all: u64 = self.extents.iter().map(|e| e.len).sum();
        for piece in pieces(&self.extents, end, all.saturating_sub(end)) {
            plan.steps.push_back(Step::Free(piece));
        }
        plan.steps.push_back(Step::Commit);
        self.extents = pieces(&self.extents, 0, end).collect();
        plan.index(&self.extents, self.size, rate);
        self.extents
    }
}
