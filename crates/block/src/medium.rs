//! Bytes that many threads reach at once: what an image or a live log needs of the file below it. A
//! test puts one there that loses what is not synced.

use std::fmt::Debug;
use std::io;
use std::ops::Range;

/// Zeroes written at a time where nothing better is there.
const ZEROES: usize = 64 << 10;

/// Bytes that outlive the process.
pub trait Medium: Debug + Send + Sync {
    /// Reads exactly `out.len()` bytes.
    ///
    /// # Errors
    /// What the system said.
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()>;
    /// Writes all of `bytes`; durable after the next [`Medium::sync`].
    ///
    /// # Errors
    /// What the system said.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;
    /// Writes all of `parts`, one behind the other from `at` on, as one write where the medium can.
    ///
    /// # Errors
    /// What the system said.
    fn write_parts(&self, at: u64, parts: &[&[u8]]) -> io::Result<()> {
        match parts {
            [one] => self.write(at, one),
            parts => self.write(at, &parts.concat()),
        }
    }
    /// Returns when everything written is durable.
    ///
    /// # Errors
    /// What the system said. What was written since the last success may or may not be there.
    fn sync(&self) -> io::Result<()>;

    /// Writes all of `bytes`, durable on return; says nothing of what was written before.
    ///
    /// # Errors
    /// What the system said. What is there then may be old or new, sector by sector.
    fn write_durable(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(at, bytes)?;
        self.sync()
    }
    /// The least that [`Medium::write_durable`] writes without reading what lies around it.
    fn grain(&self) -> u32 {
        512
    }
    /// Bytes it has.
    ///
    /// # Errors
    /// What the system said; unsupported where nobody can say.
    fn size(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes a range inside it read as zeroes, and gives its space back where that is possible;
    /// durable after the next [`Medium::sync`], until then each sector is old or zero.
    ///
    /// # Errors
    /// What the system said.
    fn discard(&self, at: u64, bytes: u64) -> io::Result<()> {
        write_zeroes(self, at, bytes)
    }
    /// Makes a range read as zeroes, beyond the end as well, and takes the room that writes to it will need; durable
    /// after the next [`Medium::sync`]. A file system may pay for that later: with its journal, when a place is
    /// written for the first time.
    ///
    /// # Errors
    /// What the system said; that there is no room among it.
    fn reserve(&self, at: u64, bytes: u64) -> io::Result<()> {
        write_zeroes(self, at, bytes)
    }
    /// What lies from `at` on is gone, its room given back, where the medium can be made shorter; else nothing is done. Nobody
    /// may rely on it after a power cut.
    ///
    /// # Errors
    /// What the system said.
    fn cut(&self, at: u64) -> io::Result<()> {
        let _ = at;
        Ok(())
    }
    /// Whether [`Medium::discard`] of aligned 4 KiB blocks writes nothing.
    fn discard_is_fast(&self) -> bool {
        false
    }
    /// The first run of bytes from `at` on that may hold something; `None`: zeroes to the end. The
    /// run may reach beyond the end.
    ///
    /// # Errors
    /// What the system said.
    fn data_from(&self, at: u64) -> io::Result<Option<Range<u64>>> {
        Ok(Some(at..u64::MAX))
    }
}

/// Writes zeroes, for real.
///
/// # Errors
/// What the medium said.
pub fn write_zeroes<M: Medium + ?Sized>(medium: &M, at: u64, bytes: u64) -> io::Result<()> {
    let zeroes = vec![0; ZEROES.min(usize::try_from(bytes).unwrap_or(ZEROES))];
    let mut done = 0;
    while done < bytes {
        let piece = (bytes - done).min(ZEROES as u64);
        medium.write(at + done, &zeroes[..piece as usize])?;
        done += piece;
    }
    Ok(())
}
