//! The contents of files.
//!
//! Invariants: a block that is written goes to a log at once (there is no cache of file data), its
//! pointer follows in memory; bytes beyond the size are zeroes in memory's view: a file that grows
//! finds a hole or a block whose rest was zeroed when it shrank. Data inside an inode is read, cut
//! there, and moved to a block by the first write.

use block::{BlockDevice, Bytes};

use super::Fs;
use super::logs::LogKind;
use super::outside::{Part, Source};
use super::reserve::KEEP_SIZE;
use crate::disk::Cause;
use crate::format::{BLOCK_BYTES, Block, FileType, InlineFlags, Inode, zeroed};
use crate::{BlockAddr, FsError, Nid, Now};

pub(super) const BLOCK: u64 = BLOCK_BYTES as u64;
/// Blocks written between two looks at free space.
const CHUNK: u64 = 32;
/// Bytes of the largest file: so many blocks as pointers reach.
pub(super) const LARGEST: u64 = (923 + 2 * 1018 + 2 * 1018 * 1018 + 1018 * 1018 * 1018) * BLOCK;
/// Bit of `i_advise`: the file's data is cold.
const ADVISE_COLD: u8 = 1;

impl<D: BlockDevice> Fs<D> {
    /// Reads from a regular file or symlink; returns how many bytes there were.
    ///
    /// # Errors
    /// [`FsError::IsDirectory`], [`FsError::Invalid`] for what has no contents, and what reading
    /// the media says.
    pub fn read(
        &mut self,
        now: Now,
        ino: Nid,
        at: Bytes,
        out: &mut [u8],
    ) -> Result<usize, FsError> {
        self.look(now, |fs| {
            fs.expect_contents(ino)?;
            fs.prepare_contents(ino, at.0, out.len())?;
            let count = fs.read_contents(ino, at.0, out)?;
            fs.counted.app(count as u64, 0);
            Ok(count)
        })
    }

    pub(super) fn expect_contents(&mut self, ino: Nid) -> Result<(), FsError> {
        match FileType::of_mode(self.inode(ino)?.mode()) {
            FileType::File | FileType::Symlink => Ok(()),
            FileType::Directory => Err(FsError::IsDirectory),
            _ => Err(FsError::Invalid("a device, pipe or socket has no contents here")),
        }
    }

    pub(super) fn read_contents(
        &mut self,
        ino: Nid,
        at: u64,
        out: &mut [u8],
    ) -> Result<usize, FsError> {
        let mut done = 0;
        self.walk_contents(ino, at, out.len(), |fs, Part { len, source }| {
            let out = &mut out[done..done + len];
            done += len;
            match source {
                Source::Hole => out.fill(0),
                Source::Here(bytes) => out.copy_from_slice(&bytes),
                Source::Blocks(at, 0) if len.is_multiple_of(BLOCK_BYTES) => {
                    fs.disk.fetch_run(at, out)?;
                }
                Source::Blocks(at, skip) => {
                    let mut block = [0; BLOCK_BYTES];
                    fs.disk.read(at, &mut block)?;
                    out.copy_from_slice(&block[skip..skip + len]);
                }
            }
            Ok(())
        })
    }

