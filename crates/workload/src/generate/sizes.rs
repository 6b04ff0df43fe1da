//! Request sizes of a given mean.

use block::{Bytes, Rng};

/// Sizes in KiB: the powers of two from 4 to 256.
pub const SIZES_KIB: [u64; 7] = [4, 8, 16, 32, 64, 128, 256];

/// Draws a size of [`SIZES_KIB`] with weights q^k, q solved for the mean.
#[derive(Clone, Debug)]
pub struct Sizes {
    q: f64,
    shares: [f64; 7],
    /// Out of 2^64: a draw below the k-th gives size k or less.
    limits: [u64; 7],
}

impl Sizes {
    /// Sizes with this mean; `None` unless it lies between 4 and 256 KiB, both excluded.
    pub fn with_mean(mean: Bytes) -> Option<Sizes> {
        let target = mean.0 as f64 / 1024.0;
        if target <= SIZES_KIB[0] as f64 || target >= SIZES_KIB[6] as f64 {
            return None;
        }
        // The mean grows with q. 200 halvings of an exponent range end at neighbouring numbers.
        let (mut low, mut high) = (1e-9f64, 1e9f64);
        for _ in 0..200 {
            let middle = libm::sqrt(low * high);
            match mean_kib(&shares(middle)) < target {
                true => low = middle,
                false => high = middle,
            }
        }
        let shares = shares(high);
        let mut limits = [u64::MAX; 7];
        let mut sum = 0.0;
        for (limit, share) in limits.iter_mut().zip(shares).take(6) {
            sum += share;
            *limit = (sum * 18_446_744_073_709_551_616.0) as u64;
        }
        Some(Sizes { q: high, shares, limits })
    }

    /// The next size.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> Bytes {
        let draw = rng.next_u64();
        // The count of limits passed is the index: no branch depends on the draw.
        let index: usize = self.limits[..6].iter().map(|limit| usize::from(draw >= *limit)).sum();
        Bytes(SIZES_KIB[index] << 10)
    }

    /// The ratio of the weights of neighbouring sizes.
    pub fn q(&self) -> f64 {
        self.q
    }

    /// The mean in 4 KiB pages.
    pub fn mean_pages(&self) -> f64 {
        mean_kib(&self.shares) / 4.0
    }

    /// The probability of more than `pages` pages.
    pub fn above(&self, pages: u64) -> f64 {
        let larger = SIZES_KIB.iter().zip(self.shares).filter(|(kib, _)| **kib / 4 > pages);
        larger.map(|(_, share)| share).sum()
    }
}

fn shares(q: f64) -> [f64; 7] {
    let mut weight = 1.0;
    let weights: [f64; 7] = std::array::from_fn(|_| {
        let now = weight;
        weight *= q;
        now
    });
    let total: f64 = weights.iter().sum();
    weights.map(|w| w / total)
}

fn mean_kib(shares: &[f64; 7]) -> f64 {
    SIZES_KIB.iter().zip(shares).map(|(kib, share)| *kib as f64 * share).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_met_and_the_shares_are_drawn() {
        for sectors in [9u64, 13, 22, 51, 116, 177, 500] {
            let sizes = Sizes::with_mean(Bytes(sectors * 512)).unwrap();
            assert!((sizes.mean_pages() * 8.0 - sectors as f64).abs() < 1e-6, "{sectors}");
            let (mut rng, mut sum, draws) = (Rng::new(1), 0, 300_000);
            let mut counts = [0f64; 7];
            for _ in 0..draws {
                let size = sizes.draw(&mut rng).0;
                sum += size;
                counts[(size / 4096).ilog2() as usize] += 1.0;
            }
            let mean = sum as f64 / f64::from(draws) / 512.0;
            assert!((mean / sectors as f64 - 1.0).abs() < 0.01, "{sectors}: {mean}");
            for (k, count) in counts.iter().enumerate() {
                let share = sizes.above((1 << k) - 1) - sizes.above(1 << k);
                assert!((count / f64::from(draws) - share).abs() < 0.005, "{sectors} {k}");
            }
        }
        assert!(Sizes::with_mean(Bytes(4096)).is_none());
        assert!(Sizes::with_mean(Bytes(256 << 10)).is_none());
    }
}
