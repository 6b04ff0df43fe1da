//! The state a drive is in before the workload starts. Timing is off meanwhile.

use block::{Lba, Op, Request, Rng, Sectors, UNIT_BYTES};
use workload::split::{UnitSize, unit_range};
use workload::{BLOCK_RECORDS, Source, TraceOp};

use super::{Mode, ReplayPlan, Speed, Watch, replay};
use crate::{Device, LabError};

/// Sectors of a 4 KiB unit.
const UNIT_SECTORS: u64 = UNIT_BYTES / 512;
/// Units of one request of a sequential fill.
const FILL_UNITS: u64 = 32;
/// Drive writes after which no steady state is expected any more.
const MOST_DRIVE_WRITES: u64 = 10;
/// Writes between two looks at whether to stop.
const TICK: u64 = 8192;

/// How a drive is prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// Fresh out of the box.
    None,
    /// Every unit written once, in order.
    Seq,
    /// `Seq`, then uniform random overwrites of single units of the whole drive until write
    /// amplification over two successive windows of half a drive write differs by less than 1 %.
    /// The workload's own steady state is another one, unless it is uniform over all of the drive.
    Steady,
    /// `Seq`, then the workload itself, untimed, over and over, until the same: a window is as many
    /// passes as write at least half a drive. Generators draw anew in each pass, over the same blocks.
    Workload,
}

impl Precondition {
    /// Names on the command line, in order of the variants.
    pub const NAMES: [&str; 4] = ["none", "seq", "steady", "steady(workload)"];

    /// The name.
    pub fn name(self) -> &'static str {
        Precondition::NAMES[self as usize]
    }
}

impl std::str::FromStr for Precondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Precondition, String> {
        match text {
            "none" => Ok(Precondition::None),
            "seq" => Ok(Precondition::Seq),
            "steady" => Ok(Precondition::Steady),
            "steady(workload)" => Ok(Precondition::Workload),
            _ => Err(format!(
                "precondition `{text}`: expected one of {}",
                Precondition::NAMES.join(", ")
            )),
        }
    }
}

/// What a preparation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditioning {
    /// Bytes written, the sequential fill included.
    pub written: u64,
    /// Windows written until write amplification stood still, or there were enough.
    pub windows: u64,
    /// Whether it stood still; `None` if that was not asked for.
    pub settled: Option<bool>,
    /// Bytes programmed and written in the last window.
    pub last: (u64, u64),
}

/// Opens a pass of the workload; pass 0 is the one that is measured.
pub type Open<'a> = &'a dyn Fn(u64) -> Result<Box<dyn Source>, LabError>;

/// Prepares `device`; `unit` is its mapping unit in 4 KiB pages, `seed` that of the run, `workload`
/// opens what will be measured.
///
/// # Errors
/// A request the device fails; a workload that cannot be read, or that writes nothing where its own
/// steady state is asked for.
pub fn precondition<D: Device>(
    device: &mut D,
    how: Precondition,
    unit: u64,
    seed: u64,
    workload: Open<'_>,
    watch: Watch<'_>,
) -> Result<Conditioning, LabError> {
    if how == Precondition::None {
        return Ok(Conditioning::default());
    }
    device.set_timing(false);
    let units = device.capacity().0 / UNIT_SECTORS;
    for (i, first) in (0..units).step_by(FILL_UNITS as usize).enumerate() {
        write(device, first, FILL_UNITS.min(units - first))?;
        if (i as u64).is_multiple_of(TICK) {
            watch.tick(0)?;
        }
    }
    let filled = units * UNIT_BYTES;
    let stats = device.stats();
    let spare = stats.data_units.saturating_sub(stats.logical_units) * stats.slot_bytes;
    let mut done = match how {
        Precondition::None | Precondition::Seq => Conditioning::default(),
        Precondition::Steady => {
            let mut rng = Rng::stream(seed, "precondition");
            settle(spare, || uniform(device, &mut rng, unit, watch))?
        }
        Precondition::Workload => {
            let mut pass = 0;
            settle(spare, || passes(device, filled / 2, &mut pass, workload, watch))?
        }
    };
    match how {
        // Its steady state is that of the load's own, in the buffer too.
        Precondition::Workload => flush(device)?,
        _ => empty(device)?,
    }
    done.written += filled;
    Ok(done)
}

