//! Charts as inline SVG: the one writer of the studies' figures. An axis with round ticks over names,
//! points or bars. Colours and dashes are classes, so that one style sheet serves every chart; marks
//! carry their own texts.
//!
//! Invariants: no text of a figure touches another or leaves it (`labels.rs` measures); no two ticks
//! of an axis have one text.

mod axis;
mod labels;
mod marks;

use std::fmt::Write;

use crate::format::escape;
use axis::Axis;

/// Inner size of every chart, in its own units; names that stand aslant make it higher. The style
/// sheet lets no figure be drawn so small that its texts could not be read.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 236.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 38.0;

/// One series; its colour is that of its place among the others.
pub struct Series {
    /// Its name.
    pub name: String,
    /// A value for each name of the axis, from the first on; a missing one is a gap.
    pub values: Vec<Option<f64>>,
}

/// What stands for a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// Points joined by a line, each with its text.
    Points,
    /// Bars from 0, side by side, each with its text.
    Bars,
}

/// A chart.
pub struct Chart<'a> {
    /// What it shows; the unit of the vertical axis is in it.
    pub title: &'a str,
    /// The names along the horizontal axis.
    pub names: Vec<String>,
    /// What stands for a value.
    pub mark: Mark,
    /// The series.
    pub series: Vec<Series>,
}

/// Where values lie on the paper.
struct Frame {
    y: Axis,
    names: usize,
}

impl Frame {
    /// The width that belongs to a name.
    fn slot(&self) -> f64 {
        (WIDTH - LEFT - RIGHT) / self.names.max(1) as f64
    }
    /// The middle of a name's slot.
    fn x(&self, name: usize) -> f64 {
        LEFT + (name as f64 + 0.5) * self.slot()
    }
    fn y(&self, value: f64) -> f64 {
        let Axis { low, high, .. } = self.y;
        let share = if high > low { (value - low) / (high - low) } else { 0.0 };
        labels::floor() + share * (TOP - labels::floor())
    }
}

impl Chart<'_> {
    /// The axis holds 0 and all values; none without a value.
    fn frame(&self) -> Option<Frame> {
        let values = || self.series.iter().flat_map(|s| s.values.iter().flatten().copied());
        values().next()?;
        let (low, high) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
        Some(Frame { y: Axis::over(low, high), names: self.names.len() })
    }

    /// The figure as HTML; empty without data.
    pub fn html(&self) -> String {
        let Some(frame) = self.frame() else { return String::new() };
        let (x_labels, height) = labels::names(&self.names, labels::floor());
        let mut out = self.head(height);
        let floor = labels::floor();
        let heights = frame.y.ticks.iter().map(|(value, text)| (frame.y(*value), text.clone()));
        for (value, _) in &frame.y.ticks {
            let y = frame.y(*value);
            let class = if *value == 0.0 && y < floor { "axis" } else { "grid" };
            let _ = write!(
                out,
                "<line class=\"{class}\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                WIDTH - RIGHT
            );
        }
        let _ = write!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{floor}\" y2=\"{floor}\"/>",
            WIDTH - RIGHT
        );
        labels::beside(heights).iter().chain(&x_labels).for_each(|l| l.draw(&mut out, "tick"));
        for at in 0..self.series.len() {
            frame.series(&mut out, self, at);
        }
        out + "</svg></div></figure>"
    }

    /// Title, keys, and the beginning of the drawing.
    fn head(&self, height: f64) -> String {
        let title = escape(self.title);
        let keys = self.keys();
        format!(
            "<figure class=\"chart\"><figcaption><b>{title}</b></figcaption>{keys}<div class=\"wide\">\
             <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">"
        )
    }

    /// Names of the series with their colours.
    fn keys(&self) -> String {
        if self.series.len() < 2 {
            return String::new();
        }
        let mut out = String::from("<div class=\"plot-keys\">");
        for (at, series) in self.series.iter().enumerate() {
            let (colour, name) = (at % marks::COLOURS, escape(&series.name));
            let _ = write!(out, "<span><i class=\"f{colour}\"></i>{name}</span>");
        }
        out + "</div>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(names: Vec<String>, mark: Mark, values: Vec<Option<f64>>) -> Chart<'static> {
        let series = vec![Series { name: "<x>".to_string(), values }];
        Chart { title: "t", names, mark, series }
    }

    fn numbered(count: usize, of: &str) -> Vec<String> {
        (0..count).map(|i| format!("{i} {of}")).collect()
    }

    #[test]
    fn a_chart_without_values_is_nothing() {
        assert_eq!(chart(numbered(1, "a"), Mark::Points, vec![None]).html(), "");
        let values = vec![Some(1.0), None, Some(2.0)];
        let html = chart(numbered(3, "<a>"), Mark::Points, values).html();
        assert!(html.contains("&lt;x&gt;") && !html.contains("<x>") && !html.contains("<a>"));
        assert!(!html.contains("NaN") && !html.contains("inf"));
        assert_eq!(html.matches("h.01").count(), 2, "a gap lifts the pen, a lone point is a dot");
        assert_eq!(html.matches("<circle").count(), 2);
    }

    #[test]
    fn no_label_touches_another_whatever_is_drawn() {
        let mut drawn = 0;
        for mark in [Mark::Points, Mark::Bars] {
            for (low, high) in
                [(0.0, 0.97), (0.3, 0.999_99), (-1.0, 7e9), (99_999.0, 123_456.7), (4.0, 4.0)]
            {
                let values = [low, (low + high) / 2.0, high, low].map(Some).to_vec();
                let html = chart(numbered(4, "GiB"), mark, values).html();
                let faults = labels::measure::faults(&html);
                assert!(faults.is_empty(), "{mark:?} {low} to {high}: {faults:?}");
                drawn += 1;
            }
            for names in [1, 4, 14, 26, 60] {
                let values = (0..names).map(|i| Some(f64::from(i) * 3e4 - 2.0)).collect();
                let all = numbered(names as usize, "aoi(cap=32, lat=mapped-any)");
                let html = chart(all, mark, values).html();
                let faults = labels::measure::faults(&html);
                assert!(faults.is_empty(), "{names} names: {faults:?}");
                drawn += 1;
            }
        }
        assert_eq!(drawn, 20);
    }
}
