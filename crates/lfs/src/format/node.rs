//! Node blocks: inodes, direct and indirect nodes, as views of their bytes; and the shape of the
//! index tree.
//!
//! Invariant: what a view does not set is kept as it was found.

use block::crc32c;

use super::{Block, array, put, put_u16, put_u32, put_u64, u16_at, u32_at, u64_at, zeroed};
use crate::{BlockAddr, Nid, Stamp};

const FOOTER: usize = 4072;
/// Pointers of a direct or indirect node.
pub const ADDRS_PER_BLOCK: usize = 1018;
/// Pointers inside an inode, with nothing else in it.
pub const INODE_SLOTS: usize = 923;
/// Where pointers of an inode begin, without extra attributes.
const SLOTS_AT: usize = 360;
/// Where inline data and entries begin, without extra attributes.
pub const INLINE_AT: usize = SLOTS_AT + 4;
const NIDS_AT: usize = 4052;
/// Bytes of extra attributes at most; there are 36 today.
const EXTRA_MOST: usize = 512;
/// Node offset of a file's xattr node.
pub const XATTR_OFFSET: u32 = 0x1FFF_FFFF;
/// Address words that inline xattrs take.
pub const XATTR_WORDS: usize = 50;
/// Direct node pointers of an inode, by offset: direct 1 and 2, indirect 3 and 1022, double 2041.
pub const DIRECT_SLOTS: usize = 5;

const PER: u64 = ADDRS_PER_BLOCK as u64;
const INDIRECT: [u32; 2] = [3, 4 + ADDRS_PER_BLOCK as u32];
const DOUBLE: u32 = 5 + 2 * ADDRS_PER_BLOCK as u32;
const FAMILY: u32 = 1 + ADDRS_PER_BLOCK as u32;

/// Flag bits of a node's footer.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NodeFlags(pub u32);

impl NodeFlags {
    /// Not a directory's.
    pub const COLD: u32 = 1;
    /// Written by fsync.
    pub const FSYNC: u32 = 2;
    /// Its directory entry is to be recovered too.
    pub const DENTRY: u32 = 4;
}

/// Bits of `i_inline`.
pub struct InlineFlags;

impl InlineFlags {
    /// Xattrs in the last words of the pointers.
    pub const XATTR: u8 = 1;
    /// Data in place of pointers.
    pub const DATA: u8 = 2;
    /// Directory entries in place of pointers.
    pub const DENTRY: u8 = 4;
    /// There is inline data.
    pub const EXISTS: u8 = 8;
    /// Extra attributes before the pointers.
    pub const EXTRA: u8 = 0x20;
}

/// The way from an inode to the node that holds a block's pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reach {
    /// Nodes on the way: slot in the one before, and node offset. The first slot is one of the
    /// inode's five.
    steps: [(u16, u32); 3],
    depth: usize,
    /// Slot of the pointer in the last node (or the inode).
    pub slot: usize,
}

impl Reach {
    /// The way to block `index` of a file whose inode holds `own` pointers; none beyond the largest
    /// file.
    pub fn of(index: u64, own: usize) -> Option<Reach> {
        let own = own as u64;
        let none = (0_u16, 0_u32);
        if index < own {
            return Some(Reach { steps: [none; 3], depth: 0, slot: index as usize });
        }
        let mut rest = index - own;
        if rest < 2 * PER {
            let which = (rest / PER) as u16;
            let step = (which, 1 + u32::from(which));
            let slot = (rest % PER) as usize;
            return Some(Reach { steps: [step, none, none], depth: 1, slot });
        }
        rest -= 2 * PER;
        if rest < 2 * PER * PER {
            let which = (rest / (PER * PER)) as usize;
            let leaf = (rest % (PER * PER) / PER) as u16;
            let base = INDIRECT[which];
            let steps = [(2 + which as u16, base), (leaf, base + 1 + u32::from(leaf)), none];
            return Some(Reach { steps, depth: 2, slot: (rest % PER) as usize });
        }
        rest -= 2 * PER * PER;
        if rest >= PER * PER * PER {
            return None;
        }
        let family = (rest / (PER * PER)) as u16;
        let leaf = (rest % (PER * PER) / PER) as u16;
        let base = DOUBLE + 1 + FAMILY * u32::from(family);
        let steps = [(4, DOUBLE), (family, base), (leaf, base + 1 + u32::from(leaf))];
        Some(Reach { steps, depth: 3, slot: (rest % PER) as usize })
    }

