//! Transactions of the drive: what they promise with the power on, and after a power cycle.

use block::{
    BlockDevice, Data, DeviceError, Lba, Lpn, Remap, Request, Sectors, Time, Transactional,
    TxError, TxId,
};
use nand::{Fault, FaultPlan};
use varve_ssd::{Config, Drive, Origin, Params};

fn params(keys: &[(&str, &str)]) -> Params {
    let mut config = Config::default();
    let defaults = [
        ("nand.oob", "full"),
        ("geometry.channels", "2"),
        ("geometry.dies", "1"),
        ("geometry.blocks", "24"),
        ("geometry.pages", "8"),
        ("op", "100 %"),
        ("line", "plane"),
        ("buffer.size", "32 KiB"),
        ("tx.mode", "nolog"),
    ];
    for (key, text) in defaults.iter().chain(keys) {
        let origin = Origin { from: "test".to_string(), source: None, tag: None };
        config.set(key, text, origin).expect("a key");
    }
    config.resolve().expect("a drive")
}

struct Host {
    drive: Drive,
    at: Time,
}

impl Host {
    fn new(keys: &[(&str, &str)]) -> Host {
        Host { drive: Drive::new(&params(keys)).expect("a drive"), at: Time::ZERO }
    }
    fn plain(&mut self, page: u32, stamp: u64) -> Result<(), DeviceError> {
        let request = Request::write(Lba(u64::from(page) * 8), Sectors(8));
        self.at = self.drive.submit(self.at, request.with(Data::WriteStamps(&[stamp])))?;
        Ok(())
    }
    fn write(&mut self, tid: TxId, page: u32, stamp: u64) -> Result<(), TxError> {
        let data = Data::WriteStamps(std::slice::from_ref(&stamp));
        self.at = self.drive.tx_write(self.at, tid, Lpn(page), data)?;
        Ok(())
    }
    fn read(&mut self, page: u32) -> u64 {
        let mut stamp = [u64::MAX];
        let request = Request::read(Lba(u64::from(page) * 8), Sectors(8));
        self.at =
            self.drive.submit(self.at, request.with(Data::ReadStamps(&mut stamp))).expect("read");
        stamp[0]
    }
    fn own(&mut self, tid: TxId, page: u32) -> u64 {
        let mut stamp = [u64::MAX];
        let data = Data::ReadStamps(&mut stamp);
        self.at = self.drive.tx_read(self.at, tid, Lpn(page), data).expect("read");
        stamp[0]
    }
    fn begin(&mut self) -> TxId {
        self.drive.tx_begin().expect("room")
    }
    fn commit(&mut self, tids: &[TxId]) {
        self.at = self.drive.tx_commit(self.at, tids).expect("commit");
        self.drive.check().expect("invariants");
    }
    fn cycle(self) -> Host {
        let params = self.drive.params().clone();
        let (image, _) = self.drive.power_cut();
        let drive = Drive::mount(&params, image).expect("power-on");
        drive.check().expect("invariants");
        Host { at: drive.now(), drive }
    }
}

#[test]
fn a_transaction_is_seen_by_itself_until_it_commits() {
    for commit in ["barrier", "counted"] {
        let mut host = Host::new(&[("tx.commit", commit)]);
        for page in 0..6 {
            host.plain(page, 100 + u64::from(page)).unwrap();
        }
        let tid = host.begin();
        for page in [1, 3, 5, 3, 1] {
            host.write(tid, page, 200 + u64::from(page)).unwrap();
        }
        host.at = host.drive.tx_trim(host.at, tid, Lpn(4), 1).unwrap();
        assert_eq!((host.own(tid, 3), host.own(tid, 4), host.own(tid, 2)), (203, 0, 102));
        assert_eq!((host.read(3), host.read(4)), (103, 104));
        assert_eq!(host.plain(5, 1), Err(DeviceError::InTransaction(Lba(40))));
        let other = host.begin();
        let stolen = host.write(other, 5, 1);
        assert_eq!(stolen, Err(TxError::Conflict { page: Lpn(5), owner: tid }));
        host.commit(&[tid]);
        let all: Vec<u64> = (0..6).map(|page| host.read(page)).collect();
        assert_eq!(all, [100, 201, 102, 203, 0, 205]);
        assert_eq!(host.drive.tx_commit(host.at, &[tid]), Err(TxError::Unknown(tid)));
        // What the buffer held when the power went is gone; the commit is not.
        let mut host = host.cycle();
        assert_eq!((host.read(1), host.read(3), host.read(4), host.read(5)), (201, 203, 0, 205));
    }
}

