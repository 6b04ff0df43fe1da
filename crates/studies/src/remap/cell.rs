//! One run of the matrix: a drive, what stands above it, what is written before, the load that is
//! measured.

use std::sync::atomic::AtomicBool;

use block::{BlockDevice, Op, Span};
use ssd::Params;

use super::SEED;
use super::host::{Held, Through};
use lab::input::{Fit, Origin, Workload};
use lab::replay::{Mode, Outcome, ReplayPlan, Speed, Watch, replay};
use lab::scenario::Scenario;
use lab::{Amplification, LabError, Modelled};

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    keys: Vec<(String, String)>,
    before: Vec<Origin>,
    load: Option<Origin>,
    depth: u32,
    flush_every: Option<u64>,
    /// The load's own clock, instead of requests in flight.
    open: bool,
    /// Blocks of a buffer in the host above all, which holds writes back.
    host: u32,
}

impl Default for Cell {
    fn default() -> Cell {
        Cell {
            keys: Vec::new(),
            before: Vec::new(),
            load: None,
            depth: 32,
            flush_every: None,
            open: false,
            host: 0,
        }
    }
}

/// A recipe of the generator of fio's jobs.
fn fio(recipe: &str) -> Origin {
    Origin::Recipe(format!("fio,{recipe}"))
}

impl Cell {
    /// One more key of the drive (`drive.NAME`) or of what is above it (`remap.NAME`).
    pub(super) fn with(mut self, key: &str, value: impl Into<String>) -> Cell {
        self.keys.push((key.to_string(), value.into()));
        self
    }

    /// More keys.
    pub(super) fn with_all(self, keys: &[(&str, &str)]) -> Cell {
        keys.iter().fold(self, |cell, (key, value)| cell.with(key, *value))
    }

    /// What is done before, in no time: a recipe of fio's jobs.
    pub(super) fn after(mut self, recipe: &str) -> Cell {
        self.before.push(fio(recipe));
        self
    }

    /// What is measured: a recipe of fio's jobs.
    pub(super) fn load(mut self, recipe: &str) -> Cell {
        self.load = Some(fio(recipe));
        self
    }

    /// What is measured: a trace.
    pub(super) fn trace(mut self, path: std::path::PathBuf) -> Cell {
        self.load = Some(Origin::Files(vec![path.into()]));
        self
    }

    /// Requests in flight.
    pub(super) fn depth(self, depth: u32) -> Cell {
        Cell { depth, ..self }
    }

    /// Requests arrive when the load's clock says.
    pub(super) fn paced(self) -> Cell {
        Cell { open: true, ..self }
    }

    /// Writes go through a write-back buffer of so many blocks in the host, least recently written first; what
    /// it holds at the end is not written.
    pub(super) fn behind(self, host: u32) -> Cell {
        Cell { host, ..self }
    }

    /// A flush after so many writes.
    pub(super) fn flush_every(self, writes: u64) -> Cell {
        Cell { flush_every: Some(writes), ..self }
    }

    fn stack(&self) -> Result<(Params, Modelled), LabError> {
        let mut scenario = Scenario::default();
        for (key, value) in &self.keys {
            scenario.set(key, value)?;
        }
        let mut params = scenario.config()?.resolve()?;
        params.seed = SEED;
        let stack = scenario.stack.build(&params)?;
        Ok((params, stack))
    }

    /// Runs it.
    pub(super) fn run(&self) -> Result<Measured, LabError> {
        let (params, mut stack) = self.stack()?;
        let stop = AtomicBool::new(false);
        let watch = Watch { stop: &stop, progress: &|_| {} };
        let mut plan = ReplayPlan {
            mode: Mode::Untimed,
            speed: Speed::ONE,
            queue_depth: params.queue_depth,
            flush_every: None,
            measure_after: None,
        };
        let mut held = Held::new(self.host);
        for (i, origin) in self.before.iter().enumerate() {
            play(&mut stack, origin, SEED + 1 + i as u64, &plan, watch, &mut held)?;
        }
        plan.mode = match self.open {
            true => Mode::Open,
            false => Mode::Closed { depth: self.depth, per_app: false },
        };
        plan.flush_every = self.flush_every;
        let load = self.load.as_ref();
        let load = load.ok_or_else(|| LabError::Failed("a cell without a load".to_string()))?;
        held.taken = 0;
        let outcome = play(&mut stack, load, SEED, &plan, watch, &mut held)?;
        Ok(Measured { outcome, taken: (self.host > 0).then_some(held.taken) })
    }
}

