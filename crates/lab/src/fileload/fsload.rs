//! The load that real F2FS was measured with: one program, one thread, whole files. The draws and
//! what follows from them stand here once; `examples/fsload.rs` makes the calls on a mounted
//! directory, [`Fsload`] on a volume in virtual time, so that counters can be laid side by side.
//!
//! Invariant: the order of the draws never changes. The published figures of F2FS depend on it.

use block::BlockDevice;
use lfs::Nid;

use super::{File, Volume};
use crate::LabError;

/// Directories.
const DIRS: usize = 20;
/// KiB of an append.
const APPENDED: u64 = 16;
/// Bytes of the buffer that files are written from, over and over.
pub const BUFFER: usize = 1 << 20;

/// What the program does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FsloadMode {
    /// A quarter each: delete and create, append 16 KiB, read, stat.
    Fileserver,
    /// Delete and create, read and append, each with fsync; else reads.
    Varmail,
}

/// Where a file lies: number of its directory, and its name there.
pub fn place(file: usize) -> (usize, String) {
    (file % DIRS, format!("f{file:06}"))
}

/// A directory's name.
pub fn dir_name(dir: usize) -> String {
    format!("d{dir:02}")
}

/// The program's calls on a file system. Files are known by number ([`place`]).
pub trait Calls {
    /// Why a call fails.
    type Error;

    /// One byte of the buffer, drawn before the program begins.
    fn byte(&mut self, at: usize, byte: u8);
    /// Eight bytes of it, drawn before each write: fresh contents.
    fn word(&mut self, at: usize, word: u64);

    /// Makes a directory.
    ///
    /// # Errors
    /// What the file system says; so do all of them.
    fn mkdir(&mut self, dir: usize) -> Result<(), Self::Error>;
    /// Opens a file with O_CREAT and O_TRUNC if it is to be fresh, else to append; writes so many
    /// KiB; `fsync` if asked for.
    ///
    /// # Errors
    /// As [`Calls::mkdir`].
    fn write(&mut self, file: usize, fresh: bool, kib: u64, sync: bool) -> Result<(), Self::Error>;
    /// Reads all of a file.
    ///
    /// # Errors
    /// As [`Calls::mkdir`].
    fn read(&mut self, file: usize) -> Result<(), Self::Error>;
    /// Takes a file's name away.
    ///
    /// # Errors
    /// As [`Calls::mkdir`].
    fn unlink(&mut self, file: usize) -> Result<(), Self::Error>;
    /// How long a file is, in bytes.
    ///
    /// # Errors
    /// As [`Calls::mkdir`].
    fn length(&mut self, file: usize) -> Result<u64, Self::Error>;
}

/// The program.
#[derive(Clone, Debug)]
pub struct Program {
    mode: FsloadMode,
    files: usize,
    /// KiB of a new file.
    kib: u64,
    state: u64,
    /// Calls of fsync.
    pub fsyncs: u64,
}

impl Program {
    /// With so many files of so many KiB.
    pub fn new(mode: FsloadMode, files: usize, kib: u64) -> Program {
        Program { mode, files, kib, state: 0, fsyncs: 0 }
    }

    fn seed<C: Calls>(&mut self, calls: &mut C, seed: u64) {
        self.state = seed.wrapping_mul(2_654_435_761).wrapping_add(88_172_645_463_325_252);
        (0..BUFFER).for_each(|at| calls.byte(at, self.draw() as u8));
    }

    fn draw(&mut self) -> u64 {
        let mut s = self.state;
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        self.state = s;
        s
    }

    fn write<C: Calls>(
        &mut self,
        calls: &mut C,
        file: usize,
        (fresh, kib): (bool, u64),
        sync: bool,
    ) -> Result<(), C::Error> {
        // Fresh contents: the place is drawn first.
        for _ in 0..8 {
            let at = (self.draw() % (BUFFER as u64 / 8)) as usize * 8;
            calls.word(at, self.draw());
        }
        self.fsyncs += u64::from(sync);
        calls.write(file, fresh, kib, sync)
    }

    /// Makes all directories and files.
    ///
    /// # Errors
    /// What the file system says.
    pub fn fill<C: Calls>(&mut self, calls: &mut C, seed: u64) -> Result<(), C::Error> {
        self.seed(calls, seed);
        (0..DIRS).try_for_each(|dir| calls.mkdir(dir))?;
        (0..self.files).try_for_each(|file| self.write(calls, file, (true, self.kib), false))
    }

