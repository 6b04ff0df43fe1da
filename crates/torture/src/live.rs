//! The program on a drive that fails under it: does it stop promising?
//!
//! The program runs again and again, and each time the drive refuses a request: one only, as a bad block does,
//! or everything from there on, as a drive that is gone. Whatever the program promises, before or after,
//! counts. Then the power goes, and the checker looks at a drive that works again: at what was durable, at all
//! that was written, and at some states between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use block::Rng;
use serde_json::{Value, json};

use crate::crew::Crew;
use crate::cuts::{From, range};
use crate::error::TortureError;
use crate::history::History;
use crate::keep::Keep;
use crate::run::{Wanted, checked};
use crate::states::{Cut, Left};
use crate::verdict::{Checked, Report, Verdict};
use crate::worker::{Fate, Job};

/// States drawn after each run.
const DRAWN: u64 = 3;

/// How the drive fails during a recording; not at all, if nobody says.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Faulty {
    /// A rule of `varve ctl .. fault add`.
    pub rule: Option<String>,
    /// From the program's `ready` on, and not from its start.
    pub from_ready: bool,
}

impl Faulty {
    /// As a document.
    pub fn document(&self) -> Value {
        json!({ "rule": self.rule, "from_ready": self.from_ready })
    }

    /// Of a document of ours.
    pub fn of(document: &Value) -> Faulty {
        Faulty {
            rule: document["rule"].as_str().map(str::to_string),
            from_ready: document["from_ready"].as_bool().unwrap_or(false),
        }
    }
}

/// What came of the runs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Live {
    /// Runs of the program.
    pub runs: u64,
    /// Runs in which a request was refused.
    pub struck: u64,
    /// Of those, runs in which the program did not end with 0.
    pub complained: u64,
    /// Promises made after a request was refused.
    pub after: u64,
}

impl Live {
    /// As a document.
    pub fn document(&self) -> Value {
        json!({
            "runs": self.runs,
            "struck": self.struck,
            "complained": self.complained,
            "promises_after": self.after,
        })
    }
}

/// The rules of so many runs: where in the program's requests each strikes is drawn.
fn rules(runs: u64, changes: u64, seed: u64) -> Vec<String> {
    let mut rng = Rng::stream(seed, "torture/live");
    let one = |run: u64| {
        let place = rng.between(1, changes.max(1));
        match run % 3 {
            0 => format!("eio ops=write,flush,trim nth={place}"),
            1 => format!("eio ops=write,flush,trim from={place}"),
            _ => format!("eio ops=flush nth={}", place / 4 + 1),
        }
    };
    (0..runs).map(one).collect()
}

/// Runs the program on failing drives. `place`: so many runs, with a fault somewhere in so many requests, from
/// `ready` on or from the start.
///
/// # Errors
/// [`TortureError`].
pub fn live(
    wanted: &Wanted,
    crew: &Crew,
    (runs, changes, from_ready): (u64, u64, bool),
    stop: &AtomicBool,
    report: &mut Report,
) -> Result<(), TortureError> {
    let since = Instant::now();
    let mut live = Live::default();
    for (number, rule) in rules(runs, changes, wanted.seed).into_iter().enumerate() {
        if since.elapsed() > wanted.budget {
            report.notes.push(format!("{} runs were not made", runs - live.runs));
            break;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(TortureError::Interrupted);
        }
        let crew = &Crew { log: crew.folder.join(format!("live-{number}.vlog")), ..crew.clone() };
        let trees = crew.folder.join("trees-live");
        let fault = Faulty { rule: Some(rule.clone()), from_ready };
        let answer = crew.record(wanted.size, &trees, &fault, None);
        let Some(answer) = report.in_spite_of(answer)? else { break };
        live.runs += 1;
        if answer["struck"] == true {
            live.struck += 1;
            live.complained += u64::from(answer["complaint"].is_string());
            live.after += answer["promises_after"].as_u64().unwrap_or(0);
            let looked = after(wanted, crew, number, &rule, report);
            if report.in_spite_of(looked)?.is_none() {
                break;
            }
        }
        let _ = std::fs::remove_file(&crew.log);
    }
    report.ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    report.planned = (report.checked.len(), 0);
    report.verdict = if report.failed().next().is_some() {
        Verdict::Lost
    } else if let Some(broken) = report.checked.iter().find(|c| c.fate == Fate::Broken) {
        Verdict::Broken(broken.reason.clone())
    } else if live.struck == 0 {
        Verdict::NotMeasured("in no run a request was refused".to_string())
    } else {
        Verdict::Kept
    };
    report.live = Some(live);
    Ok(())
}

/// Looks at what one run left.
fn after(
    wanted: &Wanted,
    crew: &Crew,
    number: usize,
    rule: &str,
    report: &mut Report,
) -> Result<(), TortureError> {
    let bad = |error| TortureError::Log { path: crew.log.clone(), error };
    let history = History::load(&crew.log).map_err(bad)?;
    let (_, at) = range(&history, From::Init);
    let drawn = (0..DRAWN).map(|i| Left::Seed(wanted.seed ^ (number as u64) << 8 ^ i));
    let lefts: Vec<Left> = [Left::Worst, Left::All].into_iter().chain(drawn).collect();
    let mut worker = crew.worker("live")?;
    let mut failed: Option<Checked> = None;
    for left in lefts {
        let cut = Cut { at, left };
        let answer = worker.ask(&Job::check(cut.clone()));
        let found = answer.and_then(|answer| {
            let whole =
                || TortureError::Broken(format!("a worker's answer is not whole: {answer}"));
            checked(&answer, &cut, true).ok_or_else(whole)
        });
        let mut found = match found {
            Ok(found) => found,
            Err(error) => {
                worker.end();
                return Err(error);
            }
        };
        if report.is_failure(&found) {
            found.reason = format!("{} (fault: {rule})", found.reason);
            failed.get_or_insert(found.clone());
        }
        report.checked.push(found);
    }
    worker.end();
    if let (Some(first), Some(out)) = (&failed, &wanted.out) {
        let mut keep = Keep::new(wanted, out, report.plans.len())?;
        let log = keep.log(history.log(), &format!("-live-{}", number + 1))?;
        keep.plan(&log, first, &first.cut, first.hash.to_string())?;
        report.plans.append(&mut keep.plans);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_a_run_are_rules_and_the_same_again() {
        let all = rules(30, 100, 7);
        assert_eq!(all, rules(30, 100, 7));
        assert_ne!(all, rules(30, 100, 8));
        for rule in &all {
            rule.parse::<serve::faults::Rule>().expect(rule);
        }
    }
}
