//! What of the gain on a map of 16 KiB units is programs that are spared, and what is reads that need not
//! wait (not in the paper).

use super::cell::{Cell, run_all};
use super::drives::STACKS;
use super::matrix::random;
use super::{Options, Size, section};
use crate::text::{change, rate, ratio};
use lab::LabError;
use report::study::{Condition, Study, Table};
use report::values;

/// Which operation a die serves next.
const ORDERS: [&str; 2] = ["in-order", "read-first"];

pub(super) fn run(
    options: &Options,
    condition: &Condition,
    study: &mut Study,
) -> Result<(), LabError> {
    let size = Size::of(condition, options);
    let mut cells: Vec<Cell> = Vec::new();
    for order in ORDERS {
        for (_, stack) in STACKS {
            cells.push(random(&size.drives[0], size, stack).with("drive.sched", order));
        }
    }
    let found = run_all(&cells, options.threads)?;
    let mut table = Table::new([
        ("sched", "next of a die"),
        ("stack", "stack"),
        ("mb_s", "MB/s"),
        ("against_pass_through", "against pass-through"),
        ("wa_both", "WA both"),
    ]);
    for (order, three) in ORDERS.iter().zip(found.chunks(STACKS.len())) {
        for ((name, _), here) in STACKS.iter().zip(three) {
            table.row(values![
                *order,
                *name,
                rate(here.rate()),
                change(here.rate(), three[0].rate()),
                ratio(here.amplification().whole())
            ]);
        }
    }
    study.sections.push(
        section(
            "coarse",
            "Random writes on a map of 16 KiB units, by what a die serves next (not in the paper)",
            "A write of 4 KiB reads the rest of its unit before it programs four blocks. In order, that read \
             waits for programs of other writes; with reads first it does not.",
            table,
        )
        .under(condition),
    );
    Ok(())
}
