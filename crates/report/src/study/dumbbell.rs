//! The numbers of the papers on one screen: where a number agrees with the paper is a band, what came out
//! here a dot for each condition. Each row has a scale of its own, for numbers of many units stand together.
//!
//! Invariants: every number of a study has a row, drawn or not; what a row shows in a drawing it says in words,
//! too; a row leads to the table that its number stands in.

use std::fmt::Write;

use super::outcome::Outcome;
use super::{Bounds, Claim, Study, Verdict};
use crate::format::escape;

/// Room left and right of the outermost mark, in per cent of a row's scale.
const MARGIN: i64 = 10;

impl Outcome {
    /// Its class in the page's styles, and a mark that needs no colour.
    fn marks(self) -> (&'static str, &'static str) {
        match self {
            Outcome::Agrees => ("agrees", "●"),
            Outcome::Elsewhere => ("elsewhere", "◐"),
            Outcome::Differs => ("differs", "○"),
            Outcome::NotRepeated => ("absent", "–"),
        }
    }
}

/// The scale of a row: from where to where, in thousandths.
struct Scale {
    from: i64,
    span: i64,
}

impl Scale {
    /// That takes all bounds and values in, with a margin; none if there is nothing to draw.
    fn of(bounds: &[Bounds], values: &[&[i64]]) -> Option<Scale> {
        let ends = bounds.iter().flat_map(|b| [b.least, b.most]).flatten();
        let all = || ends.clone().chain(values.iter().flat_map(|v| v.iter().copied()));
        let (least, most) = (all().min()?, all().max()?);
        // One place alone stands in the middle.
        let size = if most > least { most - least } else { least.abs().max(1000) };
        let margin = (size * MARGIN / 100).max(1);
        let from = if most > least { least - margin } else { least - size / 2 };
        let span = if most > least { size + 2 * margin } else { size };
        Some(Scale { from, span })
    }
    /// A place in per mille of the row.
    fn place(&self, value: i64) -> i64 {
        ((value - self.from) * 1000 / self.span).clamp(0, 1000)
    }
    fn band(&self, bounds: Bounds) -> String {
        let (from, to) = (
            bounds.least.map_or(0, |least| self.place(least)),
            bounds.most.map_or(1000, |most| self.place(most)),
        );
        // A bound that is one number is seen all the same.
        let (from, to) = if to - from < 12 { (from - 6, from + 6) } else { (from, to) };
        format!(
            "<i class=\"band\" style=\"left:{}%;width:{}%\"></i>",
            tenths(from),
            tenths(to - from)
        )
    }
    fn dot(&self, class: &str, value: i64) -> String {
        format!("<i class=\"{class}\" style=\"left:{}%\"></i>", tenths(self.place(value)))
    }
}

/// Per mille as per cent.
fn tenths(mille: i64) -> String {
    crate::round::decimals(mille.into(), 1)
}

impl Claim {
    /// What is drawn of it.
    fn track(&self) -> String {
        let others = || self.under.iter().skip(1);
        let mut values: Vec<&[i64]> = others().map(|answer| &answer.values[..]).collect();
        values.push(&self.values);
        let Some(scale) = Scale::of(&self.bounds, &values) else { return String::new() };
        let mut out: String = self.bounds.iter().map(|bounds| scale.band(*bounds)).collect();
        for answer in others() {
            answer.values.iter().for_each(|value| out += &scale.dot("ring", *value));
        }
        self.values.iter().for_each(|value| out += &scale.dot("dot", *value));
        out
    }

    /// What came out: under the first condition that agrees, else under the study's own.
    fn shown(&self) -> (&str, Option<&str>) {
        let agrees = self.under.iter().find(|answer| answer.verdict == Verdict::Agrees);
        match agrees {
            Some(answer) => (&answer.here, Some(&answer.condition)),
            None => (&self.here, None),
        }
    }

    fn row(&self, study: &Study, name: &str) -> String {
        let ((class, mark), (here, condition)) = (Outcome::of(self).marks(), self.shown());
        let under = condition.map_or(String::new(), |id| format!(" (condition {id})"));
        let said = format!(
            "{}, {}. The paper: {}. Here: {here}{under}; {}.",
            self.figure,
            self.what,
            self.paper,
            match &self.expect {
                Some(expect) => format!("agrees if {expect}"),
                None => self.verdict.name().to_string(),
            }
        );
        let to = study.place_of(self, condition).map_or(name.to_string(), |id| id_of(name, &id));
        format!(
            "<a class=\"number {class}\" href=\"#{}\" title=\"{}\"><b>{mark}</b><span class=\"what\">{} \
             <small>{}</small></span><span class=\"paper\">{}</span><span class=\"track\">{}</span>\
             <span class=\"here\">{}</span></a>",
            escape(&to),
            escape(&said),
            escape(&self.figure),
            escape(&self.what),
            escape(&self.paper),
            self.track(),
            escape(here)
        )
    }
}

/// The id of a part of a page.
pub(super) fn id_of(name: &str, part: &str) -> String {
    if name.is_empty() { part.to_string() } else { format!("{name}-{part}") }
}

impl Study {
    /// The part of the page that a claim's number stands in.
    fn place_of(&self, claim: &Claim, condition: Option<&str>) -> Option<String> {
        let id = claim.metric.as_deref()?.split('[').next()?;
        let all = || self.sections.iter().filter(|section| section.id == id);
        let under = all().find(|section| section.condition.as_deref() == condition);
        under.or_else(|| all().next()).map(|section| section.anchor())
    }

