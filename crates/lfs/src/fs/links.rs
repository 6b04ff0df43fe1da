//! Links, and the life of inodes.
//!
//! Invariants: an inode has as many links as entries name it (a directory: two, and one for each
//! directory in it); one without links goes at once, or when the last holder lets it go, and then
//! is an orphan of every checkpoint in between.

use block::BlockDevice;

use super::Fs;
use crate::format::{FileType, InlineFlags, Inode};
use crate::{FsError, Nid, Now};

/// Links that an inode may have.
const LINKS_MAX: u32 = 32_000;
/// Bit of `i_advise`: the parent is not known.
const PARENT_LOST: u8 = 2;

impl<D: BlockDevice> Fs<D> {
    /// Keeps an inode without links until [`Fs::release`].
    ///
    /// # Errors
    /// [`FsError::NotFound`].
    pub fn hold(&mut self, now: Now, ino: Nid) -> Result<(), FsError> {
        self.look(now, |fs| {
            fs.inode(ino)?;
            fs.orphans.hold(ino);
            Ok(())
        })
    }

    /// Undoes one [`Fs::hold`]: an inode without links and holders goes.
    ///
    /// # Errors
    /// [`FsError::Invalid`] without a hold; what the device says.
    pub fn release(&mut self, now: Now, ino: Nid) -> Result<(), FsError> {
        let last = self.orphans.release(ino).ok_or(FsError::Invalid("nobody holds it"))?;
        if !last || !self.orphans.is_orphan(ino) || self.writable().is_err() {
            return Ok(());
        }
        let erased = self.lessen(now, |fs| {
            fs.prepare_erase(ino)?;
            fs.erase(ino)
        });
        if matches!(erased, Err(FsError::Again)) {
            self.orphans.hold(ino);
        }
        erased
    }

    /// Refuses one link more than an inode may have.
    pub(super) fn more_links(&mut self, ino: Nid) -> Result<(), FsError> {
        let fits = self.inode(ino)?.links() < LINKS_MAX;
        if fits { Ok(()) } else { Err(FsError::TooManyLinks) }
    }

    pub(super) fn add_links(&mut self, ino: Nid, by: i32) -> Result<(), FsError> {
        let stamp = self.now.wall;
        let inode = self.node_mut(ino)?;
        inode.set_links(inode.links().saturating_add_signed(by));
        inode.set_time(1, stamp);
        Ok(())
    }

    /// Its entry cannot be recovered from the inode alone from now on to the next checkpoint.
    pub(super) fn lose_parent(&mut self, ino: Nid) -> Result<(), FsError> {
        self.disk.begun();
        self.epoch.of(ino).renamed = true;
        let inode = self.node_mut(ino)?;
        let advise = inode.advise() | PARENT_LOST;
        inode.set_advise(if inode.links() > 1 { advise } else { advise & !PARENT_LOST });
        Ok(())
    }

    pub(super) fn drop_link(&mut self, ino: Nid) -> Result<(), FsError> {
        self.add_links(ino, -1)?;
        self.epoch.of(ino).renamed = true;
        if self.inode(ino)?.links() > 0 {
            return Ok(());
        }
        self.vanish(ino)
    }

    pub(super) fn drop_dir(&mut self, ino: Nid) -> Result<(), FsError> {
        self.node_mut(ino)?.set_links(0);
        self.vanish(ino)
    }

    /// Refuses, before anything has changed, what would be one orphan more than a checkpoint holds.
    pub(super) fn expect_orphan_room(&self, ino: Nid) -> Result<(), FsError> {
        let more = self.orphans.is_held(ino) && self.orphans.len() >= self.orphan_room();
        if more { Err(FsError::NoSpace) } else { Ok(()) }
    }

    fn vanish(&mut self, ino: Nid) -> Result<(), FsError> {
        if !self.orphans.is_held(ino) {
            return self.erase(ino);
        }
        self.orphans.add(ino);
        Ok(())
    }

    /// Frees an inode and everything that is its.
    pub(super) fn erase(&mut self, ino: Nid) -> Result<(), FsError> {
        self.pages.drop_all(ino);
        let inode = self.inode(ino)?;
        let (inline, xattrs) = (inode.inline(), Nid(inode.xattr_nid()));
        let kind = FileType::of_mode(inode.mode());
        let stored = [FileType::File, FileType::Directory, FileType::Symlink].contains(&kind);
        if stored && inline & (InlineFlags::DATA | InlineFlags::DENTRY) == 0 {
            self.cut_blocks(ino, 0)?;
        }
        if xattrs != Nid::NONE {
            self.free_node(xattrs)?;
        }
        self.free_node(ino)?;
        self.orphans.remove(ino);
        self.epoch.forget(ino);
        Ok(())
    }
}
