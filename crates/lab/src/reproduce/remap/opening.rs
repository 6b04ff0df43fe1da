//! Fig 15: opening a log that was not closed. What is read is counted on a device that keeps
//! metadata only; what the processor takes for it is `varve-bench remap open`.

use std::collections::BTreeMap;

use block::{Bytes, DeviceError, Lpn, Rng, Span, parse_size};
use remap::{BLOCK, Engine, Form, HeadKind, LogError, Pba, Sink, Store, format_store, recover};

use super::super::{Plot, Study, Table};
use super::text::{ratio, seconds};
use super::{Options, SEED, Scale, section};
use crate::LabError;

/// A request's latency and the rate of the link of the paper's drive (preset `paper-remap`).
const LATENCY: Span = Span::from_us(60);
const BYTES_PER_SECOND: u128 = 6_200_000_000;
/// Used share of the device.
const FILL: u64 = 85;

/// Keeps blocks of metadata, and counts what is read of them.
struct Sparse {
    blocks: u64,
    kept: BTreeMap<u32, Box<[u8]>>,
    keep: bool,
    requests: u64,
    read: u64,
}

impl Store for Sparse {
    fn blocks(&self) -> u64 {
        self.blocks
    }
    fn read(&mut self, at: Pba, out: &mut [u8]) -> Result<(), DeviceError> {
        self.requests += 1;
        self.read += out.len() as u64;
        for (i, block) in (0..).zip(out.chunks_exact_mut(BLOCK)) {
            match self.kept.get(&(at.0 + i)) {
                Some(kept) => block.copy_from_slice(kept),
                None => block.fill(0),
            }
        }
        Ok(())
    }
    fn read_stamps(&mut self, _: Pba, _: &mut [u64]) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported("blocks carry no stamps here"))
    }
    fn write(&mut self, at: Pba, bytes: &[u8]) -> Result<(), DeviceError> {
        for (i, block) in (0..).zip(bytes.chunks_exact(BLOCK)).filter(|_| self.keep) {
            self.kept.insert(at.0 + i, block.into());
        }
        Ok(())
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// Keeps headers, drops data.
struct Headers<'a>(&'a mut Sparse);

impl Sink for Headers<'_> {
    fn data(&mut self, _: HeadKind, _: Pba, _: u32, _: u32) {}
    fn header(&mut self, _: HeadKind, pba: Pba, block: &[u8; BLOCK]) {
        if self.0.keep {
            self.0.kept.insert(pba.0, block[..].into());
        }
    }
}

/// Engine and device of one log.
struct Log {
    engine: Engine,
    store: Sparse,
    freed: Vec<remap::Seg>,
}

impl Log {
    /// All that was written becomes durable once the engine wants a flush.
    fn settle(&mut self) {
        if self.engine.wants_flush() {
            let seq = self.engine.seal_all(&mut Headers(&mut self.store));
            self.engine.set_durable(seq, &mut self.freed);
        }
    }

    fn write(&mut self, lpn: u32, count: u32) {
        self.engine.write(Lpn(lpn), count, Form::Nothing, |_| 0, &mut Headers(&mut self.store));
    }

    fn checkpoint(&mut self) -> Result<(), LogError> {
        let mut buffer = Vec::new();
        self.engine.seal_all(&mut Headers(&mut self.store));
        self.engine.checkpoint_begin(false);
        while let Some(write) = self.engine.checkpoint_pages(&mut buffer) {
            self.store.write(write.pba, &buffer)?;
        }
        let (at, root) = self.engine.checkpoint_root(&mut buffer);
        self.store.write(Pba(at.0 + 1), &buffer)?;
        self.store.write(at, &root.encode())?;
        self.engine.checkpoint_commit(&mut self.freed);
        Ok(())
    }
}

/// Written once in order, a checkpoint, then overwritten at random until the next is due. Returns
/// what was left on the device and the writes since the checkpoint.
fn left_behind(mapped: Bytes, options: &remap::Options) -> Result<(Sparse, u64), LogError> {
    let blocks = mapped.0 / BLOCK as u64 * 100 / FILL;
    let mut store = Sparse { blocks, kept: BTreeMap::new(), keep: true, requests: 0, read: 0 };
    let engine = format_store(&mut store, options, None)?;
    let logical = engine.geometry().logical;
    store.keep = false;
    let mut log = Log { engine, store, freed: Vec::new() };
    for lpn in (0..logical).step_by(256) {
        log.write(lpn, (logical - lpn).min(256));
        log.settle();
    }
    log.store.keep = true;
    log.checkpoint()?;
    let (mut rng, mut since) = (Rng::stream(SEED, "reproduce/remap/opening"), 0);
    while !log.engine.wants_checkpoint() && log.engine.room(1) {
        log.write(rng.below(u64::from(logical)) as u32, 1);
        since += 1;
        log.settle();
    }
    log.engine.seal_all(&mut Headers(&mut log.store));
    let mut store = log.store;
    (store.requests, store.read) = (0, 0);
    Ok((store, since))
}

/// Runs the sizes.
pub(super) fn run(options: &Options, study: &mut Study) -> Result<(), LabError> {
    let sizes: &[&str] = match options.scale {
        Scale::Quick => &["4 GiB", "16 GiB"],
        Scale::Default => &["4 GiB", "16 GiB", "64 GiB", "256 GiB"],
    };
    let failed = |e: LogError| LabError::Failed(format!("opening a log: {e}"));
    let mut table = Table::new([
        "mapped",
        "writes since the checkpoint",
        "records",
        "requests",
        "MiB read",
        "device time, s",
    ]);
    for size in sizes {
        let mapped = parse_size(size).map_err(|e| LabError::Failed(e.to_string()))?;
        let mut settings = remap::Options::default();
        settings.set("capacity", size).map_err(failed)?;
        let (mut store, since) = left_behind(mapped, &settings).map_err(failed)?;
        let found = recover(&mut store, &settings, true, None).map_err(failed)?;
        found.engine.check().map_err(|what| LabError::Check {
            contract: "C8".to_string(),
            what: what.to_string(),
        })?;
        let moved = u128::from(store.read) * 1_000_000_000_000 / BYTES_PER_SECOND;
        let time = LATENCY.times(store.requests).as_ps() + moved as u64;
        table.row([
            (*size).to_string(),
            since.to_string(),
            found.summary.records.to_string(),
            store.requests.to_string(),
            ratio((store.read, 1 << 20)),
            seconds(Span::from_ps(time)),
        ]);
    }
    study.sections.push(
        section(
            "Fig 15: opening after a stop without closing",
            "A log 85 % full, written once in order, checkpointed, then overwritten at random until the \
             next checkpoint is due. Device time: a request after the other, 60 us each, at the 6.2 GB/s of \
             the paper's link. The processor's time is printed by `varve-bench remap open`. The paper \
             inserts every pair of its log into a tree: 82 ns a pair.",
            table,
        )
        .plot(Plot::lines("device time, s", 0, [5])),
    );
    Ok(())
}
