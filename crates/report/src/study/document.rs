//! A study as a document, written and read back: what was found once need not be run again.

use serde_json::Value;

use super::statement::thousandths;
use super::{
    Answer, Bounds, Check, Claim, Column, Condition, Drawing, Form, Mark, Number, Section, Study,
    Table, Unit, Value as Cell, Verdict,
};
use crate::ReportError;
use crate::json::{Json, Map, MapExt};

/// The schema of a study's document.
pub(crate) const SCHEMA: &str = "varve.study/3";

fn map<const N: usize>(pairs: [(&str, Json); N]) -> Json {
    let mut map = Map::new();
    for (key, value) in pairs {
        map.put(key, value);
    }
    Json::Map(map)
}

fn list<T>(items: &[T], one: impl Fn(&T) -> Json) -> Json {
    Json::List(items.iter().map(one).collect())
}

fn column(column: &Column) -> Json {
    let mut map = Map::new();
    map.put("id", Json::text(&column.id));
    map.put("heading", Json::text(&column.heading));
    if let Some(form) = column.form {
        map.put("places", Json::Int(u64::from(form.places)));
        map.put("signed", Json::Bool(form.signed));
        map.maybe("unit", form.unit.name().map(Json::text));
    }
    Json::Map(map)
}

fn cell(cell: &Cell) -> Json {
    match cell {
        Cell::Text(text) => Json::text(text),
        Cell::Number(number) => Json::Decimal(number.digits, number.form.places),
        Cell::Absent => Json::Null,
    }
}

fn plot(plot: &Drawing) -> Json {
    let column = |at: usize| Json::Int(at as u64);
    let mut map = Map::new();
    map.put("title", Json::text(&plot.title));
    map.put("mark", Json::text(plot.mark.name()));
    map.put("x", column(plot.x));
    map.put("y", list(&plot.y, |at| column(*at)));
    if let Some(by) = plot.by {
        map.put("by", column(by));
    }
    map.put("only", list(&plot.only, |(at, text)| Json::List(vec![column(*at), Json::text(text)])));
    Json::Map(map)
}

fn section(section: &Section) -> Json {
    let mut map = Map::new();
    map.put("id", Json::text(&section.id));
    map.maybe("condition", section.condition.as_ref().map(Json::text));
    for (key, value) in [
        ("title", Json::text(&section.title)),
        ("note", Json::text(&section.note)),
        ("columns", list(section.table.columns(), column)),
        ("rows", list(section.table.rows(), |row| list(row, cell))),
        ("plots", list(&section.plots, plot)),
    ] {
        map.put(key, value);
    }
    Json::Map(map)
}

fn condition(condition: &Condition) -> Json {
    map([
        ("id", Json::text(&*condition.id)),
        ("what", Json::text(&*condition.what)),
        ("source", Json::text(&*condition.source)),
    ])
}

/// Thousandths.
fn drawn(value: &i64) -> Json {
    Json::Decimal(*value, 3)
}

fn values(of: &[i64]) -> Option<Json> {
    (!of.is_empty()).then(|| list(of, drawn))
}

fn bounds(of: &Bounds) -> Json {
    let end = |end: Option<i64>| end.map_or(Json::Null, |end| drawn(&end));
    Json::List(vec![end(of.least), end(of.most)])
}

fn answer(answer: &Answer) -> Json {
    let mut map = Map::new();
    map.put("condition", Json::text(&answer.condition));
    map.put("here", Json::text(&answer.here));
    map.put("verdict", Json::text(answer.verdict.name()));
    map.maybe("values", values(&answer.values));
    Json::Map(map)
}

