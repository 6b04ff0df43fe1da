//! Bitmaps with the most significant bit first: valid maps of SIT, version bitmaps. Those of
//! directory blocks have the least significant bit first and live in `dentry.rs`.

/// Whether bit `i` is set.
pub fn msb_test(map: &[u8], i: usize) -> bool {
    map[i / 8] & (0x80 >> (i % 8)) != 0
}

/// Sets or clears bit `i`; returns what it was.
pub fn msb_set(map: &mut [u8], i: usize, value: bool) -> bool {
    let (byte, bit) = (&mut map[i / 8], 0x80 >> (i % 8));
    let was = *byte & bit != 0;
    *byte = if value { *byte | bit } else { *byte & !bit };
    was
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bit_is_the_highest() {
        let mut map = [0u8; 2];
        assert!(!msb_set(&mut map, 0, true));
        assert!(!msb_set(&mut map, 9, true));
        assert_eq!(map, [0x80, 0x40]);
        assert!(msb_test(&map, 9) && msb_set(&mut map, 9, false) && !msb_test(&map, 9));
    }
}
