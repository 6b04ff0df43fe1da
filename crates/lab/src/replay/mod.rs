//! The replay loop: one workload on one device, in virtual time.
//!
//! What the loop owes the device: times that never fall, and at most `queue_depth` commands in
//! flight. A request that is held back for the latter waits in the host's queue; that wait is part
//! of its latency, which runs from its arrival, and is reported apart too. What the loop owes the
//! reader: every request submitted is served, or there is no result.

mod flight;
mod frames;
mod lookahead;
mod pace;
mod player;
mod precondition;
mod series;
mod share;
mod tally;

#[cfg(test)]
mod share_tests;
#[cfg(test)]
mod tests;

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{Span, parse_time};
use ssd::{BlocksNow, Stats};
use workload::Source;

use crate::explain::{Causes, Probe};
use crate::{Amplification, Device, LabError, LayerCounts};

pub use frames::Frames;
pub use precondition::{Conditioning, Precondition, precondition, preload};
pub use series::Series;
pub use share::{ONE_QUEUE, Shares};
pub use tally::{AppTally, Tally};

/// When requests are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// At the times of the workload.
    Open,
    /// `depth` requests in flight; the workload's times are ignored. A flush is a barrier for its
    /// application.
    Closed {
        /// Requests in flight.
        depth: u32,
        /// Each application has its own `depth`.
        per_app: bool,
    },
    /// At the times of the workload, but not before the application's previous request has ended
    /// and the pause the trace shows between the two has passed.
    Dependent,
    /// Without any time: hit ratios and write amplification.
    Untimed,
}

/// A positive rational number by which a workload is replayed faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    numerator: u64,
    denominator: u64,
}

impl Speed {
    /// As traced.
    pub const ONE: Speed = Speed { numerator: 1, denominator: 1 };

    /// `span` at this speed, rounded down to a picosecond; `None` beyond the range of time.
    pub fn scale(self, span: Span) -> Option<Span> {
        if self == Speed::ONE {
            return Some(span);
        }
        let ps = u128::from(span.as_ps()) * u128::from(self.denominator);
        u64::try_from(ps / u128::from(self.numerator)).ok().map(Span::from_ps)
    }
}

impl std::fmt::Display for Speed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            d => write!(f, "{}/{d}", self.numerator),
        }
    }
}

impl FromStr for Speed {
    type Err = String;

    /// `10`, `3/2` or `0.25`, exactly.
    fn from_str(text: &str) -> Result<Speed, String> {
        let expected = || format!("speed `{text}`: expected `10`, `3/2` or `0.25`");
        let parts = || -> Option<(u64, u64)> {
            let text = text.trim();
            if let Some((a, b)) = text.split_once('/') {
                return Some((a.trim().parse().ok()?, b.trim().parse().ok()?));
            }
            let (whole, part) = text.split_once('.').unwrap_or((text, ""));
            let digits = [whole, part].concat();
            let plain = part.len() <= 9 && digits.bytes().all(|b| b.is_ascii_digit());
            Some((plain.then_some(digits)?.parse().ok()?, 10u64.pow(part.len() as u32)))
        };
        let (numerator, denominator) = parts().ok_or_else(expected)?;
        if numerator == 0 || denominator == 0 {
            return Err(expected());
        }
        let (mut a, mut b) = (numerator, denominator);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        Ok(Speed { numerator: numerator / a, denominator: denominator / a })
    }
}

/// Where the measured part of a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasureAfter {
    /// After so many requests of the workload.
    Requests(u64),
    /// With the first request that arrives so long after the workload's start.
    Time(Span),
}

impl FromStr for MeasureAfter {
    type Err = String;

    /// `100000` or `1_000_000` (requests), `2.5 s` (virtual time).
    fn from_str(text: &str) -> Result<MeasureAfter, String> {
        if let Ok(n) = text.trim().replace('_', "").parse() {
            return Ok(MeasureAfter::Requests(n));
        }
        parse_time(text).map(MeasureAfter::Time).map_err(|_| {
            format!(
                "measure-after `{text}`: expected a number of requests or a time such as `2.5 s`"
            )
        })
    }
}

