//! A device that fails under a log: what was flushed is read as it is, what was not is an error and never an older
//! version, nothing is taken any more, and whoever opens the log again finds each block as one of its versions. In both shells.

mod common;

use std::io;
use std::sync::{Arc, Mutex};

use block::{BlockDevice, Data, DeviceError, Medium, Op, Request, Sectors, Time};
use common::both::Log;
use common::{BLOCK, sectors, small};

const BLOCKS: usize = 1_200;

/// What a disk no longer does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fails {
    Nothing,
    Flushes,
    Writes,
}

#[derive(Clone, Debug)]
struct Disk(Arc<Mutex<(Vec<u8>, Fails)>>);

impl Disk {
    fn new() -> Disk {
        Disk(Arc::new(Mutex::new((vec![0; BLOCKS * BLOCK], Fails::Nothing))))
    }
    fn fail(&self, fails: Fails) {
        self.0.lock().unwrap().1 = fails;
    }
    /// One request; `false`: it fails.
    fn ask(&self, op: Op, at: usize, data: Data<'_>) -> bool {
        let mut held = self.0.lock().unwrap();
        let (bytes, fails) = &mut *held;
        match (op, data) {
            (Op::Write, _) if *fails == Fails::Writes => return false,
            (Op::Flush, _) if *fails == Fails::Flushes => return false,
            (Op::Write, Data::Write(data)) => bytes[at..at + data.len()].copy_from_slice(data),
            (Op::Read, Data::Read(out)) => out.copy_from_slice(&bytes[at..][..out.len()]),
            _ => {}
        }
        true
    }
    fn answer(&self, op: Op, at: u64, data: Data<'_>) -> io::Result<()> {
        self.ask(op, at as usize, data).then_some(()).ok_or_else(|| io::Error::other("it failed"))
    }
}

impl Medium for Disk {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.answer(Op::Read, at, Data::Read(out))
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.answer(Op::Write, at, Data::Write(bytes))
    }
    fn sync(&self) -> io::Result<()> {
        self.answer(Op::Flush, 0, Data::None)
    }
    fn size(&self) -> io::Result<u64> {
        Ok((BLOCKS * BLOCK) as u64)
    }
    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
}

impl BlockDevice for Disk {
    fn capacity(&self) -> Sectors {
        sectors(BLOCKS as u32)
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let done = self.ask(request.op, request.lba.0 as usize * 512, request.data);
        done.then_some(at).ok_or(DeviceError::Io("it failed".to_string()))
    }
}

#[test]
fn what_was_not_flushed_is_an_error_and_never_what_was_there_before() {
    for live in [false, true] {
        for (pairs, fails) in [
            (&[][..], Fails::Flushes),
            (&[("ack", "buffer")], Fails::Flushes),
            (&[("ack", "buffer")], Fails::Writes),
        ] {
            let what = format!("live {live}, {pairs:?}, {fails:?}");
            let (disk, options) = (Disk::new(), small(pairs));
            let mut log = Log::format(live, &disk, &options);
            assert!((0..20).all(|block| log.try_write(block, 1)) && log.try_flush(), "{what}");
            // Some of a later record are durable before the device fails.
            assert!((0..3).all(|block| log.try_write(block, 2)) && log.try_flush(), "{what}");
            assert!((5..10).all(|block| log.try_write(block, 3)), "{what}");
            disk.fail(fails);
            assert!(!log.try_flush(), "{what}");
            for block in 0..20 {
                let wanted = match block {
                    0..3 => Some(2),
                    5..10 => None,
                    _ => Some(1),
                };
                assert_eq!(log.read(block), wanted, "{what}: block {block}");
            }
            assert!(!log.try_write(15, 4) && !log.try_flush(), "{what}: it takes no more");
            assert_eq!(log.read(15), Some(1), "{what}");
            disk.fail(Fails::Nothing);
            let mut log = log.again(&disk, &options);
            for block in 0..20 {
                let found = log.read(block);
                let may = match block {
                    0..3 => found == Some(2),
                    5..10 => found == Some(1) || found == Some(3),
                    _ => found == Some(1),
                };
                assert!(may, "{what}: block {block} is {found:?} when it is opened again");
            }
            assert!(log.try_write(15, 5) && log.try_flush() && log.read(15) == Some(5), "{what}");
        }
    }
}

/// The device fails while blocks are taken: some are acknowledged before the log knows.
#[test]
fn what_was_acknowledged_before_the_log_knew_is_an_error_too() {
    for live in [false, true] {
        let mut acknowledged = 0;
        for pairs in [
            &[][..],
            &[("ack", "buffer"), ("buffer", "32 KiB")],
            &[("ack", "buffer"), ("buffer", "128 KiB")],
        ] {
            let what = format!("live {live}, {pairs:?}");
            let (disk, options) = (Disk::new(), small(pairs));
            let mut log = Log::format(live, &disk, &options);
            assert!((0..40).all(|block| log.try_write(block, 1)) && log.try_flush(), "{what}");
            disk.fail(Fails::Writes);
            let taken: Vec<bool> = (0..30).map(|block| log.try_write(block, 2)).collect();
            assert!(!log.try_flush(), "{what}");
            for (block, taken) in (0..40).zip(taken.into_iter().chain([false; 10])) {
                let found = log.read(block);
                let may = if taken { found.is_none() } else { found.is_none() || found == Some(1) };
                assert!(may, "{what}: block {block}, acknowledged {taken}: {found:?}");
                acknowledged += u32::from(taken);
            }
            assert_eq!(log.read(35), Some(1), "{what}");
        }
        assert!(acknowledged > 10, "live {live}: {acknowledged}");
    }
}
