//! The lists of a document, as CSV texts in the page: people read them there without a script, and
//! the script draws its panels from them. So no number stands in a page twice, and none is left out.
//!
//! | text | rows |
//! | --- | --- |
//! | `runs` | a run: its number, group, label, and what was swept |
//! | `windows-R` | a window of run R, a column for each list of `series` |
//! | `latency-R-OP` | a window of run R: the first bin with any request, the requests of it and the next ones |
//! | `histogram-OP` | a bucket of whole runs: its upper edge, requests in each run |
//! | `lists-R` | a list of run R that is no series: its path, its values; `8*36` is eight times 36 |

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::view::View;
use ::report::format::{escape, grouped};

/// Operations whose latencies a document has.
const OPS: [&str; 4] = ["read", "write", "flush", "discard"];
/// Upper edges of bins of latencies.
const EDGES: &str = "latency_edges_ns";
/// The lists of `series` that are no columns of numbers.
const NESTED: [&str; 4] = [EDGES, "read_latency", "write_latency", "flush_latency"];

/// Runs whose lists a page holds at most: a study has thousands, and a page must open.
const MOST_RUNS: usize = 64;

/// All of them, folded.
pub(super) fn texts(view: &View<'_>) -> String {
    let mut out = String::new();
    put(&mut out, "runs", "The runs", &runs(view));
    if view.runs.len() > MOST_RUNS {
        let left = view.runs.len() - MOST_RUNS;
        let _ = write!(
            out,
            "<p class=\"note\">The lists of the first {MOST_RUNS} runs; those of {} more are in the \
             document alone.</p>",
            grouped(left as u64)
        );
    }
    for (at, run) in view.runs.iter().enumerate().take(MOST_RUNS) {
        let label = view.label_of_run(at);
        let series = &run.value["series"];
        let (text, windows) = columns(series);
        let title = format!("{label}: {} windows", grouped(windows as u64));
        put(&mut out, &format!("windows-{at}"), &title, &text);
        for op in OPS {
            let title = format!("{label}: {op} latencies of each window, by the bins of its lists");
            put(
                &mut out,
                &format!("latency-{at}-{op}"),
                &title,
                &latencies(&series[format!("{op}_latency")]),
            );
        }
        let title = format!("{label}: lists");
        put(&mut out, &format!("lists-{at}"), &title, &lists(run.value));
    }
    for op in OPS {
        let title =
            format!("All runs: how long a {op} took, by the upper edge of its bucket in ns");
        put(&mut out, &format!("histogram-{op}"), &title, &histogram(view, op));
    }
    out
}

/// A text with its title, folded; nothing if it is empty.
pub(super) fn put(out: &mut String, name: &str, title: &str, text: &str) {
    if !text.is_empty() {
        let (title, text) = (escape(title), escape(text));
        let _ = write!(
            out,
            "<details class=\"csv\"><summary>{title}</summary><pre id=\"csv-{name}\">{text}</pre></details>"
        );
    }
}

/// A field of a text: quoted, as values of keys may hold commas; a line stays one, whatever a file is called.
pub(super) fn quoted(text: &str) -> String {
    let line = text.replace(char::is_control, " ");
    format!("\"{}\"", line.replace('"', "\"\""))
}

fn runs(view: &View<'_>) -> String {
    let mut out = String::from("run,group,seed,label,document,swept\n");
    for (at, run) in view.runs.iter().enumerate() {
        let group = &view.groups[run.group];
        let document = view.documents[group.document].name;
        let _ = write!(out, "{at},{},{}", run.group, run.seed);
        let params = group.params.iter().map(|(key, value)| format!("{key}={value}"));
        for text in [view.label_of_run(at), document.to_string()].into_iter().chain(params) {
            let _ = write!(out, ",{}", quoted(&text));
        }
        out.push('\n');
    }
    out
}

/// A number as the document has it; nothing for what is not known.
fn plain(value: &Value) -> String {
    if value.is_null() { String::new() } else { value.to_string() }
}

