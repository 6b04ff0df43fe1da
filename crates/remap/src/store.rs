//! What opening, checking and cleaning need of the device below, whichever driver has it.

use block::DeviceError;

use crate::geometry::Pba;

/// Blocks that outlive the process. All lengths are whole blocks of 4 KiB.
pub trait Store {
    /// Number of blocks.
    fn blocks(&self) -> u64;

    /// Reads blocks from `at` on.
    ///
    /// # Errors
    /// What the device said.
    fn read(&mut self, at: Pba, out: &mut [u8]) -> Result<(), DeviceError>;

    /// Reads the stamps of blocks from `at` on.
    ///
    /// # Errors
    /// What the device said; it may have none.
    fn read_stamps(&mut self, at: Pba, out: &mut [u64]) -> Result<(), DeviceError>;

    /// Writes blocks from `at` on.
    ///
    /// # Errors
    /// What the device said.
    fn write(&mut self, at: Pba, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Returns when everything written is durable.
    ///
    /// # Errors
    /// What the device said.
    fn flush(&mut self) -> Result<(), DeviceError>;
}
