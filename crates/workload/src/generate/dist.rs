//! Distributions over `0..n` and over the positive numbers. All powers and logarithms come from the
//! pure-Rust `libm`, so that the same seed gives the same numbers on every platform.

use block::Rng;

use super::zipf::Zipf;

/// A part of the items takes a part of the accesses (hotspot(x, y)); uniform within each.
#[derive(Clone, Debug)]
pub struct Hotspot {
    n: u64,
    hot: u64,
    hits_ppm: u64,
}

impl Hotspot {
    /// `hot_ppm` millionths of the `n` items (at least one) take `hits_ppm` millionths of the draws.
    pub fn new(n: u64, hot_ppm: u64, hits_ppm: u64) -> Hotspot {
        assert!(n > 0 && hot_ppm <= 1_000_000 && hits_ppm <= 1_000_000);
        let hot = (u128::from(n) * u128::from(hot_ppm) / 1_000_000) as u64;
        Hotspot { n, hot: hot.max(1), hits_ppm }
    }

    /// The next item; the hot ones come first.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        if self.hot == self.n || rng.ratio(self.hits_ppm, 1_000_000) {
            return rng.below(self.hot);
        }
        self.hot + rng.below(self.n - self.hot)
    }
}

/// The newer, the likelier: the newest item minus a Zipf rank, as far back as there are items.
#[derive(Clone, Debug)]
pub struct Latest {
    zipf: Zipf,
}

impl Latest {
    /// Looks back over at most `window` items with exponent `theta`.
    pub fn new(window: u64, theta: f64) -> Latest {
        Latest { zipf: Zipf::new(window, theta) }
    }

    /// An item of `0..=newest`. Ranks further back than there are items are drawn again.
    #[inline]
    pub fn draw(&self, newest: u64, rng: &mut Rng) -> u64 {
        loop {
            if let Some(item) = newest.checked_sub(self.zipf.draw(rng)) {
                return item;
            }
        }
    }
}

/// A power law over `0..n`, by its Pareto principle: the share `1 − h` of the draws falls on the
/// first share `h` of the items, at every scale (h = 0.2 is "80 % of the accesses to 20 %").
#[derive(Clone, Debug)]
pub struct Pareto {
    n: u64,
    power: f64,
}

impl Pareto {
    /// Items `0..n`; `h` lies between 0 and 1, 0.5 is uniform.
    pub fn new(n: u64, h: f64) -> Pareto {
        assert!(n > 0 && h > 0.0 && h < 1.0, "pareto over {n} with {h}");
        // u < 1 − h must map to less than h: (1 − h)^power = h.
        Pareto { n, power: libm::log(h) / libm::log(1.0 - h) }
    }

    /// The next item.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        // A power as exp(log): half the time of `pow`, and its last digits do not matter here. The
        // logarithm of 0 is −∞, whose exponential is 0.
        let share = libm::exp(libm::log(rng.unit_f64()) * self.power);
        ((share * self.n as f64) as u64).min(self.n - 1)
    }
}

/// Exponential with a mean: times between arrivals, or distances from the start.
#[derive(Clone, Debug)]
pub struct Exponential {
    mean: f64,
}

impl Exponential {
    /// Mean `mean`, which is not negative.
    pub fn new(mean: f64) -> Exponential {
        assert!(mean >= 0.0 && mean.is_finite(), "exponential with mean {mean}");
        Exponential { mean }
    }

    /// The next value.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        // 1 − u lies in (0, 1]: the logarithm is finite.
        -libm::log(1.0 - rng.unit_f64()) * self.mean
    }

    /// The next item of `0..n`; values beyond are drawn again.
    #[inline]
    pub fn draw_below(&self, n: u64, rng: &mut Rng) -> u64 {
        loop {
            let item = self.draw(rng) as u64;
            if item < n {
                return item;
            }
        }
    }
}

/// Gamma with a shape and a mean: file sizes (filebench's `gamma`).
///
/// G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", ACM TOMS 26(3),
/// 2000; normals by Marsaglia's polar method.
#[derive(Clone, Debug)]
pub struct Gamma {
    d: f64,
    c: f64,
    scale: f64,
}

impl Gamma {
    /// Shape at least 1, mean not negative.
    pub fn new(shape: f64, mean: f64) -> Gamma {
        assert!(shape >= 1.0 && mean >= 0.0 && mean.is_finite(), "gamma({shape}, {mean})");
        let d = shape - 1.0 / 3.0;
        Gamma { d, c: 1.0 / libm::sqrt(9.0 * d), scale: mean / shape }
    }

