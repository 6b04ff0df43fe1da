//! The section of a report that says where the time went, if a run was asked.

use std::fmt::Write;

use serde_json::Value;

use crate::explain::{rows, short, slowest_lines};
use ::report::format::{escape, grouped, time};

/// Latency by cause, and the slowest requests in words; empty if nobody asked.
pub(super) fn section(document: &Value) -> String {
    let Some(all) = rows(document) else { return String::new() };
    let mut out = String::from(
        "<h2>Where the time went</h2><p>Mean latency by cause, of all requests and of the slow ones. \
         The parts sum to the mean. <code>reads</code> and <code>programs</code> are those of other \
         requests, <code>own</code> are the request's own flash operations.</p>\
         <div class=\"scroll\"><table><thead><tr><th scope=\"col\">run</th>\
         <th scope=\"col\" class=\"text\">of</th><th scope=\"col\">requests</th>\
         <th scope=\"col\">mean</th>",
    );
    for cause in &all.causes {
        let _ = write!(out, "<th scope=\"col\">{}</th>", short(cause));
    }
    out += "</tr></thead><tbody>";
    for row in &all.rows {
        let _ = write!(
            out,
            "<tr><th scope=\"row\">{}</th><td class=\"text\">{}</td><td>{}</td><td>{}</td>",
            escape(&row.run),
            escape(&row.of),
            grouped(row.requests),
            time(row.mean)
        );
        let most = row.parts.iter().copied().fold(0.0, f64::max);
        for part in &row.parts {
            // The dominant cause of a row is marked.
            let class = if *part == most && most > 0.0 { " class=\"best\"" } else { "" };
            let text = if *part == 0.0 { "–".to_string() } else { time(*part) };
            let _ = write!(out, "<td{class}>{text}</td>");
        }
        out += "</tr>";
    }
    out += "</tbody></table></div><ul>";
    for run in document["results"].as_array().into_iter().flatten() {
        let name = run["name"].as_str().unwrap_or_default();
        for line in slowest_lines(run) {
            let _ = write!(out, "<li>{}: {}</li>", escape(name), escape(&line));
        }
    }
    out + "</ul>"
}
