//! Contents and attributes of inodes.
//!
//! Invariant: who may not set such bits does not keep them by writing: set-user and set-group go
//! with a change of contents by anyone but root, and with every change of the owner (the kernel
//! leaves both to us).

use std::time::SystemTime;

use block::Bytes;
use fuser::{Errno, INodeNo, ReplyData, Request, TimeOrNow, WriteFlags};
use lfs::fs::{Attributes, SetAttributes, Stretch};
use lfs::{Fs, FsError, Nid, Now, format};
use rustix::fs::FallocateFlags;

use super::attributes::{nid, stamp};
use super::behind::Behind;
use super::errors::errno;
use super::takers::away_with;
use super::volume::Volume;
use crate::kernel;
use stack::disk::Asked;

/// Bytes that are copied between files at once.
const COPY: usize = 1 << 20;
/// Bytes that are written with the lock held: so many that a write is one operation of the file system.
const PART: usize = 128 << 10;
const SET_USER: u16 = 0o4000;
const SET_GROUP: u16 = 0o2000;
const GROUP_RUNS: u16 = 0o0010;

/// What the kernel wants changed of an inode.
pub(super) struct Change {
    pub(super) mode: Option<u32>,
    pub(super) owner: (Option<u32>, Option<u32>),
    pub(super) size: Option<u64>,
    pub(super) accessed: Option<TimeOrNow>,
    pub(super) modified: Option<TimeOrNow>,
    pub(super) changed: Option<SystemTime>,
}

fn without_set(mode: u16) -> u16 {
    let group = if mode & GROUP_RUNS != 0 { SET_GROUP } else { 0 };
    mode & !(SET_USER | group)
}

/// Takes the set-user and set-group bits away; whether there were any.
fn unset(fs: &mut Fs<Behind>, now: Now, ino: Nid) -> Result<bool, FsError> {
    let mode = fs.attributes(now, ino)?.mode;
    if without_set(mode) == mode {
        return Ok(false);
    }
    let permissions = Some(without_set(mode) & 0o7777);
    fs.set_attributes(now, ino, SetAttributes { permissions, ..SetAttributes::default() })?;
    Ok(true)
}

pub(super) fn attributes(volume: &Volume, ino: INodeNo) -> Result<Attributes, Errno> {
    let ino = nid(ino)?;
    volume.with(|fs, now| fs.attributes(now, ino))
}

pub(super) fn change(
    volume: &Volume,
    by: &Request,
    ino: INodeNo,
    want: Change,
) -> Result<Attributes, Errno> {
    let ino = nid(ino)?;
    let at = |time: TimeOrNow, now: Now| match time {
        TimeOrNow::SpecificTime(time) => stamp(time),
        TimeOrNow::Now => now.wall,
    };
    volume.with(|fs, now| {
        if let Some(size) = want.size {
            fs.truncate(now, ino, Bytes(size))?;
            if by.uid() != 0 {
                unset(fs, now, ino)?;
            }
        }
        let before = fs.attributes(now, ino)?;
        let owned = want.owner != (None, None);
        let dir = before.kind == format::FileType::Directory;
        let asked = want.mode.map(|mode| mode as u16 & 0o7777);
        let lost = (owned && !dir).then(|| without_set(before.mode) & 0o7777);
        let set = SetAttributes {
            permissions: asked.or(lost),
            uid: want.owner.0,
            gid: want.owner.1,
            accessed: want.accessed.map(|time| at(time, now)),
            modified: want.modified.map(|time| at(time, now)),
            changed: want.changed.map(stamp),
        };
        if set != SetAttributes::default() {
            fs.set_attributes(now, ino, set)?;
        }
        fs.attributes(now, ino)
    })
}

pub(super) fn read(volume: &Volume, ino: INodeNo, at: u64, bytes: u32, reply: ReplyData) {
    let ino = match nid(ino) {
        Ok(ino) => ino,
        Err(error) => return reply.error(error),
    };
    let _away = away_with(bytes as usize);
    kernel::with_buffer(bytes, |buffer| {
        let since = std::time::Instant::now();
        let found = volume.read(ino, Bytes(at), buffer);
        match &found {
            Ok(len) => volume.meter().answered(Asked::Read(*len as u64), since, None),
            Err(_) => volume.meter().refused(),
        }
        match found {
            Ok(len) => reply.data(&buffer[..len]),
            Err(error) => reply.error(error),
        }
    });
}

pub(super) fn target(volume: &Volume, ino: INodeNo) -> Result<Vec<u8>, Errno> {
    let ino = nid(ino)?;
    volume.with(|fs, now| {
        let found = fs.attributes(now, ino)?;
        if found.kind != format::FileType::Symlink {
            return Err(FsError::Invalid("not a symlink"));
        }
        let mut target = vec![0; usize::try_from(found.size.0).unwrap_or(0).min(4096)];
        let len = fs.read(now, ino, Bytes(0), &mut target)?;
        target.truncate(len);
        volume.accessed(fs, now, ino)?;
        Ok(target)
    })
}

