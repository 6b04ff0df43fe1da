//! Numbers and words out of bytes: no text conversion, no allocation, no float.

use std::borrow::Cow;

/// A place in a line that is not what the format demands.
#[derive(Debug)]
pub(crate) struct Bad {
    /// Byte offset in the line, from 0.
    pub at: usize,
    /// Length of the offending text.
    pub len: usize,
    /// What would have been right.
    pub expected: Cow<'static, str>,
}

impl Bad {
    /// The whole line is wrong.
    #[cold]
    pub fn line(line: &[u8], expected: impl Into<Cow<'static, str>>) -> Bad {
        Bad { at: 0, len: line.len(), expected: expected.into() }
    }
}

/// One field and where it stands in its line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    /// Byte offset in the line, from 0.
    pub at: usize,
    /// Its bytes, without separators.
    pub bytes: &'a [u8],
}

impl<'a> Field<'a> {
    /// The error "this field should have been `expected`".
    #[cold]
    pub fn bad(self, expected: impl Into<Cow<'static, str>>) -> Bad {
        Bad { at: self.at, len: self.bytes.len(), expected: expected.into() }
    }
    /// Without blanks at either end.
    pub fn trim(self) -> Field<'a> {
        let lead = self.bytes.iter().take_while(|b| is_blank(**b)).count();
        let bytes = self.bytes.trim_ascii();
        Field { at: self.at + if bytes.is_empty() { 0 } else { lead }, bytes }
    }
    /// A decimal integer.
    #[inline]
    pub fn u64(self, expected: &'static str) -> Result<u64, Bad> {
        digits(self.bytes).ok_or_else(|| self.bad(expected))
    }
    /// A number of units, as bytes.
    #[inline]
    pub fn scaled(self, unit: u64, expected: &'static str) -> Result<u64, Bad> {
        self.u64(expected)?.checked_mul(unit).ok_or_else(|| self.bad(expected))
    }
    /// A decimal number with or without a fraction, times `unit_ps`, in picoseconds. Exact down to
    /// one picosecond; digits below that are cut.
    #[inline]
    pub fn time(self, unit_ps: u64, expected: &'static str) -> Result<u128, Bad> {
        decimal_ps(self.bytes, unit_ps).ok_or_else(|| self.bad(expected))
    }
    /// Hexadecimal digits.
    pub fn hex(self, expected: &'static str) -> Result<u64, Bad> {
        let mut value = 0u64;
        if self.bytes.is_empty() || self.bytes.len() > 16 {
            return Err(self.bad(expected));
        }
        for b in self.bytes {
            let digit = (*b as char).to_digit(16).ok_or_else(|| self.bad(expected))?;
            value = value << 4 | u64::from(digit);
        }
        Ok(value)
    }
}

/// Whether a byte separates words.
#[inline(always)]
pub(crate) fn is_blank(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

/// All of `bytes` as a decimal integer; `None` if it is none or does not fit.
#[inline]
pub(crate) fn digits(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    let mut value = 0u64;
    if bytes.len() <= 19 {
        for b in bytes {
            let d = b.wrapping_sub(b'0');
            if d > 9 {
                return None;
            }
            value = value * 10 + u64::from(d);
        }
        return Some(value);
    }
    for b in bytes {
        let d = b.wrapping_sub(b'0');
        if d > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(d))?;
    }
    Some(value)
}

/// See [`Field::time`].
#[inline]
pub(crate) fn decimal_ps(bytes: &[u8], unit_ps: u64) -> Option<u128> {
    let point = bytes.iter().position(|b| *b == b'.');
    let Some(point) = point else {
        return Some(u128::from(digits(bytes)?) * u128::from(unit_ps));
    };
    let (whole, part) = (&bytes[..point], &bytes[point + 1..]);
    let whole = if whole.is_empty() { 0 } else { digits(whole)? };
    let kept = &part[..part.len().min(18)];
    let part = match (kept.len(), point) {
        (0, 0) => return None, // a lone point
        (0, _) => 0,
        _ => {
            if !part.iter().all(u8::is_ascii_digit) {
                return None;
            }
            u128::from(digits(kept)?) * u128::from(unit_ps) / 10u128.pow(kept.len() as u32)
        }
    };
    Some(u128::from(whole) * u128::from(unit_ps) + part)
}

/// Walks over the fields of a line.
#[derive(Clone, Debug)]
pub(crate) struct Cols<'a> {
    line: &'a [u8],
    pos: usize,
}

