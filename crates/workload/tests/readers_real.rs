//! Real traces against the counts an independent reader made of them.

use std::path::{Path, PathBuf};

use varve_workload::info::{InfoOptions, TraceInfo, trace_info};
use varve_workload::read::{SizeUnit, TimeUnit};
use varve_workload::{OpenTrace, ReadOptions, open};

/// What a trace must parse to. Megabytes are 10^6 bytes, rounded to one place as in the tables.
struct Row {
    file: &'static str,
    requests: u64,
    /// Reads, writes, flushes, discards.
    ops: [u64; 4],
    /// Tenths of a megabyte: read, written, footprint.
    tenths: [u64; 3],
}

fn info(path: &Path, options: &ReadOptions) -> (OpenTrace, TraceInfo) {
    let mut trace = open(path, options).unwrap_or_else(|e| panic!("{e}"));
    let info = trace_info(&mut trace, &InfoOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    (trace, info)
}

fn tenths(bytes: u64) -> u64 {
    (bytes + 50_000) / 100_000
}

fn check(row: &Row, trace: &OpenTrace, info: &TraceInfo) {
    let c = &info.total;
    let ops = [c.read.requests, c.write.requests, c.flush.requests, c.discard.requests];
    assert_eq!(c.requests(), row.requests, "{}", row.file);
    assert_eq!(ops, row.ops, "{}", row.file);
    let found = [tenths(c.read.bytes), tenths(c.write.bytes), tenths(c.footprint_pages * 4096)];
    assert_eq!(found, row.tenths, "{}", row.file);
    assert_eq!(trace.summary().records, row.requests);
    assert_eq!(info.untracked_pages, 0);
    let by_size: u64 = info.sizes.iter().map(|s| s.read.requests + s.write.requests).sum();
    assert_eq!(by_size, c.transfers().requests);
}

fn row(file: &'static str, requests: u64, ops: [u64; 4], tenths: [u64; 3]) -> Row {
    Row { file, requests, ops, tenths }
}

#[test]
fn the_committed_traces_have_their_published_counts() {
    let rows = [
        row("sqlite_wal_full_ext4", 72_016, [6, 51_207, 20_796, 7], [0, 5_775, 417]),
        row("tpcc_run_mariadb_ext4", 263_181, [179_476, 74_284, 9_421, 0], [29_405, 22_288, 1_877]),
        row("filebench_varmail_ext4", 227_347, [62, 140_308, 30_134, 56_843], [3, 20_898, 8_004]),
        row("ycsb_a_rocksdb_ext4", 484_258, [476_674, 6_593, 666, 325], [67_457, 27_887, 25_414]),
        row(
            "ycsb_load_rocksdb_ext4",
            16_284,
            [4_591, 10_224, 1_046, 423],
            [24_421, 47_572, 21_380],
        ),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    for r in &rows {
        let path = folder.join(format!("{}.csv.zst", r.file));
        let (trace, info) = info(&path, &ReadOptions::default());
        assert_eq!(trace.format().name, "msr");
        assert_eq!(trace.compression().name(), "zstd");
        check(r, &trace, &info);
        assert_eq!(trace.apps().len(), 1);
        assert_eq!(trace.summary().skipped, 0);
    }
}

#[test]
fn shares_are_those_of_the_table() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data");
    // Rewrite % as published; then hundredths of a percent that are sequential, hundredths of a KiB
    // of the mean read or write, and seconds, by an independent script.
    let rows = [
        ("sqlite_wal_full_ext4", 93, 45, 1_101, 8),
        ("tpcc_run_mariadb_ext4", 93, 287, 1_989, 22),
        ("filebench_varmail_ext4", 62, 3_860, 1_454, 15),
        ("ycsb_a_rocksdb_ext4", 24, 175, 1_927, 27),
        ("ycsb_load_rocksdb_ext4", 55, 6_589, 47_455, 18),
    ];
    let share = |a: u64, b: u64, of: u64| (a * of + b / 2) / b;
    for (name, rewrite, sequential, mean, seconds) in rows {
        let (_, info) = info(&folder.join(format!("{name}.csv.zst")), &ReadOptions::default());
        let c = info.total;
        assert_eq!(share(c.page_rewrites, c.page_writes, 100), rewrite, "{name}");
        assert_eq!(share(c.sequential, c.transfers().requests, 10_000), sequential, "{name}");
        let found = share(c.transfers().bytes, c.transfers().requests * 1024, 100);
        assert_eq!(found, mean, "{name} mean");
        let found = info.span().as_ps() / 1_000_000_000_000;
        assert!(found.abs_diff(seconds) <= 1, "{name} {found} s");
    }
}

/// All nineteen captures against the counters their capture wrote, where the whole set is at hand.
#[test]
fn the_whole_set_of_captures_has_the_counts_of_its_capture() {
    let Some(folder) = std::env::var_os("VARVE_OWN_TRACES").map(PathBuf::from) else {
        eprintln!(
            "SKIPPED: only five captures are in this repository; set VARVE_OWN_TRACES for all"
        );
        return;
    };
    let stats = std::fs::read_to_string(folder.join("STATS.jsonl")).unwrap();
    let mut seen = 0;
    for line in stats.lines() {
        let wanted: serde_json::Value = serde_json::from_str(line).unwrap();
        let name = wanted["out"].as_str().unwrap();
        let (_, info) = info(&folder.join(format!("{name}.zst")), &ReadOptions::default());
        let c = info.total;
        let count = |key: &str| wanted[key].as_u64().unwrap_or(0);
        assert_eq!(c.requests(), count("requests"), "{name}");
        assert_eq!(c.read.requests, count("read"), "{name}");
        assert_eq!(c.write.requests, count("write"), "{name}");
        assert_eq!(c.flush.requests, count("flush"), "{name}");
        assert_eq!(c.discard.requests, count("discard"), "{name}");
        let mb = |key: &str| (wanted[key].as_f64().unwrap() * 10.0).round() as u64;
        assert_eq!(tenths(c.read.bytes), mb("read_mb"), "{name}");
        assert_eq!(tenths(c.write.bytes), mb("write_mb"), "{name}");
        assert_eq!(tenths(c.footprint_pages * 4096), mb("footprint_mb"), "{name}");
        assert_eq!(tenths(c.written_pages * 4096), mb("write_footprint_mb"), "{name}");
        seen += 1;
    }
    assert_eq!(seen, 19);
}

/// The folder of public samples, which this repository does not hold.
fn public_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("VARVE_PUBLIC_TRACES").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("SKIPPED: no folder of public samples; set VARVE_PUBLIC_TRACES to check them");
    }
    folder
}

