//! `varve prove`: draws runs from seeds and cuts the power everywhere in each, until a number of cuts
//! or minutes is reached or a promise is broken.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lab::LabError;
use proof::{
    Density, Draw, Failure, LogKind, Plan, Tally, WITHOUT_BUGS, bug_names, draw_lfs, draw_remap,
    draw_run, draw_stack, draw_tx, hunt, sequences, shrink, twice,
};

use crate::args::Prove;
use crate::{print, stop};

/// A run that is not done after so much time of one processor is stuck. By the clock on the wall, a busy
/// machine would make every long run look so.
const STUCK: Duration = Duration::from_secs(120);
/// Ticks per second of `/proc/self/stat`: fixed at 100 by the kernel's interface.
const TICKS: u64 = 100;

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

/// What the workers share.
struct Shared<'a> {
    options: &'a Prove,
    next: AtomicU64,
    cuts: AtomicU64,
    stop: AtomicBool,
    /// Workers that are done.
    ended: AtomicU64,
    tally: Mutex<Tally>,
    broken: Mutex<Vec<(Plan, Failure)>>,
    start: Instant,
    /// Per worker: the seed at work, and the processor time used when it was begun.
    busy: Mutex<Vec<Option<(u64, Duration)>>>,
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
    let short = if o.healthy { Draw::HEALTHY } else { Draw::SHORT };
    let kind = if o.long { Draw { steps: (500, 3000), bytes: 0, ..short } } else { short };
    let density =
        if o.long { Density { operations: 40, ..Density::SHORT } } else { Density::SHORT };
    while !shared.stop.load(Ordering::Relaxed) {
        let seed = shared.next.fetch_add(1, Ordering::Relaxed);
        if o.sequences && !(1..=sequences()).contains(&seed) {
            break;
        }
        shared.busy.lock().expect("no worker panics")[worker] =
            Some((seed, processor(shared.start)));
        let (mut plan, refused) = drawn(o, seed, &kind);
        plan.commit = o.commit.clone();
        plan.bug = o.bug.clone();
        let mut outcome = hunt(&plan, density).expect("the bug's name was checked");
        outcome.tally.refused = refused;
        if ["remap.live", "stack.live"].iter().any(|live| plan.config.contains_key(*live)) {
            outcome.tally.live = outcome.tally.cuts;
        }
        shared.cuts.fetch_add(outcome.tally.cuts, Ordering::Relaxed);
        shared.tally.lock().expect("no worker panics").merge(&outcome.tally);
        let mut failure = outcome.broken.map(|broken| {
            plan.cuts = broken.cuts;
            broken.failure
        });
        // One run in twenty is made again and compared (C9).
        if failure.is_none() && seed.is_multiple_of(20) {
            failure = twice(&plan).err();
        }
        if let Some(failure) = failure {
            plan.contract = Some(failure.contract);
            plan.what = failure.what.clone();
            shared.broken.lock().expect("no worker panics").push((plan, failure));
            if !o.keep_going {
                shared.stop.store(true, Ordering::Relaxed);
            }
        }
        if shared.cuts.load(Ordering::Relaxed) >= o.cuts {
            shared.stop.store(true, Ordering::Relaxed);
        }
    }
    shared.busy.lock().expect("no worker panics")[worker] = None;
    shared.ended.fetch_add(1, Ordering::Relaxed);
}

/// Ends the search in time, and the process if a run hangs: that is a broken C10 which no
/// exception can report.
fn watch(shared: &Shared<'_>) {
    // Other workers use the processors too.
    let stuck_after = STUCK * u32::from(shared.options.threads);
    let minutes = shared.options.minutes.map(|n| n.saturating_mul(60));
    let seconds = shared.options.seconds.or(minutes).unwrap_or(u64::MAX);
    loop {
        thread::sleep(Duration::from_millis(100));
        let interrupted = stop::flag().load(Ordering::Relaxed);
        if interrupted || shared.start.elapsed().as_secs() >= seconds {
            shared.stop.store(true, Ordering::Relaxed);
        }
        let busy = shared.busy.lock().expect("no worker panics");
        let now = processor(shared.start);
        let stuck = busy.iter().flatten().find(|(_, since)| now > *since + stuck_after);
        if let Some((seed, _)) = stuck {
            eprintln!("seed {seed}: C10: the run does not end");
            std::process::exit(1);
        }
        let ended = shared.ended.load(Ordering::Relaxed) == u64::from(shared.options.threads);
        if ended && busy.iter().all(Option::is_none) {
            return;
        }
    }
}

