//! The log of commits of an image, under power cuts: what was appended is there, whatever else was written.

mod common;

use std::sync::Arc;

use block::{
    BlockDevice, Bytes, Data, Lba, Lpn, Medium, Request, Rng, Sectors, Time, Transactional,
};
use common::Memory;
use varve_live::{CutMedium, ImageDrive, Planted};

const CAPACITY: Bytes = Bytes(3 << 20);
const LOG: Bytes = Bytes(16 * 4096);
const PAGE: usize = 4096;

/// Appends and commits until the power goes, in several lives; the error says which append is missing.
fn trial(seed: u64, planted: Option<Planted>) -> Result<u64, String> {
    let mut rng = Rng::stream(seed, "live/log");
    let memory: Arc<dyn Medium> = Arc::new(Memory::default());
    drop(ImageDrive::create_on_with_log(Arc::clone(&memory), CAPACITY, LOG).expect("an image"));
    // What each 4096 bytes of the log hold, and what they may hold because an append was under way.
    let mut known = vec![0u8; LOG.0 as usize / PAGE];
    let mut doubt: Option<(usize, u8)> = None;
    let (mut fill, mut cuts) = (0u8, 0);
    for _ in 0..8 {
        let medium = Arc::new(CutMedium::new(Arc::clone(&memory), rng.next_u64()));
        let mut drive = ImageDrive::open_with(Arc::clone(&medium) as _, planted.into())
            .map_err(|e| e.to_string())?;
        assert_eq!(drive.version(), 3);
        drive.drive().check().map_err(|e| e.to_string())?;
        for (page, expected) in known.iter_mut().enumerate() {
            let mut found = [0; PAGE];
            let log = drive.commit_log().expect("a log");
            log.log_read(Time::ZERO, (page * PAGE) as u64, &mut found)
                .map_err(|e| e.to_string())?;
            let torn = doubt.filter(|(at, _)| *at == page).map(|(_, fill)| fill);
            for byte in found {
                if byte != *expected && Some(byte) != torn {
                    return Err(format!("page {page} of the log: {byte}, {expected} was appended"));
                }
            }
            // Sectors are old or new: whoever reads it has its own checksums.
            *expected = found[0];
            if found.iter().any(|byte| *byte != found[0]) {
                let log = drive.commit_log().expect("a log");
                let done = log.log_append(Time::ZERO, (page * PAGE) as u64, &[*expected; PAGE]);
                done.map_err(|e| e.to_string())?;
            }
        }
        doubt = None;
        medium.cut_after(1 + rng.below(60));
        cuts += 1;
        loop {
            if rng.below(3) > 0 {
                let page = rng.below(known.len() as u64) as usize;
                fill = fill % 250 + 1;
                let log = drive.commit_log().expect("a log");
                match log.log_append(Time::ZERO, (page * PAGE) as u64, &[fill; PAGE]) {
                    Ok(_) => known[page] = fill,
                    Err(_) => {
                        doubt = Some((page, fill));
                        break;
                    }
                }
            } else {
                let Ok(tid) = drive.tx_begin() else { break };
                let page = Lpn(rng.below(200) as u32);
                let wrote = drive.tx_write(Time::ZERO, tid, page, Data::Write(&[fill; PAGE]));
                if wrote.and_then(|_| drive.tx_commit(Time::ZERO, &[tid])).is_err() {
                    break;
                }
            }
        }
    }
    Ok(cuts)
}

#[test]
fn what_was_appended_is_there_after_any_power_cut() {
    let cuts: u64 =
        (0..60).map(|seed| trial(seed, None).unwrap_or_else(|e| panic!("seed {seed}: {e}"))).sum();
    println!("{cuts} cuts");
}

#[test]
fn the_alarm_works() {
    let found = (0..20).filter(|seed| trial(*seed, Some(Planted::LogNotSynced)).is_err()).count();
    assert!(found > 3, "{found}");
}

#[test]
fn a_log_ends_where_the_drive_begins_and_not_every_image_has_one() {
    let memory: Arc<dyn Medium> = Arc::new(Memory::default());
    let mut drive = ImageDrive::create_on_with_log(Arc::clone(&memory), CAPACITY, LOG).unwrap();
    let page = Request::write(Lba(0), Sectors(8)).with(Data::Write(&[7; PAGE]));
    drive.submit(Time::ZERO, page).unwrap();
    let log = drive.commit_log().unwrap();
    assert_eq!((log.log_bytes(), log.log_start()), (LOG.0, 2 * PAGE as u64));
    log.log_append(Time::ZERO, LOG.0 - PAGE as u64, &[9; PAGE]).unwrap();
    for offset in [LOG.0 - 512, LOG.0, u64::MAX] {
        assert!(log.log_append(Time::ZERO, offset, &[9; PAGE]).is_err());
        assert!(log.log_read(Time::ZERO, offset, &mut [0; PAGE]).is_err());
    }
    drive.close().unwrap();
    let mut drive = ImageDrive::open_on(memory).unwrap();
    let mut found = [0; PAGE];
    drive
        .submit(Time::ZERO, Request::read(Lba(0), Sectors(8)).with(Data::Read(&mut found)))
        .unwrap();
    assert_eq!(found, [7; PAGE]);
    let memory: Arc<dyn Medium> = Arc::new(Memory::default());
    let mut plain = ImageDrive::create_on(memory, CAPACITY).unwrap();
    assert!(plain.version() == 2 && plain.commit_log().is_none());
}
