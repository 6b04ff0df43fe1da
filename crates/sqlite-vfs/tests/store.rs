//! A store as a connection sees it.

mod common;

use block::{Bytes, Data, Lba, RamDevice, Request, Sectors, Time, Transactional, TxLimits};
use common::full::Rig as Full;
use common::image::Image;
use common::{Folder, api, ask, open, unique};
use varve_sqlite_vfs::{Store, StoreOptions, Stores};

struct Rig {
    stores: Stores,
    vfs: String,
    name: String,
    store: Store,
}

fn rig(options: StoreOptions) -> Rig {
    rig_on(RamDevice::new(Sectors(32 * 2_048)), options)
}

fn rig_on(device: RamDevice, options: StoreOptions) -> Rig {
    let store = Store::format(Box::new(device), options).unwrap();
    // Where no image can be made: a store is there or not.
    let name = format!("nowhere/{}", unique("store"));
    let (stores, vfs) = (Stores::new(), unique("vfs"));
    stores.register(&api(), &vfs, false, None).unwrap();
    stores.add(&name, &store);
    Rig { stores, vfs, name, store }
}

#[test]
fn a_commit_reaches_the_device_once() {
    let rig = rig(StoreOptions::default());
    let db = open(&rig.name, &rig.vfs).unwrap();
    db.execute_batch("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 'x')").unwrap();
    let before = rig.store.stats();
    db.execute_batch("UPDATE t SET b = 'y'").unwrap();
    let after = rig.store.stats();
    assert_eq!((after.tagged - before.tagged, after.table, after.plain), (2, before.table, 0));
    assert_eq!((after.commits - before.commits, after.flushes), (1, before.flushes));
    assert_eq!(ask(&db, "SELECT b FROM t"), "y");
    assert_eq!(rig.store.objects()[0].0, "main");
    drop(db);
    rig.stores.remove(&rig.name);
    let reason = open(&rig.name, &rig.vfs).unwrap_err();
    assert_eq!(reason.sqlite_error_code(), Some(rusqlite::ErrorCode::CannotOpen));
}

#[test]
fn journal_mode_off_is_refused_with_a_hint() {
    let rig = rig(StoreOptions::default());
    let db = open(&rig.name, &rig.vfs).unwrap();
    let answer = ask(&db, "PRAGMA journal_mode=OFF");
    assert!(answer.contains("MEMORY") && answer.contains("refuses"), "{answer}");
    assert_eq!(ask(&db, "PRAGMA journal_mode=MEMORY"), "memory");
}

#[test]
fn a_store_whose_name_begins_as_another_ones_is_a_store_of_its_own() {
    let folder = common::Folder::new();
    let vfs = unique("vfs");
    Stores::new().register(&api(), &vfs, false, None).unwrap();
    let name = |image: &str| format!("file:{}?capacity=4MiB", folder.file(image));
    let first = open(&name("a.varve"), &vfs).unwrap();
    first.execute_batch("CREATE TABLE t(a)").unwrap();
    let second = open(&name("a.varve-2"), &vfs).unwrap();
    assert_eq!(ask(&second, "SELECT count(*) FROM sqlite_schema"), "0");
    second.execute_batch("CREATE TABLE u(a)").unwrap();
    drop((first, second));
    let again = open(&name("a.varve-2"), &vfs).unwrap();
    assert_eq!(ask(&again, "SELECT name FROM sqlite_schema"), "u");
}

