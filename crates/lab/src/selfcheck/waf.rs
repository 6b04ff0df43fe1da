//! Write amplification under uniform random writes against closed forms.

use std::sync::{Arc, Mutex};

use block::{BlockDevice, Lba, Request, Rng, Sectors, Time, UNIT_BYTES};
use ssd::Drive;

use super::setup::{config, drive, fill};
use super::{Check, Job, Trouble, formulas};

const SECTION: &str = "write amplification";
const UNIT_SECTORS: u64 = UNIT_BYTES / block::SECTOR_BYTES;

/// Spare space of the rows of the published table.
const SPARES: [&str; 4] = ["7 %", "12.5 %", "20 %", "28 %"];

/// Columns: name, victim policy, units of a line.
const COLUMNS: [(&str, &str, u32); 7] = [
    ("greedy, 64 units", "greedy", 64),
    ("FIFO", "fifo", 256),
    ("greedy, 256 units", "greedy", 256),
    ("best of 10", "dchoice(10)", 256),
    ("best of 5", "dchoice(5)", 256),
    ("best of 2", "dchoice(2)", 256),
    ("random", "random", 256),
];

/// Measured WAF by row and column; 0 = not measured.
type Table = Arc<Mutex<[[f64; 7]; 4]>>;

/// One job per cell, and what is to be said when all are done: how the columns are ordered.
pub fn jobs(quick: bool) -> (Vec<Job>, impl FnOnce() -> Vec<Check>) {
    let table = Table::default();
    let mut jobs = Vec::new();
    for (row, spare) in SPARES.iter().enumerate() {
        // Quick: the rows with the least work, and no random victims.
        let columns = if quick { if row < 2 { 0..0 } else { 1..3 } } else { 0..COLUMNS.len() };
        for column in columns.rev() {
            let table = Arc::clone(&table);
            let name = format!("write amplification: {spare}, {}", COLUMNS[column].0);
            jobs.push(Job::new(SECTION, name, move || cell(row, column, quick, &table)));
        }
    }
    (jobs, move || orders(&table))
}

fn cell(row: usize, column: usize, quick: bool, table: &Table) -> Result<Vec<Check>, Trouble> {
    let (name, victim, units) = COLUMNS[column];
    let measured = measure(SPARES[row], victim, units, if quick { 2 } else { 4 })?;
    table.lock().expect("no writer panics")[row][column] = measured.waf;
    let rho = measured.rho;
    let expected = match victim {
        "fifo" => formulas::fifo(rho),
        "greedy" => formulas::greedy(rho, units),
        // A victim without gain is refused, which the plain formula does not know.
        "random" => formulas::random_with_gain(rho, units),
        "dchoice(10)" => formulas::choices(rho, units, 10),
        "dchoice(5)" => formulas::choices(rho, units, 5),
        _ => formulas::choices(rho, units, 2),
    };
    let tolerance = if victim == "random" { 3.0 } else { 2.0 };
    let name = format!("{} spare, {name} (effective {:.2} %)", SPARES[row], 100.0 / rho - 100.0);
    Ok(vec![Check::near(SECTION, name, expected, measured.waf, tolerance)])
}

struct Measured {
    /// Programs per host write.
    waf: f64,
    /// Logical units over effective units.
    rho: f64,
}

/// Fills a drive of 2048 lines, writes at random for some drive writes and measures as many.
fn measure(spare: &str, victim: &str, units: u32, writes: u64) -> Result<Measured, Trouble> {
    let config = config(&[
        "geometry.channels=1",
        "geometry.dies=1",
        "geometry.blocks=2048",
        &format!("geometry.pages={units}"),
        "line=plane",
        &format!("op={spare}"),
        &format!("gc.victim={victim}"),
        "buffer.policy=none",
        "timing=off",
    ])?;
    let mut d = drive(&config)?;
    let bytes = d.capacity().bytes().0;
    fill(&mut d, bytes, UNIT_BYTES)?;
    let logical = bytes / UNIT_BYTES;
    let mut rng = Rng::stream(1, "selfcheck/waf");
    scatter(&mut d, &mut rng, logical, writes * logical)?;
    d.reset_stats();
    scatter(&mut d, &mut rng, logical, writes * logical)?;
    d.check()?;
    let stats = d.stats();
    let (programs, written) = stats.waf();
    Ok(Measured {
        waf: programs as f64 / written as f64,
        rho: stats.logical_units as f64 / stats.effective_units as f64,
    })
}

fn scatter(d: &mut Drive, rng: &mut Rng, logical: u64, writes: u64) -> Result<(), Trouble> {
    let at: Time = d.now();
    for _ in 0..writes {
        let lba = Lba(rng.below(logical) * UNIT_SECTORS);
        d.submit(at, Request::write(lba, Sectors(UNIT_SECTORS)))?;
    }
    Ok(())
}

/// Greedy is best, then more choices before fewer, random worst; FIFO loses to greedy.
fn orders(table: &Table) -> Vec<Check> {
    let table = table.lock().expect("no writer panics");
    let mut checks = Vec::new();
    for (spare, row) in SPARES.iter().zip(table.iter()) {
        let chain: Vec<f64> = row[2..].iter().copied().filter(|waf| *waf > 0.0).collect();
        if chain.len() == 5 {
            checks.push(Check::holds(
                SECTION,
                format!("{spare} spare: greedy, best of 10, of 5, of 2, random"),
                "in this order",
                format!("{chain:.3?}"),
                chain.windows(2).all(|pair| pair[0] <= pair[1]),
            ));
        }
        if row[1] > 0.0 && row[2] > 0.0 {
            checks.push(Check::holds(
                SECTION,
                format!("{spare} spare: greedy below FIFO"),
                "less",
                format!("{:.3} and {:.3}", row[2], row[1]),
                row[2] < row[1],
            ));
        }
    }
    checks
}
