//! Extended attributes: `user`, `trusted` and `security`. ACLs are not kept: they are refused.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{Errno, INodeNo, ReplyXattr};
use lfs::FsError;
use rustix::fs::XattrFlags;

use super::attributes::nid;
use super::volume::Volume;

/// Prefixes, and the numbers they have on media.
const SPACES: [(&str, u8); 3] = [("user.", 1), ("trusted.", 4), ("security.", 6)];

fn split(name: &OsStr) -> Result<(u8, &[u8]), Errno> {
    let name = name.as_bytes();
    let found = SPACES
        .iter()
        .find_map(|(prefix, index)| Some((*index, name.strip_prefix(prefix.as_bytes())?)));
    let found = found.ok_or(Errno::EOPNOTSUPP)?;
    if found.1.is_empty() { Err(Errno::EINVAL) } else { Ok(found) }
}

pub(super) fn get(volume: &Volume, ino: INodeNo, name: &OsStr) -> Result<Vec<u8>, Errno> {
    let (ino, (index, name)) = (nid(ino)?, split(name)?);
    volume.with(|fs, now| fs.xattr(now, ino, index, name))
}

pub(super) fn set(
    volume: &Volume,
    ino: INodeNo,
    name: &OsStr,
    value: &[u8],
    flags: i32,
) -> Result<(), Errno> {
    let (ino, (index, name)) = (nid(ino)?, split(name)?);
    let flags = XattrFlags::from_bits_retain(flags as u32);
    volume.with(|fs, now| {
        let there = match fs.xattr(now, ino, index, name) {
            Ok(_) => true,
            Err(FsError::NoAttribute) => false,
            Err(error) => return Err(error),
        };
        if there && flags.contains(XattrFlags::CREATE) {
            return Err(FsError::Exists);
        }
        if !there && flags.contains(XattrFlags::REPLACE) {
            return Err(FsError::NoAttribute);
        }
        fs.set_xattr(now, ino, index, name, Some(value))
    })
}

pub(super) fn remove(volume: &Volume, ino: INodeNo, name: &OsStr) -> Result<(), Errno> {
    let (ino, (index, name)) = (nid(ino)?, split(name)?);
    volume.with(|fs, now| fs.set_xattr(now, ino, index, name, None))
}

/// Names, each ended by a zero; those of `trusted` for root only.
pub(super) fn list(volume: &Volume, ino: INodeNo, root: bool) -> Result<Vec<u8>, Errno> {
    let ino = nid(ino)?;
    let all = volume.with(|fs, now| fs.xattrs(now, ino))?;
    let mut names = Vec::new();
    for attr in all {
        let space = SPACES.iter().find(|(_, index)| *index == attr.index);
        let Some((prefix, _)) = space.filter(|(prefix, _)| root || *prefix != "trusted.") else {
            continue;
        };
        names.extend_from_slice(prefix.as_bytes());
        names.extend_from_slice(&attr.name);
        names.push(0);
    }
    Ok(names)
}

/// Answers with bytes, or with how many there are if the caller has no room for any.
pub(super) fn answer(found: Result<Vec<u8>, Errno>, size: u32, reply: ReplyXattr) {
    match found {
        Ok(bytes) if size == 0 => reply.size(bytes.len() as u32),
        Ok(bytes) if bytes.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(bytes) => reply.data(&bytes),
        Err(error) => reply.error(error),
    }
}
