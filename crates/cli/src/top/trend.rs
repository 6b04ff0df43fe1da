//! The last while in a line: bars of text, as high as each interval was.

use std::collections::VecDeque;

use super::screen::Between;

/// Intervals that are shown.
const MOST: usize = 60;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A number that is followed over time.
pub struct Measure {
    /// What it is; the same in each interval.
    pub name: String,
    /// In this interval; none if it is not known.
    pub value: Option<f64>,
    /// A value for a person.
    pub say: fn(f64) -> String,
}

struct Line {
    name: String,
    say: fn(f64) -> String,
    values: VecDeque<Option<f64>>,
}

/// What a screen remembers of the intervals before.
#[derive(Default)]
pub struct Trends(Vec<Line>);

impl Trends {
    /// One more interval. What a source does not tell any more stays, as unknown: its power may be off.
    pub fn add(&mut self, of: &Between<'_>) {
        let mut measures = of.measures();
        let known = self.0.iter().map(|line| line.values.len()).max().unwrap_or(0);
        for line in &mut self.0 {
            let now = measures.iter().position(|measure| measure.name == line.name);
            line.push(now.and_then(|at| measures.swap_remove(at).value));
        }
        for Measure { name, value, say } in measures {
            let values = vec![None; known.min(MOST - 1)].into();
            let mut line = Line { name, say, values };
            line.push(value);
            self.0.push(line);
        }
    }

    /// A line for each number, once there are two intervals.
    pub fn screen(&self) -> String {
        let lines = self.0.iter().filter(|line| line.values.len() > 1);
        let mut text: String = lines.filter_map(Line::text).collect();
        if !text.is_empty() {
            text.insert(0, '\n');
        }
        text
    }
}

impl Line {
    fn push(&mut self, value: Option<f64>) {
        if self.values.len() == MOST {
            self.values.pop_front();
        }
        self.values.push_back(value);
    }

    fn text(&self) -> Option<String> {
        let top = self.values.iter().flatten().copied().fold(f64::NAN, f64::max);
        if top.is_nan() {
            return None;
        }
        let bar = |value: &Option<f64>| match value {
            None => ' ',
            Some(_) if top <= 0.0 => BARS[0],
            Some(value) => BARS[((value / top * 8.0).ceil() as usize).clamp(1, 8) - 1],
        };
        let bars: String = self.values.iter().map(bar).collect();
        Some(format!("{:<16} {bars:<MOST$}  most {}\n", self.name, (self.say)(top)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_high_as_its_share_of_the_highest_and_a_gap_is_a_gap() {
        let values = [Some(0.0), Some(1.0), None, Some(4.0), Some(8.0)].into();
        let line = Line { name: "x".to_string(), say: |v| format!("{v}"), values };
        let text = line.text().expect("something is known");
        assert!(text.contains("▁▁ ▄█") && text.ends_with("most 8\n"), "{text}");
        let none = Line { name: "x".to_string(), say: |v| format!("{v}"), values: [None].into() };
        assert!(none.text().is_none());
    }
}
