//! `varve sqlite` and `varve reproduce nolog` as scripts see them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn folder(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

fn varve(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_varve")).current_dir(folder).args(args).output().unwrap()
}

#[test]
fn a_workload_is_measured_in_every_mode_and_the_database_stays() {
    let folder = folder("measure");
    let db = folder.join("a.db");
    // An empty file is an empty database.
    std::fs::write(&db, b"").unwrap();
    std::fs::write(folder.join("w.sql"), "CREATE TABLE t (a); INSERT INTO t VALUES (1);").unwrap();
    let args = ["sqlite", "measure", "a.db", "--workload", "w.sql"];
    let out = varve(&folder, &[&args[..], &["--json"]].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["schema"], "varve.sqlite-measure/1");
    let modes = json["results"]["modes"].as_array().unwrap();
    assert_eq!(modes.len(), 7);
    assert!(modes.iter().all(|mode| mode["transactions"] == 2), "{modes:?}");
    assert_eq!(std::fs::read(&db).unwrap(), b"");
    let text = varve(&folder, &args);
    assert!(String::from_utf8_lossy(&text.stdout).contains("Advice, each line from a run"));
}

#[test]
fn what_is_missing_or_wrong_has_its_exit_code() {
    let folder = folder("refused");
    std::fs::write(folder.join("a.db"), b"").unwrap();
    std::fs::write(folder.join("w.sql"), "SELECT nonsense FROM nowhere").unwrap();
    for (args, code) in [
        (["sqlite", "measure", "none.db", "--workload", "w.sql"], 1),
        (["sqlite", "measure", "a.db", "--workload", "none.sql"], 1),
        (["sqlite", "measure", "a.db", "--workload", "w.sql"], 3),
    ] {
        let out = varve(&folder, &args);
        assert_eq!(out.status.code(), Some(code), "{args:?}");
        assert!(!out.stderr.is_empty());
    }
    assert!(!folder.join("none.db").exists());
}
