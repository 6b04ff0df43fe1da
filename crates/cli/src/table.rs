//! The table of a result document, for people.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use lab::metric::{self, Metric};
use lab::report::{CAUSES, best, mean_ci};
use report::format::{count, grouped, significant};
use serde_json::Value;

/// A table without frames: columns by blanks, the heading underlined.
pub fn plain(heading: &[String]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heading);
    table
}

/// Aligns every column from `first` on to the right.
pub fn numbers(table: &mut Table, first: usize) {
    for (i, column) in table.column_iter_mut().enumerate() {
        if i >= first {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// The table as text without blanks at the ends of lines, nor the margin on the left.
pub fn text(table: &Table) -> String {
    let bare = |l: String| l.strip_prefix(' ').unwrap_or(&l).trim_end().to_string();
    let lines: Vec<String> = table.lines().map(bare).collect();
    lines.join("\n") + "\n"
}

/// Runs that differ in their seed alone.
struct Group<'a> {
    params: Vec<(String, String)>,
    runs: Vec<&'a Value>,
}

fn groups(document: &Value) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in document["results"].as_array().into_iter().flatten() {
        let params: Vec<(String, String)> = run["params"]
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != "seed")
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_string()))
            .collect();
        match groups.iter_mut().find(|g| g.params == params) {
            Some(group) => group.runs.push(run),
            None => groups.push(Group { params, runs: vec![run] }),
        }
    }
    groups
}

impl Group<'_> {
    /// Whether all seeds came to the same operations of the array, at the same times.
    fn is_one_run(&self) -> bool {
        let [first, others @ ..] = self.runs.as_slice() else { return false };
        let same = |run: &&Value| run["event_hash"] == first["event_hash"];
        first["event_hash"].is_string() && !others.is_empty() && others.iter().all(same)
    }

    fn mean(&self, metric: Metric) -> Option<(f64, Option<f64>)> {
        let values: Vec<f64> = self.runs.iter().filter_map(|run| metric.of(run)).collect();
        mean_ci(&values)
    }

    /// What is written to flash for each byte the client writes: all layers together.
    fn waf(&self) -> Option<(f64, Option<f64>)> {
        self.mean(metric::WAF)
    }

    /// The swept keys' values, as short as they can be.
    fn label(&self) -> String {
        self.params.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// Write amplification by what the drive programmed.
    fn causes(&self) -> String {
        let programs = |metric| Some(self.mean(metric)?.0);
        let (Some((waf, _)), Some(total)) = (self.waf(), programs(metric::PROGRAMS)) else {
            return "-".to_string();
        };
        let parts = CAUSES.iter().filter_map(|(name, _, of)| {
            let share = waf * programs(*of)? / total;
            // Less than half a hundredth says nothing in two decimals.
            (share >= 0.005).then(|| format!("{name} {share:.2}"))
        });
        parts.collect::<Vec<_>>().join(" + ")
    }
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_string())
}

fn micros(ns: f64) -> String {
    significant(ns / 1000.0, 3)
}

const READS: [Metric; 3] = [metric::READ_P50, metric::READ_P99, metric::READ_P999];
const WRITES: [Metric; 3] = [metric::WRITE_P50, metric::WRITE_P99, metric::WRITE_P999];

/// Percentiles of an operation as `p50/p99/p99.9`.
fn percentiles(group: &Group<'_>, of: [Metric; 3]) -> String {
    let list = of.map(|metric| or_dash(group.mean(metric).map(|(mean, _)| micros(mean))));
    if list.iter().all(|t| t == "-") { "-".to_string() } else { list.join(" / ") }
}

