//! The slowest request of a run, explained in a line; taken from its result document.

use report::format::{grouped, time};
use serde_json::Value;

/// Causes as a line names them, in its order, with the operations that stand behind each.
const NAMED: [(&str, &str, &[&str]); 13] = [
    ("queue", "in the host's queue", &[]),
    ("gc", "behind cleaning", &["gc program", "gc read"]),
    ("erase", "behind erases", &["erase"]),
    ("host_program", "behind programs of host data", &["host program"]),
    ("host_read", "behind reads of others", &["host read", "rmw read"]),
    ("map", "for pages of the map", &["map read", "map program"]),
    (
        "metadata",
        "behind records of the drive",
        &["metadata program", "tx program", "padding program", "metadata read", "tx read"],
    ),
    ("bus", "for a channel", &[]),
    ("firmware", "firmware", &[]),
    ("link", "link", &[]),
    ("dram", "buffer memory", &[]),
    ("own", "its own flash operations", &[]),
    ("other", "let pass by a layer or a rule of the drive", &[]),
];

/// What a cause is called in a sentence.
pub fn spoken(cause: &str) -> &str {
    NAMED.iter().find(|named| named.0 == cause).map_or(cause, |named| named.1)
}

/// What a cause is called where there is little room.
pub fn short(cause: &str) -> &str {
    match cause {
        "host_read" => "reads",
        "host_program" => "programs",
        "metadata" => "meta",
        "firmware" => "fw",
        other => other,
    }
}

/// A line for the slowest request of each operation of a run that was explained.
pub fn slowest_lines(run: &Value) -> Vec<String> {
    let line = |op: &&str| {
        let slowest = &run["latency_ns"][op]["by_cause"]["slowest"];
        slowest.is_object().then(|| explained(op, slowest))
    };
    ["read", "write", "flush"].iter().filter_map(line).collect()
}

fn explained(op: &str, request: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let span = |value: &Value| time(value.as_f64().unwrap_or(0.0));
    let mut parts: Vec<(f64, String)> = Vec::new();
    let mut rest = 0.0;
    let total = request["latency_ns"].as_f64().unwrap_or(0.0);
    for (cause, words, operations) in NAMED {
        let ns = request["causes"][cause].as_f64().unwrap_or(0.0);
        // Less than a hundredth of it explains nothing.
        if ns < total / 100.0 {
            rest += ns;
            continue;
        }
        let counted = operations.iter().filter_map(|name| {
            let n = request["operations"][name.replace(' ', "_")].as_u64()?;
            Some(format!("{} {name}{}", grouped(n), if n == 1 { "" } else { "s" }))
        });
        let counted: Vec<String> = counted.collect();
        let counted = match counted.is_empty() {
            true => String::new(),
            false => format!(" ({})", counted.join(", ")),
        };
        parts.push((ns, format!("{} {words}{counted}", time(ns))));
    }
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut texts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
    if rest > 0.0 {
        texts.push(format!("{} the rest", time(rest)));
    }
    let place = match number(&request["bytes"]) {
        0 => String::new(),
        n => format!(
            " of {} at byte {}",
            block::Bytes(n).human(),
            grouped(number(&request["offset"]))
        ),
    };
    let die = request["die"].as_u64().map_or(String::new(), |die| format!(", die {die}"));
    format!(
        "slowest {op}: request {}{place}, at {:.6} s{die}, {}: {}",
        grouped(number(&request["request"])),
        request["arrival_ns"].as_f64().unwrap_or(0.0) / 1e9,
        span(&request["latency_ns"]),
        texts.join(", ")
    )
}

/// Mean latency by cause of some requests of a run.
pub struct Row {
    /// The run: what tells it from the others.
    pub run: String,
    /// Which requests: `read`, `read from p99 on`.
    pub of: String,
    /// How many they are.
    pub requests: u64,
    /// Their mean latency in nanoseconds.
    pub mean: f64,
    /// The same by cause, in the order of [`Rows::causes`].
    pub parts: Vec<f64>,
}

/// Latencies by cause of all runs of a document.
pub struct Rows {
    /// The causes that took any time.
    pub causes: Vec<&'static str>,
    /// All requests, and the slow ones, of each operation and run.
    pub rows: Vec<Row>,
}

/// The latencies by cause of a document, as a table has them; none if nobody asked for them.
pub fn rows(document: &Value) -> Option<Rows> {
    let runs = document["results"].as_array().map_or(&[][..], Vec::as_slice);
    let mut all: Vec<(String, String, &Value)> = Vec::new();
    for run in runs {
        let name = run["name"].as_str().unwrap_or_default();
        for op in ["read", "write", "flush"] {
            let of = &run["latency_ns"][op]["by_cause"];
            let slow = [("all", op.to_string())].into_iter().chain(
                [("p99", "p99"), ("p999", "p99.9")]
                    .map(|(id, p)| (id, format!("{op} from {p} on"))),
            );
            let known = slow.filter(|(id, _)| of[id].is_object());
            all.extend(known.map(|(id, words)| (name.to_string(), words, &of[id])));
        }
    }
    let part = |row: &Value, cause: &str| row["causes"][cause].as_f64().unwrap_or(0.0);
    let used = |cause: &&str| all.iter().any(|(.., row)| part(row, cause) > 0.0);
    let causes: Vec<&'static str> = nand::Spent::NAMES.into_iter().filter(|c| used(c)).collect();
    let rows: Vec<Row> = all
        .iter()
        .map(|(run, of, row)| Row {
            run: run.clone(),
            of: of.clone(),
            requests: row["requests"].as_u64().unwrap_or(0),
            mean: row["mean"].as_f64().unwrap_or(0.0),
            parts: causes.iter().map(|cause| part(row, cause)).collect(),
        })
        .collect();
    (!rows.is_empty()).then_some(Rows { causes, rows })
}
