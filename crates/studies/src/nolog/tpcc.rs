//! Fig. 11: TPC-C at several free spaces of the drive.

use crate::parallel::beside;
use lab::LabError;
use report::study::{Check, Condition, Plot, Section, Study, Table, Value};
use report::values;

use super::experiment::{CPU, Drives, FULL, NORMAL, Outcome, load};
use super::paper::{TPCC_NO, TPCC_SW};
use super::text::{change, hundredths, mean, percent};
use super::{SEED, Scale as Amount};
use sqlite::workload::tpcc::{Done, Mix, Scale, Tpcc, broken};

/// New orders a minute.
fn tpmc(done: &Done, outcome: &Outcome) -> u64 {
    let ps = u128::from(outcome.tally.total.as_ps().max(1));
    (u128::from(done.new_orders) * 60 * 1_000_000_000_000 / ps) as u64
}

/// Runs the free spaces.
pub fn run(
    amount: Amount,
    threads: usize,
    condition: &Condition,
    study: &mut Study,
) -> Result<(), LabError> {
    let (scale, count, free) = match amount {
        Amount::Quick => (Scale::reduced(4, 30), 1500, &[75, 25][..]),
        Amount::Default | Amount::Full => (Scale::full(4), 5_000, &[75, 62, 50, 37, 25][..]),
    };
    let start = Tpcc::new(scale, Mix::Deck, SEED);
    let loaded = load(|db| start.load(db))?;
    let mut table = Table::new([
        ("free", "free"),
        ("mode", "mode"),
        ("wal_tpmc", "WAL tpmC"),
        ("sw_wal_tpmc", "SW-WAL tpmC"),
        ("nolgn_tpmc", "NoLgn tpmC"),
        ("sw_wal", "SW-WAL"),
        ("nolgn", "NoLgn"),
        ("barrier", "NoLgn, barrier"),
        ("pages", "pages a transaction, NoLgn"),
        ("waf", "waf"),
    ]);
    let mut gains: [[Vec<i64>; 3]; 2] = Default::default();
    let mut faults = Vec::new();
    for percent_free in free {
        let used = Drives::new(amount, threads, 100 - percent_free, condition)?;
        let full = [FULL[0], FULL[1], FULL[2], FULL[6]];
        for (variants, mode) in [(&full[..], "FULL"), (&NORMAL[..], "NORMAL")] {
            let runs = beside(threads, variants, |variant| {
                let (mut work, mut done, mut found) = (start.clone(), Done::default(), Vec::new());
                let drive = used.copy(variant.commit);
                let now = drive.now();
                let device = Box::new(drive);
                let outcome = loaded.run(variant, device, (now, CPU), &mut |db, each| {
                    done = work.run(db, count, each)?;
                    found = broken(db)?;
                    Ok(())
                })?;
                Ok((tpmc(&done, &outcome), outcome, found))
            })?;
            faults.extend(
                runs.iter().flat_map(|(_, _, found)| found.iter().map(ToString::to_string)),
            );
            let faster = |n: usize| change(runs[n].0, runs[0].0);
            let barrier = (runs.len() > 3).then(|| faster(3));
            let found = [Some(faster(1)), Some(faster(2)), barrier];
            for (list, gain) in gains[usize::from(mode == "FULL")].iter_mut().zip(found) {
                list.extend(gain);
            }
            let last = &runs[2].1;
            table.row(values![
                format!("{percent_free} %"),
                mode,
                runs[0].0,
                runs[1].0,
                runs[2].0,
                percent(faster(1)),
                percent(faster(2)),
                barrier.map(percent),
                hundredths(last.tally.pages(), last.operations),
                hundredths(last.flash.programs(), last.flash.host)
            ]);
        }
    }
    for (mode, [sw, no, barrier]) in ["NORMAL", "FULL"].into_iter().zip(&gains) {
        let none = Value::Absent;
        let means = values![percent(mean(sw)), percent(mean(no))];
        let waiting = (!barrier.is_empty()).then(|| percent(mean(barrier)));
        let row = values!["mean", mode, &none, &none, &none].into_iter().chain(means);
        table.row(row.chain(values![waiting, &none, &none]));
        let texts = |list: &[i64]| {
            list.iter().map(|tenths| percent(*tenths).to_string()).collect::<Vec<_>>().join(", ")
        };
        study.checks.push(Check {
            what: format!(
                "Fig. 11, {mode}, {}: NoLgn gains more than SW-WAL, and most with least free space",
                condition.id
            ),
            found: format!("NoLgn {}; SW-WAL {}", texts(no), texts(sw)),
            holds: mean(no) > mean(sw) && no.last() >= no.first(),
        });
    }
    let none = Value::Absent;
    table.row(values!["paper", &none, &none, &none, &none, TPCC_SW, TPCC_NO, &none, &none, &none,]);
    study.checks.push(Check {
        what: format!(
            "TPC-C's consistency conditions 1 to 4 hold after every run, {}",
            condition.id
        ),
        found: if faults.is_empty() { "all".to_string() } else { faults.join("; ") },
        holds: faults.is_empty(),
    });
    let drawn = |mode: &str| {
        let title = format!("new orders a minute, {mode}");
        Plot::bars(&title, "free", ["wal_tpmc", "sw_wal_tpmc", "nolgn_tpmc"]).only("mode", mode)
    };
    study.sections.push(
        Section::new(
            "fig11",
            "Fig. 11: TPC-C, one connection, by free space of the drive",
            format!(
                "{} warehouses of {} customers a district and {} items, {count} transactions from \
             decks of 10 : 10 : 1 : 1 : 1 (the paper's 43/43/4/4/4, before it was rounded). The \
             rest of the drive is empty, the filled part has been overwritten once at random. \
             The paper does not say which mode it ran in.",
                scale.warehouses, scale.customers, scale.items
            ),
            table,
        )
        .plot(drawn("NORMAL"))?
        .plot(drawn("FULL"))?
        .under(condition),
    );
    Ok(())
}
