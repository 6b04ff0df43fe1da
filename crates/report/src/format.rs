//! Numbers and texts for people.

/// Text safe inside HTML and attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// `digits` significant digits, no exponent, no useless zeroes beyond the first three digits.
pub fn significant(value: f64, digits: i32) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_string();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let places = (digits - 1 - magnitude).clamp(0, 9) as usize;
    format!("{value:.places$}")
}

/// `1,234,567`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `12.3 M`.
pub fn count(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{} G", significant(value / 1e9, 3)),
        v if v >= 1e6 => format!("{} M", significant(value / 1e6, 3)),
        v if v >= 1e4 => format!("{} k", significant(value / 1e3, 3)),
        v if v >= 1e3 || v.fract() == 0.0 => format!("{value:.0}"),
        _ => significant(value, 3),
    }
}

/// Nanoseconds as `12.3 µs`.
pub fn time(ns: f64) -> String {
    match ns.abs() {
        v if v >= 1e9 => format!("{} s", significant(ns / 1e9, 3)),
        v if v >= 1e6 => format!("{} ms", significant(ns / 1e6, 3)),
        v if v >= 1e3 => format!("{} µs", significant(ns / 1e3, 3)),
        _ => format!("{} ns", significant(ns, 3)),
    }
}

/// Bytes as `1.2 GB` (10^9).
pub fn bytes(value: f64) -> String {
    match value {
        v if v >= 1e12 => format!("{} TB", significant(v / 1e12, 3)),
        v if v >= 1e9 => format!("{} GB", significant(v / 1e9, 3)),
        v if v >= 1e6 => format!("{} MB", significant(v / 1e6, 3)),
        v => format!("{} kB", significant(v / 1e3, 3)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(significant(2.34567, 3), "2.35");
        assert_eq!(significant(1234.5, 3), "1234");
        assert_eq!(significant(0.0123456, 3), "0.0123");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(12), "12");
        assert_eq!(count(12_345_678.0), "12.3 M");
        assert_eq!(count(352.0), "352");
        assert_eq!(time(63_310.25), "63.3 µs");
        assert_eq!(time(2_500_000_000.0), "2.50 s");
        assert_eq!(escape("<a b='c'>&\""), "&lt;a b=&#39;c&#39;&gt;&amp;&quot;");
    }
}
