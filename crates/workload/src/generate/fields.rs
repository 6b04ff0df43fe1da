//! The keys of a recipe: each is taken once, with its unit; what is left over is an error.

use block::{Bytes, Span, Time, parse_size, parse_time};

use super::clock::Arrival;
use crate::SourceError;

/// The keys and values of one recipe.
pub(super) struct Fields<'a> {
    name: &'a str,
    pairs: Vec<(&'a str, &'a str, bool)>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Splits `key=value,key=value`; a key without a value stands for `on`.
    pub(super) fn parse(name: &'a str, text: &'a str) -> Result<Fields<'a>, SourceError> {
        let mut pairs: Vec<(&str, &str, bool)> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, "on"));
            let (key, value) = (key.trim(), value.trim());
            if pairs.iter().any(|(known, _, _)| *known == key) {
                return Err(SourceError::Recipe(format!(
                    "recipe `{name}`: `{key}` is given twice"
                )));
            }
            pairs.push((key, value, false));
        }
        Ok(Fields { name, pairs, known: Vec::new() })
    }

    /// The error for `key`'s value.
    pub(super) fn wrong(&self, key: &str, found: &str, expected: &str) -> SourceError {
        let name = self.name;
        SourceError::Recipe(format!("recipe `{name}`: {key}=`{found}`: expected {expected}"))
    }

    /// The value of `key`, if it is there.
    pub(super) fn text(&mut self, key: &'static str) -> Option<&'a str> {
        self.known.push(key);
        let pair = self.pairs.iter_mut().find(|(known, _, _)| *known == key)?;
        pair.2 = true;
        Some(pair.1)
    }

    /// The value of `key` through `parse`, or `default`.
    pub(super) fn take<T>(
        &mut self,
        key: &'static str,
        default: T,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, SourceError> {
        match self.text(key) {
            None => Ok(default),
            Some(text) => parse(text).ok_or_else(|| self.wrong(key, text, expected)),
        }
    }

    /// A size of at least `least` bytes and a multiple of `grain`.
    pub(super) fn size(
        &mut self,
        key: &'static str,
        default: u64,
        least: u64,
        grain: u64,
    ) -> Result<Bytes, SourceError> {
        let fits = |b: &Bytes| (least..=1 << 60).contains(&b.0) && b.0.is_multiple_of(grain);
        let expected = format!("a size such as `16KiB` of at least {least}, a multiple of {grain}");
        self.take(key, Bytes(default), &expected, |text| read_size(text).filter(fits))
    }

    /// A number such as `100k` or `1M` (decimal) of at least `least`.
    pub(super) fn count(
        &mut self,
        key: &'static str,
        default: u64,
        least: u64,
    ) -> Result<u64, SourceError> {
        let expected = format!("a whole number such as `5000`, `100k` or `1M`, at least {least}");
        self.take(key, default, &expected, |text| parse_count(text).filter(|n| *n >= least))
    }

    /// Percent with at most four places, as millionths.
    pub(super) fn percent(&mut self, key: &'static str, default: u64) -> Result<u64, SourceError> {
        self.take(key, default, "percent from 0 to 100 with at most 4 places", read_percent)
    }

    /// A number between `low` and `high`, both allowed.
    pub(super) fn real(
        &mut self,
        key: &'static str,
        default: f64,
        low: f64,
        high: f64,
    ) -> Result<f64, SourceError> {
        let expected = format!("a number from {low} to {high}");
        let fits = |x: &f64| (low..=high).contains(x);
        self.take(key, default, &expected, |text| text.parse().ok().filter(fits))
    }

    /// `on` or `off`.
    pub(super) fn switch(&mut self, key: &'static str, default: bool) -> Result<bool, SourceError> {
        self.take(key, default, "`on` or `off`", |text| match text {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        })
    }

    /// `iat=10us` and `arrival=fixed|exp`. `count` requests must end within virtual time.
    pub(super) fn arrival(&mut self, default: Arrival, count: u64) -> Result<Arrival, SourceError> {
        let expected = "a time such as `10us`, at most a day, and the run within 53 days";
        let limit = Time::LIMIT.as_ps() / 2;
        let day = 86_400_000_000_000_000;
        let fits = |s: &Span| {
            s.as_ps() <= day && u128::from(s.as_ps()) * u128::from(count) <= u128::from(limit)
        };
        let mean = self.take("iat", default.mean(), expected, |text| parse_time(text).ok())?;
        if !fits(&mean) {
            return Err(self.wrong("iat", &span_text(mean), expected));
        }
        let same = match default {
            Arrival::Fixed(_) => Arrival::Fixed(mean),
            Arrival::Exponential(_) => Arrival::Exponential(mean),
        };
        self.take("arrival", same, "`fixed` or `exp`", |text| match text {
            "fixed" => Some(Arrival::Fixed(mean)),
            "exp" => Some(Arrival::Exponential(mean)),
            _ => None,
        })
    }

    /// Every key must have been taken.
    pub(super) fn finish(self) -> Result<(), SourceError> {
        let Some((key, _, _)) = self.pairs.iter().find(|(_, _, taken)| !taken) else {
            return Ok(());
        };
        let (name, known) = (self.name, self.known.join(", "));
        Err(SourceError::Recipe(format!("recipe `{name}`: unknown key `{key}`; it has {known}")))
    }
}

/// A size; a lone small letter (`4k`) is read as the binary unit.
fn read_size(text: &str) -> Option<Bytes> {
    let lone = text.len() > 1 && text[..text.len() - 1].bytes().all(|b| b.is_ascii_digit());
    let text = if lone { text.to_ascii_uppercase() } else { text.to_string() };
    parse_size(&text).ok()
}

/// A number of things: `5000`, `100k`, `1M`, `2G`, with decimal steps of 1000; `_` may separate.
pub fn parse_count(text: &str) -> Option<u64> {
    let (digits, scale) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1_000),
        b'm' | b'M' => (&text[..text.len() - 1], 1_000_000),
        b'g' | b'G' => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let plain = digits.replace('_', "");
    if plain.is_empty() || !plain.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    plain.parse::<u64>().ok()?.checked_mul(scale)
}

