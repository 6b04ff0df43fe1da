//! Line charts as inline SVG: axes with round ticks, one line for each series. Colours, dashes and
//! which group is shown are classes, so that one style sheet and one script serve every chart; the
//! script reads values back from the coordinates, so that no number is stored twice.

use std::fmt::Write;

use crate::format::{count, escape, significant, time};

/// Groups whose lines are shown at first; the others can be switched on.
pub const SHOWN: usize = 8;

/// Inner size of every chart, in its own units.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 236.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 38.0;

/// How an axis counts and how its ticks are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Linear, plain numbers.
    Plain,
    /// Linear, time in nanoseconds.
    Time,
    /// Logarithmic, time in nanoseconds.
    LogTime,
    /// Linear, percent.
    Percent,
    /// Nines: 50 %, 90 %, 99 %, 99.9 %..
    Nines,
}

impl Scale {
    /// The place of a value before it is fitted to the axis.
    fn map(self, value: f64) -> f64 {
        match self {
            Scale::LogTime => value.max(1.0).log10(),
            Scale::Nines => -(1.0 - value.min(0.999_999)).log10(),
            _ => value,
        }
    }

    fn label(self, value: f64) -> String {
        match self {
            _ if value == 0.0 && self != Scale::Nines => "0".to_string(),
            Scale::Plain => short(&count(value)),
            Scale::Time | Scale::LogTime => short(&time(value)),
            Scale::Percent => short(&format!("{} %", significant(value, 3))),
            Scale::Nines => {
                let text = format!("{:.3}", value * 100.0);
                format!("p{}", text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }

    /// How the script writes a value read back.
    fn kind(self) -> &'static str {
        match self {
            Scale::Plain => "plain",
            Scale::Time => "time",
            Scale::LogTime => "logtime",
            Scale::Percent => "percent",
            Scale::Nines => "nines",
        }
    }
}

/// A tick without zeroes that say nothing: `20.0 s` is `20 s`.
fn short(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}").trim_end().to_string()
}

/// One line.
pub struct Series {
    /// Group it belongs to: colour, dash and legend entry.
    pub group: usize,
    /// Name in the tool tip.
    pub name: String,
    /// Points; a missing y is a gap.
    pub points: Vec<(f64, Option<f64>)>,
    /// Drawn fainter: one of several seeds.
    pub faint: bool,
}

/// A chart.
pub struct Chart<'a> {
    /// What it shows.
    pub title: &'a str,
    /// How to read it.
    pub about: &'a str,
    /// The horizontal axis and its name.
    pub x: (Scale, &'a str),
    /// The vertical axis; its unit is in the ticks.
    pub y: Scale,
    /// Fill below the line, where there is just one.
    pub fill: bool,
    /// The y axis starts at 0.
    pub from_zero: bool,
    /// Steps instead of slopes.
    pub steps: bool,
    /// The lines.
    pub series: Vec<Series>,
}

/// The range of an axis, in mapped values, and its ticks.
struct Axis {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

/// Round numbers from about `low` to about `high`.
fn linear(low: f64, high: f64, wanted: f64) -> Axis {
    let span = if high > low { high - low } else { high.abs().max(1.0) };
    let raw = span / wanted;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|s| s * power >= raw).unwrap_or(10.0);
    let step = step * power;
    let (first, last) =
        ((low / step).floor(), (high / step).ceil().max((low / step).floor() + 1.0));
    let ticks = (0..=(last - first) as usize).map(|i| (first + i as f64) * step).collect();
    Axis { low: first * step, high: last * step, ticks }
}

fn axis(scale: Scale, low: f64, high: f64, is_x: bool) -> Axis {
    let wanted = if is_x { 6.0 } else { 4.0 };
    match scale {
        Scale::LogTime => {
            let (first, last) = (low.max(1.0).log10().floor(), high.max(10.0).log10().ceil());
            let last = last.max(first + 1.0);
            let ticks = (first as i32..=last as i32).map(|e| 10f64.powi(e)).collect();
            // Half empty decades at the ends say nothing: the frame ends at the data there.
            let low = if is_x { low.max(1.0).log10() - 0.08 } else { first };
            let high = if is_x { high.max(10.0).log10() + 0.08 } else { last };
            Axis { low, high, ticks }
        }
        Scale::Nines => {
            let all = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
            let ticks = all.into_iter().filter(|t| *t <= high + 1e-9).collect();
            Axis { low: 0.0, high: scale.map(high), ticks }
        }
        // The end of time is the end of the data, not the next round number.
        Scale::Time if is_x => Axis { high, ..linear(low, high, wanted) },
        Scale::Plain if is_x => Axis { high, ..linear(low, high, wanted) },
        _ => linear(low, high, wanted),
    }
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
            y[0] = y[0].min(0.0);
        } else if !matches!(self.y, Scale::LogTime) {
            // A nearly flat line must not look like a storm: at least a tenth of the value.
            let least = (y[1].abs() * 0.1).max(1e-9);
            if y[1] - y[0] < least {
                let middle = (y[0] + y[1]) / 2.0;
                y = [(middle - least / 2.0).max(0.0), middle + least / 2.0];
            }
        }
        if matches!(self.x.0, Scale::Time | Scale::Plain) {
            x[0] = x[0].min(0.0);
        }
        Some((x, y))
    }

    /// The figure as HTML; empty without data.
    pub fn html(&self) -> String {
        let Some((xb, yb)) = self.bounds() else { return String::new() };
        let (xa, ya) = (axis(self.x.0, xb[0], xb[1], true), axis(self.y, yb[0], yb[1], false));
        let mut out = String::new();
        let _ = write!(
            out,
            "<figure class=\"chart\"><figcaption><b>{}</b> <span>{}</span></figcaption>\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\" \
             data-x=\"{},{},{}\" data-y=\"{},{},{}\" \
             data-frame=\"{LEFT},{TOP},{},{}\">",
            escape(self.title),
            escape(self.about),
            escape(&format!("{}: {}", self.title, self.about)),
            self.x.0.kind(),
            xa.low,
            xa.high,
            self.y.kind(),
            ya.low,
            ya.high,
            WIDTH - RIGHT,
            HEIGHT - BOTTOM,
        );
        let fx = |v: f64| place(self.x.0.map(v), xa.low, xa.high, LEFT, WIDTH - RIGHT);
        let fy = |v: f64| place(self.y.map(v), ya.low, ya.high, HEIGHT - BOTTOM, TOP);
        self.draw_axes(&mut out, (&xa, &fx), (&ya, &fy));
        for series in &self.series {
            self.draw_series(&mut out, series, &fx, &fy);
        }
        out.push_str("<line class=\"cross\" x1=\"0\" x2=\"0\" y1=\"0\" y2=\"0\"/></svg></figure>");
        out
    }

    fn draw_axes(
        &self,
        out: &mut String,
        (xa, fx): (&Axis, &dyn Fn(f64) -> f64),
        (ya, fy): (&Axis, &dyn Fn(f64) -> f64),
    ) {
        let inside = |v: f64, a: &Axis| v >= a.low - 1e-9 && v <= a.high + 1e-9;
        for tick in ya.ticks.iter().filter(|t| inside(self.y.map(**t), ya)) {
            let y = fy(*tick);
            let _ = write!(
                out,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.0}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 7.0,
                y + 3.8,
                escape(&self.y.label(*tick)),
            );
        }
        let floor = HEIGHT - BOTTOM;
        for tick in xa.ticks.iter().filter(|t| inside(self.x.0.map(**t), xa)) {
            let x = fx(*tick);
            // A label at the right end would leave the frame.
            let anchor = if x > WIDTH - RIGHT - 14.0 { "end" } else { "middle" };
            let _ = write!(
                out,
                "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{floor}\" y2=\"{}\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
                floor + 4.0,
                floor + 16.0,
                escape(&self.x.0.label(*tick)),
            );
        }
        let _ = write!(
            out,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{floor}\" y2=\"{floor}\"/>\
             <text class=\"name\" x=\"{:.0}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            WIDTH - RIGHT,
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 5.0,
            escape(self.x.1),
        );
    }

    fn draw_series(
        &self,
        out: &mut String,
        series: &Series,
        fx: &dyn Fn(f64) -> f64,
        fy: &dyn Fn(f64) -> f64,
    ) {
        let mut path = String::new();
        let (mut pen_down, mut last_y) = (false, 0.0);
        let (mut first_x, mut last_x) = (None, 0.0);
        for (i, (x, y)) in series.points.iter().enumerate() {
            let Some(y) = y else {
                pen_down = false;
                continue;
            };
            let alone = !pen_down && series.points.get(i + 1).is_none_or(|next| next.1.is_none());
            let (px, py) = (fx(*x), fy(*y));
            if pen_down && self.steps {
                let _ = write!(path, "L{px:.1} {last_y:.1}");
            }
            let _ = write!(path, "{}{px:.1} {py:.1}", if pen_down { 'L' } else { 'M' });
            if alone {
                // A dot: with round caps even the shortest line shows.
                path.push_str("h.01");
            }
            first_x.get_or_insert(px);
            (pen_down, last_y, last_x) = (true, py, px);
        }
        let Some(first_x) = first_x else { return };
        let classes = format!(
            "g g{} c{} d{}{}",
            series.group,
            series.group % 8,
            series.group / 8 % 4,
            if series.faint { " faint" } else { "" }
        ) + if series.group >= SHOWN { " off" } else { "" };
        if self.fill && path.matches('M').count() == 1 {
            let floor = HEIGHT - BOTTOM;
            let _ = write!(
                out,
                "<path class=\"area {classes}\" d=\"{path}L{last_x:.1} {floor}L{first_x:.1} {floor}Z\"/>"
            );
        }
        let _ = write!(
            out,
            "<path class=\"line {classes}\" data-name=\"{}\" d=\"{path}\"/>",
            escape(&series.name)
        );
    }
}