    /// The next value.
    pub fn draw(&self, rng: &mut Rng) -> f64 {
        loop {
            let x = normal(rng);
            let v = 1.0 + self.c * x;
            if v <= 0.0 {
                continue;
            }
            let v = v * v * v;
            let u = 1.0 - rng.unit_f64();
            if libm::log(u) < 0.5 * x * x + self.d * (1.0 - v + libm::log(v)) {
                return self.d * v * self.scale;
            }
        }
    }
}

/// A standard normal value; the polar method's second one is left unused to keep no state.
fn normal(rng: &mut Rng) -> f64 {
    loop {
        let (a, b) = (2.0 * rng.unit_f64() - 1.0, 2.0 * rng.unit_f64() - 1.0);
        let s = a * a + b * b;
        if s > 0.0 && s < 1.0 {
            return a * libm::sqrt(-2.0 * libm::log(s) / s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 200_000;

    /// Chi-square of draws against expected shares of ten cells; 27.88 is the 0.1 % point of 9
    /// degrees of freedom.
    fn ten_cells(mut cell: impl FnMut(&mut Rng) -> usize, shares: [f64; 10]) {
        let (mut rng, mut counts) = (Rng::new(9), [0f64; 10]);
        for _ in 0..DRAWS {
            counts[cell(&mut rng)] += 1.0;
        }
        let cells = counts.iter().zip(shares).map(|(c, s)| (c, s * DRAWS as f64));
        let chi: f64 = cells.map(|(c, e)| (c - e) * (c - e) / e).sum();
        assert!(chi < 27.88, "{chi} {counts:?}");
    }

    #[test]
    fn hotspot_gives_the_hot_part_its_hits() {
        let hotspot = Hotspot::new(1000, 200_000, 800_000);
        let mut shares = [0.2 / 8.0; 10];
        shares[0] = 0.4;
        shares[1] = 0.4;
        ten_cells(|rng| hotspot.draw(rng) as usize / 100, shares);
        let mut rng = Rng::new(1);
        assert!((0..100).all(|_| Hotspot::new(1, 10, 0).draw(&mut rng) == 0));
    }

    #[test]
    fn pareto_keeps_its_principle() {
        let pareto = Pareto::new(1 << 30, 0.2);
        let power = 0.2f64.ln() / 0.8f64.ln();
        let edge = |i: usize| (i as f64 / 10.0).powf(1.0 / power);
        let shares = std::array::from_fn(|i| edge(i + 1) - edge(i));
        assert!((edge(2) - 0.8).abs() < 1e-12);
        ten_cells(|rng| (pareto.draw(rng) as f64 / (1u64 << 30) as f64 * 10.0) as usize, shares);
    }

    #[test]
    fn exponential_falls_by_e() {
        let exponential = Exponential::new(1000.0);
        let tail = |i: usize| (-(i as f64) / 4.0).exp();
        let shares = std::array::from_fn(|i| tail(i) - if i == 9 { 0.0 } else { tail(i + 1) });
        ten_cells(|rng| ((exponential.draw(rng) / 250.0) as usize).min(9), shares);
        let mut rng = Rng::new(2);
        assert!((0..1000).all(|_| exponential.draw_below(300, &mut rng) < 300));
    }

    #[test]
    fn gamma_has_its_moments() {
        let gamma = Gamma::new(1.5, 32_768.0);
        let mut rng = Rng::new(3);
        let draws: Vec<f64> = (0..DRAWS).map(|_| gamma.draw(&mut rng)).collect();
        let mean = draws.iter().sum::<f64>() / DRAWS as f64;
        let var = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / DRAWS as f64;
        assert!((mean / 32_768.0 - 1.0).abs() < 0.01, "{mean}");
        // Variance of gamma = mean^2 / shape.
        assert!((var / (32_768.0 * 32_768.0 / 1.5) - 1.0).abs() < 0.03, "{var}");
        assert!(draws.iter().all(|x| *x > 0.0));
    }

    #[test]
    fn latest_prefers_the_newest() {
        let (latest, mut rng) = (Latest::new(1 << 20, 0.99), Rng::new(4));
        let draws: Vec<u64> = (0..20_000).map(|_| latest.draw(999, &mut rng)).collect();
        let newest = draws.iter().filter(|d| **d == 999).count();
        let before = draws.iter().filter(|d| **d == 998).count();
        assert!(draws.iter().all(|d| *d <= 999));
        assert!(newest * 10 > before * 18 && newest * 10 < before * 22, "{newest} {before}");
    }
}
