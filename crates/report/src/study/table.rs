//! Tables of typed cells. A column has an id for programs and statements, which stays, and a heading
//! for people, which may change; a number keeps its exact digits until it is written.
//!
//! Invariant: all numbers of a column have one [`Form`], so that a column is one kind of thing in a
//! document, and the text of a number follows from its digits and its column.

use std::fmt;

use crate::round::decimals;

/// How the numbers of a column are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    /// Digits after the point.
    pub places: u32,
    /// What they count, where the heading does not say it.
    pub unit: Unit,
    /// Whether a number that is not negative begins with `+`: it is a difference.
    pub signed: bool,
}

/// The unit that a number carries itself. Other units stand in the heading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// As the heading says.
    Heading,
    /// Per cent, written behind each number.
    PerCent,
}

impl Unit {
    /// What is written behind a number.
    fn suffix(self) -> &'static str {
        match self {
            Unit::Heading => "",
            Unit::PerCent => " %",
        }
    }
    /// Its name in a document.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Unit::Heading => None,
            Unit::PerCent => Some("%"),
        }
    }
}

/// An exact number: its digits, with `form.places` of them after the point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Number {
    /// The number in units of its last place.
    pub digits: i64,
    /// How it is written.
    pub form: Form,
}

impl Number {
    /// A number of `10^-places`.
    pub fn new(digits: i64, places: u32) -> Number {
        Number { digits, form: Form { places, unit: Unit::Heading, signed: false } }
    }
    /// The same in per cent.
    #[must_use]
    pub fn per_cent(mut self) -> Number {
        self.form.unit = Unit::PerCent;
        self
    }
    /// The same as a difference: always with its sign.
    #[must_use]
    pub fn signed(mut self) -> Number {
        self.form.signed = true;
        self
    }
    /// Its value, to compare and to draw.
    pub fn value(self) -> f64 {
        self.digits as f64 / 10f64.powi(self.form.places as i32)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.form.signed && self.digits >= 0 { "+" } else { "" };
        let digits = decimals(i128::from(self.digits), self.form.places);
        write!(f, "{sign}{digits}{}", self.form.unit.suffix())
    }
}

/// A cell of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// A name, or words.
    Text(String),
    /// A number.
    Number(Number),
    /// There is none: written as `-`.
    Absent,
}

impl Value {
    /// Its number, if it is one.
    pub fn number(&self) -> Option<Number> {
        match self {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => f.write_str(text),
            Value::Number(number) => number.fmt(f),
            Value::Absent => f.write_str("-"),
        }
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_string())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::Text(text.clone())
    }
}

impl From<&Value> for Value {
    fn from(value: &Value) -> Value {
        value.clone()
    }
}

impl From<u64> for Value {
    /// A count.
    ///
    /// # Panics
    /// Beyond what a signed number holds: no count comes near.
    fn from(count: u64) -> Value {
        Value::Number(Number::new(i64::try_from(count).expect("a count below 2^63"), 0))
    }
}

impl From<u32> for Value {
    fn from(count: u32) -> Value {
        u64::from(count).into()
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Value {
        (count as u64).into()
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Value {
        Value::Number(number)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Absent, Into::into)
    }
}

/// Cells of a row, each from what it is made of.
#[macro_export]
macro_rules! values {
    ($($cell:expr),* $(,)?) => { [$($crate::study::Value::from($cell)),*] };
}

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name for statements, drawings and programs: it does not change.
    pub id: String,
    /// Its heading for people.
    pub heading: String,
    /// How its numbers are written; none if it has none yet.
    pub form: Option<Form>,
}

impl<I: Into<String>, H: Into<String>> From<(I, H)> for Column {
    fn from((id, heading): (I, H)) -> Column {
        Column { id: id.into(), heading: heading.into(), form: None }
    }
}

/// Rows of cells under columns, the first column a name.
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Value>>,
}

impl Table {
    /// An empty table of columns: their ids and headings.
    ///
    /// # Panics
    /// If two columns have one id.
    pub fn new<C: Into<Column>>(columns: impl IntoIterator<Item = C>) -> Table {
        let columns: Vec<Column> = columns.into_iter().map(Into::into).collect();
        for (at, column) in columns.iter().enumerate() {
            let before = columns[..at].iter().any(|other| other.id == column.id);
            assert!(!before, "two columns have the id {:?}", column.id);
        }
        Table { columns, rows: Vec::new() }
    }
    /// Adds a row.
    ///
    /// # Panics
    /// If it has not one cell for each column, or a number of another form than those above it.
    pub fn row<V: Into<Value>>(&mut self, cells: impl IntoIterator<Item = V>) {
        let cells: Vec<Value> = cells.into_iter().map(Into::into).collect();
        assert_eq!(cells.len(), self.columns.len(), "cells of a row of {:?}", self.columns);
        for (column, cell) in self.columns.iter_mut().zip(&cells) {
            let Some(Number { form, .. }) = cell.number() else { continue };
            let known = *column.form.get_or_insert(form);
            assert_eq!(form, known, "column {:?} has numbers of two forms", column.id);
        }
        self.rows.push(cells);
    }
    /// Its columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
    /// Its rows, as long as there are columns.
    pub fn rows(&self) -> &[Vec<Value>] {
        &self.rows
    }
    /// A number that is a text, if there is one, with its column: nobody could ask for it.
    pub(super) fn lost_number(&self) -> Option<(&str, &str)> {
        let cells = self.rows.iter().flat_map(|row| self.columns.iter().zip(row));
        cells.into_iter().find_map(|(column, cell)| match cell {
            Value::Text(text) if text.parse::<f64>().is_ok() => Some((&*column.id, &**text)),
            _ => None,
        })
    }
    /// Where a column stands.
    pub(super) fn at(&self, id: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.id == id)
    }
    /// Whether a column holds numbers and sizes only: those stand to the right.
    pub(super) fn is_number(&self, column: usize) -> bool {
        let number = |cell: &Value| match cell {
            Value::Text(text) => text.starts_with(|c: char| c.is_ascii_digit() || c == '-'),
            Value::Number(number) => !(number.form.signed && number.digits >= 0),
            Value::Absent => true,
        };
        column > 0 && self.rows.iter().all(|row| number(&row[column]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_the_text_of_its_form() {
        let text = |number: Number| number.to_string();
        assert_eq!(text(Number::new(-125, 1).per_cent().signed()), "-12.5 %");
        assert_eq!(text(Number::new(5, 1).per_cent().signed()), "+0.5 %");
        assert_eq!((text(Number::new(7, 0)), text(Number::new(7, 2))), ("7".into(), "0.07".into()));
        assert_eq!(Number::new(-125, 1).value(), -12.5);
    }

    #[test]
    #[should_panic(expected = "column \"mb_s\" has numbers of two forms")]
    fn a_column_has_one_form() {
        let mut table = Table::new([("name", "name"), ("mb_s", "MB/s")]);
        table.row(values!["a", Number::new(15, 1)]);
        table.row(values!["b", Value::Absent]);
        table.row(values!["c", 15_u64]);
    }

    #[test]
    #[should_panic(expected = "two columns have the id \"p99\"")]
    fn ids_are_unique() {
        let _ = Table::new([("p99", "p99 read"), ("p99", "p99 write")]);
    }
}
