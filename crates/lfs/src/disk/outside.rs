//! Reads without the volume: where nobody may wait for the device while he has the volume, a block that is
//! not in memory is wanted, the operation ends without having changed anything, and comes again when the
//! block was brought.
//!
//! Invariants:
//! * as long as an operation has changed nothing, no read of its reaches the device; behind its first
//!   change one does, and is counted: nothing is left half done;
//! * what somebody else reads counts only if none of it was written or given back since he was asked for
//!   it: there are no pins, and nothing that is free waits for a reader;
//! * a flush or a forced write that nobody waits for is for somebody who does not have the volume, too;
//! * a block that was brought is kept until it was asked for or written; when there are too many, the
//!   oldest go: who wants them wants them again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use block::{BlockDevice, Data, DeviceError, Lba, Request, Sectors, Time};

use super::{Cause, Mark, SECTORS};
use crate::BlockAddr;
use crate::format::{BLOCK_BYTES, Block};

/// Blocks that wait to be asked for at most: those of the victims that are read at once, and some.
const MOST: usize = 16_384;

/// Blocks that somebody reads without the volume.
#[derive(Debug)]
pub struct Fetch {
    id: u64,
    /// First block, and how many.
    runs: Vec<(BlockAddr, u32)>,
    bytes: Vec<u8>,
}

/// Reads a run of blocks of a device.
pub(crate) fn read_run<D: BlockDevice>(
    device: &mut D,
    now: Time,
    at: BlockAddr,
    out: &mut [u8],
) -> Result<Time, DeviceError> {
    let sectors = Sectors((out.len() / BLOCK_BYTES) as u64 * SECTORS);
    let request = Request::read(Lba(u64::from(at.0) * SECTORS), sectors);
    device.submit(now, request.with(Data::Read(out)))
}

/// Writes blocks that are durable when they are answered.
pub(crate) fn write_forced<D: BlockDevice>(
    device: &mut D,
    now: Time,
    at: BlockAddr,
    bytes: &[u8],
) -> Result<Time, DeviceError> {
    let sectors = Sectors((bytes.len() / BLOCK_BYTES) as u64 * SECTORS);
    let request = Request::write(Lba(u64::from(at.0) * SECTORS), sectors);
    let request = request.of_stream(Cause::Journal.stream());
    device.submit(now, request.with(Data::Write(bytes)).with_fua())
}

impl Fetch {
    /// Its own among all that are read.
    pub fn number(&self) -> u64 {
        self.id
    }
    pub(super) fn runs(&self) -> impl Iterator<Item = (BlockAddr, u32)> + '_ {
        self.runs.iter().copied()
    }

    /// Reads them; when the last is answered.
    ///
    /// # Errors
    /// What the device says.
    pub fn read<D: BlockDevice>(&mut self, now: Time, device: &mut D) -> Result<Time, DeviceError> {
        let (mut rest, mut answered) = (&mut self.bytes[..], now);
        for (at, count) in &self.runs {
            let (part, more) = rest.split_at_mut(*count as usize * BLOCK_BYTES);
            answered = answered.max(read_run(device, now, *at, part)?);
            rest = more;
        }
        Ok(answered)
    }
}

/// What somebody reads now.
struct UnderWay {
    id: u64,
    runs: Vec<(BlockAddr, u32)>,
    /// Of it, what was written since.
    stale: BTreeSet<u32>,
}

/// For whom blocks are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum For {
    /// An operation, which comes again.
    #[default]
    Caller,
    /// Cleaning, which goes on beside.
    Cleaning,
}

/// See above.
#[derive(Default)]
pub(super) struct Outside {
    on: bool,
    /// The present operation has changed something.
    begun: bool,
    /// Who came again and again may wait for the device.
    insists: bool,
    whose: For,
    wants: [BTreeSet<u32>; 2],
    under_way: Vec<UnderWay>,
    brought: BTreeMap<u32, Box<Block>>,
    order: VecDeque<u32>,
    last: u64,
    /// A flush is wished for.
    flush: Option<Mark>,
    /// What is to be written and made durable, in order.
    forced: VecDeque<(BlockAddr, Vec<u8>)>,
    /// What was read counts, whatever was written since: a planted bug.
    pub(super) trusting: bool,
}

