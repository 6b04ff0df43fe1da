//! Reads through the buffer: hits, misses, and the data of both.

use block::{Data, DeviceError, Lba, Lpn, Op, Request, Time};
use nand::{Payload, ReadCause};

use super::front::{Buffer, Host, PAGE, payload_of, sectors_of};
use super::policy::{Access, Admission, Policy};
use super::pool::Frame;
use crate::backend::Backend;
use crate::ftl::SlotData;

impl<P: Policy> Buffer<P> {
    pub(super) fn read<B: Backend>(
        &mut self,
        back: &mut B,
        host: Host<'_>,
        mut request: Request<'_>,
    ) -> Result<Time, DeviceError> {
        let info = self.info(&request);
        let (offset, end) = (info.offset.0, info.offset.0 + info.len.0);
        let start = host.side.start_read(host.now, info.len.0);
        let (mut hits, mut buffered) = (0, 0u64);
        let (first, last) = (offset / PAGE, end.div_ceil(PAGE));
        for page in first..last {
            let access = Access {
                page: Lpn(page as u32),
                op: Op::Read,
                req: &info,
                index: (page - first) as u32,
                mapped: false,
                next_use: u64::MAX,
            };
            let wanted = sectors_of(page, offset, end);
            self.stats.partial_units += u64::from(wanted != 0xFF);
            if let Some(frame) = self.pool.find(access.page) {
                hits += 1;
                buffered += PAGE;
                if !P::SHEDS || back.read_only().is_none() {
                    // Where nothing may be evicted any more, a hit that would changes nothing.
                    self.hit(frame, &access);
                }
                if self.pool.mask(frame) & wanted != wanted {
                    // The entry lacks sectors that are on flash.
                    back.read(start, page as u32, ReadCause::Rmw)?;
                    self.pool.add_mask(frame, 0xFF);
                }
                self.copy_out(back, page as u32, Some(frame), &mut request, offset)?;
                continue;
            }
            self.read_miss(back, &host, start, access, &mut request, offset)?;
        }
        let app = self.app(info.app);
        app.read_units += last - first;
        app.read_hits += hits;
        app.requests += 1;
        app.request_hits += u64::from(hits == last - first);
        let mut done = back.read_end()?.max(start);
        if buffered > 0 {
            done = done.max(host.side.dram(host.now, start, buffered));
        }
        self.write_back(back, host.now)?;
        // A read does not wait for the write-back it causes: its data goes to the host at once.
        back.press_nobody(host.staging);
        let sent = host.side.send(host.now, done, info.len.0);
        Ok(host.side.complete(sent))
    }

    fn read_miss<B: Backend>(
        &mut self,
        back: &mut B,
        host: &Host<'_>,
        start: Time,
        access: Access<'_>,
        request: &mut Request<'_>,
        offset: u64,
    ) -> Result<(), DeviceError> {
        let page = access.page.0;
        // A dirty entry given up earlier in this request must be in the map before it is read.
        if self.evicted.iter().any(|e| e.page == page) {
            self.write_back(back, host.now)?;
        }
        let mapped = back.mapped(page);
        if mapped {
            back.read(start, page, ReadCause::Host)?;
        } else {
            self.read_unwritten += 1;
        }
        self.copy_out(back, page, None, request, offset)?;
        let access = Access { mapped, ..access };
        if back.read_only().is_some() {
            // Nothing may be evicted any more: reads pass by.
            return Ok(());
        }
        let Admission::Admit(class) = self.policy.admit(&mut self.pool, &access, &mut self.out)
        else {
            return Ok(());
        };
        self.take_evictions();
        let frame = self.pool.insert(access.page, access.req.app.0, class);
        self.pool.add_mask(frame, 0xFF);
        if B::REAL
            && mapped
            && let Some(payload) = payload_of(back.data(page))
        {
            self.pool.set_payload(frame, payload);
        }
        self.policy.inserted(&mut self.pool, frame, &access);
        Ok(())
    }

    /// Gives the caller the data of a page it reads.
    fn copy_out<B: Backend>(
        &self,
        back: &B,
        page: u32,
        frame: Option<Frame>,
        request: &mut Request<'_>,
        offset: u64,
    ) -> Result<(), DeviceError> {
        if matches!(request.data, Data::None) {
            // Nobody looks at the data; that there is none is told all the same.
            let lost = B::REAL && frame.is_none() && back.data(page) == SlotData::Unreadable;
            return if lost {
                Err(DeviceError::Unreadable(Lba(u64::from(page) * 8)))
            } else {
                Ok(())
            };
        }
        let found = match frame.map(|f| self.pool.payload(f)) {
            Some(Payload::Stamp(stamp)) => SlotData::Stamp(*stamp),
            Some(Payload::Bytes(bytes)) => SlotData::Bytes(bytes.clone(), 0),
            // What the buffer holds came from the host: none of it lies in a backing alone.
            Some(Payload::None | Payload::Stamps(_) | Payload::Stored(_)) => SlotData::Unmapped,
            None => back.data(page),
        };
        if found == SlotData::Unreadable {
            return Err(DeviceError::Unreadable(Lba(u64::from(page) * 8)));
        }
        let start = u64::from(page) * PAGE;
        match &mut request.data {
            Data::ReadStamps(out) => {
                let at = ((start - offset) / PAGE) as usize;
                out[at] = if let SlotData::Stamp(stamp) = found { stamp } else { 0 };
            }
            Data::Read(out) => {
                let from = offset.max(start);
                let to = (offset + out.len() as u64).min(start + PAGE);
                let place = &mut out[(from - offset) as usize..(to - offset) as usize];
                match found {
                    SlotData::Bytes(bytes, at) => {
                        let at = at + (from - start) as usize;
                        place.copy_from_slice(&bytes[at..at + place.len()]);
                    }
                    _ => place.fill(0),
                }
            }
            Data::None | Data::Write(_) | Data::WriteStamps(_) => {}
        }
        Ok(())
    }
}