/// Windows until the write amplification of two in a row differs by less than 1 %. `window` writes
/// one; the bytes programmed and written in it. Windows that begin before `spare` bytes were
/// programmed do not count: cleaning may not have begun.
fn settle(
    spare: u64,
    mut window: impl FnMut() -> Result<(u64, u64), LabError>,
) -> Result<Conditioning, LabError> {
    let mut done = Conditioning { settled: Some(false), ..Conditioning::default() };
    let (mut programmed, mut counted) = (0, 0);
    while done.windows < 2 * MOST_DRIVE_WRITES && done.settled == Some(false) {
        counted += u64::from(programmed >= spare);
        let before = std::mem::replace(&mut done.last, window()?);
        programmed += done.last.0;
        done.written += done.last.1;
        done.windows += 1;
        done.settled = Some(counted > 1 && is_steady(before, done.last));
    }
    Ok(done)
}

/// Half a drive write of uniform random overwrites of single units.
fn uniform<D: Device>(
    device: &mut D,
    rng: &mut Rng,
    unit: u64,
    watch: Watch<'_>,
) -> Result<(u64, u64), LabError> {
    let units = device.capacity().0 / UNIT_SECTORS / unit;
    let (programmed, written) = device.stats().waf();
    for i in 0..(units / 2).max(1) {
        write(device, rng.below(units) * unit, unit)?;
        if i.is_multiple_of(TICK) {
            watch.tick(0)?;
        }
    }
    let after = device.stats().waf();
    Ok((after.0 - programmed, after.1 - written))
}

/// As many passes of the workload as write at least `bytes`.
fn passes<D: Device>(
    device: &mut D,
    bytes: u64,
    number: &mut u64,
    workload: Open<'_>,
    watch: Watch<'_>,
) -> Result<(u64, u64), LabError> {
    let plan = ReplayPlan {
        mode: Mode::Untimed,
        speed: Speed::ONE,
        queue_depth: 1,
        flush_every: None,
        measure_after: None,
    };
    let mut sum = (0, 0);
    while sum.1 < bytes.max(1) {
        let silent = Watch { stop: watch.stop, progress: &|_| {} };
        *number += 1;
        let pass = replay(device, &mut *workload(*number)?, &plan, silent)?.stats.waf();
        if pass.1 == 0 {
            return Err(LabError::Input(format!(
                "precondition {}: the workload writes nothing",
                Precondition::Workload.name()
            )));
        }
        sum = (sum.0 + pass.0, sum.1 + pass.1);
    }
    Ok(sum)
}

fn write<D: Device>(device: &mut D, first: u64, count: u64) -> Result<(), LabError> {
    submit(device, Request::write(Lba(first * UNIT_SECTORS), Sectors(count * UNIT_SECTORS)))
}

fn flush<D: Device>(device: &mut D) -> Result<(), LabError> {
    submit(device, Request::flush())
}

/// What was written lies on flash, and the buffer begins with nothing: neither pages nor what its policy would
/// remember of writes that are no part of the load.
fn empty<D: Device>(device: &mut D) -> Result<(), LabError> {
    flush(device)?;
    device.cool_buffer().map_err(|source| {
        LabError::Failed(format!("preconditioning: the drive fails to empty its buffer: {source}"))
    })
}

fn submit<D: Device>(device: &mut D, request: Request<'_>) -> Result<(), LabError> {
    let at = device.now();
    let op = request.op;
    device.submit(at, request).map(|_| ()).map_err(|source| {
        let what = if op == Op::Flush { "a flush" } else { "a write" };
        LabError::Failed(format!("preconditioning: the drive fails {what}: {source}"))
    })
}

/// Whether two ratios differ by less than 1 % of the first, in integers.
fn is_steady((p0, s0): (u64, u64), (p1, s1): (u64, u64)) -> bool {
    let (a, b) = (u128::from(p0) * u128::from(s1), u128::from(p1) * u128::from(s0));
    a.abs_diff(b) * 100 < a
}

