//! Space that is set apart before it is written, and where a file has data.
//!
//! Invariants: a reserved block is counted, has no place and reads as zeroes; a file with blocks
//! behind its size carries the mark that says so, until it is cut.

use block::{BlockDevice, Bytes};

use super::Fs;
use super::file::{BLOCK, LARGEST};
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
        let end = at.0.checked_add(len.0).filter(|end| *end <= LARGEST);
        let end = end.ok_or(FsError::TooLarge)?;
        let (mut next, last) = (at.0 / BLOCK, end.div_ceil(BLOCK));
        self.change(now, |fs| {
            fs.expect_contents(ino)?;
            fs.unfold_data(ino)?;
            let missing = fs.holes(ino, next, last)?;
            // Nodes on the way to them are counted, too.
            fs.room_to_add(missing + missing / ADDRS_PER_BLOCK as u64 + 6, 6)?;
            if keep && end > fs.inode(ino)?.size() {
                let inode = fs.node_mut(ino)?;
                inode.set_advise(inode.advise() | KEEP_SIZE);
            }
            Ok(())
        })?;
        while next < last {
            let stop = last.min(next + CHUNK);
            self.change(now, |fs| fs.reserve(ino, next, stop))?;
            next = stop;
        }
        self.change(now, |fs| {
            let stamp = fs.now.wall;
            let inode = fs.node_mut(ino)?;
            if !keep && end > inode.size() {
                inode.set_size(end);
                inode.set_time(2, stamp);
            }
            inode.set_time(1, stamp);
            Ok(())
        })
    }

    fn reserve(&mut self, ino: Nid, from: u64, to: u64) -> Result<(), FsError> {
        self.prepare_pointers(ino, from, to)?;
        // What is there already needs no room.
        let missing = self.holes(ino, from, to)?;
        if missing == 0 {
            return Ok(());
        }
        self.room_to_add(missing + 6, 6)?;
        for index in from..to {
            let at = self.make_pointer(ino, index, None)?;
            if self.pointed(at)? == BlockAddr::HOLE {
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

    /// The first byte from `at` on that is data (or, with `hole`, is not); none behind the end.
    /// There is a hole behind the last byte of every file. Reserved space is a hole.
    ///
    /// # Errors
    /// As [`Fs::read`].
    pub fn seek(
        &mut self,
        now: Now,
        ino: Nid,
        at: Bytes,
        hole: bool,
    ) -> Result<Option<Bytes>, FsError> {
        self.look(now, |fs| {
            fs.expect_contents(ino)?;
            let inode = fs.inode(ino)?;
            let (size, inline) = (inode.size(), inode.is_inline_data());
            if at.0 >= size {
                return Ok(None);
            }
            if inline {
                return Ok(Some(Bytes(if hole { size } else { at.0 })));
            }
            let (mut index, last) = (at.0 / BLOCK, size.div_ceil(BLOCK));
            while index < last {
                index = match fs.pointer_or_next(ino, index)? {
                    Ok(pointer) if fs.pointed(pointer)?.is_place() != hole => {
                        return Ok(Some(Bytes((index * BLOCK).max(at.0))));
                    }
                    Ok(_) => index + 1,
                    Err(_) if hole => return Ok(Some(Bytes((index * BLOCK).max(at.0)))),
                    Err(next) => next,
                };
            }
            Ok(hole.then_some(Bytes(size)))
        })
    }
}