/// An image with a log of commits, as a URI asks for: its commits are records, also when it is opened again
/// and nobody asks; what a killed process leaves is the same database.
#[test]
fn an_image_with_a_log_commits_by_records() {
    let folder = common::Folder::new();
    let vfs = unique("vfs");
    Stores::new().register(&api(), &vfs, false, None).unwrap();
    let logged = |db: &rusqlite::Connection| {
        let stats = ask(db, "PRAGMA varve_stats");
        let (_, count) = stats.split_once("logged: ").unwrap();
        count.split(',').next().unwrap().parse::<u64>().unwrap()
    };
    let version = |path: &str| std::fs::read(path).unwrap()[8];
    let (plain, path) = (folder.file("plain.varve"), folder.file("log.varve"));
    let db = open(&format!("file:{plain}?capacity=4MiB&delta=off"), &vfs).unwrap();
    let some = "CREATE TABLE t(a); INSERT INTO t VALUES(1); INSERT INTO t VALUES(2)";
    db.execute_batch(some).unwrap();
    assert_eq!((version(&plain), logged(&db)), (2, 0));
    drop(db);
    // A session's first two commits are pages.
    let db = open(&format!("file:{path}?capacity=4MiB"), &vfs).unwrap();
    db.execute_batch(some).unwrap();
    db.execute_batch("DELETE FROM t WHERE a = 2").unwrap();
    assert_eq!((version(&path), logged(&db)), (3, 2));
    drop(db);
    let db = open(&path, &vfs).unwrap();
    db.execute_batch("UPDATE t SET a = 9; UPDATE t SET a = 1").unwrap();
    assert_eq!(logged(&db), 0);
    db.execute_batch("UPDATE t SET a = 2; UPDATE t SET a = 3; INSERT INTO t VALUES(4)").unwrap();
    assert_eq!(logged(&db), 3);
    let copy = folder.file("copy.varve");
    let other = folder.file("other.varve");
    for copy in [&copy, &other] {
        std::fs::copy(&path, copy).unwrap();
    }
    drop(db);
    let db = open(&copy, &vfs).unwrap();
    assert_eq!(ask(&db, "SELECT sum(a) FROM t"), "7");
    assert!(ask(&db, "PRAGMA varve_stats").contains("replayed: 3"));
    assert_eq!(ask(&db, "PRAGMA integrity_check"), "ok");
    drop(db);
    // `delta=off` reads the log, and commits by pages.
    let copy = other;
    let db = open(&format!("file:{copy}?delta=off"), &vfs).unwrap();
    assert!(ask(&db, "PRAGMA varve_stats").contains("replayed: 3"));
    db.execute_batch("UPDATE t SET a = a + 1").unwrap();
    assert_eq!(logged(&db), 0);
    drop(db);
    let db = open(&copy, &vfs).unwrap();
    assert_eq!(ask(&db, "SELECT sum(a) FROM t"), "9");
    assert!(ask(&db, "PRAGMA varve_stats").contains("replayed: 0"));
    for (more, version_of) in [("log=0", 2), ("delta=off&log=1MiB", 3)] {
        let other = folder.file("more.varve");
        drop(open(&format!("file:{other}?capacity=4MiB&{more}"), &vfs).unwrap());
        assert_eq!(version(&other), version_of, "{more}");
        std::fs::remove_file(&other).unwrap();
    }
    for wrong in
        ["delta=maybe", "delta=on&log=5000", "delta=on&log_grain=100", "nolock=1", "immutable=yes"]
    {
        let image = folder.file("wrong.varve");
        assert!(open(&format!("file:{image}?capacity=4MiB&{wrong}"), &vfs).is_err(), "{wrong}");
    }
}

/// Where the records of the newest epoch lie in an image, in their order.
fn newest_records(image: &[u8]) -> Vec<usize> {
    let number = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    let is_record = |at: &usize| image[*at..].starts_with(b"varvedlt");
    let mut found: Vec<(u64, u64, usize)> = (0..image.len() - 64)
        .step_by(512)
        .filter(is_record)
        .map(|at| (number(at + 16), number(at + 24), at))
        .collect();
    found.sort_unstable();
    let newest = found.last().expect("a record").0;
    found.retain(|(epoch, ..)| *epoch == newest);
    found.into_iter().map(|(.., at)| at).collect()
}

/// A bit that flips in a record of a killed program's image: an error that says where, and nothing is written.
/// In the newest record alone it is what a power cut leaves.
#[test]
fn a_damaged_record_is_an_error_unless_it_is_the_newest() {
    let folder = common::Folder::new();
    let vfs = unique("vfs");
    Stores::new().register(&api(), &vfs, false, None).unwrap();
    let path = folder.file("log.varve");
    let db = open(&format!("file:{path}?capacity=4MiB&delta=on"), &vfs).unwrap();
    db.execute_batch("CREATE TABLE t(a)").unwrap();
    for row in 1..=7 {
        db.execute_batch(&format!("INSERT INTO t VALUES({row})")).unwrap();
    }
    let image = std::fs::read(&path).unwrap();
    drop(db);
    let records = newest_records(&image);
    assert_eq!(records.len(), 6);
    for (number, at) in records.iter().enumerate() {
        let mut damaged = image.clone();
        damaged[at + 70] ^= 4;
        let copy = folder.file(&format!("copy{number}.varve"));
        std::fs::write(&copy, &damaged).unwrap();
        let rows = open(&copy, &vfs)
            .and_then(|db| db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0)));
        if number + 1 == records.len() {
            assert_eq!(rows.unwrap(), 6);
        } else {
            assert!(rows.is_err(), "{number}: {rows:?}");
            assert!(std::fs::read(&copy).unwrap() == damaged, "{number}: it was written to");
        }
    }
}

