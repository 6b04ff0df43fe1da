//! A checkpoint between its two parts: what either of the two names is not written over, and after a cut one of
//! them is there.

use crate::tools::now;
use block::{Bytes, CutDevice, Sectors, UNIT_BYTES};
use varve_lfs::format::FileType;
use varve_lfs::fs::{Bug, Cleaning, Covering, NewInode, Scj};
use varve_lfs::{Fs, FsError, FsOptions, MkfsOptions, Nid, mkfs};

const NEW: NewInode = NewInode { permissions: 0o600, uid: 0, gid: 0 };
const BLOCKS: u64 = 64;

fn content(block: u64) -> Vec<u8> {
    vec![block as u8 | 1; 4096]
}

/// When the power goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    /// The last block of the checkpoint is not written.
    Before,
    /// It is durable, and the volume has not heard of it.
    Unheard,
    /// The volume has, and has gone on.
    Later,
}

fn volume(bug: Option<Bug>) -> Fs<CutDevice> {
    let scj = Scj { slots: 24, threshold: Some(1 << 20), ..Scj::default() };
    let bug = bug.map_or(block::Plant::default(), Into::into);
    let cleaning = Cleaning::Scj(scj);
    let options = FsOptions { cleaning, ahead: 2, prefree: 100, bug, ..FsOptions::default() };
    let small = MkfsOptions { log_blocks_per_seg: 4, ..MkfsOptions::new([3; 16], 1_000) };
    let device = mkfs(CutDevice::new(Sectors(2048 * 8)), &small, now(0)).unwrap().0;
    let mut fs = Fs::mount(CutDevice::power_on(device.image()), options, now(1)).unwrap();
    fs.read_outside(now(1), true);
    fs.insist(true);
    fs
}

/// Writes until every segment that may be was written to.
fn go_round(fs: &mut Fs<CutDevice>, name: &[u8]) {
    let made = fs.create(now(5), Nid::ROOT, name, FileType::File, NEW, (0, 0)).unwrap();
    for n in 0..3_000 {
        fs.write(now(6), made, Bytes(n % 4 * UNIT_BYTES), &[0xEE; 4096]).unwrap();
    }
}

/// A file that a frozen checkpoint has and that goes while it is on its way: what is wrong after a cut.
fn wrong(cut: Cut, bug: Option<Bug>) -> Option<String> {
    let mut fs = volume(bug);
    let old = fs.create(now(2), Nid::ROOT, b"old", FileType::File, NEW, (0, 0)).unwrap();
    for block in 0..BLOCKS {
        fs.write(now(3), old, Bytes(block * UNIT_BYTES), &content(block)).unwrap();
    }
    let mut how = Covering::default();
    assert_eq!(fs.sync_on(now(4), &mut how), Err(FsError::Again));
    assert!(fs.is_frozen());
    fs.unlink(now(4), Nid::ROOT, b"old").unwrap();
    go_round(&mut fs, b"new");
    assert_eq!(fs.sync_on(now(7), &mut how), Err(FsError::Again), "it is not durable yet");
    let flush = fs.next_job(now(7)).unwrap().expect("a flush");
    assert!(fs.next_job(now(7)).unwrap().is_none(), "one at a time");
    flush.perform(now(7).at, fs.device_mut()).unwrap();
    fs.job_done(now(7), &flush, Ok(())).unwrap();
    if cut != Cut::Before {
        let end = fs.next_job(now(8)).unwrap().expect("its end");
        end.perform(now(8).at, fs.device_mut()).unwrap();
        if cut == Cut::Later {
            fs.job_done(now(8), &end, Ok(())).unwrap();
            assert!(!fs.is_frozen());
            assert_eq!(fs.sync_on(now(8), &mut how), Ok(()), "whatever was changed since");
            go_round(&mut fs, b"newer");
            assert!(!fs.is_frozen(), "another checkpoint came in between");
        }
    }
    let image = fs.abandon().image();
    let mut fs = match Fs::mount(CutDevice::power_on(image), FsOptions::default(), now(9)) {
        Ok(fs) => fs,
        Err(error) => return Some(format!("mount: {error}")),
    };
    match fs.lookup(now(9), Nid::ROOT, b"old") {
        Err(FsError::NotFound) if cut == Cut::Before => {}
        Ok(found) if found == old && cut != Cut::Before => {
            let mut out = vec![0; 4096];
            for block in 0..BLOCKS {
                fs.read(now(9), old, Bytes(block * UNIT_BYTES), &mut out).unwrap();
                if out != content(block) {
                    return Some(format!("block {block} was written over"));
                }
            }
        }
        other => return Some(format!("the name: {other:?}")),
    }
    fs.check(now(9)).err().map(|error| format!("check: {error}"))
}

#[test]
fn a_cut_between_the_parts_leaves_one_of_the_two() {
    for cut in [Cut::Before, Cut::Unheard, Cut::Later] {
        assert_eq!(wrong(cut, None), None, "{cut:?}");
    }
}

#[test]
fn what_is_not_kept_is_missed() {
    for (cut, bug) in [(Cut::Unheard, Bug::FrozenNarrow), (Cut::Later, Bug::FrozenLost)] {
        println!("{bug:?}: {}", wrong(cut, Some(bug)).expect("it is seen"));
    }
}
