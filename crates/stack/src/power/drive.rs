//! A modelled drive whose power can go, below layers: its flash is left as at that moment.

use std::sync::{Arc, Mutex, PoisonError};

use block::Medium;

use super::{Power, PowerError, PowerState, Supply, When};
use crate::disk::{CutDrive, DiskMedium, ModelDisk};

/// See the module.
#[derive(Debug)]
pub struct DriveSupply {
    drive: Arc<ModelDisk<CutDrive>>,
    /// What the layers of this life stand on.
    life: Mutex<Life>,
}

#[derive(Debug)]
struct Life {
    medium: Arc<DiskMedium>,
    /// Its layers stand.
    stands: bool,
}

impl DriveSupply {
    /// Over a drive; and the medium of the first life.
    pub fn new(drive: Arc<ModelDisk<CutDrive>>) -> (DriveSupply, Arc<dyn Medium>) {
        let medium = Arc::new(DiskMedium::new(Arc::clone(&drive) as _));
        let life = Mutex::new(Life { medium: Arc::clone(&medium), stands: true });
        (DriveSupply { drive, life }, medium)
    }

    fn with<R>(&self, work: impl FnOnce(&mut Life) -> R) -> R {
        work(&mut self.life.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Supply for DriveSupply {
    fn cut(&self, when: When) -> Result<(), PowerError> {
        self.drive.cut(when)
    }

    fn is_on(&self) -> bool {
        self.with(|life| life.stands) && self.drive.state().on
    }

    fn state(&self) -> PowerState {
        PowerState { on: self.is_on(), ..self.drive.state() }
    }

    fn on(&self) -> Result<Arc<dyn Medium>, PowerError> {
        self.with(|life| {
            if life.stands && self.drive.state().on {
                return Err(PowerError::On);
            }
            life.stands = false;
            // Before the drive comes up: nothing of the old life reaches it.
            life.medium.let_go();
            if !self.drive.state().on {
                self.drive.on()?;
            }
            life.medium = Arc::new(DiskMedium::new(Arc::clone(&self.drive) as _));
            Ok(Arc::clone(&life.medium) as _)
        })
    }

    fn started(&self) {
        self.with(|life| life.stands = true);
    }

    fn failed(&self) {
        self.with(|life| life.medium.let_go());
        // It came up for nothing. Where it is off already, it was cut meanwhile.
        let _ = self.drive.cut(When::Now);
    }
}
