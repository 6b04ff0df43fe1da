//! A device that fails for a while: what it did not take is never said to be durable, and never read.

use std::cell::Cell;
use std::rc::Rc;

use crate::tools::model::NEW;
use crate::tools::now;
use block::{BlockDevice, Bytes, DeviceError, Op, RamDevice, Request, Sectors, Time};
use varve_lfs::format::FileType;
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
