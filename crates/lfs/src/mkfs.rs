//! Making a volume: what `mkfs.f2fs` lays out, without optional features, journals or compact
//! summaries.
//!
//! Invariant: the superblocks are written last, after a flush, so that a volume is there or not.

use block::{BlockDevice, Time};

use crate::disk::{Cause, Disk};
use crate::format::{
    Area, Block, Checkpoint, Entry, FileType, Flags, Heads, Inode, Journal, NAT_PER_BLOCK,
    NatEntry, NodeBlock, Origin, SIT_PER_BLOCK, SitEntry, Summary, Superblock, VALID_BYTES,
    msb_set, zeroed,
};
use crate::layout::Layout;
use crate::{BlockAddr, FsError, Nid, Now, SegNo};

/// The first version whose `mkfs` wrote what this one writes. It stands in the superblock: were it that of each
/// release, fixed loads would have other bytes, and recorded searches other digests, in every one.
const MAKER: &str = "varve 0.1.0";

/// Hot, warm, cold data, then hot, warm, cold node, in the first segments: data logs stand behind
/// the node logs, as `mkfs.f2fs` orders them.
const HEADS: [u32; 6] = [3, 4, 5, 0, 1, 2];

/// What may be chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MkfsOptions {
    /// The volume's identity.
    pub uuid: [u8; 16],
    /// Its label; 511 UTF-16 units at most.
    pub label: String,
    /// The first checkpoint's version: random, so that old blocks never look current.
    pub version: u32,
    /// Log2 of the blocks of a segment: 9. Smaller ones are for tests and known to nobody else.
    pub log_blocks_per_seg: u32,
    /// Blocks before segment 0: 512, or more.
    pub gap: u32,
}

impl MkfsOptions {
    /// The usual options.
    pub fn new(uuid: [u8; 16], version: u32) -> MkfsOptions {
        MkfsOptions { uuid, label: String::new(), version, log_blocks_per_seg: 9, gap: 512 }
    }
}

/// Reserved segments, and those plus over-provisioning, of a main area.
///
/// The share that leaves most space to the user: with the share x (in percent) cleaning needs
/// 200/x + 8 segments in reserve, and x percent of the others are set apart. Found by fitting what
/// `mkfs.f2fs` 1.15 prints for 60 sizes: steps of 5 % below 256 segments, of 0.01 % above.
pub fn provision(main: u32) -> (u32, u32) {
    let step: u32 = if main < 256 { 500 } else { 1 };
    let rest = u128::from(main.saturating_sub(8));
    // Hundredths of a percent; cost in a common fraction: 20000/j + rest * j / 10000.
    let less = |a: u128, b: u128| {
        let cost = |j: u128| 200_000_000 + rest * j * j;
        cost(a) * b < cost(b) * a
    };
    let best = (step..10_000)
        .step_by(step as usize)
        .map(u128::from)
        .reduce(|best, j| if less(j, best) { j } else { best });
    let share = best.map_or(500, |j| j as u64);
    let reserved = (20_000 / share) as u32 + 8;
    let others = u64::from(main.saturating_sub(reserved)) * share / 10_000;
    (reserved, reserved + others as u32)
}

