//! A whole run: record, explore, say what a failure needs, leave plans.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use stack::datalog::Op;

use crate::blame::{Blame, Trees, blame};
use crate::crew::{Apart, Crew, Folder};
use crate::cuts::{Cuts, From, choose};
use crate::error::TortureError;
use crate::history::{History, READY, Said, said};
use crate::keep::Keep;
use crate::live::Faulty;
use crate::plan::sha256;
use crate::powered::Order;
use crate::sandbox::Boxes;
use crate::stacked::stacked;
use crate::states::{Cut, Left, StateHash};
use crate::subject::Subject;
use crate::switch::{Goes, Place};
use crate::verdict::{Checked, Recorded, Report, Verdict};
use crate::worker::{Fate, Job};

/// Different failures after which nothing more is looked at, unless it is to go on.
pub(crate) const ENOUGH: usize = 3;

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What it is called.
    pub name: String,
    /// What is tested.
    pub subject: Subject,
    /// Bytes of the drive.
    pub size: u64,
    /// From when on the power may go.
    pub from: From,
    /// All worst cases.
    pub worst: bool,
    /// Drawn states.
    pub drawn: u64,
    /// What is drawn, is drawn from this.
    pub seed: u64,
    /// Processes that check.
    pub workers: usize,
    /// Nothing more is begun after that.
    pub budget: Duration,
    /// Not to stop after some different failures.
    pub keep_going: bool,
    /// Whether the checker complains of a drive that lies.
    pub self_check: bool,
    /// Where logs and plans are left.
    pub out: Option<PathBuf>,
    /// So many plans, if there are so many failures; none: one of each kind.
    pub plans: Option<usize>,
    /// A log that is there already.
    pub log: Option<PathBuf>,
    /// States within whose recovery the power goes again.
    pub recoveries: usize,
    /// So many runs of the program on a drive that fails, and no power cuts; on a stack whose power goes, if
    /// there is one.
    pub live: Option<u64>,
    /// The stack below the file system; none: a recorded drive that loses nothing.
    pub stack: Option<String>,
    /// This program.
    pub program: PathBuf,
    /// Of this program.
    pub version: String,
}