/// The table of a document, with what one must know to read it.
pub fn results(document: &Value) -> String {
    let groups = groups(document);
    let swept: Vec<String> =
        groups.first().map_or(Vec::new(), |g| g.params.iter().map(|p| p.0.clone()).collect());
    let mut keys: Vec<&str> = swept.iter().map(String::as_str).collect();
    keys.retain(|k| *k != "buffer.policy" && *k != "buffer.size");
    let mut heading: Vec<String> = vec!["policy".into(), "buffer".into()];
    heading.extend(keys.iter().map(|k| k.to_string()));
    let first_number = heading.len();
    let layers = groups.iter().any(|g| g.mean(metric::WAF_DRIVE).is_some());
    let waf: &[&str] = if layers { &["WAF all", "WAF drive"] } else { &["WAF"] };
    let rest = ["WAF by cause", "read us 50/99/99.9", "write us 50/99/99.9", "erases"];
    heading.extend(["hit %"].iter().chain(waf).chain(&rest).map(|h| h.to_string()));
    let mut table = plain(&heading);
    let best = best(&groups.iter().map(Group::waf).collect::<Vec<_>>(), -1);
    for (group, best) in groups.iter().zip(&best) {
        let setting = |key: &str| {
            let swept = group.params.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
            let config = || {
                let run = group.runs.first()?;
                lab::report::config_text(document, run, key).map(str::to_string)
            };
            or_dash(swept.or_else(config))
        };
        let policy = setting("buffer.policy");
        let size = if policy == "none" { "-".to_string() } else { setting("buffer.size") };
        let mut row = vec![policy, size];
        row.extend(keys.iter().map(|key| setting(key)));
        let hit = group.mean(metric::HIT).map(|(m, _)| significant(m * 100.0, 3));
        row.push(or_dash(hit));
        let cell = |star, (mean, half): (f64, Option<f64>)| {
            format!("{star}{mean:.3}{}", half.map_or(String::new(), |h| format!(" ± {h:.3}")))
        };
        let star = if *best { "* " } else { "" };
        row.push(or_dash(group.waf().map(|waf| cell(star, waf))));
        if layers {
            // Without a layer, the drive's is that of all.
            let drive = group.mean(metric::WAF_DRIVE).or_else(|| group.waf());
            row.push(or_dash(drive.map(|waf| cell("", waf))));
        }
        row.push(group.causes());
        row.push(percentiles(group, READS));
        row.push(percentiles(group, WRITES));
        row.push(or_dash(group.mean(metric::ERASES).map(|(m, _)| grouped(m.round() as u64))));
        table.add_row(row);
    }
    numbers(&mut table, first_number);
    let mut out = text(&table);
    out.push_str(&footnotes(document, &groups, best.iter().filter(|best| **best).count()));
    out
}

/// Ways of what drives came to that are shown.
const SHOWN: usize = 3;

