//! CRC32C (Castagnoli), the one checksum on media.

/// CRC32C of `bytes`, continuing from `seed` (0 to start).
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(seed, bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn check_value() {
        // The standard check value of CRC-32C (RFC 3720, appendix B.4 uses the same polynomial).
        assert_eq!(super::crc32c(0, b"123456789"), 0xE306_9283);
    }
}
