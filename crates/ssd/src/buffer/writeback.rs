//! What leaves the buffer: evictions, write-back, flushes and discards.

use block::{DeviceError, Lpn, Request, Time};
use nand::ReadCause;

use super::front::{Buffer, Evicted, Host, PAGE, payload_of};
use super::policy::Policy;
use super::pool::Frame;
use crate::Bug;
use crate::backend::Backend;
use crate::ftl::Writer;

impl<P: Policy> Buffer<P> {
    /// Takes what the policy gave up out of the pool.
    #[inline]
    pub(super) fn take_evictions(&mut self) {
        if self.out.frames.is_empty() {
            return;
        }
        for i in 0..self.out.frames.len() {
            let (frame, stream) = self.out.frames[i];
            let (page, app) = (self.pool.page(frame).0, self.pool.app(frame));
            let hint = self.pool.stream(frame);
            let dirty = self.pool.is_dirty(frame);
            let mask = self.pool.mask(frame);
            let payload = self.pool.release(frame);
            if dirty {
                self.stats.dirty_evictions += 1;
                self.evicted.push(Evicted { page, stream, mask, app, hint, payload });
            } else {
                self.stats.clean_evictions += 1;
            }
        }
        self.out.frames.clear();
        self.pads.append(&mut self.out.pad);
    }

    /// Adds what a policy wants written with the entries it gave up: the other pages of a range,
    /// read from flash, in the order of the pages; when they are there. What is dirty in the
    /// buffer, or unreadable, stays as it is.
    pub(super) fn fill_pads<B: Backend>(
        &mut self,
        back: &mut B,
        at: Time,
    ) -> Result<Time, DeviceError> {
        for pages in std::mem::take(&mut self.pads) {
            let given = self.evicted.iter().find(|e| pages.contains(&e.page));
            let Some((stream, app, hint)) = given.map(|e| (e.stream, e.app, e.hint)) else {
                continue;
            };
            // (A stable sort: of two versions of a page the older one stays first.)
            self.evicted.sort_by_key(|e| pages.contains(&e.page).then_some(e.page));
            let first = self.evicted.partition_point(|e| !pages.contains(&e.page));
            let given = self.evicted.len();
            let mut next = first;
            for page in pages {
                while next < given && self.evicted[next].page < page {
                    next += 1;
                }
                let evicted = next < given && self.evicted[next].page == page;
                let dirty = self.pool.find(Lpn(page)).is_some_and(|f| self.pool.is_dirty(f));
                if dirty || evicted || !back.mapped(page) {
                    continue;
                }
                back.read(at, page, ReadCause::Rmw)?;
                back.takes_along();
                if let Some(payload) = payload_of(back.data(page)) {
                    self.stats.padded += 1;
                    self.evicted.push(Evicted { page, stream, mask: 0xFF, app, hint, payload });
                }
            }
            self.evicted[first..].sort_by_key(|e| e.page);
        }
        Ok(back.read_end()?.max(at))
    }

    /// Programs what was evicted dirty. Neighbours of one mapping unit go together.
    #[inline]
    pub(super) fn write_back<B: Backend>(
        &mut self,
        back: &mut B,
        at: Time,
    ) -> Result<(), DeviceError> {
        if self.evicted.is_empty() {
            return Ok(());
        }
        let mut at = at;
        if !self.pads.is_empty() {
            at = self.fill_pads(back, at)?;
        }
        let mut evicted = std::mem::take(&mut self.evicted);
        let mut written = 0;
        let result = evicted.iter().try_for_each(|e| {
            self.write_evicted(back, at, e)?;
            written += 1;
            Ok(())
        });
        // What could not be written stays the newest version of its page.
        evicted.drain(..written);
        self.evicted = evicted;
        result
    }

    fn write_evicted<B: Backend>(
        &mut self,
        back: &mut B,
        at: Time,
        e: &Evicted,
    ) -> Result<(), DeviceError> {
        let unit_pages = back.unit_pages();
        let writer = Writer { app: e.app, hint: e.hint, batch: e.stream.number() };
        let mut ready = at;
        if e.mask != 0xFF && back.mapped(e.page) {
            back.read(at, e.page, ReadCause::Rmw)?;
            ready = ready.max(back.read_end()?);
        }
        if unit_pages == 1 {
            self.pieces.push(e.payload.clone());
            let result = back.write(ready, e.page, 1, &self.pieces, writer);
            self.pieces.clear();
            return result;
        }
        // The other dirty pages of the unit are in the buffer: they go now, and stay, clean.
        let unit = e.page / unit_pages;
        let mut mask = 0u32;
        let mut payload = Some(e.payload.clone());
        for i in 0..unit_pages {
            let page = unit * unit_pages + i;
            if page == e.page {
                self.pieces.extend(payload.take());
                mask |= 1 << i;
            } else if let Some(frame) = self.pool.find(Lpn(page))
                && self.pool.is_dirty(frame)
            {
                self.pieces.push(self.pool.payload(frame).clone());
                mask |= 1 << i;
                self.pool.set_clean(frame);
                self.policy.cleaned(&mut self.pool, frame);
                self.stats.flushed += 1;
            }
        }
        let result = back.write(ready, unit, mask, &self.pieces, writer);
        self.pieces.clear();
        result
    }

