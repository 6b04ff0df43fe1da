//! The log of requests: one line each, with what its time went to.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use nand::Spent;

use super::Explained;
use crate::LabError;

/// The heading of a cause's column: a time that is waited for others begins with `wait_`.
pub fn column(cause: Spent) -> String {
    match cause {
        Spent::Firmware | Spent::Link | Spent::Dram | Spent::Own | Spent::Other => {
            format!("{}_ns", cause.name())
        }
        _ => format!("wait_{}_ns", cause.name()),
    }
}

/// Columns before those of the causes.
const FIRST: &str = "request,app,op,offset,bytes,arrival_ns,latency_ns";
const OPS: [&str; 4] = ["read", "write", "flush", "discard"];

enum Out {
    Plain(BufWriter<File>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<File>>),
}

impl Out {
    fn write(&mut self) -> &mut dyn Write {
        match self {
            Out::Plain(out) => out,
            Out::Zstd(out) => out,
        }
    }
}

/// A log that is being written, under a temporary name: whoever finds the name finds all of it.
pub(super) struct RequestLog {
    path: PathBuf,
    part: PathBuf,
    /// None once it is finished, or cannot be gone on with.
    out: Option<Out>,
    /// Why it could not: the run goes on, and what it measures does not depend on its log.
    broken: Option<io::Error>,
    line: String,
}

impl std::fmt::Debug for RequestLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestLog").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Whether a log can be written to a file of this name, and compressed or not.
///
/// # Errors
/// Any other name.
pub(super) fn is_compressed(path: &Path) -> Result<bool, LabError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    match name {
        name if name.ends_with(".csv") => Ok(false),
        name if name.ends_with(".csv.zst") => Ok(true),
        _ => Err(LabError::Input(format!(
            "{}: expected a name that ends in .csv or .csv.zst (data frames of Python write Parquet \
             from these)",
            path.display()
        ))),
    }
}

impl RequestLog {
    /// Begins a log that will be called `path`: of a name that was looked at before.
    pub fn create(path: &Path) -> RequestLog {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        let open = || -> io::Result<Out> {
            let compressed = is_compressed(path).map_err(io::Error::other)?;
            let file = BufWriter::with_capacity(1 << 16, File::create(&part)?);
            Ok(match compressed {
                true => Out::Zstd(zstd::stream::write::Encoder::new(file, 3)?),
                false => Out::Plain(file),
            })
        };
        let (out, broken) = match open() {
            Ok(out) => (Some(out), None),
            Err(error) => (None, Some(error)),
        };
        let mut log =
            RequestLog { path: path.to_path_buf(), part, out, broken, line: String::new() };
        let mut heading = FIRST.to_string();
        for cause in Spent::ALL {
            heading += ",";
            heading += &column(cause);
        }
        heading += "\n";
        log.put(heading.as_bytes());
        log
    }

    fn put(&mut self, bytes: &[u8]) {
        let Some(out) = &mut self.out else { return };
        if let Err(error) = out.write().write_all(bytes) {
            (self.out, self.broken) = (None, Some(error));
        }
    }

    /// Adds a request. Times are whole nanoseconds, and sum to the latency.
    pub fn push(&mut self, request: &Explained) {
        use std::fmt::Write as _;
        let mut line = std::mem::take(&mut self.line);
        line.clear();
        let r = request;
        let op = OPS[r.op as usize];
        let (arrival, latency) = (r.arrival.as_ns(), r.latency.as_ns());
        let _ = write!(
            line,
            "{},{},{op},{},{},{arrival},{latency}",
            r.number, r.app.0, r.offset, r.bytes
        );
        for ns in r.by_cause.in_ns() {
            let _ = write!(line, ",{ns}");
        }
        line.push('\n');
        self.put(line.as_bytes());
        self.line = line;
    }

    /// Ends the log: now it has its name.
    ///
    /// # Errors
    /// The system's, now or when it was written.
    pub fn finish(mut self) -> Result<(), LabError> {
        if let Some(error) = self.broken.take() {
            return Err(LabError::io(&self.path, error));
        }
        let Some(out) = self.out.take() else { return Ok(()) };
        let end = || -> io::Result<()> {
            let file = match out {
                Out::Plain(file) => file,
                Out::Zstd(encoder) => encoder.finish()?,
            };
            file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
            std::fs::rename(&self.part, &self.path)
        };
        end().map_err(|e| LabError::io(&self.path, e))
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        // A log that was not finished leaves nothing; after that there is no such file.
        let _ = std::fs::remove_file(&self.part);
    }
}
