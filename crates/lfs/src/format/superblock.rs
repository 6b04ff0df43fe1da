//! The superblock: blocks 0 and 1, at byte 1024 of each.

use super::{Block, array, put, put_u16, put_u32, put_u64, u16_at, u32_at, u64_at, zeroed};
use crate::{BlockAddr, FsError, Nid};

/// The format's magic number; the checksum starts from it.
pub const MAGIC: u32 = 0xF2F5_2010;
const AT: usize = 1024;
/// Bytes that nothing here has a name for: from `feature` on.
const REST_AT: usize = 2184;
const REST: usize = 3072 - REST_AT;

macro_rules! features {
    ($($name:literal)*) => {
        [$((
            concat!("the volume's feature ", $name),
            concat!("writing to a volume with the feature ", $name),
        )),*]
    };
}

/// What hinders, by bit: the names are those of `mkfs.f2fs -O`.
const FEATURES: [(&str, &str); 16] = features! {
    "encrypt" "blkzoned" "atomic_write" "extra_attr" "project_quota" "inode_checksum"
    "flexible_inline_xattr" "quota" "inode_crtime" "lost_found" "verity" "sb_checksum" "casefold"
    "compression" "ro" "that is not known here"
};

/// A superblock. Block addresses and counts are in 4 KiB blocks and in segments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// [`MAGIC`] of a volume that nobody has mounted.
    pub magic: u32,
    /// Major and minor version of the format.
    pub version: (u16, u16),
    /// Log2 of sector size, sectors of a block, block size and blocks of a segment.
    pub logs: [u32; 4],
    /// Segments of a section, sections of a zone.
    pub sections: [u32; 2],
    /// Where the checksum of the superblock is (0 without that feature).
    pub checksum_offset: u32,
    /// Blocks of the volume.
    pub block_count: u64,
    /// Sections of the main area; segments from segment 0 on.
    pub counts: [u32; 2],
    /// Segments of checkpoint, SIT, NAT, SSA and main area.
    pub segments: [u32; 5],
    /// Where segment 0, checkpoint, SIT, NAT, SSA and main area begin.
    pub places: [BlockAddr; 6],
    /// Root directory, and the two reserved numbers.
    pub inos: [Nid; 3],
    /// The volume's identity.
    pub uuid: [u8; 16],
    /// Its label, UTF-16.
    pub label: [u16; 512],
    /// Number of file name extensions of cold files, and of hot ones (byte 1664 names neither).
    pub extension_count: u32,
    /// Their names, 8 bytes each.
    pub extensions: [[u8; 8]; 64],
    /// Blocks between a pack's first block and its orphans.
    pub cp_payload: u32,
    /// Who wrote it.
    pub writer: [u8; 256],
    /// Who made it.
    pub maker: [u8; 256],
    /// Feature bits.
    pub feature: u32,
    /// What follows, kept as it is.
    pub rest: [u8; REST],
}

impl Superblock {
    /// One of zeroes.
    pub fn empty() -> Superblock {
        Superblock {
            magic: MAGIC,
            version: (1, 15),
            logs: [9, 3, 12, 9],
            sections: [1, 1],
            checksum_offset: 0,
            block_count: 0,
            counts: [0; 2],
            segments: [0; 5],
            places: [BlockAddr(0); 6],
            inos: [Nid(3), Nid(1), Nid(2)],
            uuid: [0; 16],
            label: [0; 512],
            extension_count: 0,
            extensions: [[0; 8]; 64],
            cp_payload: 0,
            writer: [0; 256],
            maker: [0; 256],
            feature: 0,
            rest: [0; REST],
        }
    }

    /// Reads one of the two blocks. Says nothing about whether it makes sense.
    pub fn decode(block: &Block) -> Superblock {
        let b = &block[AT..];
        let u32s = |at: usize, i: usize| u32_at(b, at + 4 * i);
        Superblock {
            magic: u32_at(b, 0),
            version: (u16_at(b, 4), u16_at(b, 6)),
            logs: std::array::from_fn(|i| u32s(8, i)),
            sections: std::array::from_fn(|i| u32s(24, i)),
            checksum_offset: u32_at(b, 32),
            block_count: u64_at(b, 36),
            counts: std::array::from_fn(|i| u32s(44, i)),
            segments: std::array::from_fn(|i| u32s(52, i)),
            places: std::array::from_fn(|i| BlockAddr(u32s(72, i))),
            inos: std::array::from_fn(|i| Nid(u32s(96, i))),
            uuid: array(b, 108),
            label: std::array::from_fn(|i| u16_at(b, 124 + 2 * i)),
            extension_count: u32_at(b, 1148),
            extensions: std::array::from_fn(|i| array(b, 1152 + 8 * i)),
            cp_payload: u32_at(b, 1664),
            writer: array(b, 1668),
            maker: array(b, 1924),
            feature: u32_at(b, 2180),
            rest: array(b, REST_AT),
        }
    }

    /// Writes a block.
    pub fn encode(&self) -> Box<Block> {
        let mut block = zeroed();
        let b = &mut block[AT..];
        put_u32(b, 0, self.magic);
        put_u16(b, 4, self.version.0);
        put_u16(b, 6, self.version.1);
        let mut u32s = |at: usize, values: &mut dyn Iterator<Item = u32>| {
            values.enumerate().for_each(|(i, value)| put_u32(b, at + 4 * i, value));
        };
        u32s(8, &mut self.logs.into_iter());
        u32s(24, &mut self.sections.into_iter());
        u32s(44, &mut self.counts.into_iter());
        u32s(52, &mut self.segments.into_iter());
        u32s(72, &mut self.places.iter().map(|a| a.0));
        u32s(96, &mut self.inos.iter().map(|a| a.0));
        put_u32(b, 32, self.checksum_offset);
        put_u64(b, 36, self.block_count);
        put(b, 108, &self.uuid);
        self.label.iter().enumerate().for_each(|(i, unit)| put_u16(b, 124 + 2 * i, *unit));
        put_u32(b, 1148, self.extension_count);
        self.extensions.iter().enumerate().for_each(|(i, name)| put(b, 1152 + 8 * i, name));
        put_u32(b, 1664, self.cp_payload);
        put(b, 1668, &self.writer);
        put(b, 1924, &self.maker);
        put_u32(b, 2180, self.feature);
        put(b, REST_AT, &self.rest);
        block
    }

    /// In words, the last of the features that are in `mask` (it needs the ones before it): that it
    /// hinders any use, or that it hinders writing.
    pub fn hindrance(&self, mask: u32, writing: bool) -> Option<&'static str> {
        let bits = self.feature & mask;
        let bit = bits.checked_ilog2().unwrap_or_default() as usize;
        let (any, write) = FEATURES[bit.min(FEATURES.len() - 1)];
        (bits != 0).then_some(if writing { write } else { any })
    }

    /// Reads a block and refuses one that is none of ours.
    ///
    /// # Errors
    /// [`FsError::NotAVolume`] when the magic is another.
    pub fn expect(block: &Block, magic: u32) -> Result<Superblock, FsError> {
        let found = Superblock::decode(block);
        if found.magic == magic { Ok(found) } else { Err(FsError::NotAVolume(found.magic)) }
    }
}
