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

/// A folder of this test's own, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("varve-ext-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_shell_keeps_what_was_committed_when_the_power_goes() {
    let folder = Folder::new("shell");
    let image = folder.file("home.varve");
    let open = |more: &str| format!(".open file:{image}?vfs=varve{more}\n");
    let (out, err) = texts(&shell(
        &(open("&capacity=4MiB") + "CREATE TABLE t(a INTEGER PRIMARY KEY, b);\nSELECT 'made';"),
        None,
    ));
    assert_eq!(out, "made\n", "{err}");
    let mut before = 0;
    let (mut cuts, mut at) = (0, 1);
    // A transfer of one row a transaction; the power goes a little later each time.
    while cuts < 12 {
        let mut script = open(&format!("&power_cut={at}&cut_seed={at}"));
        for n in 0..20 {
            script += &format!("INSERT INTO t(b) VALUES({n}); SELECT 'ok';\n");
        }
        let (out, _) = texts(&shell(&script, None));
        let acknowledged = out.lines().filter(|line| *line == "ok").count();
        cuts += u64::from(acknowledged < 20);
        let (out, err) = texts(&shell(
            &(open("") + "PRAGMA integrity_check; SELECT count(*), max(a) = count(*) FROM t;"),
            None,
        ));
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[0], "ok", "{err}");
        let (count, gapless) = lines[1].split_once('|').unwrap();
        let count: usize = count.parse().unwrap();
        // What was acknowledged is there, and at most one more.
        assert!((before + acknowledged..=before + acknowledged + 1).contains(&count), "{out}");
        assert!(count == 0 || gapless == "1", "{out}");
        before = count;
        at += 3;
    }
}

#[test]
fn a_file_that_is_no_image_is_left_alone() {
    let folder = Folder::new("other");
    let path = folder.file("plain.db");
    std::fs::write(&path, vec![b'x'; 9000]).unwrap();
    let script = format!(".log stderr\n.open file:{path}?vfs=varve\nCREATE TABLE t(a);");
    let (_, err) = texts(&shell(&script, None));
    assert!(err.contains("unable to open database"), "{err}");
    assert!(err.contains("no varve image"), "{err}");
    assert_eq!(std::fs::read(&path).unwrap(), vec![b'x'; 9000]);
}

#[test]
fn a_store_tells_its_reasons_to_sqlites_log_and_by_a_pragma() {
    let folder = Folder::new("reasons");
    let image = folder.file("small.varve");
    let script = format!(
        ".log stderr\n.open file:{image}?vfs=varve&capacity=4MiB\nCREATE TABLE t(a);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
INSERT INTO t SELECT randomblob(900) FROM n;
PRAGMA varve_error;
SELECT count(*) FROM t;"
    );
    let (out, err) = texts(&shell(&script, None));
    let reason = "kept for statements that free some";
    let (said, count) = out.trim().split_once('\n').unwrap_or_else(|| panic!("{out}{err}"));
    assert!(said.contains(reason) && count == "0", "{out}{err}");
    assert!(err.lines().any(|line| line.contains("(13)") && line.contains(reason)), "{err}");
}

#[test]
fn python_keeps_what_was_committed_when_the_power_goes() {
    let folder = Folder::new("python");
    let program = "
import sqlite3, sys, varve.sqlite
name = f'file:{sys.argv[1]}?vfs=varve'
db = sqlite3.connect(name + '&capacity=4MiB', uri=True, isolation_level=None)
db.execute('CREATE TABLE t(a)')
db.close()
total, cuts = 0, 0
for at in range(1, 60, 5):
    db = sqlite3.connect(f'{name}&power_cut={at}&cut_seed={at}', uri=True, isolation_level=None)
    done = 0
    try:
        for n in range(20):
            db.execute('INSERT INTO t VALUES(?)', (n,))
            done += 1
    except sqlite3.Error as error:
        cuts += 1
    try:
        db.close()
    except sqlite3.Error:
        pass
    db = sqlite3.connect(name, uri=True)
    assert db.execute('PRAGMA integrity_check').fetchone() == ('ok',)
    count = db.execute('SELECT count(*) FROM t').fetchone()[0]
    assert total + done <= count <= total + done + 1, (total, done, count)
    total = count
    db.close()
print(cuts)
";
    let (out, err) = texts(&python(program, &[&folder.file("home.varve")], None));
    let cuts: u32 = out.trim().parse().unwrap_or_else(|_| panic!("{out}{err}"));
    assert!(cuts >= 4, "{cuts} of 12 connections met their power cut");
}

