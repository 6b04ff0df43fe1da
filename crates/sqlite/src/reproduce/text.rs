//! Numbers as texts, from whole numbers.

/// `n / d` with two decimals.
pub fn hundredths(n: u64, d: u64) -> String {
    if d == 0 {
        return "-".to_string();
    }
    let value = (u128::from(n) * 100 + u128::from(d) / 2) / u128::from(d);
    format!("{}.{:02}", value / 100, value % 100)
}

/// What a share of `n` in `base` has changed by, in tenths of a per cent.
pub fn change(n: u64, base: u64) -> i64 {
    if base == 0 {
        return 0;
    }
    let (n, base) = (i128::from(n), i128::from(base));
    let tenths = ((n - base) * 2000 + if n < base { -base } else { base }) / (2 * base);
    tenths as i64
}

/// Tenths of a per cent, with their sign.
pub fn percent(tenths: i64) -> String {
    let sign = if tenths < 0 { "-" } else { "+" };
    format!("{sign}{}.{} %", tenths.abs() / 10, tenths.abs() % 10)
}

/// The mean, rounded towards zero.
pub fn mean(values: &[i64]) -> i64 {
    if values.is_empty() { 0 } else { values.iter().sum::<i64>() / values.len() as i64 }
}

/// `part` of `whole` in per cent with one decimal.
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_string();
    }
    let tenths = (u128::from(part) * 1000 + u128::from(whole) / 2) / u128::from(whole);
    format!("{}.{} %", tenths / 10, tenths % 10)
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
