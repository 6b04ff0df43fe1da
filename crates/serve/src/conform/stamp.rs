//! Self-describing payload: each sector of 512 bytes says where it belongs and of which version it
//! is, all over.

/// Bytes of a sector.
pub const SECTOR: u64 = 512;

/// Bytes for the range from `at` on, in whole sectors, of one version (not 0).
pub fn stamp(version: u64, at: u64, bytes: u64) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes as usize);
    for word in 0..bytes / 16 {
        let sector = (at + word * 16) / SECTOR;
        all.extend_from_slice(&version.to_le_bytes());
        all.extend_from_slice(&(sector << 8 | (word % 32)).to_le_bytes());
    }
    all
}

/// The version of a sector that begins at `at`; 0 is all zeroes, `None` none at all.
pub fn version(at: u64, sector: &[u8]) -> Option<u64> {
    let version = u64::from_le_bytes(sector.first_chunk().copied()?);
    let same = match version {
        0 => sector.iter().all(|byte| *byte == 0),
        _ => stamp(version, at, sector.len() as u64) == sector,
    };
    same.then_some(version)
}

/// The versions of the sectors from `at` on.
///
/// # Errors
/// The first sector that is torn, or not where it belongs.
pub fn versions(at: u64, bytes: &[u8]) -> Result<Vec<u64>, String> {
    let sectors = bytes.chunks(SECTOR as usize).zip((at..).step_by(SECTOR as usize));
    let one = |(sector, at): (&[u8], u64)| {
        version(at, sector).ok_or_else(|| format!("the sector at {at} is torn or foreign"))
    };
    sectors.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_knows_itself() {
        let bytes = stamp(7, 4096, 1024);
        assert_eq!(versions(4096, &bytes), Ok(vec![7, 7]));
        assert_eq!(version(4096, &bytes[512..]), None);
        let mut torn = bytes.clone();
        torn[300] ^= 1;
        assert!(versions(4096, &torn).is_err());
        assert_eq!(version(99, &[0; 512]), Some(0));
    }
}
