//! Transactions over the wire: every status, and after a power cut at any operation all or nothing.

mod controller;

use block::{Rng, TxId};
use controller::{DRIVE, NQN, Running, run};
use stack::power::When;
use varve_serve::nvme::codec::{Sqe, admin, vendor};
use varve_serve::nvme::initiator::{Line, Told, Wish, blocks, configure, connect_command};
use varve_serve::nvme::{Bug, Initiator, InitiatorError, Options, Status};

fn page(version: u64, place: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    for (i, word) in bytes.chunks_mut(8).enumerate() {
        word.copy_from_slice(&(version << 32 | place << 10 | i as u64).to_le_bytes());
    }
    bytes
}

/// The version of a page; `None`: it is torn, or another's.
fn version(bytes: &[u8], place: u64) -> Option<u64> {
    let version = u64::from_le_bytes(bytes[..8].try_into().expect("a word")) >> 32;
    let empty = bytes.iter().all(|byte| *byte == 0);
    (empty || bytes == page(version, place)).then_some(version)
}

fn status(result: Result<(), InitiatorError>) -> (Status, u64) {
    match result {
        Err(InitiatorError::Failed { status, result, .. }) => (status, result),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_transaction_is_seen_by_itself_until_it_is_committed() {
    let running = run(&[DRIVE], Options::default());
    let (mut host, of) = running.host(&Wish::default());
    assert!(host.transactions().is_some_and(|(open, pages, _)| open > 1 && pages > 16));
    host.write(of, 7, &page(1, 7), true).expect("written");
    let tid = host.tx_begin(of).expect("begun");
    host.tx_write(of, tid, 7, &page(2, 7)).expect("written");
    host.tx_write(of, tid, 8, &[page(2, 8), page(2, 9)].concat()).expect("two pages");
    assert_eq!(host.tx_read(of, tid, 7, 1).expect("read"), page(2, 7));
    assert_eq!(host.read(of, 7, 1).expect("read"), page(1, 7));
    host.tx_commit(of, &[tid]).expect("committed");
    assert_eq!(host.read(of, 7, 3).expect("read"), [page(2, 7), page(2, 8), page(2, 9)].concat());
    // Trimmed pages read as zeroes once that is committed.
    let tid = host.tx_begin(of).expect("begun");
    host.tx_trim(of, tid, 7, 2).expect("trimmed");
    assert_eq!(host.tx_read(of, tid, 8, 1).expect("read"), [0; 4096]);
    assert_eq!(host.read(of, 8, 1).expect("read"), page(2, 8));
    host.tx_abort(of, tid).expect("aborted");
    host.tx_abort(of, tid).expect("no error");
    assert_eq!(host.read(of, 7, 2).expect("read"), [page(2, 7), page(2, 8)].concat());
    // Moved by the map: the source reads as zeroes.
    host.remap(of, &[(20, 7), (21, 8)]).expect("moved");
    assert_eq!(host.read(of, 20, 2).expect("read"), [page(2, 7), page(2, 8)].concat());
    assert_eq!(host.read(of, 7, 2).expect("read"), vec![0; 8192]);
    // Several together, and by a capsule that is too small for its data.
    let (mut small, _) = running.host(&Wish { capsule: Some(0), ..Wish::default() });
    let tids: Vec<TxId> = (0..3).map(|_| small.tx_begin(of).expect("begun")).collect();
    for (tid, place) in tids.iter().zip(30..) {
        small.tx_write(of, *tid, place, &page(3, place)).expect("written");
    }
    small.tx_commit(of, &tids).expect("committed");
    for place in 30..33 {
        assert_eq!(host.read(of, place, 1).expect("read"), page(3, place));
    }
    // A connection adds up what it did when it has nothing else to do.
    running.until("four commits are counted", |running| running.count("commits") == 4);
}

#[test]
fn every_error_of_a_transaction_has_its_status() {
    let drive = DRIVE.replace(
        "tx.mode=nolog",
        "tx.mode=nolog, tx.max_open=4, tx.pages=32, tx.span=8, tx.losers=8",
    );
    let running = run(&[&drive, "ram(4MiB)"], Options::default());
    let (mut host, of) = running.host(&Wish::default());
    let tid = host.tx_begin(of).expect("begun");
    for place in 0..32 {
        host.tx_write(of, tid, place, &page(1, place)).expect("written");
    }
    let full = status(host.tx_write(of, tid, 40, &page(1, 40)));
    assert_eq!(full, (Status::TX_FULL, 32));
    let other = host.tx_begin(of).expect("begun");
    let owner = tid.0 & 0xffff_ffff;
    assert_eq!(status(host.tx_write(of, other, 3, &page(2, 3))), (Status::TX_CONFLICT, owner));
    assert_eq!(status(host.write(of, 3, &page(2, 3), false)), (Status::TX_CONFLICT, 0));
    assert_eq!(status(host.remap(of, &[(3, 50)])), (Status::TX_CONFLICT, owner));
    let unknown = TxId(1 << 40);
    assert_eq!(status(host.tx_write(of, unknown, 60, &page(1, 60))).0, Status::TX_UNKNOWN);
    assert_eq!(status(host.tx_commit(of, &[unknown])).0, Status::TX_UNKNOWN);
    assert_eq!(status(host.tx_trim(of, unknown, 60, 1)).0, Status::TX_UNKNOWN);
    assert_eq!(status(host.tx_read(of, unknown, 60, 1).map(drop)).0, Status::TX_UNKNOWN);
    assert_eq!(status(host.tx_commit(of, &[tid, unknown])).0, Status::TX_UNKNOWN);
    assert_eq!(status(host.tx_commit(of, &[tid, tid])).0, Status::INVALID_FIELD);
    for _ in 0..2 {
        host.tx_begin(of).expect("begun");
    }
    assert_eq!(status(host.tx_begin(of).map(drop)), (Status::TX_TOO_MANY, 4));
    // The oldest holds the numbers back.
    host.tx_abort(of, other).expect("aborted");
    let held = loop {
        match host.tx_begin(of) {
            Ok(next) => host.tx_abort(of, next).expect("aborted"),
            Err(error) => break status(Err(error)),
        }
    };
    assert_eq!(held, (Status::TX_SPAN, 8));
    // What is refused changes nothing: the first one is as it was.
    host.tx_commit(of, &[tid]).expect("committed");
    assert_eq!(host.read(of, 3, 1).expect("read"), page(1, 3));
    let ram = host.namespaces[1];
    assert_eq!(status(host.tx_begin(ram).map(drop)).0, Status::INVALID_OPCODE);
    let last = of.blocks;
    let tid = host.tx_begin(of).expect("begun");
    assert_eq!(status(host.tx_write(of, tid, last, &page(1, 0))).0, Status::LBA_RANGE);
    assert_eq!(status(host.tx_trim(of, tid, last - 1, 2)).0, Status::LBA_RANGE);
    assert_eq!(status(host.remap(of, &[(0, last)])).0, Status::LBA_RANGE);
    assert_eq!(status(host.remap(of, &[(0, 1), (1, 2)])).0, Status::INVALID_FIELD);
    let many = Sqe::new(vendor::COMMIT_SET, of.nsid).word(10, 256);
    assert_eq!(
        host.line().ask(many, &[0; 2056], 0).expect("asked").cqe.status,
        Status::INVALID_FIELD
    );
    let few = Sqe::new(vendor::COMMIT_SET, of.nsid).word(10, 1);
    assert_eq!(host.line().ask(few, &[0; 8], 0).expect("asked").cqe.status, Status::DATA_LENGTH);
    let long = blocks(vendor::WRITE, of, 0, 2).words(14, tid.0);
    assert_eq!(
        host.line().ask(long, &[0; 4096], 0).expect("asked").cqe.status,
        Status::DATA_LENGTH
    );
}

/// Whether a host can use a transaction of another.
fn is_foreign_used(running: &Running) -> bool {
    let ((mut one, of), (mut two, _)) =
        (running.host(&Wish::default()), running.host(&Wish::default()));
    let tid = one.tx_begin(of).expect("begun");
    let used = two.tx_write(of, tid, 3, &page(1, 3)).is_ok();
    assert!(used || two.tx_commit(of, &[tid]).is_err());
    // To abort what is not one's own is no error, and does nothing.
    two.tx_abort(of, tid).expect("no error");
    one.tx_write(of, tid, 4, &page(1, 4)).expect("still open");
    used
}

/// Whether a page of a host that is gone is still another's.
fn is_kept(running: &Running) -> bool {
    let (mut one, of) = running.host(&Wish::default());
    let tid = one.tx_begin(of).expect("begun");
    one.tx_write(of, tid, 9, &page(1, 9)).expect("written");
    drop(one);
    running.until("it is gone", |running| running.count("hosts_now") == 0);
    let (mut two, _) = running.host(&Wish::default());
    two.write(of, 9, &page(2, 9), false).is_err()
}

#[test]
fn a_transaction_is_its_hosts_and_ends_with_it() {
    let running = run(&[DRIVE], Options::default());
    assert!(!is_foreign_used(&running));
    running.until("both are gone", |running| running.count("hosts_now") == 0);
    assert!(!is_kept(&running));
    let planted = |bug: Bug| run(&[DRIVE], Options { bug: bug.into(), ..Options::default() });
    assert!(is_foreign_used(&planted(Bug::Foreign)), "the alarm of foreign transactions");
    assert!(is_kept(&planted(Bug::KeepOpen)), "the alarm of transactions that stay");
}

/// What the power has ended is nobody's, though the drive gives its number again.
#[test]
fn a_number_that_is_given_again_after_a_cut_is_its_new_hosts_alone() {
    let running = run(&[DRIVE], Options::default());
    let ((mut one, of), (mut two, _)) =
        (running.host(&Wish::default()), running.host(&Wish::default()));
    let old = one.tx_begin(of).expect("begun");
    one.tx_write(of, old, 3, &page(1, 3)).expect("written");
    let power = &running.stacks[0].power;
    power.cut(When::Now).expect("the power goes");
    power.on().expect("it comes up");
    let new = two.tx_begin(of).expect("begun");
    assert_eq!(new, old, "else this shows nothing");
    two.tx_write(of, new, 4, &page(2, 4)).expect("written");
    assert!(one.tx_write(of, old, 5, &page(1, 5)).is_err());
    assert!(one.tx_commit(of, &[old]).is_err());
    one.tx_abort(of, old).expect("no error");
    drop(one);
    running.until("it is gone", |running| running.count("hosts_now") == 1);
    two.tx_commit(of, &[new]).expect("committed");
}

const PAGES: u64 = 48;

/// What must be there, and what may be.
struct Ledger {
    /// The version of each page.
    held: Vec<u64>,
    /// Pages that a commit was to change together when it failed, and to which version.
    doubt: Vec<(u64, u64)>,
    next: u64,
    commits: u64,
}

impl Ledger {
    /// One round: transactions, alone and in pairs, until the power goes.
    fn work(
        &mut self,
        host: &mut Initiator,
        of: Told,
        rng: &mut Rng,
    ) -> Result<(), InitiatorError> {
        loop {
            let together = rng.between(1, 3);
            let (mut tids, mut changes) = (Vec::new(), Vec::new());
            let mut free: Vec<u64> = (0..PAGES).collect();
            for _ in 0..together {
                let tid = host.tx_begin(of)?;
                tids.push(tid);
                for _ in 0..rng.between(1, 4) {
                    let place = free.swap_remove(rng.below(free.len() as u64) as usize);
                    self.next += 1;
                    if rng.below(8) == 0 {
                        host.tx_trim(of, tid, place, 1)?;
                        changes.push((place, 0));
                    } else {
                        host.tx_write(of, tid, place, &page(self.next, place))?;
                        changes.push((place, self.next));
                    }
                }
            }
            if rng.below(5) == 0 {
                for tid in tids {
                    host.tx_abort(of, tid)?;
                }
                continue;
            }
            if rng.below(6) == 0 {
                // A page by itself, in between: durable when it is answered.
                let place = free.swap_remove(rng.below(free.len() as u64) as usize);
                self.next += 1;
                self.doubt = vec![(place, self.next)];
                host.write(of, place, &page(self.next, place), true)?;
                self.settle();
            }
            self.doubt = changes;
            host.tx_commit(of, &tids)?;
            self.settle();
            self.commits += 1;
        }
    }

    fn settle(&mut self) {
        for (place, version) in self.doubt.drain(..) {
            self.held[place as usize] = version;
        }
    }

    /// After the power is on again: what is there is what must be, and of what may be all or nothing.
    fn judge(&mut self, host: &mut Initiator, of: Told) -> Result<(), String> {
        let bytes = host.read(of, 0, PAGES).map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        for (place, bytes) in (0..).zip(bytes.chunks(4096)) {
            found.push(version(bytes, place).ok_or(format!("page {place} is torn"))?);
        }
        let doubt = std::mem::take(&mut self.doubt);
        let new = |(place, version): &(u64, u64)| found[*place as usize] == *version;
        // What was zero and was to be zeroed is both.
        let tells = |(place, version): &&(u64, u64)| self.held[*place as usize] != *version;
        let telling: Vec<&(u64, u64)> = doubt.iter().filter(tells).collect();
        let there = telling.iter().filter(|change| new(change)).count();
        if there != 0 && there != telling.len() {
            return Err(format!("{there} of {} pages of a commit", telling.len()));
        }
        if there > 0 {
            doubt.iter().for_each(|(place, version)| self.held[*place as usize] = *version);
        }
        match found == self.held {
            true => Ok(()),
            false => Err(format!("found {found:?}, expected {:?}", self.held)),
        }
    }
}

/// Cuts the power again and again under a load; how many commits were answered, and what was found wrong.
fn cuts(count: u64, seed: u64, options: Options) -> (u64, Option<String>) {
    let running = run(&[DRIVE], options);
    let (mut host, of) = running.host(&Wish::default());
    let mut rng = Rng::stream(seed, "nvme/cuts");
    let mut ledger =
        Ledger { held: vec![0; PAGES as usize], doubt: Vec::new(), next: 0, commits: 0 };
    let power = &running.stacks[0].power;
    for cut in 0..count {
        let at = power.state().operations + rng.between(1, 40);
        power.cut(When::Operation(at)).expect("a cut is planned");
        let ended = ledger.work(&mut host, of, &mut rng);
        match ended {
            Err(InitiatorError::Failed { status: Status::INTERNAL, .. }) => {}
            other => return (ledger.commits, Some(format!("cut {cut}: {other:?}"))),
        }
        // A drive that was about to say so may be off only now.
        running.until("the power is off", |running| !running.stacks[0].power.state().on);
        power.on().expect("it comes up");
        if let Err(why) = ledger.judge(&mut host, of) {
            return (ledger.commits, Some(format!("cut {cut} of seed {seed}: {why}")));
        }
    }
    (ledger.commits, None)
}

/// More of them: `VARVE_WIRE_CUTS=10000`.
fn wanted() -> u64 {
    std::env::var("VARVE_WIRE_CUTS").map_or(300, |text| text.parse().expect("a number"))
}

#[test]
fn after_a_cut_at_any_operation_transactions_are_there_whole_or_not_at_all() {
    let count = wanted();
    let (commits, wrong) = cuts(count, 1, Options::default());
    println!("{count} cuts, {commits} commits answered");
    assert_eq!(wrong, None);
    assert!(commits > count, "{commits}: the load gets somewhere");
}

#[test]
fn planted_bugs_of_transactions_are_found() {
    for bug in [Bug::CommitOneByOne, Bug::WriteOutside, Bug::NotForced] {
        let found = (1..20)
            .find_map(|seed| cuts(100, seed, Options { bug: bug.into(), ..Options::default() }).1);
        println!("{bug:?}: {found:?}");
        assert!(found.is_some(), "{bug:?}");
    }
}

/// As a driver does that has lost track: nothing of before is the host's, or in anybody's way.
#[test]
fn a_controller_that_was_reset_has_nothing_of_before() {
    let running = run(&[DRIVE], Options::default());
    let wish = Wish::default();
    let (mut one, of) = running.host(&wish);
    one.claim(of, true).expect("claimed");
    let tid = one.tx_begin(of).expect("begun");
    one.tx_write(of, tid, 3, &page(1, 3)).expect("written");
    // An event that is waited for takes no part in what follows.
    one.admin.send(Sqe::new(admin::ASYNC_EVENT, 0), &[], 0).expect("sent");
    configure(&mut one.admin, 0x0046_0000).expect("reset");
    let gone = one.read(of, 3, 1);
    assert!(matches!(gone, Err(InitiatorError::Io(_))), "its queue has ended: {gone:?}");
    let (mut two, _) = running.host(&wish);
    two.write(of, 3, &page(2, 3), true).expect("nobody has the page, or the namespace");
    // The host begins anew on the queue that it has, with the same numbers.
    configure(&mut one.admin, 0x0046_0001).expect("enabled");
    let cntlid = u16::from_le_bytes([one.controller[78], one.controller[79]]);
    let mut line = Line::open(&running.address(), wish.digests).expect("a socket");
    let (sqe, data) = connect_command(NQN, &wish, 1, wish.depth - 1, cntlid);
    line.done(sqe, &data, 0).expect("the same queue again");
    line.capsule = 4096;
    one.queues = vec![line];
    assert_eq!(one.read(of, 3, 1).expect("read"), page(2, 3));
    assert_eq!(status(one.tx_commit(of, &[tid])).0, Status::TX_UNKNOWN);
    two.claim(of, true).expect("nobody's");
}
