//! `varve trace`: look at, convert, make and merge traces.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use block::{Bytes, parse_time};
use lab::LabError;
use lab::files::{keeps, new_part};
use lab::input::{Fit, Origin, Workload};
use lab::scenario::{Scenario, split_list};
use lab::trace::{document, files, open};
use report::format::{grouped, significant};
use workload::generate::parse_recipe;
use workload::info::{InfoOptions, Tally, TraceInfo, trace_info};
use workload::read::{ReadOptions, VtrHeader, VtrWriter, file_sha256};
use workload::{OpenTrace, Record, Source, SourceError};

use crate::args::{Convert, Gen, Info, Keep, Merge, Reading, Trace};
use crate::{VERSION, note, print, stop, table};

/// `varve trace ..`.
pub fn trace(args: &Trace) -> Result<(), LabError> {
    match args {
        Trace::Info(args) => info(args),
        Trace::Convert(args) => convert(args),
        Trace::Gen(args) => gen_trace(args),
        Trace::Merge(args) => merge(args),
        Trace::Keep(args) => keep(args),
    }
}

/// The options, read by the rules of scenarios.
fn options(reading: &Reading) -> Result<ReadOptions, LabError> {
    let mut scenario = Scenario::default();
    for (key, text) in reading.keys() {
        scenario.set(&format!("workload.{key}"), &text)?;
    }
    Ok(scenario.workload.options)
}

fn info(args: &Info) -> Result<(), LabError> {
    let window = parse_time(&args.window).map_err(|e| LabError::Input(format!("--window {e}")))?;
    if window.as_ps() == 0 {
        return Err(LabError::Input("--window 0: expected a time above 0".to_string()));
    }
    let mut trace = open(&args.trace, &options(&args.reading)?)?;
    let how = InfoOptions { window, ..InfoOptions::default() };
    let found = stop::at_once(|| trace_info(&mut trace, &how))?;
    if args.json {
        return print(&document(&args.trace, &trace, &found, VERSION).pretty());
    }
    shown(&trace, &found)
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_string();
    }
    format!("{} %", significant(100.0 * part as f64 / whole as f64, 3))
}

fn mb(bytes: u64) -> String {
    match bytes {
        0..100_000 => format!("{} B", grouped(bytes)),
        100_000..10_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        10_000_000_000..10_000_000_000_000 => format!("{:.1} GB", bytes as f64 / 1e9),
        _ => format!("{:.1} TB", bytes as f64 / 1e12),
    }
}

fn shown(trace: &OpenTrace, info: &TraceInfo) -> Result<(), LabError> {
    let t = &info.total;
    let mut list = table::plain(&["".to_string(), "".to_string()]);
    let mut row = |key: &str, text: String| {
        list.add_row(vec![key.to_string(), text]);
    };
    let packed = trace.compression().name();
    row("format", format!("{} ({})", trace.format().name, packed));
    row("requests", grouped(t.requests()));
    let kind = |tally: &Tally| {
        format!(
            "{} ({}), {}",
            grouped(tally.requests),
            percent(tally.requests, t.requests()),
            mb(tally.bytes)
        )
    };
    row("reads", kind(&t.read));
    row("writes", kind(&t.write));
    for (name, tally) in [("flushes", &t.flush), ("discards", &t.discard), ("zeroes", &t.zero)] {
        if tally.requests > 0 {
            row(name, kind(tally));
        }
    }
    row("span", format!("{} s", significant(info.span().as_ps() as f64 / 1e12, 4)));
    row("footprint", format!("{} in 4 KiB pages", mb(t.footprint_pages * 4096)));
    row("reaches", mb(t.end.0));
    row(
        "rewrites",
        format!(
            "{} of the pages written were written before",
            percent(t.page_rewrites, t.page_writes)
        ),
    );
    let transfers = t.transfers().requests;
    row("sequential", percent(t.sequential, transfers));
    row("aligned to 4 KiB", percent(t.aligned, transfers));
    row("mean size", format!("{} B", grouped(t.transfers().mean().0)));
    let ws = &info.working_set;
    if let Some(mean) = ws.total_pages.checked_div(ws.windows) {
        let window = significant(ws.window.as_ps() as f64 / 1e12, 3);
        let text =
            format!("{} per {window} s, at most {}", mb(mean * 4096), mb(ws.max_pages * 4096));
        row("working set", text);
    }
    let s = trace.summary();
    if s.skipped > 0 {
        row("bad lines left out", grouped(s.skipped));
    }
    if s.incomplete > 0 {
        row("rows without operation or offset, left out", grouped(s.incomplete));
    }
    if s.folded_ids > 0 {
        row("ids above 2^50, told apart by their low bits alone", grouped(s.folded_ids));
    }
    if s.wide_objects > 0 {
        row("objects larger than a page, over the ids that follow", grouped(s.wide_objects));
    }
    if info.untracked_pages > 0 {
        row("page visits not tracked", grouped(info.untracked_pages));
    }
    let mut out = table::text(&list).trim_start_matches('\n').to_string();
    out.push('\n');
    out.push_str(&sizes_and_apps(trace, info));
    print(&out)
}

