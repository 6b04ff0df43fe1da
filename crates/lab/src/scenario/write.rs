//! A scenario as a file again: what `--out` leaves behind so that one command repeats the run.

use std::fmt::Write;
use std::path::Path;

use super::{Base, Entry, Scenario};
use crate::LabError;
use crate::folder::WRITTEN;
use crate::input::{Fit, Origin, TraceFile, reading_texts};
use crate::replay::{MeasureAfter, Mode, Precondition, Speed};

/// A TOML string.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn list(texts: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = texts.into_iter().collect();
    format!("[{}]", items.join(", "))
}

fn path_text(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    quoted(&absolute.to_string_lossy())
}

/// A trace file: by its path from everywhere, or as it was named.
fn file_text(file: &TraceFile) -> String {
    match file {
        TraceFile::Path(path) => path_text(path),
        TraceFile::Pinned(pinned) => quoted(&pinned.to_string()),
    }
}

/// How a trace file is named.
type Name<'a> = &'a dyn Fn(&TraceFile) -> String;

fn origin(out: &mut String, origin: &Origin, name: Name<'_>) {
    let _ = match origin {
        Origin::Demo => writeln!(out, "trace = {}", quoted(crate::input::DEMO_NAME)),
        Origin::Recipe(text) => writeln!(out, "gen = {}", quoted(text)),
        Origin::Files(paths) => match paths.as_slice() {
            [one] => writeln!(out, "trace = {}", name(one)),
            many => writeln!(out, "trace = {}", list(many.iter().map(name))),
        },
    };
}

/// The drive as it was asked for: what it comes to is another one in each setting.
fn asked(out: &mut String, scenario: &Scenario) {
    out.push_str("\n[drive]\n");
    match &scenario.base {
        None => {}
        Some((Base::Preset(name), _)) => {
            let _ = writeln!(out, "preset = {}", quoted(name));
        }
        Some((Base::File(path), _)) => {
            let _ = writeln!(out, "file = {}", path_text(path));
        }
    }
    for (key, value) in [("scale", &scenario.scale), ("scaled", &scenario.scaled)] {
        if let Some((text, _)) = value {
            let _ = writeln!(out, "{key} = {}", quoted(text));
        }
    }
    for (at, entry) in scenario.drive.iter().enumerate() {
        // The last one counts.
        if scenario.drive[at + 1..].iter().all(|later| later.key != entry.key) {
            let _ = writeln!(out, "{} = {}", entry.key, value_of(entry));
        }
    }
}

/// A drive's value with what was said of it.
fn value_of(entry: &Entry) -> String {
    let text = quoted(&entry.values.join(", "));
    let fields = [
        ("source", &entry.source),
        ("tag", &entry.tag),
        ("by", &entry.by),
        ("as", &entry.said),
        ("was", &entry.was),
    ];
    let said = fields.iter().filter_map(|(name, text)| Some((name, text.as_ref()?)));
    let said: Vec<String> = said.map(|(name, text)| format!("{name} = {}", quoted(text))).collect();
    if said.is_empty() { text } else { format!("{{ value = {text}, {} }}", said.join(", ")) }
}

fn drive(out: &mut String, scenario: &Scenario) -> Result<(), LabError> {
    out.push_str(
        "\n# Every value somebody set, with its origin; the others are defaults.\n[drive]\n",
    );
    let config = scenario.config()?;
    let scaled = config.scaled();
    if let Some(scaled) = scaled {
        // The values are those of the scaled drive: `scale` would do it again.
        let _ = writeln!(out, "scaled = {}", quoted(&scaled.by));
    }
    for (key, text, from) in config.entries() {
        if from.from == "default" {
            continue;
        }
        let mut fields = vec![format!("value = {}", quoted(text))];
        fields.extend(from.source.iter().map(|s| format!("source = {}", quoted(s))));
        fields.extend(from.tag.iter().map(|t| format!("tag = {}", quoted(t))));
        let mut before = scaled.iter().flat_map(|scaled| &scaled.changed);
        if let Some((_, before, _)) = before.find(|(changed, ..)| *changed == key) {
            fields.push(format!("was = {}", quoted(before)));
        }
        if !config.is_asked(key) {
            fields.push(format!("by = {}, as = {}", quoted(&from.from), quoted(text)));
            let _ = writeln!(out, "{key} = {{ {} }}", fields.join(", "));
            continue;
        }
        let value = match fields.as_slice() {
            [_] => quoted(text),
            _ => format!("{{ {} }}", fields.join(", ")),
        };
        let _ = writeln!(out, "{key} = {value}  # {}", from.from.replace('\n', " "));
    }
    Ok(())
}

/// The layers that were written as a stack, above the drive and `[remap]`.
fn layers(out: &mut String, scenario: &Scenario) {
    let written = scenario.stack.written();
    if !written.is_empty() {
        let _ = writeln!(
            out,
            "stack = {}",
            quoted(&format!("+{}", stack::description::text_of(written)))
        );
    }
}

