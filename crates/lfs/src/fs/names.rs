//! The name space: entries, links and the life of inodes.
//!
//! Invariants: an inode has as many links as entries name it (a directory: two, and one for each
//! directory in it); one without links goes at once, or when the last holder lets it go, and then
//! is an orphan of every checkpoint in between.

use block::{BlockDevice, Bytes};

use super::Fs;
use super::dir::{DirEntry, check_name};
use crate::format::{FileType, InlineFlags, Inode};
use crate::{FsError, Nid, Now, Stamp};

/// Links that an inode may have.
const LINKS_MAX: u32 = 32_000;
/// Blocks and nodes that adding an entry may need: a block, and four nodes on the way to it.
pub(super) const ENTRY_COST: u64 = 5;
/// Bit of `i_advise`: the parent is not known.
const PARENT_LOST: u8 = 2;

/// What is chosen of a new inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewInode {
    /// Permissions (the type is added).
    pub permissions: u16,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

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

fn mode_bits(kind: FileType) -> u16 {
    match kind {
        FileType::File => 0o100_000,
        FileType::Directory => 0o040_000,
        FileType::Character => 0o020_000,
        FileType::Block => 0o060_000,
        FileType::Fifo => 0o010_000,
        FileType::Socket => 0o140_000,
        FileType::Symlink => 0o120_000,
        FileType::Unknown => 0,
    }
}

impl<D: BlockDevice> Fs<D> {
    /// What a name in a directory names. `.` and `..` are names here.
    ///
    /// # Errors
    /// [`FsError::NotFound`], [`FsError::NotDirectory`], and what reading the media says.
    pub fn lookup(&mut self, now: Now, dir: Nid, name: &[u8]) -> Result<Nid, FsError> {
        self.look(now, |fs| {
            fs.expect_dir(dir)?;
            Ok(fs.find_entry(dir, name)?.ok_or(FsError::NotFound)?.ino)
        })
    }

    /// All entries of a directory, `.` and `..` too.
    ///
    /// # Errors
    /// As [`Fs::lookup`].
    pub fn readdir(&mut self, now: Now, dir: Nid) -> Result<Vec<DirEntry>, FsError> {
        self.look(now, |fs| {
            fs.expect_dir(dir)?;
            fs.list(dir)
        })
    }

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

