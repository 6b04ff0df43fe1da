//! Numbers of the tables from whole numbers.

use block::Span;
use report::round::{quotient, signed};
use report::study::{Number, Value};

/// A number of thousandths.
pub(crate) fn thousandths(n: u64) -> Value {
    Number::new(i64::try_from(n).unwrap_or(i64::MAX), 3).into()
}

/// `n / d` with three decimals.
pub(crate) fn ratio(n: u64, d: u64) -> Value {
    quotient(n, d.max(1), 3)
}

/// Milliseconds with two decimals, of something that may not have happened.
pub(crate) fn ms(span: Option<Span>) -> Value {
    span.map(|span| quotient(span.as_ns(), 1_000_000, 2)).into()
}

/// By how much a factor in thousandths changes something, in per cent with its sign.
pub(crate) fn change(factor: u64) -> Value {
    signed(i64::try_from(factor).unwrap_or(i64::MAX).saturating_sub(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_as_people_do() {
        let ratios = [ratio(1, 3), ratio(2, 3), ratio(5, 0)].map(|v| v.to_string());
        assert_eq!(ratios, ["0.333", "0.667", "5.000"]);
        let changes = [873, 1000, 1049, 333].map(|factor| change(factor).to_string());
        assert_eq!(changes, ["-12.7 %", "+0.0 %", "+4.9 %", "-66.7 %"]);
        let times = [ms(Some(Span::from_us(1_234_567))), ms(None)].map(|v| v.to_string());
        assert_eq!(times, ["1234.57", "-"]);
    }
}
