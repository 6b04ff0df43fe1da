//! What was found is found again: in other processes, on other numbers of them, from its plan.

use std::fs;

use serde_json::Value;

use crate::place::{Folder, nothing_is_left, torture, varve};

/// The same log, in other processes and any number of them: the same states, the same fates.
fn the_same_again(folder: &Folder, one: &Value, log: &str, options: &[&str]) {
    for jobs in ["1", "3"] {
        let log = ["--log", log, "--jobs", jobs, "--keep-going"];
        let (_, other) = torture(folder, &[&log[..], options].concat());
        assert_eq!(other["results"]["states"], one["results"]["states"]);
        assert_eq!(other["results"]["failures"], one["results"]["failures"]);
    }
}

pub fn what_is_found_is_found_again(fs: &str) {
    let folder = Folder::new();
    let options = ["--fs", fs, "--recipe", "rename-fsync", "--random", "20", "count=6"];
    let first = ["--jobs", "1", "--keep-going", "--out", "out"];
    let (code, one) = torture(&folder, &[&first[..], &options[..]].concat());
    assert_eq!((code, one["results"]["verdict"].as_str()), (4, Some("lost")), "{one:#}");
    let failures = one["results"]["failures"].as_array().unwrap();
    assert!(failures.len() > 1, "{one:#}");
    the_same_again(&folder, &one, "out/rename-fsync.vlog", &options);
    let plan = one["results"]["plans"][0].as_str().expect("a plan");
    let out = varve(&folder, &["replay", plan, "--json", "--times", "3"]);
    let again: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(again["results"]["times_as_written"], 3, "{again:#}");
    nothing_is_left(&folder);
}

pub fn what_is_found_is_found_again_on_lfs() {
    what_is_found_is_found_again("lfs");
}

pub fn what_is_found_is_found_again_on_the_strict_one() {
    what_is_found_is_found_again("strict");
}

pub fn a_rename_without_its_folder_is_lost_on_ext4_and_replayed() {
    let folder = Folder::new();
    let options = ["--recipe", "rename-fsync", "--random", "20", "--out", "out", "count=6"];
    let (code, one) = torture(&folder, &[&["--jobs", "1", "--keep-going"], &options[..]].concat());
    assert_eq!((code, one["results"]["verdict"].as_str()), (4, Some("lost")), "{one:#}");
    let blame = &one["results"]["blame"];
    assert_eq!(blame["missing_fsync"], "the folder /kept", "{blame:#}");
    let plan = one["results"]["plans"][0].as_str().expect("a plan");
    for times in [1, 5] {
        let out = varve(&folder, &["replay", plan, "--json", "--times", &times.to_string()]);
        let again: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(out.status.code(), Some(4), "{again:#}");
        assert_eq!(again["results"]["as_written"], true, "{again:#}");
        assert_eq!(again["results"]["times_as_written"], times, "{again:#}");
    }
    let log = "out/rename-fsync.vlog";
    the_same_again(&folder, &one, log, &[&options[..4], &["count=6"]].concat());
    let image = folder.path("drive.img");
    varve(&folder, &["replay", plan, "--image", &image]);
    assert_eq!(fs::metadata(&image).unwrap().len(), 64 << 20);
    // A log that was changed is not believed.
    let path = folder.0.join(log);
    let mut bytes = fs::read(&path).unwrap();
    bytes[100] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(varve(&folder, &["replay", plan]).status.code(), Some(3));
    nothing_is_left(&folder);
}
