//! Seals: checksums of the nodes of the roll-forward chain, for devices that tear a block.
//!
//! A node of F2FS carries no checksum. On a device whose atomic unit is less than a block a cut may
//! leave a node whose footer is new and whose pointers are not: roll-forward would take it for the
//! newest version and give up the good one. So on such a device a checkpoint says that every node
//! written after it to the log of the chain is sealed: of the 64 bits of its stamp 32 are a checksum of
//! the node, which goes on from that of the checkpoint.
//!
//! Invariants:
//! * a plain volume stays plain F2FS: the checksum stands where the format has that of the checkpoint,
//!   which a flag of the format ([`Flags::NOCRC_RECOVERY`]) tells others not to compare. With a journal
//!   (nobody else mounts it) it stands in the other half, for the upper one has the number of records;
//! * a checkpoint of an unmount seals nothing, so that a kernel may go on from it; should one go on from
//!   what a cut left, its nodes are told from ours by what stands in place of the seal;
//! * the chain ends before the first node whose seal does not hold: an fsync that was answered flushed
//!   all of its own, so what is given up was never promised;
//! * where blocks are whole nothing is sealed and nothing checked.

use block::{BlockDevice, crc32c};

use super::Fs;
use super::options::Bug;
use crate::format::{Flags, NodeBlock, Seal};

impl<D: BlockDevice> Fs<D> {
    /// How the nodes after a checkpoint that is made now are sealed.
    pub(super) fn seal_to_come(&self) -> Option<Seal> {
        let seal = if self.journals() { Seal::Version } else { Seal::Crc };
        self.disk.tears().then_some(seal)
    }

    /// A stamp with the seal of a node in it.
    fn sealed(&self, node: &NodeBlock, seal: Seal, stamp: u64) -> u64 {
        let others = stamp & !seal.bits();
        let sum = crc32c(self.checkpoints.crc(), &self.cp().version.to_le_bytes());
        let mut sum = crc32c(node.checksum(sum), &others.to_le_bytes());
        while self.is_others(sum) {
            sum = sum.wrapping_add(1);
        }
        others | u64::from(sum) << seal.bits().trailing_zeros()
    }

    /// What a kernel puts where a seal would be, if it went on from our checkpoint before it made one.
    fn is_others(&self, sum: u32) -> bool {
        sum == 0 || sum == self.checkpoints.crc()
    }

    /// What a node in the log of the chain is stamped with, when all else of it is as it will be.
    pub(super) fn stamp_in_chain(&self, node: &NodeBlock) -> u64 {
        let stamp = self.written_after();
        let Some(seal) = self.cp().seal else { return stamp };
        if self.options.bug.has(Bug::SealKept) && self.may_be_after(node) {
            return stamp & !seal.bits() | node.written_after() & seal.bits();
        }
        self.sealed(node, seal, stamp)
    }

    /// Whether a node was written, as a whole, after the durable checkpoint.
    pub(super) fn is_after(&self, node: &NodeBlock) -> bool {
        let stamp = node.written_after();
        let others = self.cp().seal == Some(Seal::Crc) && self.is_others((stamp >> 32) as u32);
        let seal = self.cp().seal.filter(|_| !others && !self.options.bug.has(Bug::SealUnchecked));
        self.may_be_after(node) && seal.is_none_or(|seal| self.sealed(node, seal, stamp) == stamp)
    }

    /// Whether all of a node's stamp but its seal says that it was.
    pub(super) fn may_be_after(&self, node: &NodeBlock) -> bool {
        let stamp = node.written_after();
        if let Some(seal) = self.cp().seal {
            self.same_epoch(stamp & !seal.bits() | self.plain_stamp() & seal.bits())
        } else if self.cp().flags.any(Flags::CRC_RECOVERY)
            && !self.cp().flags.any(Flags::NOCRC_RECOVERY)
        {
            self.same_epoch(stamp)
        } else {
            stamp as u32 == self.cp().version as u32
        }
    }
}
