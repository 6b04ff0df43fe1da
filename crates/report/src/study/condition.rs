//! Named conditions: what a paper's text leaves open, fixed before a study runs.
//!
//! A number of a paper *comes out* if the metric that its statement names, of the system that the
//! metric's row or section names, is within the statement's threshold under a condition. Promises:
//! * conditions are constants of the study, each with its source in the paper's text: none can be
//!   fitted to a number that was found;
//! * a metric and a threshold are those of the statement under every condition: only what was run
//!   differs;
//! * every condition that was declared was run, or the study fails; all are printed, each with what
//!   came out under it.
//!
//! How a study uses them:
//!
//! ```
//! use varve_report::study::{Condition, Expect, Here, Metric, Rows, Section, Statement, Study, Table};
//! use varve_report::{round::quotient, values};
//!
//! // paper.rs: the first condition is the study's own.
//! const CONDITIONS: &[Condition] = &[
//!     Condition::new("fill80", "80 % of the drive in use", "section V: \"80 % full\""),
//!     Condition::new("fill50", "half of the drive in use", "Fig. 9 shows space that is free"),
//! ];
//! const METRIC: Metric = Metric { section: "fig9", row: &[("system", "log")], column: "mb_s" };
//! const STATEMENTS: &[Statement] = &[Statement {
//!     figure: "Fig 9",
//!     what: "throughput of the log",
//!     paper: "above 10 MB/s",
//!     here: Here::Number(METRIC, Expect::AtLeast(10.0)),
//!     why: "",
//! }];
//!
//! // mod.rs: the same sections for each condition, whose ids are the same under all of them.
//! let mut study = Study { conditions: CONDITIONS.to_vec(), ..Study::default() };
//! for (condition, bytes) in CONDITIONS.iter().zip([9, 12]) {
//!     let mut table = Table::new([("system", "system"), ("mb_s", "MB/s")]);
//!     table.row(values!["log", quotient(bytes, 1, 1)]);
//!     study.sections.push(Section::new("fig9", "Fig. 9", "", table).under(condition));
//! }
//! study.answer(STATEMENTS, Rows::All).unwrap();
//! assert_eq!(study.claims[0].comes_out(), "fill50");
//! ```
//!
//! A section without a condition was run under the first one. A condition may run fewer sections and
//! fewer rows than the first: what it left out is `not run` under it, and a condition that answers
//! nothing at all is an error (but [`Rows::Fewer`]: `not at this scale`).

use std::borrow::Cow;

use super::{
    Claim, Expect, Here, Metric, Number, Rows, Section, Statement, Study, Table, Value, Verdict,
    statement::thousandths,
};
use crate::ReportError;

/// A named set of what a paper's text leaves open: fill, spare, dies, scale, host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// Its name: it does not change.
    pub id: Cow<'static, str>,
    /// What was run.
    pub what: Cow<'static, str>,
    /// What in the paper's text gives or implies it.
    pub source: Cow<'static, str>,
}

impl Condition {
    /// A condition of a paper.
    pub const fn new(id: &'static str, what: &'static str, source: &'static str) -> Condition {
        let (id, what, source) = (Cow::Borrowed(id), Cow::Borrowed(what), Cow::Borrowed(source));
        Condition { id, what, source }
    }
}

/// What came out of a statement under a condition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The id of the condition.
    pub condition: String,
    /// The number, or why there is none.
    pub here: String,
    /// What was judged, in thousandths of its unit, in the order of [`Claim::bounds`]; nothing: it was not run.
    pub values: Vec<i64>,
    /// Whether it is within the statement's threshold.
    pub verdict: Verdict,
}

/// How the table of claims names what came out nowhere.
const NOWHERE: &str = "none";

impl Claim {
    /// The conditions under which the number comes out: their ids, `none`, or `-` if it was not
    /// repeated under any.
    pub fn comes_out(&self) -> String {
        let with = |verdict| self.under.iter().filter(move |answer| answer.verdict == verdict);
        let ids: Vec<&str> = with(Verdict::Agrees).map(|answer| &*answer.condition).collect();
        match ids.is_empty() {
            false => ids.join(", "),
            true if with(Verdict::Differs).next().is_some() => NOWHERE.to_string(),
            true => "-".to_string(),
        }
    }
    /// What came out under a condition.
    fn of(&self, condition: &Condition) -> Option<&Answer> {
        self.under.iter().find(|answer| answer.condition == condition.id)
    }
}

