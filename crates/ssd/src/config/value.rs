//! A value of a key, read once: when it is set.

use block::{Bytes, Span, parse_rate, parse_size, parse_switch, parse_time};

use super::schema::{AUTO, KeyKind, parse_share, parse_times};
use crate::buffer::PolicySpec;
use crate::ftl::VictimSpec;

/// What the text of a key says; the variants are those of [`KeyKind`].
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Count(u64),
    Size(Bytes),
    /// 0: none.
    Rate(u64),
    Time(Span),
    Times(Vec<Span>),
    /// Parts per million.
    Share(u64),
    Flag(bool),
    /// The text is the word.
    Choice,
    Policy(PolicySpec),
    /// None: `auto`.
    Victim(Option<VictimSpec>),
    /// The text is the order.
    Order,
}

impl KeyKind {
    /// Reads a text of this kind.
    ///
    /// # Errors
    /// What was expected.
    pub(crate) fn read(self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        match self {
            KeyKind::Count(low, high) => {
                let found = text.replace('_', "").parse().ok();
                let found = found.filter(|n| (low..=high).contains(n)).map(Value::Count);
                found.ok_or_else(|| format!("a whole number from {low} to {high}"))
            }
            KeyKind::Size => parse_size(text).map(Value::Size).map_err(|e| e.expected.to_string()),
            KeyKind::Rate => parse_rate(text).map(Value::Rate).map_err(|e| e.expected.to_string()),
            KeyKind::Time => parse_time(text).map(Value::Time).map_err(|e| e.expected.to_string()),
            KeyKind::Times => parse_times(text).map(Value::Times),
            KeyKind::Share => parse_share(text).map(Value::Share),
            KeyKind::Flag => {
                parse_switch(text).map(Value::Flag).map_err(|e| e.expected.to_string())
            }
            KeyKind::Choice(words) => {
                let known = words.contains(&text).then_some(Value::Choice);
                known.ok_or_else(|| format!("one of {}", words.join(", ")))
            }
            KeyKind::Policy => {
                PolicySpec::parse(text).map(Value::Policy).map_err(|e| format!("a policy; {e}"))
            }
            KeyKind::Victim if text == AUTO => Ok(Value::Victim(None)),
            KeyKind::Victim => text.parse().map(|spec| Value::Victim(Some(spec))),
            KeyKind::Order => {
                let mut letters: Vec<char> = text.chars().collect();
                letters.sort_unstable();
                match letters == ['C', 'D', 'P', 'W'] {
                    true => Ok(Value::Order),
                    false => Err("the letters C, W, D, P".to_string()),
                }
            }
        }
    }

    /// Whether a text is of this kind; the error says what was expected.
    pub fn check(self, text: &str) -> Result<(), String> {
        self.read(text).map(drop)
    }
}
