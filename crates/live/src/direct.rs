//! The file of an image, of which some writes wait for the device by themselves.
//!
//! Invariants:
//! * what is written durably goes past the system's cache where the file lets it, and waits for its own
//!   bytes only: what else was written waits for the next sync, as ever;
//! * where the file or the system cannot do that, it is a write and a sync;
//! * who waits by the file that is synced waits alone: the system tells an error once, and who has met one there may have been
//!   told of what others wrote. No later sync succeeds then.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Mutex, PoisonError};

use block::Medium;
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags};

use crate::layout::{PAGE, SECTOR};
use crate::medium::FileMedium;

/// Where the memory lies that goes to the device as it is.
const ALIGNED: usize = PAGE as usize;

/// A file, and the same file past the cache.
#[derive(Debug)]
pub(crate) struct DirectMedium {
    file: FileMedium,
    direct: Option<File>,
    turn: Turn,
    grain: u32,
}

/// Whose turn it is to wait by a file, and the error that one met who did not sync it all.
#[derive(Debug, Default)]
struct Turn(Mutex<Option<(io::ErrorKind, String)>>);

impl Turn {
    /// Waits for all that was written.
    fn sync(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let met = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*met {
            Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
            None => sync(),
        }
    }

    /// Waits for some bytes.
    fn part<T>(&self, write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let mut met = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let done = write();
        done.inspect_err(|error| *met = Some((error.kind(), error.to_string())))
    }
}

/// Memory for so many bytes behind what is in it, which begin at an aligned place.
fn aligned(bytes: usize) -> Vec<u8> {
    let mut memory: Vec<u8> = Vec::with_capacity(bytes + ALIGNED);
    memory.resize(memory.as_ptr().align_offset(ALIGNED), 0);
    memory
}

/// Whether so many bytes can be read there past the cache.
fn reads(file: &File, at: u64, bytes: usize) -> bool {
    let mut memory = aligned(bytes);
    let start = memory.len();
    memory.resize(start + bytes, 0);
    file.read_exact_at(&mut memory[start..], at).is_ok()
}

impl DirectMedium {
    /// Over a file that has its first pages.
    pub fn new(file: File) -> DirectMedium {
        // The same file, whatever has become of its name.
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(OFlags::DIRECT.bits() as i32);
        let direct = options.open(name).ok();
        let file = FileMedium(file);
        let direct = direct.filter(|direct| reads(direct, 0, PAGE as usize));
        let fine = direct.as_ref().is_some_and(|direct| reads(direct, SECTOR as u64, SECTOR));
        let grain = if fine { SECTOR as u32 } else { PAGE as u32 };
        DirectMedium { file, direct, turn: Turn::default(), grain }
    }
}

