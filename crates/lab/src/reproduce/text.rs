//! Numbers of the tables as texts. Rates and times have the digits that are full: what is begun is
//! not counted.

use block::Span;
use report::round::{decimals, quotient};

pub(in crate::reproduce) use report::round::change;

/// `n / d` with two decimals.
pub(in crate::reproduce) fn ratio((n, d): (u64, u64)) -> String {
    quotient(n, d.max(1), 2)
}

/// Bytes a second as MB/s.
pub(in crate::reproduce) fn rate(bytes: u64) -> String {
    decimals(i128::from(bytes / 100_000), 1)
}

/// A latency in microseconds.
pub(in crate::reproduce) fn micros(span: Span) -> String {
    decimals(i128::from(span.as_ps() / 100_000), 1)
}

/// A span in seconds with three decimals.
pub(super) fn seconds(span: Span) -> String {
    decimals(i128::from(span.as_ps() / 1_000_000_000), 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_is_what_it_is_everywhere() {
        assert_eq!((ratio((1, 3)), change(1, 3)), ("0.33".into(), "-66.7 %".into()));
        assert_eq!((ratio((5, 0)), change(5, 0)), ("5.00".into(), "-".into()));
        assert_eq!(
            (rate(1_199_999), micros(Span::from_ps(1_199_999))),
            ("11.9".into(), "1.1".into())
        );
    }
}
