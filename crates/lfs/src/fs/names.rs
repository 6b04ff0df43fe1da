//! The name space: names looked up, made and taken away (`rename` gives others).
//!
//! Invariants: everything is looked at, and room is made, before the first change; a directory's
//! times say when its entries changed.

use block::BlockDevice;

use super::Fs;
use super::dir::{DirEntry, check_name};
use crate::format::{FileType, Inode};
use crate::{FsError, Nid, Now};

/// Blocks and nodes that adding an entry may need: a block, and four nodes on the way to it.
pub(super) const ENTRY_COST: u64 = 5;

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
            fs.room_to_add(ENTRY_COST + 10, 12)?;
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
            fs.room_to_add(ENTRY_COST, ENTRY_COST)?;
            let kind = FileType::of_mode(fs.inode(ino)?.mode());
            fs.prepare_entry(dir, name)?;
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
            fs.prepare_entry(dir, name)?;
            fs.prepare_erase(ino)?;
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
            fs.prepare_entry(dir, name)?;
            fs.prepare_erase(ino)?;
            fs.remove_entry(dir, name)?;
            // What was in it at the checkpoint may have moved out: a file in its place is no
            // reason to let that go.
            fs.epoch.of(dir).moved_out = true;
            fs.touch_dir(dir)?;
            fs.add_links(dir, -1)?;
            fs.drop_dir(ino)
        })
    }

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
        self.room_to_add(ENTRY_COST + 2, ENTRY_COST + 1)?;
        self.prepare_entry(dir, name)?;
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
        // Roll-forward may need them though they are not needed now: the name may have the place of
        // one that was removed, which comes back.
        self.epoch.gain(ENTRY_COST);
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
}
