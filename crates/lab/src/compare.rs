//! Two or more result documents side by side: first what was configured differently, then what
//! came out differently. Whoever compares numbers without the first is guessing.

use std::path::Path;

use serde_json::Value;

use crate::folder::RESULTS;
use crate::metric::{self, Metric};
use crate::result::SCHEMA;
use crate::{Document, LabError};

/// A result document that was read back.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The path it was given by.
    pub name: String,
    /// The document.
    pub document: Value,
}

/// Reads a result document: a file, or a folder with a `results.json`.
///
/// # Errors
/// The file, and what was expected instead.
pub fn load(path: &Path) -> Result<Loaded, LabError> {
    read(path).map(|(loaded, _)| loaded)
}

/// The same, and the document with its numbers as they are written.
///
/// # Errors
/// As [`load`].
pub fn read(path: &Path) -> Result<(Loaded, Document), LabError> {
    let file = if path.is_dir() { path.join(RESULTS) } else { path.to_path_buf() };
    let bad = |line: usize, reason: String| LabError::Scenario {
        file: file.display().to_string(),
        line,
        reason,
    };
    let text = std::fs::read_to_string(&file).map_err(|e| {
        LabError::Input(format!("{}: {e}; expected a result document", file.display()))
    })?;
    let document: Value = serde_json::from_str(&text)
        .map_err(|e| bad(e.line().max(1), format!("not JSON: {e}; expected a result document")))?;
    match document.get("schema").and_then(Value::as_str) {
        Some(SCHEMA) => {}
        Some("varve.run/1") => {
            return Err(bad(
                1,
                format!(
                    "schema `varve.run/1`, expected `{SCHEMA}`: its `waf` counts mapping units, \
                     not bytes, and its latencies leave out the host's queue; run the experiment \
                     again to compare it"
                ),
            ));
        }
        Some(other) => {
            return Err(bad(1, format!("schema `{other}`: expected `{SCHEMA}`")));
        }
        None => return Err(bad(1, format!("no `schema`: expected `{SCHEMA}`"))),
    }
    if document["results"].as_array().is_none_or(Vec::is_empty) {
        return Err(bad(1, "no `results`: expected at least one run".to_string()));
    }
    let exact = Document::read(&text).map_err(|what| bad(1, what))?;
    Ok((Loaded { name: path.display().to_string(), document }, exact))
}

/// Names people use, in the order in which they are shown.
fn metric_names() -> impl Iterator<Item = &'static str> {
    metric::ALL.iter().filter_map(|metric| metric.name())
}

/// The number that a metric's name, its id, or a dotted path names in a result.
fn number(result: &Value, text: &str) -> Option<f64> {
    match Metric::find(text) {
        Some(metric) => metric.of(result),
        None => metric::at(result, text)?.as_f64(),
    }
}

/// `METRIC=PCT`: how far a metric may move, either way.
#[derive(Clone, Debug, PartialEq)]
pub struct Tolerance {
    /// A name or an id of a [`Metric`], or a dotted path of a result.
    pub metric: String,
    /// Percent.
    pub percent: f64,
}

impl std::str::FromStr for Tolerance {
    type Err = String;

    fn from_str(text: &str) -> Result<Tolerance, String> {
        let expected = || format!("`{text}`: expected METRIC=PERCENT such as `waf=2`");
        let (metric, percent) = text.split_once('=').ok_or_else(expected)?;
        let percent: f64 = percent.trim_end_matches('%').parse().map_err(|_| expected())?;
        if metric.is_empty() || !percent.is_finite() || percent < 0.0 {
            return Err(expected());
        }
        Ok(Tolerance { metric: metric.to_string(), percent })
    }
}

/// A configuration key that differs: its value in each document.
pub struct Difference {
    /// The key, `replay.` and `workload.` before those of the replay and the workload.
    pub key: String,
    /// Its text in each document; `None` = absent.
    pub values: Vec<Option<String>>,
}

/// A metric of one run in each document.
pub struct Row {
    /// The run's name.
    pub run: String,
    /// The metric.
    pub metric: String,
    /// Its value in each document; `None` = unknown there.
    pub values: Vec<Option<f64>>,
}

impl Row {
    /// Change from the first document to the n-th, in percent.
    pub fn change(&self, n: usize) -> Option<f64> {
        let (first, other) = (self.values.first().copied()??, self.values.get(n).copied()??);
        if first == other {
            return Some(0.0);
        }
        (first != 0.0).then(|| (other - first) / first.abs() * 100.0)
    }
}