/// Writes, in order, every unit that `source` reads before it writes it, so that reads meet data
/// as they did where the trace was taken. Returns the units written.
///
/// # Errors
/// A wrong workload, a request the device fails.
pub fn preload<D: Device>(
    device: &mut D,
    source: &mut dyn Source,
    watch: Watch<'_>,
) -> Result<u64, LabError> {
    let units = (device.capacity().0 / UNIT_SECTORS) as usize;
    let words = units.div_ceil(64);
    let (mut written, mut needed) = (vec![0u64; words], vec![0u64; words]);
    let mut block = Vec::with_capacity(BLOCK_RECORDS);
    loop {
        source.fill(&mut block)?;
        if block.is_empty() {
            break;
        }
        watch.tick(0)?;
        for record in &block {
            let Ok(range) = unit_range(record, UnitSize::PAGE) else { continue };
            let end = range.end.min(units as u64);
            for unit in range.first.min(end)..end {
                let (word, bit) = ((unit / 64) as usize, 1u64 << (unit % 64));
                match record.op {
                    TraceOp::Read if written[word] & bit == 0 => needed[word] |= bit,
                    TraceOp::Write | TraceOp::Zero => written[word] |= bit,
                    _ => {}
                }
            }
        }
    }
    drop(written);
    device.set_timing(false);
    let mut count = 0;
    let is_needed = |unit: u64| needed[(unit / 64) as usize] & (1 << (unit % 64)) != 0;
    let mut unit = 0;
    while unit < units as u64 {
        if needed[(unit / 64) as usize] == 0 {
            unit = (unit / 64 + 1) * 64;
            continue;
        }
        if !is_needed(unit) {
            unit += 1;
            continue;
        }
        let first = unit;
        while unit < units as u64 && unit - first < FILL_UNITS && is_needed(unit) {
            unit += 1;
        }
        write(device, first, unit - first)?;
        count += unit - first;
    }
    empty(device)?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::{is_steady, settle};
    use crate::replay::Watch;
    use crate::{Experiment, sim::Sim};

    /// The share of hits with a policy, on a drive that was prepared in a way.
    fn hits(policy: &str, how: (&str, &str), set: &[&str]) -> serde_json::Value {
        let mut sim = Sim::new("gen:zipf,size=16MiB,read=50,count=5k");
        for (name, text) in [("mode", "closed"), how] {
            sim.option(name, text).unwrap();
        }
        sim.policies = Some(vec![policy.to_string()]);
        sim.buffers = Some(vec!["2M".to_string()]);
        let drive = ["capacity=16 MiB", "op=28 %", "geometry.channels=2", "geometry.dies=1"];
        sim.set = drive.iter().chain(set).map(|pair| pair.to_string()).collect();
        let experiment = Experiment::new(&sim.scenario().unwrap()).unwrap();
        let document = experiment.run(1, "test", Watch::nobody()).unwrap().value();
        document["results"][0]["hit_ratio"]["total"].clone()
    }

    /// Who remembers what left the buffer learned that a fill is read once, and applied it to the load.
    #[test]
    fn what_is_written_before_a_load_is_no_evidence_for_a_policy() {
        for policy in ["lirs", "arc", "aoi(chunk=64KiB)", "lru"] {
            let fresh = hits(policy, ("precondition", "none"), &[]);
            for how in [("precondition", "seq"), ("preload", "reads")] {
                assert_eq!(hits(policy, how, &[]), fresh, "{policy}, {how:?}");
                // A flush leaves a protected buffer as it is: it is emptied all the same.
                assert_eq!(hits(policy, how, &["plp.mode=full"]), fresh, "{policy}, {how:?}");
            }
        }
    }

    /// With twice the flash that the data needs, nothing is cleaned at first: 1.0 twice is no
    /// steady state.
    #[test]
    fn windows_before_cleaning_begins_do_not_count() {
        let mut windows = [100, 100, 150, 200, 201].into_iter().map(|programs| (programs, 100));
        let done = settle(200, || Ok(windows.next().expect("settled by then"))).unwrap();
        assert_eq!((done.windows, done.settled, done.last), (5, Some(true), (201, 100)));
        let mut programs = 100;
        let never = || {
            programs += programs / 10;
            Ok((programs, 100))
        };
        let done = settle(0, never).unwrap();
        assert_eq!((done.windows, done.settled, done.written), (20, Some(false), 2_000));
    }

    #[test]
    fn steady_is_less_than_one_percent() {
        assert!(is_steady((4_000, 1_000), (4_039, 1_000)));
        assert!(!is_steady((4_000, 1_000), (4_040, 1_000)));
        assert!(is_steady((u64::MAX, u64::MAX), (u64::MAX - 1, u64::MAX)));
        assert!(!is_steady((0, 0), (0, 0)), "no writes is no state");
    }
}
