//! Write amplification of the host log alone against fill: the closed form of greedy cleaning.

use super::cell::{Cell, Measured, run_all};
use super::drives::{MAPPINGS, line_kib};
use super::{Options, Scale, section};
use crate::text::ratio;
use lab::LabError;
use report::study::{Check, Plot, Study, Table};
use report::values;

const POLICIES: [&str; 5] = ["greedy", "cost-benefit", "age-threshold", "fifo", "random"];

fn cell(mib: u64, policy: &str, fill: u64) -> Cell {
    let blocks = (mib * fill / 100) * 256;
    let size = blocks * 4;
    let random = format!("rw=randwrite,norandommap=on,bs=4KiB,size={size}KiB");
    MAPPINGS[0]
        .drive(mib)
        .with("remap.mode", "log")
        .with("remap.reserve", "5")
        .with("remap.segment", format!("{} KiB", line_kib(mib) / 2))
        .with("remap.gc.victim", policy)
        .after(&format!("rw=write,bs=1MiB,size={size}KiB,count={}", blocks / 256))
        .after(&format!("{random},count={}", 4 * blocks))
        .load(&format!("{random},count={}", 2 * blocks))
}

/// Live blocks to the blocks of data that all segments in use can hold: each has one header, and
/// the free ones hold nothing.
fn effective(m: &Measured) -> (u64, u64) {
    let used = m.count("segments").saturating_sub(m.count("free_segments"));
    (m.count("mapped"), (used * (m.count("segment_blocks") - 1)).max(1))
}

/// Write amplification of greedy cleaning under uniform random writes, in thousandths: fill =
/// (u - 1) / ln u, amplification 1 / (1 - u), with u the live share of a victim.
fn formula((live, room): (u64, u64)) -> u64 {
    let fill = live as f64 / room as f64;
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..60 {
        let u: f64 = (low + high) / 2.0;
        match (u - 1.0) / libm::log(u) < fill {
            true => low = u,
            false => high = u,
        }
    }
    (1000.0 / (1.0 - low)) as u64
}

/// The column of the closed form.
const CLOSED: &str = "closed_form";

pub(super) fn run(options: &Options, study: &mut Study) -> Result<(), LabError> {
    let mib = options.scale.mib();
    let fills: &[u64] = match options.scale {
        Scale::Quick => &[50, 80],
        Scale::Default | Scale::Full => &[50, 60, 70, 80, 90],
    };
    let cells: Vec<Cell> =
        fills.iter().flat_map(|fill| POLICIES.map(|policy| cell(mib, policy, *fill))).collect();
    let found = run_all(&cells, options.threads)?;
    let names = [
        ("drive_full", "drive full"),
        ("log_full", "log full"),
        (CLOSED, "closed form, greedy"),
        ("copies", "greedy, copies alone"),
    ];
    let policies = POLICIES.map(|policy| (policy, policy));
    let other = [("other", "headers, map, roots")];
    let mut table = Table::new(names.into_iter().chain(policies).chain(other));
    for (fill, row) in fills.iter().zip(found.chunks(POLICIES.len())) {
        let greedy = &row[0];
        let (share, expected) = (effective(greedy), formula(effective(greedy)));
        let user = greedy.count("user").max(1);
        let copies = (greedy.count("user") + greedy.count("gc"), user);
        let other = greedy.count("header") + greedy.count("meta") + greedy.count("root");
        let mut cells =
            values![format!("{fill} %"), format!("{} %", share.0 * 100 / share.1)].to_vec();
        cells.extend([ratio((expected, 1000)), ratio(copies)]);
        cells.extend(row.iter().map(|m| ratio(m.amplification().above())));
        cells.push(ratio((other, user)));
        table.row(cells);
        if *fill == 80 {
            let off = (copies.0 * 1000 / copies.1).abs_diff(expected) * 1000 / expected;
            study.checks.push(Check {
                what: "greedy on a drive 80 % full: copies within 5 % of the closed form"
                    .to_string(),
                found: format!("{} against {}", ratio(copies), ratio((expected, 1000))),
                holds: off <= 50,
            });
        }
    }
    let drawn = [CLOSED, "greedy", "cost-benefit", "age-threshold", "fifo"];
    study.sections.push(section(
        "amplification", "Write amplification of the host log against fill",
        "Uniform random 4 KiB overwrites, segments of half a line. Log full: live blocks to what segments \
         that are not free can hold beside their headers, at the end; the closed form is of that.",
        table,
    )
    .plot(Plot::lines("write amplification of the host log", "drive_full", drawn))?);
    Ok(())
}
