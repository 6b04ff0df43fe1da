//! The state a drive is in before the workload starts. Timing is off meanwhile.

use block::{Lba, Op, Request, Rng, Sectors, UNIT_BYTES};
use workload::split::{UnitSize, unit_range};
use workload::{BLOCK_RECORDS, Source, TraceOp};

use super::Watch;
use crate::{Device, LabError};

/// Sectors of a 4 KiB unit.
const UNIT_SECTORS: u64 = UNIT_BYTES / 512;
/// Units of one request of a sequential fill.
const FILL_UNITS: u64 = 32;
/// Drive writes after which a steady state must have been reached.
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
    /// `Seq`, then uniform random overwrites of single units until write amplification over two
    /// successive half drive writes differs by less than 1 %.
    Steady,
}

impl Precondition {
    /// Names on the command line, in order of the variants.
    pub const NAMES: [&str; 3] = ["none", "seq", "steady"];

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
            _ => Err(format!("precondition `{text}`: expected none, seq or steady")),
        }
    }
}

/// Prepares `device`; `unit` is its mapping unit in 4 KiB pages, `seed` that of the run. Returns
/// the half drive writes of random overwrites it took.
///
/// # Errors
/// A request the device fails; [`LabError::Failed`] if no steady state is reached.
pub fn precondition<D: Device>(
    device: &mut D,
    how: Precondition,
    unit: u64,
    seed: u64,
    watch: Watch<'_>,
) -> Result<u64, LabError> {
    if how == Precondition::None {
        return Ok(0);
    }
    device.set_timing(false);
    let units = device.capacity().0 / UNIT_SECTORS;
    for (i, first) in (0..units).step_by(FILL_UNITS as usize).enumerate() {
        write(device, first, FILL_UNITS.min(units - first))?;
        if (i as u64).is_multiple_of(TICK) {
            watch.tick(0)?;
        }
    }
    let halves = if how == Precondition::Steady { steady(device, unit, seed, watch)? } else { 0 };
    flush(device)?;
    Ok(halves)
}

fn write<D: Device>(device: &mut D, first: u64, count: u64) -> Result<(), LabError> {
    submit(device, Request::write(Lba(first * UNIT_SECTORS), Sectors(count * UNIT_SECTORS)))
}

fn flush<D: Device>(device: &mut D) -> Result<(), LabError> {
    submit(device, Request::flush())
}

fn submit<D: Device>(device: &mut D, request: Request<'_>) -> Result<(), LabError> {
    let at = device.now();
    let op = request.op;
    device.submit(at, request).map(|_| ()).map_err(|source| {
        let what = if op == Op::Flush { "a flush" } else { "a write" };
        LabError::Failed(format!("preconditioning: the drive fails {what}: {source}"))
    })
}

/// Uniform random overwrites until write amplification stands still.
fn steady<D: Device>(
    device: &mut D,
    unit: u64,
    seed: u64,
    watch: Watch<'_>,
) -> Result<u64, LabError> {
    let units = device.capacity().0 / UNIT_SECTORS / unit;
    let half = (units / 2).max(1);
    let mut rng = Rng::stream(seed, "precondition");
    let mut last: Option<(u64, u64)> = None;
    let (mut programs, mut slots) = counters(device);
    for done in 1..=2 * MOST_DRIVE_WRITES {
        for i in 0..half {
            write(device, rng.below(units) * unit, unit)?;
            if i.is_multiple_of(TICK) {
                watch.tick(0)?;
            }
        }
        let (p, s) = counters(device);
        let (dp, ds) = (p - programs, s - slots);
        (programs, slots) = (p, s);
        if let Some((lp, ls)) = last
            && is_steady((lp, ls), (dp, ds))
        {
            return Ok(done);
        }
        last = Some((dp, ds));
    }
    Err(LabError::Failed(format!(
        "no steady state after {MOST_DRIVE_WRITES} drive writes: write amplification over two \
         successive half drive writes still differs by 1 % or more"
    )))
}

fn counters<D: Device>(device: &D) -> (u64, u64) {
    let stats = device.stats();
    (stats.nand.programs_total(), stats.write_slots)
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
    flush(device)?;
    device.cool_buffer();
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::is_steady;

    #[test]
    fn steady_is_less_than_one_percent() {
        assert!(is_steady((4_000, 1_000), (4_039, 1_000)));
        assert!(!is_steady((4_000, 1_000), (4_040, 1_000)));
        assert!(is_steady((u64::MAX, u64::MAX), (u64::MAX - 1, u64::MAX)));
        assert!(!is_steady((0, 0), (0, 0)), "no writes is no state");
    }
}