/// Does it. `note` hears how far it is.
///
/// # Errors
/// [`TortureError`]: what the user gave, or this machine.
pub fn run(
    wanted: &Wanted,
    stop: &AtomicBool,
    note: &dyn Fn(&str),
) -> Result<Report, TortureError> {
    if let Some(why) = wanted.subject.setup.kind.why_not() {
        return Err(TortureError::Machine(why));
    }
    let folder = Folder::new()?;
    let trees = folder.path().join("trees");
    let crew = Crew {
        program: wanted.program.clone(),
        apart: Apart::probe(),
        subject: wanted.subject.clone(),
        log: wanted.log.clone().unwrap_or_else(|| folder.path().join("log.vlog")),
        folder: folder.path().to_path_buf(),
    };
    let mut report = empty(wanted);
    report.notes.extend(Boxes::probe().why_weaker().map(str::to_string));
    let order = wanted.stack.as_ref().map(|stack| Order {
        stack: stack.clone(),
        seed: wanted.seed,
        goes: Goes::Not,
        from_ready: wanted.from == From::Ready,
    });
    let answer = match wanted.log {
        Some(_) => None,
        None => match crew.record(wanted.size, &trees, &Faulty::default(), order.as_ref()) {
            Ok(answer) => Some(answer),
            Err(TortureError::Broken(why)) => {
                report.verdict = Verdict::Broken(why);
                return Ok(report);
            }
            Err(other) => return Err(other),
        },
    };
    if stop.load(Ordering::Relaxed) {
        return Err(TortureError::Interrupted);
    }
    let bad = |error| TortureError::Log { path: crew.log.clone(), error };
    let history = History::load(&crew.log).map_err(bad)?;
    let atomic = wanted.subject.atomic;
    let cuts = choose(&history, atomic, wanted.from, wanted.worst, wanted.drawn, wanted.seed);
    report.recorded = recorded(&history, &cuts, answer.as_ref());
    report.planned = (cuts.worst.len(), cuts.drawn.len());
    report.states = states_hash(&cuts);
    if let Some(why) = answer.as_ref().and_then(|answer| answer["no_trees"].as_str()) {
        report.notes.push(format!("files were not looked at after some promise: {why}"));
    }
    let next = match wanted.live {
        Some(runs) if wanted.stack.is_some() => format!("{runs} runs that a power cut ends"),
        Some(runs) => format!("{runs} runs on a failing drive"),
        None => format!("{} states to look at", cuts.hashes.len()),
    };
    note(&format!(
        "recorded {}: {} promises, {} flushes; {next}",
        wanted.name, report.recorded.promises, report.recorded.flushes
    ));
    if let Some(why) = nothing_to_see(wanted, &cuts, &report.recorded) {
        report.verdict = Verdict::NotMeasured(why);
        return Ok(report);
    }
    if let Some(runs) = wanted.live {
        let ready = history.ours(READY).is_some() && wanted.from == From::Ready;
        if let Some(stack) = &wanted.stack {
            let spent = answer.as_ref().and_then(|answer| Place::of(&answer["spent"]));
            let all = (spent.unwrap_or_default(), ready);
            stacked(wanted, &crew, (stack, runs), all, stop, &mut report)?;
        } else {
            let changes = report.recorded.writes + report.recorded.flushes;
            crate::live::live(wanted, &crew, (runs, changes, ready), stop, &mut report)?;
        }
        if report.verdict == Verdict::Kept {
            looked_at(wanted, &crew, &history, &cuts, &mut report)?;
        }
        return Ok(report);
    }
    let since = Instant::now();
    let explored = explore(wanted, &crew, &cuts, stop, &mut report);
    if stop.load(Ordering::Relaxed) {
        return Err(TortureError::Interrupted);
    }
    report.in_spite_of(explored)?;
    judge(wanted, &crew, &history, &cuts, &mut report)?;
    if report.verdict == Verdict::Lost {
        let trees = Trees::load(&trees);
        let blame = blamed(wanted, &crew, &history, &trees, &report);
        report.blame = report.in_spite_of(blame)?.flatten();
        if let Some(out) = &wanted.out {
            let plans = leave(wanted, &history, &report, out);
            report.plans = report.in_spite_of(plans)?.unwrap_or_default();
        }
    }
    if report.verdict == Verdict::Kept && wanted.recoveries > 0 {
        let left = wanted.budget.saturating_sub(since.elapsed());
        crate::recovery::within(wanted, &crew, left, stop, &mut report)?;
    }
    Ok(report)
}

pub(crate) fn empty(wanted: &Wanted) -> Report {
    Report {
        name: wanted.name.clone(),
        verdict: Verdict::Kept,
        recorded: Recorded::default(),
        planned: (0, 0),
        states: String::new(),
        checked: Vec::new(),
        unmountable_counts: wanted.subject.must_mount(),
        recoveries: Vec::new(),
        live: None,
        stacked: None,
        ms: 0,
        blame: None,
        plans: Vec::new(),
        notes: Vec::new(),
    }
}

fn recorded(history: &History, cuts: &Cuts, answer: Option<&Value>) -> Recorded {
    let records = &history.records()[cuts.first..cuts.last];
    let promise = |text: &str| matches!(said(text), Said::Promise(_));
    let mut all = Recorded { ms: answer.and_then(|a| a["ms"].as_u64()), ..Recorded::default() };
    for record in records {
        match record.op {
            Op::Write => (all.writes, all.bytes) = (all.writes + 1, all.bytes + record.bytes),
            Op::Trim | Op::Zero => all.writes += 1,
            Op::FlushEnd => all.flushes += 1,
            Op::Mark if !record.ours && promise(history.log().text(record)) => all.promises += 1,
            Op::Mark | Op::FlushBegin => {}
        }
    }
    all
}

/// A hash of all states that are looked at, in their order: the same on any machine.
pub fn states_hash(cuts: &Cuts) -> String {
    let lines: String =
        cuts.all().zip(&cuts.hashes).map(|(cut, hash)| format!("{} {hash}\n", cut.at)).collect();
    sha256(lines.as_bytes())
}

fn nothing_to_see(wanted: &Wanted, cuts: &Cuts, recorded: &Recorded) -> Option<String> {
    let promises = wanted.subject.check.is_none() || recorded.promises > 0;
    let why = if cuts.hashes.is_empty() && wanted.stack.is_none() {
        "no states were asked for"
    } else if !promises {
        "the program promised nothing: it writes to the file that $VARVE_ACK names"
    } else if recorded.writes == 0 && recorded.promises == 0 {
        "nothing was written while the power could go"
    } else {
        return None;
    };
    Some(why.to_string())
}

