//! A host log above the drive, as keys of a scenario.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use varve_lab::replay::Watch;
use varve_lab::scenario::Scenario;
use varve_lab::{Experiment, LabError};

const SCENARIO: &str = r#"
[drive]
capacity = "32 MiB"
geometry.channels = 2
geometry.dies = 1
geometry.planes = 1
geometry.pages = 16
geometry.page = "4 KiB"

[remap]
mode = "log"
segment = "128 KiB"
paper-log.flush = "commit"

[workload]
gen = "fio,rw=randwrite,norandommap=on,bs=4KiB,size=20MiB,prefill=on,count=12k,fsync=64"

[replay]
qd = 8
"#;

fn scenario(pairs: &[&str]) -> Scenario {
    let mut scenario = Scenario::from_text("test", SCENARIO, PathBuf::new()).unwrap();
    for pair in pairs {
        scenario.set_pair(pair).unwrap();
    }
    scenario
}

fn document(scenario: &Scenario) -> Value {
    let (stop, progress) = (AtomicBool::new(false), |_| {});
    let watch = Watch { stop: &stop, progress: &progress };
    let text = Experiment::new(scenario).unwrap().run(2, "test", watch).unwrap().text();
    serde_json::from_str(&text).unwrap()
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} in {value}"))
}

#[test]
fn every_block_of_the_log_is_counted_by_kind() {
    let swept = document(&scenario(&["sweep.remap.mode=off,log,paper-log"]));
    let results = swept["results"].as_array().unwrap();
    assert!(results[0].get("layers").is_none(), "the drive alone has no layer");
    let log = &results[1]["layers"]["remap"];
    let kinds = ["user", "header", "gc", "meta", "root"];
    let sum: u64 = kinds.iter().map(|kind| number(log, &format!("/{kind}"))).sum();
    assert_eq!(sum, number(log, "/backing"));
    assert!(number(log, "/gc") > 0, "nothing was cleaned: {log}");
    let paper = &results[2]["layers"]["remap"];
    let kinds = ["user", "log", "tables", "moved", "super"];
    let sum: u64 = kinds.iter().map(|kind| number(paper, &format!("/{kind}"))).sum();
    assert_eq!(sum, number(paper, "/backing"));
    for result in results {
        assert_eq!(number(result, "/host/write/ops"), number(&results[0], "/host/write/ops"));
        assert_eq!(result["host"]["write"]["bytes"], results[0]["host"]["write"]["bytes"]);
    }
}

/// Of whatever stack: bytes programmed by bytes the client wrote, which is what its parts multiply to.
#[test]
fn write_amplification_is_flash_by_client_whatever_is_between() {
    let pairs =
        ["sweep.remap.mode=off,log,paper-log", "drive.op=12 %", "replay.measure-after=4000"];
    for bs in ["4KiB", "2KiB"] {
        let load = format!(
            "workload.gen=fio,rw=randwrite,norandommap=on,bs={bs},size=20MiB,prefill=on,count=12k,fsync=64"
        );
        let swept = document(&scenario(&[&pairs[..], &[&load]].concat()));
        for result in swept["results"].as_array().unwrap() {
            let (programmed, asked) =
                (number(result, "/nand/programmed_bytes"), number(result, "/host/write/bytes"));
            let (near, ratio) = (
                |a: f64, b: f64| (a / b - 1.0).abs() < 1e-5,
                |key: &str| result.pointer(key).and_then(Value::as_f64),
            );
            let waf = ratio("/waf").unwrap();
            assert!(near(waf, programmed as f64 / asked as f64), "{waf}: {programmed} by {asked}");
            let Some(log) = ratio("/layers/remap/waf") else {
                assert_eq!(ratio("/waf_drive"), None, "the drive alone is all there is");
                continue;
            };
            let drive = ratio("/waf_drive").unwrap();
            assert!(near(waf, log * drive), "{waf} of all, {log} of the log, {drive} of the drive");
            let backing = number(result, "/layers/remap/backing") * 4096;
            // But for what the log had taken and not yet sent when the measured part began.
            let own = backing as f64 / asked as f64;
            assert!((log / own - 1.0).abs() < 0.01, "{log}: {backing} by {asked}");
            assert!(log > 1.0 && drive > 0.9, "{log} {drive}");
        }
    }
}

#[test]
fn the_file_left_behind_repeats_the_run() {
    let first = scenario(&[]);
    let again = Scenario::from_text("again", &first.to_toml().unwrap(), PathBuf::new()).unwrap();
    let (one, two) = (document(&first), document(&again));
    assert_eq!(one["results"], two["results"]);
    assert_eq!(one["remap"]["paper-log.flush"], "commit");
}

#[test]
fn a_key_that_cannot_be_is_refused_by_name() {
    for (pair, expected) in [
        ("remap.mode=on", "off, log or paper-log"),
        ("remap.mode=varve", "`log`"),
        ("remap.paper.flush=commit", "remap.paper-log.flush"),
        ("remap.gc.policy=fifo", "gc.victim"),
        ("remap.segmnet=1 MiB", "segmnet"),
        ("remap.paper-log.flush=maybe", "commit"),
        ("sweep.remap.gc.victim=greedy,clever", "clever"),
    ] {
        let error = Scenario::default().set_pair(pair).unwrap_err();
        assert!(matches!(error, LabError::Input(_)), "{pair}: {error}");
        assert!(error.to_string().contains(expected), "{pair}: {error}");
    }
}
