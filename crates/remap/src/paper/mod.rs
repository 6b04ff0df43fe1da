//! Paper mode: the paper's address remapping as written, with the least that makes it run. It
//! exists for comparison, and to lose crash tests: flushes do not commit the log, moves of cleaning
//! are not logged, the log has neither checksum nor sequence (paper 1, section III).
//!
//! Invariants while the power is on: a read returns the newest write; the block at the cursor and
//! all behind it are free; `backing writes = user + log + tables + moved + super`. After a loss of
//! power nothing is promised.

mod clean;
mod media;
mod options;
mod recover;
mod stats;
mod table;

use block::{BlockDevice, Data, DeviceError, Lba, Op, Request, Sectors, Time, UNIT_BYTES};

pub use media::{LogBlock, PaperLayout};
pub use options::{FlushRule, Insert, PAIRS, PaperOptions, PartitionKey, TrimRule, Unmapped};
pub use stats::PaperStats;
pub use table::Node;

use media::BLOCK;
use table::Tables;

/// Sectors of a block.
const PER_BLOCK: u64 = UNIT_BYTES / block::SECTOR_BYTES;

/// What a block written counts as.
#[derive(Clone, Copy)]
enum Kind {
    User,
    Log,
    Table,
    Moved,
    Super,
}

/// The open transaction.
#[derive(Debug, Default)]
struct Open {
    pairs: Vec<(u32, u32)>,
    since: Time,
}

/// The paper's host log over a block device.
#[derive(Debug)]
pub struct PaperLog<D> {
    device: D,
    layout: PaperLayout,
    options: PaperOptions,
    tables: Tables,
    /// The next place.
    cursor: u32,
    open: Open,
    /// The next block of the log.
    log_next: u32,
    /// When the device below was asked last: it may not be asked earlier.
    clock: Time,
    /// When the last turn of cleaning has ended: there is one cleaner, it does not overtake itself.
    cleaned: Time,
    stats: PaperStats,
}

fn first_sector(block: u32) -> Lba {
    Lba(u64::from(block) * PER_BLOCK)
}

/// First block and number of blocks of a request of whole blocks.
fn blocks(lba: Lba, sectors: Sectors) -> Result<(u32, u32), DeviceError> {
    if !lba.0.is_multiple_of(PER_BLOCK) || !sectors.0.is_multiple_of(PER_BLOCK) {
        return Err(DeviceError::Unsupported("the paper's table has one entry per 4 KiB block"));
    }
    // Both lie inside the device, which has at most 2^32 blocks.
    Ok(((lba.0 / PER_BLOCK) as u32, (sectors.0 / PER_BLOCK) as u32))
}

impl<D: BlockDevice> PaperLog<D> {
    /// The device below.
    pub fn device(&self) -> &D {
        &self.device
    }
    /// The device below, to be told something: requests to it would break what lies on it.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }
    /// When the device below was asked last: requests at earlier times reach it then.
    pub fn now(&self) -> Time {
        self.clock
    }
    /// Where things lie.
    pub fn layout(&self) -> &PaperLayout {
        &self.layout
    }
    /// What was done since power-on.
    pub fn stats(&self) -> &PaperStats {
        &self.stats
    }
    /// When the device below was asked last.
    pub fn clock(&self) -> Time {
        self.clock
    }
    /// All nodes in the order of their places.
    pub fn nodes(&self) -> Vec<Node> {
        self.tables.nodes().collect()
    }
    /// Memory that the paper's tree would take for the nodes not stored away, in bytes.
    pub fn node_memory(&self) -> block::Bytes {
        block::Bytes(self.tables.resident() as u64 * PaperStats::NODE.0)
    }
    /// The next place, as a sector of the device below.
    pub fn cursor(&self) -> Lba {
        first_sector(self.cursor)
    }

    /// Lets the next write go to that sector of the device below. Nothing may lie there or behind.
    ///
    /// # Errors
    /// If it is no block of the data area, or something lies there.
    pub fn set_cursor(&mut self, to: Lba) -> Result<(), DeviceError> {
        let (block, _) = blocks(to, Sectors(0))?;
        if block < self.tables.end() || block >= self.layout.end() {
            return Err(DeviceError::Unsupported(
                "the cursor goes to free blocks of the data area",
            ));
        }
        self.cursor = block;
        Ok(())
    }

