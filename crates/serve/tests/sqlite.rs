//! SQLite in a namespace behind the wire: what it commits is there, one process has it, and a namespace that holds
//! something else is left alone.

mod actor;
mod controller;
mod wired;

use std::path::Path;
use std::time::Duration;

use actor::{KINDS, ONE, demanding};
use controller::{DRIVE, Running, run};
use rusqlite::Connection;
use stack::power::When;
use varve_serve::nvme::initiator::Wish;
use varve_serve::nvme::{Bug, Digest, InitiatorError, Options, Secrets, Status};
use varve_sqlite_vfs::{Checkpoint, Store, StoreOptions, Stores};
use wire::nvme::{Drive, Place};
use wired::{another_vfs, ask, open, uri, vfs_of};

fn served() -> Running {
    run(&[DRIVE], Options::default())
}

#[test]
fn what_is_committed_is_there_when_it_is_opened_again() {
    let (running, vfs) = (served(), another_vfs());
    let name = uri(&vfs, running.at, "app.db", "");
    for journal in ["DELETE", "WAL", "MEMORY"] {
        let db = open(&name).expect("opened");
        assert_eq!(ask(&db, &format!("PRAGMA journal_mode={journal}")), journal.to_lowercase());
        db.execute_batch("CREATE TABLE IF NOT EXISTS t(a INTEGER PRIMARY KEY, b BLOB)").unwrap();
        let before: u64 = ask(&db, "SELECT count(*) FROM t").parse().unwrap();
        db.execute_batch("BEGIN; INSERT INTO t(b) VALUES (randomblob(9000)), ('x'); COMMIT")
            .unwrap();
        db.execute_batch("BEGIN; DELETE FROM t; INSERT INTO t(b) VALUES ('y'); ROLLBACK").unwrap();
        assert_eq!(ask(&db, "SELECT count(*) FROM t"), (before + 2).to_string());
        drop(db);
        let db = open(&name).expect("opened again");
        assert_eq!(ask(&db, "SELECT count(*) FROM t"), (before + 2).to_string(), "{journal}");
        assert_eq!(ask(&db, "PRAGMA integrity_check"), "ok");
    }
    // It was done by transactions of the drive, and by records that a flush made durable.
    running.until("it is counted", |running| running.count("commits") > 0);
    assert!(running.count("flushes") > 0);
    running.until("it has left", |running| running.count("hosts_now") == 0);
}

#[test]
fn several_databases_and_connections_share_one_store() {
    let (running, vfs) = (served(), another_vfs());
    let one = open(&uri(&vfs, running.at, "one.db", "")).expect("opened");
    let two = uri(&vfs, running.at, "two.db", "");
    one.execute_batch(&format!(
        "CREATE TABLE t(a); ATTACH '{two}' AS q; CREATE TABLE q.t(a);
         BEGIN; INSERT INTO t VALUES (1); INSERT INTO q.t VALUES (1); COMMIT;"
    ))
    .expect("both together");
    let other = open(&two).expect("the same store");
    assert_eq!(ask(&other, "SELECT count(*) FROM t"), "1");
    // Readers beside a writer, each a connection and a thread of its own.
    let name = uri(&vfs, running.at, "one.db", "");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let db = open(&name).expect("opened");
                db.busy_timeout(Duration::from_secs(60)).expect("set");
                for _ in 0..30 {
                    let rows = "SELECT (SELECT count(*) FROM t) = (SELECT max(a) FROM t)";
                    assert_eq!(ask(&db, rows), "1");
                }
            });
        }
        one.busy_timeout(Duration::from_secs(60)).expect("set");
        for k in 2..=40 {
            one.execute("INSERT INTO t VALUES (?1)", [k]).expect("written");
        }
    });
    assert_eq!(ask(&one, "SELECT count(*) FROM t"), "40");
    // `mode=ro` is one more connection to the store that this process has.
    let read = open(&format!("{name}&mode=ro"));
    assert_eq!(ask(&read.expect("opened"), "SELECT count(*) FROM t"), "40");
}

