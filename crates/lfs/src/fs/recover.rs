//! Rolling forward: what fsync made durable after the checkpoint comes back.
//!
//! Invariants: nothing is written here. The result in memory is the checkpoint and a prefix of the
//! fsyncs after it; the checkpoint that a read-write mount makes then replaces both at once. No
//! block that the durable state or the chain may name is given out before that.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use block::BlockDevice;

use super::options::Bug;
use super::reserve::KEEP_SIZE;
use super::tree::Pointer;
use super::{Fs, LogKind};
use crate::format::{
    FileType, InlineFlags, NodeBlock, NodeFlags, Origin, Reach, Summary, XATTR_OFFSET,
};
use crate::{BlockAddr, FsError, Nid, SegNo};

/// The nodes that follow the checkpoint in the warm log.
#[derive(Default)]
pub(super) struct Chain {
    pub(super) nodes: Vec<(BlockAddr, NodeBlock)>,
    /// Where it would go on.
    pub(super) end: BlockAddr,
}

/// What of a file is to be recovered.
#[derive(Default)]
struct Wanted {
    /// Its last mark.
    last: usize,
    /// The last inode in the chain that brings its name.
    named: Option<usize>,
}

impl<D: BlockDevice> Fs<D> {
    pub(super) fn read_chain(&mut self) -> Result<Chain, FsError> {
        let (mut chain, mut seen) = (Chain::default(), BTreeSet::new());
        chain.end = self.chain_head();
        while let Some((seg, at)) = self.layout.place(chain.end) {
            // A node behind the head is no block that was valid at the checkpoint.
            let head = &self.logs[LogKind::WarmNode as usize];
            let before = seg == head.seg && at < head.offset;
            if before || self.segs.is_valid(chain.end) || !seen.insert(chain.end) {
                break;
            }
            let mut block = crate::format::zeroed();
            // What a cut has torn is read, and its seal does not hold. What cannot be read may be an fsync that
            // was answered: nothing was written yet, and the next mount may read it.
            self.disk.read(chain.end, &mut block)?;
            let node = NodeBlock(block);
            let next = node.next();
            if node.nid().0 < Nid::ROOT.0 || !self.is_after(&node) {
                if self.options.bug.has(Bug::PastTorn) && self.may_be_after(&node) {
                    chain.end = next;
                    continue;
                }
                break;
            }
            chain.nodes.push((chain.end, node));
            chain.end = next;
        }
        Ok(chain)
    }

    /// Segments that may not be written to before the checkpoint to come.
    pub(super) fn hold_chain(&mut self, chain: &Chain) {
        let addrs = chain.nodes.iter().map(|(addr, _)| *addr).chain([chain.end]);
        let segs: BTreeSet<SegNo> =
            addrs.filter_map(|addr| Some(self.layout.place(addr)?.0)).collect();
        segs.into_iter().for_each(|seg| self.segs.hold(seg));
    }

    /// Applies the chain.
    pub(super) fn roll_forward(
        &mut self,
        chain: &Chain,
        gained: &mut Gained,
    ) -> Result<(), FsError> {
        let mut wanted: BTreeMap<Nid, Wanted> = BTreeMap::new();
        for (i, (_, node)) in chain.nodes.iter().enumerate() {
            self.nat.reserve(node.nid());
            self.nat.reserve(node.ino());
            if node.has(NodeFlags::FSYNC) {
                let one = wanted.entry(node.ino()).or_default();
                one.last = i;
                if node.is_inode() && node.has(NodeFlags::DENTRY) {
                    one.named = Some(i);
                }
            }
        }
        let mut dropped = BTreeSet::new();
        for (i, (_, node)) in chain.nodes.iter().enumerate() {
            let ino = node.ino();
            let Some(one) = wanted.get(&ino).filter(|one| i <= one.last) else { continue };
            if dropped.contains(&ino) || node.is_indirect() || node.offset() == XATTR_OFFSET {
                continue;
            }
            if self.nat_entry(ino)?.addr == BlockAddr::HOLE {
                let Some(named) = one.named else {
                    dropped.insert(ino);
                    continue;
                };
                self.revive(&chain.nodes[named].1)?;
            }
            if node.is_inode() {
                self.apply_inode(node)?;
            }
            self.apply_pointers(node, gained)?;
        }
        for ino in wanted.keys().filter(|ino| !dropped.contains(ino)) {
            self.trim_to_size(*ino)?;
        }
        let mut names: Vec<usize> = wanted.values().filter_map(|one| one.named).collect();
        names.sort_unstable();
        for i in names {
            self.apply_name(&chain.nodes[i].1)?;
        }
        Ok(())
    }

