//! Readers of trace files: every format becomes the same stream of [`Record`]s.
//!
//! [`open`] finds out compression and format by content and hands out an [`OpenTrace`]. A reader
//! holds one buffer of 1 MiB (a sorting window at most 2^20 requests more) however long the file
//! is, allocates nothing per line and uses no floating point. What is wrong with a file is an
//! error with line, column, text found and text expected; what is left out is counted in
//! [`ReadSummary`].

mod alibaba;
mod binary;
mod biotracer;
mod blkparse;
mod blktrace;
mod cloudphysics;
mod csv;
mod ending;
mod field;
mod fio;
mod fiu;
mod ids;
mod input;
mod msr;
mod options;
mod oracle;
mod registry;
mod rows;
mod spc;
mod stage;
mod systor;
mod table;
mod tencent;
mod text;
mod vtr;
mod vtr_read;
mod window;

use std::io::Read;
use std::path::{Path, PathBuf};

pub use input::Compression;
pub use options::{OfFormats, ReadOptions, SizeUnit, TimeUnit};
pub use registry::{Carries, Format, formats};
pub use rows::{Row, RowApp, Rows};
pub use stage::ReadSummary;
pub use vtr::{VtrHeader, VtrTotals, VtrWriter, file_sha256};

use crate::record::{Record, Source, SourceError};
use input::Input;

/// A [`Source`] that knows what it left out and what its apps are called.
pub trait TraceSource: Source + Send {
    /// The counts so far; final once the source is at its end.
    fn summary(&self) -> &ReadSummary;
    /// Names of the apps seen so far, by their number.
    fn apps(&self) -> &[String];
    /// What a `.vtr` file says about itself.
    fn header(&self) -> Option<&VtrHeader> {
        None
    }
}

/// A trace file being read.
pub struct OpenTrace {
    format: &'static Format,
    compression: Compression,
    carries: Carries,
    shared: bool,
    source: Box<dyn TraceSource>,
}

impl OpenTrace {
    /// The format it is read as.
    pub fn format(&self) -> &'static Format {
        self.format
    }
    /// How it is packed.
    pub fn compression(&self) -> Compression {
        self.compression
    }
    /// What this trace knows of each request: that of its format, of the columns a `csv` was given,
    /// or of the file a `.vtr` was made from.
    pub fn carries(&self) -> Carries {
        self.carries
    }
    /// Whether its apps share one address space: issuing threads do, and what a `.vtr` was made from may.
    /// Else each is a volume with an address space of its own.
    pub fn is_shared(&self) -> bool {
        self.shared
    }
    /// What a `.vtr` file says about itself; `None` for other formats.
    pub fn header(&self) -> Option<&VtrHeader> {
        self.source.header()
    }
    /// The counts so far; final once the source is at its end.
    pub fn summary(&self) -> &ReadSummary {
        self.source.summary()
    }
    /// Names of the apps (volumes, devices, files) seen so far; `AppId(n)` is the n-th.
    pub fn apps(&self) -> &[String] {
        self.source.apps()
    }
    /// The source alone.
    pub fn into_source(self) -> Box<dyn TraceSource> {
        self.source
    }
}

impl std::fmt::Debug for OpenTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenTrace({}, {})", self.format.name, self.compression.name())
    }
}

impl Source for OpenTrace {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        self.source.fill(block)
    }
}

/// Opens a trace file; `-` is standard input. Compression and format are found out by content.
///
/// # Errors
/// The file cannot be read; it is empty; it fits no format or several; an option the format needs
/// is missing.
pub fn open(path: &Path, options: &ReadOptions) -> Result<OpenTrace, SourceError> {
    open_input(Input::open(path)?, options)
}

/// The files that [`open`] reads where it is given this one, in the order in which it looks at them: all that
/// a trace of blktrace has, else the one. Who keeps, digests or protects a trace does so with all of them.
///
/// # Errors
/// The folder or the file cannot be read.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let mut files = vec![path.to_path_buf()];
    if blktrace::is_named(path) && path.is_file() {
        let mut input = Input::open(path)?;
        if blktrace::looks_like(input.peek(64)?) {
            files.extend(blktrace::siblings(path)?);
        }
    }
    Ok(files)
}

/// The same over any reader; `name` stands in messages.
///
/// # Errors
/// As [`open`].
pub fn open_reader(
    name: &Path,
    reader: Box<dyn Read + Send>,
    options: &ReadOptions,
) -> Result<OpenTrace, SourceError> {
    open_input(Input::from_reader(name, reader)?, options)
}

/// The mark before the text that some programs write in front of UTF-8 is no part of a trace.
fn skip_mark(input: &mut Input) -> Result<(), SourceError> {
    const MARK: &[u8] = b"\xEF\xBB\xBF";
    let text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    if input.peek(64)?.strip_prefix(MARK).is_some_and(|rest| rest.iter().all(text)) {
        input.take(MARK.len())?;
    }
    Ok(())
}

fn open_input(mut input: Input, options: &ReadOptions) -> Result<OpenTrace, SourceError> {
    if input.peek(1)?.is_empty() {
        return Err(input.unusable("the file is empty; expected a trace"));
    }
    skip_mark(&mut input)?;
    let table = options.columns.is_some();
    let chosen = options.format.as_deref().or((table && !options.for_several).then_some("csv"));
    let format = match chosen {
        Some(name) => registry::by_name(name).ok_or_else(|| {
            input.unusable(format!("no format `{name}`; expected one of: {}", registry::names()))
        })?,
        None if table => registry::detect_beside_tables(&mut input)?,
        None => registry::detect(&mut input)?,
    };
    // What a format takes no notice of was meant for another one.
    let mut unknown = options.of_some_formats().filter(|(_, of)| !of.contains(&format.name));
    if let (Some((option, of)), false) = (unknown.next(), options.for_several) {
        let (name, of) = (format.name, of.join(", "));
        return Err(input.unusable(format!("{option}: of {of}; found a trace in {name}")));
    }
    let compression = input.compression();
    let source = (format.open)(input, options)?;
    let mut carries = source.header().map_or(format.carries, |h| h.carries);
    if let Some(columns) = options.columns.as_deref().filter(|_| format.name == "csv") {
        carries = csv::carries(columns);
    }
    let by_thread = options.app_is_comm && format.name == "msr";
    let shared = by_thread || source.header().is_some_and(|header| header.shared);
    Ok(OpenTrace { format, compression, carries, shared, source })
}
