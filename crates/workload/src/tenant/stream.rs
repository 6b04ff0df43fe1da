//! One tenant's records on its own clock: files chained, windowed, looped, stretched, checked.

use block::{AppId, Bytes, Time};

use super::{TRACE_TICK, Tenant, Volumes};
use crate::split::{UnitSize, unit_range};
use crate::{BLOCK_RECORDS, Flags, Record, Source, SourceError, TraceOp};

/// Pulls one tenant's records in order. Three clocks follow each other: a file's own, the chain's
/// (files of one round after each other, where the window cuts), and the tenant's (rounds after
/// each other, then stretched).
pub(super) struct Stream {
    tenant: Tenant,
    round: u64,
    /// Number of the file being read; `tenant.files.len()` when the round is over.
    file: usize,
    source: Option<Box<dyn Source>>,
    block: Vec<Record>,
    position: usize,
    /// Where the current file's time 0 lies on the chain's clock.
    file_base: Time,
    /// Last record seen on the chain's clock, in or out of the window.
    chain_last: Option<Time>,
    /// Where the current round's time 0 lies on the tenant's clock, not stretched.
    round_base: Time,
    /// Last record handed out, on the tenant's clock, not stretched.
    last: Option<Time>,
    volume: Option<AppId>,
    pub(super) flushes_dropped: u64,
    pub(super) other_volumes: u64,
}

impl Stream {
    pub(super) fn new(tenant: Tenant) -> Result<Stream, SourceError> {
        let name = &tenant.name;
        let fail = |what: &str| Err(SourceError::Recipe(format!("app {name}: {what}")));
        if tenant.files.is_empty() {
            return fail("it has no file");
        }
        if tenant.rounds == 0 {
            return fail("0 rounds: expected at least 1");
        }
        if tenant.window.1.is_some_and(|to| to <= tenant.window.0) {
            return fail("its time window is empty");
        }
        if tenant.rounds > 1 && tenant.round_discard && tenant.extent.is_none() {
            return fail("the discard between rounds needs its extent");
        }
        Ok(Stream {
            tenant,
            round: 0,
            file: 0,
            source: None,
            block: Vec::with_capacity(BLOCK_RECORDS),
            position: 0,
            file_base: Time::ZERO,
            chain_last: None,
            round_base: Time::ZERO,
            last: None,
            volume: None,
            flushes_dropped: 0,
            other_volumes: 0,
        })
    }

    pub(super) fn into_tenant(self) -> Tenant {
        self.tenant
    }

    /// Whether nothing was handed out.
    pub(super) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    pub(super) fn no_records(&self) -> SourceError {
        self.error("it has no record (after its window and volume were applied)")
    }

    pub(super) fn error(&self, what: &str) -> SourceError {
        SourceError::Recipe(format!("app {}: {what}", self.tenant.name))
    }

    /// One past the last byte of the last 4 KiB unit `record` touches; 0 for none.
    pub(super) fn unit_end(&self, record: &Record) -> Result<u64, SourceError> {
        let range = unit_range(record, UnitSize::PAGE).map_err(|e| self.error(&e.to_string()))?;
        if range.count() == 0 {
            return Ok(0);
        }
        let past = || self.error("a request ends at the end of the 64-bit address space");
        range.end.checked_mul(UnitSize::PAGE.bytes()).ok_or_else(past)
    }

    /// The next record, on the tenant's clock.
    pub(super) fn next(&mut self) -> Result<Option<Record>, SourceError> {
        loop {
            if self.position < self.block.len() {
                let record = self.block[self.position];
                self.position += 1;
                if let Some(record) = self.admit(record)? {
                    return Ok(Some(record));
                }
            } else if self.file == self.tenant.files.len() {
                // A round that yields nothing would go on doing so.
                if self.round + 1 >= self.tenant.rounds || self.is_empty() {
                    return Ok(None);
                }
                if let Some(discard) = self.next_round()? {
                    return Ok(Some(discard));
                }
            } else {
                self.next_block()?;
            }
        }
    }

