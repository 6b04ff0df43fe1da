//! Configuration files: TOML whose tables nest to the dotted keys of the schema.
//!
//! An entry is a plain value or `{ value = .., source = "..", tag = ".." }`, so that a number can
//! say where it comes from. At the top, `preset = "NAME"` gives the values to start from,
//! `scale = "1/8"` makes the drive smaller, and `name`, `title` and `notes` are for people.

use std::path::Path;

use block::{Span, switch_text};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Config, ConfigError, Origin, key, preset};

/// How sure a value is: the only tags an entry may carry.
pub(super) const TAGS: &[&str] =
    &["calibrated", "published", "fitted", "assumed", "extrapolated", "assumed-zero"];

/// Latencies of the array: zero is almost always a value somebody forgot.
const LATENCIES: &[&str] = &["nand.erase", "nand.program", "nand.read", "nand.read_4k"];

/// Reads a configuration file.
///
/// # Errors
/// The file, the line, what was found and what was expected.
pub fn load_file(path: impl AsRef<Path>) -> Result<Config, ConfigError> {
    let name = path.as_ref().display().to_string();
    let text = std::fs::read_to_string(&path).map_err(|error| ConfigError::File {
        file: name.clone(),
        line: None,
        reason: error.to_string(),
    })?;
    load_text(&name, &text)
}

/// Reads a configuration from the text of a file called `name`.
///
/// # Errors
/// As [`load_file`].
pub fn load_text(name: &str, text: &str) -> Result<Config, ConfigError> {
    Ok(load(&Source { file: name, preset: None, text })?.config)
}

/// Where a text comes from.
pub(super) struct Source<'a> {
    pub file: &'a str,
    /// Values of an embedded preset say so instead of naming a file nobody has.
    pub preset: Option<&'a str>,
    pub text: &'a str,
}

/// What a file holds.
pub(super) struct Loaded {
    pub title: String,
    pub notes: String,
    pub config: Config,
}

pub(super) fn load(source: &Source<'_>) -> Result<Loaded, ConfigError> {
    let table = DeTable::parse(source.text).map_err(|error| ConfigError::File {
        file: source.file.to_string(),
        line: error.span().map(|span| source.line(span.start)),
        reason: error.message().to_string(),
    })?;
    let table = table.get_ref();
    let text_of = |key: &str| match table.get(key) {
        None => Ok(None),
        Some(value) => match value.get_ref().as_str() {
            Some(text) => Ok(Some(text.to_string())),
            None => Err(source.error(value, format!("`{key}` must be a string"))),
        },
    };
    let config = match text_of("preset")? {
        Some(name) => {
            preset(&name).map_err(|error| source.error(&table["preset"], error.to_string()))?.config
        }
        None => Config::default(),
    };
    text_of("name")?;
    let mut loaded = Loaded {
        title: text_of("title")?.unwrap_or_default(),
        notes: text_of("notes")?.unwrap_or_default(),
        config,
    };
    for (key, value) in table {
        if !["preset", "name", "title", "notes", "scale"].contains(&key.get_ref().as_ref()) {
            source.entry(&mut loaded.config, key.get_ref(), key.span().start, value)?;
        }
    }
    loaded.config.remember_base(source.preset.unwrap_or(source.file));
    // Last: the file describes the whole drive.
    if let Some(value) = table.get("scale") {
        let text = text_of("scale")?.unwrap_or_default();
        loaded.config.scale(&text, &source.place(value.span().start))?;
    }
    Ok(loaded)
}

