//! The page of a timeline: requests in flight above what dies did, and what each request waited for.
//!
//! Like the page of results it holds its numbers as texts; the script draws its rows from them.
//!
//! | text | rows |
//! | --- | --- |
//! | `tracks` | a row of the drawing: `slot` or `die`, its number, its name |
//! | `requests` | a request: where, what, when, its latency by cause, and the rows of `operations` that it waited for |
//! | `operations` | what a die did, counted from 0 |
//! | `victims` | a collected line, and the rows of `operations` that read and copied it |
//! | `level-N` | a number over time |

use std::collections::BTreeMap;
use std::fmt::Write;

use ::report::format::{escape, grouped, significant, time};
use ::report::page::{Assets, Heading, frame};
use nand::Spent;

use super::data::{put, quoted};
use crate::explain::{Drawing, Request, short, spoken};

/// Slices that a page shows at most: it must open.
pub const MOST_SHOWN: usize = 200_000;

/// Requests in the table of the slowest.
const SLOWEST: usize = 20;

/// Style and script of this page.
const ASSETS: Assets = Assets {
    style: concat!(include_str!("assets/view.css"), include_str!("assets/gantt.css")),
    script: concat!(
        "(function(){\"use strict\";",
        include_str!("assets/data.js"),
        include_str!("assets/pen.js"),
        include_str!("assets/state.js"),
        include_str!("assets/lanes.js"),
        include_str!("assets/spent.js"),
        include_str!("assets/gantt.js"),
        include_str!("assets/picked.js"),
        "})();"
    ),
    live: false,
};

/// The page of a timeline that is called `name`.
pub fn timeline_html(name: &str, version: &str, drawing: &Drawing) -> String {
    let mut main = String::with_capacity(1 << 20);
    main += &cards(drawing);
    main += "<div id=\"panels\"></div><noscript><p class=\"note\" style=\"margin-top:18px\">The drawing \
             needs a script; its numbers are in the tables and lists below.</p></noscript>";
    main += &slowest(drawing);
    main += &dies(drawing);
    main += "<h2>All numbers</h2><p>Times are nanoseconds from the start of the measured part of the run. \
             Every slice that touches the window is there, whole.</p>";
    main += &texts(drawing);
    let lead = "What each die did, which requests were in flight, and what they stood behind.";
    frame(&Heading { title: name, version, lead, schema: "Perfetto track events" }, &main, ASSETS)
}

fn cards(drawing: &Drawing) -> String {
    let (from, to) = drawing.span_ns().unwrap_or((0, 0));
    let ops = |op: &str| drawing.requests.iter().filter(|request| request.op == op).count() as u64;
    let said: Vec<String> = ["read", "write", "flush", "discard"]
        .into_iter()
        .filter(|op| ops(op) > 0)
        .map(|op| format!("{} {op}", grouped(ops(op))))
        .collect();
    let busy: u64 = drawing.operations.iter().map(|one| one.end_ns - one.start_ns).sum();
    let all = (to - from).saturating_mul(drawing.dies.len() as u64);
    let valid: u64 = drawing.victims.iter().map(|victim| victim.valid).sum();
    let mut items = vec![
        ("Window", time((to - from) as f64), format!("{} to {}", seconds(from), seconds(to))),
        ("Requests", grouped(drawing.requests.len() as u64), said.join(", ")),
        (
            "Flash operations",
            grouped(drawing.operations.len() as u64),
            format!("{} dies, busy {} %", drawing.dies.len(), percent(busy, all)),
        ),
    ];
    if !drawing.victims.is_empty() {
        let lines = grouped(drawing.victims.len() as u64);
        items.push(("Lines cleaned", lines, format!("{} valid slots in them", grouped(valid))));
    }
    if let Some(slow) = ranked(drawing).first() {
        let (cause, ns) = most(slow);
        let why =
            format!("{} {}: {} %", slow.op, grouped(slow.number), percent(ns, slow.latency_ns));
        items.push((
            "Slowest request",
            time(slow.latency_ns as f64),
            format!("{why} {}", spoken(cause)),
        ));
    }
    let mut out = String::from("<dl class=\"cards\">");
    for (label, value, note) in items {
        let _ = write!(
            out,
            "<div class=\"card\"><dt>{label}</dt><dd>{value}<small>{}</small></dd></div>",
            escape(&note)
        );
    }
    out + "</dl>"
}

