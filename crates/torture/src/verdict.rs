//! What came of a run.

use std::fmt;

use serde_json::{Value, json};

use crate::blame::Blame;
use crate::cut_text::left_text;
use crate::error::TortureError;
use crate::live::Live;
use crate::recovery::Recovery;
use crate::stacked::Stacked;
use crate::states::{Cut, StateHash};
use crate::worker::Fate;

/// What came of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Every promise was kept in every state that was looked at.
    Kept,
    /// Some were not.
    Lost,
    /// Nothing can be said, and why.
    NotMeasured(String),
    /// The program or the checker did what it may not.
    Broken(String),
}

impl Verdict {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Kept => "kept",
            Verdict::Lost => "lost",
            Verdict::NotMeasured(_) => "not measured",
            Verdict::Broken(_) => "harness broken",
        }
    }

    /// The exit code that says so.
    pub fn exit_code(&self) -> u8 {
        match self {
            Verdict::Kept => 0,
            Verdict::Lost => 4,
            Verdict::NotMeasured(_) | Verdict::Broken(_) => 1,
        }
    }
}

/// A state that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// The cut.
    pub cut: Cut,
    /// It is a worst case.
    pub worst: bool,
    /// What came of it.
    pub fate: Fate,
    /// Why, if a promise is not kept or there is no verdict.
    pub reason: String,
    /// The state.
    pub hash: StateHash,
    /// Promises by then.
    pub promised: u64,
    /// Blocks that were pending.
    pub pending: u64,
    /// Microseconds.
    pub us: u64,
}

/// What was recorded.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Recorded {
    /// Promises of the program.
    pub promises: u64,
    /// Changes of the drive while its power could go.
    pub writes: u64,
    /// Flushes then.
    pub flushes: u64,
    /// Bytes written then.
    pub bytes: u64,
    /// Milliseconds of the program's run; none of a log that was there.
    pub ms: Option<u64>,
}

fn failure(failed: &Checked) -> Value {
    json!({
        "cut": failed.cut.at,
        "left": left_text(&failed.cut.left),
        "promised": failed.promised,
        "pending": failed.pending,
        "reason": failed.reason,
        "state": failed.hash.to_string(),
    })
}

/// A whole run.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// What was tested, in a word or two.
    pub name: String,
    /// What came of it.
    pub verdict: Verdict,
    /// What was recorded.
    pub recorded: Recorded,
    /// Worst cases there are, and drawn states.
    pub planned: (usize, usize),
    /// A hash of all planned states, in order.
    pub states: String,
    /// What was looked at, in order.
    pub checked: Vec<Checked>,
    /// Whether a state without a file system is a promise that was not kept.
    pub unmountable_counts: bool,
    /// What came of cuts within recoveries.
    pub recoveries: Vec<Recovery>,
    /// What came of runs on failing drives: what was looked at is of those then.
    pub live: Option<Live>,
    /// What came of runs on stacks whose power went: what was looked at is of those then.
    pub stacked: Option<Stacked>,
    /// Seconds of looking, in milliseconds.
    pub ms: u64,
    /// What the first failure needs.
    pub blame: Option<Blame>,
    /// Files that were left: plans.
    pub plans: Vec<String>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

