//! Figs 10 to 12: reads, overwrites with appends, and both; and what the paper leaves out, reading
//! in order what was written at random.

use block::Op;

use super::cell::{Cell, run_all};
use super::drives::{Mapping, STACKS};
use super::matrix::{blocks, stacked};
use super::{Options, Size, section};
use crate::text::{change, micros, rate};
use lab::LabError;
use report::study::{Condition, Plot, Section, Study, Table, Value};
use report::values;

/// (figure, what, recipe of the measured part): the file is there before.
const LOADS: [(&str, &str, &str); 5] = [
    ("Fig 10", "random reads", "rw=randread,norandommap=on"),
    ("Fig 10", "sequential reads", "rw=read"),
    ("Fig 11", "overwrites at random", "rw=randwrite,norandommap=on"),
    ("Fig 11", "appends", "rw=write"),
    ("Fig 12", "half reads, half overwrites, at random", "rw=randrw,rwmixread=50,norandommap=on"),
];

fn written(size: Size, stack: &str, mapping: &Mapping) -> (Cell, u64) {
    let Size { mib, read_fill: fill, .. } = size;
    let blocks = blocks(mib, fill);
    let whole = format!("rw=write,bs=1MiB,size={}KiB,count={}", blocks * 4, blocks / 256);
    (stacked(mapping, mib, stack, fill).after(&whole), blocks)
}

fn cell(size: Size, stack: &str, recipe: &str, mapping: &Mapping) -> Cell {
    let (cell, blocks) = written(size, stack, mapping);
    cell.load(&format!("{recipe},bs=4KiB,size={}KiB,count={blocks}", blocks * 4))
}

/// Random overwrites of the whole file, then it is read from end to end in 128 KiB requests.
fn after_random(size: Size, stack: &str, order: &str) -> Cell {
    let (mut cell, blocks) = written(size, stack, &size.drives[0]);
    if stack == "log" {
        cell = cell.with("remap.gc.order", order);
    }
    let size = blocks * 4;
    cell.after(&format!("rw=randwrite,norandommap=on,bs=4KiB,size={size}KiB,count={}", 2 * blocks))
        .load(&format!("rw=read,bs=128KiB,size={size}KiB,count={}", blocks / 32))
}

pub(super) fn run(
    options: &Options,
    condition: &Condition,
    study: &mut Study,
) -> Result<(), LabError> {
    let size = Size::of(condition, options);
    let mut cells = Vec::new();
    let mut names = Vec::new();
    for (figure, what, recipe) in LOADS {
        for mapping in size.drives {
            for (name, stack) in STACKS {
                names.push([figure, what, mapping.name, name]);
                cells.push(cell(size, stack, recipe, mapping));
            }
        }
    }
    let found = run_all(&cells, options.threads)?;
    let mut table = Table::new([
        ("figure", "figure"),
        ("what", "what"),
        ("drive", "drive"),
        ("stack", "stack"),
        ("mb_s", "MB/s"),
        ("against_pass_through", "against pass-through"),
        ("p99_read_us", "p99 read us"),
        ("p99_write_us", "p99 write us"),
    ]);
    for (names, three) in names.chunks(3).zip(found.chunks(3)) {
        for (name, here) in names.iter().zip(three) {
            let mut row: Vec<Value> = name.iter().map(|n| Value::from(*n)).collect();
            row.extend(values![
                rate(here.rate()),
                change(here.rate(), three[0].rate()),
                micros(here.percentile(Op::Read, 9900)),
                micros(here.percentile(Op::Write, 9900))
            ]);
            table.row(row);
        }
    }
    let mut drives = size.drives.iter().map(|mapping| mapping.name);
    let found = drives.try_fold(
        section(
            "fig10", "Figs 10 to 12: reads, writes, and both",
            "FFSB's operations as fio's: a file that fills 70 % of the drive, or as much as the condition says, written in order before; 4 KiB \
             requests. Looking an address up costs no device time, so reads differ by where the blocks lie.",
            table,
        ),
        |section, drive| {
            let plot = Plot::bars(&format!("MB/s, {drive}"), "what", ["mb_s"]);
            section.plot(plot.by("stack").only("drive", drive))
        },
    )?;
    study.sections.push(found.under(condition));
    if size.mib == options.scale.mib() {
        study.sections.push(in_order(options)?);
    }
    Ok(())
}

/// What a log loses: order.
fn in_order(options: &Options) -> Result<Section, LabError> {
    let rows = [
        ("pass-through", "off", "pba"),
        ("paper", "paper-log", "pba"),
        ("varve, blocks moved as they lie", "log", "pba"),
        ("varve, blocks moved in the host's order", "log", "lba"),
    ];
    let size = Size::own(options);
    let cells: Vec<Cell> =
        rows.iter().map(|(_, stack, order)| after_random(size, stack, order)).collect();
    let found = run_all(&cells, options.threads)?;
    let mut table = Table::new([
        ("stack", "stack"),
        ("mb_s", "MB/s"),
        ("against_pass_through", "against pass-through"),
        ("mean_us", "mean us"),
        ("p99_us", "p99 us"),
    ]);
    for ((name, ..), here) in rows.iter().zip(&found) {
        table.row(values![
            *name,
            rate(here.rate()),
            change(here.rate(), found[0].rate()),
            micros(here.mean(Op::Read)),
            micros(here.percentile(Op::Read, 9900))
        ]);
    }
    Ok(section(
        "reads_after",
        "Sequential reads after random writes (not in the paper)",
        "The file is overwritten at random twice, then read from end to end in requests of 128 KiB, 32 \
         in flight, full map.",
        table,
    ))
}