    /// Walks through up to `len` bytes of contents, piece by piece; how many there are. Pieces are runs of
    /// whole blocks, or lie inside one block.
    pub(super) fn walk_contents(
        &mut self,
        ino: Nid,
        mut at: u64,
        len: usize,
        mut each: impl FnMut(&mut Fs<D>, Part) -> Result<(), FsError>,
    ) -> Result<usize, FsError> {
        let inode = self.inode(ino)?;
        let there = inode.size().saturating_sub(at).min(len as u64) as usize;
        if inode.inline() & InlineFlags::DATA != 0 {
            let data = inode.inline_data();
            let known = inode.inline() & InlineFlags::EXISTS != 0;
            let byte = |i: u64| data.get(i as usize).copied().filter(|_| known).unwrap_or(0);
            let bytes: Vec<u8> = (at..at + there as u64).map(byte).collect();
            each(self, Part { len: there, source: Source::Here(bytes) })?;
            return Ok(there);
        }
        let mut rest = there;
        while rest > 0 {
            let skip = (at % BLOCK) as usize;
            let (first, len) = match skip == 0 && rest >= BLOCK_BYTES {
                true => self.run_at(ino, at / BLOCK, rest / BLOCK_BYTES)?,
                false => (self.block_at(ino, at / BLOCK)?, (BLOCK_BYTES - skip).min(rest)),
            };
            let last = first.0.wrapping_add((len.div_ceil(BLOCK_BYTES) - 1) as u32);
            let source = match first.is_place() {
                true => {
                    for addr in [first, BlockAddr(last)] {
                        let place = self.layout.place(addr);
                        place.ok_or(FsError::Corrupt("a pointer leaves the main area"))?;
                    }
                    Source::Blocks(first, skip)
                }
                false => Source::Hole,
            };
            each(self, Part { len, source })?;
            at += len as u64;
            rest -= len;
        }
        Ok(there)
    }

    /// Whole blocks that lie in a row (or are all missing): where, and how many bytes.
    fn run_at(&mut self, ino: Nid, index: u64, most: usize) -> Result<(BlockAddr, usize), FsError> {
        let first = self.block_at(ino, index)?;
        let mut count = 1;
        while count < most {
            let next = self.block_at(ino, index + count as u64)?;
            let follows = match first.is_place() {
                true => next.0 == first.0.wrapping_add(count as u32),
                false => !next.is_place(),
            };
            if !follows {
                break;
            }
            count += 1;
        }
        Ok((first, count * BLOCK_BYTES))
    }

    fn read_block(&mut self, ino: Nid, index: u64, out: &mut Block) -> Result<(), FsError> {
        let addr = self.block_at(ino, index)?;
        if !addr.is_place() {
            out.fill(0);
            return Ok(());
        }
        self.layout.place(addr).ok_or(FsError::Corrupt("a pointer leaves the main area"))?;
        self.disk.read(addr, out)
    }

