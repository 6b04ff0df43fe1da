//! Drawings of a table: bars or lines over a column of names, as SVG.

use std::fmt::Write;

use super::{Number, Table, Value};
use crate::ReportError;
use crate::format::{escape, significant};

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
        let values = || data.series.iter().flat_map(|(_, values)| values.iter().flatten());
        if values().next().is_none() {
            return String::new();
        }
        let frame = Frame::over(values().copied(), data.names.len());
        let mut out = format!(
            "<figure class=\"chart plot\"><figcaption><b>{0}</b></figcaption>{1}<svg viewBox=\"0 0 \
             {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">",
            escape(&self.title),
            keys(&data),
        );
        frame.axes(&mut out, &data.names);
        match self.mark {
            Mark::Bars => frame.bars(&mut out, &data),
            Mark::Lines => frame.lines(&mut out, &data),
        }
        out + "</svg></figure>"
    }
}

/// Names of the series with their colours.
fn keys(data: &Data) -> String {
    if data.series.len() < 2 {
        return String::new();
    }
    let mut out = String::from("<div class=\"plot-keys\">");
    for (at, (name, _)) in data.series.iter().enumerate() {
        let _ = write!(out, "<span><i class=\"f{}\"></i>{}</span>", at % COLOURS, escape(name));
    }
    out + "</div>"
}

/// Colours of the style sheet.
const COLOURS: usize = 8;
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;
/// Width of a character of an axis label.
const LETTER: f64 = 6.2;

/// Where values lie on the paper.
struct Frame {
    low: f64,
    high: f64,
    step: f64,
    slot: f64,
}

impl Frame {
    fn over(values: impl Iterator<Item = f64>, names: usize) -> Frame {
        let (low, high) = values.fold((0.0f64, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
        let span = if high > low { high - low } else { 1.0 };
        let raw = span / 4.0;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|s| s * power >= raw);
        let step = step.unwrap_or(10.0) * power;
        let (low, high) = ((low / step).floor() * step, (high / step).ceil() * step);
        let high = if high > low { high } else { low + step };
        Frame { low, high, step, slot: (WIDTH - LEFT - RIGHT) / names.max(1) as f64 }
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        (HEIGHT - BOTTOM) + share * (TOP - (HEIGHT - BOTTOM))
    }

    fn middle(&self, at: usize) -> f64 {
        LEFT + (at as f64 + 0.5) * self.slot
    }

    fn axes(&self, out: &mut String, names: &[String]) {
        let ticks = ((self.high - self.low) / self.step).round() as u32;
        for i in 0..=ticks {
            let value = self.low + f64::from(i) * self.step;
            let (y, right) = (self.y(value), WIDTH - RIGHT);
            let class = if value.abs() < self.step / 1e6 { "axis" } else { "grid" };
            let _ = write!(
                out,
                "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{right:.0}\" y1=\"{y:.1}\" \
                 y2=\"{y:.1}\"/><text class=\"tick\" x=\"{:.0}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                LEFT - 7.0,
                y + 3.8,
                short(value),
            );
        }
        // Labels that would touch one another stand aslant, or every n-th stands.
        let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as f64;
        let aslant = longest * LETTER > self.slot;
        let every = (13.0 / self.slot).ceil().max(1.0) as usize;
        for (at, name) in names.iter().enumerate().step_by(every) {
            let (x, y) = (self.middle(at), HEIGHT - BOTTOM + 15.0);
            let _ = match aslant {
                false => write!(
                    out,
                    "<text class=\"tick\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
                    escape(name)
                ),
                true => write!(
                    out,
                    "<text class=\"tick\" text-anchor=\"end\" transform=\"translate({:.1} {:.1}) \
                     rotate(-24)\">{}</text>",
                    x + 4.0,
                    y - 3.0,
                    escape(&shortened(name))
                ),
            };
        }
    }

    fn bars(&self, out: &mut String, data: &Data) {
        let group = self.slot * 0.78;
        let width = group / data.series.len() as f64;
        for (s, (series, values)) in data.series.iter().enumerate() {
            for (at, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                let (zero, top) = (self.y(0.0), self.y(*value));
                let x = self.middle(at) - group / 2.0 + s as f64 * width;
                let _ = write!(
                    out,
                    "<rect class=\"f{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                     data-tip=\"{}: {} {}\"/>",
                    s % COLOURS,
                    top.min(zero),
                    (width - 0.6).max(0.6),
                    (zero - top).abs().max(0.6),
                    escape(&data.names[at]),
                    escape(series),
                    significant(*value, 4),
                );
            }
        }
    }

    fn lines(&self, out: &mut String, data: &Data) {
        for (s, (series, values)) in data.series.iter().enumerate() {
            let (mut path, mut dots, mut pen) = (String::new(), String::new(), 'M');
            for (at, value) in values.iter().enumerate() {
                let Some(value) = value else {
                    pen = 'M';
                    continue;
                };
                let (x, y) = (self.middle(at), self.y(*value));
                let _ = write!(path, "{pen}{x:.1} {y:.1}");
                pen = 'L';
                let _ = write!(
                    dots,
                    "<circle class=\"f{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.8\" \
                     data-tip=\"{}: {} {}\"/>",
                    s % COLOURS,
                    escape(&data.names[at]),
                    escape(series),
                    significant(*value, 4),
                );
            }
            let _ = write!(
                out,
                "<path class=\"line c{} d{}\" d=\"{path}\"/>{dots}",
                s % COLOURS,
                s / COLOURS % 4
            );
        }
    }
}

/// A tick's number.
fn short(value: f64) -> String {
    let text = match value.abs() {
        v if v >= 1e6 => format!("{:.1}M", value / 1e6),
        v if v >= 1e4 => format!("{:.1}k", value / 1e3),
        _ => return trimmed(&format!("{value:.3}")),
    };
    let (number, unit) = text.split_at(text.len() - 1);
    format!("{}{unit}", trimmed(number))
}

fn trimmed(number: &str) -> String {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => number.to_string(),
    }
}

/// A name short enough to stand aslant.
fn shortened(name: &str) -> String {
    const MOST: usize = 20;
    match name.chars().count() > MOST {
        true => format!("{}…", name.chars().take(MOST - 1).collect::<String>()),
        false => name.to_string(),
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
