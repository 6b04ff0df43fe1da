//! Requests that a program has in tables rather than in a file: the same limits as for every file.

use block::Span;

use super::ReadOptions;
use super::csv::{Ops, op_map};
use super::stage::{Order, Raw, Stage};
use crate::record::{Flags, Record, TraceOp};

/// The application of a row.
#[derive(Clone, Copy, Debug)]
pub enum RowApp<'a> {
    /// By its number.
    Number(u16),
    /// By its name: they are numbered as they appear.
    Name(&'a str),
}

/// A row, before order and limits.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Picoseconds in the clock of the table; rows of an untimed table have 0.
    pub at: u128,
    /// Operation.
    pub op: TraceOp,
    /// First byte; of a flush it does not matter.
    pub offset: u64,
    /// Bytes; of a flush they do not matter.
    pub len: u64,
    /// How long it took.
    pub response: Option<Span>,
    /// Application.
    pub app: RowApp<'a>,
    /// Flags.
    pub flags: Flags,
    /// Write hint; 0 = none.
    pub hint: u8,
}

/// Makes records of rows. Times are counted from the first row and never fall.
pub struct Rows {
    stage: Stage,
    block: Vec<Record>,
    ops: Ops,
}

impl Rows {
    /// `ops` are the texts of operations, `R=0,W=1`; those that most tables have if there are none.
    ///
    /// # Errors
    /// What of `ops` was found, and what was expected.
    pub fn new(timed: bool, ops: Option<&str>) -> Result<Rows, String> {
        let order = if timed { Order::Promised(0) } else { Order::Untimed };
        let stage = Stage::new(order, None, &ReadOptions::default());
        Ok(Rows { stage, block: Vec::new(), ops: op_map(ops)? })
    }

    /// The operation that a text stands for.
    pub fn op(&self, text: &str) -> Option<TraceOp> {
        self.ops.iter().find(|(known, _)| **known == *text.as_bytes()).map(|(_, op)| *op)
    }

    /// The record of the next row.
    ///
    /// # Errors
    /// What was expected of the row.
    pub fn push(&mut self, row: &Row<'_>) -> Result<Record, String> {
        let mut raw = Raw::new(row.at, row.op, row.offset, row.len);
        raw.app = match row.app {
            RowApp::Number(app) => app,
            RowApp::Name(name) => self.stage.apps.id(name.as_bytes())?,
        };
        (raw.response, raw.flags) = (row.response, row.flags);
        self.block.clear();
        self.stage.push(raw, &mut self.block).map_err(|expected| expected.into_owned())?;
        let record = self.block.pop().expect("without a filter or a window each row is a record");
        Ok(Record { hint: row.hint, ..record })
    }

    /// Names of the applications so far, by number.
    pub fn apps(&self) -> &[String] {
        self.stage.apps.names()
    }
}

#[cfg(test)]
mod tests {
    use block::{AppId, Bytes, Time};

    use super::*;

    fn row(at: u128, op: TraceOp, len: u64, app: RowApp<'_>) -> Row<'_> {
        let (flags, response) = (Flags::FUA, Some(Span::from_us(3)));
        Row { at, op, offset: 4096, len, response, app, flags, hint: 2 }
    }

    #[test]
    fn rows_keep_the_limits_of_files() {
        let mut rows = Rows::new(true, None).unwrap();
        assert_eq!((rows.op("W"), rows.op("?")), (Some(TraceOp::Write), None));
        let first = rows.push(&row(5_000, TraceOp::Write, 512, RowApp::Name("b"))).unwrap();
        assert_eq!((first.at, first.offset, first.len), (Time::ZERO, Bytes(4096), Bytes(512)));
        assert_eq!((first.flags, first.hint, first.app), (Flags::FUA, 2, AppId(0)));
        let flush = rows.push(&row(7_000, TraceOp::Flush, 0, RowApp::Name("a"))).unwrap();
        assert_eq!((flush.at, flush.offset, flush.app), (Time::from_ps(2_000), Bytes(0), AppId(1)));
        assert_eq!(rows.apps(), ["b", "a"]);
        let mut refused =
            |at, len| rows.push(&row(at, TraceOp::Read, len, RowApp::Number(7))).unwrap_err();
        assert!(refused(6_000, 512).starts_with("a time not before the line above's"));
        assert_eq!(refused(8_000, 0), "a length of at least one byte");
        assert_eq!(refused(8_000, u64::MAX), "a read or write of at most 64 GiB");
        let app = rows.push(&row(8_000, TraceOp::Read, 1, RowApp::Number(7))).unwrap().app;
        assert_eq!(app, AppId(7));
    }

    #[test]
    fn operations_are_named_by_the_caller() {
        let rows = Rows::new(false, Some("R=0,D=1")).unwrap();
        assert_eq!((rows.op("1"), rows.op("W")), (Some(TraceOp::Discard), None));
        assert!(Rows::new(false, Some("Q=0")).err().unwrap().contains("found `Q=0`"));
    }
}
