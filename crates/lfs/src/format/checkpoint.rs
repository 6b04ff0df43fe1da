//! The checkpoint block, first and last of a pack, and orphan blocks.

use super::{Block, crc, put, put_u16, put_u32, put_u64, u16_at, u32_at, u64_at, zeroed};
use crate::{FsError, Nid, SegNo};

const CRC_AT: usize = 4092;
const BITMAPS_AT: usize = 192;
/// Entries of an orphan block.
const ORPHANS: usize = 1020;

/// Flag bits of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags(pub u32);

impl Flags {
    /// Cleanly unmounted.
    pub const UMOUNT: Flags = Flags(1);
    /// There are orphan blocks.
    pub const ORPHANS: Flags = Flags(2);
    /// Data summaries are compact.
    pub const COMPACT: Flags = Flags(4);
    /// A writer met an error.
    pub const ERROR: Flags = Flags(8);
    /// A check is asked for.
    pub const FSCK: Flags = Flags(0x10);
    /// Node summaries are there although it is no unmount.
    pub const FASTBOOT: Flags = Flags(0x20);
    /// Nodes carry the checksum of the checkpoint beside its version.
    pub const CRC_RECOVERY: Flags = Flags(0x40);
    /// Bitmaps of the NAT at the end of the pack's segment.
    pub const NAT_BITS: Flags = Flags(0x80);
    /// Everything free is discarded.
    pub const TRIMMED: Flags = Flags(0x100);
    /// The checksum of the checkpoint in nodes is not to be compared, only its version.
    pub const NOCRC_RECOVERY: Flags = Flags(0x200);
    /// What forbids writing here.
    pub const REFUSED: Flags = Flags(0x8 | 0x10 | 0x400 | 0x1000 | 0x4000);

    /// Whether any of these bits is set.
    pub const fn any(self, of: Flags) -> bool {
        self.0 & of.0 != 0
    }

    /// With these bits too.
    pub const fn with(self, more: Flags) -> Flags {
        Flags(self.0 | more.0)
    }
}

/// Where three logs stand: hot, warm, cold.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Heads {
    /// The open segments.
    pub segments: [SegNo; 3],
    /// The next block in each.
    pub offsets: [u16; 3],
}

/// Where in the stamp of a node of the chain its checksum stands. That nodes have one is said in the
/// checkpoint behind `alloc_type`, in bytes that the format has for logs which no version of it has, and
/// holds for the version that is named there: what another program writes says nothing of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seal {
    /// In place of the checkpoint's checksum.
    Crc,
    /// In place of its version.
    Version,
}

const SEAL_AT: usize = 184;
const SEAL_NAME: &[u8; 3] = b"vSL";

impl Seal {
    /// The bits of a stamp that are the checksum.
    pub fn bits(self) -> u64 {
        match self {
            Seal::Crc => 0xFFFF_FFFF << 32,
            Seal::Version => 0xFFFF_FFFF,
        }
    }

    fn read(b: &Block, flags: Flags) -> Option<Seal> {
        let here = flags.any(Flags::NOCRC_RECOVERY)
            && b[SEAL_AT..SEAL_AT + 3] == *SEAL_NAME
            && u32_at(b, SEAL_AT + 4) == u32_at(b, 0);
        match b[SEAL_AT + 3] {
            1 if here => Some(Seal::Crc),
            2 if here => Some(Seal::Version),
            _ => None,
        }
    }

    fn write(self, b: &mut [u8], version: u64) {
        put(b, SEAL_AT, SEAL_NAME);
        b[SEAL_AT + 3] = match self {
            Seal::Crc => 1,
            Seal::Version => 2,
        };
        put_u32(b, SEAL_AT + 4, version as u32);
    }
}

/// A checkpoint block. Counts are in blocks unless named otherwise.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs)] // the names are the format's
pub struct Checkpoint {
    pub version: u64,
    pub user_blocks: u64,
    pub valid_blocks: u64,
    pub reserved_segments: u32,
    pub overprovision_segments: u32,
    pub free_segments: u32,
    pub node_heads: Heads,
    pub data_heads: Heads,
    pub flags: Flags,
    /// Blocks of the pack.
    pub pack_blocks: u32,
    /// First block of the summaries within the pack.
    pub start_sum: u32,
    pub valid_nodes: u32,
    pub valid_inodes: u32,
    pub next_free_nid: Nid,
    /// Seconds that the volume was mounted.
    pub elapsed: u64,
    /// How the six logs allocate: 0 = append; data hot, warm, cold, then nodes.
    pub alloc_types: [u8; 6],
    /// Nodes written after it to the log of the chain carry a checksum.
    pub seal: Option<Seal>,
    pub sit_bitmap: Vec<u8>,
    pub nat_bitmap: Vec<u8>,
}

impl Checkpoint {
    /// Bytes that both bitmaps may have together.
    pub const BITMAP_ROOM: usize = CRC_AT - BITMAPS_AT;

