//! The numbers that the text of paper 3 gives, from W1 to W14 here, as sections of the study: its
//! statements name them there.

use super::mixes::{AOI, SIZES};
use super::{STORE, TARGET, find, share, times};
use lab::hits::HitRow;
use report::round::nearest;
use report::study::{Condition, Number, Section, Study, Table, Value};
use report::values;

/// The counts of the workloads, by name.
pub struct Counted<'a> {
    pub names: Vec<&'static str>,
    pub rows: &'a [Vec<HitRow>],
}

/// A figure in hundredths, and where it was found.
type Found = (u64, &'static str, u64);

impl Counted<'_> {
    fn of(&self, name: &str, policy: &str, mib: u64) -> Option<&HitRow> {
        let at = self.names.iter().position(|n| *n == name)?;
        find(&self.rows[at], policy, mib)
    }

    fn hits(&self, name: &str, policy: &str, mib: u64, app: Option<usize>) -> (u64, u64) {
        self.of(name, policy, mib).map_or((0, 0), |row| row.accesses(app))
    }

    /// Target hits of isolation for each of VBBMS.
    fn ratio(&self, name: &str, mib: u64) -> u64 {
        let hits = |policy| self.hits(name, policy, mib, Some(TARGET)).1;
        hundredths(hits(AOI), hits("vbbms"))
    }

    fn percent(&self, name: &str, mib: u64, app: Option<usize>) -> u64 {
        let (units, hits) = self.hits(name, AOI, mib, app);
        hundredths(hits * 100, units)
    }

    /// The least and the most of a figure over workloads and sizes.
    fn range(
        &self,
        names: &[&'static str],
        figure: impl Fn(&Self, &str, u64) -> u64,
    ) -> (Found, Found) {
        let all = || {
            let sizes = |name: &&'static str| {
                let name = *name;
                SIZES.map(|mib| (figure(self, name, mib), name, mib))
            };
            names.iter().flat_map(sizes)
        };
        let none = (0, "", 0);
        (all().min().unwrap_or(none), all().max().unwrap_or(none))
    }

    /// Target misses of isolation for each of VBBMS.
    fn misses(&self, name: &str, mib: u64) -> Value {
        let misses = |policy| {
            let (units, hits) = self.hits(name, policy, mib, Some(TARGET));
            units - hits
        };
        times(misses(AOI), misses("vbbms"))
    }
}

/// `n / d` in hundredths, to the nearest.
fn hundredths(n: u64, d: u64) -> u64 {
    let found = nearest(i128::from(n) * 100, i128::from(d.max(1)));
    found.and_then(|n| u64::try_from(n).ok()).unwrap_or(u64::MAX)
}

fn decimals(hundredths: u64) -> Number {
    Number::new(i64::try_from(hundredths).unwrap_or(i64::MAX), 2)
}

const LOADS: [&str; 7] = ["W1", "W2", "W3", "W4", "W5", "W6", "W7"];
const RUNS: [&str; 7] = ["W8", "W9", "W10", "W11", "W12", "W13", "W14"];

/// The paper's numbers, from the counts of W1 to W14 under a condition.
pub(super) fn sections(c: &Counted<'_>, condition: &Condition, study: &mut Study) {
    let all: Vec<&'static str> = LOADS.into_iter().chain(RUNS).collect();
    for section in [ranges(c, &all), gain(c, &all), w5(c), against_two_level(c), misses(c)] {
        study.sections.push(section.under(condition));
    }
}

