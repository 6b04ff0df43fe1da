//! The paper's numbers, each with the place in the study's tables that answers it.

use super::{Study, Table, Verdict, plot};
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
    /// In a table.
    Cell(Cell, Expect),
    /// Nowhere: it is not repeated, and `why` says why not.
    Nowhere,
}

/// A cell of a table of the study.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// How the section's title begins.
    pub section: &'static str,
    /// Columns and what they hold in the row.
    pub row: &'static [(&'static str, &'static str)],
    /// The column of the number.
    pub column: &'static str,
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
    fn holds(self, value: f64) -> bool {
        match self {
            Expect::AtLeast(least) => value >= least,
            Expect::AtMost(most) => value <= most,
            Expect::Within(least, most) => (least..=most).contains(&value),
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

/// What a table has to say to a statement.
enum Found<'a> {
    Text(&'a str),
    /// No row has the texts.
    NoRow,
    /// A heading that is not there.
    NoColumn(&'a str),
}

impl Table {
    /// The cell of a column in the first row that has the given texts.
    fn find<'a>(&'a self, row: &[(&'a str, &str)], column: &'a str) -> Found<'a> {
        let at = |name: &'a str| self.heading.iter().position(|head| head == name).ok_or(name);
        let keys: Result<Vec<(usize, &str)>, &str> =
            row.iter().map(|(name, text)| Ok((at(name)?, *text))).collect();
        let (keys, column) = match keys.and_then(|keys| Ok((keys, at(column)?))) {
            Ok(found) => found,
            Err(name) => return Found::NoColumn(name),
        };
        let found = self.rows.iter().find(|row| keys.iter().all(|(at, text)| row[*at] == *text));
        found.map_or(Found::NoRow, |row| Found::Text(&row[column]))
    }
}

impl Study {
    /// Answers the paper's statements out of the tables; what this scale leaves out is not repeated.
    ///
    /// # Errors
    /// [`ReportError::Failed`] for a statement whose section, column, row or number is not there
    /// though the scale has it: a table was renamed, and the answer would be lost.
    pub fn answer(&mut self, statements: &[Statement], rows: Rows) -> Result<(), ReportError> {
        for s in statements {
            let (here, verdict) = match s.here {
                Here::Nowhere => ("-".to_string(), Verdict::NotRepeated),
                Here::Cell(cell, expect) => match self.cell(s, &cell, rows)? {
                    Some((text, value)) => (text.to_string(), Verdict::of(expect.holds(value))),
                    None => ("not at this scale".to_string(), Verdict::NotRepeated),
                },
            };
            self.claim((s.figure, s.what), s.paper, here, verdict, s.why);
        }
        Ok(())
    }

    /// The text and number of a cell; `None` where the scale leaves it out.
    fn cell(
        &self,
        of: &Statement,
        cell: &Cell,
        rows: Rows,
    ) -> Result<Option<(&str, f64)>, ReportError> {
        let lost = |what: String| {
            ReportError::Failed(format!(
                "the answer to \"{}: {}\" is lost: {what}",
                of.figure, of.what
            ))
        };
        let mut missing = None;
        for section in &self.sections {
            if !section.title.starts_with(cell.section) {
                continue;
            }
            match section.table.find(cell.row, cell.column) {
                Found::Text(text) => match plot::value(text) {
                    Some(value) => return Ok(Some((text, value))),
                    None => {
                        return Err(lost(format!(
                            "{:?} in column {:?} of {:?} is no number",
                            text, cell.column, section.title
                        )));
                    }
                },
                // A section of the same beginning with other columns is another table.
                Found::NoColumn(name) => {
                    missing.get_or_insert_with(|| {
                        let heading = section.table.heading.join(", ");
                        format!("{:?} has no column {name:?}, but {heading}", section.title)
                    });
                }
                Found::NoRow if rows == Rows::Fewer => return Ok(None),
                Found::NoRow => {
                    missing = Some(format!("{:?} has no row {:?}", section.title, cell.row));
                }
            }
        }
        match missing {
            Some(what) => Err(lost(what)),
            None => Err(lost(format!("no section begins with {:?}", cell.section))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Section;
    use super::*;

    #[test]
    fn statements_are_answered_by_cells() {
        let mut table = Table::new(["drive", "stack", "change"]);
        table.row(["a", "x", "+1.0 %"]);
        table.row(["a", "y", "-12.5 %"]);
        let mut study =
            Study { sections: vec![Section::new("Fig 9: w", "", table)], ..Study::default() };
        let here = |section, stack: &'static [(&'static str, &'static str)], expect| {
            Here::Cell(Cell { section, row: stack, column: "change" }, expect)
        };
        let one = |here| Statement { figure: "Fig 9", what: "w", paper: "p", here, why: "y" };
        let answers = [
            one(here("Fig 9", &[("stack", "y")], Expect::AtMost(0.0))),
            one(here("Fig 9", &[("drive", "a"), ("stack", "y")], Expect::AtLeast(0.0))),
            one(Here::Nowhere),
        ];
        study.answer(&answers, Rows::All).unwrap();
        let found: Vec<_> = study.claims.iter().map(|c| (c.here.as_str(), c.verdict)).collect();
        assert_eq!(found[0], ("-12.5 %", Verdict::Agrees));
        assert_eq!(found[1], ("-12.5 %", Verdict::Differs));
        assert_eq!(found[2], ("-", Verdict::NotRepeated));
    }

    #[test]
    fn an_answer_that_is_not_there_is_an_error_unless_the_scale_leaves_it_out() {
        let study = || {
            let mut table = Table::new(["drive", "stack", "change"]);
            table.row(["a", "x", "+1.0 %"]);
            table.row(["a", "y", "unknown"]);
            Study { sections: vec![Section::new("Fig 9: w", "", table)], ..Study::default() }
        };
        let answer = |section, row: &'static [(&'static str, &'static str)], column, rows| {
            let here = Here::Cell(Cell { section, row, column }, Expect::AtLeast(0.0));
            let one = Statement { figure: "Fig 9", what: "w", paper: "p", here, why: "y" };
            let mut study = study();
            study.answer(&[one], rows).map(|()| study.claims[0].here.clone())
        };
        let row: &[(&str, &str)] = &[("stack", "x")];
        let gone: &[(&str, &str)] = &[("stack", "z")];
        assert_eq!(answer("Fig 9", row, "change", Rows::All).unwrap(), "+1.0 %");
        assert_eq!(answer("Fig 9", gone, "change", Rows::Fewer).unwrap(), "not at this scale");
        for (section, row, column, rows, said) in [
            ("Fig 9", gone, "change", Rows::All, "has no row"),
            ("Fig 9", row, "gain", Rows::Fewer, "has no column \"gain\""),
            ("Fig 9", &[("system", "x")][..], "change", Rows::Fewer, "has no column \"system\""),
            ("Fig 11", row, "change", Rows::Fewer, "no section begins with \"Fig 11\""),
            ("Fig 9", &[("stack", "y")][..], "change", Rows::Fewer, "is no number"),
        ] {
            let error = answer(section, row, column, rows).unwrap_err().to_string();
            assert!(error.contains("Fig 9: w") && error.contains(said), "{error}");
        }
    }
}
