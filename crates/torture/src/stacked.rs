//! The program on a stack of ours, which loses its power under it: does the stack keep what it acknowledged?
//!
//! The program runs again and again, each time on a new stack, and each time the power goes: with a drawn
//! operation of the stack, or when the program has ended. A program is no log: runs differ, and what is drawn is
//! drawn in the operations of a first run. What can be repeated is the end of each: the bytes that the stack
//! came up with are a log with one state, and a plan of it is followed like others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use block::Rng;
use serde_json::{Value, json};

use crate::crew::Crew;
use crate::cuts::{From, range};
use crate::error::TortureError;
use crate::history::History;
use crate::keep::Keep;
use crate::powered::Order;
use crate::run::{ENOUGH, Wanted, checked, fate, kind_of, set};
use crate::states::{Cut, Left, StateHash, States};
use crate::switch::{Goes, Place};
use crate::verdict::{Checked, Report, Verdict};
use crate::worker::{Fate, Job};

/// What came of the runs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Stacked {
    /// The stack.
    pub stack: String,
    /// Runs of the program.
    pub runs: u64,
    /// Of those, runs in which the power went while the program ran.
    pub within: u64,
    /// What the first run asked of the stack, and what the stack did.
    pub all: Place,
    /// Runs that failed.
    pub failed: u64,
}

impl Stacked {
    /// As a document.
    pub fn document(&self) -> Value {
        json!({
            "stack": self.stack,
            "runs": self.runs,
            "cut_within": self.within,
            "operations": self.all.operations,
            "requests": self.all.requests,
            "failed": self.failed,
        })
    }
}

/// When the power goes in so many runs, for a program that does as much as `all`: every fifth time when it has
/// ended, because then most is promised.
fn moments(runs: u64, all: Place, seed: u64) -> Vec<Goes> {
    let mut rng = Rng::stream(seed, "torture/stacked");
    let one = |run: u64| {
        let place = Place {
            operations: rng.between(1, all.operations.max(1)),
            requests: rng.between(1, all.requests.max(1)),
        };
        // A stack that did nothing has no operation that could be hit.
        match all.operations == 0 || run % 5 == 4 {
            true => Goes::Behind,
            false => Goes::At(place),
        }
    };
    (0..runs).map(one).collect()
}

/// A run that came to an end.
struct Came {
    fate: Fate,
    reason: String,
    /// Its state was kept there.
    state: Option<PathBuf>,
    promised: u64,
    pending: u64,
    within: bool,
    spent: Place,
    us: u64,
}

impl Came {
    fn of(answer: &Value, state: &Path, us: u64) -> Option<Came> {
        Some(Came {
            fate: fate(answer)?,
            reason: answer["reason"].as_str()?.to_string(),
            state: answer["kept"].as_bool()?.then(|| state.to_path_buf()),
            promised: answer["promised"].as_u64()?,
            pending: answer["pending"].as_u64()?,
            within: answer["within"].as_bool()?,
            spent: Place::of(&answer["spent"])?,
            us,
        })
    }
}

/// Runs the program on stacks whose power goes. `all`: what it does there, from `ready` on or from the start.
///
/// # Errors
/// [`TortureError`].
pub fn stacked(
    wanted: &Wanted,
    crew: &Crew,
    (stack, runs): (&str, u64),
    (all, from_ready): (Place, bool),
    stop: &AtomicBool,
    report: &mut Report,
) -> Result<(), TortureError> {
    let since = Instant::now();
    let moments = moments(runs, all, wanted.seed);
    let (came, failed) = every(wanted, crew, stack, &moments, from_ready, stop, report)?;
    report.ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut sum = Stacked { stack: stack.to_string(), all, ..Stacked::default() };
    for (number, came) in &came {
        sum.runs += 1;
        sum.within += u64::from(came.within);
        let (found, again) = looked_at(wanted, crew, (*number, came), report)?;
        sum.failed += u64::from(report.is_failure(&found));
        report.checked.push(found);
        report.in_spite_of(again)?;
    }
    report.in_spite_of(failed.map_or(Ok(()), Err))?;
    if sum.runs < runs {
        report.notes.push(format!("{} runs were not made", runs - sum.runs));
    }
    report.planned = (0, report.checked.len());
    report.stacked = Some(sum);
    report.verdict = if report.failed().next().is_some() {
        Verdict::Lost
    } else if let Some(broken) = report.checked.iter().find(|c| c.fate == Fate::Broken) {
        Verdict::Broken(broken.reason.clone())
    } else {
        Verdict::Kept
    };
    Ok(())
}

/// Runs that came to an end, by their numbers, and why no more did.
type Made = (BTreeMap<usize, Came>, Option<TortureError>);

