//! SQLite on the modelled drive, and power cuts at the operations of its flash.
//!
//! A workload runs once. After each call to the drive, each program and erase that the call has
//! booked is cut in several ways; the image that is left goes on a list together with what SQLite
//! had acknowledged by then. Later each image is powered on and judged; what recovery and the work
//! after it book is cut again.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use block::{
    BlockDevice, Data, DeviceError, Lba, Lpn, Remap, Request, Rng, Sectors, Time, Transactional,
    TxError, TxId, TxLimits,
};
use nand::{Cut, Image, Instant, Left, OpKind, Torn};
use ssd::{Config, Drive, Origin, Params};

use super::crash::{Case, Harness, PLAIN};
use super::{ask, unique};

/// Drives, each with another commit, buffer, cleaning or timing.
pub const DRIVES: [&[(&str, &str)]; 6] = [
    &[("tx.commit", "counted"), ("buffer.policy", "none"), ("geometry.channels", "1")],
    &[("tx.commit", "barrier"), ("buffer.size", "128 KiB"), ("geometry.channels", "2")],
    &[("tx.commit", "counted"), ("buffer.size", "128 KiB"), ("geometry.channels", "2")],
    &[("tx.commit", "barrier"), ("buffer.policy", "none"), ("streams.policy", "user+gc")],
    &[("tx.commit", "counted"), ("buffer.policy", "none"), ("timing", "off"), ("op", "30 %")],
    &[("tx.commit", "barrier"), ("buffer.size", "64 KiB"), ("tx.losers", "4"), ("op", "30 %")],
];

/// How much is cut.
#[derive(Clone, Copy)]
pub struct Density {
    /// One operation in so many.
    pub operations: u64,
    /// Of the images of the first run, one in so many has its recovery and later work cut.
    pub nested: u64,
    pub seed: u64,
    /// What is wrong with the drive.
    pub bug: Option<ssd::Bug>,
}

/// One with so little room for open transactions that they outgrow it.
pub const NARROW: &[(&str, &str)] = &[("tx.commit", "counted"), ("tx.pages", "24"), ("op", "30 %")];

/// Extents of a database that nobody looks at: they are there to be full. The extent that a log is to have holds
/// nothing before.
fn ballast(case: &Case) -> u64 {
    if case.journal == "WAL" { 4 } else { 2 }
}

/// The drive of a case: just large enough, nearly full and in need of cleaning.
fn params(case: &Case, drive: &[(&str, &str)]) -> Params {
    let objects: u64 = if case.two { 5 } else { 2 };
    let pages = (objects + ballast(case)) * 256 + 40 + u64::from(case.log);
    let capacity = format!("{} KiB", pages * 4);
    let mut config = Config::default();
    let mut set = |key: &str, text: &str| {
        let origin = Origin { from: "test".to_string(), source: None, tag: None };
        config.set(key, text, origin).unwrap();
    };
    let spare = if case.journal == "WAL" { "25 %" } else { "45 %" };
    for (key, text) in [
        ("geometry.channels", "1"),
        ("geometry.dies", "1"),
        ("geometry.pages", "8"),
        ("geometry.page", "4 KiB"),
        ("line", "plane"),
        ("op", spare),
        ("unit", "4 KiB"),
        ("nand.oob", "full"),
        ("tx.mode", "nolog"),
        // Erases soon: with ages a drive this small has nothing worth collecting in so few commits.
        ("gc.victim", "greedy"),
        ("tx.max_open", "4"),
        ("capacity", &capacity),
    ] {
        set(key, text);
    }
    for (key, text) in drive {
        set(key, text);
    }
    if drive.contains(&("tx.losers", "4")) {
        set("tx.max_open", "3");
    }
    config.resolve().unwrap()
}

/// What a power cut has left.
struct Leftover {
    image: Image,
    cut: Cut,
    /// Acknowledged by then, and what may be there at most.
    floor: i64,
    ceiling: i64,
}

#[derive(Default)]
struct Tape {
    on: bool,
    /// Operations before this one have been looked at.
    next: u64,
    /// One in so many.
    density: u64,
    rng: Option<Rng>,
    found: Vec<Leftover>,
    /// What must be there, as acknowledged; at most one more may be.
    said: Arc<AtomicI64>,
    /// Acknowledged commits may be missing.
    lazy: bool,
}

