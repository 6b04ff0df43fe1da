//! Zipf-distributed ranks for any exponent, in constant memory, without a power for each draw.

use block::Rng;

/// Buckets per octave of ranks: ranks of one bucket differ in probability by a sixteenth at most
/// (times the exponent), which is what a draw is rejected with.
const PER_OCTAVE: u64 = 16;

/// Draws rank `k` of `0..n` with a probability proportional to `(k + 1)^-theta`.
///
/// Composition and rejection (L. Devroye, "Non-Uniform Random Variate Generation", 1986, chapter
/// II): ranks are put into at most `16 log2 n` buckets of neighbours; a bucket is drawn by an alias
/// table (A. J. Walker, 1977), as if all its ranks had its first rank's probability; a rank of it
/// is drawn uniformly and kept with the ratio of its own probability to the first one's. The
/// law is exact. Rejection-inversion, the usual choice, gives the same law but needs a
/// power for each draw, and with the pure-Rust `libm` makes a quarter as many requests a second.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: u64,
    theta: f64,
    buckets: Vec<Bucket>,
}

/// Ranks `first..first + width`, counted from 1, and its row of the alias table.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    first: u64,
    width: u64,
    /// Out of 2^64: what the last rank, and so every rank, of the bucket is kept with.
    sure: u64,
    /// Out of 2^64: this row stands for its own bucket; else for `alias`.
    own: u64,
    alias: u32,
}

/// `share` of 2^64, saturating.
fn of_two_64(share: f64) -> u64 {
    (share * 18_446_744_073_709_551_616.0) as u64
}

impl Zipf {
    /// Ranks `0..n` with exponent `theta`; `n` is from 1 to 2^48, `theta` above 0.
    pub fn new(n: u64, theta: f64) -> Zipf {
        assert!((1..=1 << 48).contains(&n), "zipf over {n} ranks");
        assert!(theta > 0.0 && theta.is_finite(), "zipf with exponent {theta}");
        let (mut buckets, mut weights, mut first) = (Vec::new(), Vec::new(), 1u64);
        while first <= n {
            let octave = 1 << first.ilog2();
            let width = (octave / PER_OCTAVE).max(1).min(n - first + 1);
            let last = (first + width - 1) as f64;
            let sure = of_two_64(libm::pow(last / first as f64, -theta));
            buckets.push(Bucket { first, width, sure, own: 0, alias: 0 });
            weights.push(libm::pow(first as f64, -theta) * width as f64);
            first += width;
        }
        fill_alias_table(&mut buckets, &weights);
        Zipf { n, theta, buckets }
    }

    /// The next rank, from 0 (the most frequent).
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            // The high half of the product chooses, the low half is a uniform number again, to
            // within the factor's share of 2^64.
            let row = u128::from(rng.next_u64()) * self.buckets.len() as u128;
            let mut bucket = &self.buckets[(row >> 64) as usize];
            if row as u64 >= bucket.own {
                bucket = &self.buckets[bucket.alias as usize];
            }
            if bucket.width == 1 {
                return bucket.first - 1;
            }
            let place = u128::from(rng.next_u64()) * u128::from(bucket.width);
            let rank = bucket.first + (place >> 64) as u64;
            if (place as u64) < bucket.sure || self.keeps(bucket.first, rank, place as u64) {
                return rank - 1;
            }
        }
    }

    #[cold]
    fn keeps(&self, first: u64, rank: u64, draw: u64) -> bool {
        draw < of_two_64(libm::pow(rank as f64 / first as f64, -self.theta))
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u64 {
        self.n
    }

    /// The sum of `f(p)` over the probabilities of all ranks, near enough for a calibration:
    /// exact for the first 1024 ranks, then in bars of a 256th of their rank.
    pub fn sum(&self, mut f: impl FnMut(f64) -> f64) -> f64 {
        let total = self.weigh(|_, weight, ranks| weight * ranks);
        self.weigh(|_, weight, ranks| f(weight / total) * ranks)
    }

    /// The sum of `k^-theta` over all ranks, as near.
    pub(super) fn zeta(&self) -> f64 {
        self.weigh(|_, weight, ranks| weight * ranks)
    }

    fn weigh(&self, mut f: impl FnMut(u64, f64, f64) -> f64) -> f64 {
        let (mut sum, mut k) = (0.0, 1u64);
        while k <= self.n {
            let width = if k <= 1024 { 1 } else { (k / 256).min(self.n - k + 1) };
            let middle = k as f64 + (width - 1) as f64 / 2.0;
            sum += f(k, libm::pow(middle, -self.theta), width as f64);
            k += width;
        }
        sum
    }
}

