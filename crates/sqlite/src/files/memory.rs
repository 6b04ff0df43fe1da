//! Files in memory, copied in no time: what an experiment's databases live in.
//!
//! A database is open once at a time, so its locks are always free: a second connection is
//! refused when it opens. Sector size and characteristics are those of the library's own files on
//! Linux, so that SQLite does what it does there.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::Rng;
use varve_sqlite_vfs::Name;
use varve_sqlite_vfs::vfs::{
    Answer, Caller, Code, Control, File, Kind, Level, Raw, Region, Reply, Vfs, flag,
};

const PAGE: usize = 4096;
/// Noon of 1 January 2000, in milliseconds since noon of 24 November 4714 BC.
const NOW: i64 = 2_451_545 * 86_400_000;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name without its folder: all files lie in one.
fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// A page's bytes. Most pages of a large value end in one byte repeated: those take little room.
#[derive(Clone)]
enum Page {
    Whole(Box<[u8; PAGE]>),
    /// `fill` after the first bytes, up to the end.
    Even {
        head: Box<[u8]>,
        fill: u8,
    },
}

impl Page {
    fn zero() -> Page {
        Page::Even { head: Box::default(), fill: 0 }
    }

    /// The page of these bytes, [`PAGE`] of them.
    fn of(bytes: &[u8]) -> Page {
        let fill = bytes[PAGE - 1];
        let head = bytes.iter().rposition(|byte| *byte != fill).map_or(0, |last| last + 1);
        if head <= PAGE / 4 {
            return Page::Even { head: bytes[..head].into(), fill };
        }
        let mut whole = Box::new([0; PAGE]);
        whole.copy_from_slice(bytes);
        Page::Whole(whole)
    }

    fn read(&self, start: usize, out: &mut [u8]) {
        match self {
            Page::Whole(bytes) => out.copy_from_slice(&bytes[start..start + out.len()]),
            Page::Even { head, fill } => {
                let known = head.get(start..).unwrap_or_default();
                let known = &known[..known.len().min(out.len())];
                out[..known.len()].copy_from_slice(known);
                out[known.len()..].fill(*fill);
            }
        }
    }

    fn bytes(&mut self) -> &mut [u8; PAGE] {
        if let Page::Even { .. } = self {
            let mut whole = Box::new([0; PAGE]);
            self.read(0, &mut whole[..]);
            *self = Page::Whole(whole);
        }
        match self {
            Page::Whole(bytes) => bytes,
            Page::Even { .. } => unreachable!("made whole above"),
        }
    }
}

/// A file's bytes, in pages that copies share until one of them writes.
#[derive(Clone, Default)]
struct Content {
    pages: Vec<Arc<Page>>,
    size: usize,
}

impl Content {
    fn read(&self, out: &mut [u8], at: usize) -> usize {
        let bytes = self.size.saturating_sub(at).min(out.len());
        let mut done = 0;
        while done < bytes {
            let (page, start) = ((at + done) / PAGE, (at + done) % PAGE);
            let part = (PAGE - start).min(bytes - done);
            self.pages[page].read(start, &mut out[done..done + part]);
            done += part;
        }
        out[bytes..].fill(0);
        bytes
    }

    fn write(&mut self, data: &[u8], at: usize) {
        self.resize(self.size.max(at + data.len()));
        let mut done = 0;
        while done < data.len() {
            let (page, start) = ((at + done) / PAGE, (at + done) % PAGE);
            let part = (PAGE - start).min(data.len() - done);
            let bytes = &data[done..done + part];
            match part {
                PAGE => self.pages[page] = Arc::new(Page::of(bytes)),
                _ => {
                    let place = Arc::make_mut(&mut self.pages[page]).bytes();
                    place[start..start + part].copy_from_slice(bytes);
                }
            }
            done += part;
        }
    }

    /// What is behind the end is zero when the file grows again.
    fn resize(&mut self, size: usize) {
        if size < self.size && !size.is_multiple_of(PAGE) {
            Arc::make_mut(&mut self.pages[size / PAGE]).bytes()[size % PAGE..].fill(0);
        }
        self.pages.resize_with(size.div_ceil(PAGE), || Arc::new(Page::zero()));
        self.size = size;
    }
}

#[derive(Default)]
struct Inner {
    files: BTreeMap<String, Arc<Mutex<Content>>>,
    /// Databases that are open.
    open: Vec<String>,
    temporary: u64,
}