/// Writes, a part at a time: others come in between. How many bytes were written, if any were: who asks for
/// the others meets the error. Nobody does if all are wanted (`all`): the error is the answer then.
fn put(volume: &Volume, ino: Nid, at: u64, data: &[u8], all: bool) -> Result<usize, Errno> {
    let mut done = 0;
    loop {
        let (at, rest) = (at + done as u64, &data[done..]);
        let part = &rest[..rest.len().min(PART - (at % PART as u64) as usize)];
        volume.admit();
        match volume.with(|fs, now| fs.write(now, ino, Bytes(at), part)) {
            Err(_) if done > 0 && !all => return Ok(done),
            written => written?,
        }
        done += part.len();
        if done == data.len() {
            return Ok(done);
        }
        volume.give_way();
    }
}

/// Writes. What the kernel writes out of its pages it takes for written, as long as there is no error: it does not
/// look at how much was.
pub(super) fn write(
    volume: &Volume,
    ino: INodeNo,
    at: u64,
    data: &[u8],
    how: WriteFlags,
) -> Result<u32, Errno> {
    let (file, ino) = (ino, nid(ino)?);
    u32::try_from(data.len()).map_err(|_| Errno::EINVAL)?;
    let _away = away_with(data.len());
    let since = std::time::Instant::now();
    let strip = how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
    let pages = how.contains(WriteFlags::FUSE_WRITE_CACHE);
    let done = put(volume, ino, at, data, pages).and_then(|bytes| match strip {
        true => volume.with(|fs, now| unset(fs, now, ino)).map(|lost| {
            if lost {
                volume.kernel.lost_its_bits(file);
            }
            bytes
        }),
        false => Ok(bytes),
    });
    match &done {
        Ok(bytes) => volume.meter().answered(Asked::Write(*bytes as u64), since, None),
        Err(_) => volume.meter().refused(),
    }
    Ok(done? as u32)
}

/// Sets space apart, punches or zeroes, a part at a time: others come in between.
pub(super) fn allocate(
    volume: &Volume,
    by: &Request,
    ino: INodeNo,
    (at, bytes): (u64, u64),
    mode: i32,
) -> Result<(), Errno> {
    let (file, ino) = (ino, nid(ino)?);
    let keep = FallocateFlags::KEEP_SIZE;
    let how = FallocateFlags::from_bits_retain(mode as u32);
    let kept = how.contains(keep);
    let what = how - keep;
    let known = [FallocateFlags::empty(), FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE];
    if !known.contains(&what) {
        return Err(Errno::EOPNOTSUPP);
    }
    // Before the first part: it may be the only one that there is room for.
    if by.uid() != 0 && volume.with(|fs, now| unset(fs, now, ino))? {
        volume.kernel.lost_its_bits(file);
    }
    let mut how = Stretch::new(Bytes(at), Bytes(bytes)).map_err(|error| errno(&error))?;
    let mut part = |fs: &mut Fs<Behind>, now| match what {
        FallocateFlags::PUNCH_HOLE => fs.punch_on(now, ino, &mut how),
        FallocateFlags::ZERO_RANGE => fs.zero_range_on(now, ino, &mut how, kept),
        _ => fs.allocate_on(now, ino, &mut how, kept),
    };
    while !volume.with(&mut part)? {
        volume.give_way();
    }
    Ok(())
}

