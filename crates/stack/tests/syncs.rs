//! A system that loses what it could not write tells so once: to whoever syncs first. Nobody else may call durable what was
//! written before, whether he syncs beside that one or after it.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use block::Medium;
use remap::LogOptions;
use remap::live::{Around, LiveLog};
use varve_stack::disk::{Disk, MediumDisk};

/// Longer than two threads take to come to the same place.
const WHILE: Duration = Duration::from_millis(400);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    /// The next sync finds that what was written since the last one cannot be.
    breaks: bool,
    /// Nobody was told of it yet.
    untold: bool,
    /// Syncs under way, and of those that began since it broke.
    running: u32,
    since: u32,
}

/// Memory below a cache of the system, in which one sync finds an error: it takes its time, so that others come meanwhile.
#[derive(Debug, Default)]
struct Told {
    state: Mutex<State>,
    changed: Condvar,
}

impl Told {
    fn breaks(&self) {
        self.state.lock().unwrap().breaks = true;
    }
    /// Returns when the sync that finds the error is on its way.
    fn met(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.since == 0).unwrap());
    }
}

impl Medium for Told {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        out.copy_from_slice(&self.state.lock().unwrap().bytes[at as usize..][..out.len()]);
        Ok(())
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.state.lock().unwrap().bytes[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        state.running += 1;
        if std::mem::take(&mut state.breaks) {
            state.untold = true;
        }
        state.since += u32::from(state.untold);
        self.changed.notify_all();
        if state.untold && state.since == 1 {
            let others = |state: &mut State| state.untold;
            state = self.changed.wait_timeout_while(state, WHILE, others).unwrap().0;
        }
        state.running -= 1;
        self.changed.notify_all();
        match std::mem::take(&mut state.untold) {
            true => Err(io::Error::other("it could not be written")),
            false => Ok(()),
        }
    }
    fn size(&self) -> io::Result<u64> {
        Ok(self.state.lock().unwrap().bytes.len() as u64)
    }
}

fn medium(bytes: usize) -> Arc<Told> {
    let state = State { bytes: vec![0; bytes], ..State::default() };
    Arc::new(Told { state: Mutex::new(state), changed: Condvar::new() })
}

/// House-keeping syncs as well: a checkpoint, beside a client's flush.
#[test]
fn a_log_that_keeps_house_beside_a_flush_answers_none_of_what_was_lost() {
    for ack in ["device", "buffer"] {
        let medium = medium(1_200 * 4096);
        let mut options = LogOptions::default();
        for (name, value) in [("segment", "64 KiB"), ("atomic_max", "24 KiB"), ("ack", ack)] {
            options.set(name, value).unwrap();
        }
        let around = Around { say: |_| {}, turns: None };
        let log = LiveLog::format(Arc::clone(&medium) as _, &options, around).unwrap();
        log.write(0, &[1; 4096]).unwrap();
        log.flush().unwrap();
        log.write(4096, &[2; 4096]).unwrap();
        medium.breaks();
        let (flushed, closed) = std::thread::scope(|scope| {
            let flushed = scope.spawn(|| log.flush());
            medium.met();
            (log.close(), flushed.join().unwrap())
        });
        assert!(flushed.is_err() && closed.is_err(), "{ack}: {flushed:?}, {closed:?}");
        assert!(log.flush().is_err(), "{ack}: nothing is durable any more");
    }
}

/// Who waits while a flush fails wants what that one lost.
#[test]
fn a_disk_answers_no_flush_that_waited_for_one_that_failed() {
    let medium = medium(64 << 10);
    let disk = MediumDisk::new(Arc::clone(&medium) as _).unwrap();
    disk.write(0, &[1; 4096], false).unwrap().wait().unwrap();
    medium.breaks();
    let answers = std::thread::scope(|scope| {
        let first = scope.spawn(|| disk.flush().is_ok());
        medium.met();
        let others: Vec<_> = (0..3).map(|_| scope.spawn(|| disk.flush().is_ok())).collect();
        let first = first.join().unwrap();
        std::iter::once(first)
            .chain(others.into_iter().map(|o| o.join().unwrap()))
            .collect::<Vec<_>>()
    });
    assert_eq!(answers, [false; 4]);
    assert!(disk.write(0, &[1; 4096], false).is_err(), "nothing is written any more");
}
