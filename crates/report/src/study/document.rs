//! A study as a document, written and read back: what was found once need not be run again.

use serde_json::Value;

use super::{Check, Claim, Drawing, Mark, Section, Study, Table, Verdict};
use crate::ReportError;
use crate::json::{Json, Map, MapExt};

const SCHEMA: &str = "varve.study/1";

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

fn texts(texts: &[String]) -> Json {
    list(texts, |text| Json::text(text))
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
    map([
        ("title", Json::text(&section.title)),
        ("note", Json::text(&section.note)),
        ("heading", texts(&section.table.heading)),
        ("rows", list(&section.table.rows, |row| texts(row))),
        ("plots", list(&section.plots, plot)),
    ])
}

fn claim(claim: &Claim) -> Json {
    map([
        ("figure", Json::text(&claim.figure)),
        ("what", Json::text(&claim.what)),
        ("paper", Json::text(&claim.paper)),
        ("here", Json::text(&claim.here)),
        ("verdict", Json::text(claim.verdict.name())),
        ("why", Json::text(&claim.why)),
    ])
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

fn column(value: &Value) -> Result<usize, ReportError> {
    usize::try_from(number(value)?).map_err(|_| wrong(value, "a column"))
}

fn items<T>(
    value: &Value,
    one: impl Fn(&Value) -> Result<T, ReportError>,
) -> Result<Vec<T>, ReportError> {
    value.as_array().ok_or_else(|| wrong(value, "a list"))?.iter().map(one).collect()
}

fn read_claim(value: &Value) -> Result<Claim, ReportError> {
    let all = [Verdict::Agrees, Verdict::Differs, Verdict::NotRepeated];
    let verdict = all.into_iter().find(|v| value["verdict"] == v.name());
    Ok(Claim {
        figure: text(&value["figure"])?,
        what: text(&value["what"])?,
        paper: text(&value["paper"])?,
        here: text(&value["here"])?,
        verdict: verdict.ok_or_else(|| wrong(&value["verdict"], "a verdict"))?,
        why: text(&value["why"])?,
    })
}

fn read_check(value: &Value) -> Result<Check, ReportError> {
    let holds = value["holds"].as_bool().ok_or_else(|| wrong(&value["holds"], "true or false"))?;
    Ok(Check { what: text(&value["what"])?, found: text(&value["found"])?, holds })
}

fn read_section(value: &Value) -> Result<Section, ReportError> {
    let heading = items(&value["heading"], text)?;
    let rows = items(&value["rows"], |row| {
        let row = items(row, text)?;
        match row.len() == heading.len() {
            true => Ok(row),
            false => {
                Err(ReportError::Input(format!("study document: a row of {} cells", row.len())))
            }
        }
    })?;
    let plots = items(&value["plots"], read_plot)?;
    if plots.iter().any(|plot| plot.columns().any(|at| at >= heading.len())) {
        return Err(wrong(&value["plots"], "columns of the table"));
    }
    Ok(Section {
        title: text(&value["title"])?,
        note: text(&value["note"])?,
        table: Table { heading, rows },
        plots,
    })
}

fn read_plot(value: &Value) -> Result<Drawing, ReportError> {
    let mark = [Mark::Bars, Mark::Lines].into_iter().find(|m| value["mark"] == m.name());
    Ok(Drawing {
        title: text(&value["title"])?,
        mark: mark.ok_or_else(|| wrong(&value["mark"], "bars or lines"))?,
        x: column(&value["x"])?,
        y: items(&value["y"], column)?,
        by: match &value["by"] {
            Value::Null => None,
            by => Some(column(by)?),
        },
        only: items(&value["only"], |pair| Ok((column(&pair[0])?, text(&pair[1])?)))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Plot;

    fn study() -> Study {
        let mut table = Table::new(["name", "kind", "MB/s"]);
        table.row(["a", "x", "1.5"]);
        table.row(["b", "x", "-"]);
        let plot = Plot::bars("Speed", "name", ["MB/s"]).by("kind").only("kind", "x");
        let mut study = Study {
            title: "A <title>".to_string(),
            command: "varve reproduce".to_string(),
            note: "note".to_string(),
            seed: 7,
            claims: Vec::new(),
            checks: vec![Check { what: "w".into(), found: "f".into(), holds: false }],
            sections: vec![Section::new("S", "n", table).plot(plot).unwrap()],
        };
        study.claim(("Fig 1", "what"), "+1 %", "+2 %", Verdict::Differs, "because");
        study
    }

    #[test]
    fn a_study_comes_back_as_it_was_written() {
        let written = study().json("1").pretty();
        assert_eq!(Study::read(&written).unwrap().json("1").pretty(), written);
    }

    #[test]
    fn what_is_no_study_is_refused() {
        assert!(Study::read("{").is_err());
        assert!(Study::read("{\"schema\":\"varve.run/1\"}").is_err());
        let written = study().json("1").pretty();
        assert!(Study::read(&written.replace("\"x\": 0", "\"x\": 9")).is_err());
        assert!(Study::read(&written.replace("\"differs\"", "\"maybe\"")).is_err());
    }
}
