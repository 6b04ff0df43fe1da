//! `varve sim` and `varve run`: a scenario is made, checked, run, shown and written down.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::explain::{self, TimelineWanted, Window, rows};
use lab::files::write_whole;
use lab::input::DEMO_NAME;
use lab::replay::Watch;
use lab::report::Shown;
use lab::scenario::{FIT, Scenario, split_list};
use lab::study::{Study, Table};
use lab::{Document, Experiment, LabError, Point};

use crate::args::{Output, Run, Sim};
use crate::out::Folder;
use crate::study::Wanted;
use crate::{VERSION, cost, explained, note, parent, print, stop, study, table};

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
    if args.hits && !explanation(&args.output)?.is_nothing() {
        return Err(LabError::Input(
            "--explain, --requests-out, --timeline: --hits counts without any time".to_string(),
        ));
    }
    if args.hits {
        return crate::hits::hits(&scenario, args);
    }
    if scenario.title.is_empty() {
        let name = args.trace.rsplit('/').next().unwrap_or(&args.trace);
        scenario.title =
            format!("{name} on {}", args.ssd.as_deref().unwrap_or("the default drive"));
    }
    execute(&scenario, &args.output, demo, &Wanted::default())
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

/// The scenario of a file, or the demo's, with what is set on the command line.
pub fn scenario(name: &str, set: &[String]) -> Result<Scenario, LabError> {
    let mut scenario = match name == DEMO_NAME {
        true => Scenario::from_text("@demo", DEMO, PathBuf::new())?,
        false => Scenario::load(Path::new(name))?,
    };
    for pair in set {
        scenario.set_pair(pair)?;
    }
    Ok(scenario)
}

/// `varve run`.
pub fn run(args: &Run) -> Result<(), LabError> {
    let in_part = args.shard.is_some() || !args.point.is_empty();
    if args.exit_with_parent.as_deref().map_or(in_part, |whether| whether == "on") {
        parent::end_with_it();
    }
    let shard = args.shard.as_deref();
    let wanted = Wanted { resume: args.resume, points: &args.point, shard };
    let demo = args.scenario == DEMO_NAME;
    execute(&scenario(&args.scenario, &args.set)?, &args.output, demo, &wanted)
}

/// How far these points are.
pub fn bar(experiment: &Experiment, points: &[&Point], output: &Output) -> ProgressBar {
    let requests = points.iter().map(|point| experiment.workload(point).requests());
    let bar = match requests.sum::<Option<u64>>() {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::new_spinner(),
    };
    if output.quiet || !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
        return bar;
    }
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
    let style = match bar.length() {
        Some(_) => "{bar:32} {percent:>3} %  {human_pos} of {human_len} requests  {eta} left",
        None => "{spinner} {human_pos} requests  {elapsed}",
    };
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}

/// Runs at a time.
pub fn threads(output: &Output) -> usize {
    let all = || std::thread::available_parallelism().map_or(1, usize::from);
    output.threads.map_or_else(all, usize::from)
}

