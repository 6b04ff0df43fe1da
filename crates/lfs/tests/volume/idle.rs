//! What is done when nobody asks: background cleaning, checkpoints by age, discards.

use crate::tools::Image;
use crate::tools::model::NEW;
use block::{BlockDevice, Bytes, Data, DeviceError, Op, RamDevice, Request, Sectors, Time};
use varve_lfs::format::FileType;
use varve_lfs::fs::{Cleaning, Scj, Trigger};
use varve_lfs::{Fs, FsOptions, MkfsOptions, Nid, Now, Stamp, mkfs};

fn second(n: u64) -> Now {
    Now { at: Time::from_us(n * 1_000_000), wall: Stamp { seconds: 1_600_000_000 + n, nanos: 0 } }
}

/// A device that counts what is discarded, and fills it with what must not be read.
struct Trimmed {
    below: RamDevice,
    sectors: u64,
}

impl BlockDevice for Trimmed {
    fn capacity(&self) -> Sectors {
        self.below.capacity()
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        if request.op != Op::Discard {
            return self.below.submit(at, request);
        }
        self.sectors += request.sectors.0;
        let garbage = vec![0xDB; request.sectors.bytes().index()];
        let write = Request::write(request.lba, request.sectors).with(Data::Write(&garbage));
        self.below.submit(at, write)
    }
}

/// A volume full of holes: of every eight blocks one is left.
fn sparse(options: FsOptions) -> (Fs<Trimmed>, Vec<Nid>) {
    let device = Trimmed { below: RamDevice::new(Sectors(128 << 11)), sectors: 0 };
    let device = mkfs(device, &MkfsOptions::new([4; 16], 9), second(0)).unwrap().0;
    let mut fs = Fs::mount(device, options, second(1)).unwrap();
    let mut kept = Vec::new();
    for n in 0..80 {
        for (name, len) in [("kept", 16), ("gone", 112)] {
            let name = format!("{name}{n}");
            let kind = FileType::File;
            let ino = fs.create(second(2), Nid::ROOT, name.as_bytes(), kind, NEW, (0, 0)).unwrap();
            fs.write(second(2), ino, Bytes(0), &vec![n as u8 + 1; len * 4096]).unwrap();
            if len == 16 {
                kept.push(ino);
            }
        }
    }
    for n in 0..80 {
        fs.unlink(second(3), Nid::ROOT, format!("gone{n}").as_bytes()).unwrap();
    }
    fs.sync(second(3)).unwrap();
    (fs, kept)
}

fn reads_back(fs: &mut Fs<Trimmed>, kept: &[Nid]) {
    let mut bytes = vec![0; 16 * 4096];
    for (n, ino) in kept.iter().enumerate() {
        assert_eq!(fs.read(second(9_000), *ino, Bytes(0), &mut bytes), Ok(16 * 4096));
        assert!(bytes.iter().all(|byte| *byte == n as u8 + 1), "file {n}");
    }
    fs.check(second(9_000)).unwrap();
}

#[test]
fn idle_calls_clean_a_little_each_until_there_is_nothing_to_gain() {
    let scj = Cleaning::Scj(Scj { slots: 4, ..Scj::default() });
    for cleaning in [Cleaning::Bl415, Cleaning::Bl6, scj] {
        let options = FsOptions { cleaning, discard: true, ..FsOptions::default() };
        let (mut fs, kept) = sparse(options);
        let before = fs.usage(second(4)).unwrap().free_segments;
        let (mut clock, mut cleaned) = (100, 0);
        loop {
            let idle = fs.idle(second(clock), 2).unwrap();
            assert!(idle.cleaned <= 2 && idle.again > second(clock).at);
            cleaned += u64::from(idle.cleaned);
            clock += 60;
            if idle.cleaned == 0 {
                break;
            }
        }
        fs.sync(second(clock)).unwrap();
        let after = fs.usage(second(clock)).unwrap().free_segments;
        assert!(cleaned >= 15 && after >= before + 12, "{cleaning:?}: {before}, {after}");
        assert_eq!(fs.cleaning().background, cleaned);
        assert!(fs.device().sectors > 0);
        reads_back(&mut fs, &kept);
        let mut device = fs.unmount(second(9_001)).unwrap();
        assert_eq!(Image::of(&mut device).complaints(), [""; 0], "{cleaning:?}");
    }
}

#[test]
fn what_is_dirty_for_a_minute_becomes_durable() {
    let (mut fs, kept) = sparse(FsOptions::default());
    fs.write(second(10), kept[0], Bytes(0), b"new").unwrap();
    let count = |fs: &Fs<Trimmed>| fs.checkpoints().get(&Trigger::Idle).copied().unwrap_or(0);
    assert!(!fs.idle(second(40), 0).unwrap().checkpoint);
    let idle = fs.idle(second(70), 0).unwrap();
    assert!(idle.checkpoint && count(&fs) == 1);
    assert!(!fs.idle(second(200), 0).unwrap().checkpoint, "nothing is dirty");
    let mut fs = Fs::mount(fs.abandon(), FsOptions::default(), second(201)).unwrap();
    let mut bytes = [0; 3];
    fs.read(second(202), kept[0], Bytes(0), &mut bytes).unwrap();
    assert_eq!(&bytes, b"new");
}

#[test]
fn a_trim_discards_what_is_free_and_nothing_else() {
    let (mut fs, kept) = sparse(FsOptions::default());
    assert_eq!(fs.device().sectors, 0, "discards are an option");
    let free = fs.usage(second(5)).unwrap().free_segments;
    let trimmed = fs.trim_free(second(6)).unwrap();
    assert_eq!(trimmed, Bytes(free << 21));
    assert_eq!(fs.device().sectors, free << 12);
    reads_back(&mut fs, &kept);
    let device = fs.unmount(second(7)).unwrap();
    let mut fs = Fs::mount(device, FsOptions::default(), second(8)).unwrap();
    reads_back(&mut fs, &kept);
    // A crash after work on what was discarded.
    let ino = fs.create(second(9), Nid::ROOT, b"new", FileType::File, NEW, (0, 0)).unwrap();
    fs.write(second(9), ino, Bytes(0), &[3; 3 << 20]).unwrap();
    fs.fsync(second(9), ino).unwrap();
    let mut fs = Fs::mount(fs.abandon(), FsOptions::default(), second(10)).unwrap();
    reads_back(&mut fs, &kept);
    let mut bytes = vec![0; 3 << 20];
    fs.read(second(11), ino, Bytes(0), &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 3));
}