fn claim(claim: &Claim) -> Json {
    let mut map = Map::new();
    for (key, text) in [
        ("figure", claim.figure.as_str()),
        ("what", &claim.what),
        ("paper", &claim.paper),
        ("here", &claim.here),
        ("verdict", claim.verdict.name()),
        ("why", &claim.why),
    ] {
        map.put(key, Json::text(text));
    }
    map.maybe("metric", claim.metric.as_ref().map(Json::text));
    map.maybe("expect", claim.expect.as_ref().map(Json::text));
    map.maybe("bounds", (!claim.bounds.is_empty()).then(|| list(&claim.bounds, bounds)));
    map.maybe("values", values(&claim.values));
    map.maybe("under", (!claim.under.is_empty()).then(|| list(&claim.under, answer)));
    Json::Map(map)
}

fn check(check: &Check) -> Json {
    map([
        ("what", Json::text(&check.what)),
        ("found", Json::text(&check.found)),
        ("holds", Json::Bool(check.holds)),
    ])
}

impl Study {
    /// The study as a document.
    pub fn json(&self, version: &str) -> Json {
        map([
            ("schema", Json::text(SCHEMA)),
            ("version", Json::text(version)),
            (
                "config",
                map([
                    ("title", Json::text(&self.title)),
                    ("command", Json::text(&self.command)),
                    ("note", Json::text(&self.note)),
                    ("conditions", list(&self.conditions, condition)),
                ]),
            ),
            ("seed", Json::Int(self.seed)),
            (
                "results",
                map([
                    ("claims", list(&self.claims, claim)),
                    ("checks", list(&self.checks, check)),
                    ("sections", list(&self.sections, section)),
                ]),
            ),
        ])
    }

    /// Reads a study back.
    ///
    /// # Errors
    /// If the text is no document of a study.
    pub fn read(document: &str) -> Result<Study, ReportError> {
        let value: Value = serde_json::from_str(document)
            .map_err(|e| ReportError::Input(format!("study document: {e}")))?;
        if value["schema"] != SCHEMA {
            return Err(ReportError::Input(format!(
                "study document: schema {}, expected {SCHEMA}",
                value["schema"]
            )));
        }
        let (config, results) = (&value["config"], &value["results"]);
        Ok(Study {
            title: text(&config["title"])?,
            command: text(&config["command"])?,
            note: text(&config["note"])?,
            seed: number(&value["seed"])?,
            conditions: items(&config["conditions"], read_condition)?,
            claims: items(&results["claims"], read_claim)?,
            checks: items(&results["checks"], read_check)?,
            sections: items(&results["sections"], read_section)?,
        })
    }
}

fn wrong(value: &Value, expected: &str) -> ReportError {
    ReportError::Input(format!("study document: {value}, expected {expected}"))
}

fn text(value: &Value) -> Result<String, ReportError> {
    Ok(value.as_str().ok_or_else(|| wrong(value, "a text"))?.to_string())
}

fn number(value: &Value) -> Result<u64, ReportError> {
    value.as_u64().ok_or_else(|| wrong(value, "a whole number"))
}

fn place(value: &Value) -> Result<usize, ReportError> {
    usize::try_from(number(value)?).map_err(|_| wrong(value, "a column"))
}

fn items<T>(
    value: &Value,
    one: impl Fn(&Value) -> Result<T, ReportError>,
) -> Result<Vec<T>, ReportError> {
    value.as_array().ok_or_else(|| wrong(value, "a list"))?.iter().map(one).collect()
}

fn read_condition(value: &Value) -> Result<Condition, ReportError> {
    let read = |key: &str| Ok::<_, ReportError>(text(&value[key])?.into());
    Ok(Condition { id: read("id")?, what: read("what")?, source: read("source")? })
}

fn read_verdict(value: &Value) -> Result<Verdict, ReportError> {
    let all = [Verdict::Agrees, Verdict::Differs, Verdict::NotRepeated];
    all.into_iter().find(|v| value == v.name()).ok_or_else(|| wrong(value, "a verdict"))
}

fn read_answer(value: &Value) -> Result<Answer, ReportError> {
    let (condition, here) = (text(&value["condition"])?, text(&value["here"])?);
    let values = some(&value["values"], read_drawn)?;
    Ok(Answer { condition, here, values, verdict: read_verdict(&value["verdict"])? })
}

