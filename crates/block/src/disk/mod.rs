//! A disk with a volatile cache whose power can be cut at any operation.
//!
//! Invariants:
//! * every write, discard and flush has a number, counted from power-on: a cut is one integer;
//! * a write is safe once a flush submitted after it has been answered, or once it was forced (FUA)
//!   and answered; nothing else is. A strict disk's flush covers only what was *answered* before the
//!   flush was submitted, which is all that NVMe promises;
//! * the image after a cut is made from the journal, so that a run is cut everywhere without being
//!   run again, and images share all blocks that do not differ.

mod cut;
mod fault;
mod image;

use std::sync::Arc;

pub use cut::{DiskCut, Fate};
pub use fault::DiskFault;
pub use image::DiskImage;

use crate::{
    BlockDevice, Bytes, Data, DeviceError, EventHash, Op, Request, SECTOR_BYTES, Sectors, Span,
    Time,
};
use image::{PER_BLOCK, Piece, SECTOR, pieces};

/// What an operation of the journal did.
#[derive(Clone, Debug)]
enum What {
    /// A write or a discard.
    Put { pieces: Vec<Piece>, forced: bool, discard: bool },
    /// A flush.
    Flush,
    /// It failed, or was a phantom, or a flush of a disk that lies.
    Nothing(Op),
}

#[derive(Clone, Debug)]
struct Entry {
    op: u64,
    at: Time,
    done: Time,
    what: What,
    /// Some flush has made it safe; it is in the base.
    folded: bool,
}

/// A disk over memory with a volatile cache.
#[derive(Clone, Debug)]
pub struct CutDevice {
    /// What reads see.
    now: DiskImage,
    /// What no cut that can still be asked for takes away.
    base: DiskImage,
    journal: Vec<Entry>,
    /// Cuts before this operation are not asked for any more.
    first: u64,
    ops: u64,
    reads: u64,
    written: Sectors,
    last: Time,
    read: Span,
    write: Span,
    forced: Span,
    flush: Span,
    faults: Vec<DiskFault>,
    lies: bool,
    strict: bool,
    unit: Bytes,
    hash: EventHash,
}

impl CutDevice {
    /// A disk of `sectors` zeroed sectors.
    pub fn new(sectors: Sectors) -> CutDevice {
        CutDevice::power_on(DiskImage::new(sectors))
    }

    /// The disk that an image is of, with its power on again; operations count from 0.
    pub fn power_on(image: DiskImage) -> CutDevice {
        CutDevice {
            now: image.clone(),
            base: image,
            journal: Vec::new(),
            first: 0,
            ops: 0,
            reads: 0,
            written: Sectors(0),
            last: Time::ZERO,
            read: Span::ZERO,
            write: Span::ZERO,
            forced: Span::ZERO,
            flush: Span::ZERO,
            faults: Vec::new(),
            lies: false,
            strict: false,
            unit: Bytes(SECTOR_BYTES),
            hash: EventHash::default(),
        }
    }

    /// The same disk, with writes and flushes that take a while: writes from once to four times
    /// `write`, so that they end in another order than they began.
    pub fn with_latency(mut self, write: Span, flush: Span) -> CutDevice {
        (self.write, self.flush) = (write, flush);
        self
    }

    /// The same disk, with reads that take a while: what they say is what is there when they begin.
    pub fn with_slow_reads(mut self, read: Span) -> CutDevice {
        self.read = read;
        self
    }

    /// The same disk, with forced writes that take up to four times this longer than others.
    pub fn with_slow_forced_writes(mut self, forced: Span) -> CutDevice {
        self.forced = forced;
        self
    }

    /// The same disk with faults.
    pub fn with_faults(mut self, faults: Vec<DiskFault>) -> CutDevice {
        self.faults = faults;
        self
    }

    /// The same disk, but its flushes and forced writes do nothing and say they did.
    pub fn lying(mut self, lies: bool) -> CutDevice {
        self.lies = lies;
        self
    }

    /// The same disk, but its flushes cover only what was answered before.
    pub fn strict(mut self, strict: bool) -> CutDevice {
        self.strict = strict;
        self
    }

    /// The same disk, which says that it keeps so many bytes whole. It is up to the caller to cut it
    /// with fates that do.
    pub fn with_atomic_unit(mut self, unit: Bytes) -> CutDevice {
        self.unit = unit;
        self
    }

    /// Operations since power-on: writes, discards and flushes.
    pub fn ops(&self) -> u64 {
        self.ops
    }

    /// When all operations that can still be cut are answered.
    pub fn answered(&self) -> Time {
        self.journal.iter().map(|entry| entry.done).fold(self.last, Time::max)
    }

