//! The page of results: one HTML file that needs no network, drawn from result documents. A run
//! writes it as `report.html`; `varve view` shows several documents in the same page.
//!
//! What it holds are tables and texts, so that nothing is lost without a script. With one, panels
//! are drawn from the same texts (`assets`): all of them share the runs that are shown, one range and
//! one crosshair, and that state is in the address.

mod brief;
mod data;
mod live;
mod settings;
mod spent;
mod tables;
mod timeline;
mod view;

use std::fmt::Write;

use serde_json::Value;

use ::report::format::{escape, grouped, significant, time};
use ::report::page::{Assets, Heading, frame, repeat};

use crate::metric;
use view::View;

pub use live::live_html;
pub use settings::{config_text, impossible, parts, scaled_by, setting_name, setting_of};
pub use tables::CAUSES;
pub use timeline::{MOST_SHOWN, timeline_html};
pub use view::{Shown, best, mean_ci};

/// Style and script of this page.
const ASSETS: Assets = Assets {
    style: include_str!("assets/view.css"),
    script: concat!(
        "(function(){\"use strict\";",
        include_str!("assets/data.js"),
        include_str!("assets/pen.js"),
        include_str!("assets/state.js"),
        include_str!("assets/panels.js"),
        include_str!("assets/lanes.js"),
        include_str!("assets/spent.js"),
        include_str!("assets/whole.js"),
        include_str!("assets/pair.js"),
        include_str!("assets/page.js"),
        "})();"
    ),
    live: false,
};

/// A timeline that lies beside documents, and where its page is.
#[derive(Clone, Debug)]
pub struct Beside {
    /// What it is called.
    pub name: String,
    /// The address of its page, from that of the documents.
    pub href: String,
    /// Its first and last moment, in nanoseconds of the measured part.
    pub span_ns: (u64, u64),
}