/// The superblock of a volume of so many blocks.
///
/// # Errors
/// [`FsError::Invalid`] if the volume is too small, too large, or an option makes no sense.
pub fn superblock(blocks: u64, options: &MkfsOptions) -> Result<Superblock, FsError> {
    let (gap, per_seg) = (u64::from(options.gap), 1_u64 << options.log_blocks_per_seg);
    if !(2..=9).contains(&options.log_blocks_per_seg) || !gap.is_multiple_of(per_seg) || gap < 2 {
        return Err(FsError::Invalid("segments of 4 to 512 blocks, a gap of whole segments"));
    }
    if blocks > 1 << 29 {
        return Err(FsError::Invalid("a volume may have 2 TiB at most"));
    }
    let segments = blocks.saturating_sub(gap) / per_seg;
    // A pack needs up to 9 blocks and its orphans.
    let cp = if per_seg < 32 { 2 * (32 / per_seg) } else { 2 };
    let sit = 2 * segments.div_ceil(SIT_PER_BLOCK as u64).div_ceil(per_seg);
    let data = segments.saturating_sub(cp + sit) * per_seg;
    // One bit for each block of SIT and NAT must fit into the checkpoint block: larger volumes have
    // fewer node numbers.
    let room = Checkpoint::BITMAP_ROOM as u64;
    let bits = room.saturating_sub((sit / 2 * per_seg).div_ceil(8)) * 8 / per_seg;
    let nat = 2 * data.div_ceil(NAT_PER_BLOCK as u64).div_ceil(per_seg).min(bits);
    let left = segments.saturating_sub(cp + sit + nat);
    // A summary for each segment that is left, their own included, and one.
    let ssa = (left + 1).div_ceil(per_seg);
    let main = left.saturating_sub(ssa);
    let (reserved, provisioned) = provision(main as u32);
    if main < 16 || u64::from(provisioned) + 2 > main || u64::from(reserved) >= main {
        return Err(FsError::Invalid("the volume is too small"));
    }
    let mut sb = Superblock::empty();
    sb.logs[3] = options.log_blocks_per_seg;
    sb.block_count = blocks;
    sb.counts = [main as u32, segments as u32];
    sb.segments = [cp, sit, nat, ssa, main].map(|n| n as u32);
    let mut at = gap;
    sb.places[0] = BlockAddr(at as u32);
    for (place, segs) in sb.places[1..].iter_mut().zip([cp, sit, nat, ssa, main]) {
        *place = BlockAddr(at as u32);
        at += segs * per_seg;
    }
    sb.uuid = options.uuid;
    let label: Vec<u16> = options.label.encode_utf16().collect();
    if label.len() > 511 {
        return Err(FsError::Invalid("the label is too long"));
    }
    sb.label[..label.len()].copy_from_slice(&label);
    let maker = MAKER.as_bytes();
    sb.writer[..maker.len()].copy_from_slice(maker);
    sb.maker[..maker.len()].copy_from_slice(maker);
    Ok(sb)
}

/// The least size, in blocks, of a volume with these options; none if no size makes one.
pub fn least_blocks(options: &MkfsOptions) -> Option<u64> {
    let fits = |blocks: u64| superblock(blocks, options).is_ok();
    // A larger one than that is never too small.
    let (mut no, mut yes) = (0, (u64::from(options.gap) + (64 << options.log_blocks_per_seg)) * 4);
    if !fits(yes) {
        return None;
    }
    while yes - no > 1 {
        let middle = no.midpoint(yes);
        if fits(middle) { yes = middle } else { no = middle }
    }
    Some(yes)
}

/// Makes a volume of the whole device; returns the device, and when all was durable there.
///
/// # Errors
/// As [`superblock`]; and what the device says.
pub fn mkfs<D: BlockDevice>(
    device: D,
    options: &MkfsOptions,
    now: Now,
) -> Result<(D, Time), FsError> {
    let mut disk = Disk::new(device, now.at);
    let sb = superblock(disk.blocks(), options)?;
    let layout = Layout::of(&sb, disk.blocks())?;
    let none = zeroed();
    // No old superblock while the tables are made.
    for i in 0..2 {
        disk.write(BlockAddr(i), &none, Cause::Super)?;
    }
    disk.flush()?;
    for at in layout.tables() {
        disk.write(BlockAddr(at), &none, Cause::Super)?;
    }
    let (node, data) = (layout.block(SegNo(HEADS[3]), 0), layout.block(SegNo(HEADS[0]), 0));
    disk.write(data, &root_entries(), Cause::Dentry)?;
    disk.write(
        node,
        &root_inode(options.version, data, layout.block(SegNo(HEADS[3]), 1), now).0,
        Cause::Node,
    )?;
    disk.write(layout.nat_block(0, false), &first_nat(node), Cause::Nat)?;
    disk.write(layout.sit_block(0, false), &first_sit(), Cause::Sit)?;
    for (i, block) in pack(&layout, options.version).iter().enumerate() {
        disk.write(BlockAddr(layout.pack(0).0 + i as u32), block, Cause::Pack)?;
    }
    disk.flush()?;
    for i in 0..2 {
        disk.write(BlockAddr(i), &sb.encode(), Cause::Super)?;
    }
    disk.flush()?;
    let done = disk.clock();
    Ok((disk.into_device()?, done))
}

