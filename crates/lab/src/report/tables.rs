//! The tables and bars of a report.

use std::fmt::Write;

use serde_json::Value;

use super::view::{View, best};
use crate::compare::{Loaded, compare};
use crate::metric::{self, Metric};
use ::report::format::{bytes, count, escape, grouped, significant, time};

/// Causes of programs, in the order of their bars.
pub const CAUSES: [(&str, &str, Metric); 6] = [
    ("host", "host data", metric::PROGRAMS_HOST),
    ("gc", "garbage collection", metric::PROGRAMS_GC),
    ("tx", "transactions", metric::PROGRAMS_TX),
    ("map", "map pages", metric::PROGRAMS_MAP),
    ("metadata", "metadata", metric::PROGRAMS_METADATA),
    ("padding", "padding", metric::PROGRAMS_PADDING),
];

type Show = fn(f64) -> String;

/// Columns of the summary: heading, metric, how it is written, and which is best (-1 least, 1 most).
const COLUMNS: &[(&str, Metric, Show, i8)] = &[
    ("hit ratio", metric::HIT, percent, 1),
    ("WAF", metric::WAF, three, -1),
    ("WAF, drive alone", metric::WAF_DRIVE, three, -1),
    ("write p50", metric::WRITE_P50, time, -1),
    ("write p99", metric::WRITE_P99, time, -1),
    ("write p99.9", metric::WRITE_P999, time, -1),
    ("read p50", metric::READ_P50, time, -1),
    ("read p99", metric::READ_P99, time, -1),
    ("read p99.9", metric::READ_P999, time, -1),
    ("IOPS", metric::IOPS, count, 1),
    ("erases", metric::ERASES, whole, -1),
];

fn percent(v: f64) -> String {
    format!("{} %", significant(v * 100.0, 3))
}
fn whole(v: f64) -> String {
    grouped(v.round() as u64)
}
fn three(v: f64) -> String {
    format!("{v:.3}")
}

/// One row for each group, the best value of each column marked.
pub(super) fn summary(view: &View<'_>) -> String {
    let columns: Vec<_> = COLUMNS.iter().filter(|c| view.has(c.1)).collect();
    let keys: Vec<&str> = view
        .groups
        .first()
        .map_or(Vec::new(), |g| g.params.iter().map(|(key, _)| key.as_str()).collect());
    let heading = if keys.is_empty() { "run".to_string() } else { keys.join(" · ") };
    let mut out = format!(
        "<div class=\"scroll\"><table id=\"summary\"><thead><tr><th scope=\"col\">{}</th>",
        escape(&heading)
    );
    for column in &columns {
        let _ = write!(out, "<th scope=\"col\">{}</th>", column.0);
    }
    out += "</tr></thead><tbody>";
    let best: Vec<Vec<bool>> = columns.iter().map(|c| best_of(view, c)).collect();
    for group in 0..view.groups.len() {
        let seeds = view.groups[group].runs.len();
        let note = if seeds > 1 { format!(" <small>{seeds} seeds</small>") } else { String::new() };
        let label = escape(&view.label(group));
        let _ = write!(out, "<tr data-group=\"{group}\"><th scope=\"row\">{label}{note}</th>");
        for (column, best) in columns.iter().zip(&best) {
            let Some((mean, half)) = view.mean(group, column.1) else {
                out += "<td>–</td>";
                continue;
            };
            let shown = (column.2)(mean);
            let is_best = best[group];
            let class = if is_best { " class=\"best\"" } else { "" };
            let star = if is_best { "★ " } else { "" };
            let ci = half.map_or(String::new(), |h| format!(" <small>± {}</small>", (column.2)(h)));
            let _ = write!(out, "<td{class} data-v=\"{mean}\">{star}{shown}{ci}</td>");
        }
        out += "</tr>";
    }
    out + "</tbody></table></div>"
}

