//! The superblock: what the image is, the configuration of its drive, and how it was let go.
//!
//! Invariant: from version 2 on it is there twice, with a number that grows; the higher number counts. What
//! changes lies in its first sector, which is old or new and sealed by itself.

use crate::damage::Damage;
use crate::layout::{Layout, PAGE, SECTOR, Version, is_sealed, seal, u32_at, u64_at};

pub const MAGIC: &[u8; 8] = b"varveimg";
/// Where the configuration begins.
const TEXT_ONE: usize = 24;
const TEXT_TWO: usize = SECTOR;
const LET_GO: u32 = 1;
/// Where the bytes of the log of commits stand, and the most there may be.
const LOG_AT: usize = 56;
const MOST_LOG: u64 = 1 << 30;

/// What an image held when it was let go: nothing of it may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Records of pages.
    pub records: u64,
    /// The sum of their CRCs, in which each one's place and opening is.
    pub sum: u64,
}

impl Held {
    pub fn add(&mut self, crc: u32) {
        self.records += 1;
        self.sum = self.sum.wrapping_add(u64::from(crc));
    }
    pub fn and(self, other: Held) -> Held {
        Held { records: self.records + other.records, sum: self.sum.wrapping_add(other.sum) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    pub layout: Layout,
    /// Lines of `key = value`.
    pub config: String,
    /// Of two copies the higher number counts. 0 in version 1.
    pub number: u64,
    /// What it holds, if it was let go and nobody has written since. Never in version 1.
    pub held: Option<Held>,
}

/// Why a superblock does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// It does not begin as one.
    Other,
    /// It is one of a version that this program does not know.
    Version(u32),
    Damaged,
}

/// Why an image has no superblock.
#[derive(Debug, PartialEq, Eq)]
pub enum NoImage {
    Other(String),
    Damaged(Damage),
}

impl Superblock {
    /// The bytes, from version 2 on; `None` if the configuration does not fit.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; PAGE as usize];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&(self.layout.version as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&self.layout.blocks.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.layout.pages.to_le_bytes());
        bytes[20..24].copy_from_slice(&(self.config.len() as u32).to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        if let Some(held) = self.held {
            bytes[32..36].copy_from_slice(&LET_GO.to_le_bytes());
            bytes[40..48].copy_from_slice(&held.records.to_le_bytes());
            bytes[48..56].copy_from_slice(&held.sum.to_le_bytes());
        }
        bytes[LOG_AT..LOG_AT + 8].copy_from_slice(&self.layout.log.to_le_bytes());
        let end = TEXT_TWO + self.config.len();
        bytes
            .get_mut(TEXT_TWO..end)
            .filter(|_| end + 4 <= PAGE as usize)?
            .copy_from_slice(self.config.as_bytes());
        let (first, rest) = bytes.split_at_mut(SECTOR);
        seal(first);
        seal(rest);
        Some(bytes)
    }

    fn decode(bytes: &[u8]) -> Result<Superblock, Wrong> {
        if &bytes[..8] != MAGIC {
            return Err(Wrong::Other);
        }
        let (first, rest) = bytes.split_at(SECTOR);
        let (version, text) = match u32_at(bytes, 8) {
            1 if is_sealed(bytes) => (Version::One, TEXT_ONE),
            2 if is_sealed(first) && is_sealed(rest) => (Version::Two, TEXT_TWO),
            3 if is_sealed(first) && is_sealed(rest) => (Version::Three, TEXT_TWO),
            other if other > 3 && (is_sealed(first) || is_sealed(bytes)) => {
                return Err(Wrong::Version(other));
            }
            _ => return Err(Wrong::Damaged),
        };
        let log = if version == Version::Three { u64_at(bytes, LOG_AT) } else { 0 };
        if log > MOST_LOG || !log.is_multiple_of(PAGE) {
            return Err(Wrong::Damaged);
        }
        let layout = Layout { version, blocks: u32_at(bytes, 12), pages: u32_at(bytes, 16), log };
        let config = bytes.get(text..text + u32_at(bytes, 20) as usize).ok_or(Wrong::Damaged)?;
        let config = String::from_utf8(config.to_vec()).map_err(|_| Wrong::Damaged)?;
        let (mut number, mut held) = (0, None);
        if version.is_guarded() {
            number = u64_at(bytes, 24);
            held = (u32_at(bytes, 32) & LET_GO != 0)
                .then(|| Held { records: u64_at(bytes, 40), sum: u64_at(bytes, 48) });
        }
        Ok(Superblock { layout, config, number, held })
    }

