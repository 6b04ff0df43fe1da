//! Numbers of the tables as texts, from whole numbers.

use block::Span;

/// A number of thousandths.
pub(crate) fn thousandths(n: u64) -> String {
    format!("{}.{:03}", n / 1000, n % 1000)
}

/// `n / d` in thousandths, rounded.
pub(crate) fn in_thousandths(n: u64, d: u64) -> u64 {
    ((u128::from(n) * 1000 + u128::from(d) / 2) / u128::from(d.max(1))) as u64
}

/// `n / d` with three decimals.
pub(crate) fn ratio(n: u64, d: u64) -> String {
    thousandths(in_thousandths(n, d))
}

/// Milliseconds with two decimals, of something that may not have happened.
pub(crate) fn ms(span: Option<Span>) -> String {
    span.map_or("-".to_string(), |span| {
        let hundredths = (span.as_ns() + 5_000) / 10_000;
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    })
}

/// By how much a factor in thousandths changes something, in per cent with its sign.
pub(crate) fn change(factor: u64) -> String {
    let sign = if factor < 1000 { '-' } else { '+' };
    let tenths = factor.abs_diff(1000);
    format!("{sign}{}.{} %", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_as_people_do() {
        assert_eq!(
            (ratio(1, 3), ratio(2, 3), ratio(5, 0)),
            ("0.333".into(), "0.667".into(), "5.000".into())
        );
        assert_eq!(
            (change(873), change(1000), change(1049)),
            ("-12.7 %".into(), "+0.0 %".into(), "+4.9 %".into())
        );
        assert_eq!((ms(Some(Span::from_us(1_234_567))), ms(None)), ("1234.57".into(), "-".into()));
    }
}