#[test]
fn several_commit_together_and_an_abort_brings_the_old_pages_back() {
    let mut host = Host::new(&[]);
    for page in 0..4 {
        host.plain(page, 10 + u64::from(page)).unwrap();
    }
    host.at = host.drive.submit(host.at, Request::flush()).unwrap();
    let (a, b, c) = (host.begin(), host.begin(), host.begin());
    host.write(a, 0, 20).unwrap();
    host.write(b, 1, 21).unwrap();
    host.write(b, 2, 22).unwrap();
    host.write(c, 3, 23).unwrap();
    host.write(c, 5, 25).unwrap();
    host.commit(&[a, b]);
    host.at = host.drive.tx_abort(host.at, c).unwrap();
    host.at = host.drive.tx_abort(host.at, c).unwrap();
    for _ in 0..2 {
        let seen: Vec<u64> = (0..6).map(|page| host.read(page)).collect();
        assert_eq!(seen, [20, 21, 22, 13, 0, 0]);
        host = host.cycle();
    }
    assert_eq!(host.write(c, 3, 1), Err(TxError::Unknown(c)));
}

#[test]
fn bytes_and_no_payload_pass_as_well() {
    let mut host = Host::new(&[("buffer.policy", "none"), ("buffer.size", "0")]);
    let tid = host.begin();
    let bytes: Vec<u8> = (0..4096u32).map(|i| (i % 251) as u8).collect();
    host.at = host.drive.tx_write(host.at, tid, Lpn(7), Data::Write(&bytes)).unwrap();
    host.at = host.drive.tx_write_last(host.at, tid, Lpn(8), Data::None).unwrap();
    let mut back = vec![0; 4096];
    host.drive.tx_read(host.at, tid, Lpn(7), Data::Read(&mut back)).unwrap();
    assert_eq!(back, bytes);
    host.commit(&[tid]);
    let mut host = host.cycle();
    back.fill(0);
    let request = Request::read(Lba(56), Sectors(8)).with(Data::Read(&mut back));
    host.drive.submit(host.at, request).unwrap();
    assert_eq!(back, bytes);
}

#[test]
fn limits_are_typed_errors() {
    let keys = [("tx.pages", "6"), ("tx.max_open", "3"), ("tx.span", "8"), ("tx.losers", "4")];
    let mut host = Host::new(&keys);
    assert_eq!(host.drive.tx_limits().pages, 6);
    let a = host.begin();
    for page in 0..6 {
        host.write(a, page, 1).unwrap();
    }
    assert_eq!(host.write(a, 6, 1), Err(TxError::Full(6)));
    host.write(a, 5, 2).unwrap();
    for _ in 0..7 {
        let tid = host.begin();
        host.at = host.drive.tx_abort(host.at, tid).unwrap();
    }
    assert_eq!(host.drive.tx_begin(), Err(TxError::Span { oldest: a, span: 8 }));
    host.commit(&[a]);
    let open = [host.begin(), host.begin(), host.begin()];
    assert_eq!(host.drive.tx_begin(), Err(TxError::TooManyOpen(3)));
    host.commit(&open);
    // A number from the future begins there.
    host.write(TxId(1000), 9, 9).unwrap();
    let next = host.begin();
    assert_eq!(next, TxId(1001));
    host.commit(&[TxId(1000), next]);
    // Each abort leaves pages behind; they are erased before there are too many.
    for round in 0..40 {
        let tid = host.begin();
        host.write(tid, 10, round).unwrap();
        host.write(tid, 11, round).unwrap();
        host.at = host.drive.tx_abort(host.at, tid).unwrap();
        host.drive.check().expect("invariants");
    }
}

#[test]
fn a_drive_without_transactions_says_so() {
    let mut config = Config::default();
    let origin = Origin { from: "test".to_string(), source: None, tag: None };
    config.set("geometry.blocks", "64", origin.clone()).unwrap();
    let mut drive = Drive::new(&config.resolve().unwrap()).unwrap();
    assert!(matches!(drive.tx_begin(), Err(TxError::Device(DeviceError::Unsupported(_)))));
    assert_eq!(drive.tx_limits().pages, 0);
    config.set("tx.mode", "nolog", origin.clone()).unwrap();
    assert!(config.resolve().unwrap_err().to_string().contains("nand.oob"));
    config.set("nand.oob", "full", origin.clone()).unwrap();
    config.set("ckpt.mode", "interval", origin).unwrap();
    assert!(config.resolve().unwrap_err().to_string().contains("ckpt.mode"));
}

#[test]
fn losers_in_open_lines_are_erased_too() {
    let keys = [
        ("geometry.channels", "1"),
        ("geometry.blocks", "15"),
        ("geometry.pages", "7"),
        ("op", "200 %"),
        ("tx.losers", "4"),
        ("tx.max_open", "4"),
    ];
    let mut host = Host::new(&keys);
    let tids = [host.begin(), host.begin()];
    host.write(tids[0], 0, 1).unwrap();
    host.write(tids[0], 1, 1).unwrap();
    host.write(tids[1], 13, 1).unwrap();
    host.write(tids[1], 14, 1).unwrap();
    host.at = host.drive.tx_abort(host.at, tids[1]).unwrap();
    for page in [10, 29, 21] {
        let tid = host.begin();
        host.write(tid, page, 1).unwrap();
    }
    host.at = host.drive.tx_abort(host.at, tids[0]).unwrap();
    let tid = host.begin();
    host.write(tid, 11, 1).unwrap();
    host.drive.check().expect("invariants");
}

