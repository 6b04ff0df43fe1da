//! The event hash of a run: equal for equal runs.

/// Folds numbers, in order, into 64 bits. Not cryptographic; two runs that differ in one event
/// differ in the hash but for odds of 2^-64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventHash(u64);

impl Default for EventHash {
    fn default() -> Self {
        EventHash(0x9E37_79B9_7F4A_7C15)
    }
}

impl EventHash {
    /// Folds one number in.
    #[inline(always)]
    pub fn add(&mut self, value: u64) {
        let mixed = u128::from(self.0 ^ value) * 0xE703_7ED1_A0B4_28DB_u128;
        self.0 = (mixed as u64) ^ ((mixed >> 64) as u64) ^ value.rotate_left(32);
    }
    /// The hash so far.
    pub fn value(self) -> u64 {
        self.0
    }
}
