//! The library in hosts that know nothing of it: the system's `sqlite3` shell and Python's module.
//! Both come with their own SQLite, which the library must use.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Where cargo has put the library that belongs to this test.
fn library() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let path = here.parent().unwrap().join("libvarve_sqlite.so");
    assert!(path.is_file(), "{} is not there", path.display());
    path
}

fn shell(script: &str, ram: Option<&str>) -> Output {
    use std::io::Write;
    let mut command = Command::new("sqlite3");
    command.env_remove("VARVE_SQLITE_RAM_FOR_TESTS").arg("-batch");
    if let Some(name) = ram {
        command.env("VARVE_SQLITE_RAM_FOR_TESTS", name);
    }
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("these tests need the sqlite3 shell");
    let script = format!(".load {}\n{script}\n", library().display());
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_shell_loads_it_and_works_on_a_store() {
    let script = ".open file:ram:test?vfs=varve
CREATE TABLE t(a INTEGER PRIMARY KEY, b);
INSERT INTO t VALUES(1, 'one'), (2, 'two');
BEGIN; UPDATE t SET b = 'three' WHERE a = 2; ROLLBACK;
SELECT group_concat(b) FROM t;
PRAGMA journal_mode=WAL;
INSERT INTO t VALUES(3, 'three');
PRAGMA journal_mode=DELETE;
PRAGMA integrity_check;
PRAGMA varve_group=50;
PRAGMA varve_stats;
PRAGMA journal_mode=OFF;
.open file:ram:test?vfs=varve
SELECT count(*) FROM t;";
    let (out, err) = texts(&shell(script, Some("ram:test")));
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(&lines[..5], ["one,two", "wal", "delete", "ok", "50"], "{out} {err}");
    assert!(lines[5].contains("commits"), "{out}");
    assert_eq!(lines.last(), Some(&"3"), "{out} {err}");
    assert!(err.contains("journal_mode=MEMORY"), "{err}");
}

#[test]
fn an_image_file_is_refused_with_a_reason_and_not_touched() {
    let path = std::env::temp_dir().join(format!("varve-{}.img", std::process::id()));
    let script =
        format!(".log stderr\n.open file:{}?vfs=varve\nCREATE TABLE t(a);", path.display());
    let (_, err) = texts(&shell(&script, None));
    assert!(err.contains("unable to open database"), "{err}");
    assert!(err.contains("no device that lies in an image file"), "{err}");
    assert!(!path.exists());
}

#[test]
fn python_uses_it_without_loading_extensions() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let program = "
import sqlite3, varve.sqlite
db = sqlite3.connect('file:ram:python?vfs=varve', uri=True)
db.execute('CREATE TABLE t(a)')
with db:
    db.executemany('INSERT INTO t VALUES(?)', [(n,) for n in range(1000)])
print(db.execute('SELECT sum(a) FROM t').fetchone()[0])
try:
    sqlite3.connect('file:some.varve?vfs=varve', uri=True).execute('SELECT 1 FROM sqlite_schema')
except sqlite3.OperationalError as error:
    print(error)
";
    let output = Command::new("python3")
        .args(["-c", program])
        .env("PYTHONPATH", root)
        .env("VARVE_SQLITE_LIBRARY", library())
        .env("VARVE_SQLITE_RAM_FOR_TESTS", "ram:python")
        .output()
        .expect("this test needs python3");
    let (out, err) = texts(&output);
    assert_eq!(out, "499500\nunable to open database file\n", "{err}");
}

#[test]
fn it_brings_no_sqlite_along() {
    let bytes = std::fs::read(library()).unwrap();
    // A part of SQLite's source id that every build of it carries as text.
    let marker = b"SQLite format 3\0";
    assert!(!bytes.windows(marker.len()).any(|part| part == marker));
}
