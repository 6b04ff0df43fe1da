//! The values of a result document, and how they are written: keys sorted, integers as integers,
//! ratios with six decimals, times in nanoseconds with the picoseconds as decimals if there are
//! any. The same values give the same bytes on every machine: no float is formatted.

use std::collections::BTreeMap;
use std::fmt::Write;

use block::Span;

use crate::round::decimals;

/// A value of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// Unknown; only as a member of a column, elsewhere the key is left out.
    Null,
    /// True or false.
    Bool(bool),
    /// A count.
    Int(u64),
    /// A number of `10^-places`: its digits, and the places.
    Decimal(i64, u32),
    /// A ratio in millionths.
    Millionths(u64),
    /// A time in picoseconds, written in nanoseconds.
    Ns(u64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// Values by key.
    Map(Map),
}

/// Values by key, sorted.
pub type Map = BTreeMap<String, Json>;

impl Json {
    /// A text.
    pub fn text(text: impl Into<String>) -> Json {
        Json::Text(text.into())
    }

    /// `numerator / denominator` rounded to the nearest millionth; `None` if that is unknown
    /// (denominator 0) or out of range.
    pub fn ratio(numerator: u64, denominator: u64) -> Option<Json> {
        Some(Json::Millionths(millionths(numerator, denominator)?))
    }

    /// A span of virtual time.
    pub fn span(span: Span) -> Json {
        Json::Ns(span.as_ps())
    }

    /// A count.
    pub fn whole(&self) -> Option<u64> {
        match self {
            Json::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// A count, a ratio, or a time in nanoseconds.
    pub fn number(&self) -> Option<f64> {
        match self {
            Json::Int(value) => Some(*value as f64),
            Json::Decimal(digits, places) => Some(*digits as f64 / 10f64.powi(*places as i32)),
            Json::Millionths(value) => Some(*value as f64 / 1e6),
            Json::Ns(ps) => Some(*ps as f64 / 1e3),
            _ => None,
        }
    }

    /// The document as text, indented by two blanks; a list of plain values takes one line.
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Some(0));
        out.push('\n');
        out
    }

    fn is_flat(&self) -> bool {
        match self {
            Json::List(items) => items.iter().all(|i| !matches!(i, Json::Map(_)) && i.is_flat()),
            Json::Map(_) => false,
            _ => true,
        }
    }

    fn write(&self, out: &mut String, indent: Option<usize>) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Int(value) => {
                let _ = write!(out, "{value}");
            }
            Json::Decimal(digits, places) => out.push_str(&decimals(i128::from(*digits), *places)),
            Json::Millionths(value) => {
                let _ = write!(out, "{}.{:06}", value / 1_000_000, value % 1_000_000);
            }
            Json::Ns(ps) if ps % 1000 == 0 => {
                let _ = write!(out, "{}", ps / 1000);
            }
            Json::Ns(ps) => {
                let decimals = format!("{:03}", ps % 1000);
                let _ = write!(out, "{}.{}", ps / 1000, decimals.trim_end_matches('0'));
            }
            Json::Text(text) => write_text(out, text),
            Json::List(items) => {
                let inner = if self.is_flat() { None } else { indent.map(|n| n + 2) };
                let items = items.iter().map(|item| (None, item));
                write_members(out, ['[', ']'], items, indent, inner);
            }
            Json::Map(map) => {
                let items = map.iter().map(|(key, value)| (Some(key.as_str()), value));
                write_members(out, ['{', '}'], items, indent, indent.map(|n| n + 2));
            }
        }
    }
}

impl From<&Json> for serde_json::Value {
    /// What a reader of the text would have.
    fn from(json: &Json) -> serde_json::Value {
        use serde_json::Value;
        match json {
            Json::Null => Value::Null,
            Json::Bool(value) => Value::from(*value),
            Json::Int(value) => Value::from(*value),
            Json::Decimal(digits, 0) => Value::from(*digits),
            Json::Ns(ps) if ps % 1000 == 0 => Value::from(ps / 1000),
            Json::Decimal(..) | Json::Millionths(_) | Json::Ns(_) => Value::from(json.number()),
            Json::Text(text) => Value::from(text.as_str()),
            Json::List(items) => items.iter().map(Value::from).collect(),
            Json::Map(map) => {
                Value::Object(map.iter().map(|(key, one)| (key.clone(), one.into())).collect())
            }
        }
    }
}

/// `numerator / denominator` in millionths, rounded to the nearest.
pub fn millionths(numerator: u64, denominator: u64) -> Option<u64> {
    if denominator == 0 {
        return None;
    }
    let (n, d) = (u128::from(numerator), u128::from(denominator));
    u64::try_from((n * 1_000_000 + d / 2) / d).ok()
}

fn write_members<'a>(
    out: &mut String,
    brackets: [char; 2],
    items: impl ExactSizeIterator<Item = (Option<&'a str>, &'a Json)>,
    outer: Option<usize>,
    inner: Option<usize>,
) {
    let newline = |out: &mut String, indent: Option<usize>| {
        if let Some(n) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', n));
        }
    };
    let empty = items.len() == 0;
    out.push(brackets[0]);
    for (i, (key, value)) in items.enumerate() {
        if i > 0 {
            out.push(',');
        }
        newline(out, inner);
        if let Some(key) = key {
            write_text(out, key);
            out.push_str(if inner.is_some() { ": " } else { ":" });
        }
        value.write(out, inner);
    }
    if !empty && inner.is_some() {
        newline(out, outer);
    }
    out.push(brackets[1]);
}

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Building maps without ceremony.
pub trait MapExt {
    /// Sets `key`.
    fn put(&mut self, key: &str, value: Json);
    /// Sets `key` to a count.
    fn int(&mut self, key: &str, value: u64) {
        self.put(key, Json::Int(value));
    }
    /// Sets `key` if there is a value: unknown is absent.
    fn maybe(&mut self, key: &str, value: Option<Json>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }
}

impl MapExt for Map {
    fn put(&mut self, key: &str, value: Json) {
        self.insert(key.to_string(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_exactly() {
        let text = |j: Json| j.pretty().trim_end().to_string();
        assert_eq!(text(Json::Int(u64::MAX)), "18446744073709551615");
        assert_eq!(text(Json::Decimal(-125, 1)), "-12.5");
        assert_eq!(text(Json::ratio(1, 3).unwrap()), "0.333333");
        assert_eq!(text(Json::ratio(2, 3).unwrap()), "0.666667");
        assert_eq!(text(Json::ratio(7, 1).unwrap()), "7.000000");
        assert_eq!(text(Json::Ns(63_310_250)), "63310.25");
        assert_eq!(text(Json::Ns(63_310_000)), "63310");
        assert_eq!(Json::ratio(5, 0), None);
    }

    #[test]
    fn the_writer_and_an_independent_reader_agree() {
        let mut map = Map::new();
        map.put("z", Json::List(vec![Json::Int(1), Json::Null, Json::Millionths(1_500_000)]));
        map.put("a", Json::text("a \"b\" \\ \n \u{1} é"));
        map.put("e", Json::List(vec![]));
        map.put("m", Json::Map(Map::from([("k".to_string(), Json::Bool(true))])));
        let text = Json::Map(map).pretty();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["a"], "a \"b\" \\ \n \u{1} é");
        assert_eq!(value["z"][2], 1.5);
        assert_eq!(value["m"]["k"], true);
        assert!(text.find("\"a\"") < text.find("\"z\""), "keys are sorted");
    }
}
