//! The layers of a stack over something whose power can be cut: in virtual time as crate `stack` builds
//! them, or one log by its live shell, whose threads take turns.

use block::{BlockDevice, Bytes, DeviceError, DiskCut, Op, Request, Sectors, Time};
use nand::Cut;
use remap::{LiveLog, LogOptions};
use ssd::Stats;
use stack::modelled::Start;
use stack::{Device, Layer, Modelled, StackError};

use super::spec::StackSpec;
use crate::drive::DriveSubject;
use crate::failure::{Contract, Failure};
use crate::remap::live::LiveStack;
use crate::shared::{Cuttable, Remains, SharedDisk, disk_cut};
use crate::subject::{DurableKind, Subject};

enum Layers {
    Modelled(Modelled),
    Live(Box<LiveStack>),
}

/// See above.
pub(crate) struct Layered {
    layers: Layers,
    ground: SharedDisk,
    capacity: Sectors,
    /// The lowest layer takes a disk that tears its blocks.
    torn: bool,
    /// Sectors that were written to the highest layer.
    asked: Sectors,
    /// No request is made before the one before it, nor before the layers were up: whoever mounts them
    /// has a clock of his own.
    last: Time,
}

impl Layered {
    /// Starts the layers of blocks of a stack.
    pub(super) fn start(
        spec: &StackSpec,
        ground: SharedDisk,
        start: Start,
    ) -> Result<Layered, String> {
        let torn = matches!(spec.layers.first(), Some(Layer::Log(_) | Layer::PaperLog(_)));
        let (layers, capacity) = match (spec.live, spec.layers.first()) {
            (Some(seed), Some(Layer::Log(keys))) => {
                let options = keys.log(LogOptions::default()).map_err(|e| e.to_string())?;
                let mut blocks = 0;
                let log = LiveStack::start(ground.clone(), &options, seed, |medium, around| {
                    let log = match start {
                        Start::Again => LiveLog::open(medium, &options, around),
                        _ => LiveLog::format(medium, &options, around),
                    }?;
                    blocks = log.blocks();
                    Ok(log)
                });
                let log = log.map_err(|e| e.to_string())?;
                if let Some(why) = log.read_only() {
                    return Err(why);
                }
                (Layers::Live(Box::new(log)), Sectors(u64::from(blocks) * 8))
            }
            _ => {
                let below = Modelled::over(ground.clone());
                let top = below.start(&spec.layers, "a search", start);
                let top = top.map_err(|e| e.to_string())?;
                let capacity = top.capacity();
                (Layers::Modelled(top), capacity)
            }
        };
        let mut all =
            Layered { layers, ground, capacity, torn, asked: Sectors(0), last: Time::ZERO };
        all.last = all.ready();
        Ok(all)
    }

    /// From when on it takes requests.
    pub(super) fn ready(&self) -> Time {
        let layers = match &self.layers {
            Layers::Modelled(layers) => layers.now(),
            Layers::Live(log) => log.now(),
        };
        layers.max(self.ground.get().answered())
    }

    /// A clean stop.
    pub(super) fn end(&mut self, at: Time) -> Result<Time, DeviceError> {
        self.last = self.last.max(at);
        let at = self.last;
        match &mut self.layers {
            Layers::Modelled(layers) => layers.stop(at),
            Layers::Live(log) => log.stop(at),
        }
    }
}

impl BlockDevice for Layered {
    fn capacity(&self) -> Sectors {
        self.capacity
    }
    fn atomic_unit(&self) -> Bytes {
        Bytes(block::UNIT_BYTES)
    }
    fn flush_covers_submitted(&self) -> bool {
        match &self.layers {
            Layers::Modelled(layers) => layers.flush_covers_submitted(),
            Layers::Live(_) => true,
        }
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        if request.op == Op::Write {
            self.asked = Sectors(self.asked.0 + request.sectors.0);
        }
        self.last = self.last.max(at);
        let at = self.last;
        match &mut self.layers {
            Layers::Modelled(layers) => layers.submit(at, request),
            Layers::Live(log) => log.submit(at, request),
        }
    }
}

