//! Numbers of the tables as texts, from whole numbers.

use block::Span;
use report::round::{decimals, quotient, signed};

/// A number of thousandths.
pub(crate) fn thousandths(n: u64) -> String {
    decimals(i128::from(n), 3)
}

/// `n / d` with three decimals.
pub(crate) fn ratio(n: u64, d: u64) -> String {
    quotient(n, d.max(1), 3)
}

/// Milliseconds with two decimals, of something that may not have happened.
pub(crate) fn ms(span: Option<Span>) -> String {
    span.map_or("-".to_string(), |span| quotient(span.as_ns(), 1_000_000, 2))
}

/// By how much a factor in thousandths changes something, in per cent with its sign.
pub(crate) fn change(factor: u64) -> String {
    signed(i64::try_from(factor).unwrap_or(i64::MAX).saturating_sub(1000))
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
        let changes = [873, 1000, 1049, 333].map(change);
        assert_eq!(changes, ["-12.7 %", "+0.0 %", "+4.9 %", "-66.7 %"]);
        assert_eq!((ms(Some(Span::from_us(1_234_567))), ms(None)), ("1234.57".into(), "-".into()));
    }
}
