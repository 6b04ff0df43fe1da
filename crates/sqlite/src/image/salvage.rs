//! What can be read of a damaged database.
//!
//! Invariants: a file appears under its name only when it is whole and durable; what could not be read is zeroes and
//! is named; nothing that exists is overwritten.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use lab::LabError;

use super::Served;
use super::moved::{Temporary, meant};
use varve_sqlite_vfs::{Store, StoreError};

use crate::source::Source;
use crate::transfer::{beside, sync_folder};

/// What is read at a time: a page of the drive.
const PIECE: usize = 4096;

/// A database that was saved as far as it can be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Saved {
    /// Its bytes.
    pub bytes: u64,
    /// Its pages' bytes; 4096 where the first page is lost, which says so.
    pub page: u64,
    /// Pages of the database, from 1, that could not be read, and hold zeroes where they could not.
    pub lost: Vec<RangeInclusive<u64>>,
    /// Why, of the first.
    pub why: Option<String>,
    /// Files beside it: its journal or its write-ahead log, and the bytes of it that could not be read.
    pub beside: Vec<(PathBuf, u64)>,
}

/// Writes what can be read of a database to a new file, with the journal or write-ahead log that it has: what cannot
/// be is zeroes. SQLite's `.recover` makes a database of that.
///
/// # Errors
/// What holds no store that can be mounted, or no such database; a file that is there already or cannot be written.
pub fn salvage(source: &Source, name: Option<&str>, database: &Path) -> Result<Saved, LabError> {
    let ends = ["", "-journal", "-wal"];
    let paths = ends.map(|end| with(database, end));
    if let Some(there) = paths.iter().find(|path| path.exists()) {
        return Err(LabError::Input(format!("{}: exists already", there.display())));
    }
    let copies = source.with_store(|served| {
        let object = meant(served, source, name)?;
        let mut copies = Vec::new();
        for (end, to) in ends.iter().zip(&paths) {
            let from = format!("{object}{end}");
            let wrong = |error: StoreError| LabError::Failed(format!("{source}: {from}: {error}"));
            let mut bytes = served.store().bytes(&from).map_err(wrong)?;
            if *end == "-journal" && is_undecided(served.store(), &from, bytes).map_err(wrong)? {
                // Its super-journal has another name than the copy would look for, and the journal would be taken for that of
                // a COMMIT that is over. Without its mark it is one of its own: what was cut off is taken back.
                bytes -= MARK.len() as u64;
            }
            if bytes > 0 || end.is_empty() {
                copies.push((to.clone(), copy(served, (&from, bytes), to)?));
            }
        }
        let lost = copies.iter().any(|(_, copy)| !copy.lost.is_empty());
        if lost && !served.store().is_unchanged() {
            // What could not be read may have been written over: anew.
            return Err(LabError::Failed(format!("{source}: it is being written")));
        }
        Ok(copies)
    })?;
    let page = match copies.first() {
        Some((_, copy)) => page_size(&copy.file.0)?,
        None => PIECE as u64,
    };
    let mut saved = Saved { bytes: 0, page, lost: Vec::new(), why: None, beside: Vec::new() };
    // The database comes last: without its journal or its log it would look whole.
    for (path, copy) in copies.into_iter().rev() {
        std::fs::rename(&copy.file.0, &path).map_err(|e| LabError::io(&path, e))?;
        saved.why = copy.why.or(saved.why);
        if path == database {
            (saved.bytes, saved.lost) = (copy.bytes, pages(&copy.lost, page, copy.bytes));
        } else {
            saved.beside.push((path, (copy.lost.len() * PIECE) as u64));
        }
    }
    sync_folder(database)?;
    Ok(saved)
}

/// What ends the name of a super-journal in a journal.
const MARK: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// Bytes behind that name: its length, its sum and the mark.
const BEHIND: usize = 16;
/// Bytes at the end of such a name that are its own: `-mj` and nine digits.
const OWN: usize = 12;

/// Whether a journal of so many bytes names a super-journal that is there: its COMMIT was cut off.
fn is_undecided(store: &Store, journal: &str, bytes: u64) -> Result<bool, StoreError> {
    let mut tail = [0; OWN + BEHIND];
    if bytes < tail.len() as u64 {
        return Ok(false);
    }
    let read = store.read(journal, bytes - tail.len() as u64, &mut tail)?;
    let (own, behind) = tail.split_at(OWN);
    let named = read == tail.len() && behind.ends_with(&MARK);
    Ok(named && store.objects().iter().any(|(name, _)| name.as_bytes().ends_with(own)))
}

struct Copy {
    file: Temporary,
    bytes: u64,
    /// Where pieces were lost.
    lost: Vec<u64>,
    why: Option<String>,
}

fn copy(served: &Served, (object, size): (&str, u64), to: &Path) -> Result<Copy, LabError> {
    let mut done = Copy { file: Temporary(beside(to)), bytes: 0, lost: Vec::new(), why: None };
    let path = done.file.0.clone();
    let wrong = |e| LabError::io(&path, e);
    let mut file = File::create(&path).map_err(wrong)?;
    while done.bytes < size {
        let mut piece = [0; PIECE];
        let there = (size - done.bytes).min(PIECE as u64) as usize;
        let why = match served.store().read(object, done.bytes, &mut piece[..there]) {
            Ok(read) if read == there => None,
            Ok(read) => Some(format!("{read} of {there} bytes at {} of {object}", done.bytes)),
            Err(error) => Some(error.to_string()),
        };
        if let Some(why) = why {
            piece.fill(0);
            done.why.get_or_insert(why);
            done.lost.push(done.bytes);
        }
        file.write_all(&piece[..there]).map_err(wrong)?;
        done.bytes += there as u64;
    }
    file.sync_all().map_err(wrong)?;
    Ok(done)
}

/// As the first page says; what SQLite and this store take by default where it says nothing.
fn page_size(database: &Path) -> Result<u64, LabError> {
    let read = || {
        let (mut file, mut bytes) = (File::open(database)?, Vec::new());
        file.seek(SeekFrom::Start(16))?;
        file.take(2).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|e| LabError::io(database, e))?;
    let said = bytes.iter().fold(0, |so_far, byte| so_far << 8 | u64::from(*byte));
    let size = if said == 1 { 1 << 16 } else { said };
    Ok(if size.is_power_of_two() && size >= 512 { size } else { PIECE as u64 })
}

/// Pages of a database of so many bytes that bytes of these pieces lie in.
fn pages(lost: &[u64], page: u64, bytes: u64) -> Vec<RangeInclusive<u64>> {
    let mut all: Vec<RangeInclusive<u64>> = Vec::new();
    for at in lost {
        let (first, last) = (at / page + 1, (at + PIECE as u64).min(bytes).div_ceil(page));
        match all.last_mut() {
            Some(range) if *range.end() + 1 >= first => *range = *range.start()..=last,
            _ => all.push(first..=last),
        }
    }
    all
}

fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_the_pages_that_they_touch() {
        assert_eq!(pages(&[], 4096, 1 << 20), []);
        assert_eq!(pages(&[0, 4096, 12_288], 4096, 1 << 20), [1..=2, 4..=4]);
        assert_eq!(pages(&[4096], 1024, 1 << 20), [5..=8]);
        assert_eq!(pages(&[4096], 1024, 5 * 1024), [5..=5]);
        assert_eq!(pages(&[4096, 8192, 65_536], 65_536, 1 << 20), [1..=2]);
    }
}
