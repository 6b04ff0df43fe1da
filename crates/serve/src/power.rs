//! The power of a stack: it goes on command, and comes back.
//!
//! A power cut drops what the stack holds back. (Ending the process is no power cut: what it gave
//! to the system survives that.)

use std::fmt::Debug;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use block::Medium;
use block::Rng;
use live::CutMedium;

use crate::disk::{Capabilities, Disk, DiskError, Done, Extent, Piece};

/// Memory for what is written and not synced below a stack whose power can be cut.
const HELD: usize = 256 << 20;

/// When the power is to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// At once.
    Now,
    /// At the next flush that reaches the lowest layer, which does not happen, or not wholly.
    NextFlush,
    /// At the durable operation of this number, counted from the start of the server.
    Operation(u64),
}

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<When, String> {
        match (text, text.strip_prefix("op:").map(str::parse)) {
            ("now", _) => Ok(When::Now),
            ("next-flush", _) => Ok(When::NextFlush),
            (_, Some(Ok(number))) => Ok(When::Operation(number)),
            _ => Err(format!("`{text}`: expected now, next-flush or op:NUMBER")),
        }
    }
}

/// Why the power stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum PowerError {
    /// This stack has no switch.
    #[error("the power of this stack cannot be cut: {0}")]
    NotOffered(&'static str),
    /// That operation is over.
    #[error("operation {asked} is over: {now} were done")]
    Passed {
        /// The operation asked for.
        asked: u64,
        /// Operations so far.
        now: u64,
    },
    /// It is off.
    #[error("the power is off")]
    Off,
    /// It is on.
    #[error("the power is on")]
    On,
    /// The stack did not come up again, or what the cut leaves could not be written.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// The last power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastCut {
    /// The operation it hit.
    pub operation: u64,
    /// Pieces written and not durable then (sectors of a medium; operations of an array).
    pub pending: u64,
    /// Those of them that did not survive, where that is known.
    pub lost: Option<u64>,
}

/// How the power is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PowerState {
    /// It is on.
    pub on: bool,
    /// Durable operations since the start of the server.
    pub operations: u64,
    /// Cuts so far.
    pub cuts: u64,
    /// The last of them.
    pub last: Option<LastCut>,
}

/// The switch of a stack.
pub trait Power: Debug + Send + Sync {
    /// Lets the power go.
    ///
    /// # Errors
    /// [`PowerError`].
    fn cut(&self, when: When) -> Result<(), PowerError>;
    /// Switches it on again: the stack starts from what survived.
    ///
    /// # Errors
    /// [`PowerError`].
    fn on(&self) -> Result<(), PowerError>;
    /// How it is.
    fn state(&self) -> PowerState;
}

/// A stack without a switch.
#[derive(Clone, Copy, Debug)]
pub struct NoSwitch(pub &'static str);

impl Power for NoSwitch {
    fn cut(&self, _when: When) -> Result<(), PowerError> {
        Err(PowerError::NotOffered(self.0))
    }
    fn on(&self) -> Result<(), PowerError> {
        Err(PowerError::NotOffered(self.0))
    }
    fn state(&self) -> PowerState {
        PowerState { on: true, operations: 0, cuts: 0, last: None }
    }
}

/// Starts the layers above a medium.
pub type Open = Box<dyn Fn(Arc<dyn Medium>) -> Result<Arc<dyn Disk>, DiskError> + Send + Sync>;

/// From one power-on to the next. What is left of an old one (a thread of the stack that was) can
/// change nothing: its medium stays off.
#[derive(Debug)]
struct Life {
    medium: Arc<CutMedium>,
    disk: Arc<dyn Disk>,
}

#[derive(Debug)]
struct Past {
    seeds: Rng,
    /// Operations of earlier lives.
    operations: u64,
    cuts: u64,
    last: Option<LastCut>,
}

/// Layers over a medium whose power can be cut.
pub struct Switch {
    capabilities: Capabilities,
    below: Arc<dyn Medium>,
    open: Open,
    life: RwLock<Life>,
    past: Mutex<Past>,
}

impl Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switch").field("below", &self.below).finish_non_exhaustive()
    }
}