pub(crate) fn fate(answer: &Value) -> Option<Fate> {
    [Fate::Kept, Fate::Lost, Fate::Unmountable, Fate::Broken]
        .into_iter()
        .find(|fate| answer["fate"] == fate.name())
}

pub(crate) fn checked(answer: &Value, cut: &Cut, worst: bool) -> Option<Checked> {
    Some(Checked {
        cut: cut.clone(),
        worst,
        fate: fate(answer)?,
        reason: answer["reason"].as_str()?.to_string(),
        hash: StateHash(u128::from_str_radix(answer["hash"].as_str()?, 16).ok()?),
        promised: answer["promised"].as_u64()?,
        pending: answer["pending"].as_u64()?,
        us: answer["us"].as_u64()?,
    })
}

/// A reason without its numbers: what tells failures apart.
pub(crate) fn kind_of(reason: &str) -> String {
    let mut kind = String::new();
    for c in reason.chars() {
        match c.is_ascii_digit() {
            true if kind.ends_with('#') => {}
            true => kind.push('#'),
            false => kind.push(c),
        }
    }
    kind
}

pub(crate) fn explore(
    wanted: &Wanted,
    crew: &Crew,
    cuts: &Cuts,
    stop: &AtomicBool,
    report: &mut Report,
) -> Result<(), TortureError> {
    let all: Vec<&Cut> = cuts.all().collect();
    let jobs: Vec<Job> = all.iter().map(|cut| Job::check((*cut).clone())).collect();
    let found: Mutex<BTreeMap<usize, Checked>> = Mutex::default();
    let kinds: Mutex<BTreeSet<(bool, String)>> = Mutex::default();
    let odd: Mutex<Option<String>> = Mutex::default();
    let since = Instant::now();
    let heard = |number: usize, answer: &Value| -> bool {
        let Some(checked) = checked(answer, all[number], number < cuts.worst.len()) else {
            set(&odd, format!("a worker's answer is not whole: {answer}"));
            return false;
        };
        if checked.hash != cuts.hashes[number] {
            let (here, there) = (cuts.hashes[number], checked.hash);
            set(&odd, format!("record {}: state {here} here, {there} there", checked.cut.at));
            return false;
        }
        let mut kinds = kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let broken = checked.fate == Fate::Broken;
        if broken || report_counts(report, &checked) {
            kinds.insert((broken, kind_of(&checked.reason)));
        }
        let stuck = found
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .filter(|checked| checked.fate == Fate::Broken)
            .count()
            >= ENOUGH;
        let enough = kinds.len() >= ENOUGH && !wanted.keep_going;
        found.lock().unwrap_or_else(PoisonError::into_inner).insert(number, checked);
        !(enough || stuck || since.elapsed() > wanted.budget || stop.load(Ordering::Relaxed))
    };
    let done = crew.all(&jobs, wanted.workers, &heard);
    report.ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.checked = found.into_values().collect();
    let odd = odd.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(what) = odd {
        // Nothing that was found is to be believed.
        report.checked.clear();
        return Err(TortureError::Broken(format!("two processes built different states: {what}")));
    }
    let left = jobs.len() - report.checked.len();
    if left > 0 {
        report.notes.push(format!("{left} states were not looked at"));
    }
    done
}

fn report_counts(report: &Report, checked: &Checked) -> bool {
    report.is_failure(checked)
}

pub(crate) fn set(to: &Mutex<Option<String>>, what: String) {
    to.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
}

/// The verdict of what was looked at.
fn judge(
    wanted: &Wanted,
    crew: &Crew,
    history: &History,
    cuts: &Cuts,
    report: &mut Report,
) -> Result<(), TortureError> {
    let broken = report.checked.iter().find(|checked| checked.fate == Fate::Broken);
    let says = broken.map(|b| format!("before record {}: {}", b.cut.at, b.reason));
    if report.failed().next().is_some() {
        report.verdict = Verdict::Lost;
        report.notes.extend(says);
        return Ok(());
    }
    if let Some(says) = says {
        report.verdict = Verdict::Broken(says);
        return Ok(());
    }
    if !cuts.pending && report.checked.iter().all(|checked| checked.pending == 0) {
        let why = "nothing was ever pending at a cut: the drive had nothing to lose";
        report.verdict = Verdict::NotMeasured(why.to_string());
        return Ok(());
    }
    looked_at(wanted, crew, history, cuts, report)
}

