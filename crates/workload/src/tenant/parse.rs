//! The texts of the command line: `shortest`, `first:A`, `A:B=1:60`, `modulo:8 GiB`, `3/2`.

use std::str::FromStr;

use block::parse_size;

use super::{AddressMap, End, Factor, Share};
use crate::SourceError;

fn recipe(text: &str, expected: &str) -> SourceError {
    SourceError::Recipe(format!("`{text}`: expected {expected}"))
}

fn number_of(name: &str, names: &[&str]) -> Option<usize> {
    names.iter().position(|known| *known == name.trim())
}

/// `partition`, `identity`, `modulo:SIZE` or `modulo SIZE`.
///
/// # Errors
/// The text found and what was expected.
pub fn parse_map(text: &str) -> Result<AddressMap, SourceError> {
    match text.trim() {
        "partition" => return Ok(AddressMap::Partition),
        "identity" => return Ok(AddressMap::Identity),
        _ => {}
    }
    let size = text.trim().strip_prefix("modulo").and_then(|rest| rest.strip_prefix([':', ' ']));
    let size = size.and_then(|size| parse_size(size).ok()).map(AddressMap::Modulo);
    size.ok_or_else(|| recipe(text, "`partition`, `identity` or `modulo:SIZE`"))
}

/// `shortest`, `longest` or `first:APP`.
///
/// # Errors
/// The text found and what was expected.
pub fn parse_end(text: &str, names: &[&str]) -> Result<End, SourceError> {
    match text.trim() {
        "shortest" => return Ok(End::Shortest),
        "longest" => return Ok(End::Longest),
        _ => {}
    }
    let tenant = text.trim().strip_prefix("first:").and_then(|name| number_of(name, names));
    let expected = || format!("`shortest`, `longest` or `first:` and one of {}", names.join(", "));
    tenant.map(End::First).ok_or_else(|| recipe(text, &expected()))
}

/// `A:B=1:60`: one unit of A for 60 of B.
///
/// # Errors
/// The text found and what was expected.
pub fn parse_share(text: &str, names: &[&str]) -> Result<Share, SourceError> {
    let parts = || {
        let (apps, shares) = text.split_once('=')?;
        let ((a, b), (x, y)) = (apps.split_once(':')?, shares.split_once(':')?);
        Some(Share {
            leader: number_of(a, names)?,
            follower: number_of(b, names)?,
            leader_share: x.trim().parse().ok().filter(|n| *n > 0)?,
            follower_share: y.trim().parse().ok().filter(|n| *n > 0)?,
        })
    };
    let expected = || format!("`A:B=1:60` with two of {} and two whole numbers", names.join(", "));
    parts().filter(|s| s.leader != s.follower).ok_or_else(|| recipe(text, &expected()))
}

impl FromStr for Factor {
    type Err = SourceError;

    /// `10`, `3/2` or `0.25`, exactly.
    fn from_str(text: &str) -> Result<Factor, SourceError> {
        let parts = || {
            let trimmed = text.trim();
            if let Some((a, b)) = trimmed.split_once('/') {
                return Factor::new(a.parse().ok()?, b.parse().ok()?);
            }
            let (whole, part) = trimmed.split_once('.').unwrap_or((trimmed, ""));
            let digits = [whole, part].concat();
            let plain = part.len() <= 9 && digits.bytes().all(|b| b.is_ascii_digit());
            Factor::new(plain.then_some(digits)?.parse().ok()?, 10u64.pow(part.len() as u32))
        };
        parts().ok_or_else(|| recipe(text, "a positive factor such as `10`, `3/2` or `0.25`"))
    }
}
