//! Who writes, in which order, and who is told of it.

use std::io;
use std::time::Duration;

use block::{Lba, Medium};
use stack::disk::{MediumDisk, RamDisk};

use super::*;

/// Memory whose writes wait until somebody lets them, or fail.
#[derive(Debug)]
struct Gate {
    below: RamDisk,
    shut: Mutex<bool>,
    opened: Condvar,
    broken: Mutex<bool>,
    /// A write by a thread of this name panics.
    trap: Option<&'static str>,
    /// Whether somebody writes now, and what was written: the block, and by whom.
    writes: Mutex<(bool, Vec<(u64, String)>)>,
}

impl Gate {
    fn writes(&self) -> Vec<(u64, String)> {
        self.writes.lock().expect("the list").1.clone()
    }
    fn set(&self, shut: bool) {
        *self.shut.lock().expect("the gate") = shut;
        self.opened.notify_all();
    }
}

impl Medium for Gate {
    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        Medium::read(&self.below, at, out)
    }
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let shut = self.shut.lock().expect("the gate");
        drop(self.opened.wait_while(shut, |shut| *shut).expect("the gate"));
        let name = std::thread::current().name().unwrap_or_default().to_string();
        assert!(self.trap != Some(&name[..]), "a planted panic");
        let before = std::mem::replace(&mut self.writes.lock().expect("the list").0, true);
        assert!(!before, "two write at once");
        std::thread::yield_now();
        let mut writes = self.writes.lock().expect("the list");
        (writes.0, _) = (false, writes.1.push((at / 4096, name)));
        drop(writes);
        match *self.broken.lock().expect("the gate") {
            true => Err(io::Error::other("worn out")),
            false => Medium::write(&self.below, at, bytes),
        }
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn size(&self) -> io::Result<u64> {
        self.below.size()
    }
}

fn made() -> (Arc<Gate>, Behind) {
    made_with(None)
}

fn made_with(trap: Option<&'static str>) -> (Arc<Gate>, Behind) {
    let below = RamDisk::new(64 << 20).expect("memory");
    let (shut, broken, writes) = (Mutex::new(false), Mutex::new(false), Mutex::default());
    let gate = Gate { below, shut, opened: Condvar::new(), broken, trap, writes };
    let gate = Arc::new(gate);
    let disk = Arc::new(MediumDisk::new(gate.clone()).expect("a disk"));
    (gate, Behind::new(DiskDevice(disk), false).expect("a thread"))
}

fn write(to: &mut Behind, block: u64, blocks: usize, with: u8) -> Result<(), DeviceError> {
    let bytes = vec![with; blocks * 4096];
    let request = Request::write(Lba(block * 8), Sectors(blocks as u64 * 8));
    to.submit(Time::ZERO, request.with(Data::Write(&bytes))).map(|_| ())
}

fn read(from: &mut Behind, block: u64, blocks: usize) -> Vec<u8> {
    let mut out = vec![0xEE; blocks * 4096];
    let request = Request::read(Lba(block * 8), Sectors(blocks as u64 * 8));
    from.submit(Time::ZERO, request.with(Data::Read(&mut out))).expect("read");
    out.chunks(4096).map(|block| block[77]).collect()
}

#[test]
fn what_waits_is_read_and_a_flush_comes_behind_it() {
    let (gate, mut all) = made();
    write(&mut all, 8, 4, 1).expect("written");
    all.submit(Time::ZERO, Request::flush()).expect("flushed");
    gate.set(true);
    write(&mut all, 9, 2, 2).expect("queued");
    write(&mut all, 10, 2, 3).expect("queued");
    all.submit(Time::ZERO, Request::discard(Lba(8 * 8), Sectors(8))).expect("queued");
    assert_eq!(read(&mut all, 7, 6), [0, 0, 2, 3, 3, 0]);
    let mut other = all.clone();
    let flush = std::thread::spawn(move || other.submit(Time::ZERO, Request::flush()));
    std::thread::sleep(Duration::from_millis(20));
    assert!(!flush.is_finished(), "flushed before what was handed over was written");
    gate.set(false);
    flush.join().expect("no panic").expect("flushed");
    let mut disk = all.shared.disk.clone();
    let mut out = vec![0; 6 * 4096];
    let request = Request::read(Lba(7 * 8), Sectors(48)).with(Data::Read(&mut out));
    disk.submit(Time::ZERO, request).expect("read");
    let found: Vec<u8> = out.chunks(4096).map(|block| block[77]).collect();
    assert_eq!(found, [0, 0, 2, 3, 3, 0]);
}

#[test]
fn after_a_write_that_failed_nothing_more_is_written_and_what_waits_is_read() {
    let (gate, mut all) = made();
    gate.set(true);
    write(&mut all, 3, 1, 5).expect("queued");
    write(&mut all, 4, 1, 6).expect("queued");
    *gate.broken.lock().expect("the gate") = true;
    gate.set(false);
    assert!(all.submit(Time::ZERO, Request::flush()).is_err());
    *gate.broken.lock().expect("the gate") = false;
    assert!(write(&mut all, 5, 1, 7).is_err() && all.shared.settle().is_err());
    assert_eq!(read(&mut all, 3, 2), [5, 6]);
    all.end();
    let mut out = [1; 4096];
    Medium::read(&gate.below, 4 * 4096, &mut out).expect("read");
    assert_eq!(out, [0; 4096], "nothing is written behind a failure");
}

