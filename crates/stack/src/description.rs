//! A stack, described: what lies at the bottom and the layers above it, the lowest first.
//!
//! Invariant: a description is written by [`fmt::Display`] as a text that [`FromStr`] reads as the same.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use block::{Bytes, parse_size};
use remap::LogOptions;
use remap::paper::PaperOptions;

use crate::StackError;
use crate::grammar::{Term, parse};

/// What keeps the bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Base {
    /// Memory: `ram(SIZE)`.
    Ram(Bytes),
    /// A file as it is; with a size it is made if it is not there: `image(FILE, size=SIZE)`.
    Image {
        /// The file.
        path: PathBuf,
        /// Bytes of one that is made.
        size: Option<Bytes>,
    },
    /// A raw block device as it is, which nobody else uses: `device(DEV)`.
    Device(PathBuf),
    /// A modelled drive in memory: `drive(PRESET, KEY=VALUE..)`.
    Drive {
        /// A preset, or the file of one.
        preset: String,
        /// Keys of the drive that are set beside it, in order; `scale` is one of them.
        keys: Vec<(String, String)>,
    },
    /// A modelled drive that lives on an image; made with this capacity if it is not there:
    /// `drive-image(FILE, size=SIZE)`.
    DriveImage {
        /// The file.
        path: PathBuf,
        /// Capacity of one that is made.
        size: Option<Bytes>,
    },
}

/// A layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Layer {
    /// The host log, with options: `log(OPTION=VALUE..)`.
    Log(Keys),
    /// Paper 1's own rules: `paper-log(OPTION=VALUE..)`.
    PaperLog(Keys),
    /// The file system, with options: `lfs(OPTION=VALUE..)`. Nothing lies above it.
    Lfs(Keys),
    /// The power of what is below can go, and what is left is drawn from the seed: `cut(SEED)`. With `witness=on` it is
    /// watched from above all layers that what was durable is there when the power is back.
    Cut {
        /// Of what is left.
        seed: u64,
        /// Whether it is watched.
        witness: bool,
    },
    /// A trace of what is asked of what is below is written to a new file: `record(FILE.vtr)`. With the
    /// data of everything that changes it: `record(FILE.vlog)`.
    Record(PathBuf),
    /// Refuses whatever would change what is below: `read-only`.
    ReadOnly,
    /// A modelled drive answers when it would have, in real time: `real-time`.
    RealTime,
}

/// LogOptions of a layer as they were written: each was understood by the layer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Keys(Vec<(String, String)>);

impl Keys {
    /// The options and their texts, in order.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// The text of one, the last if it stands there more than once.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| &**value)
    }

    /// LogOptions of the host log with these on top of `options`.
    ///
    /// # Errors
    /// An option that is not there, or its value.
    pub fn log(&self, mut options: LogOptions) -> Result<LogOptions, StackError> {
        for (key, value) in &self.0 {
            options.set(key, value).map_err(|e| StackError::Options(format!("log: {e}")))?;
        }
        Ok(options)
    }

    /// LogOptions of the paper's rules with these on top of `options`.
    ///
    /// # Errors
    /// An option that is not there, or its value.
    pub fn paper(&self, mut options: PaperOptions) -> Result<PaperOptions, StackError> {
        for (key, value) in &self.0 {
            let wrong = |e| StackError::Options(format!("paper-log: {key} = {value}: {e}"));
            options.set(key, value).map_err(wrong)?;
        }
        Ok(options)
    }
}

impl Keys {
    /// LogOptions of the file system with these on top of `options`.
    ///
    /// # Errors
    /// An option that is not there, or its value.
    pub fn lfs(&self, mut options: lfs::FsOptions) -> Result<lfs::FsOptions, StackError> {
        for (key, value) in &self.0 {
            options.set(key, value).map_err(|e| StackError::Options(format!("lfs: {e}")))?;
        }
        Ok(options)
    }
}

impl From<Vec<(String, String)>> for Keys {
    fn from(pairs: Vec<(String, String)>) -> Keys {
        Keys(pairs)
    }
}

/// A stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// What keeps the bytes.
    pub base: Base,
    /// What lies above it, the lowest first.
    pub layers: Vec<Layer>,
}

/// What can lie at the bottom, as help.
pub const BASES: &str = "ram(SIZE), image(FILE, size=SIZE), device(DEV), drive(PRESET, KEY=VALUE..), \
                         drive-image(FILE, size=SIZE)";
/// Layers, as help.
pub const LAYERS: &str = "log(OPTION=VALUE..), paper-log(OPTION=VALUE..), lfs(OPTION=VALUE..), \
                          cut(SEED[, witness=on]), record(FILE), read-only, real-time";