    /// Submits to the device below, never earlier than before.
    fn ask(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        self.clock = self.clock.max(at);
        self.device.submit(self.clock, request)
    }

    fn count(&mut self, kind: Kind, blocks: u64) {
        let stats = &mut self.stats;
        stats.backing += blocks;
        *match kind {
            Kind::User => &mut stats.user,
            Kind::Log => &mut stats.log,
            Kind::Table => &mut stats.tables,
            Kind::Moved => &mut stats.moved,
            Kind::Super => &mut stats.supers,
        } += blocks;
    }

    fn write_blocks(
        &mut self,
        at: Time,
        block: u32,
        bytes: &[u8],
        kind: Kind,
    ) -> Result<Time, DeviceError> {
        let blocks = (bytes.len() / BLOCK) as u64;
        let data = if self.options.payload { Data::Write(bytes) } else { Data::None };
        let request = Request::write(first_sector(block), Sectors(blocks * PER_BLOCK)).with(data);
        let done = self.ask(at, request)?;
        self.count(kind, blocks);
        Ok(done)
    }

    fn read_blocks(&mut self, at: Time, block: u32, out: &mut [u8]) -> Result<Time, DeviceError> {
        let sectors = Sectors((out.len() / BLOCK) as u64 * PER_BLOCK);
        let data = if self.options.payload { Data::Read(out) } else { Data::None };
        self.ask(at, Request::read(first_sector(block), sectors).with(data))
    }

    /// Looks an address up; brings partitions back for it.
    fn find(&mut self, at: Time, orig: u32) -> Result<Option<u32>, DeviceError> {
        for part in self.tables.candidates(orig) {
            self.fetch(at, part)?;
            self.stats.probes += 1;
            if let Some(trans) = self.tables.get(part, orig) {
                return Ok(Some(trans));
            }
        }
        Ok(None)
    }

    /// The table learns of a write.
    fn map(&mut self, at: Time, orig: u32, trans: u32) -> Result<(), DeviceError> {
        if let Some(old) = self.find(at, orig)? {
            self.tables.invalidate(orig, old);
        }
        let home = self.tables.home(orig, trans);
        self.fetch(at, home)?;
        self.tables.insert(orig, trans);
        self.evict(at)
    }

    /// Commits the open transaction: its log block is submitted, and not waited for.
    ///
    /// # Errors
    /// Of the device below; the transaction stays open.
    pub fn commit(&mut self, at: Time) -> Result<Time, DeviceError> {
        if self.open.pairs.is_empty() {
            return Ok(at);
        }
        if self.log_next == self.layout.log_blocks {
            self.store_all(at)?;
        }
        let bytes = media::transaction(&self.open.pairs);
        let done = self.write_blocks(at, self.layout.log + self.log_next, &bytes, Kind::Log)?;
        self.log_next += 1;
        self.stats.commits += 1;
        let pairs = std::mem::take(&mut self.open.pairs);
        if self.options.insert == Insert::After {
            for (orig, trans) in &pairs {
                self.map(at, *orig, *trans)?;
            }
        }
        Ok(done)
    }

    fn note(&mut self, at: Time, orig: u32, trans: u32) -> Result<(), DeviceError> {
        if self.open.pairs.is_empty() {
            self.open.since = at;
        }
        self.open.pairs.push((orig, trans));
        if self.open.pairs.len() >= self.options.commit_pairs as usize {
            self.commit(at)?;
        }
        Ok(())
    }