/// The lists of numbers of a series, one beside the other, and how long they are.
fn columns(series: &Value) -> (String, usize) {
    let mut found: Vec<(String, &Vec<Value>)> = Vec::new();
    for (key, inner) in series.as_object().into_iter().flatten() {
        match inner {
            Value::Array(items) if !NESTED.contains(&key.as_str()) => {
                found.push((key.clone(), items));
            }
            Value::Object(inner) => {
                let lists = inner.iter().filter_map(|(name, v)| Some((name, v.as_array()?)));
                found.extend(lists.map(|(name, items)| (format!("{key}.{name}"), items)));
            }
            _ => {}
        }
    }
    let windows = found.iter().map(|(_, items)| items.len()).max().unwrap_or(0);
    if windows == 0 {
        return (String::new(), 0);
    }
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let mut out = names.join(",") + "\n";
    for row in 0..windows {
        let cells: Vec<String> =
            found.iter().map(|(_, items)| items.get(row).map_or(String::new(), plain)).collect();
        out += &cells.join(",");
        out.push('\n');
    }
    (out, windows)
}

/// The values of a list; what is there three times or more, once.
fn spaced(list: &[Value]) -> String {
    let words = list.chunk_by(|a, b| a == b).map(|run| match run {
        [one] => plain(one),
        [one, _] => format!("{0} {0}", plain(one)),
        [one, ..] => format!("{}*{}", run.len(), plain(one)),
        [] => String::new(),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Bins of each window; `~N` stands for N of them without any request.
fn latencies(windows: &Value) -> String {
    let Some(windows) = windows.as_array() else { return String::new() };
    let mut out = String::from("first bin,requests\n");
    for window in windows {
        let counts = window.as_array().map_or(&[][..], Vec::as_slice);
        let Some((first, counts)) = counts.split_first() else {
            out += "-\n";
            continue;
        };
        let mut words = Vec::new();
        for run in counts.chunk_by(|a, b| a == b && *a == 0) {
            words.push(match run {
                [one] => plain(one),
                none => format!("~{}", none.len()),
            });
        }
        let _ = writeln!(out, "{},{}", plain(first), words.join(" "));
    }
    out
}

/// The buckets of all runs, merged: most are in all of them.
fn histogram(view: &View<'_>, op: &str) -> String {
    let mut rows: BTreeMap<u64, (String, Vec<String>)> = BTreeMap::new();
    for (at, run) in view.runs.iter().enumerate().take(MOST_RUNS) {
        let pairs = run.value["latency_ns"][op]["histogram"].as_array();
        for pair in pairs.into_iter().flatten() {
            let edge = &pair[0];
            let key = (edge.as_f64().unwrap_or(0.0) * 1000.0).round() as u64;
            let row = rows.entry(key).or_insert_with(|| (plain(edge), Vec::new()));
            row.1.resize(at, String::new());
            row.1.push(plain(&pair[1]));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let heads: Vec<String> =
        (0..view.runs.len().min(MOST_RUNS)).map(|run| format!(",run {run}")).collect();
    let mut out = format!("edge_ns{}\n", heads.concat());
    for (edge, counts) in rows.into_values() {
        // Runs that end without any are left out at the end of the row.
        let _ = writeln!(out, "{edge},{}", counts.join(","));
    }
    out
}

/// Lists that are neither series nor histograms of latencies: shares of dies, wear, blocks.
fn lists(run: &Value) -> String {
    let mut out = String::new();
    walk("", run, &mut out);
    out
}

fn walk(prefix: &str, value: &Value, out: &mut String) {
    for (key, inner) in value.as_object().into_iter().flatten() {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match inner {
            // Of series, what is no column.
            Value::Array(items) if name == format!("series.{EDGES}") => {
                let _ = writeln!(out, "{name},{}", spaced(items));
            }
            Value::Array(_) if name.starts_with("series.") => {}
            Value::Array(items) if items.iter().all(|item| !item.is_array()) => {
                let _ = writeln!(out, "{name},{}", spaced(items));
            }
            Value::Array(lists) if name == "blocks.frames.erases" => {
                for (at, items) in lists.iter().enumerate() {
                    let items = items.as_array().map_or(&[][..], Vec::as_slice);
                    let _ = writeln!(out, "{name}.{at},{}", spaced(items));
                }
            }
            Value::Object(_) => walk(&name, inner, out),
            // Histograms of latencies have a text of their own, those by application with them.
            _ => {}
        }
    }
}
