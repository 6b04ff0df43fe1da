//! Loads that flush: what a commit costs each stack (the paper has none).

use block::Op;

use super::cell::{Cell, run_all};
use super::drives::{MAPPINGS, STACKS};
use super::matrix::{blocks, stacked};
use super::{Options, section};
use crate::text::{change, micros, rate, ratio};
use lab::LabError;
use report::study::{Plot, Study, Table};
use report::values;

/// Per cent of the drive that is used.
const FILL: u64 = 70;

fn cell(mib: u64, stack: &str, depth: u32, every: u64) -> Cell {
    let blocks = blocks(mib, FILL);
    let size = blocks * 4;
    stacked(&MAPPINGS[0], mib, stack, FILL)
        .after(&format!("rw=write,bs=1MiB,size={size}KiB,count={}", blocks / 256))
        .load(&format!("rw=randwrite,norandommap=on,bs=4KiB,size={size}KiB,count={}", blocks / 4))
        .depth(depth)
        .flush_every(every)
}

pub(super) fn run(options: &Options, study: &mut Study) -> Result<(), LabError> {
    let mib = options.scale.mib();
    let (mut cells, mut names) = (Vec::new(), Vec::new());
    for (depth, every) in [(1, 1), (1, 8), (32, 1), (32, 32)] {
        for (name, stack) in STACKS {
            names.push(values![depth, every, name]);
            cells.push(cell(mib, stack, depth, every));
        }
    }
    let found = run_all(&cells, options.threads)?;
    let mut table = Table::new([
        ("in_flight", "in flight"),
        ("writes_to_a_flush", "writes to a flush"),
        ("stack", "stack"),
        ("mb_s", "MB/s"),
        ("against_pass_through", "against pass-through"),
        ("p99_flush_us", "p99 flush us"),
        ("wa_both", "WA both"),
    ]);
    for (names, three) in names.chunks(3).zip(found.chunks(3)) {
        for (name, here) in names.iter().zip(three) {
            let mut row = name.to_vec();
            row.extend(values![
                rate(here.rate()),
                change(here.rate(), three[0].rate()),
                micros(here.percentile(Op::Flush, 9900)),
                ratio(here.amplification().whole())
            ]);
            table.row(row);
        }
    }
    study.sections.push(section(
        "flushes", "Loads that flush (not in the paper)",
        "Random 4 KiB overwrites with flushes, full map. The paper's rules pass a flush down and keep \
         their log in memory: what they answer so fast is lost by a power cut (plans P1 and P2). The \
         host log writes a header of 4 KiB for each flush: a group of b writes costs b + 1 blocks.",
        table,
    )
    .plot(Plot::bars("MB/s, 32 in flight, by writes to a flush", "writes_to_a_flush", ["mb_s"]).by("stack").only("in_flight", "32"))?
    .plot(Plot::bars("MB/s, one at a time, by writes to a flush", "writes_to_a_flush", ["mb_s"]).by("stack").only("in_flight", "1"))?);
    Ok(())
}
