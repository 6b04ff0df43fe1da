//! Charts as inline SVG: the one writer of all figures. Axes with round ticks over numbers or names,
//! lines, points or bars. Colours, dashes and which group is shown are classes, so that one style
//! sheet and one script serve every chart; the script reads values of lines back from the
//! coordinates, so that no number is stored twice, and other marks carry their own texts.
//!
//! Invariants: no text of a figure touches another or leaves it (`labels.rs` measures); no two ticks
//! of an axis have one text.

mod axis;
mod labels;
mod marks;

use std::fmt::Write;

use crate::format::escape;
use axis::Axis;

pub use axis::Scale;

/// Groups whose lines are shown at first; the others can be switched on.
pub const SHOWN: usize = 8;

/// Inner size of every chart, in its own units; names that stand aslant make it higher.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 236.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 38.0;

/// One series.
pub struct Series {
    /// Group it belongs to: colour, dash and legend entry.
    pub group: usize,
    /// Name in the tool tip.
    pub name: String,
    /// Points; a missing y is a gap. Over names, x is a name's number.
    pub points: Vec<(f64, Option<f64>)>,
    /// Drawn fainter: one of several seeds.
    pub faint: bool,
}

/// The horizontal axis.
pub enum Across<'a> {
    /// Numbers, and what they are.
    Numbers(Scale, &'a str),
    /// Names, from 0 on.
    Names(Vec<String>),
}

impl Across<'_> {
    /// The name at a place, of an axis of names.
    fn name(&self, at: f64) -> Option<&str> {
        match self {
            Across::Numbers(..) => None,
            Across::Names(names) => names.get(at as usize).map(String::as_str),
        }
    }
}

/// What stands for a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// A line, read back by the script.
    Line {
        /// Fill below it, where there is just one.
        fill: bool,
        /// Steps instead of slopes.
        steps: bool,
    },
    /// Points joined by a line, each with its text.
    Points,
    /// Bars from 0, side by side, each with its text.
    Bars,
}

/// A chart.
pub struct Chart<'a> {
    /// What it shows.
    pub title: &'a str,
    /// How to read it; may be empty.
    pub about: &'a str,
    /// The horizontal axis.
    pub x: Across<'a>,
    /// The vertical axis; its unit is in the ticks, or in the title.
    pub y: Scale,
    /// What stands for a value.
    pub mark: Mark,
    /// The y axis holds 0.
    pub from_zero: bool,
    /// The series.
    pub series: Vec<Series>,
}

/// Where values lie on the paper.
struct Frame {
    x: Axis,
    y: Axis,
    scales: (Scale, Scale),
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        place(self.scales.0.map(value), self.x.low, self.x.high, LEFT, WIDTH - RIGHT)
    }
    fn y(&self, value: f64) -> f64 {
        place(self.scales.1.map(value), self.y.low, self.y.high, labels::floor(), TOP)
    }
    /// The width that belongs to a name.
    fn slot(&self, chart: &Chart<'_>) -> f64 {
        match &chart.x {
            Across::Numbers(..) => WIDTH - LEFT - RIGHT,
            Across::Names(names) => (WIDTH - LEFT - RIGHT) / names.len().max(1) as f64,
        }
    }
}

fn place(value: f64, low: f64, high: f64, from: f64, to: f64) -> f64 {
    let share = if high > low { (value - low) / (high - low) } else { 0.0 };
    from + share * (to - from)
}

