//! A trace out of somebody else's table: which column is what, and in which unit, is said and never guessed.
//!
//! What is wrong is told with the column and the row, from 0. The requests are kept as a `.vtr` file would hold
//! them, in memory; no other copy is made of them.

use std::path::Path;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema, TimeUnit as Ticks};
use block::Span;
use lab::LabError;
use pyo3::prelude::*;
use workload::read::{Carries, Row, RowApp, Rows, SizeUnit, TimeUnit, VtrHeader, VtrWriter};
use workload::{Flags, TraceOp};

use crate::cells::{Cells, Number, numbers, texts};
use crate::foreign::capsule::stream;
use crate::watched::watched;

/// Which columns are what: names, with units where their types have none.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Asked {
    at: Option<String>,
    op: Option<String>,
    offset: String,
    length: String,
    app: Option<String>,
    response: Option<String>,
    flags: Option<String>,
    hint: Option<String>,
    op_map: Option<String>,
    shared: bool,
}

fn wrong(text: String) -> LabError {
    LabError::Input(text)
}

/// A column by its place, and by what its numbers are multiplied.
#[derive(Clone, Debug)]
struct Column {
    name: String,
    place: usize,
    unit: u64,
    /// A fraction of the unit means something.
    time: bool,
}

/// Where a name stands.
fn find(schema: &Schema, name: &str) -> Result<(usize, DataType), LabError> {
    let place = schema.index_of(name).map_err(|_| {
        let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        wrong(format!("no column `{name}`: the table has {}", names.join(", ")))
    })?;
    Ok((place, schema.field(place).data_type().clone()))
}

/// A column `NAME:UNIT`. A column of times may have its unit in its type: then it is `NAME`.
fn measured(
    schema: &Schema,
    text: &str,
    parse: fn(&str) -> Option<u64>,
    expected: &str,
) -> Result<Column, LabError> {
    let unit = text.rsplit_once(':').and_then(|(name, unit)| Some((name, parse(unit)?)));
    let (name, said) = unit.map_or((text, None), |(name, unit)| (name, Some(unit)));
    let (place, kind) = find(schema, name)?;
    let own = match kind {
        DataType::Timestamp(unit, _) | DataType::Duration(unit) => Some(match unit {
            Ticks::Second => TimeUnit::S.ps(),
            Ticks::Millisecond => TimeUnit::Ms.ps(),
            Ticks::Microsecond => TimeUnit::Us.ps(),
            Ticks::Nanosecond => TimeUnit::Ns.ps(),
        }),
        _ => None,
    };
    let unit = match (said, own) {
        (Some(_), Some(_)) => {
            return Err(wrong(format!(
                "column `{name}` is {kind}, which has a unit: expected `{name}` alone"
            )));
        }
        (None, None) => {
            return Err(wrong(format!("column `{text}` is {kind}: expected its unit, {expected}")));
        }
        (Some(unit), None) | (None, Some(unit)) => unit,
    };
    Ok(Column { name: name.to_string(), place, unit, time: false })
}

fn time(schema: &Schema, text: &str) -> Result<Column, LabError> {
    let parse = |unit: &str| TimeUnit::parse(unit).map(TimeUnit::ps);
    let column = measured(schema, text, parse, "`NAME:ns` (ps, ns, 100ns, us, ms or s)")?;
    Ok(Column { time: true, ..column })
}

fn size(schema: &Schema, text: &str) -> Result<Column, LabError> {
    let parse = |unit: &str| SizeUnit::parse(unit).map(SizeUnit::bytes);
    measured(schema, text, parse, "`NAME:byte` (byte, sector, kib or page)")
}

fn plain(schema: &Schema, name: &str) -> Result<Column, LabError> {
    let (place, _) = find(schema, name)?;
    Ok(Column { name: name.to_string(), place, unit: 1, time: false })
}

/// All columns that were asked for.
struct Columns {
    at: Option<Column>,
    op: Option<Column>,
    offset: Column,
    length: Column,
    app: Option<Column>,
    response: Option<Column>,
    flags: Option<Column>,
    hint: Option<Column>,
}

impl Columns {
    fn of(schema: &Schema, asked: &Asked) -> Result<Columns, LabError> {
        let maybe = |name: &Option<String>, of: fn(&Schema, &str) -> Result<Column, LabError>| {
            name.as_deref().map(|name| of(schema, name)).transpose()
        };
        Ok(Columns {
            at: maybe(&asked.at, time)?,
            op: maybe(&asked.op, plain)?,
            offset: size(schema, &asked.offset)?,
            length: size(schema, &asked.length)?,
            app: maybe(&asked.app, plain)?,
            response: maybe(&asked.response, time)?,
            flags: maybe(&asked.flags, plain)?,
            hint: maybe(&asked.hint, plain)?,
        })
    }
}

