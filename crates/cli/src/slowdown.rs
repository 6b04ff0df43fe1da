//! What applications lose by each other, for people: a row for each of them in each run.

use report::format::significant;
use serde_json::Value;

use crate::table::{self, numbers, plain};

fn number(value: &Value, places: i32) -> String {
    value.as_f64().map_or(String::new(), |value| significant(value, places))
}

fn micros(value: &Value) -> String {
    value.as_f64().map_or(String::new(), |ns| significant(ns / 1000.0, 3))
}

/// What a document says of it; nothing if it was not asked.
pub fn text(document: &Value) -> String {
    let runs = document["results"].as_array().map_or(&[][..], Vec::as_slice);
    let heading = [
        "run",
        "application",
        "mean us",
        "alone",
        "slowdown",
        "p99 us",
        "alone",
        "slowdown",
        "fairness",
    ];
    let mut table = plain(&heading.map(String::from));
    let (names, mut rows) = (&document["workload"]["apps"], 0);
    for run in runs {
        let Some(by_app) = run["slowdown"]["by_app"].as_object() else { continue };
        let mut all: Vec<(usize, &Value)> =
            by_app.iter().filter_map(|(app, one)| Some((app.parse().ok()?, one))).collect();
        all.sort_by_key(|(app, _)| *app);
        for (at, (app, one)) in all.into_iter().enumerate() {
            let name = names[app].as_str().map_or_else(|| app.to_string(), str::to_string);
            // A run is named once.
            let first = |text: String| if at == 0 { text } else { String::new() };
            table.add_row([
                first(run["name"].as_str().unwrap_or_default().to_string()),
                name,
                micros(&one["mean_ns"]),
                micros(&one["alone_mean_ns"]),
                number(&one["mean"], 3),
                micros(&one["p99_ns"]),
                micros(&one["alone_p99_ns"]),
                number(&one["p99"], 3),
                first(number(&run["slowdown"]["fairness"], 3)),
            ]);
            rows += 1;
        }
    }
    if rows == 0 {
        return String::new();
    }
    numbers(&mut table, 2);
    format!("\nwhat applications lose by each other\n{}", table::text(&table))
}
