//! Numbers of the tables as texts.

use block::Span;

/// `n / d` with two decimals.
pub(in crate::reproduce) fn ratio((n, d): (u64, u64)) -> String {
    let hundredths = (u128::from(n) * 100 + u128::from(d) / 2) / u128::from(d.max(1));
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// By how much `now` differs from `before`, in per cent with one decimal and its sign.
pub(in crate::reproduce) fn change(now: u64, before: u64) -> String {
    if before == 0 {
        return "-".to_string();
    }
    let tenths = (i128::from(now) - i128::from(before)) * 1000 / i128::from(before);
    let sign = if tenths < 0 { '-' } else { '+' };
    format!("{sign}{}.{} %", tenths.abs() / 10, tenths.abs() % 10)
}

/// Bytes a second as MB/s.
pub(in crate::reproduce) fn rate(bytes: u64) -> String {
    let tenths = bytes / 100_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// A latency in microseconds.
pub(in crate::reproduce) fn micros(span: Span) -> String {
    let tenths = span.as_ps() / 100_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// A span in seconds with three decimals.
pub(super) fn seconds(span: Span) -> String {
    let ms = span.as_ps() / 1_000_000_000;
    format!("{}.{:03}", ms / 1000, ms % 1000)
}
