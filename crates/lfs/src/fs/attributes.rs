//! What is known of an inode beside its contents: owner, permissions, times.
//!
//! Invariant: whatever is set moves the time of change, but for the time of access set alone.

use block::{BlockDevice, Bytes};

use super::Fs;
use crate::format::{FileType, Inode};
use crate::{FsError, Nid, Now, Stamp};

/// What is known of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct Attributes {
    pub ino: Nid,
    pub mode: u16,
    pub kind: FileType,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    pub size: Bytes,
    /// 4 KiB blocks, nodes included.
    pub blocks: u64,
    pub accessed: Stamp,
    pub changed: Stamp,
    pub modified: Stamp,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// Tells it from other inodes that had its number.
    pub generation: u32,
}

/// What to set of an inode; `None` stays.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs)]
pub struct SetAttributes {
    pub permissions: Option<u16>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub accessed: Option<Stamp>,
    pub modified: Option<Stamp>,
    /// None: when it is set.
    pub changed: Option<Stamp>,
}

impl<D: BlockDevice> Fs<D> {
    /// What is known of an inode.
    ///
    /// # Errors
    /// [`FsError::NotFound`], and what reading the media says.
    pub fn attributes(&mut self, now: Now, ino: Nid) -> Result<Attributes, FsError> {
        self.look(now, |fs| {
            let inode = fs.inode(ino)?;
            let [accessed, changed, modified] = inode.times();
            let kind = FileType::of_mode(inode.mode());
            let is_device = [FileType::Block, FileType::Character].contains(&kind);
            Ok(Attributes {
                ino,
                mode: inode.mode(),
                kind,
                uid: inode.uid(),
                gid: inode.gid(),
                links: inode.links(),
                size: Bytes(inode.size()),
                blocks: inode.blocks(),
                accessed,
                changed,
                modified,
                device: if is_device { inode.rdev() } else { (0, 0) },
                generation: inode.generation(),
            })
        })
    }

    /// Sets attributes.
    ///
    /// # Errors
    /// As [`Fs::attributes`].
    pub fn set_attributes(
        &mut self,
        now: Now,
        ino: Nid,
        set: SetAttributes,
    ) -> Result<(), FsError> {
        self.lessen(now, |fs| {
            fs.inode(ino)?;
            let inode = fs.node_mut(ino)?;
            if let Some(permissions) = set.permissions {
                inode.set_mode(inode.mode() & 0o170_000 | permissions & 0o7777);
            }
            set.uid.into_iter().for_each(|uid| inode.set_uid(uid));
            set.gid.into_iter().for_each(|gid| inode.set_gid(gid));
            set.accessed.into_iter().for_each(|stamp| inode.set_time(0, stamp));
            set.modified.into_iter().for_each(|stamp| inode.set_time(2, stamp));
            inode.set_time(1, set.changed.unwrap_or(now.wall));
            Ok(())
        })
    }

    /// Sets the time of access; no other time follows.
    ///
    /// # Errors
    /// As [`Fs::attributes`].
    pub fn set_accessed(&mut self, now: Now, ino: Nid, at: Stamp) -> Result<(), FsError> {
        self.lessen(now, |fs| {
            fs.inode(ino)?;
            fs.node_mut(ino)?.set_time(0, at);
            Ok(())
        })
    }
}
