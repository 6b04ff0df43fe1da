//! The bytes of the journal (paper 2, section IV-A): a state block and records, in the gap between
//! the superblocks and segment 0, which other programs never touch.
//!
//! A record is the paper's journal block (511 pairs of addresses and 8 bytes at its end) and a copy
//! of the victim's summary. Where the paper has 8 bytes of version there are 28 bits of version, 4
//! that say how many records before it were written with it, and 4 bytes of a checksum, so that half
//! a record, or one of another time or place, is told from a whole one.

use block::crc32c;

use super::Move;
use crate::BlockAddr;
use crate::format::{Block, put, put_u32, put_u64, u32_at, u64_at, zeroed};

/// Pairs that fit: a full segment is no victim.
pub const MOVES_MAX: usize = 511;
/// Blocks of a record.
pub const RECORD_BLOCKS: u32 = 2;
/// Records that are written together, at most.
pub const BATCH_MAX: u32 = 16;
/// Where the state block is.
pub const STATE_AT: BlockAddr = BlockAddr(32);
/// Where its copy is, on devices that tear a block: it is written and durable before the block itself is
/// written over, and counts only where that is torn.
pub const STATE_COPY_AT: BlockAddr = BlockAddr(33);
/// Where records begin.
pub const FIRST_SLOT: u32 = 64;
/// The superblock's magic while a volume is mounted with a journal: `VARV`.
pub const LIVE_MAGIC: u32 = u32::from_le_bytes(*b"VARV");

const VERSION_AT: usize = 4088;
const CRC_AT: usize = 4092;
const STATE_NAME: &[u8; 8] = b"VARVSCJ1";
const FORMAT: u32 = 2;
/// Bits of the version in a record.
const VERSION_BITS: u32 = 28;

/// What identifies a record: whose, after which checkpoint, which one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The volume.
    pub uuid: [u8; 16],
    /// The checkpoint that it follows.
    pub version: u64,
    /// Its slot, which is its number.
    pub slot: u32,
}

fn checksum(identity: &Identity, journal: &Block, summary: &Block) -> u32 {
    let parts: [&[u8]; 5] = [
        &identity.uuid,
        &identity.version.to_le_bytes(),
        &identity.slot.to_le_bytes(),
        &journal[..CRC_AT],
        &summary[..],
    ];
    parts.into_iter().fold(0, crc32c)
}

fn version(identity: &Identity) -> u32 {
    identity.version as u32 & ((1 << VERSION_BITS) - 1)
}

/// The journal block of a record that is written behind so many others in one write; `summary`
/// follows it on the media. More moves or records than fit are a bug of the caller.
pub fn encode(identity: &Identity, behind: u32, moves: &[Move], summary: &Block) -> Box<Block> {
    assert!(moves.len() <= MOVES_MAX, "{} moves", moves.len());
    assert!(behind < BATCH_MAX.min(identity.slot + 1), "{behind} before slot {}", identity.slot);
    let mut block = zeroed();
    for (i, step) in moves.iter().enumerate() {
        put_u32(&mut block[..], 8 * i, step.old.0);
        put_u32(&mut block[..], 8 * i + 4, step.new.0);
    }
    put_u32(&mut block[..], VERSION_AT, version(identity) | behind << VERSION_BITS);
    let sum = checksum(identity, &block, summary);
    put_u32(&mut block[..], CRC_AT, sum);
    block
}

/// The moves of a record, if it is the one that is asked for and whole, and how many were written
/// before it in the same write.
pub fn decode(identity: &Identity, journal: &Block, summary: &Block) -> Option<(u32, Vec<Move>)> {
    let found = u32_at(&journal[..], VERSION_AT);
    let whole = found & ((1 << VERSION_BITS) - 1) == version(identity)
        && u32_at(&journal[..], CRC_AT) == checksum(identity, journal, summary);
    if !whole {
        return None;
    }
    let pair = |i: usize| Move {
        old: BlockAddr(u32_at(&journal[..], 8 * i)),
        new: BlockAddr(u32_at(&journal[..], 8 * i + 4)),
    };
    let moves = (0..MOVES_MAX).map(pair).take_while(|step| step.old.0 != 0).collect();
    Some((found >> VERSION_BITS, moves))
}

/// The state block: how the journal is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// Records that fit.
    pub slots: u32,
    /// The volume.
    pub uuid: [u8; 16],
    /// The checkpoint at the mount.
    pub version: u64,
}

impl State {
    /// Writes it.
    pub fn encode(&self) -> Box<Block> {
        let mut block = zeroed();
        let b = &mut block[..];
        put(b, 0, STATE_NAME);
        put_u32(b, 8, FORMAT);
        put_u32(b, 12, self.slots);
        put_u32(b, 16, FIRST_SLOT);
        put_u32(b, 20, RECORD_BLOCKS);
        put(b, 24, &self.uuid);
        put_u64(b, 40, self.version);
        let sum = crc32c(0, &b[..CRC_AT]);
        put_u32(b, CRC_AT, sum);
        block
    }

    /// Reads it; none if it is damaged or of another format.
    pub fn decode(b: &Block) -> Option<State> {
        let known = b[..8] == *STATE_NAME
            && u32_at(b, CRC_AT) == crc32c(0, &b[..CRC_AT])
            && [u32_at(b, 8), u32_at(b, 16), u32_at(b, 20)] == [FORMAT, FIRST_SLOT, RECORD_BLOCKS];
        known.then(|| State {
            slots: u32_at(b, 12),
            uuid: crate::format::array(b, 24),
            version: u64_at(b, 40),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: Identity = Identity { uuid: [5; 16], version: 1 << 32 | 4, slot: 3 };

    #[test]
    fn figure_2_of_the_paper() {
        let moves = [Move { old: BlockAddr(511), new: BlockAddr(1536) }];
        let identity = Identity { version: 4, ..WHO };
        let block = encode(&identity, 0, &moves, &zeroed());
        assert_eq!((u32_at(&block[..], 0), u32_at(&block[..], 4)), (511, 1536));
        assert_eq!(u32_at(&block[..], VERSION_AT), 4, "in the last eight bytes");
        assert_eq!(decode(&identity, &block, &zeroed()), Some((0, moves.to_vec())));
    }

    #[test]
    fn any_other_byte_place_or_time_is_no_record() {
        let moves: Vec<Move> = (1..=MOVES_MAX as u32)
            .map(|i| Move { old: BlockAddr(i), new: BlockAddr(i * 7) })
            .collect();
        let summary = zeroed();
        let block = encode(&WHO, 3, &moves, &summary);
        assert_eq!(decode(&WHO, &block, &summary), Some((3, moves)));
        for wrong in [
            Identity { slot: 4, ..WHO },
            Identity { version: 4, ..WHO },
            Identity { uuid: [6; 16], ..WHO },
        ] {
            assert_eq!(decode(&wrong, &block, &summary), None);
        }
        for at in 0..4096 {
            let mut torn = block.clone();
            torn[at] ^= 4;
            assert_eq!(decode(&WHO, &torn, &summary), None);
            let mut other = summary.clone();
            other[at] ^= 4;
            assert_eq!(decode(&WHO, &block, &other), None);
        }
    }

    #[test]
    fn the_state_block_is_whole_or_none() {
        let state = State { slots: 64, uuid: [7; 16], version: 99 };
        let mut block = state.encode();
        assert_eq!(State::decode(&block), Some(state));
        block[13] ^= 1;
        assert_eq!(State::decode(&block), None);
    }
}
