//! Payloads that describe themselves: whoever reads one can tell which page and which version it
//! is, and whether it is whole, without asking anybody.

/// Largest page or sector number a stamp can name.
pub const MAX_PLACE: u32 = (1 << 24) - 1;
/// Words of one sector of payload.
const WORDS: usize = 64;
/// Bytes of a sector.
pub const SECTOR: usize = 512;
/// Sectors of a page.
pub const SECTORS: usize = 8;

/// What a stamp says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// All zero: never written, or discarded.
    Zero,
    /// Written for this place, at this version.
    Of {
        /// Page (stamps) or sector (bytes) it was written for.
        place: u32,
        /// Which write it was.
        version: u32,
    },
    /// Neither: mixed, torn or invented.
    Garbage,
}

fn sum(place: u32, version: u32) -> u64 {
    // A product's high bits depend on all lower bits of the factor: a flipped bit below moves them.
    let body = u64::from(place) << 24 | u64::from(version);
    (body ^ 0xA5A5_5A5A_3C3C).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48
}

/// The stamp of a version (1..2^24) of a place: version, place and a checksum over both.
pub fn stamp(place: u32, version: u32) -> u64 {
    debug_assert!(place <= MAX_PLACE && version <= MAX_PLACE && version > 0);
    sum(place, version) << 48 | u64::from(place) << 24 | u64::from(version)
}

/// What a stamp says of itself.
pub fn decode(stamp: u64) -> Found {
    if stamp == 0 {
        return Found::Zero;
    }
    let (place, version) = ((stamp >> 24) as u32 & MAX_PLACE, stamp as u32 & MAX_PLACE);
    if version == 0 || sum(place, version) != stamp >> 48 {
        return Found::Garbage;
    }
    Found::Of { place, version }
}

fn word(stamp: u64, i: usize) -> u64 {
    stamp.rotate_left(i as u32) ^ (i as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Fills one sector with the payload of a version.
pub fn fill_sector(sector: &mut [u8], place: u32, version: u32) {
    let stamp = stamp(place, version);
    for (i, bytes) in sector.chunks_exact_mut(8).take(WORDS).enumerate() {
        bytes.copy_from_slice(&word(stamp, i).to_le_bytes());
    }
}

/// What one sector of bytes says of itself; every byte counts.
pub fn decode_sector(sector: &[u8]) -> Found {
    let (words, _) = sector.as_chunks::<8>();
    let words = words.iter().take(WORDS).map(|bytes| u64::from_le_bytes(*bytes));
    let first = words.clone().next().unwrap_or_default();
    if first == 0 {
        let blank = words.fold(0, |any, word| any | word) == 0;
        return if blank { Found::Zero } else { Found::Garbage };
    }
    // No early end: whole sectors are the rule, and a fold is done many words at a time.
    let wrong = words.enumerate().fold(0, |wrong, (i, found)| wrong | found ^ word(first, i));
    if wrong != 0 {
        return Found::Garbage;
    }
    decode(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_a_stamp_is_seen() {
        for (place, version) in [(0, 1), (3, 7), (MAX_PLACE, MAX_PLACE), (77, 123_456)] {
            let whole = stamp(place, version);
            assert_eq!(decode(whole), Found::Of { place, version });
            for bit in 0..64 {
                assert_eq!(decode(whole ^ 1 << bit), Found::Garbage, "bit {bit}");
            }
        }
        assert_eq!(decode(0), Found::Zero);
    }

    #[test]
    fn a_sector_mixed_of_two_versions_is_garbage() {
        let (mut old, mut new) = ([0; SECTOR], [0; SECTOR]);
        fill_sector(&mut old, 5, 1);
        fill_sector(&mut new, 5, 2);
        assert_eq!(decode_sector(&new), Found::Of { place: 5, version: 2 });
        assert_eq!(decode_sector(&[0; SECTOR]), Found::Zero);
        for cut in [1, 8, 255, 256, 504, 511] {
            let mut mixed = new;
            mixed[cut..].copy_from_slice(&old[cut..]);
            assert_eq!(decode_sector(&mixed), Found::Garbage, "{cut}");
        }
    }
}