fn read_percent(text: &str) -> Option<u64> {
    let text = text.strip_suffix('%').unwrap_or(text);
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let plain = !whole.is_empty() && part.len() <= 4;
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !plain || !digits(whole) || !digits(part) {
        return None;
    }
    let ppm = format!("{whole}{part:0<4}").parse::<u64>().ok()?;
    (ppm <= 1_000_000).then_some(ppm)
}

/// Millionths as percent, exactly.
pub(super) fn percent_text(ppm: u64) -> String {
    let text = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A time in the largest unit that keeps it whole.
pub(super) fn span_text(span: Span) -> String {
    let units = [(1_000_000_000_000, "s"), (1_000_000_000, "ms"), (1_000_000, "us"), (1_000, "ns")];
    let ps = span.as_ps();
    for (scale, unit) in units {
        if ps >= scale && ps.is_multiple_of(scale) {
            return format!("{} {unit}", ps / scale);
        }
    }
    format!("{ps} ps")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_their_texts() {
        assert_eq!(parse_count("1M"), Some(1_000_000));
        assert_eq!(parse_count("100k"), Some(100_000));
        assert_eq!(parse_count("1_500"), Some(1500));
        for bad in ["", "k", "1.5k", "-1", "99999999999G", "1 k"] {
            assert_eq!(parse_count(bad), None, "{bad}");
        }
        assert_eq!(read_percent("29.5"), Some(295_000));
        assert_eq!(read_percent("100%"), Some(1_000_000));
        assert_eq!(read_percent("0.0001"), Some(1));
        for bad in ["", "101", "-1", "1.00001", ".5", "1e1", "%"] {
            assert_eq!(read_percent(bad), None, "{bad}");
        }
        assert_eq!(percent_text(295_000), "29.5 %");
        assert_eq!(percent_text(1_000_000), "100 %");
        assert_eq!(read_size("4k"), Some(Bytes(4096)));
        assert_eq!(read_size("4 kB"), Some(Bytes(4000)));
        assert_eq!(read_size("k"), None);
        assert_eq!(span_text(Span::from_us(1500)), "1500 us");
        assert_eq!(span_text(Span::ZERO), "0 ps");
    }
}
