//! Where a file has data, and where it has holes.

use std::ops::ControlFlow;

use block::{BlockDevice, Bytes};

use super::Fs;
use super::file::BLOCK;
use super::stretch::WINDOW;
use crate::format::ADDRS_PER_BLOCK;
use crate::{FsError, Nid, Now};

/// A search from a byte on; how far it came. Who has to come again goes on there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seeking {
    at: u64,
    /// A hole is sought, or data.
    hole: bool,
    /// The block to go on with.
    next: u64,
    /// Blocks whose nodes are asked for at once: few first, for most searches end soon.
    window: u64,
}

impl Seeking {
    /// For the first byte from `at` on that is data (or, with `hole`, is not).
    pub fn new(at: Bytes, hole: bool) -> Seeking {
        Seeking { at: at.0, hole, next: at.0 / BLOCK, window: ADDRS_PER_BLOCK as u64 }
    }
}

impl<D: BlockDevice> Fs<D> {
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
        self.seek_on(now, ino, &mut Seeking::new(at, hole))
    }

    /// As [`Fs::seek`], where somebody may have to come again.
    ///
    /// # Errors
    /// Those of [`Fs::seek`]; [`FsError::Again`].
    pub fn seek_on(
        &mut self,
        now: Now,
        ino: Nid,
        how: &mut Seeking,
    ) -> Result<Option<Bytes>, FsError> {
        loop {
            if let ControlFlow::Break(found) = self.look(now, |fs| fs.seek_in_window(ino, how))? {
                return Ok(found);
            }
        }
    }

    fn seek_in_window(
        &mut self,
        ino: Nid,
        how: &mut Seeking,
    ) -> Result<ControlFlow<Option<Bytes>>, FsError> {
        self.expect_contents(ino)?;
        let Seeking { at, hole, next, window } = *how;
        let inode = self.inode(ino)?;
        let (size, inline) = (inode.size(), inode.is_inline_data());
        if at >= size {
            return Ok(ControlFlow::Break(None));
        }
        if inline {
            return Ok(ControlFlow::Break(Some(Bytes(if hole { size } else { at }))));
        }
        let last = size.div_ceil(BLOCK);
        let (mut index, stop) = (next, last.min(next.saturating_add(window)));
        how.window = WINDOW.min(2 * window);
        self.prepare_nodes(ino, index, stop)?;
        while index < stop {
            let (found, behind) = match self.pointer_or_next(ino, index)? {
                Ok(pointer) => (self.pointed(pointer)?.is_place() != hole, index + 1),
                Err(behind) => (hole, behind),
            };
            if found {
                return Ok(ControlFlow::Break(Some(Bytes((index * BLOCK).max(at)))));
            }
            index = behind;
        }
        how.next = index;
        Ok(match index < last {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(hole.then_some(Bytes(size))),
        })
    }
}
