//! `varve sim` and `varve run`: a scenario is made, checked, run, shown and written down.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::explain::{self, TimelineWanted, Window};
use lab::files::{Reads, can_write, keeps, write_whole};
use lab::folder::{self, Folder, REPORT, RESULTS};
use lab::input::DEMO_NAME;
use lab::replay::Watch;
use lab::result::SCHEMA;
use lab::scenario::{FIT, Scenario, split_list};
use lab::sim::{Sim as Asked, named};
use lab::study::{Study, Table};
use lab::{Document, Experiment, LabError, Point};

use crate::args::{Output, Run, Sim};
use crate::study::Wanted;
use crate::{VERSION, cost, explained, note, parent, print, slowdown, stop, study, table};

/// Where the demo leaves its report if nobody says.
const DEMO_OUT: &str = "varve-demo";

/// What the command line asks.
fn asked(args: &Sim) -> Result<Asked, LabError> {
    let list = |text: &Option<String>| text.as_deref().map(split_list);
    let mut asked = Asked::new(&args.trace);
    asked.ssd = args.ssd.clone();
    asked.policies = list(&args.policy);
    asked.buffers = list(&args.buffer);
    asked.set = args.set.clone();
    if let Some(scale) = &args.scale {
        asked.option("scale", scale)?;
    }
    if args.fit_drive {
        asked.option("scale", FIT)?;
    }
    for (key, text) in args.reading.keys() {
        asked.option(key, &text)?;
    }
    let r = &args.replay;
    let texts = [
        ("fit", &args.fit),
        ("title", &args.title),
        ("seed", &args.seed),
        ("mode", &r.mode),
        ("qd", &r.qd),
        ("speed", &r.speed),
        ("precondition", &r.precondition),
        ("preload", &r.preload),
        ("measure-after", &r.measure_after),
        ("flush-every", &r.flush_every),
        ("share", &r.share),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            asked.option(name, text)?;
        }
    }
    let flags =
        [("per-app", r.per_app), ("slowdown", r.slowdown), ("drop-flushes", args.drop_flushes)];
    for (name, on) in flags {
        if on {
            asked.option(name, "on")?;
        }
    }
    Ok(asked)
}

/// `varve sim`.
pub fn sim(args: &Sim) -> Result<(), LabError> {
    let asked = asked(args)?;
    if !args.hits {
        let scenario = asked.scenario()?;
        let (demo, reads) = (args.trace == DEMO_NAME, scenario.reads());
        return execute(&scenario, &args.output, demo, &reads, &Wanted::default());
    }
    if !explanation(&args.output)?.is_nothing() {
        return Err(LabError::Input(
            "--explain, --requests-out, --timeline: --hits counts without any time".to_string(),
        ));
    }
    crate::hits::hits(&asked, args)
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
    let scenario = named(&args.scenario, &args.set)?;
    let mut reads = scenario.reads();
    // What a run wrote there it may write again.
    if !folder::is_written(Path::new(&args.scenario)) {
        reads.push(("scenario", args.scenario.clone().into()));
    }
    execute(&scenario, &args.output, demo, &reads, &wanted)
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
    read: &[Reads],
    wanted: &Wanted<'_>,
) -> Result<(), LabError> {
    let clock = cost::Watch::start();
    only_one_on_stdout(output.json, output.csv.as_deref())?;
    let stoppable = Watch { stop: stop::flag(), progress: &|_| () };
    let mut experiment = Experiment::watched(scenario, stoppable)?;
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
    let reads = !output.json && output.csv.is_none();
    let default_out = (demo && reads).then_some(Path::new(DEMO_OUT));
    // Whatever is written after the runs is known to take it before they begin; files beside the results
    // may lie in their folder.
    let out = output.out.as_deref().or(default_out).map(Folder::prepare).transpose()?;
    keeps(read, &writes(output, out.as_ref()))?;
    csv_can_be_written(output.csv.as_deref())?;
    let toml = experiment.scenario().to_toml()?;
    if let Some(out) = out.as_ref().filter(|_| !wanted.is_part())
        && let Some(line) = out.replaces(Some(&toml), SCHEMA)?
    {
        note(&line);
    }
    experiment.explain(explanation)?;
    // The page of the demo answers what slow requests waited for, unless it is changed to one in
    // which they wait for nothing.
    let causes = explain::Wanted { causes: true, ..explain::Wanted::default() };
    let of_demo = demo && reads && !asked && !wanted.is_some();
    let explained = asked || of_demo && experiment.explain(causes).is_ok();
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
    // What cannot be written costs nothing of what can.
    let mut failed = experiment.unwritten();
    let mut lines = Vec::new();
    match out.as_ref().map(|out| write_out(out, &toml, &document)) {
        Some(Ok(written)) => lines = written,
        Some(Err(error)) => failed.push(error),
        None => {}
    }
    if output.explain && !output.json && output.csv.as_deref() != Some("-") {
        lines.insert(0, explained::text(&document.value()).trim_end().to_string());
    }
    if reads {
        let text = slowdown::text(&document.value());
        lines.extend((!text.is_empty()).then(|| text.trim_end().to_string()));
    }
    let table = Table::of(&document, &experiment.values());
    failed.extend(show(&document, &table, output.json, output.csv.as_deref(), lines).err());
    let Some(last) = failed.pop() else { return Ok(()) };
    failed.iter().for_each(|error| note(&format!("varve: {error}")));
    Err(last)
}

/// Every file that a command is asked to write.
pub fn writes(output: &Output, out: Option<&Folder>) -> Vec<PathBuf> {
    let csv = output.csv.as_deref().filter(|path| *path != "-").map(PathBuf::from);
    let options = [csv, output.requests_out.clone(), output.timeline_out.clone()];
    options.into_iter().flatten().chain(out.into_iter().flat_map(Folder::files)).collect()
}

/// Looks whether `--csv` has a file that takes it.
fn csv_can_be_written(csv: Option<&str>) -> Result<(), LabError> {
    csv.filter(|path| *path != "-").map_or(Ok(()), |path| can_write(Path::new(path)))
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
/// it, of where the rest is. A file of columns that cannot be written keeps nobody from the document.
///
/// # Errors
/// What could not be written.
pub fn show(
    document: &Document,
    columns: &Table,
    json: bool,
    csv: Option<&str>,
    mut lines: Vec<String>,
) -> Result<(), LabError> {
    let mut written = Ok(());
    match csv {
        Some("-") => {
            print(&columns.csv())?;
            lines.iter().for_each(|line| note(line));
            return Ok(());
        }
        Some(path) => {
            written = write_whole(Path::new(path), columns.csv().as_bytes());
            lines.extend(written.is_ok().then(|| format!("wrote {path}")));
        }
        None => {}
    }
    if json {
        print(&document.text())?;
        lines.iter().for_each(|line| note(line));
        return written;
    }
    let mut shown = table::results(&document.value());
    for line in lines {
        shown.push_str(&line);
        shown.push('\n');
    }
    print(&shown)?;
    written
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
    Ok(explain::Wanted { causes: output.explain, requests, listener: None, timeline })
}

/// Writes the folder of a run: results, report and the scenario that repeats it.
pub fn write_out(
    out: &Folder,
    scenario: &str,
    document: &Document,
) -> Result<Vec<String>, LabError> {
    let command = out.write(scenario, document)?;
    let path = |name: &str| out.path(name).display().to_string();
    Ok(vec![format!("wrote {}  {}", path(RESULTS), path(REPORT)), format!("reproduce: {command}")])
}