impl Source<'_> {
    /// Line of a byte, from 1.
    fn line(&self, byte: usize) -> usize {
        1 + self.text.as_bytes()[..byte.min(self.text.len())]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
    }

    /// `FILE:LINE`.
    fn place(&self, byte: usize) -> String {
        format!("{}:{}", self.file, self.line(byte))
    }

    fn error<T>(&self, at: &Spanned<T>, reason: String) -> ConfigError {
        ConfigError::File {
            file: self.file.to_string(),
            line: Some(self.line(at.span().start)),
            reason,
        }
    }

    /// One key, or a table of keys.
    fn entry(
        &self,
        config: &mut Config,
        name: &str,
        at: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), ConfigError> {
        let DeValue::Table(table) = value.get_ref() else {
            let text = self.text_of(name, value)?;
            return self.set(config, name, &text, at, None, None);
        };
        if key(name).is_none() && !table.contains_key("value") {
            for (key, value) in table {
                let name = format!("{name}.{}", key.get_ref());
                self.entry(config, &name, key.span().start, value)?;
            }
            return Ok(());
        }
        let Some(inner) = table.get("value") else {
            return Err(self.error(
                value,
                format!("`{name}`: expected a value or {{ value = .., source = .., tag = .. }}"),
            ));
        };
        let text = self.text_of(name, inner)?;
        let (mut origin_source, mut tag) = (None, None);
        for (field, value) in table {
            let wanted = match field.get_ref().as_ref() {
                "value" => continue,
                "source" => &mut origin_source,
                "tag" => &mut tag,
                other => {
                    return Err(self.error(
                        field,
                        format!("`{name}`: unknown field `{other}`; expected value, source, tag"),
                    ));
                }
            };
            let text = value.get_ref().as_str().filter(|text| !text.is_empty());
            let text =
                text.ok_or_else(|| self.error(value, format!("`{name}`: expected some text")))?;
            *wanted = Some(text.to_string());
        }
        if let Some(tag) = tag.as_deref().filter(|tag| !TAGS.contains(tag)) {
            let known = TAGS.join(", ");
            return Err(self
                .error(value, format!("`{name}`: unknown tag `{tag}`; expected one of {known}")));
        }
        self.set(config, name, &text, at, origin_source, tag)
    }

    fn set(
        &self,
        config: &mut Config,
        name: &str,
        text: &str,
        at: usize,
        source: Option<String>,
        tag: Option<String>,
    ) -> Result<(), ConfigError> {
        let from = match self.preset {
            Some(preset) => format!("preset {preset}"),
            None => self.place(at),
        };
        let meant = tag.as_deref() == Some("assumed-zero");
        config.set(name, text, Origin { from, source, tag })?;
        if LATENCIES.contains(&name) && !meant && config.times(name).contains(&Span::ZERO) {
            return Err(ConfigError::BadValue {
                from: self.place(at),
                key: name.to_string(),
                found: text.to_string(),
                expected: "a time above 0 (zero on purpose carries tag = \"assumed-zero\")"
                    .to_string(),
            });
        }
        Ok(())
    }

    /// The text of a plain value.
    fn text_of(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<String, ConfigError> {
        let wrong = || {
            self.error(
                value,
                format!(
                    "`{name}`: expected a string, a whole number, true, false or a list of \
                     strings (a value with a unit is a string)"
                ),
            )
        };
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Boolean(flag) => Ok(switch_text(*flag).to_string()),
            DeValue::Integer(n) => i64::from_str_radix(&n.as_str().replace('_', ""), n.radix())
                .map(|n| n.to_string())
                .map_err(|_| wrong()),
            DeValue::Array(items) => items
                .iter()
                .map(|item| item.get_ref().as_str().ok_or_else(wrong))
                .collect::<Result<Vec<_>, _>>()
                .map(|items| items.join(", ")),
            DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(text: &str) -> String {
        load_text("x.toml", text).expect_err(text).to_string()
    }

    #[test]
    fn tables_nest_to_dotted_keys_and_values_keep_their_origin() {
        let text = r#"
            title = "a drive"
            capacity = "1 GiB"
            nand.read = ["40 us", "65 us"]
            [gc]
            victim = "fifo"
            background = true
            start = 0x1_0
            [geometry]
            page = { value = "16 KiB", source = "a data sheet", tag = "published" }
        "#;
        let config = load_text("x.toml", text).unwrap();
        assert_eq!(config.text("nand.read"), "40 us, 65 us");
        assert_eq!(config.text("gc.victim"), "fifo");
        assert_eq!(config.text("gc.background"), "on");
        assert_eq!(config.text("gc.start"), "16");
        let origin = &config.values["geometry.page"].origin;
        assert_eq!(origin.from, "x.toml:10");
        assert_eq!(origin.source.as_deref(), Some("a data sheet"));
        assert_eq!(origin.tag.as_deref(), Some("published"));
        assert!(!config.is_set("gc.stop"));
    }

    #[test]
    fn errors_name_the_file_the_line_and_what_was_expected() {
        assert_eq!(
            fails("\n[gc]\nvictm = \"fifo\"\n"),
            "x.toml:3: unknown key `gc.victm`; did you mean `gc.victim`?"
        );
        assert!(fails("op = 7").starts_with("x.toml:1: `op` = `7`: expected a share"));
        assert!(fails("op = 0.07").starts_with("x.toml:1: `op`: expected a string"));
        assert!(fails("a = \n").starts_with("x.toml:1: "));
        assert!(fails("unit = [1]").starts_with("x.toml:1: `unit`"));
        assert!(
            fails("\nunit = { value = \"4K\", tag = \"guess\" }")
                .contains("x.toml:2: `unit`: unknown tag `guess`")
        );
        assert!(
            fails("unit = { value = \"4K\", sauce = \"x\" }").contains("unknown field `sauce`")
        );
        assert!(fails("unit = { source = \"x\" }").contains("expected a value"));
        assert!(fails("nothing = { value = 1 }").contains("unknown key `nothing`"));
        assert!(fails("preset = \"nope\"").starts_with("x.toml:1: no preset `nope`"));
        assert!(fails("preset = 1").contains("must be a string"));
        assert!(load_file("/nonexistent/x.toml").is_err());
    }

    #[test]
    fn a_file_that_is_called_like_a_preset_is_somebody_s_own() {
        let text = "buffer.size = \"8 MiB\"";
        for file in
            ["presets/x.toml", "preset", "preset x.toml", "preset femu-default", "default, x"]
        {
            let mut config = load_text(file, text).unwrap();
            assert!(config.is_asked("buffer.size") && config.is_set("buffer.size"), "{file}");
            config.set_pair("geometry.blocks=64").unwrap();
            config.scale("1/2", "a test").unwrap();
            assert!(config.is_asked("buffer.size"), "{file}, scaled");
            assert!(!config.is_asked("geometry.pages"), "{file}, scaled");
        }
        let mut preset = preset("femu-default").unwrap().config;
        assert!(preset.is_set("geometry.pages") && !preset.is_asked("geometry.pages"));
        preset.scale("1/2", "a test").unwrap();
        assert!(preset.is_set("geometry.pages") && !preset.is_asked("geometry.pages"));
    }

    #[test]
    fn a_latency_of_zero_must_be_meant() {
        for key in LATENCIES {
            assert!(fails(&format!("{key} = \"0\"")).contains("assumed-zero"), "{key}");
        }
        assert!(fails("nand.read = \"40 us, 0\"").contains("assumed-zero"));
        load_text("x.toml", "nand.erase = { value = \"0\", tag = \"assumed-zero\" }").unwrap();
    }
}
