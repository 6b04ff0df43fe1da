//! Fig. 3: how large the requests of a log-structured store are.

use std::path::Path;

use workload::{ReadOptions, TraceOp, open};

use super::{Options, share};
use lab::LabError;
use report::study::{Section, Table, Value};

/// Classes: id, heading, and upper end in bytes.
const CLASSES: [(&str, &str, u64); 8] = [
    ("to_4k", "<= 4K", 4 << 10),
    ("to_16k", "<= 16K", 16 << 10),
    ("to_64k", "<= 64K", 64 << 10),
    ("to_128k", "<= 128K", 128 << 10),
    ("to_256k", "<= 256K", 256 << 10),
    ("to_512k", "<= 512K", 512 << 10),
    ("to_1m", "<= 1M", 1 << 20),
    ("more", "> 1M", u64::MAX),
];

/// The distribution of the captured RocksDB traces.
pub fn section(options: &Options) -> Result<Section, LabError> {
    let heads = CLASSES.map(|(id, heading, _)| (id, heading));
    let mut table = Table::new(std::iter::once(("requests", "% of requests")).chain(heads));
    for name in ["ycsb_load_rocksdb", "ycsb_a_rocksdb"] {
        let counts = classes(&options.data.join(format!("{name}_ext4.csv.zst")))?;
        for (what, counts) in [("writes", counts[1]), ("reads", counts[0])] {
            let all: u64 = counts.iter().sum();
            let cells = counts.iter().map(|n| share(*n, all));
            table.row(std::iter::once(Value::from(format!("{name} {what}"))).chain(cells));
        }
    }
    Ok(Section::new(
        "requests",
        "Fig. 3: request sizes of RocksDB",
        "Captured with direct I/O. The paper shows large sequential writes, and reads large and of various sizes.",
        table,
    ))
}

fn classes(path: &Path) -> Result<[[u64; CLASSES.len()]; 2], LabError> {
    let mut source = open(path, &ReadOptions::default())?;
    let mut counts = [[0; CLASSES.len()]; 2];
    let mut block = Vec::new();
    loop {
        workload::Source::fill(&mut source, &mut block)?;
        if block.is_empty() {
            return Ok(counts);
        }
        for record in &block {
            let row = match record.op {
                TraceOp::Read => 0,
                TraceOp::Write | TraceOp::Zero => 1,
                TraceOp::Flush | TraceOp::Discard => continue,
            };
            let class = CLASSES.iter().position(|(_, _, end)| record.len.0 <= *end);
            counts[row][class.unwrap_or(CLASSES.len() - 1)] += 1;
        }
    }
}