    /// How many of its numbers come out, and under which conditions.
    fn score(&self) -> String {
        let out = self.count(Outcome::Agrees) + self.count(Outcome::Elsewhere);
        let mut text = format!("{out} of {} come out", self.claims.len());
        let of = |id: &str| {
            let agrees = |claim: &&Claim| {
                claim.under.iter().any(|a| a.condition == id && a.verdict == Verdict::Agrees)
            };
            format!("{id} {}", self.claims.iter().filter(agrees).count())
        };
        if self.conditions.len() > 1 {
            let each: Vec<String> = self.conditions.iter().map(|c| of(&c.id)).collect();
            let _ = write!(text, " ({})", each.join(", "));
        }
        text
    }

    /// All numbers of the paper; nothing for a study without.
    pub(super) fn dumbbells(&self, name: &str) -> String {
        if self.claims.is_empty() {
            return String::new();
        }
        let rows: String = self.claims.iter().map(|claim| claim.row(self, name)).collect();
        format!(
            "<section class=\"numbers\"><h3><a href=\"#{}\">{}</a> <small>{}</small></h3>{rows}</section>",
            escape(name),
            escape(&self.title),
            escape(&self.score())
        )
    }
}

/// What the marks mean.
pub(super) const LEGEND: &str = "<p class=\"marks\"><span><i class=\"band\"></i> agrees with the paper</span> \
    <span><i class=\"dot\"></i> here, under the study's own condition</span> \
    <span><i class=\"ring\"></i> under another condition</span> \
    <span><b>●</b> comes out</span> <span><b>◐</b> under another condition</span> <span><b>○</b> differs</span> \
    <span><b>–</b> not repeated at this scale</span></p>";

#[cfg(test)]
mod tests {
    use super::super::{Answer, Condition, Section, Table};
    use super::*;
    use crate::round::quotient;
    use crate::values;

    fn bounds(least: Option<i64>, most: Option<i64>) -> Bounds {
        Bounds { least, most }
    }

    #[test]
    fn bands_and_dots_stand_in_the_row_by_their_numbers() {
        let scale = Scale::of(&[bounds(Some(1000), Some(2000))], &[&[3000]]).expect("something");
        // From 800 to 3200.
        assert_eq!([1000, 2000, 3000].map(|value| scale.place(value)), [83, 500, 916]);
        assert_eq!(
            scale.band(bounds(Some(1000), None)),
            "<i class=\"band\" style=\"left:8.3%;width:91.7%\"></i>"
        );
        assert_eq!(scale.dot("dot", 3000), "<i class=\"dot\" style=\"left:91.6%\"></i>");
        let alone = Scale::of(&[bounds(Some(4000), Some(4000))], &[]).expect("something");
        assert_eq!(alone.place(4000), 500);
        assert!(alone.band(bounds(Some(4000), Some(4000))).contains("width:1.2%"));
        assert!(Scale::of(&[], &[&[]]).is_none());
    }

    fn study() -> Study {
        let section = || {
            let mut table = Table::new([("stack", "stack"), ("mb_s", "MB/s")]);
            table.row(values!["log", quotient(21, 2, 1)]);
            Section::new("fig9", "Fig. 9", "", table)
        };
        let conditions = vec![Condition::new("own", "w", "s"), Condition::new("b", "w", "s")];
        let sections = vec![section(), section().under(&conditions[1])];
        let mut study = Study { conditions, sections, title: "P".into(), ..Study::default() };
        for (figure, values) in [("Fig 9", [5_000, 12_000]), ("Fig 10", [5_000, 6_000])] {
            study.claim((figure, "<rate>"), "above 10", "5.0", Verdict::Differs, "");
            let claim = &mut study.claims.last_mut().expect("a claim");
            claim.metric = Some("fig9[stack=log].mb_s".into());
            claim.bounds = vec![bounds(Some(10_000), None)];
            claim.values = vec![values[0]];
            let answer = |(id, value): (&str, i64)| Answer {
                condition: id.to_string(),
                here: format!("{}.0", value / 1000),
                values: vec![value],
                verdict: Verdict::of(value >= 10_000),
            };
            claim.under = ["own", "b"].into_iter().zip(values).map(answer).collect();
        }
        study.claim(("Fig 11", "none"), "p", "-", Verdict::NotRepeated, "");
        study
    }

    #[test]
    fn each_number_has_a_row_that_leads_to_its_table() {
        let html = study().dumbbells("one");
        assert_eq!(html.matches("class=\"number ").count(), 3);
        assert!(html.contains("1 of 3 come out (own 0, b 1)"), "{html}");
        assert!(html.contains("elsewhere\" href=\"#one-fig9-b\""), "{html}");
        assert!(html.contains("differs\" href=\"#one-fig9\""), "{html}");
        assert!(html.contains("absent\" href=\"#one\"") && html.contains("&lt;rate&gt;"), "{html}");
        assert_eq!((html.matches("\"dot\"").count(), html.matches("\"ring\"").count()), (2, 2));
        let page = study().html("0");
        assert!(page.contains("id=\"fig9-b\"") && page.contains("href=\"#fig9-b\""), "{page}");
    }
}
