//! Open files whose contents are made when they are opened or written: `stats.json`, `control`.
//!
//! Invariants: no more than [`Handles::MOST`] are open, no text is longer than
//! [`Handles::LONGEST`]; the number of a handle is never used twice.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fuser::Errno;

/// Carries out one line of control and says what came of it; an error is a text for people.
pub type Command = dyn Fn(&str) -> Result<String, String> + Send + Sync;

/// What open files hold.
#[derive(Debug, Default)]
pub struct Handles {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    last: u64,
    open: BTreeMap<u64, Text>,
}

#[derive(Debug, Default)]
struct Text {
    bytes: Vec<u8>,
    /// Bytes of a stream that were read.
    read: usize,
}

impl Handles {
    /// Open files at most.
    pub const MOST: usize = 64;
    /// Bytes of a text at most.
    pub const LONGEST: usize = 1 << 20;

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics half-way through a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A handle that holds `text`.
    ///
    /// # Errors
    /// `ENFILE` beyond the limit.
    pub fn open(&self, text: String) -> Result<u64, Errno> {
        let mut inner = self.lock();
        if inner.open.len() >= Self::MOST {
            return Err(Errno::ENFILE);
        }
        inner.last += 1;
        let handle = inner.last;
        inner.open.insert(handle, Text { bytes: cut(text), read: 0 });
        Ok(handle)
    }

    /// Lets a handle go.
    pub fn close(&self, handle: u64) {
        self.lock().open.remove(&handle);
    }

    /// A piece of what a handle holds, as of a file.
    ///
    /// # Errors
    /// `EBADF` for a handle that is not open.
    pub fn piece(&self, handle: u64, at: u64, most: usize) -> Result<Vec<u8>, Errno> {
        let inner = self.lock();
        let bytes = &inner.open.get(&handle).ok_or(Errno::EBADF)?.bytes;
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        Ok(bytes[from..from.saturating_add(most).min(bytes.len())].to_vec())
    }

    /// The next bytes of what a handle holds, as of a stream.
    ///
    /// # Errors
    /// `EBADF` for a handle that is not open.
    pub fn next(&self, handle: u64, most: usize) -> Result<Vec<u8>, Errno> {
        let mut inner = self.lock();
        let text = inner.open.get_mut(&handle).ok_or(Errno::EBADF)?;
        let to = text.read.saturating_add(most).min(text.bytes.len());
        let piece = text.bytes[text.read..to].to_vec();
        text.read = to;
        Ok(piece)
    }

    /// What a handle holds is `text` from now on.
    ///
    /// # Errors
    /// `EBADF` for a handle that is not open.
    pub fn replace(&self, handle: u64, text: String) -> Result<(), Errno> {
        let mut inner = self.lock();
        *inner.open.get_mut(&handle).ok_or(Errno::EBADF)? = Text { bytes: cut(text), read: 0 };
        Ok(())
    }
}

fn cut(text: String) -> Vec<u8> {
    let mut bytes = text.into_bytes();
    bytes.truncate(Handles::LONGEST);
    bytes
}

/// The one line that was written.
///
/// # Errors
/// `EINVAL` unless it is one line of text of at most 4096 bytes.
pub fn line(data: &[u8]) -> Result<&str, Errno> {
    let text = std::str::from_utf8(data).map_err(|_| Errno::EINVAL)?.trim();
    if data.len() > 4096 || text.is_empty() || text.contains(['\n', '\0']) {
        return Err(Errno::EINVAL);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_read_once_and_a_file_from_anywhere() {
        let handles = Handles::default();
        let one = handles.open("abcdef".to_string()).unwrap();
        assert_eq!(handles.next(one, 4).unwrap(), b"abcd");
        assert_eq!(handles.next(one, 4).unwrap(), b"ef");
        assert!(handles.next(one, 4).unwrap().is_empty());
        assert_eq!(handles.piece(one, 3, 2).unwrap(), b"de");
        assert!(handles.piece(one, u64::MAX, usize::MAX).unwrap().is_empty());
        handles.replace(one, "x".to_string()).unwrap();
        assert_eq!(handles.next(one, 4).unwrap(), b"x");
        handles.close(one);
        assert!(handles.next(one, 1).is_err());
    }

    #[test]
    fn open_files_and_texts_are_bounded() {
        let handles = Handles::default();
        let open: Vec<u64> =
            (0..Handles::MOST).map(|_| handles.open(String::new()).unwrap()).collect();
        assert!(handles.open(String::new()).is_err());
        handles.close(open[7]);
        let again = handles.open("y".repeat(2 * Handles::LONGEST)).unwrap();
        assert!(!open.contains(&again));
        assert_eq!(handles.piece(again, 0, usize::MAX).unwrap().len(), Handles::LONGEST);
    }

    #[test]
    fn a_command_is_one_line() {
        assert_eq!(line(b"stats\n").unwrap(), "stats");
        for bad in [&b""[..], b"\n", b"a\nb", b"\xff", b"a\0", &[b'a'; 5000]] {
            assert!(line(bad).is_err(), "{bad:?}");
        }
    }
}
