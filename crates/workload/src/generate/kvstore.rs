//! `ycsb:A` to `ycsb:F`: the workloads on the plainest store there is, a heap file of records in
//! insertion order, updated in place, without a cache. For a real store's requests use a trace or
//! run the store.

use std::sync::Arc;

use block::{AppId, Bytes, Rng, Span, UNIT_BYTES};

use super::clock::{Arrival, ArrivalClock};
use super::fields::{Fields, span_text};
use super::recipe::Asked;
use super::simple::arrival_text;
use super::ycsb::{KvOp, Operations, Workload};
use super::{Generator, Source};
use crate::{BLOCK_RECORDS, Flags, Record, SourceError, TraceOp};

#[derive(Clone, Debug)]
struct HeapFile {
    workload: Workload,
    seed: u64,
    app: String,
    records: u64,
    record: Bytes,
    count: u64,
    arrival: Arrival,
}

pub(super) fn build(
    asked: &Asked<'_>,
    fields: &mut Fields<'_>,
) -> Result<Arc<dyn Generator>, SourceError> {
    let text = asked.argument.unwrap_or_default();
    let Some(workload) = Workload::parse(text) else {
        return Err(fields.wrong("workload", text, "one of A, B, C, D, E, F"));
    };
    let record = fields.take("record", Bytes(1000), "1 to 4096 bytes", |text| {
        text.parse().ok().filter(|bytes| (1..=UNIT_BYTES).contains(bytes)).map(Bytes)
    })?;
    let count = fields.count("count", 1_000_000, 1)?;
    let records = fields.count("records", 1_000_000, 1)?;
    if records.max(count) > 1_000_000_000 {
        let most = records.max(count).to_string();
        return Err(fields.wrong("records or count", &most, "at most 1G"));
    }
    let arrival = fields.arrival(Arrival::Fixed(Span::from_us(10)), count)?;
    let (seed, app) = (asked.seed, asked.draws.to_string());
    Ok(Arc::new(HeapFile { workload, seed, app, records, record, count, arrival }))
}

impl HeapFile {
    fn records_per_page(&self) -> u64 {
        UNIT_BYTES / self.record.0
    }
}

impl Generator for HeapFile {
    fn open(&self) -> Box<dyn Source + Send> {
        let stream = |purpose: &str| {
            Rng::stream(self.seed, &format!("{}/ycsb:{:?}/{purpose}", self.app, self.workload))
        };
        let (choices, keys) = (stream("operation"), stream("key"));
        Box::new(HeapSource {
            operations: Operations::new(self.workload, self.records, self.count, choices, keys),
            clock: ArrivalClock::new(self.arrival, stream("arrival")),
            per_page: self.records_per_page(),
            left: self.count,
        })
    }

    fn describe(&self) -> Vec<(String, String)> {
        let out = [
            ("workload", format!("{:?}", self.workload)),
            ("records", self.records.to_string()),
            ("record", format!("{} B, {} in a 4 KiB page", self.record, self.records_per_page())),
            ("count", self.count.to_string()),
            ("iat", span_text(self.arrival.mean())),
            ("arrival", arrival_text(self.arrival).to_string()),
            ("store", "heap file in insertion order, updated in place, no cache".to_string()),
        ];
        out.into_iter().map(|(name, value)| (name.to_string(), value)).collect()
    }

    fn extent(&self) -> Bytes {
        // Every operation may be an insert.
        let records = self.records + self.count;
        Bytes(records.div_ceil(self.records_per_page()) * UNIT_BYTES)
    }
}

struct HeapSource {
    operations: Operations,
    clock: ArrivalClock,
    per_page: u64,
    left: u64,
}

impl Source for HeapSource {
    fn fill(&mut self, block: &mut Vec<Record>) -> Result<(), SourceError> {
        block.clear();
        while self.left > 0 && block.len() + 2 <= BLOCK_RECORDS {
            self.left -= 1;
            let at = self.clock.tick();
            let operation = self.operations.draw();
            let record = |op, first: u64, last: u64| Record {
                at,
                offset: Bytes(first / self.per_page * UNIT_BYTES),
                len: Bytes((last / self.per_page - first / self.per_page + 1) * UNIT_BYTES),
                response: None,
                app: AppId(0),
                op,
                flags: Flags::default(),
                hint: 0,
            };
            match operation {
                KvOp::Read(key) => block.push(record(TraceOp::Read, key, key)),
                KvOp::Update(key) | KvOp::Insert(key) => {
                    block.push(record(TraceOp::Write, key, key));
                }
                KvOp::ReadModifyWrite(key) => {
                    block.push(record(TraceOp::Read, key, key));
                    block.push(record(TraceOp::Write, key, key));
                }
                KvOp::Scan(key, records) => {
                    let last = (key + records).min(self.operations.records()) - 1;
                    block.push(record(TraceOp::Read, key, last));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::parse_recipe;
    use crate::generate::tests::records;

    #[test]
    fn operations_become_pages() {
        let all = records("ycsb:F,records=1000,count=10k");
        let writes = all.iter().filter(|r| r.op == TraceOp::Write).count();
        assert_eq!(all.len() - writes, 10_000, "every operation reads");
        assert!((4_800..5_200).contains(&writes), "{writes}");
        assert!(all.iter().all(|r| r.len.0 == 4096 && r.offset.0 < 250 * 4096));
        let before = all.windows(2).filter(|w| w[1].op == TraceOp::Write);
        assert!(before.clone().all(|w| w[0].op == TraceOp::Read && w[0].offset == w[1].offset));
    }

    #[test]
    fn inserts_append_and_scans_stay_inside() {
        let all = records("ycsb:E,records=1000,count=5k,record=1024");
        let inserts: Vec<u64> =
            all.iter().filter(|r| r.op == TraceOp::Write).map(|r| r.offset.0 / 4096).collect();
        let expected: Vec<u64> = (0..inserts.len() as u64).map(|n| (1000 + n) / 4).collect();
        assert_eq!(inserts, expected);
        let reads: Vec<&Record> = all.iter().filter(|r| r.op == TraceOp::Read).collect();
        assert_eq!(reads.len() + inserts.len(), 5000, "every scan finds its first record");
        assert!(reads.iter().all(|r| (1..=26).contains(&(r.len.0 / 4096))));
        let mean = reads.iter().map(|r| r.len.0 / 4096).sum::<u64>() as f64 / reads.len() as f64;
        assert!((12.0..14.5).contains(&mean), "{mean}");
        for bad in ["ycsb:G", "ycsb", "ycsb:A,record=5000", "ycsb:A,record=0", "ycsb:A,records=0"] {
            assert!(parse_recipe(bad, 1).is_err(), "{bad}");
        }
    }
}