fn python(program: &str, arguments: &[&str], ram: Option<&str>) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let mut command = Command::new("python3");
    command.args(["-c", program]).args(arguments).env("PYTHONPATH", root);
    command.env("VARVE_SQLITE_LIBRARY", library()).env_remove("VARVE_SQLITE_RAM_FOR_TESTS");
    if let Some(name) = ram {
        command.env("VARVE_SQLITE_RAM_FOR_TESTS", name);
    }
    command.output().expect("this test needs python3")
}

#[test]
fn python_uses_it_without_loading_extensions() {
    let program = "
import sqlite3, varve.sqlite
db = sqlite3.connect('file:ram:python?vfs=varve', uri=True)
db.execute('CREATE TABLE t(a)')
with db:
    db.executemany('INSERT INTO t VALUES(?)', [(n,) for n in range(1000)])
print(db.execute('SELECT sum(a) FROM t').fetchone()[0])
try:
    sqlite3.connect('file:/nowhere/some.varve?vfs=varve', uri=True).execute('SELECT 1 FROM sqlite_schema')
except sqlite3.OperationalError as error:
    print(error)
";
    let output = python(program, &[], Some("ram:python"));
    let (out, err) = texts(&output);
    assert_eq!(out, "499500\nunable to open database file\n", "{err}");
}

/// Programs that name files and nothing else: names that end in `.varve` are images, all others ordinary files.
#[test]
fn as_the_default_vfs_names_alone_make_images() {
    let folder = Folder::new("default");
    let (image, file, copy) =
        (folder.file("home.varve"), folder.file("plain.db"), folder.file("copy.db"));
    let second = folder.file("second.varve");
    let script = format!(
        ".load {} sqlite3_varve_default
.open {file}
CREATE TABLE p(a); PRAGMA journal_mode=WAL; INSERT INTO p VALUES(1);
.open {image}
CREATE TABLE t(a); INSERT INTO t VALUES(7); PRAGMA varve_error;
VACUUM INTO '{copy}';
VACUUM INTO '{second}';
ATTACH '{file}' AS p;
SELECT t.a || p.a FROM t, p.p AS p;
.open {copy}
SELECT a FROM t;
.open {second}
SELECT a FROM t; PRAGMA integrity_check;",
        library().display()
    );
    let (out, err) = texts(&shell(&script, None));
    assert_eq!(out.trim(), "wal\n\n71\n7\n7\nok", "{err}");
    let begins = |path: &str, with: &[u8]| std::fs::read(path).unwrap().starts_with(with);
    assert!(begins(&image, b"varve") && begins(&second, b"varve"));
    assert!(begins(&file, b"SQLite format 3") && begins(&copy, b"SQLite format 3"));
    // Memory beside a log that a reader may only read is memory all the same.
    let program = "
import os, sqlite3, sys
os.environ['VARVE_SQLITE_DEFAULT'] = '1'
import varve.sqlite
writer = sqlite3.connect(sys.argv[1])
writer.execute('INSERT INTO p VALUES(2)')
writer.commit()
reader = sqlite3.connect(f'file:{sys.argv[1]}?mode=ro&readonly_shm=1', uri=True)
print(reader.execute('SELECT sum(a) FROM p').fetchone()[0])
writer.execute('DELETE FROM p WHERE a = 2')
writer.commit()
print(reader.execute('SELECT sum(a) FROM p').fetchone()[0])
";
    let (out, err) = texts(&python(program, &[&file], None));
    assert_eq!(out, "3\n1\n", "{err}");
    // The same by the environment, in Python.
    let program = "
import os, sqlite3, sys
os.environ['VARVE_SQLITE_DEFAULT'] = '1'
import varve.sqlite
db = sqlite3.connect(sys.argv[1])
print(db.execute('SELECT a FROM t').fetchone()[0])
other = sqlite3.connect(sys.argv[2])
print(other.execute('SELECT a FROM p').fetchone()[0])
named = sqlite3.connect(f'file:{sys.argv[1]}?vfs=varve', uri=True)
print(named.execute('SELECT a FROM t').fetchone()[0])
";
    let (out, err) = texts(&python(program, &[&image, &file], None));
    assert_eq!(out, "7\n1\n7\n", "{err}");
}