#[test]
fn its_end_loses_what_waits_and_nobody_hangs() {
    let (gate, mut all) = made();
    gate.set(true);
    (0..4).for_each(|i| write(&mut all, i, 512, 9).expect("queued"));
    let (other, mut flusher) = (all.clone(), all.clone());
    let admitted = std::thread::spawn(move || other.admit());
    let flushed = std::thread::spawn(move || flusher.submit(Time::ZERO, Request::flush()));
    std::thread::sleep(Duration::from_millis(20));
    let (ended, opened) = (all.clone(), Arc::clone(&gate));
    let end = std::thread::spawn(move || ended.end());
    std::thread::sleep(Duration::from_millis(20));
    opened.set(false);
    end.join().expect("no panic");
    admitted.join().expect("no panic");
    assert!(flushed.join().expect("no panic").is_err(), "lost, and said to be durable");
    assert!(write(&mut all, 9, 1, 1).is_err());
}
fn until(met: impl Fn() -> bool) {
    let since = std::time::Instant::now();
    while !met() {
        assert!(since.elapsed() < Duration::from_secs(20), "it waits for ever");
        std::thread::yield_now();
    }
}

fn by_name<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    std::thread::Builder::new().name(name.to_string()).spawn(body).expect("a thread")
}

#[test]
fn who_waits_writes_and_the_thread_does_when_there_is_much() {
    let (gate, mut all) = made();
    write(&mut all, 5, 1, 1).expect("queued");
    let mut flusher = all.clone();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(gate.writes(), [], "nobody waits for it");
    let flush = move || flusher.submit(Time::ZERO, Request::flush());
    by_name("waits", flush).join().expect("no panic").expect("flushed");
    assert_eq!(gate.writes(), [(5, "waits".to_string())]);
    let blocks = (MANY / 4096) as usize;
    write(&mut all, 7, blocks - 1, 2).expect("queued");
    write(&mut all, 6, 1, 2).expect("queued");
    until(|| gate.writes().len() == 3);
    let thread = |block| (block, "write".to_string());
    assert_eq!(gate.writes()[1..], [thread(7), thread(6)]);
    // Who waits for the thread is told by it.
    gate.set(true);
    write(&mut all, 9, blocks, 3).expect("queued");
    let mut flusher = all.clone();
    until(|| gate_is_met(&all));
    let flush = by_name("waits", move || flusher.submit(Time::ZERO, Request::flush()));
    until(|| all.shared.lock().awaited.is_some());
    gate.set(false);
    flush.join().expect("no panic").expect("flushed");
    assert_eq!(gate.writes()[3..], [thread(9)]);
}

/// Whether somebody writes.
fn gate_is_met(all: &Behind) -> bool {
    all.shared.lock().writing
}

#[test]
fn one_writes_at_a_time_and_in_order_whoever_waits() {
    let (gate, all) = made();
    // What was handed over, in that order.
    let order = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..4_u64)
        .map(|client| {
            let (mut all, gate, order) = (all.clone(), Arc::clone(&gate), Arc::clone(&order));
            std::thread::spawn(move || {
                let mut rng = block::Rng::stream(client, "client");
                for round in 0..200 {
                    let block = client * 1000 + round;
                    let mut handed = order.lock().expect("the order");
                    write(&mut all, block, 1 + rng.below(80) as usize, 1).expect("queued");
                    handed.push(block);
                    drop(handed);
                    if rng.below(30) == 0 {
                        all.submit(Time::ZERO, Request::flush()).expect("flushed");
                        let there = |(at, _): &(u64, String)| *at == block;
                        assert!(gate.writes().iter().any(there), "flushed, not written");
                    }
                    if rng.below(5) == 0 {
                        all.admit();
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    all.clone().submit(Time::ZERO, Request::flush()).expect("flushed");
    let wrote = gate.writes();
    assert!(wrote.iter().map(|(block, _)| block).eq(order.lock().expect("the order").iter()));
}

#[test]
fn whoever_waits_for_one_that_panics_at_a_write_is_told() {
    let (gate, mut all) = made_with(Some("panics"));
    gate.set(true);
    write(&mut all, 3, 1, 5).expect("queued");
    let (mut first, mut second) = (all.clone(), all.clone());
    let panics = by_name("panics", move || first.submit(Time::ZERO, Request::flush()));
    until(|| gate_is_met(&all));
    let waits = by_name("waits", move || second.submit(Time::ZERO, Request::flush()));
    until(|| all.shared.lock().awaited.is_some());
    gate.set(false);
    assert!(panics.join().is_err());
    assert!(waits.join().expect("no panic").is_err(), "not written, and said to be durable");
    assert!(write(&mut all, 9, 1, 1).is_err());
    all.end();
    assert_eq!(read(&mut all, 3, 1), [5], "what was handed over is still read");
}
