//! What whoever submits to a device asked of it.

use block::{Op, Request, UNIT_BYTES};
use ssd::{AppStats, OpStats, Stats};

/// Sectors of a 4 KiB block.
const UNIT: u64 = UNIT_BYTES / block::SECTOR_BYTES;

/// Counters of requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Client {
    host: [OpStats; 4],
    /// Reads and writes, by application.
    requests: Vec<u64>,
}

impl Client {
    pub(super) fn count(&mut self, request: &Request<'_>) {
        let op = &mut self.host[request.op as usize];
        let (first, end) = (request.lba.0, request.lba.0 + request.sectors.0);
        op.ops += 1;
        op.bytes += request.sectors.bytes().0;
        op.units += match request.op {
            Op::Read | Op::Write => end.div_ceil(UNIT) - first / UNIT,
            Op::Discard => (end / UNIT).saturating_sub(first.div_ceil(UNIT)),
            Op::Flush => 0,
        };
        let app = usize::from(request.hint.app.0);
        if app >= self.requests.len() {
            self.requests.resize(app + 1, 0);
        }
        self.requests[app] += u64::from(matches!(request.op, Op::Read | Op::Write));
    }

    /// Bytes written.
    pub(super) fn written(&self) -> u64 {
        self.host[Op::Write as usize].bytes
    }

    /// The counters of a device, with these in the place of those of whoever submits to it.
    pub(super) fn instead(&self, mut stats: Stats) -> Stats {
        stats.host = self.host;
        stats.apps.resize(self.requests.len().max(stats.apps.len()), AppStats::default());
        for (i, app) in stats.apps.iter_mut().enumerate() {
            app.requests = self.requests.get(i).copied().unwrap_or(0);
        }
        stats
    }
}
