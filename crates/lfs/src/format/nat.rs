//! Entries of the node address table: where each node lies, and whose it is.

use super::{put_u32, u32_at};
use crate::{BlockAddr, Nid};

/// Bytes of an entry.
const BYTES: usize = 9;
/// Entries of a block.
pub const NAT_PER_BLOCK: usize = super::BLOCK_BYTES / BYTES;

/// One node's entry. Address 0: the number is free.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NatEntry {
    /// Counts the node's uses; a data block's summary names it.
    pub version: u8,
    /// The file that the node belongs to.
    pub ino: Nid,
    /// Where it lies.
    pub addr: BlockAddr,
}

impl NatEntry {
    /// Bytes of an entry in a journal, behind its number.
    pub(super) const BYTES: usize = BYTES;

    pub(super) fn read(bytes: &[u8]) -> NatEntry {
        let (ino, addr) = (Nid(u32_at(bytes, 1)), BlockAddr(u32_at(bytes, 5)));
        NatEntry { version: bytes[0], ino, addr }
    }

    pub(super) fn write(self, bytes: &mut [u8]) {
        bytes[0] = self.version;
        put_u32(bytes, 1, self.ino.0);
        put_u32(bytes, 5, self.addr.0);
    }

    /// Entry `i` of a block.
    pub fn get(block: &[u8], i: usize) -> NatEntry {
        NatEntry::read(&block[i * BYTES..])
    }

    /// Puts entry `i` into a block.
    pub fn put(self, block: &mut [u8], i: usize) {
        self.write(&mut block[i * BYTES..]);
    }
}
