//! Moves records to where they lie on the drive: volumes one behind the other, gaps left out,
//! or wrapped into a smaller drive.

use block::Bytes;
use workload::{BLOCK_RECORDS, Record, Source, SourceError, TraceOp};

/// Where a workload's addresses lie on a drive.
#[derive(Clone, Debug)]
pub struct Layout {
    bases: Vec<u64>,
    volumes: bool,
    chunk: u64,
    /// For each area, bits of touched pieces and the number of touched pieces before each word.
    pieces: Vec<(Vec<u64>, Vec<u64>)>,
    wrap: Option<Bytes>,
}

impl Layout {
    pub(super) fn new(
        bases: Vec<u64>,
        volumes: bool,
        chunk: u64,
        touched: &[Vec<u64>],
        wrap: Option<Bytes>,
    ) -> Layout {
        let rank = |bits: &Vec<u64>| {
            let mut before = 0;
            let ranks = bits.iter().map(|word| {
                let here = before;
                before += u64::from(word.count_ones());
                here
            });
            ranks.collect()
        };
        let pieces = if chunk == 0 {
            Vec::new()
        } else {
            touched.iter().map(|bits| (bits.clone(), rank(bits))).collect()
        };
        Layout { bases, volumes, chunk, pieces, wrap }
    }

    /// Whether records stay as they are.
    fn is_identity(&self) -> bool {
        self.bases.len() <= 1 && self.chunk == 0 && self.wrap.is_none()
    }

    /// `source` with its records moved; without its flushes if so asked.
    pub fn over(self, source: Box<dyn Source>, drop_flushes: bool) -> Box<dyn Source> {
        if self.is_identity() && !drop_flushes {
            return source;
        }
        Box::new(Placed { layout: self, source, input: Vec::new(), next: 0, drop_flushes })
    }

    /// Pieces touched before byte `offset` of an area, in bytes, and whether its own is touched.
    fn compacted(&self, area: usize, offset: u64) -> (u64, bool) {
        let (bits, ranks) = &self.pieces[area];
        let piece = offset / self.chunk;
        let (word, bit) = ((piece / 64) as usize, piece % 64);
        let Some(w) = bits.get(word) else {
            let all = ranks.last().copied().unwrap_or(0)
                + bits.last().map_or(0, |w| u64::from(w.count_ones()));
            return (all * self.chunk, false);
        };
        let before = ranks[word] + u64::from((w & ((1u64 << bit) - 1)).count_ones());
        let touched = w >> bit & 1 == 1;
        (before * self.chunk + if touched { offset % self.chunk } else { 0 }, touched)
    }

    /// Moves one record; a wrapped one may become two.
    fn place(&self, record: &Record, out: &mut Vec<Record>) {
        let mut moved = *record;
        if record.op == TraceOp::Flush {
            out.push(moved);
            return;
        }
        let area = if self.volumes { usize::from(record.app.0) } else { 0 };
        if self.chunk > 0 {
            // Reads and writes touch only touched pieces, which stay neighbours; a discard
            // shrinks to what is touched.
            let (start, _) = self.compacted(area, record.offset.0);
            let (end, _) = self.compacted(area, record.offset.0 + record.len.0);
            moved.offset = Bytes(start);
            moved.len = match record.op {
                TraceOp::Discard => Bytes(end - start),
                _ => record.len,
            };
        }
        moved.offset.0 += self.bases.get(area).copied().unwrap_or(0);
        let Some(size) = self.wrap else {
            out.push(moved);
            return;
        };
        moved.offset.0 %= size.0;
        let room = size.0 - moved.offset.0;
        if moved.len.0 <= room {
            out.push(moved);
            return;
        }
        let mut left = moved.len.0;
        moved.len = Bytes(room);
        while left > 0 {
            out.push(moved);
            left -= moved.len.0;
            moved.offset = Bytes(0);
            moved.len = Bytes(left.min(size.0));
        }
    }
}

struct Placed {
    layout: Layout,
    source: Box<dyn Source>,
    input: Vec<Record>,
    next: usize,
    drop_flushes: bool,
}

impl Source for Placed {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        while block.len() < BLOCK_RECORDS {
            let Some(record) = self.input.get(self.next) else {
                self.next = 0;
                self.source.fill(&mut self.input)?;
                if self.input.is_empty() {
                    break;
                }
                continue;
            };
            self.next += 1;
            if !(self.drop_flushes && record.op == TraceOp::Flush) {
                self.layout.place(record, block);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use block::{AppId, Time};
    use workload::Flags;

    use super::*;

    fn record(op: TraceOp, offset: u64, len: u64) -> Record {
        Record {
            at: Time::ZERO,
            offset: Bytes(offset),
            len: Bytes(len),
            response: None,
            app: AppId(0),
            op,
            flags: Flags::default(),
            hint: 0,
        }
    }

    fn placed(layout: &Layout, r: Record) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        layout.place(&r, &mut out);
        out.iter().map(|r| (r.offset.0, r.len.0)).collect()
    }

    #[test]
    fn compacting_keeps_order_and_neighbours() {
        // Pieces 1, 2 and 70 of 4 KiB are touched.
        let layout = Layout::new(vec![0], false, 4096, &[vec![0b110, 1 << 6]], None);
        assert_eq!(placed(&layout, record(TraceOp::Write, 4096, 8192)), [(0, 8192)]);
        assert_eq!(placed(&layout, record(TraceOp::Read, 4096 + 100, 12)), [(100, 12)]);
        assert_eq!(placed(&layout, record(TraceOp::Read, 70 * 4096, 4096)), [(8192, 4096)]);
        let all = record(TraceOp::Discard, 0, 1 << 30);
        assert_eq!(placed(&layout, all), [(0, 3 * 4096)], "a discard shrinks with the gaps");
        let gap = record(TraceOp::Discard, 5 * 4096, 8192);
        assert_eq!(placed(&layout, gap), [(8192, 0)]);
    }

    #[test]
    fn wrapping_splits_at_the_end() {
        let layout = Layout::new(vec![0], false, 0, &[], Some(Bytes(10_000)));
        assert_eq!(placed(&layout, record(TraceOp::Write, 9_000, 500)), [(9_000, 500)]);
        let over = placed(&layout, record(TraceOp::Write, 19_000, 3_000));
        assert_eq!(over, [(9_000, 1_000), (0, 2_000)]);
    }
}
