//! Planted bugs: what the crash test sees, so that its silence means something.

mod common;

use block::{BlockDevice, Data, Request, Time};
use common::{CutDevice, Cuts, lba, sectors, small};
use varve_remap::{HostLog, LogError, Planted};

#[test]
fn cuts_and_comparisons_show_them() {
    let silent = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for bug in Planted::ALL {
        // Two writers at once are the live driver's; damage to a root or a header is below. An
        // old record comes back only if a gc record of the same number is lost, a new one is
        // durable and the head has not reached the place: cuts at random do not meet it.
        let elsewhere = [
            Planted::RmwWithoutLock,
            Planted::OlderRootTaken,
            Planted::HeaderCrcIgnored,
            Planted::OldEpochAccepted,
            Planted::NoMark,
            Planted::NoLookAhead,
            Planted::LostRootPassedOver,
        ];
        if elsewhere.contains(&bug) {
            continue;
        }
        // A move meets a younger victim only if victims are not the oldest.
        let random: &[(&str, &str)] =
            &[("gc.victim", "random"), ("segment", "256 KiB"), ("gc.start", "50")];
        // A move that replay must skip lies beside an older record that stays open: cleaning has to go
        // on all the time.
        let always: &[(&str, &str)] = &[("segment", "256 KiB"), ("gc.start", "50")];
        let pairs = match bug {
            Planted::MoveInOlderRecord => random,
            Planted::UnconditionalRelocation => always,
            Planted::MarkTooEarly | Planted::FreedBeforeMark => {
                &[("ack", "buffer"), ("buffer", "64 KiB"), ("gc.start", "50")]
            }
            Planted::OpenRecordsCross => &[("placement", "sepbit"), ("reserve", "75")],
            _ => &[],
        };
        let seen = (0..400).any(|seed| {
            let run = move || {
                let steps = [60, 400, 3000][seed as usize % 3];
                let mut cuts = Cuts::new(seed, pairs, Some(bug));
                for round in 0..8 {
                    cuts.round(round % 3, steps);
                }
            };
            std::panic::catch_unwind(run).is_err()
        });
        if !seen {
            missed.push(bug);
        }
    }
    std::panic::set_hook(silent);
    assert_eq!(missed, []);
}

/// A log that was flushed six times; `idle`: and left alone for a while then.
fn flushed(bug: Option<Planted>, idle: bool) -> HostLog<CutDevice> {
    let options = small(&[]);
    let mut log = HostLog::format_with(CutDevice::new(1000), &options, bug.into()).unwrap();
    for i in 0..6 {
        let ones = vec![i as u8 + 1; 4096];
        let write = Request::write(lba(i), sectors(1)).with(Data::Write(&ones));
        log.submit(Time::ZERO, write).unwrap();
        log.submit(Time::ZERO, Request::flush()).unwrap();
    }
    if idle {
        // What says that it was flushed goes out with the first request after the pause, and is only
        // sure to be on the medium when that is.
        log.submit(Time::from_ns(2_000_000_000), Request::flush()).unwrap();
    }
    log
}

/// Damages blocks of a log and opens it: whether that is read-only, if it opens.
fn opened(log: HostLog<CutDevice>, bug: Option<Planted>, blocks: &[u32]) -> Option<bool> {
    let mut device = log.into_device().power_cycle(0);
    blocks.iter().for_each(|block| device.damage(*block));
    let log = HostLog::open_with(device, Time::ZERO, &small(&[]), bug.into()).ok()?;
    Some(log.read_only().is_some())
}

/// Damages one block of an image that was flushed six times, and opens it.
fn open_damaged(bug: Option<Planted>, block: impl Fn(&HostLog<CutDevice>) -> u32) -> Option<bool> {
    let log = flushed(bug, false);
    let block = block(&log);
    opened(log, bug, &[block])
}

#[test]
fn a_header_that_is_damaged_is_not_believed() {
    let header = |log: &HostLog<CutDevice>| log.engine().geometry().first + 2;
    assert_eq!(open_damaged(None, header), Some(true));
    assert_eq!(open_damaged(Some(Planted::HeaderCrcIgnored), header), Some(false));
    assert_eq!(open_damaged(Some(Planted::NoLookAhead), header), Some(false));
}

