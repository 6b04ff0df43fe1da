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

/// A database made by the system's shell.
fn database(folder: &Path, name: &str, sql: &str) {
    let out = Command::new("sqlite3").current_dir(folder).args(["-batch", name, sql]).output();
    let out = out.expect("these tests need the sqlite3 shell");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

fn said(out: &Output) -> String {
    let both = [&out.stdout[..], &out.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

const ROWS: &str = "PRAGMA journal_mode=WAL;
    CREATE TABLE p (id INTEGER PRIMARY KEY, v TEXT UNIQUE);
    CREATE TABLE c (p REFERENCES p (id));
    WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 4000)
    INSERT INTO p SELECT x, 'row ' || x || hex(zeroblob(300)) FROM n;
    INSERT INTO c SELECT id FROM p WHERE id % 5 = 0;";

#[test]
fn a_database_goes_into_an_image_and_comes_out() {
    let folder = folder("import");
    database(&folder, "a.db", ROWS);
    let before = std::fs::read(folder.join("a.db")).unwrap();
    for (page, store) in [(None, "plain.varve"), (Some("8192"), "other.varve")] {
        let mut args = vec!["sqlite", "import", "a.db", store];
        args.extend(page.iter().flat_map(|page| ["--page-size", page]));
        let out = varve(&folder, &args);
        assert!(out.status.success(), "{}", said(&out));
        assert!(said(&out).contains("verified"), "{}", said(&out));
        // Six times the database, and what an image needs beside that.
        let image = std::fs::metadata(folder.join(store)).unwrap().len();
        let times = image / before.len() as u64;
        assert!((6..13).contains(&times), "{times}: {}", said(&out));
        let out = varve(&folder, &["sqlite", "check", store]);
        assert!(out.status.success() && said(&out).contains("main ("), "{}", said(&out));
        let file = format!("{store}.db");
        let out = varve(&folder, &["sqlite", "export", store, &file]);
        assert!(out.status.success(), "{}", said(&out));
        let ask =
            "PRAGMA page_size; PRAGMA integrity_check; SELECT count(*), sum(length(v)) FROM p;
                   SELECT count(*) FROM c;";
        let answer = Command::new("sqlite3").current_dir(&folder).args([&file, ask]).output();
        let text = String::from_utf8(answer.unwrap().stdout).unwrap();
        assert_eq!(text, format!("{}\nok\n4000|2430893\n800\n", page.unwrap_or("4096")));
        // Nothing is overwritten, and nothing half made is left.
        for args in [["import", "a.db", store], ["export", store, "a.db"]] {
            let out = varve(&folder, &[&["sqlite"], &args[..]].concat());
            assert_eq!(out.status.code(), Some(2), "{}", said(&out));
            assert!(said(&out).contains("exists already"), "{}", said(&out));
        }
    }
    assert_eq!(std::fs::read(folder.join("a.db")).unwrap(), before);
    let left = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<String> = left.map(|name| name.into_string().unwrap()).collect();
    assert!(left.iter().all(|name| !name.contains(".tmp")), "{left:?}");
}

#[test]
fn a_damaged_store_gives_away_what_can_be_read_of_it() {
    let folder = folder("salvage");
    let rows = "WITH n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n WHERE a < 400) \
                SELECT a, printf('mark %04d', a) || hex(zeroblob(1400)) FROM n";
    let sql = format!("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t {rows}");
    database(&folder, "a.db", &sql);
    assert!(varve(&folder, &["sqlite", "import", "a.db", "a.varve"]).status.success());
    let (image, mark) = (folder.join("a.varve"), b"mark 0123");
    let mut bytes = std::fs::read(&image).unwrap();
    let found = bytes.windows(mark.len()).position(|window| window == mark).unwrap();
    bytes[found] ^= 1;
    std::fs::write(&image, bytes).unwrap();
    let tried: [(&[&str], &str); 3] = [
        (&["check", "a.varve"], "1 of its pages cannot be read"),
        (&["export", "a.varve", "b.db"], "the store: "),
        (&["backup", "a.varve", "b.varve"], "the store: "),
    ];
    for (args, named) in tried {
        let out = varve(&folder, &[&["sqlite"], args].concat());
        assert!(!out.status.success() && said(&out).contains(named), "{}", said(&out));
    }
    let out = varve(&folder, &["sqlite", "export", "--salvage", "a.varve", "c.db"]);
    assert_eq!(out.status.code(), Some(4), "{}", said(&out));
    assert!(
        said(&out).contains("a.varve: could not be read, and are zeroes in c.db: pages "),
        "{}",
        said(&out)
    );
    // `.recover` of some shells fails on any database, so rows before and behind the page are asked for.
    let ask = "SELECT count(*) FROM t WHERE a <= 120; SELECT count(*) FROM t WHERE a > 126";
    let answer = Command::new("sqlite3").current_dir(&folder).args(["c.db", ask]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "120\n274\n", "{answer:?}");
    let out = varve(&folder, &["sqlite", "export", "--salvage", "a.varve", "c.db"]);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
}

#[test]
fn an_image_gets_more_room_by_order() {
    let folder = folder("resize");
    database(&folder, "a.db", ROWS);
    let out = varve(&folder, &["sqlite", "import", "a.db", "a.varve", "--capacity", "8 MiB"]);
    assert!(out.status.success(), "{}", said(&out));
    let resize = |size: &str| varve(&folder, &["sqlite", "resize", "a.varve", "--capacity", size]);
    for size in ["8 MiB", "1 MiB"] {
        let out = resize(size);
        assert_eq!(out.status.code(), Some(3), "{}", said(&out));
        assert!(said(&out).contains("it holds 8 MiB: expected more"), "{}", said(&out));
    }
    for size in ["9 MiB", "40 MiB", "300 MiB", "600 MiB"] {
        let out = resize(size);
        assert!(out.status.success() && said(&out).contains("verified"), "{}", said(&out));
        let out = varve(&folder, &["sqlite", "check", "a.varve"]);
        assert!(out.status.success() && said(&out).contains("main ("), "{}", said(&out));
        assert!(said(&out).contains(&format!("version 3, holds {size};")), "{}", said(&out));
    }
    let out = resize("99 TiB");
    assert!(
        out.status.code() == Some(3) && said(&out).contains("512 KiB to 12 TiB"),
        "{}",
        said(&out)
    );
    let out = varve(&folder, &["sqlite", "export", "a.varve", "b.db"]);
    assert!(out.status.success(), "{}", said(&out));
    let ask = "SELECT count(*), sum(length(v)) FROM p";
    let answer = Command::new("sqlite3").current_dir(&folder).args(["b.db", ask]).output();
    assert_eq!(String::from_utf8(answer.unwrap().stdout).unwrap(), "4000|2430893\n");
}

#[test]
fn what_no_store_can_be_made_of_has_its_exit_code() {
    let folder = folder("import-refused");
    database(&folder, "a.db", ROWS);
    std::fs::write(
        folder.join("text.db"),
        "no database at all, whatever its name says ".repeat(99),
    )
    .unwrap();
    std::fs::write(folder.join("empty.db"), "").unwrap();
    for (args, code, text) in [
        (&["import", "none.db", "s"][..], 1, "none.db"),
        (&["import", "text.db", "s"], 3, "text.db: file is not a database"),
        (&["import", "empty.db", "s"], 3, "empty.db: an empty database"),
        (&["import", ".", "s"], 3, ".: not a file"),
        (&["import", "a.db", "s", "--capacity", "1 MiB"], 3, "expected at least"),
        (&["import", "a.db", "s", "--capacity", "much"], 2, "expected a size"),
        (&["import", "a.db", "s", "--page-size", "4000"], 2, "power of two"),
        (&["export", "none", "b.db"], 1, "none"),
        (&["export", "text.db", "b.db"], 3, "varveimg"),
        (&["check", "text.db"], 3, "varveimg"),
        (&["check", "none"], 1, "none"),
        (&["check", "."], 3, "a directory: expected an image"),
        (&["import", "a.db", "s", "--capacity", "20 TiB"], 3, "512 KiB to 12 TiB"),
        (&["check", "a.db", "--crash", "0"], 2, "1.."),
        (&["check", "a.db", "--workload", "text.db"], 2, "--crash <N>|--at <N>"),
    ] {
        let out = varve(&folder, &[&["sqlite"], args].concat());
        assert_eq!(out.status.code(), Some(code), "{args:?}: {}", said(&out));
        assert!(said(&out).contains(text), "{args:?}: {}", said(&out));
    }
    assert!(!folder.join("s").exists() && !folder.join("b.db").exists());
}

#[test]
fn damage_is_found() {
    let folder = folder("damaged");
    let mark = "a text that is nowhere else";
    database(&folder, "a.db", &format!("CREATE TABLE t (a); INSERT INTO t VALUES ('{mark}');"));
    let import = ["sqlite", "import", "a.db", "a.varve", "--capacity", "64 MiB"];
    assert!(varve(&folder, &import).status.success());
    let path = folder.join("a.varve");
    let mut image = std::fs::read(&path).unwrap();
    // The superblocks, the first block's header and its first record.
    let pages = u32::from_le_bytes(image[16..20].try_into().unwrap()) as usize;
    let log = u64::from_le_bytes(image[56..64].try_into().unwrap()) as usize;
    assert!(log >= 1 << 20, "an image has a log of commits: {log}");
    let block = 8192 + log;
    let records = block + 4096 + pages * 4096;
    for (at, text) in [
        (30, "the first superblock fails its CRC32C; the second one serves"),
        (4096 + 30, "the second superblock fails its CRC32C; the first one serves"),
        (block + 9, "a header of block 0 fails its CRC32C; its other header serves"),
        (records, "the record of block 0 page 0 fails its CRC32C; expected one"),
    ] {
        let mut hit = image.clone();
        // The record lies in one of two areas.
        let other = (pages * 64).next_multiple_of(4096);
        let at = if at == records && hit[at..at + 64] == [0; 64] { at + other } else { at };
        hit[at] ^= 1;
        std::fs::write(&path, hit).unwrap();
        let out = varve(&folder, &["sqlite", "check", "a.varve"]);
        assert_eq!(out.status.code(), Some(4), "{}", said(&out));
        assert!(said(&out).contains(text), "{}", said(&out));
    }
    let found: Vec<usize> = image
        .windows(mark.len())
        .enumerate()
        .filter(|(_, part)| *part == mark.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!found.is_empty());
    for at in found {
        image[at] ^= 1;
    }
    std::fs::write(&path, image).unwrap();
    let out = varve(&folder, &["sqlite", "check", "a.varve"]);
    assert_eq!(out.status.code(), Some(4), "{}", said(&out));
    assert!(said(&out).contains("of the drive") || said(&out).contains("object"), "{}", said(&out));
}

#[test]
fn power_cuts_leave_what_was_acknowledged() {
    let folder = folder("cuts");
    database(&folder, "a.db", ROWS);
    let out = varve(&folder, &["sqlite", "import", "a.db", "a.varve", "--capacity", "8 MiB"]);
    assert!(out.status.success(), "{}", said(&out));
    let before = std::fs::read(folder.join("a.varve")).unwrap();
    let args = ["sqlite", "check", "a.varve", "--crash", "12", "--seed", "3"];
    let out = varve(&folder, &args);
    assert!(out.status.success(), "{}", said(&out));
    assert!(said(&out).contains("12 power cuts, of "), "{}", said(&out));
    assert_eq!(varve(&folder, &args).stdout, out.stdout, "the same seed, the same cuts");
    // A workload of one's own, one cut of it, and one that is no SQL.
    std::fs::write(folder.join("w.sql"), "PRAGMA journal_mode=WAL; DELETE FROM c;").unwrap();
    let out = varve(&folder, &["sqlite", "check", "a.varve", "--at", "3", "--workload", "w.sql"]);
    assert!(out.status.success() && said(&out).contains("\n1 power cuts"), "{}", said(&out));
    // A cut that never comes shows nothing.
    let out = varve(&folder, &["sqlite", "check", "a.varve", "--at", "999999"]);
    let told = "no cut 999999: the workload has ";
    assert!(out.status.code() == Some(3) && said(&out).contains(told), "{}", said(&out));
    std::fs::write(folder.join("w.sql"), "INSERT INTO nowhere VALUES (1);").unwrap();
    let args = ["sqlite", "check", "a.varve", "--crash", "3", "--workload", "w.sql"];
    let out = varve(&folder, &args);
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert!(said(&out).contains("nowhere"), "{}", said(&out));
    // What changes nothing shows nothing.
    std::fs::write(folder.join("w.sql"), "SELECT count(*) FROM c;").unwrap();
    let out = varve(&folder, &args);
    assert!(
        out.status.code() == Some(3) && said(&out).contains("changes nothing"),
        "{}",
        said(&out)
    );
    assert_eq!(std::fs::read(folder.join("a.varve")).unwrap(), before, "the image is only read");
}

/// The library that cargo has put beside this test.
fn library() -> String {
    let here = std::env::current_exe().unwrap();
    let path = here.parent().unwrap().join("libvarve_sqlite_count.so");
    assert!(path.is_file(), "{} is not there", path.display());
    path.display().to_string()
}

fn counted(folder: &Path, program: &[&str]) -> Output {
    let library = library();
    let args = ["sqlite", "measure", "--json", "--library", &library, "--"];
    varve(folder, &[&args[..], program].concat())
}

#[test]
fn the_shell_and_python_are_counted_as_they_are() {
    let folder = folder("program");
    database(&folder, "a.db", "CREATE TABLE t (a INTEGER PRIMARY KEY, b);");
    let python = "import sqlite3
db = sqlite3.connect('a.db')
for n in range(7):
    db.execute('INSERT INTO t (b) VALUES (?)', (n,))
    db.commit()
db.close()
print('done')";
    let shell = "INSERT INTO t (b) VALUES (1); INSERT INTO t (b) VALUES (2);";
    for (program, transactions) in
        [(&["sqlite3", "a.db", shell][..], 2), (&["/usr/bin/python3", "-c", python], 7)]
    {
        let out = counted(&folder, program);
        assert!(out.status.success(), "{}", said(&out));
        let json: Value = serde_json::from_slice(&out.stdout).unwrap();
        let results = &json["results"];
        assert_eq!(json["schema"], "varve.sqlite-program/1");
        assert_eq!(results["transactions"], transactions, "{json}");
        // One page of the table and, as the file's counter is on it, the first, each time.
        assert_eq!(results["floor_pages"], 2 * transactions, "{json}");
        assert_eq!(results["files"]["journal"]["deletes"], transactions, "{json}");
        assert_eq!(results["files"]["database"]["syncs"], transactions, "{json}");
        assert_eq!(results["processes"], 1, "{json}");
    }
    let mut rows = Command::new("sqlite3");
    let rows = rows.current_dir(&folder).args(["a.db", "SELECT count(*) FROM t"]).output();
    assert_eq!(rows.unwrap().stdout, b"9\n");
}

#[test]
fn a_program_that_cannot_be_reached_is_no_program_that_writes_nothing() {
    let folder = folder("unreached");
    let out = counted(&folder, &["true"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("no SQLite call of true was seen"), "{}", said(&out));
    assert!(said(&out).contains("--workload FILE"), "{}", said(&out));
    // varve itself carries an SQLite that nobody can get between.
    std::fs::write(folder.join("a.db"), b"").unwrap();
    std::fs::write(folder.join("w.sql"), "CREATE TABLE t (a);").unwrap();
    let own = env!("CARGO_BIN_EXE_varve");
    let out = counted(&folder, &[own, "sqlite", "measure", "a.db", "--workload", "w.sql"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(said(&out).contains("an SQLite of its own (static)"), "{}", said(&out));
    let out = counted(&folder, &["./nothing-there"]);
    assert_eq!(out.status.code(), Some(1), "{}", said(&out));
}

#[test]
fn a_drive_says_what_its_flash_does() {
    let folder = folder("flash");
    std::fs::write(folder.join("a.db"), b"").unwrap();
    std::fs::write(folder.join("w.sql"), "CREATE TABLE t (a); INSERT INTO t VALUES (1);").unwrap();
    let args = ["sqlite", "measure", "a.db", "--workload", "w.sql", "--json", "--ssd"];
    let out = varve(&folder, &[&args[..], &["paper-nolog"]].concat());
    assert!(out.status.success(), "{}", said(&out));
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    for mode in json["results"]["modes"].as_array().unwrap() {
        let (flash, pages) = (mode["flash_pages"].as_u64(), mode["device_pages"].as_u64());
        assert!(flash >= pages && pages > Some(0), "{mode}");
    }
    let out = varve(&folder, &[&args[..], &["no-such-drive"]].concat());
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
}
