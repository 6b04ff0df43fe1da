//! What happened since the checkpoint.
//!
//! | what | promise |
//! | --- | --- |
//! | inodes | what happened to each that an fsync has to know of; one that was freed is forgotten |
//! | moved | nodes that cleaning wrote, and no fsync since |
//! | wrote, synced | of a file: behind the last block of its data that was written, or moved; behind the nodes that an fsync of it wrote last |
//! | gained | never falls before the next checkpoint |

use std::collections::{BTreeMap, BTreeSet};

use super::marks::Marks;
use crate::Nid;
use crate::disk::Mark;

/// What happened to an inode.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Since {
    /// It was made.
    pub(super) created: bool,
    /// Its names changed.
    pub(super) renamed: bool,
    /// Nodes of its tree went.
    pub(super) freed_nodes: bool,
    /// Its extended attributes changed.
    pub(super) xattrs: bool,
    /// Of a directory: it lost the name of something that lives on under another, or of a
    /// directory.
    pub(super) moved_out: bool,
}

/// See above.
#[derive(Default)]
pub(super) struct Epoch {
    inodes: BTreeMap<Nid, Since>,
    moved: BTreeSet<(Nid, Nid)>,
    wrote: Marks,
    synced: Marks,
    gained: u64,
}

impl Epoch {
    /// A checkpoint is written: nothing happened since.
    pub fn begin(&mut self) {
        self.inodes.clear();
        self.moved.clear();
        self.wrote.forget();
        self.synced.forget();
        self.gained = 0;
    }

    pub fn of(&mut self, ino: Nid) -> &mut Since {
        self.inodes.entry(ino).or_default()
    }
    pub fn look(&self, ino: Nid) -> Since {
        self.inodes.get(&ino).copied().unwrap_or_default()
    }
    pub fn forget(&mut self, ino: Nid) {
        self.inodes.remove(&ino);
    }
    /// Inodes to which something happened.
    pub fn inodes(&self) -> impl Iterator<Item = Nid> + '_ {
        self.inodes.keys().copied()
    }

    /// Cleaning wrote a node of a file.
    pub fn moved(&mut self, ino: Nid, nid: Nid) {
        self.moved.insert((ino, nid));
    }
    /// An fsync has, or it went.
    pub fn settled(&mut self, ino: Nid, nid: Nid) {
        self.moved.remove(&(ino, nid));
    }
    /// Nodes of a file that cleaning wrote.
    pub fn moved_of(&self, ino: Nid) -> impl Iterator<Item = Nid> + '_ {
        self.moved.range((ino, Nid(0))..=(ino, Nid(u32::MAX))).map(|(_, nid)| *nid)
    }

    /// Data of a file was written, or moved: before this.
    pub fn wrote(&mut self, ino: Nid, behind: Mark) {
        self.wrote.set(ino, behind);
    }
    pub fn data_of(&self, ino: Nid) -> Option<Mark> {
        self.wrote.get(ino)
    }
    /// An fsync wrote a file's nodes: before this.
    pub fn synced(&mut self, ino: Nid, behind: Mark) {
        self.synced.set(ino, behind);
    }
    pub fn nodes_of(&self, ino: Nid) -> Option<Mark> {
        self.synced.get(ino)
    }

    /// Blocks came into use, reserved ones too.
    pub fn gain(&mut self, blocks: u64) {
        self.gained += blocks;
    }
    /// Blocks that came into use, whatever went out of use beside them: roll-forward brings back what was
    /// fsynced, and of what was removed without that, all.
    pub fn gained(&self) -> u64 {
        self.gained
    }
}
