//! Writes that nobody waits for: the file system hands them over under the volume's lock, and somebody
//! takes them to the disk without it: who waits for them, or a thread when there are many.
//!
//! | who | holds | waits for |
//! | --- | --- | --- |
//! | who hands a write over | the volume's lock, and the queue's for a moment | nothing |
//! | who writes | the queue's lock between two writes, not the volume's | the disk |
//! | who reads | the queue's lock while it looks what is queued | the disk, without either |
//! | who flushes, or forces a write | nothing | the disk: it writes itself what is queued, unless somebody does |
//! | who is about to change the volume | nothing | who writes, while too much is queued |
//!
//! The queue's lock is a leaf: nobody takes another one with it, or waits for the disk. To wake a thread costs
//! as much as to write a few blocks, and takes a processor from somebody: so nobody is woken for what he can
//! do nothing about yet, and who waits for a write does it.
//!
//! Invariants:
//! * one writes at a time, in the order in which it was handed over; what was handed over is read as
//!   it was written, on the disk or not;
//! * a flush is asked of the disk when all that was handed over before it is there;
//! * after a write that failed nothing more is written, a flush fails, and what was queued is still read;
//! * so many bytes wait at most when a change begins, and a change hands over a bounded number more;
//! * when the last handle goes, or at [`Behind::end`], nobody writes any more: what was not written yet
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
/// Bytes from which on they are written although nobody waits for that.
const MANY: u64 = 2 << 20;
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
    /// Somebody writes the first piece.
    writing: bool,
    /// So many pieces the first of those waits for who wait for the disk.
    awaited: Option<u64>,
    /// Somebody waits until less is queued.
    crowded: bool,
    failed: Option<DeviceError>,
    ended: bool,
}

impl Queue {
    fn healthy(&self) -> Result<(), DeviceError> {
        self.failed.clone().map_or(Ok(()), Err)
    }
    /// Nothing is written any more.
    fn is_over(&self) -> bool {
        self.ended || self.failed.is_some()
    }
    /// So much is queued that it is written although nobody waits for it, and nobody writes.
    fn is_due(&self) -> bool {
        self.bytes >= MANY && !self.writing && !self.is_over()
    }
}

struct Shared {
    disk: DiskDevice,
    queue: Mutex<Queue>,
    /// Much is queued, or it ends.
    handed: Condvar,
    /// What somebody waits for was written, or never will be, or is for him to write.
    written: Condvar,
    /// Less is queued.
    room: Condvar,
    strict: Strict,
}

/// Somebody writes. Should that never end, nothing is written any more, and nobody waits for it.
struct Writing<'a>(Option<&'a Shared>);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        let mut queue = shared.lock();
        queue.writing = false;
        queue.ended = true;
        shared.tell(&mut queue);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn wait<'a>(&self, told: &Condvar, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        told.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread's life: it writes when much is queued, until nothing is.
    fn write_all(&self) {
        let mut queue = self.lock();
        while !queue.ended {
            if !queue.is_due() {
                queue = self.wait(&self.handed, queue);
                continue;
            }
            while !queue.pieces.is_empty() && !queue.is_over() {
                queue = self.write_first(queue);
            }
        }
    }

    /// Writes the first piece; there is one, and nobody writes.
    fn write_first<'a>(&'a self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let Some(piece) = queue.pieces.front().cloned() else { return queue };
        queue.writing = true;
        drop(queue);
        let mut begun = Writing(Some(self));
        let lba = block::Lba(piece.at / SECTOR_BYTES);
        let sectors = Sectors(piece.len / SECTOR_BYTES);
        let request = match &piece.bytes {
            Some(bytes) => Request::write(lba, sectors).with(Data::Write(bytes)),
            None => Request::discard(lba, sectors),
        };
        let done = self.disk.clone().submit(Time::ZERO, request);
        begun.0 = None;
        let mut queue = self.lock();
        queue.writing = false;
        match done {
            Ok(_) => {
                queue.pieces.pop_front();
                queue.bytes -= piece.len;
                queue.written += 1;
            }
            Err(error) => queue.failed = Some(error),
        }
        self.tell(&mut queue);
        queue
    }

    /// Wakes those for whom something changed.
    fn tell(&self, queue: &mut Queue) {
        let over = queue.is_over();
        if over || queue.awaited.is_some_and(|pieces| queue.written >= pieces) {
            queue.awaited = None;
            self.written.notify_all();
        }
        if queue.crowded && (over || queue.bytes <= LIMIT) {
            queue.crowded = false;
            self.room.notify_all();
        }
    }

    /// Waits until all that was handed over is on the disk, and writes it if nobody does.
    fn settle(&self) -> Result<(), DeviceError> {
        let mut queue = self.lock();
        let (all, mut wrote) = (queue.handed, false);
        while queue.written < all && !queue.is_over() {
            if queue.writing {
                queue.awaited = Some(queue.awaited.map_or(all, |pieces| pieces.min(all)));
                queue = self.wait(&self.written, queue);
            } else {
                queue = self.write_first(queue);
                wrote = true;
            }
        }
        if wrote && queue.awaited.take().is_some() {
            // Somebody waits for what was handed over since: it is for him to write.
            self.written.notify_all();
        } else if wrote && queue.is_due() {
            self.handed.notify_one();
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
        if queue.is_due() {
            self.handed.notify_one();
        }
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
        let mut queue = self.shared.lock();
        queue.ended = true;
        self.shared.tell(&mut queue);
        drop(queue);
        self.shared.handed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // One that panicked has stopped, too; whoever waits for it was told that it ended.
            let _ = thread.join();
        }
        let mut queue = self.shared.lock();
        while queue.writing {
            // By somebody who waits for it.
            queue = self.shared.wait(&self.shared.written, queue);
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
        self.0.tell(&mut queue);
    }
}

impl Behind {
    /// `strict`: who waits for the device with the volume's lock held panics.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub(super) fn new(disk: DiskDevice, strict: bool) -> std::io::Result<Behind> {
        let (handed, written, room) = (Condvar::new(), Condvar::new(), Condvar::new());
        let (queue, strict) = (Mutex::default(), Strict::new(strict));
        let shared = Arc::new(Shared { disk, queue, handed, written, room, strict });
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
        let waits = |queue: &Queue| queue.bytes > LIMIT && !queue.is_over();
        let _away = waits(&queue).then(away);
        while waits(&queue) {
            queue.crowded = true;
            queue = self.shared.wait(&self.shared.room, queue);
        }
    }

    /// Writes what is queued.
    ///
    /// # Errors
    /// What the disk says.
    pub(super) fn finish(&self) -> Result<(), DeviceError> {
        self.shared.settle()
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
mod tests;
