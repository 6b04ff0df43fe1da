//! Draws from bytes: what a fuzzer changes is what is drawn next, and the tests on stable give it
//! random bytes. Where the bytes end everything is 0.

/// The bytes, and how many were used.
pub struct Draws<'a> {
    bytes: &'a [u8],
}

impl<'a> Draws<'a> {
    /// Draws from `bytes`.
    pub fn new(bytes: &'a [u8]) -> Draws<'a> {
        Draws { bytes }
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let word = u32::from_le_bytes(std::array::from_fn(|_| self.byte()));
        word as usize % bound
    }

    /// One of two, evenly.
    pub fn half(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Changes bytes, words or bits of a part of a structure: small numbers in the right places do most
    /// harm.
    pub fn damage(&mut self, part: &mut [u8]) {
        for _ in 0..=self.below(4) {
            let at = self.below(part.len());
            match self.below(5) {
                0 => part[at] ^= 1 << self.below(8),
                1 => part[at] = [0, 1, 2, 3, 0x7F, 0x80, 0xFF][self.below(7)],
                2 => part[at] = self.byte(),
                3 => {
                    let word =
                        [0, 1, 2, 0x7FFF_FFFF, 0x8000_0000, u32::MAX, 0xFFFF, 4096][self.below(8)];
                    let at = at & !3;
                    let end = (at + 4).min(part.len());
                    part[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
                }
                _ => {
                    let end = (at + 1 + self.below(64)).min(part.len());
                    let fill = if self.half() { 0 } else { 0xFF };
                    part[at..end].fill(fill);
                }
            }
        }
    }
}
