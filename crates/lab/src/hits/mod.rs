//! Hit ratios without a drive: many policies and sizes over one decoding of the workload.
//!
//! The workload is read once and cut into 4 KiB pages; every buffer sees every block of accesses,
//! spread over the threads. Which thread plays a buffer changes nothing, so results are the same
//! on any number of them (contract C9). Clairvoyant policies need the workload twice: once
//! backwards in effect, to learn when each page is used next.

mod curve;
mod document;
mod future;
mod pages;
mod stack;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use block::{Bytes, UNIT_BYTES};
use ssd::{AppStats, BufferShape, BufferStats, HitAccess, HitSim, PolicySpec};
use workload::Source;

use crate::LabError;
use crate::replay::Watch;

pub use curve::{Curve, CurvePoint, Sample};
pub use document::{SCHEMA, document};
use future::Future;
use pages::Pages;

/// Blocks a thread may lag behind the one that reads.
const LAG: usize = 4;

/// One buffer to be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The policy, with its options.
    pub policy: PolicySpec,
    /// DRAM of the buffer, the policy's tables included.
    pub size: Bytes,
}

/// What is counted.
#[derive(Clone, Debug)]
pub struct HitPlan {
    /// The buffers.
    pub cells: Vec<Cell>,
    /// Logical size of the drive: what a policy's tables cover.
    pub capacity: Bytes,
    /// Everything else a policy may ask about the drive; `entries` and `pages` are set here.
    pub shape: BufferShape,
    /// Whether discards are honoured, or are left out.
    pub discards: bool,
    /// Threads that play.
    pub threads: usize,
    /// A miss-ratio curve beside the cells.
    pub curve: Option<Sample>,
}

