//! Threads as a closed loop: the one that is ready first goes on first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use block::{BlockDevice, Time};

use super::Volume;
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
}

impl Clients {
    /// So many threads, all ready at `at`.
    pub fn new(threads: usize, at: Time) -> Clients {
        Clients { ready: (0..threads).map(|thread| Reverse((at, thread))).collect() }
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
        let Some(Reverse((ready, thread))) = self.ready.pop() else {
            return Err(LabError::Failed("a load without threads".to_string()));
        };
        let done = load.step(volume, thread, ready.max(volume.ready()))?;
        self.ready.push(Reverse((done.at, thread)));
        Ok((thread, ready, done))
    }
}