/// A column of a batch, whose first row is `first` of the table.
struct Part<'a> {
    column: &'a Column,
    kind: &'a DataType,
    first: usize,
    numbers: Option<Cells<'a, Number>>,
    texts: Option<Cells<'a, &'a str>>,
}

impl<'a> Part<'a> {
    fn of(column: &'a Column, batch: &'a RecordBatch, first: usize) -> Result<Part<'a>, LabError> {
        let array: &ArrayRef = batch.column(column.place);
        let (numbers, texts) = (numbers(array), texts(array));
        let part = Part { column, kind: array.data_type(), first, numbers, texts };
        match part.numbers.is_none() && part.texts.is_none() {
            true => Err(wrong(format!(
                "column `{}` is {}: expected numbers, times or texts",
                column.name, part.kind
            ))),
            false => Ok(part),
        }
    }

    fn bad(&self, row: usize, found: &str, expected: &str) -> LabError {
        let (name, row) = (&self.column.name, self.first + row);
        wrong(format!("column `{name}`, row {row}: found {found}, expected {expected}"))
    }

    /// A number in the column's unit, multiplied; `None` where nothing is.
    fn maybe(&self, row: usize, expected: &str) -> Result<Option<i128>, LabError> {
        let Some(numbers) = &self.numbers else {
            let (name, kind) = (&self.column.name, self.kind);
            return Err(wrong(format!("column `{name}` is {kind}: expected {expected}")));
        };
        let unit = self.column.unit;
        match numbers(row) {
            None => Ok(None),
            // A table that is missing cells has whole numbers as others, and nothing as NaN.
            Some(Number::Real(value)) if value.is_nan() => Ok(None),
            Some(Number::Whole(value)) => Ok(value.checked_mul(i128::from(unit))),
            Some(Number::Real(value)) => {
                let scaled = (value * unit as f64).round();
                let fits = scaled.abs() < 1e30 && (value.fract() == 0.0 || self.column.time);
                match fits {
                    true => Ok(Some(scaled as i128)),
                    false => Err(self.bad(row, &value.to_string(), expected)),
                }
            }
        }
    }

    /// How long a request took, if that is known.
    fn span(&self, row: usize) -> Result<Option<Span>, LabError> {
        const EXPECTED: &str = "a response time of 0 to 213 days, or none";
        let Some(ps) = self.maybe(row, EXPECTED)? else { return Ok(None) };
        let ps = u64::try_from(ps).map_err(|_| self.bad(row, &ps.to_string(), EXPECTED))?;
        Ok(Some(Span::from_ps(ps)))
    }

    /// A time in picoseconds. Dates are large numbers: what counts is the distance from the first.
    fn time(&self, row: usize) -> Result<u128, LabError> {
        const EXPECTED: &str = "a time of at least 0";
        let found = self.maybe(row, EXPECTED)?;
        let value = found.ok_or_else(|| self.bad(row, "nothing", EXPECTED))?;
        u128::try_from(value).map_err(|_| self.bad(row, &value.to_string(), EXPECTED))
    }

    fn number(&self, row: usize, expected: &str) -> Result<u64, LabError> {
        let found = self.maybe(row, expected)?;
        let value = found.ok_or_else(|| self.bad(row, "nothing", expected))?;
        u64::try_from(value).map_err(|_| self.bad(row, &value.to_string(), expected))
    }

    fn byte(&self, row: usize) -> Result<u8, LabError> {
        let value = self.number(row, "a number below 256")?;
        u8::try_from(value).map_err(|_| self.bad(row, &value.to_string(), "a number below 256"))
    }

    fn op(&self, row: usize, rows: &Rows) -> Result<TraceOp, LabError> {
        const EXPECTED: &str =
            "an operation such as read or W, or one that op_map=\"R=0,W=1\" names";
        let number;
        let text = match (&self.texts, &self.numbers) {
            (Some(texts), _) => texts(row).ok_or_else(|| self.bad(row, "nothing", EXPECTED))?,
            _ => {
                number = self.number(row, EXPECTED)?.to_string();
                number.as_str()
            }
        };
        rows.op(text).ok_or_else(|| self.bad(row, &format!("`{text}`"), EXPECTED))
    }

    fn app(&self, row: usize) -> Result<RowApp<'_>, LabError> {
        const EXPECTED: &str = "a name, or a number below 65,536";
        if let Some(texts) = &self.texts {
            return texts(row).map(RowApp::Name).ok_or_else(|| self.bad(row, "nothing", EXPECTED));
        }
        let value = self.number(row, EXPECTED)?;
        let app = u16::try_from(value).map_err(|_| self.bad(row, &value.to_string(), EXPECTED))?;
        Ok(RowApp::Number(app))
    }
}

