//! Texts along the axes: measured, and placed so that none touches another or leaves the figure.
//!
//! Letters are taken to be as wide as the widest ones that occur often, so that what fits here fits
//! in a browser.

use std::fmt::Write;

use super::{HEIGHT, LEFT, RIGHT, TOP, WIDTH};
use crate::format::escape;

/// Width of a character of an axis label, and height of its line.
const LETTER: f64 = 6.4;
pub(super) const LINE: f64 = 12.0;
/// Air between two labels of one line.
const AIR: f64 = 5.0;
/// From the axis to the middle of the labels below it.
const BELOW: f64 = 13.0;
/// Characters of a name that stands aslant.
const MOST: usize = 20;

/// A text in a figure.
#[derive(Clone, Debug)]
pub(super) struct Label {
    pub(super) text: String,
    /// Where its anchor is: the middle of the line's height.
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) anchor: Anchor,
    /// By how many degrees it climbs towards its end.
    pub(super) climbs: f64,
}

/// What of a text stands at its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Anchor {
    Middle,
    End,
}

/// How wide a text is.
pub(super) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

impl Label {
    fn flat(text: &str, x: f64, y: f64, anchor: Anchor) -> Label {
        Label { text: text.to_string(), x, y, anchor, climbs: 0.0 }
    }

    /// As SVG.
    pub(super) fn draw(&self, out: &mut String, class: &str) {
        let anchor = if self.anchor == Anchor::End { "end" } else { "middle" };
        let (text, down) = (escape(&self.text), self.y + 3.8);
        let _ = match self.climbs {
            0.0 => write!(
                out,
                "<text class=\"{class}\" x=\"{:.1}\" y=\"{down:.1}\" text-anchor=\"{anchor}\">{text}</text>",
                self.x
            ),
            climbs => write!(
                out,
                "<text class=\"{class}\" text-anchor=\"{anchor}\" transform=\"translate({:.1} {:.1}) \
                 rotate(-{climbs:.0}) translate(0 3.8)\">{text}</text>",
                self.x, self.y
            ),
        };
    }
}

/// Labels of ticks beside a vertical axis.
pub(super) fn beside(ticks: impl IntoIterator<Item = (f64, String)>) -> Vec<Label> {
    let mut kept: Vec<Label> = Vec::new();
    for (y, text) in ticks {
        let label = Label::flat(&text, LEFT - 7.0, y, Anchor::End);
        if kept.last().is_none_or(|before| (before.y - label.y).abs() >= LINE) {
            kept.push(label);
        }
    }
    kept
}

/// Names below their slots, and how high the figure is for them: flat where they fit, else aslant,
/// the flattest that fits; where not even upright ones fit, every n-th.
pub(super) fn names(names: &[String], floor: f64) -> (Vec<Label>, f64) {
    let slot = (WIDTH - LEFT - RIGHT) / names.len().max(1) as f64;
    let middle = |at: usize| LEFT + (at as f64 + 0.5) * slot;
    let fits = |(at, name): (usize, &String)| {
        let half = width(name) / 2.0;
        half * 2.0 + AIR <= slot && middle(at) + half <= WIDTH
    };
    if names.iter().enumerate().all(fits) {
        let label = |(at, name): (usize, &String)| {
            Label::flat(name, middle(at), floor + BELOW, Anchor::Middle)
        };
        return (names.iter().enumerate().map(label).collect(), HEIGHT);
    }
    let texts: Vec<String> = names.iter().map(|name| shortened(name)).collect();
    let stands = |climbs: f64| {
        let (sin, cos) = climbs.to_radians().sin_cos();
        let left = |(at, text): (usize, &String)| middle(at) - width(text) * cos - LINE >= 0.0;
        slot * sin >= LINE && texts.iter().enumerate().all(left)
    };
    let climbs = [24.0, 35.0, 50.0, 70.0, 90.0].into_iter().find(|c| stands(*c)).unwrap_or(90.0);
    let every = (LINE / (slot * climbs.to_radians().sin())).ceil().max(1.0) as usize;
    let label = |(at, text): (usize, &String)| Label {
        text: text.clone(),
        x: middle(at),
        y: floor + BELOW - 4.0,
        anchor: Anchor::End,
        climbs,
    };
    let labels: Vec<Label> = texts.iter().enumerate().step_by(every).map(label).collect();
    let (sin, cos) = climbs.to_radians().sin_cos();
    let longest = labels.iter().map(|label| width(&label.text)).fold(0.0, f64::max);
    let height = floor + BELOW - 4.0 + longest * sin + LINE / 2.0 * cos + 2.0;
    (labels, height.max(HEIGHT).ceil())
}

/// A name short enough to stand aslant.
fn shortened(name: &str) -> String {
    match name.chars().count() > MOST {
        true => format!("{}…", name.chars().take(MOST - 1).collect::<String>()),
        false => name.to_string(),
    }
}

/// Where the flat axis ends, above which there is nothing but marks.
pub(super) const fn floor() -> f64 {
    HEIGHT - super::BOTTOM
}

const _: () = assert!(TOP < floor());

#[cfg(test)]
pub(super) mod measure {
    //! What a browser would draw, read back from the SVG: the measure of every figure.

    use super::*;

