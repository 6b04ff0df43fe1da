//! What stands for values: lines, points with a text each, bars.

use std::fmt::Write;

use super::{Chart, Frame, Mark, SHOWN, Series, labels};
use crate::format::{escape, significant};

/// Colours of the style sheet, and dashes beyond them.
pub(super) const COLOURS: usize = 8;

/// Classes of a series: colour, dash, whether it is shown at first.
fn classes(series: &Series) -> String {
    format!(
        "g g{} c{} d{}{}{}",
        series.group,
        series.group % COLOURS,
        series.group / COLOURS % 4,
        if series.faint { " faint" } else { "" },
        if series.group >= SHOWN { " off" } else { "" }
    )
}

/// The text of a mark under the pointer.
fn tip(chart: &Chart<'_>, series: &Series, at: f64, value: f64) -> String {
    let name = chart.x.name(at).unwrap_or_default();
    escape(&format!("{name}: {} {}", series.name, significant(value, 4)))
}

impl Frame {
    /// Draws a series, the `at`-th.
    pub(super) fn series(&self, out: &mut String, chart: &Chart<'_>, at: usize) {
        let series = &chart.series[at];
        match chart.mark {
            Mark::Line { fill, steps } => self.line(out, series, fill, steps),
            Mark::Points => self.points(out, chart, series),
            Mark::Bars => self.bars(out, chart, at),
        }
    }

    /// A path through the points; a missing one lifts the pen. Also where it begins and ends.
    fn path(&self, series: &Series, steps: bool) -> (String, Option<(f64, f64)>) {
        let mut path = String::new();
        let (mut pen_down, mut last_y) = (false, 0.0);
        let mut ends: Option<(f64, f64)> = None;
        for (i, (x, y)) in series.points.iter().enumerate() {
            let Some(y) = y else {
                pen_down = false;
                continue;
            };
            let alone = !pen_down && series.points.get(i + 1).is_none_or(|next| next.1.is_none());
            let (px, py) = (self.x(*x), self.y(*y));
            if pen_down && steps {
                let _ = write!(path, "L{px:.1} {last_y:.1}");
            }
            let _ = write!(path, "{}{px:.1} {py:.1}", if pen_down { 'L' } else { 'M' });
            if alone {
                // A dot: with round caps even the shortest line shows.
                path.push_str("h.01");
            }
            ends = Some((ends.map_or(px, |(first, _)| first), px));
            (pen_down, last_y) = (true, py);
        }
        (path, ends)
    }

    fn line(&self, out: &mut String, series: &Series, fill: bool, steps: bool) {
        let (path, Some((first, last))) = self.path(series, steps) else { return };
        let classes = classes(series);
        if fill && path.matches('M').count() == 1 {
            let floor = labels::floor();
            let _ = write!(
                out,
                "<path class=\"area {classes}\" d=\"{path}L{last:.1} {floor}L{first:.1} {floor}Z\"/>"
            );
        }
        let name = escape(&series.name);
        let _ = write!(out, "<path class=\"line {classes}\" data-name=\"{name}\" d=\"{path}\"/>");
    }

    fn points(&self, out: &mut String, chart: &Chart<'_>, series: &Series) {
        let (path, _) = self.path(series, false);
        let colour = series.group % COLOURS;
        let dash = series.group / COLOURS % 4;
        let _ = write!(out, "<path class=\"line c{colour} d{dash}\" d=\"{path}\"/>");
        for (at, value) in &series.points {
            let Some(value) = value else { continue };
            let _ = write!(
                out,
                "<circle class=\"f{colour}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.8\" data-tip=\"{}\"/>",
                self.x(*at),
                self.y(*value),
                tip(chart, series, *at, *value),
            );
        }
    }

    fn bars(&self, out: &mut String, chart: &Chart<'_>, at: usize) {
        let series = &chart.series[at];
        let group = self.slot(chart) * 0.78;
        let width = group / chart.series.len() as f64;
        for (name, value) in &series.points {
            let Some(value) = value else { continue };
            let (zero, top) = (self.y(0.0), self.y(*value));
            let _ = write!(
                out,
                "<rect class=\"f{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" \
                 data-tip=\"{}\"/>",
                series.group % COLOURS,
                self.x(*name) - group / 2.0 + at as f64 * width,
                top.min(zero),
                (width - 0.6).max(0.6),
                (zero - top).abs().max(0.6),
                tip(chart, series, *name, *value),
            );
        }
    }
}
