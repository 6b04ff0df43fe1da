//! A COMMIT over several databases of an image that a power cut has cut off: check, backup and salvage take its super-journal
//! for what it is, under whatever name the image has now, and see all of the transaction or nothing.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use varve_sqlite_host::files::api;
use varve_sqlite_host::image::{Served, backup, check, salvage};
use varve_sqlite_host::source::Source;
use varve_sqlite_vfs::{Store, StoreOptions, Stores};

const VFS: &str = "supers";

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("supers");
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(image: &Path, more: &str) -> Connection {
    let name = format!("file:{}?{more}", image.display());
    let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags_and_vfs(name, flags, VFS).unwrap();
    db.execute_batch(&format!("PRAGMA cache_size=20; ATTACH 'file:{}/two' AS q", image.display()))
        .unwrap();
    db
}

fn ask(db: &Connection, sql: &str) -> String {
    db.query_row(sql, [], |row| row.get::<_, Option<String>>(0)).unwrap().unwrap_or_default()
}

/// Versions of the rows of both databases.
fn versions(ask: impl Fn(&str) -> String) -> String {
    ["main", "two"].map(ask).join(" ")
}

fn objects(image: &Path) -> Vec<String> {
    let store = Store::open_beside(image, StoreOptions::default()).unwrap();
    store.objects().into_iter().map(|(name, _)| name).collect()
}

/// By the image's own name, as whoever goes on with it.
fn by_name(image: &Path) -> String {
    let db = open(image, "");
    versions(|name| {
        let schema = if name == "two" { "q" } else { "main" };
        ask(&db, &format!("SELECT group_concat(DISTINCT v) FROM {schema}.t"))
    })
}

fn by_backup(image: &Path, copy: &Path) -> String {
    let made = backup(image, copy).unwrap();
    assert_eq!(made.databases.len(), 2, "{:?}", made.databases);
    let store = Store::open(copy, StoreOptions::default()).unwrap();
    let served = Served::new(&copy.display().to_string(), store).unwrap();
    versions(|name| ask(&served.open(name).unwrap(), "SELECT group_concat(DISTINCT v) FROM t"))
}

/// By what salvage saves of each, in SQLite's own files.
fn by_salvage(image: &Path, folder: &Folder) -> String {
    versions(|name| {
        let (file, source) = (folder.at("saved.db"), Source::Image(image.to_path_buf()));
        let saved = salvage(&source, Some(name), &file).unwrap();
        assert!(saved.lost.is_empty(), "{:?}", saved.why);
        let found =
            ask(&Connection::open(&file).unwrap(), "SELECT group_concat(DISTINCT v) FROM t");
        for path in saved.beside.into_iter().map(|(path, _)| path).chain([file]) {
            let _ = std::fs::remove_file(path);
        }
        found
    })
}

#[test]
fn a_commit_over_two_databases_that_was_cut_off_is_all_or_nothing_for_all_tools() {
    Stores::new().register(&api(), VFS, false, None).unwrap();
    let folder = Folder::new();
    let (image, killed) = (folder.at("a.varve"), folder.at("killed.varve"));
    let db = open(&image, "capacity=8MiB");
    for schema in ["main", "q"] {
        db.execute_batch(&format!(
            "CREATE TABLE {schema}.t(k INTEGER PRIMARY KEY, v TEXT, b BLOB);
             WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < 650)
             INSERT INTO {schema}.t SELECT i, 'old', randomblob(3000) FROM x"
        ))
        .unwrap();
    }
    drop(db);
    let (mut met, mut seen, mut at) = (0, [0, 0], 1);
    loop {
        std::fs::copy(&image, &killed).unwrap();
        let db = open(&killed, &format!("power_cut={at}&cut_seed={at}"));
        let change = "UPDATE main.t SET v = 'new', b = randomblob(3000); UPDATE q.t SET v = 'new', b = randomblob(3000)";
        let done = db.execute_batch(&format!("BEGIN; {change}; COMMIT")).is_ok();
        drop(db);
        if done || met == 8 {
            break;
        }
        at += 37;
        if !objects(&killed).iter().any(|name| name.contains("-mj")) {
            continue;
        }
        met += 1;
        // The last steps are few, and tell whether it counts.
        at -= 30;
        // Under another name, too: its journals tell the old one.
        let moved = folder.at("moved.varve");
        std::fs::copy(&killed, &moved).unwrap();
        let sound = check(killed.as_path()).unwrap_or_else(|e| panic!("cut {at}: {e}"));
        assert_eq!(sound.databases.len(), 2, "cut {at}: {:?}", sound.databases);
        let (copy, again) = (folder.at("copy.varve"), folder.at("again.varve"));
        assert!(sound.left().is_some(), "cut {at}");
        let found = [
            by_salvage(&killed, &folder),
            by_backup(&killed, &copy),
            by_backup(&moved, &again),
            by_name(&moved),
            by_name(&killed),
        ];
        assert!(found.iter().all(|one| *one == found[0]), "cut {at}: {found:?}");
        match found[0].as_str() {
            "old old" => seen[0] += 1,
            "new new" => seen[1] += 1,
            half => panic!("cut {at}: {half}"),
        }
        for path in [copy, again, moved] {
            std::fs::remove_file(path).unwrap();
        }
    }
    println!("{met} of {at} cuts: {seen:?}");
    assert!(met > 3 && seen[0] > 0, "{met} {seen:?}");
}