/// A moment, to the microsecond.
fn seconds(ns: u64) -> String {
    format!("{}.{:06} s", ns / 1_000_000_000, ns / 1_000 % 1_000_000)
}

fn percent(part: u64, of: u64) -> String {
    if of == 0 { "0".to_string() } else { significant(100.0 * part as f64 / of as f64, 3) }
}

/// The cause that took most of a request's time.
fn most(request: &Request) -> (&'static str, u64) {
    let parts = Spent::NAMES.into_iter().zip(request.causes);
    parts.max_by_key(|(_, ns)| *ns).unwrap_or((Spent::Other.name(), 0))
}

/// Requests, the slowest first; of two that took as long the earlier.
fn ranked(drawing: &Drawing) -> Vec<&Request> {
    let mut all: Vec<&Request> = drawing.requests.iter().collect();
    all.sort_by_key(|one| (std::cmp::Reverse(one.latency_ns), one.start_ns, one.number));
    all
}

/// Operations that a request waited for, by kind: `323 gc program, 8 erase`.
fn waited_for(drawing: &Drawing, request: &Request) -> String {
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    let names = request.operations.iter().filter_map(|at| drawing.operations.get(*at));
    names.for_each(|one| *kinds.entry(one.name.as_str()).or_default() += 1);
    let mut kinds: Vec<(&str, u64)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words: Vec<String> =
        kinds.into_iter().map(|(name, count)| format!("{} {name}", grouped(count))).collect();
    if words.is_empty() { "–".to_string() } else { words.join(", ") }
}

fn slowest(drawing: &Drawing) -> String {
    let slow: Vec<&Request> = ranked(drawing).into_iter().take(SLOWEST).collect();
    if slow.is_empty() {
        return String::new();
    }
    let used: Vec<usize> =
        (0..Spent::COUNT).filter(|cause| slow.iter().any(|one| one.causes[*cause] > 0)).collect();
    let mut out = String::from(
        "<h2 id=\"slow\">The slowest requests</h2><p>The parts sum to the latency, which counts from the \
         request's arrival; the largest is marked. Flash operations are those of the window that it waited \
         for.</p><div class=\"scroll\"><table id=\"slowest\"><thead><tr><th scope=\"col\">request</th>\
         <th scope=\"col\" class=\"text\">op</th><th scope=\"col\">KiB</th><th scope=\"col\">began</th>\
         <th scope=\"col\">took</th>",
    );
    for cause in &used {
        let _ = write!(out, "<th scope=\"col\">{}</th>", short(Spent::NAMES[*cause]));
    }
    out += "<th scope=\"col\" class=\"text\">waited for</th></tr></thead><tbody>";
    for one in slow {
        let _ = write!(
            out,
            "<tr data-request=\"{}\"><th scope=\"row\">{}</th><td class=\"text\">{}</td><td>{}</td>\
             <td>{}</td><td>{}</td>",
            one.number,
            grouped(one.number),
            escape(&one.op),
            grouped(one.bytes >> 10),
            seconds(one.start_ns),
            time(one.latency_ns as f64)
        );
        let largest = one.causes.iter().copied().max().unwrap_or(0);
        for cause in &used {
            let ns = one.causes[*cause];
            let class = if ns == largest && ns > 0 { " class=\"best\"" } else { "" };
            let text = if ns == 0 { "–".to_string() } else { time(ns as f64) };
            let _ = write!(out, "<td{class}>{text}</td>");
        }
        let _ = write!(out, "<td class=\"words\">{}</td></tr>", escape(&waited_for(drawing, one)));
    }
    out + "</tbody></table></div>"
}

