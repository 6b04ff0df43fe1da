//! A live log as a disk: what each request goes through.

use block::Lpn;
use remap::BLOCK;

use super::super::{Capabilities, Disk, DiskError, Done, Extent, Piece, inside};
use super::LogDisk;
use super::io::Blocks;

impl Disk for LogDisk {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            size: u64::from(self.shared.logical) * BLOCK as u64,
            block: BLOCK as u32,
            atomic: self.shared.atomic_blocks() * BLOCK as u32,
            volatile: true,
            trim: true,
            read_only: self.read_only,
        }
    }
    fn read(&self, at: u64, into: &mut [u8]) -> Result<Done, DiskError> {
        inside(at, into.len() as u64, self.capabilities().size)?;
        self.shared.read(at, into).map(|()| Done::NOW)
    }
    fn write(&self, at: u64, from: &[u8], fua: bool) -> Result<Done, DiskError> {
        self.may_write(at, from.len() as u64)?;
        self.shared.write(at, from)?;
        self.done(fua && !from.is_empty())
    }
    fn joins_writes(&self) -> bool {
        true
    }
    fn write_each(
        &self,
        pieces: &[Piece<'_>],
        ended: &mut dyn FnMut(usize, Result<Done, DiskError>),
    ) {
        let mut next = 0;
        while next < pieces.len() {
            let requests = self.whole(&pieces[next..]);
            let all = next..next + requests.len().max(1);
            next = all.end;
            let together = match all.len() {
                1 => Ok(false),
                _ => self.shared.admit(&requests, |_| true),
            };
            for i in all {
                ended(
                    i,
                    match &together {
                        Ok(true) => Ok(Done::NOW),
                        Err(DiskError::Stopped(why)) => Err(DiskError::Stopped(why.clone())),
                        // None of them was admitted: each fails, or not, by itself.
                        _ => self.write(pieces[i].at, pieces[i].bytes, false),
                    },
                );
            }
        }
    }
    fn flush(&self) -> Result<Done, DiskError> {
        if self.read_only {
            return Ok(Done::NOW);
        }
        self.shared.flush().map(|()| Done::NOW)
    }
    fn trim(&self, at: u64, bytes: u64, fua: bool) -> Result<Done, DiskError> {
        self.may_write(at, bytes)?;
        self.shared.trim(at, bytes)?;
        self.done(fua && bytes > 0)
    }
    fn zero(&self, at: u64, bytes: u64, keep: bool, fua: bool) -> Result<Done, DiskError> {
        self.may_write(at, bytes)?;
        self.shared.zero(at, bytes, keep)?;
        self.done(fua && bytes > 0)
    }
    fn zero_is_fast(&self, at: u64, bytes: u64, keep: bool) -> bool {
        let block = BLOCK as u64;
        !keep && at.is_multiple_of(block) && bytes.is_multiple_of(block)
    }
    fn extents(&self, at: u64, bytes: u64, most: usize) -> Result<Vec<Extent>, DiskError> {
        inside(at, bytes, self.capabilities().size)?;
        self.shared.extents(at, bytes, most)
    }
    fn close(&self) -> Result<(), DiskError> {
        self.stop_keeper();
        if self.read_only {
            return Ok(());
        }
        self.shared.checkpoint(true)
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        let (asked, ran) = self.shared.group.counts();
        let (damaged, refused) = self.shared.damage.counts();
        let inner = self.shared.lock();
        let c = inner.engine.counters();
        vec![
            ("flushes_asked", asked),
            ("syncs", ran),
            ("user_blocks", c.user),
            ("header_blocks", c.header),
            ("gc_blocks", c.gc),
            ("meta_blocks", c.meta),
            ("root_blocks", c.root),
            ("records", c.records),
            ("trims", c.trims),
            ("checkpoints", c.checkpoints),
            ("segments_cleaned", c.cleaned),
            ("segments_freed", c.freed),
            ("segments_free", u64::from(inner.engine.free_segments())),
            ("blocks_poisoned", c.poisoned),
            ("segments_quarantined", c.quarantined),
            ("reads_verified", u64::from(inner.engine.verifies())),
            ("blocks_damaged", damaged),
            ("requests_damaged", refused),
            ("log_writes", inner.flight.batches),
            ("log_blocks", inner.flight.blocks),
            ("memory_bytes", inner.engine.memory()),
        ]
    }
}

impl LogDisk {
    /// The first of these as far as they are whole blocks that can be admitted together.
    fn whole<'b>(&self, pieces: &[Piece<'b>]) -> Vec<Blocks<'b>> {
        let mut left = match self.shared.options.map_memory.0 {
            0 => self.shared.atomic_blocks() as usize,
            // Loading the map of one may let go that of another.
            _ => 0,
        };
        let (block, mut found) = (BLOCK as u64, Vec::with_capacity(pieces.len()));
        for piece in pieces {
            let bytes = piece.bytes.len();
            let fits = bytes > 0
                && bytes.is_multiple_of(BLOCK)
                && piece.at.is_multiple_of(block)
                && bytes / BLOCK <= left
                && self.may_write(piece.at, bytes as u64).is_ok();
            if !fits {
                break;
            }
            left -= bytes / BLOCK;
            found.push((Lpn((piece.at / block) as u32), piece.bytes));
        }
        found
    }

    fn may_write(&self, at: u64, bytes: u64) -> Result<(), DiskError> {
        inside(at, bytes, self.capabilities().size)?;
        if self.read_only { Err(DiskError::ReadOnly) } else { Ok(()) }
    }

    fn done(&self, fua: bool) -> Result<Done, DiskError> {
        if fua { self.flush() } else { Ok(Done::NOW) }
    }
}