fn public(file: &str, options: &ReadOptions, wanted: &Row) -> Option<(OpenTrace, TraceInfo)> {
    let path = public_folder()?.join(file);
    if !path.exists() {
        eprintln!("SKIPPED: {} is not there", path.display());
        return None;
    }
    let (trace, info) = info(&path, options);
    check(wanted, &trace, &info);
    Some((trace, info))
}

fn detected() -> ReadOptions {
    ReadOptions::default()
}

#[test]
fn public_msr() {
    let r = row("msr", 1_000, [508, 492, 0, 0], [61, 36, 79]);
    let Some((trace, info)) = public("msr_hm_1000.csv.zst", &detected(), &r) else { return };
    assert_eq!(trace.format().name, "msr");
    assert_eq!(trace.apps(), ["hm_0"]);
    assert_eq!(info.span().as_ps() / 100_000_000_000, 1_272);
}

#[test]
fn public_tencent() {
    let r = row("tencent", 5_000, [2_313, 2_687, 0, 0], [518, 1_173, 1_643]);
    let Some((trace, info)) = public("tencent_cbs_5k.csv.zst", &detected(), &r) else { return };
    assert_eq!(trace.format().name, "tencent");
    assert_eq!((trace.apps().len(), info.apps.len()), (477, 477));
}