/// Which groups a column marks. What looks equal is equal, too.
fn best_of(view: &View<'_>, column: &(&str, Metric, Show, i8)) -> Vec<bool> {
    let (_, metric, show, sense) = *column;
    let means: Vec<_> = (0..view.groups.len()).map(|g| view.mean(g, metric)).collect();
    let mut marks = best(&means, sense);
    let text = |group: usize| means[group].map(|(mean, _)| show(mean));
    let shown: Vec<_> = (0..marks.len()).filter(|g| marks[*g]).map(text).collect();
    for (group, mark) in marks.iter_mut().enumerate() {
        *mark |= shown.contains(&text(group)) && text(group).is_some();
    }
    let known = means.iter().filter(|mean| mean.is_some()).count();
    if marks.iter().filter(|mark| **mark).count() == known {
        vec![false; marks.len()]
    } else {
        marks
    }
}

/// Stacked bars: what each byte the host wrote cost, by cause.
pub(super) fn waf_bars(view: &View<'_>) -> String {
    let cause = |group: usize, programs: Metric| {
        let mean = |metric| Some(view.mean(group, metric)?.0);
        let total = mean(metric::PROGRAMS).filter(|total| *total > 0.0)?;
        Some(mean(metric::WAF)? * mean(programs)? / total)
    };
    let totals: Vec<f64> =
        (0..view.groups.len()).filter_map(|g| cause(g, metric::PROGRAMS)).collect();
    let most = totals.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let used: Vec<_> = CAUSES
        .iter()
        .filter(|(_, _, of)| (0..view.groups.len()).any(|g| cause(g, *of).is_some_and(|v| v > 0.0)))
        .collect();
    let mut out = String::from("<div class=\"bars\"><div class=\"keys\">");
    for (name, label, _) in &used {
        let _ = write!(out, "<span><i class=\"k-{name}\"></i>{label}</span>");
    }
    out += "</div>";
    for group in 0..view.groups.len() {
        let Some(total) = cause(group, metric::PROGRAMS) else { continue };
        let mut parts = String::new();
        let mut spoken = Vec::new();
        for (name, label, of) in &used {
            let Some(value) = cause(group, *of).filter(|v| *v > 0.0) else { continue };
            let _ = write!(
                parts,
                "<span class=\"k-{name}\" style=\"width:{:.3}%\" title=\"{label} {value:.3}\"></span>",
                100.0 * value / most
            );
            spoken.push(format!("{label} {value:.3}"));
        }
        let _ = write!(
            out,
            "<div class=\"bar\"><div class=\"label\">{}</div><div class=\"track\" role=\"img\" \
             aria-label=\"{}\">{parts}</div><div class=\"value\">{total:.3}</div></div>",
            escape(&view.label(group)),
            escape(&spoken.join(", "))
        );
    }
    out + "</div>"
}

/// The figures one looks at first; only where there is one group.
pub(super) fn cards(view: &View<'_>) -> String {
    if view.groups.len() != 1 {
        return String::new();
    }
    let mean = |metric| view.mean(0, metric).map(|m| m.0);
    let mut items: Vec<(&str, String, String)> = Vec::new();
    if let Some(waf) = mean(metric::WAF) {
        let flash = mean(metric::WAF_FLASH)
            .map_or(String::new(), |f| format!("{f:.3} of what reaches flash"));
        items.push(("Write amplification", format!("{waf:.3}"), flash));
    }
    if let Some(hit) = mean(metric::HIT) {
        let part = |name, metric| mean(metric).map(|v| format!("{name} {}", percent(v)));
        let parts: Vec<String> = [part("read", metric::HIT_READ), part("write", metric::HIT_WRITE)]
            .into_iter()
            .flatten()
            .collect();
        items.push(("Buffer hits", percent(hit), parts.join(", ")));
    }
    for (label, p99, p50) in [
        ("Write p99", metric::WRITE_P99, metric::WRITE_P50),
        ("Read p99", metric::READ_P99, metric::READ_P50),
    ] {
        if let Some(p99) = mean(p99) {
            let median = mean(p50).map_or(String::new(), |v| format!("median {}", time(v)));
            items.push((label, time(p99), median));
        }
    }
    if let (Some(written), Some(erases)) = (mean(metric::HOST_WRITE_BYTES), mean(metric::ERASES)) {
        items.push(("Host wrote", bytes(written), format!("{} erases", grouped(erases as u64))));
    }
    if let (Some(iops), Some(rate)) = (mean(metric::IOPS), mean(metric::BYTES_PER_S)) {
        items.push(("Requests per second", count(iops), format!("{}/s", bytes(rate))));
    }
    let mut out = String::from("<dl class=\"cards\">");
    for (label, value, note) in items {
        let _ = write!(
            out,
            "<div class=\"card\"><dt>{label}</dt><dd>{}<small>{}</small></dd></div>",
            escape(&value),
            escape(&note)
        );
    }
    out + "</dl>"
}

