//! What has come and is not handled yet: one buffer of fixed size.

use std::io::{self, Read};

/// Bytes that a connection holds of what a client sends.
pub const BUFFER: usize = 1 << 20;

/// Bytes in the order they came.
#[derive(Debug)]
pub struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Default for Input {
    fn default() -> Input {
        Input { buffer: vec![0; BUFFER].into_boxed_slice(), start: 0, end: 0 }
    }
}

impl Input {
    /// What is there.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// `count` of them were handled.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn used(&mut self, count: usize) {
        assert!(count <= self.end - self.start, "used what is not there");
        self.start += count;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Reads once, so that in the end `wanted` bytes can be there. Zero: the stream is over.
    ///
    /// # Errors
    /// What the stream said.
    ///
    /// # Panics
    /// If `wanted` bytes do not fit, or are there.
    pub fn fill(&mut self, from: &mut impl Read, wanted: usize) -> io::Result<usize> {
        assert!(self.bytes().len() < wanted && wanted <= BUFFER, "{wanted} bytes");
        // Less than one request is moved, and what comes next lies where the cache still has it.
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        loop {
            match from.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
