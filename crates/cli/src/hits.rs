//! `varve sim --hits`: hit ratios alone, of many policies and sizes over one decoding.

use block::Bytes;
use lab::files::write_whole;
use lab::hits::{Cell, HitPlan, Hits, SCHEMA as HITS, Sample, count, document};
use lab::replay::Watch;
use lab::scenario::{Scenario, share_of, split_list, twice};
use lab::{Experiment, LabError};
use ssd::PolicySpec;

use crate::args::Sim;
use crate::out::Folder;
use crate::{VERSION, note, print, stop, table};

/// Counts what the command line asks for.
pub fn hits(scenario: &Scenario, args: &Sim) -> Result<(), LabError> {
    if args.output.csv.is_some() {
        return Err(LabError::Input("--csv: of runs; expected no --hits".to_string()));
    }
    let mut scenario = scenario.clone();
    scenario.sweeps.clear();
    let seed = scenario.seeds.first().copied().unwrap_or(1);
    let experiment = Experiment::new(&scenario)?;
    let params = experiment.points()[0].config.resolve()?;
    let capacity = Bytes(u64::from(params.logical_pages) * 4096);
    let policies =
        args.policy.as_deref().map_or(vec![params.buffer.policy.to_string()], split_list);
    let mut sizes = Vec::new();
    for text in args.buffer.as_deref().map(split_list).unwrap_or_default() {
        sizes.push(match text.ends_with('%') {
            true => share_of(&text, capacity).ok_or_else(|| {
                LabError::Input(format!("--buffer {text}: expected a share such as 1 %"))
            })?,
            false => block::parse_size(&text).map_err(|e| {
                LabError::Input(format!("--buffer {text}: expected {}", e.expected))
            })?,
        });
    }
    if sizes.is_empty() {
        sizes.push(params.buffer.size);
    }
    if let Some(policy) = twice(&policies) {
        return Err(LabError::Input(format!("--policy {policy}: it is there twice")));
    }
    if let Some(size) = twice(&sizes) {
        return Err(LabError::Input(format!("--buffer {}: it is there twice", size.human())));
    }
    let read = |text: &String| {
        PolicySpec::parse(text).map_err(|e| LabError::Input(format!("--policy {text}: {e}")))
    };
    let policies = policies.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let cells = policies
        .iter()
        .flat_map(|policy| sizes.iter().map(|size| Cell { policy: policy.clone(), size: *size }));
    let plan = HitPlan {
        cells: cells.collect(),
        capacity,
        shape: params.buffer_shape(),
        discards: true,
        threads: args.output.threads.map_or_else(
            || std::thread::available_parallelism().map_or(1, usize::from),
            usize::from,
        ),
        curve: args.curve.as_deref().map(sample).transpose()?,
    };
    let workload = experiment.workload(&experiment.points()[0]);
    let out = args.output.out.as_deref().map(Folder::prepare).transpose()?;
    let watch = Watch { stop: stop::flag(), progress: &|_| () };
    let found = count(&plan, &|| workload.open(seed, capacity), watch)?;
    let document = document(experiment.heading(HITS, VERSION), &found).pretty();
    let line = match out.as_ref().map(|out| out.path("results.json")) {
        Some(path) => {
            write_whole(&path, document.as_bytes())?;
            Some(format!("wrote {}", path.display()))
        }
        None => None,
    };
    if args.output.json {
        print(&document)?;
        line.iter().for_each(|line| note(line));
        return Ok(());
    }
    let mut text = shown(&found);
    line.iter().for_each(|line| text += &format!("{line}\n"));
    print(&text)
}

fn sample(text: &str) -> Result<Sample, LabError> {
    if text == "exact" {
        return Ok(Sample::All);
    }
    let one_in = text.strip_prefix("1/").and_then(|n| n.parse().ok()).filter(|n| *n > 1);
    one_in.map(Sample::OneIn).ok_or_else(|| {
        LabError::Input(format!("--curve {text}: expected exact, or a share such as 1/100"))
    })
}

/// `part` of `whole` in per cent.
fn percent(part: u64, whole: u64) -> String {
    report::round::per_cent(part, whole, 2).to_string()
}

fn shown(found: &Hits) -> String {
    let apps = found.rows.iter().map(|row| row.apps.len()).max().unwrap_or(0);
    let mut heading: Vec<String> =
        ["policy", "buffer", "entries", "hit %"].map(str::to_string).to_vec();
    if apps > 1 {
        heading.extend((0..apps).map(|app| format!("app {app} %")));
    }
    heading.extend(["pages read", "programmed"].map(str::to_string));
    let mut out = table::plain(&heading);
    for row in &found.rows {
        let (units, hits) = row.accesses(None);
        let mut line = vec![
            row.cell.policy.to_string(),
            row.cell.size.human(),
            row.entries.to_string(),
            percent(hits, units),
        ];
        if apps > 1 {
            line.extend((0..apps).map(|app| {
                let (units, hits) = row.accesses(Some(app));
                percent(hits, units)
            }));
        }
        line.extend([row.reads().to_string(), row.programs().to_string()]);
        out.add_row(line);
    }
    table::numbers(&mut out, 1);
    let mut text = table::text(&out);
    if let Some(curve) = &found.curve {
        let how = match curve.sample() {
            Sample::All => "exact".to_string(),
            Sample::OneIn(n) => format!("from one page in {n}"),
        };
        text += &format!("\nmiss ratio of lru, {how}\n");
        let sampled = curve.sample() != Sample::All;
        let mut heading = vec!["entries".to_string(), "miss %".to_string()];
        heading.extend(sampled.then(|| "standard error".to_string()));
        let mut out = table::plain(&heading);
        for point in curve.points() {
            let mut line = vec![point.entries.to_string(), percent(point.misses, curve.accesses())];
            line.extend(sampled.then(|| percent(point.error, 1_000_000)));
            out.add_row(line);
        }
        table::numbers(&mut out, 0);
        text += &table::text(&out);
    }
    text
}
