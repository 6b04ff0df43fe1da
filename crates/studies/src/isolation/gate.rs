//! Isolation behind a gate, beside the policy that it stands before: on every captured trace, whether
//! there is anything to isolate in it or not.

use report::study::{Check, Section, Study, Table, Value};
use report::values;
use workload::{ReadOptions, open};

use super::{Options, Scale, find, hits, percent, rows, times};
use lab::LabError;
use lab::hits::HitRow;

/// The inner policy alone, isolation always, and behind the gate.
pub const WAYS: [&str; 3] = ["s3-fifo", "aoi(inner=s3-fifo)", "aoi(inner=s3-fifo, gate=shadow)"];
const SIZES: [u64; 3] = [4, 16, 64];
const TRACES: [&str; 10] = [
    "sqlite_wal_full_ext4.csv.zst",
    "tpcc_run_mariadb_ext4.csv.zst",
    "filebench_varmail_ext4.csv.zst",
    "ycsb_load_rocksdb_ext4.csv.zst",
    "ycsb_a_rocksdb_ext4.csv.zst",
    "fio_randwrite_ext4.csv.zst",
    "fio_randwrite_xfs.csv.zst",
    "fio_randwrite_btrfs.csv.zst",
    "fio_randwrite_f2fs.vtr",
    "demo.vtr",
];

/// Total hits on the traces: the gate may cost next to nothing.
pub fn section(options: &Options, study: &mut Study) -> Result<(), LabError> {
    let traces = if options.scale == Scale::Quick { &TRACES[..2] } else { &TRACES[..] };
    let mut table = Table::new([
        ("trace", "trace"),
        ("buffer", "buffer"),
        ("s3_fifo", "s3-fifo"),
        ("isolated", "isolated always"),
        ("gated", "behind the gate"),
        ("switches", "gate turned"),
        ("metadata", "metadata, % of the buffer"),
    ]);
    let (mut lost, mut most) = (Vec::new(), 0);
    for name in traces {
        let path = options.data.join(name);
        let found = rows(options, &WAYS, &SIZES, true, &|| {
            Ok(Box::new(open(&path, &ReadOptions::default())?))
        })?;
        for mib in SIZES {
            let at = WAYS.map(|way| find(&found, way, mib));
            let shown = at.map(|row| Value::from(row.map(|row| percent(row, None))));
            let entries = mib << 8;
            let taken = at[2].map_or(0, |row| 10_000 * (entries - row.entries) / entries);
            most = most.max(taken);
            let trace = name.split('.').next().unwrap_or(name);
            let row = values![trace, format!("{mib} MiB")].into_iter().chain(shown);
            table.row(row.chain(values![at[2].map(switches), times(taken, 100)]));
            if let [Some(plain), _, Some(gated)] = at
                && !holds(plain, gated)
            {
                let of = [plain, gated].map(|row| percent(row, None));
                lost.push(format!("{trace}, {mib} MiB: {} of {}", of[1], of[0]));
            }
        }
    }
    study.checks.push(Check {
        what: "behind the gate all hits are within 1 % or 0.3 points of s3-fifo's".to_string(),
        found: if lost.is_empty() { "on every trace".to_string() } else { lost.join("; ") },
        holds: lost.is_empty(),
    });
    study.checks.push(Check {
        what: "isolation behind a gate takes at most 2 % of the buffer for itself".to_string(),
        found: format!("at most {} %, at {} MiB", times(most, 100), SIZES[0]),
        holds: most <= 200,
    });
    study.sections.push(Section::new(
        "gate",
        "Behind a gate (not in the paper): all hits on the captured traces",
        "Per cent of all pages. The gate is open while a sampled shadow cache that isolates hits more than one \
         that does not. Metadata: the table of chunks of a drive of 300 GiB, and the shadows.",
        table,
    ));
    Ok(())
}

fn switches(row: &HitRow) -> u64 {
    let found = row.occupancy.iter().find(|(name, _)| *name == "gate switches");
    found.map_or(0, |(_, count)| *count as u64)
}

/// Whether all hits are as many, but for 1 % of them or 0.3 points.
fn holds(plain: &HitRow, gated: &HitRow) -> bool {
    let ((units, plain), (_, gated)) = (plain.accesses(None), gated.accesses(None));
    gated * 100 >= plain * 99 || gated * 1000 + 3 * units >= plain * 1000
}

/// Target hits of a pair at 32 MiB: what the gate may not lose, and has to gain.
pub fn target(pair: &str, rows: &[HitRow], study: &mut Study) {
    let (plain, gated) = (hits(rows, WAYS[0], 32), hits(rows, WAYS[2], 32));
    let least = if matches!(pair, "P1" | "P2") { 99 } else { 108 };
    study.checks.push(Check {
        what: format!(
            "{pair}, 32 MiB: target hits behind the gate are at least {} of s3-fifo's",
            times(least, 100)
        ),
        found: times(gated, plain).to_string(),
        holds: plain > 0 && gated * 100 >= plain * least,
    });
}