    /// Reads the first two pages of an image: the superblock that counts, and what is wrong with
    /// the other one.
    pub fn read(first: &[u8], second: &[u8]) -> Result<(Superblock, Option<Damage>), NoImage> {
        let damaged = |copy: u64, what: &str| Damage { at: copy * PAGE, what: what.to_string() };
        match (Superblock::decode(first), Superblock::decode(second)) {
            (Ok(first), _) if first.layout.version == Version::One => Ok((first, None)),
            (Ok(first), Ok(second)) => {
                let same = first.layout == second.layout && first.config == second.config;
                if !same || first.number == second.number && first != second {
                    let what = "the two superblocks differ: expected the same twice";
                    return Err(NoImage::Damaged(damaged(1, what)));
                }
                Ok((if first.number < second.number { second } else { first }, None))
            }
            (Ok(first), Err(_)) => {
                let what = "the second superblock fails its CRC32C; the first one serves";
                Ok((first, Some(damaged(1, what))))
            }
            (Err(_), Ok(second)) if second.layout.is_guarded() => {
                let what = "the first superblock fails its CRC32C; the second one serves";
                Ok((second, Some(damaged(0, what))))
            }
            (Err(Wrong::Version(version)), _) | (_, Err(Wrong::Version(version))) => {
                let what = format!("image version {version}: expected 1, 2 or 3");
                Err(NoImage::Other(what))
            }
            (Err(Wrong::Damaged), _) | (_, Err(Wrong::Damaged)) => {
                let what = "the superblock fails its CRC32C, and there is no second one";
                Err(NoImage::Damaged(damaged(0, what)))
            }
            (Err(Wrong::Other), _) => {
                let what = "no varve image: it does not begin with `varveimg`";
                Err(NoImage::Other(what.to_string()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Superblock {
        Superblock {
            layout: Layout { version: Version::Three, blocks: 7, pages: 64, log: 3 << 20 },
            config: "op = 28 %\n".to_string(),
            number: 5,
            held: Some(Held { records: 9, sum: 77 }),
        }
    }

    #[test]
    fn any_flipped_bit_of_either_copy_is_named_and_the_other_serves() {
        let (older, newer) = (Superblock { number: 4, held: None, ..sample() }, sample());
        let (a, b) = (older.encode().unwrap(), newer.encode().unwrap());
        assert_eq!(Superblock::read(&a, &b), Ok((newer.clone(), None)));
        assert_eq!(Superblock::read(&b, &a), Ok((newer.clone(), None)));
        for bit in 0..8 * b.len() {
            let mut torn = b.clone();
            torn[bit / 8] ^= 1 << (bit % 8);
            let (found, damage) = Superblock::read(&torn, &b).unwrap();
            assert_eq!((found, damage.map(|d| d.at)), (newer.clone(), Some(0)), "bit {bit}");
            let (found, damage) = Superblock::read(&b, &torn).unwrap();
            assert_eq!((found, damage.map(|d| d.at)), (newer.clone(), Some(PAGE)), "bit {bit}");
        }
    }

    /// Sectors are old or new, one by one.
    #[test]
    fn a_power_cut_leaves_a_superblock_that_counts() {
        let (older, newer) = (Superblock { number: 4, held: None, ..sample() }, sample());
        let (a, b) = (older.encode().unwrap(), newer.encode().unwrap());
        for left in 0..1u32 << 16 {
            let copy = |first: u32| {
                let mut bytes = a.clone();
                for sector in (0..8).filter(|sector| left >> (first + sector) & 1 == 1) {
                    let part = sector as usize * SECTOR..(sector as usize + 1) * SECTOR;
                    bytes[part.clone()].copy_from_slice(&b[part]);
                }
                bytes
            };
            let (found, damage) = Superblock::read(&copy(0), &copy(8)).unwrap();
            assert!(damage.is_none() && (found == older || found == newer), "{left:x}");
        }
    }

    #[test]
    fn a_superblock_says_what_is_wrong_with_it() {
        let bytes = sample().encode().expect("it fits");
        let (mut torn, none) = (bytes.clone(), vec![0; PAGE as usize]);
        torn[100] ^= 1;
        let Err(NoImage::Damaged(damage)) = Superblock::read(&torn, &torn) else { panic!() };
        assert!(damage.what.contains("CRC32C"), "{damage}");
        let Err(NoImage::Other(what)) = Superblock::read(&none, &none) else { panic!() };
        assert!(what.contains("varveimg"), "{what}");
        let mut later = bytes.clone();
        later[8] = 9;
        seal(&mut later[..SECTOR]);
        let Err(NoImage::Other(what)) = Superblock::read(&later, &none) else { panic!() };
        assert!(what.contains("version 9"), "{what}");
        // A later version may be sealed as a whole, as version 1 is.
        seal(&mut later);
        let Err(NoImage::Other(what)) = Superblock::read(&later, &none) else { panic!() };
        assert!(what.contains("version 9"), "{what}");
        // One of this version with a torn half is damaged, not of another version.
        let mut half = bytes.clone();
        half[SECTOR] ^= 1;
        assert!(matches!(Superblock::read(&half, &half), Err(NoImage::Damaged(_))));
        let other = Superblock { config: "op = 7 %\n".to_string(), number: 6, ..sample() };
        let other = other.encode().expect("it fits");
        assert!(matches!(Superblock::read(&bytes, &other), Err(NoImage::Damaged(_))));
        let long = Superblock { config: "x".repeat(3581), ..sample() };
        assert_eq!(long.encode(), None);
    }

    /// Version 1 has its superblock once: what looks like one in the second page is what some page holds.
    #[test]
    fn the_second_page_of_version_1_is_no_superblock() {
        let mut one = sample().encode().expect("it fits");
        one[8] = 1;
        one[TEXT_ONE..TEXT_ONE + 10].copy_from_slice(b"op = 28 %\n");
        seal(&mut one);
        let (found, damage) = Superblock::read(&one, &one).expect("a superblock");
        assert_eq!((found.config, damage), (sample().config, None));
        let mut torn = one.clone();
        torn[100] ^= 1;
        assert!(matches!(Superblock::read(&torn, &one), Err(NoImage::Damaged(_))));
    }
}
