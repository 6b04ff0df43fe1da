//! A seeded bijection of `0..n` in constant memory: where hot ranks lie, and shuffles that visit
//! every block once.

use block::Rng;

/// Half rounds of the network. Four suffice for a pseudo-random permutation against an adversary
/// (Luby and Rackoff, 1988); six because the round function is one multiplication.
const HALF_ROUNDS: usize = 6;

/// A Feistel network over the smallest power of two that holds `n`, walked until the result falls
/// below `n` (fewer than two steps on average).
#[derive(Clone, Debug)]
pub struct Scatter {
    n: u64,
    /// Widths of the two halves; they differ by one where the whole is odd.
    low_bits: u32,
    high_bits: u32,
    keys: [u64; HALF_ROUNDS],
}

impl Scatter {
    /// A bijection of `0..n` drawn from `rng`; `n` is from 1 to 2^62.
    pub fn new(n: u64, rng: &mut Rng) -> Scatter {
        assert!((1..=1 << 62).contains(&n), "a domain of {n}");
        let bits = (64 - (n - 1).leading_zeros()).max(2);
        Scatter {
            n,
            low_bits: bits / 2,
            high_bits: bits - bits / 2,
            keys: std::array::from_fn(|_| rng.next_u64()),
        }
    }

    /// The image of `index`, which is below `n`.
    #[inline]
    pub fn apply(&self, index: u64) -> u64 {
        debug_assert!(index < self.n);
        let mut x = self.walk(index);
        while x >= self.n {
            x = self.walk(x);
        }
        x
    }

    #[inline(always)]
    fn walk(&self, x: u64) -> u64 {
        let mut low = x & ((1 << self.low_bits) - 1);
        let mut high = x >> self.low_bits;
        for pair in self.keys.chunks_exact(2) {
            low ^= round(high, pair[0], self.low_bits);
            high ^= round(low, pair[1], self.high_bits);
        }
        high << self.low_bits | low
    }
}

/// `bits` pseudo-random bits of `x`: the high ones of a product, which depend on all of `x`.
#[inline(always)]
fn round(x: u64, key: u64, bits: u32) -> u64 {
    let product = (x ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product ^ product >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> (64 - bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_a_bijection() {
        let mut rng = Rng::new(1);
        for n in (1..200).chain([1000, 4096, 4097, 10_007]) {
            let scatter = Scatter::new(n, &mut rng);
            let mut seen = vec![false; n as usize];
            for x in 0..n {
                let y = scatter.apply(x) as usize;
                assert!(!std::mem::replace(&mut seen[y], true), "{n}: {y} twice");
            }
        }
    }

    #[test]
    fn neighbours_are_scattered_uniformly() {
        // Where the first 2^14 ranks of 2^20 land, in 64 cells: chi-square with 63 degrees of
        // freedom, 0.1 % points below and above (a lattice would be far too even).
        let (mut rng, n) = (Rng::new(2), 1u64 << 20);
        for _ in 0..4 {
            let scatter = Scatter::new(n, &mut rng);
            let mut cells = [0f64; 64];
            let mut steps = [0f64; 64];
            for x in 0..1 << 14 {
                let (y, next) = (scatter.apply(x), scatter.apply(x + 1));
                cells[(y >> 14) as usize] += 1.0;
                steps[((next.wrapping_sub(y) % n) >> 14) as usize] += 1.0;
            }
            for counts in [cells, steps] {
                let chi: f64 = counts.iter().map(|c| (c - 256.0) * (c - 256.0) / 256.0).sum();
                assert!((32.0..103.5).contains(&chi), "{chi}");
            }
        }
    }
}
