//! Write amplification of a stack: the one place that says by what bytes are divided.
//!
//! Invariant: what the layers add, times what the drive adds, is what the whole stack adds.

use block::Op;
use ssd::Stats;

use super::LayerCounts;

/// Bytes written to the top of a stack, by that to the drive, by that to flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amplification {
    /// Bytes the client wrote.
    asked: u64,
    /// Bytes the drive was asked to write.
    written: u64,
    /// Bytes programmed.
    programmed: u64,
}

impl Amplification {
    /// Of a device with these counters, and those of the layers in it. The counters of the host
    /// are those of the client, whatever stands between it and the drive: dividing by them takes
    /// all layers in, and nothing may be multiplied by what a layer adds again.
    pub fn of(stats: &Stats, layers: &[LayerCounts]) -> Amplification {
        let asked = stats.of(Op::Write).bytes;
        let written = layers.last().map_or(asked, |layer| layer.below);
        Amplification { asked, written, programmed: stats.programmed_bytes() }
    }

    /// The same for a client that wrote so many bytes into something above the stack, which let fewer through.
    #[must_use]
    pub fn for_client(self, asked: u64) -> Amplification {
        Amplification { asked, ..self }
    }

    /// Bytes programmed, and bytes the client wrote.
    pub fn whole(&self) -> (u64, u64) {
        (self.programmed, self.asked)
    }
    /// Bytes programmed, and bytes the drive was asked to write.
    pub fn drive(&self) -> (u64, u64) {
        (self.programmed, self.written)
    }
    /// Bytes the drive was asked to write, and bytes the client wrote: the same without a layer.
    pub fn above(&self) -> (u64, u64) {
        (self.written, self.asked)
    }
}
