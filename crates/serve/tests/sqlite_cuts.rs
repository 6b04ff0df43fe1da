//! SQLite over the wire while the power goes at any operation of the drive's flash, and while connections are torn at
//! any byte: what was acknowledged is there, and of what was not all or nothing.

mod controller;
mod wired;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use block::Rng;
use controller::{DRIVE, Running, run};
use rusqlite::Connection;
use stack::power::When;
use varve_serve::nvme::{Bug, Options};
use wired::{Ledger, Mode, NOTHING_FAILED, another_vfs, ask, open, prepare, start, uri};

/// Opens for a load; a controller that has just come up may not listen yet.
fn started(vfs: &str, at: SocketAddr, mode: Mode) -> Connection {
    let since = Instant::now();
    loop {
        match start(vfs, at, mode) {
            Ok(db) => return db,
            Err(error) => assert!(since.elapsed() < Duration::from_secs(60), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

type Draw = fn(&mut Rng) -> Mode;
/// How many steps were acknowledged, and what was found wrong.
type Found = (u64, Option<String>);

/// Cuts the power again and again under a load.
fn cuts(drive: &str, draw: Draw, count: u64, seed: u64, options: Options) -> Found {
    let (running, vfs) = (run(&[drive], options), another_vfs());
    prepare(&vfs, running.at);
    let (mut rng, mut ledger) = (Rng::stream(seed, "sqlite/wire"), Ledger::default());
    let power = &running.stacks[0].power;
    for cut in 0..count {
        let mode = draw(&mut rng);
        let at = power.state().operations + rng.between(1, 80);
        power.cut(When::Operation(at)).expect("a cut is planned");
        // It may go while the store is opened.
        let ended = match start(&vfs, running.at, mode) {
            Ok(db) => ledger.work(&db, mode, 1_000, &mut rng),
            Err(error) => error.to_string(),
        };
        let state = power.state();
        if state.operations + 1 < at {
            // Commits that cost the flash nothing, if they are: the power goes all the same.
            if let Err(error) = power.cut(When::Now) {
                return (ledger.floor, Some(format!("cut {cut}: {error}")));
            }
            if ended != NOTHING_FAILED {
                let now = state.operations;
                let why = format!("cut {cut}, {mode:?}: operation {now} of {at}: {ended}");
                return (ledger.floor, Some(why));
            }
        }
        // A drive that was about to say so may be off only now.
        running.until("the power is off", |running| !running.stacks[0].power.state().on);
        power.on().expect("it comes up");
        let looked = ledger.judge(&started(&vfs, running.at, mode), mode);
        if let Err(why) = looked {
            return (ledger.floor, Some(format!("cut {cut} of seed {seed}, {mode:?}: {why}")));
        }
    }
    (ledger.floor, None)
}

/// So many cuts, `each` of them of one drive; the steps that were acknowledged.
fn lives(drive: &str, draw: Draw, count: u64, each: u64, seed: u64) -> u64 {
    let mut steps = 0;
    for life in 0..count.div_ceil(each) {
        let now = each.min(count - life * each);
        let (some, wrong) = cuts(drive, draw, now, seed + life, Options::default());
        assert_eq!(wrong, None);
        steps += some;
    }
    println!("{count} cuts, {steps} steps acknowledged");
    steps
}

/// More of them: `VARVE_WIRE_CUTS=10000`.
fn wanted(usual: u64) -> u64 {
    std::env::var("VARVE_WIRE_CUTS").map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn after_a_cut_at_any_operation_every_commit_is_there_whole_or_not_at_all() {
    let count = wanted(150);
    let steps = lives(DRIVE, Mode::drawn, count, 500, 1);
    assert!(steps > count, "{steps}: the load gets somewhere");
}

/// Transactions that the drive does not keep go on with journals in the store, which whoever comes next plays back. A cut
/// may leave a super-journal that nobody names, as SQLite's documentation says, so a drive is used for some cuts only.
#[test]
fn transactions_that_outgrow_the_drive_are_whole_as_well() {
    let drive = DRIVE.replace("tx.mode=nolog", "tx.mode=nolog, tx.pages=16");
    let count = wanted(100);
    let steps = lives(&drive, Mode::large, count, 50, 1_000);
    assert!(steps > count / 3, "{steps}: the load gets somewhere");
}

/// A drive that vanishes: nobody says that the power went, connections end.
#[test]
fn the_same_of_a_drive_that_vanishes() {
    let (steps, wrong) =
        cuts(DRIVE, Mode::drawn, 15, 2, Options { vanish: true, ..Options::default() });
    println!("{steps} steps acknowledged");
    assert_eq!(wrong, None);
    assert!(steps > 15, "{steps}: the load gets somewhere");
}

#[test]
fn planted_bugs_of_the_controller_are_found() {
    for bug in [Bug::FlushEarly, Bug::WriteOutside] {
        let options = || Options { bug: bug.into(), ..Options::default() };
        let found = (1..20).find_map(|seed| cuts(DRIVE, Mode::drawn, 100, seed, options()).1);
        println!("{bug:?}: {found:?}");
        assert!(found.is_some(), "{bug:?}");
    }
}

/// Rows of a transaction whose log is more than a store keeps in memory.
const MANY: u64 = 2_600;

/// The power goes and comes back in the middle of a transaction that has written some of its log already, and nobody
/// asks meanwhile. What came of its COMMIT, and the rows that are found afterwards.
fn unnoticed_cut(options: Options) -> (Result<(), String>, String) {
    let running = run(&[&DRIVE.replace("16 MiB", "64 MiB")], options);
    let name = uri(&another_vfs(), running.at, "one.db", "");
    let db = open(&name).expect("opened");
    db.execute_batch("PRAGMA journal_mode=WAL; PRAGMA cache_size=8; CREATE TABLE t(a)")
        .expect("made");
    let many = format!(
        "BEGIN; WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x WHERE i < {MANY})
         INSERT INTO t SELECT zeroblob(4000) FROM x;"
    );
    db.execute_batch(&many).expect("most of it went");
    let power = &running.stacks[0].power;
    power.cut(When::Now).expect("the power goes");
    power.on().expect("it comes up");
    let done = db.execute_batch("COMMIT").map_err(|error| error.to_string());
    drop(db);
    let db = open(&name).expect("opened");
    db.busy_timeout(Duration::from_secs(60)).expect("set");
    (done, ask(&db, "SELECT count(*) FROM t"))
}

#[test]
fn a_cut_that_nobody_noticed_is_noticed_at_commit() {
    let (done, found) = unnoticed_cut(Options::default());
    assert!(done.is_err());
    assert_eq!(found, "0", "nothing of it is there");
    // A controller that lets its host go on: the alarm of this test.
    let (done, found) =
        unnoticed_cut(Options { bug: Bug::ClaimOverCut.into(), ..Options::default() });
    println!("with the bug: {done:?}, {found} rows");
    assert!(done.is_ok() && found != MANY.to_string(), "the alarm of cuts that nobody noticed");
}

/// Passes bytes on until a connection has moved as many as it may; then that one is torn.
struct Tearing {
    at: SocketAddr,
    /// Bytes that may still pass.
    left: Arc<AtomicI64>,
    stop: Arc<AtomicBool>,
    accepts: Option<std::thread::JoinHandle<()>>,
}

fn pass(mut from: TcpStream, mut to: TcpStream, left: &AtomicI64) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let before = left.fetch_sub(count as i64, Ordering::SeqCst);
        let may = before.clamp(0, count as i64) as usize;
        if to.write_all(&buffer[..may]).is_err() || may < count {
            break;
        }
    }
    // Streams that are over already cannot be ended, which is well.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

impl Tearing {
    fn before(server: SocketAddr) -> Tearing {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
        let at = listener.local_addr().expect("an address");
        let (left, stop) = (Arc::new(AtomicI64::new(i64::MAX)), Arc::new(AtomicBool::new(false)));
        let (budget, ends) = (Arc::clone(&left), Arc::clone(&stop));
        let accepts = std::thread::spawn(move || {
            for client in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(client), Ok(far)) = (client, TcpStream::connect(server)) else { continue };
                client.set_nodelay(true).and_then(|()| far.set_nodelay(true)).expect("set");
                let twins = client.try_clone().and_then(|one| Ok((one, far.try_clone()?)));
                let (there, back) = twins.expect("two hands");
                let budgets = (Arc::clone(&budget), Arc::clone(&budget));
                std::thread::spawn(move || pass(client, far, &budgets.0));
                std::thread::spawn(move || pass(back, there, &budgets.1));
            }
        });
        Tearing { at, left, stop, accepts: Some(accepts) }
    }
}

impl Drop for Tearing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // It waits for somebody.
        let _ = TcpStream::connect(self.at);
        if let Some(accepts) = self.accepts.take() {
            assert!(accepts.join().is_ok() || std::thread::panicking(), "the proxy failed");
        }
    }
}