fn root_inode(version: u32, data: BlockAddr, next: BlockAddr, now: Now) -> NodeBlock {
    let mut root = NodeBlock::new(Nid::ROOT, Nid::ROOT, 0, false);
    root.set_mode(0o040_755);
    root.set_links(2);
    root.set_size(4096);
    root.set_blocks(2);
    (0..3).for_each(|i| root.set_time(i, now.wall));
    root.set_depth(1);
    root.set_word(0, data.0);
    root.stamp(u64::from(version), next);
    root
}

fn root_entries() -> Box<Block> {
    let mut block = zeroed();
    let (ino, kind) = (Nid::ROOT, FileType::Directory);
    Area::BLOCK.put(&mut block[..], 0, Entry { hash: 0, ino, len: 1, kind }, b".");
    Area::BLOCK.put(&mut block[..], 1, Entry { hash: 0, ino, len: 2, kind }, b"..");
    block
}

fn first_nat(root: BlockAddr) -> Box<Block> {
    let mut block = zeroed();
    for (nid, addr) in [(1, BlockAddr(1)), (2, BlockAddr(1)), (3, root)] {
        NatEntry { version: 0, ino: Nid(nid), addr }.put(&mut block[..], nid as usize);
    }
    block
}

fn first_sit() -> Box<Block> {
    let mut block = zeroed();
    for (kind, seg) in HEADS.iter().enumerate() {
        let mut map = [0; VALID_BYTES];
        let used = kind % 3 == 0;
        msb_set(&mut map, 0, used);
        let entry = SitEntry { valid: u16::from(used), kind: kind as u8, map, mtime: 0 };
        entry.put(&mut block[..], *seg as usize);
    }
    block
}

fn pack(layout: &Layout, version: u32) -> Vec<Box<Block>> {
    let (reserved, provisioned) = provision(layout.main_segs);
    let heads = |first: usize| Heads {
        segments: std::array::from_fn(|i| SegNo(HEADS[first + i])),
        offsets: [1, 0, 0],
    };
    let cp = Checkpoint {
        version: u64::from(version),
        user_blocks: u64::from(layout.main_segs - provisioned) * u64::from(layout.per_seg),
        valid_blocks: 2,
        reserved_segments: reserved,
        overprovision_segments: provisioned,
        free_segments: layout.main_segs - 6,
        node_heads: heads(3),
        data_heads: heads(0),
        flags: Flags::UMOUNT.with(Flags::CRC_RECOVERY),
        pack_blocks: 8,
        start_sum: 1,
        valid_nodes: 1,
        valid_inodes: 1,
        next_free_nid: Nid(4),
        sit_bitmap: vec![0; layout.sit_bitmap_bytes()],
        nat_bitmap: vec![0; layout.nat_bitmap_bytes()],
        ..Checkpoint::default()
    };
    let mut blocks = vec![cp.encode()];
    for kind in 0..6 {
        let mut summary = Summary::new(kind >= 3);
        if kind % 3 == 0 {
            summary.origins[0] = Origin { nid: Nid::ROOT, version: 0, slot: 0 };
        }
        blocks.push(summary.encode(&Journal::Empty));
    }
    blocks.push(cp.encode());
    blocks
}
