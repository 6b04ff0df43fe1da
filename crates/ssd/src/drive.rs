//! The drive: commands in, virtual time out.

mod blocks;
mod counted;

use std::sync::Arc;

use block::{BlockDevice, Data, DeviceError, Op, Plant, Request, SECTOR_BYTES, Sectors, Time};
use nand::{Cause, FaultPlan, Image, Nand};

use crate::Bug;
use crate::buffer::{Front, Host};
use crate::config::{ConfigError, FtlKind, OobMode, Params, Plp};
use crate::either::Ftl;
use crate::ftl::PageFtl;
use crate::host::HostSide;
use crate::hybrid::HybridFtl;
use crate::stats::OpStats;

pub use blocks::{BlockNow, BlocksNow};

/// A promise of the contract that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{contract}: {what}")]
pub struct Violation {
    /// The promise (docs/contract.md).
    pub contract: &'static str,
    /// What was found.
    pub what: String,
}

/// A modelled SSD.
///
/// Requests are submitted with non-decreasing times. The answer is the virtual time at which the
/// request is done; requests in flight share the drive's resources by reservation.
#[derive(Debug)]
pub struct Drive {
    pub(crate) p: Arc<Params>,
    pub(crate) front: Box<dyn Front>,
    pub(crate) ftl: Ftl,
    pub(crate) side: HostSide,
    host: [OpStats; 4],
    write_slots: u64,
    last: Time,
    started: bool,
    /// What went wrong while time went on: for the next request that is served.
    late: Option<DeviceError>,
    pub(crate) bug: Plant<Bug>,
}

impl Clone for Drive {
    fn clone(&self) -> Self {
        Drive {
            p: Arc::clone(&self.p),
            front: self.front.boxed(),
            ftl: self.ftl.clone(),
            side: self.side.clone(),
            late: self.late.clone(),
            ..*self
        }
    }
}

impl Drive {
    /// A factory-fresh drive.
    ///
    /// # Errors
    /// Keys that make an impossible drive.
    pub fn new(params: &Params) -> Result<Drive, ConfigError> {
        Drive::with_faults(params, &FaultPlan::none())
    }

    /// A factory-fresh drive that will meet `faults`.
    ///
    /// # Errors
    /// Keys that make an impossible drive.
    pub fn with_faults(params: &Params, faults: &FaultPlan) -> Result<Drive, ConfigError> {
        let p = Arc::new(params.clone());
        let full = p.oob == OobMode::Full;
        let mut nand = Nand::new(p.geometry.clone(), p.timing.clone(), full);
        nand.set_faults(&with_factory_bad(&p, faults));
        let ftl = match p.ftl {
            FtlKind::Page => Ftl::Page(Box::new(PageFtl::new(&p, nand))),
            FtlKind::HybridLog => Ftl::Hybrid(Box::new(HybridFtl::new(&p, nand))),
        };
        if let Some(reason) = ftl.read_only() {
            return Err(ConfigError::Contradiction {
                keys: "bad.factory, bad.reserve, op".to_string(),
                reason: format!("{reason} from the factory: nothing could be written"),
            });
        }
        Ok(Drive::assemble(p, ftl))
    }

    /// Power-on of a drive whose flash holds `image`.
    ///
    /// # Errors
    /// A power cut of nobody's making is not possible here; an array that answers nothing is.
    pub fn mount(params: &Params, image: Image) -> Result<Drive, DeviceError> {
        Drive::mount_with(params, image, Plant::default())
    }

    /// Power-on with a planted bug: for the proof harness.
    ///
    /// # Errors
    /// As [`Drive::mount`].
    pub fn mount_with(
        params: &Params,
        image: Image,
        bug: Plant<Bug>,
    ) -> Result<Drive, DeviceError> {
        if !image.is_full() {
            return Err(DeviceError::Unsupported("power-on needs whole records (nand.oob = full)"));
        }
        let p = Arc::new(params.clone());
        let mut nand = Nand::from_image(p.geometry.clone(), p.timing.clone(), image);
        nand.keep_journal();
        let ftl = match p.ftl {
            FtlKind::Page => Ftl::Page(Box::new(PageFtl::mount(&p, nand, bug)?)),
            FtlKind::HybridLog => Ftl::Hybrid(Box::new(HybridFtl::mount(&p, nand, bug)?)),
        };
        let mut drive = Drive::assemble(p, ftl);
        drive.bug = bug;
        drive.last = drive.ftl.recovery().map_or(Time::ZERO, |r| Time::ZERO + r.time);
        Ok(drive)
    }

