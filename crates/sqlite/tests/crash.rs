//! Power cuts below an image: the alarm is silent where it should be, and rings where it must.

use std::path::PathBuf;

use block::Bytes;
use live::Planted;
use varve_sqlite_host::crash::{Plan, check, check_with, workload};
use varve_sqlite_vfs::{Store, StoreOptions};

fn image(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    drop(Store::create(&path, Bytes(4 << 20), StoreOptions::default()).unwrap());
    path
}

fn plan(cuts: u64, workload: String) -> Plan {
    Plan { cuts, seed: 7, only: None, workload, again: "again".to_string() }
}

#[test]
fn what_was_acknowledged_is_there_after_every_cut() {
    let path = image("crash-sound.varve");
    let report = check(&path, &plan(60, workload())).unwrap();
    assert_eq!(report.cuts, 60);
    // Two statements, then 24 transactions.
    assert_eq!((report.commits, report.relaxed), (26, false));
    assert!(report.calls > 75 && report.beyond < report.cuts, "{report:?}");
    // Fewer than asked for: all of them, once each.
    let few = plan(1000, "CREATE TABLE t (a); INSERT INTO t VALUES (1);".to_string());
    let report = check(&path, &few).unwrap();
    assert_eq!((report.cuts, report.commits), (report.calls, 2));
}

#[test]
fn a_group_may_lose_its_end_and_nothing_else() {
    let path = image("crash-group.varve");
    let sql = format!("PRAGMA varve_group=20; {}", workload());
    let report = check(&path, &plan(40, sql));
    // The reference knows no such PRAGMA: it answers nothing, and changes nothing.
    let report = report.unwrap();
    assert!(report.relaxed, "{report:?}");
}

#[test]
fn commits_that_are_answered_too_early_are_found_and_can_be_repeated() {
    let path = image("crash-planted.varve");
    let found = check_with(&path, &plan(60, workload()), Some(Planted::CommitNotSynced).into());
    let error = found.unwrap_err();
    assert_eq!(error.exit_code(), 4);
    let text = error.to_string();
    assert!(text.contains("commits were acknowledged, found"), "{text}");
    let (_, at) = text.split_once("again: again --seed 7 --at ").unwrap();
    let one = Plan { only: Some(at.parse().unwrap()), ..plan(1, workload()) };
    let again = check_with(&path, &one, Some(Planted::CommitNotSynced).into()).unwrap_err();
    assert_eq!(again.to_string(), text);
    assert_eq!(check(&path, &one).unwrap().cuts, 1);
}

#[test]
fn sql_that_cannot_be_judged_is_refused() {
    let path = image("crash-refused.varve");
    for (sql, text) in [
        ("CREATE TABLE t (a); INSERT INTO t VALUES (randomblob(8));", "other rows each time"),
        ("BEGIN; CREATE TABLE t (a);", "inside a transaction"),
        ("SELECT nonsense;", "nonsense"),
    ] {
        let error = check(&path, &plan(5, sql.to_string())).unwrap_err();
        assert_eq!(error.exit_code(), 3, "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}