    fn write(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (orig, count) = blocks(request.lba, request.sectors)?;
        let fits = match &request.data {
            Data::Write(bytes) => {
                self.options.payload && bytes.len() as u64 == request.sectors.bytes().0
            }
            Data::None => !self.options.payload,
            _ => false,
        };
        if !fits {
            return Err(DeviceError::Unsupported("payload does not fit the request"));
        }
        let at = self.make_room(at, count)?;
        let trans = self.cursor;
        self.cursor += count;
        if self.options.insert == Insert::Before {
            for i in 0..count {
                self.map(at, orig + i, trans + i)?;
            }
        }
        let done = self.ask(at, Request { lba: first_sector(trans), ..request })?;
        self.count(Kind::User, u64::from(count));
        for i in 0..count {
            self.note(at, orig + i, trans + i)?;
        }
        self.clean_if_low(at)?;
        Ok(done)
    }

    fn read(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (orig, count) = blocks(request.lba, request.sectors)?;
        let mut out = match request.data {
            Data::None => None,
            Data::Read(out) if out.len() as u64 == request.sectors.bytes().0 => Some(out),
            _ => return Err(DeviceError::Unsupported("payload does not fit the request")),
        };
        let (mut done, mut i) = (at, 0);
        while i < count {
            let from = self.find(at, orig + i)?;
            let mut run = 1;
            while i + run < count && self.find(at, orig + i + run)? == from.map(|t| t + run) {
                run += 1;
            }
            let from = match self.options.unmapped {
                Unmapped::Pass => from.or(Some(orig + i)),
                Unmapped::Zeroes => from,
            };
            let part = out
                .as_deref_mut()
                .map(|out| &mut out[i as usize * BLOCK..(i + run) as usize * BLOCK]);
            match (from, part) {
                (None, Some(part)) => part.fill(0),
                (None, None) => {}
                (Some(trans), part) => {
                    let sectors = Sectors(u64::from(run) * PER_BLOCK);
                    let data = part.map_or(Data::None, Data::Read);
                    let ask = Request {
                        hint: request.hint,
                        ..Request::read(first_sector(trans), sectors)
                    };
                    done = done.max(self.ask(at, ask.with(data))?);
                }
            }
            i += run;
        }
        self.evict(at)?;
        Ok(done)
    }

    fn trim(&mut self, at: Time, request: &Request<'_>) -> Result<Time, DeviceError> {
        let (orig, count) = blocks(request.lba, request.sectors)?;
        match self.options.trim {
            TrimRule::Drop => self.stats.dropped_trims += u64::from(count),
            TrimRule::Invalidate => {
                for orig in orig..orig + count {
                    if let Some(trans) = self.find(at, orig)? {
                        self.tables.invalidate(orig, trans);
                    }
                }
                self.evict(at)?;
            }
        }
        Ok(at)
    }

    fn flush(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let mut at = at;
        if self.options.flush == FlushRule::Commit {
            at = self.commit(at)?;
        }
        self.ask(at, request)
    }

    /// A clean stop: what recovery does at its end, then a flush. The paper has none; without it the
    /// moves of cleaning, which no transaction holds, would be lost at every stop.
    ///
    /// # Errors
    /// Of the device below.
    pub fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        let done = self.commit(at)?;
        self.store_all(done)?;
        self.ask(done, Request::flush())
    }
}

impl<D: BlockDevice> BlockDevice for PaperLog<D> {
    fn capacity(&self) -> Sectors {
        Sectors(u64::from(self.layout.blocks) * PER_BLOCK)
    }
    /// Its blocks are written in place, too.
    fn atomic_unit(&self) -> block::Bytes {
        block::Bytes(self.device.atomic_unit().0.min(block::UNIT_BYTES))
    }
    fn flush_covers_submitted(&self) -> bool {
        self.device.flush_covers_submitted()
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        let (lba, sectors, capacity) = (request.lba, request.sectors, self.capacity());
        if lba.0.checked_add(sectors.0).is_none_or(|end| end > capacity.0) {
            return Err(DeviceError::OutOfRange { lba, sectors, capacity });
        }
        if !self.open.pairs.is_empty() && at.since(self.open.since) >= self.options.commit_after {
            self.commit(at)?;
        }
        match request.op {
            Op::Write => self.write(at, request),
            Op::Read => self.read(at, request),
            Op::Discard => self.trim(at, &request),
            Op::Flush => self.flush(at, request),
        }
    }
}
