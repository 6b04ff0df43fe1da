//! Cuts within a recovery: what a mount and the checker write to a state is recorded like the program, and
//! the power goes again wherever that becomes durable.
//!
//! The log of a recovery begins with the state itself, durable, and with what was promised by then: it is one
//! like any other, its states are chosen, built and checked by the same code, and a plan of it is followed like
//! any other.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stack::disk::{DataRecorded, Disk};

use crate::crew::Crew;
use crate::cuts::{From, choose};
use crate::error::TortureError;
use crate::history::{ENDED, History, STARTED};
use crate::judge::Judge;
use crate::keep::Keep;
use crate::overlay::StateDisk;
use crate::run::{Wanted, empty, explore};
use crate::sandbox::Boxes;
use crate::stage::Stage;
use crate::states::{Cut, States};
use crate::subject::{Scratch, Subject};
use crate::verdict::{Checked, Report, Verdict};
use crate::worker::{Fate, Job};

/// States drawn within one recovery, beside all its worst cases.
const DRAWN: u64 = 20;

/// What came of the cuts within one recovery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// The state that was recovered.
    pub of: Cut,
    /// Changes and flushes of the recovery.
    pub writes: u64,
    /// States there are to look at within it.
    pub planned: usize,
    /// States looked at.
    pub states: usize,
    /// Those that failed.
    pub failed: Vec<Checked>,
}

/// Records the recovery of a state, in a process of ours: whether the checker was content.
///
/// # Errors
/// [`TortureError`].
pub fn record(
    (subject, scratch, log): (Subject, Scratch, PathBuf),
    job: &Job,
    into: &std::path::Path,
) -> Result<Value, TortureError> {
    let history =
        History::load(&log).map_err(|error| TortureError::Log { path: log.clone(), error })?;
    let history = Arc::new(history);
    let disk = Arc::new(StateDisk::new(Arc::clone(&history), subject.atomic));
    let mut states = States::new(&history, subject.atomic);
    let moment = states.at(&job.cut);
    disk.put(moment.state.sectors.clone());
    let below: Arc<dyn Disk> = Arc::clone(&disk) as _;
    let source = format!("the recovery of the state before record {}", job.cut.at);
    let recorded = Arc::new(DataRecorded::create(below, into, &source)?);
    let mark = |text: &str, ours| recorded.mark(text, ours).map_err(TortureError::Broken);
    moment.promised.iter().try_for_each(|what| mark(what, false))?;
    moment.begun.iter().try_for_each(|what| mark(&format!("begin {what}"), false))?;
    mark(STARTED, true)?;
    let stage = Stage::new(Arc::clone(&recorded) as _, &scratch.0, &subject.setup, None)?;
    let mut judge = Judge { subject, scratch, stage, boxes: Boxes::probe() };
    let said = (&moment.promised[..], &moment.begun[..]);
    let found = judge.looked(said, job, &|| disk.was_read(), &mut BTreeMap::new());
    let marked = mark(ENDED, true);
    judge.stage.end()?;
    let (fate, reason) = found?;
    marked?;
    recorded.finish().map_err(TortureError::io(into))?;
    Ok(json!({ "fate": fate.name(), "reason": reason }))
}

/// So many of the states, from the first to the last.
fn spread(report: &Report, count: usize) -> Vec<Cut> {
    let all = report.checked.iter().filter(|checked| checked.fate == Fate::Kept);
    let all: Vec<&Checked> = all.collect();
    let count = count.min(all.len());
    (0..count).map(|i| all[i * all.len() / count].cut.clone()).collect()
}

/// Cuts the power again within the recoveries of some states.
///
/// # Errors
/// [`TortureError`].
pub fn within(
    wanted: &Wanted,
    all: &Crew,
    budget: Duration,
    stop: &AtomicBool,
    report: &mut Report,
) -> Result<(), TortureError> {
    let since = Instant::now();
    let states = spread(report, wanted.recoveries);
    for (number, of) in states.iter().enumerate() {
        let left = budget.saturating_sub(since.elapsed());
        if left.is_zero() {
            let count = states.len() - number;
            report.notes.push(format!("{count} recoveries were not looked at"));
            break;
        }
        let log = all.folder.join(format!("recovery-{number}.vlog"));
        let crew = Crew { log, ..all.clone() };
        let wanted = Wanted { budget: left, ..wanted.clone() };
        let found = recovered(all, &crew, of).and_then(|()| one(&wanted, &crew, of, stop, report));
        let Some(found) = report.in_spite_of(found)? else { break };
        report.recoveries.push(found);
    }
    report.ms += u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    if report.recoveries.iter().any(|recovery| !recovery.failed.is_empty()) {
        report.verdict = Verdict::Lost;
    }
    Ok(())
}

/// Has the recovery of a state recorded, in the log of a crew.
fn recovered(of_state: &Crew, crew: &Crew, of: &Cut) -> Result<(), TortureError> {
    let answer = of_state.recover(&Job::check(of.clone()), &crew.log)?;
    match answer["fate"] == Fate::Kept.name() {
        true => Ok(()),
        false => {
            let what = format!("before record {}: kept once, and then: {answer}", of.at);
            Err(TortureError::Broken(what))
        }
    }
}

fn one(
    wanted: &Wanted,
    crew: &Crew,
    of: &Cut,
    stop: &AtomicBool,
    report: &mut Report,
) -> Result<Recovery, TortureError> {
    let bad = |error| TortureError::Log { path: crew.log.clone(), error };
    let history = History::load(&crew.log).map_err(bad)?;
    let cuts = choose(&history, wanted.subject.atomic, From::Init, true, DRAWN, wanted.seed);
    let mut inner = empty(wanted);
    let explored = explore(wanted, crew, &cuts, stop, &mut inner);
    if stop.load(Ordering::Relaxed) {
        return Err(TortureError::Interrupted);
    }
    inner.in_spite_of(explored)?;
    let within = |note| format!("within the recovery before record {}: {note}", of.at);
    report.notes.extend(std::mem::take(&mut inner.notes).into_iter().map(within));
    if let Some(broken) = inner.checked.iter().find(|checked| checked.fate == Fate::Broken) {
        let what = format!("within the recovery before record {}: {}", of.at, broken.reason);
        report.verdict = Verdict::Broken(what);
    }
    let failed: Vec<Checked> = inner.failed().cloned().collect();
    if let (Some(first), Some(out)) = (failed.first(), &wanted.out) {
        let mut keep = Keep::new(wanted, out, report.plans.len())?;
        let log = keep.log(history.log(), &format!("-recovery-{}", report.recoveries.len() + 1))?;
        keep.plan(&log, first, &first.cut, first.hash.to_string())?;
        report.plans.append(&mut keep.plans);
    }
    let writes = (cuts.last - cuts.first) as u64;
    let (planned, states) = (cuts.hashes.len(), inner.checked.len());
    Ok(Recovery { of: of.clone(), writes, planned, states, failed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;
    use crate::states::Left;

    #[test]
    fn what_was_not_looked_at_within_a_recovery_is_said() {
        let mut fake = Fake::new(&["kept"; 30]);
        fake.wanted.budget = Duration::ZERO;
        let mut report = empty(&fake.wanted);
        let (of, stop) = (Cut { at: 7, left: Left::Worst }, AtomicBool::new(false));
        let found = one(&fake.wanted, &fake.crew, &of, &stop, &mut report).unwrap();
        assert!(found.states == 1 && found.planned > 4, "{found:?}");
        let expected = format!(
            "within the recovery before record 7: {} states were not looked at",
            found.planned - 1
        );
        assert_eq!(report.notes, [expected]);
    }
}
