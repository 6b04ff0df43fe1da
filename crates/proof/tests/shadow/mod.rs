//! The simplest device that promises order, and ways to break it: the alarm's own test. Two copies
//! of everything lie on the disk; each write and discard rewrites the older one whole, with a header
//! that has a number and the CRC of the rest, and flushes. Power-on takes the copy with the higher
//! number whose CRC is right.

use block::{
    BlockDevice, CutDevice, Data, DeviceError, DiskImage, Fate, Lba, Op, Request, Sectors, Time,
    crc32c,
};
use nand::Cut;
use varve_proof::{DurableKind, Failure, LogSubject, Promise, Subject, disk_cut};

/// What is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    Nothing,
    NoFlush,
    CrcIgnored,
    PageAtATime,
    TrimForgotten,
    SamePlace,
}

pub struct Spec {
    pub broken: Break,
    pub pages: u32,
}

const BLOCK: usize = 4096;

pub struct Shadow {
    disk: CutDevice,
    broken: Break,
    bytes: Vec<u8>,
    seq: u64,
    now: Time,
}

impl Shadow {
    fn copy(&self, seq: u64) -> Lba {
        let half = if self.broken == Break::SamePlace { 0 } else { seq % 2 };
        Lba(half * (self.bytes.len() / BLOCK + 1) as u64 * 8)
    }

    fn keep(&mut self) -> Result<(), DeviceError> {
        self.seq += 1;
        let mut copy = vec![0; BLOCK];
        copy[..8].copy_from_slice(&self.seq.to_le_bytes());
        copy[8..12].copy_from_slice(&crc32c(self.seq as u32, &self.bytes).to_le_bytes());
        copy.extend_from_slice(&self.bytes);
        let sectors = Sectors(copy.len() as u64 / 512);
        let request = Request::write(self.copy(self.seq), sectors).with(Data::Write(&copy));
        self.now = self.disk.submit(self.now, request)?;
        if self.broken != Break::NoFlush {
            self.now = self.disk.submit(self.now, Request::flush())?;
        }
        Ok(())
    }

    fn load(&mut self) {
        let mut best = (0, vec![0; self.bytes.len()]);
        for half in 0..2 {
            let mut copy = vec![0; self.bytes.len() + BLOCK];
            let sectors = Sectors(copy.len() as u64 / 512);
            let request = Request::read(self.copy(half), sectors).with(Data::Read(&mut copy));
            if self.disk.submit(self.now, request).is_err() {
                continue;
            }
            let seq = u64::from_le_bytes(copy[..8].try_into().expect("8 bytes"));
            let crc = u32::from_le_bytes(copy[8..12].try_into().expect("4 bytes"));
            let right =
                crc == crc32c(seq as u32, &copy[BLOCK..]) || self.broken == Break::CrcIgnored;
            if right && seq > best.0 && seq < 1 << 40 {
                best = (seq, copy[BLOCK..].to_vec());
            }
        }
        (self.seq, self.bytes) = best;
    }
}

impl BlockDevice for Shadow {
    fn capacity(&self) -> Sectors {
        Sectors(self.bytes.len() as u64 / 512)
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        self.now = self.now.max(at);
        let start = request.lba.bytes().index();
        let end = start + request.sectors.bytes().index();
        match (request.op, request.data) {
            (Op::Read, Data::Read(out)) => {
                out.copy_from_slice(&self.bytes[start..end]);
                return Ok(self.now);
            }
            (Op::Write, Data::Write(data)) if self.broken == Break::PageAtATime => {
                for (i, part) in data.chunks(BLOCK).enumerate() {
                    let from = start + i * BLOCK;
                    self.bytes[from..from + part.len()].copy_from_slice(part);
                    self.keep()?;
                }
                return Ok(self.now);
            }
            (Op::Write, Data::Write(data)) => self.bytes[start..end].copy_from_slice(data),
            (Op::Discard, _) if self.broken == Break::TrimForgotten => {
                self.keep()?;
                self.bytes[start..end].fill(0);
                return Ok(self.now);
            }
            (Op::Discard, _) => self.bytes[start..end].fill(0),
            (Op::Flush, _) => return Ok(self.now),
            _ => return Err(DeviceError::Unsupported("bytes only")),
        }
        self.keep()?;
        Ok(self.now)
    }
}

impl Subject for Shadow {
    type Spec = Spec;
    type Image = DiskImage;

    fn build(spec: &Spec) -> Result<Shadow, Failure> {
        let disk = CutDevice::new(Sectors(u64::from(2 * (spec.pages + 1)) * 8));
        Shadow::mount(spec, disk.image())
    }
    fn mount(spec: &Spec, image: DiskImage) -> Result<Shadow, Failure> {
        let (disk, now) = (CutDevice::power_on(image), Time::ZERO);
        let bytes = vec![0; spec.pages as usize * BLOCK];
        let mut shadow = Shadow { disk, broken: spec.broken, bytes, seq: 0, now };
        shadow.load();
        Ok(shadow)
    }
    fn ready(&self) -> Time {
        self.now
    }
    fn ops(&self) -> u64 {
        self.disk.ops()
    }
    fn op(&self, op: u64) -> Option<DurableKind> {
        self.disk.op(op).map(DurableKind::from)
    }
    fn has_pairs(&self) -> bool {
        false
    }
    fn image(&self) -> Result<DiskImage, Failure> {
        Ok(self.disk.image_at_end(Fate::Old))
    }
    fn image_at_cut(&self, cut: &Cut) -> Option<(DiskImage, Time)> {
        self.disk.image_at_cut(&disk_cut(cut))
    }
    fn forget(&mut self, before: Time) {
        self.disk.forget(before);
    }
    fn check(&self) -> Result<(), Failure> {
        Ok(())
    }
    fn event_hash(&self) -> u64 {
        self.disk.event_hash()
    }
}

impl LogSubject for Shadow {
    fn promise(_: &Spec) -> Promise {
        Promise { atomic: u32::MAX, may_fail: false, damaged: false, verified: false, single: true }
    }
    fn refused(&self) -> Option<&str> {
        None
    }
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        self.submit(at, Request::flush())
    }
}
