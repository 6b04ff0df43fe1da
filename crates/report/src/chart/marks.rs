//! What stands for values: points with a text each, joined by a line, or bars.

use std::fmt::Write;

use super::{Chart, Frame, Mark, Series};
use crate::format::{escape, significant};

/// Colours of the style sheet, and dashes beyond them.
pub(super) const COLOURS: usize = 8;

/// The text of a mark under the pointer.
fn tip(chart: &Chart<'_>, series: &Series, name: usize, value: f64) -> String {
    let name = chart.names.get(name).map_or("", String::as_str);
    escape(&format!("{name}: {} {}", series.name, significant(value, 4)))
}

/// The values that are there, each with the number of its name.
fn known(series: &Series) -> impl Iterator<Item = (usize, f64)> {
    series.values.iter().enumerate().filter_map(|(name, value)| Some((name, (*value)?)))
}

impl Frame {
    /// Draws a series, the `at`-th.
    pub(super) fn series(&self, out: &mut String, chart: &Chart<'_>, at: usize) {
        match chart.mark {
            Mark::Points => self.points(out, chart, at),
            Mark::Bars => self.bars(out, chart, at),
        }
    }

    /// A path through the points; a missing one lifts the pen.
    fn path(&self, series: &Series) -> String {
        let mut path = String::new();
        let is = |name: usize| series.values.get(name).is_some_and(Option::is_some);
        for (name, value) in known(series) {
            let joined = name > 0 && is(name - 1);
            let pen = if joined { 'L' } else { 'M' };
            let _ = write!(path, "{pen}{:.1} {:.1}", self.x(name), self.y(value));
            if !joined && !is(name + 1) {
                // A dot: with round caps even the shortest line shows.
                path.push_str("h.01");
            }
        }
        path
    }

    fn points(&self, out: &mut String, chart: &Chart<'_>, at: usize) {
        let series = &chart.series[at];
        let (colour, dash) = (at % COLOURS, at / COLOURS % 4);
        let path = self.path(series);
        let _ = write!(out, "<path class=\"line c{colour} d{dash}\" d=\"{path}\"/>");
        for (name, value) in known(series) {
            let _ = write!(
                out,
                "<circle class=\"f{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.8\" data-tip=\"{}\"/>",
                self.x(name),
                self.y(value),
                tip(chart, series, name, value),
            );
        }
    }

    fn bars(&self, out: &mut String, chart: &Chart<'_>, at: usize) {
        let series = &chart.series[at];
        let group = self.slot() * 0.78;
        let width = group / chart.series.len() as f64;
        for (name, value) in known(series) {
            let (zero, top) = (self.y(0.0), self.y(value));
            let _ = write!(
                out,
                "<rect class=\"f{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 data-tip=\"{}\"/>",
                at % COLOURS,
                self.x(name) - group / 2.0 + at as f64 * width,
                top.min(zero),
                (width - 0.6).max(0.6),
                (zero - top).abs().max(0.6),
                tip(chart, series, name, value),
            );
        }
    }
}
