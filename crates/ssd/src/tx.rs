//! The drive as a transactional device: what the host side and the buffer add to the FTL.
//!
//! Pages of open transactions pass the buffer by. Before a transaction's first write of a page
//! the FTL gets the version the buffer may hold; when a commit changes the map, the buffer forgets
//! the old version.

use block::{
    BlockDevice, Data, DeviceError, Lba, Lpn, Op, Remap, Request, Sectors, Time, Transactional,
    TxError, TxId, TxLimits,
};
use nand::Payload;

use crate::Drive;
use crate::drive::lend;
use crate::ftl::{PageFtl, SlotData};
use crate::stats::TxStats;

const OFF: DeviceError =
    DeviceError::Unsupported("the drive was made without transactions (tx.mode = off)");

fn place(page: Lpn, count: u32) -> (Lba, Sectors) {
    (Lba(u64::from(page.0) * 8), Sectors(u64::from(count) * 8))
}

impl Drive {
    /// Counters of transactions, if the drive has them.
    pub fn tx_stats(&self) -> Option<TxStats> {
        self.ftl.page().and_then(PageFtl::tx_stats)
    }

    /// Writes the last page of a transaction, as the paper's literal rules want to be told
    /// (`tx.mode = paper`). The others find the last one by themselves.
    ///
    /// # Errors
    /// As [`Transactional::tx_write`].
    pub fn tx_write_last(
        &mut self,
        at: Time,
        tid: TxId,
        page: Lpn,
        data: Data<'_>,
    ) -> Result<Time, TxError> {
        self.tx_write_as(at, tid, page, data, true)
    }

    fn tx_write_as(
        &mut self,
        at: Time,
        tid: TxId,
        page: Lpn,
        data: Data<'_>,
        last: bool,
    ) -> Result<Time, TxError> {
        let payload = match &data {
            Data::None => Payload::None,
            Data::Write(bytes) => Payload::Bytes((*bytes).into()),
            Data::WriteStamps([stamp]) => Payload::Stamp(*stamp),
            _ => {
                return Err(DeviceError::Unsupported("the payload does not fit the request").into());
            }
        };
        let (lba, sectors) = place(page, 1);
        let request = Request::write(lba, sectors).with(data);
        self.admit(at, &request)?;
        let ftl = self.pages()?;
        ftl.tx_lose_held(tid.0, page.0);
        ftl.tx_admit(tid.0, page.0)?;
        self.start(&request)?;
        if self.pages()?.tx_owner(page.0).is_none() {
            self.settle(page.0)?;
        }
        let start = self.side.start_write(at, 4096);
        let received = self.side.receive(at, start, 4096);
        let staging = self.p.buffer.staging;
        let ftl = self.pages()?;
        ftl.tx_write(received, tid.0, page.0, payload, last)?;
        let pressed = ftl.back_pressure(staging);
        if self.p.tx.as_ref().is_some_and(|tx| tx.paper) {
            // The map names the new page at once.
            self.front.outdated(page.0);
        }
        let done = self.side.dram(at, received, 4096).max(pressed);
        Ok(self.side.complete(done))
    }

    fn pages(&mut self) -> Result<&mut PageFtl, TxError> {
        if self.p.tx.is_none() {
            return Err(OFF.into());
        }
        self.ftl.page_mut().ok_or(TxError::Device(OFF))
    }

    /// A plain write or discard may not touch a page of an open transaction.
    pub(crate) fn refuse_owned(&self, request: &Request<'_>) -> Result<(), DeviceError> {
        if !matches!(request.op, Op::Write | Op::Discard) {
            return Ok(());
        }
        let (first, end) = (request.lba.0 / 8, (request.lba.0 + request.sectors.0).div_ceil(8));
        let owned = self.ftl.page().and_then(|f| f.tx_owned(first as u32, (end - first) as u32));
        owned.map_or(Ok(()), |page| Err(DeviceError::InTransaction(Lba(u64::from(page) * 8))))
    }

    /// The FTL gets what the buffer holds of a page.
    fn settle(&mut self, page: u32) -> Result<(), DeviceError> {
        let now = self.now();
        let protected = self.protected();
        let host = lend(&mut self.side, &self.p, now, protected, self.bug);
        match self.ftl.page_mut() {
            Some(ftl) => self.front.settle(ftl, &host, page),
            None => Ok(()),
        }
    }
}

impl Transactional for Drive {
    fn tx_limits(&self) -> TxLimits {
        let none = TxLimits { max_open: 0, pages: 0, span: 0, next: TxId(0) };
        self.ftl.page().and_then(PageFtl::tx_limits).unwrap_or(none)
    }

    fn tx_begin(&mut self) -> Result<TxId, TxError> {
        Ok(TxId(self.pages()?.tx_begin()?))
    }

    fn tx_write(
        &mut self,
        at: Time,
        tid: TxId,
        page: Lpn,
        data: Data<'_>,
    ) -> Result<Time, TxError> {
        self.tx_write_as(at, tid, page, data, false)
    }

