//! `varve sim` and `varve run`: a scenario is made, checked, run, shown and written down.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::files::write_whole;
use lab::input::DEMO_NAME;
use lab::replay::Watch;
use lab::report::Shown;
use lab::scenario::{FIT, Scenario, split_list};
use lab::{Document, Experiment, Finished, LabError};

use crate::args::{Output, Run, Sim};
use crate::out::Folder;
use crate::{VERSION, cost, note, print, stop, table};

/// The scenario behind `@demo`.
const DEMO: &str = include_str!("../../../scenarios/demo.toml");
/// Where the demo leaves its report if nobody says.
const DEMO_OUT: &str = "varve-demo";

/// `varve sim`.
pub fn sim(args: &Sim) -> Result<(), LabError> {
    let demo = args.trace == DEMO_NAME;
    let mut scenario = match demo {
        // The demo comes with a drive of a size that makes its workload interesting.
        true => Scenario::from_text("@demo", DEMO, PathBuf::new())?,
        false => Scenario::default(),
    };
    match args.trace.strip_prefix("gen:") {
        Some(recipe) => scenario.set("workload.gen", recipe)?,
        None => scenario.set("workload.trace", &args.trace)?,
    }
    if let Some(ssd) = &args.ssd {
        let is_file = ssd.ends_with(".toml") || ssd.ends_with(".xml") || ssd.contains('/');
        if demo {
            scenario.forget_drive();
        }
        scenario.set(if is_file { "drive.file" } else { "drive.preset" }, ssd)?;
    }
    if let Some(scale) = &args.scale {
        scenario.set("drive.scale", scale)?;
    }
    if args.fit_drive {
        scenario.set("drive.scale", FIT)?;
    }
    for (key, text) in args.reading.keys() {
        scenario.set(&format!("workload.{key}"), &text)?;
    }
    let r = &args.replay;
    let texts = [
        ("workload.fit", &args.fit),
        ("title", &args.title),
        ("seed", &args.seed),
        ("replay.mode", &r.mode),
        ("replay.qd", &r.qd),
        ("replay.speed", &r.speed),
        ("replay.precondition", &r.precondition),
        ("replay.preload", &r.preload),
        ("replay.measure-after", &r.measure_after),
        ("replay.flush-every", &r.flush_every),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            scenario.set(key, text)?;
        }
    }
    if r.per_app {
        scenario.set("replay.per-app", "on")?;
    }
    if args.drop_flushes {
        scenario.set("workload.drop-flushes", "on")?;
    }
    for (key, list) in [("buffer.policy", &args.policy), ("buffer.size", &args.buffer)] {
        match list {
            // Counted together, and so checked together: as a sweep of one value too.
            Some(list) if args.hits => scenario.set(&format!("sweep.{key}"), list)?,
            Some(list) => sweep(&mut scenario, key, list)?,
            None => {}
        }
    }
    for pair in &args.set {
        scenario.set_pair(pair)?;
    }
    if args.hits {
        return crate::hits::hits(&scenario, args);
    }
    if scenario.title.is_empty() {
        let name = args.trace.rsplit('/').next().unwrap_or(&args.trace);
        scenario.title =
            format!("{name} on {}", args.ssd.as_deref().unwrap_or("the default drive"));
    }
    execute(&scenario, &args.output, demo.then_some(Path::new(DEMO_OUT)))
}

/// One value sets the key, several are swept. A share of the drive can only be swept, because it
/// needs the drive's size first.
fn sweep(scenario: &mut Scenario, key: &str, list: &str) -> Result<(), LabError> {
    let values = split_list(list);
    match values.as_slice() {
        [one] if !one.ends_with('%') => {
            scenario.sweeps.retain(|s| s.key != key);
            scenario.set(key, one)
        }
        _ => scenario.set(&format!("sweep.{key}"), list),
    }
}

/// `varve run`.
pub fn run(args: &Run) -> Result<(), LabError> {
    let demo = args.scenario == DEMO_NAME;
    let mut scenario = match demo {
        true => Scenario::from_text("@demo", DEMO, PathBuf::new())?,
        false => Scenario::load(Path::new(&args.scenario))?,
    };
    for pair in &args.set {
        scenario.set_pair(pair)?;
    }
    execute(&scenario, &args.output, demo.then_some(Path::new(DEMO_OUT)))
}

fn bar(experiment: &Experiment, output: &Output) -> ProgressBar {
    let runs = experiment.points().len() as u64;
    let total = experiment.workload().requests().map(|n| n * runs);
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::new_spinner(),
    };
    if output.quiet || !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
        return bar;
    }
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    let style = match total {
        Some(_) => "{bar:32} {percent:>3} %  {human_pos} of {human_len} requests  {eta} left",
        None => "{spinner} {human_pos} requests  {elapsed}",
    };
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}

fn execute(
    scenario: &Scenario,
    output: &Output,
    default_out: Option<&Path>,
) -> Result<(), LabError> {
    let clock = cost::Watch::start();
    for line in scenario.notes()? {
        note(&line);
    }
    let experiment = Experiment::new(scenario)?;
    let threads = output
        .threads
        .map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let out = output.out.as_deref().or(default_out).map(Folder::prepare).transpose()?;
    let bar = bar(&experiment, output);
    let progress = |requests: u64| bar.inc(requests);
    let watch = Watch { stop: stop::flag(), progress: &progress };
    let each = |finished: &Finished<'_>| {
        if let Some(out) = &out {
            out.keep(finished);
        }
    };
    let result = experiment.run(threads, VERSION, watch, &each);
    bar.finish_and_clear();
    let mut document = result?;
    if !output.deterministic {
        document = document.with_cost(clock.cost());
    }
    let lines = match &out {
        Some(out) => write_out(out, experiment.scenario(), &document)?,
        None => Vec::new(),
    };
    if output.json {
        print(&document.text())?;
        lines.iter().for_each(|line| note(line));
        return Ok(());
    }
    let mut shown = table::results(&document.value());
    for line in lines {
        shown.push_str(&line);
        shown.push('\n');
    }
    print(&shown)
}

/// Writes the folder of a run: results, report and the scenario that repeats it.
fn write_out(
    out: &Folder,
    scenario: &Scenario,
    document: &Document,
) -> Result<Vec<String>, LabError> {
    let path = |name: &str| out.path(name);
    let command = format!("varve run {}", shell(&path("run.toml").display().to_string()));
    let value = document.value();
    let html = lab::report::html(&[Shown { name: "", value: &value, command: &command }]);
    write_whole(&path("run.toml"), scenario.to_toml()?.as_bytes())?;
    write_whole(&path("report.html"), html.as_bytes())?;
    write_whole(&path("results.json"), document.text().as_bytes())?;
    out.forget_partial()?;
    Ok(vec![
        format!("wrote {}  {}", path("results.json").display(), path("report.html").display()),
        format!("reproduce: {command}"),
    ])
}

/// A word for a shell.
pub fn shell(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=,:@%".contains(c);
    if text.chars().all(plain) {
        text.to_string()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
