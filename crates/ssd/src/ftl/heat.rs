//! Which slots the host wrote of late: in this quarter of a drive write, or in the one before. Two bits
//! for each slot, kept where host streams are told apart by it.
//!
//! The bits say which of three quarters in turn a slot was written in, or nothing: at the beginning of
//! a quarter what was last written two quarters ago is forgotten, so that it cannot look new when its
//! number comes again. A drive write is counted in slots of the host.

use crate::config::Streams;

/// See above; empty where nobody asks.
#[derive(Clone, Debug)]
pub(super) struct Heat {
    bits: Vec<u8>,
    /// Slots of a quarter.
    length: u64,
    written: u64,
    quarter: u64,
}

/// How the bits name a quarter.
fn name(quarter: u64) -> u8 {
    (quarter % 3) as u8 + 1
}

impl Heat {
    pub fn new(streams: Streams, slots: usize) -> Heat {
        let bits = vec![0; if streams == Streams::HotCold { slots.div_ceil(4) } else { 0 }];
        Heat { bits, length: (slots as u64 / 4).max(1), written: 0, quarter: 0 }
    }
    /// The host writes a slot; whether it had in this quarter or the one before.
    pub fn write(&mut self, slot: u32) -> bool {
        if self.written / self.length > self.quarter {
            self.quarter += 1;
            self.forget();
        }
        self.written += 1;
        let (byte, shift) = (slot as usize / 4, (slot % 4) * 2);
        let last = self.bits[byte] >> shift & 3;
        self.bits[byte] = self.bits[byte] & !(3 << shift) | name(self.quarter) << shift;
        last != 0
    }
    /// A quarter begins.
    fn forget(&mut self) {
        let old = name(self.quarter + 1) * 0b0101_0101;
        for four in &mut self.bits {
            let other = *four ^ old;
            let differs = (other | other >> 1) & 0b0101_0101;
            *four &= differs | differs << 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot written every so many writes of 400 slots: how often of a hundred times it is hot.
    fn hot(every: u64) -> u64 {
        let mut heat = Heat::new(Streams::HotCold, 400);
        let mut other = 0;
        (0..100)
            .filter(|_| {
                for _ in 1..every {
                    other = other % 399 + 1;
                    heat.write(other);
                }
                heat.write(0)
            })
            .count() as u64
    }

    #[test]
    fn what_is_written_within_a_quarter_is_hot_and_after_two_it_is_not_whatever_the_number() {
        assert_eq!([1, 30, 100].map(hot), [99, 99, 99]);
        // 100 slots are a quarter.
        for every in [200, 300, 400, 450, 500, 900, 1_650] {
            assert_eq!(hot(every), 0, "{every}");
        }
    }
}
