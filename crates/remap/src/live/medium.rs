//! A medium where recovery and checks want a store.

use std::sync::Arc;

use block::{DeviceError, Medium};

use crate::geometry::{BLOCK, Pba};
use crate::store::Store;

/// A medium as recovery and checks want it.
#[derive(Clone, Debug)]
pub struct MediumStore(pub Arc<dyn Medium>);

pub(super) fn at(pba: Pba) -> u64 {
    u64::from(pba.0) * BLOCK as u64
}

impl Store for MediumStore {
    fn blocks(&self) -> u64 {
        self.0.size().unwrap_or(0) / BLOCK as u64
    }
    fn read(&mut self, pba: Pba, out: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read(at(pba), out).map_err(|e| DeviceError::Io(e.to_string()))
    }
    fn read_stamps(&mut self, _: Pba, _: &mut [u64]) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported("a medium keeps bytes, no stamps"))
    }
    fn write(&mut self, pba: Pba, bytes: &[u8]) -> Result<(), DeviceError> {
        self.0.write(at(pba), bytes).map_err(|e| DeviceError::Io(e.to_string()))
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        self.0.sync().map_err(|e| DeviceError::Io(e.to_string()))
    }
}
