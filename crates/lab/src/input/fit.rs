//! Addresses that do not suit the drive.

use block::{Bytes, parse_size};

/// What to do with addresses that do not suit the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// Refuse a workload that reaches beyond the drive.
    #[default]
    Exact,
    /// Addresses modulo the size of the drive.
    Wrap,
    /// Leave out what is never touched: pieces of this size move together, in order.
    Compact(Bytes),
}

impl std::str::FromStr for Fit {
    type Err = String;

    /// `exact`, `wrap`, `compact` (pieces of 1 MiB) or `compact:SIZE`.
    fn from_str(text: &str) -> Result<Fit, String> {
        let expected = || {
            format!("fit `{text}`: expected exact, wrap, compact or compact:SIZE (4 KiB or more)")
        };
        match text {
            "exact" => Ok(Fit::Exact),
            "wrap" => Ok(Fit::Wrap),
            "compact" => Ok(Fit::Compact(Bytes(1 << 20))),
            _ => {
                let size = text.strip_prefix("compact:").ok_or_else(expected)?;
                let size = parse_size(size).map_err(|_| expected())?;
                let valid = size.0.is_power_of_two() && size.0 >= 4096;
                valid.then_some(Fit::Compact(size)).ok_or_else(expected)
            }
        }
    }
}

impl std::fmt::Display for Fit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fit::Exact => f.write_str("exact"),
            Fit::Wrap => f.write_str("wrap"),
            Fit::Compact(size) => write!(f, "compact:{}", size.human()),
        }
    }
}