fn play(
    stack: &mut Modelled,
    origin: &Origin,
    seed: u64,
    plan: &ReplayPlan,
    watch: Watch<'_>,
    held: &mut Held,
) -> Result<Outcome, LabError> {
    let fit = match origin {
        Origin::Files(_) => Fit::Compact(block::Bytes(1 << 20)),
        _ => Fit::Exact,
    };
    let workload = Workload { origin: Some(origin.clone()), fit, ..Workload::default() };
    let mut source = workload.prepare(seed)?.open(seed, stack.capacity().bytes())?;
    match held.blocks {
        0 => replay(stack, &mut *source, plan, watch),
        _ => replay(stack, &mut Through::new(source, held), plan, watch),
    }
}

/// What came out of a run.
pub(super) struct Measured {
    /// Everything.
    pub(super) outcome: Outcome,
    /// Bytes that the client wrote into a buffer above.
    taken: Option<u64>,
}

impl Measured {
    /// Bytes read and written by the host in a second of virtual time.
    pub(super) fn rate(&self) -> u64 {
        let stats = &self.outcome.stats;
        let below = stats.of(Op::Read).bytes + stats.of(Op::Write).bytes;
        let bytes = self.taken.unwrap_or(below);
        let elapsed: Span = self.outcome.tally.end.since(self.outcome.tally.start);
        let ps = u128::from(elapsed.as_ps()).max(1);
        (u128::from(bytes) * 1_000_000_000_000 / ps) as u64
    }

    /// Mean latency of an operation.
    pub(super) fn mean(&self, op: Op) -> Span {
        self.outcome.tally.latency[op as usize].mean().unwrap_or_default()
    }

    /// A percentile of an operation's latency, in hundredths of a per cent.
    pub(super) fn percentile(&self, op: Op, per_10k: u64) -> Span {
        self.outcome.tally.latency[op as usize].percentile(per_10k).unwrap_or_default()
    }

    /// Write amplification: of what is above the drive (1 if nothing is), of the drive, and of both.
    pub(super) fn amplification(&self) -> Amplification {
        let below = self.outcome.amplification();
        self.taken.map_or(below, |taken| below.for_client(taken))
    }

    /// Of the blocks that whoever cleans above all others has, those that hold nothing of the client: of the
    /// log's with one, of the drive's flash without.
    pub(super) fn spare(&self) -> (u64, u64) {
        let stats = &self.outcome.stats;
        let (all, held) = match self.outcome.layers.is_empty() {
            true => (stats.effective_units, stats.valid_units),
            false => (self.count("segments") * self.count("segment_blocks"), self.count("mapped")),
        };
        (all - held, all)
    }

    /// A counter or gauge of the host log; 0 without one.
    pub(super) fn count(&self, name: &str) -> u64 {
        let layer = self.outcome.layers.first();
        let found = layer.and_then(|l| l.counts.iter().chain(&l.gauges).find(|(n, _)| *n == name));
        found.map_or(0, |(_, count)| *count)
    }
}

/// Runs all cells on `threads` threads, results in order.
pub(super) fn run_all(cells: &[Cell], threads: usize) -> Result<Vec<Measured>, LabError> {
    crate::parallel::beside(threads, cells, Cell::run)
}

#[cfg(test)]
mod tests {
    use super::super::drives::{MAPPINGS, STACKS};

    /// The columns WA host, WA drive and WA both of a load of which everything is known.
    #[test]
    fn both_layers_amplify_by_what_flash_takes_for_each_byte_of_the_client() {
        let (blocks, mapping) = (20_000_u64, &MAPPINGS[0]);
        let random = format!("rw=randwrite,norandommap=on,bs=4KiB,size={}KiB", 4 * blocks);
        for (name, stack) in STACKS {
            let cell = mapping
                .drive(128)
                .with("remap.mode", stack)
                .after(&format!("{random},count={}", 3 * blocks))
                .load(&format!("{random},count={blocks}"));
            let found = cell.run().unwrap();
            let nand = &found.outcome.stats.nand;
            let flash = nand.programs_total() * found.outcome.stats.slot_bytes;
            let wa = found.amplification();
            assert_eq!(wa.whole(), (flash, blocks * 4096), "{name}");
            let (written, asked) = wa.above();
            assert_eq!((asked, wa.drive()), (blocks * 4096, (flash, written)), "{name}");
            match found.outcome.layers.first() {
                None => assert_eq!(written, asked, "{name}"),
                Some(log) => {
                    // What the log had taken and not yet sent when the measured part began.
                    let off = written.abs_diff(log.backing * 4096);
                    assert!(off < 1 << 20, "{name}: {written} bytes, {} blocks", log.backing);
                    assert!(written > asked, "{name}: nothing but the client's blocks was written");
                }
            }
        }
    }
}