impl Report {
    /// What came of something that is of no use for a failure that was found already: an error is only noted then.
    ///
    /// # Errors
    /// The same error, if nothing has failed.
    pub(crate) fn in_spite_of<R>(
        &mut self,
        result: Result<R, TortureError>,
    ) -> Result<Option<R>, TortureError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(TortureError::Interrupted) => Err(TortureError::Interrupted),
            Err(error) if self.has_failed() => {
                self.notes.push(format!("it did not come to its end: {error}"));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn has_failed(&self) -> bool {
        self.failed().next().is_some() || self.within().1 > 0
    }

    /// States that are a failure.
    pub fn failed(&self) -> impl Iterator<Item = &Checked> {
        self.checked.iter().filter(|checked| self.is_failure(checked))
    }

    /// Whether it is a promise that was not kept.
    pub fn is_failure(&self, checked: &Checked) -> bool {
        match checked.fate {
            Fate::Lost => true,
            Fate::Unmountable => self.unmountable_counts,
            Fate::Kept | Fate::Broken => false,
        }
    }

    /// Worst cases looked at, and those that failed; drawn states likewise.
    pub fn counts(&self) -> [(usize, usize); 2] {
        [true, false].map(|worst| {
            let all = self.checked.iter().filter(|checked| checked.worst == worst);
            let failed = self.failed().filter(|checked| checked.worst == worst);
            (all.count(), failed.count())
        })
    }

    /// States looked at within recoveries, and those that failed.
    pub fn within(&self) -> (usize, usize) {
        let all = self.recoveries.iter();
        all.fold((0, 0), |(states, failed), one| (states + one.states, failed + one.failed.len()))
    }

    fn of(&self, fate: Fate) -> usize {
        self.checked.iter().filter(|checked| checked.fate == fate).count()
    }

    /// As a document.
    pub fn document(&self) -> Value {
        let [worst, drawn] = self.counts();
        let failures: Vec<Value> = self.failed().take(100).map(failure).collect();
        let recoveries: Vec<Value> = self
            .recoveries
            .iter()
            .map(|one| {
                json!({
                    "of": { "cut": one.of.at, "left": left_text(&one.of.left) },
                    "writes": one.writes,
                    "states": one.planned,
                    "looked_at": one.states,
                    "failed": one.failed.len(),
                    "failures": one.failed.iter().take(10).map(failure).collect::<Vec<_>>(),
                })
            })
            .collect();
        let why = match &self.verdict {
            Verdict::NotMeasured(why) | Verdict::Broken(why) => Some(why),
            Verdict::Kept | Verdict::Lost => None,
        };
        json!({
            "verdict": self.verdict.name(),
            "why": why,
            "recorded": {
                "promises": self.recorded.promises,
                "writes": self.recorded.writes,
                "flushes": self.recorded.flushes,
                "bytes": self.recorded.bytes,
                "ms": self.recorded.ms,
            },
            "worst": { "states": self.planned.0, "looked_at": worst.0, "failed": worst.1 },
            "drawn": { "states": self.planned.1, "looked_at": drawn.0, "failed": drawn.1 },
            "unmountable": self.of(Fate::Unmountable),
            "broken": self.of(Fate::Broken),
            "states": self.states,
            "ms": self.ms,
            "failures": failures,
            "recoveries": recoveries,
            "live": self.live.as_ref().map(Live::document),
            "stack": self.stacked.as_ref().map(Stacked::document),
            "blame": self.blame.as_ref().map(Blame::document),
            "plans": self.plans,
            "notes": self.notes,
        })
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{:02} s", ms / 1000, ms % 1000 / 10)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let r = &self.recorded;
        let took = r.ms.map_or(String::new(), |ms| format!(" in {}", seconds(ms)));
        writeln!(
            f,
            "recorded {}: {} promises, {} writes, {} flushes, {} KiB{took}",
            self.name,
            r.promises,
            r.writes,
            r.flushes,
            r.bytes >> 10
        )?;
        let [worst, drawn] = self.counts();
        if let Some(live) = &self.live {
            writeln!(
                f,
                "{} runs on a failing drive: a request refused in {}; {} ended with an error; {} promises came \
                 after a refusal",
                live.runs, live.struck, live.complained, live.after
            )?;
        }
        if let Some(Stacked { stack, runs, within, all, .. }) = &self.stacked {
            writeln!(
                f,
                "{runs} runs on {stack}: the power went with one of its {} operations in {within}, when \
                 the program had ended in {}",
                all.operations,
                runs - within
            )?;
        }
        let all = self.checked.len() as u64;
        let rate = (all * 60_000).checked_div(self.ms).unwrap_or(0);
        match self.live {
            _ if self.stacked.is_some() => {
                writeln!(f, "looked at what came up {all} times in {}", seconds(self.ms))?;
            }
            Some(_) => writeln!(f, "looked at {all} states in {}", seconds(self.ms))?,
            None => writeln!(
                f,
                "explored {} of {} worst cases + {} of {} random states in {} ({rate} a minute)",
                worst.0,
                self.planned.0,
                drawn.0,
                self.planned.1,
                seconds(self.ms)
            )?,
        }
        let unmountable = self.of(Fate::Unmountable);
        if unmountable > 0 {
            let counts =
                if self.unmountable_counts { "" } else { " (the file system's own, not counted)" };
            writeln!(f, "{unmountable} states do not mount{counts}")?;
        }
        if !self.recoveries.is_empty() {
            let (states, failed) = self.within();
            let (count, planned) =
                (self.recoveries.len(), self.recoveries.iter().map(|one| one.planned));
            let planned: usize = planned.sum();
            writeln!(
                f,
                "cut again within {count} recoveries: {states} of {planned} states, {failed} failed"
            )?;
            for one in self.recoveries.iter().filter(|one| !one.failed.is_empty()).take(3) {
                let first = &one.failed[0];
                writeln!(
                    f,
                    "  recovery   of the state before record {} (left: {}), cut before its record {}: {}",
                    one.of.at,
                    left_text(&one.of.left),
                    first.cut.at,
                    first.reason
                )?;
            }
        }
        match &self.verdict {
            Verdict::Kept => writeln!(f, "KEPT: every promise, in every state")?,
            Verdict::Lost => self.lost(f)?,
            Verdict::NotMeasured(why) => writeln!(f, "NOT MEASURED: {why}")?,
            Verdict::Broken(why) => writeln!(f, "HARNESS BROKEN: {why}")?,
        }
        for plan in &self.plans {
            writeln!(f, "  replay     varve replay {plan}")?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

impl Report {
    fn lost(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(stacked) = &self.stacked {
            writeln!(f, "LOST in {} of {} runs", stacked.failed, stacked.runs)?;
            return self.failed().next().map_or(Ok(()), |first| {
                writeln!(f, "  first      {} promises: {}", first.promised, first.reason)
            });
        }
        let [worst, drawn] = self.counts();
        writeln!(
            f,
            "LOST in {} of {} worst cases and {} of {} random states",
            worst.1, worst.0, drawn.1, drawn.0
        )?;
        let Some(first) = self.failed().min_by_key(|failed| (failed.cut.at, !failed.worst)) else {
            return Ok(());
        };
        writeln!(
            f,
            "  earliest   before record {} (left: {}), {} promises: {}",
            first.cut.at,
            left_text(&first.cut.left),
            first.promised,
            first.reason
        )?;
        self.blame.as_ref().map_or(Ok(()), |blame| write!(f, "{blame}"))
    }
}
