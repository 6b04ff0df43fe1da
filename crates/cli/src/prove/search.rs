//! The search itself: threads that draw runs from seeds and cut the power everywhere in each.
//!
//! Invariants: a range of seeds is searched to its end, or nothing is said of it; what it comes to does not depend on
//! the number of threads; what is kept does not grow with the number of runs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use proof::{
    Density, Draw, Failure, Findings, LogKind, Plan, PlanError, draw_lfs, draw_remap, draw_run,
    draw_stack, draw_tx, hunt, hunt_while, sequences, twice,
};

use crate::args::{Prove, Seeds};
use crate::stop;

/// A run that has cut nothing for so much time of one processor is stuck. By the clock on the wall, a busy
/// machine would make every long run look so; by the whole run, every long one in a slow build.
const STUCK: Duration = Duration::from_secs(120);
/// Ticks per second of `/proc/self/stat`: fixed at 100 by the kernel's interface.
const TICKS: u64 = 100;
/// Kinds of broken promises of which a plan is kept.
const KINDS: usize = 100;

/// Processor time of all threads so far; where the system does not tell, the time since `start`.
fn processor(start: Instant) -> Duration {
    let ticks = || -> Option<u64> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name, in parentheses, may hold anything: fields are counted from its end.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    };
    ticks().map_or_else(|| start.elapsed(), |n| Duration::from_millis(n * 1000 / TICKS))
}

/// A broken promise, and the plan that shows it.
pub struct Broken {
    /// The plan.
    pub plan: Plan,
    /// What was seen.
    pub failure: Failure,
}

/// What a search came to.
pub struct Searched {
    /// Of all runs together.
    pub findings: Findings,
    /// Of each kind of broken promise the one of the lowest seed.
    pub broken: BTreeMap<String, Broken>,
    /// Time on the wall.
    pub wall: Duration,
    /// The user stopped it.
    pub interrupted: bool,
}

/// What the workers share.
struct Shared<'a> {
    options: &'a Prove,
    /// The seeds to search, all of them; without, it ends by a number of cuts or a time.
    seeds: Option<Seeds>,
    next: AtomicU64,
    cuts: AtomicU64,
    stop: AtomicBool,
    /// Workers that are done.
    ended: AtomicU64,
    findings: Mutex<Findings>,
    broken: Mutex<BTreeMap<String, Broken>>,
    start: Instant,
    /// Per worker: the seed at work.
    busy: Mutex<Vec<Option<u64>>>,
    /// Per worker: operations that were cut, and runs that were begun.
    pulses: Vec<AtomicU64>,
}

fn drawn(o: &Prove, seed: u64, kind: &Draw) -> (Plan, u64) {
    if let Some(stack) = &o.stack {
        return (draw_stack(seed, stack, kind).expect("it was drawn before"), 0);
    }
    if o.lfs {
        // Odd seeds are the sequences, in order.
        let seed = if o.sequences { 2 * seed - 1 } else { seed };
        let (plan, _, refused) = draw_lfs(seed, kind);
        return (plan, refused);
    }
    if o.remap {
        let log = if o.paper { LogKind::PaperLog } else { LogKind::Log };
        let (plan, _, refused) = draw_remap(seed, log, kind);
        return (plan, refused);
    }
    let draw = if o.tx { draw_tx } else { draw_run };
    let (plan, _, refused) = draw(seed, kind);
    (plan, refused)
}

fn work(shared: &Shared<'_>, worker: usize) {
    let o = shared.options;
    let short = match (o.healthy, o.faulty) {
        (true, _) => Draw::HEALTHY,
        (_, true) => Draw::FAULTY,
        _ => Draw::SHORT,
    };
    let kind = if o.long { Draw { steps: (500, 3000), bytes: 0, ..short } } else { short };
    let density =
        if o.long { Density { operations: 40, ..Density::SHORT } } else { Density::SHORT };
    while !shared.stop.load(Ordering::Relaxed) {
        let seed = shared.next.fetch_add(1, Ordering::Relaxed);
        let beyond = shared.seeds.is_some_and(|seeds| seed > seeds.last);
        if beyond || (o.sequences && !(1..=sequences()).contains(&seed)) {
            break;
        }
        shared.busy.lock().expect("no worker panics")[worker] = Some(seed);
        let goes_on = || {
            shared.pulses[worker].fetch_add(1, Ordering::Relaxed);
            !stop::flag().load(Ordering::Relaxed)
        };
        goes_on();
        let (mut plan, refused) = drawn(o, seed, &kind);
        plan.commit = o.commit.clone();
        plan.bug = o.bug.clone();
        let mut outcome = hunt_while(&plan, density, &goes_on).expect("the bug's name was checked");
        if stop::flag().load(Ordering::Relaxed) {
            break;
        }
        outcome.tally.refused = refused;
        if ["remap.live", "stack.live"].iter().any(|live| plan.config.contains_key(*live)) {
            outcome.tally.live = outcome.tally.cuts;
        }
        let cuts =
            outcome.tally.cuts + shared.cuts.fetch_add(outcome.tally.cuts, Ordering::Relaxed);
        let mut failure = outcome.broken.map(|broken| {
            plan.cuts = broken.cuts;
            broken.failure
        });
        // One run in twenty is made again and compared (C9).
        if failure.is_none() && seed.is_multiple_of(20) {
            failure = twice(&plan).err();
        }
        let mut findings = shared.findings.lock().expect("no worker panics");
        findings.add(seed, &outcome.tally, [outcome.hash, outcome.recoveries], failure.as_ref());
        drop(findings);
        let broke = failure.is_some();
        if let Some(failure) = failure {
            plan.contract = Some(failure.contract);
            plan.what = failure.what.clone();
            keep(&mut shared.broken.lock().expect("no worker panics"), Broken { plan, failure });
        }
        let enough = (broke && !o.keep_going) || cuts >= o.cuts;
        if shared.seeds.is_none() && enough {
            shared.stop.store(true, Ordering::Relaxed);
        }
    }
    shared.busy.lock().expect("no worker panics")[worker] = None;
    shared.ended.fetch_add(1, Ordering::Relaxed);
}

