//! The workload as accesses to 4 KiB pages.

use block::{Lpn, Op, UNIT_BYTES};
use ssd::HitAccess;
use workload::split::{SplitError, Splitter, UnitSize};
use workload::{Record, Source, TraceOp};

use super::HitPlan;
use crate::LabError;

/// Accesses handed out at a time, at least.
const BLOCK: usize = 32 * 1024;

/// Whether an operation is counted as an access.
pub fn is_access(op: Op) -> bool {
    matches!(op, Op::Read | Op::Write)
}

/// Cuts a stream of records into accesses.
pub struct Pages {
    source: Box<dyn Source>,
    splitter: Splitter,
    records: Vec<Record>,
    pages: u32,
    discards: bool,
}

impl Pages {
    pub fn new(source: Box<dyn Source>, pages: u32, plan: &HitPlan) -> Pages {
        let size = UnitSize::new(block::Bytes(UNIT_BYTES)).expect("4 KiB is a unit");
        Pages {
            source,
            splitter: Splitter::new(size),
            records: Vec::new(),
            pages,
            discards: plan.discards,
        }
    }

    /// Appends a block of accesses; false at the end.
    pub fn fill(&mut self, out: &mut Vec<HitAccess>) -> Result<bool, LabError> {
        while out.len() < BLOCK {
            self.source.fill(&mut self.records)?;
            if self.records.is_empty() {
                break;
            }
            for at in 0..self.records.len() {
                let record = self.records[at];
                self.split(&record, out)?;
            }
        }
        Ok(!out.is_empty())
    }

    fn split(&mut self, record: &Record, out: &mut Vec<HitAccess>) -> Result<(), LabError> {
        let op = match record.op {
            TraceOp::Read => Op::Read,
            TraceOp::Write | TraceOp::Zero => Op::Write,
            TraceOp::Flush => Op::Flush,
            TraceOp::Discard => Op::Discard,
        };
        let (number, app) = (self.splitter.counters().requests + 1, record.app);
        let units = match self.splitter.split(record) {
            Ok(units) => units,
            // Nothing is touched.
            Err(SplitError::Empty { .. }) => return Ok(()),
            Err(e) => return Err(LabError::Input(e.to_string())),
        };
        if op == Op::Discard && !self.discards {
            return Ok(());
        }
        let len = u32::try_from(record.len.0).unwrap_or(u32::MAX);
        let access = HitAccess { page: Lpn(0), op, app, request: number, len, next_use: u64::MAX };
        if op == Op::Flush {
            out.push(access);
            return Ok(());
        }
        for unit in units {
            let page = u32::try_from(unit.unit).ok().filter(|page| *page < self.pages);
            let page = page.ok_or_else(|| {
                LabError::Input(format!(
                    "request {number} touches page {}: the address space ends at page {}",
                    unit.unit, self.pages
                ))
            })?;
            out.push(HitAccess { page: Lpn(page), ..access });
        }
        Ok(())
    }
}
