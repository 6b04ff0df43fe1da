//! The state record: what survives of commits when the pages that prove them are erased.

use std::collections::BTreeSet;

use block::crc32c;

const MAGIC: u32 = 0x5458_5256;
/// Magic, floor, next, two lengths and the CRC.
pub(crate) const FIXED: u64 = 4 + 8 + 8 + 4 + 4 + 4;

/// Which transactions are committed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Below it a transaction is committed unless it is a loser.
    pub floor: u64,
    /// The transaction to be handed out next.
    pub next: u64,
    /// Committed ones from the floor on.
    pub committed: BTreeSet<u64>,
    /// Not committed, and some of their pages may still be on flash.
    pub losers: BTreeSet<u64>,
}

impl Record {
    /// Whether this record alone says that a transaction is committed.
    pub fn covers(&self, tid: u64) -> bool {
        self.committed.contains(&tid) || (tid < self.floor && !self.losers.contains(&tid))
    }

    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let span = self.committed.last().map_or(0, |last| last - self.floor + 1);
        let mut bits = vec![0u8; span.div_ceil(8) as usize];
        for tid in &self.committed {
            let at = tid - self.floor;
            bits[(at / 8) as usize] |= 1 << (at % 8);
        }
        let mut bytes = Vec::with_capacity(FIXED as usize + bits.len() + 6 * self.losers.len());
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(self.floor.to_le_bytes());
        bytes.extend(self.next.to_le_bytes());
        bytes.extend((bits.len() as u32).to_le_bytes());
        bytes.extend((self.losers.len() as u32).to_le_bytes());
        bytes.extend(bits);
        for loser in &self.losers {
            bytes.extend(&loser.to_le_bytes()[..6]);
        }
        bytes.extend(crc32c(0, &bytes).to_le_bytes());
        bytes
    }

    /// Reads a payload; `None` if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Record> {
        // On media a payload fills its page: what follows the record is not its own.
        let field = |i: usize| Some(u32::from_le_bytes(bytes.get(i..i + 4)?.try_into().ok()?));
        let length = 28 + u64::from(field(20)?) + 6 * u64::from(field(24)?);
        let (body, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
        if rest.get(..4)? != crc32c(0, body).to_le_bytes() {
            return None;
        }
        let u32_at = |i: usize| Some(u32::from_le_bytes(body.get(i..i + 4)?.try_into().ok()?));
        let u64_at = |i: usize| Some(u64::from_le_bytes(body.get(i..i + 8)?.try_into().ok()?));
        if u32_at(0)? != MAGIC {
            return None;
        }
        let (floor, next) = (u64_at(4)?, u64_at(12)?);
        let (bits, losers) = (u32_at(20)? as usize, u32_at(24)? as usize);
        let rest = body.get(28..)?;
        let (map, list) = rest.split_at_checked(bits)?;
        if list.len() != losers.checked_mul(6)? {
            return None;
        }
        let committed = (0..8 * bits as u64)
            .filter(|i| map[(i / 8) as usize] >> (i % 8) & 1 == 1)
            .map(|i| floor + i)
            .collect();
        let losers = list
            .chunks_exact(6)
            .map(|b| u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], 0, 0]))
            .collect();
        Some(Record { floor, next, committed, losers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_bytes() {
        let record = Record {
            floor: 7,
            next: 40,
            committed: [7, 9, 30].into(),
            losers: [1, 3, 0xABCD_EF01_2345].into(),
        };
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes).as_ref(), Some(&record));
        let page = [&bytes[..], &[0; 100]].concat();
        assert_eq!(Record::decode(&page).as_ref(), Some(&record));
        for bit in 0..8 * bytes.len() {
            let mut torn = bytes.clone();
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&torn), None, "bit {bit}");
        }
        assert!(record.covers(9) && record.covers(2) && !record.covers(3) && !record.covers(8));
        let largest = Record {
            committed: (7..7 + 16_384).collect(),
            losers: (1_000_000..1_000_320).collect(),
            ..record
        };
        assert!(largest.encode().len() <= 4096);
    }
}