/// A set of files. A clone is another handle to the same ones; see [`Memory::fork`] for a copy.
#[derive(Clone)]
pub struct Memory {
    inner: Arc<Mutex<Inner>>,
    random: Arc<Mutex<Rng>>,
}

impl Memory {
    /// No files yet. `seed` is where SQLite's random numbers come from.
    pub fn new(seed: u64) -> Memory {
        let random = Arc::new(Mutex::new(Rng::stream(seed, "sqlite/randomness")));
        Memory { inner: Arc::default(), random }
    }

    /// The same files for somebody else, copied as they are written.
    pub fn fork(&self) -> Memory {
        let inner = lock(&self.inner);
        let copy = |(name, content): (&String, &Arc<Mutex<Content>>)| {
            (name.clone(), Arc::new(Mutex::new(lock(content).clone())))
        };
        let files = inner.files.iter().map(copy).collect();
        let random = lock(&self.random).clone();
        Memory {
            inner: Arc::new(Mutex::new(Inner { files, open: Vec::new(), temporary: 0 })),
            random: Arc::new(Mutex::new(random)),
        }
    }

    /// Names and lengths.
    pub fn list(&self) -> Vec<(String, u64)> {
        let inner = lock(&self.inner);
        let one = |(name, content): (&String, &Arc<Mutex<Content>>)| {
            (name.clone(), lock(content).size as u64)
        };
        inner.files.iter().map(one).collect()
    }

    /// A file's bytes.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let inner = lock(&self.inner);
        let content = lock(inner.files.get(name)?);
        let mut bytes = vec![0; content.size];
        content.read(&mut bytes, 0);
        Some(bytes)
    }

    /// Puts a file there.
    pub fn put(&self, name: &str, bytes: &[u8]) {
        let mut content = Content::default();
        content.write(bytes, 0);
        lock(&self.inner).files.insert(name.to_string(), Arc::new(Mutex::new(content)));
    }

    /// Lets go of all files that are not open.
    pub fn clear(&self) {
        lock(&self.inner).files.clear();
    }
}

impl Vfs for Memory {
    fn open(&self, name: &Name<'_>, flags: c_int) -> Answer<(Box<dyn File>, c_int)> {
        let mut inner = lock(&self.inner);
        let (text, forget) = match name.text() {
            Some(text) => (base(text).to_string(), flags & flag::DELETEONCLOSE != 0),
            None => {
                inner.temporary += 1;
                (format!("\0temporary {}", inner.temporary), true)
            }
        };
        let there = inner.files.contains_key(&text);
        if !there && flags & flag::CREATE == 0 {
            return Err(Code::CANTOPEN);
        }
        if there && flags & flag::EXCLUSIVE != 0 {
            return Err(Code::CANTOPEN);
        }
        let database = Kind::of(flags) == Kind::Database;
        if database {
            if inner.open.contains(&text) {
                return Err(Code::CANTOPEN);
            }
            inner.open.push(text.clone());
        }
        let content = Arc::clone(inner.files.entry(text.clone()).or_default());
        let files = Arc::clone(&self.inner);
        let file = MemoryFile { files, content, name: text, database, forget, shared: Vec::new() };
        Ok((Box::new(file), flags))
    }

    fn delete(&self, name: &Name<'_>, _sync_dir: bool) -> Answer<()> {
        let text = base(name.text().unwrap_or_default());
        let found = lock(&self.inner).files.remove(text);
        found.map(drop).ok_or(Code::IOERR_DELETE_NOENT)
    }

    fn access(&self, name: &Name<'_>, _flags: c_int) -> Answer<bool> {
        let inner = lock(&self.inner);
        let content = inner.files.get(base(name.text().unwrap_or_default()));
        Ok(content.is_some())
    }

    fn full_path(&self, name: &Name<'_>) -> Answer<Vec<u8>> {
        Ok(name.text().unwrap_or_default().as_bytes().to_vec())
    }

    fn randomness(&self, out: &mut [u8]) -> bool {
        let mut random = lock(&self.random);
        for chunk in out.chunks_mut(8) {
            let bytes = random.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
        true
    }

    fn time(&self) -> Option<i64> {
        Some(NOW)
    }
}

struct MemoryFile {
    files: Arc<Mutex<Inner>>,
    content: Arc<Mutex<Content>>,
    name: String,
    database: bool,
    forget: bool,
    /// Regions of the WAL's index, as 64-bit words for their alignment.
    shared: Vec<Box<[u64]>>,
}

impl File for MemoryFile {
    fn read(&mut self, _caller: Caller, out: &mut [u8], at: u64) -> Answer<usize> {
        Ok(lock(&self.content).read(out, at as usize))
    }

