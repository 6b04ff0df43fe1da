//! Paper 3: append-only data isolation in the drive's buffer, beside every policy it is compared
//! with and the modern ones it was not.

mod blocks;
mod first;
mod gate;
mod mixes;
mod numbers;
mod occupancy;
mod pairs;
mod paper;
mod requests;

use block::Bytes;
use ssd::{BufferShape, PolicySpec};
use workload::Source;

use crate::{Options, Scale};
use lab::LabError;
use lab::hits::{Cell, HitPlan, HitRow, count};
use pairs::{CAPACITY, PAIRS, Pair};
use report::round::{per_cent, points, quotient};
use report::study::{Check, Column, Condition, Plot, Rows, Section, Study, Table, Value};
use report::values;

const MIB: u64 = 1 << 20;
/// The application whose hits are to be protected, and the log-structured store.
const TARGET: usize = 0;
const STORE: usize = 1;

/// 4 KiB accesses of each generated workload, unless said otherwise.
pub const UNITS: u64 = 20_000_000;

/// The policies of the tables, with the paper's drive: BAW and BAR of 32 entries.
const POLICIES: &[&str] = &[
    "lru",
    "fifo",
    "clock",
    "2-level-lru",
    "cflru",
    "lru-wsr",
    "ccf-lru",
    "ad-lru",
    "pt-lru",
    "vbbms",
    "bplru",
    "fab",
    "2q",
    "arc",
    "lirs",
    "s3-fifo",
    "sieve",
    "w-tinylfu",
    "aoi(cap=32, lat=literal)",
    "aoi(cap=32, lat=per-request)",
    "aoi(cap=32, lat=frontier)",
    "aoi(cap=32)",
    "aoi(cap=32, lat=mapped-any)",
    "aoi(cap=32, lat=evidence)",
    "aoi(cap=32, lat=sweep)",
    "aoi(inner=s3-fifo)",
    "aoi(inner=s3-fifo, gate=shadow)",
    "belady",
];

/// The policies of the paper's figures.
const PAPER: &[&str] =
    &["lru", "cflru", "pt-lru", "2-level-lru", "vbbms", "s3-fifo", "arc", "aoi(cap=32)"];

/// Runs the experiment.
///
/// # Errors
/// Traces that are not there, or cannot be read.
pub fn run(options: &Options) -> Result<Study, LabError> {
    let mut study = Study {
        title: "Append-only data isolation in the buffer (paper 3)".to_string(),
        command: options.command.clone(),
        note:
            "Hit ratios of 4 KiB pages, no timing, buffers beside a drive of 300 GiB. Targets and \
               stores have address areas of their own, clocks start at 0, the shorter ends the \
               run, flushes are dropped, discards honoured unless said otherwise."
                .to_string(),
        seed: mixes::SEED,
        conditions: paper::CONDITIONS.to_vec(),
        ..Study::default()
    };
    study.sections.push(requests::section(options)?);
    let pairs = if options.scale == Scale::Quick { &PAIRS[..2] } else { &PAIRS[..] };
    for pair in pairs {
        captured(options, pair, &mut study)?;
    }
    gate::section(options, &mut study)?;
    without_discards(options, pairs, &mut study)?;
    for condition in paper::CONDITIONS {
        chunks(options, pairs, condition, &mut study)?;
    }
    study.sections.push(occupancy::section(options, &PAIRS[1])?);
    study.sections.push(blocks::section(options)?);
    mixes::synthetic_mix(options, &mut study)?;
    mixes::mix_readings(options, &mut study)?;
    study.sections.push(tables());
    match options.scale {
        Scale::Quick => {
            study.leave_out(paper::MIXES, paper::LEFT_OUT_WHY);
            study.answer(paper::STATEMENTS, Rows::All)?;
        }
        Scale::Default | Scale::Full => {
            mixes::run(options, &mut study)?;
            study.answer(&[paper::MIXES, paper::STATEMENTS].concat(), Rows::All)?;
        }
    }
    Ok(study)
}

/// Counts policies at sizes over a stream.
fn rows(
    options: &Options,
    policies: &[&str],
    sizes: &[u64],
    discards: bool,
    open: &dyn Fn() -> Result<Box<dyn Source>, LabError>,
) -> Result<Vec<HitRow>, LabError> {
    let cells = policies.iter().flat_map(|policy| {
        sizes.iter().map(|mib| Cell {
            policy: PolicySpec::parse(policy).expect("a policy of the registry"),
            size: Bytes(mib * MIB),
        })
    });
    let plan = HitPlan {
        cells: cells.collect(),
        capacity: CAPACITY,
        shape: BufferShape::alone(0, 0),
        discards,
        threads: options.threads,
        curve: None,
    };
    Ok(count(&plan, open, lab::replay::Watch::nobody())?.rows)
}