/// The page of result documents; there is at least one.
pub fn html(documents: &[Shown<'_>]) -> String {
    html_beside(documents, &[])
}

/// The same, with links to timelines: of the only run they show the range that is chosen, as far as it is theirs.
pub fn html_beside(documents: &[Shown<'_>], timelines: &[Beside]) -> String {
    let view = View::new(documents);
    let text = |name: &str| documents.first().and_then(|one| one.value[name].as_str());
    let names: Vec<&str> = documents.iter().map(|one| one.name).collect();
    let together = names.join(" and ");
    let title = match documents.len() {
        1 => text("title").unwrap_or("A run of varve"),
        _ => together.as_str(),
    };
    let mut main = String::with_capacity(1 << 20);
    beside(&mut main, timelines);
    body(&mut main, &view);
    let leads: Vec<String> = documents.iter().map(|one| lead(&view, one)).collect();
    let (version, schema) = (text("version").unwrap_or(""), text("schema").unwrap_or(""));
    frame(&Heading { title, version, lead: &leads.join(" "), schema }, &main, ASSETS)
}

fn beside(out: &mut String, timelines: &[Beside]) {
    if timelines.is_empty() {
        return;
    }
    *out += "<p class=\"note\" id=\"beside\" style=\"margin-top:18px\">What dies did, and what requests stood behind: ";
    for (at, Beside { name, href, span_ns: (from, to) }) in timelines.iter().enumerate() {
        let _ = write!(
            out,
            "{}<a href=\"{}\" data-from=\"{from}\" data-to=\"{to}\">{}</a> ({} to {})",
            if at > 0 { ", " } else { "" },
            escape(href),
            escape(name),
            time(*from as f64),
            time(*to as f64)
        );
    }
    *out += ".</p>";
}

fn body(out: &mut String, view: &View<'_>) {
    *out += &tables::cards(view);
    *out += &brief::lines(view);
    notes(out, view);
    view.documents.iter().for_each(|shown| *out += &tables::impossible(shown.value));
    if view.runs.len() > 1 {
        *out += "<h2>Summary</h2><p>";
        if view.groups.iter().any(|g| g.runs.len() > 1) {
            *out += "Means over seeds, ± half of the 95 % confidence interval. ";
        }
        *out += "★ marks the best of a column, and what ties with it: the intervals overlap.</p>";
        *out += &tables::summary(view);
    }
    *out += "<div id=\"panels\"></div><noscript><p class=\"note\" style=\"margin-top:18px\">What is \
             drawn over time needs a script; its numbers are in the lists below.</p></noscript>";
    let bars = tables::waf_bars(view);
    if !bars.is_empty() {
        *out += "<h2 id=\"writes\">Where writes go</h2><p>Bytes programmed for each byte the host \
                 wrote, by cause. The sum is the write amplification.</p>";
        *out += &bars;
    }
    view.documents.iter().for_each(|shown| *out += &spent::section(shown.value));
    for shown in view.documents.iter().filter(|shown| !shown.command.is_empty()) {
        repeat(out, shown.command);
    }
    *out += "<h2>Circumstances</h2><p>What was replayed, and how.</p>";
    of_each(out, view, |document| {
        settings::parts(document).into_iter().map(tables::circumstances).collect()
    });
    *out += "<h2>Configuration</h2><p>The effective configuration of the drive, with the source \
             of each value. Swept keys are in the summary.</p>";
    *out += &tables::differences(view);
    of_each(out, view, |document| {
        let mut text = tables::config(document);
        for part in &settings::parts(document)[1..] {
            let _ = write!(text, "<h3>{}</h3>", escape(&setting_name(part)));
            text += &tables::config(part);
        }
        text
    });
    *out += "<h2>All numbers</h2><details><summary>Every counter of every run</summary>";
    *out += &tables::all_numbers(view);
    *out += "</details><details><summary>Every list: windows, latencies, histograms</summary>";
    *out += &data::texts(view);
    *out += "</details><h2>Limits of the model</h2><p class=\"note\">Each die serves requests in \
             the order they arrive; there is no out-of-order scheduler. A percentile with fewer \
             than ten samples beyond it is left out. Percentiles of windows are at most 3 % too \
             high, those of a range of windows at most 50 %, all others at most 0.8 %.</p>";
}

/// A part of each document, under its name if there are several.
fn of_each(out: &mut String, view: &View<'_>, part: fn(&Value) -> String) {
    let many = view.documents.len() > 1;
    for shown in view.documents {
        let text = part(shown.value);
        let _ = match many {
            true => {
                write!(out, "<details><summary>{}</summary>{text}</details>", escape(shown.name))
            }
            false => write!(out, "{text}"),
        };
    }
}

/// What makes the numbers less than they seem.
fn notes(out: &mut String, view: &View<'_>) {
    let mut note = |text: String| {
        let _ = write!(out, "<p class=\"note warn\" style=\"margin-top:18px\">{text}</p>");
    };
    if let Some(share) = tables::unwritten_share(view) {
        note(format!(
            "{} % of the pages read were never written. The drive answers these without touching \
             flash, so read latencies look better than they are: consider <code>--preload \
             reads</code>.",
            significant(share * 100.0, 3)
        ));
    }
    let runs = view.runs.len();
    let count = |what: fn(&Value) -> bool| view.runs.iter().filter(|run| what(run.value)).count();
    let saturated = count(|run| run["host_queue"]["saturated"] == true);
    if saturated > 0 {
        note(format!(
            "Saturated: in {saturated} of {runs} runs the host's queue was never empty for long, \
             because more was offered than the drive serves. Their latencies grow with the length \
             of the run."
        ));
    }
    let unsettled = count(|run| run["precondition"]["settled"] == false);
    if unsettled > 0 {
        note(format!(
            "{unsettled} of {runs} runs begin in no steady state: write amplification still moved \
             when preconditioning ended."
        ));
    }
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
fn lead(view: &View<'_>, shown: &Shown<'_>) -> String {
    let d = shown.value;
    let runs = match d["results"].as_array().map_or(0, Vec::len) {
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
    let of_it = |group: &usize| {
        let document = view.groups[*group].document;
        std::ptr::eq(view.documents[document].value, shown.value)
    };
    let waited: Vec<f64> = (0..view.groups.len())
        .filter(of_it)
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
