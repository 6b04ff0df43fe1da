//! What a failure needs, and its names.
//!
//! The smallest set of lost blocks says what the drive has to lose. The files say what was not made durable:
//! what the program saw when it promised, beside what the state has before anything is recovered by the
//! checker; that needs no knowledge of the file system.

use std::fmt;
use std::path::Path;

use serde_json::{Value, json};

use crate::blocks;
use crate::crew::Worker;
use crate::error::TortureError;
use crate::history::History;
use crate::shrink::smallest;
use crate::stage::Kind;
use crate::states::{Cut, Left, States};
use crate::tree::{Object, Tree, differences, guess};
use crate::verdict::Checked;
use crate::worker::Job;

/// States that are looked at for the smallest set.
const MOST: usize = 200;
/// Differences that are told.
const TOLD: usize = 6;

/// What a failure needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blame {
    /// The cut with the smallest set lost.
    pub cut: Cut,
    /// Blocks that were pending.
    pub pending: usize,
    /// Blocks that have to be lost; none: it fails with all that was written.
    pub lost: Vec<u64>,
    /// What these blocks are, where that is known.
    pub names: Vec<String>,
    /// The promise that was made last.
    pub promise: Option<String>,
    /// What the state has not as it was promised, in words.
    pub differences: Vec<String>,
    /// What was not made durable, if it is one folder or one file.
    pub guess: Option<Object>,
    /// States that were looked at.
    pub states: usize,
}

/// What was promised over which files.
#[derive(Clone, Debug, Default)]
pub struct Trees(Vec<(String, Tree)>);

impl Trees {
    /// Of the file of a recording; none where there is none.
    pub fn load(path: &Path) -> Trees {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = |line: &str| {
            let value: Value = serde_json::from_str(line).ok()?;
            Some((value["promise"].as_str()?.to_string(), Tree::of(&value["tree"])?))
        };
        Trees(text.lines().map_while(line).collect())
    }

    /// At the promise of a number, from 0.
    pub fn at(&self, number: usize) -> Option<&(String, Tree)> {
        self.0.get(number)
    }
}

/// Finds out what a failure needs.
///
/// # Errors
/// The worker cannot go on.
pub fn blame(
    worker: &mut Worker,
    history: &History,
    (atomic, kind): (u64, Kind),
    failed: &Checked,
    trees: &Trees,
    scratch: &Path,
) -> Result<Blame, TortureError> {
    let mut states = States::new(history, atomic);
    let builder = states.builder(failed.cut.at);
    let pending: Vec<(u64, u32)> = builder.pending().collect();
    let promises = builder.promised().len();
    let without = |lost: &[u64]| {
        let kept = pending.iter().filter(|(block, _)| !lost.contains(block));
        Cut { at: failed.cut.at, left: Left::Keep(kept.copied().collect()) }
    };
    let all: Vec<u64> = pending.iter().map(|(block, _)| *block).collect();
    let mut looked = 0;
    let mut fails = |lost: &[u64]| -> Result<bool, TortureError> {
        looked += 1;
        let answer = worker.ask(&Job::check(without(lost)))?;
        Ok(answer["fate"] == failed.fate.name())
    };
    // What fails with everything there was never written.
    let lost = match () {
        () if fails(&[])? => Vec::new(),
        () if fails(&all)? => smallest(&all, MOST, &mut fails)?.0,
        // Only a mixture of versions fails: it stays as it was drawn.
        () => all.clone(),
    };
    let mixed = !lost.is_empty() && lost.len() == all.len() && failed.cut.left != Left::Worst;
    let cut = if mixed { failed.cut.clone() } else { without(&lost) };
    let image = (kind == Kind::Ext4 && !lost.is_empty()).then(|| scratch.join("blamed.img"));
    let job = Job { tree: true, ..Job::check(cut.clone()) };
    let answer = worker.ask(&job)?;
    let names = match image {
        None if kind == Kind::Strict => {
            let whole = Cut { at: failed.cut.at, left: Left::All };
            crate::strict::told(history, &states.at(&whole).state.sectors, &lost)
        }
        None => Vec::new(),
        Some(image) => {
            // Named on the drive as it would be with everything there.
            let whole = Cut { at: failed.cut.at, left: Left::All };
            worker.ask(&Job { image: Some(image.clone()), ..Job::check(whole) })?;
            let names = blocks::names(&image, &lost, atomic);
            let _ = std::fs::remove_file(&image);
            names
        }
    };
    let last = promises.checked_sub(1).and_then(|number| trees.at(number));
    let found = Tree::of(&answer["tree"]);
    let differs = last.zip(found).map(|((_, promised), found)| differences(promised, &found));
    let differs = differs.unwrap_or_default();
    let guess = guess(&differs);
    let mut told: Vec<String> =
        differs.iter().take(TOLD).map(crate::tree::Difference::words).collect();
    if differs.len() > TOLD {
        told.push(format!("and {} more", differs.len() - TOLD));
    }
    Ok(Blame {
        cut,
        pending: pending.len(),
        lost,
        names,
        promise: last.map(|(promise, _)| promise.clone()),
        differences: told,
        guess,
        states: looked,
    })
}

impl Blame {
    /// As a document.
    pub fn document(&self) -> Value {
        json!({
            "cut": self.cut.at,
            "left": crate::cut_text::left_text(&self.cut.left),
            "pending": self.pending,
            "lost": self.lost,
            "names": self.names,
            "promise": self.promise,
            "differences": self.differences,
            "missing_fsync": self.guess.as_ref().map(Object::words),
            "states": self.states,
        })
    }
}

impl fmt::Display for Blame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pending, self.lost.len()) {
            (0, _) => writeln!(
                f,
                "  needs only that the power goes: nothing was pending, what was promised was \
                 never written"
            )?,
            (_, 0) => writeln!(
                f,
                "  needs only that the power goes: it fails with all {} pending blocks there: \
                 what was promised was never written",
                self.pending
            )?,
            (pending, lost) => writeln!(f, "  needs only {lost} of {pending} pending blocks lost")?,
        }
        for name in &self.names {
            writeln!(f, "             {name}")?;
        }
        let promise = self.promise.as_deref().unwrap_or("the last promise");
        for difference in &self.differences {
            writeln!(f, "  beside what was there at `{promise}`: {difference}")?;
        }
        match &self.guess {
            Some(object) => writeln!(
                f,
                "  guess      an fsync of {} is missing before `{promise}`",
                object.words()
            ),
            None => Ok(()),
        }
    }
}