/// With one queue, with data that is asked for, and whatever there is of digests.
#[test]
fn what_a_controller_offers_is_enough() {
    let small = Options { in_capsule: 4096, transfer: 8192, ..Options::default() };
    for options in [
        Options { queues: 1, ..Options::default() },
        Options { digest: Digest::Require, ..small.clone() },
        Options { digest: Digest::Off, ..small },
    ] {
        let (running, vfs) = (run(&[DRIVE], options), another_vfs());
        let name = uri(&vfs, running.at, "app.db", "&log=1MiB");
        let db = open(&name).expect("opened");
        db.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (randomblob(300000))")
            .expect("it");
        // Commits of many pages, which the log takes: several commands, and one flush behind them.
        for _ in 0..4 {
            db.execute_batch("UPDATE t SET a = randomblob(300000)").expect("written");
        }
        let sum = ask(&db, "SELECT hex(a) FROM t");
        drop(db);
        let db = open(&name).expect("opened again");
        assert_eq!(ask(&db, "SELECT hex(a) FROM t"), sum);
        assert_eq!(ask(&db, "PRAGMA integrity_check"), "ok");
    }
}

/// Whether a second process can have a store that a first one has; it waits no longer than `wait`.
fn second(first: &str, second: &str, wait: Duration) -> (Connection, Result<String, String>) {
    let db = open(first).expect("opened");
    db.execute_batch("CREATE TABLE IF NOT EXISTS t(a); INSERT INTO t VALUES (1)").expect("written");
    let other = open(second).expect("opened, and empty until it can be had");
    other.busy_timeout(wait).expect("set");
    let found = other.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
    let why = ask(&other, "PRAGMA varve_error");
    (db, found.map(|rows| rows.to_string()).map_err(|error| format!("{error}: {why}")))
}

#[test]
fn one_process_has_a_store() {
    let (running, vfs) = (served(), another_vfs());
    let (mine, other) = (uri(&vfs, running.at, "a.db", ""), another_vfs());
    let theirs = uri(&other, running.at, "a.db", "");
    let (db, found) = second(&mine, &theirs, Duration::ZERO);
    let why = found.expect_err("it is somebody else's");
    assert!(why.contains("locked") && why.contains("claimed by another host"), "{why}");
    // Who waits gets it when the first one closes it.
    let waits = std::thread::spawn(move || {
        let db = open(&theirs).expect("opened");
        db.busy_timeout(Duration::from_secs(60)).expect("set");
        ask(&db, "SELECT count(*) FROM t")
    });
    drop(db);
    assert_eq!(waits.join().expect("ended"), "1");
    // A controller that keeps nobody away: the alarm of this test.
    let planted = run(&[DRIVE], Options { bug: Bug::ClaimIgnored.into(), ..Options::default() });
    let (mine, theirs) = (uri(&vfs, planted.at, "a.db", ""), uri(&other, planted.at, "a.db", ""));
    let (_db, found) = second(&mine, &theirs, Duration::ZERO);
    assert!(!found.is_err_and(|why| why.contains("claimed")), "the alarm of claims");
}

fn status<T: std::fmt::Debug>(result: Result<T, InitiatorError>) -> Status {
    match result {
        Err(InitiatorError::Failed { status, .. }) => status,
        other => panic!("{other:?}"),
    }
}

/// Vendor command 90h as docs/nvme.md has it.
#[test]
fn a_claim_keeps_others_from_changing_anything_and_ends_with_its_host() {
    let running = run(&[DRIVE, "ram(4MiB)"], Options::default());
    let ((mut one, of), (mut two, _)) =
        (running.host(&Wish::default()), running.host(&Wish::default()));
    assert!(one.offers_claims());
    let (page, ram) = (vec![7; 4096], one.namespaces[1]);
    let early = two.tx_begin(of).expect("begun");
    two.tx_write(of, early, 9, &page).expect("written");
    one.claim(of, true).expect("claimed");
    one.claim(of, true).expect("again, by the same host");
    assert_eq!(status(two.claim(of, true)), Status::CLAIMED);
    two.claim(of, false).expect("nothing to give back");
    assert_eq!(status(two.write(of, 0, &page, true)), Status::RESERVED);
    assert_eq!(status(two.zero(of, 0, 1, false)), Status::RESERVED);
    assert_eq!(status(two.deallocate(of, 0, 1)), Status::RESERVED);
    assert_eq!(status(two.tx_begin(of)), Status::RESERVED);
    assert_eq!(status(two.tx_commit(of, &[early])), Status::RESERVED);
    assert_eq!(status(two.remap(of, &[(0, 1)])), Status::RESERVED);
    assert_eq!(two.read(of, 9, 1).expect("read"), vec![0; 4096]);
    two.flush(of).expect("flushed");
    two.write(ram, 0, &page, true).expect("another namespace");
    let tid = one.tx_begin(of).expect("begun");
    one.tx_write(of, tid, 0, &page).expect("written");
    drop(one);
    // Whoever gets it finds no transaction of the other one.
    running.until("it is gone", |running| running.count("hosts_now") == 1);
    two.claim(of, true).expect("claimed");
    two.write(of, 0, &page, true).expect("written");
    two.claim(of, false).expect("given back");
    let (mut three, _) = running.host(&Wish::default());
    three.write(of, 1, &page, true).expect("nobody has it");
}

