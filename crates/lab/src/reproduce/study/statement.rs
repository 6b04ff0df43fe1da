//! The paper's numbers, each with the place in the study's tables that answers it.

use super::{Study, Table, Verdict, plot};

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

impl Table {
    /// The cell of a column in the first row that has the given texts; `None` if there is none.
    fn find(&self, row: &[(&str, &str)], column: &str) -> Option<&str> {
        let at = |name: &str| self.heading.iter().position(|head| head == name);
        let keys: Option<Vec<(usize, &str)>> =
            row.iter().map(|(name, text)| Some((at(name)?, *text))).collect();
        let (keys, column) = (keys?, at(column)?);
        let found = self.rows.iter().find(|row| keys.iter().all(|(at, text)| row[*at] == *text))?;
        Some(&found[column])
    }
}

impl Study {
    /// Answers the paper's statements out of the tables; one whose table is not there at this scale
    /// is not repeated.
    pub fn answer(&mut self, statements: &[Statement]) {
        for s in statements {
            let (here, verdict) = match s.here {
                Here::Nowhere => ("-".to_string(), Verdict::NotRepeated),
                Here::Cell(cell, expect) => {
                    let sections = || self.sections.iter();
                    let found = sections()
                        .filter(|section| section.title.starts_with(cell.section))
                        .find_map(|section| section.table.find(cell.row, cell.column));
                    match found.map(|text| (text, plot::value(text))) {
                        Some((text, Some(value))) => {
                            (text.to_string(), Verdict::of(expect.holds(value)))
                        }
                        _ => ("not at this scale".to_string(), Verdict::NotRepeated),
                    }
                }
            };
            self.claim((s.figure, s.what), s.paper, here, verdict, s.why);
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
        study.answer(&[
            one(here("Fig 9", &[("stack", "y")], Expect::AtMost(0.0))),
            one(here("Fig 9", &[("drive", "a"), ("stack", "y")], Expect::AtLeast(0.0))),
            one(here("Fig 9", &[("stack", "z")], Expect::AtLeast(0.0))),
            one(Here::Nowhere),
        ]);
        let found: Vec<_> = study.claims.iter().map(|c| (c.here.as_str(), c.verdict)).collect();
        assert_eq!(found[0], ("-12.5 %", Verdict::Agrees));
        assert_eq!(found[1], ("-12.5 %", Verdict::Differs));
        assert_eq!(found[2], ("not at this scale", Verdict::NotRepeated));
        assert_eq!(found[3], ("-", Verdict::NotRepeated));
    }
}
