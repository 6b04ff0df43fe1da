//! Where the time went, for people: a table of latencies by cause, and a line for the slowest
//! requests.

use lab::explain::{rows, short, slowest_lines};
use report::format::{grouped, significant};
use serde_json::Value;

use crate::table::{self, numbers, plain};

fn micros(ns: f64) -> String {
    if ns == 0.0 { "-".to_string() } else { significant(ns / 1000.0, 3) }
}

/// What a document says of where the time went; nothing if it was not asked.
pub fn text(document: &Value) -> String {
    let Some(all) = rows(document) else { return String::new() };
    let runs = document["results"].as_array().map_or(&[][..], Vec::as_slice);
    let many = runs.len() > 1;
    let mut heading: Vec<String> = if many { vec!["run".into()] } else { Vec::new() };
    let causes = all.causes.iter().map(|cause| short(cause).to_string());
    heading.extend(["of".into(), "requests".into(), "mean us".into()]);
    heading.extend(causes);
    let mut table = plain(&heading);
    let mut last = "";
    for row in &all.rows {
        let mut cells = Vec::new();
        if many {
            // A run is named once.
            cells.push(if row.run == last { String::new() } else { row.run.clone() });
            last = &row.run;
        }
        cells.extend([row.of.clone(), grouped(row.requests), micros(row.mean)]);
        cells.extend(row.parts.iter().map(|ns| micros(*ns)));
        table.add_row(cells);
    }
    numbers(&mut table, heading.len() - all.causes.len() - 2);
    let mut out = format!("\nwhere the time went, us a request\n{}", table::text(&table));
    for run in runs {
        let name = run["name"].as_str().filter(|_| many);
        for line in slowest_lines(run) {
            out += &name.map_or(String::new(), |name| format!("{name}: "));
            out += &line;
            out.push('\n');
        }
    }
    out
}
