//! Results as columns: a row for each run, and for each column a name and a kind that do not depend on
//! what came out. What is not known is an empty cell, never 0.
//!
//! First the swept keys as texts, each with its value as a number where it has a unit
//! (`buffer.size.bytes`), then the seed, then why a run cannot be, then by what its drive was scaled, then
//! every number of [`metric::ALL`] under its id.

use std::collections::BTreeSet;

use report::json::{Json, Map};

use crate::document::{Document, find};
use crate::metric::{self, Unit};
use crate::report::scaled_by;

/// What the cells of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Texts.
    Text,
    /// Numbers in this unit.
    Number(Unit),
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Number(unit) => unit.name(),
        }
    }
}

/// The column of the scale of each run's drive.
const SCALED: &str = "scaled";

/// Results as columns.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(String, Kind)>,
    rows: Vec<Vec<Json>>,
}

/// The unit of a value of a swept key, by the end of its name.
fn unit_of(name: &str) -> Unit {
    match name.rsplit('.').next() {
        Some("bytes") => Unit::Bytes,
        Some("ns") => Unit::Nanoseconds,
        _ => Unit::Ratio,
    }
}

impl Table {
    /// The columns of a document; `values` has the swept keys of each of its runs as numbers, in
    /// their order.
    pub fn of(document: &Document, values: &[Map]) -> Table {
        let params =
            |run: &Map| run.get("params").and_then(Json::as_map).cloned().unwrap_or_default();
        let keys: BTreeSet<String> = document
            .results()
            .flat_map(|run| params(run).into_keys())
            .filter(|key| key != "seed")
            .collect();
        let numbers: BTreeSet<&String> = values.iter().flat_map(Map::keys).collect();
        let mut columns: Vec<(String, Kind)> = Vec::new();
        for key in &keys {
            columns.push((key.clone(), Kind::Text));
            let of_key = |name: &&&String| name.rsplit_once('.').is_some_and(|(of, _)| of == key);
            let with_units = numbers.iter().filter(of_key);
            columns.extend(with_units.map(|name| (name.to_string(), Kind::Number(unit_of(name)))));
        }
        columns.push(("seed".to_string(), Kind::Number(Unit::Count)));
        columns.push(("impossible".to_string(), Kind::Text));
        columns.push((SCALED.to_string(), Kind::Text));
        let metrics = metric::ALL.iter();
        columns.extend(metrics.map(|m| (m.id().to_string(), Kind::Number(m.unit()))));
        let (none, heading) = (Map::new(), document.heading());
        let scaled = |params: &Map| {
            let run = serde_json::json!({ "params": serde_json::Value::from(&Json::Map(params.clone())) });
            scaled_by(&heading, &run).map(Json::text)
        };
        let row = |(at, run): (usize, &Map)| {
            let (params, values) = (params(run), values.get(at).unwrap_or(&none));
            let scaled = scaled(&params).filter(|_| !run.contains_key("impossible"));
            let cell = |(name, _): &(String, Kind)| {
                if name == SCALED {
                    return scaled.clone().unwrap_or(Json::Null);
                }
                let known = params.get(name).or_else(|| values.get(name));
                known.or_else(|| find(run, name)).cloned().unwrap_or(Json::Null)
            };
            columns.iter().map(cell).collect()
        };
        let rows = document.results().enumerate().map(row).collect();
        Table { columns, rows }
    }

    /// Names and kinds of the columns.
    pub fn columns(&self) -> &[(String, Kind)] {
        &self.columns
    }

    /// The cells, by row; [`Json::Null`] is not known.
    pub fn rows(&self) -> &[Vec<Json>] {
        &self.rows
    }

    /// The table as comma-separated values (RFC 4180, lines end in a line feed), the names first.
    pub fn csv(&self) -> String {
        let names = self.columns.iter().map(|(name, _)| quoted(name));
        let mut out = names.collect::<Vec<_>>().join(",") + "\n";
        for row in &self.rows {
            out += &row.iter().map(cell).collect::<Vec<_>>().join(",");
            out.push('\n');
        }
        out
    }
}

fn cell(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::Text(text) => quoted(text),
        number => number.pretty().trim_end().to_string(),
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

#[cfg(test)]
mod tests {
    use report::json::MapExt;

    use super::*;

    #[test]
    fn a_row_for_each_run_and_the_same_columns_for_all() {
        let run = |policy: &str, waf: Option<u64>| {
            let mut params = Map::new();
            params.put("buffer.policy", Json::text(policy));
            params.put("buffer.size", Json::text("1 MiB"));
            params.int("seed", 3);
            let mut map = Map::new();
            map.put("params", Json::Map(params));
            match waf {
                Some(waf) => map.put("waf", Json::Millionths(waf)),
                None => map.put("impossible", Json::text("no \"room\", none")),
            }
            Json::Map(map)
        };
        let results =
            vec![(1, run("cflru(window=0.5,x=1)", None)), (0, run("lru", Some(2_500_000)))];
        let mut scale = Map::new();
        scale.put("by", Json::text("1/8"));
        let mut heading = Map::new();
        heading.put("scale", Json::Map(scale));
        let document = Document::of(heading, results, 2);
        let mut values = Map::new();
        values.int("buffer.size.bytes", 1 << 20);
        let table = Table::of(&document, &[values.clone(), values]);
        let names: Vec<&str> = table.columns().iter().map(|(name, _)| name.as_str()).collect();
        let first = ["buffer.policy", "buffer.size", "buffer.size.bytes", "seed", "impossible"];
        assert_eq!(names[..5], first);
        assert_eq!(names.len(), 6 + metric::ALL.len());
        assert_eq!(table.columns()[2].1.name(), "bytes");
        let csv = table.csv();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[1].starts_with("lru,1 MiB,1048576,3,,1/8,"), "{csv}");
        assert!(lines[1].contains(",2.500000,"), "{csv}");
        let second = "\"cflru(window=0.5,x=1)\",1 MiB,1048576,3,\"no \"\"room\"\", none\",,";
        assert!(lines[2].starts_with(second), "{csv}");
        for line in &lines[..2] {
            assert_eq!(line.matches(',').count(), names.len() - 1, "{line}");
        }
    }
}
