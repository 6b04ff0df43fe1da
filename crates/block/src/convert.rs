//! Texts with units: `64 MiB`, `333 MB/s`, `1200 MT/s x8`, `60 us`. A unit is never guessed. Switches: `on`,
//! `off`.

use crate::{Bytes, Span};

/// What is wrong with a text that should carry a unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: expected {expected}")]
pub struct ParseUnitError {
    /// The text found.
    pub text: String,
    /// What would have been right.
    pub expected: &'static str,
}

const SIZES: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("K", 1 << 10),
    ("KiB", 1 << 10),
    ("M", 1 << 20),
    ("MiB", 1 << 20),
    ("G", 1 << 30),
    ("GiB", 1 << 30),
    ("T", 1 << 40),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];
const RATES: &[(&str, u64)] = &[
    ("B/s", 1),
    ("KiB/s", 1 << 10),
    ("MiB/s", 1 << 20),
    ("GiB/s", 1 << 30),
    ("kB/s", 1_000),
    ("MB/s", 1_000_000),
    ("GB/s", 1_000_000_000),
];
const TIMES: &[(&str, u64)] = &[
    ("ps", 1),
    ("ns", 1_000),
    ("us", 1_000_000),
    ("µs", 1_000_000),
    ("ms", 1_000_000_000),
    ("s", 1_000_000_000_000),
];

/// A decimal number with at most 9 places times a scale, exactly; `None` if that is not whole.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && part.is_empty()) || part.len() > 9 {
        return None;
    }
    if !whole.bytes().chain(part.bytes()).all(|b| b.is_ascii_digit() || b == b'_') {
        return None;
    }
    let digits: String = [whole, part].concat().replace('_', "");
    let value = digits.parse::<u128>().ok()?.checked_mul(u128::from(scale))?;
    let ten = 10u128.pow(part.len() as u32);
    (value % ten == 0).then(|| u64::try_from(value / ten).ok()).flatten()
}

fn parse(text: &str, units: &[(&str, u64)], expected: &'static str) -> Result<u64, ParseUnitError> {
    let trimmed = text.trim();
    let cut = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..cut], trimmed[cut..].trim());
    units
        .iter()
        .find(|(name, _)| *name == unit)
        .and_then(|(_, scale)| scaled(number, *scale))
        .ok_or_else(|| ParseUnitError { text: text.to_string(), expected })
}

/// `on` or `off`: every boolean of a configuration.
///
/// # Errors
/// Anything else.
pub fn parse_switch(text: &str) -> Result<bool, ParseUnitError> {
    let expected = match text.trim() {
        "on" => return Ok(true),
        "off" => return Ok(false),
        "true" => "`on`, as it is called now",
        "false" => "`off`, as it is called now",
        _ => "on or off",
    };
    Err(ParseUnitError { text: text.to_string(), expected })
}

/// What [`parse_switch`] reads.
pub fn switch_text(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// `8M`, `16 KiB`, `300 GiB` (binary: K M G T, KiB..), `4 kB`, `2 GB` (decimal), bare bytes.
///
/// # Errors
/// The text, and what was expected.
pub fn parse_size(text: &str) -> Result<Bytes, ParseUnitError> {
    parse(text, SIZES, "a size such as `16 KiB`, `8M` (2^20) or `2 GB` (10^9)").map(Bytes)
}

/// Bytes per second: `333 MB/s` (10^6), `800 MiB/s` (2^20), `333 MT/s x8` (transfers times width
/// in bits), `0` or `none` for "not a limit".
///
/// # Errors
/// The text, and what was expected.
pub fn parse_rate(text: &str) -> Result<u64, ParseUnitError> {
    const EXPECTED: &str = "a rate such as `333 MB/s`, `800 MiB/s`, `1200 MT/s x8` or `none`";
    let trimmed = text.trim();
    if trimmed == "none" || trimmed == "0" {
        return Ok(0);
    }
    if let Some((transfers, width)) = trimmed.split_once("MT/s") {
        let err = || ParseUnitError { text: text.to_string(), expected: EXPECTED };
        let bits = match width.trim() {
            "x8" => 8,
            "x16" => 16,
            _ => return Err(err()),
        };
        return scaled(transfers.trim(), 1_000_000 * bits / 8).ok_or_else(err);
    }
    parse(text, RATES, EXPECTED)
}

/// `60 us`, `3.5 ms`, `100 ns`, `2 s`, `0`.
///
/// # Errors
/// The text, and what was expected.
pub fn parse_time(text: &str) -> Result<Span, ParseUnitError> {
    if text.trim() == "0" {
        return Ok(Span::ZERO);
    }
    parse(text, TIMES, "a time such as `60 us`, `3.5 ms` or `100 ns`").map(Span::from_ps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_it_is_written() {
        let text = |ps| Span::from_ps(ps).human();
        assert_eq!(text(963_311_900_000), "963.3119 ms");
        assert_eq!((text(69_000_000_000_000), text(10)), ("69 s".to_string(), "10 ps".to_string()));
        for ps in [0, 1, 999, 1000, 100_500, 7_000_001, 1_000_000_000_001, u64::MAX] {
            assert_eq!(parse_time(&text(ps)).unwrap(), Span::from_ps(ps), "{}", text(ps));
        }
    }

    #[test]
    fn units_are_read_and_never_guessed() {
        assert_eq!(parse_size("8M").unwrap(), Bytes(8 << 20));
        assert_eq!(parse_size("1.5 KiB").unwrap(), Bytes(1536));
        assert_eq!(parse_size("4096").unwrap(), Bytes(4096));
        assert_eq!(parse_rate("333 MB/s").unwrap(), 333_000_000);
        assert_eq!(parse_rate("800 MiB/s").unwrap(), 800 << 20);
        assert_eq!(parse_rate("1200 MT/s x8").unwrap(), 1_200_000_000);
        assert_eq!(parse_rate("none").unwrap(), 0);
        assert_eq!(parse_time("29.76 us").unwrap(), Span::from_ps(29_760_000));
        for bad in ["", "M", "1.5", "12 parsec", "-3 us", "0.0001 ps", "1e3"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
        assert!(parse_rate("333").is_err());
        assert!(parse_rate("1200 MT/s").is_err());
        assert!(parse_size("0.3").is_err());
        assert!(parse_size("99999999999 TiB").is_err());
    }
}
