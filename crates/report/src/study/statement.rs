//! The paper's numbers, each with the place in the study's tables that answers it.

use std::fmt;

use super::condition::Found;
use super::{Answer, Condition, Number, Study, Value, Verdict};
use crate::ReportError;

/// What the paper's text gives, and where its answer stands.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// The figure, table or section of the paper.
    pub figure: &'static str,
    /// What it is about.
    pub what: &'static str,
    /// What the paper gives.
    pub paper: &'static str,
    /// Where the answer is.
    pub here: Here,
    /// Why it differs, or when it agrees, and which experiment shows that.
    pub why: &'static str,
}

/// Where the answer to a statement is.
#[derive(Clone, Copy, Debug)]
pub enum Here {
    /// A number of the study.
    Number(Metric, Expect),
    /// Several numbers of the study.
    Numbers {
        /// What is shown, in this order.
        shown: &'static [Metric],
        /// What stands between them.
        with: &'static str,
        /// What must hold, all of it; nothing: they are shown beside the paper's and not judged.
        judged: &'static [(Metric, Expect)],
    },
    /// Nowhere: it is not repeated, and `why` says why not.
    Nowhere,
}

/// A number of the study: a cell of a table, by the ids of its section and columns. No title and no
/// heading is named.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The id of the section.
    pub section: &'static str,
    /// Ids of columns and what they hold in the row.
    pub row: &'static [(&'static str, &'static str)],
    /// The id of the number's column.
    pub column: &'static str,
}

impl fmt::Display for Metric {
    /// `fig8[load=varmail,system=SCJ].of_bl`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row: Vec<String> = self.row.iter().map(|(id, text)| format!("{id}={text}")).collect();
        write!(f, "{}[{}].{}", self.section, row.join(","), self.column)
    }
}

/// What agrees with the paper.
#[derive(Clone, Copy, Debug)]
pub enum Expect {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
    /// From the first to the second.
    Within(f64, f64),
}

impl Expect {
    /// Whether a number comes out.
    pub(super) fn holds(self, value: f64) -> bool {
        match self {
            Expect::AtLeast(least) => value >= least,
            Expect::AtMost(most) => value <= most,
            Expect::Within(least, most) => (least..=most).contains(&value),
        }
    }
}

/// A number as it is drawn.
pub(super) fn thousandths(value: f64) -> i64 {
    (value * 1000.0).round() as i64
}

/// From where to where a number agrees with the paper, in thousandths of its unit; no end: without a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The least.
    pub least: Option<i64>,
    /// The most.
    pub most: Option<i64>,
}

impl Expect {
    fn bounds(self) -> Bounds {
        let (least, most) = match self {
            Expect::AtLeast(least) => (Some(least), None),
            Expect::AtMost(most) => (None, Some(most)),
            Expect::Within(least, most) => (Some(least), Some(most)),
        };
        Bounds { least: least.map(thousandths), most: most.map(thousandths) }
    }
}

impl fmt::Display for Expect {
    /// `at least 0`, in the unit of the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A bound that was worked out, -16.4 + 8, has more digits than anybody meant.
        let plain = |bound: f64| (bound * 1000.0).round() / 1000.0;
        match *self {
            Expect::AtLeast(least) => write!(f, "at least {}", plain(least)),
            Expect::AtMost(most) => write!(f, "at most {}", plain(most)),
            Expect::Within(least, most) if least == most => write!(f, "{}", plain(least)),
            Expect::Within(least, most) => write!(f, "{} to {}", plain(least), plain(most)),
        }
    }
}

/// Which rows a scale fills. Sections and columns are the same at every scale.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// All that a statement may name.
    All,
    /// Fewer sizes or loads: a statement whose row is not there is not repeated.
    Fewer,
}

impl Here {
    /// The ids of the metrics that decide, or of those shown where nothing does.
    fn metric(self) -> Option<String> {
        let all = |metrics: Vec<String>| metrics.join(" and ");
        match self {
            Here::Nowhere => None,
            Here::Number(metric, _) => Some(metric.to_string()),
            Here::Numbers { shown, judged: [], .. } => {
                Some(all(shown.iter().map(Metric::to_string).collect()))
            }
            Here::Numbers { judged, .. } => {
                Some(all(judged.iter().map(|(metric, _)| metric.to_string()).collect()))
            }
        }
    }
    /// When it agrees, in the order of [`Here::metric`].
    fn expect(self) -> Option<String> {
        match self {
            Here::Nowhere | Here::Numbers { judged: [], .. } => None,
            Here::Number(_, expect) => Some(expect.to_string()),
            Here::Numbers { judged, .. } => {
                let all: Vec<String> =
                    judged.iter().map(|(_, expect)| expect.to_string()).collect();
                Some(all.join(" and "))
            }
        }
    }
}