impl Switch {
    /// Starts what `open` makes over `below`; what a cut leaves is drawn from `seed`.
    ///
    /// # Errors
    /// As `open`.
    pub fn new(below: Arc<dyn Medium>, seed: u64, open: Open) -> Result<Switch, DiskError> {
        let mut seeds = Rng::stream(seed, "serve/power");
        let medium = Arc::new(CutMedium::bounded(Arc::clone(&below), seeds.next_u64(), HELD));
        let disk = open(Arc::clone(&medium) as _)?;
        let capabilities = disk.capabilities();
        let past = Mutex::new(Past { seeds, operations: 0, cuts: 0, last: None });
        Ok(Switch { capabilities, below, open, life: RwLock::new(Life { medium, disk }), past })
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn life(&self) -> (Arc<CutMedium>, Arc<dyn Disk>) {
        let life = self.life.read().unwrap_or_else(PoisonError::into_inner);
        (Arc::clone(&life.medium), Arc::clone(&life.disk))
    }

    fn ask<R>(&self, ask: impl FnOnce(&dyn Disk) -> Result<R, DiskError>) -> Result<R, DiskError> {
        let (medium, disk) = self.life();
        match medium.left() {
            Some(_) => Err(DiskError::PowerOff),
            None => ask(&*disk).map_err(|error| why(&medium, error)),
        }
    }
}

/// Whatever the layers make of a medium that is off: the reason is the power.
fn why(medium: &CutMedium, error: DiskError) -> DiskError {
    match medium.left() {
        Some(_) if !matches!(error, DiskError::Range { .. }) => DiskError::PowerOff,
        _ => error,
    }
}

impl Power for Switch {
    fn cut(&self, when: When) -> Result<(), PowerError> {
        let past = self.past();
        let (medium, _) = self.life();
        if medium.left().is_some() {
            return Err(PowerError::Off);
        }
        match when {
            When::Now => medium.cut_now().map_err(|error| PowerError::Disk(error.into()))?,
            When::NextFlush => medium.cut_at_sync(),
            When::Operation(asked) => {
                let now = past.operations + medium.operations();
                if asked <= now {
                    return Err(PowerError::Passed { asked, now });
                }
                medium.cut_after(asked - now);
            }
        }
        Ok(())
    }

    fn on(&self) -> Result<(), PowerError> {
        let mut past = self.past();
        let mut life = self.life.write().unwrap_or_else(PoisonError::into_inner);
        let Some(left) = life.medium.left() else { return Err(PowerError::On) };
        let (below, seed) = (Arc::clone(&self.below), past.seeds.next_u64());
        let medium = Arc::new(CutMedium::bounded(below, seed, HELD));
        let disk = (self.open)(Arc::clone(&medium) as _)?;
        let operation = past.operations + left.operation;
        past.operations += life.medium.operations();
        past.cuts += 1;
        past.last = Some(LastCut { operation, pending: left.pending, lost: Some(left.lost) });
        *life = Life { medium, disk };
        Ok(())
    }

    fn state(&self) -> PowerState {
        let past = self.past();
        let (medium, _) = self.life();
        let left = medium.left();
        let last = left.map(|left| LastCut {
            operation: past.operations + left.operation,
            pending: left.pending,
            lost: Some(left.lost),
        });
        PowerState {
            on: left.is_none(),
            operations: past.operations + medium.operations(),
            cuts: past.cuts + u64::from(left.is_some()),
            last: last.or(past.last),
        }
    }
}

impl Disk for Switch {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        self.ask(|disk| disk.read(at, into))
    }
    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        self.ask(|disk| disk.write(at, from, fua))
    }
    fn joins_writes(&self) -> bool {
        self.life().1.joins_writes()
    }
    fn write_each(
        &self,
        pieces: &[Piece<'_>],
        ended: &mut dyn FnMut(usize, Result<Done, DiskError>),
    ) {
        let (medium, disk) = self.life();
        match medium.left() {
            Some(_) => (0..pieces.len()).for_each(|i| ended(i, Err(DiskError::PowerOff))),
            None => disk.write_each(pieces, &mut |i, result| {
                ended(i, result.map_err(|error| why(&medium, error)));
            }),
        }
    }
    fn flush(&self) -> Result<Done, DiskError> {
        self.ask(|disk| disk.flush())
    }
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        self.ask(|disk| disk.trim(at, bytes, fua))
    }
    fn zero(&self, at: u64, bytes: u64, keep: bool, fua: bool) -> Result<Done, DiskError> {
        self.ask(|disk| disk.zero(at, bytes, keep, fua))
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        self.life().1.zero_is_fast(at, bytes, keep)
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        self.ask(|disk| disk.extents(at, bytes, most))
    }
    fn close(&self) -> Result<(), DiskError> {
        self.ask(|disk| disk.close())
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.life().1.counters()
    }
}