fn report(shared: &Shared<'_>) -> String {
    let mut out = String::new();
    let tally = shared.tally.lock().expect("no worker panics");
    let wall = shared.start.elapsed().as_secs_f64();
    let first = shared.options.seed;
    let _ = writeln!(
        out,
        "seeds {first}..{} runs {} steps {}",
        first + tally.seeds,
        tally.seeds,
        tally.steps
    );
    let _ = writeln!(
        out,
        "cuts {} (in recovery {}, in work after one {}), recoveries worked on {}",
        tally.cuts, tally.nested, tally.later, tally.resumed
    );
    if (shared.options.remap && !shared.options.paper) || shared.options.stack.is_some() {
        let _ = writeln!(out, "of them through the live shell {}", tally.live);
    }
    let _ = writeln!(out, "distinct (operation, fault, phase) triples {}", tally.triples());
    let media: Vec<String> = tally.media.iter().map(|(name, n)| format!("{name} {n}")).collect();
    let _ = writeln!(
        out,
        "faults of the array: {}",
        if media.is_empty() { "none".into() } else { media.join(", ") }
    );
    let _ = writeln!(out, "configurations refused {}", tally.refused);
    let _ = writeln!(
        out,
        "{wall:.1} s with {} threads, {:.0} cuts per second and thread",
        shared.options.threads,
        tally.cuts as f64 / wall / f64::from(shared.options.threads)
    );
    out
}

/// Writes the plan of a broken promise, small.
fn keep(options: &Prove, plan: &Plan, failure: &Failure) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "seed {}: {failure}", plan.seed);
    let name = format!("{}-{}.toml", failure.contract.to_string().to_lowercase(), plan.seed);
    let path = options.out.join(name);
    // As it is first: shrinking a long run may take longer than anybody waits.
    if let Err(error) = plan.save(&path) {
        let _ = writeln!(out, "  plan not written: {error}");
    }
    let small = shrink(plan, failure, 400);
    let _ =
        writeln!(out, "  {} steps shrunk to {}: {}", plan.work.len(), small.work.len(), small.what);
    let _ = match small.save(&path) {
        Ok(()) => writeln!(out, "  plan: {}", path.display()),
        Err(error) => writeln!(out, "  plan not written: {error}\n{}", small.text()),
    };
    out
}

/// `varve prove`; exit code 1 if a promise was broken.
pub fn prove(options: &Prove) -> Result<ExitCode, LabError> {
    if let Some(bug) = &options.bug
        && !bug_names().contains(bug)
    {
        let there = bug_names().join(", ");
        return Err(LabError::Input(match there.is_empty() {
            true => format!("--bug {bug}: {WITHOUT_BUGS}"),
            false => format!("--bug {bug}: there are {there}"),
        }));
    }
    if let Some(stack) = &options.stack {
        let found = draw_stack(options.seed, stack, &Draw::HEALTHY);
        found.map_err(|error| LabError::Input(format!("--stack: {error}")))?;
    }
    let shared = Shared {
        start: Instant::now(),
        next: AtomicU64::new(options.seed),
        cuts: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        ended: AtomicU64::new(0),
        tally: Mutex::new(Tally::default()),
        broken: Mutex::new(Vec::new()),
        busy: Mutex::new(vec![None; usize::from(options.threads)]),
        options,
    };
    thread::scope(|scope| {
        for worker in 0..usize::from(options.threads) {
            let shared = &shared;
            scope.spawn(move || work(shared, worker));
        }
        watch(&shared);
    });
    let broken = shared.broken.lock().expect("no worker panics");
    let mut text = report(&shared);
    let _ = writeln!(text, "violations {}", broken.len());
    let mut kept = BTreeSet::new();
    for (plan, failure) in broken.iter() {
        // Of each kind the first plan is enough.
        if kept.insert(failure.signature()) {
            text += &keep(options, plan, failure);
        }
    }
    print(&text)?;
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