/// A list that may be left out.
fn some<T>(
    value: &Value,
    one: impl Fn(&Value) -> Result<T, ReportError>,
) -> Result<Vec<T>, ReportError> {
    if value.is_null() { Ok(Vec::new()) } else { items(value, one) }
}

fn read_drawn(value: &Value) -> Result<i64, ReportError> {
    Ok(thousandths(value.as_f64().ok_or_else(|| wrong(value, "a number"))?))
}

fn read_bounds(value: &Value) -> Result<Bounds, ReportError> {
    let end = |end: &Value| (!end.is_null()).then(|| read_drawn(end)).transpose();
    Ok(Bounds { least: end(&value[0])?, most: end(&value[1])? })
}

fn read_claim(value: &Value) -> Result<Claim, ReportError> {
    Ok(Claim {
        figure: text(&value["figure"])?,
        what: text(&value["what"])?,
        paper: text(&value["paper"])?,
        here: text(&value["here"])?,
        metric: value["metric"].as_str().map(String::from),
        expect: value["expect"].as_str().map(String::from),
        bounds: some(&value["bounds"], read_bounds)?,
        values: some(&value["values"], read_drawn)?,
        under: some(&value["under"], read_answer)?,
        verdict: read_verdict(&value["verdict"])?,
        why: text(&value["why"])?,
    })
}

fn read_check(value: &Value) -> Result<Check, ReportError> {
    let holds = value["holds"].as_bool().ok_or_else(|| wrong(&value["holds"], "true or false"))?;
    Ok(Check { what: text(&value["what"])?, found: text(&value["found"])?, holds })
}

fn read_column(value: &Value) -> Result<Column, ReportError> {
    let form = match &value["places"] {
        Value::Null => None,
        places => Some(Form {
            places: number(places)?.try_into().map_err(|_| wrong(places, "a number of digits"))?,
            unit: match value["unit"].as_str() {
                None => Unit::Heading,
                Some("%") => Unit::PerCent,
                Some(_) => return Err(wrong(&value["unit"], "% or nothing")),
            },
            signed: value["signed"].as_bool().ok_or_else(|| wrong(value, "\"signed\""))?,
        }),
    };
    Ok(Column { id: text(&value["id"])?, heading: text(&value["heading"])?, form })
}

fn read_cell(column: &Column, value: &Value) -> Result<Cell, ReportError> {
    Ok(match value {
        Value::Null => Cell::Absent,
        Value::String(text) => Cell::Text(text.clone()),
        _ => {
            let form = column.form.ok_or_else(|| wrong(value, "a text: the column has no form"))?;
            let value = value.as_f64().ok_or_else(|| wrong(value, "a number"))?;
            let digits = (value * 10f64.powi(form.places as i32)).round() as i64;
            Cell::Number(Number { digits, form })
        }
    })
}

fn read_table(section: &Value) -> Result<Table, ReportError> {
    let columns = items(&section["columns"], read_column)?;
    let rows = items(&section["rows"], |row| {
        let cells = row.as_array().ok_or_else(|| wrong(row, "a row"))?;
        match cells.len() == columns.len() {
            true => {
                columns.iter().zip(cells).map(|(column, cell)| read_cell(column, cell)).collect()
            }
            false => Err(wrong(row, &format!("a row of {} cells", columns.len()))),
        }
    })?;
    let mut ids: Vec<&str> = columns.iter().map(|column| column.id.as_str()).collect();
    ids.sort_unstable();
    if ids.windows(2).any(|two| two[0] == two[1]) {
        return Err(wrong(&section["columns"], "columns with ids of their own"));
    }
    let mut table = Table::new(columns);
    rows.into_iter().for_each(|row: Vec<Cell>| table.row(row));
    Ok(table)
}

