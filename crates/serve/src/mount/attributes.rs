//! Attributes, times and numbers as the kernel has them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, Generation, INodeNo};
use lfs::fs::Attributes;
use lfs::{Nid, Stamp, format};

/// How long the kernel may believe what it was told: for good, since nobody else changes it.
pub(super) const FOR_GOOD: Duration = Duration::from_secs(1 << 30);
/// Bytes that are read or written best at once.
const BLOCK: u32 = 4096;
/// What a name names that is not there. The kernel keeps that, too: whoever makes the name does it through the kernel.
pub(super) const NOTHING: FileAttr = FileAttr {
    ino: INodeNo(0),
    size: 0,
    blocks: 0,
    atime: UNIX_EPOCH,
    mtime: UNIX_EPOCH,
    ctime: UNIX_EPOCH,
    crtime: UNIX_EPOCH,
    kind: FileType::RegularFile,
    perm: 0,
    nlink: 0,
    uid: 0,
    gid: 0,
    rdev: 0,
    blksize: BLOCK,
    flags: 0,
};

/// The inode that the kernel means. The root has another number there.
pub(super) fn nid(ino: INodeNo) -> Result<Nid, Errno> {
    match (ino, u32::try_from(ino.0)) {
        (INodeNo::ROOT, _) => Ok(Nid::ROOT),
        (_, Ok(number)) if number > Nid::ROOT.0 => Ok(Nid(number)),
        _ => Err(Errno::ENOENT),
    }
}

/// What the kernel calls an inode.
pub(super) fn number(nid: Nid) -> INodeNo {
    if nid == Nid::ROOT { INodeNo::ROOT } else { INodeNo(u64::from(nid.0)) }
}

pub(super) fn kind(kind: format::FileType) -> FileType {
    match kind {
        format::FileType::Directory => FileType::Directory,
        format::FileType::Symlink => FileType::Symlink,
        format::FileType::Character => FileType::CharDevice,
        format::FileType::Block => FileType::BlockDevice,
        format::FileType::Fifo => FileType::NamedPipe,
        format::FileType::Socket => FileType::Socket,
        format::FileType::File | format::FileType::Unknown => FileType::RegularFile,
    }
}

/// What a mode of `mknod` asks for.
pub(super) fn kind_of_mode(mode: u32) -> format::FileType {
    format::FileType::of_mode(mode as u16)
}

/// Seconds before 1970 are kept as a negative number's bits.
pub(super) fn time(stamp: Stamp) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(stamp.nanos));
    let seconds = stamp.seconds as i64;
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let at =
        if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    at.and_then(|at| at.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

/// A time that the kernel wants set. Before 1970 `fuser` takes both parts off the epoch although
/// the nanoseconds count forwards; taking them apart again in the same way undoes that.
pub(super) fn stamp(time: SystemTime) -> Stamp {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Stamp { seconds: after.as_secs(), nanos: after.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            Stamp { seconds: before.as_secs().wrapping_neg(), nanos: before.subsec_nanos() }
        }
    }
}

/// A device's number as the kernel writes it in 32 bits.
fn device((major, minor): (u32, u32)) -> u32 {
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

/// Major and minor number.
pub(super) fn device_numbers(number: u32) -> (u32, u32) {
    (number >> 8 & 0xfff, number & 0xff | number >> 12 & 0xf_ff00)
}

pub(super) fn attributes(of: &Attributes) -> FileAttr {
    FileAttr {
        ino: number(of.ino),
        size: of.size.0,
        blocks: of.blocks * (u64::from(BLOCK) / 512),
        atime: time(of.accessed),
        mtime: time(of.modified),
        ctime: time(of.changed),
        crtime: UNIX_EPOCH,
        kind: kind(of.kind),
        perm: of.mode & 0o7777,
        nlink: of.links,
        uid: of.uid,
        gid: of.gid,
        rdev: device(of.device),
        blksize: BLOCK,
        flags: 0,
    }
}

pub(super) fn generation(of: &Attributes) -> Generation {
    Generation(u64::from(of.generation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_come_back() {
        let early = Stamp { seconds: (-2_i64) as u64, nanos: 800_000_000 };
        assert_eq!(time(early), UNIX_EPOCH - Duration::from_millis(1200));
        // As `fuser` hands it over.
        assert_eq!(stamp(UNIX_EPOCH - Duration::new(2, 800_000_000)), early);
        let late = Stamp { seconds: 1 << 33, nanos: 1 };
        assert_eq!(stamp(time(late)), late);
        assert_eq!(
            time(Stamp { seconds: i64::MAX as u64, nanos: 0 }),
            UNIX_EPOCH + Duration::from_secs(i64::MAX as u64)
        );
    }

    #[test]
    fn numbers_of_devices_come_back() {
        for pair in [(0, 0), (8, 1), (255, 255), (259, 70_000), (4095, 0xf_ffff)] {
            assert_eq!(device_numbers(device(pair)), pair);
        }
    }

    #[test]
    fn the_root_has_two_numbers() {
        assert_eq!(nid(INodeNo::ROOT), Ok(Nid::ROOT));
        assert_eq!(number(Nid::ROOT), INodeNo::ROOT);
        for wrong in [0, 2, 3, 1 << 32] {
            assert_eq!(nid(INodeNo(wrong)), Err(Errno::ENOENT));
        }
        assert_eq!(nid(number(Nid(77))), Ok(Nid(77)));
    }
}
