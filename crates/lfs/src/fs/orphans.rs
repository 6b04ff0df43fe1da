//! Inodes that somebody holds, and those that live on without a name because of it.
//!
//! | what | promise |
//! | --- | --- |
//! | held | how often; none means that it goes with its last link |
//! | orphans | without a link and not freed: every checkpoint names them, and the next mount frees those that it finds |

use std::collections::{BTreeMap, BTreeSet};

use crate::Nid;

/// See above.
#[derive(Default)]
pub(super) struct Orphans {
    held: BTreeMap<Nid, u32>,
    orphans: BTreeSet<Nid>,
}

impl Orphans {
    /// Those that a checkpoint names; nobody holds anything.
    pub fn found(orphans: BTreeSet<Nid>) -> Orphans {
        Orphans { held: BTreeMap::new(), orphans }
    }
    /// Somebody holds an inode.
    pub fn hold(&mut self, ino: Nid) {
        *self.held.entry(ino).or_insert(0) += 1;
    }
    /// Somebody lets it go; whether nobody holds it any more. `None`: nobody did.
    pub fn release(&mut self, ino: Nid) -> Option<bool> {
        let count = self.held.get_mut(&ino)?;
        *count -= 1;
        let last = *count == 0;
        if last {
            self.held.remove(&ino);
        }
        Some(last)
    }
    pub fn is_held(&self, ino: Nid) -> bool {
        self.held.contains_key(&ino)
    }
    pub fn is_orphan(&self, ino: Nid) -> bool {
        self.orphans.contains(&ino)
    }
    /// An inode that is held has lost its last link.
    pub fn add(&mut self, ino: Nid) {
        self.orphans.insert(ino);
    }
    /// It is freed.
    pub fn remove(&mut self, ino: Nid) {
        self.orphans.remove(&ino);
    }
    pub fn len(&self) -> usize {
        self.orphans.len()
    }
    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = Nid> + '_ {
        self.orphans.iter().copied()
    }
    /// What the checkpoint before named: taken, to be freed.
    pub fn take(&mut self) -> BTreeSet<Nid> {
        std::mem::take(&mut self.orphans)
    }
}
