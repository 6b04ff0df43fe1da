//! Closed forms of write amplification under uniform random single-unit writes over the whole
//! logical space. All take ρ, the share of usable flash that holds current data.

use std::f64::consts::E;

/// The principal branch of Lambert's W for x in [-1/e, ∞): w·eʷ = x, w ≥ -1. Halley's method.
pub fn lambert_w(x: f64) -> f64 {
    assert!(x >= -1.0 / E - 1e-15, "W({x}) is not real");
    // Near the branch point W ≈ -1 + p - p²/3 with p = √(2(ex + 1)).
    let p = (2.0 * (E * x + 1.0)).max(0.0).sqrt();
    let mut w = if x < 0.5 { -1.0 + p - p * p / 3.0 } else { (1.0 + x).ln() };
    for _ in 0..100 {
        let e = w.exp();
        let f = w * e - x;
        let slope = e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0);
        if f == 0.0 || slope == 0.0 || !slope.is_finite() {
            break;
        }
        let step = f / slope;
        w -= step;
        if step.abs() <= 1e-15 * w.abs().max(1e-3) {
            break;
        }
    }
    w
}

/// FIFO cleaning (Menon 1995, Robinson 1996, Desnoyers 2012): ρ = (u-1)/ln u, WAF = 1/(1-u).
pub fn fifo(rho: f64) -> f64 {
    let a = 1.0 / rho;
    a / (a + lambert_w(-a * (-a).exp()))
}

/// Greedy cleaning with `b` units per line (Desnoyers, SYSTOR 2012).
pub fn greedy(rho: f64, b: u32) -> f64 {
    let (a, b) = (1.0 / rho, f64::from(b));
    let k = (1.0 + 1.0 / (2.0 * b)) * a;
    let x = 0.5 - b / a * lambert_w(-k * (-k).exp());
    b / (b + 1.0 - x)
}

/// The best of `d` lines drawn at random, `b` units per line (Van Houdt, SIGMETRICS 2013, mean
/// field): c·i·(y_i - y_{i+1}) = 1 - y_iᵈ for i = b..1, c such that Σ y_i = b·ρ.
pub fn choices(rho: f64, b: u32, d: u32) -> f64 {
    let sum = |c: f64| {
        let (mut y, mut sum) = (0.0f64, 0.0);
        for i in (1..=b).rev() {
            y = step(c * f64::from(i), y, d);
            sum += y;
        }
        sum
    };
    // The sum falls as c grows.
    let (mut low, mut high) = (1e-6, 1.0);
    let wanted = f64::from(b) * rho;
    while sum(high) > wanted {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if sum(middle) > wanted { low = middle } else { high = middle }
    }
    1.0 / (0.5 * (low + high) * rho)
}

/// The y with ci·(y - next) + yᵈ = 1. The left side is convex and rising, so Newton's steps from
/// y = 1 come down to it without passing it.
fn step(ci: f64, next: f64, d: u32) -> f64 {
    let mut y = 1.0f64;
    for _ in 0..100 {
        let power = y.powi(d as i32 - 1);
        let move_by = (ci * (y - next) + power * y - 1.0) / (ci + f64::from(d) * power);
        y -= move_by;
        if move_by.abs() < 1e-16 {
            break;
        }
    }
    y
}

/// A line drawn at random: every unit of it is current with probability ρ.
pub fn random(rho: f64) -> f64 {
    1.0 / (1.0 - rho)
}

/// As [`random`], but a line without anything to gain is drawn again, `b` units per line: the
/// mean-field equations of [`choices`] with the victim's state conditioned on not being full,
/// c·i·(y_i - y_{i+1}) = (1 - y_i) / (1 - y_b), which for i = b gives c·b·y_b = 1.
pub fn random_with_gain(rho: f64, b: u32) -> f64 {
    let sum = |c: f64| {
        let full = 1.0 / (c * f64::from(b));
        let (mut y, mut sum) = (full, full);
        for i in (1..b).rev() {
            let ci = c * f64::from(i) * (1.0 - full);
            y = (1.0 + ci * y) / (1.0 + ci);
            sum += y;
        }
        sum
    };
    // The sum falls as c grows; below 1/b every line would be full.
    let (mut low, mut high) = (1.000_001 / f64::from(b), 1e6);
    for _ in 0..200 {
        let middle = (low * high).sqrt();
        if sum(middle) > f64::from(b) * rho { low = middle } else { high = middle }
    }
    1.0 / ((low * high).sqrt() * rho)
}