    /// Programs the mapping unit of a dirty entry; its entries stay, clean.
    pub(super) fn clean_unit<B: Backend>(
        &mut self,
        back: &mut B,
        host: &Host<'_>,
        frame: Frame,
    ) -> Result<(), DeviceError> {
        let unit = self.pool.page(frame).0 / host.unit_pages;
        let (app, hint) = (self.pool.app(frame), self.pool.stream(frame));
        let batch = self.policy.stream(&self.pool, frame).number();
        let (mut mask, mut ready) = (0u32, host.now);
        // Left from a read below that failed.
        self.pieces.clear();
        for i in 0..host.unit_pages {
            let page = unit * host.unit_pages + i;
            let Some(frame) = self.pool.find(Lpn(page)) else { continue };
            if !self.pool.is_dirty(frame) {
                continue;
            }
            if self.pool.mask(frame) != 0xFF && back.mapped(page) {
                back.read(host.now, page, ReadCause::Rmw)?;
                ready = ready.max(back.read_end()?);
                self.pool.add_mask(frame, 0xFF);
            }
            mask |= 1 << i;
            self.pieces.push(self.pool.payload(frame).clone());
        }
        let writer = Writer { app, hint, batch };
        let result = back.write(ready, unit, mask, &self.pieces, writer);
        self.pieces.clear();
        result?;
        // Only now: what could not be written stays dirty, and the next flush fails as this one.
        for i in (0..host.unit_pages).filter(|i| mask >> i & 1 == 1) {
            if let Some(frame) = self.pool.find(Lpn(unit * host.unit_pages + i)) {
                self.pool.set_clean(frame);
                self.policy.cleaned(&mut self.pool, frame);
                self.stats.flushed += 1;
            }
        }
        Ok(())
    }

    pub(super) fn flush<B: Backend>(
        &mut self,
        back: &mut B,
        host: Host<'_>,
    ) -> Result<Time, DeviceError> {
        let start = host.side.start_other(host.now);
        let dirty = (self.pool.dirty() + self.evicted.len()) as u64;
        if host.protected.is_some_and(|limit| dirty <= u64::from(limit)) {
            return Ok(host.side.complete(start));
        }
        // Left from a request that failed: as old as any entry.
        self.write_back(back, host.now)?;
        let left = usize::from(host.bug.has(Bug::FlushSkipsNewest));
        while let Some(frame) = self.pool.first_dirty()
            && self.pool.dirty() > left
        {
            self.clean_unit(back, &host, frame)?;
        }
        let done = back.sync()?.max(start);
        Ok(host.side.complete(done))
    }

    pub(super) fn discard<B: Backend>(
        &mut self,
        back: &mut B,
        host: Host<'_>,
        request: &Request<'_>,
    ) -> Result<Time, DeviceError> {
        let start = host.side.start_other(host.now);
        let unit = u64::from(host.unit_pages) * PAGE;
        let offset = request.lba.bytes().0;
        let end = offset + request.sectors.bytes().0;
        let (first, last) = (offset.div_ceil(unit), end / unit);
        if first < last {
            if !host.bug.has(Bug::DiscardIgnoresBuffer) {
                let pages = first * u64::from(host.unit_pages)..last * u64::from(host.unit_pages);
                self.drop_pages(pages);
            }
            back.discard(first as u32, (last - first) as u32)?;
            let grain = host.unit_pages;
            self.forget(back, first as u32 * grain..last as u32 * grain);
        }
        Ok(host.side.complete(start))
    }

    pub(super) fn forget<B: Backend>(&mut self, back: &B, pages: std::ops::Range<u32>) {
        let (pool, evicted) = (&self.pool, &self.evicted);
        let written = |page| {
            back.mapped(page)
                || pool.find(Lpn(page)).is_some_and(|f| pool.is_dirty(f))
                || evicted.iter().any(|e| e.page == page)
        };
        self.policy.forget(pages, &written);
    }

    pub(super) fn drop_pages(&mut self, pages: std::ops::Range<u64>) {
        // Those that wait since a request failed would bring back what was discarded.
        self.evicted.retain(|e| !pages.contains(&u64::from(e.page)));
        if self.pool.resident() == 0 {
            return;
        }
        for page in pages {
            if let Some(frame) = self.pool.find(Lpn(page as u32)) {
                self.policy.removed(&mut self.pool, frame);
                self.pool.release(frame);
            }
        }
    }
}