    /// Reads a block; `None` if its checksum does not match or its parts do not fit.
    pub fn decode(b: &Block) -> Option<Checkpoint> {
        if Checkpoint::checksum(b)? != u32_at(b, CRC_AT) {
            return None;
        }
        let (sit, nat) = (u32_at(b, 156) as usize, u32_at(b, 160) as usize);
        if sit.checked_add(nat)? > Checkpoint::BITMAP_ROOM {
            return None;
        }
        let heads = |seg: usize, off: usize| Heads {
            segments: std::array::from_fn(|i| SegNo(u32_at(b, seg + 4 * i))),
            offsets: std::array::from_fn(|i| u16_at(b, off + 2 * i)),
        };
        Some(Checkpoint {
            version: u64_at(b, 0),
            user_blocks: u64_at(b, 8),
            valid_blocks: u64_at(b, 16),
            reserved_segments: u32_at(b, 24),
            overprovision_segments: u32_at(b, 28),
            free_segments: u32_at(b, 32),
            node_heads: heads(36, 68),
            data_heads: heads(84, 116),
            flags: Flags(u32_at(b, 132)),
            pack_blocks: u32_at(b, 136),
            start_sum: u32_at(b, 140),
            valid_nodes: u32_at(b, 144),
            valid_inodes: u32_at(b, 148),
            next_free_nid: Nid(u32_at(b, 152)),
            elapsed: u64_at(b, 168),
            alloc_types: std::array::from_fn(|i| b[176 + i]),
            seal: Seal::read(b, Flags(u32_at(b, 132))),
            sit_bitmap: b[BITMAPS_AT..BITMAPS_AT + sit].to_vec(),
            nat_bitmap: b[BITMAPS_AT + sit..BITMAPS_AT + sit + nat].to_vec(),
        })
    }

    /// The checksum that a block should carry, if it says that it has one where this format has it.
    pub fn checksum(b: &Block) -> Option<u32> {
        (u32_at(b, 164) as usize == CRC_AT).then(|| crc(&b[..CRC_AT]))
    }

    /// Writes a block.
    pub fn encode(&self) -> Box<Block> {
        let mut block = zeroed();
        let b = &mut block[..];
        put_u64(b, 0, self.version);
        put_u64(b, 8, self.user_blocks);
        put_u64(b, 16, self.valid_blocks);
        put_u32(b, 24, self.reserved_segments);
        put_u32(b, 28, self.overprovision_segments);
        put_u32(b, 32, self.free_segments);
        for (heads, seg, off) in [(&self.node_heads, 36, 68), (&self.data_heads, 84, 116)] {
            for i in 0..8 {
                let known = heads.segments.get(i).map_or(u32::MAX, |s| s.0);
                put_u32(b, seg + 4 * i, known);
                put_u16(b, off + 2 * i, heads.offsets.get(i).copied().unwrap_or(0));
            }
        }
        put_u32(b, 132, self.flags.0);
        put_u32(b, 136, self.pack_blocks);
        put_u32(b, 140, self.start_sum);
        put_u32(b, 144, self.valid_nodes);
        put_u32(b, 148, self.valid_inodes);
        put_u32(b, 152, self.next_free_nid.0);
        put_u32(b, 156, self.sit_bitmap.len() as u32);
        put_u32(b, 160, self.nat_bitmap.len() as u32);
        put_u32(b, 164, CRC_AT as u32);
        put_u64(b, 168, self.elapsed);
        put(b, 176, &self.alloc_types);
        if let Some(seal) = self.seal {
            seal.write(b, self.version);
        }
        put(b, BITMAPS_AT, &self.sit_bitmap);
        put(b, BITMAPS_AT + self.sit_bitmap.len(), &self.nat_bitmap);
        let sum = crc(&b[..CRC_AT]);
        put_u32(b, CRC_AT, sum);
        block
    }
}

/// A block of inodes that are to be deleted at the next mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrphanBlock {
    /// They, 1,020 at most.
    pub inos: Vec<Nid>,
    /// This block's number, from 1.
    pub index: u16,
    /// How many there are.
    pub count: u16,
}

impl OrphanBlock {
    /// Entries that fit.
    pub const MOST: usize = ORPHANS;

    /// Reads a block.
    ///
    /// # Errors
    /// [`FsError::Corrupt`] if it claims more entries than fit.
    pub fn decode(b: &Block) -> Result<OrphanBlock, FsError> {
        let entries = u32_at(b, 4088) as usize;
        if entries > ORPHANS {
            return Err(FsError::Corrupt("an orphan block claims more entries than fit"));
        }
        let inos = (0..entries).map(|i| Nid(u32_at(b, 4 * i))).collect();
        Ok(OrphanBlock { inos, index: u16_at(b, 4084), count: u16_at(b, 4086) })
    }

    /// Writes a block. More entries than fit are a bug of the caller.
    pub fn encode(&self) -> Box<Block> {
        assert!(self.inos.len() <= ORPHANS, "{} orphans in a block", self.inos.len());
        let mut block = zeroed();
        for (i, ino) in self.inos.iter().enumerate() {
            put_u32(&mut block[..], 4 * i, ino.0);
        }
        put_u16(&mut block[..], 4084, self.index);
        put_u16(&mut block[..], 4086, self.count);
        put_u32(&mut block[..], 4088, self.inos.len() as u32);
        block
    }
}