/// What the drives of a document came to: their lines, and what scaling made smaller.
fn chosen(document: &Value) -> String {
    let mut out = String::new();
    let mut seen: Vec<String> = Vec::new();
    for run in document["results"].as_array().into_iter().flatten() {
        let lines = &run["lines"];
        let count = |key: &str| lines[key].as_u64();
        let (Some(kind), Some(all), Some(bytes)) =
            (lines["kind"].as_str(), count("count"), count("bytes"))
        else {
            continue;
        };
        let auto = if lines["chosen"] == "auto" { " by auto" } else { "" };
        let mut text =
            format!("lines: {} {kind}{auto}, {} each", grouped(all), block::Bytes(bytes).human());
        if let (Some(heads), Some(reserve)) = (count("heads"), count("reserve")) {
            text.push_str(&format!("; {heads} open, {reserve} in reserve"));
        }
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    for text in seen.iter().take(SHOWN) {
        out.push_str(&format!("{text}\n"));
    }
    if seen.len() > SHOWN {
        out.push_str(&format!("lines: {} other ways, in the JSON\n", seen.len() - SHOWN));
    }
    out.push_str(&scaled(document));
    out
}

/// What scaling made of the drive of all runs, or of those of some settings: the first of them is named.
fn scaled(document: &Value) -> String {
    let mut ways: Vec<(&Value, String, usize)> = Vec::new();
    for part in lab::report::parts(document) {
        let scale = &part["scale"];
        match ways.iter_mut().find(|(known, ..)| *known == scale) {
            _ if !scale["by"].is_string() => {}
            Some((.., more)) => *more += 1,
            None => ways.push((scale, lab::report::setting_name(part), 0)),
        }
    }
    let text = |v: &Value| v.as_str().unwrap_or_default().to_string();
    let mut out = String::new();
    for (scale, setting, more) in ways.iter().take(SHOWN) {
        let changed = scale["changed"].as_object().into_iter().flatten();
        let changed: Vec<String> = changed
            .map(|(key, v)| format!("{key} {} for {}", text(&v["to"]), text(&v["from"])))
            .collect();
        let of = match (setting.as_str(), *more) {
            ("", _) => String::new(),
            (one, 0) => format!(" ({one})"),
            (one, more) => format!(" ({one} and {more} more)"),
        };
        out += &format!("scaled {}{of}: {}\n", text(&scale["by"]), changed.join(", "));
    }
    if ways.len() > SHOWN {
        out += &format!("scaled: {} other ways, in the JSON\n", ways.len() - SHOWN);
    }
    out
}

fn footnotes(document: &Value, groups: &[Group<'_>], stars: usize) -> String {
    let mut notes = Vec::new();
    match stars {
        0 => {}
        1 => notes.push("* best WAF".to_string()),
        n => notes.push(format!("* best WAF: {n} rows tie")),
    }
    let seeds = groups.iter().map(|g| g.runs.len()).max().unwrap_or(1);
    if seeds > 1 && groups.iter().all(Group::is_one_run) {
        // An interval of nothing would say that it was measured well.
        notes.push(format!(
            "the {seeds} seeds are one run, and no means: nothing in it is drawn from the run's seed"
        ));
    } else if seeds > 1 {
        notes.push(format!("means of {seeds} seeds, ± half of the 95 % confidence interval"));
    }
    let replay = &document["replay"];
    notes.push(match (replay["mode"].as_str(), replay["qd"].as_u64()) {
        (Some("closed"), Some(qd)) => {
            let of = if replay["per_app"] == true { " of each application" } else { "" };
            format!("closed loop, {qd} in flight{of}")
        }
        (Some("open"), _) => "open loop".to_string(),
        (None, _) if document["settings"].is_array() => "replays differ".to_string(),
        (mode, _) => mode.unwrap_or_default().to_string(),
    });
    let unwritten = groups.iter().flat_map(|g| &g.runs).filter_map(|run| {
        let reads = metric::HOST_READ_UNITS.of(run).filter(|u| *u > 0.0)?;
        Some(metric::READ_UNWRITTEN.of(run)? / reads)
    });
    let mut out = notes.join("; ") + "\n";
    let count = |key: &str| document["partial"][key].as_u64();
    if let (Some(finished), Some(of)) = (count("finished"), count("of")) {
        out += &format!("partial: {finished} of {of} runs\n");
    }
    out += &impossible(document);
    out += &saturated(groups);
    out += &conditioned(groups);
    out += &chosen(document);
    if let Some(share) = unwritten.reduce(f64::max).filter(|share| *share > 0.01) {
        out.push_str(&format!(
            "warning: {} % of the pages read were never written and cost no flash time; \
             consider --preload reads\n",
            significant(share * 100.0, 3)
        ));
    }
    out
}

/// Runs that cannot be, and why; the first by name.
fn impossible(document: &Value) -> String {
    const NAMED: usize = 4;
    let found = lab::report::impossible(document);
    let mut out = String::new();
    for (name, why) in found.iter().take(NAMED) {
        out += &format!("impossible: {name}: {why}\n");
    }
    if found.len() > NAMED {
        out += &format!("and {} runs more that cannot be\n", found.len() - NAMED);
    }
    out
}

/// Rows whose host queue was never empty for long, and by how much more was offered than served.
fn saturated(groups: &[Group<'_>]) -> String {
    let full = |run: &Value| run["host_queue"]["saturated"] == true;
    let mut out = String::new();
    let some: Vec<_> = groups.iter().filter(|g| g.runs.iter().any(|run| full(run))).collect();
    for group in some.iter().take(SATURATED) {
        let rate = |metric| {
            let rate = group.mean(metric);
            rate.map_or("all at once".to_string(), |(rate, _)| format!("{}/s", count(rate)))
        };
        let label = if groups.len() > 1 { format!(" ({})", group.label()) } else { String::new() };
        out += &format!(
            "saturated{label}: offered {}, served {}; latencies grow with the length of the run\n",
            rate(metric::OFFERED_PER_S),
            rate(metric::SERVED_PER_S)
        );
    }
    if some.len() > SATURATED {
        out += &format!("and {} rows more\n", some.len() - SATURATED);
    }
    out
}

/// Rows of [`saturated`] that are named.
const SATURATED: usize = 4;

/// Drives that were prepared by a load which had not settled when it ended.
fn conditioned(groups: &[Group<'_>]) -> String {
    let settled = |run: &Value| run["precondition"]["settled"].as_bool();
    let runs: Vec<&Value> = groups.iter().flat_map(|g| g.runs.iter().copied()).collect();
    let not = runs.iter().filter(|run| settled(run) == Some(false)).count();
    match not {
        0 => String::new(),
        n => format!(
            "warning: {n} of {} runs begin in no steady state: write amplification still moved by 1 % \
             or more between two windows when preconditioning ended\n",
            runs.len()
        ),
    }
}