    fn tx_trim(&mut self, at: Time, tid: TxId, first: Lpn, count: u32) -> Result<Time, TxError> {
        let (lba, sectors) = place(first, count);
        let request = Request::discard(lba, sectors);
        self.admit(at, &request)?;
        for page in first.0..first.0 + count {
            self.pages()?.tx_admit(tid.0, page)?;
        }
        self.start(&request)?;
        for page in first.0..first.0 + count {
            if self.pages()?.tx_owner(page).is_none() {
                self.settle(page)?;
            }
        }
        let start = self.side.start_other(at);
        self.pages()?.tx_trim(tid.0, first.0, count)?;
        Ok(self.side.complete(start))
    }

    fn tx_read(
        &mut self,
        at: Time,
        tid: TxId,
        page: Lpn,
        mut data: Data<'_>,
    ) -> Result<Time, TxError> {
        let (lba, sectors) = place(page, 1);
        match &data {
            Data::None => {}
            Data::Read(out) if out.len() == 4096 => {}
            Data::ReadStamps(out) if out.len() == 1 => {}
            _ => {
                return Err(DeviceError::Unsupported("the payload does not fit the request").into());
            }
        }
        self.admit(at, &Request::read(lba, sectors))?;
        if !self.pages()?.tx_is_open(tid.0) {
            return Err(TxError::Unknown(tid));
        }
        if self.pages()?.tx_owner(page.0) != Some(tid.0) {
            return Ok(self.submit(at, Request::read(lba, sectors).with(data))?);
        }
        self.start(&Request::read(lba, sectors))?;
        let start = self.side.start_read(at, 4096);
        let Some((ready, found)) = self.pages()?.tx_read(start, tid.0, page.0)? else {
            return Err(TxError::Unknown(tid));
        };
        show(&found, page, &mut data)?;
        let sent = self.side.send(at, ready, 4096);
        Ok(self.side.complete(sent))
    }

    fn tx_commit(&mut self, at: Time, tids: &[TxId]) -> Result<Time, TxError> {
        let request = Request::flush();
        self.admit(at, &request)?;
        let tids: Vec<u64> = tids.iter().map(|tid| tid.0).collect();
        for tid in &tids {
            if !self.pages()?.tx_is_open(*tid) {
                return Err(TxError::Unknown(TxId(*tid)));
            }
        }
        self.start(&request)?;
        let start = self.side.start_other(at);
        let ftl = self.pages()?;
        let pages: Vec<Lpn> = tids.iter().flat_map(|tid| ftl.tx_pages(*tid)).collect();
        let done = ftl.tx_commit(&tids)?;
        for page in pages {
            self.front.outdated(page.0);
        }
        Ok(self.side.complete(done.max(start)))
    }

    fn tx_abort(&mut self, at: Time, tid: TxId) -> Result<Time, TxError> {
        self.admit(at, &Request::flush())?;
        let pages = self.pages()?.tx_pages(tid.0);
        self.pages()?.tx_abort(tid.0);
        if self.p.tx.as_ref().is_some_and(|tx| tx.paper) {
            for page in pages {
                self.front.outdated(page.0);
            }
        }
        Ok(at)
    }
}

impl Remap for Drive {
    fn remap(&mut self, at: Time, pairs: &[(Lpn, Lpn)]) -> Result<Time, TxError> {
        for page in pairs.iter().flat_map(|(to, from)| [*to, *from]) {
            let (lba, sectors) = place(page, 1);
            self.admit(at, &Request::discard(lba, sectors))?;
            if let Some(owner) = self.pages()?.tx_owner(page.0) {
                return Err(TxError::Conflict { page, owner: TxId(owner) });
            }
        }
        let request = Request::flush();
        self.admit(at, &request)?;
        self.pages()?;
        self.start(&request)?;
        let start = self.side.start_other(at);
        for page in pairs.iter().flat_map(|(to, from)| [*to, *from]) {
            self.settle(page.0)?;
        }
        let pairs: Vec<(u32, u32)> = pairs.iter().map(|(to, from)| (to.0, from.0)).collect();
        let done = self.pages()?.remap(&pairs)?;
        for page in pairs.iter().flat_map(|(to, from)| [*to, *from]) {
            self.front.outdated(page);
        }
        Ok(self.side.complete(done.max(start)))
    }
}

/// Gives the caller what a page holds.
fn show(found: &SlotData, page: Lpn, data: &mut Data<'_>) -> Result<(), DeviceError> {
    if *found == SlotData::Unreadable {
        return Err(DeviceError::Unreadable(Lba(u64::from(page.0) * 8)));
    }
    match (data, found) {
        (Data::Read(out), SlotData::Bytes(bytes, from)) => {
            out.copy_from_slice(&bytes[*from..*from + 4096]);
        }
        (Data::Read(out), _) => out.fill(0),
        (Data::ReadStamps(out), SlotData::Stamp(stamp)) => out[0] = *stamp,
        (Data::ReadStamps(out), _) => out[0] = 0,
        _ => {}
    }
    Ok(())
}
