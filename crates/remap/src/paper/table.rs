//! The remapping table: one tree for each partition, and all nodes in the order of their places.
//!
//! Invariants while the power is on: a node is valid exactly if the tree of its partition names its
//! place; the invalid ones are the holes. After a recovery two addresses may name one place: that is
//! the paper's, and is kept.

use std::collections::{BTreeMap, BTreeSet};

use super::options::PartitionKey;

/// One entry of the table, which describes one 4 KiB block. In blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    /// The address the host uses.
    pub orig: u32,
    /// Where it lies.
    pub trans: u32,
    /// Written anew elsewhere.
    pub invalid: bool,
}

/// A hole that recovery found: nobody knows whose block it was.
const NOBODY: u32 = u32::MAX;

#[derive(Debug, Default)]
struct Part {
    tree: BTreeMap<u32, u32>,
    /// Nodes, in memory or stored.
    len: usize,
    stored: bool,
    updated: u64,
}

#[derive(Debug)]
pub(super) struct Tables {
    key: PartitionKey,
    per: u32,
    /// First data block.
    data: u32,
    parts: Vec<Part>,
    /// By place: whose block lies there. Not part of the paper's memory: it would sort its nodes for
    /// every turn of cleaning.
    order: BTreeMap<u32, u32>,
    holes: BTreeSet<u32>,
    tick: u64,
    resident: usize,
}

impl Tables {
    pub(super) fn new(key: PartitionKey, per: u32, data: u32, blocks: u32) -> Tables {
        let parts = (0..blocks.div_ceil(per)).map(|_| Part::default()).collect();
        let (order, holes) = (BTreeMap::new(), BTreeSet::new());
        Tables { key, per, data, parts, order, holes, tick: 0, resident: 0 }
    }

    pub(super) fn partitions(&self) -> usize {
        self.parts.len()
    }

    /// Partitions in which an address may have its node, newest first.
    pub(super) fn candidates(&self, orig: u32) -> Vec<usize> {
        match self.key {
            PartitionKey::Orig => vec![(orig / self.per) as usize],
            PartitionKey::Trans => {
                let mut all: Vec<usize> =
                    (0..self.parts.len()).filter(|p| self.parts[*p].len > 0).collect();
                all.sort_by_key(|p| std::cmp::Reverse((self.parts[*p].updated, *p)));
                all
            }
        }
    }

    /// The partition of a node.
    pub(super) fn home(&self, orig: u32, trans: u32) -> usize {
        match self.key {
            PartitionKey::Orig => (orig / self.per) as usize,
            PartitionKey::Trans => ((trans - self.data) / self.per) as usize,
        }
    }

    pub(super) fn get(&self, part: usize, orig: u32) -> Option<u32> {
        self.parts[part].tree.get(&orig).copied()
    }

    fn touch(&mut self, part: usize) {
        self.tick += 1;
        self.parts[part].updated = self.tick;
    }

    /// Inserts a node; its partition is in memory. The place may have been a hole.
    pub(super) fn insert(&mut self, orig: u32, trans: u32) {
        let home = self.home(orig, trans);
        self.touch(home);
        let part = &mut self.parts[home];
        if part.tree.insert(orig, trans).is_none() {
            part.len += 1;
            self.resident += 1;
        }
        self.order.insert(trans, orig);
        self.holes.remove(&trans);
    }

    /// Marks a node invalid; its partition is in memory.
    pub(super) fn invalidate(&mut self, orig: u32, trans: u32) {
        self.remove(orig, trans);
        // After a recovery the place may be another address's too: then it is no hole.
        if self.order.get(&trans) == Some(&orig) {
            self.holes.insert(trans);
        }
    }

    fn remove(&mut self, orig: u32, trans: u32) {
        let home = self.home(orig, trans);
        self.touch(home);
        let part = &mut self.parts[home];
        if part.tree.get(&orig) == Some(&trans) {
            part.tree.remove(&orig);
            part.len -= 1;
            self.resident -= 1;
        }
    }

    /// Cleaning: the first hole and the last valid node, if that one lies behind it. Nodes of holes
    /// behind the last valid one go: what they describe is free.
    pub(super) fn ends(&mut self) -> Option<(u32, Node)> {
        while let Some((trans, _)) = self.order.last_key_value()
            && let trans = *trans
            && self.holes.remove(&trans)
        {
            self.order.remove(&trans);
        }
        let (tail, hole) = (self.order.last_key_value()?, self.holes.first()?);
        (hole < tail.0).then_some((*hole, Node { orig: *tail.1, trans: *tail.0, invalid: false }))
    }

    /// The tail's data has been copied into the hole, which the hole's node now describes; the
    /// tail's node goes. Both partitions are in memory.
    pub(super) fn moved(&mut self, hole: u32, tail: Node) {
        self.remove(tail.orig, tail.trans);
        self.order.remove(&tail.trans);
        self.insert(tail.orig, hole);
    }

    /// The block after the last one described.
    pub(super) fn end(&self) -> u32 {
        self.order.last_key_value().map_or(self.data, |(trans, _)| trans + 1)
    }

    /// All nodes in the order of their places.
    pub(super) fn nodes(&self) -> impl Iterator<Item = Node> + '_ {
        self.order.iter().map(|(trans, orig)| {
            let invalid = self.holes.contains(trans);
            Node { orig: *orig, trans: *trans, invalid }
        })
    }

    /// Every block before the end that no node describes becomes a hole.
    pub(super) fn dig(&mut self) {
        let free: Vec<u32> =
            (self.data..self.end()).filter(|trans| !self.order.contains_key(trans)).collect();
        for trans in free {
            self.order.insert(trans, NOBODY);
            self.holes.insert(trans);
        }
    }

    /// Nodes of the paper in memory: invalid ones stay in the tree.
    pub(super) fn resident(&self) -> usize {
        self.resident + self.holes.len()
    }

    pub(super) fn is_stored(&self, part: usize) -> bool {
        self.parts[part].stored
    }

    /// The partition in memory whose last update is oldest.
    pub(super) fn oldest(&self) -> Option<usize> {
        let here = |p: &usize| !self.parts[*p].stored && self.parts[*p].len > 0;
        (0..self.parts.len()).filter(here).min_by_key(|p| self.parts[*p].updated)
    }

    pub(super) fn tree(&self, part: usize) -> &BTreeMap<u32, u32> {
        &self.parts[part].tree
    }

    /// Drops a partition from memory.
    pub(super) fn drop_tree(&mut self, part: usize) {
        let part = &mut self.parts[part];
        self.resident -= part.tree.len();
        part.tree = BTreeMap::new();
        part.stored = true;
    }

    /// Brings a partition back to memory.
    pub(super) fn load(&mut self, part: usize, pairs: impl Iterator<Item = (u32, u32)>) {
        let part = &mut self.parts[part];
        part.tree = pairs.collect();
        part.stored = false;
        self.resident += part.tree.len();
    }
}
