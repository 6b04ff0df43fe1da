//! Bytes of a trace file, decompressed on the fly, through one bounded buffer.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use crate::SourceError;

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;
/// Longest line of a text format; what is longer is not a text format.
pub(crate) const MAX_LINE: usize = 64 << 10;
/// Memory an xz stream may ask for.
const XZ_MEMORY: u64 = 256 << 20;
/// Largest zstd window accepted, as a power of two: 128 MiB, zstd's own default.
const ZSTD_WINDOW_LOG: u32 = 27;

/// How the bytes of the file were packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, one or more members.
    Gzip,
    /// Zstandard, one or more frames.
    Zstd,
    /// xz, one or more streams.
    Xz,
    /// bzip2, one or more streams.
    Bzip2,
}

impl Compression {
    /// Its name, as people write it.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Zstd => "zstd",
            Compression::Xz => "xz",
            Compression::Bzip2 => "bzip2",
        }
    }
    /// By the leading bytes; a file's name says nothing.
    fn of(head: &[u8]) -> Compression {
        let skippable = head.len() >= 4 && (0x50..=0x5F).contains(&head[0]);
        if head.starts_with(&[0x1F, 0x8B, 8]) {
            Compression::Gzip
        } else if head.starts_with(&[0x28, 0xB5, 0x2F, 0xFD])
            || (skippable && head[1..4] == [0x2A, 0x4D, 0x18])
        {
            Compression::Zstd
        } else if head.starts_with(&[0xFD, b'7', b'z', b'X', b'Z', 0]) {
            Compression::Xz
        } else if head.len() >= 4 && head.starts_with(b"BZh") && (b'1'..=b'9').contains(&head[3]) {
            Compression::Bzip2
        } else {
            Compression::None
        }
    }
}

/// A buffered, decompressed byte stream that knows its file's name.
pub(crate) struct Input {
    path: PathBuf,
    reader: Box<dyn Read + Send>,
    compression: Compression,
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes of the decompressed stream before `start`.
    before: u64,
    eof: bool,
}

impl Input {
    /// Opens a file; `-` is standard input.
    pub fn open(path: &Path) -> Result<Input, SourceError> {
        if path == Path::new("-") {
            return Input::from_reader(path, Box::new(std::io::stdin()));
        }
        let io = |source| SourceError::Io { path: path.to_path_buf(), source };
        let file = File::open(path).map_err(io)?;
        if file.metadata().map_err(io)?.is_dir() {
            let reason = "is a directory; expected a trace file".to_string();
            return Err(SourceError::Unusable { path: path.to_path_buf(), reason });
        }
        Input::from_reader(path, Box::new(file))
    }

