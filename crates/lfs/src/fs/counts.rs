//! What is in use.
//!
//! | what | promise |
//! | --- | --- |
//! | blocks | valid ones and reserved ones: what the checkpoint calls valid |
//! | nodes, inodes | numbers that are not free; an inode is a node |

use crate::FsError;

/// See above.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Counts {
    blocks: u64,
    nodes: u64,
    inodes: u64,
}

impl Counts {
    pub fn new(blocks: u64, nodes: u64, inodes: u64) -> Counts {
        Counts { blocks, nodes, inodes }
    }
    pub fn blocks(&self) -> u64 {
        self.blocks
    }
    pub fn nodes(&self) -> u64 {
        self.nodes
    }
    pub fn inodes(&self) -> u64 {
        self.inodes
    }

    /// A node came into use, and its block; an inode, or not.
    pub fn add_node(&mut self, inode: bool) {
        self.nodes += 1;
        self.blocks += 1;
        self.inodes += u64::from(inode);
    }
    /// It went. A count that was wrong on media is no panic, here and below.
    pub fn drop_node(&mut self, inode: bool) {
        self.nodes = self.nodes.saturating_sub(1);
        self.blocks = self.blocks.saturating_sub(1);
        self.inodes = self.inodes.saturating_sub(u64::from(inode));
    }
    /// So many blocks came into use, and so many went.
    pub fn blocks_changed(&mut self, came: u64, went: u64) {
        self.blocks = self.blocks.saturating_add(came).saturating_sub(went);
    }

    /// Refuses other counts than these.
    pub fn expect(&self, found: Counts) -> Result<(), FsError> {
        match *self == found {
            true => Ok(()),
            false => Err(FsError::Corrupt("the counts of blocks, nodes and inodes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mount believes what the checkpoint says of nodes and inodes.
    #[test]
    fn counts_that_were_wrong_on_media_are_no_panic() {
        let mut counts = Counts::new(1, 0, 0);
        (0..2).for_each(|_| counts.drop_node(true));
        assert!(counts.expect(Counts::new(0, 0, 0)).is_ok());
        assert!(counts.expect(Counts::new(1, 0, 0)).is_err());
    }
}