/// Makes the runs, several at a time: what came of each that was made.
fn every(
    wanted: &Wanted,
    crew: &Crew,
    stack: &str,
    moments: &[Goes],
    from_ready: bool,
    stop: &AtomicBool,
    report: &Report,
) -> Result<Made, TortureError> {
    let since = Instant::now();
    let next = Mutex::new(0..moments.len());
    let found: Mutex<BTreeMap<usize, Came>> = Mutex::default();
    let kinds: Mutex<BTreeSet<String>> = Mutex::default();
    let failed: Mutex<Option<TortureError>> = Mutex::default();
    let odd: Mutex<Option<String>> = Mutex::default();
    let over = AtomicBool::new(false);
    let one = |worker: usize, number: usize| -> Result<(), TortureError> {
        let state = crew.folder.join(format!("state-{number}.vlog"));
        let seed = Rng::stream(wanted.seed, &format!("torture/stacked/{number}")).next_u64();
        let (stack, goes) = (stack.to_string(), moments[number]);
        let order = Order { stack, seed, goes, from_ready };
        let began = Instant::now();
        let answer = crew.cut(&format!("stack-{worker}"), &order, &state)?;
        let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let Some(came) = Came::of(&answer, &state, us) else {
            set(&odd, format!("a worker's answer is not whole: {answer}"));
            over.store(true, Ordering::SeqCst);
            return Ok(());
        };
        let counts = came.fate == Fate::Unmountable && report.unmountable_counts;
        if counts || matches!(came.fate, Fate::Lost | Fate::Broken) {
            let mut kinds = kinds.lock().unwrap_or_else(PoisonError::into_inner);
            kinds.insert(kind_of(&came.reason));
            if kinds.len() >= ENOUGH && !wanted.keep_going {
                over.store(true, Ordering::SeqCst);
            }
        } else {
            // It is a file as large as what the program wrote.
            let _ = std::fs::remove_file(&state);
        }
        found.lock().unwrap_or_else(PoisonError::into_inner).insert(number, came);
        Ok(())
    };
    std::thread::scope(|scope| {
        for worker in 0..wanted.workers.clamp(1, moments.len().max(1)) {
            let (one, next, failed, over) = (&one, &next, &failed, &over);
            scope.spawn(move || {
                let end = || {
                    over.load(Ordering::SeqCst)
                        || stop.load(Ordering::Relaxed)
                        || since.elapsed() > wanted.budget
                };
                let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(number) = (!end()).then(take).flatten() {
                    if let Err(error) = one(worker, number) {
                        over.store(true, Ordering::SeqCst);
                        let mut first = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        first.get_or_insert(error);
                    }
                }
            });
        }
    });
    if stop.load(Ordering::Relaxed) {
        return Err(TortureError::Interrupted);
    }
    let inner =
        |odd: Mutex<Option<String>>| odd.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(what) = inner(odd) {
        return Err(TortureError::Broken(what));
    }
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((found.into_inner().unwrap_or_else(PoisonError::into_inner), failed))
}

/// A run as what was looked at, and whether it could be looked at again.
type Looked = (Checked, Result<(), TortureError>);

/// A run as what was looked at. Of one that failed the state is looked at again, from its log alone, and left
/// with a plan.
fn looked_at(
    wanted: &Wanted,
    crew: &Crew,
    (number, came): (usize, &Came),
    report: &mut Report,
) -> Result<Looked, TortureError> {
    let when = match came.within {
        true => format!("with operation {}", came.spent.operations),
        false => "when the program had ended".to_string(),
    };
    let run = format!("run {}, the power went {when}", number + 1);
    let mut found = Checked {
        cut: Cut { at: 0, left: Left::Worst },
        worst: false,
        fate: came.fate,
        reason: format!("{} ({run})", came.reason),
        hash: StateHash(0),
        promised: came.promised,
        pending: came.pending,
        us: came.us,
    };
    let Some(state) = came.state.as_ref().filter(|_| report.is_failure(&found)) else {
        return Ok((found, Ok(())));
    };
    let bad = |error| TortureError::Log { path: state.clone(), error };
    let history = History::load(state).map_err(bad)?;
    found.cut.at = range(&history, From::Init).1;
    found.hash = States::new(&history, wanted.subject.atomic).at(&found.cut).state.hash;
    let again = again(wanted, crew, (number, state, &history), &found, report);
    Ok((found, again))
}

/// Looks at the state of a run that failed again.
fn again(
    wanted: &Wanted,
    crew: &Crew,
    (number, state, history): (usize, &Path, &History),
    found: &Checked,
    report: &mut Report,
) -> Result<(), TortureError> {
    let crew = Crew { log: state.to_path_buf(), ..crew.clone() };
    let mut worker = crew.worker("again")?;
    let answer = worker.ask(&Job::check(found.cut.clone()));
    worker.end();
    let answer = answer?;
    let again = checked(&answer, &found.cut, false)
        .ok_or_else(|| TortureError::Broken(format!("a worker's answer is not whole: {answer}")))?;
    if again.fate != found.fate {
        report.notes.push(format!(
            "run {}: {} on the stack itself, {} from the bytes that it came up with: what it did after its \
             recovery counts",
            number + 1,
            found.fate.name(),
            again.fate.name()
        ));
    }
    if let Some(out) = &wanted.out
        && report.plans.len() < wanted.plans.unwrap_or(ENOUGH)
    {
        let mut keep = Keep::new(wanted, out, report.plans.len())?;
        let log = keep.log(history.log(), &format!("-stack-{}", number + 1))?;
        keep.plan(&log, &again, &found.cut, found.hash.to_string())?;
        report.plans.append(&mut keep.plans);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moments_of_runs_are_the_same_again() {
        let all = Place { operations: 40, requests: 90 };
        let drawn = moments(20, all, 7);
        assert_eq!(drawn, moments(20, all, 7));
        assert_ne!(drawn, moments(20, all, 8));
        let inside = |goes: &&Goes| match goes {
            Goes::At(place) => {
                (1..=40).contains(&place.operations) && (1..=90).contains(&place.requests)
            }
            _ => false,
        };
        assert_eq!(drawn.iter().filter(inside).count(), 16);
        let none = Place { operations: 0, requests: 3 };
        assert!(moments(9, none, 7).iter().all(|goes| *goes == Goes::Behind));
    }
}
