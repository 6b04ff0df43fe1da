//! Runs that are interrupted.

use super::*;

#[test]
fn an_interrupted_sweep_keeps_what_is_finished() {
    let folder = Folder::new("partial");
    let more = ["--seed", "1..10000", "--threads", "2", "--quiet", "--out", "o"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_varve"))
        .current_dir(&folder.0)
        .args(sim(RECIPE, &more))
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let points = folder.0.join("o/points");
    while std::fs::read_dir(&points).map_or(0, Iterator::count) < 3 {
        assert!(child.try_wait().unwrap().is_none(), "ended before anything was kept");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130, "{}", stderr(&output));
    assert!(stderr(&output).contains("of 10000 runs are finished and kept"), "{}", stderr(&output));
    assert!(!folder.0.join("o/results.json").exists());
    let partial = folder.run(&["merge", "o", "--partial", "--json"]);
    let document: Value = serde_json::from_slice(&partial.stdout).unwrap();
    assert_eq!(document["schema"], "varve.run/2");
    let results = document["results"].as_array().unwrap();
    assert_eq!(document["partial"]["finished"].as_u64().unwrap(), results.len() as u64);
    assert_eq!(document["partial"]["of"], 10_000);
    results.iter().for_each(check_identities);
    // What is there of one result is what the whole run says of it, and then nothing is partial.
    let output = folder.run(&sim(RECIPE, &["--seed", "1..2", "--quiet", "--out", "o"]));
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let whole: Value =
        serde_json::from_slice(&std::fs::read(folder.0.join("o/results.json")).unwrap()).unwrap();
    assert!(whole.get("partial").is_none());
    assert!(results.contains(&whole["results"][0]) || results[0]["params"]["seed"] != 1);
}

#[cfg(unix)]
#[test]
fn control_c_is_130() {
    let folder = Folder::new("stop");
    let recipe = "gen:uniform,size=32MiB,count=500M";
    let mut child = Command::new(env!("CARGO_BIN_EXE_varve"))
        .current_dir(&folder.0)
        .args(sim(recipe, &["--out", "o", "--quiet", "--mode", "untimed"]))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // Before it listens, the signal would end it as it ends any program.
    let status = format!("/proc/{}/status", child.id());
    let listens = || {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        caught.is_some_and(|mask| {
            u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 2 != 0)
        })
    };
    let begun = (0..6_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        listens()
    });
    assert!(begun, "it never listens");
    std::thread::sleep(std::time::Duration::from_millis(300));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!folder.0.join("o").exists(), "no half result");
}

/// A study looks at nothing while it runs: it ends at once, and the folder is as a later start wants it.
#[test]
fn control_c_ends_a_study() {
    use std::io::{BufRead, BufReader};
    let folder = Folder::new("interrupted-study");
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
    command.args(["reproduce", "all", "--quick", "--threads", "1", "--out"]).arg(&folder.0);
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data");
    command.args(["--data", data]).stdout(std::process::Stdio::null());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.starts_with("[1/5]"), "{said}");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let left: Vec<_> =
        std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["made-by"]);
}
