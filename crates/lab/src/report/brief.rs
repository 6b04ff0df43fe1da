//! What one asks first, answered in a line each: whose reads wait longest and for what, where
//! cleaning stalls, which block was erased most. The script leads from each line to its panel.

use std::fmt::Write;

use serde_json::Value;

use super::view::View;
use crate::explain::spoken;
use crate::metric::{self, Metric};
use ::report::format::{escape, grouped, significant, time};

/// A question, its answer, and where the script leads.
struct Line {
    question: &'static str,
    group: usize,
    answer: String,
    /// More, in plain text.
    why: String,
    panel: &'static str,
    /// The window to look at.
    window: Option<usize>,
}

/// The lines; empty if a document answers none.
pub(super) fn lines(view: &View<'_>) -> String {
    let all: Vec<Line> = [
        tail(view, "Slowest reads, p99.9", "read", metric::READ_P999),
        tail(view, "Slowest writes, p99.9", "write", metric::WRITE_P999),
        stalls(view),
        wear(view),
    ]
    .into_iter()
    .flatten()
    .collect();
    if all.is_empty() {
        return String::new();
    }
    let many = view.groups.len() > 1;
    let mut out = String::from("<ul class=\"brief\" id=\"brief\">");
    for line in all {
        let window = line.window.map_or(String::new(), |at| format!(" data-window=\"{at}\""));
        let whose = if many { format!("{}: ", view.label(line.group)) } else { String::new() };
        let _ = write!(
            out,
            "<li data-panel=\"{}\" data-group=\"{}\"{window}><span>{}</span><b>{}{}</b>\
             <small>{}</small></li>",
            line.panel,
            line.group,
            line.question,
            escape(&whose),
            escape(&line.answer),
            escape(&line.why)
        );
    }
    out + "</ul>"
}

/// The group with the most of something, and its mean; the first, if several have as much.
fn most(view: &View<'_>, metric: Metric) -> Option<(usize, f64)> {
    let means = (0..view.groups.len()).filter_map(|g| Some((g, view.mean(g, metric)?.0)));
    means.reduce(|best, next| if next.1 > best.1 { next } else { best })
}

/// The first run of a group.
fn first<'a>(view: &View<'a>, group: usize) -> &'a Value {
    view.runs[view.groups[group].runs[0]].value
}

fn tail(view: &View<'_>, question: &'static str, op: &'static str, of: Metric) -> Option<Line> {
    let (group, ns) = most(view, of)?;
    let why = why(&first(view, group)["latency_ns"][op]["by_cause"]["p999"]);
    Some(Line { question, group, answer: time(ns), why, panel: op, window: None })
}

/// What the slow ones waited for: the largest parts, to nine tenths of the whole.
fn why(tail: &Value) -> String {
    let Some(mean) = tail["mean"].as_f64().filter(|mean| *mean > 0.0) else {
        return "run with --explain for what they waited for".to_string();
    };
    let causes = tail["causes"].as_object().into_iter().flatten();
    let mut parts: Vec<(&str, f64)> =
        causes.map(|(name, ns)| (name.as_str(), ns.as_f64().unwrap_or(0.0) / mean)).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (mut said, mut sum) = (Vec::new(), 0.0);
    for (name, share) in parts {
        if sum >= 0.9 || share <= 0.0 {
            break;
        }
        sum += share;
        said.push(format!("{} % {}", significant(share * 100.0, 2), spoken(name)));
    }
    format!("waited: {}", said.join(", "))
}

fn stalls(view: &View<'_>) -> Option<Line> {
    let (group, ns) = most(view, metric::GC_STALL).filter(|(_, ns)| *ns > 0.0)?;
    let run = first(view, group);
    let (stall, ends) = (metric::OVER_STALL.of(run), metric::OVER_TIME.of(run));
    let known = stall.iter().enumerate().filter_map(|(at, ns)| Some((at, (*ns)?)));
    let worst = known.reduce(|best, next| if next.1 > best.1 { next } else { best });
    let worst = worst.filter(|(_, ns)| *ns > 0.0);
    let why = worst.and_then(|(at, ns)| {
        let end = (*ends.get(at)?)?;
        let start = if at == 0 { 0.0 } else { ends[at - 1]? };
        let span = format!("{} to {}", time(start), time(end));
        Some(format!("most in one window: {} from {span}", time(ns)))
    });
    Some(Line {
        question: "Cleaning stalls writes",
        group,
        answer: time(ns),
        why: why.unwrap_or_default(),
        panel: "clean",
        window: worst.map(|(at, _)| at),
    })
}

fn wear(view: &View<'_>) -> Option<Line> {
    let (group, erases) = most(view, metric::WEAR_MOST).filter(|(_, most)| *most > 0.0)?;
    let run = first(view, group);
    let blocks = &run["blocks"];
    let counts = blocks["erases"].as_array().into_iter().flatten();
    let at = counts.enumerate().find(|(_, n)| n.as_f64() == metric::WEAR_MOST.of(run));
    let place = at.and_then(|(at, _)| {
        let (planes, dies) = (blocks["planes"].as_u64()?, blocks["dies"].as_u64()?);
        let plane = at as u64 % planes;
        let die = plane / (planes / dies);
        Some(format!("block {at}: die {die}, row {}; ", at as u64 / planes))
    });
    let mean = run["wear"]["mean"].as_f64().map(|mean| format!("mean {}", significant(mean, 3)));
    Some(Line {
        question: "Most erased block",
        group,
        answer: format!("{} erases", grouped(erases.round() as u64)),
        why: place.unwrap_or_default() + &mean.unwrap_or_default(),
        panel: "map",
        window: None,
    })
}