    /// Power-on of a live drive: `image` is what `backing` holds, and what is programmed from
    /// here on is kept there. Timing is off: the time of a live drive is its caller's.
    ///
    /// # Errors
    /// As [`Drive::mount`]; a drive that can only be modelled.
    pub fn live(
        params: &Params,
        image: Image,
        backing: Arc<dyn nand::Backing>,
    ) -> Result<Drive, DeviceError> {
        if !image.is_full() || params.ftl != FtlKind::Page || params.map.cache.is_some() {
            return Err(DeviceError::Unsupported(
                "a live drive needs ftl = page, map.mode = full and nand.oob = full",
            ));
        }
        let p = Arc::new(params.clone());
        let mut nand = Nand::from_image(p.geometry.clone(), p.timing.clone(), image);
        nand.set_timing(false);
        nand.back(backing);
        let ftl = Ftl::Page(Box::new(PageFtl::mount(&p, nand, Plant::default())?));
        let mut drive = Drive::assemble(p, ftl);
        drive.side.set_timing(false);
        Ok(drive)
    }

    fn assemble(p: Arc<Params>, ftl: Ftl) -> Drive {
        Drive {
            side: HostSide::new(&p),
            front: new_front(&p),
            ftl,
            host: [OpStats::default(); 4],
            write_slots: 0,
            last: Time::ZERO,
            started: false,
            late: None,
            bug: Plant::default(),
            p,
        }
    }

    /// The parameters it was built from.
    pub fn params(&self) -> &Params {
        &self.p
    }
    /// The time of the latest request (after power-on: when the drive was ready).
    pub fn now(&self) -> Time {
        self.last
    }
    /// The array: journal, images at cuts, counters.
    pub fn nand(&self) -> &Nand {
        self.ftl.nand()
    }
    /// The array, to keep or prune its journal.
    pub fn nand_mut(&mut self) -> &mut Nand {
        self.ftl.nand_mut()
    }
    /// What the flash holds, after a cut of the fault plan struck or as it is.
    pub fn power_cut(self) -> (Image, Option<Time>) {
        self.ftl.power_off()
    }
    /// Plants a bug: for the proof harness only.
    pub fn plant(&mut self, bug: Plant<Bug>) {
        self.bug = bug;
        self.ftl.plant(bug);
    }
    /// From here on `known` tells which stream each page goes to, instead of the hints of writes.
    ///
    /// # Errors
    /// Any other than a page-mapped drive with `streams.policy = hint` and `gc.per_stream`.
    pub fn know(&mut self, known: Box<dyn crate::Known>) -> Result<(), DeviceError> {
        let no = DeviceError::Unsupported("a drive with a map of blocks has no streams");
        self.ftl.page_mut().ok_or(no)?.know(known)
    }
    /// Switches timing on or off: a precondition needs none. It stays off where the drive has none
    /// (`timing = off`).
    pub fn set_timing(&mut self, on: bool) {
        let on = on && self.p.timing.enabled;
        self.ftl.nand_mut().set_timing(on);
        self.side.set_timing(on);
    }
    /// Empties the buffer, as a clean power cycle would: what is dirty in it is programmed, also where a
    /// capacitor lets flushes leave it there. The policy knows nothing afterwards.
    ///
    /// # Errors
    /// As a flush.
    pub fn cool_buffer(&mut self) -> Result<(), DeviceError> {
        // What waits since a request that failed is dirty as well.
        if !self.front.dirty(1).is_empty() {
            self.drain()?;
        }
        self.front = new_front(&self.p);
        Ok(())
    }
    /// Restarts the counters: what was before is warm-up.
    pub fn reset_stats(&mut self) {
        self.host = [OpStats::default(); 4];
        self.write_slots = 0;
        self.front.reset_stats();
        self.ftl.reset_stats();
        self.side.reset_stats();
    }

