//! The report: one HTML file that needs no network, drawn from a result document.
//!
//! What a run has to say, section by section; the frame of the page and the charts are those of the
//! crate `report`.

mod charts;
mod settings;
mod spent;
mod tables;
mod view;

use std::fmt::Write;

use serde_json::Value;

use ::report::chart::SHOWN;
use ::report::format::{escape, grouped, significant};
use ::report::page::{frame, repeat};

use crate::metric;
use view::View;

pub use settings::{config_text, impossible, parts, setting_name, setting_of};
pub use tables::CAUSES;
pub use view::{best, mean_ci};

/// The report of a result document; `reproduce` is the command that repeats the run.
pub fn html(value: &Value, reproduce: &str) -> String {
    let view = View::new(value);
    let title = value["title"].as_str().unwrap_or("A run of varve");
    let schema = value["schema"].as_str().unwrap_or_default();
    let mut main = String::with_capacity(1 << 20);
    body(&mut main, &view, reproduce);
    let version = value["version"].as_str().unwrap_or_default();
    frame(title, version, &lead(&view), schema, &main)
}

fn body(out: &mut String, view: &View<'_>, reproduce: &str) {
    *out += &tables::cards(view);
    if let Some(share) = tables::unwritten_share(view) {
        let _ = write!(
            out,
            "<p class=\"note warn\" style=\"margin-top:18px\">{} % of the pages read were never \
             written. The drive answers these without touching flash, so read latencies look \
             better than they are: consider <code>--preload reads</code>.</p>",
            significant(share * 100.0, 3)
        );
    }
    *out += &tables::impossible(view.document);
    let count = |what: fn(&Value) -> bool| view.runs.iter().filter(|run| what(run.value)).count();
    let saturated = count(|run| run["host_queue"]["saturated"] == true);
    if saturated > 0 {
        let _ = write!(
            out,
            "<p class=\"note warn\" style=\"margin-top:18px\">Saturated: in {saturated} of {} runs \
             the host's queue was never empty for long, because more was offered than the drive \
             serves. Their latencies grow with the length of the run.</p>",
            view.runs.len()
        );
    }
    let unsettled = count(|run| run["precondition"]["settled"] == false);
    if unsettled > 0 {
        let _ = write!(
            out,
            "<p class=\"note warn\" style=\"margin-top:18px\">{unsettled} of {} runs begin in no \
             steady state: write amplification still moved when preconditioning ended.</p>",
            view.runs.len()
        );
    }
    if view.runs.len() > 1 {
        *out += "<h2>Summary</h2><p>";
        if view.groups.iter().any(|g| g.runs.len() > 1) {
            *out += "Means over seeds, ± half of the 95 % confidence interval. ";
        }
        *out += "★ marks the best of a column, and what ties with it: the intervals overlap.</p>";
        *out += &tables::summary(view);
    }
    let bars = tables::waf_bars(view);
    if !bars.is_empty() {
        *out += "<h2>Where writes go</h2><p>Bytes programmed for each byte the host wrote, by \
                 cause. The sum is the write amplification.</p>";
        *out += &bars;
    }
    let time = charts::over_time(view);
    if !time.is_empty() {
        *out += "<h2>Over the run</h2><p>Windows of equal numbers of requests; the \
                 last one, in which the run ended, is drawn if it is full.</p>";
        *out += &tables::legend(view, SHOWN);
        let _ = write!(out, "<div class=\"grid2\">{time}</div>");
    }
    let latency = charts::latency(view);
    if !latency.is_empty() {
        *out += "<h2>Latency</h2><p>From arrival to completion, the host's queue included.</p>";
        let _ = write!(out, "<div class=\"grid2\">{latency}</div>");
    }
    *out += &spent::section(view.document);
    repeat(out, reproduce);
    *out += "<h2>Circumstances</h2><p>What was replayed, and how.</p>";
    for part in settings::parts(view.document) {
        *out += &tables::circumstances(part);
    }
    *out += "<h2>Configuration</h2><p>The effective configuration of the drive, with the source \
             of each value. Swept keys are in the summary.</p>";
    *out += &tables::config(view.document);
    for part in &settings::parts(view.document)[1..] {
        let _ = write!(out, "<h3>{}</h3>", escape(&setting_name(part)));
        *out += &tables::config(part);
    }
    *out += "<h2>All numbers</h2><details><summary>Every counter of every run</summary>";
    *out += &tables::all_numbers(view);
    *out += "</details><h2>Limits of the model</h2><p class=\"note\">Each die serves requests in \
             the order they arrive; there is no out-of-order scheduler. A percentile with fewer \
             than ten samples beyond it is left out. Percentiles of windows are at most 3 % too \
             high, all others at most 0.8 %.</p>";
}

/// What was replayed: files, recipes, or the applications of a merged stream.
fn sources(document: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let short = |s: String| s.rsplit('/').next().unwrap_or(&s).to_string();
    let mut found: Vec<String> = Vec::new();
    for part in settings::parts(document) {
        let list = |key: &str| part["workload"][key].as_array().into_iter().flatten();
        let files: Vec<String> = list("source").map(|value| short(text(value))).collect();
        let tenants: Vec<String> = list("tenants").map(|t| text(&t["name"])).collect();
        let name = if files.is_empty() { tenants.join(" + ") } else { files.join(", ") };
        if !name.is_empty() && !found.contains(&name) {
            found.push(name);
        }
    }
    found.join(", ")
}

/// One sentence: what ran on what, how.
fn lead(view: &View<'_>) -> String {
    let d = view.document;
    let runs = match view.runs.len() {
        1 => "One run".to_string(),
        n => format!("{n} runs"),
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let source = sources(d);
    let requests = d["workload"]["requests"].as_u64();
    let requests = requests.map_or(String::new(), |n| format!(" ({} requests)", grouped(n)));
    let mode = match (d["replay"]["mode"].as_str(), d["replay"]["qd"].as_u64()) {
        (Some("closed"), Some(qd)) => format!("closed loop with {qd} requests in flight"),
        (Some("open"), _) => format!("open loop at {}× speed", text(&d["replay"]["speed"])),
        (Some(mode), _) => mode.to_string(),
        _ => String::new(),
    };
    let waited: Vec<f64> = (0..view.groups.len())
        .filter_map(|g| Some(view.mean(g, metric::WAITED_SHARE)?.0))
        .collect();
    let waited = waited.into_iter().reduce(f64::max).filter(|share| *share > 0.0);
    let waited = waited.map_or(String::new(), |share| {
        format!(
            "; at most {} % of requests waited in the host's queue",
            significant(share * 100.0, 2)
        )
    });
    format!("{runs} of {source}{requests}, {mode}{waited}.")
}