    /// So many operations.
    ///
    /// # Errors
    /// What the file system says.
    pub fn run<C: Calls>(
        &mut self,
        calls: &mut C,
        operations: u64,
        seed: u64,
    ) -> Result<(), C::Error> {
        self.seed(calls, seed);
        (0..operations).try_for_each(|_| self.step(calls))
    }

    fn step<C: Calls>(&mut self, calls: &mut C) -> Result<(), C::Error> {
        let file = (self.draw() % self.files as u64) as usize;
        let mail = self.mode == FsloadMode::Varmail;
        match self.draw() % 4 {
            0 => {
                calls.unlink(file)?;
                self.write(calls, file, (true, self.kib), mail)
            }
            1 => {
                if mail {
                    calls.read(file)?;
                }
                if calls.length(file)? <= self.kib * 1024 * 3 / 2 {
                    return self.write(calls, file, (false, APPENDED), mail);
                }
                if mail {
                    calls.unlink(file)?;
                }
                self.write(calls, file, (true, self.kib), mail)
            }
            3 if !mail => calls.length(file).map(drop),
            _ => calls.read(file),
        }
    }
}

/// The program in process.
pub struct Fsload {
    program: Program,
    files: Vec<Option<File>>,
    dirs: Vec<Nid>,
}

/// Its calls.
struct OnVolume<'a, D> {
    volume: &'a mut Volume<D>,
    files: &'a mut [Option<File>],
    dirs: &'a mut Vec<Nid>,
}

impl<D> OnVolume<'_, D> {
    fn file(&self, file: usize) -> Result<File, LabError> {
        self.files[file].ok_or_else(|| LabError::Failed(format!("fsload: no file {file}")))
    }
}

impl<D: BlockDevice> Calls for OnVolume<'_, D> {
    type Error = LabError;

    // Contents are zeroes here.
    fn byte(&mut self, _at: usize, _byte: u8) {}
    fn word(&mut self, _at: usize, _word: u64) {}

    fn mkdir(&mut self, dir: usize) -> Result<(), LabError> {
        self.dirs.push(self.volume.mkdir(self.volume.ready(), &dir_name(dir))?);
        Ok(())
    }

    fn write(&mut self, number: usize, fresh: bool, kib: u64, sync: bool) -> Result<(), LabError> {
        let now = self.volume.ready();
        let mut file = match self.files[number] {
            Some(mut file) => {
                if fresh {
                    self.volume.clear(now, &mut file)?;
                }
                file
            }
            None => {
                let (dir, name) = place(number);
                self.volume.create(now, self.dirs[dir], &name)?
            }
        };
        let first = file.blocks;
        self.volume.write(self.volume.ready(), &mut file, first, kib / 4)?;
        self.files[number] = Some(file);
        if sync { self.volume.fsync(self.volume.ready(), file) } else { Ok(()) }
    }

    fn read(&mut self, file: usize) -> Result<(), LabError> {
        let file = self.file(file)?;
        self.volume.read_whole(self.volume.ready(), file).map(drop)
    }

    fn unlink(&mut self, number: usize) -> Result<(), LabError> {
        let (file, (dir, name)) = (self.file(number)?, place(number));
        self.files[number] = None;
        self.volume.unlink(self.volume.ready(), self.dirs[dir], &name, file)
    }

    fn length(&mut self, file: usize) -> Result<u64, LabError> {
        Ok(self.file(file)?.blocks * block::UNIT_BYTES)
    }
}

impl Fsload {
    /// The program with so many files of so many KiB.
    pub fn new(mode: FsloadMode, files: usize, kib: u64) -> Fsload {
        let program = Program::new(mode, files, kib);
        Fsload { program, files: vec![None; files], dirs: Vec::new() }
    }

    /// Calls of fsync.
    pub fn fsyncs(&self) -> u64 {
        self.program.fsyncs
    }

    /// Makes all files, then a checkpoint.
    ///
    /// # Errors
    /// What the file system says.
    pub fn fill<D: BlockDevice>(&mut self, volume: &mut Volume<D>) -> Result<(), LabError> {
        let Fsload { program, files, dirs } = self;
        program.fill(&mut OnVolume { volume, files, dirs }, 1)?;
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
        let Fsload { program, files, dirs } = self;
        program.run(&mut OnVolume { volume, files, dirs }, operations, 7)?;
        volume.sync(volume.ready())
    }
}