impl Tape {
    /// Cuts what has been booked since the last look.
    fn look(&mut self, drive: &Drive) {
        let (first, last) = (self.next, drive.nand().ops());
        self.next = last;
        let Some(rng) = &mut self.rng else { return };
        if !self.on {
            return;
        }
        let said = self.said.load(Ordering::SeqCst);
        let floor = if self.lazy { 0 } else { said };
        for op in first..last {
            if self.density > 1 && !rng.ratio(1, self.density) {
                continue;
            }
            let record = drive.nand().journal().find(|record| record.op == op);
            let Some(kind) = record.map(|record| record.kind) else { continue };
            let mut instants = vec![Instant::Inside, Instant::Inside];
            if kind == OpKind::Erase || rng.ratio(1, 4) {
                instants.push(Instant::Before);
            }
            if op == first {
                instants.push(Instant::Booked);
            }
            for instant in instants {
                let seed = rng.next_u64();
                let torn = match seed % 5 {
                    0 => Torn::Nothing,
                    1 => Torn::Prefix,
                    2 => Torn::Garbage,
                    _ => Torn::Mixed(seed),
                };
                let left = match seed / 5 % 5 {
                    0 => Left::Old,
                    1 => Left::Blank,
                    2 => Left::Garbage,
                    _ => Left::Mixed(seed),
                };
                let cut = Cut { op, instant, torn, pair: false, left };
                if let Some((image, _)) = drive.nand().image_at_cut(&cut) {
                    self.found.push(Leftover { image, cut, floor, ceiling: said + 1 });
                }
            }
        }
    }
}

/// A drive that others may look into while a store has it.
#[derive(Clone)]
struct Shared {
    drive: Arc<Mutex<Drive>>,
    tape: Arc<Mutex<Tape>>,
}

impl Shared {
    fn new(mut drive: Drive) -> Shared {
        drive.nand_mut().keep_journal();
        Shared { drive: Arc::new(Mutex::new(drive)), tape: Arc::default() }
    }

    fn drive(&self) -> MutexGuard<'_, Drive> {
        self.drive.lock().unwrap()
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.tape.lock().unwrap()
    }

    /// Makes a call when the drive is ready, and cuts what it books.
    fn call<T>(&self, at: Time, body: impl FnOnce(&mut Drive, Time) -> T) -> T {
        let mut drive = self.drive();
        let at = at.max(drive.now());
        // What has ended before this call cannot be under way when its operations are cut.
        drive.nand_mut().prune_journal(at);
        let answer = body(&mut drive, at);
        self.tape().look(&drive);
        answer
    }

    /// From here on operations are cut.
    fn record(&self, seed: u64, density: u64, said: &Arc<AtomicI64>, lazy: bool) {
        let next = self.drive().nand().ops();
        let (rng, said) = (Some(Rng::new(seed)), Arc::clone(said));
        *self.tape() = Tape { on: true, next, density, rng, found: Vec::new(), said, lazy };
    }

    fn stop(&self) -> Vec<Leftover> {
        let mut tape = self.tape();
        tape.on = false;
        std::mem::take(&mut tape.found)
    }
}

impl BlockDevice for Shared {
    fn capacity(&self) -> Sectors {
        self.drive().capacity()
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        self.call(at, |drive, at| drive.submit(at, request))
    }
}

impl Transactional for Shared {
    fn tx_limits(&self) -> TxLimits {
        self.drive().tx_limits()
    }
    fn tx_begin(&mut self) -> Result<TxId, TxError> {
        self.drive().tx_begin()
    }
    fn tx_write(
        &mut self,
        at: Time,
        tid: TxId,
        page: Lpn,
        data: Data<'_>,
    ) -> Result<Time, TxError> {
        self.call(at, |drive, at| drive.tx_write(at, tid, page, data))
    }
    fn tx_trim(&mut self, at: Time, tid: TxId, first: Lpn, count: u32) -> Result<Time, TxError> {
        self.call(at, |drive, at| drive.tx_trim(at, tid, first, count))
    }
    fn tx_read(&mut self, at: Time, tid: TxId, page: Lpn, data: Data<'_>) -> Result<Time, TxError> {
        self.call(at, |drive, at| drive.tx_read(at, tid, page, data))
    }
    fn tx_commit(&mut self, at: Time, tids: &[TxId]) -> Result<Time, TxError> {
        self.call(at, |drive, at| drive.tx_commit(at, tids))
    }
    fn tx_abort(&mut self, at: Time, tid: TxId) -> Result<Time, TxError> {
        self.call(at, |drive, at| drive.tx_abort(at, tid))
    }
}

