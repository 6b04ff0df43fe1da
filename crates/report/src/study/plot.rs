//! Drawings of a table: which of its columns are bars or lines over a column of names.

use super::{Number, Table, Value};
use crate::ReportError;
use crate::chart::{self, Chart, Series};

/// What marks a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    /// Bars, side by side.
    Bars,
    /// Points joined by lines.
    Lines,
}

impl Mark {
    pub(super) fn name(self) -> &'static str {
        match self {
            Mark::Bars => "bars",
            Mark::Lines => "lines",
        }
    }
}

/// How a table is to be drawn. Columns are named by their ids.
#[derive(Clone, Debug)]
pub struct Plot {
    title: String,
    mark: Mark,
    x: String,
    y: Vec<String>,
    by: Option<String>,
    only: Vec<(String, String)>,
}

impl Plot {
    fn new<S: Into<String>>(
        mark: Mark,
        title: &str,
        x: &str,
        y: impl IntoIterator<Item = S>,
    ) -> Plot {
        let (title, x, y) = (title.to_string(), x.to_string(), y.into_iter().map(Into::into));
        Plot { title, mark, x, y: y.collect(), by: None, only: Vec::new() }
    }
    /// Bars over the names of column `x`, one for each column of numbers `y`. The title says what is
    /// shown, with its unit.
    pub fn bars<S: Into<String>>(title: &str, x: &str, y: impl IntoIterator<Item = S>) -> Plot {
        Plot::new(Mark::Bars, title, x, y)
    }
    /// Lines over the names of column `x`, one for each column of numbers `y`, as of
    /// [`Plot::bars`].
    pub fn lines<S: Into<String>>(title: &str, x: &str, y: impl IntoIterator<Item = S>) -> Plot {
        Plot::new(Mark::Lines, title, x, y)
    }
    /// One series for each name of column `by`.
    #[must_use]
    pub fn by(mut self, by: &str) -> Plot {
        self.by = Some(by.to_string());
        self
    }
    /// Only rows that have a text in a column.
    #[must_use]
    pub fn only(mut self, column: &str, text: impl Into<String>) -> Plot {
        self.only.push((column.to_string(), text.into()));
        self
    }

    /// The drawing of a table.
    ///
    /// # Errors
    /// [`ReportError::Failed`] if a column is not there.
    pub(super) fn of(self, table: &Table) -> Result<Drawing, ReportError> {
        let column = |id: &str| {
            table.at(id).ok_or_else(|| {
                let ids: Vec<&str> = table.columns().iter().map(|c| c.id.as_str()).collect();
                let (title, ids) = (&self.title, ids.join(", "));
                ReportError::Failed(format!("plot {title:?}: no column {id:?} in {ids}"))
            })
        };
        let x = column(&self.x)?;
        let y = self.y.iter().map(|id| column(id)).collect::<Result<_, _>>()?;
        let by = self.by.as_deref().map(column).transpose()?;
        let only = self.only.iter().map(|(id, text)| Ok((column(id)?, text.clone())));
        let only = only.collect::<Result<_, ReportError>>()?;
        Ok(Drawing { title: self.title, mark: self.mark, x, y, by, only })
    }
}

/// How a table is drawn, columns counted from 0 and all of them there.
#[derive(Clone, Debug)]
pub(super) struct Drawing {
    pub(super) title: String,
    pub(super) mark: Mark,
    /// The column with the names along the axis.
    pub(super) x: usize,
    /// Columns of numbers.
    pub(super) y: Vec<usize>,
    /// The column whose names tell series apart.
    pub(super) by: Option<usize>,
    /// Only rows with these texts in these columns.
    pub(super) only: Vec<(usize, String)>,
}

/// Names along the axis, and for each series a value or none at each.
#[derive(Debug, Default, PartialEq)]
struct Data {
    names: Vec<String>,
    series: Vec<(String, Vec<Option<f64>>)>,
}

