//! A namespace behind the wire as a device: what `block` promises of one, each refusal as its type, and no word of a
//! commit whose answer was lost.

mod controller;

use block::{
    BlockDevice, Data, DeviceError, Lba, Lpn, Remap, Request, Sectors, Time, Transactional,
    TxError, TxId,
};
use controller::{DRIVE, NQN, Running, run};
use stack::power::When;
use varve_serve::nvme::Options;
use wire::nvme::{Drive, DriveError, Place};

const NOW: Time = Time::ZERO;

fn place(running: &Running) -> Place {
    format!("nvme-tcp://{}/{NQN}", running.at).parse().expect("a place")
}

fn page(fill: u8) -> Vec<u8> {
    vec![fill; 4096]
}

fn write(drive: &mut Drive, at: u64, fill: u8) -> Result<(), DeviceError> {
    let request = Request::write(Lba(at * 8), Sectors(8));
    drive.submit(NOW, request.with(Data::Write(&page(fill)))).map(drop)
}

fn read(drive: &mut Drive, at: u64) -> Vec<u8> {
    let mut out = page(0xee);
    let request = Request::read(Lba(at * 8), Sectors(8));
    drive.submit(NOW, request.with(Data::Read(&mut out))).expect("read");
    out
}

fn tx_write(drive: &mut Drive, tid: TxId, at: u32, fill: u8) -> Result<(), TxError> {
    drive.tx_write(NOW, tid, Lpn(at), Data::Write(&page(fill))).map(drop)
}

#[test]
fn every_request_does_what_it_says() {
    let running = run(&[DRIVE], Options::default());
    let mut drive = Drive::connect(&place(&running)).expect("connected");
    assert_eq!(drive.capacity(), Sectors((16 << 20) / 512));
    // What was read ahead is not what is there once something was written, by whatever way.
    assert_eq!((read(&mut drive, 0), read(&mut drive, 3)), (page(0), page(0)));
    write(&mut drive, 3, 1).expect("written");
    assert_eq!(read(&mut drive, 3), page(1));
    let tid = drive.tx_begin().expect("begun");
    tx_write(&mut drive, tid, 3, 2).expect("written");
    drive.tx_trim(NOW, tid, Lpn(4), 2).expect("trimmed");
    let mut own = page(0);
    drive.tx_read(NOW, tid, Lpn(3), Data::Read(&mut own)).expect("read");
    assert_eq!((own, read(&mut drive, 3)), (page(2), page(1)));
    drive.tx_commit(NOW, &[tid]).expect("committed");
    assert_eq!(read(&mut drive, 3), page(2));
    drive.remap(NOW, &[(Lpn(9), Lpn(3))]).expect("moved");
    assert_eq!((read(&mut drive, 9), read(&mut drive, 3)), (page(2), page(0)));
    drive.submit(NOW, Request::discard(Lba(72), Sectors(8))).expect("forgotten");
    assert_eq!(read(&mut drive, 9), page(0));
    let log = drive.log_on_pages(Lpn(100)).expect("a queue of its own");
    log.append(8192, &[page(5), page(6)].concat()).expect("appended");
    assert_eq!((read(&mut drive, 102), read(&mut drive, 103)), (page(5), page(6)));
    let part = Request::write(Lba(1), Sectors(1)).with(Data::Write(&[0; 512]));
    assert!(matches!(drive.submit(NOW, part), Err(DeviceError::Unsupported(_))));
    let end = drive.capacity().0;
    let beyond = drive.submit(NOW, Request::read(Lba(end), Sectors(8)));
    assert!(matches!(beyond, Err(DeviceError::OutOfRange { .. })));
    // A second one is told whose it is, and has it when the first one is dropped.
    let other = Drive::connect(&place(&running));
    assert!(matches!(other, Err(DriveError::InUse { .. })), "{other:?}");
    drop(drive);
    let mut next = Drive::connect(&place(&running)).expect("at once");
    assert_eq!(read(&mut next, 102), page(5));
}

