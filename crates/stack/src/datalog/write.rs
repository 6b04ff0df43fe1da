//! Writing a log.

use std::io::{self, Write};

use block::crc32c;

use super::{END, FUA, HEAD, HEADER, INDEX, LONGEST, MAGIC, MOST, OURS, Op, TEXT, VERSION};

/// A log that is being written.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    at: u64,
    records: u64,
    /// Number and place of every end of a flush.
    flushes: Vec<(u64, u64)>,
}

/// What a record is written of.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// What happened.
    pub op: Op,
    /// It was durable when it was answered.
    pub fua: bool,
    /// A mark of whoever records.
    pub ours: bool,
    /// Nanoseconds since the log began.
    pub ns: u64,
    /// First byte on the disk; of the end of a flush: the number of the record of its beginning.
    pub at: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// What was written, or the text of a mark.
    pub data: &'a [u8],
}

impl<W: Write> Writer<W> {
    /// Begins a log of a blank disk of `size` bytes; `source` says what it is.
    ///
    /// # Errors
    /// What the system said.
    pub fn new(mut out: W, size: u64, source: &str) -> io::Result<Writer<W>> {
        let mut end = source.len().min(TEXT);
        while !source.is_char_boundary(end) {
            end -= 1;
        }
        let mut head = Vec::with_capacity(HEADER + end + 4);
        head.extend(MAGIC);
        head.extend(VERSION.to_le_bytes());
        head.extend((end as u32).to_le_bytes());
        head.extend(size.to_le_bytes());
        head.extend(&source.as_bytes()[..end]);
        head.extend(crc32c(0, &head).to_le_bytes());
        out.write_all(&head)?;
        Ok(Writer { out, at: head.len() as u64, records: 0, flushes: Vec::new() })
    }

    /// Records so far: the number of the next.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Writes one record.
    ///
    /// # Errors
    /// What the system said, or a limit.
    pub fn push(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        let too_long = |what: &str, most: u64| {
            Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{what}: {most} bytes at most"),
            ))
        };
        if entry.data.len() as u64 > LONGEST {
            return too_long("a record's data", LONGEST);
        }
        let place = self.at;
        let flags = (u8::from(entry.fua) * FUA) | (u8::from(entry.ours) * OURS);
        self.write(entry.op.code(), flags, [entry.ns, entry.at, entry.bytes], entry.data)?;
        if entry.op == Op::FlushEnd {
            self.flushes.push((self.records, place));
        }
        self.records += 1;
        if self.at > MOST { too_long("a log", MOST) } else { Ok(()) }
    }

    fn write(&mut self, code: u8, flags: u8, words: [u64; 3], data: &[u8]) -> io::Result<()> {
        let mut head = [0; HEAD];
        (head[0], head[1]) = (code, flags);
        head[4..8].copy_from_slice(&(data.len() as u32).to_le_bytes());
        for (word, place) in words.iter().zip(head[8..32].chunks_exact_mut(8)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = crc32c(crc32c(0, &head[..32]), data);
        head[32..36].copy_from_slice(&sum.to_le_bytes());
        self.out.write_all(&head)?;
        self.out.write_all(data)?;
        self.at += (HEAD + data.len()) as u64;
        Ok(())
    }

    /// Ends the log: the index.
    ///
    /// # Errors
    /// What the system said; the log is not whole then.
    pub fn finish(mut self) -> io::Result<W> {
        let place = self.at;
        let index: Vec<u8> = self
            .flushes
            .iter()
            .flat_map(|(number, at)| [number.to_le_bytes(), at.to_le_bytes()])
            .flatten()
            .collect();
        self.write(INDEX, 0, [self.records, self.flushes.len() as u64, 0], &index)?;
        self.out.write_all(&place.to_le_bytes())?;
        self.out.write_all(&END)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// A log, or any bytes, as one zstd frame: how a plan keeps it.
///
/// # Errors
/// What the system said.
pub fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    zstd::bulk::compress(bytes, 3)
}
