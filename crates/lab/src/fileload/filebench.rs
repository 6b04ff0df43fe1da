//! Filebench's fileserver and varmail as loops of its flows: each thread goes round its own loop,
//! on files drawn from one set. Sizes are fixed, not drawn from a gamma law.

use block::{BlockDevice, Rng, Time};
use lfs::Nid;

use super::{Done, File, Kind, Load, Volume};
use crate::LabError;

/// Files of a directory (filebench's mean width is 20; one level is enough here).
const PER_DIR: u64 = 400;
/// Blocks of an append: 16 KiB.
const APPEND: u64 = 4;

/// Whose flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flow {
    /// Create and write a whole file, open and append 16 KiB, read a whole file, delete one, stat.
    Fileserver,
    /// Delete; create, append 16 KiB, fsync; read a whole file, append 16 KiB, fsync; read one.
    Varmail,
}

/// One step of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Create,
    Append,
    Read,
    Delete,
    Stat,
    CreateSync,
    AppendSync,
}

impl Flow {
    fn steps(self) -> &'static [Step] {
        use Step::{Append, AppendSync, Create, CreateSync, Delete, Read, Stat};
        match self {
            Flow::Fileserver => &[Create, Append, Read, Delete, Stat],
            Flow::Varmail => &[Delete, CreateSync, Read, AppendSync, Read],
        }
    }
}

/// A file of the set.
#[derive(Clone, Copy)]
struct Entry {
    number: u64,
    file: File,
}

/// The load.
pub struct Filebench {
    flow: Flow,
    threads: Vec<usize>,
    /// Blocks of a new file, by the fill and by the loop.
    blocks: [u64; 2],
    /// Blocks that the fill writes.
    target: u64,
    set: Vec<Entry>,
    /// Entries that some thread has open between two steps of its loop.
    open: Vec<Option<usize>>,
    dirs: Vec<Nid>,
    next: u64,
    rng: Rng,
    /// Threads that fsync wait for each other.
    together: bool,
}

impl Filebench {
    /// A set of files that takes about `target` blocks with their inodes.
    pub fn new(flow: Flow, threads: usize, kib: u64, target: u64, seed: u64) -> Filebench {
        let whole = kib / 4;
        let made = match flow {
            Flow::Fileserver => whole,
            Flow::Varmail => APPEND,
        };
        Filebench {
            flow,
            threads: vec![0; threads],
            blocks: [whole, made],
            target,
            set: Vec::new(),
            open: vec![None; threads],
            dirs: Vec::new(),
            next: 0,
            rng: Rng::stream(seed, "filebench"),
            together: false,
        }
    }

    /// The same, but threads that fsync wait for each other, and their files share the flushes.
    pub fn together(self) -> Filebench {
        Filebench { together: true, ..self }
    }

    /// A file is durable, or will be with others.
    fn sync<D: BlockDevice>(
        &self,
        volume: &mut Volume<D>,
        file: File,
        done: &mut Done,
    ) -> Result<(), LabError> {
        if self.together {
            done.sync = Some(file);
            return Ok(());
        }
        volume.fsync(volume.ready(), file)
    }

    fn name(number: u64) -> String {
        format!("{number:08}")
    }
    fn dir(&self, number: u64) -> Nid {
        self.dirs[(number % self.dirs.len() as u64) as usize]
    }

    fn create<D: BlockDevice>(
        &mut self,
        volume: &mut Volume<D>,
        at: Time,
        blocks: u64,
    ) -> Result<File, LabError> {
        let number = self.next;
        self.next += 1;
        let mut file = volume.create(at, self.dir(number), &Filebench::name(number))?;
        volume.write(volume.ready(), &mut file, 0, blocks)?;
        self.set.push(Entry { number, file });
        Ok(file)
    }

    fn pick(&mut self) -> usize {
        self.rng.below(self.set.len() as u64) as usize
    }

    fn append<D: BlockDevice>(
        &mut self,
        volume: &mut Volume<D>,
        at: Time,
        which: usize,
    ) -> Result<File, LabError> {
        let mut file = self.set[which].file;
        let first = file.blocks;
        volume.write(at, &mut file, first, APPEND)?;
        self.set[which].file = file;
        Ok(file)
    }
}

impl<D: BlockDevice> Load<D> for Filebench {
    fn threads(&self) -> usize {
        self.threads.len()
    }

    fn fill(&mut self, volume: &mut Volume<D>) -> Result<(), LabError> {
        let files = self.target / (self.blocks[0] + 1);
        for i in 0..files.div_ceil(PER_DIR).max(1) {
            self.dirs.push(volume.mkdir(volume.ready(), &format!("d{i:04}"))?);
        }
        for _ in 0..files {
            self.create(volume, volume.ready(), self.blocks[0])?;
        }
        volume.sync(volume.ready())
    }

    fn step(&mut self, volume: &mut Volume<D>, thread: usize, at: Time) -> Result<Done, LabError> {
        let steps = self.flow.steps();
        let step = steps[self.threads[thread]];
        self.threads[thread] = (self.threads[thread] + 1) % steps.len();
        let mut done = Done { kind: Kind::Update, at, sync: None };
        match step {
            Step::Create | Step::CreateSync => {
                let file = self.create(volume, at, self.blocks[1])?;
                if step == Step::CreateSync {
                    self.sync(volume, file, &mut done)?;
                }
            }
            Step::Append | Step::AppendSync => {
                // The file that was read before, if it is still there.
                let open = self.open[thread].take().filter(|which| *which < self.set.len());
                let which = open.unwrap_or_else(|| self.pick());
                let file = self.append(volume, at, which)?;
                if step == Step::AppendSync {
                    self.sync(volume, file, &mut done)?;
                }
            }
            Step::Delete => {
                let which = self.pick();
                let Entry { number, file } = self.set.swap_remove(which);
                volume.unlink(at, self.dir(number), &Filebench::name(number), file)?;
            }
            Step::Read => {
                let which = self.pick();
                self.open[thread] = (self.flow == Flow::Varmail).then_some(which);
                done.at = volume.read_whole(at, self.set[which].file)?;
                done.kind = Kind::Read;
                return Ok(done);
            }
            Step::Stat => {
                done.kind = Kind::Read;
                return Ok(done);
            }
        }
        done.at = volume.ready().max(at);
        Ok(done)
    }
}
