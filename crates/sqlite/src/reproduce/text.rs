//! Numbers as texts, from whole numbers.

use report::round::{quotient, tenths};
pub use report::round::{share, signed as percent};

/// `n / d` with two decimals.
pub fn hundredths(n: u64, d: u64) -> String {
    quotient(n, d, 2)
}

/// What a share of `n` in `base` has changed by, in tenths of a per cent.
pub fn change(n: u64, base: u64) -> i64 {
    tenths(n, base).unwrap_or(0)
}

/// The mean, rounded towards zero.
pub fn mean(values: &[i64]) -> i64 {
    if values.is_empty() { 0 } else { values.iter().sum::<i64>() / values.len() as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_as_people_do() {
        assert_eq!(hundredths(20_425, 5000), "4.09");
        assert_eq!(percent(change(65, 100)), "-35.0 %");
        assert_eq!(percent(change(1, 3)), "-66.7 %");
        assert_eq!(percent(change(151, 100)), "+51.0 %");
        assert_eq!(percent(change(9996, 10_000)), "+0.0 %");
        assert_eq!(share(1, 3), "33.3 %");
        assert_eq!(mean(&[-10, -20, 0]), -10);
        assert_eq!((hundredths(1, 0), share(1, 0), change(1, 0)), ("-".into(), "-".into(), 0));
    }
}
