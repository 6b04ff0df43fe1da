//! Extended attributes: one string, the end of an inode (if it has room set apart) and then a node.
//!
//! Invariant: the node is there exactly if something is written behind the inode's part.

use block::BlockDevice;

use super::Fs;
use crate::format::xattr::{Xattr, read, write};
use crate::format::{Inode, XATTR_OFFSET};
use crate::{FsError, Nid, Now};

/// Bytes that a node has for them.
const NODE_ROOM: usize = 4072;

impl<D: BlockDevice> Fs<D> {
    /// The value of an attribute. `index` is its name space: 1 user, 2 and 3 POSIX ACLs, 4
    /// trusted, 6 security.
    ///
    /// # Errors
    /// [`FsError::NoAttribute`], [`FsError::NotFound`], and what reading the media says.
    pub fn xattr(
        &mut self,
        now: Now,
        ino: Nid,
        index: u8,
        name: &[u8],
    ) -> Result<Vec<u8>, FsError> {
        self.look(now, |fs| {
            let all = fs.read_xattrs(ino)?;
            let found = all.into_iter().find(|attr| attr.index == index && attr.name == name);
            Ok(found.ok_or(FsError::NoAttribute)?.value)
        })
    }

    /// All attributes of an inode.
    ///
    /// # Errors
    /// As [`Fs::xattr`].
    pub fn xattrs(&mut self, now: Now, ino: Nid) -> Result<Vec<Xattr>, FsError> {
        self.look(now, |fs| fs.read_xattrs(ino))
    }

    /// Sets an attribute, or takes it away (`None`).
    ///
    /// # Errors
    /// [`FsError::NoAttribute`] when it is to go and is not there, [`FsError::NoSpace`] when all
    /// together do not fit into their node, and what the device says.
    pub fn set_xattr(
        &mut self,
        now: Now,
        ino: Nid,
        index: u8,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), FsError> {
        if name.is_empty() || name.len() > 255 || index == 0 {
            return Err(FsError::Invalid("the name of an attribute has 1 to 255 bytes"));
        }
        self.change(now, |fs| {
            let mut all = fs.read_xattrs(ino)?;
            let before = all.len();
            all.retain(|attr| attr.index != index || attr.name != name);
            match value {
                Some(value) if value.len() > NODE_ROOM => return Err(FsError::NoSpace),
                Some(value) => {
                    all.push(Xattr { index, name: name.to_vec(), value: value.to_vec() });
                }
                None if all.len() == before => return Err(FsError::NoAttribute),
                None => {}
            }
            fs.write_xattrs(ino, &all)
        })
    }

    fn xattr_string(&mut self, ino: Nid) -> Result<Vec<u8>, FsError> {
        self.inode(ino)?;
        let mut inode = self.node(ino)?.clone();
        let mut bytes = inode.inline_xattrs().map(|part| part.to_vec()).unwrap_or_default();
        let nid = Nid(inode.xattr_nid());
        if nid != Nid::NONE {
            let mut node = self.node(nid)?.clone();
            if node.ino() != ino {
                return Err(FsError::Corrupt("a file's attributes are another file's"));
            }
            bytes.extend_from_slice(node.xattr_bytes());
        }
        Ok(bytes)
    }

    fn read_xattrs(&mut self, ino: Nid) -> Result<Vec<Xattr>, FsError> {
        let bytes = self.xattr_string(ino)?;
        read(&bytes).ok_or(FsError::Corrupt("extended attributes run out of their room"))
    }

    fn write_xattrs(&mut self, ino: Nid, all: &[Xattr]) -> Result<(), FsError> {
        let own = self.node(ino)?.clone().inline_xattrs().map_or(0, |part| part.len());
        let old = Nid(self.inode(ino)?.xattr_nid());
        let inside = write(all, own);
        let (bytes, node) = match inside {
            _ if all.is_empty() => (vec![0; own], false),
            Some(bytes) => (bytes, false),
            None => (write(all, own + NODE_ROOM).ok_or(FsError::NoSpace)?, true),
        };
        if old != Nid::NONE {
            self.nat_entry(old)?;
        }
        if node && old == Nid::NONE {
            self.room_to_add(2, 1)?;
            let nid = self.new_node(Some(ino), XATTR_OFFSET)?;
            self.node_mut(ino)?.set_xattr_nid(nid.0);
        }
        if !node && old != Nid::NONE {
            self.free_node(old)?;
            self.node_mut(ino)?.set_xattr_nid(0);
        }
        let stamp = self.now.wall;
        let inode = self.node_mut(ino)?;
        if let Some(part) = inode.inline_xattrs() {
            part.copy_from_slice(&bytes[..own]);
        }
        inode.set_time(1, stamp);
        let nid = Nid(inode.xattr_nid());
        if node {
            self.node_mut(nid)?.xattr_bytes().copy_from_slice(&bytes[own..]);
        }
        self.epoch.of(ino).xattrs = true;
        Ok(())
    }
}