impl std::fmt::Display for MeasureAfter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MeasureAfter::Requests(n) => write!(f, "{n}"),
            MeasureAfter::Time(span) => write!(f, "{} ps", span.as_ps()),
        }
    }
}

/// How a workload is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayPlan {
    /// When requests are submitted.
    pub mode: Mode,
    /// How much faster than the workload says.
    pub speed: Speed,
    /// Commands the device takes at a time.
    pub queue_depth: u32,
    /// A flush after so many writes, beside those of the workload.
    pub flush_every: Option<u64>,
    /// Where the measured part begins.
    pub measure_after: Option<MeasureAfter>,
}

/// Who watches a run: may stop it, and is told how far it is.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Set by whoever wants the run to stop.
    pub stop: &'a AtomicBool,
    /// Called now and then with the number of requests since the last call.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// The wish of nobody that a run stop.
static NEVER: AtomicBool = AtomicBool::new(false);

impl Watch<'static> {
    /// Nobody watches.
    pub fn nobody() -> Watch<'static> {
        Watch { stop: &NEVER, progress: &|_| () }
    }
}

impl Watch<'_> {
    /// Tells of progress.
    ///
    /// # Errors
    /// [`LabError::Interrupted`] if the run is to stop.
    pub fn tick(&self, requests: u64) -> Result<(), LabError> {
        (self.progress)(requests);
        if self.stop.load(Ordering::Relaxed) { Err(LabError::Interrupted) } else { Ok(()) }
    }
}

/// What a replay found, for its measured part.
pub struct Outcome {
    /// The device's counters.
    pub stats: Stats,
    /// Those of the layers above the drive.
    pub layers: Vec<LayerCounts>,
    /// The loop's own.
    pub tally: Tally,
    /// Windows over the measured part.
    pub series: Series,
    /// Requests of the whole workload, the unmeasured part included.
    pub requests: u64,
    /// Every block of the drive at the end, if they are few enough to be listed.
    pub blocks: Option<BlocksNow>,
    /// Erase counts of blocks over the measured part.
    pub frames: Frames,
    /// What the latencies went to, if somebody asked.
    pub causes: Option<Causes>,
    /// Why a file was not written that somebody asked for.
    pub unwritten: Vec<LabError>,
}

/// Blocks that a result lists at most.
pub(crate) const MOST_BLOCKS: u32 = 4096;

impl Outcome {
    /// What each part of the device adds to what is written.
    pub fn amplification(&self) -> Amplification {
        Amplification::of(&self.stats, &self.layers)
    }
}

/// Replays `source` on `device`, then a last flush so that every queue drains.
///
/// # Errors
/// A wrong workload, a request the device fails, a promise that does not hold, an interruption.
pub fn replay<D: Device>(
    device: &mut D,
    source: &mut dyn Source,
    plan: &ReplayPlan,
    watch: Watch<'_>,
) -> Result<Outcome, LabError> {
    replay_with(device, source, plan, watch, Beside::default())
}

/// What else belongs to a replay.
#[derive(Default)]
pub struct Beside<'a> {
    /// A queue for each application; without, one for all.
    pub shares: Option<&'a Shares>,
    /// Looks at every request. What is measured is the same.
    pub probe: Option<Probe>,
}

/// The same, with what else belongs to it.
///
/// # Errors
/// As [`replay`]; causes that do not sum to a latency.
pub fn replay_with<D: Device>(
    device: &mut D,
    source: &mut dyn Source,
    plan: &ReplayPlan,
    watch: Watch<'_>,
    beside: Beside<'_>,
) -> Result<Outcome, LabError> {
    device.set_timing(plan.mode != Mode::Untimed);
    let mut player = player::Player::new(device, plan, watch, beside.probe);
    let turns = beside.shares.map(share::Turns::new);
    match (plan.mode, turns) {
        (Mode::Open, Some(turns)) => pace::shared(&mut player, source, plan.speed, turns)?,
        (Mode::Open | Mode::Untimed, _) => pace::open(&mut player, source, plan)?,
        (Mode::Closed { depth, per_app }, turns) => {
            pace::closed(&mut player, source, depth, per_app, turns)?;
        }
        (Mode::Dependent, turns) => pace::dependent(&mut player, source, plan.speed, turns)?,
    }
    player.finish()
}
