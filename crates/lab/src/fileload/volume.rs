//! A mounted volume below a page cache, as programs use it.
//!
//! Invariants: a file's length is known here, since the cache may hold back what makes it; before
//! an fsync returns, all of its file is written; what the cache holds back is known to the file
//! system, which keeps free segments for it.

use block::{BlockDevice, Bytes, Time};
use lfs::format::FileType;
use lfs::fs::{NewInode, Syncing};
use lfs::{Fs, FsError, FsOptions, MkfsOptions, Nid, Now, Stamp};

use super::{Cache, failed};
use crate::LabError;

/// Bytes of a block.
const BLOCK: u64 = block::UNIT_BYTES;
/// Blocks written by one call at most.
const CALL: u64 = 256;

/// A file: its inode and its length in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct File {
    /// The inode.
    pub ino: Nid,
    /// Blocks.
    pub blocks: u64,
}

/// A mounted volume.
pub struct Volume<D> {
    fs: Fs<D>,
    cache: Cache,
    zeroes: Vec<u8>,
    /// Where bytes that nobody wants go.
    sink: Vec<u8>,
    /// Blocks that programs wrote.
    pub written: u64,
}

fn at(time: Time) -> Now {
    let wall = time.as_ns();
    let nanos = (wall % 1_000_000_000) as u32;
    Now { at: time, wall: Stamp { seconds: 1_600_000_000 + wall / 1_000_000_000, nanos } }
}

impl<D: BlockDevice> Volume<D> {
    /// Makes a volume of the whole device, which was asked for nothing after `start`, and mounts it.
    ///
    /// # Errors
    /// A device that is too small, and what the device says.
    pub fn make(
        device: D,
        start: Time,
        options: FsOptions,
        cache: Cache,
    ) -> Result<Volume<D>, LabError> {
        let start = at(start);
        let (device, _) = lfs::mkfs(device, &MkfsOptions::new([7; 16], 1), start)
            .map_err(|e| failed("mkfs", &e))?;
        let fs = Fs::mount(device, options, start).map_err(|e| failed("mount", &e))?;
        let zeroes = vec![0; (CALL * BLOCK) as usize];
        Ok(Volume { fs, cache, sink: zeroes.clone(), zeroes, written: 0 })
    }

    /// The file system.
    pub fn fs(&self) -> &Fs<D> {
        &self.fs
    }
    /// The file system, to be asked something.
    pub fn fs_mut(&mut self) -> &mut Fs<D> {
        &mut self.fs
    }
    /// When the next call may begin.
    pub fn ready(&self) -> Time {
        self.fs.ready()
    }

    /// Makes a directory below the root.
    ///
    /// # Errors
    /// What the file system says.
    pub fn mkdir(&mut self, now: Time, name: &str) -> Result<Nid, LabError> {
        let new = NewInode { permissions: 0o755, uid: 0, gid: 0 };
        self.fs.mkdir(at(now), Nid::ROOT, name.as_bytes(), new).map_err(|e| failed("mkdir", &e))
    }

