//! The spare-area record of one slot: 32 bytes, little-endian, one layout for the whole drive
//! (docs/formats.md). A block's first page also carries a [`BlockHeader`].

use block::crc32c;

/// Bytes of one slot's record on media.
pub const OOB_BYTES: usize = 32;
/// The `lpn` field of a slot that is not a data page.
pub const NO_LPN: u32 = u32::MAX;
const U48: u64 = (1 << 48) - 1;

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Kind {
    /// Host data.
    Data = 1,
    /// Discarded ranges.
    Trim = 2,
    /// Which transactions are committed.
    State = 3,
    /// Remapped pairs.
    Remap = 4,
    /// Nothing: fills a page, a super-page or a word line.
    #[default]
    Padding = 5,
    /// A translation page; `lpn` is its number.
    Map = 6,
    /// A page of a checkpoint's body; `lpn` is its index.
    Checkpoint = 7,
    /// The closing record of a checkpoint.
    CheckpointEnd = 8,
}

/// The record beside one slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Oob {
    /// What the slot holds.
    pub kind: Kind,
    /// Bit 0: last page of a transaction (E); bit 1: `data_crc` is present.
    pub flags: u8,
    /// E page: number of other distinct pages in the transaction.
    pub n: u16,
    /// Map unit (data), translation page or record number; [`NO_LPN`] otherwise.
    pub lpn: u32,
    /// Sequence number, 48 bits: one per host version; a copy keeps it.
    pub seq: u64,
    /// Transaction, 48 bits; 0 = plain.
    pub tid: u64,
    /// E page: CRC32C over the transaction's final (lpn, seq) pairs.
    pub digest: u32,
    /// CRC32C of the payload when flag bit 1 is set.
    pub data_crc: u32,
}

/// Why a record cannot be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OobError {
    /// Erased: all bytes are FFh.
    Blank,
    /// The record's own CRC does not match, or its kind is unknown.
    Corrupt,
}

impl Oob {
    /// The 32 bytes on media.
    pub fn encode(&self) -> [u8; OOB_BYTES] {
        debug_assert!(self.seq <= U48 && self.tid <= U48);
        let mut b = [0; OOB_BYTES];
        b[0] = self.kind as u8;
        b[1] = self.flags;
        b[2..4].copy_from_slice(&self.n.to_le_bytes());
        b[4..8].copy_from_slice(&self.lpn.to_le_bytes());
        b[8..14].copy_from_slice(&self.seq.to_le_bytes()[..6]);
        b[14..20].copy_from_slice(&self.tid.to_le_bytes()[..6]);
        b[20..24].copy_from_slice(&self.digest.to_le_bytes());
        b[24..28].copy_from_slice(&self.data_crc.to_le_bytes());
        let crc = crc32c(0, &b[..28]);
        b[28..32].copy_from_slice(&crc.to_le_bytes());
        b
    }

    /// Reads 32 bytes from media.
    ///
    /// # Errors
    /// [`OobError::Blank`] for an erased slot, [`OobError::Corrupt`] for anything else unreadable.
    pub fn decode(b: &[u8; OOB_BYTES]) -> Result<Oob, OobError> {
        if b.iter().all(|byte| *byte == 0xFF) {
            return Err(OobError::Blank);
        }
        let u32_at = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        let u48_at =
            |i: usize| u64::from(u32_at(i)) | u64::from(b[i + 4]) << 32 | u64::from(b[i + 5]) << 40;
        if u32_at(28) != crc32c(0, &b[..28]) {
            return Err(OobError::Corrupt);
        }
        let kind = match b[0] {
            1 => Kind::Data,
            2 => Kind::Trim,
            3 => Kind::State,
            4 => Kind::Remap,
            5 => Kind::Padding,
            6 => Kind::Map,
            7 => Kind::Checkpoint,
            8 => Kind::CheckpointEnd,
            _ => return Err(OobError::Corrupt),
        };
        Ok(Oob {
            kind,
            flags: b[1],
            n: u16::from_le_bytes([b[2], b[3]]),
            lpn: u32_at(4),
            seq: u48_at(8),
            tid: u48_at(14),
            digest: u32_at(20),
            data_crc: u32_at(24),
        })
    }
}

/// Written beside the first page of a block, for the whole block: what a drive must know of it
/// at power-on when no checkpoint tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BlockHeader {
    /// The line the block belongs to.
    pub line: u32,
    /// The drive's sequence number when the line was opened.
    pub opened: u64,
    /// Which opening of which line this is: grows by one with every line opened. Two blocks of a
    /// line belong together only if it is equal.
    pub epoch: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_seen() {
        let oob = Oob {
            kind: Kind::Data,
            flags: 3,
            n: 7,
            lpn: 0x0102_0304,
            seq: 0xABCD_EF01_2345,
            tid: 9,
            digest: 5,
            data_crc: 6,
        };
        let bytes = oob.encode();
        assert_eq!(Oob::decode(&bytes), Ok(oob));
        for bit in 0..256 {
            let mut torn = bytes;
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Oob::decode(&torn), Err(OobError::Corrupt), "bit {bit}");
        }
        assert_eq!(Oob::decode(&[0xFF; 32]), Err(OobError::Blank));
        assert_eq!(Oob::decode(&[0; 32]), Err(OobError::Corrupt));
    }
}
