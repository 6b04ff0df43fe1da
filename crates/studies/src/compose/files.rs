//! A file system with a file server's load, on a part of a drive or on a host log over it.

use block::{BlockDevice, DeviceError, Request, Sectors, Time};
use lab::LabError;
use lab::fileload::{Cache, Clients, Filebench, Flow, Kind, Sparse, Volume};
use lfs::Cause;
use lfs::fs::{Cleaning, FsOptions as Mount, Scj};
use remap::HostLog;
use ssd::Drive;

use super::cell::Mechanisms;
use super::measured::{Done, Layers};
use crate::port::Port;

/// What stands between a volume and its part of the drive.
enum Above {
    Nothing(Port<Drive>),
    Log(Box<HostLog<Port<Drive>>>),
}

impl BlockDevice for Above {
    fn capacity(&self) -> Sectors {
        match self {
            Above::Nothing(port) => port.capacity(),
            Above::Log(log) => log.capacity(),
        }
    }
    fn atomic_unit(&self) -> block::Bytes {
        match self {
            Above::Nothing(port) => port.atomic_unit(),
            Above::Log(log) => log.atomic_unit(),
        }
    }
    fn flush_covers_submitted(&self) -> bool {
        match self {
            Above::Nothing(port) => port.flush_covers_submitted(),
            Above::Log(log) => log.flush_covers_submitted(),
        }
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        match self {
            Above::Nothing(port) => port.submit(at, request),
            Above::Log(log) => log.submit(at, request),
        }
    }
}

impl Above {
    fn new(port: Port<Drive>, log: bool) -> Result<Above, LabError> {
        if !log {
            return Ok(Above::Nothing(port));
        }
        let failed = |e: remap::LogError| LabError::Failed(format!("host log: {e}"));
        let mut options = remap::LogOptions::default();
        for (name, value) in [("payload", "none"), ("segment", "512 KiB")] {
            options.set(name, value).map_err(failed)?;
        }
        Ok(Above::Log(Box::new(HostLog::format(port, &options).map_err(failed)?)))
    }

    /// Blocks that a log wrote beside those it was asked to write: copies, and all else.
    fn extra(&self) -> [u64; 2] {
        match self {
            Above::Nothing(_) => [0; 2],
            Above::Log(log) => {
                let c = log.counters();
                [c.gc, c.header + c.meta + c.root]
            }
        }
    }

    fn check(&self) -> Result<(), LabError> {
        match self {
            Above::Nothing(_) => Ok(()),
            Above::Log(log) => log.check_counts().map_err(|e| LabError::Check {
                contract: "C8".to_string(),
                what: format!("host log: {e}"),
            }),
        }
    }
}

/// KiB of a file, threads, and per cent of the volume that the files take.
const KIB: u64 = 128;
const THREADS: usize = 16;
const FULL: u64 = 75;
/// Slots of the journal's area.
const SLOTS: u32 = 16;

/// A mounted volume with a load on it.
pub(crate) struct Files {
    volume: Volume<Sparse<Above>>,
    load: Filebench,
}

impl Files {
    /// Makes a volume of four fifths of a part of the drive, fills it and writes as much again: the
    /// last fifth is what a host log needs, and the drive's spare space without one. Without SCJ it is
    /// cleaned as `base` is.
    pub(crate) fn new(
        port: Port<Drive>,
        on: Mechanisms,
        base: Cleaning,
        seed: u64,
    ) -> Result<Files, LabError> {
        let blocks = port.capacity().0 / 8 * 4 / 5 / 512 * 512;
        let above = Above::new(port, on.remap)?;
        let scj = Scj { slots: SLOTS, threshold: Some(blocks / 128), count_needed: true, batch: 1 };
        let options = Mount {
            cleaning: if on.scj { Cleaning::Scj(scj) } else { base },
            cached_nodes: (blocks / 4) as usize,
            ..Mount::default()
        };
        if above.capacity().0 < blocks * 8 {
            let what = format!("{blocks} blocks of a volume on {} sectors", above.capacity().0);
            return Err(LabError::Failed(what));
        }
        let device = Sparse::new(above, Sectors(blocks * 8));
        let mut volume =
            Volume::make(device, Time::ZERO, options, Cache::new(blocks / 4, blocks / 20))?;
        let (_, user) = volume.usage()?;
        let mut load = Filebench::new(Flow::Fileserver, THREADS, KIB, user * FULL / 100, seed);
        lab::fileload::Load::fill(&mut load, &mut volume)?;
        let goal = volume.written + blocks;
        let mut clients = Clients::new(THREADS, volume.ready());
        while volume.written < goal {
            clients.step(&mut load, &mut volume)?;
        }
        settle(&mut volume)?;
        Ok(Files { volume, load })
    }

    /// Goes on until so many blocks more are written.
    pub(crate) fn run(mut self, start: Time, writes: u64) -> Result<Done, LabError> {
        let (before, written) = (self.volume.fs().stats(), self.volume.written);
        let extra = self.volume.fs().device().below().extra();
        let start = start.max(self.volume.ready());
        let mut clients = Clients::new(THREADS, start);
        let mut done = Done::default();
        while self.volume.written < written + writes {
            let (_, ready, step) = clients.step(&mut self.load, &mut self.volume)?;
            if step.kind == Kind::Update {
                done.latency.add(step.at.since(ready));
            }
        }
        settle(&mut self.volume)?;
        let stats = self.volume.fs().stats().since(&before);
        let above = self.volume.fs().device().below();
        above.check()?;
        let [copies, records] = above.extra();
        let moved = stats.of(Cause::MovedData) + stats.of(Cause::MovedNode);
        let data = stats.of(Cause::Data);
        done.user = self.volume.written - written;
        done.elapsed = self.volume.fs().done().since(start);
        done.layers = Layers {
            data,
            moved,
            metadata: stats.all_written() - data - moved,
            journal: stats.of(Cause::Journal),
            cleanings: stats.gc_segments.iter().sum(),
            checkpoints: stats.triggers.values().sum(),
            log_copies: copies - extra[0],
            log_records: records - extra[1],
        };
        Ok(done)
    }
}

fn settle(volume: &mut Volume<Sparse<Above>>) -> Result<(), LabError> {
    volume.fs_mut().take_events();
    let failed = |e| LabError::Failed(format!("file system, the last writes: {e}"));
    volume.fs_mut().settle().map_err(failed)
}