impl Here {
    /// What must hold of each number that is judged.
    fn bounds(self) -> Vec<Bounds> {
        match self {
            Here::Nowhere => Vec::new(),
            Here::Number(_, expect) => vec![expect.bounds()],
            Here::Numbers { judged, .. } => judged.iter().map(|(_, e)| e.bounds()).collect(),
        }
    }
}

impl Study {
    /// Says that a scale leaves statements out, and why.
    pub fn leave_out(&mut self, statements: &[Statement], why: &str) {
        for s in statements {
            let here = "not at this scale";
            self.claim((s.figure, s.what), s.paper, here, Verdict::NotRepeated, why);
            let answer = |one: &Condition| Found::none(here).under(one.id.to_string());
            let under = self.conditions.iter().map(answer).collect();
            self.judge(s, Vec::new(), under);
        }
    }

    /// Answers the paper's statements out of the tables, under each of the study's conditions; what
    /// this scale leaves out is not repeated. The last thing that a study does.
    ///
    /// # Errors
    /// [`ReportError::Failed`] for a statement whose section, column, row or number is not there
    /// though the scale has it; for sections with one id, and for a condition that was not run.
    pub fn answer(&mut self, statements: &[Statement], rows: Rows) -> Result<(), ReportError> {
        self.placed()?;
        for s in statements {
            let found = self.found(s.here, None, rows)?;
            let found = found.unwrap_or_else(|| Found::none("not at this scale"));
            let under = self.under_each(s, rows)?;
            self.claim((s.figure, s.what), s.paper, found.here, found.verdict, s.why);
            self.judge(s, found.values, under);
        }
        self.all_tried(rows)
    }

    /// What the last claim was judged by.
    fn judge(&mut self, s: &Statement, values: Vec<i64>, under: Vec<Answer>) {
        if let Some(claim) = self.claims.last_mut() {
            (claim.metric, claim.expect) = (s.here.metric(), s.here.expect());
            (claim.bounds, claim.values, claim.under) = (s.here.bounds(), values, under);
        }
    }

    /// The number of a metric; `None` where the scale leaves its row out.
    ///
    /// # Errors
    /// [`ReportError::Failed`] if the study has no such section, column, row or number.
    pub fn number(&self, metric: &Metric, rows: Rows) -> Result<Option<Number>, ReportError> {
        self.number_under(metric, None, rows)
    }

    /// The number of a metric under a condition: the first, if none is given.
    pub(super) fn number_under(
        &self,
        metric: &Metric,
        condition: Option<&Condition>,
        rows: Rows,
    ) -> Result<Option<Number>, ReportError> {
        let none = |what: String| ReportError::Failed(format!("no metric {metric}: {what}"));
        let known = |ids: Vec<&str>| ids.join(", ");
        let mut sections = self.sections.iter().filter(|s| self.is_under(s, condition));
        let section = sections.find(|section| section.id == metric.section);
        let table = &section
            .ok_or_else(|| {
                let ids = self.sections.iter().map(|section| section.id.as_str()).collect();
                none(format!("no section {:?}, but {}", metric.section, known(ids)))
            })?
            .table;
        let column = |id: &str| {
            table.at(id).ok_or_else(|| {
                let ids = table.columns().iter().map(|column| column.id.as_str()).collect();
                none(format!("no column {id:?}, but {}", known(ids)))
            })
        };
        let at = column(metric.column)?;
        let mut keys = Vec::new();
        for (id, text) in metric.row {
            keys.push((column(id)?, *text));
        }
        let has = |row: &&Vec<_>| keys.iter().all(|(at, text)| row_text(row, *at) == *text);
        match table.rows().iter().find(has) {
            Some(row) => match row[at].number() {
                Some(number) => Ok(Some(number)),
                None => Err(none(format!("{:?} is no number", row_text(row, at)))),
            },
            None if rows == Rows::Fewer => Ok(None),
            None => Err(none("no such row".to_string())),
        }
    }
}

fn row_text(row: &[Value], at: usize) -> String {
    row[at].to_string()
}

#[cfg(test)]
mod tests {
    use super::super::{Section, Table};
    use super::*;
    use crate::round::signed;
    use crate::values;

    /// A study whose people-facing texts are given.
    fn study(title: &str, heading: &str) -> Study {
        let mut table = Table::new([("drive", "drive"), ("stack", "stack"), ("change", heading)]);
        table.row(values!["a", "x", signed(10)]);
        table.row(values!["a", "y", signed(-125)]);
        table.row(values!["a", "none", Value::Absent]);
        Study { sections: vec![Section::new("fig9", title, "", table)], ..Study::default() }
    }

