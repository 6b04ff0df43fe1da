//! Every disk against an array of bytes, and what power cuts leave.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::Rng;
use live::FileMedium;
use ssd::{Config, Origin, Params};
use stack::Keys;
use stack::disk::{
    CutDrive, Disk, DiskError, Done, MediumDisk, ModelDisk, PaperDisk, Piece, RamDisk, Recorded,
    Recorder, Timing,
};
use stack::power::{Power, PowerError, Switch, When};

const SIZE: u64 = 4 << 20;

fn params() -> Params {
    let mut config = Config::default();
    let keys = [
        ("capacity", "4 MiB"),
        ("geometry.channels", "1"),
        ("geometry.dies", "2"),
        ("geometry.planes", "1"),
        ("geometry.pages", "32"),
        ("geometry.page", "4 KiB"),
        ("op", "50 %"),
        ("nand.oob", "full"),
        ("buffer.policy", "lru"),
        ("buffer.size", "128 KiB"),
    ];
    for (key, text) in keys {
        let origin = Origin { from: "test".to_string(), source: None, tag: None };
        config.set(key, text, origin).expect(key);
    }
    config.resolve().expect("a drive")
}

fn drive(timing: Timing) -> ModelDisk<CutDrive> {
    ModelDisk::new(CutDrive::new(&params(), 7).expect("a drive"), timing)
}

