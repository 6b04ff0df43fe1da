//! Fig. 10 and Table 1: the six workloads of YCSB in NORMAL mode.

use crate::parallel::beside;
use lab::LabError;
use report::study::{Check, Condition, Plot, Section, Study, Table, Value};
use report::values;

use super::experiment::{CPU, Drives, NORMAL, Outcome, load};
use super::paper::{YCSB_NO, YCSB_SW};
use super::text::{change, hundredths, mean, percent};
use super::{SEED, Scale};
use sqlite::workload::ycsb::{Workload, Ycsb};

/// Runs the workloads.
pub fn run(
    scale: Scale,
    threads: usize,
    condition: &Condition,
    study: &mut Study,
) -> Result<(), LabError> {
    let (records, count) = match scale {
        Scale::Quick => (5000, 20_000),
        Scale::Default | Scale::Full => (200_000, 40_000),
    };
    let mut start = Ycsb::new(records, SEED);
    let loaded = load(|db| start.load(db))?;
    let used = Drives::new(scale, threads, 100, condition)?;
    let mut table = Table::new([
        ("workload", "workload"),
        ("wal_op_s", "WAL op/s"),
        ("sw_wal_op_s", "SW-WAL op/s"),
        ("nolgn_op_s", "NoLgn op/s"),
        ("sw_wal", "SW-WAL"),
        ("nolgn", "NoLgn"),
        ("sw_wal_flash_pages", "flash pages SW-WAL"),
        ("nolgn_flash_pages", "NoLgn"),
    ]);
    let (mut sw, mut no) = (Vec::new(), Vec::new());
    use Workload::{A, B, C, D, E, F};
    for workload in [A, B, C, D, E, F] {
        let runs: Vec<Outcome> = beside(threads, &NORMAL, |variant| {
            let mut work = start.clone();
            let drive = used.copy(variant.commit);
            let now = drive.now();
            loaded.run(variant, Box::new(drive), (now, CPU), &mut |db, each| {
                work.run(db, workload, count, SEED, each).map(|_| ())
            })
        })?;
        let faster = |n: usize| change(runs[n].rate(), runs[0].rate());
        let flash = |n: usize| change(runs[n].flash.programs(), runs[0].flash.programs());
        sw.push(faster(1));
        no.push(faster(2));
        table.row(values![
            format!("{workload:?}"),
            hundredths(runs[0].rate(), 1000),
            hundredths(runs[1].rate(), 1000),
            hundredths(runs[2].rate(), 1000),
            percent(faster(1)),
            percent(faster(2)),
            percent(flash(1)),
            percent(flash(2))
        ]);
    }
    let none = Value::Absent;
    let [sw_mean, no_mean] = [&sw, &no].map(|changes| percent(mean(changes)));
    table.row(values!["mean", &none, &none, &none, sw_mean, no_mean, &none, &none]);
    table.row(values!["paper", &none, &none, &none, YCSB_SW, YCSB_NO, &none, &none]);
    study.checks.push(Check {
        what: format!("Fig. 10, {}: A and F gain most, C nothing", condition.id),
        found: no.iter().map(|tenths| percent(*tenths).to_string()).collect::<Vec<_>>().join(", "),
        holds: no[2] == 0 && no[0].min(no[5]) > no[1].max(no[3]).max(no[4]),
    });
    study.sections.push(
        Section::new(
            "fig10",
            "Fig. 10 and Table 1: YCSB, NORMAL mode, on the drive",
            format!(
                "{records} records of 10 fields of 100 B, {count} operations. A 50 % read, 50 % \
             update; B 95/5; C read only; D 95 % read, 5 % insert, latest; E 95 % scan, 5 % \
             insert; F 50 % read, 50 % read-modify-write; zipfian but for D. Reads find the \
             database in the host's page cache."
            ),
            table,
        )
        .plot(Plot::bars("operations/s", "workload", ["wal_op_s", "sw_wal_op_s", "nolgn_op_s"]))?
        .under(condition),
    );
    Ok(())
}
