//! The bytes of the F2FS format (little-endian, packed). Nothing here does I/O or knows a volume.
//!
//! Invariants: structures that are only ever read or written as a whole are decoded and encoded;
//! nodes and directory blocks, of which a foreign image may hold fields unknown here, are views of
//! their bytes, so that what is not understood is kept.

mod bitmap;
mod bytes;
mod checkpoint;
mod crc;
mod dentry;
mod hash;
mod nat;
mod node;
mod sit;
mod summary;
mod superblock;
pub mod xattr;

pub use bitmap::{msb_set, msb_test};
pub use bytes::Block;
pub(crate) use bytes::{array, put, put_u16, put_u32, put_u64, u16_at, u32_at, u64_at, zeroed};
pub use checkpoint::{Checkpoint, Flags, Heads, OrphanBlock, Seal};
pub use crc::crc;
pub use dentry::{Area, Entry, FileType, NAME_MAX, SLOT_BYTES};
pub use hash::name_hash;
pub use nat::{NAT_PER_BLOCK, NatEntry};
pub use node::{
    ADDRS_PER_BLOCK, DIRECT_SLOTS, INLINE_AT, INODE_SLOTS, InlineFlags, Inode, NodeBlock,
    NodeFlags, Reach, XATTR_OFFSET, XATTR_WORDS,
};
pub use sit::{SIT_PER_BLOCK, SitEntry, VALID_BYTES};
pub use summary::{CompactReader, JOURNAL_BYTES, Journal, Origin, SUM_ENTRIES, Summary};
pub use superblock::{MAGIC, Superblock};

/// Bytes of a block, the unit of everything.
pub const BLOCK_BYTES: usize = 4096;
