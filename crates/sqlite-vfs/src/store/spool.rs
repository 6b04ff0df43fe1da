//! Bytes of a journal: in memory, and beyond some in a temporary file that has no name.
//!
//! Invariants:
//! * nobody else sees them, and they are gone with the process: what is to outlive that has a durable copy;
//! * a file that fails has failed the call: what was written before is as it was, but for the range of that write.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use block::DeviceError;

/// Bytes kept in memory.
const MOST: usize = 1 << 20;
/// Attempts at a name for a temporary file.
const ATTEMPTS: u32 = 100;

/// Bytes at the beginning that are always in memory, too.
const HEAD: usize = 8;

#[derive(Default)]
pub(super) struct Spool {
    /// Zeroes where it has none.
    head: [u8; HEAD],
    memory: Vec<u8>,
    /// Then `memory` is empty.
    file: Option<(File, u64)>,
}

/// A file in the folder for temporary ones, without a name.
fn unnamed() -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut last = io::ErrorKind::AlreadyExists.into();
    for _ in 0..ATTEMPTS {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("varve-journal-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

impl Spool {
    /// An empty one, in memory that was another's.
    pub(super) fn over(mut memory: Vec<u8>) -> Spool {
        memory.clear();
        Spool { memory, ..Spool::default() }
    }

    /// Its memory, for another one.
    pub(super) fn into_memory(self) -> Vec<u8> {
        self.memory
    }

    pub(super) fn len(&self) -> u64 {
        self.file.as_ref().map_or(self.memory.len() as u64, |(_, length)| *length)
    }

    /// Whether it begins with these few bytes.
    pub(super) fn starts_with(&self, bytes: &[u8; HEAD]) -> bool {
        self.len() >= HEAD as u64 && self.head == *bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads what is there; how many bytes that were.
    pub(super) fn read(&self, out: &mut [u8], at: u64) -> io::Result<usize> {
        let there = self.len().saturating_sub(at).min(out.len() as u64) as usize;
        match &self.file {
            Some((file, _)) => file.read_exact_at(&mut out[..there], at)?,
            None if there > 0 => {
                let at = at as usize;
                out[..there].copy_from_slice(&self.memory[at..at + there]);
            }
            None => {}
        }
        Ok(there)
    }

    /// All of it, where it is small; nothing of what lies in a file.
    pub(super) fn in_memory(&self) -> &[u8] {
        &self.memory
    }

    /// The bytes from `from` to `to`, or to the end.
    pub(super) fn part(&self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let length = to.min(self.len()).saturating_sub(from);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        self.read(&mut bytes, from)?;
        Ok(bytes)
    }

    /// Writes, and lets it grow.
    pub(super) fn write(&mut self, data: &[u8], at: u64) -> io::Result<()> {
        let end = at.saturating_add(data.len() as u64);
        if self.file.is_none() && end > MOST as u64 {
            let file = unnamed()?;
            file.write_all_at(&self.memory, 0)?;
            self.file = Some((file, self.memory.len() as u64));
            self.memory = Vec::new();
        }
        match &mut self.file {
            Some((file, length)) => {
                file.write_all_at(data, at)?;
                *length = end.max(*length);
            }
            None => {
                let at = at as usize;
                if self.memory.len() < at {
                    self.memory.resize(at, 0);
                }
                let over = (self.memory.len() - at).min(data.len());
                self.memory[at..at + over].copy_from_slice(&data[..over]);
                self.memory.extend_from_slice(&data[over..]);
            }
        }
        for (byte, new) in self.head.iter_mut().skip(at.min(HEAD as u64) as usize).zip(data) {
            *byte = *new;
        }
        Ok(())
    }

    pub(super) fn truncate(&mut self, size: u64) -> io::Result<()> {
        match &mut self.file {
            _ if size == 0 => *self = Spool::over(std::mem::take(&mut self.memory)),
            Some((file, length)) if size < *length => {
                file.set_len(size)?;
                *length = size;
            }
            Some(_) => {}
            None => self.memory.truncate(usize::try_from(size).unwrap_or(usize::MAX)),
        }
        self.head.iter_mut().skip(size.min(HEAD as u64) as usize).for_each(|byte| *byte = 0);
        Ok(())
    }
}

/// A temporary file failed.
pub(super) fn spooled(error: std::io::Error) -> DeviceError {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => {
            DeviceError::NoSpace("the folder for temporary files has no room for a journal")
        }
        _ => DeviceError::Io(format!("a temporary file for a journal: {error}")),
    }
}

/// Writes into bytes in memory, which grow.
pub(super) fn patch(bytes: &mut Vec<u8>, data: &[u8], at: u64) {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    let end = at.saturating_add(data.len());
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[at..end].copy_from_slice(data);
}

#[cfg(test)]
mod tests {
    use block::Rng;

    use super::*;

    #[test]
    fn a_folder_without_room_is_no_broken_disk() {
        use std::io::ErrorKind::{FileTooLarge, Other, QuotaExceeded, StorageFull};
        for kind in [StorageFull, QuotaExceeded, FileTooLarge] {
            assert!(matches!(spooled(kind.into()), DeviceError::NoSpace(_)), "{kind}");
        }
        assert!(matches!(spooled(Other.into()), DeviceError::Io(_)));
    }

    #[test]
    fn what_is_left_out_reads_as_zeroes() {
        let mut spool = Spool::default();
        for (at, byte) in [(40, 1), (60, 2), (50, 3), (20, 4)] {
            spool.write(&[byte; 10], at).unwrap();
        }
        let wanted = [0, 0, 4, 0, 1, 3, 2].map(|byte| [byte; 10]).concat();
        assert_eq!(spool.part(0, u64::MAX).unwrap(), wanted);
    }

    #[test]
    fn it_is_what_memory_would_be() {
        let mut rng = Rng::new(5);
        for round in 0..6 {
            let (mut spool, mut bytes) = (Spool::default(), Vec::new());
            for _ in 0..200 {
                let most = if round % 2 == 0 { MOST / 2 } else { 3 * MOST };
                let at = rng.below(most as u64 - 9_000);
                match rng.below(30) {
                    0 => {
                        let size = rng.below(2) * at;
                        spool.truncate(size).unwrap();
                        bytes.truncate(size as usize);
                    }
                    1..=12 => {
                        let mut out = vec![7; rng.below(9_000) as usize];
                        let there = spool.read(&mut out, at).unwrap();
                        let expected = bytes.len().saturating_sub(at as usize).min(out.len());
                        assert_eq!(there, expected);
                        assert!(there == 0 || out[..there] == bytes[at as usize..][..there]);
                    }
                    _ => {
                        let data = vec![rng.below(256) as u8; rng.below(9_000) as usize];
                        spool.write(&data, at).unwrap();
                        patch(&mut bytes, &data, at);
                    }
                }
                assert_eq!(spool.len(), bytes.len() as u64);
            }
            assert!(spool.part(0, u64::MAX).unwrap() == bytes);
            bytes.resize(bytes.len().max(HEAD), 0);
            assert_eq!(spool.head, bytes[..HEAD]);
            assert!(
                spool.is_empty() || spool.len() < HEAD as u64 || spool.starts_with(&spool.head)
            );
            assert!(spool.file.is_some() || spool.len() <= MOST as u64);
            let again = Spool::over(spool.into_memory());
            assert!(again.is_empty() && !again.starts_with(&[0; HEAD]));
        }
    }
}
