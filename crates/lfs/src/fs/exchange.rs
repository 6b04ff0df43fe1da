//! Renames that do more than give a name: two names change places, or what is left behind is marked.
//!
//! Invariants: those of the name space (`names`); each is one operation, so that no checkpoint lies
//! between its parts.

use block::BlockDevice;

use super::Fs;
use super::dir::check_name;
use super::names::{ENTRY_COST, NewInode};
use crate::format::{FileType, Inode};
use crate::{FsError, Nid, Now};

/// A name in a directory, and what it names.
type Named<'a> = (Nid, &'a [u8], Nid, FileType);

impl<D: BlockDevice> Fs<D> {
    /// Lets two names change what they name.
    ///
    /// # Errors
    /// As [`Fs::rename`]; [`FsError::NotFound`] if either is not there.
    pub fn exchange(
        &mut self,
        now: Now,
        one: (Nid, &[u8]),
        other: (Nid, &[u8]),
    ) -> Result<(), FsError> {
        check_name(one.1)?;
        check_name(other.1)?;
        self.change(now, |fs| {
            let (a, b) = (fs.named(one)?, fs.named(other)?);
            if a.2 == b.2 {
                return Ok(());
            }
            for (moved, to) in [(a, b), (b, a)] {
                if moved.3 == FileType::Directory && fs.is_inside(to.0, moved.2)? {
                    return Err(FsError::Invalid("a directory cannot be moved into itself"));
                }
            }
            // Entries inside an inode may have to move to blocks.
            fs.room(4 * ENTRY_COST, 4 * ENTRY_COST)?;
            fs.aim_entry(a.0, a.1, b.2, b.3)?;
            fs.aim_entry(b.0, b.1, a.2, a.3)?;
            fs.moved_to(a, b)?;
            fs.moved_to(b, a)?;
            fs.touch_dir(a.0)?;
            fs.touch_dir(b.0)
        })
    }

    /// As [`Fs::rename`], and leaves a whiteout behind: a character device 0, 0.
    ///
    /// # Errors
    /// As [`Fs::rename`] and [`Fs::create`].
    pub fn rename_and_cover(
        &mut self,
        now: Now,
        from: (Nid, &[u8]),
        to: (Nid, &[u8]),
        new: NewInode,
    ) -> Result<(), FsError> {
        self.change(now, |fs| {
            // All room is looked at before the first change.
            fs.room(3 * ENTRY_COST + 2, 3 * ENTRY_COST + 1)?;
            let target = fs.find_entry(to.0, to.1)?.map(|found| found.ino);
            if target == Some(fs.named(from)?.2) {
                return Ok(());
            }
            fs.rename_now(from, to)?;
            let ino = fs.make(from.0, from.1, FileType::Character, new)?;
            fs.node_mut(ino)?.set_rdev(0, 0);
            Ok(())
        })
    }

    fn named<'a>(&mut self, (dir, name): (Nid, &'a [u8])) -> Result<Named<'a>, FsError> {
        self.expect_dir(dir)?;
        let ino = self.find_entry(dir, name)?.ok_or(FsError::NotFound)?.ino;
        let kind = FileType::of_mode(self.inode(ino)?.mode());
        Ok((dir, name, ino, kind))
    }

    /// What `from` named is named by `to` now.
    fn moved_to(&mut self, from: Named<'_>, to: Named<'_>) -> Result<(), FsError> {
        let (ino, is_dir) = (from.2, from.3 == FileType::Directory);
        self.epoch.of(from.0).moved_out = true;
        if is_dir && from.0 != to.0 {
            self.aim_entry(ino, b"..", to.0, FileType::Directory)?;
            self.add_links(from.0, -1)?;
            self.add_links(to.0, 1)?;
        }
        let stamp = self.now.wall;
        let inode = self.node_mut(ino)?;
        inode.set_parent(to.0.0);
        inode.set_name(to.1);
        inode.set_time(1, stamp);
        self.lose_parent(ino)
    }
}
