//! Space that is set apart before it is written.
//!
//! Invariants: a reserved block is counted, has no place and reads as zeroes; a file with blocks
//! behind its size carries the mark that says so, until it is cut.

use std::ops::Range;

use block::{BlockDevice, Bytes};

use super::Fs;
use super::file::{BLOCK, LARGEST};
use super::stretch::{Stretch, WINDOW};
use crate::format::{ADDRS_PER_BLOCK, Inode};
use crate::{BlockAddr, FsError, Nid, Now};

/// Blocks set apart between two looks at what is dirty.
const CHUNK: u64 = 512;
/// Bit of `i_advise`: blocks behind the size are meant.
pub(super) const KEEP_SIZE: u8 = 0x10;

impl<D: BlockDevice> Fs<D> {
    /// Sets space apart for a range of a regular file; what is there stays. The file grows to hold
    /// the range unless `keep` is set.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] if the whole range has no room (nothing changed then), and the errors
    /// of [`Fs::write`].
    pub fn allocate(
        &mut self,
        now: Now,
        ino: Nid,
        at: Bytes,
        len: Bytes,
        keep: bool,
    ) -> Result<(), FsError> {
        let mut how = Stretch::new(at, len)?;
        while !self.allocate_on(now, ino, &mut how, keep)? {}
        Ok(())
    }

    /// As [`Fs::allocate`], the next part of it; whether that was the last one. Others may take the room in between.
    ///
    /// # Errors
    /// Those of [`Fs::allocate`]; [`FsError::Again`].
    pub fn allocate_on(
        &mut self,
        now: Now,
        ino: Nid,
        how: &mut Stretch,
        keep: bool,
    ) -> Result<bool, FsError> {
        self.set_apart_on(now, ino, how, keep, false)
    }

    /// Makes a range of a regular file zeroes, with space set apart for all of it, as by [`Fs::allocate`]. What is there
    /// becomes space that is set apart: that takes no room, and nobody else gets it in between.
    ///
    /// # Errors
    /// Those of [`Fs::allocate`].
    pub fn zero_range(
        &mut self,
        now: Now,
        ino: Nid,
        at: Bytes,
        len: Bytes,
        keep: bool,
    ) -> Result<(), FsError> {
        let mut how = Stretch::new(at, len)?;
        while !self.zero_range_on(now, ino, &mut how, keep)? {}
        Ok(())
    }

    /// As [`Fs::zero_range`], the next part of it; whether that was the last one.
    ///
    /// # Errors
    /// Those of [`Fs::zero_range`]; [`FsError::Again`].
    pub fn zero_range_on(
        &mut self,
        now: Now,
        ino: Nid,
        how: &mut Stretch,
        keep: bool,
    ) -> Result<bool, FsError> {
        self.set_apart_on(now, ino, how, keep, true)
    }

    fn set_apart_on(
        &mut self,
        now: Now,
        ino: Nid,
        how: &mut Stretch,
        keep: bool,
        zeroes: bool,
    ) -> Result<bool, FsError> {
        if how.end > LARGEST {
            return Err(FsError::TooLarge);
        }
        let last = how.end.div_ceil(BLOCK);
        let Some(next) = how.next else {
            self.look_for_room(now, ino, how, keep, zeroes)?;
            return Ok(false);
        };
        if next < last {
            let stop = last.min(next + CHUNK);
            let whole = if zeroes { how.at.div_ceil(BLOCK)..how.end / BLOCK } else { 0..0 };
            let beyond = keep.then_some(how.end);
            self.apart(now, zeroes, |fs| {
                fs.reserve(ino, next..stop, whole)?;
                fs.mark_beyond(ino, beyond)
            })?;
            how.next = Some(stop);
            return Ok(false);
        }
        let end = how.end;
        self.apart(now, zeroes, |fs| {
            let stamp = fs.now.wall;
            let inode = fs.node_mut(ino)?;
            let grows = !keep && end > inode.size();
            if grows {
                inode.set_size(end);
            }
            if grows || zeroes {
                inode.set_time(2, stamp);
            }
            inode.set_time(1, stamp);
            Ok(())
        })?;
        Ok(true)
    }

