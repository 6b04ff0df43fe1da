//! Whole numbers and their quotients as texts: the one place where a study's number is rounded.
//!
//! A quotient is rounded to the nearest, half away from zero, so that a number and its negative
//! have the same digits. No float is involved but in [`mean`]: the same values give the same text
//! everywhere.

use crate::study::{Number, Value};

/// `n / d` to the nearest whole number, half away from zero; `None` without a denominator.
pub fn nearest(n: i128, d: i128) -> Option<i128> {
    if d == 0 {
        return None;
    }
    let (size, by) = (n.unsigned_abs(), d.unsigned_abs());
    let whole = i128::try_from((size + by / 2) / by).ok()?;
    Some(if (n < 0) == (d < 0) { whole } else { -whole })
}

/// A number of `10^-places` with its point: `decimals(-5, 1)` is `-0.5`.
pub fn decimals(value: i128, places: u32) -> String {
    let (sign, size) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
    if places == 0 {
        return format!("{sign}{size}");
    }
    let (one, width) = (10u128.pow(places), places as usize);
    format!("{sign}{}.{:0width$}", size / one, size % one)
}

/// A quotient of whole numbers as a cell of a table; absent without a denominator.
fn rounded(n: i128, d: i128, places: u32) -> Option<Number> {
    Some(Number::new(i64::try_from(nearest(n * 10i128.pow(places), d)?).ok()?, places))
}

/// `n / d` with `places` decimals; absent without a denominator.
pub fn quotient(n: u64, d: u64, places: u32) -> Value {
    rounded(i128::from(n), i128::from(d), places).into()
}

/// `part` of `whole` in per cent with `places` decimals, under a heading that says per cent; absent
/// of nothing.
pub fn per_cent(part: u64, whole: u64, places: u32) -> Value {
    rounded(i128::from(part) * 100, i128::from(whole), places).into()
}

/// `part` of `whole` in per cent with one decimal; absent of nothing.
pub fn share(part: u64, whole: u64) -> Value {
    rounded(i128::from(part) * 100, i128::from(whole), 1).map(Number::per_cent).into()
}

/// A measured mean, which is a float, with `places` decimals; absent if it is not finite.
pub fn mean(value: f64, places: u32) -> Value {
    let scaled = (value * 10f64.powi(places as i32)).round();
    scaled.is_finite().then(|| Number::new(scaled as i64, places)).into()
}

/// By how much `now` differs from `before`, in tenths of a per cent.
pub fn tenths(now: u64, before: u64) -> Option<i64> {
    let by = nearest((i128::from(now) - i128::from(before)) * 1000, i128::from(before))?;
    i64::try_from(by).ok()
}

/// Tenths of a per cent, always with their sign.
pub fn signed(tenths: i64) -> Value {
    Number::new(tenths, 1).per_cent().signed().into()
}

/// By how much `now` differs from `before`, in per cent with one decimal and its sign; absent if
/// there was nothing before.
pub fn change(now: u64, before: u64) -> Value {
    tenths(now, before).map_or(Value::Absent, signed)
}

/// By how many points of a per cent two parts of one whole differ, with two decimals and their
/// sign; absent of nothing.
pub fn points(now: u64, before: u64, whole: u64) -> Value {
    let parts = i128::from(now) - i128::from(before);
    rounded(parts * 100, i128::from(whole), 2).map(Number::signed).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_away_from_zero() {
        assert_eq!([5, -5, 4, -4, 15, -15].map(|n| nearest(n, 10).unwrap()), [1, -1, 0, 0, 2, -2]);
        assert_eq!((nearest(5, -10), nearest(-5, -10)), (Some(-1), Some(1)));
        assert_eq!(nearest(1, 0), None);
    }

    #[test]
    fn a_third_is_one_text_on_every_way() {
        let texts = |values: [Value; 2]| values.map(|value| value.to_string());
        assert_eq!(texts([quotient(1, 3, 2), quotient(2, 3, 3)]), ["0.33", "0.667"]);
        assert_eq!(texts([per_cent(1, 3, 2), share(1, 3)]), ["33.33", "33.3 %"]);
        assert_eq!(texts([change(1, 3), signed(-667)]), ["-66.7 %", "-66.7 %"]);
        assert_eq!(texts([change(4, 3), change(5, 3)]), ["+33.3 %", "+66.7 %"]);
        assert_eq!(texts([mean(1.0 / 3.0, 2), mean(f64::NAN, 2)]), ["0.33", "-"]);
    }

    #[test]
    fn small_and_unknown_numbers() {
        let texts = |values: [Value; 2]| values.map(|value| value.to_string());
        assert_eq!(texts([change(9996, 10_000), change(9994, 10_000)]), ["+0.0 %", "-0.1 %"]);
        assert_eq!((decimals(-5, 1), decimals(7, 0)), ("-0.5".into(), "7".into()));
        assert_eq!(texts([points(1, 3, 600), points(2, 1, 3)]), ["-0.33", "+33.33"]);
        assert_eq!([quotient(1, 0, 2), share(1, 0), change(1, 0)], [const { Value::Absent }; 3]);
    }
}