    /// The power fails, and the capacitor does what it can: the image that is left. Without
    /// protection the buffer is lost and only [`Nand::image_at_cut`] says what is on flash.
    ///
    /// # Errors
    /// If the array fails while the buffer is saved.
    pub fn capacitor_save(mut self) -> Result<Image, DeviceError> {
        let limit = match self.p.buffer.plp {
            Plp::None => 0,
            Plp::Full => usize::MAX,
            Plp::Capacitor(n) => n as usize,
        };
        if limit > 0 {
            self.ftl.set_now(self.last)?;
            if let Some(ftl) = self.ftl.page_mut() {
                // They are lost; what they lock is space for what is saved.
                ftl.tx_abort_all();
            }
            for (page, payload) in self.front.dirty(limit) {
                let (unit, bit) = (page / self.p.unit_pages, page % self.p.unit_pages);
                self.ftl.save(self.last, unit, 1 << bit, payload)?;
            }
            self.ftl.sync()?;
        }
        Ok(self.ftl.power_off().0)
    }

    /// Clean stop: everything on flash, and a checkpoint where they are kept.
    ///
    /// # Errors
    /// As a flush.
    pub fn shutdown(&mut self, at: Time) -> Result<Time, DeviceError> {
        let at = at.max(self.last);
        let flushed = self.submit(at, Request::flush())?;
        let flushed = if self.p.buffer.plp == Plp::None { flushed } else { self.drain()? };
        self.ftl.set_now(flushed)?;
        self.last = flushed;
        Ok(self.ftl.write_checkpoint()?.max(flushed))
    }

    /// Programs what a protected buffer still holds.
    ///
    /// # Errors
    /// As a flush.
    pub fn drain(&mut self) -> Result<Time, DeviceError> {
        self.serve(self.last, Request::flush(), None)
    }

    /// One request through the buffer.
    pub(crate) fn serve(
        &mut self,
        now: Time,
        request: Request<'_>,
        protected: Option<u32>,
    ) -> Result<Time, DeviceError> {
        let host = lend(&mut self.side, &self.p, now, protected, self.bug);
        match &mut self.ftl {
            Ftl::Page(ftl) => self.front.on_page(ftl, host, request),
            Ftl::Hybrid(ftl) => self.front.on_hybrid(ftl, host, request),
        }
    }

    /// How many dirty entries a power cut spares.
    pub(crate) fn protected(&self) -> Option<u32> {
        match self.p.buffer.plp {
            Plp::None => None,
            Plp::Full => Some(u32::MAX),
            Plp::Capacitor(n) => Some(n),
        }
    }