/// From where to where a figure goes.
fn ranges(c: &Counted<'_>, all: &[&'static str]) -> Section {
    let mut table = Table::new([
        ("number", "number"),
        ("least", "least"),
        ("least_at", "where"),
        ("most", "most"),
        ("most_at", "where"),
    ]);
    let mut row = |number: &str, (least, most): (Found, Found)| {
        let at = |(_, name, mib): Found| format!("{name}, {mib} MiB");
        table.row(values![number, decimals(least.0), at(least), decimals(most.0), at(most)]);
    };
    row("store hits, load, %", c.range(&LOADS, |c, w, mib| c.percent(w, mib, Some(STORE))));
    row("store hits, run, %", c.range(&RUNS, |c, w, mib| c.percent(w, mib, Some(STORE))));
    row("target hits, aoi / vbbms", c.range(all, Counted::ratio));
    row("total hits, %", c.range(all, |c, w, mib| c.percent(w, mib, None)));
    Section::new(
        "ranges",
        "What the text gives: from where to where",
        "Over W1 to W14 and all sizes; hits are those of aoi.",
        table,
    )
}

/// How many gain, and how much on the mean.
fn gain(c: &Counted<'_>, all: &[&'static str]) -> Section {
    let mut table = Table::new([
        ("over", "workloads"),
        ("gain_32", "of which gain at 32 MiB"),
        ("mean_gain_8", "mean gain at 8 MiB"),
    ]);
    let gain = all.iter().filter(|name| c.ratio(name, 32) > 100).count();
    let mean = all.iter().map(|name| c.ratio(name, 8)).sum::<u64>() / all.len() as u64;
    let mean = Number::new(i64::try_from(mean).unwrap_or(i64::MAX) - 100, 0);
    table.row(values!["W1 to W14", gain, mean.per_cent().signed()]);
    Section::new(
        "fig13_gain",
        "What the text gives: how many gain",
        "Target hits of aoi for each of vbbms: above 1.00 is a gain; the mean is that of the ratios.",
        table,
    )
}

/// W5 at 16 MiB, where the paper loses.
fn w5(c: &Counted<'_>) -> Section {
    let mut table = Table::new([
        ("policy", "policy"),
        ("write", "write hits"),
        ("read", "read hits"),
        ("against_vbbms", "target hits against vbbms"),
    ]);
    let hits = |policy: &str| c.hits("W5", policy, 16, Some(TARGET)).1;
    for (name, policy) in [("aoi", AOI), ("vbbms", "vbbms")] {
        let Some(row) = c.of("W5", policy, 16) else { continue };
        let app = &row.apps[TARGET];
        let part = |hits, units| match share(hits, units) {
            Value::Number(number) => Value::Number(number.per_cent()),
            other => other,
        };
        let more =
            i64::try_from(hits(policy)).and_then(|a| i64::try_from(hits("vbbms")).map(|v| a - v));
        let more = more.map_or(Value::Absent, |more| Number::new(more, 0).signed().into());
        let writes = part(app.write_hits, app.write_units);
        table.row(values![name, writes, part(app.read_hits, app.read_units), more]);
    }
    Section::new(
        "fig13_w5",
        "What the text gives: W5 at 16 MiB",
        "Hits of the target's writes and reads; the paper's aoi has fewer than vbbms here.",
        table,
    )
}

/// W5 at 128 MiB against 2-level LRU.
fn against_two_level(c: &Counted<'_>) -> Section {
    let mut table =
        Table::new([("hits", "hits"), ("of_two_level", "aoi / 2-level-lru, W5, 128 MiB")]);
    for (name, app) in [("target", Some(TARGET)), ("total", None)] {
        let hits = |policy| c.hits("W5", policy, 128, app).1;
        table.row(values![name, times(hits(AOI), hits("2-level-lru"))]);
    }
    Section::new("fig14_w5", "What the text gives: W5 at 128 MiB", "", table)
}

/// Fig. 15's target misses.
fn misses(c: &Counted<'_>) -> Section {
    let mut table = Table::new([("w", "W"), ("mib_32", "32 MiB"), ("mib_128", "128 MiB")]);
    for name in ["W3", "W10", "W5", "W12"] {
        table.row(values![name, c.misses(name, 32), c.misses(name, 128)]);
    }
    Section::new(
        "fig15",
        "Fig. 15: target misses of aoi for each of vbbms",
        "prxy_0 is W3 and W10, usr_0 is W5 and W12.",
        table,
    )
}