impl FromStr for Description {
    type Err = StackError;

    fn from_str(text: &str) -> Result<Description, StackError> {
        let terms = parse(text)?;
        let (base, layers) = terms.split_first().ok_or_else(|| wrong("", "nothing", BASES))?;
        Ok(Description {
            base: Base::read(base)?,
            layers: layers.iter().map(Layer::read).collect::<Result<_, _>>()?,
        })
    }
}

fn wrong(term: &str, found: &str, expected: &str) -> StackError {
    let head = if term.is_empty() { String::new() } else { format!("{term}: ") };
    StackError::Options(format!("{head}found {found}, expected {expected}"))
}

/// The one value that a term has.
fn one<'t>(term: &'t Term, what: &str) -> Result<&'t str, StackError> {
    match &term.values[..] {
        [one] => Ok(one),
        [] => Err(wrong(&term.name, "nothing", what)),
        [_, second, ..] => Err(wrong(&term.name, &format!("`{second}`"), &format!("one {what}"))),
    }
}

/// Only these keys.
fn keys(term: &Term, known: &[&str]) -> Result<(), StackError> {
    match term.keys.iter().find(|(key, _)| !known.contains(&&**key)) {
        None => Ok(()),
        Some((key, _)) if known.is_empty() => {
            Err(wrong(&term.name, &format!("`{key}=`"), "no key"))
        }
        Some((key, _)) => Err(wrong(&term.name, &format!("`{key}=`"), &known.join(", "))),
    }
}

/// Nothing without a key.
fn no_value(term: &Term) -> Result<(), StackError> {
    match term.values.first() {
        None => Ok(()),
        Some(value) => Err(wrong(&term.name, &format!("`{value}`"), "KEY=VALUE")),
    }
}

fn size(term: &Term, text: &str) -> Result<Bytes, StackError> {
    parse_size(text).map_err(|e| StackError::Options(format!("{}: {e}", term.name)))
}

/// A file and, with `size=`, its bytes.
fn file(term: &Term) -> Result<(PathBuf, Option<Bytes>), StackError> {
    keys(term, &["size"])?;
    let bytes = term.keys.last().map(|(_, text)| size(term, text)).transpose()?;
    Ok((PathBuf::from(one(term, "FILE")?), bytes))
}

impl Base {
    fn read(term: &Term) -> Result<Base, StackError> {
        Ok(match &*term.name {
            "ram" => {
                keys(term, &[])?;
                Base::Ram(size(term, one(term, "SIZE")?)?)
            }
            "image" => {
                let (path, size) = file(term)?;
                Base::Image { path, size }
            }
            "device" => {
                keys(term, &[])?;
                Base::Device(PathBuf::from(one(term, "DEV")?))
            }
            "drive" => {
                let preset = one(term, "PRESET")?.to_string();
                Base::Drive { preset, keys: term.keys.clone() }
            }
            "drive-image" => {
                let (path, size) = file(term)?;
                Base::DriveImage { path, size }
            }
            other => return Err(wrong("stack", &format!("`{other}` at the bottom"), BASES)),
        })
    }

    fn term(&self) -> Term {
        let text = |path: &PathBuf| path.display().to_string();
        let sized = |size: &Option<Bytes>| {
            size.map(|size| ("size".to_string(), size.human())).into_iter().collect()
        };
        let (name, value, keys) = match self {
            Base::Ram(size) => ("ram", size.human(), Vec::new()),
            Base::Image { path, size } => ("image", text(path), sized(size)),
            Base::Device(path) => ("device", text(path), Vec::new()),
            Base::Drive { preset, keys } => ("drive", preset.clone(), keys.clone()),
            Base::DriveImage { path, size } => ("drive-image", text(path), sized(size)),
        };
        Term { name: name.to_string(), values: vec![value], keys, at: 0 }
    }
}

impl Layer {
    /// Layers alone, the lowest first: `log(..)+record(..)`.
    ///
    /// # Errors
    /// As of a whole stack.
    pub fn list(text: &str) -> Result<Vec<Layer>, StackError> {
        parse(text)?.iter().map(Layer::read).collect()
    }

