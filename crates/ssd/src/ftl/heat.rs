//! Which quarter of a drive write each slot was last written in: two bits for each, kept where host
//! streams are told apart by it.

use crate::config::Streams;

/// See above; empty where nobody asks.
#[derive(Clone, Debug)]
pub(super) struct Heat(Vec<u8>);

impl Heat {
    pub fn new(streams: Streams, slots: usize) -> Heat {
        Heat(if streams == Streams::HotCold { vec![0; slots.div_ceil(4)] } else { Vec::new() })
    }
    /// A slot is written in a quarter (its last two bits count); whether it had been in this one or
    /// the one before.
    pub fn write(&mut self, slot: u32, quarter: u64) -> bool {
        let quarter = quarter as u8 & 3;
        let (byte, shift) = (slot as usize / 4, (slot % 4) * 2);
        let last = self.0[byte] >> shift & 3;
        self.0[byte] = self.0[byte] & !(3 << shift) | quarter << shift;
        quarter.wrapping_sub(last) & 3 <= 1
    }
}
