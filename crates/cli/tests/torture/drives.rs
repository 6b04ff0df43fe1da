//! Drives whose power goes twice, or that fail, and stacks of ours instead of one.

use serde_json::Value;

use crate::place::{CHECK, Folder, PROGRAM, nothing_is_left, torture, varve};

/// What it saved it keeps in a log; who recovers moves it elsewhere, and forgets one fsync.
const LOGGING: &str = r#"
mkdir "$VARVE_DIR/d"; : >"$VARVE_DIR/d/log"; sync "$VARVE_DIR/d/log" "$VARVE_DIR/d"; echo ready >"$VARVE_ACK"
for i in 1 2 3; do
  echo "$i" >>"$VARVE_DIR/d/log"; sync "$VARVE_DIR/d/log"; echo "$i" >"$VARVE_ACK"
done"#;
const RECOVERS: &str = r#"
cd "$VARVE_DIR/d" || exit 2
if [ -e log ]; then
  cp log new || exit 2
  if [ "$careful" = yes ]; then sync new; fi
  mv new data; [ "$careful" != yes ] || sync .
  rm log; sync .
fi
while read -r i; do grep -qx "$i" data || { echo "lost $i"; exit 1; }; done <"$VARVE_ACKED""#;

pub fn a_cut_within_a_recovery_is_looked_at() {
    for (careful, code, verdict) in [("yes", 0, "kept"), ("no", 4, "lost")] {
        let folder = Folder::new();
        let check = format!("careful={careful}; {RECOVERS}");
        let options = ["--random", "2", "--recoveries", "3", "--out", "out", "--check", &check];
        let words = [&options[..], &["--", "sh", "-c", LOGGING]].concat();
        let (found, all) = torture(&folder, &words);
        let results = &all["results"];
        assert_eq!((found, results["verdict"].as_str()), (code, Some(verdict)), "{all:#}");
        // What one cut leaves is good either way.
        assert_eq!(
            (&results["worst"]["failed"], &results["drawn"]["failed"]),
            (&0.into(), &0.into())
        );
        let recoveries = results["recoveries"].as_array().unwrap();
        assert!(recoveries.iter().all(|one| one["looked_at"].as_u64() > Some(3)), "{all:#}");
        if verdict == "lost" {
            let plan = results["plans"][0].as_str().expect("a plan");
            let out = varve(&folder, &["replay", plan]);
            let said = String::from_utf8_lossy(&out.stdout).into_owned();
            assert!(out.status.code() == Some(4) && said.contains("as written"), "{said}");
        }
        nothing_is_left(&folder);
    }
}

/// Whoever goes on promising when fsync fails loses what he promised; who stops does not.
fn a_program_whose_drive_fails(fs: &str) {
    let careful = PROGRAM.replace("d\"; fi", "d\" || exit 1; fi");
    assert_ne!(careful, PROGRAM);
    for (program, code, verdict) in [(PROGRAM, 4, "lost"), (&careful, 0, "kept")] {
        let folder = Folder::new();
        let options = ["--mode", "live", "--fs", fs, "--cuts", "9", "--out", "out", "--check"];
        let words = [&options[..], &[CHECK, "--", "sh", "-c", program, "SYNC"]].concat();
        let (found, all) = torture(&folder, &words);
        let results = &all["results"];
        assert_eq!((found, results["verdict"].as_str()), (code, Some(verdict)), "{all:#}");
        let live = &results["live"];
        assert!(live["runs"] == 9 && live["struck"].as_u64() > Some(4), "{live:#}");
        if verdict == "lost" {
            let plan = results["plans"][0].as_str().expect("a plan");
            let out = varve(&folder, &["replay", plan]);
            let said = String::from_utf8_lossy(&out.stdout).into_owned();
            assert!(out.status.code() == Some(4) && said.contains("as written"), "{said}");
        } else {
            assert!(live["complained"].as_u64() > Some(4), "{live:#}");
        }
        nothing_is_left(&folder);
    }
}

pub fn a_program_whose_drive_fails_is_judged_by_what_it_goes_on_to_promise_on_ext4() {
    a_program_whose_drive_fails("ext4");
}

/// Its unmount says what is lost, as it should: that is no end of the test.
pub fn a_program_whose_drive_fails_is_judged_by_what_it_goes_on_to_promise_on_lfs() {
    a_program_whose_drive_fails("lfs");
}

/// Small, with a buffer that is lost and a log that recovers.
pub const STACK: &str = "drive(femu-default, scale=1/64, buffer.policy=lru, buffer.size=1MiB)+log";

