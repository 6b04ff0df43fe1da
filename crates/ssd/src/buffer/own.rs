//! Pages that something beside the buffer writes: they leave it.

use block::{DeviceError, Lpn};

use super::front::{Buffer, Host};
use super::policy::Policy;
use crate::backend::Backend;

impl<P: Policy> Buffer<P> {
    /// The FTL gets the newest version of a page, if it has not.
    pub(super) fn settle_page<B: Backend>(
        &mut self,
        back: &mut B,
        host: &Host<'_>,
        page: u32,
    ) -> Result<(), DeviceError> {
        if self.evicted.iter().any(|e| e.page == page) {
            self.write_back(back, host.now)?;
        }
        match self.pool.find(Lpn(page)) {
            Some(frame) if self.pool.is_dirty(frame) => self.clean_unit(back, host, frame),
            _ => Ok(()),
        }
    }

    /// A page has another version now: its clean entry goes.
    pub(super) fn drop_page(&mut self, page: u32) {
        debug_assert!(self.pool.find(Lpn(page)).is_none_or(|frame| !self.pool.is_dirty(frame)));
        self.drop_pages(u64::from(page)..u64::from(page) + 1);
    }
}
