//! `varve compare`.

use lab::LabError;
use lab::compare::{Comparison, Loaded, Tolerance, compare as compare_documents, load};
use report::format::significant;
use report::json::{Json, Map, MapExt};

use crate::args::Compare;
use crate::{note, print, table};

/// `varve compare`: differing configuration first, then metrics; exit 5 outside a tolerance.
pub fn compare(args: &Compare) -> Result<(), LabError> {
    let tolerances = args
        .fail_over
        .iter()
        .map(|text| {
            text.parse::<Tolerance>().map_err(|e| LabError::Input(format!("--fail-over {e}")))
        })
        .collect::<Result<Vec<_>, _>>()?;
    let documents = args.runs.iter().map(|path| load(path)).collect::<Result<Vec<Loaded>, _>>()?;
    let comparison = compare_documents(&documents, &tolerances);
    let verdict = comparison.check(&tolerances);
    if args.json {
        print(&json(&documents, &comparison, verdict.is_ok()).pretty())?;
    } else {
        print(&shown(&documents, &comparison))?;
    }
    for (run, without) in &comparison.unmatched {
        let names: Vec<&str> = without.iter().map(|i| documents[*i].name.as_str()).collect();
        note(&format!("not compared: {run} is not in {}", names.join(", ")));
    }
    verdict
}

fn shown(documents: &[Loaded], comparison: &Comparison) -> String {
    let mut out = String::new();
    let names = documents.iter().map(|d| d.name.clone());
    if comparison.differences.is_empty() {
        out.push_str("configuration: the same\n\n");
    } else {
        let mut heading = vec!["configuration that differs".to_string()];
        heading.extend(names.clone());
        let mut list = table::plain(&heading);
        for difference in &comparison.differences {
            let mut row = vec![difference.key.clone()];
            row.extend(difference.values.iter().map(|v| v.clone().unwrap_or("-".to_string())));
            list.add_row(row);
        }
        out.push_str(&table::text(&list));
        out.push('\n');
    }
    let many = comparison.rows.iter().any(|r| r.run != comparison.rows[0].run);
    let mut heading = if many { vec!["run".to_string()] } else { Vec::new() };
    heading.push("metric".to_string());
    for (i, name) in names.enumerate() {
        heading.push(name);
        if i > 0 {
            heading.push("change".to_string());
        }
    }
    let mut list = table::plain(&heading);
    for row in &comparison.rows {
        let mut cells = if many { vec![row.run.clone()] } else { Vec::new() };
        cells.push(row.metric.clone());
        for (i, value) in row.values.iter().enumerate() {
            cells.push(value.map_or("-".to_string(), number));
            if i > 0 {
                cells.push(row.change(i).map_or("-".to_string(), |c| format!("{c:+.2} %")));
            }
        }
        list.add_row(cells);
    }
    table::numbers(&mut list, if many { 2 } else { 1 });
    out + &table::text(&list)
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value}")
    } else {
        significant(value, 6)
    }
}

fn json(documents: &[Loaded], comparison: &Comparison, ok: bool) -> Json {
    let mut map = Map::new();
    map.put("schema", Json::text("varve.compare/1"));
    map.put("version", Json::text(crate::VERSION));
    map.put("documents", Json::List(documents.iter().map(|d| Json::text(&d.name)).collect()));
    map.put("within_tolerance", Json::Bool(ok));
    let text = |v: &Option<String>| v.as_ref().map_or(Json::Null, Json::text);
    let difference = |d: &lab::compare::Difference| {
        let values = Json::List(d.values.iter().map(text).collect());
        Json::Map(Map::from([
            ("key".to_string(), Json::text(&d.key)),
            ("values".to_string(), values),
        ]))
    };
    map.put("config", Json::List(comparison.differences.iter().map(difference).collect()));
    let row = |row: &lab::compare::Row| {
        let mut map = Map::new();
        map.put("run", Json::text(&row.run));
        map.put("metric", Json::text(&row.metric));
        // The texts of the documents' numbers, so that none is rounded here.
        let value = |v: &Option<f64>| v.map_or(Json::Null, |v| Json::text(format!("{v}")));
        map.put("values", Json::List(row.values.iter().map(value).collect()));
        let change = |n| row.change(n).map_or(Json::Null, |c| Json::text(format!("{c:.4}")));
        map.put("change_percent", Json::List((1..row.values.len()).map(change).collect()));
        Json::Map(map)
    };
    map.put("results", Json::List(comparison.rows.iter().map(row).collect()));
    Json::Map(map)
}