fn torn(running: &Running, count: u64, seed: u64) -> (u64, u64) {
    let (between, vfs) = (Tearing::before(running.at), another_vfs());
    prepare(&vfs, running.at);
    let (mut rng, mut ledger) = (Rng::stream(seed, "sqlite/torn"), Ledger::default());
    let mut hit = 0;
    for round in 0..count {
        let mode = Mode::drawn(&mut rng);
        between.left.store(i64::MAX, Ordering::SeqCst);
        let db = started(&vfs, between.at, mode);
        between.left.store(rng.between(1, 1_000_000) as i64, Ordering::SeqCst);
        let before = ledger.floor;
        drop(ledger.work(&db, mode, 40, &mut rng));
        hit += u64::from(ledger.floor < before + 40);
        drop(db);
        // By itself: the controller gives up a host whose connections ended, and its transactions.
        let looked = ledger.judge(&started(&vfs, running.at, mode), mode);
        assert_eq!(looked, Ok(()), "round {round} of seed {seed}, {mode:?}");
    }
    (hit, ledger.floor)
}

#[test]
fn a_connection_that_is_torn_at_any_byte_loses_nothing_that_was_acknowledged() {
    let running = run(&[DRIVE], Options::default());
    let (hit, steps) = torn(&running, 40, 1);
    println!("{hit} of 40 were torn, {steps} steps acknowledged");
    assert!(hit > 10 && steps > 40, "{hit} torn, {steps} steps");
}
