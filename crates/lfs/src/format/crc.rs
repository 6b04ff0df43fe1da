//! The format's checksum: CRC-32 (reflected EDB88320h), starting from the magic number, without the
//! usual final inversion.

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut value, mut bit) = (i as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0xEDB8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[i] = value;
        i += 1;
    }
    table
};

/// The checksum of `bytes`.
pub fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| crc >> 8 ^ TABLE[((crc ^ u32::from(*byte)) & 0xFF) as usize];
    bytes.iter().fold(super::MAGIC, step)
}

#[cfg(test)]
mod tests {
    #[test]
    fn check_value() {
        // The usual CRC-32 of this string is CBF43926h; this one starts elsewhere and is not inverted.
        assert_eq!(super::crc(b"123456789"), 0x1657_A0C3);
    }
}