/// Hits of an application in per cent, with two decimals.
fn percent(row: &HitRow, app: Option<usize>) -> Value {
    let (units, hits) = row.accesses(app);
    share(hits, units)
}

fn share(part: u64, whole: u64) -> Value {
    per_cent(part, whole, 2)
}

/// `a / b` with two decimals.
fn times(a: u64, b: u64) -> Value {
    quotient(a, b, 2)
}

fn find<'a>(rows: &'a [HitRow], policy: &str, mib: u64) -> Option<&'a HitRow> {
    rows.iter().find(|row| row.cell.policy.text() == policy && row.cell.size.0 == mib * MIB)
}

fn hits(rows: &[HitRow], policy: &str, mib: u64) -> u64 {
    find(rows, policy, mib).map_or(0, |row| row.accesses(Some(TARGET)).1)
}

/// Target hits, total hits and work of the flash, for every policy.
fn captured(options: &Options, pair: &Pair, study: &mut Study) -> Result<(), LabError> {
    let sizes = [8, 32, 128];
    let rows = rows(options, POLICIES, &sizes, true, &|| pair.open(&options.data))?;
    let mut table = Table::new([
        ("policy", "policy"),
        ("ta_8", "TA % 8 MiB"),
        ("ta_32", "32 MiB"),
        ("ta_128", "128 MiB"),
        ("all_8", "all % 8 MiB"),
        ("all_32", "32 MiB"),
        ("all_128", "128 MiB"),
        ("store_32", "store hits % 32 MiB"),
        ("read_32", "pages read 32 MiB"),
        ("programmed_32", "programmed 32 MiB"),
    ]);
    for policy in POLICIES {
        let at = |mib| find(&rows, policy, mib);
        let cell = |mib, app| Value::from(at(mib).map(|row| percent(row, app)));
        let mut line = values![*policy].to_vec();
        line.extend(sizes.map(|mib| cell(mib, Some(TARGET))));
        line.extend(sizes.map(|mib| cell(mib, None)));
        line.push(cell(32, Some(STORE)));
        line.push(at(32).map(HitRow::reads).into());
        line.push(at(32).map(HitRow::programs).into());
        table.row(line);
    }
    let (target, store) = rows
        .first()
        .map_or((0, 0), |row| (row.accesses(Some(TARGET)).0, row.accesses(Some(STORE)).0));
    study.sections.push(Section::new(format!("captured_{}", pair.name.to_lowercase()), format!("Figs. 13 and 14 on captured pair {}", pair.name), format!(
            "{}: {target} accesses of the target (TA), {store} of the store. What is still dirty at the end is not counted as programmed. Belady is a bound on misses that knows the future.",
            pair.doc
        ), table)
        .plot(Plot::bars("target hits, %", "policy", ["ta_8", "ta_32", "ta_128"]))?
        .plot(Plot::bars("all hits, %", "policy", ["all_8", "all_32", "all_128"]))?);
    gate::target(pair.name, &rows, study);
    let mapped = "aoi(cap=32)";
    if matches!(pair.name, "P2" | "P4") {
        for mib in [32, 128] {
            let (a, v, l) =
                (hits(&rows, mapped, mib), hits(&rows, "vbbms", mib), hits(&rows, "lru", mib));
            study.checks.push(Check {
                what: format!("{}, {mib} MiB: target hits of aoi > vbbms > lru", pair.name),
                found: format!("{a}, {v}, {l}"),
                holds: a > v && v > l,
            });
        }
    }
    if pair.name == "P2" {
        let (a, v) = (hits(&rows, mapped, 8), hits(&rows, "vbbms", 8));
        study.checks.push(Check {
            what: "P2, 8 MiB: a target with rewrites of 16 KiB and more loses to vbbms".to_string(),
            found: format!("aoi {a}, vbbms {v}"),
            holds: a < v,
        });
    }
    let (l, literal) = (hits(&rows, "lru", 32), hits(&rows, "aoi(cap=32, lat=literal)", 32));
    study.checks.push(Check {
        what: format!("{}, 32 MiB: the printed algorithm is within 0.5 points of lru", pair.name),
        found: format!("literal {} %, lru {} %", share(literal, target), share(l, target)),
        holds: literal.abs_diff(l) * 200 <= target,
    });
    Ok(())
}