/// Damage to the newest flushed header is found when the log was left alone for a while after the flush:
/// an empty record says then that the flush was answered. Before that it looks like a write that was
/// never finished: the limit that the contract names.
#[test]
fn the_newest_flushed_header_is_missed_once_something_says_that_it_was_flushed() {
    let newest = |log: &HostLog<CutDevice>| log.engine().geometry().first + 10;
    let damaged = |bug, idle| {
        let log = flushed(bug, idle);
        let block = newest(&log);
        opened(log, bug, &[block])
    };
    assert_eq!(damaged(None, true), Some(true));
    assert_eq!(damaged(Some(Planted::NoMark), true), Some(false));
    // The limit.
    assert_eq!(damaged(None, false), Some(false));
    // What says so may be damaged: nothing is lost with it.
    let log = flushed(None, true);
    let mark = log.engine().geometry().first + 12;
    assert_eq!(opened(log, None, &[mark]), Some(false));
    // An image that was not damaged opens.
    assert_eq!(opened(flushed(None, true), None, &[]), Some(false));
}

/// What was flushed together may be longer than the segments in which later headers are looked for.
#[test]
fn a_header_is_missed_though_what_says_so_is_far_behind_it() {
    let options = small(&[]);
    let mut log = HostLog::format(CutDevice::new(8000), &options).unwrap();
    let blocks = 5 * log.engine().geometry().segment;
    for i in 0..blocks {
        let bytes = vec![i as u8; 4096];
        let write = Request::write(lba(i), sectors(1)).with(Data::Write(&bytes));
        log.submit(Time::ZERO, write).unwrap();
    }
    log.submit(Time::ZERO, Request::flush()).unwrap();
    assert_eq!(log.counters().checkpoints, 1, "all of it lies behind one checkpoint");
    log.submit(Time::from_ns(2_000_000_000), Request::flush()).unwrap();
    let g = *log.engine().geometry();
    // User, gc and meta took two segments each, and then the user one after the other. Each of these
    // headers begins a segment that its record fills: only it names the one behind.
    for segment in [0, 1, 6, 7] {
        let mut log = log.device().clone().power_cycle(0);
        log.damage(g.first + segment * g.segment);
        let log = HostLog::open(log, Time::ZERO, &options).unwrap();
        assert!(log.read_only().is_some(), "segment {segment}");
    }
}

/// A root of which both headers are gone may have been the newest: the other is no way out.
#[test]
fn a_root_without_headers_is_damage() {
    for which in 0..2 {
        let lost = |bug| {
            let log = flushed(bug, false);
            let device = log.into_device().power_cycle(0);
            // Another opening: now both roots were written.
            let log = HostLog::open_with(device, Time::ZERO, &small(&[]), bug.into()).unwrap();
            let g = *log.engine().geometry();
            let at = g.root_at(which).0;
            opened(log, bug, &[at, at + g.root - 1])
        };
        assert_eq!(lost(None), None);
        assert!(lost(Some(Planted::LostRootPassedOver)).is_some());
    }
}

/// With verification a log that has lost a flushed record is refused, and one made without CRCs too.
#[test]
fn what_cannot_be_verified_is_not_opened_for_it() {
    let verified = small(&[("verify", "read")]);
    let open = |device: CutDevice| HostLog::open(device, Time::ZERO, &verified).err();
    let device = flushed(None, false).into_device().power_cycle(0);
    assert_eq!(open(device), Some(LogError::Unverified));
    let mut log = HostLog::format(CutDevice::new(1000), &verified).unwrap();
    for i in 0..3 {
        let bytes = vec![1; 4096];
        let write = Request::write(lba(i), sectors(1)).with(Data::Write(&bytes));
        log.submit(Time::ZERO, write).unwrap();
        log.submit(Time::ZERO, Request::flush()).unwrap();
    }
    let header = log.engine().geometry().first + 2;
    let mut device = log.into_device().power_cycle(0);
    device.damage(header);
    let refused = open(device.clone());
    assert!(
        matches!(&refused, Some(LogError::Corrupt(why)) if why.contains("record 2")),
        "{refused:?}"
    );
    // By name it is opened all the same, to read what is left.
    let log = HostLog::open(device, Time::ZERO, &small(&[])).unwrap();
    assert!(log.read_only().is_some());
}

#[test]
fn a_root_whose_body_is_damaged_is_no_reason_to_take_the_older_one() {
    // Root 1 is the only one and the newest: generation 1 was written when the log was made. A
    // second opening makes root 0, and root 1 the older.
    let options = small(&[]);
    let image = || {
        let log = HostLog::format(CutDevice::new(1000), &options).unwrap();
        let log = HostLog::open(log.into_device(), Time::ZERO, &options).unwrap();
        let body = log.engine().geometry().root_at(0).0 + 1;
        let mut device = log.into_device().power_cycle(0);
        device.damage(body);
        device
    };
    assert!(HostLog::open(image(), Time::ZERO, &options).is_err());
    let bug = Some(Planted::OlderRootTaken);
    assert!(HostLog::open_with(image(), Time::ZERO, &options, bug.into()).is_ok());
}