/// Of each kind of broken promise the plan of the lowest seed is kept: one is enough.
fn keep(kept: &mut BTreeMap<String, Broken>, broken: Broken) {
    let kind = broken.failure.signature();
    let full = kept.len() >= KINDS;
    match kept.get_mut(&kind) {
        Some(there) if there.plan.seed > broken.plan.seed => *there = broken,
        None if !full => drop(kept.insert(kind, broken)),
        _ => {}
    }
}

/// Of each worker its pulse, and the processor time when that was first seen.
struct Pulses(Vec<(u64, Duration)>);

impl Pulses {
    /// The workers whose pulse has stood still for longer than `most`.
    fn still(
        &mut self,
        beats: impl Iterator<Item = u64>,
        now: Duration,
        most: Duration,
    ) -> Vec<usize> {
        for ((last, since), beat) in self.0.iter_mut().zip(beats) {
            if beat != *last {
                (*last, *since) = (beat, now);
            }
        }
        let still = self.0.iter().map(|(_, since)| now > *since + most);
        still.enumerate().filter(|(_, still)| *still).map(|(at, _)| at).collect()
    }
}

/// Ends the search in time, and the process if a run hangs: that is a broken C10 which no
/// exception can report. Says whether the user ended it.
fn watch(shared: &Shared<'_>) -> bool {
    // Other workers use the processors too.
    let stuck_after = STUCK * u32::from(shared.options.threads);
    let minutes = shared.options.minutes.map(|n| n.saturating_mul(60));
    let seconds = shared.options.seconds.or(minutes).filter(|_| shared.seeds.is_none());
    let mut interrupted = false;
    let mut pulses = Pulses(vec![(0, Duration::ZERO); shared.pulses.len()]);
    loop {
        thread::sleep(Duration::from_millis(20));
        interrupted |= stop::flag().load(Ordering::Relaxed);
        if interrupted || seconds.is_some_and(|n| shared.start.elapsed().as_secs() >= n) {
            shared.stop.store(true, Ordering::Relaxed);
        }
        let busy = shared.busy.lock().expect("no worker panics");
        let now = processor(shared.start);
        let beats = shared.pulses.iter().map(|pulse| pulse.load(Ordering::Relaxed));
        let still = pulses.still(beats, now, stuck_after);
        if let Some(seed) = still.into_iter().find_map(|worker| busy[worker]) {
            eprintln!("seed {seed}: C10: the run does not end");
            std::process::exit(1);
        }
        let ended = shared.ended.load(Ordering::Relaxed) == u64::from(shared.options.threads);
        if ended && busy.iter().all(Option::is_none) {
            return interrupted;
        }
    }
}

/// Whether there is such a bug in what is searched: in all of it, if it is in the first run.
///
/// # Errors
/// That there is not.
pub fn can_plant(options: &Prove) -> Result<(), PlanError> {
    let seed = options.seeds.map_or(options.seed, |seeds| seeds.first);
    let (mut plan, _) = drawn(options, seed, &Draw::HEALTHY);
    plan.bug = options.bug.clone();
    hunt(&plan, Density { limit: 1, ..Density::SHORT }).map(drop)
}

/// Searches a range of seeds, all of it; or from a first seed on, as long as the options say.
pub fn search(options: &Prove) -> Searched {
    let shared = Shared {
        start: Instant::now(),
        seeds: options.seeds,
        next: AtomicU64::new(options.seeds.map_or(options.seed, |seeds| seeds.first)),
        cuts: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        ended: AtomicU64::new(0),
        findings: Mutex::new(Findings::default()),
        broken: Mutex::new(BTreeMap::new()),
        busy: Mutex::new(vec![None; usize::from(options.threads)]),
        pulses: (0..options.threads).map(|_| AtomicU64::new(0)).collect(),
        options,
    };
    let interrupted = thread::scope(|scope| {
        for worker in 0..usize::from(options.threads) {
            let shared = &shared;
            scope.spawn(move || work(shared, worker));
        }
        watch(&shared)
    });
    let wall = shared.start.elapsed();
    let findings = shared.findings.into_inner().expect("no worker panics");
    let broken = shared.broken.into_inner().expect("no worker panics");
    Searched { findings, broken, wall, interrupted }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However long a run takes: it is stuck when it cuts nothing.
    #[test]
    fn stuck_is_who_stands_still() {
        let mut pulses = Pulses(vec![(0, Duration::ZERO); 2]);
        let mut still = |second: u64, beats: [u64; 2]| -> Vec<usize> {
            let (now, most) = (Duration::from_secs(second), Duration::from_secs(120));
            pulses.still(beats.into_iter(), now, most)
        };
        for second in 0..1000 {
            assert!(still(second, [second, second / 100]).is_empty(), "after {second} s");
        }
        assert_eq!(still(1110, [1110, 9]), [1]);
        assert!(still(1111, [1110, 10]).is_empty(), "it goes on");
        assert_eq!(still(1500, [1110, 10]), [0, 1]);
    }
}
