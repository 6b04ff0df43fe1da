//! A medium with a name: the first failure of each kind is told at once, with the file it is about.
//!
//! The layers above tell their client only that something failed; when, and why, is known here.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use block::Medium;

use crate::notice::say;

/// A medium that says what fails.
#[derive(Debug)]
pub struct NamedMedium<M> {
    name: String,
    below: M,
    told: Mutex<Vec<(&'static str, ErrorKind)>>,
}

impl<M: Medium> NamedMedium<M> {
    /// `below`, which people call `name`.
    pub fn new(name: impl Into<String>, below: M) -> NamedMedium<M> {
        NamedMedium { name: name.into(), below, told: Mutex::new(Vec::new()) }
    }

    fn tell<R>(
        &self,
        what: &'static str,
        place: (u64, u64),
        result: io::Result<R>,
    ) -> io::Result<R> {
        if let Err(error) = &result {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if !told.contains(&(what, error.kind())) {
                told.push((what, error.kind()));
                let (at, bytes) = place;
                say(&match bytes {
                    0 => format!("{}: {what}: {error}", self.name),
                    _ => format!("{}: {what} of {bytes} bytes at {at}: {error}", self.name),
                });
            }
        }
        result
    }
}

impl<M: Medium> Medium for NamedMedium<M> {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = out.len() as u64;
        self.tell("read", (at, bytes), self.below.read(at, out))
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.tell("write", (at, bytes.len() as u64), self.below.write(at, bytes))
    }
    fn write_parts(&self, at: u64, parts: &[&[u8]]) -> io::Result<()> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        self.tell("write", (at, bytes), self.below.write_parts(at, parts))
    }
    fn sync(&self) -> io::Result<()> {
        self.tell("flush", (0, 0), self.below.sync())
    }
    fn size(&self) -> io::Result<u64> {
        self.below.size()
    }
    fn discard(&self, at: u64, bytes: u64) -> io::Result<()> {
        self.tell("discard", (at, bytes), self.below.discard(at, bytes))
    }
    fn discard_is_fast(&self) -> bool {
        self.below.discard_is_fast()
    }
    fn data_from(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        self.below.data_from(at)
    }
}