impl Outside {
    pub(super) fn is_on(&self) -> bool {
        self.on
    }
    pub(super) fn switch(&mut self, on: bool) {
        self.on = on;
    }
    pub(super) fn insist(&mut self, insists: bool) {
        self.insists = insists;
    }
    /// Whether reads are not for the device now.
    pub(super) fn holds_back(&self) -> bool {
        self.on && !self.begun && !self.insists
    }
    /// A flush is wished for, that somebody else asks for. No: it was already.
    pub(super) fn wish_flush(&mut self, covers: Mark) -> bool {
        self.flush.replace(covers) != Some(covers)
    }
    pub(super) fn take_wish(&mut self) -> Option<Mark> {
        self.flush.take()
    }
    pub(super) fn force(&mut self, at: BlockAddr, bytes: Vec<u8>) {
        self.forced.push_back((at, bytes));
    }
    pub(super) fn take_forced(&mut self) -> Option<(BlockAddr, Vec<u8>)> {
        self.forced.pop_front()
    }
    pub(super) fn forget_forced(&mut self) {
        self.forced.clear();
    }
    pub(super) fn has_wishes(&self) -> bool {
        self.flush.is_some() || !self.forced.is_empty()
    }

    /// An operation begins: it has changed nothing.
    pub(super) fn fresh(&mut self) {
        self.begun = false;
    }
    /// It has changed something.
    pub(super) fn begun(&mut self) {
        self.begun = true;
    }
    /// Whether it has.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }
    /// Blocks are wanted for this from now on; for what they were before.
    pub(super) fn wanted_for(&mut self, whose: For) -> For {
        std::mem::replace(&mut self.whose, whose)
    }

    /// Whether these blocks were brought; the others are wanted.
    pub(super) fn is_there(&mut self, at: BlockAddr, blocks: u32) -> bool {
        let missing = (at.0..at.0 + blocks).filter(|one| !self.brought.contains_key(one));
        let missing: Vec<u32> = missing.collect();
        let there = missing.is_empty();
        self.wants[self.whose as usize].extend(missing);
        there
    }

    /// Gives blocks that were brought to who asks for them.
    pub(super) fn take(&mut self, at: BlockAddr, out: &mut [u8]) -> bool {
        if !self.is_there(at, (out.len() / BLOCK_BYTES) as u32) {
            return false;
        }
        for (one, out) in (at.0..).zip(out.chunks_exact_mut(BLOCK_BYTES)) {
            if let Some(block) = self.brought.remove(&one) {
                out.copy_from_slice(&block[..]);
            }
        }
        true
    }

    /// Somebody reads these without the volume from now on.
    pub(super) fn begin(&mut self, runs: Vec<(BlockAddr, u32)>) -> u64 {
        self.last += 1;
        self.under_way.push(UnderWay { id: self.last, runs, stale: BTreeSet::new() });
        self.last
    }