    /// Makes an empty file.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(&mut self, now: Time, dir: Nid, name: &str) -> Result<File, LabError> {
        let new = NewInode { permissions: 0o644, uid: 0, gid: 0 };
        let ino = self
            .fs
            .create(at(now), dir, name.as_bytes(), FileType::File, new, (0, 0))
            .map_err(|e| failed("create", &e))?;
        Ok(File { ino, blocks: 0 })
    }

    /// Deletes a file.
    ///
    /// # Errors
    /// What the file system says.
    pub fn unlink(&mut self, now: Time, dir: Nid, name: &str, file: File) -> Result<(), LabError> {
        self.cache.forget(file.ino);
        self.fs.hold_back(self.cache.dirty());
        self.fs.unlink(at(now), dir, name.as_bytes()).map_err(|e| failed("unlink", &e))
    }

    /// Makes a file empty.
    ///
    /// # Errors
    /// What the file system says.
    pub fn clear(&mut self, now: Time, file: &mut File) -> Result<(), LabError> {
        self.cache.forget(file.ino);
        self.fs.hold_back(self.cache.dirty());
        file.blocks = 0;
        self.fs.truncate(at(now), file.ino, Bytes(0)).map_err(|e| failed("truncate", &e))
    }

    fn put(&mut self, now: Time, ino: Nid, blocks: std::ops::Range<u64>) -> Result<(), LabError> {
        let mut first = blocks.start;
        while first < blocks.end {
            let count = (blocks.end - first).min(CALL);
            let data = &self.zeroes[..(count * BLOCK) as usize];
            let when = self.fs.ready().max(now);
            self.fs
                .write(at(when), ino, Bytes(first * BLOCK), data)
                .map_err(|e| failed("write", &e))?;
            first += count;
        }
        Ok(())
    }

    fn write_back(&mut self, now: Time, ino: Nid) -> Result<(), LabError> {
        let dirty = self.cache.clean(ino);
        self.fs.hold_back(self.cache.dirty());
        self.put(now, ino, dirty)
    }

    /// Writes blocks of a file: into the cache, which writes when too much is dirty.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(
        &mut self,
        now: Time,
        file: &mut File,
        first: u64,
        count: u64,
    ) -> Result<(), LabError> {
        self.written += count;
        file.blocks = file.blocks.max(first + count);
        self.cache.touch(file.ino, file.blocks);
        if let Some(others) = self.cache.soil(file.ino, first..first + count) {
            self.put(now, file.ino, others)?;
        }
        self.fs.hold_back(self.cache.dirty());
        // As the kernel: space is set apart at once, and the inode is dirty now and once more when
        // the data is written.
        let (from, len) = (Bytes(first * BLOCK), Bytes(count * BLOCK));
        self.fs.allocate(at(now), file.ino, from, len, false).map_err(|e| failed("write", &e))?;
        while let Some(due) = self.cache.due() {
            self.write_back(now, due)?;
        }
        Ok(())
    }

    /// Writes blocks of a file past the cache.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write_direct(
        &mut self,
        now: Time,
        file: &mut File,
        first: u64,
        count: u64,
    ) -> Result<(), LabError> {
        self.written += count;
        file.blocks = file.blocks.max(first + count);
        self.put(now, file.ino, first..first + count)
    }

    /// Reads blocks of a file; returns when they are there.
    ///
    /// # Errors
    /// What the file system says.
    pub fn read_direct(
        &mut self,
        now: Time,
        file: File,
        first: u64,
        count: u64,
    ) -> Result<Time, LabError> {
        let (mut first, end) = (first, (first + count).min(file.blocks));
        let mut there = now;
        while first < end {
            let some = (end - first).min(CALL);
            let out = &mut self.sink[..(some * BLOCK) as usize];
            self.fs
                .read(at(now), file.ino, Bytes(first * BLOCK), out)
                .map_err(|e| failed("read", &e))?;
            there = there.max(self.fs.fetched());
            first += some;
        }
        Ok(there)
    }

    /// Reads a whole file, from the cache if it is there; returns when.
    ///
    /// # Errors
    /// What the file system says.
    pub fn read_whole(&mut self, now: Time, file: File) -> Result<Time, LabError> {
        let held = self.cache.holds(file.ino);
        self.cache.touch(file.ino, file.blocks);
        if held { Ok(now) } else { self.read_direct(now, file, 0, file.blocks) }
    }

    /// Makes a file durable.
    ///
    /// # Errors
    /// What the file system says.
    pub fn fsync(&mut self, now: Time, file: File) -> Result<(), LabError> {
        self.write_back(now, file.ino)?;
        let when = self.fs.ready().max(now);
        self.fs.fsync(at(when), file.ino).map_err(|e| failed("fsync", &e))
    }

    /// Makes several files durable together. One that was removed meanwhile has nothing to lose.
    ///
    /// # Errors
    /// What the file system says.
    pub fn fsync_all(&mut self, now: Time, files: &[File]) -> Result<(), LabError> {
        for file in files {
            self.write_back(now, file.ino)?;
        }
        let when = self.fs.ready().max(now);
        let mut all: Vec<Syncing> = files.iter().map(|file| Syncing::new(file.ino)).collect();
        self.fs.fsync_all(at(when), &mut all).map_err(|e| failed("fsync", &e))?;
        all.into_iter().try_for_each(|one| match one.result() {
            Err(FsError::NotFound) => Ok(()),
            other => other.map_err(|e| failed("fsync", &e)),
        })
    }

    /// Writes everything and makes a checkpoint.
    ///
    /// # Errors
    /// What the file system says.
    pub fn sync(&mut self, now: Time) -> Result<(), LabError> {
        while let Some(ino) = self.cache.any_dirty() {
            self.write_back(now, ino)?;
        }
        let when = self.fs.ready().max(now);
        self.fs.sync(at(when)).map_err(|e| failed("sync", &e))
    }

    /// Blocks in use, and those that users may have.
    ///
    /// # Errors
    /// What the file system says.
    pub fn usage(&mut self) -> Result<(u64, u64), LabError> {
        let now = at(self.fs.ready());
        let usage = self.fs.usage(now).map_err(|e| failed("usage", &e))?;
        Ok((usage.used_blocks, usage.blocks))
    }
}