fn execute(
    scenario: &Scenario,
    output: &Output,
    demo: bool,
    wanted: &Wanted<'_>,
) -> Result<(), LabError> {
    let clock = cost::Watch::start();
    only_one_on_stdout(output.json, output.csv.as_deref())?;
    let mut experiment = Experiment::new(scenario)?;
    for line in experiment.notes()? {
        note(&line);
    }
    let explanation = explanation(output)?;
    let asked = !explanation.is_nothing();
    if asked && wanted.is_some() {
        return Err(LabError::Input(
            "--explain, --requests-out, --timeline: not with --resume, --point or --shard, which \
             keep results that have no causes"
                .to_string(),
        ));
    }
    experiment.explain(explanation)?;
    let reads = !output.json && output.csv.is_none();
    // The page of the demo answers what slow requests waited for, unless it is changed to one in
    // which they wait for nothing.
    let causes = explain::Wanted { causes: true, ..explain::Wanted::default() };
    let of_demo = demo && reads && !asked && !wanted.is_some();
    let explained = asked || of_demo && experiment.explain(causes).is_ok();
    let default_out = (demo && reads).then_some(Path::new(DEMO_OUT));
    let out = output.out.as_deref().or(default_out).map(Folder::prepare).transpose()?;
    let several = experiment.points().len() + experiment.impossible().len() > 1;
    if let Some(out) = out.as_ref().filter(|_| !explained && (several || wanted.is_some())) {
        return study::run(Study::of(experiment, VERSION)?, out, output, wanted, &clock);
    }
    let points: Vec<&Point> = experiment.points().iter().collect();
    let bar = bar(&experiment, &points, output);
    let progress = |requests: u64| bar.inc(requests);
    let watch = Watch { stop: stop::flag(), progress: &progress };
    let result = experiment.run(threads(output), VERSION, watch);
    bar.finish_and_clear();
    let mut document = result?;
    if !output.deterministic {
        document = document.with_cost(clock.cost());
    }
    let mut lines = match &out {
        Some(out) => write_out(out, &experiment.scenario().to_toml()?, &document)?,
        None => Vec::new(),
    };
    if output.explain && !output.json && output.csv.as_deref() != Some("-") {
        lines.insert(0, explained::text(&document.value()).trim_end().to_string());
    }
    let table = Table::of(&document, &experiment.values());
    show(&document, &table, output.json, output.csv.as_deref(), lines)
}

/// Standard output takes one document.
pub fn only_one_on_stdout(json: bool, csv: Option<&str>) -> Result<(), LabError> {
    if json && csv == Some("-") {
        let what = "--json and --csv -: two documents; expected one of the two, or a file";
        return Err(LabError::Input(what.to_string()));
    }
    Ok(())
}

/// Shows a document as it was asked for: one document on standard output, or a table; `lines` after
/// it, of where the rest is.
pub fn show(
    document: &Document,
    columns: &Table,
    json: bool,
    csv: Option<&str>,
    mut lines: Vec<String>,
) -> Result<(), LabError> {
    match csv {
        Some("-") => {
            print(&columns.csv())?;
            lines.iter().for_each(|line| note(line));
            return Ok(());
        }
        Some(path) => {
            write_whole(Path::new(path), columns.csv().as_bytes())?;
            lines.push(format!("wrote {path}"));
        }
        None => {}
    }
    if json {
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

/// What is to be found out about requests.
fn explanation(output: &Output) -> Result<explain::Wanted, LabError> {
    let window = output.timeline.as_deref().map(str::parse::<Window>).transpose();
    let window = window.map_err(LabError::Input)?;
    let timeline = window.zip(output.timeline_out.clone()).map(|(window, path)| TimelineWanted {
        window,
        path,
        most: output.timeline_max,
    });
    let requests = output.requests_out.clone();
    Ok(explain::Wanted { causes: output.explain, requests, timeline })
}

/// Writes the folder of a run: results, report and the scenario that repeats it.
pub fn write_out(
    out: &Folder,
    scenario: &str,
    document: &Document,
) -> Result<Vec<String>, LabError> {
    let path = |name: &str| out.path(name);
    let value = document.value();
    let command = command(&path("run.toml"), &value);
    let html = lab::report::html(&[Shown { name: "", value: &value, command: &command }]);
    write_whole(&path("run.toml"), scenario.as_bytes())?;
    write_whole(&path("report.html"), html.as_bytes())?;
    write_whole(&path("results.json"), document.text().as_bytes())?;
    Ok(vec![
        format!("wrote {}  {}", path("results.json").display(), path("report.html").display()),
        format!("reproduce: {command}"),
    ])
}

/// What repeats a run whose scenario is in a file: with the causes, if it has some.
pub fn command(scenario: &Path, document: &serde_json::Value) -> String {
    let explain = if rows(document).is_some() { " --explain" } else { "" };
    format!("varve run {}{explain}", shell(&scenario.display().to_string()))
}

/// A word for a shell.
fn shell(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=,:@%".contains(c);
    if text.chars().all(plain) {
        text.to_string()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
