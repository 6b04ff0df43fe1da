//! The vertical axis: round ticks whose texts tell them apart.

/// Units, the largest first.
const UNITS: [(f64, &str); 4] = [(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")];

/// Ticks that are wanted.
const WANTED: f64 = 4.0;

/// Digits after the point without zeroes that say nothing.
fn trimmed(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

/// The range of an axis, and its ticks with their texts.
#[derive(Debug)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    /// Values and texts, in ascending order, all inside the range.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Round numbers from about `low` to about `high`.
    pub(super) fn over(low: f64, high: f64) -> Axis {
        let span = if high > low { high - low } else { high.abs().max(1.0) };
        let raw = span / WANTED;
        let power = 10f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
        let step = power * steps.into_iter().find(|s| s * power >= raw).unwrap_or(10.0);
        let first = (low / step).floor();
        let last = (high / step).ceil().max(first + 1.0);
        let values = (0..=(last - first) as usize).map(|i| (first + i as f64) * step);
        let most = (first * step).abs().max((last * step).abs());
        let ticks = values.map(|value| (value, text(value, step, most))).collect();
        Axis { low: first * step, high: last * step, ticks }
    }
}

/// One unit for the whole axis, that of its largest value, and as many digits as its step needs.
fn text(value: f64, step: f64, most: f64) -> String {
    if value.abs() < step / 1e6 {
        return "0".to_string();
    }
    // Four digits need no unit.
    let fits = |(size, _): &&(f64, &'static str)| *size == 1.0 || most >= *size * 10.0;
    let (size, unit) = UNITS.iter().find(fits).copied().unwrap_or((1.0, ""));
    // 2.5 times a power of ten has a digit more than the power.
    let places = (1.0 - (step / size).log10().floor()).clamp(0.0, 12.0) as usize;
    format!("{}{unit}", trimmed(&format!("{:.places$}", value / size)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(low: f64, high: f64) -> Vec<String> {
        Axis::over(low, high).ticks.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_and_hold_the_data() {
        for (low, high) in [(0.0, 1.0), (0.0, 7.3), (1.02, 1.06), (0.0, 123_456.0), (5.0, 5.0)] {
            let a = Axis::over(low, high);
            assert!(a.low <= low && a.high >= high && a.high > a.low, "{low} {high}");
            assert!((2..=9).contains(&a.ticks.len()), "{low} {high} {:?}", a.ticks);
        }
        assert_eq!(texts(0.0, 7.3), ["0", "2", "4", "6", "8"]);
        assert_eq!(texts(0.0, 10.0)[1], "2.5");
        assert_eq!(texts(0.0, 40_000.0)[1..3], ["10 k", "20 k"]);
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
            let mut texts = texts(low, high);
            let all = texts.len();
            texts.dedup();
            assert_eq!(texts.len(), all, "{low} {high} {texts:?}");
        }
    }
}
