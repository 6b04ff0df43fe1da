//! Directories: a hash table of levels, each with twice as many buckets as the one before.
//!
//! Invariants: a name is in one bucket of one level; the directory's depth covers its level; its
//! size covers its highest block. Entries inside an inode are read, changed and taken away there, and
//! moved to blocks when one is added.

use block::BlockDevice;

use super::Fs;
use super::outside::Gather;
use crate::format::{Area, Entry, FileType, InlineFlags, NAME_MAX, name_hash};
use crate::{BlockAddr, FsError, Nid};

/// Levels at most.
const LEVELS: u32 = 63;
/// Blocks of a directory at most: 20 whole levels. What claims more is damaged.
const BLOCKS_MOST: u64 = 1 << 21;
/// From this level on the number of buckets does not grow.
const LAST_GROWN: u32 = 31;

/// Where an entry is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Which block; none: inside the inode.
    index: Option<u64>,
    slot: usize,
    pub(super) ino: Nid,
}

/// One entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// What it names.
    pub ino: Nid,
    /// What that is.
    pub kind: FileType,
}

fn buckets(level: u32, dir_level: u8) -> u64 {
    1 << (level + u32::from(dir_level)).min(LAST_GROWN - 1)
}

fn bucket_blocks(level: u32) -> u64 {
    if level < LAST_GROWN { 2 } else { 4 }
}

/// First block of a name's bucket.
fn bucket(level: u32, dir_level: u8, hash: u32) -> u64 {
    let before: u64 = (0..level).map(|l| buckets(l, dir_level) * bucket_blocks(l)).sum();
    before + u64::from(hash) % buckets(level, dir_level) * bucket_blocks(level)
}

/// Refuses what cannot be a name.
pub(super) fn check_name(name: &[u8]) -> Result<(), FsError> {
    if name.len() > NAME_MAX {
        return Err(FsError::NameTooLong);
    }
    if name.is_empty()
        || name == b"."
        || name == b".."
        || name.iter().any(|b| [0, b'/'].contains(b))
    {
        return Err(FsError::Invalid("a name is not empty, no dots, and has no slash or zero"));
    }
    Ok(())
}

impl<D: BlockDevice> Fs<D> {
    /// Refuses what is no directory.
    pub(super) fn expect_dir(&mut self, dir: Nid) -> Result<(), FsError> {
        if self.is_dir(dir)? { Ok(()) } else { Err(FsError::NotDirectory) }
    }

    pub(super) fn is_inline_dir(&mut self, dir: Nid) -> Result<bool, FsError> {
        Ok(self.inode(dir)?.inline() & InlineFlags::DENTRY != 0)
    }

    pub(super) fn inline_entries(&mut self, dir: Nid) -> Result<&[u8], FsError> {
        let entries = self.inode(dir)?.inline_entries();
        entries.ok_or(FsError::Corrupt("entries inside an inode have no room"))
    }

    pub(super) fn find_entry(&mut self, dir: Nid, name: &[u8]) -> Result<Option<Found>, FsError> {
        let hash = name_hash(name);
        if self.is_inline_dir(dir)? {
            let found = Area::INLINE.find(self.inline_entries(dir)?, hash, name);
            return Ok(found.map(|(slot, entry)| Found { index: None, slot, ino: entry.ino }));
        }
        let (depth, dir_level) = {
            let inode = self.inode(dir)?;
            (inode.depth().min(LEVELS), inode.dir_level().min(LAST_GROWN as u8))
        };
        for level in 0..depth {
            let first = bucket(level, dir_level, hash);
            for index in first..first + bucket_blocks(level) {
                let Some(block) = self.page(dir, index)? else { continue };
                if let Some((slot, entry)) = Area::BLOCK.find(block, hash, name) {
                    return Ok(Some(Found { index: Some(index), slot, ino: entry.ino }));
                }
            }
        }
        Ok(None)
    }

    /// Blocks of a directory that a name may be in, or come into: those of one level more, too.
    pub(super) fn places_of(&mut self, dir: Nid, name: &[u8]) -> Result<Vec<u64>, FsError> {
        let inode = self.inode(dir)?;
        let (depth, dir_level) = (inode.depth(), inode.dir_level().min(LAST_GROWN as u8));
        let hash = name_hash(name);
        let level = |level| {
            let first = bucket(level, dir_level, hash);
            first..first + bucket_blocks(level)
        };
        let all = (0..=depth.min(LEVELS - 1)).flat_map(level);
        Ok(all.take_while(|index| *index < BLOCKS_MOST).collect())
    }

