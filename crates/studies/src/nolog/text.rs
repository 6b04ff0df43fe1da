//! Numbers of the tables, from whole numbers.

use report::round::{nearest, quotient, tenths};
pub use report::round::{share, signed as percent};
use report::study::Value;

/// `n / d` with two decimals.
pub fn hundredths(n: u64, d: u64) -> Value {
    quotient(n, d, 2)
}

/// What a share of `n` in `base` has changed by, in tenths of a per cent.
pub fn change(n: u64, base: u64) -> i64 {
    tenths(n, base).unwrap_or(0)
}

/// The mean, to the nearest; 0 of nothing.
pub fn mean(values: &[i64]) -> i64 {
    let sum: i128 = values.iter().copied().map(i128::from).sum();
    nearest(sum, values.len() as i128).and_then(|mean| i64::try_from(mean).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_as_people_do() {
        let texts = [hundredths(20_425, 5000), percent(change(65, 100)), percent(change(1, 3))];
        assert_eq!(texts.map(|v| v.to_string()), ["4.09", "-35.0 %", "-66.7 %"]);
        let texts = [percent(change(151, 100)), percent(change(9996, 10_000)), share(1, 3)];
        assert_eq!(texts.map(|v| v.to_string()), ["+51.0 %", "+0.0 %", "33.3 %"]);
        assert_eq!((mean(&[-10, -20, 0]), mean(&[-10, -21]), mean(&[])), (-10, -16, 0));
        assert_eq!(
            (hundredths(1, 0), share(1, 0), change(1, 0)),
            (Value::Absent, Value::Absent, 0)
        );
    }
}
