//! A load on a volume, from the fill to its numbers.
//!
//! Invariants: counters and times are those of the measured part alone; blocks written by cause add
//! up to what the device was asked to write, or there is no result (C8).

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use block::{Op, Span, Time};
use lfs::Cause;
use lfs::fs::{CleaningTime, Event, FsOptions, Stats, Trigger};
use ssd::Params;

use super::clients::Clients;
use super::{Cache, Kind, Load, Sparse, Volume};
use crate::histogram::Histogram;
use crate::replay::Watch;
use crate::{Amplification, Device, LabError, LayerCounts, Modelled, StackConfig};

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The drive.
    pub params: Params,
    /// What stands above it.
    pub stack: StackConfig,
    /// Blocks of the volume.
    pub blocks: u64,
    /// How it is mounted.
    pub options: FsOptions,
    /// Blocks of the page cache, and those that may be dirty.
    pub cache: (u64, u64),
    /// Blocks that programs write before anything is measured, and then.
    pub writes: (u64, u64),
}

/// A cleaning, or a checkpoint, of the measured part.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When, since the measured part began.
    pub at: Span,
    /// How long.
    pub took: Span,
    /// Dirty metadata blocks: written by a checkpoint; before a cleaning.
    pub dirty: u32,
}

/// What came out.
pub struct Measured {
    /// The file system's counters.
    pub stats: Stats,
    /// Blocks that programs wrote.
    pub user: u64,
    /// Steps that count.
    pub operations: u64,
    /// Virtual time.
    pub elapsed: Span,
    /// Latencies of reads and updates.
    pub latency: [Histogram; 2],
    /// Blocks in use and blocks that users may have: after the fill, at the end.
    pub usage: [(u64, u64); 2],
    /// Cleanings, each with where its time went and blocks copied.
    pub cleanings: Vec<(Sample, CleaningTime, u32)>,
    /// Checkpoints that were not part of a cleaning.
    pub checkpoints: Vec<(Sample, Trigger)>,
    /// Metadata that cleanings made dirty.
    pub dirtied: u64,
    /// The counters of the device below the volume, and of the layers in it.
    pub below: (ssd::Stats, Vec<LayerCounts>),
}

impl Measured {
    /// What the device below the volume adds to what the volume writes.
    pub fn amplification(&self) -> Amplification {
        Amplification::of(&self.below.0, &self.below.1)
    }
    /// Blocks written to the device, whatever for.
    pub fn written(&self) -> u64 {
        self.stats.all_written()
    }
    /// Node, table, checkpoint and journal blocks.
    pub fn metadata(&self) -> u64 {
        use Cause::{Dentry, Journal, Nat, Node, Pack, Sit, Ssa};
        [Node, Dentry, Nat, Sit, Ssa, Pack, Journal].map(|cause| self.stats.of(cause)).iter().sum()
    }
    /// Blocks that programs wrote in a second of virtual time.
    pub fn rate(&self) -> u64 {
        let ps = u128::from(self.elapsed.as_ps()).max(1);
        (u128::from(self.user) * 1_000_000_000_000 / ps) as u64
    }
    /// Segments cleaned.
    pub fn cleaned(&self) -> u64 {
        self.stats.gc_segments.iter().sum()
    }
    /// Mean time of a cleaning.
    pub fn cleaning_mean(&self) -> Span {
        Span::from_ps(self.stats.cleaning.total().as_ps() / self.cleaned().max(1))
    }
    /// A percentile of the time of a cleaning, in hundredths of a per cent.
    pub fn cleaning_percentile(&self, per_10k: u64) -> Option<Span> {
        let mut all = Histogram::default();
        self.cleanings.iter().for_each(|(sample, ..)| all.add(sample.took));
        all.percentile(per_10k)
    }
    /// Checkpoints by what asked for them, as text.
    pub fn triggers(&self) -> String {
        let each = self.stats.triggers.iter();
        let texts: Vec<String> = each.map(|(t, n)| format!("{} {n}", &t.name()[3..])).collect();
        if texts.is_empty() { "none".to_string() } else { texts.join(", ") }
    }
}

/// Counts what a load's steps take.
struct Meter {
    latency: [Histogram; 2],
    operations: u64,
    /// When each thread's counted step began, if it has several parts.
    begun: BTreeMap<u64, Time>,
}

