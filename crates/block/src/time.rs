//! Virtual time in picoseconds: exact for every bus rate that matters, 213 days long.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A moment of virtual time, in picoseconds since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A length of virtual time, in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

const PS_PER_NS: u64 = 1_000;
const PS_PER_US: u64 = 1_000_000;
const PS_PER_SECOND: u128 = 1_000_000_000_000;

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// The last moment a request may be submitted at (half the range, 106 days): the other half
    /// leaves room for what the request books, so that no sum overflows unseen.
    pub const LIMIT: Time = Time(u64::MAX / 2);

    /// A moment `ps` picoseconds after the start.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }
    /// A moment `ns` nanoseconds after the start.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns * PS_PER_NS)
    }
    /// A moment `us` microseconds after the start.
    pub const fn from_us(us: u64) -> Time {
        Time(us * PS_PER_US)
    }
    /// Picoseconds since the start.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// Whole nanoseconds since the start.
    pub const fn as_ns(self) -> u64 {
        self.0 / PS_PER_NS
    }
    /// The span from `earlier` to here; zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
    /// The sum, or `None` past the end of virtual time.
    pub const fn checked_add(self, span: Span) -> Option<Time> {
        match self.0.checked_add(span.0) {
            Some(ps) => Some(Time(ps)),
            None => None,
        }
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// A span of `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Span {
        Span(ps)
    }
    /// A span of `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Span {
        Span(ns * PS_PER_NS)
    }
    /// A span of `us` microseconds.
    pub const fn from_us(us: u64) -> Span {
        Span(us * PS_PER_US)
    }
    /// Picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// As people read times, exactly: `963.3 ms`, `20 s`; [`crate::parse_time`] reads it.
    pub fn human(self) -> String {
        let units = [(PS_PER_SECOND as u64, "s"), (1_000 * PS_PER_US, "ms"), (PS_PER_US, "us")];
        // Nine decimals are read at most.
        let exact = |(scale, _): &(u64, &str)| {
            self.0 >= *scale && self.0.is_multiple_of((scale / 1_000_000_000).max(1))
        };
        let unit = units.into_iter().chain([(PS_PER_NS, "ns")]).find(exact);
        let (scale, name) = unit.unwrap_or((1, "ps"));
        let digits = scale.ilog10() as usize;
        let part = format!("{:0digits$}", self.0 % scale);
        let text = format!("{}.{}", self.0 / scale, if digits == 0 { "" } else { &part });
        format!("{} {name}", text.trim_end_matches('0').trim_end_matches('.'))
    }
    /// Whole nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0 / PS_PER_NS
    }
    /// `n` times this span.
    pub const fn times(self, n: u64) -> Span {
        Span(self.0 * n)
    }
    /// Time to move `bytes` at `bytes_per_second`, rounded up to a picosecond; zero at rate 0,
    /// which means "not a limit". Multiplies before it divides, in 128 bits.
    pub const fn transfer(bytes: u64, bytes_per_second: u64) -> Span {
        if bytes_per_second == 0 {
            return Span(0);
        }
        let ps = (bytes as u128 * PS_PER_SECOND).div_ceil(bytes_per_second as u128);
        assert!(ps <= u64::MAX as u128, "a transfer longer than virtual time");
        Span(ps as u64)
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0 + span.0)
    }
}
impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        self.0 += span.0;
    }
}
impl Sub<Time> for Time {
    type Output = Span;
    fn sub(self, earlier: Time) -> Span {
        debug_assert!(self >= earlier);
        Span(self.0.wrapping_sub(earlier.0))
    }
}
impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0 + other.0)
    }
}
impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        self.0 += other.0;
    }
}
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ps", self.0)
    }
}
impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ps", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_exact_and_fall_with_the_rate() {
        // specs: 8 KiB at 333, 667 and 1200 MB/s: 24.60, 12.28, 6.83 us. Integer nanoseconds per
        // two transfers (a peer's choice) give 24.58, 8.19 and 0.
        assert_eq!(Span::transfer(8192, 333_000_000).as_ns(), 24_600);
        assert_eq!(Span::transfer(8192, 667_000_000).as_ns(), 12_281);
        assert_eq!(Span::transfer(8192, 1_200_000_000).as_ns(), 6_826);
        let mut last = Span::transfer(8192, 200_000_000);
        for rate in (201..=2400).map(|m| m * 1_000_000) {
            let span = Span::transfer(8192, rate);
            assert!(span < last, "the bus must get faster at {rate} B/s");
            last = span;
        }
    }

    #[test]
    fn rate_zero_is_free() {
        assert_eq!(Span::transfer(u64::MAX, 0), Span::ZERO);
    }
}
