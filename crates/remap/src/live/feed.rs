//! The engine's output, on its way to a [`Flight`]: copied, or where its bytes are.

use block::Medium;

use super::flight::{Flight, write_in_order};
use crate::engine::{HeadKind, Sink};
use crate::geometry::{BLOCK, Pba};

/// Takes the engine's output for one request after the other.
pub(super) trait Load<'b>: Sink {
    /// The blocks of the next request, one after the other.
    fn load(&mut self, data: &'b [u8]);
}

/// Copies the engine's output into what gathers.
pub(super) struct Feed<'a, 'b> {
    flight: &'a mut Flight,
    data: &'b [u8],
}

impl Feed<'_, '_> {
    /// For headers, until a request is loaded.
    pub fn new<'a, 'b>(flight: &'a mut Flight) -> Feed<'a, 'b> {
        Feed { flight, data: &[] }
    }
}

impl<'b> Load<'b> for Feed<'_, 'b> {
    fn load(&mut self, data: &'b [u8]) {
        self.data = data;
    }
}

impl Sink for Feed<'_, '_> {
    fn data(&mut self, _: HeadKind, pba: Pba, first: u32, count: u32) {
        let bytes = &self.data[first as usize * BLOCK..(first + count) as usize * BLOCK];
        self.flight.gather(pba.0, bytes);
    }
    fn header(&mut self, _: HeadKind, pba: Pba, block: &[u8; BLOCK]) {
        self.flight.gather(pba.0, block);
    }
}

/// Remembers where the engine wants bytes that stay where they are.
#[derive(Default)]
pub(super) struct Own<'b> {
    data: &'b [u8],
    pieces: Vec<(u32, &'b [u8])>,
    headers: Vec<(u32, Box<[u8; BLOCK]>)>,
}

impl Own<'_> {
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.headers.is_empty()
    }

    /// Where they belong: place and number of blocks.
    pub fn ranges(&self, mut range: impl FnMut(u32, u32)) {
        self.pieces.iter().for_each(|(pba, bytes)| range(*pba, (bytes.len() / BLOCK) as u32));
        self.headers.iter().for_each(|(pba, _)| range(*pba, 1));
    }

    /// Writes all of it.
    pub fn write(self, medium: &dyn Medium) -> std::io::Result<()> {
        let Own { mut pieces, headers, .. } = self;
        let mut all: Vec<(u32, &[u8])> = Vec::new();
        if headers.is_empty() {
            return write_in_order(medium, &mut pieces);
        }
        all.append(&mut pieces);
        all.extend(headers.iter().map(|(pba, block)| (*pba, &block[..])));
        write_in_order(medium, &mut all)
    }
}

impl<'b> Load<'b> for Own<'b> {
    fn load(&mut self, data: &'b [u8]) {
        self.data = data;
    }
}

impl Sink for Own<'_> {
    fn data(&mut self, _: HeadKind, pba: Pba, first: u32, count: u32) {
        let bytes = &self.data[first as usize * BLOCK..(first + count) as usize * BLOCK];
        self.pieces.push((pba.0, bytes));
    }
    fn header(&mut self, _: HeadKind, pba: Pba, block: &[u8; BLOCK]) {
        self.headers.push((pba.0, Box::new(*block)));
    }
}