/// Most languages give no way to SQLite's error log: the connection that loaded the library can be asked.
#[test]
fn the_connection_that_loaded_the_library_says_why_another_one_could_not_be_opened() {
    let script = format!(
        "SELECT load_extension('{}');\nSELECT varve_error() IS NULL;\nATTACH 'file:/none/a?vfs=varve' AS a;\nSELECT varve_error();",
        library().display()
    );
    let (out, err) = texts(&shell(&script, None));
    // Loading it twice, by a statement even, changes nothing.
    let (first, second) = out.trim().split_once('\n').expect("two answers");
    assert_eq!(first, "1", "{out}{err}");
    assert!(second.contains("/none/a: No such file or directory"), "{out}{err}");
}

/// A program whose URI names the VFS names it for each image: a name without is a file as ever.
#[test]
fn vacuum_into_makes_an_ordinary_file_unless_the_name_is_an_images() {
    let folder = Folder::new("into");
    let (image, plain, second, other) = (
        folder.file("home.img"),
        folder.file("copy.db"),
        folder.file("second.varve"),
        folder.file("other.img"),
    );
    let script = format!(
        ".open file:{image}?vfs=varve&capacity=4MiB
CREATE TABLE t(a); INSERT INTO t VALUES(7);
VACUUM INTO '{plain}';
VACUUM INTO '{second}';
VACUUM INTO 'file:{other}?vfs=varve';
SELECT 'made';
.open file:{other}?vfs=varve
ATTACH '{plain}' AS p;
ATTACH '{image}' AS i;
ATTACH '{second}' AS s;
SELECT t.a || p.a || i.a || s.a FROM t, p.t AS p, i.t AS i, s.t AS s;
INSERT INTO p.t VALUES(8); PRAGMA p.journal_mode=WAL; INSERT INTO p.t VALUES(9);
PRAGMA p.journal_mode=DELETE; DELETE FROM p.t WHERE a = 7; PRAGMA p.integrity_check;"
    );
    let (out, err) = texts(&shell(&script, None));
    assert_eq!(out.trim(), "made\n7777\nwal\ndelete\nok", "{err}");
    let begins = |path: &str, with: &[u8]| std::fs::read(path).unwrap().starts_with(with);
    for path in [&image, &second, &other] {
        assert!(begins(path, b"varve"), "{path}");
    }
    assert!(begins(&plain, b"SQLite format 3"));
    let plainly = Command::new("sqlite3").args([&plain, "SELECT group_concat(a) FROM t"]).output();
    assert_eq!(texts(&plainly.unwrap()).0, "8,9\n");
    // Nothing else lies about.
    let mut names: Vec<String> = std::fs::read_dir(&folder.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["copy.db", "home.img", "other.img", "second.varve"]);
}

#[test]
fn it_brings_no_sqlite_along() {
    let bytes = std::fs::read(library()).unwrap();
    // A part of SQLite's source id that every build of it carries as text.
    let marker = b"SQLite format 3\0";
    assert!(!bytes.windows(marker.len()).any(|part| part == marker));
}
