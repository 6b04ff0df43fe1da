//! Writes that nobody waits for: the file system hands them over under the volume's lock, and a thread
//! takes them to the disk without it.
//!
//! | who | holds | waits for |
//! | --- | --- | --- |
//! | who hands a write over | the volume's lock, and the queue's for a moment | nothing |
//! | the writer | the queue's lock between two writes, not the volume's | the disk |
//! | who reads | the queue's lock while it looks what is queued | the disk, without either |
//! | who flushes, or forces a write | nothing | the writer, then the disk |
//! | who is about to change the volume | nothing | the writer, while too much is queued |
//!
//! The queue's lock is a leaf: nobody takes another one with it, or waits for the disk.
//!
//! Invariants:
//! * writes reach the disk in the order in which they were handed over; what was handed over is read as
//!   it was written, on the disk or not;
//! * a flush is asked of the disk when all that was handed over before it is there;
//! * after a write that failed nothing more is written, a flush fails, and what was queued is still read;
//! * so many bytes wait at most when a change begins, and a change hands over a bounded number more;
//! * when the last handle goes, or at [`Behind::end`], the writer has stopped: what it had not written yet
//!   is lost, as in a power cut.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use block::{BlockDevice, Bytes, Data, DeviceError, Op, Request, SECTOR_BYTES, Sectors, Time};

use super::device::DiskDevice;
use super::held::{Asks, Strict};
use super::takers::away;

/// Bytes that may wait when a change begins.
const LIMIT: u64 = 8 << 20;
const SECTOR: usize = SECTOR_BYTES as usize;

/// What waits to be written.
#[derive(Clone)]
struct Piece {
    /// First byte, and how many.
    at: u64,
    len: u64,
    /// None: discarded.
    bytes: Option<Arc<[u8]>>,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<Piece>,
    bytes: u64,
    /// Pieces handed over, and written, since the start.
    handed: u64,
    written: u64,
    failed: Option<DeviceError>,
    ended: bool,
}

impl Queue {
    fn healthy(&self) -> Result<(), DeviceError> {
        self.failed.clone().map_or(Ok(()), Err)
    }
}

struct Shared {
    disk: DiskDevice,
    queue: Mutex<Queue>,
    /// Something was handed over, or it ends.
    handed: Condvar,
    /// Something was written, or failed.
    written: Condvar,
    strict: Strict,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn wait<'a>(&self, told: &Condvar, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        told.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer's life.
    fn write_all(&self) {
        let mut disk = self.disk.clone();
        let mut queue = self.lock();
        loop {
            let next = queue.pieces.front().filter(|_| queue.failed.is_none()).cloned();
            if queue.ended {
                return;
            }
            let Some(piece) = next else {
                queue = self.wait(&self.handed, queue);
                continue;
            };
            drop(queue);
            let lba = block::Lba(piece.at / SECTOR_BYTES);
            let sectors = Sectors(piece.len / SECTOR_BYTES);
            let request = match &piece.bytes {
                Some(bytes) => Request::write(lba, sectors).with(Data::Write(bytes)),
                None => Request::discard(lba, sectors),
            };
            let done = disk.submit(Time::ZERO, request);
            queue = self.lock();
            match done {
                Ok(_) => {
                    queue.pieces.pop_front();
                    queue.bytes -= piece.len;
                    queue.written += 1;
                }
                Err(error) => queue.failed = Some(error),
            }
            self.written.notify_all();
        }
    }

    /// Waits until all that was handed over is on the disk.
    fn settle(&self) -> Result<(), DeviceError> {
        let mut queue = self.lock();
        let all = queue.handed;
        while queue.written < all && queue.failed.is_none() && !queue.ended {
            queue = self.wait(&self.written, queue);
        }
        match queue.written < all {
            true => queue.healthy().and(Err(DeviceError::PowerOff)),
            false => Ok(()),
        }
    }

    fn hand_over(&self, piece: Piece) -> Result<(), DeviceError> {
        let mut queue = self.lock();
        queue.healthy()?;
        if queue.ended {
            return Err(DeviceError::PowerOff);
        }
        queue.bytes += piece.len;
        queue.handed += 1;
        queue.pieces.push_back(piece);
        self.handed.notify_one();
        Ok(())
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        let end = at + out.len() as u64;
        let queued: Vec<Piece> = {
            let queue = self.lock();
            let meets = |piece: &&Piece| piece.at < end && at < piece.at + piece.len;
            queue.pieces.iter().filter(meets).cloned().collect()
        };
        let mut known = vec![false; if queued.is_empty() { 0 } else { out.len() / SECTOR }];
        for piece in &queued {
            let (from, to) = (piece.at.max(at), (piece.at + piece.len).min(end));
            known[(from - at) as usize / SECTOR..(to - at) as usize / SECTOR].fill(true);
        }
        if queued.is_empty() || known.contains(&false) {
            let lba = block::Lba(at / SECTOR_BYTES);
            let sectors = Sectors(out.len() as u64 / SECTOR_BYTES);
            let request = Request::read(lba, sectors).with(Data::Read(out));
            self.disk.clone().submit(Time::ZERO, request)?;
        }
        for piece in &queued {
            let (from, to) = (piece.at.max(at), (piece.at + piece.len).min(end));
            let part = &mut out[(from - at) as usize..(to - at) as usize];
            match &piece.bytes {
                Some(bytes) => part
                    .copy_from_slice(&bytes[(from - piece.at) as usize..(to - piece.at) as usize]),
                None => part.fill(0),
            }
        }
        Ok(())
    }
}

