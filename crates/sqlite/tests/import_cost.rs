//! What an import writes, by this process's write calls: a program of its own, because they are counted for all
//! threads.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use varve_sqlite_host::image::{check, export, import};

/// Bytes given to write calls so far.
fn written() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    let field = text.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
    field.trim().parse().unwrap()
}

fn fresh(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn an_import_writes_the_database_and_little_else() {
    let (path, image, back) = (fresh("cost.db"), fresh("cost.varve"), fresh("cost-back.db"));
    let db = Connection::open(&path).unwrap();
    db.execute_batch(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v BLOB);
         WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 16384)
         INSERT INTO t SELECT x, randomblob(4000) FROM n;",
    )
    .unwrap();
    db.close().unwrap();
    let database = std::fs::metadata(&path).unwrap().len();
    assert!(database >= 64 << 20, "{database}");
    let before = written();
    import(&path, &image, None, None).unwrap();
    let cost = written() - before;
    // The log and the headers of blocks that hold nothing yet are the rest.
    assert!(10 * cost <= 14 * database, "{cost} bytes for {database}");
    // Nothing of the image was left to chance: it is sound, and holds what was put into it.
    check(&image).unwrap();
    export(&image, &back).unwrap();
    let (was, is) = (std::fs::read(&path).unwrap(), std::fs::read(&back).unwrap());
    // Its header counts the writes of the file.
    assert!(was.len() == is.len() && was[100..] == is[100..]);
    println!("{cost} bytes written for {database}");
    for file in [path, image, back] {
        std::fs::remove_file(file).unwrap();
    }
}