fn place<T: PartialEq>(all: &mut Vec<T>, one: T) -> usize {
    all.iter().position(|known| *known == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    })
}

impl Drawing {
    /// Every column that is named.
    pub(super) fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        let only = self.only.iter().map(|(column, _)| *column);
        std::iter::once(self.x).chain(self.by).chain(self.y.iter().copied()).chain(only)
    }

    fn data(&self, table: &Table) -> Data {
        let kept =
            |row: &&Vec<Value>| self.only.iter().all(|(at, text)| row[*at].to_string() == *text);
        let heading = |at: usize| &table.columns()[at].heading;
        let mut names = Vec::new();
        let mut series: Vec<String> = Vec::new();
        let mut points = Vec::new();
        for row in table.rows().iter().filter(kept) {
            let x = place(&mut names, row[self.x].to_string());
            for y in &self.y {
                let name = match self.by {
                    Some(by) if self.y.len() > 1 => format!("{}, {}", row[by], heading(*y)),
                    Some(by) => row[by].to_string(),
                    None => heading(*y).clone(),
                };
                points.push((place(&mut series, name), x, row[*y].number().map(Number::value)));
            }
        }
        let mut out = vec![vec![None; names.len()]; series.len()];
        for (s, x, value) in points {
            out[s][x] = value;
        }
        Data { names, series: series.into_iter().zip(out).collect() }
    }

    /// The drawing; empty if the rows have no numbers.
    pub(super) fn svg(&self, table: &Table) -> String {
        let data = self.data(table);
        let series = data.series.into_iter().map(|(name, values)| Series { name, values });
        let mark = match self.mark {
            Mark::Bars => chart::Mark::Bars,
            Mark::Lines => chart::Mark::Points,
        };
        Chart { title: &self.title, names: data.names, mark, series: series.collect() }.html()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values;

    fn table() -> Table {
        let columns = [("fill", "fill"), ("policy", "policy"), ("mb_s", "MB/s"), ("kind", "kind")];
        let mut table = Table::new(columns);
        table.row(values!["50 %", "lru", Number::new(105, 1), "x"]);
        table.row(values!["50 %", "aoi", Number::new(10_240, 1), "x"]);
        table.row(values!["80 %", "lru", Value::Absent, "y"]);
        table
    }

    #[test]
    fn rows_become_series() {
        let table = table();
        let plot = Plot::bars("t", "fill", ["mb_s"]);
        let data = plot.clone().by("policy").of(&table).unwrap().data(&table);
        assert_eq!(data.names, ["50 %", "80 %"]);
        assert_eq!(data.series[0], ("lru".to_string(), vec![Some(10.5), None]));
        assert_eq!(data.series[1], ("aoi".to_string(), vec![Some(1024.0), None]));
        let without = plot.only("kind", "y").of(&table).unwrap();
        assert!(without.svg(&table).is_empty());
    }

    #[test]
    fn a_column_that_is_not_there_is_an_error() {
        let plot = || Plot::lines("Speed", "fill", ["mb_s"]);
        assert!(plot().by("policy").only("kind", "x").of(&table()).is_ok());
        for wrong in [
            Plot::lines("Speed", "full", ["mb_s"]),
            Plot::lines("Speed", "fill", ["MB/s"]),
            plot().by("Policy"),
            plot().only("", "x"),
        ] {
            let error = wrong.of(&table()).unwrap_err();
            assert!(error.to_string().starts_with("plot \"Speed\": no column"), "{error}");
        }
    }

    #[test]
    fn drawings_hold_no_nonsense() {
        let table = table();
        let bars = Plot::bars("<t>", "fill", ["mb_s"]).by("policy");
        for plot in [bars, Plot::lines("<t>", "fill", ["mb_s"])] {
            let svg = plot.of(&table).unwrap().svg(&table);
            assert!(!svg.is_empty() && !svg.contains("NaN") && !svg.contains("inf"));
            assert!(!svg.contains("<t>"));
        }
    }
}