/// Requests by size, and by application if there are several.
fn sizes_and_apps(trace: &OpenTrace, info: &TraceInfo) -> String {
    let mut sizes = table::plain(&["size", "reads", "writes"].map(str::to_string));
    for class in info.sizes.iter().filter(|c| c.read.requests + c.write.requests > 0) {
        let bound =
            class.up_to.map_or("larger".to_string(), |b: Bytes| format!("to {}", b.human()));
        sizes.add_row(vec![bound, grouped(class.read.requests), grouped(class.write.requests)]);
    }
    table::numbers(&mut sizes, 1);
    let mut out = table::text(&sizes);
    if info.apps.len() > 1 {
        let mut apps = table::plain(&["app", "reads", "writes", "footprint"].map(str::to_string));
        for app in &info.apps {
            let name = trace.apps().get(usize::from(app.app.0)).cloned();
            let c = &app.counts;
            apps.add_row(vec![
                name.unwrap_or_else(|| app.app.to_string()),
                grouped(c.read.requests),
                grouped(c.write.requests),
                mb(c.footprint_pages * 4096),
            ]);
        }
        table::numbers(&mut apps, 1);
        out.push('\n');
        out.push_str(&table::text(&apps));
    }
    out
}

/// The first so many records of a source.
struct First<'a, S: ?Sized> {
    source: &'a mut S,
    left: u64,
}

impl<S: Source + ?Sized> Source for First<'_, S> {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        if self.left > 0 {
            self.source.fill(block)?;
            block.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= block.len() as u64;
        }
        Ok(())
    }
}

/// What is written takes the place of what has the name: that must be meant.
fn writable(path: &Path) -> Result<(), LabError> {
    let wrong = |what: &str| Err(LabError::Input(format!("{}: {what}", path.display())));
    if path.extension() != Some("vtr".as_ref()) {
        return wrong("a trace is written in our own format: expected a name that ends in .vtr");
    }
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return wrong(
            "there is something that is no file: expected a name that is free, or a file's",
        );
    }
    Ok(())
}

/// Writes a source to a .vtr file: whole, or not at all. Names of applications are asked for after the last
/// record: some traces know them only then.
fn write_vtr<S: Source + ?Sized>(
    path: &Path,
    header: &VtrHeader,
    source: &mut S,
    apps: impl FnOnce(&mut S) -> Vec<String>,
) -> Result<(), LabError> {
    writable(path)?;
    let io = |e| LabError::io(path, e);
    let (part, file) = new_part(path).map_err(io)?;
    let write = || -> Result<(), LabError> {
        let mut out = VtrWriter::new(BufWriter::new(file), header).map_err(io)?;
        let records = out.copy(source, path)?;
        let (buffer, totals) = out.finish(&apps(source)).map_err(io)?;
        let file = buffer.into_inner().map_err(|e| io(e.into_error()))?;
        file.sync_all().map_err(io)?;
        std::fs::rename(&part, path).map_err(io)?;
        print(&format!(
            "wrote {}: {} requests, {} bytes\n",
            path.display(),
            grouped(records),
            grouped(totals.file_bytes)
        ))
    };
    let result = write();
    if result.is_err() {
        // The first error counts; a part that cannot be removed does no harm.
        let _ = std::fs::remove_file(&part);
    }
    result
}