    /// Writes to a regular file.
    ///
    /// # Errors
    /// [`FsError::NoSpace`] (what was written before stays), [`FsError::TooLarge`], the errors of
    /// [`Fs::read`], and what the device says.
    pub fn write(&mut self, now: Now, ino: Nid, at: Bytes, data: &[u8]) -> Result<(), FsError> {
        let end = at.0.checked_add(data.len() as u64).filter(|end| *end <= LARGEST);
        end.ok_or(FsError::TooLarge)?;
        let (mut at, mut rest) = (at.0, data);
        loop {
            let room = CHUNK * BLOCK - at % BLOCK;
            let (part, more) = rest.split_at(rest.len().min(room as usize));
            self.change(now, |fs| {
                fs.expect_contents(ino)?;
                fs.write_contents(ino, at, part)?;
                fs.counted.app(0, part.len() as u64);
                Ok(())
            })?;
            at += part.len() as u64;
            rest = more;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    pub(super) fn write_contents(&mut self, ino: Nid, at: u64, data: &[u8]) -> Result<(), FsError> {
        self.room_to_write(ino, at, data.len() as u64)?;
        self.prepare_write(ino, at, data.len() as u64)?;
        self.unfold_data(ino)?;
        let (mut place, mut rest) = (at, data);
        while !rest.is_empty() {
            let (index, skip) = (place / BLOCK, (place % BLOCK) as usize);
            let (part, more) = rest.split_at((BLOCK_BYTES - skip).min(rest.len()));
            if let Ok(whole) = <&Block>::try_from(part) {
                self.put_block(ino, index, whole)?;
            } else {
                let mut block = [0; BLOCK_BYTES];
                self.read_block(ino, index, &mut block)?;
                block[skip..skip + part.len()].copy_from_slice(part);
                self.put_block(ino, index, &block)?;
            }
            place += part.len() as u64;
            rest = more;
        }
        let stamp = self.now.wall;
        let inode = self.node_mut(ino)?;
        inode.set_size(inode.size().max(place));
        inode.set_time(1, stamp);
        inode.set_time(2, stamp);
        Ok(())
    }

    fn put_block(&mut self, ino: Nid, index: u64, block: &Block) -> Result<(), FsError> {
        let at = self.make_pointer(ino, index, None)?;
        let cold = self.inode(ino)?.advise() & ADVISE_COLD != 0;
        let log = if cold { LogKind::ColdData } else { LogKind::WarmData };
        let origin = self.origin(at)?;
        let addr = self.alloc(log, origin)?;
        self.disk.write(addr, block, Cause::Data)?;
        self.epoch.wrote(ino, self.disk.mark());
        self.aim(ino, at, addr)
    }

    /// Moves data from the inode into a block.
    pub(super) fn unfold_data(&mut self, ino: Nid) -> Result<(), FsError> {
        let inode = self.inode(ino)?;
        if inode.inline() & InlineFlags::DATA == 0 {
            return Ok(());
        }
        self.room(2, 0)?;
        let inode = self.inode(ino)?;
        let len = inode.size().min(inode.inline_data().len() as u64) as usize;
        let exists = inode.inline() & InlineFlags::EXISTS != 0;
        let data = inode.inline_data()[..len].to_vec();
        self.node_mut(ino)?.clear_inline(InlineFlags::DATA | InlineFlags::EXISTS);
        if exists && !data.is_empty() {
            let mut block = zeroed();
            block[..data.len()].copy_from_slice(&data);
            self.put_block(ino, 0, &block)?;
        }
        Ok(())
    }

    /// Makes a regular file this long; what it gains are zeroes.
    ///
    /// # Errors
    /// As [`Fs::write`].
    pub fn truncate(&mut self, now: Now, ino: Nid, size: Bytes) -> Result<(), FsError> {
        if size.0 > LARGEST {
            return Err(FsError::TooLarge);
        }
        self.lessen(now, |fs| {
            fs.expect_contents(ino)?;
            fs.resize(ino, size.0)
        })
    }

    pub(super) fn resize(&mut self, ino: Nid, size: u64) -> Result<(), FsError> {
        self.prepare_resize(ino, size)?;
        let inode = self.inode(ino)?;
        if inode.is_inline_data() && size <= inode.inline_data().len() as u64 {
            // Whatever was behind either end is zeroes now.
            let from = inode.size().min(size) as usize;
            self.node_mut(ino)?.inline_data_mut()[from..].fill(0);
        } else {
            self.unfold_data(ino)?;
        }
        if size < self.inode(ino)?.size() && !self.inode(ino)?.is_inline_data() {
            self.zero(ino, size, size.next_multiple_of(BLOCK))?;
            self.cut_blocks(ino, size.div_ceil(BLOCK))?;
        }
        let stamp = self.now.wall;
        let inode = self.node_mut(ino)?;
        if size < inode.size() {
            inode.set_advise(inode.advise() & !KEEP_SIZE);
        }
        inode.set_size(size);
        inode.set_time(1, stamp);
        inode.set_time(2, stamp);
        Ok(())
    }

    fn prepare_resize(&mut self, ino: Nid, size: u64) -> Result<(), FsError> {
        if !self.disk.is_outside() || self.inode(ino)?.size() <= size {
            return Ok(());
        }
        if !self.inode(ino)?.is_inline_data() {
            self.prepare_write(ino, size, size.next_multiple_of(BLOCK) - size)?;
            self.prepare_cut(ino, size.div_ceil(BLOCK))?;
        }
        Ok(())
    }

    /// Zeroes bytes of one block, if it is there.
    pub(super) fn zero(&mut self, ino: Nid, from: u64, to: u64) -> Result<(), FsError> {
        if from >= to || self.block_at(ino, from / BLOCK)? == BlockAddr::HOLE {
            return Ok(());
        }
        let mut block = zeroed();
        self.read_block(ino, from / BLOCK, &mut block)?;
        let skip = (from % BLOCK) as usize;
        block[skip..skip + (to - from) as usize].fill(0);
        self.put_block(ino, from / BLOCK, &block)
    }
}
