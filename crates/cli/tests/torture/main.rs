//! `varve torture` and the plans that it leaves, on small programs.

mod again;
mod drives;
mod hostile;
mod place;
mod reports;
#[path = "../../../serve/tests/runner/mod.rs"]
mod runner;
mod strict;

use std::fs;
use std::process::{Command, ExitCode};

use serde_json::Value;

use again::*;
use drives::*;
use hostile::*;
use place::{CHECK, Folder, PROGRAM, nothing_is_left, torture, varve};
use reports::*;
use strict::*;

fn nothing() -> Result<(), String> {
    Ok(())
}

fn lfs() -> Result<(), String> {
    runner::device("/dev/fuse")?;
    let helper = Command::new("fusermount3").arg("--version").output().map(drop);
    helper.map_err(|error| format!("fusermount3: {error}"))
}

fn ext4() -> Result<(), String> {
    lfs()?;
    runner::root("loop devices, mounts")?;
    runner::device("/dev/loop-control")?;
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    match known.split_whitespace().any(|word| word == "ext4") {
        true => Ok(()),
        false => Err("this kernel has no ext4".to_string()),
    }
}

fn strict_as_root() -> Result<(), String> {
    lfs()?;
    runner::root("files are given away")
}

fn pytest() -> Result<(), String> {
    lfs()?;
    let out = Command::new("python3").args(["-m", "pytest", "--version"]).output();
    match out.is_ok_and(|out| out.status.success()) {
        true => Ok(()),
        false => Err("there is no pytest".to_string()),
    }
}

fn lists_and_refusals() {
    let folder = Folder::new();
    let out = varve(&folder, &["torture", "--list", "--json"]);
    let list: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(list["results"].as_array().unwrap().len() >= 10);
    for (args, code) in [
        (&["torture"][..], 3),
        (&["torture", "--recipe", "nonsense"], 3),
        (&["torture", "--recipe", "rename", "nonsense=1"], 3),
        (&["torture", "--sector", "1000", "true"], 2),
        (&["torture", "--cuts", "0", "true"], 2),
        (&["torture", "--mode", "live", "true"], 3),
        (&["torture", "--mode", "dead", "true"], 2),
        (&["torture", "--fs", "strict", "--recoveries", "1", "true"], 3),
        (&["torture", "--log", "/nowhere.vlog", "--check", "true", "--fs", "lfs"], 3),
        (&["torture", "--stack", STACK, "true"], 2),
        (&["torture", "--mode", "live", "--stack", STACK, "--size", "1GiB", "true"], 2),
    ] {
        let out = varve(&folder, args);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{args:?}: {said}");
    }
    for (stack, more, says) in [
        ("ram(64MiB)", &[][..], "nothing cuts its power: expected cut(SEED)"),
        ("image(x, size=1GiB)+cut(1)", &[], "each run begins with a new one in memory"),
        ("drive(nonsense)+log", &[], "nonsense"),
        ("drive(samsung-970pro)+nonsense", &[], "expected log(OPTION=VALUE..), "),
        ("ram(1MiB)+cut(1)", &[], "1048576 bytes: expected 67108864 at least, on ext4"),
        (STACK, &["--fs", "strict"], "--fs strict is no file system on a drive"),
        (STACK, &["--recoveries", "1"], "expected no --recoveries"),
    ] {
        let words = ["torture", "--mode", "live", "--stack", stack];
        let out = varve(&folder, &[&words[..], more, &["--check", "true", "true"]].concat());
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.code() == Some(3) && said.contains(says), "{stack}: {said}");
    }
    fs::write(folder.path("bad.toml"), "plan = 2\nkind = \"torture\"\n").unwrap();
    let out = varve(&folder, &["replay", &folder.path("bad.toml")]);
    assert_eq!(out.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&out.stderr).contains("is missing"));
}

