//! Figs. 3 and 6 to 9: sqlite-bench's overwrite at several sizes of values.

use crate::parallel::beside;
use lab::LabError;
use report::study::{Check, Column, Condition, Plot, Section, Study, Table};
use report::values;

use super::Scale;
use super::experiment::{CPU, Drives, FULL, Loaded, NORMAL, Outcome, Variant, Windows, load};
use super::paper::{self, Claim};
use super::text::{change, hundredths, mean, percent};
use sqlite::workload::bench::{Overwrite, Shape};

/// The runs of one size of values on one device.
pub(super) struct Size {
    pub value: usize,
    /// One of each variant.
    pub full: Vec<Outcome>,
    pub normal: Vec<Outcome>,
}

/// What is run.
pub(super) struct Plan {
    sizes: Vec<usize>,
    /// Overwrites counted before cleaning: as many as the independent counter's tables had. A
    /// table that is overwritten for longer has emptier pages.
    counted: u64,
    /// Overwrites on the drive.
    windows: Windows,
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
                windows: Windows { each: 2500, most: 2, within: 30 },
                keys: None,
                expected: &paper::EXPECTED_16M,
                from: "16 MiB of values",
            },
            Scale::Default => Plan {
                sizes: paper::SIZES.to_vec(),
                counted: 5000,
                windows: Windows { each: 20_000, most: 3, within: 30 },
                keys: Some(200_000),
                expected: &paper::EXPECTED_200K,
                from: "200,000 keys",
            },
            Scale::Full => Plan {
                windows: Windows { each: 30_000, most: 8, within: 30 },
                ..Plan::new(Scale::Default)
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
    pub(super) fn scale(&self) -> String {
        format!(
            "{}: {} overwrites before cleaning, one a transaction; on the drive {} windows of {} at \
             most, until two differ by less than {} in flash pages: the last one counts.",
            self.from,
            self.counted,
            self.windows.most,
            self.windows.each,
            percent(self.windows.within)
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
    let variants: Vec<&Variant> = FULL.iter().chain(&NORMAL).collect();
    let sized = |value: usize, runs: Vec<Outcome>| {
        let (mut full, normal) = (runs, FULL.len());
        let normal = full.split_off(normal);
        Size { value, full, normal }
    };
    let conditions = paper::run_at(scale);
    let drives: Vec<Drives> = conditions
        .iter()
        .map(|condition| Drives::new(scale, threads, 100, condition))
        .collect::<Result<_, _>>()?;
    let mut before = Vec::new();
    let mut after: Vec<Vec<Size>> = conditions.iter().map(|_| Vec::new()).collect();
    // One database after the other: seven of them are some gigabytes.
    for value in &plan.sizes {
        let mut work = Overwrite::new(plan.shape(*value));
        let loaded = load(|db| work.load_even(db))?;
        let runs = beside(threads, &variants, |variant| {
            let (mut work, device) = (work.clone(), loaded.ideal(variant.commit));
            let start = (block::Time::ZERO, CPU);
            loaded.run(variant, device, start, &mut |db, each| work.run(db, plan.counted, each))
        })?;
        before.push(sized(*value, runs));
        for (used, sizes) in drives.iter().zip(&mut after) {
            let runs = beside(threads, &variants, |variant| {
                on_drive(&loaded, used, variant, &work, plan.windows)
            })?;
            sizes.push(sized(*value, runs));
        }
    }
    drop(drives);
    pages(&plan, &before, study);
    for (condition, after) in conditions.iter().zip(&after) {
        let found = Found { plan: &plan, condition, before: &before, after };
        found.claims(study)?;
        found.sizes(study)?;
        study.sections.push(super::closed::section(condition, &before, after).under(condition));
        found.parts(study)?;
        found.cleaning(study)?;
    }
    Ok(())
}

fn on_drive(
    loaded: &Loaded,
    used: &Drives,
    variant: &Variant,
    start: &Overwrite,
    windows: Windows,
) -> Result<Outcome, LabError> {
    let (mut work, drive) = (start.clone(), used.copy(variant.commit));
    let now = drive.now();
    loaded.run_windows(variant, Box::new(drive), (now, CPU), windows, &mut |db, each| {
        work.run(db, windows.each, each)
    })
}

/// What was found under a condition.
pub(super) struct Found<'a> {
    pub(super) plan: &'a Plan,
    pub(super) condition: &'a Condition,
    /// On flash without cleaning.
    before: &'a [Size],
    /// On the drive.
    pub(super) after: &'a [Size],
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
                100.. => (&size.normal[variant - 100], &NORMAL[variant - 100]),
                _ => (&size.full[variant], &FULL[variant]),
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
        let delete = &size.full[5];
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
fn against(sizes: &[Size], full: bool, which: usize, figure: &dyn Fn(&Outcome) -> u64) -> i64 {
    let changes: Vec<i64> = sizes
        .iter()
        .map(|size| {
            let runs = if full { &size.full } else { &size.normal };
            change(figure(&runs[which]), figure(&runs[0]))
        })
        .collect();
    mean(&changes)
}

/// A figure's means over the sizes.
fn means(title: &str, what: &str, mode: &str) -> Plot {
    let here = ["no_cleaning", "drive"];
    Plot::bars(title, "system", here).only("what", what).only("mode", mode)
}

/// A column by size and system.
pub(super) fn each(title: &str, column: &str, mode: &str) -> Plot {
    Plot::bars(title, "value", [column]).by("system").only("mode", mode)
}

impl Found<'_> {
    /// Figs. 6 to 8: the paper's means, the independent model's, and ours.
    fn claims(&self, study: &mut Study) -> Result<(), LabError> {
        let expected = |at: usize, base: usize| {
            let changes: Vec<i64> = self
                .after
                .iter()
                .map(|size| {
                    let row = self.plan.expected(size.value);
                    change(row[at], row[base])
                })
                .collect();
            percent(mean(&changes))
        };
        let programs = |o: &Outcome| o.flash.programs() * 1000 / o.operations.max(1);
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
                    percent(against(self.before, full, which, figure)),
                    percent(against(self.after, full, which, figure))
                ]);
            }
        }
        let section = Section::new(
            "fig6",
            "Figs. 6, 7 and 8: flash pages, throughput, latency",
            format!(
                "{} {} \"No cleaning\": 64 dies, each page on the one that is free first. \
                 \"Drive\": the FTL drive, filled once and overwritten at random as often, cleaning \
                 included; remapping is the drive's own. Locking NORMAL.",
                self.condition.what,
                self.plan.scale()
            ),
            table,
        );
        let section = section
            .plot(means("pages written, against Base-WAL, %", paper::WRITES.what, "NORMAL"))?
            .plot(means("the same, FULL", paper::WRITES.what, "FULL"))?
            .plot(means("throughput, against Base-WAL, %", paper::THROUGHPUT.what, "NORMAL"))?
            .plot(means("the same, FULL", paper::THROUGHPUT.what, "FULL"))?
            .plot(means("latency, against Base-WAL, %", paper::LATENCY.what, "NORMAL"))?
            .plot(means("the same, FULL", paper::LATENCY.what, "FULL"))?;
        study.sections.push(section.under(self.condition));
        for (full, mode) in [(false, "NORMAL"), (true, "FULL")] {
            let at = |which| against(self.after, full, which, &programs);
            let (sw, no, id) = (at(1), at(2), &self.condition.id);
            study.checks.push(Check {
                what: format!(
                    "{mode}: NoLgn programs fewer pages than SW-WAL, that fewer than WAL, {id}"
                ),
                found: format!("{} and {}", percent(no), percent(sw)),
                holds: no < sw && sw < 0,
            });
            let at = |which| against(self.after, full, which, &Outcome::rate);
            let (sw, no) = (at(1), at(2));
            study.checks.push(Check {
                what: format!("{mode}: NoLgn is faster than SW-WAL, that faster than WAL, {id}"),
                found: format!("{} and {}", percent(no), percent(sw)),
                holds: no > sw && sw > 0,
            });
        }
        Ok(())
    }

    /// Every size: pages, throughput and latency on the drive.
    fn sizes(&self, study: &mut Study) -> Result<(), LabError> {
        let mut table = Table::new([
            ("value", "value"),
            ("mode", "mode"),
            ("system", "system"),
            ("tx_s_no_cleaning", "tx/s, no cleaning"),
            ("tx_s_drive", "tx/s, drive"),
            ("mean_us_drive", "mean us, drive"),
            ("p99_us_drive", "99 % us, drive"),
            ("flash_pages", "flash pages a transaction"),
            ("flash_pages_of_wal", "flash pages / WAL"),
            ("windows", "windows"),
        ]);
        for (before, after) in self.before.iter().zip(self.after) {
            let value = after.value;
            for (variants, before, after, mode) in [
                (&FULL[..], &before.full, &after.full, "FULL"),
                (&NORMAL[..], &before.normal, &after.normal, "NORMAL"),
            ] {
                let pages = |o: &Outcome| o.flash.programs() * 1000 / o.operations.max(1);
                let base = pages(&after[0]);
                for ((variant, ideal), drive) in variants.iter().zip(before).zip(after) {
                    let mut spans = drive.tally.operations.clone();
                    spans.sort_unstable();
                    let late = spans.get(spans.len() * 99 / 100).map_or(0, |span| span.as_ns());
                    table.row(values![
                        format!("{value} B"),
                        mode,
                        variant.name,
                        hundredths(ideal.rate(), 1000),
                        hundredths(drive.rate(), 1000),
                        hundredths(drive.latency(), 1000),
                        hundredths(late, 1000),
                        hundredths(drive.flash.programs(), drive.operations),
                        hundredths(pages(drive), base),
                        drive.windows.len()
                    ]);
                }
            }
        }
        let section = Section::new(
            "sizes",
            "The same, size by size",
            format!(
                "{} Virtual time. 99 %: of 100 transactions 99 took no longer; in NORMAL mode the \
                 rest waited for a checkpoint or a group. Flash pages: cleaning included.",
                self.plan.scale()
            ),
            table,
        );
        let section = section
            .plot(each("transactions/s on the drive, NORMAL", "tx_s_drive", "NORMAL"))?
            .plot(each("transactions/s on the drive, FULL", "tx_s_drive", "FULL"))?
            .plot(each("flash pages / WAL, NORMAL", "flash_pages_of_wal", "NORMAL"))?
            .plot(each("flash pages / WAL, FULL", "flash_pages_of_wal", "FULL"))?;
        study.sections.push(section.under(self.condition));
        Ok(())
    }
}