/// No file system knows such a name: the image in it is a file and no folder.
#[test]
fn a_second_database_of_an_image_opens_whether_or_not_the_image_is_open() {
    let folder = common::Folder::new();
    let vfs = unique("vfs");
    Stores::new().register(&api(), &vfs, false, None).unwrap();
    let image = folder.file("two.varve");
    let link = folder.file("link.varve");
    std::os::unix::fs::symlink(&image, &link).unwrap();
    let first = open(&image, &vfs).unwrap();
    first.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES('first')").unwrap();
    let beside = open(&format!("{link}/second"), &vfs).unwrap();
    beside.execute_batch("CREATE TABLE t(v); INSERT INTO t VALUES('second')").unwrap();
    for db in [first, beside] {
        db.close().unwrap();
    }
    for name in ["second", "third"] {
        for path in [&image, &link] {
            let db = open(&format!("{path}/{name}"), &vfs).unwrap();
            db.execute_batch("CREATE TABLE IF NOT EXISTS t(v); INSERT INTO t VALUES(1)").unwrap();
            db.close().unwrap();
        }
    }
    for (path, rows) in [
        (image.clone(), "first"),
        (format!("{image}/second"), "second,1,1"),
        (format!("{link}/third"), "1,1"),
    ] {
        let db = open(&path, &vfs).unwrap();
        assert_eq!(ask(&db, "SELECT group_concat(v) FROM t"), rows, "{path}");
    }
    // What is no image has no objects.
    let other = folder.file("other.db");
    std::fs::write(&other, b"SQLite format 3\0").unwrap();
    assert!(open(&format!("{other}/second"), &vfs).is_err());
}

/// With a shared cache SQLite writes pages of whoever writes when another connection reads and needs the room.
#[test]
fn a_page_that_a_reader_presses_out_is_the_writers() {
    let rig = rig(StoreOptions::default());
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE
        | rusqlite::OpenFlags::SQLITE_OPEN_CREATE
        | rusqlite::OpenFlags::SQLITE_OPEN_URI
        | rusqlite::OpenFlags::SQLITE_OPEN_SHARED_CACHE;
    let connect = || {
        let db =
            rusqlite::Connection::open_with_flags_and_vfs(&rig.name, flags, &*rig.vfs).unwrap();
        db.execute_batch("PRAGMA cache_size=10").unwrap();
        db
    };
    let (writer, reader) = (connect(), connect());
    let rows =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO";
    for table in ["t", "u"] {
        let sql = format!(
            "CREATE TABLE {table}(k INTEGER PRIMARY KEY, n INT, v BLOB);
             {rows} {table} SELECT i, 0, randomblob(3000) FROM n"
        );
        writer.execute_batch(&sql).unwrap();
    }
    for round in 1..=20 {
        writer.execute_batch("BEGIN").unwrap();
        for row in 1..=200 {
            let change = format!("UPDATE t SET n = {round}, v = randomblob(3000) WHERE k = {row}");
            writer.execute_batch(&change).unwrap();
            if row % 5 == 0 {
                assert_eq!(ask(&reader, "SELECT sum(length(v)) FROM u"), "600000");
            }
        }
        match round % 4 {
            0 => writer.execute_batch("ROLLBACK").unwrap(),
            _ => writer.execute_batch("COMMIT").unwrap(),
        }
        let there = if round % 4 == 0 { round - 1 } else { round };
        drop(rig.store.flush());
        let other = open(&rig.name, &rig.vfs).unwrap();
        assert_eq!(ask(&other, "PRAGMA integrity_check"), "ok", "round {round}");
        let found = ask(&other, "SELECT min(n) || ' ' || max(n) FROM t");
        assert_eq!(found, format!("{there} {there}"), "round {round}");
    }
}