#[test]
fn public_cloudphysics() {
    let r = row("cloudphysics", 113_872, [46_974, 66_898, 0, 0], [17_974, 24_086, 11_027]);
    let Some((trace, info)) = public("cloudphysics_114k.csv.zst", &detected(), &r) else { return };
    assert_eq!(trace.format().name, "cloudphysics");
    assert_eq!(trace.summary().not_requests, 1);
    assert!(info.total.aligned * 200 < r.requests, "next to nothing is aligned");
}

#[test]
fn public_ssdsim_tables() {
    let unit = |time_unit| ReadOptions {
        format: Some("ssdsim".into()),
        time_unit: Some(time_unit),
        ..ReadOptions::default()
    };
    let r = row("dtrs", 127_043, [113_123, 13_920, 0, 0], [64_370, 7_608, 52_112]);
    public("dtrs_127k.ssdsim.zst", &unit(TimeUnit::Us), &r);
    let r = row("financial1", 10_000, [4_077, 5_923, 0, 0], [254, 298, 300]);
    if let Some((trace, _)) = public("financial1_10k.ssdsim.zst", &unit(TimeUnit::Ns), &r) {
        assert_eq!(trace.apps().len(), 22);
    }
    let r = row("mqsim tpcc", 6_999, [4_381, 2_618, 0, 0], [363, 234, 838]);
    public("mqsim_tpcc_small.ssdsim.zst", &unit(TimeUnit::Ns), &r);
    let r = row("mqsim wsrch", 24_783, [24_779, 4, 0, 0], [3_821, 0, 3_810]);
    public("mqsim_wsrch_small.ssdsim.zst", &unit(TimeUnit::Ns), &r);
    let Some(folder) = public_folder() else { return };
    let error = open(&folder.join("dtrs_127k.ssdsim.zst"), &detected()).unwrap_err().to_string();
    assert!(error.contains("disksim, ssdsim, flashsim"), "{error}");
}

#[test]
fn public_flashsim() {
    let options = ReadOptions {
        format: Some("flashsim".into()),
        size_unit: Some(SizeUnit::Page),
        ..ReadOptions::default()
    };
    let r = row("web1", 50_000, [49_990, 10, 0, 0], [7_753, 1, 7_596]);
    public("leokang_web1.flashsim.zst", &options, &r);
}

#[test]
fn public_fiu() {
    let r = row("fiu", 9_998, [8_896, 1_102, 0, 0], [364, 45, 377]);
    let Some((trace, _)) = public("fiu_mail_cheetah_10k.fiu.zst", &detected(), &r) else { return };
    assert_eq!(trace.format().name, "fiu");
    assert_eq!(trace.apps(), ["6,0"]);
}

#[test]
fn public_blkparse() {
    let r = row("blkparse", 5_727, [4_722, 1_005, 0, 0], [5_372, 4_398, 9_523]);
    let Some((trace, _)) = public("ycsb_java_f2fs.blkparse.zst", &detected(), &r) else { return };
    assert_eq!(trace.format().name, "blkparse");
    assert_eq!(trace.summary().lines, 17_225);
    assert_eq!(trace.summary().tail_lines, 17_225 - 17_181);
    assert_eq!(trace.summary().sorted, 1_154);
    assert_eq!(trace.summary().other_events, 5_727);
}

#[test]
fn public_arc() {
    let r = row("arc", 914_145, [914_145, 0, 0, 0], [37_443, 0, 7_655]);
    let Some((trace, info)) = public("arc_OLTP.lis.zst", &detected(), &r) else { return };
    assert_eq!(trace.format().name, "arc");
    assert!(!trace.format().carries.op && !trace.format().carries.time);
    assert_eq!(info.total.footprint_pages, 186_880);
}