    type Corners = [(f64, f64); 4];

    fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
        tag.split_once(&format!(" {name}=\"")).map(|(_, rest)| rest.split('"').next().unwrap())
    }

    fn numbers(text: &str) -> Vec<f64> {
        let word = |c: char| !(c.is_ascii_digit() || c == '.' || c == '-');
        text.split(word).filter_map(|part| part.parse().ok()).collect()
    }

    /// The texts of a figure with the corners of what they cover.
    fn texts(svg: &str) -> Vec<(String, Corners)> {
        let one = |piece: &str| {
            let (tag, rest) = piece.split_once('>').unwrap();
            let text = rest.split('<').next().unwrap().to_string();
            let (x, y, climbs) = match attribute(tag, "transform").map(numbers) {
                // translate(x y) rotate(-c) translate(0 3.8)
                Some(of) => (of[0], of[1], -of[2]),
                None => {
                    let at = |name| attribute(tag, name).unwrap().parse::<f64>().unwrap();
                    (at("x"), at("y") - 3.8, 0.0)
                }
            };
            let wide = width(&text);
            let from =
                if attribute(tag, "text-anchor") == Some("end") { -wide } else { -wide / 2.0 };
            let (sin, cos) = climbs.to_radians().sin_cos();
            // A line of small letters is lower than its line height.
            let (up, down) = (-LINE / 2.0 + 1.0, LINE / 2.0 - 1.0);
            let turned = |(dx, dy): (f64, f64)| (x + dx * cos + dy * sin, y - dx * sin + dy * cos);
            let corners = [(from, up), (from + wide, up), (from + wide, down), (from, down)];
            (text, corners.map(turned))
        };
        svg.split("<text").skip(1).map(one).collect()
    }

    /// Whether two turned rectangles have a line between them.
    fn apart(one: &Corners, other: &Corners) -> bool {
        let sides = |c: &Corners| [(c[0], c[1]), (c[1], c[2])];
        sides(one).into_iter().chain(sides(other)).any(|(a, b)| {
            let (nx, ny) = (a.1 - b.1, b.0 - a.0);
            let range = |c: &Corners| {
                let along = c.map(|(x, y)| x * nx + y * ny);
                let fold = |f: fn(f64, f64) -> f64, from| along.into_iter().fold(from, f);
                (fold(f64::min, f64::MAX), fold(f64::max, f64::MIN))
            };
            let (a, b) = (range(one), range(other));
            a.1 <= b.0 + 1e-9 || b.1 <= a.0 + 1e-9
        })
    }

    /// Labels that touch another or leave the figure: none should.
    pub fn faults(svg: &str) -> Vec<String> {
        let all = texts(svg);
        assert!(!all.is_empty(), "no text in {svg}");
        let size = numbers(attribute(svg, "viewBox").expect("a figure has a view box"));
        let mut found = Vec::new();
        for (at, (text, corners)) in all.iter().enumerate() {
            let inside = |(x, y): &(f64, f64)| {
                (-0.5..=size[2] + 0.5).contains(x) && (-0.5..=size[3] + 0.5).contains(y)
            };
            if !corners.iter().all(inside) {
                found.push(format!("{text:?} leaves the figure: {corners:?}"));
            }
            let before = all[..at].iter().filter(|(_, other)| !apart(corners, other));
            found.extend(before.map(|(other, _)| format!("{text:?} touches {other:?}")));
        }
        found
    }

    #[test]
    fn the_measure_sees_labels_that_touch() {
        let svg = |second: f64, third: &str| {
            format!(
                "<svg viewBox=\"0 0 560 236\"><text x=\"50\" y=\"20\" text-anchor=\"middle\">label</text>\
                 <text x=\"{second}\" y=\"20\" text-anchor=\"end\">label</text>{third}</svg>"
            )
        };
        let turned = |x: f64| {
            format!(
                "<text text-anchor=\"end\" transform=\"translate({x} 100) rotate(-24) translate(0 \
                 3.8)\">a long label</text>"
            )
        };
        assert!(faults(&svg(120.0, "")).is_empty());
        assert_eq!(faults(&svg(60.0, "")).len(), 1);
        assert_eq!(faults(&svg(600.0, "")).len(), 1, "beyond the right end");
        assert!(faults(&svg(120.0, &(turned(150.0) + &turned(190.0)))).is_empty());
        assert_eq!(faults(&svg(120.0, &(turned(150.0) + &turned(163.0)))).len(), 1);
        assert_eq!(faults(&svg(120.0, &turned(60.0))).len(), 1, "beyond the left end");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_stay_apart_however_many_and_long_they_are() {
        for count in [1, 2, 5, 9, 15, 26, 40, 60, 200] {
            for letters in [1, 3, 8, 14, 20, 45] {
                let all: Vec<String> = (0..count).map(|i| format!("{i:0letters$}")).collect();
                let (labels, height) = names(&all, floor());
                let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\">");
                labels.iter().for_each(|label| label.draw(&mut svg, "tick"));
                let faults = measure::faults(&svg);
                assert!(faults.is_empty(), "{count} names of {letters}: {faults:?}");
                assert!(labels.len() == count || count > 40, "{count} names: {}", labels.len());
            }
        }
    }
}