    /// Adds an entry. The name is not there.
    pub(super) fn add_entry(
        &mut self,
        dir: Nid,
        name: &[u8],
        ino: Nid,
        kind: FileType,
    ) -> Result<(), FsError> {
        self.unfold_dir(dir)?;
        let (hash, need) = (name_hash(name), Area::need(name.len()));
        let entry = Entry { hash, ino, len: name.len() as u16, kind };
        let dir_level = self.inode(dir)?.dir_level().min(LAST_GROWN as u8);
        for level in 0..LEVELS {
            let first = bucket(level, dir_level, hash);
            if first + bucket_blocks(level) > BLOCKS_MOST {
                return Err(FsError::NoSpace);
            }
            for index in first..first + bucket_blocks(level) {
                let room = match self.page(dir, index)? {
                    Some(block) => Area::BLOCK.room(block, need),
                    None => Some(0),
                };
                if let Some(slot) = room {
                    Area::BLOCK.put(self.page_mut(dir, index)?, slot, entry, name);
                    return self.cover(dir, level + 1, index);
                }
            }
        }
        Err(FsError::NoSpace)
    }

    /// A directory's depth and size cover a block.
    fn cover(&mut self, dir: Nid, depth: u32, index: u64) -> Result<(), FsError> {
        let inode = self.node_mut(dir)?;
        inode.set_depth(inode.depth().max(depth));
        inode.set_size(inode.size().max((index + 1) * 4096));
        Ok(())
    }

    /// The first two entries of a new directory.
    pub(super) fn add_dots(&mut self, dir: Nid, parent: Nid) -> Result<(), FsError> {
        let kind = FileType::Directory;
        let page = self.page_mut(dir, 0)?;
        Area::BLOCK.put(page, 0, Entry { hash: 0, ino: dir, len: 1, kind }, b".");
        Area::BLOCK.put(page, 1, Entry { hash: 0, ino: parent, len: 2, kind }, b"..");
        self.cover(dir, 1, 0)
    }

    /// Moves entries from the inode into blocks.
    fn unfold_dir(&mut self, dir: Nid) -> Result<(), FsError> {
        if !self.is_inline_dir(dir)? {
            return Ok(());
        }
        let entries = self.list(dir)?;
        self.prepare_pointers(dir, 0, 8)?;
        let parent = entries.iter().find(|e| e.name == b"..").map_or(dir, |e| e.ino);
        let inode = self.node_mut(dir)?;
        inode.clear_inline(InlineFlags::DENTRY);
        inode.set_depth(0);
        inode.set_size(0);
        self.add_dots(dir, parent)?;
        for entry in entries.iter().filter(|e| e.name != b"." && e.name != b"..") {
            self.add_entry(dir, &entry.name, entry.ino, entry.kind)?;
        }
        Ok(())
    }

    /// Takes an entry away.
    pub(super) fn remove_entry(&mut self, dir: Nid, name: &[u8]) -> Result<(), FsError> {
        let found = self.find_entry(dir, name)?.ok_or(FsError::NotFound)?;
        let Some(index) = found.index else {
            let bytes = self.node_mut(dir)?.inline_entries_mut();
            bytes.into_iter().for_each(|bytes| Area::INLINE.clear(bytes, found.slot));
            return Ok(());
        };
        let page = self.page_mut(dir, index)?;
        Area::BLOCK.clear(page, found.slot);
        if index > 0 && Area::BLOCK.is_empty(page) {
            let at = self.make_pointer(dir, index, None)?;
            self.aim(dir, at, BlockAddr::HOLE)?;
            self.pages.drop(dir, index);
        }
        Ok(())
    }

    /// Makes an entry name something else.
    pub(super) fn aim_entry(
        &mut self,
        dir: Nid,
        name: &[u8],
        ino: Nid,
        kind: FileType,
    ) -> Result<(), FsError> {
        let found = self.find_entry(dir, name)?.ok_or(FsError::NotFound)?;
        let Some(index) = found.index else {
            let bytes = self.node_mut(dir)?.inline_entries_mut();
            bytes.into_iter().for_each(|bytes| Area::INLINE.aim(bytes, found.slot, ino, kind));
            return Ok(());
        };
        Area::BLOCK.aim(self.page_mut(dir, index)?, found.slot, ino, kind);
        Ok(())
    }

    /// All entries, the two dots too.
    pub(super) fn list(&mut self, dir: Nid) -> Result<Vec<DirEntry>, FsError> {
        let entry = |(_, entry, name): (usize, Entry, &[u8])| DirEntry {
            name: name.to_vec(),
            ino: entry.ino,
            kind: entry.kind,
        };
        if self.is_inline_dir(dir)? {
            return Ok(Area::INLINE.entries(self.inline_entries(dir)?).map(entry).collect());
        }
        let mut found = Vec::new();
        let mut gather = Gather::default();
        for index in 0..self.directory_blocks(dir)? {
            let page = self.page(dir, index);
            if let Some(Some(page)) = gather.note(page)? {
                found.extend(Area::BLOCK.entries(page).map(entry));
            }
        }
        gather.end()?;
        Ok(found)
    }

    pub(super) fn directory_blocks(&mut self, dir: Nid) -> Result<u64, FsError> {
        let blocks = self.inode(dir)?.size().div_ceil(4096);
        if blocks > BLOCKS_MOST {
            return Err(FsError::Corrupt("a directory's size"));
        }
        Ok(blocks)
    }

    pub(super) fn is_empty_dir(&mut self, dir: Nid) -> Result<bool, FsError> {
        Ok(self.list(dir)?.iter().all(|e| e.name == b"." || e.name == b".."))
    }
}