    fn statement(metric: Metric, expect: Expect) -> Statement {
        let here = Here::Number(metric, expect);
        Statement { figure: "Fig 9", what: "w", paper: "p", here, why: "y" }
    }

    const ROW: &[(&str, &str)] = &[("drive", "a"), ("stack", "y")];
    const METRIC: Metric = Metric { section: "fig9", row: ROW, column: "change" };

    #[test]
    fn statements_are_answered_by_numbers_whatever_headings_say() {
        for (title, heading) in [("Fig 9: w", "change"), ("another title", "another heading")] {
            let mut study = study(title, heading);
            let nowhere =
                Statement { here: Here::Nowhere, ..statement(METRIC, Expect::AtMost(0.0)) };
            let answers = [
                statement(METRIC, Expect::AtMost(0.0)),
                statement(METRIC, Expect::AtLeast(0.0)),
                nowhere,
            ];
            study.answer(&answers, Rows::All).unwrap();
            let found: Vec<_> = study.claims.iter().map(|c| (c.here.as_str(), c.verdict)).collect();
            assert_eq!(found[0], ("-12.5 %", Verdict::Agrees));
            assert_eq!(found[1], ("-12.5 %", Verdict::Differs));
            assert_eq!(found[2], ("-", Verdict::NotRepeated));
            assert_eq!(study.claims[0].metric.as_deref(), Some("fig9[drive=a,stack=y].change"));
            assert_eq!(study.claims[2].metric, None);
        }
    }

    #[test]
    fn several_numbers_are_one_answer_and_all_that_is_judged_must_hold() {
        const X: Metric = Metric { row: &[("stack", "x")], ..METRIC };
        const GONE: Metric = Metric { row: &[("stack", "z")], ..METRIC };
        let here = |judged| Here::Numbers { shown: &[X, METRIC], with: " to ", judged };
        let ask = |here| Statement { here, ..statement(METRIC, Expect::AtMost(0.0)) };
        let mut study = study("Fig 9", "change");
        let both: &[_] = &[(X, Expect::AtLeast(1.0)), (METRIC, Expect::AtMost(0.0))];
        let one: &[_] = &[(X, Expect::AtLeast(1.0)), (METRIC, Expect::AtLeast(0.0))];
        let asked = [ask(here(both)), ask(here(one)), ask(here(&[]))];
        study.answer(&asked, Rows::All).unwrap();
        let verdicts: Vec<_> = study.claims.iter().map(|claim| claim.verdict).collect();
        assert_eq!(verdicts, [Verdict::Agrees, Verdict::Differs, Verdict::NotRepeated]);
        let first = &study.claims[0];
        assert_eq!(first.here, "+1.0 % to -12.5 %");
        assert_eq!(
            first.metric.as_deref(),
            Some("fig9[stack=x].change and fig9[drive=a,stack=y].change")
        );
        assert_eq!(first.expect.as_deref(), Some("at least 1 and at most 0"));
        let lost = ask(here(&[(GONE, Expect::AtLeast(0.0))]));
        assert!(study.answer(&[lost], Rows::All).is_err());
        study.leave_out(&[ask(here(both))], "too long");
        assert_eq!(study.claims.last().unwrap().here, "not at this scale");
    }

    #[test]
    fn a_bound_that_was_worked_out_has_no_more_digits_than_it_was_made_of() {
        let texts = [Expect::Within(-16.4 - 8.0, -16.4 + 8.0), Expect::AtMost(5.49)];
        assert_eq!(texts.map(|e| e.to_string()), ["-24.4 to -8.4", "at most 5.49"]);
    }

    #[test]
    fn a_metric_that_is_not_there_is_an_error_unless_the_scale_leaves_its_row_out() {
        let ask = |metric, rows| study("Fig 9", "change").number(&metric, rows);
        let gone = Metric { row: &[("stack", "z")], ..METRIC };
        assert_eq!(ask(METRIC, Rows::All).unwrap().unwrap().value(), -12.5);
        assert_eq!(ask(gone, Rows::Fewer).unwrap(), None);
        for (metric, rows, said) in [
            (gone, Rows::All, "no metric fig9[stack=z].change: no such row"),
            (
                Metric { column: "gain", ..METRIC },
                Rows::Fewer,
                "no column \"gain\", but drive, stack",
            ),
            (Metric { row: &[("system", "x")], ..METRIC }, Rows::Fewer, "no column \"system\""),
            (Metric { section: "fig11", ..METRIC }, Rows::Fewer, "no section \"fig11\", but fig9"),
            (Metric { row: &[("stack", "none")], ..METRIC }, Rows::Fewer, "\"-\" is no number"),
        ] {
            let error = ask(metric, rows).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