fn place(value: f64, low: f64, high: f64, from: f64, to: f64) -> f64 {
    let share = if high > low { (value - low) / (high - low) } else { 0.0 };
    from + share * (to - from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_hold_the_data() {
        for (low, high) in [(0.0, 1.0), (0.0, 7.3), (1.02, 1.06), (0.0, 123_456.0), (5.0, 5.0)] {
            let a = linear(low, high, 4.0);
            assert!(a.low <= low && a.high >= high && a.high > a.low, "{low} {high}");
            assert!((2..=9).contains(&a.ticks.len()), "{low} {high} {:?}", a.ticks);
        }
        assert_eq!(linear(0.0, 7.3, 4.0).ticks, [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!(Scale::Time.label(2e10), "20 s");
        assert_eq!(Scale::LogTime.label(1e5), "100 µs");
        assert_eq!(Scale::Percent.label(12.5), "12.5 %");
        assert_eq!(Scale::Nines.label(0.999), "p99.9");
    }

    #[test]
    fn a_chart_without_points_is_nothing() {
        let chart = |points| Chart {
            title: "t",
            about: "a",
            x: (Scale::Time, "time"),
            y: Scale::Plain,
            fill: true,
            from_zero: true,
            steps: false,
            series: vec![Series { group: 0, name: "<x>".to_string(), points, faint: false }],
        };
        assert_eq!(chart(vec![(1.0, None)]).html(), "");
        let html = chart(vec![(0.0, Some(1.0)), (1e9, None), (2e9, Some(2.0))]).html();
        assert!(html.contains("&lt;x&gt;") && !html.contains("<x>"));
        assert!(!html.contains("NaN") && !html.contains("inf"));
        assert_eq!(html.matches("h.01").count(), 2, "a gap lifts the pen, a lone point is a dot");
    }
}
