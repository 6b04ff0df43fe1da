use super::*;
use crate::Lba;

const BLOCK: usize = 4096;

fn write(disk: &mut CutDevice, at: u64, block: u64, value: u8) -> Time {
    let data = [value; BLOCK];
    let request = Request::write(Lba(block * 8), Sectors(8)).with(Data::Write(&data));
    disk.submit(Time::from_us(at), request).unwrap()
}

fn flush(disk: &mut CutDevice, at: u64) -> Time {
    disk.submit(Time::from_us(at), Request::flush()).unwrap()
}

fn first(image: &DiskImage, block: u64) -> u8 {
    let mut out = [0; 512];
    image.read_at(Lba(block * 8), &mut out).unwrap();
    assert!(out.iter().all(|byte| *byte == out[0]), "a whole sector");
    out[0]
}

fn at(op: u64, inside: bool, torn: Fate, rest: Fate) -> DiskCut {
    DiskCut { op, inside, torn, rest }
}

#[test]
fn only_what_a_flush_covers_is_safe() {
    let mut disk = CutDevice::new(Sectors(800));
    write(&mut disk, 1, 3, 1);
    flush(&mut disk, 2);
    write(&mut disk, 3, 3, 2);
    write(&mut disk, 4, 4, 9);
    let (lost, _) = disk.image_at_cut(&at(3, true, Fate::New, Fate::Old)).unwrap();
    assert_eq!((first(&lost, 3), first(&lost, 4)), (1, 9));
    let (kept, instant) = disk.image_at_cut(&at(3, false, Fate::New, Fate::New)).unwrap();
    assert_eq!((first(&kept, 3), first(&kept, 4), instant), (2, 0, Time::from_us(4)));
    let (before, _) = disk.image_at_cut(&at(1, true, Fate::New, Fate::Old)).unwrap();
    assert_eq!(first(&before, 3), 0, "the flush itself was cut");
    assert_eq!(first(&disk.image(), 3), 2);
    assert_eq!(first(&disk.image_at_end(Fate::Old), 3), 1);
}

#[test]
fn a_strict_flush_covers_what_was_answered_before_it_was_submitted() {
    let slow = Span::from_us(10);
    let mut disk = CutDevice::new(Sectors(800)).with_latency(slow, slow).strict(true);
    let done = write(&mut disk, 1, 3, 1);
    flush(&mut disk, 2);
    write(&mut disk, 100, 7, 7);
    assert!(done > Time::from_us(2));
    let (image, _) = disk.image_at_cut(&at(2, false, Fate::Old, Fate::Old)).unwrap();
    assert_eq!(first(&image, 3), 0, "submitted before the write was answered");
    flush(&mut disk, 200);
    write(&mut disk, 205, 8, 8);
    let (image, _) = disk.image_at_cut(&at(4, false, Fate::Old, Fate::Old)).unwrap();
    assert_eq!(first(&image, 3), 0, "not answered yet");
    write(&mut disk, 300, 8, 8);
    let (image, _) = disk.image_at_cut(&at(5, false, Fate::Old, Fate::Old)).unwrap();
    assert_eq!((first(&image, 3), first(&image, 7), first(&image, 8)), (1, 7, 0));
}

#[test]
fn a_flush_covers_what_was_submitted_before_it() {
    let slow = Span::from_us(10);
    let mut disk = CutDevice::new(Sectors(800)).with_latency(slow, slow);
    let done = write(&mut disk, 1, 3, 1);
    let flushed = flush(&mut disk, 2);
    assert!(done > Time::from_us(2));
    for (at_us, there) in [(flushed.as_ns() / 1000 - 1, 0), (flushed.as_ns() / 1000, 1)] {
        let mut disk = disk.clone();
        write(&mut disk, at_us, 7, 7);
        let (image, _) = disk.image_at_cut(&at(2, false, Fate::Old, Fate::Old)).unwrap();
        assert_eq!(first(&image, 3), there, "at {at_us} us");
    }
}

#[test]
fn what_is_forgotten_changes_no_later_cut() {
    let build = |forget: bool| {
        let mut disk = CutDevice::new(Sectors(800));
        for n in 0..60_u64 {
            write(&mut disk, n * 10, n * 7 % 20, n as u8 + 1);
            if n % 6 == 5 {
                flush(&mut disk, n * 10 + 5);
            }
            if forget && n % 4 == 0 {
                disk.forget(Time::from_us(n * 10));
            }
        }
        disk
    };
    let (all, short) = (build(false), build(true));
    assert!(short.journal.len() < 20, "{}", short.journal.len());
    assert_eq!(all.event_hash(), short.event_hash());
    assert!(short.image_at_cut(&at(3, true, Fate::Old, Fate::Old)).is_none());
    for op in all.ops() - 3..all.ops() {
        for seed in 0..50 {
            let cut = at(op, true, Fate::Mixed(seed), Fate::Mixed(seed + 1));
            let (a, b) = (all.image_at_cut(&cut).unwrap().0, short.image_at_cut(&cut).unwrap().0);
            for sector in 0..160 {
                let (mut x, mut y) = ([0; 512], [0; 512]);
                let (rx, ry) = (a.read_at(Lba(sector), &mut x), b.read_at(Lba(sector), &mut y));
                assert_eq!((rx, x), (ry, y), "sector {sector} of cut {cut:?}");
            }
        }
    }
}