/// The command that made a file, without the folders it ran in.
fn command() -> String {
    let short = |word: String| word.rsplit('/').next().unwrap_or(&word).to_string();
    std::env::args().map(short).collect::<Vec<_>>().join(" ")
}

/// The files of a trace, none of which is the one to be written.
fn stays(trace: &str, output: &PathBuf) -> Result<Vec<PathBuf>, LabError> {
    let files = files(trace)?;
    let reads: Vec<_> = files.iter().map(|file| ("trace", file.clone())).collect();
    keeps(&reads, std::slice::from_ref(output))?;
    Ok(files)
}

/// The names of files without their folders, and the digests of their bytes: a trace may lie in several.
fn origin(trace: &str, files: &[PathBuf]) -> Result<(String, String), LabError> {
    if files.is_empty() {
        return Ok((trace.to_string(), String::new()));
    }
    let (mut names, mut digests) = (Vec::new(), Vec::new());
    for file in files {
        names.push(file.file_name().unwrap_or_default().to_string_lossy().into_owned());
        if file.is_file() {
            digests.push(file_sha256(file).map_err(|e| LabError::io(file, e))?);
        }
    }
    Ok((names.join(" "), digests.join(" ")))
}

fn convert(args: &Convert) -> Result<(), LabError> {
    let options = options(&args.reading)?;
    let fit: Fit = match &args.fit {
        Some(text) => text.parse().map_err(LabError::Input)?,
        None => Fit::Exact,
    };
    if let Fit::Wrap = fit {
        return Err(LabError::Input("--fit wrap: expected compact or compact:SIZE".to_string()));
    }
    writable(&args.output)?;
    let files = stays(&args.trace, &args.output)?;
    let mut trace = open(&args.trace, &options)?;
    let (source, source_sha256) = origin(&args.trace, &files)?;
    let before = trace.header().cloned().unwrap_or_default();
    let header = VtrHeader {
        source,
        source_sha256,
        format: trace.format().name.to_string(),
        commands: vec![command()],
        licence: if args.licence.is_empty() { before.licence } else { args.licence.clone() },
        synthetic: before.synthetic,
        // What is made compact lies one behind the other.
        shared: trace.is_shared() || fit != Fit::Exact,
        carries: trace.carries(),
        ..VtrHeader::default()
    };
    let left = args.limit.unwrap_or(u64::MAX);
    if fit != Fit::Exact {
        let origin = Origin::parse(&args.trace, Path::new("")).map_err(LabError::Input)?;
        let origin = Some(origin);
        let prepared = Workload { origin, options, fit, ..Workload::default() }.prepare(1)?;
        let mut source = prepared.open(1, prepared.extent())?;
        let apps = prepared.survey.apps.clone();
        let mut first = First { source: &mut *source, left };
        return write_vtr(&args.output, &header, &mut first, |_| apps);
    }
    let mut first = First { source: &mut trace, left };
    write_vtr(&args.output, &header, &mut first, |first| names(first.source))
}

/// The names of applications, once the requests that are wanted were read. Those of a packed `.vtr` stand at its
/// end, whatever lies between.
fn names(trace: &mut OpenTrace) -> Vec<String> {
    let mut block = Vec::new();
    while trace.apps().is_empty() && trace.format().name == "vtr" {
        if trace.fill(&mut block).is_err() || block.is_empty() {
            break;
        }
    }
    trace.apps().to_vec()
}

