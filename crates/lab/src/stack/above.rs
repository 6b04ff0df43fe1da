//! A host log above a drive, counted as one device.

use block::{BlockDevice, DeviceError, Lba, Op, Request, Sectors, Time, UNIT_BYTES};
use remap::HostLog;
use remap::paper::PaperLog;
use ssd::{AppStats, Drive, OpStats, Stats};

use crate::{Device, LabError};

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

/// A host log that owns the drive below it.
pub trait Layer: BlockDevice {
    /// The drive.
    fn drive(&self) -> &Drive;
    /// The drive, to be told something.
    fn drive_mut(&mut self) -> &mut Drive;
    /// The latest moment it asked anything of the drive.
    fn clock(&self) -> Time;
    /// Counters since it was made; bytes asked of it and of the drive are counted around it.
    fn counts(&self) -> LayerCounts;
    /// Whether its tables and counters agree.
    ///
    /// # Errors
    /// What does not.
    fn check(&self) -> Result<(), String>;
}

impl Layer for PaperLog<Drive> {
    fn drive(&self) -> &Drive {
        self.device()
    }
    fn drive_mut(&mut self) -> &mut Drive {
        self.device_mut()
    }
    fn clock(&self) -> Time {
        PaperLog::clock(self)
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

impl Layer for HostLog<Drive> {
    fn drive(&self) -> &Drive {
        self.device()
    }
    fn drive_mut(&mut self) -> &mut Drive {
        self.device_mut()
    }
    fn clock(&self) -> Time {
        HostLog::now(self)
    }
    fn counts(&self) -> LayerCounts {
        let c = self.counters();
        let counts = vec![
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
    host: [OpStats; 4],
    /// Reads and writes, by application.
    requests: Vec<u64>,
    /// Counters when they were last reset.
    before: LayerCounts,
}

impl<L: Layer> Above<L> {
    pub(super) fn new(layer: L) -> Above<L> {
        let before = layer.counts();
        Above { layer, host: [OpStats::default(); 4], requests: Vec::new(), before }
    }

    fn count(&mut self, request: &Request<'_>) {
        let op = &mut self.host[request.op as usize];
        let (first, end) = (request.lba.0, request.lba.0 + request.sectors.0);
        op.ops += 1;
        op.bytes += request.sectors.bytes().0;
        op.units += match request.op {
            Op::Read | Op::Write => end.div_ceil(UNIT) - first / UNIT,
            Op::Discard => (end / UNIT).saturating_sub(first.div_ceil(UNIT)),
            Op::Flush => 0,
        };
        let app = usize::from(request.hint.app.0);
        if app >= self.requests.len() {
            self.requests.resize(app + 1, 0);
        }
        self.requests[app] += u64::from(matches!(request.op, Op::Read | Op::Write));
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

impl<L: Layer> BlockDevice for Above<L> {
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
        self.count(&request);
        whole(&mut request);
        if request.op != Op::Flush && request.sectors.0 == 0 {
            return Ok(at);
        }
        self.layer.submit(at, request)
    }
}

impl<L: Layer> Device for Above<L> {
    fn stats(&self) -> Stats {
        let mut stats = self.layer.drive().stats();
        stats.host = self.host;
        stats.apps.resize(self.requests.len().max(stats.apps.len()), AppStats::default());
        for (i, app) in stats.apps.iter_mut().enumerate() {
            app.requests = self.requests.get(i).copied().unwrap_or(0);
        }
        stats
    }
    fn layers(&self) -> Vec<LayerCounts> {
        let written = |host: &[OpStats; 4]| host[Op::Write as usize].bytes;
        let mut counts = self.layer.counts().since(&self.before);
        counts.asked = written(&self.host);
        counts.below = written(&self.layer.drive().stats().host);
        vec![counts]
    }
    fn reset_stats(&mut self) {
        self.layer.drive_mut().reset_stats();
        self.host = [OpStats::default(); 4];
        self.requests.clear();
        self.before = self.layer.counts();
    }
    fn set_timing(&mut self, on: bool) {
        self.layer.drive_mut().set_timing(on);
    }
    fn check(&self) -> Result<(), LabError> {
        self.layer.check().map_err(|what| LabError::Check { contract: "C8".to_string(), what })?;
        Device::check(self.layer.drive())
    }
    fn cool_buffer(&mut self) {
        self.layer.drive_mut().cool_buffer();
    }
    fn slots_per_page(&self) -> u32 {
        self.layer.drive().params().geometry.slots_per_page
    }
    fn now(&self) -> Time {
        Device::now(self.layer.drive()).max(self.layer.clock())
    }
}