    /// Reads since power-on.
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Sectors written since power-on, phantoms too; discards are no writes.
    pub fn written(&self) -> Sectors {
        self.written
    }

    /// What an operation was, if it can still be cut.
    pub fn op(&self, op: u64) -> Option<Op> {
        let entry = self.journal.iter().rev().find(|e| e.op == op && op >= self.first)?;
        Some(match &entry.what {
            What::Put { discard: true, .. } => Op::Discard,
            What::Put { .. } => Op::Write,
            What::Flush => Op::Flush,
            What::Nothing(op) => *op,
        })
    }

    /// The hash of all operations since power-on: number, kind, place and contents.
    pub fn event_hash(&self) -> u64 {
        self.hash.value()
    }

    /// No cut before this time will be asked for.
    pub fn forget(&mut self, before: Time) {
        while let Some(entry) = self.journal.iter().find(|e| e.op >= self.first)
            && entry.at < before
        {
            self.first = entry.op + 1;
        }
        let (first, base) = (self.first, &mut self.base);
        fold(&mut self.journal, self.strict, (first, before), |pieces| {
            pieces.iter().for_each(|piece| base.apply(piece));
        });
        self.journal.retain(|e| !e.folded);
    }

    /// What is left if the power goes now and everything that was answered is there: a program
    /// that was killed while the machine lived on.
    pub fn image(&self) -> DiskImage {
        self.now.clone()
    }

    /// What is left if the power goes after everything, for what the flushes do not cover.
    pub fn image_at_end(&self, rest: Fate) -> DiskImage {
        self.image_before(u64::MAX, Time::from_ps(u64::MAX), rest)
    }

    /// What `cut` leaves, and its instant. None if the operation was not come to, or is forgotten.
    pub fn image_at_cut(&self, cut: &DiskCut) -> Option<(DiskImage, Time)> {
        let entry = self.journal.iter().rev().find(|e| e.op == cut.op && e.op >= self.first)?;
        let mut image = self.image_before(cut.op, entry.at, cut.rest);
        if cut.inside
            && let What::Put { pieces, .. } = &entry.what
        {
            cut::leave(&mut image, pieces, cut.torn, cut.op);
        }
        Some((image, entry.at))
    }

    fn image_before(&self, op: u64, at: Time, rest: Fate) -> DiskImage {
        let mut image = self.base.clone();
        let safe = covered(&self.journal, self.strict, op, at);
        let known = |e: &&Entry| e.op < op && !e.folded;
        for (entry, safe) in self.journal.iter().zip(&safe).filter(|(e, _)| known(e)) {
            if let What::Put { pieces, .. } = &entry.what {
                let fate = if *safe { Fate::New } else { rest };
                cut::leave(&mut image, pieces, fate, entry.op);
            }
        }
        image
    }

    fn fault(&self, op: u64) -> Option<DiskFault> {
        let hits = |fault: &&DiskFault| match fault {
            DiskFault::Op { op: at, always } => *at == op || *always && *at < op,
            DiskFault::Phantom { op: at }
            | DiskFault::Misdirected { op: at, .. }
            | DiskFault::Rot { op: at, .. } => *at == op,
            DiskFault::Read { .. } => false,
        };
        self.faults.iter().find(hits).copied()
    }

    /// Books an operation.
    fn book(&mut self, at: Time, op: Op, what: What) -> Time {
        let took = match op {
            Op::Flush => self.flush,
            // Odd numbers in another order than even ones; nothing is drawn.
            _ => {
                let forced = matches!(what, What::Put { forced: true, .. });
                let each = if forced { self.write + self.forced } else { self.write };
                each.times(1 + self.ops.wrapping_mul(0x9E37_79B9) % 4)
            }
        };
        let done = at + took;
        let entry = Entry { op: self.ops, at, done, what, folded: false };
        self.hash_entry(&entry, op);
        self.journal.push(entry);
        self.ops += 1;
        done
    }

    fn hash_entry(&mut self, entry: &Entry, op: Op) {
        self.hash.add(entry.op << 8 | op as u64);
        self.hash.add(entry.at.as_ps());
        let What::Put { pieces, .. } = &entry.what else { return };
        for piece in pieces {
            self.hash.add(piece.block << 8 | u64::from(piece.mask));
            let data = piece.data.as_ref();
            self.hash.add(data.map_or(0, |data| u64::from(crate::crc32c(0, &data[..]))));
        }
    }

