//! A host log above a device, counted as one.

use block::{BlockDevice, Data, DeviceError, Lba, Op, Request, Sectors, Time, UNIT_BYTES};
use remap::paper::PaperLog;
use remap::{HostLog, LogError};
use ssd::{Drive, Stats};

use super::client::Client;
use super::{Device, Modelled};
use crate::StackError;

/// Sectors of a 4 KiB block.
const UNIT: u64 = UNIT_BYTES / block::SECTOR_BYTES;

/// What a layer above the drive counted, in 4 KiB blocks written unless its name says otherwise.
#[derive(Clone, Debug, Default)]
pub struct LayerCounts {
    /// The layer.
    pub name: &'static str,
    /// Blocks it wrote to the layer below, whatever for.
    pub backing: u64,
    /// Bytes it was asked to write.
    pub asked: u64,
    /// Bytes the layer below was asked to write, by that layer's own count.
    pub below: u64,
    /// Of them by kind, and what else it counts.
    pub counts: Vec<(&'static str, u64)>,
    /// What it has now.
    pub gauges: Vec<(&'static str, u64)>,
}

impl LayerCounts {
    fn since(&self, before: &LayerCounts) -> LayerCounts {
        let mut counts = self.counts.clone();
        for ((_, count), (_, earlier)) in counts.iter_mut().zip(&before.counts) {
            *count = count.saturating_sub(*earlier);
        }
        LayerCounts {
            backing: self.backing - before.backing,
            counts,
            gauges: self.gauges.clone(),
            ..*self
        }
    }
}

/// A host log that owns what is below it.
pub trait Log: BlockDevice {
    /// What is below.
    fn below(&self) -> &Modelled;
    /// What is below, to be told something.
    fn below_mut(&mut self) -> &mut Modelled;
    /// The latest moment it asked anything of the drive.
    fn clock(&self) -> Time;
    /// A clean stop, of the log alone.
    ///
    /// # Errors
    /// The device's.
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError>;
    /// Counters since it was made; bytes asked of it and of the drive are counted around it.
    fn counts(&self) -> LayerCounts;
    /// Whether its tables and counters agree.
    ///
    /// # Errors
    /// What does not.
    fn check(&self) -> Result<(), String>;
}

impl Log for PaperLog<Modelled> {
    fn below(&self) -> &Modelled {
        self.device()
    }
    fn below_mut(&mut self) -> &mut Modelled {
        self.device_mut()
    }
    fn clock(&self) -> Time {
        PaperLog::clock(self)
    }
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        PaperLog::stop(self, at)
    }
    fn counts(&self) -> LayerCounts {
        let s = self.stats();
        let counts = vec![
            ("commits", s.commits),
            ("dropped_trims", s.dropped_trims),
            ("log", s.log),
            ("moved", s.moved),
            ("probes", s.probes),
            ("super", s.supers),
            ("tables", s.tables),
            ("turns", s.turns),
            ("user", s.user),
        ];
        let gauges = vec![("node_bytes", self.node_memory().0)];
        LayerCounts { name: "remap", backing: s.backing, counts, gauges, ..LayerCounts::default() }
    }
    fn check(&self) -> Result<(), String> {
        let s = self.stats();
        s.adds_up().then_some(()).ok_or_else(|| format!("blocks by kind do not add up: {s:?}"))
    }
}

impl Log for HostLog<Modelled> {
    fn below(&self) -> &Modelled {
        self.device()
    }
    fn below_mut(&mut self) -> &mut Modelled {
        self.device_mut()
    }
    fn clock(&self) -> Time {
        HostLog::now(self)
    }
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        HostLog::stop(self, at).map_err(|error| match error {
            LogError::Device(error) => error,
            other => DeviceError::Io(other.to_string()),
        })
    }
    fn counts(&self) -> LayerCounts {
        let c = self.counters();
        let counts = vec![
            ("absorbed", c.absorbed),
            ("batches", c.batches),
            ("checkpoints", c.checkpoints),
            ("cleaned", c.cleaned),
            ("gc", c.gc),
            ("header", c.header),
            ("map_misses", c.map_misses),
            ("meta", c.meta),
            ("records", c.records),
            ("root", c.root),
            ("trims", c.trims),
            ("user", c.user),
        ];
        let engine = self.engine();
        let gauges = vec![
            ("free_segments", u64::from(engine.free_segments())),
            ("mapped", engine.mapped()),
            ("map_bytes", engine.memory()),
            ("segment_blocks", u64::from(engine.options().segment_blocks())),
            ("segments", u64::from(engine.geometry().segments)),
        ];
        LayerCounts {
            name: "remap",
            backing: c.written(),
            counts,
            gauges,
            ..LayerCounts::default()
        }
    }
    fn check(&self) -> Result<(), String> {
        HostLog::check(self).map_err(|e| e.to_string())
    }
}

