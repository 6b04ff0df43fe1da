//! Axes: what a value's place is, and round ticks whose texts tell them apart.

use crate::format::time;

/// How an axis counts and how its ticks are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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

/// Units of plain numbers and of time, the largest first.
const PLAIN: [(f64, &str); 4] = [(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")];
const TIME: [(f64, &str); 4] = [(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")];

impl Scale {
    /// The place of a value before it is fitted to the axis.
    pub(super) fn map(self, value: f64) -> f64 {
        match self {
            Scale::LogTime => value.max(1.0).log10(),
            Scale::Nines => -(1.0 - value.min(0.999_999)).log10(),
            _ => value,
        }
    }

    /// How the script writes a value read back.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Scale::Plain => "plain",
            Scale::Time => "time",
            Scale::LogTime => "logtime",
            Scale::Percent => "percent",
            Scale::Nines => "nines",
        }
    }
}

/// Digits after the point without zeroes that say nothing.
fn trimmed(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

/// The range of an axis, in mapped values, and its ticks with their texts.
#[derive(Debug)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    /// Values and texts, in ascending order, all inside the range.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// The axis of a scale for data from `low` to `high`.
    pub(super) fn over(scale: Scale, low: f64, high: f64, is_x: bool) -> Axis {
        let wanted = if is_x { 6.0 } else { 4.0 };
        let mut axis = match scale {
            Scale::LogTime => decades(low, high, is_x),
            Scale::Nines => nines(high),
            _ => linear(scale, low, high, wanted),
        };
        // The end of time is the end of the data, not the next round number.
        if is_x && matches!(scale, Scale::Time | Scale::Plain) && high > axis.low {
            axis.high = high;
        }
        let (least, most) = (axis.low - 1e-9, axis.high + 1e-9);
        axis.ticks.retain(|(value, _)| (least..=most).contains(&scale.map(*value)));
        axis
    }
}

fn decades(low: f64, high: f64, is_x: bool) -> Axis {
    let (first, last) = (low.max(1.0).log10().floor(), high.max(10.0).log10().ceil());
    let last = last.max(first + 1.0);
    let label = |value: f64| {
        let text = time(value);
        let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
        (value, format!("{} {unit}", trimmed(number)))
    };
    let ticks = (first as i32..=last as i32).map(|e| label(10f64.powi(e))).collect();
    // Half empty decades at the ends say nothing: the frame ends at the data there.
    let low = if is_x { low.max(1.0).log10() - 0.08 } else { first };
    let high = if is_x { high.max(10.0).log10() + 0.08 } else { last };
    Axis { low, high, ticks }
}

fn nines(high: f64) -> Axis {
    let all = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
    let label = |value: f64| (value, format!("p{}", trimmed(&format!("{:.3}", value * 100.0))));
    let ticks = all.into_iter().filter(|t| *t <= high + 1e-9).map(label).collect();
    Axis { low: 0.0, high: Scale::Nines.map(high), ticks }
}

/// Round numbers from about `low` to about `high`.
fn linear(scale: Scale, low: f64, high: f64, wanted: f64) -> Axis {
    let span = if high > low { high - low } else { high.abs().max(1.0) };
    let raw = span / wanted;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|s| s * power >= raw).unwrap_or(10.0);
    let step = step * power;
    let first = (low / step).floor();
    let last = (high / step).ceil().max(first + 1.0);
    let values = (0..=(last - first) as usize).map(|i| (first + i as f64) * step);
    let most = (first * step).abs().max((last * step).abs());
    let ticks = values.map(|value| (value, text(scale, value, step, most))).collect();
    Axis { low: first * step, high: last * step, ticks }
}

/// A linear axis' tick: one unit for the whole axis, that of its largest value, and as many digits as
/// its step needs.
fn text(scale: Scale, value: f64, step: f64, most: f64) -> String {
    if value.abs() < step / 1e6 {
        return "0".to_string();
    }
    let (size, unit) = match scale {
        Scale::Percent => (1.0, " %"),
        Scale::Time => unit_of(&TIME, most, 1.0),
        // Four digits need no unit.
        _ => unit_of(&PLAIN, most, 10.0),
    };
    // 2.5 times a power of ten has a digit more than the power.
    let places = (1.0 - (step / size).log10().floor()).clamp(0.0, 12.0) as usize;
    format!("{}{unit}", trimmed(&format!("{:.places$}", value / size)))
}

fn unit_of(units: &[(f64, &'static str)], most: f64, from: f64) -> (f64, &'static str) {
    let fits = |(size, _): &&(f64, &'static str)| *size == 1.0 || most >= *size * from;
    units.iter().find(fits).copied().unwrap_or((1.0, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(scale: Scale, low: f64, high: f64) -> Vec<String> {
        Axis::over(scale, low, high, false).ticks.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_and_hold_the_data() {
        for (low, high) in [(0.0, 1.0), (0.0, 7.3), (1.02, 1.06), (0.0, 123_456.0), (5.0, 5.0)] {
            let a = Axis::over(Scale::Plain, low, high, false);
            assert!(a.low <= low && a.high >= high && a.high > a.low, "{low} {high}");
            assert!((2..=9).contains(&a.ticks.len()), "{low} {high} {:?}", a.ticks);
        }
        assert_eq!(texts(Scale::Plain, 0.0, 7.3), ["0", "2", "4", "6", "8"]);
        assert_eq!(texts(Scale::Time, 0.0, 8e10), ["0", "20 s", "40 s", "60 s", "80 s"]);
        assert_eq!(texts(Scale::Time, 0.0, 1.2e9)[1..3], ["0.5 s", "1 s"]);
        assert_eq!(texts(Scale::LogTime, 1e4, 1e5), ["10 µs", "100 µs"]);
        assert_eq!(texts(Scale::Percent, 0.0, 10.0)[1], "2.5 %");
        assert_eq!(texts(Scale::Plain, 0.0, 40_000.0)[1..3], ["10 k", "20 k"]);
        assert_eq!(texts(Scale::Nines, 0.0, 0.999)[2..], ["p90", "p99", "p99.9"]);
    }

    #[test]
    fn no_two_ticks_have_one_text() {
        let mut draw = 1u64;
        for _ in 0..2000 {
            draw = draw
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let low = (draw >> 40) as f64 / 1e3;
            let high =
                low + 10f64.powi((draw >> 20 & 7) as i32 - 3) * (1 + (draw >> 24 & 63)) as f64;
            for scale in [Scale::Plain, Scale::Time, Scale::Percent] {
                let mut texts = texts(scale, low, high);
                let all = texts.len();
                texts.dedup();
                assert_eq!(texts.len(), all, "{scale:?} {low} {high} {texts:?}");
            }
        }
    }
}