impl Remap for Shared {
    fn remap(&mut self, at: Time, pairs: &[(Lpn, Lpn)]) -> Result<Time, TxError> {
        self.call(at, |drive, at| drive.remap(at, pairs))
    }
}

/// Fills the part of each extent that no object of the workload reaches, over and over, so that
/// the drive has no blank block left.
fn fill(drive: &mut Drive, first: u64, log: u64, seed: u64) {
    let mut rng = Rng::new(seed);
    let pages = drive.capacity().0 / 8;
    let used = 2 + (pages / 64).max(16) + log;
    let extents = (pages - used) / 256;
    let places: Vec<u64> =
        (0..extents).flat_map(|e| (first..256).map(move |page| used + e * 256 + page)).collect();
    let all = u64::from(drive.nand().geometry().blocks()) * 8;
    let data = vec![0xB5; 4_096];
    for round in 0..all * 3 / 2 {
        let page = match places.get(round as usize) {
            Some(page) => *page,
            None => *rng.pick(&places),
        };
        let request = Request::write(Lba(page * 8), Sectors(8)).with(Data::Write(&data));
        let at = drive.now();
        drive.submit(at, request).unwrap();
        drive.nand_mut().prune_journal(at);
    }
    let at = drive.now();
    drive.submit(at, Request::flush()).unwrap();
}

/// What came of one case on one drive.
#[derive(Default, Debug)]
pub struct Tally {
    pub cuts: u64,
    pub nested: u64,
    pub erases: u64,
    pub copies: u64,
    pub fallbacks: u64,
    pub remapped: u64,
    pub bad: Vec<String>,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.cuts += other.cuts;
        self.nested += other.nested;
        self.erases += other.erases;
        self.copies += other.copies;
        self.fallbacks += other.fallbacks;
        self.remapped += other.remapped;
        self.bad.extend(other.bad);
    }
}

/// Runs `case` on a drive, cuts it, and judges every image that is left.
pub fn run(harness: &Harness, case: Case, drive: &[(&str, &str)], density: Density) -> Tally {
    let (params, name) = (params(&case, drive), unique("flash"));
    let mut tally = Tally::default();
    let start = {
        let shared = Shared::new(Drive::new(&params).unwrap());
        let store = harness.prepare(Box::new(shared.clone()), &name, &case);
        harness.stores.add(&name, &store);
        let db = harness.open(&format!("{name}/ballast"), &PLAIN).unwrap();
        db.execute_batch("CREATE TABLE b(v)").unwrap();
        for _ in 0..(ballast(&case) * 256 - 20) / 13 {
            // 13 pages: fewer than any of these drives keeps of a transaction.
            db.execute_batch("INSERT INTO b VALUES(zeroblob(50000))").unwrap();
        }
        drop(db);
        store.flush().unwrap();
        harness.stores.remove(&name);
        drop(store);
        let mut drive = shared.drive();
        // A log grows longer than a database here.
        let first = if case.journal == "WAL" { 160 } else { 72 };
        fill(&mut drive, first, case.log.into(), density.seed);
        drive.check().unwrap();
        drive.nand().image().clone()
    };
    let shared = Shared::new(Drive::mount_with(&params, start, density.bug.into()).unwrap());
    let said = Arc::new(AtomicI64::new(0));
    let found = {
        let store = harness.mount(Box::new(shared.clone()), &name, &case).unwrap();
        let db = harness.open(&name, &case).unwrap();
        assert_eq!(ask(&db, "SELECT count(*) FROM a"), "100");
        if let Some(bug) = case.bug {
            store.plant(bug.into());
        }
        shared.record(density.seed, density.operations, &said, case.lazy());
        let before = shared.drive().nand().stats();
        let acknowledged = Harness::work(&db, &case, &said);
        assert!(
            case.bug.is_some() || density.bug.is_some() || acknowledged == case.steps(),
            "{acknowledged}: {case:?} {drive:?}: {}",
            ask(&db, "PRAGMA varve_error")
        );
        let (fallbacks, remapped) = (store.stats().fallbacks, store.stats().remapped);
        // Closing makes durable what waits.
        drop(db);
        let found = shared.stop();
        let after = shared.drive().nand().stats();
        tally.erases = after.erases - before.erases;
        let gc = nand::Cause::Gc as usize;
        tally.copies = after.programs[gc] - before.programs[gc];
        (tally.fallbacks, tally.remapped) = (fallbacks, remapped);
        found
    };
    harness.stores.remove(&name);
    let rng = Rng::stream(density.seed, "nested");
    let mut judge =
        Judge { harness, case: &case, name: &name, params: &params, bug: density.bug, rng, tally };
    for left in found {
        let deep = judge.rng.ratio(1, density.nested);
        let path = format!("{:?}", left.cut);
        judge.one(left, if deep { 2 } else { 0 }, &path);
    }
    judge.tally
}