/// A page that was written and not flushed, and a power cut: what a flush says then, and what is there.
fn flushed_after_a_cut(options: Options) -> (Result<(), InitiatorError>, Vec<u8>) {
    let running = run(&[DRIVE], options);
    let (mut host, of) = running.host(&Wish::default());
    host.claim(of, true).expect("claimed");
    host.write(of, 5, &[7; 4096], false).expect("written");
    let power = &running.stacks[0].power;
    power.cut(When::Now).expect("the power goes");
    power.on().expect("it comes up");
    let flushed = host.flush(of);
    if flushed.is_err() {
        assert_eq!(status(host.read(of, 5, 1)), Status::CLAIM_VOID);
        assert_eq!(status(host.write(of, 5, &[8; 4096], true)), Status::CLAIM_VOID);
        assert_eq!(status(host.tx_begin(of)), Status::CLAIM_VOID);
        host.claim(of, true).expect("by who knows that it begins anew");
        host.flush(of).expect("flushed");
    }
    (flushed, host.read(of, 5, 1).expect("read"))
}

#[test]
fn what_a_host_believed_before_a_power_cut_is_not_confirmed() {
    let (flushed, there) = flushed_after_a_cut(Options::default());
    assert_eq!((status(flushed), there), (Status::CLAIM_VOID, vec![0; 4096]));
    let planted = Options { bug: Bug::ClaimOverCut.into(), ..Options::default() };
    let (flushed, there) = flushed_after_a_cut(planted);
    assert!(flushed.is_ok() && there == [0; 4096], "the alarm of claims over a cut");
}

/// SQLite tells files by their names, so two stores of a process have none in common, and none depends on a folder.
#[test]
fn a_name_is_one_database_of_a_process() {
    let ((left, right), vfs) = ((served(), served()), another_vfs());
    let name = |at, name| uri(&vfs, at, name, "");
    let make =
        |uri: &str| open(uri).map(|db| db.execute_batch("CREATE TABLE t(a)").expect("written"));
    make(&name(left.at, "a.db")).expect("made");
    make(&name(right.at, "b.db")).expect("made");
    let a = open(&name(left.at, "a.db")).expect("opened");
    assert!(open(&name(right.at, "a.db")).is_err(), "a.db is of the other store");
    make(&name(left.at, "b.db")).expect("as long as the other one is closed");
    assert!(open(&name(right.at, "c.db")).is_err(), "both have a b.db");
    drop(a);
    open(&name(right.at, "c.db")).expect("the other one is closed");
    assert!(open(&name(left.at, "folder/a.db")).is_err(), "there are no folders");
    let relative = name(left.at, "a.db").replace("file:/", "file:");
    assert!(open(&relative).is_err(), "it would be another name elsewhere");
}

/// A checkpoint that moves pages moves no more of them than a command carries; more are copied.
#[test]
fn a_checkpoint_fits_into_a_command() {
    let running = run(&[DRIVE], Options::default());
    let place: Place = format!("nvme-tcp://{}", running.at).parse().expect("a place");
    let options = StoreOptions { checkpoint: Checkpoint::Remap, ..StoreOptions::default() };
    let store = Store::open_at(&place, options, true).expect("made");
    let stores = Stores::new();
    stores.add("/far", &store);
    let db = open(&format!("file:/far/app.db?vfs={}", vfs_of(&stores))).expect("opened");
    assert_eq!(ask(&db, "PRAGMA journal_mode=WAL"), "wal");
    db.execute_batch("PRAGMA wal_autocheckpoint=0; CREATE TABLE t(a INTEGER PRIMARY KEY, b);")
        .expect("made");
    assert_eq!(ask(&db, "PRAGMA wal_checkpoint(TRUNCATE)"), "0");
    let mut moved = Vec::new();
    for pages in [200, 300, 254, 255, 256, 257] {
        let sql = format!(
            "DELETE FROM t; INSERT INTO t(b) SELECT randomblob(4000) FROM \
             (WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < {pages}) SELECT i FROM x)"
        );
        db.execute_batch(&sql).expect("written");
        let sum = ask(&db, "SELECT sum(length(b)) || hex(max(b)) FROM t");
        let before = store.stats().remapped;
        assert_eq!(ask(&db, "PRAGMA wal_checkpoint(TRUNCATE)"), "0", "{pages}");
        moved.push(store.stats().remapped - before);
        assert_eq!(ask(&db, "SELECT sum(length(b)) || hex(max(b)) FROM t"), sum, "{pages}");
        db.execute_batch("INSERT INTO t(b) VALUES (1)").expect("it still takes something");
    }
    assert!(moved.iter().any(|pages| *pages > 200) && moved.contains(&0), "{moved:?}");
    assert_eq!(ask(&db, "PRAGMA integrity_check"), "ok");
}