#[test]
fn every_end_of_a_sector_is_drawn() {
    let mut disk = CutDevice::new(Sectors(80));
    write(&mut disk, 1, 3, 1);
    flush(&mut disk, 2);
    write(&mut disk, 3, 3, 2);
    flush(&mut disk, 4);
    let mut seen = [0; 5];
    for seed in 0..2000 {
        let cut = at(3, true, Fate::Old, Fate::Mixed(seed));
        let (image, _) = disk.image_at_cut(&cut).unwrap();
        let again = disk.image_at_cut(&cut).unwrap().0;
        for sector in 24..32 {
            let (mut out, mut same) = ([0; 512], [0; 512]);
            let read = image.read_at(Lba(sector), &mut out);
            assert_eq!(read, again.read_at(Lba(sector), &mut same));
            assert_eq!(out, same);
            seen[match read {
                Err(_) => 0,
                Ok(()) if out == [1; 512] => 1,
                Ok(()) if out == [2; 512] => 2,
                Ok(()) if out.iter().all(|b| [1, 2].contains(b)) => 3,
                Ok(()) => 4,
            }] += 1;
        }
    }
    assert!(seen.iter().all(|n| *n > 20), "{seen:?}");
}

#[test]
fn blocks_are_old_or_new_as_a_whole() {
    let mut disk = CutDevice::new(Sectors(80));
    let data = [7; 4 * BLOCK];
    let request = Request::write(Lba(16), Sectors(32)).with(Data::Write(&data));
    disk.submit(Time::from_us(1), request).unwrap();
    let mut seen = [0; 5];
    for seed in 0..500 {
        let cut = at(0, true, Fate::Blocks(seed), Fate::Old);
        let (image, _) = disk.image_at_cut(&cut).unwrap();
        let mut all = [0; 4 * BLOCK];
        image.read_at(Lba(16), &mut all).unwrap();
        let whole = |block: &[u8]| block.iter().all(|byte| *byte == block[0]);
        assert!(all.chunks(BLOCK).all(whole));
        seen[all.chunks(BLOCK).filter(|block| block[0] == 7).count()] += 1;
    }
    assert!(seen.iter().all(|n| *n > 20), "{seen:?}");
}

#[test]
fn faults_do_what_their_names_say() {
    let faults = vec![
        DiskFault::Phantom { op: 1 },
        DiskFault::Misdirected { op: 2, by: 1 },
        DiskFault::Rot { op: 3, head: true },
        DiskFault::Op { op: 4, always: false },
        DiskFault::Read { read: 2 },
    ];
    let mut disk = CutDevice::new(Sectors(800)).with_faults(faults);
    for n in 0..4 {
        write(&mut disk, n, n, 10 + n as u8);
    }
    assert!(matches!(disk.submit(Time::from_us(9), Request::flush()), Err(DeviceError::Io(_))));
    let image = disk.image();
    assert_eq!((first(&image, 0), first(&image, 1), first(&image, 2)), (10, 0, 0));
    let mut out = [0; BLOCK];
    image.read_at(Lba(24), &mut out).unwrap();
    assert_eq!(out.iter().filter(|b| **b != 13).count(), 1, "one byte differs");
    let (mut page, now) = ([0; BLOCK], Time::from_us(10));
    let mut read = |disk: &mut CutDevice| {
        disk.submit(now, Request::read(Lba(0), Sectors(8)).with(Data::Read(&mut page)))
    };
    assert!(read(&mut disk).is_ok() && read(&mut disk).is_ok());
    assert!(matches!(read(&mut disk), Err(DeviceError::Io(_))));
    assert!(read(&mut disk).is_ok());
    assert!(matches!(
        disk.submit(Time::ZERO, Request::flush()),
        Err(DeviceError::TimeReversed { .. })
    ));
}

#[test]
fn a_lying_disk_loses_what_it_said_was_safe() {
    let mut disk = CutDevice::new(Sectors(800)).lying(true);
    write(&mut disk, 1, 3, 1);
    flush(&mut disk, 2);
    write(&mut disk, 3, 4, 1);
    let (image, _) = disk.image_at_cut(&at(2, false, Fate::Old, Fate::Old)).unwrap();
    assert_eq!(first(&image, 3), 0);
}