fn stack(out: &mut String, scenario: &Scenario) {
    let keys = scenario.stack.keys();
    if keys.is_empty() {
        return;
    }
    out.push_str("\n[remap]\n");
    for (key, text) in keys {
        let _ = writeln!(out, "{key} = {}", quoted(text));
    }
}

fn workload(out: &mut String, scenario: &Scenario, name: Name<'_>) {
    let w = &scenario.workload;
    out.push_str("\n[workload]\n");
    if let Some(one) = &w.origin {
        origin(out, one, name);
    }
    if let Some(files) = &w.files {
        let _ = writeln!(out, "files = {}", quoted(&files.text));
    }
    if w.fit != Fit::Exact {
        let _ = writeln!(out, "fit = {}", quoted(&w.fit.to_string()));
    }
    if w.drop_flushes {
        out.push_str("drop-flushes = \"on\"\n");
    }
    for (key, text) in reading_texts(&w.options) {
        let _ = writeln!(out, "{key} = {}", quoted(&text));
    }
    for (key, text) in [("map", &w.map), ("ratio", &w.ratio), ("end", &w.end)] {
        if let Some(text) = text {
            let _ = writeln!(out, "{key} = {}", quoted(text));
        }
    }
    for tenant in &w.tenants {
        let _ = writeln!(out, "\n[tenant.{}]", quoted(&tenant.name));
        origin(out, &tenant.origin, name);
        for (key, text) in &tenant.reading {
            let _ = writeln!(out, "{key} = {}", quoted(text));
        }
        if let Some(text) = &tenant.stretch {
            let _ = writeln!(out, "stretch = {}", quoted(text));
        }
        if tenant.rounds != 1 {
            let _ = writeln!(out, "loop = {}", tenant.rounds);
        }
        if !tenant.round_discard {
            out.push_str("loop-discard = \"off\"\n");
        }
    }
}

fn replay(out: &mut String, scenario: &Scenario) {
    let r = &scenario.replay;
    out.push_str("\n[replay]\n");
    match r.mode {
        Mode::Open => out.push_str("mode = \"open\"\n"),
        Mode::Dependent => out.push_str("mode = \"dependent\"\n"),
        Mode::Untimed => out.push_str("mode = \"untimed\"\n"),
        Mode::Closed { depth, per_app } => {
            let _ = writeln!(out, "mode = \"closed\"\nqd = {depth}");
            if per_app {
                out.push_str("per-app = \"on\"\n");
            }
        }
    }
    if r.speed != Speed::ONE {
        let _ = writeln!(out, "speed = {}", quoted(&r.speed.to_string()));
    }
    if r.precondition != Precondition::None {
        let _ = writeln!(out, "precondition = {}", quoted(r.precondition.name()));
    }
    if r.preload {
        out.push_str("preload = \"reads\"\n");
    }
    match r.measure_after {
        None => {}
        Some(MeasureAfter::Requests(n)) => {
            let _ = writeln!(out, "measure-after = {n}");
        }
        Some(after) => {
            let _ = writeln!(out, "measure-after = {}", quoted(&after.to_string()));
        }
    }
    if let Some(n) = r.flush_every {
        let _ = writeln!(out, "flush-every = {n}");
    }
    if let Some(text) = &r.share {
        let _ = writeln!(out, "share = {}", quoted(text));
    }
    if r.slowdown {
        out.push_str("slowdown = \"on\"\n");
    }
}

/// What is replayed, and how: each trace file by the name that it is given here. A run's bytes
/// depend on this and on its drive, its layers and its seed.
pub(super) fn replayed(scenario: &Scenario, name: Name<'_>) -> String {
    let mut out = String::new();
    workload(&mut out, scenario, name);
    replay(&mut out, scenario);
    out
}

pub(super) fn to_toml(scenario: &Scenario) -> Result<String, LabError> {
    let mut out = format!("{WRITTEN}: `varve run` on this file repeats the run.\n");
    let _ = writeln!(out, "title = {}", quoted(&scenario.title));
    let seeds = scenario.seeds.iter().map(|s| quoted(&s.to_string()));
    let _ = writeln!(out, "seed = {}", list(seeds));
    layers(&mut out, scenario);
    match scenario.sweeps_settings() {
        true => asked(&mut out, scenario),
        false => drive(&mut out, scenario)?,
    }
    stack(&mut out, scenario);
    workload(&mut out, scenario, &file_text);
    replay(&mut out, scenario);
    if !scenario.sweeps.is_empty() {
        out.push_str("\n[sweep]\n");
        for sweep in &scenario.sweeps {
            let values = sweep.values.iter().map(|v| quoted(&sweep.anywhere(v)));
            let _ = writeln!(out, "{} = {}", sweep.key, list(values));
        }
    }
    Ok(out)
}