impl<'a> Cols<'a> {
    /// At the start of `line`.
    #[inline]
    pub fn new(line: &'a [u8]) -> Cols<'a> {
        Cols { line, pos: 0 }
    }
    /// Where the next field starts.
    #[inline]
    pub fn pos(&self) -> usize {
        self.pos.min(self.line.len())
    }
    /// Everything not yet taken.
    #[inline]
    pub fn rest(&self) -> Field<'a> {
        let at = self.pos();
        Field { at, bytes: &self.line[at..] }
    }
    /// The cell up to the next `sep` or the end; an error if the line has no more cells.
    #[inline]
    pub fn cell(&mut self, sep: u8, expected: &'static str) -> Result<Field<'a>, Bad> {
        if self.pos > self.line.len() {
            return Err(self.rest().bad(expected));
        }
        let at = self.pos;
        let rest = &self.line[at..];
        let len = rest.iter().position(|b| *b == sep).unwrap_or(rest.len());
        self.pos = at + len + 1;
        Ok(Field { at, bytes: &rest[..len] })
    }
    /// An integer that ends at `sep` or at the end of the line; the fast way for hot formats.
    #[inline(always)]
    pub fn number(&mut self, sep: u8, expected: &'static str) -> Result<u64, Bad> {
        let start = self.pos;
        if start > self.line.len() {
            return Err(self.rest().bad(expected));
        }
        let rest = &self.line[start..];
        let (mut value, mut len) = (0u64, 0);
        for b in rest {
            let d = b.wrapping_sub(b'0');
            if d > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(d));
            len += 1;
        }
        let ends = len == rest.len() || rest[len] == sep;
        if len == 0 || len > 19 || !ends {
            return self.cell(sep, expected)?.u64(expected);
        }
        self.pos = start + len + 1;
        Ok(value)
    }
    /// The next word between blanks.
    #[inline]
    pub fn word(&mut self, expected: &'static str) -> Result<Field<'a>, Bad> {
        let mut at = self.pos();
        while at < self.line.len() && is_blank(self.line[at]) {
            at += 1;
        }
        let mut end = at;
        while end < self.line.len() && !is_blank(self.line[end]) {
            end += 1;
        }
        self.pos = end;
        let field = Field { at, bytes: &self.line[at..end] };
        if field.bytes.is_empty() { Err(field.bad(expected)) } else { Ok(field) }
    }
    /// Whether only blanks are left.
    #[inline]
    pub fn at_end(&self) -> bool {
        self.line[self.pos()..].iter().all(|b| is_blank(*b))
    }
    /// An error unless only blanks are left.
    #[inline]
    pub fn finish(&self) -> Result<(), Bad> {
        if self.at_end() { Ok(()) } else { Err(self.rest().trim().bad("the end of the line")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        let s = 1_000_000_000_000;
        assert_eq!(decimal_ps(b"1455602400.009582", s), Some(1_455_602_400_009_582_000_000));
        assert_eq!(decimal_ps(b"0.1", s), Some(100_000_000_000));
        assert_eq!(decimal_ps(b"11.413000", 1_000_000_000), Some(11_413_000_000));
        assert_eq!(decimal_ps(b"7", 1), Some(7));
        assert_eq!(decimal_ps(b".5", 1000), Some(500));
        assert_eq!(decimal_ps(b"5.", 1000), Some(5000));
        assert_eq!(decimal_ps(b"0.0000000000009", s), Some(0)); // below a picosecond
        let most = b"18446744073709551615.999999999999";
        assert_eq!(decimal_ps(most, s), Some(18_446_744_073_709_551_615_999_999_999_999));
        for bad in [
            "",
            ".",
            "1.2.3",
            "-1",
            "1e9",
            "18446744073709551616",
            "1. 5",
            "0.12345678901234567890x",
        ] {
            assert_eq!(decimal_ps(bad.as_bytes(), s), None, "{bad}");
        }
    }

    #[test]
    fn integers_do_not_wrap() {
        assert_eq!(digits(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(digits(b"18446744073709551616"), None);
        assert_eq!(digits(b"000000000000000000000000012"), Some(12));
        let mut cols = Cols::new(b"18446744073709551615,18446744073709551616,12,,");
        assert_eq!(cols.number(b',', "n").unwrap(), u64::MAX);
        assert_eq!(cols.number(b',', "n").unwrap_err().at, 21);
        assert_eq!(cols.number(b',', "n").unwrap(), 12);
        assert!(cols.number(b',', "n").is_err());
        assert!(cols.number(b',', "n").is_err());
        assert!(cols.number(b',', "n").is_err());
    }
}