/// Copies a piece of a file; how many bytes there were.
pub(super) fn copy(
    volume: &Volume,
    by: &Request,
    from: (INodeNo, u64),
    to: (INodeNo, u64),
    bytes: u64,
) -> Result<u32, Errno> {
    let (source, target) = (nid(from.0)?, nid(to.0)?);
    let mut buffer = vec![0; usize::try_from(bytes).unwrap_or(COPY).min(COPY)];
    let mut len = volume.read(source, Bytes(from.1), &mut buffer)?;
    if len > 0 {
        len = put(volume, target, to.1, &buffer[..len], false)?;
        if by.uid() != 0 && volume.with(|fs, now| unset(fs, now, target))? {
            volume.kernel.lost_its_bits(to.0);
        }
    }
    Ok(len as u32)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};

    use block::Medium;
    use lfs::fs::NewInode;
    use lfs::{FsOptions, MkfsOptions};

    use super::*;
    use crate::mount::Atime;
    use crate::mount::attributes::number;
    use crate::mount::device::DiskDevice;
    use crate::mount::syncs::Syncs;
    use stack::disk::{MediumDisk, RamDisk};
    use stack::power::NoSwitch;

    /// Memory that takes no writes while it is full, as a sparse image on a full file system.
    #[derive(Debug)]
    struct Full {
        below: RamDisk,
        full: AtomicBool,
    }

    impl Medium for Full {
        fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
            Medium::read(&self.below, at, out)
        }
        fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
            match self.full.load(Ordering::Relaxed) {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => Medium::write(&self.below, at, bytes),
            }
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
        fn size(&self) -> io::Result<u64> {
            self.below.size()
        }
    }

    fn behind(device: DiskDevice) -> Behind {
        Behind::new(device, false).expect("a thread")
    }

    /// A volume on such memory.
    fn served() -> (Arc<Full>, Arc<MediumDisk>, Arc<Volume>) {
        let below = RamDisk::new(64 << 20).expect("memory");
        let medium = Arc::new(Full { below, full: AtomicBool::new(false) });
        let disk = Arc::new(MediumDisk::new(medium.clone()).expect("a disk"));
        let volume = Arc::new(Volume::new(
            Arc::new(NoSwitch("a test")),
            Atime::Never,
            std::path::Path::new("test"),
        ));
        let device = DiskDevice(disk.clone());
        let device =
            lfs::mkfs(device, &MkfsOptions::new([1; 16], 1), volume.now()).expect("made").0;
        volume.put(Fs::mount(behind(device), FsOptions::default(), volume.now()).expect("mounted"));
        (medium, disk, volume)
    }

    fn made(volume: &Volume, name: &str) -> INodeNo {
        let new = NewInode { permissions: 0o644, uid: 0, gid: 0 };
        let kind = format::FileType::File;
        let made =
            volume.with(|fs, now| fs.create(now, Nid::ROOT, name.as_bytes(), kind, new, (0, 0)));
        number(made.expect("created"))
    }

    /// Fills the volume, but for so many blocks.
    fn fill(volume: &Volume, but: u64) {
        let ino = made(volume, "filler");
        let left = volume.with(|fs, now| Ok(fs.usage(now)?.available_blocks)).expect("usage");
        let bytes = (left - left / 1000 - but) * 4096;
        let apart = volume.with(|fs, now| {
            fs.allocate(now, nid(ino).expect("a number"), Bytes(0), Bytes(bytes), false)
        });
        assert_eq!(apart, Ok(()));
    }

    /// A short count is a success to who writes pages: he would take all of them for written.
    #[test]
    fn pages_for_which_there_is_no_room_are_an_error() {
        let (_, _, volume) = served();
        let (plain, paged) = (made(&volume, "a"), made(&volume, "b"));
        fill(&volume, 150);
        let data = vec![5; 1 << 20];
        let pages = WriteFlags::FUSE_WRITE_CACHE;
        assert_eq!(write(&volume, paged, 0, &data, pages), Err(Errno::ENOSPC));
        let change = volume.with(|fs, now| fs.truncate(now, nid(paged).expect("one"), Bytes(0)));
        assert_eq!(change, Ok(()));
        let short = write(&volume, plain, 0, &data, WriteFlags::empty()).expect("a part of it");
        assert!(short > 0 && (short as usize) < data.len(), "{short}");
        let rest = &data[short as usize..];
        let more = write(&volume, plain, u64::from(short), rest, WriteFlags::empty());
        assert_eq!(more, Err(Errno::ENOSPC));
    }

    /// What was begun when a volume is taken is ended then: with an error it must not seem to be.
    #[test]
    fn an_error_of_what_is_done_at_the_end_is_known() {
        let (medium, _, volume) = served();
        made(&volume, "a");
        let begun = volume.with(|fs, now| match fs.sync(now) {
            Err(FsError::Again) => Ok(true),
            other => other.map(|()| false),
        });
        assert_eq!(begun, Ok(true));
        medium.full.store(true, Ordering::Relaxed);
        let fs = volume.take().expect("served");
        assert!(volume.failure().is_some() && fs.failed().is_some());
    }

    #[test]
    fn after_an_error_nothing_is_said_to_be_durable() {
        let (medium, disk, volume) = served();
        let (ino, root) = (made(&volume, "a"), INodeNo::ROOT);
        write(&volume, ino, 0, &[7; 9000], WriteFlags::empty()).expect("written");
        let fsync = |ino: INodeNo| {
            let (syncs, (told, answer)) = (Syncs::new(&volume).expect("a thread"), mpsc::channel());
            syncs.ask(nid(ino).expect("an inode"), move |result| told.send(result).expect("heard"));
            answer.recv().expect("an answer")
        };
        medium.full.store(true, Ordering::Relaxed);
        // Whoever was told: not this file's owner.
        assert!(volume.with(|fs, now| fs.sync(now)).is_err());
        medium.full.store(false, Ordering::Relaxed);
        assert!(fsync(ino).is_err() && fsync(root).is_err());
        assert!(volume.take().is_some_and(|fs| fs.failed().is_some()));
        let options = FsOptions { read_only: true, ..FsOptions::default() };
        volume.put(Fs::mount(behind(DiskDevice(disk)), options, volume.now()).expect("mounted"));
        assert_eq!(fsync(root), Ok(()), "nothing to be made durable");
    }
}