impl Section {
    /// The section as it came out under a condition.
    #[must_use]
    pub fn under(mut self, condition: &Condition) -> Section {
        self.condition = Some(condition.id.to_string());
        self
    }
    /// Its id, and its condition's: where it stands in a page.
    pub(super) fn anchor(&self) -> String {
        match &self.condition {
            Some(id) => format!("{}-{id}", self.id),
            None => self.id.clone(),
        }
    }
    /// Its title for people, with the condition if the study has several.
    pub(super) fn heading(&self) -> String {
        match &self.condition {
            Some(id) => format!("{} (condition {id})", self.title),
            None => self.title.clone(),
        }
    }
}

/// What came out of a statement.
pub(super) struct Found {
    pub(super) here: String,
    pub(super) verdict: Verdict,
    /// What was judged, in thousandths.
    pub(super) values: Vec<i64>,
}

impl Found {
    /// It was not repeated.
    pub(super) fn none(why: &str) -> Found {
        Found { here: why.to_string(), verdict: Verdict::NotRepeated, values: Vec::new() }
    }
    pub(super) fn under(self, condition: String) -> Answer {
        let Found { here, verdict, values } = self;
        Answer { condition, here, values, verdict }
    }
}

impl Study {
    /// Whether a section was run under a condition: those without are the first one's.
    pub(super) fn is_under(&self, section: &Section, condition: Option<&Condition>) -> bool {
        let own = self.conditions.first();
        let id = section.condition.as_deref().or(own.map(|own| &*own.id));
        id == condition.or(own).map(|condition| &*condition.id)
    }

    /// Looks that every section has a place of its own: an id and a condition that is declared.
    ///
    /// # Errors
    /// [`ReportError::Failed`] with the section that has not.
    pub(super) fn placed(&self) -> Result<(), ReportError> {
        let place = |section: &Section| {
            let condition = section.condition.clone();
            (section.id.clone(), condition.or(self.conditions.first().map(|c| c.id.to_string())))
        };
        for (at, section) in self.sections.iter().enumerate() {
            let id = &section.id;
            if let Some(under) = &section.condition
                && !self.conditions.iter().any(|known| known.id == under.as_str())
            {
                let what =
                    format!("section {id:?} is under condition {under:?}, which is not declared");
                return Err(ReportError::Failed(what));
            }
            if self.sections[..at].iter().any(|before| place(before) == place(section)) {
                return Err(ReportError::Failed(format!("two sections have the id {id:?}")));
            }
        }
        Ok(())
    }

    /// What a statement's metric is under each condition, if the study has several.
    pub(super) fn under_each(
        &self,
        statement: &Statement,
        rows: Rows,
    ) -> Result<Vec<Answer>, ReportError> {
        let each = self.conditions.iter().map(|condition| {
            let found = self.found(statement.here, Some(condition), rows)?;
            let id = condition.id.to_string();
            Ok(found.unwrap_or_else(|| Found::none(self.missing(condition, rows))).under(id))
        });
        each.collect()
    }

