//! Names: looked up, made, moved, taken away.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{Errno, INodeNo, RenameFlags, Request};
use lfs::format::{FileType, NAME_MAX};
use lfs::fs::{Attributes, NewInode};
use lfs::{Fs, FsError, Nid, Now};

use super::attributes::{device_numbers, kind_of_mode, nid};
use super::behind::Behind;
use super::volume::Volume;

const SET_GROUP: u16 = 0o2000;

/// A name that is not too long. The kernel lets longer ones through.
fn bytes(name: &OsStr) -> Result<&[u8], Errno> {
    let name = name.as_bytes();
    if name.len() > NAME_MAX { Err(Errno::ENAMETOOLONG) } else { Ok(name) }
}

/// What a new inode has: in a directory with the set-group bit, its group (and a directory the bit).
fn new_inode(
    fs: &mut Fs<Behind>,
    now: Now,
    (uid, gid): (u32, u32),
    dir: Nid,
    mode: u32,
    is_dir: bool,
) -> Result<NewInode, FsError> {
    let parent = fs.attributes(now, dir)?;
    let mut new = NewInode { permissions: mode as u16 & 0o7777, uid, gid };
    if parent.mode & SET_GROUP != 0 {
        new.gid = parent.gid;
        if is_dir {
            new.permissions |= SET_GROUP;
        }
    }
    Ok(new)
}

fn owner(of: &Request) -> (u32, u32) {
    (of.uid(), of.gid())
}

/// What a name names; none: nothing.
pub(super) fn lookup(
    volume: &Volume,
    dir: INodeNo,
    name: &OsStr,
) -> Result<Option<Attributes>, Errno> {
    let (dir, name) = (nid(dir)?, bytes(name)?);
    let mut nothing = false;
    let found = volume.tell(|fs, now| {
        let found = fs.lookup(now, dir, name);
        nothing = matches!(found, Err(FsError::NotFound));
        found
    });
    if nothing { Ok(None) } else { found.map(Some) }
}

/// A file, device, pipe or socket.
pub(super) fn make(
    volume: &Volume,
    by: &Request,
    dir: INodeNo,
    name: &OsStr,
    mode: u32,
    device: u32,
) -> Result<Attributes, Errno> {
    let (dir, name) = (nid(dir)?, bytes(name)?);
    let kind = match kind_of_mode(mode) {
        FileType::Unknown => FileType::File,
        kind => kind,
    };
    volume.tell(|fs, now| {
        let new = new_inode(fs, now, owner(by), dir, mode, false)?;
        fs.create(now, dir, name, kind, new, device_numbers(device))
    })
}

pub(super) fn mkdir(
    volume: &Volume,
    by: &Request,
    dir: INodeNo,
    name: &OsStr,
    mode: u32,
) -> Result<Attributes, Errno> {
    let (dir, name) = (nid(dir)?, bytes(name)?);
    volume.tell(|fs, now| {
        let new = new_inode(fs, now, owner(by), dir, mode, true)?;
        fs.mkdir(now, dir, name, new)
    })
}

pub(super) fn symlink(
    volume: &Volume,
    by: &Request,
    dir: INodeNo,
    name: &OsStr,
    target: &OsStr,
) -> Result<Attributes, Errno> {
    let (dir, name) = (nid(dir)?, bytes(name)?);
    volume.tell(|fs, now| {
        let new = new_inode(fs, now, owner(by), dir, 0o777, false)?;
        fs.symlink(now, dir, name, target.as_bytes(), new)
    })
}

pub(super) fn link(
    volume: &Volume,
    ino: INodeNo,
    dir: INodeNo,
    name: &OsStr,
) -> Result<Attributes, Errno> {
    let (ino, dir, name) = (nid(ino)?, nid(dir)?, bytes(name)?);
    volume.tell(|fs, now| match fs.link(now, ino, dir, name) {
        Err(FsError::IsDirectory) => Err(FsError::Invalid("a directory has one name")),
        other => other.map(|()| ino),
    })
}

pub(super) fn unlink(volume: &Volume, dir: INodeNo, name: &OsStr) -> Result<(), Errno> {
    let (dir, name) = (nid(dir)?, bytes(name)?);
    volume.with(|fs, now| fs.unlink(now, dir, name))
}

pub(super) fn rmdir(volume: &Volume, dir: INodeNo, name: &OsStr) -> Result<(), Errno> {
    let (dir, name) = (nid(dir)?, bytes(name)?);
    volume.with(|fs, now| fs.rmdir(now, dir, name))
}

pub(super) fn rename(
    volume: &Volume,
    by: &Request,
    from: (INodeNo, &OsStr),
    to: (INodeNo, &OsStr),
    how: RenameFlags,
) -> Result<(), Errno> {
    let from = (nid(from.0)?, bytes(from.1)?);
    let to = (nid(to.0)?, bytes(to.1)?);
    let known =
        RenameFlags::RENAME_NOREPLACE | RenameFlags::RENAME_EXCHANGE | RenameFlags::RENAME_WHITEOUT;
    let unknown = how.bits() & !known.bits() != 0;
    let exchange = how.contains(RenameFlags::RENAME_EXCHANGE);
    if unknown || exchange && how != RenameFlags::RENAME_EXCHANGE {
        return Err(Errno::EINVAL);
    }
    volume.with(|fs, now| {
        if exchange {
            return fs.exchange(now, from, to);
        }
        if how.contains(RenameFlags::RENAME_NOREPLACE) {
            match fs.lookup(now, to.0, to.1) {
                Ok(_) => return Err(FsError::Exists),
                Err(FsError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        if how.contains(RenameFlags::RENAME_WHITEOUT) {
            let new = new_inode(fs, now, owner(by), from.0, 0, false)?;
            return fs.rename_and_cover(now, from, to, new);
        }
        fs.rename(now, from, to)
    })
}