fn unsynced_files_are_lost_and_synced_ones_kept_on_lfs() {
    let folder = Folder::new();
    let options = ["--fs", "lfs", "--jobs", "1", "--random", "10", "--check", CHECK, "--"];
    let (code, kept) = torture(&folder, &[&options[..], &["sh", "-c", PROGRAM, "SYNC"]].concat());
    assert_eq!((code, kept["results"]["verdict"].as_str()), (0, Some("kept")), "{kept:#}");
    assert_eq!(kept["results"]["recorded"]["promises"], 4);
    let (code, lost) = torture(&folder, &[&options[..], &["sh", "-c", PROGRAM, "NO"]].concat());
    assert_eq!((code, lost["results"]["verdict"].as_str()), (4, Some("lost")), "{lost:#}");
    let blame = &lost["results"]["blame"];
    assert_eq!(blame["missing_fsync"], "the folder /d", "{blame:#}");
    nothing_is_left(&folder);
}

fn what_cannot_be_measured_is_said() {
    let folder = Folder::new();
    let run = |check: &str, program: &str| {
        let options =
            ["--fs", "lfs", "--jobs", "1", "--random", "2", "--limit", "2s", "--check", check];
        let (code, all) =
            torture(&folder, &[&options[..], &["--", "sh", "-c", program, "SYNC"]].concat());
        let text = |name: &str| all["results"][name].as_str().unwrap_or_default().to_string();
        (code, text("verdict"), text("why"))
    };
    let (code, verdict, why) = run("true", PROGRAM);
    assert_eq!((code, verdict.as_str()), (1, "not measured"), "{why}");
    assert!(why.contains("content with a drive that forgot"), "{why}");
    let (code, verdict, why) = run(CHECK, "exit 0");
    assert_eq!((code, verdict.as_str()), (1, "not measured"), "{why}");
    for (check, says) in
        [("exit 7", "ended with 7"), ("exit 1", "no reason"), ("sleep 100", "within")]
    {
        let (code, verdict, why) = run(check, PROGRAM);
        assert_eq!((code, verdict.as_str()), (1, "harness broken"), "{check}: {why}");
        assert!(why.contains(says), "{check}: {why}");
    }
    let (code, verdict, why) = run(CHECK, "exit 3");
    assert_eq!((code, verdict.as_str()), (1, "harness broken"), "{why}");
    nothing_is_left(&folder);
}

fn main() -> ExitCode {
    let tests = runner::tests![
        lists_and_refusals: nothing,
        unsynced_files_are_lost_and_synced_ones_kept_on_lfs: lfs,
        what_cannot_be_measured_is_said: lfs,
        a_hostile_program_ends_within_its_limit_on_lfs: lfs,
        a_hostile_program_ends_within_its_limit_on_ext4: ext4,
        a_hostile_program_ends_within_its_limit_on_the_strict_one: lfs,
        another_who_has_the_device_open_changes_nothing: ext4,
        what_others_unmount_is_not_kept_by_a_worker: ext4,
        a_cut_within_a_recovery_is_looked_at: ext4,
        a_program_whose_drive_fails_is_judged_by_what_it_goes_on_to_promise_on_ext4: ext4,
        a_program_whose_drive_fails_is_judged_by_what_it_goes_on_to_promise_on_lfs: lfs,
        a_stack_keeps_what_was_synced_and_no_more_on_lfs: lfs,
        a_stack_keeps_what_was_synced_and_no_more_on_ext4: ext4,
        a_stack_that_loses_what_it_acknowledged_is_caught: lfs,
        a_checker_that_sees_nothing_measures_no_failing_drive: lfs,
        a_file_system_of_small_blocks_mounts_on_the_states_of_its_drive: ext4,
        lfs_comes_up_on_a_drive_that_tears_its_blocks: lfs,
        a_ci_server_reads_what_came_out: lfs,
        what_ext4_hides_is_seen_by_the_strict_one: ext4,
        owners_are_kept_by_the_strict_one_from_their_fsync_on: strict_as_root,
        a_test_of_pytest_fails_with_the_report: pytest,
        a_rename_without_its_folder_is_lost_on_ext4_and_replayed: ext4,
        what_is_found_is_found_again_on_lfs: lfs,
        what_is_found_is_found_again_on_the_strict_one: lfs,
    ];
    runner::run("torture", &tests)
}
