//! The generator of sqlite-bench: x becomes 16807 x mod (2^31 - 1) (Park and Miller, 1988).

/// The "minimal standard" generator.
#[derive(Clone, Debug)]
pub struct MinStd(u32);

const MODULUS: u64 = (1 << 31) - 1;

impl MinStd {
    /// A generator; seeds 0 and 2^31 - 1, which would stay what they are, become 1.
    pub fn new(seed: u32) -> MinStd {
        let seed = seed & MODULUS as u32;
        MinStd(if seed == 0 || u64::from(seed) == MODULUS { 1 } else { seed })
    }

    /// The next number, 1 to 2^31 - 2.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        self.0 = (u64::from(self.0) * 16_807 % MODULUS) as u32;
        self.0
    }

    /// A number below `bound`, by remainder as the tool does it.
    pub fn below(&mut self, bound: u64) -> u64 {
        u64::from(self.draw()) % bound
    }

    /// Fills `bytes` in pieces of 100 bytes, the second half of each a repetition of the first:
    /// half compressible.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(100) {
            let half = piece.len().div_ceil(2);
            for byte in &mut piece[..half] {
                *byte = b' ' + self.below(95) as u8;
            }
            for at in half..piece.len() {
                piece[at] = piece[at - half];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ten_thousandth_number_is_the_published_one() {
        // Park and Miller, Communications of the ACM 31 (10), 1988: seed 1 gives 1043618065.
        let mut draws = MinStd::new(1);
        let last = (0..10_000).map(|_| draws.draw()).last();
        assert_eq!(last, Some(1_043_618_065));
    }
}
