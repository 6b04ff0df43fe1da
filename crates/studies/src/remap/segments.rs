//! Log on log: what the size of the host's segments is to the drive's lines.

use super::cell::{Cell, run_all};
use super::drives::{MAPPINGS, line_kib};
use super::matrix::blocks;
use super::{Options, section};
use crate::text::{change, rate, ratio};
use lab::LabError;
use report::study::{Plot, Study, Table, Value};
use report::values;

/// Per cent of the drive that is used.
const FILL: u64 = 70;

/// Segments in eighths of a line.
const EIGHTHS: [u64; 5] = [1, 2, 4, 8, 16];

fn cell(mib: u64, mapping: usize, segment: Option<u64>, discard: &str) -> Cell {
    let blocks = blocks(mib, FILL);
    let size = blocks * 4;
    let random = format!("rw=randwrite,norandommap=on,bs=4KiB,size={size}KiB");
    let mut cell = MAPPINGS[mapping].drive(mib);
    if let Some(kib) = segment {
        cell = cell
            .with("remap.mode", "log")
            .with("remap.segment", format!("{kib} KiB"))
            .with("remap.discard", discard);
    }
    cell.after(&format!("rw=write,bs=1MiB,size={size}KiB,count={}", blocks / 256))
        .after(&format!("{random},count={}", 2 * blocks))
        .load(&format!("{random},count={blocks}"))
}

pub(super) fn run(options: &Options, study: &mut Study) -> Result<(), LabError> {
    let (mib, line) = (options.scale.mib(), line_kib(options.scale.mib()));
    let (mut cells, mut names) = (Vec::new(), Vec::new());
    for mapping in [0, 3] {
        let drive = MAPPINGS[mapping].name;
        names.push([drive.to_string(), "pass-through".to_string(), "-".to_string()]);
        cells.push(cell(mib, mapping, None, "on"));
        for eighths in EIGHTHS {
            for discard in ["on", "off"] {
                let kib = line * eighths / 8;
                names.push([drive.to_string(), format!("{kib} KiB"), discard.to_string()]);
                cells.push(cell(mib, mapping, Some(kib), discard));
            }
        }
    }
    let found = run_all(&cells, options.threads)?;
    let mut table = Table::new([
        ("drive", "drive"),
        ("segment", "segment"),
        ("discards", "discards"),
        ("mb_s", "MB/s"),
        ("against_pass_through", "against pass-through"),
        ("wa_host", "WA host"),
        ("wa_drive", "WA drive"),
        ("wa_both", "WA both"),
    ]);
    let rows = 1 + 2 * EIGHTHS.len();
    for (names, found) in names.chunks(rows).zip(found.chunks(rows)) {
        for (name, here) in names.iter().zip(found) {
            let mut row: Vec<Value> = name.iter().map(Value::from).collect();
            row.extend(values![
                rate(here.rate()),
                change(here.rate(), found[0].rate()),
                ratio(here.amplification().above()),
                ratio(here.amplification().drive()),
                ratio(here.amplification().whole())
            ]);
            table.row(row);
        }
    }
    study.sections.push(section(
        "log_on_log", "Log on log: the host's segments and the drive's lines (not in the paper)",
        format!(
            "Uniform random 4 KiB overwrites of a file that fills 70 % of the drive, whose lines have \
             {line} KiB. Discards tell the drive which segments are free: without them it copies what \
             the host has given up."
        ),
        table,
    )
    .plot(Plot::bars("write amplification, map in DRAM", "segment", ["wa_host", "wa_drive"]).only("drive", "full map").only("discards", "on"))?
    .plot(Plot::bars("MB/s with discards", "segment", ["mb_s"]).by("drive").only("discards", "on"))?);
    Ok(())
}
