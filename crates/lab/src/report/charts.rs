//! The charts of a report: what happened over time, and how long requests took.

use serde_json::Value;

use super::view::View;
use crate::metric::{self, Column, Metric};
use ::report::chart::{Across, Chart, Mark, Scale, Series};

/// Bins of the latency charts for each power of ten.
const BINS: f64 = 12.0;

fn series_of(view: &View<'_>, f: impl Fn(&Value) -> Vec<(f64, Option<f64>)>) -> Vec<Series> {
    let many = view.groups.len() > 1;
    let of = |run: &super::view::Run<'_>| {
        let seeds = view.groups[run.group].runs.len();
        let mut name = if many { view.label(run.group) } else { String::new() };
        if seeds > 1 {
            let gap = if name.is_empty() { "" } else { " " };
            name = format!("{name}{gap}seed {}", run.seed);
        }
        if name.is_empty() {
            name = "value".to_string();
        }
        // The first seed of a group is drawn in full, the others show the spread.
        let faint = seeds > 1 && run.seed != view.runs[view.groups[run.group].runs[0]].seed;
        Series { group: run.group, name, points: f(run.value), faint }
    };
    view.runs.iter().map(of).filter(|s| !s.points.is_empty()).collect()
}

/// How many windows are drawn: all that are full. A run ends inside its last one, which then holds
/// too few requests to stand beside the others: its line would fall or leap where nothing happened.
fn full_windows(value: &Value) -> usize {
    let windows = metric::OVER_READ_UNITS.of(value).len();
    let (all, last) = (metric::WINDOW.of(value), metric::LAST_WINDOW.of(value));
    let partial = matches!((all, last), (Some(all), Some(last)) if last < all);
    windows - usize::from(partial && windows > 1)
}

/// Write amplification, free blocks and tail latency over the run.
pub(super) fn over_time(view: &View<'_>) -> String {
    let timed = view.has(metric::TIME);
    let x_of = |value: &Value| -> Vec<f64> {
        if timed {
            return metric::OVER_TIME.of(value).into_iter().flatten().collect();
        }
        let (mut sum, reads) = (0.0, metric::OVER_READ_UNITS.of(value));
        let writes = metric::OVER_WRITE_UNITS.of(value);
        let both = reads.into_iter().zip(writes);
        both.map(|(r, w)| {
            sum += r.unwrap_or(0.0) + w.unwrap_or(0.0);
            sum
        })
        .collect()
    };
    let across = || match timed {
        true => Across::Numbers(Scale::Time, "virtual time"),
        false => Across::Numbers(Scale::Plain, "4 KiB pages moved"),
    };
    let chart = |title, about, column: Column, y, from_zero| {
        let points = |value: &Value| {
            let drawn = full_windows(value);
            x_of(value).into_iter().zip(column.of(value)).take(drawn).collect()
        };
        let series = series_of(view, points);
        let mark = Mark::Line { fill: view.runs.len() == 1, steps: false };
        Chart { title, about, x: across(), y, mark, from_zero, series }.html()
    };
    let mut out = chart(
        "Write amplification",
        "bytes programmed per byte written, per window",
        metric::OVER_WAF,
        Scale::Plain,
        true,
    );
    let free = "erased blocks, at the end of each window";
    out += &chart("Free blocks", free, metric::OVER_FREE_BLOCKS, Scale::Plain, true);
    let p99 = "99th percentile per window, logarithmic";
    out += &chart("Write latency", p99, metric::OVER_WRITE_P99, Scale::LogTime, false);
    out += &chart("Read latency", p99, metric::OVER_READ_P99, Scale::LogTime, false);
    out
}

/// Samples of a group by bin: the histograms of its seeds added, as shares of all.
fn shares(view: &View<'_>, group: usize, op: Column) -> Vec<(f64, f64)> {
    let mut bins: std::collections::BTreeMap<i64, f64> = std::collections::BTreeMap::new();
    let mut total = 0.0;
    for run in &view.groups[group].runs {
        for (edge, n) in op.pairs(view.runs[*run].value) {
            *bins.entry((edge.max(1.0).log10() * BINS).floor() as i64).or_default() += n;
            total += n;
        }
    }
    let (Some(first), Some(last)) = (bins.keys().next().copied(), bins.keys().next_back().copied())
    else {
        return Vec::new();
    };
    let share = |bin| 100.0 * bins.get(&bin).copied().unwrap_or(0.0) / total;
    // One empty bin on each side, so that the outline stands on the floor.
    (first - 1..=last + 1).map(|bin| (10f64.powf(bin as f64 / BINS), share(bin))).collect()
}