    /// Whether somebody does.
    pub(super) fn is_reading(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// He has read them: of them, what was written since.
    pub(super) fn end(&mut self, id: u64) -> BTreeSet<u32> {
        let at = self.under_way.iter().position(|one| one.id == id);
        let stale = at.map_or_else(BTreeSet::new, |at| self.under_way.swap_remove(at).stale);
        if self.trusting { BTreeSet::new() } else { stale }
    }

    /// Whether something is.
    pub(super) fn has_wants(&self, whose: For) -> bool {
        !self.wants[whose as usize].is_empty()
    }

    /// What is wanted, as runs, to be read by somebody; none if nothing is.
    pub(super) fn fetch(&mut self, whose: For) -> Option<Fetch> {
        let wants: Vec<u32> = std::mem::take(&mut self.wants[whose as usize]).into_iter().collect();
        if wants.is_empty() {
            return None;
        }
        let runs = wants.chunk_by(|a, b| a + 1 == *b);
        let runs: Vec<_> = runs.map(|run| (BlockAddr(run[0]), run.len() as u32)).collect();
        let bytes = vec![0; wants.len() * BLOCK_BYTES];
        Some(Fetch { id: self.begin(runs.clone()), runs, bytes })
    }

    /// What was wanted is there, but for what was written meanwhile.
    pub(super) fn bring(&mut self, fetch: Fetch, read: bool) {
        let stale = self.end(fetch.id);
        if !read {
            return;
        }
        let all = fetch.runs.iter().flat_map(|(at, count)| at.0..at.0 + count);
        for (at, bytes) in all.zip(fetch.bytes.chunks_exact(BLOCK_BYTES)) {
            let Ok(block) = Box::<[u8]>::from(bytes).try_into() else { continue };
            if !stale.contains(&at) && self.brought.insert(at, block).is_none() {
                self.order.push_back(at);
            }
        }
        while self.brought.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.brought.remove(&oldest);
        }
        if self.order.len() > 2 * MOST {
            let brought = &self.brought;
            self.order.retain(|at| brought.contains_key(at));
        }
    }

    /// Blocks are written, or given back: what was read of them before does not count.
    #[inline]
    pub(super) fn changed(&mut self, at: BlockAddr, blocks: u32) {
        // Behind every block that is written: mostly nobody has read any.
        if !self.brought.is_empty() || !self.under_way.is_empty() {
            self.changed_since(at, blocks);
        }
    }

    fn changed_since(&mut self, at: BlockAddr, blocks: u32) {
        if self.trusting {
            return;
        }
        let (from, to) = (at.0, at.0 + blocks);
        if !self.brought.is_empty() {
            (from..to).for_each(|one| drop(self.brought.remove(&one)));
        }
        for one in &mut self.under_way {
            for (run, count) in &one.runs {
                let (from, to) = (from.max(run.0), to.min(run.0 + count));
                one.stale.extend(from..to);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_meanwhile_is_wanted_again() {
        let mut all = Outside { on: true, ..Outside::default() };
        let mut out = [0; 2 * BLOCK_BYTES];
        assert!(!all.take(BlockAddr(7), &mut out) && !all.is_there(BlockAddr(20), 1));
        let mut fetch = all.fetch(For::Caller).expect("three blocks are wanted");
        assert_eq!(fetch.runs, [(BlockAddr(7), 2), (BlockAddr(20), 1)]);
        assert!(all.fetch(For::Caller).is_none());
        fetch.bytes.fill(1);
        all.changed(BlockAddr(8), 3);
        all.bring(fetch, true);
        assert!(!all.take(BlockAddr(7), &mut out) && all.is_there(BlockAddr(20), 1));
        let mut fetch = all.fetch(For::Caller).expect("one is wanted");
        assert_eq!(fetch.runs, [(BlockAddr(8), 1)]);
        fetch.bytes.fill(2);
        all.bring(fetch, true);
        assert!(all.take(BlockAddr(7), &mut out));
        assert_eq!((out[5], out[BLOCK_BYTES + 5]), (1, 2));
        all.changed(BlockAddr(20), 1);
        assert!(!all.take(BlockAddr(7), &mut out) && !all.is_there(BlockAddr(20), 1));
    }

    #[test]
    fn what_nobody_asks_for_is_not_kept_for_ever() {
        let mut all = Outside { on: true, ..Outside::default() };
        for round in 0..5 {
            let from = round * MOST as u32 / 2;
            all.is_there(BlockAddr(from), MOST as u32 / 2);
            let fetch = all.fetch(For::Caller).expect("wanted");
            all.bring(fetch, true);
        }
        assert!(all.brought.len() <= MOST && all.order.len() <= 2 * MOST);
    }
}