/// What a comparison found.
pub struct Comparison {
    /// Configuration that differs.
    pub differences: Vec<Difference>,
    /// Metrics, by run.
    pub rows: Vec<Row>,
    /// Runs that some document lacks: name and the documents without it.
    pub unmatched: Vec<(String, Vec<usize>)>,
}

/// Texts of a document's configuration, by key.
fn settings(document: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut list = Vec::new();
    if let Some(config) = document["config"].as_object() {
        list.extend(config.iter().map(|(key, entry)| (key.clone(), text(&entry["value"]))));
    }
    for part in ["replay", "workload"] {
        if let Some(map) = document[part].as_object() {
            list.extend(map.iter().map(|(key, value)| (format!("{part}.{key}"), text(value))));
        }
    }
    for setting in document["settings"].as_array().into_iter().flatten() {
        let name = crate::report::setting_name(setting);
        for part in ["config", "replay", "workload"] {
            let of = |value: &Value| value.get("value").map_or_else(|| text(value), text);
            let entries = setting[part].as_object().into_iter().flatten();
            list.extend(entries.map(|(key, value)| (format!("{name}: {part}.{key}"), of(value))));
        }
    }
    for key in ["version", "seed"] {
        list.push((key.to_string(), text(&document[key])));
    }
    // Of a sweep that was interrupted.
    if let Some(partial) = document.get("partial") {
        list.push(("partial".to_string(), text(partial)));
    }
    list
}

fn differences(documents: &[Loaded]) -> Vec<Difference> {
    let all: Vec<_> = documents.iter().map(|d| settings(&d.document)).collect();
    let mut keys: Vec<&String> = all.iter().flatten().map(|(key, _)| key).collect();
    keys.sort();
    keys.dedup();
    let of = |key: &str, list: &[(String, String)]| {
        list.iter().find(|(k, _)| k == key).map(|(_, text)| text.clone())
    };
    let row = |key: &String| Difference {
        key: key.clone(),
        values: all.iter().map(|list| of(key, list)).collect(),
    };
    keys.into_iter().map(row).filter(|d| d.values.iter().any(|v| *v != d.values[0])).collect()
}

fn runs(document: &Value) -> &[Value] {
    document["results"].as_array().map_or(&[], Vec::as_slice)
}

fn name(result: &Value) -> &str {
    result["name"].as_str().unwrap_or("")
}

/// Compares documents; runs are matched by name, or as they are if each document has just one.
pub fn compare(documents: &[Loaded], extra: &[Tolerance]) -> Comparison {
    let single = documents.iter().all(|d| runs(&d.document).len() == 1);
    let mut names: Vec<&str> = Vec::new();
    for result in documents.iter().flat_map(|d| runs(&d.document)) {
        if !names.contains(&name(result)) {
            names.push(name(result));
        }
    }
    if single {
        names.truncate(1);
    }
    let mut metrics: Vec<&str> = metric_names().collect();
    for tolerance in extra {
        if !metrics.contains(&tolerance.metric.as_str()) {
            metrics.push(&tolerance.metric);
        }
    }
    let (mut rows, mut unmatched) = (Vec::new(), Vec::new());
    for run in names {
        let find = |d: &'_ Loaded| -> Option<usize> {
            if single {
                return Some(0);
            }
            runs(&d.document).iter().position(|r| name(r) == run)
        };
        let found: Vec<Option<usize>> = documents.iter().map(find).collect();
        let without: Vec<usize> =
            found.iter().enumerate().filter(|(_, f)| f.is_none()).map(|(i, _)| i).collect();
        if !without.is_empty() {
            unmatched.push((run.to_string(), without));
            continue;
        }
        for m in &metrics {
            let value = |(d, i): (&Loaded, &Option<usize>)| number(&runs(&d.document)[(*i)?], m);
            let values: Vec<_> = documents.iter().zip(&found).map(value).collect();
            if values.iter().any(Option::is_some) {
                rows.push(Row { run: run.to_string(), metric: m.to_string(), values });
            }
        }
    }
    Comparison { differences: differences(documents), rows, unmatched }
}

impl Comparison {
    /// Whether some run is in every document.
    fn is_matched(&self) -> bool {
        !self.rows.is_empty() || self.unmatched.is_empty()
    }