    /// Makes a file, device (with its number), pipe or socket.
    ///
    /// # Errors
    /// [`FsError::Exists`], [`FsError::NoSpace`], [`FsError::NameTooLong`], the errors of
    /// [`Fs::lookup`], and what the device says.
    pub fn create(
        &mut self,
        now: Now,
        dir: Nid,
        name: &[u8],
        kind: FileType,
        new: NewInode,
        device: (u32, u32),
    ) -> Result<Nid, FsError> {
        if [FileType::Directory, FileType::Symlink, FileType::Unknown].contains(&kind) {
            return Err(FsError::Invalid("directories and symlinks are made otherwise"));
        }
        self.change(now, |fs| {
            let ino = fs.make(dir, name, kind, new)?;
            if [FileType::Block, FileType::Character].contains(&kind) {
                fs.node_mut(ino)?.set_rdev(device.0, device.1);
            }
            Ok(ino)
        })
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// As [`Fs::create`]; [`FsError::TooManyLinks`].
    pub fn mkdir(
        &mut self,
        now: Now,
        dir: Nid,
        name: &[u8],
        new: NewInode,
    ) -> Result<Nid, FsError> {
        self.change(now, |fs| {
            fs.expect_dir(dir)?;
            fs.more_links(dir)?;
            let ino = fs.make(dir, name, FileType::Directory, new)?;
            fs.add_dots(ino, dir)?;
            fs.node_mut(ino)?.set_links(2);
            fs.add_links(dir, 1)?;
            Ok(ino)
        })
    }

    /// Makes a symlink.
    ///
    /// # Errors
    /// As [`Fs::create`]; [`FsError::NameTooLong`] for a target of more than 4,095 bytes.
    pub fn symlink(
        &mut self,
        now: Now,
        dir: Nid,
        name: &[u8],
        target: &[u8],
        new: NewInode,
    ) -> Result<Nid, FsError> {
        if target.is_empty() || target.len() > 4095 {
            return Err(FsError::NameTooLong);
        }
        self.change(now, |fs| {
            fs.room(ENTRY_COST + 10, 12)?;
            let ino = fs.make(dir, name, FileType::Symlink, new)?;
            fs.write_contents(ino, 0, target)?;
            Ok(ino)
        })
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// As [`Fs::create`]; [`FsError::IsDirectory`], [`FsError::TooManyLinks`].
    pub fn link(&mut self, now: Now, ino: Nid, dir: Nid, name: &[u8]) -> Result<(), FsError> {
        check_name(name)?;
        self.change(now, |fs| {
            fs.expect_dir(dir)?;
            if fs.is_dir(ino)? {
                return Err(FsError::IsDirectory);
            }
            if fs.inode(ino)?.links() == 0 {
                return Err(FsError::NotFound);
            }
            fs.more_links(ino)?;
            if fs.find_entry(dir, name)?.is_some() {
                return Err(FsError::Exists);
            }
            fs.room(ENTRY_COST, ENTRY_COST)?;
            let kind = FileType::of_mode(fs.inode(ino)?.mode());
            fs.add_entry(dir, name, ino, kind)?;
            fs.add_links(ino, 1)?;
            fs.touch_dir(dir)?;
            fs.lose_parent(ino)
        })
    }

    /// Takes the name of a file away.
    ///
    /// # Errors
    /// [`FsError::IsDirectory`], the errors of [`Fs::lookup`], and what the device says.
    pub fn unlink(&mut self, now: Now, dir: Nid, name: &[u8]) -> Result<(), FsError> {
        check_name(name)?;
        self.lessen(now, |fs| {
            fs.expect_dir(dir)?;
            let ino = fs.find_entry(dir, name)?.ok_or(FsError::NotFound)?.ino;
            if fs.is_dir(ino)? {
                return Err(FsError::IsDirectory);
            }
            fs.expect_orphan_room(ino)?;
            fs.remove_entry(dir, name)?;
            fs.touch_dir(dir)?;
            if fs.inode(ino)?.links() > 1 {
                fs.epoch.of(dir).moved_out = true;
            }
            fs.drop_link(ino)
        })
    }

    /// Takes an empty directory away.
    ///
    /// # Errors
    /// [`FsError::NotEmpty`], the errors of [`Fs::lookup`], and what the device says.
    pub fn rmdir(&mut self, now: Now, dir: Nid, name: &[u8]) -> Result<(), FsError> {
        check_name(name)?;
        self.lessen(now, |fs| {
            fs.expect_dir(dir)?;
            let ino = fs.find_entry(dir, name)?.ok_or(FsError::NotFound)?.ino;
            fs.expect_dir(ino)?;
            if !fs.is_empty_dir(ino)? {
                return Err(FsError::NotEmpty);
            }
            fs.expect_orphan_room(ino)?;
            fs.remove_entry(dir, name)?;
            // What was in it at the checkpoint may have moved out: a file in its place is no
            // reason to let that go.
            fs.epoch.of(dir).moved_out = true;
            fs.touch_dir(dir)?;
            fs.add_links(dir, -1)?;
            fs.drop_dir(ino)
        })
    }

    /// Gives something another name; what had that name goes (a directory must be empty).
    ///
    /// # Errors
    /// As [`Fs::unlink`] and [`Fs::rmdir`]; [`FsError::Invalid`] for a directory into itself.
    pub fn rename(
        &mut self,
        now: Now,
        from: (Nid, &[u8]),
        to: (Nid, &[u8]),
    ) -> Result<(), FsError> {
        self.change(now, |fs| fs.rename_now(from, to))
    }

    pub(super) fn rename_now(
        &mut self,
        from: (Nid, &[u8]),
        to: (Nid, &[u8]),
    ) -> Result<(), FsError> {
        check_name(from.1)?;
        check_name(to.1)?;
        self.expect_dir(from.0)?;
        self.expect_dir(to.0)?;
        let ino = self.find_entry(from.0, from.1)?.ok_or(FsError::NotFound)?.ino;
        let kind = FileType::of_mode(self.inode(ino)?.mode());
        let old = self.find_entry(to.0, to.1)?.map(|found| found.ino);
        if old == Some(ino) {
            return Ok(());
        }
        let is_dir = kind == FileType::Directory;
        if is_dir && self.is_inside(to.0, ino)? {
            return Err(FsError::Invalid("a directory cannot be moved into itself"));
        }
        if let Some(old) = old {
            match (is_dir, self.is_dir(old)?) {
                (true, false) => return Err(FsError::NotDirectory),
                (false, true) => return Err(FsError::IsDirectory),
                (true, true) if !self.is_empty_dir(old)? => return Err(FsError::NotEmpty),
                _ => self.expect_orphan_room(old)?,
            }
        }
        let moved_dir = is_dir && from.0 != to.0;
        if moved_dir && old.is_none() {
            self.more_links(to.0)?;
        }
        self.room(2 * ENTRY_COST, 2 * ENTRY_COST)?;
        self.rename_checked(from, to, (ino, kind), old)
    }

    fn rename_checked(
        &mut self,
        from: (Nid, &[u8]),
        to: (Nid, &[u8]),
        (ino, kind): (Nid, FileType),
        old: Option<Nid>,
    ) -> Result<(), FsError> {
        let is_dir = kind == FileType::Directory;
        match old {
            Some(_) => self.aim_entry(to.0, to.1, ino, kind)?,
            None => self.add_entry(to.0, to.1, ino, kind)?,
        }
        self.remove_entry(from.0, from.1)?;
        self.epoch.of(from.0).moved_out = true;
        if is_dir && from.0 != to.0 {
            self.aim_entry(ino, b"..", to.0, FileType::Directory)?;
            self.add_links(from.0, -1)?;
            self.add_links(to.0, 1)?;
        }
        if let Some(old) = old {
            if is_dir {
                self.add_links(to.0, -1)?;
                self.drop_dir(old)?;
            } else {
                self.drop_link(old)?;
            }
        }
        self.touch_dir(from.0)?;
        self.touch_dir(to.0)?;
        let stamp = self.now.wall;
        let inode = self.node_mut(ino)?;
        inode.set_parent(to.0.0);
        inode.set_name(to.1);
        inode.set_time(1, stamp);
        self.lose_parent(ino)
    }

    /// Keeps an inode without links until [`Fs::release`].
    ///
    /// # Errors
    /// [`FsError::NotFound`].
    pub fn hold(&mut self, now: Now, ino: Nid) -> Result<(), FsError> {
        self.look(now, |fs| {
            fs.inode(ino)?;
            *fs.holders.entry(ino).or_insert(0) += 1;
            Ok(())
        })
    }

    /// Undoes one [`Fs::hold`]: an inode without links and holders goes.
    ///
    /// # Errors
    /// [`FsError::Invalid`] without a hold; what the device says.
    pub fn release(&mut self, now: Now, ino: Nid) -> Result<(), FsError> {
        let count = self.holders.get_mut(&ino).ok_or(FsError::Invalid("nobody holds it"))?;
        *count -= 1;
        if *count > 0 {
            return Ok(());
        }
        self.holders.remove(&ino);
        if !self.orphans.contains(&ino) || self.writable().is_err() {
            return Ok(());
        }
        self.lessen(now, |fs| fs.erase(ino))
    }

    // --- Parts

    pub(super) fn make(
        &mut self,
        dir: Nid,
        name: &[u8],
        kind: FileType,
        new: NewInode,
    ) -> Result<Nid, FsError> {
        check_name(name)?;
        self.expect_dir(dir)?;
        if self.inode(dir)?.links() == 0 {
            return Err(FsError::NotFound);
        }
        if self.find_entry(dir, name)?.is_some() {
            return Err(FsError::Exists);
        }
        self.room(ENTRY_COST + 2, ENTRY_COST + 1)?;
        let ino = self.nat.find_free(&mut self.disk, &self.layout)?.ok_or(FsError::NoSpace)?;
        self.new_node_at(ino, ino, 0, true)?;
        let (stamp, generation) = (self.now.wall, self.generation());
        let node = self.node_mut(ino)?;
        node.set_cold(kind != FileType::Directory);
        node.set_mode(mode_bits(kind) | new.permissions & 0o7777);
        node.set_uid(new.uid);
        node.set_gid(new.gid);
        node.set_links(1);
        node.set_blocks(1);
        (0..3).for_each(|i| node.set_time(i, stamp));
        node.set_generation(generation);
        node.set_parent(dir.0);
        node.set_name(name);
        let epoch = self.epoch.of(ino);
        epoch.created = true;
        self.add_entry(dir, name, ino, kind)?;
        self.touch_dir(dir)?;
        Ok(ino)
    }

    pub(super) fn touch_dir(&mut self, dir: Nid) -> Result<(), FsError> {
        let stamp = self.now.wall;
        let inode = self.node_mut(dir)?;
        inode.set_time(1, stamp);
        inode.set_time(2, stamp);
        Ok(())
    }

    fn more_links(&mut self, ino: Nid) -> Result<(), FsError> {
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
        self.epoch.of(ino).renamed = true;
        let inode = self.node_mut(ino)?;
        let advise = inode.advise() | PARENT_LOST;
        inode.set_advise(if inode.links() > 1 { advise } else { advise & !PARENT_LOST });
        Ok(())
    }

    pub(super) fn is_inside(&mut self, dir: Nid, ancestor: Nid) -> Result<bool, FsError> {
        let mut at = dir;
        // A path is no longer than there are inodes; anything else is a loop.
        for _ in 0..=self.counts.inodes {
            if at == ancestor {
                return Ok(true);
            }
            let up = self.find_entry(at, b"..")?;
            let up = up.ok_or(FsError::Corrupt("a directory without a parent"))?.ino;
            if at == Nid::ROOT || up == at {
                return Ok(false);
            }
            at = up;
        }
        Err(FsError::Corrupt("directories form a loop"))
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
    fn expect_orphan_room(&self, ino: Nid) -> Result<(), FsError> {
        let more = self.holders.contains_key(&ino) && self.orphans.len() >= self.orphan_room();
        if more { Err(FsError::NoSpace) } else { Ok(()) }
    }

    fn vanish(&mut self, ino: Nid) -> Result<(), FsError> {
        if !self.holders.contains_key(&ino) {
            return self.erase(ino);
        }
        self.orphans.insert(ino);
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
        self.orphans.remove(&ino);
        self.epoch.forget(ino);
        Ok(())
    }
}
