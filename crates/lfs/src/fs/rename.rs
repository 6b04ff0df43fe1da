//! Other names: given, exchanged, or given with a mark left behind.
//!
//! Invariants: those of the name space (`names`); each is one operation, so that no checkpoint lies
//! between its parts; no directory comes to lie inside itself.

use block::BlockDevice;

use super::Fs;
use super::dir::check_name;
use super::names::{ENTRY_COST, NewInode};
use crate::format::{FileType, Inode};
use crate::{FsError, Nid, Now};

/// A name in a directory, and what it names.
type Named<'a> = (Nid, &'a [u8], Nid, FileType);

impl<D: BlockDevice> Fs<D> {
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

    fn rename_now(&mut self, from: (Nid, &[u8]), to: (Nid, &[u8])) -> Result<(), FsError> {
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
        self.prepare_rename(from, to, (ino, is_dir), old)?;
        self.rename_checked(from, to, (ino, kind), old)
    }

    fn prepare_rename(
        &mut self,
        from: (Nid, &[u8]),
        to: (Nid, &[u8]),
        (ino, is_dir): (Nid, bool),
        old: Option<Nid>,
    ) -> Result<(), FsError> {
        self.prepare_entry(from.0, from.1)?;
        self.prepare_entry(to.0, to.1)?;
        if is_dir {
            self.prepare_entry(ino, b"..")?;
        }
        old.map_or(Ok(()), |old| self.prepare_erase(old))
    }

    fn rename_checked(
        &mut self,
        from: (Nid, &[u8]),
        to: (Nid, &[u8]),
        (ino, kind): (Nid, FileType),
        old: Option<Nid>,
    ) -> Result<(), FsError> {
        match old {
            Some(_) => self.aim_entry(to.0, to.1, ino, kind)?,
            None => self.add_entry(to.0, to.1, ino, kind)?,
        }
        self.remove_entry(from.0, from.1)?;
        self.moved((ino, kind), from.0, to)?;
        match old {
            Some(old) if kind == FileType::Directory => {
                self.add_links(to.0, -1)?;
                self.drop_dir(old)?;
            }
            Some(old) => self.drop_link(old)?,
            None => {}
        }
        self.touch_dir(from.0)?;
        self.touch_dir(to.0)
    }

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
            for (moved, to) in [(a, b), (b, a)] {
                let is_dir = moved.3 == FileType::Directory;
                fs.prepare_rename((moved.0, moved.1), (to.0, to.1), (moved.2, is_dir), None)?;
            }
            fs.aim_entry(a.0, a.1, b.2, b.3)?;
            fs.aim_entry(b.0, b.1, a.2, a.3)?;
            fs.moved((a.2, a.3), a.0, (b.0, b.1))?;
            fs.moved((b.2, b.3), b.0, (a.0, a.1))?;
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
            fs.room_to_add(3 * ENTRY_COST + 2, 3 * ENTRY_COST + 1)?;
            let target = fs.find_entry(to.0, to.1)?.map(|found| found.ino);
            if target == Some(fs.named(from)?.2) {
                return Ok(());
            }
            fs.nat.prepare_free(&mut fs.disk, &fs.layout)?;
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

    fn is_inside(&mut self, dir: Nid, ancestor: Nid) -> Result<bool, FsError> {
        let mut at = dir;
        // A path is no longer than there are inodes; anything else is a loop.
        for _ in 0..=self.counts.inodes() {
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

    /// An inode that a directory named is named by `to` now.
    fn moved(
        &mut self,
        (ino, kind): (Nid, FileType),
        from: Nid,
        to: (Nid, &[u8]),
    ) -> Result<(), FsError> {
        self.epoch.of(from).moved_out = true;
        if kind == FileType::Directory && from != to.0 {
            self.aim_entry(ino, b"..", to.0, kind)?;
            self.add_links(from, -1)?;
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
