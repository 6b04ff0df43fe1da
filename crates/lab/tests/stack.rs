//! A host log above the drive, as keys of a scenario.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use lab::replay::Watch;
use lab::scenario::Scenario;
use lab::{Experiment, LabError};
use serde_json::Value;

const SCENARIO: &str = r#"
[drive]
capacity = "32 MiB"
geometry.channels = 2
geometry.dies = 1
geometry.planes = 1
geometry.pages = 16
geometry.page = "4 KiB"

[remap]
mode = "varve"
segment = "128 KiB"
paper.flush = "commit"

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
    let text = Experiment::new(scenario).unwrap().run(2, "test", watch, &|_| {}).unwrap().text();
    serde_json::from_str(&text).unwrap()
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("{path} in {value}"))
}

#[test]
fn every_block_of_the_log_is_counted_by_kind() {
    let swept = document(&scenario(&["sweep.remap.mode=off,varve,paper"]));
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
    assert!(results[1]["waf_all"].as_f64() > results[1]["waf"].as_f64());
}

#[test]
fn the_file_left_behind_repeats_the_run() {
    let first = scenario(&[]);
    let again = Scenario::from_text("again", &first.to_toml().unwrap(), PathBuf::new()).unwrap();
    let (one, two) = (document(&first), document(&again));
    assert_eq!(one["results"], two["results"]);
    assert_eq!(one["remap"]["paper.flush"], "commit");
}

#[test]
fn a_key_that_cannot_be_is_refused_by_name() {
    for (pair, expected) in [
        ("remap.mode=on", "off, varve or paper"),
        ("remap.segmnet=1 MiB", "segmnet"),
        ("remap.paper.flush=maybe", "commit"),
        ("sweep.remap.gc.policy=greedy,clever", "clever"),
    ] {
        let error = Scenario::default().set_pair(pair).unwrap_err();
        assert!(matches!(error, LabError::Input(_)), "{pair}: {error}");
        assert!(error.to_string().contains(expected), "{pair}: {error}");
    }
}
