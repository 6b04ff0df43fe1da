//! Figs. 3 and 6 to 9: sqlite-bench's overwrite at several sizes of values.

use crate::parallel::beside;
use lab::LabError;
use report::study::{Check, Column, Plot, Section, Study, Table};
use report::values;

use super::Scale;
use super::experiment::{CPU, Drives, FULL, Loaded, NORMAL, Outcome, Variant, load};
use super::paper::{self, Claim};
use super::text::{change, hundredths, mean, percent, share};
use sqlite::workload::bench::{Overwrite, Shape};

/// The runs of one size of values.
struct Size {
    value: usize,
    /// Of each variant: without cleaning, and on the drive.
    full: Vec<[Outcome; 2]>,
    normal: Vec<[Outcome; 2]>,
}

/// What is run.
struct Plan {
    sizes: Vec<usize>,
    /// Overwrites counted before cleaning: as many as the independent counter's tables had. A
    /// table that is overwritten for longer has emptier pages.
    counted: u64,
    /// Overwrites on the drive.
    count: u64,
    keys: Option<u64>,
    expected: &'static [[u64; 8]; 7],
    from: &'static str,
}

impl Plan {
    fn new(scale: Scale) -> Plan {
        match scale {
            Scale::Quick => Plan {
                sizes: vec![256, 4096],
                counted: 5000,
                count: 5000,
                keys: None,
                expected: &paper::EXPECTED_16M,
                from: "16 MiB of values",
            },
            Scale::Default | Scale::Full => Plan {
                sizes: paper::SIZES.to_vec(),
                counted: 5000,
                count: 40_000,
                keys: Some(200_000),
                expected: &paper::EXPECTED_200K,
                from: "200,000 keys",
            },
        }
    }

    fn shape(&self, value: usize) -> Shape {
        match self.keys {
            Some(keys) => Shape { keys, value },
            None => Shape::holding(16 << 20, value),
        }
    }

    /// What a table says of its scale.
    fn scale(&self) -> String {
        format!(
            "{}: {} overwrites before cleaning, {} on the drive, one a transaction.",
            self.from, self.counted, self.count
        )
    }

    fn expected(&self, value: usize) -> [u64; 8] {
        let at = paper::SIZES.iter().position(|size| *size == value);
        at.map_or([0; 8], |at| self.expected[at])
    }
}

/// Runs all sizes and writes the sections.
pub fn run(scale: Scale, threads: usize, study: &mut Study) -> Result<(), LabError> {
    let plan = Plan::new(scale);
    let mut sizes: Vec<Size> = Vec::new();
    let used = Drives::new(scale, threads, 100)?;
    let variants: Vec<&Variant> = FULL.iter().chain(&NORMAL).collect();
    for value in &plan.sizes {
        let mut work = Overwrite::new(plan.shape(*value));
        let loaded = load(|db| work.load_even(db))?;
        let mut runs =
            beside(threads, &variants, |variant| both(&loaded, &used, variant, &work, &plan))?;
        let normal = runs.split_off(FULL.len());
        sizes.push(Size { value: *value, full: runs, normal });
    }
    drop(used);
    pages(&plan, &sizes, study);
    claims(&plan, &sizes, study)?;
    parts(&plan, &sizes, study)?;
    cleaning(&plan, &sizes, study)
}

fn both(
    loaded: &Loaded,
    used: &Drives,
    variant: &Variant,
    start: &Overwrite,
    plan: &Plan,
) -> Result<[Outcome; 2], LabError> {
    let run = |device, now, count| {
        let mut work = start.clone();
        loaded.run(variant, device, (now, CPU), &mut |db, each| work.run(db, count, each))
    };
    let drive = used.copy(variant.commit);
    let now = drive.now();
    Ok([
        run(loaded.ideal(variant.commit), block::Time::ZERO, plan.counted)?,
        run(Box::new(drive), now, plan.count)?,
    ])
}

