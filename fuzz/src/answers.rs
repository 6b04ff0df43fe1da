//! What was answered, as one number: every text, byte and error of it.

use block::{EventHash, crc32c};

/// The answers so far.
#[derive(Clone, Copy, Default, Debug)]
pub struct Answers(EventHash);

impl Answers {
    /// One more answer, as its `Debug` text says it.
    pub fn say(&mut self, answer: &impl std::fmt::Debug) {
        self.bytes(format!("{answer:?}").as_bytes());
    }

    /// One more answer, as it is.
    pub fn bytes(&mut self, answer: &[u8]) {
        self.0.add((answer.len() as u64) << 32 | u64::from(crc32c(0, answer)));
    }

    /// All of them.
    pub fn value(self) -> u64 {
        self.0.value()
    }
}