fn read_section(value: &Value) -> Result<Section, ReportError> {
    let table = read_table(value)?;
    let plots = items(&value["plots"], read_plot)?;
    if plots.iter().any(|plot| plot.columns().any(|at| at >= table.columns().len())) {
        return Err(wrong(&value["plots"], "columns of the table"));
    }
    let (id, title, note) = (text(&value["id"])?, text(&value["title"])?, text(&value["note"])?);
    let condition = value["condition"].as_str().map(String::from);
    Ok(Section { id, title, note, table, plots, condition })
}

fn read_plot(value: &Value) -> Result<Drawing, ReportError> {
    let mark = [Mark::Bars, Mark::Lines].into_iter().find(|m| value["mark"] == m.name());
    Ok(Drawing {
        title: text(&value["title"])?,
        mark: mark.ok_or_else(|| wrong(&value["mark"], "bars or lines"))?,
        x: place(&value["x"])?,
        y: items(&value["y"], place)?,
        by: match &value["by"] {
            Value::Null => None,
            by => Some(place(by)?),
        },
        only: items(&value["only"], |pair| Ok((place(&pair[0])?, text(&pair[1])?)))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round::{change, quotient};
    use crate::study::Plot;
    use crate::values;

    fn study() -> Study {
        let columns = [("name", "name"), ("kind", "kind"), ("mb_s", "MB/s"), ("change", "change")];
        let mut table = Table::new(columns);
        table.row(values!["a", "x", quotient(3, 2, 1), change(3, 2)]);
        table.row(values!["b", "x", quotient(1, 0, 1), change(1, 3)]);
        let plot = Plot::bars("Speed", "name", ["mb_s"]).by("kind").only("kind", "x");
        let mut study = Study {
            title: "A <title>".to_string(),
            command: "varve reproduce".to_string(),
            note: "note".to_string(),
            seed: 7,
            conditions: vec![
                Condition::new("a", "as it is", "said"),
                Condition::new("b", "w", "s"),
            ],
            claims: Vec::new(),
            checks: vec![Check { what: "w".into(), found: "f".into(), holds: false }],
            sections: vec![Section::new("s", "S", "n", table).plot(plot).unwrap()],
        };
        study.claim(("Fig 1", "what"), "+1 %", "+2 %", Verdict::Differs, "because");
        let claim = &mut study.claims[0];
        claim.metric = Some("s[name=a].mb_s".into());
        claim.expect = Some("at least 1".into());
        claim.under = [("a", Verdict::Differs), ("b", Verdict::Agrees)]
            .map(|(id, verdict)| {
                let (condition, here) = (id.into(), "+2 %".into());
                Answer { condition, here, values: vec![2000], verdict }
            })
            .to_vec();
        claim.bounds = vec![Bounds { least: Some(1000), most: None }];
        claim.values = vec![-2500];
        let again = study.sections[0].clone().under(&study.conditions[1]);
        study.sections.push(again);
        study
    }

    #[test]
    fn a_study_comes_back_as_it_was_written() {
        let written = study().json("1").pretty();
        let read = Study::read(&written).unwrap();
        assert_eq!(read.json("1").pretty(), written);
        assert_eq!((read.text(), read.html("1")), (study().text(), study().html("1")));
        assert!(written.contains("[\"a\",\"x\",1.5,50.0]"), "{written}");
        assert!(written.contains("[\"b\",\"x\",null,-66.7]"), "{written}");
    }

    #[test]
    fn what_is_no_study_is_refused() {
        assert!(Study::read("{").is_err());
        assert!(Study::read("{\"schema\":\"varve.run/1\"}").is_err());
        let written = study().json("1").pretty();
        assert!(Study::read(&written.replace("\"x\": 0", "\"x\": 9")).is_err());
        assert!(Study::read(&written.replace("\"differs\"", "\"maybe\"")).is_err());
        assert!(Study::read(&written.replace("1.5,50.0", "1.5")).is_err());
        assert!(Study::read(&written.replace("\"id\": \"kind\"", "\"id\": \"name\"")).is_err());
    }
}
