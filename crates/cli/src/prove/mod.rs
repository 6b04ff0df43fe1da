//! `varve prove`: draws runs from seeds and cuts the power everywhere in each, until a number of cuts
//! or minutes is reached or a promise is broken; or in all of a range of seeds, of which a document says what it
//! came to.

mod range;
mod search;

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use lab::LabError;
use lab::files::write_whole;
use lab::folder::Folder;
use proof::{Draw, Failure, Plan, WITHOUT_BUGS, bug_names, draw_stack, sequences, shrink};

use crate::args::Prove;
use crate::{parent, print};
use range::{Range, Search};
use search::{Broken, Searched};

pub use range::SCHEMA;

fn report(options: &Prove, searched: &Searched) -> String {
    let mut out = String::new();
    let tally = &searched.findings.tally;
    let wall = searched.wall.as_secs_f64();
    let _ = match options.seeds {
        Some(seeds) => writeln!(out, "seeds {seeds} runs {} steps {}", tally.seeds, tally.steps),
        // Which ones they were depends on when it ended.
        None => {
            let first = options.seed;
            writeln!(out, "seeds from {first} on, runs {} steps {}", tally.seeds, tally.steps)
        }
    };
    let _ = writeln!(
        out,
        "cuts {} (in recovery {}, in work after one {}), recoveries worked on {}",
        tally.cuts, tally.nested, tally.later, tally.resumed
    );
    if (options.remap && !options.paper) || options.stack.is_some() {
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
        options.threads,
        tally.cuts as f64 / wall / f64::from(options.threads)
    );
    let _ = writeln!(out, "violations {}", searched.findings.violations);
    out
}

/// Writes the plan of a broken promise, small.
fn keep(folder: &Path, plan: &Plan, failure: &Failure) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "seed {}: {failure}", plan.seed);
    let name = format!("{}-{}.toml", failure.contract.to_string().to_lowercase(), plan.seed);
    let path = folder.join(name);
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

/// Refuses what cannot be searched, before anything runs.
fn check(options: &Prove) -> Result<(), LabError> {
    if options.json && options.seeds.is_none() {
        return Err(LabError::Input("--json: expected --seeds or --merge".to_string()));
    }
    if let Some(bug) = &options.bug
        && !bug_names().contains(bug)
    {
        let there = bug_names().join(", ");
        return Err(LabError::Input(match there.is_empty() {
            true => format!("--bug {bug}: {WITHOUT_BUGS}"),
            false => format!("--bug {bug}: there are {there}"),
        }));
    }
    if let Some(bug) = &options.bug {
        search::can_plant(options).map_err(|e| LabError::Input(format!("--bug {bug}: {e}")))?;
    }
    if let Some(stack) = &options.stack {
        let found = draw_stack(options.seed, stack, &Draw::HEALTHY);
        found.map_err(|error| LabError::Input(format!("--stack: {error}")))?;
    }
    if let Some(seeds) = options.seeds
        && options.sequences
        && (seeds.first < 1 || seeds.last > sequences())
    {
        let all = sequences();
        return Err(LabError::Input(format!("--seeds {seeds}: expected sequences, 1..{all}")));
    }
    Ok(())
}

/// The exit code of a search that came to its end.
fn code(violations: u64) -> ExitCode {
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// `varve prove`; exit code 1 if a promise was broken.
pub fn prove(options: &Prove) -> Result<ExitCode, LabError> {
    if !options.merge.is_empty() {
        return merge(options);
    }
    check(options)?;
    let part = options.seeds.is_some();
    if options.exit_with_parent.as_deref().map_or(part, |whether| whether == "on") {
        parent::end_with_it();
    }
    // It is known to take files, before anybody spends hours.
    let out = options.out.as_deref().map(Folder::prepare).transpose()?;
    let searched = search::search(options);
    if searched.interrupted && part {
        // A part of a range is nothing that anybody could add.
        return Err(LabError::Interrupted);
    }
    let mut text = report(options, &searched);
    for Broken { plan, failure } in searched.broken.values() {
        text += &keep(out.as_ref().map_or(Path::new("."), Folder::here), plan, failure);
    }
    let violations = searched.findings.violations;
    if let Some(seeds) = options.seeds {
        let range = Range { search: Search::of(options), seeds, findings: searched.findings };
        text += &finish(options, &range, out.as_ref())?;
    }
    // With --json standard output is exactly one document.
    if options.json {
        crate::note(text.trim_end())
    } else {
        print(&text)?
    }
    Ok(code(violations))
}

/// Writes a range where it is wanted; what is said of it.
fn finish(options: &Prove, range: &Range, out: Option<&Folder>) -> Result<String, LabError> {
    let (document, mut text) = (range.to_json().pretty(), range.line());
    if let Some(folder) = out {
        let path = folder.path(&range.file());
        write_whole(&path, document.as_bytes())?;
        let _ = writeln!(text, "written: {}", path.display());
    }
    if options.json {
        print(&document)?;
    }
    Ok(text)
}

/// `varve prove --merge`.
fn merge(options: &Prove) -> Result<ExitCode, LabError> {
    let out = options.out.as_deref().map(Folder::prepare).transpose()?;
    let range = range::merge(&options.merge)?;
    let text = finish(options, &range, out.as_ref())?;
    if options.json {
        crate::note(text.trim_end())
    } else {
        print(&text)?
    }
    Ok(code(range.findings.violations))
}