struct Judge<'a> {
    harness: &'a Harness,
    case: &'a Case,
    /// The store's: a journal names its super-journal by the whole path.
    name: &'a str,
    params: &'a Params,
    bug: Option<ssd::Bug>,
    rng: Rng,
    tally: Tally,
}

impl Judge<'_> {
    /// Judges what a cut has left and, down to some depth, what cuts of that leave.
    fn one(&mut self, left: Leftover, depth: u32, path: &str) {
        self.tally.cuts += 1;
        let (floor, ceiling) = (left.floor, left.ceiling);
        let outcome = self.power_on(left, depth);
        self.harness.stores.remove(self.name);
        match outcome {
            Err(why) => {
                self.tally.bad.push(format!("{path} floor {floor} ceiling {ceiling}: {why}"));
            }
            Ok(found) => {
                self.tally.nested += found.len() as u64;
                for next in found {
                    let path = format!("{path} then {:?}", next.cut);
                    self.one(next, depth - 1, &path);
                }
            }
        }
    }

    /// Powers an image on and looks at it; with some depth left, works on and cuts all of that.
    fn power_on(&mut self, left: Leftover, depth: u32) -> Result<Vec<Leftover>, String> {
        let (floor, ceiling, case, name) = (left.floor, left.ceiling, self.case, self.name);
        let drive = Drive::mount_with(self.params, left.image, self.bug.into());
        let drive = drive.map_err(|e| format!("no power-on: {e}"))?;
        drive.check().map_err(|v| format!("check after power-on: {v:?}"))?;
        let shared = Shared::new(drive);
        if depth > 0 {
            let said = Arc::new(AtomicI64::new(ceiling - 1));
            shared.record(self.rng.next_u64(), 1, &said, false);
            // Recovery itself has booked operations as well.
            let drive = shared.drive();
            let mut tape = shared.tape();
            tape.next = 0;
            tape.density = 1 + drive.nand().ops() / 3;
            tape.look(&drive);
            tape.density = 12;
        }
        let store = self.harness.mount(Box::new(shared.clone()), name, case)?;
        let db = self.harness.open(name, case).map_err(|e| e.to_string())?;
        let there = Harness::look(&db, case, floor, ceiling)?;
        let mut found = shared.stop();
        found.iter_mut().for_each(|left| (left.floor, left.ceiling) = (floor, ceiling));
        if depth > 0 {
            // What was seen has survived one cut, so it survives the next.
            let said = Arc::new(AtomicI64::new(there));
            shared.record(self.rng.next_u64(), 24, &said, false);
            let other = if case.two { "UPDATE q.c SET v = v + 1;" } else { "" };
            let step = format!(
                "BEGIN; UPDATE a SET b = b - 1 WHERE id = 5; UPDATE a SET b = b + 1 WHERE id = 6;
                 UPDATE c SET v = v + 1; {other} COMMIT;"
            );
            db.execute_batch(&step).map_err(|e| format!("the work after it: {e}"))?;
            if !case.lazy() {
                said.store(there + 1, Ordering::SeqCst);
            }
        }
        drop(db);
        drop(store);
        let mut later = shared.stop();
        later.iter_mut().for_each(|left| left.ceiling = there + 1);
        found.extend(later);
        shared.drive().check().map_err(|v| format!("check after SQLite: {v:?}"))?;
        Ok(found)
    }
}