    /// An inode that the checkpoint does not know.
    fn revive(&mut self, node: &NodeBlock) -> Result<(), FsError> {
        let ino = node.ino();
        self.new_node_at(ino, ino, 0, true)?;
        let mut fresh = NodeBlock::new(ino, ino, 0, node.has(NodeFlags::COLD));
        fresh.set_head(&node.head());
        fresh.set_xattr_nid(0);
        fresh.set_blocks(1);
        fresh.set_inline(node.inline() & !(InlineFlags::DATA | InlineFlags::EXISTS));
        self.put_node(fresh);
        Ok(())
    }

    /// Fields before the pointers; data that is in their place.
    fn apply_inode(&mut self, node: &NodeBlock) -> Result<(), FsError> {
        let ino = node.ino();
        let inline = InlineFlags::DATA | InlineFlags::EXISTS;
        if node.is_inline_data() && !self.inode(ino)?.is_inline_data() {
            self.cut_blocks(ino, 0)?;
        }
        let own = self.node_mut(ino)?;
        if own.is_inline_data() && !node.is_inline_data() {
            own.clear_inline(inline);
        }
        let (blocks, xattrs) = (own.blocks(), own.xattr_nid());
        own.set_head(&node.head());
        own.set_blocks(blocks);
        own.set_xattr_nid(xattrs);
        own.clear_extent();
        if node.is_inline_data() {
            (0..node.slots()).for_each(|slot| own.set_word(slot, node.word(slot)));
        }
        Ok(())
    }

    fn apply_pointers(&mut self, node: &NodeBlock, gained: &mut Gained) -> Result<(), FsError> {
        let (ino, nid) = (node.ino(), node.nid());
        if node.is_inode() && node.is_inline_data() {
            return Ok(());
        }
        let own = self.inode(ino)?.slots();
        let first = Reach::first_index(node.offset(), own)
            .ok_or(FsError::Corrupt("a node of the chain has no place in its file"))?;
        let leaf = if nid == ino {
            ino
        } else {
            let free = self.nat_entry(nid)?.addr == BlockAddr::HOLE;
            self.make_pointer(ino, first, free.then_some(nid))?.nid
        };
        // Most words are holes here and there.
        let there: Vec<u32> = self.node(leaf)?.words(0).collect();
        for (slot, word) in node.words(0).enumerate() {
            let at = Pointer { nid: leaf, slot };
            let to =
                if word == 0 { BlockAddr::HOLE } else { self.translate(BlockAddr(word), node) };
            let old = match there.get(slot) {
                Some(word) => BlockAddr(*word),
                None => self.pointed(at)?,
            };
            if old == to {
                continue;
            }
            if to.is_place() {
                self.segs.mark(to, self.elapsed())?;
                let origin = self.origin(at)?;
                gained.add(self, to, origin, false)?;
            }
            self.aim(ino, at, to)?;
        }
        Ok(())
    }

    fn trim_to_size(&mut self, ino: Nid) -> Result<(), FsError> {
        let inode = self.inode(ino)?;
        let (size, inline) = (inode.size(), inode.is_inline_data());
        let kept = inode.advise() & KEEP_SIZE != 0;
        if inline || kept || FileType::of_mode(inode.mode()) != FileType::File {
            return Ok(());
        }
        self.cut_blocks(ino, size.div_ceil(4096))
    }