impl Chart<'_> {
    fn bounds(&self) -> Option<([f64; 2], [f64; 2])> {
        let (mut x, mut y) = ([f64::MAX, f64::MIN], [f64::MAX, f64::MIN]);
        for (px, py) in self.series.iter().flat_map(|s| &s.points) {
            let Some(py) = py else { continue };
            x = [x[0].min(*px), x[1].max(*px)];
            y = [y[0].min(*py), y[1].max(*py)];
        }
        if x[0] > x[1] {
            return None;
        }
        if self.from_zero {
            y = [y[0].min(0.0), y[1].max(0.0)];
        } else if !matches!(self.y, Scale::LogTime) {
            // A nearly flat line must not look like a storm: at least a tenth of the value.
            let least = (y[1].abs() * 0.1).max(1e-9);
            if y[1] - y[0] < least {
                let middle = (y[0] + y[1]) / 2.0;
                y = [(middle - least / 2.0).max(0.0), middle + least / 2.0];
            }
        }
        if matches!(self.x, Across::Numbers(Scale::Time | Scale::Plain, _)) {
            x[0] = x[0].min(0.0);
        }
        Some((x, y))
    }

    fn frame(&self) -> Option<Frame> {
        let (x, y) = self.bounds()?;
        let (scale, x) = match &self.x {
            Across::Numbers(scale, _) => (*scale, Axis::over(*scale, x[0], x[1], true)),
            Across::Names(names) => {
                let high = names.len() as f64 - 0.5;
                (Scale::Plain, Axis { low: -0.5, high, ticks: Vec::new() })
            }
        };
        let y = Axis::over(self.y, y[0], y[1], false);
        Some(Frame { x, y, scales: (scale, self.y) })
    }

    /// The figure as HTML; empty without data.
    pub fn html(&self) -> String {
        let Some(frame) = self.frame() else { return String::new() };
        let (x_labels, height) = self.x_labels(&frame);
        let mut out = self.head(&frame, height);
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
        self.x_marks(&mut out, &frame);
        for at in 0..self.series.len() {
            frame.series(&mut out, self, at);
        }
        if matches!(self.mark, Mark::Line { .. }) {
            out.push_str("<line class=\"cross\" x1=\"0\" x2=\"0\" y1=\"0\" y2=\"0\"/>");
        }
        out + "</svg></figure>"
    }

    /// The labels below the axis, and how high the figure is.
    fn x_labels(&self, frame: &Frame) -> (Vec<labels::Label>, f64) {
        match &self.x {
            Across::Names(names) => labels::names(names, labels::floor()),
            Across::Numbers(..) => {
                let ticks = frame.x.ticks.iter().map(|(v, text)| (frame.x(*v), text.clone()));
                (labels::along(ticks, labels::floor() + 12.0), HEIGHT)
            }
        }
    }

    /// The strokes of the horizontal axis' ticks, and its name.
    fn x_marks(&self, out: &mut String, frame: &Frame) {
        let Across::Numbers(_, name) = &self.x else { return };
        let floor = labels::floor();
        for (value, _) in &frame.x.ticks {
            let x = frame.x(*value);
            let _ = write!(
                out,
                "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{floor}\" y2=\"{}\"/>",
                floor + 4.0
            );
        }
        let _ = write!(
            out,
            "<text class=\"name\" x=\"{:.0}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 5.0,
            escape(name),
        );
    }

    /// Title, keys, and the beginning of the drawing.
    fn head(&self, frame: &Frame, height: f64) -> String {
        let (title, about) = (escape(self.title), escape(self.about));
        let mut out = format!("<figure class=\"chart\"><figcaption><b>{title}</b>");
        if !about.is_empty() {
            let _ = write!(out, " <span>{about}</span>");
        }
        out += "</figcaption>";
        if !matches!(self.mark, Mark::Line { .. }) {
            out += &self.keys();
        }
        let label = if about.is_empty() { title } else { format!("{title}: {about}") };
        let _ = write!(
            out,
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{label}\""
        );
        if matches!(self.mark, Mark::Line { .. }) {
            let _ = write!(
                out,
                " data-x=\"{},{},{}\" data-y=\"{},{},{}\" data-frame=\"{LEFT},{TOP},{},{}\"",
                frame.scales.0.kind(),
                frame.x.low,
                frame.x.high,
                frame.scales.1.kind(),
                frame.y.low,
                frame.y.high,
                WIDTH - RIGHT,
                labels::floor(),
            );
        }
        out + ">"
    }

    /// Names of the series with their colours.
    fn keys(&self) -> String {
        if self.series.len() < 2 {
            return String::new();
        }
        let mut out = String::from("<div class=\"plot-keys\">");
        for series in &self.series {
            let (colour, name) = (series.group % marks::COLOURS, escape(&series.name));
            let _ = write!(out, "<span><i class=\"f{colour}\"></i>{name}</span>");
        }
        out + "</div>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Points = Vec<(f64, Option<f64>)>;

    fn chart(x: Across<'static>, y: Scale, mark: Mark, points: Points) -> Chart<'static> {
        let series = vec![Series { group: 0, name: "<x>".to_string(), points, faint: false }];
        Chart { title: "t", about: "a", x, y, mark, from_zero: true, series }
    }

    const AREA: Mark = Mark::Line { fill: true, steps: false };

    #[test]
    fn a_chart_without_points_is_nothing() {
        let time = || Across::Numbers(Scale::Time, "time");
        assert_eq!(chart(time(), Scale::Plain, AREA, vec![(1.0, None)]).html(), "");
        let points = vec![(0.0, Some(1.0)), (1e9, None), (2e9, Some(2.0))];
        let html = chart(time(), Scale::Plain, AREA, points).html();
        assert!(html.contains("&lt;x&gt;") && !html.contains("<x>"));
        assert!(!html.contains("NaN") && !html.contains("inf"));
        assert_eq!(html.matches("h.01").count(), 2, "a gap lifts the pen, a lone point is a dot");
    }

    #[test]
    fn no_label_touches_another_whatever_is_drawn() {
        let mut drawn = 0;
        let scales = [Scale::Plain, Scale::Time, Scale::LogTime, Scale::Percent, Scale::Nines];
        for (x, y) in scales.into_iter().flat_map(|x| scales.map(|y| (x, y))) {
            for (low, high) in
                [(0.0, 0.97), (0.3, 0.999_99), (1.0, 7e9), (99_999.0, 123_456.7), (4.0, 4.0)]
            {
                let points =
                    vec![(low, Some(low)), ((low + high) / 2.0, Some(high)), (high, Some(low))];
                // Shares end at 1, and per cent of anything drawn below a million.
                let fits = |scale| match scale {
                    Scale::Nines => high < 1.0,
                    Scale::Percent => high < 1e6,
                    _ => true,
                };
                if !fits(x) || !fits(y) {
                    continue;
                }
                let html = chart(Across::Numbers(x, "what it is"), y, AREA, points).html();
                let faults = labels::measure::faults(&html);
                assert!(faults.is_empty(), "{x:?} {y:?} {low} to {high}: {faults:?}");
                drawn += 1;
            }
        }
        for names in [1, 4, 14, 26, 60] {
            let points =
                (0..names).map(|i| (f64::from(i), Some(f64::from(i) * 3e4 - 2.0))).collect();
            let all = (0..names).map(|i| format!("{i} aoi(cap=32, lat=mapped-any)")).collect();
            let html = chart(Across::Names(all), Scale::Plain, Mark::Bars, points).html();
            let faults = labels::measure::faults(&html);
            assert!(faults.is_empty(), "{names} names: {faults:?}");
            drawn += 1;
        }
        assert!(drawn > 60, "{drawn}");
    }
}
