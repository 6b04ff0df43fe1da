//! Write amplification of the host log alone against fill: the closed form of greedy cleaning.

use super::super::{Check, Study, Table};
use super::cell::{Cell, run_all};
use super::drives::MAPPINGS;
use super::text::ratio;
use super::{Options, Scale, section};
use crate::LabError;

/// (fill of the log's segments in per cent, write amplification in thousandths): fill =
/// (u - 1) / ln u, amplification 1 / (1 - u), u the live share of a victim.
const FORMULA: [(u64, u64); 6] =
    [(50, 1255), (60, 1480), (70, 1876), (80, 2693), (90, 5179), (95, 10_170)];

const POLICIES: [&str; 5] = ["greedy", "cost-benefit", "age-threshold", "fifo", "random"];

fn cell(mib: u64, policy: &str, fill: u64) -> Cell {
    // Whole MiB, as the segments are; small segments, so that there are many.
    let blocks = (mib * fill / 100) * 256;
    let size = blocks * 4;
    let random = format!("rw=randwrite,norandommap=on,bs=4KiB,size={size}KiB");
    MAPPINGS[0]
        .drive(mib)
        .with("remap.mode", "varve")
        .with("remap.reserve", "5")
        .with("remap.segment", "256 KiB")
        .with("remap.gc.policy", policy)
        .after(&format!("rw=write,bs=1MiB,size={size}KiB,count={}", blocks / 256))
        .after(&format!("{random},count={}", 4 * blocks))
        .load(&format!("{random},count={}", 2 * blocks))
}

pub(super) fn run(options: &Options, study: &mut Study) -> Result<(), LabError> {
    let mib = options.scale.mib();
    let fills: &[u64] = match options.scale {
        Scale::Quick => &[50, 80],
        Scale::Default => &[50, 60, 70, 80, 90],
    };
    let cells: Vec<Cell> = fills
        .iter()
        .flat_map(|fill| POLICIES.map(|policy| cell(mib, policy, *fill)))
        .collect();
    let found = run_all(&cells, options.threads)?;
    let mut heads = vec!["fill".to_string(), "formula, greedy".to_string()];
    heads.extend(POLICIES.map(str::to_string));
    heads.extend(["greedy, copies alone".to_string(), "headers, map and roots".to_string()]);
    let mut table = Table::new(heads);
    for (fill, row) in fills.iter().zip(found.chunks(POLICIES.len())) {
        let formula = FORMULA.iter().find(|(f, _)| f == fill).map_or(0, |(_, wa)| *wa);
        let mut cells = vec![format!("{fill} %"), ratio((formula, 1000))];
        cells.extend(row.iter().map(|m| ratio(m.host_waf())));
        let user = row[0].count("user").max(1);
        let copies = (row[0].count("user") + row[0].count("gc"), user);
        let other = row[0].count("header") + row[0].count("meta") + row[0].count("root");
        cells.extend([ratio(copies), ratio((other, user))]);
        table.row(cells);
        if *fill == 80 {
            let off = |a: (u64, u64)| (a.0 * 1000 / a.1).abs_diff(formula) * 1000 / formula;
            study.checks.push(Check {
                what: "greedy at 80 % fill: copies within 5 % of the closed form".to_string(),
                found: format!("{} against {}", ratio(copies), ratio((formula, 1000))),
                holds: off(copies) <= 50,
            });
        }
    }
    study.sections.push(section(
        "Write amplification of the host log against fill",
        "Uniform random 4 KiB overwrites, segments of 256 KiB; fill is live data to the drive's logical \
         space, of which headers, roots and open segments take a part.",
        table,
    ));
    Ok(())
}