fn switch(seed: u64) -> Switch {
    let ram = Arc::new(RamDisk::new(SIZE).expect("memory"));
    let open = |medium| Ok(Arc::new(MediumDisk::new(medium)?) as Arc<dyn Disk>);
    Switch::of_medium(ram, seed, Box::new(open)).expect("a stack")
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("varve-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn file(folder: &Folder, name: &str) -> FileMedium {
    let mut options = OpenOptions::new();
    let path = folder.0.join(name);
    let file = options.read(true).write(true).create(true).truncate(false).open(path).unwrap();
    file.set_len(SIZE).expect("room");
    FileMedium(file)
}

/// Random requests of all kinds; what is read is what an array of bytes holds.
fn like_an_array(disk: &dyn Disk, seed: u64, steps: u64) {
    let mut rng = Rng::stream(seed, "disks");
    let size = disk.capabilities().size;
    let mut model = vec![0; size as usize];
    for step in 0..steps {
        let at = match rng.below(3) {
            0 => rng.below(size),
            1 => rng.below(size / 512) * 512,
            _ => rng.below(size / 4096) * 4096,
        };
        let most = if rng.below(4) == 0 { 200_000 } else { 9000 };
        let bytes = rng.below(most).min(size - at);
        let (from, to) = (at as usize, (at + bytes) as usize);
        match rng.below(10) {
            0..=3 => {
                let data: Vec<u8> = (0..bytes).map(|i| (step * 31 + i) as u8).collect();
                disk.write(at, &data, rng.below(8) == 0).expect("written").wait().unwrap();
                model[from..to].copy_from_slice(&data);
            }
            4..=6 => {
                let mut data = vec![0xAA; bytes as usize];
                disk.read(at, &mut data).expect("read").wait().unwrap();
                assert!(data == model[from..to], "step {step}: {bytes} bytes at {at}");
            }
            7 => {
                let keep = rng.below(2) == 0;
                disk.zero(at, bytes, keep, rng.below(8) == 0).expect("zeroed").wait().unwrap();
                model[from..to].fill(0);
            }
            8 => {
                disk.trim(at, bytes, rng.below(8) == 0).expect("trimmed").wait().unwrap();
                let mut after = vec![0xAA; bytes as usize];
                disk.read(at, &mut after).expect("read").wait().unwrap();
                for (new, old) in after.iter().zip(&mut model[from..to]) {
                    assert!(*new == *old || *new == 0, "step {step}");
                    *old = *new;
                }
            }
            _ => disk.flush().and_then(Done::wait).expect("flushed"),
        }
        if step % 50 == 0 {
            check_extents(disk, &model);
        }
    }
}

fn check_extents(disk: &dyn Disk, model: &[u8]) {
    let mut at = 0;
    for extent in disk.extents(0, model.len() as u64, 100_000).expect("extents") {
        assert!(extent.bytes > 0);
        let range = at as usize..(at + extent.bytes) as usize;
        assert!(!extent.hole || model[range].iter().all(|byte| *byte == 0), "a hole at {at}");
        at += extent.bytes;
    }
    assert_eq!(at, model.len() as u64);
    assert!(disk.extents(0, model.len() as u64, 1).expect("extents").len() == 1);
}

/// Paper 1 passes a flush down and keeps the log's open transaction in memory (P1 of docs/remap.md).
#[test]
fn the_papers_log_forgets_what_a_flush_acknowledged() {
    let ram = Arc::new(RamDisk::new(SIZE).expect("memory"));
    let open = |medium| {
        let log =
            PaperDisk::open_or_format(medium, &Keys::default()).map_err(std::io::Error::other)?;
        Ok(Arc::new(log) as Arc<dyn Disk>)
    };
    let switch = Switch::of_medium(ram, 1, Box::new(open)).expect("a stack");
    let found = || {
        let mut block = [0xAA; 4096];
        switch.read(8192, &mut block).expect("read").wait().unwrap();
        block[0]
    };
    switch.write(8192, &[7; 4096], false).expect("written").wait().unwrap();
    switch.flush().expect("flushed").wait().unwrap();
    assert_eq!(found(), 7);
    switch.cut(When::Now).expect("cut");
    switch.on().expect("on");
    assert_eq!(found(), 0, "the map entry was in memory only");
    switch.write(8192, &[8; 4096], false).expect("written").wait().unwrap();
    switch.close().expect("a clean stop commits");
    switch.cut(When::Now).expect("cut");
    switch.on().expect("on");
    assert_eq!(found(), 8);
}

fn refuses_what_is_outside(disk: &dyn Disk) {
    let size = disk.capabilities().size;
    let mut byte = [1];
    let range = |result: Result<Done, DiskError>| {
        assert!(matches!(result, Err(DiskError::Range { .. })), "{result:?}");
    };
    range(disk.read(size, &mut byte));
    range(disk.write(size, &byte, false));
    range(disk.write(u64::MAX, &byte, true));
    range(disk.trim(size - 1, 2, false));
    range(disk.zero(5, u64::MAX, false, false));
    assert!(matches!(disk.extents(1, u64::MAX, 9), Err(DiskError::Range { .. })));
    for at in [0, 1, size] {
        disk.read(at, &mut []).expect("nothing").wait().unwrap();
        disk.write(at, &[], true).expect("nothing").wait().unwrap();
        disk.trim(at, 0, true).expect("nothing").wait().unwrap();
        disk.zero(at, 0, true, true).expect("nothing").wait().unwrap();
    }
}

#[test]
fn every_disk_is_an_array_of_bytes() {
    let folder = Folder::new("disks");
    let odd = RamDisk::new(SIZE + 4096 + 512).expect("memory");
    let paper = PaperDisk::open_or_format(Arc::new(file(&folder, "paper")), &Keys::default())
        .expect("a log");
    let disks: [(&str, Box<dyn Disk>); 7] = [
        ("ram", Box::new(RamDisk::new(SIZE).expect("memory"))),
        ("odd ram", Box::new(odd)),
        ("file", Box::new(MediumDisk::new(Arc::new(file(&folder, "a"))).expect("a file"))),
        ("switch", Box::new(switch(3))),
        ("paper's log", Box::new(paper)),
        ("drive", Box::new(drive(Timing::Off))),
        ("timed drive", Box::new(drive(Timing::Model))),
    ];
    for (name, disk) in disks {
        println!("{name}: {:?}", disk.capabilities());
        refuses_what_is_outside(&*disk);
        let steps = if name == "timed drive" { 40 } else { 1500 };
        like_an_array(&*disk, 1, steps);
        disk.close().expect("closed");
    }
}

#[test]
fn ram_takes_memory_for_what_is_written_only() {
    let ram = RamDisk::new(1 << 40).expect("a table");
    ram.write(1 << 39, &[1; 5000], false).expect("written").wait().unwrap();
    assert!(ram.taken() <= 128 << 10);
    ram.zero(0, 1 << 40, false, false).expect("zeroed").wait().unwrap();
    assert_eq!(ram.taken(), 0);
    assert!(RamDisk::new(u64::MAX).is_err());
}

#[test]
fn a_recorded_disk_yields_a_trace_of_what_was_asked() {
    let path = std::env::temp_dir().join(format!("varve-record-{}.vtr", std::process::id()));
    let recorder = Arc::new(Recorder::create(&path, "a test").expect("a new file"));
    let again = Recorder::create(&path, "a test").expect_err("there already");
    assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
    let ram = Arc::new(RamDisk::new(1 << 20).expect("a disk"));
    let disk = Recorded::new(ram, Arc::clone(&recorder));
    disk.write(4096, &[7; 512], true).expect("written").wait().unwrap();
    disk.write_each(&[Piece { at: 0, bytes: &[1; 100] }; 2], &mut |_, result| {
        assert!(result.is_ok())
    });
    disk.read(0, &mut [0; 8192]).expect("read").wait().unwrap();
    disk.flush().expect("flushed").wait().unwrap();
    disk.trim(4096, 8192, false).expect("trimmed").wait().unwrap();
    disk.zero(0, 4096, true, false).expect("zeroed").wait().unwrap();
    assert!(disk.read(1 << 20, &mut [0]).is_err(), "beyond the end");
    assert_eq!(recorder.finish().expect("written").expect("totals").by_op, [2, 3, 1, 1, 1]);
    disk.flush().expect("flushed").wait().unwrap();
    assert_eq!(recorder.finish().expect("nothing more"), None);
    let mut trace = workload::open(&path, &workload::ReadOptions::default()).expect("a trace");
    let mut block = Vec::new();
    workload::Source::fill(&mut trace, &mut block).expect("records");
    std::fs::remove_file(&path).expect("removed");
    let found: Vec<_> =
        block.iter().map(|r| (r.op as u8, r.offset.0, r.len.0, r.flags.0)).collect();
    let (read, write, flush, discard, zero) = (0, 1, 2, 3, 4);
    let asked = [
        (write, 4096, 512, workload::Flags::FUA.0),
        (write, 0, 100, 0),
        (write, 0, 100, 0),
        (read, 0, 8192, 0),
        (flush, 0, 0, 0),
        (discard, 4096, 8192, 0),
        (zero, 0, 4096, 0),
        (read, 1 << 20, 1, 0),
    ];
    assert_eq!(found, asked);
    assert!(block.is_sorted_by_key(|record| record.at), "times do not go back");
}

#[test]
fn memory_used_again_shows_nothing_of_its_first_owner() {
    const CHUNK: usize = 64 << 10;
    let ram = RamDisk::new(16 * CHUNK as u64).expect("a table");
    ram.write(0, &[7; 2 * CHUNK], false).expect("written").wait().unwrap();
    ram.trim(0, 2 * CHUNK as u64, false).expect("trimmed").wait().unwrap();
    ram.write(4 * CHUNK as u64 + 100, &[1; 10], false).expect("written").wait().unwrap();
    let mut read = vec![9; 16 * CHUNK];
    ram.read(0, &mut read).expect("read").wait().unwrap();
    let wrong = |(at, byte): (usize, &u8)| {
        let written = (4 * CHUNK + 100..4 * CHUNK + 110).contains(&at);
        (*byte != u8::from(written)).then_some(at)
    };
    assert_eq!(read.iter().enumerate().find_map(wrong), None);
}

/// Writes pages until told, cuts, and holds what is there against what was promised. Returns how
/// many pages were found old.
fn cut_and_judge(disk: &dyn Disk, power: &dyn Power, rng: &mut Rng, grain: usize) -> u64 {
    const PAGES: u64 = 64;
    let page = |version: u8| vec![version; 4096];
    let mut old = vec![page(0); PAGES as usize];
    for at in 0..PAGES {
        disk.read(at * 4096, &mut old[at as usize]).expect("read").wait().unwrap();
    }
    let mut written: Vec<Vec<u8>> = vec![Vec::new(); PAGES as usize];
    let when = rng.below(3);
    match when {
        0 => {}
        1 => power.cut(When::NextFlush).expect("armed"),
        _ => {
            let operation = power.state().operations + 1 + rng.below(20);
            power.cut(When::Operation(operation)).expect("armed");
        }
    }
    for _ in 0..400 {
        let (at, version) = (rng.below(PAGES), 1 + rng.below(250) as u8);
        written[at as usize].push(version);
        let fua = rng.below(16) == 0;
        match disk.write(at * 4096, &page(version), fua).and_then(Done::wait) {
            Ok(()) => {}
            Err(DiskError::PowerOff) => break,
            Err(other) => panic!("{other}"),
        }
        if fua {
            old[at as usize] = page(version);
            written[at as usize].clear();
        }
        if rng.below(60) == 0 {
            match disk.flush().and_then(Done::wait) {
                Ok(()) => {}
                Err(DiskError::PowerOff) => break,
                Err(other) => panic!("{other}"),
            }
            for (old, versions) in old.iter_mut().zip(&mut written) {
                if let Some(version) = versions.last() {
                    *old = page(*version);
                }
                versions.clear();
            }
        }
    }
    if power.state().on {
        power.cut(When::Now).expect("cut");
    }
    assert!(matches!(disk.read(0, &mut [0; 512]), Err(DiskError::PowerOff)));
    assert!(matches!(disk.flush(), Err(DiskError::PowerOff)));
    assert!(matches!(power.cut(When::Now), Err(PowerError::Off)));
    power.on().expect("on again");
    assert!(matches!(power.on(), Err(PowerError::On)));
    let mut lost = 0;
    for at in 0..PAGES {
        let mut found = page(0);
        disk.read(at * 4096, &mut found).expect("read").wait().unwrap();
        let (old, versions) = (&old[at as usize], &written[at as usize]);
        for (i, piece) in found.chunks(grain).enumerate() {
            let same = |byte: u8| piece.iter().all(|b| *b == byte);
            let is_old = piece == &old[i * grain..][..grain];
            assert!(is_old || versions.iter().any(|v| same(*v)), "page {at} is torn or invented");
            lost += u64::from(is_old && !versions.is_empty());
        }
    }
    lost
}

#[test]
fn a_medium_keeps_its_promises_when_the_power_goes() {
    let (disk, mut rng) = (switch(11), Rng::new(5));
    let lost: u64 = (0..60).map(|_| cut_and_judge(&disk, &disk, &mut rng, 512)).sum();
    assert!(lost > 0, "nothing was ever lost: the cuts are not real");
    assert_eq!(disk.state().cuts, 60);
}

#[test]
fn a_modelled_drive_keeps_its_promises_when_the_power_goes() {
    for timing in [Timing::Off, Timing::Model] {
        let (disk, mut rng) = (drive(timing), Rng::new(6));
        let trials = if timing == Timing::Off { 40 } else { 6 };
        let lost: u64 = (0..trials).map(|_| cut_and_judge(&disk, &disk, &mut rng, 4096)).sum();
        assert!(lost > 0, "nothing was ever lost: the cuts are not real");
    }
}

/// A medium whose sync fails once.
#[derive(Debug)]
struct FailsOnce(RamDisk, AtomicBool);

impl block::Medium for FailsOnce {
    fn read(&self, at: u64, out: &mut [u8]) -> std::io::Result<()> {
        block::Medium::read(&self.0, at, out)
    }
    fn write(&self, at: u64, bytes: &[u8]) -> std::io::Result<()> {
        block::Medium::write(&self.0, at, bytes)
    }
    fn sync(&self) -> std::io::Result<()> {
        match self.1.swap(true, Ordering::SeqCst) {
            false => Err(std::io::Error::other("on purpose")),
            true => Ok(()),
        }
    }
    fn size(&self) -> std::io::Result<u64> {
        block::Medium::size(&self.0)
    }
}

#[test]
fn after_a_sync_that_failed_nothing_is_written() {
    let medium = FailsOnce(RamDisk::new(SIZE).expect("memory"), AtomicBool::new(false));
    let disk = MediumDisk::new(Arc::new(medium)).expect("a disk");
    disk.write(0, &[1; 512], false).expect("written").wait().unwrap();
    for _ in 0..2 {
        assert!(matches!(disk.flush(), Err(DiskError::Stopped(_))));
        assert!(matches!(disk.write(0, &[2; 512], false), Err(DiskError::Stopped(_))));
        assert!(matches!(disk.zero(0, 512, true, false), Err(DiskError::Stopped(_))));
    }
    let mut found = [0; 512];
    disk.read(0, &mut found).expect("reads work").wait().unwrap();
    assert_eq!(found, [1; 512]);
}

#[test]
fn an_operation_that_is_over_cannot_be_cut() {
    let disk = switch(1);
    disk.write(0, &[1; 4096], true).expect("written").wait().unwrap();
    assert!(matches!(disk.cut(When::Operation(1)), Err(PowerError::Passed { asked: 1, now: 2 })));
    disk.cut(When::Operation(4)).expect("armed");
    disk.write(0, &[2; 4096], false).expect("the third").wait().unwrap();
    assert!(matches!(disk.write(0, &[3; 4096], false), Err(DiskError::PowerOff)));
    assert_eq!(disk.state().last.map(|cut| cut.operation), Some(4));
}