fn without_discards(options: &Options, pairs: &[Pair], study: &mut Study) -> Result<(), LabError> {
    let policies = [
        "lru",
        "2-level-lru",
        "vbbms",
        "s3-fifo",
        "aoi(cap=32)",
        "aoi(cap=32, lat=evidence)",
        "aoi(cap=32, lat=sweep)",
    ];
    let names = pairs.iter().flat_map(|pair| {
        ["discards", "none"].map(|what| {
            let id = format!("{}_{what}", pair.name.to_lowercase());
            Column::from((id, format!("{} {what}", pair.name)))
        })
    });
    let policy = Column::from(("policy", "policy"));
    let mut table = Table::new(std::iter::once(policy).chain(names));
    let mut columns = Vec::new();
    for pair in pairs {
        for discards in [true, false] {
            columns.push(rows(options, &policies, &[32], discards, &|| pair.open(&options.data))?);
        }
    }
    for policy in policies {
        let cell = |rows: &Vec<HitRow>| {
            Value::from(find(rows, policy, 32).map(|row| percent(row, Some(TARGET))))
        };
        table.row(std::iter::once(Value::from(policy)).chain(columns.iter().map(cell)));
    }
    study.sections.push(Section::new("discards", "Beyond the paper: a host that does not discard", "Target hits in per cent at 32 MiB. `mapped` takes a reused address for rewritten data; `sweep` learns again from a chunk that is written front to back. Recommendation for the ageing of the table: `mapped` where the host discards, `sweep` where it does not; `evidence` only where no target rewrites 16 KiB and more.", table));
    Ok(())
}

const CHUNKS: [&str; 7] = ["4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB", "16 MiB"];

/// Fig. 17 under a condition.
fn chunks(
    options: &Options,
    pairs: &[Pair],
    condition: &Condition,
    study: &mut Study,
) -> Result<(), LabError> {
    let discards = paper::discards(condition);
    let policies: Vec<String> =
        CHUNKS.iter().map(|chunk| format!("aoi(cap=32, chunk={chunk})")).collect();
    let all: Vec<&str> = policies.iter().map(String::as_str).collect();
    let ids: Vec<String> =
        pairs.iter().map(|pair| format!("{}_32", pair.name.to_lowercase())).collect();
    let heads = ids.iter().zip(pairs).flat_map(|(id, pair)| {
        let against = format!("{} against 4 KiB, points", pair.name);
        [(id.clone(), format!("{} 32 MiB", pair.name)), (format!("{id}_against_4k"), against)]
    });
    let names = [("chunk", "chunk"), ("table", "table")].map(Column::from);
    let mut table = Table::new(names.into_iter().chain(heads.map(Column::from)));
    let mut columns = Vec::new();
    for pair in pairs {
        columns.push(rows(options, &all, &[32], discards, &|| pair.open(&options.data))?);
    }
    for (chunk, policy) in CHUNKS.iter().zip(&policies) {
        let cells = columns.iter().flat_map(|column| {
            let row = find(column, policy, 32);
            let against = row.map_or(Value::Absent, |row| {
                let (units, found) = row.accesses(Some(TARGET));
                points(found, hits(column, &policies[0], 32), units)
            });
            [Value::from(row.map(|row| percent(row, Some(TARGET)))), against]
        });
        let bytes = table_bytes(chunk);
        let size = Bytes(bytes).human();
        table.row(values![*chunk, size].into_iter().chain(cells));
    }
    for (pair, column) in pairs.iter().zip(&columns).filter(|_| discards) {
        let best = policies.iter().max_by_key(|policy| hits(column, policy, 32));
        let at = best.and_then(|best| policies.iter().position(|p| p == best)).unwrap_or(0);
        study.checks.push(Check {
            what: format!("{}, 32 MiB: the best chunk lies between 16 KiB and 1 MiB", pair.name),
            found: CHUNKS[at].to_string(),
            holds: (1..=4).contains(&at),
        });
    }
    let section = Section::new(
        "fig17",
        "Fig. 17: chunk size",
        "Target hits of `aoi` in per cent; the look-up table is taken from the buffer. With chunks of 4 KiB it takes 18.75 MiB: a buffer of 16 MiB and less cannot hold it.",
        table,
    );
    let drawn = section.plot(Plot::lines("target hits, %", "chunk", ids))?;
    study.sections.push(drawn.under(condition));
    Ok(())
}

/// Two bits per chunk of the drive.
fn table_bytes(chunk: &str) -> u64 {
    let chunk = block::parse_size(chunk).expect("a size of the list above").0;
    (CAPACITY.0.div_ceil(chunk) * 2).div_ceil(8)
}

fn tables() -> Section {
    let mut table = Table::new([
        ("chunk", "chunk"),
        ("bytes_300_gib", "bytes for 300 GiB"),
        ("paper", "the paper"),
    ]);
    for chunk in CHUNKS {
        let paper = match chunk {
            "1 MiB" => "75 KB",
            "4 KiB" => "18.75 MB",
            _ => "-",
        };
        table.row(values![chunk, table_bytes(chunk), paper]);
    }
    Section::new(
        "table_size",
        "Look-up table (equations 1 and 2)",
        "Two bits per chunk; `frontier` and `sweep` keep a byte more for each chunk.",
        table,
    )
}
