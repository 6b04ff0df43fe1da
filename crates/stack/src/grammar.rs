//! How a stack is written: `NAME(argument, key=value)+NAME+..`, the lowest first.
//!
//! ```text
//! stack    = term *( "+" term )
//! term     = name [ "(" [ part *( "," part ) ] ")" ]
//! part     = value | key "=" value
//! name     = letters, digits, "-"
//! key      = letters, digits, "-", "_", "."
//! value    = any text without `"`, `,`, `(` and `)` | `"` any text without `"` `"`
//! ```
//!
//! Blanks around names, keys and values are no part of them. A `+` inside brackets belongs to the value.
//!
//! Invariant: what [`parse`] understood, [`Term`]'s text says again, and is understood the same.

use std::fmt;

/// One term: what lies at the bottom, or a layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    /// Its name.
    pub name: String,
    /// What has no key, in order.
    pub values: Vec<String>,
    /// What has one, in order.
    pub keys: Vec<(String, String)>,
    /// Where it begins in the text, in bytes.
    pub at: usize,
}

/// A text that is no stack.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("stack `{text}`, character {}: found {found}, expected {expected}", character(text, *at))]
pub struct SyntaxError {
    /// The whole text.
    pub text: String,
    /// Where, in bytes.
    pub at: usize,
    /// What is there.
    pub found: String,
    /// What belongs there.
    pub expected: &'static str,
}

/// Characters count from 1.
fn character(text: &str, at: usize) -> usize {
    text.get(..at).map_or(text.len(), |before| before.chars().count()) + 1
}

/// Reads a stack.
///
/// # Errors
/// [`SyntaxError`]: where, what was found and what was expected.
pub fn parse(text: &str) -> Result<Vec<Term>, SyntaxError> {
    let mut reader = Reader { text, at: 0 };
    let mut terms = Vec::new();
    loop {
        terms.push(reader.term()?);
        reader.blanks();
        match reader.peek() {
            None => return Ok(terms),
            Some('+') => reader.next(),
            Some(_) => return Err(reader.wrong("`+`, or the end")),
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.next();
        }
    }

    fn wrong(&self, expected: &'static str) -> SyntaxError {
        let found = self.peek().map_or("the end".to_string(), |found| format!("`{found}`"));
        SyntaxError { text: self.text.to_string(), at: self.at, found, expected }
    }

    /// The longest run of such characters.
    fn run(&mut self, mut of: impl FnMut(char) -> bool) -> &'t str {
        let from = self.at;
        while self.peek().is_some_and(&mut of) {
            self.next();
        }
        &self.text[from..self.at]
    }

    fn term(&mut self) -> Result<Term, SyntaxError> {
        self.blanks();
        let at = self.at;
        let name = self.run(|c| c.is_ascii_alphanumeric() || c == '-');
        if name.is_empty() {
            return Err(self.wrong("a name"));
        }
        let (mut values, mut keys) = (Vec::new(), Vec::new());
        self.blanks();
        if self.peek() == Some('(') {
            self.next();
            self.blanks();
            while self.peek() != Some(')') {
                match self.part()? {
                    (None, value) => values.push(value),
                    (Some(key), value) => keys.push((key, value)),
                }
                self.blanks();
                match self.peek() {
                    Some(',') => self.next(),
                    Some(')') => {}
                    _ => return Err(self.wrong("`,` or `)`")),
                }
                self.blanks();
            }
            self.next();
        }
        Ok(Term { name: name.to_string(), values, keys, at })
    }

    fn part(&mut self) -> Result<(Option<String>, String), SyntaxError> {
        let from = self.at;
        let key = self.run(is_key);
        self.blanks();
        if !key.is_empty() && self.peek() == Some('=') {
            self.next();
            self.blanks();
            return Ok((Some(key.to_string()), self.value()?));
        }
        self.at = from;
        Ok((None, self.value()?))
    }

    fn value(&mut self) -> Result<String, SyntaxError> {
        if self.peek() == Some('"') {
            self.next();
            let value = self.run(|c| c != '"').to_string();
            if self.peek().is_none() {
                return Err(self.wrong("`\"`"));
            }
            self.next();
            return Ok(value);
        }
        match self.run(is_plain).trim_end() {
            "" => Err(self.wrong("a value")),
            value => Ok(value.to_string()),
        }
    }
}

fn is_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn is_plain(c: char) -> bool {
    !matches!(c, '"' | ',' | '(' | ')')
}

/// A value as it is written, in quotes if it needs them. One that has quotes of its own cannot be.
fn quoted(value: &str) -> String {
    let plain = !value.is_empty()
        && value.chars().all(is_plain)
        && value.trim() == value
        && !value.contains('=');
    if plain { value.to_string() } else { format!("\"{value}\"") }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.values.is_empty() && self.keys.is_empty() {
            return Ok(());
        }
        let values = self.values.iter().map(|value| quoted(value));
        let keys = self.keys.iter().map(|(key, value)| format!("{key}={}", quoted(value)));
        write!(f, "({})", values.chain(keys).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let terms = parse(text).unwrap_or_else(|e| panic!("{e}"));
        terms.iter().map(Term::to_string).collect::<Vec<_>>().join("+")
    }

    #[test]
    fn what_is_read_is_written_again() {
        let same = [
            "ram(1GiB)",
            "drive(970-pro, scale=1/64, gc.victim=greedy)+log(gc.victim=cost-benefit)",
            "image(\"a (1), b.img\")+log+cut(7)+record(out.vtr)",
            "image(\"a=b\")",
        ];
        for text in same {
            assert_eq!(said(text), text);
        }
        assert_eq!(said(" ram ( 1 GiB )\n+ log( ) "), "ram(1 GiB)+log");
        assert_eq!(said("image(a+b.img,size=1GiB,)"), "image(a+b.img, size=1GiB)");
        // A path with an `=` needs quotes: without them it is a key.
        assert_eq!(parse("image(a=b)").unwrap()[0].keys, [("a".to_string(), "b".to_string())]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let wrong = [
            ("", 1, "the end", "a name"),
            ("ram(1GiB)+", 11, "the end", "a name"),
            ("ram(1GiB", 9, "the end", "`,` or `)`"),
            ("ram(1GiB) log", 11, "`l`", "`+`, or the end"),
            ("ram(a=)", 7, "`)`", "a value"),
            ("image(\"a)", 10, "the end", "`\"`"),
            ("image(ü(x))", 8, "`(`", "`,` or `)`"),
            ("(x)", 1, "`(`", "a name"),
        ];
        for (text, at, found, expected) in wrong {
            let message =
                format!("stack `{text}`, character {at}: found {found}, expected {expected}");
            let got = parse(text).err().map(|e| e.to_string());
            assert_eq!(got, Some(message));
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        let mut rng = block::Rng::new(1);
        let letters: Vec<char> = "a1-_.=,()+\" \u{fc}\n".chars().collect();
        for _ in 0..20_000 {
            let text: String = (0..rng.below(24))
                .map(|_| letters[rng.below(letters.len() as u64) as usize])
                .collect();
            let Ok(terms) = parse(&text) else { continue };
            let again: Vec<String> = terms.iter().map(Term::to_string).collect();
            let again = parse(&again.join("+")).unwrap_or_else(|e| panic!("{text:?}: {e}"));
            let bare = |terms: &[Term]| -> Vec<Term> {
                terms.iter().map(|term| Term { at: 0, ..term.clone() }).collect()
            };
            assert_eq!(bare(&again), bare(&terms), "{text:?}");
        }
    }
}