    fn write(&mut self, _caller: Caller, data: &[u8], at: u64) -> Answer<()> {
        lock(&self.content).write(data, at as usize);
        Ok(())
    }

    fn truncate(&mut self, _caller: Caller, size: u64) -> Answer<()> {
        lock(&self.content).resize(size as usize);
        Ok(())
    }

    fn sync(&mut self, _caller: Caller, _flags: c_int) -> Answer<()> {
        Ok(())
    }

    fn size(&mut self, _caller: Caller) -> Answer<u64> {
        Ok(lock(&self.content).size as u64)
    }

    fn lock(&mut self, _caller: Caller, _level: Level) -> Answer<()> {
        Ok(())
    }

    fn unlock(&mut self, _caller: Caller, _level: Level) -> Answer<()> {
        Ok(())
    }

    fn check_reserved(&mut self) -> Answer<bool> {
        Ok(false)
    }

    fn control(&mut self, _caller: Caller, _control: Control<'_>, _raw: Raw) -> Answer<Reply> {
        Ok(Reply::NotFound)
    }

    fn sector_size(&mut self) -> c_int {
        PAGE as c_int
    }

    fn characteristics(&mut self) -> c_int {
        flag::POWERSAFE_OVERWRITE
    }

    fn close(&mut self, _caller: Caller) -> Answer<()> {
        let mut inner = lock(&self.files);
        if self.database {
            inner.open.retain(|name| *name != self.name);
        }
        if self.forget {
            inner.files.remove(&self.name);
        }
        Ok(())
    }

    fn has_shm(&self) -> bool {
        true
    }

    fn shm_map(&mut self, region: usize, bytes: usize, extend: bool) -> Answer<Region> {
        if region >= self.shared.len() && !extend {
            return Ok(Region::from(std::ptr::null_mut()));
        }
        while region >= self.shared.len() {
            self.shared.push(vec![0; bytes.div_ceil(8)].into());
        }
        Ok(Region::from(self.shared[region].as_mut_ptr().cast::<c_void>()))
    }

    fn shm_lock(&mut self, _first: usize, _count: usize, _flags: c_int) -> Answer<()> {
        Ok(())
    }

    fn shm_unmap(&mut self, _delete: bool) -> Answer<()> {
        self.shared.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_a_vector_of_bytes_would_be() {
        let (mut content, mut bytes) = (Content::default(), Vec::new());
        let mut rng = Rng::new(5);
        for _ in 0..3000 {
            let (at, len) = (rng.below(20_000) as usize, rng.below(9000) as usize);
            // As SQLite writes: whole pages at their places.
            let whole = rng.ratio(1, 3);
            let (at, len) = if whole { (at / PAGE * PAGE, PAGE) } else { (at, len) };
            if rng.ratio(1, 10) {
                content.resize(at);
                bytes.resize(at, 0);
            } else if len > 0 {
                let even = rng.ratio(1, 2);
                let data: Vec<u8> = (0..len)
                    .map(|n| if even { u8::from(n > 9) } else { rng.next_u64() as u8 })
                    .collect();
                content.write(&data, at);
                bytes.resize(bytes.len().max(at + len), 0);
                bytes[at..at + len].copy_from_slice(&data);
            }
            let (from, mut out) = (rng.below(25_000) as usize, vec![1; 5000]);
            let found = content.read(&mut out, from);
            let expected = bytes.get(from..).unwrap_or_default();
            let expected = &expected[..expected.len().min(5000)];
            assert_eq!((found, &out[..found]), (expected.len(), expected));
            assert!(out[found..].iter().all(|byte| *byte == 0));
            assert_eq!(content.size, bytes.len());
        }
    }

    #[test]
    fn a_fork_does_not_see_what_is_written_later() {
        let files = Memory::new(1);
        files.put("a", b"before");
        let fork = files.fork();
        files.put("a", b"after");
        assert_eq!(fork.bytes("a").unwrap(), b"before");
        assert_eq!(files.list(), [("a".to_string(), 5)]);
        files.clear();
        assert_eq!(files.bytes("a"), None);
        assert!(fork.bytes("a").is_some());
    }
}
