//! What becomes durable, and when: each `fsync` is of what is its own, and of nothing else.

use super::{Kind, Planted, Volume, Why};
use crate::strict::ROOT;

impl Volume {
    fn sync_rights(&mut self, node: u64) -> Result<(), Why> {
        if self.unowned.contains(&node) {
            self.put_rights(node, true)?;
            self.unowned.remove(&node);
        }
        Ok(())
    }

    /// `fsync` of a file: its pages and its size. Of its names it says nothing.
    ///
    /// # Errors
    /// The system's number.
    pub fn sync_file(&mut self, node: u64) -> Result<(), Why> {
        let dirty: Vec<u64> = self.file(node)?.dirty.iter().copied().collect();
        for page in dirty {
            self.put_page(node, page, true)?;
            self.file_mut(node)?.dirty.remove(&page);
        }
        if self.bug.has(Planted::NameWithFile) {
            self.sync_folder(ROOT)?;
        }
        if self.file(node)?.resized && !self.bug.has(Planted::SizeForgotten) {
            self.put_size(node, true)?;
            self.file_mut(node)?.resized = false;
        }
        Ok(())
    }

    /// `fsync` of a folder: its names, its mode and its owner, and those of links in it.
    ///
    /// # Errors
    /// The system's number.
    pub fn sync_folder(&mut self, folder: u64) -> Result<(), Why> {
        let own = |(_, (folders, _)): &(&u64, &(Vec<u64>, Vec<u8>))| folders.contains(&folder);
        let mut blocks: Vec<u64> =
            self.pending.iter().filter(own).map(|(block, _)| *block).collect();
        if self.bug.has(Planted::LastName) {
            blocks.drain(..blocks.len().saturating_sub(1));
        }
        for block in blocks {
            if let Some((_, bytes)) = self.pending.get(&block) {
                self.put(block, bytes, true)?;
            }
            self.pending.remove(&block);
        }
        let within = self.names(folder)?.values();
        let link = |node: &&u64| self.node(**node).is_ok_and(|n| matches!(n.kind, Kind::Link(_)));
        let links: Vec<u64> = within.filter(link).copied().collect();
        self.sync_rights(folder)?;
        links.into_iter().try_for_each(|link| self.sync_rights(link))
    }

    /// `fsync` of anything.
    ///
    /// # Errors
    /// The drive's.
    pub fn sync(&mut self, node: u64) -> Result<(), Why> {
        match &self.node(node)?.kind {
            Kind::File(_) => self.sync_file(node),
            Kind::Folder(_) => self.sync_folder(node),
            Kind::Link(_) => Ok(()),
        }
    }

    /// Everything is durable.
    ///
    /// # Errors
    /// The drive's.
    pub fn sync_all(&mut self) -> Result<(), Why> {
        let all: Vec<u64> = self.nodes.keys().copied().collect();
        all.into_iter().try_for_each(|node| self.sync(node))
    }
}
