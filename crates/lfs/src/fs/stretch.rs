//! A range of a file that is changed in parts, one operation each: however long it is, an operation changes few nodes,
//! and others come in between. Who has to come again goes on where he was.
//!
//! Invariant: what was done stays done: a part begins where the one before ended.

use block::{BlockDevice, Bytes};

use super::Fs;
use super::file::{BLOCK, LARGEST};
use super::outside::Gather;
use super::reserve::KEEP_SIZE;
use crate::format::{ADDRS_PER_BLOCK, Inode};
use crate::{FsError, Nid, Now};

/// Blocks whose nodes are looked at, and asked for, at once.
pub(super) const WINDOW: u64 = 512 * ADDRS_PER_BLOCK as u64;
/// Nodes whose pointers an operation takes away.
const NODES: usize = 4;

/// See above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    pub(super) at: u64,
    pub(super) end: u64,
    /// The block to go on with; none: nothing was changed yet.
    pub(super) next: Option<u64>,
    /// What was looked at before anything is changed: up to which block, and how many holes there were.
    pub(super) looked: u64,
    pub(super) holes: u64,
}

impl Stretch {
    /// So many bytes from `at` on.
    ///
    /// # Errors
    /// [`FsError::TooLarge`] where nothing has an end.
    pub fn new(at: Bytes, len: Bytes) -> Result<Stretch, FsError> {
        let end = at.0.checked_add(len.0).ok_or(FsError::TooLarge)?;
        Ok(Stretch { at: at.0, end, next: None, looked: at.0 / BLOCK, holes: 0 })
    }
}

impl<D: BlockDevice> Fs<D> {
    /// Makes a range of a regular file zeroes and gives its whole blocks back; the size stays.
    ///
    /// # Errors
    /// As [`Fs::write`].
    pub fn punch(&mut self, now: Now, ino: Nid, at: Bytes, len: Bytes) -> Result<(), FsError> {
        let mut how = Stretch::new(at, len)?;
        while !self.punch_on(now, ino, &mut how)? {}
        Ok(())
    }

    /// As [`Fs::punch`], the next part of it; whether that was the last one.
    ///
    /// # Errors
    /// Those of [`Fs::punch`]; [`FsError::Again`].
    pub fn punch_on(&mut self, now: Now, ino: Nid, how: &mut Stretch) -> Result<bool, FsError> {
        let Stretch { at, end, next, .. } = *how;
        let (next, done) = self.lessen(now, |fs| {
            fs.expect_contents(ino)?;
            fs.unfold_data(ino)?;
            let end = end.min(fs.end_of_blocks(ino)?).max(at);
            let (first, last) = (at.div_ceil(BLOCK), end / BLOCK);
            let from = next.unwrap_or(first);
            let to = last.min(from.saturating_add(WINDOW));
            let [(_, head), (tail, _)] = edges(at, end);
            let head = if next.is_none() { (at, head) } else { (at, at) };
            let tail = if to >= last { (tail, end) } else { (end, end) };
            fs.prepare_nodes(ino, from, to)?;
            fs.prepare_edges(ino, [head, tail])?;
            fs.zero(ino, head.0, head.1)?;
            let next = fs.punch_blocks(ino, (from, to), NODES)?;
            let done = to >= last && next >= last;
            if done {
                fs.zero(ino, tail.0, tail.1)?;
            }
            let stamp = fs.now.wall;
            let inode = fs.node_mut(ino)?;
            inode.set_time(1, stamp);
            inode.set_time(2, stamp);
            Ok((next, done))
        })?;
        how.next = Some(next);
        Ok(done)
    }

    /// Where the last block that a regular file may have ends.
    fn end_of_blocks(&mut self, ino: Nid) -> Result<u64, FsError> {
        let inode = self.inode(ino)?;
        let beyond = inode.advise() & KEEP_SIZE != 0;
        Ok(if beyond { LARGEST } else { inode.size().next_multiple_of(BLOCK) })
    }

    /// Goes on if the edges of a range can be zeroed.
    fn prepare_edges(&mut self, ino: Nid, edges: [(u64, u64); 2]) -> Result<(), FsError> {
        let mut gather = Gather::default();
        for (from, to) in edges {
            let there = self.prepare_write(ino, from, to - from);
            gather.note(there)?;
        }
        gather.end()
    }

    /// Makes the bytes of a range zeroes that lie in blocks of which others stay.
    pub(super) fn zero_edges(&mut self, ino: Nid, at: u64, end: u64) -> Result<(), FsError> {
        self.prepare_edges(ino, edges(at, end))?;
        for (from, to) in edges(at, end) {
            self.zero(ino, from, to)?;
        }
        Ok(())
    }
}

/// What of a range lies in blocks that are not whole in it: in the first one, and in the last one.
fn edges(at: u64, end: u64) -> [(u64, u64); 2] {
    let (first, last) = (at.next_multiple_of(BLOCK), end / BLOCK * BLOCK);
    if first > last { [(at, end), (end, end)] } else { [(at, first), (last, end)] }
}