/// What one buffer counted.
#[derive(Clone, Debug)]
pub struct HitRow {
    /// The buffer.
    pub cell: Cell,
    /// Entries it has beside the policy's tables.
    pub entries: u64,
    /// Per application.
    pub apps: Vec<AppStats>,
    /// Evictions and flushes.
    pub buffer: BufferStats,
    /// Entries per list and other counts of the policy at the end.
    pub occupancy: Vec<(&'static str, usize)>,
}

impl HitRow {
    /// Page accesses and hits of one application, or of all.
    pub fn accesses(&self, app: Option<usize>) -> (u64, u64) {
        let apps = match app {
            Some(app) => self.apps.get(app..=app).unwrap_or(&[]),
            None => &self.apps[..],
        };
        apps.iter().fold((0, 0), |(units, hits), app| {
            (units + app.read_units + app.write_units, hits + app.read_hits + app.write_hits)
        })
    }
    /// Pages read from flash: every read miss.
    pub fn reads(&self) -> u64 {
        self.apps.iter().map(|app| app.read_units - app.read_hits).sum()
    }
    /// Pages programmed: evicted dirty, flushed, or written to complete a block.
    pub fn programs(&self) -> u64 {
        self.buffer.dirty_evictions + self.buffer.flushed + self.buffer.padded
    }
}

/// What a plan counted.
#[derive(Clone, Debug)]
pub struct Hits {
    /// One row per cell, in their order.
    pub rows: Vec<HitRow>,
    /// Page accesses (reads and writes).
    pub accesses: u64,
    /// Different pages accessed, if a clairvoyant policy had them counted.
    pub distinct: Option<u64>,
    /// The curve asked for.
    pub curve: Option<Curve>,
}

/// Opens the workload at its first record.
pub type Open<'a> = dyn Fn() -> Result<Box<dyn Source>, LabError> + 'a;

struct Player {
    place: usize,
    cell: Cell,
    sim: HitSim,
}

/// Plays the workload to every buffer of the plan.
///
/// # Errors
/// A wrong policy or workload, a buffer too small for its policy; [`LabError::Interrupted`].
pub fn count(plan: &HitPlan, open: &Open<'_>, watch: Watch<'_>) -> Result<Hits, LabError> {
    let pages = page_count(plan.capacity)?;
    let mut future = None;
    for cell in &plan.cells {
        if cell.policy.info.clairvoyant && future.is_none() {
            future = Some(Future::read(&mut Pages::new(open()?, pages, plan), watch)?);
        }
    }
    let threads = plan.threads.clamp(1, plan.cells.len().max(1));
    let mut teams: Vec<Vec<Player>> = (0..threads).map(|_| Vec::new()).collect();
    for (place, cell) in plan.cells.iter().enumerate() {
        let entries = (cell.size.0 / UNIT_BYTES) as usize;
        let wrong =
            |what: &str| LabError::Input(format!("{} at {}: {what}", cell.policy, cell.size));
        if cell.policy.info.name == "none" {
            return Err(wrong("expected a policy with entries: without a buffer nothing hits"));
        }
        if entries == 0 {
            return Err(wrong("expected 4 KiB or more, a buffer of one entry"));
        }
        let sim = HitSim::of(&cell.policy, BufferShape { entries, pages, ..plan.shape })
            .map_err(|reason| wrong(&reason.to_string()))?;
        teams[place % threads].push(Player { place, cell: cell.clone(), sim });
    }
    let mut source = Pages::new(open()?, pages, plan);
    let mut curve = plan.curve.map(Curve::new);
    let distinct = future.as_ref().map(|f| f.distinct);
    let mut accesses = 0;
    let mut rows = std::thread::scope(|scope| -> Result<Vec<(usize, HitRow)>, LabError> {
        let mut feeds: Vec<SyncSender<Arc<Vec<HitAccess>>>> = Vec::new();
        let mut workers = Vec::new();
        for team in teams {
            let (feed, blocks) = sync_channel(LAG);
            feeds.push(feed);
            workers.push(scope.spawn(move || play(team, &blocks)));
        }
        let read = feed_all(&mut source, &feeds, &mut curve, future.as_mut(), watch);
        drop(feeds);
        let mut rows = Vec::new();
        for worker in workers {
            rows.extend(worker.join().expect("a policy does not panic")?);
        }
        accesses = read?;
        Ok(rows)
    })?;
    rows.sort_by_key(|(place, _)| *place);
    let rows = rows.into_iter().map(|(_, row)| row).collect();
    Ok(Hits { rows, accesses, distinct, curve })
}

fn page_count(capacity: Bytes) -> Result<u32, LabError> {
    u32::try_from(capacity.0.div_ceil(UNIT_BYTES)).map_err(|_| {
        LabError::Input(format!("{capacity} of address space: expected less than 16 TiB"))
    })
}

fn feed_all(
    source: &mut Pages,
    feeds: &[SyncSender<Arc<Vec<HitAccess>>>],
    curve: &mut Option<Curve>,
    mut future: Option<&mut Future>,
    watch: Watch<'_>,
) -> Result<u64, LabError> {
    let mut accesses = 0;
    loop {
        let mut block = Vec::new();
        if !source.fill(&mut block)? {
            return Ok(accesses);
        }
        accesses += block.iter().filter(|a| pages::is_access(a.op)).count() as u64;
        watch.tick(block.len() as u64)?;
        if let Some(future) = &mut future {
            future.tell(&mut block);
        }
        if let Some(curve) = curve {
            block.iter().for_each(|access| curve.add(access));
        }
        let block = Arc::new(block);
        for feed in feeds {
            // A thread that has ended has panicked, and is joined with that below.
            let _ = feed.send(Arc::clone(&block));
        }
    }
}

fn play(
    mut team: Vec<Player>,
    blocks: &Receiver<Arc<Vec<HitAccess>>>,
) -> Result<Vec<(usize, HitRow)>, LabError> {
    while let Ok(block) = blocks.recv() {
        // A part of a block stays in the processor's cache for all buffers.
        for part in block.chunks(4096) {
            for player in &mut team {
                player.sim.play(part);
            }
        }
    }
    let rows = team.into_iter().map(|player| {
        player.sim.check().map_err(LabError::Input)?;
        let buffer = player.sim.buffer();
        let row = HitRow {
            cell: player.cell,
            entries: buffer.slots,
            apps: player.sim.apps().to_vec(),
            buffer,
            occupancy: player.sim.occupancy(),
        };
        Ok((player.place, row))
    });
    rows.collect()
}