    /// The entry of a file that was made after the checkpoint; what had its name goes.
    fn apply_name(&mut self, node: &NodeBlock) -> Result<(), FsError> {
        use crate::format::Inode;
        let (ino, dir, name) = (node.ino(), Nid(node.parent()), node.name().to_vec());
        let kind = FileType::of_mode(node.mode());
        let known = self.nat_entry(dir)?.addr != BlockAddr::HOLE && self.is_dir(dir)?;
        if !known || name.is_empty() {
            return self.erase(ino);
        }
        match self.find_entry(dir, &name)?.map(|found| found.ino) {
            Some(old) if old == ino => Ok(()),
            Some(old) => {
                self.aim_entry(dir, &name, ino, kind)?;
                if self.is_dir(old)? {
                    // Not by our fsync, but by a kernel's.
                    self.add_links(dir, -1)?;
                    self.drop_tree(old)
                } else {
                    self.drop_link(old)
                }
            }
            None => self.add_entry(dir, &name, ino, kind),
        }
    }

    /// A directory without a name goes, with all that was in it at the checkpoint: nothing leads
    /// there any more.
    fn drop_tree(&mut self, top: Nid) -> Result<(), FsError> {
        let mut open = vec![top];
        while let Some(dir) = open.pop() {
            for entry in self.list(dir)? {
                match (&entry.name[..], entry.kind) {
                    (b"." | b"..", _) => {}
                    (_, FileType::Directory) => open.push(entry.ino),
                    _ => self.drop_link(entry.ino)?,
                }
            }
            self.drop_dir(dir)?;
        }
        Ok(())
    }

    /// Summaries of node logs that a pack without them leaves to be read from the nodes.
    pub(super) fn rebuild_node_summaries(&mut self) -> Result<(), FsError> {
        for kind in [LogKind::HotNode, LogKind::WarmNode, LogKind::ColdNode] {
            let seg = self.logs[kind as usize].seg;
            // A threaded log has valid blocks behind its next one, too.
            for at in 0..self.layout.per_seg {
                let addr = self.layout.block(seg, at);
                if !self.segs.is_valid(addr) {
                    continue;
                }
                let mut block = crate::format::zeroed();
                self.disk.read(addr, &mut block)?;
                let nid = NodeBlock(block).nid();
                let origin = Origin { nid, version: 0, slot: 0 };
                self.logs[kind as usize].summary.origins[at as usize] = origin;
            }
        }
        Ok(())
    }
}

/// Segments in which recovery made blocks valid, and the summaries of those that are no heads.
#[derive(Default)]
pub(super) struct Gained {
    summaries: BTreeMap<SegNo, Summary>,
    segments: BTreeSet<SegNo>,
}

impl Gained {
    pub(super) fn add<D: BlockDevice>(
        &mut self,
        fs: &mut Fs<D>,
        addr: BlockAddr,
        origin: Origin,
        nodes: bool,
    ) -> Result<(), FsError> {
        let (seg, at) =
            fs.layout.place(addr).ok_or(FsError::Corrupt("an address outside the main area"))?;
        self.segments.insert(seg);
        if nodes != (fs.segs.of(seg).kind >= LogKind::HotNode as u8) {
            // It was another log's at the checkpoint.
            let kind = if nodes { LogKind::ColdNode } else { LogKind::WarmData };
            fs.segs.set_kind(seg, kind as u8);
        }
        // A log through holes leaves other blocks where they were: what the SSA says of them holds.
        let threaded = fs.segs.of(seg).needed > 1;
        let own = fs.logs.iter().position(|log| log.seg == seg);
        let summary = match own {
            Some(log) => &mut fs.logs[log].summary,
            None => match self.summaries.entry(seg) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(place) if threaded => {
                    place.insert(Summary::decode(&*fs.read_summary(seg)?))
                }
                Entry::Vacant(place) => place.insert(Summary::new(nodes)),
            },
        };
        if summary.nodes != nodes {
            // What it held at the checkpoint has all moved away.
            *summary = Summary::new(nodes);
        }
        summary.origins[at as usize] = origin;
        Ok(())
    }

    /// Writes them.
    pub(super) fn write<D: BlockDevice>(&self, fs: &mut Fs<D>) -> Result<(), FsError> {
        for (seg, summary) in &self.summaries {
            fs.write_summary(*seg, summary)?;
        }
        Ok(())
    }

    /// Whether recovery made a block of it valid, whatever became of that.
    pub(super) fn has(&self, seg: SegNo) -> bool {
        self.segments.contains(&seg)
    }
}