/// Pages a transaction, the independent counter's expectation beside them.
fn pages(plan: &Plan, sizes: &[Size], study: &mut Study) {
    let columns = [
        ("wal_full", "WAL FULL", 0, 0),
        ("sw_full", "SW FULL", 2, 1),
        ("sw_free_headers", "SW free headers", 4, 3),
        ("nolgn_full", "NoLgn FULL", 5, 2),
        ("nolgn_exclusive", "NoLgn exclusive", 6, 4),
        ("wal_normal", "WAL NORMAL", 1, 100),
        ("sw_normal", "SW NORMAL", 3, 101),
        ("nolgn_grouped", "NoLgn grouped", 7, 102),
    ];
    let pairs = columns.iter().flat_map(|(id, name, ..)| {
        [Column::from((*id, *name)), Column::from((format!("{id}_expected"), "exp."))]
    });
    let [value, delete] = [("value", "value"), ("delete_full", "DELETE FULL")].map(Column::from);
    let mut table = Table::new(std::iter::once(value).chain(pairs).chain([delete]));
    let (mut worst, mut unequal) = ((0, String::new()), Vec::new());
    for size in sizes {
        let expected = plan.expected(size.value);
        let mut row = values![format!("{} B", size.value)].to_vec();
        for (_, name, at, variant) in columns {
            let (outcome, variant) = match variant {
                100.. => (&size.normal[variant - 100][0], &NORMAL[variant - 100]),
                _ => (&size.full[variant][0], &FULL[variant]),
            };
            let (written, counted) = (outcome.written(variant), outcome.expected(variant));
            if written != counted {
                unequal.push(format!("{name} {} B: {written}, {counted}", size.value));
            }
            let pages = outcome.tally.pages();
            row.push(hundredths(pages, outcome.operations));
            row.push(hundredths(expected[at], 100));
            let off = change(100 * pages, expected[at] * outcome.operations).abs();
            if off > worst.0 {
                worst = (off, format!("{name}, {} B", size.value));
            }
        }
        let delete = &size.full[5][0];
        row.push(hundredths(delete.tally.pages(), delete.operations));
        table.row(row);
    }
    study.sections.push(Section::new(
        "pages",
        "Pages written a transaction, before cleaning",
        format!(
            "{} \"exp.\": what an independent counter found with SQLite 3.53.4 \
             and 5,000 overwrites; its SW-WAL is a log of unaligned frames, here headers have \
             pages of their own.",
            plan.scale()
        ),
        table,
    ));
    study.checks.push(Check {
        what: "the model writes exactly the pages that the counter beside it sees".to_string(),
        found: match unequal.is_empty() {
            true => "equal in all runs".to_string(),
            false => unequal.join("; "),
        },
        holds: unequal.is_empty(),
    });
    study.checks.push(Check {
        what: "pages are within 1 % of the independent counter's tables".to_string(),
        found: format!("at most {} ({})", percent(worst.0), worst.1),
        holds: worst.0 <= 10,
    });
}

/// Mean changes against Base-WAL over the sizes, in tenths of a per cent.
fn against(
    sizes: &[Size],
    full: bool,
    which: usize,
    device: usize,
    figure: &dyn Fn(&Outcome) -> u64,
) -> i64 {
    let changes: Vec<i64> = sizes
        .iter()
        .map(|size| {
            let runs = if full { &size.full } else { &size.normal };
            change(figure(&runs[which][device]), figure(&runs[0][device]))
        })
        .collect();
    mean(&changes)
}

/// The column that says which figure a row is about.
/// A figure's means over the sizes.
fn means(title: &str, what: &str, mode: &str) -> Plot {
    let here = ["no_cleaning", "drive"];
    Plot::bars(title, "system", here).only("what", what).only("mode", mode)
}

/// A column by size and system.
fn each(title: &str, column: &str, mode: &str) -> Plot {
    Plot::bars(title, "value", [column]).by("system").only("mode", mode)
}

