//! A new stack's disk, with what was asked of it: where it was changed, and how often it was asked to.
//!
//! Where nobody asked for a change it reads as zeroes, before a power cut and after. A request is noted before
//! it is made: what is refused may have been done in part.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stack::disk::{Capabilities, Disk, DiskError, Done, Extent, Piece, inside};
use stack::power::{Power, When};

/// Bytes of a place that is noted.
const BLOCK: u64 = 4096;

/// Is told bytes, and where they are.
type Hear<'a> = dyn FnMut(u64, &[u8]) -> Result<(), DiskError> + 'a;

/// See the module.
#[derive(Debug)]
pub(crate) struct Touched {
    below: Arc<dyn Disk>,
    power: Arc<dyn Power>,
    /// Blocks that were to be changed.
    blocks: Mutex<BTreeSet<u64>>,
    /// Changes and flushes that were asked for.
    requests: AtomicU64,
    /// The power goes before this request; 0: before none.
    cut_at: AtomicU64,
}

impl Touched {
    /// Over the disk of a stack that is new, and its switch.
    pub(crate) fn new(below: Arc<dyn Disk>, power: Arc<dyn Power>) -> Touched {
        Touched {
            below,
            power,
            blocks: Mutex::default(),
            requests: AtomicU64::new(0),
            cut_at: AtomicU64::new(0),
        }
    }

    fn blocks(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Lets the power go before request `number`, or the next one if that is over.
    pub(crate) fn cut_before(&self, number: u64) {
        self.cut_at.store(number.max(1), Ordering::SeqCst);
    }

    /// A request comes, for so many bytes.
    fn asked(&self, at: u64, bytes: u64) {
        if bytes > 0 {
            let end = at.saturating_add(bytes).min(self.capabilities().size);
            self.blocks().extend(at / BLOCK..end.div_ceil(BLOCK));
        }
        let number = self.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let cut = self.cut_at.load(Ordering::SeqCst);
        if cut != 0 && number >= cut {
            // Where it is off already the request is refused all the same.
            let _ = self.power.cut(When::Now);
        }
    }

    /// Tells `hear` of everything on it that is not zero, from the first byte to the last.
    pub(crate) fn dump(&self, hear: &mut Hear<'_>) -> Result<(), DiskError> {
        let size = self.capabilities().size;
        let blocks: Vec<u64> = self.blocks().iter().copied().collect();
        let mut bytes = [0; BLOCK as usize];
        for block in blocks {
            let at = block * BLOCK;
            let piece = &mut bytes[..BLOCK.min(size - at) as usize];
            self.below.read(at, piece)?.wait()?;
            if piece.iter().any(|byte| *byte != 0) {
                hear(at, piece)?;
            }
        }
        Ok(())
    }
}

impl Disk for Touched {
    fn capabilities(&self) -> Capabilities {
        self.below.capabilities()
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        self.below.read(at, into)
    }
    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        self.asked(at, from.len() as u64);
        self.below.write(at, from, fua)
    }
    fn joins_writes(&self) -> bool {
        self.below.joins_writes()
    }
    fn write_each(
        &self,
        pieces: &[Piece<'_>],
        ended: &mut dyn FnMut(usize, Result<Done, DiskError>),
    ) {
        pieces.iter().for_each(|piece| self.asked(piece.at, piece.bytes.len() as u64));
        self.below.write_each(pieces, ended);
    }
    fn flush(&self) -> Result<Done, DiskError> {
        self.asked(0, 0);
        self.below.flush()
    }
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        self.asked(at, bytes);
        self.below.trim(at, bytes, fua)
    }
    fn zero(&self, at: u64, bytes: u64, keep: bool, fua: bool) -> Result<Done, DiskError> {
        self.asked(at, bytes);
        self.below.zero(at, bytes, keep, fua)
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        self.below.zero_is_fast(at, bytes, keep)
    }
    /// Nothing is where nobody asked for a change; a modelled drive does not say so itself.
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        inside(at, bytes, self.capabilities().size)?;
        let (mut found, mut next, end): (Vec<Extent>, u64, u64) = (Vec::new(), at, at + bytes);
        let mut tell = |until: u64, hole: bool| {
            let bytes = until.min(end).saturating_sub(next);
            let full = found.len() == most;
            match found.last_mut() {
                _ if bytes == 0 => return true,
                Some(last) if last.hole == hole => last.bytes += bytes,
                _ if full => return false,
                _ => found.push(Extent { bytes, hole }),
            }
            next += bytes;
            true
        };
        for block in self.blocks().range(at / BLOCK..end.div_ceil(BLOCK)) {
            if !(tell(block * BLOCK, true) && tell((block + 1) * BLOCK, false)) {
                return Ok(found);
            }
        }
        tell(end, true);
        Ok(found)
    }
    fn close(&self) -> Result<(), DiskError> {
        self.below.close()
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.below.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stack::live::Stack;

    fn stack() -> (Touched, Arc<dyn Power>) {
        let stack = Stack::start(&"ram(1MiB)+cut(1)".parse().unwrap()).unwrap();
        (Touched::new(stack.disk, Arc::clone(&stack.power)), stack.power)
    }

    #[test]
    fn what_was_changed_is_no_hole_and_is_told() {
        let (disk, _) = stack();
        let whole = |most| disk.extents(0, 1 << 20, most).unwrap();
        assert_eq!(whole(9), [Extent { bytes: 1 << 20, hole: true }]);
        disk.write(8000, &[7; 1000], false).unwrap().wait().unwrap();
        disk.write(1 << 19, &[0; 4096], false).unwrap().wait().unwrap();
        disk.flush().unwrap().wait().unwrap();
        let told = [(4096, true), (8192, false), ((1 << 19) - 12288, true), (4096, false)];
        let told = told.map(|(bytes, hole)| Extent { bytes, hole });
        assert_eq!(whole(4), told);
        assert_eq!(whole(9).iter().map(|extent| extent.bytes).sum::<u64>(), 1 << 20);
        let from = disk.extents(5000, 10_000, 9).unwrap();
        let told = [(7288, false), (2712, true)].map(|(bytes, hole)| Extent { bytes, hole });
        assert_eq!(from, told);
        let mut places = Vec::new();
        disk.dump(&mut |at, bytes| {
            places.push((at, bytes.iter().filter(|byte| **byte == 7).count()));
            Ok(())
        })
        .unwrap();
        assert_eq!(places, [(4096, 192), (8192, 808)]);
        assert_eq!(disk.requests(), 3);
    }

    #[test]
    fn the_power_goes_before_the_request() {
        let (disk, power) = stack();
        disk.cut_before(2);
        disk.write(0, &[7; 512], true).unwrap().wait().unwrap();
        assert!(power.state().on);
        assert!(matches!(disk.flush(), Err(DiskError::PowerOff)));
        assert!(!power.state().on);
        // What was refused may have been done in part.
        assert!(disk.write(8192, &[7; 512], false).is_err());
        assert_eq!(disk.extents(8192, 4096, 9).unwrap(), [Extent { bytes: 4096, hole: false }]);
    }
}