/// A host log with the counters of whoever submits to it.
pub struct Above<L> {
    layer: L,
    client: Client,
    /// Counters when they were last reset.
    before: LayerCounts,
}

impl<L: Log> Above<L> {
    pub(super) fn new(layer: L) -> Above<L> {
        let before = layer.counts();
        Above { layer, client: Client::default(), before }
    }
}

/// The request in whole blocks: a log's table has one entry for each. Discards shrink, others
/// grow; nothing is left of a small discard.
fn whole(request: &mut Request<'_>) {
    let (first, end) = (request.lba.0, request.lba.0 + request.sectors.0);
    let (first, end) = match request.op {
        Op::Flush => return,
        Op::Read | Op::Write => (first / UNIT * UNIT, end.next_multiple_of(UNIT)),
        Op::Discard => (first.next_multiple_of(UNIT), end / UNIT * UNIT),
    };
    request.lba = Lba(first);
    request.sectors = Sectors(end.saturating_sub(first));
}

impl<L: Log> BlockDevice for Above<L> {
    fn capacity(&self) -> Sectors {
        self.layer.capacity()
    }
    fn atomic_unit(&self) -> block::Bytes {
        self.layer.atomic_unit()
    }
    fn flush_covers_submitted(&self) -> bool {
        self.layer.flush_covers_submitted()
    }
    fn submit(&mut self, at: Time, mut request: Request<'_>) -> Result<Time, DeviceError> {
        self.client.count(&request);
        // What carries bytes is written as it is.
        if matches!(request.data, Data::None) {
            whole(&mut request);
        }
        if request.op != Op::Flush && request.sectors.0 == 0 {
            return Ok(at);
        }
        self.layer.submit(at, request)
    }
}

impl<L: Log> Device for Above<L> {
    fn stats(&self) -> Stats {
        self.client.instead(self.layer.below().stats())
    }
    fn layers(&self) -> Vec<LayerCounts> {
        let mut counts = self.layer.counts().since(&self.before);
        counts.asked = self.client.written();
        counts.below = self.layer.below().stats().of(Op::Write).bytes;
        let mut all = vec![counts];
        all.extend(self.layer.below().layers());
        all
    }
    fn reset_stats(&mut self) {
        self.layer.below_mut().reset_stats();
        self.client = Client::default();
        self.before = self.layer.counts();
    }
    fn set_timing(&mut self, on: bool) {
        self.layer.below_mut().set_timing(on);
    }
    fn check(&self) -> Result<(), StackError> {
        self.layer
            .check()
            .map_err(|what| StackError::Broken { contract: "C8".to_string(), what })?;
        self.layer.below().check()
    }
    fn cool_buffer(&mut self) -> Result<(), DeviceError> {
        self.layer.below_mut().cool_buffer()
    }
    fn slots_per_page(&self) -> u32 {
        self.layer.below().slots_per_page()
    }
    fn now(&self) -> Time {
        self.layer.below().now().max(self.layer.clock())
    }
    fn drive_mut(&mut self) -> Option<&mut Drive> {
        self.layer.below_mut().drive_mut()
    }
    fn stop(&mut self, at: Time) -> Result<Time, DeviceError> {
        let done = self.layer.stop(at)?;
        Device::stop(self.layer.below_mut(), done)
    }
    fn end(&mut self) -> Result<(), StackError> {
        self.layer.below_mut().end()
    }
}