/// Figs. 6 to 8: the paper's means, the independent model's, and ours.
fn claims(plan: &Plan, sizes: &[Size], study: &mut Study) -> Result<(), LabError> {
    let expected = |at: usize, base: usize| {
        let changes: Vec<i64> = sizes
            .iter()
            .map(|size| {
                let row = plan.expected(size.value);
                change(row[at], row[base])
            })
            .collect();
        percent(mean(&changes))
    };
    let programs = |o: &Outcome| o.flash.programs();
    type Figure<'a> = (&'a Claim, &'a dyn Fn(&Outcome) -> u64, [Option<usize>; 4]);
    let figures: [Figure<'_>; 3] = [
        (&paper::WRITES, &programs, [Some(3), Some(7), Some(2), Some(5)]),
        (&paper::THROUGHPUT, &Outcome::rate, [None; 4]),
        (&paper::LATENCY, &Outcome::latency, [None; 4]),
    ];
    let mut table = Table::new([
        ("what", "against Base-WAL, mean over sizes"),
        ("mode", "mode"),
        ("system", "system"),
        ("paper", "paper"),
        ("model", "independent model"),
        ("no_cleaning", "here, no cleaning"),
        ("drive", "here, drive"),
    ]);
    for (claim, figure, models) in figures {
        for (full, which, text, model) in [
            (false, 1, claim.sw_normal, models[0]),
            (false, 2, claim.no_normal, models[1]),
            (true, 1, claim.sw_full, models[2]),
            (true, 2, claim.no_full, models[3]),
            (true, 6, claim.no_full, models[3]),
        ] {
            let model = model.map(|at| expected(at, usize::from(!full)));
            table.row(values![
                claim.what,
                if full { "FULL" } else { "NORMAL" },
                if full { FULL[which] } else { NORMAL[which] }.name,
                text,
                model.unwrap_or_else(|| "no model".into()),
                percent(against(sizes, full, which, 0, figure)),
                percent(against(sizes, full, which, 1, figure))
            ]);
        }
    }
    study.sections.push(Section::new(
        "fig6", "Figs. 6, 7 and 8: flash pages, throughput, latency",
        format!(
            "{} \"No cleaning\": 64 dies, each page on the one that is free first. \"Drive\": the \
             FTL drive, filled once and overwritten at random as often, cleaning included; \
             remapping is the drive's own. Locking NORMAL.",
            plan.scale()
        ),
        table,
    ).plot(means("pages written, against Base-WAL, %", paper::WRITES.what, "NORMAL"))?
     .plot(means("the same, FULL", paper::WRITES.what, "FULL"))?
     .plot(means("throughput, against Base-WAL, %", paper::THROUGHPUT.what, "NORMAL"))?
     .plot(means("the same, FULL", paper::THROUGHPUT.what, "FULL"))?
     .plot(means("latency, against Base-WAL, %", paper::LATENCY.what, "NORMAL"))?
     .plot(means("the same, FULL", paper::LATENCY.what, "FULL"))?);
    sizes_table(plan, sizes, study)?;
    let order = |full: bool| {
        let at = |which| against(sizes, full, which, 1, &programs);
        (at(1), at(2))
    };
    for (full, mode) in [(false, "NORMAL"), (true, "FULL")] {
        let (sw, no) = order(full);
        study.checks.push(Check {
            what: format!("{mode}: NoLgn programs fewer pages than SW-WAL, that fewer than WAL"),
            found: format!("{} and {}", percent(no), percent(sw)),
            holds: no < sw && sw < 0,
        });
        let at = |which| against(sizes, full, which, 1, &Outcome::rate);
        let (sw, no) = (at(1), at(if full { 6 } else { 2 }));
        study.checks.push(Check {
            what: format!("{mode}: NoLgn (counted) is faster than SW-WAL, that faster than WAL"),
            found: format!("{} and {}", percent(no), percent(sw)),
            holds: no > sw && sw > 0,
        });
    }
    Ok(())
}

/// Every size: throughput and latency on the drive.
fn sizes_table(plan: &Plan, sizes: &[Size], study: &mut Study) -> Result<(), LabError> {
    let mut table = Table::new([
        ("value", "value"),
        ("mode", "mode"),
        ("system", "system"),
        ("tx_s_no_cleaning", "tx/s, no cleaning"),
        ("tx_s_drive", "tx/s, drive"),
        ("mean_us_drive", "mean us, drive"),
        ("p99_us_drive", "99 % us, drive"),
        ("flash_pages_of_wal", "flash pages / WAL"),
    ]);
    for size in sizes {
        for (variants, runs, mode) in
            [(&FULL[..], &size.full, "FULL"), (&NORMAL[..], &size.normal, "NORMAL")]
        {
            let base = runs[0][1].flash.programs();
            for (variant, [ideal, drive]) in variants.iter().zip(runs) {
                let mut spans = drive.tally.operations.clone();
                spans.sort_unstable();
                let late = spans.get(spans.len() * 99 / 100).map_or(0, |span| span.as_ns());
                table.row(values![
                    format!("{} B", size.value),
                    mode,
                    variant.name,
                    hundredths(ideal.rate(), 1000),
                    hundredths(drive.rate(), 1000),
                    hundredths(drive.latency(), 1000),
                    hundredths(late, 1000),
                    hundredths(drive.flash.programs(), base)
                ]);
            }
        }
    }
    study.sections.push(Section::new(
        "sizes", "The same, size by size",
        format!(
            "{} Virtual time. 99 %: of 100 transactions 99 took no longer; in NORMAL mode the rest \
             waited for a checkpoint or a group.",
            plan.scale()
        ),
        table,
    ).plot(each("transactions/s on the drive, NORMAL", "tx_s_drive", "NORMAL"))?
     .plot(each("transactions/s on the drive, FULL", "tx_s_drive", "FULL"))?
     .plot(each("flash pages / WAL, NORMAL", "flash_pages_of_wal", "NORMAL"))?
     .plot(each("flash pages / WAL, FULL", "flash_pages_of_wal", "FULL"))?);
    Ok(())
}

/// What time is spent on, in columns.
const SPENT: [(&str, &str); 5] = [
    ("wal_write", "WAL write"),
    ("wal_sync", "WAL sync"),
    ("data_write", "data write"),
    ("data_sync", "data sync"),
    ("host", "host"),
];