/// Quantile by quantile, from the merged histogram of a group.
fn quantiles(view: &View<'_>, group: usize, op: Column) -> Vec<(f64, Option<f64>)> {
    let mut merged: std::collections::BTreeMap<u64, f64> = std::collections::BTreeMap::new();
    let mut total = 0.0;
    for run in &view.groups[group].runs {
        for (edge, n) in op.pairs(view.runs[*run].value) {
            *merged.entry((edge * 1000.0) as u64).or_default() += n;
            total += n;
        }
    }
    let mut points = Vec::new();
    let (mut seen, mut last) = (0.0, f64::MIN);
    for (edge, n) in merged {
        seen += n;
        // As for percentiles: with fewer than 10 samples beyond, a quantile is not known.
        if total - seen < 10.0 {
            break;
        }
        let q: f64 = seen / total;
        let place = -(1.0 - q).log10();
        if place - last >= 0.01 {
            points.push((q, Some(edge as f64 / 1000.0)));
            last = place;
        }
    }
    points
}

/// Operations whose latencies are drawn: their histograms, counts, and names.
const OPS: [(Column, Metric, &str); 3] = [
    (metric::WRITE_HISTOGRAM, metric::WRITE_COUNT, "Writes"),
    (metric::READ_HISTOGRAM, metric::READ_COUNT, "Reads"),
    (metric::FLUSH_HISTOGRAM, metric::FLUSH_COUNT, "Flushes"),
];

/// How many requests took how long, and the tail.
pub(super) fn latency(view: &View<'_>) -> String {
    let mut out = String::new();
    for (op, count, name) in OPS {
        if !view.has(count) {
            continue;
        }
        let group_series = |points: &dyn Fn(usize) -> Vec<(f64, Option<f64>)>| -> Vec<Series> {
            let of = |group| {
                let many = view.groups.len() > 1;
                let name = if many { view.label(group) } else { "share".to_string() };
                Series { group, name, points: points(group), faint: false }
            };
            (0..view.groups.len()).map(of).collect()
        };
        let density = |group| {
            shares(view, group, op).into_iter().map(|(x, y)| (x, Some(y))).collect::<Vec<_>>()
        };
        let title = format!("{name}: how long they took");
        out += &Chart {
            title: &title,
            about: "share of requests per bin of 1/12 decade",
            x: Across::Numbers(Scale::LogTime, "latency, logarithmic"),
            y: Scale::Percent,
            mark: Mark::Line { fill: view.groups.len() == 1, steps: true },
            from_zero: true,
            series: group_series(&density),
        }
        .html();
        let title = format!("{name}: the tail");
        out += &Chart {
            title: &title,
            about: "latency that so many requests do not exceed",
            x: Across::Numbers(Scale::Nines, "share of requests"),
            y: Scale::LogTime,
            mark: Mark::Line { fill: false, steps: false },
            from_zero: false,
            series: group_series(&|group| quantiles(view, group, op)),
        }
        .html();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_ends_inside_a_window_does_not_draw_it() {
        let document = |last: u64| {
            serde_json::json!({"results": [{
                "params": {"seed": 1},
                "time_ns": 3e9,
                "series": {
                    "time_ns": [1e9, 2e9, 2.1e9],
                    "host_read_units": [0, 0, 0],
                    "host_write_units": [100, 100, 3],
                    "waf": [2.0, 2.0, 0.0],
                    "requests_per_window": 100,
                    "requests_in_last_window": last,
                },
            }]})
        };
        let points = |last| {
            let document = document(last);
            let html = over_time(&View::new(&document));
            let line = html.split("class=\"line").nth(1).unwrap();
            let path = line.split(" d=\"").nth(1).unwrap().split('"').next().unwrap();
            path.matches(['M', 'L']).count()
        };
        assert_eq!(points(3), 2, "the last window is not full");
        assert_eq!(points(100), 3);
    }
}