/// What each die was busy with, in shares of the window.
fn dies(drawing: &Drawing) -> String {
    let Some((from, to)) = drawing.span_ns().filter(|_| !drawing.dies.is_empty()) else {
        return String::new();
    };
    let mut spent: Vec<BTreeMap<&str, u64>> = vec![BTreeMap::new(); drawing.dies.len()];
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for one in &drawing.operations {
        let ns = one.end_ns - one.start_ns;
        *spent[one.die].entry(one.name.as_str()).or_default() += ns;
        *kinds.entry(one.name.as_str()).or_default() += ns;
    }
    let mut kinds: Vec<(&str, u64)> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let mut out = String::from(
        "<h2>What dies did</h2><p>Shares of the window in percent.</p><div class=\"scroll\"><table>\
         <thead><tr><th scope=\"col\">die</th><th scope=\"col\">busy</th>",
    );
    for (kind, _) in &kinds {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(kind));
    }
    out += "</tr></thead><tbody>";
    for (name, spent) in drawing.dies.iter().zip(&spent) {
        let busy = spent.values().sum();
        let (name, busy) = (escape(name), percent(busy, to - from));
        let _ = write!(out, "<tr><th scope=\"row\">{name}</th><td>{busy}</td>");
        for (kind, _) in &kinds {
            let text = spent.get(kind).map_or("–".to_string(), |ns| percent(*ns, to - from));
            let _ = write!(out, "<td>{text}</td>");
        }
        out += "</tr>";
    }
    out + "</tbody></table></div>"
}

fn spaced(places: &[usize]) -> String {
    places.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}

fn texts(drawing: &Drawing) -> String {
    let (mut out, mut text) = (String::new(), String::from("track,number,name\n"));
    for (kind, names) in [("slot", &drawing.slots), ("die", &drawing.dies)] {
        for (number, name) in names.iter().enumerate() {
            let _ = writeln!(text, "{kind},{number},{}", quoted(name));
        }
    }
    put(&mut out, "tracks", "Rows", &text);
    let causes: Vec<String> = Spent::NAMES.iter().map(|name| format!("{name}_ns")).collect();
    let causes = causes.join(",");
    text = format!(
        "request,slot,op,app,offset,bytes,start_ns,end_ns,latency_ns,{causes},operations\n"
    );
    for r in &drawing.requests {
        let parts: Vec<String> = r.causes.iter().map(u64::to_string).collect();
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{},{},{}",
            r.number,
            r.slot,
            quoted(&r.op),
            r.app,
            r.offset,
            r.bytes,
            r.start_ns,
            r.end_ns,
            r.latency_ns,
            parts.join(","),
            spaced(&r.operations)
        );
    }
    put(&mut out, "requests", "Requests", &text);
    text = String::from("die,start_ns,end_ns,name,cause,request,block,page,pages\n");
    for o in &drawing.operations {
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{}",
            o.die,
            o.start_ns,
            o.end_ns,
            quoted(&o.name),
            quoted(&o.cause),
            o.request,
            o.block,
            o.page,
            o.pages
        );
    }
    put(&mut out, "operations", "Flash operations, in pieces where reads interrupted them", &text);
    text = String::from("line,valid,start_ns,end_ns,operations\n");
    for v in &drawing.victims {
        let places = spaced(&v.operations);
        let _ = writeln!(text, "{},{},{},{},{places}", v.line, v.valid, v.start_ns, v.end_ns);
    }
    put(&mut out, "victims", "Lines that were cleaned", &text);
    for (at, level) in drawing.levels.iter().enumerate() {
        text = String::from("at_ns,value\n");
        level.values.iter().for_each(|(at, value)| text += &format!("{at},{value}\n"));
        put(&mut out, &format!("level-{at}"), &level.name, &text);
    }
    out
}
