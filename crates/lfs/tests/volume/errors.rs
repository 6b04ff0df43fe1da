//! A device that fails for a while: what it did not take is never said to be durable, and never read; and what it cannot
//! read is never taken for what was never written.

use std::cell::Cell;
use std::rc::Rc;

use crate::tools::crash::{Plan, volume, work};
use crate::tools::model::{Mix, NEW, difference, fresh, read_tree};
use crate::tools::now;
use block::{
    BlockDevice, Bytes, CutDevice, DeviceError, DiskFault, Op, RamDevice, Request, Rng, Sectors,
    Time,
};
use varve_lfs::format::FileType;
use varve_lfs::fs::{Cleaning, Durable, Scj};
use varve_lfs::{Fs, FsError, FsOptions, MkfsOptions, Nid, mkfs};

/// Takes no writes while it is full.
struct Full {
    below: RamDevice,
    full: Rc<Cell<bool>>,
}

impl BlockDevice for Full {
    fn capacity(&self) -> Sectors {
        self.below.capacity()
    }
    fn submit(&mut self, at: Time, request: Request<'_>) -> Result<Time, DeviceError> {
        if request.op == Op::Write && self.full.get() {
            return Err(DeviceError::Io("no space".to_string()));
        }
        self.below.submit(at, request)
    }
}

/// Who reads is told first: the write waits for its neighbours until its block is wanted.
#[test]
fn a_write_that_failed_while_somebody_read_is_not_forgotten() {
    let full = Rc::new(Cell::new(false));
    let device = Full { below: RamDevice::new(Sectors(64 << 11)), full: Rc::clone(&full) };
    let device = mkfs(device, &MkfsOptions::new([4; 16], 9), now(0)).unwrap().0;
    let mut fs = Fs::mount(device, FsOptions::default(), now(1)).unwrap();
    let file = fs.create(now(2), Nid::ROOT, b"a", FileType::File, NEW, (0, 0)).unwrap();
    fs.write(now(3), file, Bytes(0), &[1; 8192]).unwrap();
    fs.fsync(now(4), file).unwrap();
    fs.write(now(5), file, Bytes(0), &[2; 4096]).unwrap();
    full.set(true);
    let mut out = [0; 4096];
    assert!(matches!(fs.read(now(6), file, Bytes(0), &mut out), Err(FsError::Device(_))));
    full.set(false);
    // There is room again, but nobody has the block any more.
    assert!(fs.read(now(7), file, Bytes(0), &mut out).is_err() || out == [2; 4096]);
    assert!(matches!(fs.fsync(now(8), file), Err(FsError::Device(_))));
    assert!(matches!(fs.fsync(now(9), file), Err(FsError::ReadOnly(_))));
    assert!(fs.failed().is_some());
    assert!(matches!(fs.cause(), Some(FsError::Device(_))), "{:?}", fs.cause());
    assert!(fs.unsaved().contains(&file), "{:?}", fs.unsaved());
    let mut fs = Fs::mount(fs.abandon(), FsOptions::default(), now(10)).unwrap();
    assert_eq!(fs.read(now(11), file, Bytes(0), &mut out), Ok(4096));
    assert_eq!(out, [1; 4096], "as the last fsync left it");
}

/// A mount that meets one error says so, or finds what it finds without: of packs, records of cleaning and the chain of
/// fsyncs the newest part may be the one that cannot be read.
#[test]
fn a_read_error_at_a_mount_brings_no_older_state_back() {
    let scj = Scj { slots: 24, threshold: Some(160), count_needed: true, batch: 1 };
    let options = FsOptions { dirty: 60, cleaning: Cleaning::Scj(scj), ..FsOptions::default() };
    let mix = Mix { write: 66, fsync: 24, clean: 0, sync: 1, blocks: 56, names: 14 };
    let late = now(1 << 30);
    let (mut recorded, mut refused) = (0, 0);
    for seed in 0..6 {
        let (blocks, steps, torn) = (1_500, 300 + seed * 7, seed % 2 == 1);
        let plan = Plan { seed, per_seg: 4, blocks, options, mix, steps, torn, slow: 0 };
        let (mut tree, mut clock, mut rng) = (fresh(), 1, Rng::new(seed));
        let run = work(plan, volume(&plan), &mut tree, &mut clock, &mut rng);
        let image = run.device.image();
        let journal = Durable::open(CutDevice::power_on(image.clone())).unwrap().journal();
        recorded += journal.unwrap().map_or(0, |journal| journal.records.len());
        for read_only in [false, true] {
            let options = FsOptions { read_only, ..options };
            let mount = |faults: Vec<DiskFault>| {
                let device = CutDevice::power_on(image.clone()).with_faults(faults);
                Fs::mount(device, options, late)
            };
            let mut whole = mount(Vec::new()).unwrap();
            let reads = whole.device().reads();
            let expected = read_tree(&mut whole, late).unwrap();
            for read in 0..reads {
                match mount(vec![DiskFault::Read { read }]) {
                    Ok(mut fs) => {
                        let found = read_tree(&mut fs, late).unwrap();
                        assert_eq!(difference(&found, &expected), None, "seed {seed}, read {read}");
                    }
                    Err(FsError::Device(DeviceError::Io(_))) => refused += 1,
                    Err(error) => panic!("seed {seed}, read {read}: {error}"),
                }
            }
        }
    }
    assert!(recorded > 0 && refused > 100, "{recorded} records, {refused} refused");
}