#[test]
fn every_refusal_has_its_type() {
    let limits = "tx.mode=nolog, tx.max_open=4, tx.pages=32, tx.span=8, tx.losers=8";
    let running = run(&[&DRIVE.replace("tx.mode=nolog", limits)], Options::default());
    let mut drive = Drive::connect(&place(&running)).expect("connected");
    let told = drive.tx_limits();
    assert_eq!((told.max_open, told.pages, told.span), (4, 32, 8));
    let one = drive.tx_begin().expect("begun");
    for at in 0..32 {
        tx_write(&mut drive, one, at, 1).expect("written");
    }
    assert_eq!(tx_write(&mut drive, one, 40, 1), Err(TxError::Full(32)));
    let two = drive.tx_begin().expect("begun");
    let conflict = TxError::Conflict { page: Lpn(3), owner: one };
    assert_eq!(tx_write(&mut drive, two, 3, 2), Err(conflict.clone()));
    assert_eq!(drive.remap(NOW, &[(Lpn(3), Lpn(50))]), Err(conflict));
    assert_eq!(write(&mut drive, 3, 2), Err(DeviceError::InTransaction(Lba(24))));
    let gone = TxId(1 << 40);
    assert_eq!(tx_write(&mut drive, gone, 60, 1), Err(TxError::Unknown(gone)));
    assert_eq!(drive.tx_commit(NOW, &[gone]), Err(TxError::Unknown(gone)));
    for _ in 0..2 {
        drive.tx_begin().expect("begun");
    }
    assert_eq!(drive.tx_begin(), Err(TxError::TooManyOpen(4)));
    drive.tx_abort(NOW, two).expect("aborted");
    let span = loop {
        match drive.tx_begin() {
            Ok(next) => drive.tx_abort(NOW, next).expect("aborted"),
            Err(error) => break error,
        };
    };
    assert_eq!(span, TxError::Span { oldest: one, span: 8 });
    drive.tx_commit(NOW, &[one]).expect("as it was");
    assert_eq!(read(&mut drive, 3), page(1));
}

fn error(result: Result<Time, TxError>) -> String {
    match result {
        Err(TxError::Device(DeviceError::Io(why))) => why,
        other => panic!("{other:?}"),
    }
}

/// Nobody is told that a commit succeeded that was not answered, and nothing connects again by itself.
#[test]
fn a_commit_that_is_not_answered_is_an_error_and_all_that_follows() {
    let running = run(&[DRIVE], Options { vanish: true, ..Options::default() });
    let mut drive = Drive::connect(&place(&running)).expect("connected");
    let tid = drive.tx_begin().expect("begun");
    tx_write(&mut drive, tid, 3, 2).expect("written");
    let power = &running.stacks[0].power;
    power.cut(When::Now).expect("the power goes");
    let why = error(drive.tx_commit(NOW, &[tid]));
    assert!(why.contains("nobody knows what came of the commit"), "{why}");
    power.on().expect("it comes up");
    let why = error(drive.tx_commit(NOW, &[tid]));
    assert!(why.contains("lost before"), "{why}");
    let log = drive.log_on_pages(Lpn(100)).expect("a queue of its own");
    assert!(matches!(log.append(0, &page(1)), Err(DeviceError::Io(_))));
    assert!(matches!(write(&mut drive, 0, 1), Err(DeviceError::Io(_))));
    drop(drive);
    running.until("it serves again", |running| {
        Drive::connect(&place(running)).is_ok_and(|mut drive| read(&mut drive, 3) == page(0))
    });
    // Told of the power instead, it is an error of the same kind: nobody knows here either.
    let told = run(&[DRIVE], Options::default());
    let mut drive = Drive::connect(&place(&told)).expect("connected");
    let tid = drive.tx_begin().expect("begun");
    told.stacks[0].power.cut(When::Now).expect("the power goes");
    assert!(error(drive.tx_commit(NOW, &[tid])).contains("nobody knows"));
}