/// What a database gives up is given up to the drive, which else would go on copying it.
#[test]
fn extents_that_a_database_gives_up_are_discarded_as_a_whole() {
    let rig = rig(StoreOptions::default());
    let db = open(&rig.name, &rig.vfs).unwrap();
    let marked = || {
        rig.store.flush().unwrap();
        rig.store.with_device(|device| {
            let mut bytes = vec![0; device.capacity().0 as usize * 512];
            let read = Request::read(Lba(0), device.capacity()).with(Data::Read(&mut bytes));
            device.submit(Time::ZERO, read).unwrap();
            let has = |page: &&[u8]| page.windows(8).any(|bytes| bytes == b"given up");
            bytes.chunks(4096).filter(has).count()
        })
    };
    let rows = "CREATE TABLE t(a);
        WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < 2000)
        INSERT INTO t SELECT printf('%.*c', 3000, 'x') || 'given up' FROM x";
    db.execute_batch(rows).unwrap();
    assert!(marked() >= 2_000);
    db.execute_batch("DELETE FROM t; VACUUM").unwrap();
    // All that is left lies in the extent that the database keeps: 1 MiB, behind its end.
    let left = marked();
    assert!(left < 256, "{left} pages hold what was given up");
}

/// Commits with records in a log leave their pages in memory, but no more than the device commits at once.
#[test]
fn pages_wait_in_memory_while_the_device_can_commit_them_at_once() {
    let limits = TxLimits { pages: 1_008, ..RamDevice::new(Sectors(8)).tx_limits() };
    let device = RamDevice::new(Sectors(64 * 2_048)).with_limits(limits);
    let rig = rig_on(device, StoreOptions { log_pages: Some(4_096), ..StoreOptions::default() });
    let db = open(&rig.name, &rig.vfs).unwrap();
    // The first commits of a session write their pages.
    db.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES(1); INSERT INTO t VALUES(2)")
        .unwrap();
    let before = rig.store.stats();
    let more = "WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < 250)
        INSERT INTO t SELECT zeroblob(3900) FROM x";
    // 250 pages and some: what waits is half of what the device could commit.
    for commits in 1..=2 {
        db.execute_batch(more).unwrap();
        let after = rig.store.stats();
        assert_eq!(after.logged - before.logged, commits, "a record each: {after:?}");
        assert_eq!((after.groups, after.tagged), (before.groups, before.tagged), "{commits}");
    }
    // More than it could commit at once cannot wait.
    for _ in 3..=5 {
        db.execute_batch(more).unwrap();
    }
    let after = rig.store.stats();
    assert!(after.groups > before.groups, "{after:?}");
    assert!(after.tagged - before.tagged >= 250, "{after:?}");
    assert_eq!(ask(&db, "SELECT count(*) FROM t"), "1252");
}

/// An image that is as large as it will be has the table of objects that its size asks for, and the rest for databases.
#[test]
fn an_image_that_cannot_grow_keeps_no_room_as_if_it_could() {
    // 4 extents of 256 pages, a header, 16 pages of the table, a spare page.
    let pages = 4 * 256 + 1 + 16 + 1;
    let mut image = Image::sized(Bytes(pages * 4096), Bytes(6 * 4096));
    let store = Store::format_image(image.drive(), StoreOptions::default()).unwrap();
    let full = Full::new();
    full.fill(&store);
    let (name, bytes) = store.objects().swap_remove(0);
    assert!(bytes > 3 * 256 * 4096, "{name} has {bytes} bytes");
    full.stores.remove(&full.name);
}

#[test]
fn a_limit_that_no_drive_has_is_refused() {
    let (folder, vfs, stores) = (Folder::new(), unique("limit"), Stores::new());
    stores.register(&api(), &vfs, false, None).unwrap();
    for (limit, fits) in [("99TiB", false), ("64GiB", true)] {
        let name = folder.file(&format!("{limit}.varve"));
        let made = open(&format!("file:{name}?limit={limit}"), &vfs)
            .and_then(|db| db.execute_batch("CREATE TABLE t(v)"));
        assert_eq!(made.is_ok(), fits, "{limit}: {made:?}");
        assert_eq!(std::path::Path::new(&name).exists(), fits, "{limit}");
    }
}