    fn read(term: &Term) -> Result<Layer, StackError> {
        let options = || -> Result<Keys, StackError> {
            no_value(term)?;
            Ok(Keys(term.keys.clone()))
        };
        let bare = |layer: Layer| -> Result<Layer, StackError> {
            no_value(term)?;
            keys(term, &[])?;
            Ok(layer)
        };
        match &*term.name {
            "log" => {
                let keys = options()?;
                keys.log(LogOptions::default())?;
                Ok(Layer::Log(keys))
            }
            "paper-log" => {
                let keys = options()?;
                keys.paper(PaperOptions::default())?;
                Ok(Layer::PaperLog(keys))
            }
            "lfs" => {
                let keys = options()?;
                keys.lfs(lfs::FsOptions::default())?;
                Ok(Layer::Lfs(keys))
            }
            "cut" => {
                keys(term, &["witness"])?;
                let text = one(term, "SEED")?;
                let seed = text
                    .parse()
                    .map_err(|_| wrong("cut", &format!("`{text}`"), "a whole number"))?;
                let witness = match term.keys.iter().rfind(|(key, _)| key == "witness") {
                    None => false,
                    Some((_, text)) => block::parse_switch(text)
                        .map_err(|bad| wrong("cut", &format!("`witness={text}`"), bad.expected))?,
                };
                Ok(Layer::Cut { seed, witness })
            }
            "record" => {
                keys(term, &[])?;
                Ok(Layer::Record(PathBuf::from(one(term, "FILE")?)))
            }
            "read-only" => bare(Layer::ReadOnly),
            "real-time" => bare(Layer::RealTime),
            other => Err(wrong("stack", &format!("the layer `{other}`"), LAYERS)),
        }
    }

    /// Its name in a text.
    pub fn name(&self) -> &'static str {
        match self {
            Layer::Log(_) => "log",
            Layer::PaperLog(_) => "paper-log",
            Layer::Lfs(_) => "lfs",
            Layer::Cut { .. } => "cut",
            Layer::Record(_) => "record",
            Layer::ReadOnly => "read-only",
            Layer::RealTime => "real-time",
        }
    }

    fn term(&self) -> Term {
        let (values, keys) = match self {
            Layer::Log(keys) | Layer::PaperLog(keys) | Layer::Lfs(keys) => {
                (Vec::new(), keys.0.clone())
            }
            Layer::Cut { seed, witness } => {
                let watched = witness.then(|| ("witness".to_string(), "on".to_string()));
                (vec![seed.to_string()], watched.into_iter().collect())
            }
            Layer::Record(path) => (vec![path.display().to_string()], Vec::new()),
            Layer::ReadOnly | Layer::RealTime => (Vec::new(), Vec::new()),
        };
        Term { name: self.name().to_string(), values, keys, at: 0 }
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.term().fmt(f)
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.term().fmt(f)
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.base.fmt(f)?;
        self.layers.iter().try_for_each(|layer| write!(f, "+{layer}"))
    }
}

/// Layers as a text, without what is below them.
pub fn text_of(layers: &[Layer]) -> String {
    layers.iter().map(Layer::to_string).collect::<Vec<_>>().join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Description, String> {
        text.parse().map_err(|e: StackError| e.to_string())
    }

    #[test]
    fn a_description_is_written_as_it_is_read() {
        let same = [
            "ram(1 GiB)",
            "image(disk.img, size=2 GiB)+cut(3)+log(gc.victim=cost-benefit, verify=read)",
            "drive(970-pro, scale=1/64)+paper-log(commit_pairs=8)+record(\"a, b.vtr\")",
            "drive-image(d.img)+read-only",
            "device(/dev/sdz)+log+lfs",
        ];
        for text in same {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        assert_eq!(read("ram(1024M)").unwrap(), read("ram( 1 GiB )").unwrap());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = [
            ("disk(3)", "stack: found `disk` at the bottom, expected ram(SIZE)"),
            ("ram", "ram: found nothing, expected SIZE"),
            ("ram(1GiB, 2GiB)", "ram: found `2GiB`, expected one SIZE"),
            ("ram(1GiB, size=3)", "ram: found `size=`, expected no key"),
            ("image(x, scale=3)", "image: found `scale=`, expected size"),
            ("ram(1GiB)+logs", "stack: found the layer `logs`, expected log("),
            ("ram(1GiB)+log(greedy)", "log: found `greedy`, expected KEY=VALUE"),
            ("ram(1GiB)+cut(x)", "cut: found `x`, expected a whole number"),
            ("ram(1GiB)+cut", "cut: found nothing, expected SEED"),
            ("ram(1GiB)+read-only(1)", "read-only: found `1`"),
        ];
        for (text, begins) in wrong {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(begins), "{text}: {error}");
        }
        for text in ["ram(1GiB)+log(gc.polic=x)", "ram(1GiB)+log(gc.batch=x)", "ram(many)"] {
            let error = read(text).unwrap_err();
            assert!(error.contains("gc.") || error.contains("many"), "{text}: {error}");
        }
    }
}
