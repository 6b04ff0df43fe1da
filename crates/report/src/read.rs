//! Documents read back: what is written again from what was read has the same bytes.
//!
//! Only what [`Json::pretty`] writes is understood: numbers are digits with or without a point, never
//! with an exponent, and no key is there twice. A number with a point is kept as its digits and places, so that nothing
//! is rounded on the way.

use std::iter::Peekable;
use std::str::CharIndices;

use crate::json::{Json, Map};

/// How deep values may lie in each other.
const DEEPEST: u32 = 64;

impl Json {
    /// The value of a text.
    ///
    /// # Errors
    /// The line, what was found there and what was expected.
    pub fn read(text: &str) -> Result<Json, String> {
        let mut reader = Reader { text, chars: text.char_indices().peekable() };
        let value = reader.value(0).and_then(|value| match reader.next_token() {
            None => Ok(value),
            Some(_) => Err("expected the end of the document".to_string()),
        });
        value.map_err(|expected| reader.told(&expected))
    }

    /// The value of a key; `None` if there is none, or this is no map.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Map(map) => map.get(key),
            _ => None,
        }
    }

    /// A text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The members of a list; none of anything else.
    pub fn items(&self) -> &[Json] {
        match self {
            Json::List(items) => items,
            _ => &[],
        }
    }

    /// Keys and values; `None` if this is no map.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Json::Map(map) => Some(map),
            _ => None,
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
}

