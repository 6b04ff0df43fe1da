//! An image that another process may be writing, as it was at one moment.
//!
//! Invariants:
//! * the file is opened for reading only and no lock is held: who writes it does not notice;
//! * all that power-on relies on is read twice, and is the same both times: so there was a moment, between the two, at
//!   which all of it was in the file. It is the state that a kill of the writer would have left then;
//! * the log of commits is read once: its records follow each other, and those of an epoch that is the same before and
//!   after are a beginning of it;
//! * what is read later has a checksum, which tells when the writer has reused its place;
//! * what is written stays in memory.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use block::Medium;

use crate::layout::PAGE;
use crate::medium::FileMedium;

/// How long is looked for a moment.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// Tries until there is an answer; `None`: there was none in a few seconds.
pub fn patiently<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = attempt() {
            return Some(answer);
        }
        if start.elapsed() > PATIENCE {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}

#[derive(Debug)]
pub(crate) struct BesideMedium {
    file: FileMedium,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What was read, as long as that is wanted.
    seen: Vec<(u64, Box<[u8]>)>,
    collecting: bool,
    /// The log of commits, of which other bytes tell whether it has gone on.
    log: Range<u64>,
    tail: Option<(u64, Box<[u8]>)>,
    /// Pages that were written here.
    written: BTreeMap<u64, Box<[u8]>>,
}

impl BesideMedium {
    pub fn new(file: File) -> BesideMedium {
        let (seen, tail, written) = (Vec::new(), None, BTreeMap::new());
        let state = State { seen, collecting: true, log: 0..0, tail, written };
        BesideMedium { file: FileMedium(file), state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the log of commits lies.
    pub fn set_log(&self, log: Range<u64>) {
        self.lock().log = log;
    }

    /// Whether all that was seen is there.
    fn is_unchanged(&self) -> bool {
        let state = self.lock();
        let mut bytes = Vec::new();
        state.tail.iter().chain(&state.seen).all(|(at, seen)| {
            bytes.resize(seen.len(), 0);
            self.file.read(*at, &mut bytes).is_ok() && bytes[..] == seen[..]
        })
    }

    /// Bytes of the file, and zeroes behind its end where something was written there.
    fn base(&self, state: &State, at: u64, out: &mut [u8]) -> io::Result<()> {
        let end = at + out.len() as u64;
        let last = state.written.last_key_value().map_or(0, |(page, _)| (page + 1) * PAGE);
        let size = self.file.size()?;
        if end <= size || end > last {
            return self.file.read(at, out);
        }
        let there = size.saturating_sub(at).min(out.len() as u64) as usize;
        out[there..].fill(0);
        self.file.read(at, &mut out[..there])
    }

    fn view(&self, state: &State, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.base(state, at, out)?;
        let end = at + out.len() as u64;
        for (page, bytes) in state.written.range(at / PAGE..end.div_ceil(PAGE)) {
            let start = page * PAGE;
            let (from, to) = (start.max(at), (start + PAGE).min(end));
            out[(from - at) as usize..(to - at) as usize]
                .copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }
}

impl Medium for BesideMedium {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let state = &mut *self.lock();
        self.view(state, at, out)?;
        if state.collecting && state.written.is_empty() && !state.log.contains(&at) {
            state.seen.push((at, (&*out).into()));
        }
        Ok(())
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let state = &mut *self.lock();
        let end = at + bytes.len() as u64;
        for page in at / PAGE..end.div_ceil(PAGE) {
            let start = page * PAGE;
            let (from, to) = (start.max(at), (start + PAGE).min(end));
            let mut whole = vec![0; PAGE as usize];
            if to - from < PAGE {
                let there = self.file.size()?.saturating_sub(start).min(PAGE) as usize;
                match state.written.get(&page) {
                    Some(written) => whole.copy_from_slice(written),
                    None => self.file.read(start, &mut whole[..there])?,
                }
            }
            whole[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
            state.written.insert(page, whole.into());
        }
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}

/// The moment at which an image is read beside its writer.
#[derive(Clone, Debug)]
pub struct Moment(pub(crate) Arc<BesideMedium>);

impl Moment {
    /// Whether what was read so far is what the file has, so that there was such a moment; later: whether the writer
    /// has done nothing since.
    pub fn is_unchanged(&self) -> bool {
        self.0.is_unchanged()
    }

    /// Whether a process has the image to write it. (Asked with a lock for a moment: who would take the image just then
    /// is told that it is in use.)
    pub fn has_writer(&self) -> bool {
        let file = &self.0.file.0;
        match file.try_lock_shared() {
            // A lock that could not be given back is ours, and keeps writers out until the file is closed: nobody has it.
            Ok(()) => {
                let _ = file.unlock();
                false
            }
            Err(TryLockError::WouldBlock) => true,
            // A file system without locks: nobody has it.
            Err(TryLockError::Error(_)) => false,
        }
    }

    /// What is read from here on is not compared any more; `tail`: bytes of the file that the next commit in the log
    /// changes.
    pub fn settle(&self, tail: Option<(u64, Vec<u8>)>) {
        let state = &mut *self.0.lock();
        state.collecting = false;
        state.tail = tail.map(|(at, bytes)| (at, bytes.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_here_is_read_here_and_what_others_write_is_noticed() {
        let path = std::env::temp_dir().join(format!("varve-beside-{}", std::process::id()));
        std::fs::write(&path, vec![1; 3 * 4096]).expect("written");
        let open = || File::open(&path).expect("a file");
        let medium = Arc::new(BesideMedium::new(open()));
        medium.set_log(8192..12_288);
        let moment = Moment(Arc::clone(&medium));
        let mut out = vec![0; 4096];
        medium.read(4096, &mut out).expect("read");
        medium.read(8192, &mut out).expect("read");
        assert!(moment.is_unchanged());
        // The log goes on.
        let other = FileMedium(File::options().write(true).open(&path).expect("a file"));
        other.write(8192 + 100, &[7; 10]).expect("written");
        assert!(moment.is_unchanged());
        moment.settle(Some((8192, vec![1; 100])));
        assert!(moment.is_unchanged());
        other.write(8192 + 99, &[7]).expect("written");
        assert!(!moment.is_unchanged());
        other.write(8192 + 99, &[1]).expect("written");
        other.write(4100, &[9]).expect("written");
        assert!(!moment.is_unchanged());
        // Across pages, and behind the end.
        medium.write(4000, &[5; 200]).expect("written");
        medium.write(4 * 4096 + 9, &[6; 3]).expect("written");
        let mut all = vec![0; 4 * 4096 + 12];
        medium.read(0, &mut all).expect("read");
        assert_eq!((all[3999], &all[4000..4200], all[4200]), (1, &[5; 200][..], 1));
        assert_eq!((all[3 * 4096], &all[4 * 4096 + 8..]), (0, &[0, 6, 6, 6][..]));
        assert!(medium.read(5 * 4096, &mut out).is_err());
        assert_eq!(std::fs::read(&path).expect("read")[4000], 1, "the file is as it was");
        std::fs::remove_file(&path).expect("removed");
    }
}