    fn put(&mut self, at: Time, op: Op, mut pieces: Vec<Piece>, fua: bool) -> Time {
        if op == Op::Write {
            let sectors = pieces.iter().map(|piece| u64::from(piece.mask.count_ones()));
            self.written.0 += sectors.sum::<u64>();
        }
        match self.fault(self.ops) {
            Some(DiskFault::Phantom { .. }) => return self.book(at, op, What::Nothing(op)),
            Some(DiskFault::Misdirected { by, .. }) => {
                let blocks = self.now.sectors().0 / PER_BLOCK;
                pieces.iter_mut().for_each(|piece| piece.block = (piece.block + by) % blocks);
            }
            Some(DiskFault::Rot { head, .. }) => {
                let piece = if head { pieces.first_mut() } else { pieces.last_mut() };
                if let Some(Piece { mask, data: Some(data), .. }) = piece {
                    let bytes = Arc::make_mut(data);
                    bytes[mask.trailing_zeros() as usize * SECTOR + 40] ^= 0x10;
                }
            }
            _ => {}
        }
        pieces.iter().for_each(|piece| self.now.apply(piece));
        let forced = fua && !self.lies;
        self.book(at, op, What::Put { pieces, forced, discard: op == Op::Discard })
    }
}

/// Which entries before operation `op` are safe if the power goes at `at`.
fn covered(journal: &[Entry], strict: bool, op: u64, at: Time) -> Vec<bool> {
    let mut safe: Vec<bool> = journal
        .iter()
        .map(|e| matches!(e.what, What::Put { forced: true, .. }) && e.done <= at)
        .collect();
    for (i, flush) in journal.iter().enumerate().filter(|(_, e)| e.op < op && e.done <= at) {
        if matches!(flush.what, What::Flush) {
            for j in 0..i {
                safe[j] |= !strict || journal[j].done <= flush.at;
            }
        }
    }
    safe
}

/// Hands over what is safe at every cut from operation `first` on, and marks it.
fn fold(
    journal: &mut [Entry],
    strict: bool,
    (first, before): (u64, Time),
    mut keep: impl FnMut(&[Piece]),
) {
    let Some(newest) = journal
        .iter()
        .rposition(|e| e.op < first && e.done <= before && matches!(e.what, What::Flush))
    else {
        return;
    };
    let safe = covered(&journal[..=newest], strict, first, before);
    for i in 0..=newest {
        // In order: what is not safe yet keeps its place, and all after it.
        let is_put = matches!(journal[i].what, What::Put { .. });
        if is_put && !safe[i] {
            return;
        }
        if let What::Put { pieces, .. } = &journal[i].what {
            keep(pieces);
        }
        journal[i].folded = true;
    }
}

impl BlockDevice for CutDevice {
    fn capacity(&self) -> Sectors {
        self.now.sectors()
    }
    fn flush_covers_submitted(&self) -> bool {
        !self.strict
    }
    fn atomic_unit(&self) -> Bytes {
        self.unit
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (lba, sectors, capacity) = (request.lba, request.sectors, self.capacity());
        if lba.0.checked_add(sectors.0).is_none_or(|end| end > capacity.0) {
            return Err(DeviceError::OutOfRange { lba, sectors, capacity });
        }
        if at < self.last {
            return Err(DeviceError::TimeReversed { at, last: self.last });
        }
        self.last = at;
        let bytes = sectors.bytes().index();
        if request.op == Op::Read {
            let Data::Read(out) = request.data else {
                return Err(DeviceError::Unsupported("a disk of bytes reads bytes"));
            };
            if out.len() != bytes {
                return Err(DeviceError::Unsupported("payload does not fit the request"));
            }
            self.reads += 1;
            let read = self.reads - 1;
            if self.faults.contains(&DiskFault::Read { read }) {
                return Err(DeviceError::Io(format!("read {read} of {lba}: planted")));
            }
            let read = self.now.read(lba.0, out).map_err(DeviceError::Unreadable);
            return read.map(|()| at + self.read);
        }
        if let Some(DiskFault::Op { .. }) = self.fault(self.ops) {
            let op = self.ops;
            self.book(at, request.op, What::Nothing(request.op));
            return Err(DeviceError::Io(format!("operation {op}: planted")));
        }
        Ok(match (request.op, request.data) {
            (Op::Flush, _) if self.lies => self.book(at, Op::Flush, What::Nothing(Op::Flush)),
            (Op::Flush, _) => self.book(at, Op::Flush, What::Flush),
            (Op::Discard, _) => {
                let pieces = pieces(lba.0, sectors.0, None);
                self.put(at, Op::Discard, pieces, request.fua)
            }
            (Op::Write, Data::Write(data)) if data.len() == bytes => {
                let pieces = pieces(lba.0, sectors.0, Some(data));
                self.put(at, Op::Write, pieces, request.fua)
            }
            _ => return Err(DeviceError::Unsupported("payload does not fit the request")),
        })
    }
}

#[cfg(test)]
mod tests;
