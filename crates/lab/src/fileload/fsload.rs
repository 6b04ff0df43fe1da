//! The load that real F2FS was measured with: one program, one thread, whole files. The same
//! sequence of calls and draws as `crates/lab/examples/fsload.rs`, so that counters can be laid side by side.

use block::BlockDevice;
use lfs::Nid;

use super::{File, Volume};
use crate::LabError;

/// Directories.
const DIRS: u64 = 20;
/// Words of the buffer that the program fills with draws before it begins.
const BUFFER: u64 = 1 << 20;

/// What the program does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FsloadMode {
    /// A quarter each: delete and create, append 16 KiB, read, stat.
    Fileserver,
    /// Delete and create, read and append, each with fsync; else reads.
    Varmail,
}

/// The program.
pub struct Fsload {
    mode: FsloadMode,
    state: u64,
    /// Blocks of a new file.
    blocks: u64,
    files: Vec<Option<File>>,
    dirs: Vec<Nid>,
    /// Calls of fsync.
    pub fsyncs: u64,
}

impl Fsload {
    /// The program with so many files of so many KiB.
    pub fn new(mode: FsloadMode, files: u64, kib: u64) -> Fsload {
        let files = (0..files).map(|_| None).collect();
        Fsload { mode, state: 0, blocks: kib / 4, files, dirs: Vec::new(), fsyncs: 0 }
    }

    fn seed(&mut self, seed: u64) {
        self.state = seed.wrapping_mul(2_654_435_761).wrapping_add(88_172_645_463_325_252);
        (0..BUFFER).for_each(|_| {
            self.draw();
        });
    }

    fn draw(&mut self) -> u64 {
        let mut s = self.state;
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        self.state = s;
        s
    }

    fn write<D: BlockDevice>(
        &mut self,
        volume: &mut Volume<D>,
        i: usize,
        blocks: u64,
        sync: bool,
    ) -> Result<(), LabError> {
        // Fresh contents: eight places and values.
        (0..16).for_each(|_| {
            self.draw();
        });
        let now = volume.ready();
        let Some(mut file) = self.files[i] else { return Ok(()) };
        let first = file.blocks;
        volume.write(now, &mut file, first, blocks)?;
        self.files[i] = Some(file);
        if sync {
            volume.fsync(volume.ready(), file)?;
            self.fsyncs += 1;
        }
        Ok(())
    }

    fn name(i: usize) -> String {
        format!("f{i:06}")
    }

    /// `open` with O_CREAT and O_TRUNC, and all of the file.
    fn create<D: BlockDevice>(
        &mut self,
        volume: &mut Volume<D>,
        i: usize,
        sync: bool,
    ) -> Result<(), LabError> {
        let now = volume.ready();
        match &mut self.files[i] {
            Some(file) => volume.clear(now, file)?,
            none => {
                *none = Some(volume.create(now, self.dirs[i % DIRS as usize], &Fsload::name(i))?);
            }
        }
        self.write(volume, i, self.blocks, sync)
    }

    fn unlink<D: BlockDevice>(&mut self, volume: &mut Volume<D>, i: usize) -> Result<(), LabError> {
        let dir = self.dirs[i % DIRS as usize];
        match self.files[i].take() {
            Some(file) => volume.unlink(volume.ready(), dir, &Fsload::name(i), file),
            None => Ok(()),
        }
    }

    fn read<D: BlockDevice>(&mut self, volume: &mut Volume<D>, i: usize) -> Result<(), LabError> {
        match self.files[i] {
            Some(file) => volume.read_whole(volume.ready(), file).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Makes all files, then a checkpoint.
    ///
    /// # Errors
    /// What the file system says.
    pub fn fill<D: BlockDevice>(&mut self, volume: &mut Volume<D>) -> Result<(), LabError> {
        self.seed(1);
        for i in 0..DIRS {
            self.dirs.push(volume.mkdir(volume.ready(), &format!("d{i:02}"))?);
        }
        for i in 0..self.files.len() {
            self.create(volume, i, false)?;
        }
        volume.sync(volume.ready())
    }

    /// So many operations, then a checkpoint.
    ///
    /// # Errors
    /// What the file system says.
    pub fn run<D: BlockDevice>(
        &mut self,
        volume: &mut Volume<D>,
        operations: u64,
    ) -> Result<(), LabError> {
        self.seed(7);
        for _ in 0..operations {
            let i = (self.draw() % self.files.len() as u64) as usize;
            let kind = self.draw() % 4;
            let grown = self.files[i].is_some_and(|file| file.blocks > self.blocks * 3 / 2);
            let fsync = self.mode == FsloadMode::Varmail;
            match kind {
                0 => {
                    self.unlink(volume, i)?;
                    self.create(volume, i, fsync)?;
                }
                1 => {
                    if fsync {
                        self.read(volume, i)?;
                    }
                    if grown && fsync {
                        self.unlink(volume, i)?;
                    }
                    if grown {
                        self.create(volume, i, fsync)?;
                    } else {
                        self.write(volume, i, 4, fsync)?;
                    }
                }
                2 => self.read(volume, i)?,
                _ if fsync => self.read(volume, i)?,
                _ => {}
            }
        }
        volume.sync(volume.ready())
    }
}
