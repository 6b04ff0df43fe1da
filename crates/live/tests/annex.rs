//! The annex and the drive are one file: what fails in one has failed for both, because a sync answers
//! for everything that was written before it, and the system tells of a failed one once.

mod common;

use std::io;
use std::sync::Arc;
use std::sync::Mutex;

use block::{BlockDevice, Bytes, Data, Lba, Medium, Request, Sectors, Time};
use common::Memory;
use varve_live::ImageDrive;

/// Fails the next call of a kind, once.
#[derive(Debug, Default)]
struct Fickle {
    below: Memory,
    write: Mutex<Option<io::ErrorKind>>,
    sync: Mutex<Option<io::ErrorKind>>,
}

fn once(error: &Mutex<Option<io::ErrorKind>>) -> io::Result<()> {
    error.lock().unwrap().take().map_or(Ok(()), |kind| Err(kind.into()))
}

impl Medium for Fickle {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.below.read(at, out)
    }
    fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        once(&self.write)?;
        self.below.write(at, data)
    }
    fn sync(&self) -> io::Result<()> {
        once(&self.sync)
    }
}

fn made() -> (Arc<Fickle>, ImageDrive) {
    let medium = Arc::new(Fickle::default());
    let drive = ImageDrive::create_on(Arc::clone(&medium) as _, Bytes(3 << 20)).expect("an image");
    (medium, drive)
}

/// A write that is durable, or an error.
fn durable(drive: &mut ImageDrive) -> bool {
    let page = [7; 4096];
    let write = Request::write(Lba(0), Sectors(8)).with(Data::Write(&page));
    drive.submit(Time::ZERO, write).and_then(|at| drive.submit(at, Request::flush())).is_ok()
}

#[test]
fn after_a_failed_sync_of_the_annex_nothing_is_durable() {
    let (medium, mut drive) = made();
    let annex = drive.annex();
    assert!(durable(&mut drive));
    annex.write(0, &[1; 512]).expect("written");
    *medium.sync.lock().unwrap() = Some(io::ErrorKind::Other);
    annex.sync().expect_err("it fails");
    // The file itself would say yes from here on.
    annex.sync().expect_err("there is no second sync");
    annex.write(0, &[1; 512]).expect_err("nor another write");
    assert!(!durable(&mut drive));
}

#[test]
fn after_a_failed_sync_of_the_drive_the_annex_is_not_durable() {
    let (medium, mut drive) = made();
    let annex = drive.annex();
    annex.write(0, &[1; 512]).expect("written");
    *medium.sync.lock().unwrap() = Some(io::ErrorKind::Other);
    assert!(!durable(&mut drive));
    annex.sync().expect_err("there is no second sync");
}

#[test]
fn a_failed_write_is_the_last_one_unless_there_was_no_room() {
    let (medium, mut drive) = made();
    let annex = drive.annex();
    for (kind, goes_on) in [(io::ErrorKind::StorageFull, true), (io::ErrorKind::Other, false)] {
        *medium.write.lock().unwrap() = Some(kind);
        assert_eq!(annex.write(0, &[1; 512]).expect_err("it fails").kind(), kind);
        assert_eq!(annex.write(0, &[1; 512]).is_ok(), goes_on, "{kind}");
        assert_eq!(annex.sync().is_ok(), goes_on, "{kind}");
        assert_eq!(durable(&mut drive), goes_on, "{kind}");
    }
}
