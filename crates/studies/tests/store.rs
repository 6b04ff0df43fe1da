//! The model of the systems beside the real store on a RAM device: the same SQL, the same pages,
//! the same rows.

use std::sync::Arc;

use block::{RamDevice, Sectors, Span};
use rusqlite::{Connection, OpenFlags};
use sqlite::files::{Memory, Recorder, Settings, Shared, Stage, Synchronous, api};
use sqlite::host::{Engine, Layout, System, Tally};
use sqlite::workload::bench::{Overwrite, Shape};
use varve_sqlite_vfs::{Checkpoint, Counter, Stats, Store, StoreOptions, Stores};

const COUNT: u64 = 600;
const SHAPE: Shape = Shape { keys: 4000, value: 700 };

fn sum(db: &Connection) -> (u64, u64) {
    let mut select = db.prepare("SELECT key, value FROM test ORDER BY key").unwrap();
    let mut rows = select.query([]).unwrap();
    let (mut hash, mut count) = (0u64, 0);
    while let Some(row) = rows.next().unwrap() {
        for at in 0..2 {
            for byte in row.get_ref(at).unwrap().as_blob().unwrap() {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
            }
        }
        count += 1;
    }
    (hash, count)
}

fn checkpoint(db: &Connection, settings: &Settings) {
    if settings.journal == "wal" {
        db.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| row.get::<_, i64>(0)).unwrap();
    }
}

/// What the model writes, and the rows.
fn model(settings: Settings, system: System) -> (Tally, (u64, u64)) {
    let files = Memory::new(1);
    let mut work = Overwrite::new(SHAPE);
    let stage = Stage::new(&files, Arc::new(Counter::default())).unwrap();
    let mut db = stage.open("main", &Settings::new("memory", Synchronous::Off)).unwrap();
    work.load(&mut db).unwrap();
    db.close().unwrap();
    let calls = Shared::new(Recorder::default());
    let stage = Stage::new(&files, calls.clone()).unwrap();
    let db = stage.open("main", &settings).unwrap();
    sum(&db);
    calls.get().take();
    let layout = Layout { database: 0, pages: 4096, log: 4096 };
    let device = RamDevice::new(Sectors(8 * u64::from(layout.total())));
    let mut host = Engine::new(Box::new(device), system, layout, Span::ZERO);
    work.run(&db, COUNT, &mut || ()).unwrap();
    checkpoint(&db, &settings);
    host.hear(&calls.get().take()).unwrap();
    host.finish().unwrap();
    (host.tally().clone(), sum(&db))
}

/// What the store writes, and the rows; `name` is the VFS's.
fn store(name: &str, settings: Settings, options: StoreOptions) -> (Stats, (u64, u64)) {
    let device = RamDevice::new(Sectors(8 * 16_384));
    let store = Store::format(Box::new(device), options).unwrap();
    let stores = Stores::new();
    stores.register(&api(), name, false, None).unwrap();
    stores.add("/kept", &store);
    let open = || {
        let flags = OpenFlags::default();
        Connection::open_with_flags_and_vfs("/kept", flags, name).unwrap()
    };
    let mut work = Overwrite::new(SHAPE);
    let mut db = open();
    // The whole table in one transaction would be more than the device's table of pages holds.
    Settings::new("delete", Synchronous::Full).apply(&db).unwrap();
    work.load(&mut db).unwrap();
    db.close().unwrap();
    let db = open();
    settings.apply(&db).unwrap();
    sum(&db);
    store.flush().unwrap();
    let before = store.stats();
    work.run(&db, COUNT, &mut || ()).unwrap();
    checkpoint(&db, &settings);
    store.flush().unwrap();
    let after = store.stats();
    let rows = sum(&db);
    let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    let spent = Stats {
        commits: after.commits - before.commits,
        groups: after.groups - before.groups,
        tagged: after.tagged - before.tagged,
        plain: after.plain - before.plain,
        table: after.table - before.table,
        remapped: after.remapped - before.remapped,
        ..after
    };
    (spent, rows)
}

#[test]
fn every_commit_writes_the_same_pages() {
    for (name, exclusive) in [("store-normal", false), ("store-exclusive", true)] {
        let settings = Settings::new("memory", Synchronous::Full).exclusive(exclusive);
        let (tally, rows) = model(settings, System::Transactions(None));
        let (stats, kept) = store(name, settings, StoreOptions::default());
        assert_eq!(kept, rows);
        assert_eq!(rows.1, SHAPE.keys);
        assert_eq!(stats.tagged, tally.data, "{name}");
        assert_eq!((stats.commits, tally.commits, stats.plain), (COUNT, COUNT, 0), "{name}");
    }
}

#[test]
fn groups_write_every_page_once() {
    let settings = Settings::new("memory", Synchronous::Full);
    let (tally, rows) = model(settings, System::Transactions(Some(300)));
    let options = StoreOptions {
        group: 300,
        group_time: Span::from_us(u64::MAX / 2_000_000),
        ..StoreOptions::default()
    };
    let (stats, kept) = store("store-group", settings, options);
    assert_eq!(kept, rows);
    assert_eq!((stats.groups, stats.tagged), (tally.commits, tally.data));
    assert!(stats.groups > 5 && stats.tagged < 3 * COUNT, "{stats:?}");
}

#[test]
fn a_log_is_written_once_and_its_pages_are_moved() {
    let settings = Settings::new("wal", Synchronous::Full);
    let (tally, rows) = model(settings, System::Remapped { headers: true });
    let options = StoreOptions { checkpoint: Checkpoint::Remap, ..StoreOptions::default() };
    let (stats, kept) = store("store-remap", settings, options);
    assert_eq!(kept, rows);
    assert_eq!((stats.remapped, stats.tagged, tally.data), (tally.remapped, 0, 0));
    // The log's own header is on a page of its own when the log starts again, or is not.
    assert!(stats.plain.abs_diff(tally.pages()) <= 1, "{} {}", stats.plain, tally.pages());
}

/// The real store on the FTL drive, beside the model on a copy of that drive.
#[test]
fn over_the_drive_the_store_writes_the_pages_of_the_model() {
    use sqlite::host::{Ssd, params};
    use varve_studies::nolog::store::{VARIANTS, keep, modelled, slack};

    let small = [
        "capacity=64 MiB",
        "geometry.channels=2",
        "geometry.dies=2",
        "geometry.pages=64",
        "line=plane",
    ];
    let params = params(&[&["tx.mode=nolog", "nand.oob=full"], &small[..]].concat()).unwrap();
    let used = Ssd::aged(&params, params.logical_pages / 2, 4096).unwrap();
    for (at, (variant, mode)) in VARIANTS.into_iter().enumerate() {
        let tally = modelled(variant, used.clone(), SHAPE, COUNT).unwrap();
        let kept = keep(&format!("drive-{at}"), variant, used.clone(), SHAPE, COUNT).unwrap();
        let slack = slack(variant, &tally);
        assert!(kept.pages().abs_diff(tally.pages()) <= slack, "{mode} {}", variant.name);
        assert_eq!(kept.stats.remapped, tally.remapped, "{mode} {}", variant.name);
        assert!(kept.flash.host >= kept.pages(), "{:?}", kept.flash);
    }
}