    /// Checks every invariant and both accounting identities.
    ///
    /// # Errors
    /// The first promise that does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        self.front.check().map_err(|what| Violation { contract: "C7", what })?;
        self.ftl.check()?;
        self.ftl.nand().check_wear().map_err(|what| Violation { contract: "C7", what })?;
        self.check_counts()
    }

    /// Checks the accounting identities alone (C8): what every run ends with, whatever its size.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check_counts(&self) -> Result<(), Violation> {
        let stats = self.ftl.nand().stats();
        let spp = u64::from(self.p.geometry.slots_per_page);
        let (sum, pages) = (stats.programs_total(), stats.page_programs * spp);
        if sum != pages {
            return Err(Violation {
                contract: "C8",
                what: format!("{sum} slots programmed by cause, {pages} by page"),
            });
        }
        // The array counts copies when they are programmed, cleaning when it orders them.
        let copied = stats.programs[Cause::Gc as usize];
        let (ordered, waiting) = (self.ftl.copies_ordered(), self.ftl.copies_assembled());
        if copied + waiting < ordered {
            return Err(Violation {
                contract: "C8",
                what: format!("{ordered} copies were ordered, {copied} programmed, {waiting} wait"),
            });
        }
        Ok(())
    }

    pub(crate) fn admit(&mut self, at: Time, request: &Request<'_>) -> Result<(), DeviceError> {
        if at > Time::LIMIT {
            return Err(DeviceError::TimeExhausted(at));
        }
        if at < self.last {
            return Err(DeviceError::TimeReversed { at, last: self.last });
        }
        let (lba, sectors, capacity) = (request.lba, request.sectors, self.capacity());
        if lba.0.checked_add(sectors.0).is_none_or(|end| end > capacity.0) {
            return Err(DeviceError::OutOfRange { lba, sectors, capacity });
        }
        if sectors.0 == 0 && request.op != Op::Flush {
            return Err(DeviceError::Unsupported("a request of no sectors"));
        }
        let bytes = sectors.0 * SECTOR_BYTES;
        let aligned = lba.0.is_multiple_of(8) && sectors.0.is_multiple_of(8);
        let fits = match (&request.data, request.op) {
            (Data::None, _) => true,
            (Data::Write(data), Op::Write) => data.len() as u64 == bytes,
            (Data::Read(data), Op::Read) => data.len() as u64 == bytes,
            (Data::WriteStamps(data), Op::Write) => aligned && data.len() as u64 * 4096 == bytes,
            (Data::ReadStamps(data), Op::Read) => aligned && data.len() as u64 * 4096 == bytes,
            _ => false,
        };
        if !fits {
            return Err(DeviceError::Unsupported("the payload does not fit the request"));
        }
        if !matches!(request.data, Data::None) && self.p.oob != OobMode::Full {
            return Err(DeviceError::Unsupported("payloads are kept only with nand.oob = full"));
        }
        if let Err(error) = self.pass(at) {
            // Who is refused hears why; the next one that is served hears this.
            self.late.get_or_insert(error);
        }
        Ok(())
    }

    /// Time goes on to `at`, for whoever is refused as well: what is begun next without a time of its
    /// own begins no earlier.
    fn pass(&mut self, at: Time) -> Result<(), DeviceError> {
        if self.started {
            self.ftl.clean_idle(at)?;
        }
        self.started = true;
        self.last = at;
        self.ftl.set_now(at)
    }

    /// The request admitted last is served.
    pub(crate) fn start(&mut self, request: &Request<'_>) -> Result<(), DeviceError> {
        self.count(request);
        self.late.take().map_or(Ok(()), Err)
    }

    fn count(&mut self, request: &Request<'_>) {
        let stats = &mut self.host[request.op as usize];
        let (offset, len) = (request.lba.bytes().0, request.sectors.bytes().0);
        stats.ops += 1;
        stats.bytes += len;
        if len > 0 {
            stats.units += match request.op {
                Op::Discard => ((offset + len) / 4096).saturating_sub(offset.div_ceil(4096)),
                _ => (offset + len).div_ceil(4096) - offset / 4096,
            };
            if request.op == Op::Write {
                let slot = u64::from(self.p.geometry.slot_bytes);
                self.write_slots += (offset + len).div_ceil(slot) - offset / slot;
            }
        }
    }
}

/// What the buffer needs for a request.
pub(crate) fn lend<'a>(
    side: &'a mut HostSide,
    p: &Params,
    now: Time,
    protected: Option<u32>,
    bug: Plant<Bug>,
) -> Host<'a> {
    Host {
        side,
        now,
        unit_pages: p.unit_pages,
        through: p.buffer.write_through,
        staging: p.buffer.staging,
        protected,
        bug,
    }
}

/// An empty buffer.
fn new_front(p: &Params) -> Box<dyn Front> {
    p.buffer.policy.build(p.buffer_shape()).expect("checked when resolved")
}

/// Factory-bad blocks: drawn from the seed, the same for the same seed.
fn with_factory_bad(p: &Params, faults: &FaultPlan) -> FaultPlan {
    let mut plan = faults.clone();
    if p.bad.factory_ppm > 0 {
        let mut rng = block::Rng::stream(p.seed, "nand/factory-bad");
        for block in 0..p.geometry.blocks() {
            if rng.ratio(p.bad.factory_ppm, 1_000_000) {
                plan.faults.push(nand::Fault::BadBlock { block: block::BlockId(block) });
            }
        }
    }
    plan
}

impl BlockDevice for Drive {
    fn capacity(&self) -> Sectors {
        Sectors(u64::from(self.p.logical_pages) * 8)
    }
    fn atomic_unit(&self) -> block::Bytes {
        block::Bytes(block::UNIT_BYTES)
    }

    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        self.admit(at, &request)?;
        if self.p.tx.is_some() {
            self.refuse_owned(&request)?;
        }
        self.start(&request)?;
        let done = self.serve(at, request, self.protected())?;
        self.ftl.checkpoint_if_due()?;
        Ok(done)
    }
}
