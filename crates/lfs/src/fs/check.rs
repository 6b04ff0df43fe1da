//! The volume against itself: every structure that memory holds twice says the same.

use std::collections::BTreeMap;

use block::BlockDevice;

use super::Fs;
use super::counts::Counts;
use super::tree::Pointer;
use crate::format::{FileType, InlineFlags, Origin, Summary};
use crate::{BlockAddr, FsError, Nid, Now, SegNo};

/// What was found on the way through all inodes.
#[derive(Default)]
struct Found {
    /// What names each block.
    blocks: BTreeMap<BlockAddr, Origin>,
    reserved: u64,
    nodes: u64,
    inodes: u64,
}

impl<D: BlockDevice> Fs<D> {
    /// Walks through the whole volume and compares: every valid block has exactly one owner, every
    /// link an entry, every count what it counts.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] for the first contradiction; what reading the media says.
    pub fn check(&mut self, now: Now) -> Result<(), FsError> {
        self.look(now, |fs| {
            fs.segs.check()?;
            let mut found = Found::default();
            let mut links: BTreeMap<Nid, u32> = BTreeMap::from([(Nid::ROOT, 1)]);
            let mut dirs = vec![(Nid::ROOT, Nid::ROOT)];
            let mut files = Vec::new();
            while let Some((dir, parent)) = dirs.pop() {
                fs.check_dir(dir, parent, &mut links, &mut dirs, &mut files)?;
                fs.own_inode(dir, &mut found)?;
            }
            files.extend(fs.orphans.iter());
            files.sort_unstable();
            files.dedup();
            for ino in files {
                let named = links.get(&ino).copied().unwrap_or(0);
                if fs.inode(ino)?.links() != named {
                    return Err(FsError::Corrupt("a file's links are not its names"));
                }
                fs.own_inode(ino, &mut found)?;
            }
            fs.compare(&found)
        })
    }

    fn check_dir(
        &mut self,
        dir: Nid,
        parent: Nid,
        links: &mut BTreeMap<Nid, u32>,
        dirs: &mut Vec<(Nid, Nid)>,
        files: &mut Vec<Nid>,
    ) -> Result<(), FsError> {
        let mut subdirs = 0;
        for entry in self.list(dir)? {
            match &entry.name[..] {
                b"." if entry.ino == dir => continue,
                b".." if entry.ino == parent => continue,
                b"." | b".." => return Err(FsError::Corrupt("the dots of a directory")),
                _ => {}
            }
            if self.find_entry(dir, &entry.name)?.map(|found| found.ino) != Some(entry.ino) {
                return Err(FsError::Corrupt("an entry is not where its hash says"));
            }
            if FileType::of_mode(self.inode(entry.ino)?.mode()) != entry.kind {
                return Err(FsError::Corrupt("an entry's type is not its inode's"));
            }
            let count = links.entry(entry.ino).or_insert(0);
            *count += 1;
            if entry.kind == FileType::Directory {
                subdirs += 1;
                if *count > 1 {
                    return Err(FsError::Corrupt("a directory has two names"));
                }
                dirs.push((entry.ino, dir));
            } else {
                files.push(entry.ino);
            }
        }
        if self.inode(dir)?.links() != 2 + subdirs {
            return Err(FsError::Corrupt("a directory's links are not its directories"));
        }
        Ok(())
    }

    fn own(&mut self, addr: BlockAddr, owner: Origin, found: &mut Found) -> Result<u64, FsError> {
        if addr == BlockAddr::HOLE {
            return Ok(0);
        }
        if addr == BlockAddr::RESERVED {
            found.reserved += 1;
        } else if found.blocks.insert(addr, owner).is_some() {
            return Err(FsError::Corrupt("a block has two owners"));
        } else if !self.segs.is_valid(addr) {
            return Err(FsError::Corrupt("a block that has an owner is not valid"));
        }
        Ok(1)
    }

    fn own_node(&mut self, nid: Nid, found: &mut Found) -> Result<u64, FsError> {
        found.nodes += 1;
        let addr = self.nat_entry(nid)?.addr;
        self.own(addr, Origin { nid, ..Origin::default() }, found)
    }

    fn own_inode(&mut self, ino: Nid, found: &mut Found) -> Result<(), FsError> {
        found.inodes += 1;
        let mut blocks = self.own_node(ino, found)?;
        let inode = self.inode(ino)?.clone();
        let kind = FileType::of_mode(inode.mode());
        let stored = [FileType::File, FileType::Directory, FileType::Symlink].contains(&kind);
        if stored && inode.inline() & (InlineFlags::DATA | InlineFlags::DENTRY) == 0 {
            for (slot, word) in inode.words(0).enumerate().filter(|(_, word)| *word != 0) {
                let origin = self.origin(Pointer { nid: ino, slot })?;
                blocks += self.own(BlockAddr(word), origin, found)?;
            }
            for child in (0..5).map(|which| inode.child(which)).filter(|nid| *nid != Nid::NONE) {
                blocks += self.own_tree(ino, child, found)?;
            }
        }
        if inode.xattr_nid() != 0 {
            blocks += self.own_node(Nid(inode.xattr_nid()), found)?;
        }
        if blocks != inode.blocks() {
            return Err(FsError::Corrupt("an inode's count of blocks"));
        }
        Ok(())
    }

    fn own_tree(&mut self, ino: Nid, nid: Nid, found: &mut Found) -> Result<u64, FsError> {
        let node = self.node(nid)?.clone();
        if node.ino() != ino {
            return Err(FsError::Corrupt("a file's tree holds another file's node"));
        }
        let mut blocks = self.own_node(nid, found)?;
        for (slot, word) in node.words(0).enumerate().filter(|(_, word)| *word != 0) {
            blocks += match node.is_indirect() {
                true => self.own_tree(ino, Nid(word), found)?,
                false => {
                    let origin = self.origin(Pointer { nid, slot })?;
                    self.own(BlockAddr(word), origin, found)?
                }
            };
        }
        Ok(blocks)
    }

    /// Whether summaries name what names each block; cleaning follows them.
    fn compare_summaries(&mut self, found: &Found) -> Result<(), FsError> {
        let mut last: Option<(SegNo, Summary)> = None;
        for (addr, origin) in &found.blocks {
            let outside = FsError::Corrupt("an address outside the main area");
            let (seg, at) = self.layout.place(*addr).ok_or(outside)?;
            let summary = match last.take() {
                Some((of, summary)) if of == seg => summary,
                _ => match self.logs.iter().find(|log| log.seg == seg) {
                    Some(log) => log.summary.clone(),
                    None => Summary::decode(&*self.summary_on_media(seg)?),
                },
            };
            if summary.origins[at as usize] != *origin {
                return Err(FsError::Corrupt("a summary names another block"));
            }
            last = Some((seg, summary));
        }
        Ok(())
    }

    fn compare(&mut self, found: &Found) -> Result<(), FsError> {
        self.compare_summaries(found)?;
        if found.blocks.len() as u64 != self.segs.valid_total() {
            return Err(FsError::Corrupt("a valid block has no owner"));
        }
        let blocks = found.blocks.len() as u64 + found.reserved;
        self.counts.expect(Counts::new(blocks, found.nodes, found.inodes))
    }
}
