//! A file or a block device as a medium.

use std::fs::File;
use std::io::{self, IoSlice, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use block::{Medium, write_zeroes};
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

/// Parts that one call of the system takes.
const MOST_PARTS: usize = 1024;

/// A file, or a block device.
#[derive(Debug)]
pub struct FileMedium(pub File);

impl Medium for FileMedium {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, at)
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }
    fn write_parts(&self, at: u64, parts: &[&[u8]]) -> io::Result<()> {
        let mut at = at;
        for some in parts.chunks(MOST_PARTS) {
            let mut slices: Vec<IoSlice<'_>> = some.iter().map(|part| IoSlice::new(part)).collect();
            let mut left = &mut slices[..];
            while left.iter().any(|slice| !slice.is_empty()) {
                match rustix::io::pwritev(&self.0, left, at) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => {
                        at += written as u64;
                        IoSlice::advance_slices(&mut left, written);
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
    /// The position of the file is nobody's: all else says where.
    fn size(&self) -> io::Result<u64> {
        (&self.0).seek(SeekFrom::End(0))
    }
    fn discard(&self, at: u64, bytes: u64) -> io::Result<()> {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.0, how, at, bytes) {
            // The file system, or the device, has no holes; or the range is finer than its blocks.
            Err(Errno::OPNOTSUPP | Errno::INVAL) => write_zeroes(self, at, bytes),
            result => Ok(result?),
        }
    }
    fn reserve(&self, at: u64, bytes: u64) -> io::Result<()> {
        match fallocate(&self.0, FallocateFlags::ZERO_RANGE, at, bytes) {
            // The file system cannot: tmpfs, network file systems.
            Err(Errno::OPNOTSUPP | Errno::INVAL) => write_zeroes(self, at, bytes),
            result => Ok(result?),
        }
    }
    fn cut(&self, at: u64) -> io::Result<()> {
        match self.0.metadata()?.is_file() && self.size()? > at {
            true => self.0.set_len(at),
            false => Ok(()),
        }
    }
    /// A hole beyond the end changes nothing, and is refused where there are none. (A device
    /// refuses whatever is beyond its end.)
    fn discard_is_fast(&self) -> bool {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.size()
            .is_ok_and(|size| fallocate(&self.0, how, size.next_multiple_of(4096), 4096).is_ok())
    }
    fn data_from(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        let start = match rustix::fs::seek(&self.0, rustix::fs::SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            // A device, or a file system that keeps no such account.
            Err(Errno::INVAL) => return Ok(Some(at..u64::MAX)),
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(&self.0, rustix::fs::SeekFrom::Hole(start))?;
        Ok(Some(start..end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_behind_each_other() {
        let path = std::env::temp_dir().join(format!("varve-parts-{}", std::process::id()));
        let open = File::options().read(true).write(true).create_new(true).open(&path);
        let file = open.expect("a file");
        std::fs::remove_file(&path).expect("removed");
        let medium = FileMedium(file);
        let bytes: Vec<u8> = (0..20_000u32).map(|i| (i % 251) as u8).collect();
        // More parts than one call takes, an empty one among them.
        let mut parts: Vec<&[u8]> = bytes.chunks(9).collect();
        parts.insert(7, &[]);
        medium.write_parts(4096, &parts).expect("written");
        let mut found = vec![0; bytes.len()];
        medium.read(4096, &mut found).expect("read");
        assert_eq!(found, bytes);
        assert_eq!(medium.size().expect("size"), 4096 + bytes.len() as u64);
    }
}
