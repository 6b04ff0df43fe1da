//! The power goes, or one operation fails, while several writers commit.

use std::thread;
use std::time::Duration;

use block::Bytes;
use rusqlite::Connection;
use varve_sqlite_vfs::store::Bug;

use super::common::ask;
use super::common::cut::Medium;
use super::common::image::Meanwhile;
use super::{Rig, WRITERS};

/// What one run of several writers has acknowledged.
#[derive(Default)]
struct Told {
    /// By writer.
    commits: Vec<u64>,
    /// What each has been told by a SELECT: of its neighbour, or of the one database.
    saw: Vec<u64>,
    operations: u64,
    logged: u64,
    writes: u64,
}

/// Writers commit until the power goes, or so many times each: all to one database, in which each commit takes the
/// next number; or each to its own, with what it has read in its neighbour's.
fn write(rig: &Rig, apart: bool, once: bool, cut: u64) -> Told {
    let power = rig.medium.power();
    let before = rig.store().stats();
    {
        let mut power = power.lock().unwrap();
        (power.operations, power.cut_at, power.once) = (0, cut, once);
    }
    let power = &power;
    let work = |who: u64, own: Connection, next: Connection| {
        let (mut told, mut last) = (0, 0);
        for k in 1..=8 {
            let saw = next.query_row("SELECT v FROM c", [], |row| row.get::<_, i64>(0));
            let Ok(saw) = saw else { break };
            {
                // A SELECT ends when what it saw is durable; it cannot fail any more if that fails.
                let power = power.lock().unwrap();
                if cut == 0 || power.operations < cut {
                    last = saw as u64;
                }
            }
            let sql = match apart {
                true => format!("UPDATE c SET v = {k}, saw = {saw}"),
                false => format!(
                    "BEGIN IMMEDIATE; INSERT INTO t SELECT coalesce(max(n), 0) + 1, {who}, {k}, randomblob(300) FROM t;
                     UPDATE c SET v = v + 1; COMMIT"
                ),
            };
            if own.execute_batch(&sql).is_err() {
                let _ = own.execute_batch("ROLLBACK");
                break;
            }
            told = k;
        }
        (told, last)
    };
    let connections: Vec<(Connection, Connection)> = (0..WRITERS)
        .map(|who| match apart {
            true => {
                let next = format!("/own{}", (who + 1) % WRITERS);
                (rig.open(&format!("/own{who}")), rig.open(&next))
            }
            false => (rig.open(""), rig.open("")),
        })
        .collect();
    let (commits, saw) = thread::scope(|scope| {
        let threads: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(who, (own, next))| scope.spawn(move || work(who as u64, own, next)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let after = rig.store().stats();
    let operations = power.lock().unwrap().operations;
    Told {
        commits,
        saw,
        operations,
        logged: after.logged - before.logged,
        writes: after.log_writes - before.log_writes,
    }
}

fn look(rig: &Rig, apart: bool, told: &Told) -> Result<(), String> {
    let number = |db: &Connection, sql: &str| -> Result<u64, String> {
        ask(db, sql).parse().map_err(|_| format!("{sql}: {}", ask(db, sql)))
    };
    let fits = |who: usize, found: u64| match told.commits[who] {
        told if (told..=told + 1).contains(&found) => Ok(()),
        told => Err(format!("writer {who}: {told} acknowledged, {found} there")),
    };
    let sound = |db: &Connection| match ask(db, "PRAGMA integrity_check").as_str() {
        "ok" => Ok(()),
        other => Err(other.to_string()),
    };
    if !apart {
        let db = rig.open("");
        sound(&db)?;
        let count = number(&db, "SELECT count(*) FROM t")?;
        let (last, v) =
            (number(&db, "SELECT coalesce(max(n), 0) FROM t")?, number(&db, "SELECT v FROM c")?);
        if (last, v) != (count, count) {
            return Err(format!("{count} rows, the last is {last}, counted as {v}"));
        }
        for who in 0..WRITERS {
            let rows = number(&db, &format!("SELECT count(*) FROM t WHERE who = {who}"))?;
            let most =
                number(&db, &format!("SELECT coalesce(max(k), 0) FROM t WHERE who = {who}"))?;
            if rows != most {
                return Err(format!("writer {who}: {rows} rows, the last is {most}"));
            }
            fits(who, rows)?;
        }
        return match told.saw.iter().max() {
            Some(saw) if *saw > v => Err(format!("somebody was told {saw}, and {v} is there")),
            _ => Ok(()),
        };
    }
    let dbs: Vec<Connection> = (0..WRITERS).map(|who| rig.open(&format!("/own{who}"))).collect();
    for (who, db) in dbs.iter().enumerate() {
        sound(db)?;
        fits(who, number(db, "SELECT v FROM c")?)?;
        let (saw, there) = (
            number(db, "SELECT saw FROM c")?,
            number(&dbs[(who + 1) % WRITERS], "SELECT v FROM c")?,
        );
        let saw = saw.max(told.saw[who]);
        if saw > there {
            return Err(format!("writer {who} was told {saw} by its neighbour, which has {there}"));
        }
    }
    Ok(())
}

/// Every so many cuts of runs of several writers: the cuts, what was bad, and commits and writes of the log.
fn cuts(apart: bool, once: bool, stride: u64, bug: Option<Bug>) -> (u64, Vec<String>, u64, u64) {
    // Small enough to be used up within a run.
    let mut rig = Rig::new(Bytes(if apart { 24 } else { 40 } << 10));
    rig.open("")
        .execute_batch(
            "CREATE TABLE t(n INTEGER PRIMARY KEY, who INT, k INT, pad BLOB); CREATE TABLE c(v INT); INSERT INTO c VALUES(0)",
        )
        .unwrap();
    for writer in 0..WRITERS {
        let db = rig.open(&format!("/own{writer}"));
        db.execute_batch("CREATE TABLE c(v INT, saw INT); INSERT INTO c VALUES(0, 0)").unwrap();
    }
    rig.store().flush().unwrap();
    rig.medium.meanwhile = Meanwhile::new(|| thread::sleep(Duration::from_micros(600)));
    let start = rig.medium.image();
    let (mut done, mut bad, mut last, mut logged, mut writes) = (0, Vec::new(), 0, 0, 0);
    let mut cut = 0;
    loop {
        rig.medium.restore(&start);
        rig.again(bug).unwrap();
        let told = write(&rig, apart, once, cut);
        if cut == 0 {
            last = told.operations;
            assert!(
                bug.is_some() || told.commits.iter().all(|told| *told == 8),
                "{:?}",
                told.commits
            );
        }
        (logged, writes) = (logged + told.logged, writes + told.writes);
        let power_on = bug.filter(|bug| *bug == Bug::SettledUnwritten);
        if let Err(why) = rig.again(power_on).and_then(|()| look(&rig, apart, &told)) {
            bad.push(format!("cut {cut} of {last}: {why}"));
        }
        done += 1;
        cut += if cut == 0 { 1 } else { stride };
        if cut > last {
            return (done, bad, logged, writes);
        }
    }
}

fn stride(usual: u64) -> u64 {
    if std::env::var("VARVE_CUTS").is_ok_and(|v| v == "all") { 1 } else { usual }
}

#[test]
fn what_was_acknowledged_is_there_and_what_was_seen() {
    for (apart, once) in [(false, false), (true, false), (false, true), (true, true)] {
        let (done, bad, logged, writes) = cuts(apart, once, stride(2), None);
        println!(
            "apart {apart}, once {once}: {done} cuts, {logged} commits, {writes} writes of the log"
        );
        assert!(
            bad.is_empty(),
            "apart {apart}, once {once}: {} of {done}: {:?}",
            bad.len(),
            bad.first()
        );
        assert!(done > 20 && logged > writes, "{done} cuts, {logged} in {writes}");
    }
}

#[test]
fn planted_bugs_are_found() {
    let planted = [
        (Bug::AnsweredEarly, false, false),
        (Bug::DurableUnwritten, false, false),
        (Bug::SettledUnwritten, false, false),
        (Bug::ReaderAhead, true, false),
        (Bug::LogErrorSwallowed, false, true),
    ];
    for (bug, apart, once) in planted {
        let (mut done, mut found) = (0, Vec::new());
        // What is torn, and who comes first, is drawn: on a busy machine a batch of two commits is rare, and one whose
        // first is torn and whose second is whole rarer (2 of 424 cuts were seen).
        for _ in 0..40 {
            let (cuts, bad, ..) = cuts(apart, once, 1, Some(bug));
            (done, found) = (done + cuts, [found, bad].concat());
            if found.len() >= 3 {
                break;
            }
        }
        println!("{bug:?}: {} of {done}: {:?}", found.len(), found.first());
        assert!(!found.is_empty(), "{bug:?}: none of {done} cuts shows it");
    }
}