impl Reader<'_> {
    fn told(&mut self, expected: &str) -> String {
        let at = self.chars.peek().map_or(self.text.len(), |(at, _)| *at);
        let line = 1 + self.text[..at].bytes().filter(|byte| *byte == b'\n').count();
        let found = match self.chars.peek() {
            Some((_, c)) => format!("found `{}`", c.escape_debug()),
            None => "it ends".to_string(),
        };
        format!("line {line}: {found}, {expected}")
    }

    /// The next character that says something.
    fn next_token(&mut self) -> Option<char> {
        while self.chars.next_if(|(_, c)| matches!(c, ' ' | '\n' | '\t' | '\r')).is_some() {}
        self.chars.peek().map(|(_, c)| *c)
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        match self.next_token() {
            Some(c) if c == wanted => {
                self.chars.next();
                Ok(())
            }
            _ => Err(format!("expected `{wanted}`")),
        }
    }

    fn value(&mut self, depth: u32) -> Result<Json, String> {
        if depth > DEEPEST {
            return Err(format!("expected values at most {DEEPEST} deep"));
        }
        match self.next_token() {
            Some('{') => self.map(depth),
            Some('[') => self.list(depth),
            Some('"') => Ok(Json::Text(self.string()?)),
            Some('-' | '0'..='9') => self.number(),
            Some('t') => self.word("true", Json::Bool(true)),
            Some('f') => self.word("false", Json::Bool(false)),
            Some('n') => self.word("null", Json::Null),
            _ => Err("expected a value".to_string()),
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, String> {
        for wanted in word.chars() {
            if self.chars.next_if(|(_, c)| *c == wanted).is_none() {
                return Err(format!("expected `{word}`"));
            }
        }
        Ok(value)
    }

    /// Whether another member follows: a comma, or the end of the list.
    fn another(&mut self, end: char) -> Result<bool, String> {
        match self.next_token() {
            Some(',') => {
                self.chars.next();
                Ok(true)
            }
            Some(c) if c == end => {
                self.chars.next();
                Ok(false)
            }
            _ => Err(format!("expected `,` or `{end}`")),
        }
    }

    fn list(&mut self, depth: u32) -> Result<Json, String> {
        self.expect('[')?;
        let mut items = Vec::new();
        if self.next_token() == Some(']') {
            self.chars.next();
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if !self.another(']')? {
                return Ok(Json::List(items));
            }
        }
    }

    fn map(&mut self, depth: u32) -> Result<Json, String> {
        self.expect('{')?;
        let mut map = Map::new();
        if self.next_token() == Some('}') {
            self.chars.next();
            return Ok(Json::Map(map));
        }
        loop {
            if self.next_token() != Some('"') {
                return Err("expected a key".to_string());
            }
            let key = self.string()?;
            self.expect(':')?;
            let value = self.value(depth + 1)?;
            if map.contains_key(&key) {
                return Err(format!("expected `{key}` once"));
            }
            map.insert(key, value);
            if !self.another('}')? {
                return Ok(Json::Map(map));
            }
        }
    }

    fn string(&mut self) -> Result<String, String> {
        self.expect('"')?;
        let mut text = String::new();
        loop {
            let open = || "expected the end of a text".to_string();
            match self.chars.next().ok_or_else(open)?.1 {
                '"' => return Ok(text),
                '\\' => text.push(self.escape()?),
                c => text.push(c),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let wrong = || "expected `\"`, `\\`, `/`, `n`, `t`, `r` or `u` and four digits after `\\`";
        Ok(match self.chars.next().ok_or_else(wrong)?.1 {
            c @ ('"' | '\\' | '/') => c,
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'u' => {
                let mut code = 0;
                for _ in 0..4 {
                    let digit = self.chars.next().and_then(|(_, c)| c.to_digit(16));
                    code = code * 16 + digit.ok_or_else(wrong)?;
                }
                char::from_u32(code).ok_or_else(wrong)?
            }
            _ => return Err(wrong().to_string()),
        })
    }

    fn number(&mut self) -> Result<Json, String> {
        let start = self.chars.peek().map_or(0, |(at, _)| *at);
        let part = |c: char| c.is_ascii_digit() || c == '-' || c == '.';
        while self.chars.next_if(|(_, c)| part(*c)).is_some() {}
        let end = self.chars.peek().map_or(self.text.len(), |(at, _)| *at);
        let text = &self.text[start..end];
        let wrong = || format!("expected a number as a document has them, not `{text}`");
        let plain = text.strip_prefix('-').unwrap_or(text);
        let (whole, places) = plain.split_once('.').unwrap_or((plain, ""));
        let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
        let leads = whole.len() > 1 && whole.starts_with('0');
        let broken = whole.is_empty() || leads || plain.ends_with('.') || places.len() > 18;
        if broken || !digits(whole) || !digits(places) {
            return Err(wrong());
        }
        if text == plain && places.is_empty() {
            return text.parse().map(Json::Int).map_err(|_| wrong());
        }
        let value: i64 = format!("{whole}{places}").parse().map_err(|_| wrong())?;
        let value = if text == plain { value } else { -value };
        Ok(Json::Decimal(value, places.len() as u32))
    }
}

#[cfg(test)]
mod tests {
    use block::Rng;

    use super::*;
    use crate::json::MapExt;

    /// Any value that a document may hold.
    fn drawn(rng: &mut Rng, depth: u32) -> Json {
        match rng.below(if depth == 0 { 7 } else { 9 }) {
            0 => Json::Null,
            1 => Json::Bool(rng.below(2) == 1),
            2 => Json::Int(rng.next_u64() >> rng.below(64)),
            3 => {
                let digits = (rng.next_u64() >> (1 + rng.below(63))) as i64;
                Json::Decimal(if rng.below(2) == 1 { -digits } else { digits }, rng.below(7) as u32)
            }
            4 => Json::Millionths(rng.next_u64() >> (1 + rng.below(63))),
            5 => Json::Ns(rng.next_u64() >> (1 + rng.below(63))),
            6 => {
                let letters = ['a', '"', '\\', '\n', '\t', '\u{1}', 'é', '∞', '/', ' '];
                let letter = |_| letters[rng.below(10) as usize];
                Json::text((0..6).map(letter).collect::<String>())
            }
            7 => Json::List((0..rng.below(5)).map(|_| drawn(rng, depth - 1)).collect()),
            _ => {
                let mut map = Map::new();
                for key in 0..rng.below(5) {
                    map.put(&format!("{key} \"k\""), drawn(rng, depth - 1));
                }
                Json::Map(map)
            }
        }
    }

    #[test]
    fn what_was_read_is_written_with_the_same_bytes() {
        for seed in 0..2000 {
            let text = drawn(&mut Rng::stream(seed, "report/read"), 4).pretty();
            let again = Json::read(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
            assert_eq!(again.pretty(), text, "seed {seed}");
        }
    }

    #[test]
    fn what_no_document_has_is_refused_with_its_line() {
        for (text, wanted) in [
            ("", "line 1: it ends, expected a value"),
            ("{\n  \"a\": 1,\n}", "line 3: found `}`, expected a key"),
            ("[1 2]", "line 1: found `2`, expected `,` or `]`"),
            ("1 1", "line 1: found `1`, expected the end"),
            ("{\"a\": 1, \"a\": 2}", "expected `a` once"),
            ("1e9", "line 1: found `e`"),
            ("01", "not `01`"),
            ("-", "not `-`"),
            ("1.", "not `1.`"),
            ("18446744073709551616", "not `18446744073709551616`"),
            ("\"\\x\"", "expected"),
            ("\"open", "expected the end of a text"),
            ("trüe", "expected `true`"),
        ] {
            let found = Json::read(text).expect_err(text);
            assert!(found.contains(wanted), "{text}: {found}");
        }
        let deep = "[".repeat(100_000);
        assert!(Json::read(&deep).expect_err("deep").contains("deep"));
        let whole = drawn(&mut Rng::stream(7, "report/read"), 4);
        let text = Json::List(vec![whole]).pretty();
        for at in (1..text.trim_end().len()).filter(|at| text.is_char_boundary(*at)) {
            assert!(Json::read(&text[..at]).is_err(), "cut at {at}");
        }
    }
}