fn gen_trace(args: &Gen) -> Result<(), LabError> {
    // As scenarios and `sim` call it.
    let recipe_text = args.recipe.strip_prefix("gen:").unwrap_or(&args.recipe);
    let recipe = parse_recipe(recipe_text, args.seed)?;
    let described = recipe.describe().into_iter().map(|(k, v)| format!("{k}={v}"));
    let header = VtrHeader {
        source: format!("gen:{recipe_text}"),
        format: "recipe".to_string(),
        commands: vec![command(), described.collect::<Vec<_>>().join(" ")],
        synthetic: true,
        shared: true,
        ..VtrHeader::default()
    };
    write_vtr(&args.output, &header, &mut *recipe.open(), |_| Vec::new())
}

/// `NAME=VALUE` for one of the applications.
fn for_app<'a>(
    text: &'a str,
    what: &str,
    names: &[String],
) -> Result<(&'a str, &'a str), LabError> {
    let pair = text.split_once('=').filter(|(name, _)| names.iter().any(|n| n == name));
    pair.ok_or_else(|| {
        let names = names.join(", ");
        LabError::Input(format!("{what} `{text}`: expected NAME=VALUE with one of {names}"))
    })
}

fn merge(args: &Merge) -> Result<(), LabError> {
    let mut scenario = Scenario::default();
    let mut names = Vec::new();
    for app in &args.apps {
        let Some((name, files)) = app.split_once('=') else {
            return Err(LabError::Input(format!("`{app}`: expected NAME=FILE[,FILE..]")));
        };
        if names.iter().any(|known| known == name) {
            let what = format!(
                "`{app}`: there is a {name} already; expected a name of its own for each application"
            );
            return Err(LabError::Input(what));
        }
        names.push(name.to_string());
        match files.strip_prefix("gen:") {
            Some(recipe) => scenario.set(&format!("tenant.{name}.gen"), recipe)?,
            None => {
                for file in split_list(files) {
                    stays(&file, &args.output)?;
                }
                scenario.set_list(&format!("tenant.{name}.trace"), split_list(files))?;
            }
        }
    }
    for text in &args.stretch {
        let (name, factor) = for_app(text, "--stretch", &names)?;
        scenario.set(&format!("tenant.{name}.stretch"), factor)?;
    }
    for text in &args.rounds {
        let (name, rounds) = for_app(text, "--loop", &names)?;
        scenario.set(&format!("tenant.{name}.loop"), rounds)?;
    }
    if let Some(text) = &args.loop_discard {
        block::parse_switch(text).map_err(|e| LabError::Input(format!("--loop-discard {e}")))?;
        for name in &names {
            scenario.set(&format!("tenant.{name}.loop-discard"), text)?;
        }
    }
    for (key, text) in [("map", &args.map), ("end", &args.end), ("ratio", &args.ratio)] {
        if let Some(text) = text {
            scenario.set(&format!("workload.{key}"), text)?;
        }
    }
    for (key, text) in args.reading.keys() {
        scenario.set(&format!("workload.{key}"), &text)?;
    }
    for pair in &args.set {
        // Another name would be another application, of which nothing is known.
        let of = |name: &String| pair.trim().starts_with(&format!("tenant.{name}."));
        if !names.iter().any(of) {
            let names = names.join(", ");
            let what = format!("--set {pair}: expected tenant.NAME.KEY=VALUE with one of {names}");
            return Err(LabError::Input(what));
        }
        scenario.set_pair(pair)?;
    }
    scenario.workload.drop_flushes = args.drop_flushes;
    let prepared = scenario.workload.prepare(args.seed)?;
    let header = VtrHeader {
        source: args.apps.join(" "),
        format: "merge".to_string(),
        commands: vec![command()],
        shared: true,
        carries: prepared.carries(),
        ..VtrHeader::default()
    };
    prepared.unused().iter().for_each(|line| note(line));
    let mut source = prepared.open(args.seed, Bytes(u64::MAX))?;
    write_vtr(&args.output, &header, &mut *source, |_| names)
}

fn keep(args: &Keep) -> Result<(), LabError> {
    print(&format!("{}\n", lab::input::pinned::keep(&args.source)?))
}