    /// Checks the tolerances against the first document.
    ///
    /// # Errors
    /// [`LabError::Tolerance`] listing what is outside; [`LabError::Input`] if a metric exists
    /// nowhere, which would make its tolerance a check that cannot fail.
    pub fn check(&self, tolerances: &[Tolerance]) -> Result<(), LabError> {
        let mut outside = Vec::new();
        for tolerance in tolerances {
            let rows: Vec<_> = self.rows.iter().filter(|r| r.metric == tolerance.metric).collect();
            // Runs that have no counterpart are outside whatever their metrics are.
            if rows.is_empty() && self.is_matched() {
                return Err(LabError::Input(format!(
                    "--fail-over {}: no run has this metric; expected one of {} or a path such \
                     as `nand.reads.total`",
                    tolerance.metric,
                    metric_names().collect::<Vec<_>>().join(", ")
                )));
            }
            for row in rows {
                for n in 1..row.values.len() {
                    let change = row.change(n);
                    if change.is_none_or(|c| c.abs() > tolerance.percent) {
                        let text = change.map_or("unknown".to_string(), |c| format!("{c:+.2} %"));
                        outside.push(format!(
                            "{} {}: {text}, allowed {} %",
                            row.run, row.metric, tolerance.percent
                        ));
                    }
                }
            }
        }
        if !tolerances.is_empty() {
            for (run, _) in &self.unmatched {
                outside.push(format!("{run}: not in every document"));
            }
        }
        if outside.is_empty() {
            return Ok(());
        }
        Err(LabError::Tolerance(format!("outside the tolerance:\n  {}", outside.join("\n  "))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn doc(waf: f64, victim: &str) -> Loaded {
        let document = json!({
            "schema": SCHEMA, "version": "1", "seed": 1,
            "config": {"gc.victim": {"value": victim, "from": "x"}, "op": {"value": "7 %"}},
            "results": [{"name": "seed=1", "waf": waf, "erases": 0}],
        });
        Loaded { name: victim.to_string(), document }
    }

    #[test]
    fn differing_keys_and_changes() {
        let c = compare(&[doc(2.0, "greedy"), doc(2.5, "fifo")], &[]);
        assert_eq!(c.differences.len(), 1);
        assert_eq!(c.differences[0].key, "gc.victim");
        let waf = c.rows.iter().find(|r| r.metric == "waf").unwrap();
        assert_eq!(waf.change(1), Some(25.0));
        assert!(c.rows.iter().all(|r| r.metric != "hit"), "unknown is not a row");
        assert!(c.check(&["waf=25".parse().unwrap()]).is_ok());
        assert_eq!(c.check(&["waf=24.9".parse().unwrap()]).unwrap_err().exit_code(), 5);
        assert_eq!(c.check(&["wfa=2".parse().unwrap()]).unwrap_err().exit_code(), 3);
        assert!(c.check(&["erases=0".parse().unwrap()]).is_ok(), "0 to 0 is no change");
    }

    #[test]
    fn a_missing_run_is_outside() {
        let mut other = doc(2.0, "greedy");
        let mut more = other.document["results"][0].clone();
        more["name"] = json!("seed=2");
        other.document["results"].as_array_mut().unwrap().push(more);
        let c = compare(&[doc(2.0, "greedy"), other], &[]);
        assert_eq!(c.unmatched, vec![("seed=2".to_string(), vec![0])]);
        assert_eq!(c.check(&["waf=1".parse().unwrap()]).unwrap_err().exit_code(), 5);
    }

    /// It was a metric that no run has, and wrong input.
    #[test]
    fn no_common_run_at_all_is_outside() {
        let run = |seed: u64| {
            let mut loaded = doc(2.0, "greedy");
            let runs = loaded.document["results"].as_array_mut().unwrap();
            runs.push(runs[0].clone());
            for (at, run) in runs.iter_mut().enumerate() {
                run["name"] = json!(format!("seed={}", seed + at as u64));
            }
            loaded
        };
        let error = compare(&[run(1), run(3)], &[]).check(&["waf=1".parse().unwrap()]).unwrap_err();
        assert_eq!(error.exit_code(), 5);
        assert_eq!(error.to_string().matches("not in every document").count(), 4, "{error}");
    }

    #[test]
    fn tolerances_are_read_strictly() {
        assert_eq!("waf=2%".parse::<Tolerance>().unwrap().percent, 2.0);
        for bad in ["waf", "=2", "waf=-1", "waf=x", "waf=inf"] {
            assert!(bad.parse::<Tolerance>().is_err(), "{bad}");
        }
    }
}
