//! Planted bugs: what the crash test sees, so that its silence means something.

mod common;

use block::{BlockDevice, Data, Request, Time};
use common::{CutDevice, Cuts, lba, sectors, small};
use remap::{HostLog, Planted};

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
        ];
        if elsewhere.contains(&bug) {
            continue;
        }
        // A move meets a younger victim only if victims are not the oldest.
        let random: &[(&str, &str)] =
            &[("gc.policy", "random"), ("segment", "256 KiB"), ("gc.start", "50")];
        // A move that replay must skip lies beside an older record that stays open: cleaning has to go
        // on all the time.
        let always: &[(&str, &str)] = &[("segment", "256 KiB"), ("gc.start", "50")];
        let pairs = match bug {
            Planted::MoveInOlderRecord => random,
            Planted::UnconditionalRelocation => always,
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

/// Damages one block of an image that was flushed six times, and opens it.
fn open_damaged(bug: Option<Planted>, block: impl Fn(&HostLog<CutDevice>) -> u32) -> Option<bool> {
    let options = small(&[]);
    let mut log = HostLog::format(CutDevice::new(1000), &options).unwrap();
    for i in 0..6 {
        let ones = vec![i as u8 + 1; 4096];
        let write = Request::write(lba(i), sectors(1)).with(Data::Write(&ones));
        log.submit(Time::ZERO, write).unwrap();
        log.submit(Time::ZERO, Request::flush()).unwrap();
    }
    let block = block(&log);
    let mut device = log.into_device().power_cycle(0);
    device.damage(block);
    let log = HostLog::open_with(device, Time::ZERO, &options, bug).ok()?;
    Some(log.read_only().is_some())
}

#[test]
fn a_header_that_is_damaged_is_not_believed() {
    let header = |log: &HostLog<CutDevice>| log.engine().geometry().first + 2;
    assert_eq!(open_damaged(None, header), Some(true));
    assert_eq!(open_damaged(Some(Planted::HeaderCrcIgnored), header), Some(false));
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
    assert!(HostLog::open_with(image(), Time::ZERO, &options, bug).is_ok());
}