/// Writes and waits for these bytes alone; `false`: the system cannot, and nothing is promised.
fn write_waiting(file: &File, at: u64, bytes: &[u8]) -> io::Result<bool> {
    let mut done = 0;
    while done < bytes.len() {
        let part = [IoSlice::new(&bytes[done..])];
        match rustix::io::pwritev2(file, &part, at + done as u64, ReadWriteFlags::DSYNC) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

impl Medium for DirectMedium {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(at, out)
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write(at, bytes)
    }
    fn write_parts(&self, at: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.file.write_parts(at, parts)
    }
    fn sync(&self) -> io::Result<()> {
        self.turn.sync(|| self.file.sync())
    }
    fn write_durable(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let grain = u64::from(self.grain);
        let fits = at.is_multiple_of(grain) && (bytes.len() as u64).is_multiple_of(grain);
        if let Some(direct) = self.direct.as_ref().filter(|_| fits) {
            let mut memory = aligned(bytes.len());
            let start = memory.len();
            memory.extend_from_slice(bytes);
            if write_waiting(direct, at, &memory[start..])? {
                return Ok(());
            }
        }
        self.turn.part(|| {
            if write_waiting(&self.file.0, at, bytes)? {
                return Ok(());
            }
            self.file.write(at, bytes)?;
            self.file.sync()
        })
    }
    fn grain(&self) -> u32 {
        self.grain
    }
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
    fn discard(&self, at: u64, bytes: u64) -> io::Result<()> {
        self.file.discard(at, bytes)
    }
    fn reserve(&self, at: u64, bytes: u64) -> io::Result<()> {
        self.file.reserve(at, bytes)
    }
    fn cut(&self, at: u64) -> io::Result<()> {
        self.file.cut(at)
    }
    fn discard_is_fast(&self) -> bool {
        self.file.discard_is_fast()
    }
    fn data_from(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        self.file.data_from(at)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    fn file(name: &str, bytes: usize) -> (File, FileMedium) {
        let path = std::env::temp_dir().join(format!("varve-{name}-{}", std::process::id()));
        let open = File::options().read(true).write(true).create_new(true).open(&path);
        let file = open.expect("a file");
        std::fs::remove_file(&path).expect("removed");
        let medium = FileMedium(file.try_clone().expect("a second handle"));
        medium.write(0, &vec![1; bytes]).expect("written");
        (file, medium)
    }

    /// What decides whether the cache is passed: all of these bytes were read, however they lie in memory.
    #[test]
    fn a_file_is_tried_with_all_the_bytes_that_are_asked_for() {
        let (file, _) = file("direct-tried", 3 * ALIGNED);
        let (page, end) = (ALIGNED, 3 * ALIGNED as u64);
        for (at, bytes) in [(0, page), (SECTOR as u64, SECTOR), (end - 1, 1), (0, 3 * page)] {
            assert!(reads(&file, at, bytes), "{bytes} bytes at {at} are there");
        }
        for (at, bytes) in [(end, 1), (end, page), (end - 1, 2), (0, 3 * page + 1)] {
            assert!(!reads(&file, at, bytes), "{bytes} bytes at {at} end behind the file");
        }
    }

    /// The error of what the cache could not write goes to the first who asks: here to one who waits for bytes of his own, while
    /// another one syncs, or before.
    #[test]
    fn who_waits_for_his_own_bytes_does_not_take_the_error_of_a_sync() {
        let (turn, untold, inside) =
            (Turn::default(), AtomicBool::new(true), AtomicBool::new(false));
        let asked = || match untold.swap(false, Ordering::SeqCst) {
            true => Err(io::Error::other("lost")),
            false => Ok(()),
        };
        let synced = std::thread::scope(|scope| {
            let part = scope.spawn(|| {
                turn.part(|| {
                    inside.store(true, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(50));
                    asked()
                })
            });
            while !inside.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let synced = turn.sync(|| {
                assert!(!untold.load(Ordering::SeqCst), "one waits at a time");
                asked()
            });
            assert!(part.join().expect("no panic").is_err());
            synced
        });
        assert_eq!(synced.expect_err("nothing is known").to_string(), "lost");
        assert!(turn.sync(asked).is_err(), "from here on");
        assert!(turn.part(asked).is_ok(), "its own bytes are known");
    }

    #[test]
    fn what_is_written_durably_is_read_by_everybody() {
        let (file, medium) = file("direct-durable", 64 << 10);
        let direct = DirectMedium::new(file);
        let mut expected = vec![1; 64 << 10];
        // Whole grains, of both sizes, and what fits none.
        for (number, (at, bytes)) in
            [(8192, 4096), (12_288, 8192), (512, 1024), (700, 333)].into_iter().enumerate()
        {
            let fill = number as u8 + 2;
            direct.write_durable(at, &vec![fill; bytes]).expect("written");
            expected[at as usize..at as usize + bytes].fill(fill);
            let mut found = vec![0; expected.len()];
            medium.read(0, &mut found).expect("read");
            assert!(found == expected, "{at} {bytes}");
        }
    }
}