/// The writer's end.
struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    fn end(&self) {
        self.shared.lock().ended = true;
        self.shared.handed.notify_all();
        self.shared.written.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // One that panicked has stopped, too; whoever waits for it was told that it ended.
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
    }
}

/// A disk as the device below a mounted volume, by any number of handles.
#[derive(Clone)]
pub(super) struct Behind {
    shared: Arc<Shared>,
    writer: Arc<Writer>,
}

impl std::fmt::Debug for Behind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Behind").field("disk", &self.shared.disk).finish_non_exhaustive()
    }
}

/// However the writer ends: nobody waits for it any more.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.ended = true;
        self.0.written.notify_all();
    }
}

impl Behind {
    /// `strict`: who waits for the device with the volume's lock held panics.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub(super) fn new(disk: DiskDevice, strict: bool) -> std::io::Result<Behind> {
        let (handed, written) = (Condvar::new(), Condvar::new());
        let (queue, strict) = (Mutex::default(), Strict::new(strict));
        let shared = Arc::new(Shared { disk, queue, handed, written, strict });
        let end = End(Arc::clone(&shared));
        let body = move || end.0.write_all();
        let thread = std::thread::Builder::new().name("write".to_string()).spawn(body)?;
        let thread = Mutex::new(Some(thread));
        let writer = Arc::new(Writer { shared: Arc::clone(&shared), thread });
        Ok(Behind { shared, writer })
    }

    /// Waits while too much is queued; without the volume's lock.
    pub(super) fn admit(&self) {
        let mut queue = self.shared.lock();
        let waits = |queue: &Queue| queue.bytes > LIMIT && queue.failed.is_none() && !queue.ended;
        let _away = waits(&queue).then(away);
        while waits(&queue) {
            queue = self.shared.wait(&self.shared.written, queue);
        }
    }

    /// Stops: what is queued is lost.
    pub(super) fn end(&self) {
        self.writer.end();
    }

    /// What was asked and waited for with the volume's lock held: reads, writes, flushes.
    pub(super) fn asked_with_lock(&self) -> [u64; 3] {
        self.shared.strict.counts()
    }
}

impl BlockDevice for Behind {
    fn capacity(&self) -> Sectors {
        self.shared.disk.capacity()
    }
    fn atomic_unit(&self) -> Bytes {
        self.shared.disk.atomic_unit()
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let Request { op, lba, sectors, fua, .. } = request;
        if lba.0.checked_add(sectors.0).is_none_or(|end| end > self.capacity().0) {
            return Err(DeviceError::OutOfRange { lba, sectors, capacity: self.capacity() });
        }
        let (byte, len) = (lba.0 * SECTOR_BYTES, sectors.0 * SECTOR_BYTES);
        match (op, request.data) {
            (Op::Read, Data::Read(out)) => {
                self.shared.strict.asked(Asks::Read);
                self.shared.read(byte, out)?;
            }
            (Op::Write, Data::Write(from)) if fua => {
                self.shared.strict.asked(Asks::Write);
                self.shared.settle()?;
                let request = Request::write(lba, sectors).with(Data::Write(from)).with_fua();
                self.shared.disk.clone().submit(at, request)?;
            }
            (Op::Write, Data::Write(from)) => {
                self.shared.hand_over(Piece { at: byte, len, bytes: Some(from.into()) })?;
            }
            (Op::Flush, _) => {
                self.shared.strict.asked(Asks::Flush);
                self.shared.settle()?;
                self.shared.disk.clone().submit(at, Request::flush())?;
            }
            (Op::Discard, _) => self.shared.hand_over(Piece { at: byte, len, bytes: None })?,
            _ => return Err(DeviceError::Unsupported("a request without its data")),
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
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
    }

    impl Gate {
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
        let below = RamDisk::new(64 << 20).expect("memory");
        let (shut, broken) = (Mutex::new(false), Mutex::new(false));
        let gate = Arc::new(Gate { below, shut, opened: Condvar::new(), broken });
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
}
