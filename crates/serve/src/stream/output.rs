//! Answers on their way out: gathered in one buffer of fixed size and written together.

use std::io;

use stack::disk::Done;
pub use wire::stream::{PATIENCE, Transport, write_all};

use super::delay::Delay;

/// Bytes gathered before they are written in any case.
const GATHERED: usize = 256 << 10;
/// Bytes of one answer that is put together here.
pub const ANSWER: usize = (256 << 10) + (8 << 10);

/// One connection's answers.
#[derive(Debug)]
pub struct Output<T> {
    stream: T,
    buffer: Box<[u8]>,
    used: usize,
    /// Where the answer being put together begins.
    mark: usize,
    /// Answers that are late, each with what is said if the power goes before.
    delay: Option<Delay<(Vec<u8>, Vec<u8>)>>,
}

impl<T: Transport> Output<T> {
    /// To `stream`.
    pub fn new(stream: T) -> Output<T> {
        let buffer = vec![0; GATHERED + ANSWER].into_boxed_slice();
        Output { stream, buffer, used: 0, mark: 0, delay: None }
    }

    /// The stream, to read from.
    pub fn stream(&mut self) -> &mut T {
        &mut self.stream
    }

    /// An answer begins, of at most [`ANSWER`] bytes.
    ///
    /// # Errors
    /// What the stream said.
    pub fn begin(&mut self) -> io::Result<()> {
        if self.used >= GATHERED {
            self.flush()?;
        }
        self.mark = self.used;
        Ok(())
    }

    /// Adds bytes to the answer.
    pub fn put(&mut self, bytes: &[u8]) {
        self.buffer[self.used..self.used + bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
    }

    /// Adds what `fill` puts into `count` bytes; nothing if it fails.
    ///
    /// # Errors
    /// As `fill`.
    pub fn put_with<R, E>(
        &mut self,
        count: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<R, E>,
    ) -> Result<R, E> {
        let result = fill(&mut self.buffer[self.used..self.used + count])?;
        self.used += count;
        Ok(result)
    }

    /// The answer so far is forgotten.
    pub fn forget(&mut self) {
        self.used = self.mark;
    }

    /// The answer is whole, and leaves when `done` says so; `refusal` in its place if the power goes before.
    ///
    /// # Errors
    /// What the stream said.
    pub fn end(&mut self, done: Done, refusal: &[u8]) -> io::Result<()> {
        if done.due().is_none() && self.delay.is_none() {
            return Ok(());
        }
        let answer = self.buffer[self.mark..self.used].to_vec();
        self.used = self.mark;
        if self.delay.is_none() {
            self.flush()?;
            let mut twin = self.stream.twin()?;
            let leave = move |(answer, refusal): (Vec<u8>, Vec<u8>), stands: bool| {
                write_all(&mut twin, if stands { &answer } else { &refusal })
            };
            self.delay = Some(Delay::start(leave)?);
        }
        match &self.delay {
            Some(delay) => {
                let bytes = answer.len() + refusal.len();
                delay.push(done, (answer, refusal.to_vec()), bytes)
            }
            None => Ok(()),
        }
    }

    /// The answer is whole, and true whatever happens.
    ///
    /// # Errors
    /// What the stream said.
    pub fn end_now(&mut self) -> io::Result<()> {
        self.end(Done::NOW, &[])
    }

    /// Everything leaves, what is late too: afterwards this is the only writer.
    ///
    /// # Errors
    /// What the stream said.
    pub fn drain(&mut self) -> io::Result<()> {
        if let Some(delay) = &self.delay {
            delay.drain()?;
        }
        self.flush()
    }

    /// What is gathered leaves.
    ///
    /// # Errors
    /// What the stream said.
    pub fn flush(&mut self) -> io::Result<()> {
        let used = std::mem::take(&mut self.used);
        self.mark = 0;
        write_all(&mut self.stream, &self.buffer[..used])
    }
}
