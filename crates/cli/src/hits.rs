//! `varve sim --hits`: hit ratios alone, of many policies and sizes over one decoding.

use lab::LabError;
use lab::files::{keeps, write_whole};
use lab::folder::{Folder, RESULTS};
use lab::hits::{Hits, SCHEMA, Sample};
use lab::replay::Watch;
use lab::sim::Sim as Asked;

use crate::args::Sim;
use crate::experiment::threads;
use crate::{VERSION, note, print, stop, table};

/// Counts what the command line asks for.
pub fn hits(asked: &Asked, args: &Sim) -> Result<(), LabError> {
    if args.output.csv.is_some() {
        return Err(LabError::Input("--csv: of runs; expected no --hits".to_string()));
    }
    let watch = Watch { stop: stop::flag(), progress: &|_| () };
    let asked = asked.hits(args.curve.as_deref(), watch)?;
    let out = args.output.out.as_deref().map(Folder::prepare).transpose()?;
    if let Some(out) = &out {
        keeps(&asked.reads(), &[out.path(RESULTS)])?;
        out.replaces(None, SCHEMA)?.iter().for_each(|line| note(line));
    }
    let found = asked.count(threads(&args.output), watch)?;
    let document = asked.document(&found, VERSION).pretty();
    let line = match out.as_ref().map(|out| out.path(RESULTS)) {
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