/// ρ of a spare share of the logical space.
pub fn rho(spare: f64) -> f64 {
    1.0 / (1.0 + spare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lambert_inverts_and_knows_its_values() {
        for x in [-0.3678, -0.36, -0.3, -0.1, -1e-9, 0.0, 0.2, 0.5, 1.0, 10.0, 1e6] {
            let w = lambert_w(x);
            assert!((w * w.exp() - x).abs() <= 1e-12 * x.abs().max(1.0), "W({x}) = {w}");
            assert!(w >= -1.0);
        }
        assert!((lambert_w(1.0) - 0.567_143_290_409_783_8).abs() < 1e-14);
        assert!((lambert_w(E) - 1.0).abs() < 1e-14);
        assert!((lambert_w(-1.0 / E) + 1.0).abs() < 1e-7);
    }

    /// The published table: spare, then FIFO, greedy 64, greedy 256, d = 10, 5, 2, random.
    const TABLE: [(f64, [f64; 7]); 4] = [
        (0.07, [7.817, 7.001, 7.595, 7.828, 8.327, 10.584, 15.286]),
        (0.125, [4.680, 4.384, 4.602, 4.730, 5.014, 6.305, 9.000]),
        (0.20, [3.188, 3.053, 3.153, 3.234, 3.417, 4.253, 6.000]),
        (0.28, [2.481, 2.402, 2.461, 2.520, 2.655, 3.274, 4.571]),
    ];

    #[test]
    fn the_table_is_reproduced_to_its_last_digit() {
        for (spare, row) in TABLE {
            let r = rho(spare);
            let got = [
                fifo(r),
                greedy(r, 64),
                greedy(r, 256),
                choices(r, 256, 10),
                choices(r, 256, 5),
                choices(r, 256, 2),
                random(r),
            ];
            for (got, wanted) in got.iter().zip(row) {
                assert!((got - wanted).abs() < 0.000_6, "{spare}: {got} and {wanted}");
            }
        }
        for (spare, wanted) in [(0.07, 5.345), (0.125, 3.690), (0.2, 2.712), (0.28, 2.193)] {
            assert!((greedy(rho(spare), 16) - wanted).abs() < 0.000_6);
        }
    }

    #[test]
    fn one_choice_is_random_and_more_choices_are_never_worse() {
        for spare in [0.07, 0.125, 0.2, 0.28, 0.5] {
            let r = rho(spare);
            assert!((choices(r, 256, 1) - random(r)).abs() < 1e-6);
            let by_d: Vec<f64> = (1..20).map(|d| choices(r, 64, d)).collect();
            assert!(by_d.windows(2).all(|w| w[1] < w[0]), "{by_d:?}");
        }
    }

    #[test]
    fn drawing_again_for_gain_helps_and_only_a_little() {
        for spare in [0.07, 0.125, 0.2, 0.28] {
            let r = rho(spare);
            let (plain, gain) = (random(r), random_with_gain(r, 256));
            assert!(gain < plain && gain > 0.9 * plain, "{plain} {gain}");
            // With very large lines no line is ever full.
            assert!((random_with_gain(r, 20_000) / plain - 1.0).abs() < 0.002);
        }
    }

    #[test]
    fn kept_free_space_counts_as_lost_spare() {
        // 7 % spare of which 1 % or 5 % of the flash are kept free.
        let kept = |share: f64| fifo(rho(0.07) / (1.0 - share));
        assert!((kept(0.01) - 9.10).abs() < 0.01, "{}", kept(0.01));
        assert!((kept(0.05) - 31.0).abs() < 0.5, "{}", kept(0.05));
        // 61 % full: the value FlashSim misses by a factor of 28.
        assert!((fifo(0.61) - 1.51).abs() < 0.01);
    }
}
