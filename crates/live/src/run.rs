//! Pages that are gathered, to be written in one call.

use block::BlockId;

use crate::layout::PAGE;

/// Pages gathered at most.
const RUN: usize = 256;

/// Pages of one block that follow each other and are not in the file yet.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) block: BlockId,
    pub(crate) first: u32,
    pub(crate) pages: Vec<u8>,
    pub(crate) records: Vec<u8>,
}

impl Run {
    pub(crate) fn count(&self) -> u32 {
        (self.pages.len() / PAGE as usize) as u32
    }
    pub(crate) fn follows(&self, block: BlockId, page: u32) -> bool {
        let count = self.count();
        count > 0 && (count as usize) < RUN && block == self.block && page == self.first + count
    }
    pub(crate) fn page(&self, block: BlockId, page: u32) -> Option<&[u8]> {
        let inside = block == self.block && (self.first..self.first + self.count()).contains(&page);
        let at = page.checked_sub(self.first).filter(|_| inside)? as usize * PAGE as usize;
        self.pages.get(at..at + PAGE as usize)
    }
}
