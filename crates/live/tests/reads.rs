//! A read of the file that fails once, while cleaning copies: an error is not damage, and costs no page.

mod common;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use block::{BlockDevice, Bytes, Data, Lba, Medium, Request, Rng, Sectors, Time};
use common::Memory;
use varve_live::ImageDrive;

const PAGES: u64 = 600;

/// Memory of which one read fails.
#[derive(Debug)]
struct Fickle {
    below: Arc<Memory>,
    /// Reads before it; below zero: it has failed.
    left: AtomicI64,
}

impl Medium for Fickle {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        match self.left.fetch_sub(1, Ordering::Relaxed) {
            0 => Err(io::Error::other("one error")),
            _ => self.below.read(at, out),
        }
    }
    fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        self.below.write(at, data)
    }
    fn sync(&self) -> io::Result<()> {
        self.below.sync()
    }
    fn size(&self) -> io::Result<u64> {
        self.below.size()
    }
}

/// Overwrites pages until the read fails, or `rounds` times; whether it failed.
fn work(drive: &mut ImageDrive, rounds: u64) -> bool {
    let mut rng = Rng::new(7);
    for n in 0..rounds {
        let page = if n < PAGES { n } else { rng.below(PAGES) };
        let bytes = [page as u8; 4096];
        let write = Request::write(Lba(page * 8), Sectors(8)).with(Data::Write(&bytes));
        if drive.submit(Time::ZERO, write).is_err()
            || n % 16 == 0 && drive.submit(Time::ZERO, Request::flush()).is_err()
        {
            return true;
        }
    }
    false
}

#[test]
fn a_read_that_fails_once_in_cleaning_loses_no_page() {
    let memory = Arc::new(Memory::default());
    let drive = ImageDrive::create_on(Arc::clone(&memory) as _, Bytes(3 << 20)).unwrap();
    drop(drive);
    let blank = memory.0.lock().unwrap().clone();
    let opened = |left| {
        *memory.0.lock().unwrap() = blank.clone();
        let medium = Fickle { below: Arc::clone(&memory), left: AtomicI64::new(i64::MAX) };
        let medium = Arc::new(medium);
        let drive = ImageDrive::open_on(Arc::clone(&medium) as _).unwrap();
        medium.left.store(left, Ordering::Relaxed);
        (drive, medium)
    };
    let (mut drive, medium) = opened(i64::MAX);
    assert!(!work(&mut drive, 4000));
    let reads = i64::MAX - medium.left.load(Ordering::Relaxed);
    assert!(reads > 100, "{reads} reads: cleaning copies");
    drop(drive);
    let mut failed = 0;
    for left in (0..reads).step_by(reads as usize / 60) {
        let (mut drive, _) = opened(left);
        failed += u32::from(work(&mut drive, 4000));
        drop(drive);
        let mut drive = ImageDrive::open_on(Arc::clone(&memory) as _).unwrap();
        for page in 0..PAGES {
            let mut found = [0; 4096];
            let read = Request::read(Lba(page * 8), Sectors(8)).with(Data::Read(&mut found));
            let done = drive.submit(Time::ZERO, read);
            assert!(done.is_ok(), "read {left} failed: page {page}: {done:?}");
            assert!(found[0] == 0 || found == [page as u8; 4096], "read {left}: page {page}");
        }
    }
    assert!(failed > 40, "{failed} of them ended the work");
}
