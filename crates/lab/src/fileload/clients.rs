//! Threads as a closed loop: the one that is ready first goes on first. Those that wait until a file is
//! durable go on together, when no other can go on.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use block::{BlockDevice, Time};

use super::{File, Volume};
use crate::LabError;

/// What a step of a thread was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// It read.
    Read,
    /// It changed something.
    Update,
    /// Only part of what it is about; not counted.
    Part,
}

/// A step that is done.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// What it was.
    pub kind: Kind,
    /// When.
    pub at: Time,
    /// It is done when this file is durable, with those that others wait for at the same time.
    pub sync: Option<File>,
}

/// A load of a number of threads.
pub trait Load<D: BlockDevice> {
    /// Threads.
    fn threads(&self) -> usize;
    /// Makes what the load works on; called once, before anything.
    ///
    /// # Errors
    /// What the file system says.
    fn fill(&mut self, volume: &mut Volume<D>) -> Result<(), LabError>;
    /// The next step of a thread, not before `at`.
    ///
    /// # Errors
    /// What the file system says.
    fn step(&mut self, volume: &mut Volume<D>, thread: usize, at: Time) -> Result<Done, LabError>;
}

/// Threads and when each is ready.
pub struct Clients {
    ready: BinaryHeap<Reverse<(Time, usize)>>,
    /// Threads that wait until a file is durable.
    waiting: Vec<(usize, File)>,
    /// Threads whose file is, and that nobody was told of.
    synced: VecDeque<usize>,
}

impl Clients {
    /// So many threads, all ready at `at`.
    pub fn new(threads: usize, at: Time) -> Clients {
        let ready = (0..threads).map(|thread| Reverse((at, thread))).collect();
        Clients { ready, waiting: Vec::new(), synced: VecDeque::new() }
    }

    /// One step of the thread that is ready first: which, when it was ready, and what it did.
    ///
    /// # Errors
    /// What the file system says.
    pub fn step<D: BlockDevice>(
        &mut self,
        load: &mut dyn Load<D>,
        volume: &mut Volume<D>,
    ) -> Result<(usize, Time, Done), LabError> {
        if self.ready.is_empty() && self.synced.is_empty() {
            let (threads, files): (Vec<_>, Vec<_>) = self.waiting.drain(..).unzip();
            volume.fsync_all(volume.ready(), &files)?;
            self.synced.extend(threads);
        }
        if let Some(thread) = self.synced.pop_front() {
            let done = Done { kind: Kind::Update, at: volume.ready(), sync: None };
            self.ready.push(Reverse((done.at, thread)));
            return Ok((thread, done.at, done));
        }
        let Some(Reverse((ready, thread))) = self.ready.pop() else {
            return Err(LabError::Failed("a load without threads".to_string()));
        };
        let mut done = load.step(volume, thread, ready.max(volume.ready()))?;
        match done.sync {
            Some(file) => {
                self.waiting.push((thread, file));
                done.kind = Kind::Part;
            }
            None => self.ready.push(Reverse((done.at, thread))),
        }
        Ok((thread, ready, done))
    }
}