/// Its operations and cuts are those of the bottom.
impl Cuttable for Layered {
    fn ops(&self) -> u64 {
        self.ground.get().ops()
    }
    fn op(&self, op: u64) -> Option<DurableKind> {
        self.ground.get().op(op)
    }
    fn has_pairs(&self) -> bool {
        self.ground.get().has_pairs()
    }
    fn saves_itself(&self) -> bool {
        self.ground.get().saves_itself()
    }
    fn image(&self) -> Result<Remains, Failure> {
        self.ground.get().image()
    }
    fn image_at_cut(&self, cut: &Cut, disk: &DiskCut) -> Option<(Remains, Time)> {
        let torn = disk_cut(cut);
        self.ground.get().image_at_cut(cut, if self.torn { &torn } else { disk })
    }
    fn forget(&mut self, before: Time) {
        self.ground.get().forget(before);
    }
    fn written(&self) -> Sectors {
        self.asked
    }
    fn answered(&self) -> Time {
        self.ready()
    }
    fn event_hash(&self) -> u64 {
        self.ground.get().event_hash()
    }
    fn stop(&mut self) -> Result<(), DeviceError> {
        self.end(self.ready()).map(drop)
    }
    fn check(&self) -> Result<(), Failure> {
        match &self.layers {
            Layers::Modelled(layers) => layers.check().map_err(|error| match error {
                StackError::Broken { contract, what } => {
                    Failure::new(contract.parse().unwrap_or(Contract::C7), what)
                }
                other => Failure::new(Contract::C7, other.to_string()),
            }),
            Layers::Live(log) => {
                log.check().map_err(|error| Failure::new(Contract::C7, error.to_string()))
            }
        }
    }
}

/// What lies at the bottom, for the layers that crate `stack` puts on it.
impl Device for SharedDisk {
    fn stats(&self) -> Stats {
        Stats::default()
    }
    fn reset_stats(&mut self) {}
    fn set_timing(&mut self, _: bool) {}
    fn check(&self) -> Result<(), StackError> {
        let checked = self.get().check();
        checked.map_err(|failure| StackError::Broken {
            contract: failure.contract.to_string(),
            what: failure.what,
        })
    }
    fn cool_buffer(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn slots_per_page(&self) -> u32 {
        1
    }
    fn now(&self) -> Time {
        self.get().answered()
    }
}

impl SharedDisk {
    /// Sectors that it offers.
    pub(super) fn capacity_now(&self) -> Sectors {
        self.get().capacity()
    }
}

impl Cuttable for DriveSubject {
    fn ops(&self) -> u64 {
        Subject::ops(self)
    }
    fn op(&self, op: u64) -> Option<DurableKind> {
        Subject::op(self, op)
    }
    fn has_pairs(&self) -> bool {
        Subject::has_pairs(self)
    }
    fn saves_itself(&self) -> bool {
        Subject::saves_itself(self)
    }
    fn image(&self) -> Result<Remains, Failure> {
        Subject::image(self).map(|image| Remains::Flash(Box::new(image)))
    }
    fn image_at_cut(&self, cut: &Cut, _: &DiskCut) -> Option<(Remains, Time)> {
        let (image, instant) = Subject::image_at_cut(self, cut)?;
        Some((Remains::Flash(Box::new(image)), instant))
    }
    fn forget(&mut self, before: Time) {
        Subject::forget(self, before);
    }
    fn written(&self) -> Sectors {
        Sectors(self.drive().stats().of(Op::Write).bytes / block::SECTOR_BYTES)
    }
    fn answered(&self) -> Time {
        self.drive().now()
    }
    fn event_hash(&self) -> u64 {
        Subject::event_hash(self)
    }
    fn check(&self) -> Result<(), Failure> {
        Subject::check(self)
    }
}