/// Without aborts and cuts the paper's rules and ours program the same host pages, less those that
/// are written again while they are held.
#[test]
fn the_literal_rules_program_the_same_host_pages() {
    let mut programs = Vec::new();
    for keys in [[("tx.mode", "paper")], [("tx.lock", "hard")]] {
        let mut host = Host::new(&keys);
        let mut rng = block::Rng::new(7);
        for round in 0..200u64 {
            let tid = host.begin();
            for _ in 0..1 + rng.below(4) {
                host.write(tid, rng.below(60) as u32, round + 1).unwrap();
            }
            host.commit(&[tid]);
        }
        host.at = host.drive.submit(host.at, Request::flush()).unwrap();
        let held = host.drive.tx_stats().unwrap().held_replaced;
        programs.push(host.drive.stats().nand.programs[0] + held);
        let seen: Vec<u64> = (0..60).map(|page| host.read(page)).collect();
        programs.extend(seen);
    }
    let (paper, ours) = programs.split_at(programs.len() / 2);
    assert_eq!(paper, ours);
}

/// A commit of nothing is answered, ends the transaction, and leaves what was there.
#[test]
fn a_transaction_without_pages_commits() {
    for commit in ["barrier", "counted"] {
        let mut host = Host::new(&[("tx.commit", commit)]);
        host.plain(3, 7).unwrap();
        let (empty, full) = (host.begin(), host.begin());
        host.write(full, 3, 8).unwrap();
        host.commit(&[empty]);
        assert_eq!(host.read(3), 7);
        assert!(host.drive.tx_commit(host.at, &[empty]).is_err(), "it has ended");
        let empty = host.begin();
        host.commit(&[empty, full]);
        let mut host = host.cycle();
        assert_eq!(host.read(3), 8);
    }
}

/// What a transaction wrote is read where it lies: from its page, which takes a read of the flash, or
/// from the open page of a word line that is not programmed yet, which takes none.
#[test]
fn a_transaction_reads_its_own_pages_from_flash() {
    let mut host = Host::new(&[]);
    let tid = host.begin();
    for page in 0..12 {
        host.write(tid, page, u64::from(page) + 100).unwrap();
    }
    let before = (host.drive.stats().nand.reads[0], host.at);
    for page in 0..12 {
        assert_eq!(host.own(tid, page), u64::from(page) + 100);
    }
    let reads = host.drive.stats().nand.reads[0] - before.0;
    assert!((1..=12).contains(&reads), "{reads} reads of the flash");
    assert!(host.at > before.1, "a read of the flash takes time");
}

/// A block whose erase failed keeps its pages, and a spare has its place: whoever wrote them is known after a power cut, as
/// long as they are there.
#[test]
fn pages_in_a_block_that_no_line_has_any_more_tell_who_has_not_committed() {
    let keys = [("bad.reserve", "12 %"), ("op", "150 %"), ("tx.losers", "8"), ("tx.max_open", "4")];
    let params = params(&keys);
    let mut retired = 0;
    for at in (100..400).step_by(10) {
        let faults = FaultPlan { faults: vec![Fault::EraseFail { at }] };
        let drive = Drive::with_faults(&params, &faults).expect("a drive");
        let mut host = Host { drive, at: Time::ZERO };
        let (mut rng, mut expected) = (block::Rng::new(at), [0; 60]);
        for round in 1..200 {
            let tid = host.begin();
            let pages: Vec<u32> = (0..1 + rng.below(3)).map(|_| rng.below(60) as u32).collect();
            for page in &pages {
                host.write(tid, *page, round).unwrap();
            }
            match rng.ratio(1, 4) {
                true => host.at = host.drive.tx_abort(host.at, tid).unwrap(),
                false => {
                    host.commit(&[tid]);
                    pages.iter().for_each(|page| expected[*page as usize] = round);
                }
            }
        }
        retired += host.drive.stats().bad_blocks;
        // (Each checks the drive.)
        let mut host = host.cycle().cycle();
        for (page, expected) in (0..).zip(expected) {
            assert_eq!(host.read(page), expected, "erase {at}, page {page}");
        }
    }
    assert!(retired >= 20, "{retired} blocks failed");
}

#[test]
fn a_remap_of_several_records_is_a_transaction_that_commits() {
    let mut host = Host::new(&[("tx.pairs", "3")]);
    for page in 0..20 {
        host.plain(page, 100 + u64::from(page)).expect("a write");
    }
    for round in 0..5 {
        let (to, from) = if round % 2 == 0 { (0, 10) } else { (10, 0) };
        let pairs: Vec<_> = (0..10).map(|page| (Lpn(to + page), Lpn(from + page))).collect();
        host.at = host.drive.remap(host.at, &pairs).expect("a remap");
    }
    let stats = host.drive.tx_stats().expect("transactions");
    assert_eq!((stats.begun, stats.committed), (5, 5));
    assert_eq!(host.read(3), 113);
}