    /// The first block index of the direct node at this offset (0: the inode); none if the offset
    /// is an indirect node's, or beyond the tree.
    pub fn first_index(offset: u32, own: usize) -> Option<u64> {
        let own = own as u64;
        let at = |leaf: u32| own + u64::from(leaf) * PER;
        match offset {
            0 => Some(0),
            1 | 2 => Some(at(offset - 1)),
            3 => None,
            _ if offset < INDIRECT[1] => Some(at(2 + offset - 4)),
            _ if offset == INDIRECT[1] => None,
            _ if offset < DOUBLE => Some(at(2 + PER as u32 + offset - INDIRECT[1] - 1)),
            DOUBLE => None,
            _ => {
                let rest = offset - DOUBLE - 1;
                let (family, place) = (rest / FAMILY, rest % FAMILY);
                if place == 0 || u64::from(family) >= PER {
                    return None;
                }
                let leaf = u64::from(family) * PER + u64::from(place - 1);
                Some(own + (2 + 2 * PER + leaf) * PER)
            }
        }
    }

    /// Nodes below the inode on the way: slot in the one above, node offset.
    pub fn steps(&self) -> &[(u16, u32)] {
        &self.steps[..self.depth]
    }
}

/// A node block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeBlock(pub Box<Block>);

macro_rules! fields {
    ($($(#[$doc:meta])* $get:ident $set:ident $ty:ty, $read:ident $write:ident $at:expr;)*) => {
        $(
            $(#[$doc])*
            pub fn $get(&self) -> $ty {
                $read(&self.0[..], $at)
            }
            /// Sets it.
            pub fn $set(&mut self, value: $ty) {
                $write(&mut self.0[..], $at, value);
            }
        )*
    };
}

impl NodeBlock {
    /// A node without pointers.
    pub fn new(nid: Nid, ino: Nid, offset: u32, cold: bool) -> NodeBlock {
        let mut node = NodeBlock(zeroed());
        node.set_footer(nid, ino, offset, cold);
        node
    }

    /// The same in a block that was another's.
    pub fn renew(&mut self, nid: Nid, ino: Nid, offset: u32, cold: bool) {
        self.0.fill(0);
        self.set_footer(nid, ino, offset, cold);
    }

    fn set_footer(&mut self, nid: Nid, ino: Nid, offset: u32, cold: bool) {
        put_u32(&mut self.0[..], FOOTER, nid.0);
        put_u32(&mut self.0[..], FOOTER + 4, ino.0);
        put_u32(&mut self.0[..], FOOTER + 8, offset << 3 | u32::from(cold));
    }

    /// Its own number.
    pub fn nid(&self) -> Nid {
        Nid(u32_at(&self.0[..], FOOTER))
    }
    /// Its file's number.
    pub fn ino(&self) -> Nid {
        Nid(u32_at(&self.0[..], FOOTER + 4))
    }
    /// Whether it is an inode.
    pub fn is_inode(&self) -> bool {
        self.nid() == self.ino()
    }
    fn flags(&self) -> u32 {
        u32_at(&self.0[..], FOOTER + 8)
    }
    /// Its place in the index tree.
    pub fn offset(&self) -> u32 {
        self.flags() >> 3
    }
    /// Whether a flag is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags() & flag != 0
    }
    /// Whether it holds numbers of nodes, not addresses.
    pub fn is_indirect(&self) -> bool {
        self.offset() != XATTR_OFFSET && Reach::first_index(self.offset(), 0).is_none()
    }
    /// Says whether it is a directory's (not cold) or not.
    pub fn set_cold(&mut self, cold: bool) {
        let kept = self.flags() & !NodeFlags::COLD;
        put_u32(&mut self.0[..], FOOTER + 8, kept | if cold { NodeFlags::COLD } else { 0 });
    }
    /// Sets the marks of fsync.
    pub fn mark(&mut self, fsync: bool, dentry: bool) {
        let kept = self.flags() & !(NodeFlags::FSYNC | NodeFlags::DENTRY);
        let marks =
            if fsync { NodeFlags::FSYNC } else { 0 } | if dentry { NodeFlags::DENTRY } else { 0 };
        put_u32(&mut self.0[..], FOOTER + 8, kept | marks);
    }
    /// The checkpoint it was written after: version, and what stands above it.
    pub fn written_after(&self) -> u64 {
        u64_at(&self.0[..], FOOTER + 12)
    }
    /// Where the warm log goes on behind it.
    pub fn next(&self) -> BlockAddr {
        BlockAddr(u32_at(&self.0[..], FOOTER + 20))
    }
    /// Sets where the log goes on.
    pub fn link(&mut self, next: BlockAddr) {
        put_u32(&mut self.0[..], FOOTER + 20, next.0);
    }
    /// A checksum, going on from `sum`, of everything but what says when it was written.
    pub fn checksum(&self, sum: u32) -> u32 {
        crc32c(crc32c(sum, &self.0[..FOOTER + 12]), &self.0[FOOTER + 20..])
    }
    /// Sets what says when it was written, and where the log goes on.
    pub fn stamp(&mut self, written_after: u64, next: BlockAddr) {
        put_u64(&mut self.0[..], FOOTER + 12, written_after);
        self.link(next);
    }

    // --- Pointers

    /// Word `slot`: a data address in an inode or direct node, a number in an indirect one.
    pub fn word(&self, slot: usize) -> u32 {
        u32_at(&self.0[..], self.word_at(slot))
    }
    /// Sets a word.
    pub fn set_word(&mut self, slot: usize, value: u32) {
        let at = self.word_at(slot);
        put_u32(&mut self.0[..], at, value);
    }
    fn word_at(&self, slot: usize) -> usize {
        assert!(slot < self.slots(), "slot {slot} of {}", self.slots());
        if self.is_inode() { self.slots_at() + 4 * slot } else { 4 * slot }
    }
    /// Words from `first` on.
    pub fn words(&self, first: usize) -> impl Iterator<Item = u32> {
        let at = if self.is_inode() { self.slots_at() } else { 0 };
        let end = at + 4 * self.slots();
        let bytes = self.0[(at + 4 * first).min(end)..end].chunks_exact(4);
        bytes.map(|word| u32_at(word, 0))
    }
    /// Makes the words from `first` on holes.
    pub fn clear_words(&mut self, first: usize) {
        let at = if self.is_inode() { self.slots_at() } else { 0 };
        let end = at + 4 * self.slots();
        self.0[(at + 4 * first).min(end)..end].fill(0);
    }
    /// Pointers that it holds.
    pub fn slots(&self) -> usize {
        if self.is_inode() { self.inode_slots() } else { ADDRS_PER_BLOCK }
    }
    /// One of an inode's five node numbers.
    pub fn child(&self, which: usize) -> Nid {
        Nid(u32_at(&self.0[..], NIDS_AT + 4 * which))
    }
    /// Sets one.
    pub fn set_child(&mut self, which: usize, nid: Nid) {
        put_u32(&mut self.0[..], NIDS_AT + 4 * which, nid.0);
    }
}

/// What an inode holds beside pointers. Of no meaning for other nodes.
pub trait Inode {
    /// When it was last read, changed in itself, changed in its data.
    fn times(&self) -> [Stamp; 3];
    /// Sets one: 0 read, 1 changed, 2 data.
    fn set_time(&mut self, which: usize, stamp: Stamp);
    /// The name under which its parent knows it, as far as known.
    fn name(&self) -> &[u8];
    /// Sets it.
    fn set_name(&mut self, name: &[u8]);
}

impl NodeBlock {
    fields! {
        /// Type and permissions.
        mode set_mode u16, u16_at put_u16 0;
        /// User.
        uid set_uid u32, u32_at put_u32 4;
        /// Group.
        gid set_gid u32, u32_at put_u32 8;
        /// Names.
        links set_links u32, u32_at put_u32 12;
        /// Bytes.
        size set_size u64, u64_at put_u64 16;
        /// Blocks, nodes included.
        blocks set_blocks u64, u64_at put_u64 24;
        /// Which use of its number it is.
        generation set_generation u32, u32_at put_u32 68;
        /// Levels of a directory's hash table in use.
        depth set_depth u32, u32_at put_u32 72;
        /// Node of its xattrs.
        xattr_nid set_xattr_nid u32, u32_at put_u32 76;
        /// Attributes of `chattr`.
        attributes set_attributes u32, u32_at put_u32 80;
        /// Directory that has its name, as far as known.
        parent set_parent u32, u32_at put_u32 84;
    }

    /// Advice bits: 1 cold, 2 parent lost, 10h size kept.
    pub fn advise(&self) -> u8 {
        self.0[2]
    }
    /// Sets them.
    pub fn set_advise(&mut self, bits: u8) {
        self.0[2] = bits;
    }
    /// What stands in place of pointers: bits of [`InlineFlags`].
    pub fn inline(&self) -> u8 {
        self.0[3]
    }
    /// Sets them.
    pub fn set_inline(&mut self, bits: u8) {
        self.0[3] = bits;
    }
    /// Levels that a directory begins with.
    pub fn dir_level(&self) -> u8 {
        self.0[347]
    }

    fn extra(&self) -> usize {
        if self.inline() & InlineFlags::EXTRA == 0 {
            return 0;
        }
        // What a damaged inode claims must still be inside it.
        usize::from(u16_at(&self.0[..], SLOTS_AT)).min(EXTRA_MOST) & !3
    }
    fn slots_at(&self) -> usize {
        SLOTS_AT + self.extra()
    }
    fn inode_slots(&self) -> usize {
        let taken = if self.inline() & InlineFlags::XATTR == 0 { 0 } else { XATTR_WORDS };
        INODE_SLOTS.saturating_sub(self.extra() / 4 + taken)
    }
    /// Whether data stands in place of pointers.
    pub fn is_inline_data(&self) -> bool {
        self.inline() & InlineFlags::DATA != 0
    }
    /// Inline data: as many bytes as there may be.
    pub fn inline_data(&self) -> &[u8] {
        let from = self.slots_at() + 4;
        &self.0[from..(self.slots_at() + 4 * self.inode_slots()).max(from)]
    }
    /// Inline directory entries; none if extra attributes leave them no room.
    pub fn inline_entries(&self) -> Option<&[u8]> {
        let from = self.slots_at() + 4;
        let end = from + super::Area::INLINE.bytes();
        (end <= NIDS_AT).then(|| &self.0[from..end])
    }
    /// The same, to be changed.
    pub fn inline_entries_mut(&mut self) -> Option<&mut [u8]> {
        let from = self.slots_at() + 4;
        let end = from + super::Area::INLINE.bytes();
        (end <= NIDS_AT).then(|| &mut self.0[from..end])
    }
    /// Inline data, to be changed.
    pub fn inline_data_mut(&mut self) -> &mut [u8] {
        let from = self.slots_at() + 4;
        let to = (self.slots_at() + 4 * self.inode_slots()).max(from);
        &mut self.0[from..to]
    }
    /// Makes all pointers holes: what stood in their place is gone.
    pub fn clear_inline(&mut self, bits: u8) {
        let (from, to) = (self.slots_at(), self.slots_at() + 4 * self.inode_slots());
        self.0[from..to].fill(0);
        let kept = self.inline() & !bits;
        self.set_inline(kept);
    }
    /// The bytes of inline xattrs.
    pub fn inline_xattrs(&mut self) -> Option<&mut [u8]> {
        let has = self.inline() & InlineFlags::XATTR != 0;
        has.then(|| &mut self.0[NIDS_AT - 4 * XATTR_WORDS..NIDS_AT])
    }
    /// The bytes that an xattr node has for them.
    pub fn xattr_bytes(&mut self) -> &mut [u8] {
        &mut self.0[..FOOTER]
    }
    /// Whether there is a cached extent.
    pub fn has_extent(&self) -> bool {
        self.0[348..360].iter().any(|byte| *byte != 0)
    }
    /// Forgets the cached extent.
    pub fn clear_extent(&mut self) {
        self.0[348..360].fill(0);
    }
    /// The fields before the pointers, for roll-forward; the extent is not among them.
    pub fn head(&self) -> [u8; 348] {
        array(&self.0[..], 0)
    }
    /// Sets them.
    pub fn set_head(&mut self, head: &[u8; 348]) {
        put(&mut self.0[..], 0, head);
    }
    /// A device's number, if this is a device.
    pub fn rdev(&self) -> (u32, u32) {
        match (self.word(0), self.word(1)) {
            (0, wide) => ((wide >> 8) & 0xFFF, (wide & 0xFF) | (wide >> 12) & 0xFFF00),
            (small, _) => (small >> 8, small & 0xFF),
        }
    }
    /// Sets a device's number.
    pub fn set_rdev(&mut self, major: u32, minor: u32) {
        if major < 256 && minor < 256 && (major | minor) != 0 {
            self.set_word(0, major << 8 | minor);
        } else {
            self.set_word(1, minor & 0xFF | major << 8 | (minor & !0xFF) << 12);
        }
    }
}

impl Inode for NodeBlock {
    fn times(&self) -> [Stamp; 3] {
        std::array::from_fn(|i| Stamp {
            seconds: u64_at(&self.0[..], 32 + 8 * i),
            nanos: u32_at(&self.0[..], 56 + 4 * i),
        })
    }
    fn set_time(&mut self, which: usize, stamp: Stamp) {
        put_u64(&mut self.0[..], 32 + 8 * which, stamp.seconds);
        put_u32(&mut self.0[..], 56 + 4 * which, stamp.nanos);
    }
    fn name(&self) -> &[u8] {
        let len = (u32_at(&self.0[..], 88) as usize).min(super::NAME_MAX);
        &self.0[92..92 + len]
    }
    fn set_name(&mut self, name: &[u8]) {
        put_u32(&mut self.0[..], 88, name.len() as u32);
        self.0[92..92 + super::NAME_MAX].fill(0);
        put(&mut self.0[..], 92, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_and_offsets_are_inverse() {
        let own = INODE_SLOTS;
        let edges = [0, 922, 923, 1940, 1941, 2958, 2959, 3976, 3977, 1_039_282, 1_039_283];
        let double = 923 + 2 * PER + 2 * PER * PER;
        let more = [2_075_607, double - 1, double, double + PER, double + PER * PER];
        let last = double + PER * PER * PER - 1;
        for index in edges.into_iter().chain(more).chain([last]) {
            let reach = Reach::of(index, own).unwrap();
            let offset = reach.steps().last().map_or(0, |(_, offset)| *offset);
            let first = Reach::first_index(offset, own).unwrap();
            assert_eq!(first + reach.slot as u64, index, "{reach:?}");
        }
        assert_eq!(Reach::of(last + 1, own), None);
        assert_eq!(Reach::of(923 + 2 * PER, own).unwrap().steps(), [(2, 3), (0, 4)]);
        let second = Reach::of(923 + 2 * PER + PER * PER, own).unwrap();
        assert_eq!(second.steps(), [(3, 1022), (0, 1023)]);
        assert_eq!(Reach::of(double, own).unwrap().steps(), [(4, 2041), (0, 2042), (0, 2043)]);
        for offset in [3, 1022, 2041, 2042, 2042 + 1019] {
            assert_eq!(Reach::first_index(offset, own), None, "{offset}");
        }
    }

    #[test]
    fn device_numbers_small_and_wide() {
        for (major, minor) in [(8, 1), (0, 0), (255, 255), (256, 3), (4, 256), (0xFFF, 0xFFFFF)] {
            let mut node = NodeBlock::new(Nid(9), Nid(9), 0, true);
            node.set_rdev(major, minor);
            assert_eq!(node.rdev(), (major, minor));
        }
    }
}
