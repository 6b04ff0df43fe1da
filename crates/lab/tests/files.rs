//! A load of files in a scenario: over the drive alone, and over logs.

use std::path::PathBuf;

use varve_lab::scenario::Scenario;
use varve_lab::{Experiment, LabError};

const SCENARIO: &str = r#"
stack = "drive(paper-nolog, geometry.blocks=0, capacity=96 MiB, geometry.channels=2, geometry.dies=1, line=plane, op=60 %)"

[workload]
files = "fileserver(threads=4, measured=20 %, full=60 %)"

[sweep]
stack = ["+", "+log(segment=128KiB)", "+log(segment=128KiB)+lfs(cleaning=bl6)"]
"#;

fn run(text: &str, threads: usize) -> Result<serde_json::Value, LabError> {
    let scenario = Scenario::from_text("files.toml", text, PathBuf::new())?;
    let experiment = Experiment::new(&scenario)?;
    let flag = std::sync::atomic::AtomicBool::new(false);
    let watch = varve_lab::replay::Watch { stop: &flag, progress: &|_| () };
    let document = experiment.run(threads, "test", watch)?;
    Ok(serde_json::from_str(&document.text()).expect("JSON"))
}

#[test]
fn a_scenario_runs_a_load_of_files_over_every_stack() {
    let document = run(SCENARIO, 2).unwrap();
    assert_eq!(document, run(SCENARIO, 1).unwrap());
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), 3);
    for result in results {
        let files = &result["files"];
        assert!(files["operations"].as_u64().unwrap() > 100, "{files}");
        let user = files["user_blocks"].as_u64().unwrap();
        let written = files["written_blocks"]["total"].as_u64().unwrap();
        assert!(written > user, "{files}");
        // The file system, the log and the drive, each counted once.
        let bytes = result["nand"]["programmed_bytes"].as_u64().unwrap();
        let waf = result["waf"].as_f64().unwrap();
        assert!((waf - bytes as f64 / (4096 * user) as f64).abs() < 1e-5);
        assert!(result["latency_ns"]["write"]["mean"].as_f64().unwrap() > 0.0);
    }
    assert!(results[0].get("layers").is_none());
    assert!(results[1]["layers"]["remap"]["waf"].as_f64().unwrap() > 1.0);
    // With the journal a cleaning needs no checkpoint; as kernel 6.1 does it they are made for space.
    assert!(results[2]["files"]["written_blocks"]["journal"].as_u64().unwrap() == 0);
}

#[test]
fn what_does_not_go_with_a_load_of_files_is_refused() {
    let short = "stack = \"drive(paper-nolog)\"\n[workload]\nfiles = \"fio\"\n";
    let error = run(&format!("{short}[replay]\nmode = \"closed\"\n"), 1).unwrap_err().to_string();
    assert!(error.contains("keys of `replay` have no effect"), "{error}");
    let untimed = "[drive]\npreset = \"paper-nolog\"\ntiming = \"off\"\n[workload]\n";
    for load in ["files = \"fio\"", "gen = \"uniform,size=1MiB,count=9\""] {
        let error = run(&format!("{untimed}{load}\n"), 1).unwrap_err().to_string();
        assert!(error.starts_with("drive.timing = off: a drive without time"), "{error}");
    }
    let load = "gen = \"uniform,size=1MiB,count=9\"\n[replay]\nmode = \"untimed\"\n";
    run(&format!("{untimed}{load}"), 1).unwrap();
    let both = "[workload]\nfiles = \"fio\"\ngen = \"uniform,size=1MiB,count=9\"\n";
    let error = run(both, 1).unwrap_err().to_string();
    assert!(error.contains("expected one of the two"), "{error}");
    let blocks = "stack = \"+lfs\"\n[workload]\ngen = \"uniform,size=1MiB,count=9\"\n";
    let error = run(blocks, 1).unwrap_err().to_string();
    assert!(error.contains("expected a load of them"), "{error}");
}