/// Runs the program on a stack whose power goes; what came of it.
fn on_a_stack(folder: &Folder, fs: &str, stack: &str, (runs, how): (&str, &str)) -> (i32, Value) {
    let options = ["--mode", "live", "--fs", fs, "--stack", stack, "--cuts", runs, "--out", how];
    let words = [&options[..], &["--check", CHECK, "--", "sh", "-c", PROGRAM, how]].concat();
    torture(folder, &words)
}

pub fn a_stack_keeps_what_was_synced_and_no_more(fs: &str) {
    let folder = Folder::new();
    let (code, all) = on_a_stack(&folder, fs, STACK, ("10", "SYNC"));
    let results = &all["results"];
    assert_eq!((code, results["verdict"].as_str()), (0, Some("kept")), "{all:#}");
    let stack = &results["stack"];
    assert!(stack["runs"] == 10 && stack["failed"] == 0, "{stack:#}");
    assert!(stack["cut_within"].as_u64() > Some(3), "{stack:#}");
    assert!(stack["operations"].as_u64() > Some(3), "{stack:#}");
    let (code, all) = on_a_stack(&folder, fs, STACK, ("5", "NO"));
    let results = &all["results"];
    assert_eq!((code, results["verdict"].as_str()), (4, Some("lost")), "{all:#}");
    // What it came up with is there, and judged again.
    let plan = results["plans"][0].as_str().expect("a plan");
    let out = varve(&folder, &["replay", plan, "--json"]);
    let again: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(4), "{again:#}");
    assert_eq!(again["results"]["as_written"], true, "{again:#}");
    assert_eq!(again["results"]["state"], results["failures"][0]["state"], "{again:#}");
    nothing_is_left(&folder);
}

pub fn a_stack_keeps_what_was_synced_and_no_more_on_lfs() {
    a_stack_keeps_what_was_synced_and_no_more("lfs");
}

pub fn a_stack_keeps_what_was_synced_and_no_more_on_ext4() {
    a_stack_keeps_what_was_synced_and_no_more("ext4");
}

/// Paper 1's log passes flushes down and does not commit: what was acknowledged is lost with its table.
pub fn a_stack_that_loses_what_it_acknowledged_is_caught() {
    let folder = Folder::new();
    let stack = "drive(femu-default, scale=1/64, buffer.policy=lru, buffer.size=1MiB)+paper-log";
    let (code, all) = on_a_stack(&folder, "lfs", stack, ("5", "SYNC"));
    assert_eq!((code, all["results"]["verdict"].as_str()), (4, Some("lost")), "{all:#}");
    // A checker that is content with everything measures no stack.
    let options = ["--mode", "live", "--fs", "lfs", "--stack", STACK, "--cuts", "1"];
    let words = [&options[..], &["--check", "true", "--", "sh", "-c", PROGRAM, "SYNC"]].concat();
    let (code, all) = torture(&folder, &words);
    assert_eq!((code, all["results"]["verdict"].as_str()), (1, Some("not measured")), "{all:#}");
    nothing_is_left(&folder);
}

/// A checker that is content with everything measures no drive that fails either.
pub fn a_checker_that_sees_nothing_measures_no_failing_drive() {
    let folder = Folder::new();
    let careful = PROGRAM.replace("d\"; fi", "d\" || exit 1; fi");
    let options = ["--mode", "live", "--fs", "lfs", "--cuts", "4", "--check", "true"];
    let words = [&options[..], &["--", "sh", "-c", &careful, "SYNC"]].concat();
    let (code, all) = torture(&folder, &words);
    let results = &all["results"];
    assert_eq!((code, results["verdict"].as_str()), (1, Some("not measured")), "{all:#}");
    assert!(results["live"]["struck"].as_u64() > Some(0), "{all:#}");
    let why = results["why"].as_str().unwrap_or_default();
    assert!(why.contains("content with a drive that forgot"), "{why}");
    nothing_is_left(&folder);
}

/// What is asked of a drive by one that recorded it is asked of each of its states.
fn all_states_mount(options: &[&str]) {
    let folder = Folder::new();
    let check = ["--random", "12", "--check", CHECK, "--", "sh", "-c", PROGRAM, "SYNC"];
    let (code, all) = torture(&folder, &[options, &check].concat());
    let results = &all["results"];
    assert_eq!((code, results["verdict"].as_str()), (0, Some("kept")), "{all:#}");
    assert_eq!(results["unmountable"], 0, "{all:#}");
    nothing_is_left(&folder);
}

pub fn a_file_system_of_small_blocks_mounts_on_the_states_of_its_drive() {
    all_states_mount(&["--mkfs", "-b 1024"]);
}

/// It seals what such a drive tears, if it knows of it.
pub fn lfs_comes_up_on_a_drive_that_tears_its_blocks() {
    all_states_mount(&["--fs", "lfs", "--sector", "512"]);
}
