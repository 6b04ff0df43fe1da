//! Where policies that evict whole blocks are at home: drives whose map knows blocks, not pages. A card and an
//! e.MMC, filled once, then a database's captured requests.

use std::sync::atomic::AtomicBool;

use block::{BlockDevice, Op};
use lab::LabError;
use lab::input::{Fit, Origin, Workload};
use lab::replay::{Mode, ReplayPlan, Speed, Watch, replay};
use lab::scenario::Scenario;
use report::study::{Section, Table, Value};
use report::values;

use super::{Options, Scale, times};
use crate::parallel::beside;

const DRIVES: [&str; 2] = ["sd-card", "emmc"];
/// Their own parts are as they are; fewer blocks of them.
const SCALE: &str = "1/4";
/// What BPLRU and FAB were made for, the policy of most drives, the best of the page policies, and isolation.
const POLICIES: [&str; 5] = ["lru", "fab", "bplru", "s3-fifo", "aoi(cap=32)"];
/// What such policies were proposed with (Kim and Ahn 2008: 1 to 16 MiB); a card has less, too little for isolation.
const BUFFERS: [&str; 2] = ["1 MiB", "8 MiB"];
const TRACE: &str = "sqlite_wal_full_ext4.csv.zst";

struct Cell {
    drive: &'static str,
    policy: &'static str,
    buffer: &'static str,
}

/// What a cell gave.
struct Found {
    /// Pages of 4 KiB that the host wrote, and that the flash programmed.
    written: u64,
    programmed: u64,
    erases: u64,
    switch: u64,
    partial: u64,
    full: u64,
    /// Nanoseconds from the first request to the last answer.
    elapsed: u64,
}

impl Cell {
    fn run(&self, options: &Options) -> Result<Found, LabError> {
        let mut scenario = Scenario::default();
        for (key, value) in [
            ("drive.preset", self.drive),
            ("drive.scale", SCALE),
            ("drive.buffer.policy", self.policy),
            ("drive.buffer.size", self.buffer),
        ] {
            scenario.set(key, value)?;
        }
        let params = scenario.config()?.resolve()?;
        let mut stack = scenario.stack.build(&params)?;
        let stop = AtomicBool::new(false);
        let watch = Watch { stop: &stop, progress: &|_| {} };
        let mut plan = ReplayPlan {
            mode: Mode::Untimed,
            speed: Speed::ONE,
            queue_depth: params.queue_depth,
            flush_every: None,
            measure_after: None,
        };
        let capacity = stack.capacity().bytes();
        let fill =
            format!("fio,rw=write,bs=128KiB,size={}", capacity.0 / (128 << 10) * (128 << 10));
        let whole = Workload { origin: Some(Origin::Recipe(fill)), ..Workload::default() };
        replay(&mut stack, &mut *whole.prepare(1)?.open(1, capacity)?, &plan, watch)?;
        plan.mode = Mode::Closed { depth: params.queue_depth, per_app: false };
        let load = Workload {
            origin: Some(Origin::Files(vec![options.data.join(TRACE).into()])),
            fit: Fit::Compact(block::Bytes(1 << 20)),
            ..Workload::default()
        };
        let mut source = load.prepare(1)?.open(1, capacity)?;
        let outcome = replay(&mut stack, &mut *source, &plan, watch)?;
        let stats = &outcome.stats;
        Ok(Found {
            written: stats.of(Op::Write).bytes / 4096,
            programmed: stats.nand.programs_total() * stats.slot_bytes / 4096,
            erases: stats.nand.erases,
            switch: stats.merges.switch,
            partial: stats.merges.partial,
            full: stats.merges.full,
            elapsed: outcome.tally.end.since(outcome.tally.start).as_ns(),
        })
    }
}

/// Each policy on each drive, with a small buffer and a large one.
pub(super) fn section(options: &Options) -> Result<Section, LabError> {
    let buffers = if options.scale == Scale::Quick { &BUFFERS[1..] } else { &BUFFERS[..] };
    let cells: Vec<Cell> = DRIVES
        .iter()
        .flat_map(|drive| buffers.iter().map(move |buffer| (*drive, *buffer)))
        .flat_map(|(drive, buffer)| {
            POLICIES.iter().map(move |policy| Cell { drive, policy, buffer })
        })
        .collect();
    let found = beside(options.threads, &cells, |cell| cell.run(options))?;
    let mut table = Table::new([
        ("drive", "drive"),
        ("buffer", "buffer"),
        ("policy", "policy"),
        ("written", "pages written"),
        ("waf", "programmed for each"),
        ("erases", "erases"),
        ("switch", "merges: switch"),
        ("partial", "partial"),
        ("full", "full"),
        ("seconds", "seconds"),
    ]);
    for (cell, of) in cells.iter().zip(&found) {
        let seconds: Value = times(of.elapsed, 1_000_000_000);
        table.row(values![
            cell.drive,
            cell.buffer,
            cell.policy,
            of.written,
            times(of.programmed, of.written),
            of.erases,
            of.switch,
            of.partial,
            of.full,
            seconds,
        ]);
    }
    Ok(Section::new(
        "block_maps",
        "Beyond the paper: policies of blocks, on drives with a map of blocks",
        format!(
            "{TRACE} on a hybrid FTL (preset, scaled {SCALE}), filled in order before; requests as fast as \
             the queue takes them. FAB and BPLRU evict a whole block of the map at a time, so that log blocks are \
             merged with less copying."
        ),
        table,
    ))
}