    /// Zeroes replace what is there: a full volume does not refuse them.
    fn apart<T>(
        &mut self,
        now: Now,
        zeroes: bool,
        body: impl FnOnce(&mut Fs<D>) -> Result<T, FsError>,
    ) -> Result<T, FsError> {
        if zeroes { self.lessen(now, body) } else { self.change(now, body) }
    }

    /// Counts what is missing, a window at a time; behind the last one it is refused, or begun.
    fn look_for_room(
        &mut self,
        now: Now,
        ino: Nid,
        how: &mut Stretch,
        keep: bool,
        zeroes: bool,
    ) -> Result<(), FsError> {
        let Stretch { at, end, looked, holes, .. } = *how;
        let last = end.div_ceil(BLOCK);
        let stop = last.min(looked.saturating_add(WINDOW));
        if stop < last {
            how.holes += self.look(now, |fs| {
                fs.expect_contents(ino)?;
                fs.prepare_nodes(ino, looked, stop)?;
                match fs.inode(ino)?.is_inline_data() {
                    true => Ok(stop - looked),
                    false => fs.holes(ino, looked, stop),
                }
            })?;
            how.looked = stop;
            return Ok(());
        }
        self.apart(now, zeroes, |fs| {
            fs.expect_contents(ino)?;
            fs.prepare_nodes(ino, looked, last)?;
            fs.unfold_data(ino)?;
            let missing = holes + fs.holes(ino, looked, last)?;
            if missing > 0 {
                // Nodes on the way to them are counted, too.
                fs.room_to_add(missing + missing / ADDRS_PER_BLOCK as u64 + 6, 6)?;
            }
            if zeroes {
                fs.zero_edges(ino, at, end)?;
            }
            fs.mark_beyond(ino, keep.then_some(end))
        })?;
        how.next = Some(at / BLOCK);
        Ok(())
    }

    /// Blocks up to this byte are meant, if it lies behind the size.
    fn mark_beyond(&mut self, ino: Nid, end: Option<u64>) -> Result<(), FsError> {
        let inode = self.inode(ino)?;
        let (size, advise) = (inode.size(), inode.advise());
        if end.is_some_and(|end| end > size) && advise & KEEP_SIZE == 0 {
            self.node_mut(ino)?.set_advise(advise | KEEP_SIZE);
        }
        Ok(())
    }

    /// Sets blocks apart that are holes, and those of `whole` that hold something.
    fn reserve(&mut self, ino: Nid, all: Range<u64>, whole: Range<u64>) -> Result<(), FsError> {
        self.prepare_pointers(ino, all.start, all.end)?;
        // What is there already needs no room.
        let missing = self.holes(ino, all.start, all.end)?;
        if missing > 0 {
            self.room_to_add(missing + 6, 6)?;
        } else if whole.is_empty() {
            return Ok(());
        }
        for index in all {
            let at = self.make_pointer(ino, index, None)?;
            let there = self.pointed(at)?;
            if there == BlockAddr::HOLE || there.is_place() && whole.contains(&index) {
                self.aim(ino, at, BlockAddr::RESERVED)?;
            }
        }
        Ok(())
    }

    /// Blocks of a range that are holes; more than the volume has at most.
    pub(super) fn holes(&mut self, ino: Nid, from: u64, to: u64) -> Result<u64, FsError> {
        let (mut index, mut count) = (from, 0);
        while index < to && count <= self.cp().user_blocks {
            match self.pointer_or_next(ino, index)? {
                Ok(at) if self.pointed(at)? != BlockAddr::HOLE => index += 1,
                Ok(_) => (index, count) = (index + 1, count + 1),
                Err(next) => (index, count) = (next.min(to), count + (next.min(to) - index)),
            }
        }
        Ok(count)
    }
}
