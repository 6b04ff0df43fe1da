//! Numbers of the studies' tables, rounded where `report` rounds.

use block::Span;
use report::round::quotient;
use report::study::Value;

pub(crate) use report::round::{change, share};

/// `n / d` with two decimals.
pub(crate) fn ratio((n, d): (u64, u64)) -> Value {
    quotient(n, d.max(1), 2)
}

/// Bytes a second as MB/s.
pub(crate) fn rate(bytes: u64) -> Value {
    quotient(bytes, 1_000_000, 1)
}

/// A latency in microseconds.
pub(crate) fn micros(span: Span) -> Value {
    quotient(span.as_ps(), 1_000_000, 1)
}

/// A span in seconds with three decimals.
pub(crate) fn seconds(span: Span) -> Value {
    quotient(span.as_ps(), 1_000_000_000_000, 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_is_what_it_is_everywhere() {
        let third = Span::from_ps(1_000_000_000_000 / 3);
        let values = [ratio((1, 3)), change(1, 3), rate(333_333), micros(Span::from_ps(333_333))];
        assert_eq!(values.map(|v| v.to_string()), ["0.33", "-66.7 %", "0.3", "0.3"]);
        let values = [ratio((5, 0)), change(5, 0), rate(666_667), seconds(third)];
        assert_eq!(values.map(|v| v.to_string()), ["5.00", "-", "0.7", "0.333"]);
    }
}