/// Runs `load` as `plan` says.
///
/// # Errors
/// A stack that cannot be, what the file system says, and counters that do not add up.
pub fn measure(plan: &Plan, load: &mut dyn Load<Sparse<Modelled>>) -> Result<Measured, LabError> {
    let (stop, progress) = (AtomicBool::new(false), |_| ());
    measure_watched(plan, load, Watch { stop: &stop, progress: &progress })
}

/// The same; `watch` is told of the steps, and may end it.
///
/// # Errors
/// As [`measure`]; [`LabError::Interrupted`].
pub fn measure_watched(
    plan: &Plan,
    load: &mut dyn Load<Sparse<Modelled>>,
    watch: Watch<'_>,
) -> Result<Measured, LabError> {
    let mut stack = plan.stack.build(&plan.params)?;
    stack.set_timing(false);
    let start = stack.now();
    let device = Sparse::new(stack, block::Sectors(plan.blocks * 8));
    let cache = Cache::new(plan.cache.0, plan.cache.1);
    let mut volume = Volume::make(device, start, plan.options, cache)?;
    load.fill(&mut volume)?;
    let filled = volume.usage()?;
    let goal = volume.written + plan.writes.0;
    let mut clients = Clients::new(load.threads(), volume.ready());
    while volume.written < goal {
        clients.step(load, &mut volume)?;
        watch.tick(1)?;
    }
    volume.fs_mut().take_events();
    volume.fs_mut().settle().map_err(|e| super::failed("the first writes", &e))?;
    volume.fs_mut().device_mut().below_mut().set_timing(true);
    volume.fs_mut().device_mut().below_mut().reset_stats();
    measured(plan, load, volume, filled, watch)
}

fn measured(
    plan: &Plan,
    load: &mut dyn Load<Sparse<Modelled>>,
    mut volume: Volume<Sparse<Modelled>>,
    filled: (u64, u64),
    watch: Watch<'_>,
) -> Result<Measured, LabError> {
    let before = volume.fs().stats();
    let (start, written) = (volume.fs().done(), volume.written);
    let mut clients = Clients::new(load.threads(), start);
    let mut meter = Meter { latency: Default::default(), operations: 0, begun: BTreeMap::new() };
    let (mut cleanings, mut checkpoints, mut dirtied) = (Vec::new(), Vec::new(), 0);
    while volume.written < written + plan.writes.1 {
        let (thread, ready, done) = clients.step(load, &mut volume)?;
        watch.tick(1)?;
        meter.count(thread as u64, ready, done.kind, done.at);
        for event in volume.fs_mut().take_events() {
            match event {
                Event::Cleaned { at, copied, dirty, time, .. } => {
                    let sample =
                        Sample { at: at.since(start), took: time.total(), dirty: dirty[0] };
                    cleanings.push((sample, time, copied));
                    dirtied += u64::from(dirty[1].saturating_sub(dirty[0]));
                }
                Event::Checkpoint { at, trigger, dirty, time } => {
                    let sample = Sample { at: at.since(start), took: time.total(), dirty };
                    checkpoints.push((sample, trigger));
                }
            }
        }
    }
    volume.fs_mut().settle().map_err(|e| super::failed("the last writes", &e))?;
    let end = volume.fs().done();
    let stats = volume.fs().stats().since(&before);
    let user = volume.written - written;
    let used = volume.usage()?;
    let stack = volume.fs().device().below();
    let (below, layers) = (stack.stats(), stack.layers());
    let asked = below.of(Op::Write).units;
    let all = stats.all_written();
    if asked != all {
        let what = format!("{all} blocks written by cause, {asked} asked of the device");
        return Err(LabError::Check { contract: "C8".to_string(), what });
    }
    stack.check()?;
    Ok(Measured {
        stats,
        user,
        operations: meter.operations,
        elapsed: end.since(start),
        latency: meter.latency,
        usage: [filled, used],
        cleanings,
        checkpoints,
        dirtied,
        below: (below, layers),
    })
}

impl Meter {
    fn count(&mut self, thread: u64, ready: Time, kind: Kind, done: Time) {
        if kind == Kind::Part {
            self.begun.entry(thread).or_insert(ready);
            return;
        }
        let begun = self.begun.remove(&thread).unwrap_or(ready);
        self.operations += 1;
        self.latency[kind as usize].add(done.since(begun));
    }
}
