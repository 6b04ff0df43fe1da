//! The hash of a name in a directory: TEA, 16 rounds, over pieces of 16 bytes.

const DELTA: u32 = 0x9E37_79B9;

/// The hash of `name`; that of `.` and `..` is 0.
pub fn name_hash(name: &[u8]) -> u32 {
    if name == b"." || name == b".." {
        return 0;
    }
    let mut state = [0x6745_2301_u32, 0xEFCD_AB89];
    let mut rest = name;
    loop {
        let key = words(rest);
        mix(&mut state, key);
        if rest.len() <= 16 {
            return state[0];
        }
        rest = &rest[16..];
    }
}

/// The next four words. What is missing is the length that is left (not capped), in each byte.
fn words(rest: &[u8]) -> [u32; 4] {
    let pad = (rest.len() as u32 & 0xFF) * 0x0101_0101;
    let piece = &rest[..rest.len().min(16)];
    std::array::from_fn(|i| {
        let bytes = piece.iter().skip(i * 4).take(4);
        bytes.fold(pad, |word, byte| (word << 8).wrapping_add(u32::from(*byte)))
    })
}

fn mix(state: &mut [u32; 2], key: [u32; 4]) {
    let ([mut a, mut b], mut sum) = (*state, 0_u32);
    for _ in 0..16 {
        sum = sum.wrapping_add(DELTA);
        let half = |v: u32, k0: u32, k1: u32| {
            (v << 4).wrapping_add(k0) ^ v.wrapping_add(sum) ^ (v >> 5).wrapping_add(k1)
        };
        a = a.wrapping_add(half(b, key[0], key[1]));
        b = b.wrapping_add(half(a, key[2], key[3]));
    }
    state[0] = state[0].wrapping_add(a);
    state[1] = state[1].wrapping_add(b);
}

#[cfg(test)]
mod tests {
    use super::name_hash;

    #[test]
    fn names_of_an_image_that_a_kernel_made() {
        let known: [(&str, u32); 6] = [
            ("a", 0x6D0E_A4C1),
            ("hello", 0x6F5B_B1A8),
            ("sixteen_bytes_ab", 0x28BB_982D),
            ("seventeen_bytes_a", 0x7FDC_88A5),
            ("naïve-Ünïcödé", 0x3C2F_DF34),
            ("this-is-a-forty-eight-byte-name-0123456789-abcdef", 0x538A_D6B6),
        ];
        for (name, hash) in known {
            assert_eq!(name_hash(name.as_bytes()), hash, "{name}");
        }
        assert_eq!((name_hash(b"."), name_hash(b"..")), (0, 0));
    }
}
