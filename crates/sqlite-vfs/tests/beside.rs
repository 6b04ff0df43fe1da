//! A process that reads an image beside whoever writes it, and then writes it itself: two stores of one image, and each
//! keeps to its own journals and logs; and what it sees of a transaction that is half done in the image.

mod common;

use common::{Folder, api, ask, unique};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use varve_sqlite_vfs::{Store, StoreOptions, Stores};

#[test]
fn who_reads_beside_a_writer_of_its_own_process_takes_nothing_from_it() {
    let folder = Folder::new();
    let vfs = unique("vfs");
    Stores::new().register(&api(), &vfs, false, None).unwrap();
    for journal in ["WAL", "DELETE"] {
        let uri = format!("file:{}", folder.file(&format!("{journal}.varve")));
        let open = |flags| {
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags_and_vfs(&uri, flags, vfs.as_str()).unwrap()
        };
        let create = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let first = open(create);
        first.execute_batch("CREATE TABLE c(v INT); INSERT INTO c VALUES(0)").unwrap();
        ask(&first, &format!("PRAGMA journal_mode={journal}"));
        first.close().unwrap();
        // The reader is there before the writer.
        let reader = open(OpenFlags::SQLITE_OPEN_READ_ONLY);
        assert_eq!(ask(&reader, "SELECT v FROM c"), "0", "{journal}");
        let writer = open(create);
        let seen = || {
            let seen = ask(&reader, "SELECT v FROM c");
            assert!(seen.parse::<u8>().is_ok(), "{journal}: {seen}");
        };
        writer.execute_batch("UPDATE c SET v = 1").unwrap();
        seen();
        writer.execute_batch("BEGIN IMMEDIATE; UPDATE c SET v = 2").unwrap();
        seen();
        writer.execute_batch("COMMIT; BEGIN IMMEDIATE").unwrap();
        seen();
        writer.execute_batch("UPDATE c SET v = 3; COMMIT").unwrap();
        seen();
        reader.close().unwrap();
        assert_eq!(ask(&writer, "SELECT v FROM c"), "3", "{journal}");
        writer.execute_batch("UPDATE c SET v = 4").unwrap();
        writer.close().unwrap();
        assert_eq!(ask(&open(create), "SELECT v FROM c"), "4", "{journal}");
    }
}

/// Such a transaction leaves a journal that is durable, which who only reads can not play back. (First seen as
/// `SQLITE_READONLY` of a reader beside a loaded machine's writers.)
#[test]
fn a_transaction_half_done_in_the_image_is_waited_for_and_taken_back_by_who_writes() {
    let folder = Folder::new();
    let vfs = unique("vfs");
    Stores::new().register(&api(), &vfs, false, None).unwrap();
    let open = |name: &str, flags| {
        let uri = format!("file:{}?capacity=4194304", folder.file(name));
        let flags = flags | OpenFlags::SQLITE_OPEN_URI;
        Connection::open_with_flags_and_vfs(uri, flags, vfs.as_str()).unwrap()
    };
    let create = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let rows = "WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < 700)
        INSERT INTO t SELECT randomblob(3000) FROM x";
    let first = open("w.varve", create);
    first.execute_batch(&format!("CREATE TABLE t(v BLOB); {rows}")).unwrap();
    first.close().unwrap();
    // The reader is there before the writer: else it would read the store that this process has.
    let reader = open("w.varve", OpenFlags::SQLITE_OPEN_READ_ONLY);
    let count = "SELECT count(*) FROM t";
    assert_eq!(ask(&reader, count), "700");
    reader.busy_timeout(std::time::Duration::ZERO).unwrap();
    let writer = open("w.varve", create);
    writer.execute_batch("PRAGMA cache_size=10").unwrap();
    let fallbacks = || {
        let stats = ask(&writer, "PRAGMA varve_stats");
        let (_, rest) = stats.split_once("fallbacks: ").unwrap();
        rest.split(',').next().unwrap().parse::<u64>().unwrap()
    };
    let before = fallbacks();
    writer.execute_batch("BEGIN; UPDATE t SET v = randomblob(2999)").unwrap();
    assert_eq!(fallbacks(), before + 1);
    let busy = reader.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap_err();
    assert_eq!(busy.sqlite_error_code(), Some(ErrorCode::DatabaseBusy), "{busy}");
    let said = ask(&reader, "PRAGMA varve_error");
    assert!(said.contains("in the midst of"), "{said}: {busy}");
    // What a kill leaves now.
    std::fs::copy(folder.file("w.varve"), folder.file("killed.varve")).unwrap();
    writer.execute_batch("COMMIT").unwrap();
    assert_eq!(ask(&reader, "SELECT count(*) FROM t WHERE length(v) = 2999"), "700");

    let late = open("killed.varve", OpenFlags::SQLITE_OPEN_READ_ONLY);
    let hot = late.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap_err();
    assert_eq!(hot.sqlite_error_code(), Some(ErrorCode::ReadOnly), "{hot}");
    assert!(ask(&late, "PRAGMA varve_error").contains("takes it back"));
    let other = open("killed.varve", create);
    assert_eq!(ask(&other, "SELECT count(*) FROM t WHERE length(v) = 3000"), "700");
    assert_eq!(ask(&late, count), "700");
}

/// Whoever reads an image beside its writer can ask whether that has gone on: a check that failed meanwhile says nothing.
#[test]
fn a_store_beside_its_writer_says_whether_that_went_on() {
    let folder = Folder::new();
    let (stores, vfs, name) = (Stores::new(), unique("vfs"), unique("moment"));
    stores.register(&api(), &vfs, false, None).unwrap();
    let image = folder.file("moment.varve");
    let store =
        Store::create(image.as_ref(), block::Bytes(4 << 20), StoreOptions::default()).unwrap();
    stores.add(&name, &store);
    let db =
        Connection::open_with_flags_and_vfs(&name, OpenFlags::default(), vfs.as_str()).unwrap();
    db.execute_batch("CREATE TABLE t(v INT)").unwrap();
    let beside = Store::open_beside(image.as_ref(), StoreOptions::default()).unwrap();
    assert!(store.is_unchanged(), "who has the image is never behind it");
    assert!(beside.is_unchanged());
    db.execute_batch("INSERT INTO t VALUES(1)").unwrap();
    assert!(!beside.is_unchanged());
}