    /// Reads on in the current file, or opens the next one.
    fn next_block(&mut self) -> Result<(), SourceError> {
        self.position = 0;
        self.block.clear();
        let source = match &mut self.source {
            Some(source) => source,
            None => self.source.insert((self.tenant.files[self.file])()?),
        };
        source.fill(&mut self.block)?;
        if self.block.is_empty() {
            self.source = None;
            self.file += 1;
            if let Some(last) = self.chain_last {
                self.file_base = self.after(last)?;
            }
        }
        Ok(())
    }

    /// Begins the next round, with the discard that goes before it.
    fn next_round(&mut self) -> Result<Option<Record>, SourceError> {
        self.round += 1;
        self.file = 0;
        self.file_base = Time::ZERO;
        self.chain_last = None;
        if let Some(last) = self.last {
            self.round_base = self.after(last)?;
        }
        let Some(extent) = self.tenant.extent.filter(|_| self.tenant.round_discard) else {
            return Ok(None);
        };
        self.last = Some(self.round_base);
        Ok(Some(Record {
            at: self.stretched(self.round_base)?,
            offset: Bytes(0),
            len: extent,
            response: None,
            app: AppId(0),
            op: TraceOp::Discard,
            flags: Flags::default(),
            hint: 0,
        }))
    }

    /// Filters one record and puts it on the tenant's clock.
    fn admit(&mut self, mut record: Record) -> Result<Option<Record>, SourceError> {
        if !self.belongs(&record)? {
            return Ok(None);
        }
        if self.tenant.drop_flushes && record.op == TraceOp::Flush {
            self.flushes_dropped += 1;
            return Ok(None);
        }
        let chain = self.moment(self.file_base, record.at)?;
        if self.chain_last.is_some_and(|last| chain < last) {
            let number = self.file + 1;
            let at = record.at.as_ns();
            return Err(self.error(&format!(
                "file {number}: the request at {at} ns lies before its predecessor; sort it first"
            )));
        }
        self.chain_last = Some(chain);
        let (from, to) = self.tenant.window;
        if chain < from {
            return Ok(None);
        }
        if to.is_some_and(|to| chain >= to) {
            // Times do not fall: nothing of this round can follow.
            self.source = None;
            self.block.clear();
            self.file = self.tenant.files.len();
            return Ok(None);
        }
        let at = self.moment(self.round_base, Time::ZERO + (chain - from))?;
        self.last = Some(at);
        record.at = self.stretched(at)?;
        if record.op != TraceOp::Flush {
            record.offset = self.shifted(record.offset)?;
        }
        Ok(Some(record))
    }

    fn belongs(&mut self, record: &Record) -> Result<bool, SourceError> {
        match self.tenant.volumes {
            Volumes::Shared => Ok(true),
            Volumes::Only(app) => {
                self.other_volumes += u64::from(record.app != app);
                Ok(record.app == app)
            }
            Volumes::One => {
                let first = *self.volume.get_or_insert(record.app);
                if first == record.app {
                    return Ok(true);
                }
                let (a, b) = (first, record.app);
                Err(self.error(&format!("its files hold volumes {a} and {b}: choose one")))
            }
        }
    }

    fn moment(&self, base: Time, at: Time) -> Result<Time, SourceError> {
        base.checked_add(at.since(Time::ZERO)).ok_or_else(|| self.too_late())
    }

    fn after(&self, last: Time) -> Result<Time, SourceError> {
        last.checked_add(TRACE_TICK).ok_or_else(|| self.too_late())
    }

    fn stretched(&self, at: Time) -> Result<Time, SourceError> {
        let ps = self.tenant.stretch.apply(at.as_ps()).map(Time::from_ps);
        ps.filter(|at| *at <= Time::LIMIT).ok_or_else(|| self.too_late())
    }

    fn too_late(&self) -> SourceError {
        self.error("its clock passes the end of virtual time (106 days)")
    }

    fn shifted(&self, offset: Bytes) -> Result<Bytes, SourceError> {
        let moved = offset.0.checked_add_signed(self.tenant.shift);
        moved.map(Bytes).ok_or_else(|| {
            let shift = self.tenant.shift;
            self.error(&format!("byte {offset} shifted by {shift} lies outside the address space"))
        })
    }
}