/// Nothing has failed: whether anybody looked, and whoever does complains of a drive that lies.
fn looked_at(
    wanted: &Wanted,
    crew: &Crew,
    history: &History,
    cuts: &Cuts,
    report: &mut Report,
) -> Result<(), TortureError> {
    if report.checked.iter().all(|checked| checked.fate == Fate::Unmountable) {
        let why = match report.checked.first() {
            Some(first) => format!("no state was mounted, and nothing looked at: {}", first.reason),
            None => "no state was looked at".to_string(),
        };
        report.verdict = Verdict::NotMeasured(why);
        return Ok(());
    }
    self_check(wanted, crew, history, cuts, report)
}

/// Whether the checker complains of a drive that lies.
fn self_check(
    wanted: &Wanted,
    crew: &Crew,
    history: &History,
    cuts: &Cuts,
    report: &mut Report,
) -> Result<(), TortureError> {
    if !wanted.self_check || wanted.subject.check.is_none() {
        return Ok(());
    }
    // A drive whose flushes do nothing from the first moment on: whoever is content with that sees nothing.
    let cut = Cut { at: cuts.last, left: Left::Lying(cuts.first) };
    let mut worker = crew.worker("self-check")?;
    let answer = worker.ask(&Job::check(cut.clone()));
    worker.end();
    let answer = answer?;
    let lied = checked(&answer, &cut, false)
        .ok_or_else(|| TortureError::Broken(format!("a worker's answer is not whole: {answer}")))?;
    match lied.fate {
        Fate::Lost => {}
        Fate::Unmountable => {
            report.verdict = Verdict::NotMeasured(format!(
                "a drive that forgot everything since record {} does not mount: the checker has not shown that it \
                 complains of one: {}",
                cuts.first, lied.reason
            ));
        }
        Fate::Kept => {
            report.verdict = Verdict::NotMeasured(format!(
                "the checker is content with a drive that forgot everything since record {} of {}",
                cuts.first,
                history.records().len()
            ));
        }
        Fate::Broken => {
            let why = format!("on a drive that forgot everything: {}", lied.reason);
            report.verdict = Verdict::Broken(why);
        }
    }
    Ok(())
}

fn blamed(
    wanted: &Wanted,
    crew: &Crew,
    history: &History,
    trees: &Trees,
    report: &Report,
) -> Result<Option<Blame>, TortureError> {
    let Some(first) = report.failed().min_by_key(|failed| (failed.cut.at, !failed.worst)) else {
        return Ok(None);
    };
    let mut worker = crew.worker("blame")?;
    let of = (wanted.subject.atomic, wanted.subject.setup.kind);
    let found = blame(&mut worker, history, of, first, trees, &crew.folder);
    worker.end();
    found.map(Some)
}

/// Leaves the log and a plan for each kind of failure, or as many as are wanted.
fn leave(
    wanted: &Wanted,
    history: &History,
    report: &Report,
    out: &Path,
) -> Result<Vec<String>, TortureError> {
    let mut keep = Keep::new(wanted, out, 0)?;
    let log = keep.log(history.log(), "")?;
    let mut kinds = BTreeSet::new();
    let mut states = crate::states::States::new(history, wanted.subject.atomic);
    let first = report.failed().min_by_key(|failed| (failed.cut.at, !failed.worst));
    if let (Some(blame), Some(first)) = (&report.blame, first) {
        kinds.insert(kind_of(&first.reason));
        let hash = states.at(&blame.cut).state.hash.to_string();
        keep.plan(&log, first, &blame.cut, hash)?;
    }
    let most = wanted.plans.unwrap_or(2 * ENOUGH + 1);
    let mut others = Vec::new();
    for failed in report.failed() {
        if keep.plans.len() < most && kinds.insert(kind_of(&failed.reason)) {
            keep.plan(&log, failed, &failed.cut, failed.hash.to_string())?;
        } else {
            others.push(failed);
        }
    }
    let more = wanted.plans.map_or(0, |plans| plans.saturating_sub(keep.plans.len()));
    for failed in others.into_iter().take(more) {
        keep.plan(&log, failed, &failed.cut, failed.hash.to_string())?;
    }
    Ok(keep.plans)
}

#[cfg(test)]
mod tests;