/// Walker's table in Vose's order (1991): every row holds its own bucket up to `own`, and one other.
fn fill_alias_table(buckets: &mut [Bucket], weights: &[f64]) {
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    let mut scaled: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..weights.len()).partition(|row| scaled[*row] < 1.0);
    while let (Some(row), Some(giver)) = (small.last().copied(), large.last().copied()) {
        small.pop();
        buckets[row].own = of_two_64(scaled[row]);
        buckets[row].alias = giver as u32;
        scaled[giver] -= 1.0 - scaled[row];
        if scaled[giver] < 1.0 {
            large.pop();
            small.push(giver);
        }
    }
    // What is left has weight 1 but for rounding.
    for row in small.into_iter().chain(large) {
        buckets[row].own = u64::MAX;
        buckets[row].alias = row as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-square over the first ranks and one cell for the rest; the limit is the 0.1 % point of
    /// 32 degrees of freedom, the seed is fixed.
    fn chi(n: u64, theta: f64) -> f64 {
        let zipf = Zipf::new(n, theta);
        let (mut rng, draws, mut counts) = (Rng::new(4), 400_000, vec![0f64; 33]);
        for _ in 0..draws {
            counts[zipf.draw(&mut rng).min(32) as usize] += 1.0;
        }
        let weights: Vec<f64> = (1..=n).map(|k| (k as f64).powf(-theta)).collect();
        let total: f64 = weights.iter().sum();
        let mut expected: Vec<f64> = weights[..32].to_vec();
        expected.push(weights[32..].iter().sum());
        let cells = counts.iter().zip(&expected);
        cells
            .map(|(c, w)| (c - w / total * draws as f64).powi(2) / (w / total * draws as f64))
            .sum()
    }

    #[test]
    fn ranks_follow_the_law_for_any_exponent() {
        for theta in [0.1, 0.6, 0.8, 0.95, 0.99, 1.0, 1.0 + 1e-9, 1.2, 2.5] {
            for n in [64, 1000, 100_000] {
                let chi = chi(n, theta);
                assert!(chi < 62.5, "n {n} theta {theta}: {chi}");
            }
        }
    }

    #[test]
    fn the_tail_is_reached_and_never_passed() {
        for n in [1, 2, 3, 1 << 40] {
            let (zipf, mut rng) = (Zipf::new(n, 0.5), Rng::new(5));
            let draws: Vec<u64> = (0..10_000).map(|_| zipf.draw(&mut rng)).collect();
            assert!(draws.iter().all(|k| *k < n));
            assert!(draws.iter().any(|k| *k >= n - 1 - n / 10), "{n}");
        }
    }

    #[test]
    fn sums_over_probabilities() {
        for n in [10, 5_000, 3_000_000] {
            let zipf = Zipf::new(n, 0.95);
            assert!((zipf.sum(|p| p) - 1.0).abs() < 1e-9);
            let harmonic: f64 = (1..=n).map(|k| (k as f64).powf(-0.95)).sum();
            let exact: f64 = (1..=n).map(|k| ((k as f64).powf(-0.95) / harmonic).sqrt()).sum();
            assert!((zipf.sum(f64::sqrt) / exact - 1.0).abs() < 1e-4, "{n}");
        }
    }
}
