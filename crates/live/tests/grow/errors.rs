//! One error of the file while a drive grows: nothing that was durable is lost, whichever call it is.

use std::io::{
    self,
    ErrorKind::{Other, StorageFull},
};
use std::sync::{Arc, Mutex};

use block::{DeviceError, Growth, Medium, Time};
use varve_live::{ImageDrive, Planted};

use super::*;

/// A medium of which one call fails, and all others work: the `n`-th of those that change something, or of all.
#[derive(Debug)]
struct Hiccup {
    inner: Arc<dyn Medium>,
    /// Calls up to that one; 0: none fails.
    left: Mutex<u64>,
    reads: bool,
    kind: io::ErrorKind,
}

impl Hiccup {
    fn step(&self) -> io::Result<()> {
        let left = &mut *self.left.lock().unwrap();
        let fails = *left == 1;
        *left = left.saturating_sub(1);
        if fails { Err(self.kind.into()) } else { Ok(()) }
    }
}

impl Medium for Hiccup {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        if self.reads {
            self.step()?;
        }
        self.inner.read(at, out)
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.step()?;
        self.inner.write(at, bytes)
    }
    fn sync(&self) -> io::Result<()> {
        self.step()?;
        self.inner.sync()
    }
    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }
    fn cut(&self, at: u64) -> io::Result<()> {
        self.step()?;
        self.inner.cut(at)
    }
}

/// One error in a growth, the `n`-th call: whether it failed, and what was wrong. `None`: it came too late.
fn hiccup(
    (start, ledger): &(Vec<u8>, Ledger),
    (to, n, reads, kind): (Bytes, u64, bool, io::ErrorKind),
    planted: Option<Planted>,
) -> Option<(bool, Result<(), String>)> {
    let (below, mut ledger) = (memory(start), ledger.clone());
    let medium = Arc::new(Hiccup { inner: Arc::clone(&below), left: 0.into(), reads, kind });
    let opened = ImageDrive::open_with(Arc::clone(&medium) as _, planted.into());
    let mut drive = opened.expect("open");
    *medium.left.lock().unwrap() = n;
    let grown = Growth::grow(&mut drive, Time::ZERO, to, LOG);
    if std::mem::take(&mut *medium.left.lock().unwrap()) > 0 {
        return None;
    }
    let after = write(&mut drive, 1, 7).and_then(|()| flush(&mut drive));
    let told = matches!(grown, Err(DeviceError::NoSpace(_)));
    let mut wrong = Ok(());
    if told && after.is_err() {
        wrong = Err(format!("call {n}: it is as it was, and fails: {after:?}"));
    }
    if after.is_ok() {
        ledger.insert(1, 7);
    }
    drop(drive);
    let judged = ImageDrive::open_with(below, planted.into())
        .map_err(|error| error.to_string())
        .and_then(|mut drive| {
            let capacity = drive.capacity().bytes();
            match capacity == to || grown.is_err() && capacity == SMALL {
                true => judge(&mut drive, &ledger),
                false => Err(format!("it holds {}", capacity.human())),
            }
        });
    Some((grown.is_err(), wrong.and(judged.map_err(|error| format!("call {n}: {error}")))))
}

/// Calls of a growth.
fn calls((start, _): &(Vec<u8>, Ledger), to: Bytes, reads: bool) -> u64 {
    let (inner, many) = (memory(start), u64::MAX);
    let medium = Arc::new(Hiccup { inner, left: many.into(), reads, kind: Other });
    let mut drive = ImageDrive::open_on(Arc::clone(&medium) as _).expect("open");
    let before = *medium.left.lock().unwrap();
    drive.grow(to, LOG).expect("grown");
    before - *medium.left.lock().unwrap()
}

/// All errors of a growth, one after the other; how many made it fail, and what was wrong.
fn hiccups(
    start: &(Vec<u8>, Ledger),
    (to, reads, kind): (Bytes, bool, io::ErrorKind),
    planted: Option<Planted>,
) -> (u64, Vec<String>) {
    let calls = calls(start, to, reads);
    let (mut n, mut failed, mut bad) = (0, 0, Vec::new());
    loop {
        // What is near the end is where it matters; most else is of what is copied.
        let far = calls.saturating_sub(n + 16).min(calls.div_ceil(24));
        n += if everything() { 1 } else { far.max(1) };
        let Some((told, judged)) = hiccup(start, (to, n, reads, kind), planted) else { break };
        failed += u64::from(told);
        bad.extend(judged.err());
    }
    (failed, bad)
}

/// Whatever fails once in a growth, all that was durable is there, in the smaller drive or in the larger one.
#[test]
fn an_error_in_a_growth_leaves_one_of_the_two() {
    let start = small();
    for to in [SAME, LARGER] {
        for (kind, reads) in [(Other, false), (StorageFull, false), (Other, true)] {
            let (failed, bad) = hiccups(&start, (to, reads, kind), None);
            println!("to {}, {kind}: {failed} failed", to.human());
            assert!(bad.is_empty(), "{} of {failed}: {:?}", bad.len(), bad.first());
            assert!(failed > 8, "{failed}");
        }
        let planted = Some(Planted::NamedGivenBack);
        let (_, bad) = hiccups(&start, (to, false, Other), planted);
        assert!(!bad.is_empty(), "{planted:?} to {} is not found", to.human());
    }
}