    fn missing(&self, condition: &Condition, rows: Rows) -> &'static str {
        let run = self.sections.iter().any(|section| self.is_under(section, Some(condition)));
        match (run, rows) {
            (true, Rows::All) => "not run",
            _ => "not at this scale",
        }
    }

    /// Looks that every condition answered something.
    ///
    /// # Errors
    /// [`ReportError::Failed`] with the condition that did not, unless the scale leaves rows out.
    pub(super) fn all_tried(&self, rows: Rows) -> Result<(), ReportError> {
        let answered = |condition: &Condition| {
            let answers = self.claims.iter().filter_map(|claim| claim.of(condition));
            answers.into_iter().any(|answer| answer.verdict != Verdict::NotRepeated)
        };
        match self.conditions.iter().find(|condition| !answered(condition)) {
            Some(idle) if rows == Rows::All => Err(ReportError::Failed(format!(
                "condition {:?} is declared and answers no statement",
                idle.id
            ))),
            _ => Ok(()),
        }
    }

    /// The conditions, and how many of the paper's numbers come out under each; the last line
    /// counts those that do under at least one.
    pub(super) fn condition_table(&self) -> Table {
        let mut table = Table::new([
            ("condition", "condition"),
            ("what", "what was run"),
            ("source", "what the paper gives"),
            ("come_out", "come out"),
            ("differ", "differ"),
            ("not_repeated", "not repeated"),
        ]);
        let asked: Vec<&Claim> = self.claims.iter().filter(|c| !c.under.is_empty()).collect();
        for one in &self.conditions {
            let of = |verdict| {
                let is = |claim: &&&Claim| claim.of(one).is_some_and(|a| a.verdict == verdict);
                Value::from(asked.iter().filter(is).count())
            };
            let counts = [Verdict::Agrees, Verdict::Differs, Verdict::NotRepeated].map(of);
            let words = [&one.id, &one.what, &one.source].map(|text| Value::from(&**text));
            table.row(words.into_iter().chain(counts));
        }
        let outcomes = || asked.iter().map(|claim| claim.comes_out());
        let none = outcomes().filter(|text| text == NOWHERE).count();
        let absent = outcomes().filter(|text| text == "-").count();
        let counts = [asked.len() - none - absent, none, absent].map(Value::from);
        table.row(["at least one", "", ""].map(Value::from).into_iter().chain(counts));
        table
    }

    /// The claims as a table: where there are conditions, with a column for each.
    pub(super) fn claim_table(&self) -> Table {
        let (first, last) = (["figure", "what", "paper", "comes out if"], "why");
        let conditions = self.conditions.iter().map(|c| c.id.to_string());
        let middle: Vec<String> = match self.conditions.is_empty() {
            true => vec!["here".into(), "verdict".into()],
            false => conditions.chain(["comes out under".to_string()]).collect(),
        };
        let names = first.map(String::from).into_iter().chain(middle).chain([last.to_string()]);
        let mut table = Table::new(names.map(|name| (name.clone(), name)));
        for c in &self.claims {
            let expect = c.expect.as_deref().unwrap_or("-");
            let first = [&c.figure, &c.what, &c.paper, expect].map(String::from);
            let middle = match self.conditions.is_empty() {
                true => vec![c.here.clone(), c.verdict.name().to_string()],
                false => self.answers_of(c),
            };
            table.row(first.into_iter().chain(middle).chain([c.why.clone()]));
        }
        table
    }

    /// A claim's cells under the conditions, and where it comes out. What no statement answers was
    /// found under the first.
    fn answers_of(&self, claim: &Claim) -> Vec<String> {
        let mut cells: Vec<String> = self
            .conditions
            .iter()
            .map(|condition| claim.of(condition).map_or("-".to_string(), |a| a.here.clone()))
            .collect();
        if !claim.under.is_empty() {
            cells.push(claim.comes_out());
            return cells;
        }
        cells[0].clone_from(&claim.here);
        cells.push(match claim.verdict {
            Verdict::Agrees => self.conditions[0].id.to_string(),
            Verdict::Differs => NOWHERE.to_string(),
            Verdict::NotRepeated => "-".to_string(),
        });
        cells
    }

    /// The answer of a statement under a condition, if that ran what it needs.
    pub(super) fn found(
        &self,
        here: Here,
        condition: Option<&Condition>,
        rows: Rows,
    ) -> Result<Option<Found>, ReportError> {
        let one: [(Metric, Expect); 1];
        let (shown, with, judged) = match here {
            Here::Nowhere => return Ok(Some(Found::none("-"))),
            Here::Number(metric, expect) => {
                one = [(metric, expect)];
                (vec![metric], "", &one[..])
            }
            Here::Numbers { shown, with, judged } => (shown.to_vec(), with, judged),
        };
        let mut texts = Vec::new();
        for metric in shown {
            let Some(number) = self.tried(&metric, condition, rows)? else { return Ok(None) };
            texts.push(number.to_string());
        }
        let mut verdict = if judged.is_empty() { Verdict::NotRepeated } else { Verdict::Agrees };
        let mut values = Vec::new();
        for (metric, expect) in judged {
            let Some(number) = self.tried(metric, condition, rows)? else { return Ok(None) };
            values.push(thousandths(number.value()));
            if !expect.holds(number.value()) {
                verdict = Verdict::Differs;
            }
        }
        Ok(Some(Found { here: texts.join(with), verdict, values }))
    }

    /// The number of a metric under a condition, if that ran it: the study's own must have.
    fn tried(
        &self,
        metric: &Metric,
        condition: Option<&Condition>,
        rows: Rows,
    ) -> Result<Option<Number>, ReportError> {
        let own = condition.is_none() || condition == self.conditions.first();
        let has = |s: &Section| s.id == metric.section && self.is_under(s, condition);
        if !own && !self.sections.iter().any(has) {
            return Ok(None);
        }
        self.number_under(metric, condition, if own { rows } else { Rows::Fewer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values;

    const CONDITIONS: &[Condition] =
        &[Condition::new("a", "first", "as printed"), Condition::new("b", "second", "implied")];
    const METRIC: Metric = Metric { section: "fig9", row: &[("stack", "log")], column: "mb_s" };
    const OTHER: Metric = Metric { section: "fig10", ..METRIC };

    fn statement(metric: Metric, least: f64) -> Statement {
        let here = Here::Number(metric, Expect::AtLeast(least));
        Statement { figure: "Fig 9", what: "w", paper: "p", here, why: "y" }
    }

    fn section(id: &str, rows: &[(&str, u64)]) -> Section {
        let mut table = Table::new([("stack", "stack"), ("mb_s", "MB/s")]);
        for (stack, mb_s) in rows {
            table.row(values![*stack, *mb_s]);
        }
        Section::new(id, "title", "", table)
    }

    /// Fig 9 under both conditions, Fig 10 under the first.
    fn study() -> Study {
        let sections = vec![
            section("fig9", &[("log", 9)]),
            section("fig10", &[("log", 30)]),
            section("fig9", &[("log", 12)]).under(&CONDITIONS[1]),
        ];
        Study { conditions: CONDITIONS.to_vec(), sections, ..Study::default() }
    }

    #[test]
    fn a_statement_has_one_threshold_and_an_answer_under_each_condition() {
        let mut study = study();
        let asked = [
            statement(METRIC, 10.0),
            statement(METRIC, 9.0),
            statement(METRIC, 13.0),
            statement(OTHER, 30.0),
            Statement { here: Here::Nowhere, ..statement(METRIC, 0.0) },
        ];
        study.answer(&asked, Rows::All).unwrap();
        let out: Vec<String> = study.claims.iter().map(Claim::comes_out).collect();
        assert_eq!(out, ["b", "a, b", "none", "a", "-"]);
        let first = &study.claims[0];
        assert_eq!((&*first.here, first.verdict), ("9", Verdict::Differs));
        assert_eq!(first.expect.as_deref(), Some("at least 10"));
        assert_eq!(study.claims[3].under[1].here, "not run");
        let rows: Vec<String> = study
            .condition_table()
            .rows()
            .iter()
            .map(|row| row[3..].iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(rows, ["2 2 1", "2 1 2", "3 1 1"]);
        let text = study.text();
        assert!(text.contains("title (condition b)") && text.contains("at least one"), "{text}");
        assert!(text.contains("comes out if   a  b        comes out under"), "{text}");
    }

    #[test]
    fn what_was_not_declared_or_not_run_is_an_error() {
        let said = |change: &dyn Fn(&mut Study)| {
            let mut study = study();
            change(&mut study);
            study.answer(&[statement(METRIC, 1.0)], Rows::All).unwrap_err().to_string()
        };
        let idle = |study: &mut Study| drop(study.sections.pop());
        assert!(said(&idle).contains("condition \"b\" is declared and answers no statement"));
        let twice = |study: &mut Study| study.sections.push(section("fig9", &[("log", 1)]));
        assert!(said(&twice).contains("two sections have the id \"fig9\""));
        let own =
            |study: &mut Study| study.sections[1] = section("fig9", &[]).under(&CONDITIONS[0]);
        assert!(said(&own).contains("two sections have the id \"fig9\""));
        let unknown = |study: &mut Study| {
            let late = Condition::new("fitted", "found later", "");
            study.sections.push(section("fig9", &[("log", 99)]).under(&late));
        };
        assert!(said(&unknown).contains("\"fitted\", which is not declared"));
        let mut quick = study();
        idle(&mut quick);
        quick.answer(&[statement(METRIC, 1.0)], Rows::Fewer).unwrap();
        assert_eq!(quick.claims[0].under[1].here, "not at this scale");
    }
}