/// The secret comes from a file that the URI names.
#[test]
fn a_store_behind_a_secret_is_opened_by_who_has_its_file() {
    let folder = std::env::temp_dir().join(format!("varve-secrets-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("a text").to_string()
    };
    let text = format!("{} {}\ncontroller {}\n", "nqn.a:one", KINDS[1], KINDS[2]);
    let (right, wrong) = (file("right", &text), file("wrong", &format!("nqn.a:one {ONE}")));
    let broken = file("broken", "nqn.a:one secret");
    let (running, vfs) = (run(&[DRIVE], demanding(&text)), another_vfs());
    let bare = uri(&vfs, running.at, "app.db", "");
    let with = |path: &str| format!("{bare}&secret={path}");
    let db = open(&with(&right)).expect("opened");
    db.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (7)").expect("written");
    drop(db);
    // The admin queue and two others.
    running.until("they are counted", |running| running.count("authenticated") == 3);
    let beside = format!("file:/app.db?vfs={vfs}&secret={right}");
    for uri in [bare.clone(), with(&wrong), with(&broken), with("/nowhere/secrets"), beside] {
        assert!(open(&uri).is_err(), "{uri}");
        let db = open(&with(&right)).expect("opened");
        assert_eq!(ask(&db, "SELECT a FROM t"), "7");
    }
    // What SQLite's log is told of it.
    let place: Place = format!("nvme-tcp://{}", running.at).parse().expect("a place");
    let why = |place: &Place| Drive::connect(place).expect_err("it may not").to_string();
    // A host by the usual name, of which the controller knows no secret.
    assert!(why(&place).contains("status type 1 code 84h"), "{}", why(&place));
    let stranger = place.knowing(Secrets::read(Path::new(&wrong)).expect("a file"));
    let told = why(&stranger.expect("of one host"));
    assert!(told.contains("authentication failed: another secret, or another name"), "{told}");
    std::fs::remove_dir_all(&folder).expect("removed");
}

/// A namespace is made a store only for whoever may create one, and only if it is empty.
#[test]
fn a_namespace_that_holds_something_else_is_left_alone() {
    let (running, vfs) = (run(&[DRIVE, "ram(4MiB)"], Options::default()), another_vfs());
    let name = uri(&vfs, running.at, "app.db", "");
    let refused = |uri: &str| open(uri).err().map(|error| error.to_string());
    assert!(refused(&format!("{name}&mode=rw")).is_some(), "there is no store yet");
    for place in [0, 200, 4000] {
        let (mut host, of) = running.host(&Wish::default());
        host.write(of, place, &[1; 4096], true).expect("written");
        drop(host);
        assert!(refused(&name).is_some(), "page {place} holds something");
        let (mut host, _) = running.host(&Wish::default());
        assert_eq!(host.read(of, place, 1).expect("read"), [1; 4096]);
        host.deallocate(of, place, 1).expect("forgotten");
    }
    open(&name).expect("made").execute_batch("CREATE TABLE t(a)").expect("written");
    drop(open(&format!("{name}&mode=rw")).expect("it is there now"));
    // No transactions, no such namespace, no such thing.
    for more in ["?nsid=2", "?nsid=3", "?nsid=0", "/nqn.2014-08.org.example:other", "?size=1"] {
        assert!(refused(&uri(&vfs, running.at, "app.db", more)).is_some(), "{more}");
    }
}