/// Adds the rows of a batch, the first of which is `first`.
fn add(
    batch: &RecordBatch,
    first: usize,
    columns: &Columns,
    rows: &mut Rows,
    out: &mut VtrWriter<Vec<u8>>,
) -> Result<(), LabError> {
    let part = |column| Part::of(column, batch, first);
    let (offset, length) = (part(&columns.offset)?, part(&columns.length)?);
    let at = columns.at.as_ref().map(part).transpose()?;
    let op = columns.op.as_ref().map(part).transpose()?;
    let app = columns.app.as_ref().map(part).transpose()?;
    let response = columns.response.as_ref().map(part).transpose()?;
    let flags = columns.flags.as_ref().map(part).transpose()?;
    let hint = columns.hint.as_ref().map(part).transpose()?;
    for row in 0..batch.num_rows() {
        let kind = op.as_ref().map_or(Ok(TraceOp::Read), |op| op.op(row, rows))?;
        let place = |part: &Part<'_>, what| match kind {
            TraceOp::Flush => Ok(0),
            _ => part.number(row, what),
        };
        let took = match &response {
            Some(response) => response.span(row)?,
            None => None,
        };
        let at = at.as_ref().map_or(Ok(0), |at| at.time(row))?;
        let wanted = Row {
            at,
            op: kind,
            offset: place(&offset, "an offset of at least 0")?,
            len: place(&length, "a length of at least one byte")?,
            response: took,
            app: app.as_ref().map_or(Ok(RowApp::Number(0)), |app| app.app(row))?,
            flags: Flags(flags.as_ref().map_or(Ok(0), |flags| flags.byte(row))?),
            hint: hint.as_ref().map_or(Ok(0), |hint| hint.byte(row))?,
        };
        let record = rows.push(&wanted).map_err(|expected| {
            let (Row { at, offset, len, .. }, row) = (wanted, first + row);
            let expected = expected.replace("line above", "row before");
            wrong(format!(
                "row {row} (at {at} ps, {len} bytes from {offset} on): expected {expected}"
            ))
        })?;
        out.push(&record).map_err(|error| LabError::Failed(error.to_string()))?;
    }
    Ok(())
}

/// Reads a table: the bytes of a `.vtr` file.
pub fn read(
    py: Python<'_>,
    name: &str,
    table: &Bound<'_, PyAny>,
    asked: &Asked,
    progress: Option<&Py<PyAny>>,
) -> PyResult<Vec<u8>> {
    let mut batches = stream(table)?;
    watched(py, progress, |watch| {
        let schema = arrow_array::RecordBatchReader::schema(&batches);
        let columns = Columns::of(&schema, asked)?;
        let mut rows = Rows::new(asked.at.is_some(), asked.op_map.as_deref())
            .map_err(|text| wrong(format!("op_map: {text}")))?;
        let header = VtrHeader {
            source: name.to_string(),
            format: "arrow".to_string(),
            shared: asked.shared,
            carries: Carries {
                time: asked.at.is_some(),
                op: asked.op.is_some(),
                response: asked.response.is_some(),
                flush: asked.op.is_some(),
            },
            ..VtrHeader::default()
        };
        let io = |source| LabError::io(Path::new(name), source);
        let mut out = VtrWriter::new(Vec::new(), &header).map_err(io)?;
        let mut first = 0;
        for batch in &mut batches {
            let batch = batch.map_err(|error| wrong(error.to_string()))?;
            // Small pieces, so that a large table in one piece can be interrupted too.
            for from in (0..batch.num_rows()).step_by(1 << 16) {
                let rows_of = (batch.num_rows() - from).min(1 << 16);
                add(&batch.slice(from, rows_of), first, &columns, &mut rows, &mut out)?;
                first += rows_of;
                watch.tick(rows_of as u64)?;
            }
        }
        if first == 0 {
            return Err(wrong("the table has no rows: expected at least one request".to_string()));
        }
        let (bytes, _) = out.finish(rows.apps()).map_err(io)?;
        Ok(bytes)
    })
}
