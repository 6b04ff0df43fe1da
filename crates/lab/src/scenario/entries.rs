//! A TOML text as a flat list of dotted keys, each with its texts and the line it stands on.

use std::collections::BTreeMap;

use block::{parse_switch, switch_text};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::LabError;
use crate::input::pinned::Pinned;

/// Where something was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file, or `command line`.
    pub file: String,
    /// Line, from 1; 0 on a command line.
    pub line: usize,
}

impl Place {
    /// The command line.
    pub fn command_line() -> Place {
        Place { file: "command line".to_string(), line: 0 }
    }

    /// An error here.
    pub fn error(&self, reason: impl Into<String>) -> LabError {
        match self.line {
            0 => LabError::Input(format!("{}: {}", self.file, reason.into())),
            line => LabError::Scenario { file: self.file.clone(), line, reason: reason.into() },
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

/// One key of a scenario.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Dotted key.
    pub key: String,
    /// Its value, or the members of a list.
    pub values: Vec<String>,
    /// Published source of a drive's value.
    pub source: Option<String>,
    /// How sure a drive's value is.
    pub tag: Option<String>,
    /// Who said it, if not who wrote the file: a preset, or scaling. What nobody asked for may be
    /// without effect.
    pub by: Option<String>,
    /// The value as that said it: if there is another one now, it is of who wrote that.
    pub said: Option<String>,
    /// What a scaled drive's value was before.
    pub was: Option<String>,
    /// Where it stands.
    pub place: Place,
}

impl Entry {
    /// The one value; a list is an error.
    pub fn one(&self) -> Result<&str, LabError> {
        match self.values.as_slice() {
            [one] => Ok(one),
            _ => Err(self.error("expected one value, not a list")),
        }
    }

    /// Whether the value was changed where it is written down.
    pub fn is_edited(&self) -> bool {
        self.said.as_ref().is_some_and(|said| *said != self.values.join(", "))
    }

    /// An error about this key.
    pub fn error(&self, expected: impl std::fmt::Display) -> LabError {
        self.place.error(format!("`{}`: {expected}", self.key))
    }

    /// The one value, parsed.
    pub fn parse<T>(&self) -> Result<T, LabError>
    where
        T: std::str::FromStr<Err = String>,
    {
        self.one()?.parse().map_err(|e: String| self.error(e))
    }

    /// The one value as a whole number of at least `low`.
    pub fn count(&self, low: u64) -> Result<u64, LabError> {
        let text = self.one()?;
        let n = text.replace('_', "").parse().ok().filter(|n| *n >= low);
        n.ok_or_else(|| {
            self.error(format!("found `{text}`, expected a whole number of at least {low}"))
        })
    }

    /// The one value as `on` or `off`.
    pub fn flag(&self) -> Result<bool, LabError> {
        let text = self.one()?;
        parse_switch(text)
            .map_err(|e| self.error(format!("found `{text}`, expected {}", e.expected)))
    }
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    /// Entries by position in the file: tenants count in the order they are written.
    entries: BTreeMap<(usize, String), Entry>,
}

/// Reads a TOML text; entries are in the order of the file.
///
/// # Errors
/// File and line of what is not TOML, or no plain value.
pub fn entries(file: &str, text: &str) -> Result<Vec<Entry>, LabError> {
    let mut reader = Reader { file, text, entries: BTreeMap::new() };
    let table = DeTable::parse(text).map_err(|error| {
        let byte = error.span().map_or(0, |span| span.start);
        reader.place(byte).error(error.message().trim())
    })?;
    reader.table("", table.get_ref())?;
    let entries: Vec<Entry> = reader.entries.into_values().collect();
    entries.iter().try_for_each(|entry| alone(entry, &entries))?;
    Ok(entries)
}

/// Keys that say where the same thing comes from. One file has one of them: of two the last would count,
/// and nobody would notice. A later word on the command line replaces either.
const EITHER: [(&str, &str); 2] = [("trace", "gen"), ("drive.preset", "drive.file")];

fn alone(entry: &Entry, all: &[Entry]) -> Result<(), LabError> {
    for (one, other) in EITHER {
        let Some(table) = entry.key.strip_suffix(other) else { continue };
        if !table.is_empty() && !table.ends_with('.') {
            continue;
        }
        let key = format!("{table}{one}");
        if let Some(beside) = all.iter().find(|entry| entry.key == key) {
            let later = if beside.place.line > entry.place.line { beside } else { entry };
            let first = if std::ptr::eq(later, entry) { beside } else { entry };
            return Err(later.place.error(format!(
                "`{}` beside `{}` of line {}; expected one of them",
                later.key, first.key, first.place.line
            )));
        }
    }
    Ok(())
}

impl Reader<'_> {
    fn place(&self, byte: usize) -> Place {
        let before = &self.text.as_bytes()[..byte.min(self.text.len())];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        Place { file: self.file.to_string(), line }
    }

    fn table(&mut self, prefix: &str, table: &DeTable<'_>) -> Result<(), LabError> {
        for (key, value) in table {
            let dot = if prefix.is_empty() { "" } else { "." };
            let name = format!("{prefix}{dot}{}", key.get_ref());
            self.entry(name, key.span().start, value)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        key: String,
        at: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), LabError> {
        let place = self.place(at);
        let (mut source, mut tag, mut by) = (None, None, None);
        let (mut said, mut was) = (None, None);
        let value = match value.get_ref() {
            DeValue::Table(table) if table.contains_key("sha256") => value,
            DeValue::Table(table) if !table.contains_key("value") => {
                return self.table(&key, table);
            }
            // A drive's value that says where it comes from.
            DeValue::Table(table) => {
                for (field, inner) in table {
                    let wanted = match field.get_ref().as_ref() {
                        "value" => continue,
                        "source" => &mut source,
                        "tag" => &mut tag,
                        "by" => &mut by,
                        "as" => &mut said,
                        "was" => &mut was,
                        other => {
                            let what = format!("`{key}`: unknown field `{other}`");
                            let expected = "expected value, source, tag, by, as, was";
                            return Err(self
                                .place(field.span().start)
                                .error(format!("{what}; {expected}")));
                        }
                    };
                    *wanted = Some(self.text_of(&key, inner)?);
                }
                &table["value"]
            }
            _ => value,
        };
        let values = match value.get_ref() {
            DeValue::Array(items) => {
                items.iter().map(|item| self.text_of(&key, item)).collect::<Result<_, _>>()?
            }
            _ => vec![self.text_of(&key, value)?],
        };
        self.entries
            .insert((at, key.clone()), Entry { key, values, source, tag, by, said, was, place });
        Ok(())
    }

    fn text_of(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<String, LabError> {
        let wrong = || {
            let expected = "a string, a whole number, true, false or a list of these";
            self.place(value.span().start).error(format!("`{key}`: expected {expected}"))
        };
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Boolean(flag) => Ok(switch_text(*flag).to_string()),
            DeValue::Integer(n) => {
                let n = i64::from_str_radix(&n.as_str().replace('_', ""), n.radix());
                n.map(|n| n.to_string()).map_err(|_| wrong())
            }
            DeValue::Table(table) if table.contains_key("sha256") => {
                self.pinned(key, table).map(|pinned| pinned.to_string())
            }
            _ => Err(wrong()),
        }
    }

    /// A trace by its digest: `{ sha256 = "..", url = ".." }`.
    fn pinned(&self, key: &str, table: &DeTable<'_>) -> Result<Pinned, LabError> {
        let (mut sha256, mut url) = (None, None);
        for (field, inner) in table {
            let place = self.place(field.span().start);
            let wanted = match field.get_ref().as_ref() {
                "sha256" => &mut sha256,
                "url" => &mut url,
                other => {
                    let what = format!("`{key}`: unknown field `{other}`; expected sha256, url");
                    return Err(place.error(what));
                }
            };
            let DeValue::String(text) = inner.get_ref() else {
                return Err(place.error(format!("`{key}.{}`: expected a string", field.get_ref())));
            };
            *wanted = Some((text.to_string(), place));
        }
        let (sha256, place) = sha256.expect("it is there");
        let pinned = Pinned::of(&sha256, url.as_ref().map(|(url, _)| url.as_str()));
        pinned.map_err(|what| place.error(format!("`{key}`: {what}")))
    }
}