    /// Over any reader; `path` is for messages.
    pub fn from_reader(
        path: &Path,
        mut reader: Box<dyn Read + Send>,
    ) -> Result<Input, SourceError> {
        let mut head = Vec::with_capacity(8);
        let io = |source| SourceError::Io { path: path.to_path_buf(), source };
        reader.by_ref().take(8).read_to_end(&mut head).map_err(io)?;
        let compression = Compression::of(&head);
        let whole = Cursor::new(head).chain(reader);
        let reader = unpack(compression, whole).map_err(io)?;
        Ok(Input {
            path: path.to_path_buf(),
            reader,
            compression,
            buf: vec![0; CHUNK],
            start: 0,
            end: 0,
            before: 0,
            eof: false,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// How it was packed.
    pub fn compression(&self) -> Compression {
        self.compression
    }
    /// Offset of the next byte in the decompressed stream.
    pub fn offset(&self) -> u64 {
        self.before + self.start as u64
    }
    /// The whole file is not usable.
    pub fn unusable(&self, reason: impl Into<String>) -> SourceError {
        SourceError::Unusable { path: self.path.clone(), reason: reason.into() }
    }

    /// Moves what is left to the front and reads once more. Sets `eof` at the end.
    fn refill(&mut self) -> Result<(), SourceError> {
        self.buf.copy_within(self.start..self.end, 0);
        self.before += self.start as u64;
        self.end -= self.start;
        self.start = 0;
        loop {
            match self.reader.read(&mut self.buf[self.end..]) {
                Ok(0) => self.eof = self.end < self.buf.len(),
                Ok(n) => self.end += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(self.broken(e)),
            }
            return Ok(());
        }
    }

    #[cold]
    fn broken(&mut self, source: std::io::Error) -> SourceError {
        self.eof = true;
        if self.compression == Compression::None {
            return SourceError::Io { path: self.path.clone(), source };
        }
        self.unusable(format!(
            "the {} data are damaged or cut off after {} decompressed bytes ({source}); expected a whole file",
            self.compression.name(),
            self.before + self.end as u64,
        ))
    }

    /// The next bytes without taking them: up to `n`, fewer only at the end of the file.
    pub fn peek(&mut self, n: usize) -> Result<&[u8], SourceError> {
        debug_assert!(n <= CHUNK);
        while self.end - self.start < n && !self.eof {
            self.refill()?;
        }
        Ok(&self.buf[self.start..self.end.min(self.start + n)])
    }

    /// The next `n` bytes, or all that are left if fewer.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&[u8], SourceError> {
        if self.end - self.start < n {
            self.peek(n)?;
        }
        let from = self.start;
        self.start = self.end.min(from + n);
        Ok(&self.buf[from..self.start])
    }

    /// Appends the next `n` bytes to `out`; returns how many there were.
    pub fn take_into(&mut self, mut n: usize, out: &mut Vec<u8>) -> Result<usize, SourceError> {
        let before = out.len();
        while n > 0 {
            let part = self.take(n.min(CHUNK))?;
            if part.is_empty() {
                break;
            }
            out.extend_from_slice(part);
            n -= part.len();
        }
        Ok(out.len() - before)
    }

    /// The next line as a range of [`Input::bytes`], without its end; `None` at the end of the file.
    #[inline]
    pub fn line(&mut self) -> Result<Option<std::ops::Range<usize>>, SourceError> {
        let mut seen = 0;
        loop {
            if let Some(len) = find_newline(&self.buf[self.start + seen..self.end]) {
                let from = self.start;
                self.start = from + seen + len + 1;
                return Ok(Some(from..self.trimmed(from, from + seen + len)));
            }
            seen = self.end - self.start;
            if self.eof {
                let from = self.start;
                self.start = self.end;
                let line = from..self.trimmed(from, self.end);
                return Ok((seen > 0).then_some(line));
            }
            if seen > MAX_LINE {
                return Err(self.unusable(format!(
                    "from byte {} on there is no line end for {} KiB; expected lines of text",
                    self.offset(),
                    MAX_LINE >> 10
                )));
            }
            self.refill()?;
        }
    }

    /// End of a line without the carriage return of a DOS text.
    #[inline]
    fn trimmed(&self, from: usize, to: usize) -> usize {
        if to > from && self.buf[to - 1] == b'\r' { to - 1 } else { to }
    }

    /// The bytes a range of [`Input::line`] names; valid until the next call that takes `&mut`.
    #[inline]
    pub fn bytes(&self, range: std::ops::Range<usize>) -> &[u8] {
        &self.buf[range]
    }
}

fn unpack<R: Read + Send + 'static>(
    compression: Compression,
    input: R,
) -> std::io::Result<Box<dyn Read + Send>> {
    Ok(match compression {
        Compression::None => Box::new(input),
        Compression::Gzip => Box::new(flate2::read::MultiGzDecoder::new(input)),
        Compression::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::new(input)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
        Compression::Xz => {
            let flags = liblzma::stream::CONCATENATED;
            let stream = liblzma::stream::Stream::new_stream_decoder(XZ_MEMORY, flags)?;
            Box::new(liblzma::read::XzDecoder::new_stream(input, stream))
        }
        Compression::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(input)),
    })
}

/// Position of the first line end: eight bytes at a time (a zero byte of `word ^ "\n\n.."` shows
/// as a borrow into its top bit).
#[inline]
fn find_newline(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let (words, tail) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let x = u64::from_le_bytes(*word) ^ (ONES * b'\n' as u64);
        let zero = x.wrapping_sub(ONES) & !x & TOPS;
        if zero != 0 {
            return Some(i * 8 + zero.trailing_zeros() as usize / 8);
        }
    }
    tail.iter().position(|b| *b == b'\n').map(|i| words.len() * 8 + i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newlines_are_found_everywhere() {
        for len in 0..40 {
            for at in 0..=len {
                let mut text: Vec<u8> =
                    (0..len).map(|i| if i % 2 == 0 { 0x0B } else { 0x8A }).collect();
                if at < len {
                    text[at] = b'\n';
                }
                assert_eq!(find_newline(&text), (at < len).then_some(at));
            }
        }
    }
}
