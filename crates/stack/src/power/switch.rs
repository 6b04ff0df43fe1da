//! Layers over something whose power can go: each power-on starts them anew from what survived.

use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock};

use block::Medium;

use super::{MediumSupply, Power, PowerError, PowerState, When};
use crate::disk::{Ask, Capabilities, Disk, DiskError, Done, Extent, Piece, Told, TransactError};

/// What loses its power. From one power-on to the next is a life: what is left of an old one (a thread of
/// the stack that was) can change nothing, because its medium stays off.
pub trait Supply: Debug + Send + Sync {
    /// Lets the power go.
    ///
    /// # Errors
    /// [`PowerError`].
    fn cut(&self, when: When) -> Result<(), PowerError>;
    /// Whether it is on, in the life that was last started.
    fn is_on(&self) -> bool;
    /// How it is.
    fn state(&self) -> PowerState;
    /// Begins a new life: what the layers stand on in it. [`Supply::started`] or [`Supply::failed`]
    /// follows.
    ///
    /// # Errors
    /// It is on, or what survived does not come up.
    fn on(&self) -> Result<Arc<dyn Medium>, PowerError>;
    /// The layers stand.
    fn started(&self);
    /// They do not: it is off as before.
    fn failed(&self);
}

/// Starts the layers above a medium.
pub type Open = Box<dyn Fn(Arc<dyn Medium>) -> Result<Arc<dyn Disk>, DiskError> + Send + Sync>;

/// Layers over a supply.
pub struct Switch {
    capabilities: Capabilities,
    supply: Box<dyn Supply>,
    open: Open,
    disk: RwLock<Arc<dyn Disk>>,
}

impl Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Switch").field("supply", &self.supply).finish_non_exhaustive()
    }
}

impl Switch {
    /// Starts what `open` makes over `first`, the medium of the supply's first life.
    ///
    /// # Errors
    /// As `open`.
    pub fn new(
        supply: Box<dyn Supply>,
        first: Arc<dyn Medium>,
        open: Open,
    ) -> Result<Switch, DiskError> {
        let disk = open(first)?;
        Ok(Switch { capabilities: disk.capabilities(), supply, open, disk: RwLock::new(disk) })
    }

    /// Starts what `open` makes over `below`; what a cut leaves is drawn from `seed`.
    ///
    /// # Errors
    /// As `open`.
    pub fn of_medium(below: Arc<dyn Medium>, seed: u64, open: Open) -> Result<Switch, DiskError> {
        let (supply, first) = MediumSupply::new(below, seed);
        Switch::new(Box::new(supply), first, open)
    }

    fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn ask<R>(&self, ask: impl FnOnce(&dyn Disk) -> Result<R, DiskError>) -> Result<R, DiskError> {
        let disk = self.disk();
        match self.supply.is_on() {
            false => Err(DiskError::PowerOff),
            true => ask(&*disk).map_err(|error| self.why(error)),
        }
    }

    /// Whatever the layers make of a medium that is off: the reason is the power.
    fn why(&self, error: DiskError) -> DiskError {
        match self.supply.is_on() {
            false if !matches!(error, DiskError::Range { .. }) => DiskError::PowerOff,
            _ => error,
        }
    }
}

impl Power for Switch {
    fn cut(&self, when: When) -> Result<(), PowerError> {
        self.supply.cut(when)
    }

    fn on(&self) -> Result<(), PowerError> {
        let mut disk = self.disk.write().unwrap_or_else(PoisonError::into_inner);
        let medium = self.supply.on()?;
        match (self.open)(medium) {
            Ok(new) => {
                *disk = new;
                self.supply.started();
                Ok(())
            }
            Err(error) => {
                self.supply.failed();
                Err(error.into())
            }
        }
    }

    fn state(&self) -> PowerState {
        self.supply.state()
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
        self.disk().joins_writes()
    }
    fn write_each(
        &self,
        pieces: &[Piece<'_>],
        ended: &mut dyn FnMut(usize, Result<Done, DiskError>),
    ) {
        let disk = self.disk();
        match self.supply.is_on() {
            false => (0..pieces.len()).for_each(|i| ended(i, Err(DiskError::PowerOff))),
            true => disk.write_each(pieces, &mut |i, result| {
                ended(i, result.map_err(|error| self.why(error)));
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
        self.disk().zero_is_fast(at, bytes, keep)
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        self.ask(|disk| disk.extents(at, bytes, most))
    }
    fn transact(&self, ask: Ask<'_>) -> Result<Told, TransactError> {
        let disk = self.disk();
        match self.supply.is_on() {
            false => Err(DiskError::PowerOff.into()),
            true => disk.transact(ask).map_err(|error| match error {
                TransactError::Disk(error) => self.why(error).into(),
                // What the layers of a life that is over say of their transactions is the power's doing.
                _ if !self.supply.is_on() => DiskError::PowerOff.into(),
                refused => refused,
            }),
        }
    }
    fn close(&self) -> Result<(), DiskError> {
        self.ask(|disk| disk.close())
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.disk().counters()
    }
}