/// Fig. 3: where the time of WAL goes.
fn parts(plan: &Plan, sizes: &[Size], study: &mut Study) -> Result<(), LabError> {
    let columns = [("value", "value"), ("mode", "mode")].into_iter().chain(SPENT);
    let mut table = Table::new(columns.chain([("log_part", "log, of log and data")]));
    for size in sizes {
        for (outcome, mode) in [(&size.full[0][1], "FULL"), (&size.normal[0][1], "NORMAL")] {
            let tally = &outcome.tally;
            let spans = [tally.log_write, tally.log_sync, tally.data_write, tally.data_sync];
            let total = tally.total.as_ps();
            let known: u64 = spans.iter().map(|span| span.as_ps()).sum();
            let mut row = values![format!("{} B", size.value), mode].to_vec();
            row.extend(spans.map(|span| share(span.as_ps(), total)));
            row.push(share(total.saturating_sub(known), total));
            let log = spans[0].as_ps() + spans[1].as_ps();
            row.push(share(log, known));
            table.row(row);
        }
        let tally = &size.full[0][1].tally;
        if size.value <= 512 {
            let log = tally.log_write.as_ps() + tally.log_sync.as_ps();
            let data = tally.data_write.as_ps() + tally.data_sync.as_ps();
            study.checks.push(Check {
                what: format!("Fig. 3, {} B, FULL: the log takes most of the time", size.value),
                found: format!("log {}, data {}", share(log, log + data), share(data, log + data)),
                holds: log > data,
            });
        }
    }
    study.sections.push(Section::new(
        "fig3", "Fig. 3: time of Base-WAL on the drive, by what it is spent on",
        format!(
            "{} Write: until the pages are on flash; sync: what the flush takes after that. The \
             drive has no buffer, so that a write ends when it is durable. A checkpoint's reads \
             find the log in the host's page cache.",
            plan.scale()
        ),
        table,
    ).plot(Plot::bars("share of the time, %, FULL", "value", SPENT.map(|(id, _)| id)).only("mode", "FULL"))?
     .plot(Plot::bars("share of the time, %, NORMAL", "value", SPENT.map(|(id, _)| id)).only("mode", "NORMAL"))?);
    Ok(())
}

/// Fig. 9: what cleaning copies, and what locks add.
fn cleaning(plan: &Plan, sizes: &[Size], study: &mut Study) -> Result<(), LabError> {
    let mut table = Table::new([
        ("value", "value"),
        ("mode", "mode"),
        ("system", "system"),
        ("host_pages", "host pages"),
        ("records", "records"),
        ("copied", "copied"),
        ("copied_of_all", "copied, of all"),
        ("copied_because_of_locks", "copied because of locks"),
        ("locks_of_all", "because of locks, of all"),
        ("other", "other"),
        ("erases", "erases"),
    ]);
    for size in sizes {
        for (variants, runs, mode) in
            [(&FULL[..], &size.full, "FULL"), (&NORMAL[..], &size.normal, "NORMAL")]
        {
            for (variant, [_, outcome]) in variants.iter().zip(runs) {
                let flash = &outcome.flash;
                table.row(values![
                    format!("{} B", size.value),
                    mode,
                    variant.name,
                    flash.host,
                    flash.tx,
                    flash.gc,
                    share(flash.gc, flash.programs()),
                    flash.additional,
                    share(flash.additional, flash.programs()),
                    flash.other,
                    flash.erases
                ]);
            }
        }
    }
    let most = sizes.iter().flat_map(|size| [&size.full[2][1], &size.normal[2][1]]);
    let most = most.map(|o| 1000 * o.flash.additional / o.flash.programs().max(1)).max();
    study.checks.push(Check {
        what: "Fig. 9: locks add at most 6 % of the pages".to_string(),
        found: format!("at most {}", percent(most.unwrap_or(0) as i64)),
        holds: most.unwrap_or(0) <= 60,
    });
    study.sections.push(Section::new(
        "fig9", "Fig. 9: on the drive, pages by cause",
        format!(
            "{} The paper: cleaning's share grows with the size, up to 62 %; locks add 3.5 % in \
             the mean, at most 6 %. Here the lock is a preference: a locked line is collected \
             when eight candidates were passed over.",
            plan.scale()
        ),
        table,
    ).plot(each("copied by cleaning, % of all pages, NORMAL", "copied_of_all", "NORMAL"))?
     .plot(Plot::bars("copied because of locks, % of all pages, NoLgn", "value", ["locks_of_all"]).by("mode").only("system", "NoLgn"))?);
    Ok(())
}
