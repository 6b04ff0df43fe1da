//! What an experiment found, as sections of tables: for a terminal, a browser, and a program. A
//! number stands in a table once, typed; drawings and the paper's statements read it there, by ids
//! that headings do not touch.

mod condition;
mod document;
mod dumbbell;
mod html;
mod outcome;
mod plot;
mod statement;
mod table;
mod text;

pub use condition::{Answer, Condition};
pub(crate) use document::SCHEMA;
pub use html::book;
pub use outcome::counts;
pub use plot::Plot;
use plot::{Drawing, Mark};
pub use statement::{Bounds, Expect, Here, Metric, Rows, Statement};
pub use table::{Column, Form, Number, Table, Unit, Value};

use crate::ReportError;

/// A part of a study.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its name for statements and programs: it does not change.
    pub id: String,
    /// What it is about, with the paper's figure.
    pub title: String,
    /// What it shows and on what; where it differs from the paper, and why.
    pub note: String,
    /// Its numbers.
    pub table: Table,
    plots: Vec<Drawing>,
    /// The id of the condition that it was run under, if it is not the study's first.
    condition: Option<String>,
}

impl Section {
    /// A section without a drawing.
    ///
    /// # Panics
    /// In test builds: if a number of the table is a text.
    pub fn new(
        id: impl Into<String>,
        title: impl Into<String>,
        note: impl Into<String>,
        table: Table,
    ) -> Section {
        debug_assert_eq!(table.lost_number(), None, "a number is a text");
        let (id, title, note) = (id.into(), title.into(), note.into());
        Section { id, title, note, table, plots: Vec::new(), condition: None }
    }
    /// Adds a drawing of the table.
    ///
    /// # Errors
    /// [`ReportError::Failed`] if the table has no such columns.
    pub fn plot(mut self, plot: Plot) -> Result<Section, ReportError> {
        self.plots.push(plot.of(&self.table)?);
        Ok(self)
    }
}

/// What came of a number that a paper gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It comes out here as well: as a number where one is given, else in its direction.
    Agrees,
    /// It does not.
    Differs,
    /// It cannot be repeated here.
    NotRepeated,
}

impl Verdict {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::Differs => "differs",
            Verdict::NotRepeated => "not repeated",
        }
    }
    /// The verdict about a direction that holds or does not.
    pub fn of(holds: bool) -> Verdict {
        if holds { Verdict::Agrees } else { Verdict::Differs }
    }
}

/// A number or statement of the paper, and what came out here.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The figure, table or section of the paper.
    pub figure: String,
    /// What it is about.
    pub what: String,
    /// What the paper gives.
    pub paper: String,
    /// What came out here.
    pub here: String,
    /// The id of the metric that answers it, if one does: `fig8[load=varmail,system=SCJ].of_bl`.
    pub metric: Option<String>,
    /// When the metric agrees with the paper: `at least 0`, in its own unit.
    pub expect: Option<String>,
    /// The same as numbers, one for each that is judged; nothing: no statement answers it.
    pub bounds: Vec<Bounds>,
    /// What was judged, in thousandths, in the order of the bounds.
    pub values: Vec<i64>,
    /// What came out under each of the study's conditions, if it has any: `here` and `verdict` are
    /// of the first.
    pub under: Vec<Answer>,
    /// Whether they agree.
    pub verdict: Verdict,
    /// Why they differ, or under which condition they agree: shown by an experiment of the study.
    pub why: String,
}

/// A statement about the numbers, and whether it holds here.
#[derive(Clone, Debug)]
pub struct Check {
    /// The statement.
    pub what: String,
    /// The numbers it was judged by.
    pub found: String,
    /// Whether it holds.
    pub holds: bool,
}

/// What an experiment found.
#[derive(Clone, Debug, Default)]
pub struct Study {
    /// Its title.
    pub title: String,
    /// The command that repeats it.
    pub command: String,
    /// What was run, at what scale, from which sources.
    pub note: String,
    /// Seed of its generators.
    pub seed: u64,
    /// What the paper leaves open, as it was tried: the first is the one of sections without.
    pub conditions: Vec<Condition>,
    /// The paper's numbers, one by one.
    pub claims: Vec<Claim>,
    /// Statements that were checked.
    pub checks: Vec<Check>,
    /// Its parts.
    pub sections: Vec<Section>,
}

impl Study {
    /// A claim of the paper, and what came of it.
    pub fn claim(
        &mut self,
        (figure, what): (&str, &str),
        paper: impl Into<String>,
        here: impl Into<String>,
        verdict: Verdict,
        why: impl Into<String>,
    ) {
        self.claims.push(Claim {
            figure: figure.to_string(),
            what: what.to_string(),
            paper: paper.into(),
            here: here.into(),
            metric: None,
            expect: None,
            bounds: Vec::new(),
            values: Vec::new(),
            under: Vec::new(),
            verdict,
            why: why.into(),
        });
    }
}
