//! A store as a connection sees it.

mod common;

use block::{RamDevice, Sectors};
use common::{api, ask, open, unique};
use varve_sqlite_vfs::{Store, StoreOptions, Stores};

struct Rig {
    stores: Stores,
    vfs: String,
    name: String,
    store: Store,
}

fn rig(options: StoreOptions) -> Rig {
    let store = Store::format(Box::new(RamDevice::new(Sectors(32 * 2_048))), options).unwrap();
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