/// Every number of the results: a row for each, a column for each run.
pub(super) fn all_numbers(view: &View<'_>) -> String {
    let mut rows: Vec<String> = Vec::new();
    for run in &view.runs {
        leaves("", run.value, &mut rows);
    }
    rows.sort();
    rows.dedup();
    let mut out = String::from(
        "<div class=\"scroll\"><table id=\"numbers\"><thead><tr><th scope=\"col\">field</th>",
    );
    for run in 0..view.runs.len() {
        let name = escape(&view.label_of_run(run)).replace(" · ", "<br>");
        let _ = write!(out, "<th scope=\"col\">{name}</th>");
    }
    out += "</tr></thead><tbody>";
    for row in rows {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(&row));
        for run in &view.runs {
            let value = row.split('.').try_fold(run.value, |at, key| at.get(key));
            // The text of the document itself: nothing is rounded here.
            let text = value.map_or("–".to_string(), Value::to_string);
            let _ = write!(out, "<td>{}</td>", escape(&text));
        }
        out += "</tr>";
    }
    out + "</tbody></table></div>"
}

fn leaves(prefix: &str, value: &Value, rows: &mut Vec<String>) {
    for (key, inner) in value.as_object().into_iter().flatten() {
        if prefix.is_empty() && key == "params" {
            continue;
        }
        let dot = if prefix.is_empty() { "" } else { "." };
        let name = format!("{prefix}{dot}{key}");
        if inner.is_object() {
            leaves(&name, inner, rows);
        } else if !inner.is_array() {
            rows.push(name);
        }
    }
}

/// The configuration: what somebody set, then the defaults.
pub(super) fn config(document: &Value) -> String {
    let entries: Vec<_> = document["config"].as_object().into_iter().flatten().collect();
    let (set, defaults): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|(_, entry)| entry["from"] != "default");
    let table = |rows: &[(&String, &Value)]| {
        let mut out = String::from(
            "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">key</th>\
             <th scope=\"col\" class=\"text\">value</th><th scope=\"col\" class=\"text\">from</th>\
             <th scope=\"col\" class=\"text\">source</th></tr></thead><tbody>",
        );
        for (key, entry) in rows {
            let text = |name: &str| escape(entry[name].as_str().unwrap_or_default());
            let tag = match entry["tag"].as_str() {
                Some(tag) => format!("<span class=\"tag\">{}</span> ", escape(tag)),
                None => String::new(),
            };
            let _ = write!(
                out,
                "<tr><th scope=\"row\">{}</th><td class=\"text\">{}</td><td class=\"text\">{}</td>\
                 <td class=\"text wide\">{tag}{}</td></tr>",
                escape(key),
                text("value"),
                text("from"),
                text("source")
            );
        }
        out + "</tbody></table></div>"
    };
    let mut out = String::new();
    if !set.is_empty() {
        out += &table(&set);
    }
    let _ = write!(
        out,
        "<details><summary>{} keys at their defaults</summary>{}</details>",
        defaults.len(),
        table(&defaults)
    );
    out
}

/// Keys whose values differ between documents; nothing of a single one.
pub(super) fn differences(view: &View<'_>) -> String {
    if view.documents.len() < 2 {
        return String::new();
    }
    let loaded: Vec<Loaded> = view
        .documents
        .iter()
        .map(|one| Loaded { name: one.name.to_string(), document: one.value.clone() })
        .collect();
    let found = compare(&loaded, &[]).differences;
    if found.is_empty() {
        return "<p>The same in all.</p>".to_string();
    }
    let mut out =
        String::from("<div class=\"scroll\"><table><thead><tr><th scope=\"col\">differs</th>");
    for one in &loaded {
        let _ = write!(out, "<th scope=\"col\" class=\"text\">{}</th>", escape(&one.name));
    }
    out += "</tr></thead><tbody>";
    for one in found {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(&one.key));
        for value in one.values {
            let text = value.map_or("–".to_string(), |text| escape(&text));
            let _ = write!(out, "<td class=\"text wide\">{text}</td>");
        }
        out += "</tr>";
    }
    out + "</tbody></table></div>"
}

/// Runs that cannot be, and why; the first ones by name.
pub(super) fn impossible(document: &Value) -> String {
    const NAMED: usize = 8;
    let found = super::impossible(document);
    if found.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "<p class=\"note warn\" style=\"margin-top:18px\">{} of the runs cannot be: ",
        grouped(found.len() as u64)
    );
    let named = found.iter().take(NAMED).map(|(name, why)| format!("{name}: {why}"));
    out += &escape(&named.collect::<Vec<_>>().join("; "));
    if found.len() > NAMED {
        let _ = write!(out, "; and {} more", found.len() - NAMED);
    }
    out + "</p>"
}

/// Replay and workload, as two short tables; nothing of what says neither. A setting has its name above.
pub(super) fn circumstances(document: &Value) -> String {
    if document["workload"].is_null() && document["replay"].is_null() {
        return String::new();
    }
    let mut out = String::new();
    if document["params"].is_object() {
        let _ = write!(out, "<h3>{}</h3>", escape(&super::setting_name(document)));
    }
    out += "<div class=\"grid2\">";
    for (part, title) in [("workload", "Workload"), ("replay", "Replay")] {
        let mut rows = Vec::new();
        facts("", &document[part], &mut rows);
        let _ = write!(
            out,
            "<div class=\"scroll\"><table><thead><tr><th scope=\"col\">{title}</th>\
             <th scope=\"col\" class=\"text\"></th></tr></thead><tbody>"
        );
        for (key, text) in rows {
            let _ = write!(
                out,
                "<tr><th scope=\"row\">{}</th><td class=\"text wide\">{}</td></tr>",
                escape(&key),
                escape(&text)
            );
        }
        out += "</tbody></table></div>";
    }
    out + "</div>"
}

fn facts(prefix: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    for (key, inner) in value.as_object().into_iter().flatten() {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix} {key}") };
        match inner {
            Value::Object(_) => facts(&name, inner, rows),
            Value::Array(items) => {
                let text = |v: &Value| v.as_str().map_or(v.to_string(), str::to_string);
                rows.push((name, items.iter().map(text).collect::<Vec<_>>().join(", ")));
            }
            // A kind of request the workload has none of says nothing.
            Value::Number(n) if prefix == "by_op" && n.as_u64() == Some(0) => {}
            Value::Number(n) => {
                let text = n.as_u64().map_or(n.to_string(), grouped);
                rows.push((name, text));
            }
            Value::String(text) => rows.push((name, text.clone())),
            other => rows.push((name, other.to_string())),
        }
    }
}

/// Share of the reads that found nothing written, if that is worth a warning.
pub(super) fn unwritten_share(view: &View<'_>) -> Option<f64> {
    let share = |run: &super::view::Run<'_>| {
        let units = metric::HOST_READ_UNITS.of(run.value).filter(|u| *u > 0.0)?;
        Some(metric::READ_UNWRITTEN.of(run.value)? / units)
    };
    view.runs.iter().filter_map(share).reduce(f64::max).filter(|s| *s > 0.01)
}
