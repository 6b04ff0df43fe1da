//! Fig 15: opening a log that was not closed. What is read is counted on a device that keeps
//! metadata only; what the processor takes for it is `varve-bench remap open`.

use block::{Rng, Span, parse_size};
use remap::{LogError, recover};

use super::{Options, SEED, Scale, section};
use crate::text::{ratio, seconds};
use lab::LabError;
use lab::bare::BareLog;
use report::study::{Plot, Study, Table};
use report::values;

/// A request's latency and the rate of the link of the paper's drive (preset `paper-remap`).
const LATENCY: Span = Span::from_us(60);
const BYTES_PER_SECOND: u128 = 6_200_000_000;

/// Runs the sizes.
pub(super) fn run(options: &Options, study: &mut Study) -> Result<(), LabError> {
    let sizes: &[&str] = match options.scale {
        Scale::Quick => &["4 GiB", "16 GiB"],
        Scale::Default | Scale::Full => &["4 GiB", "16 GiB", "64 GiB", "256 GiB"],
    };
    let failed = |e: LogError| LabError::Failed(format!("opening a log: {e}"));
    let mut table = Table::new([
        ("mapped", "mapped"),
        ("writes_since_the_checkpoint", "writes since the checkpoint"),
        ("records", "records"),
        ("requests", "requests"),
        ("mib_read", "MiB read"),
        ("device_time_s", "device time, s"),
    ]);
    for size in sizes {
        let mapped = parse_size(size).map_err(|e| LabError::Failed(e.to_string()))?;
        let log = BareLog::filled(mapped).map_err(failed)?;
        let settings = log.options.clone();
        let (mut store, since) = log.left_behind(&mut Rng::stream(SEED, "reproduce/remap/opening"));
        let found =
            recover(&mut store, &settings, true, block::Plant::default()).map_err(failed)?;
        found.engine.check().map_err(|what| LabError::Check {
            contract: "C8".to_string(),
            what: what.to_string(),
        })?;
        let moved = u128::from(store.read) * 1_000_000_000_000 / BYTES_PER_SECOND;
        let time = LATENCY.times(store.requests).as_ps() + moved as u64;
        table.row(values![
            *size,
            since,
            found.summary.records,
            store.requests,
            ratio((store.read, 1 << 20)),
            seconds(Span::from_ps(time))
        ]);
    }
    study.sections.push(
        section(
            "fig15", "Fig 15: opening after a stop without closing",
            "A log 85 % full, written once in order, checkpointed, then overwritten at random until the \
             next checkpoint is due. Device time: a request after the other, 60 us each, at the 6.2 GB/s of \
             the paper's link. The processor's time is printed by `varve-bench remap open`. The paper \
             inserts every pair of its log into a tree: 82 ns a pair.",
            table,
        )
        .plot(Plot::lines("device time, s", "mapped", ["device_time_s"]))?,
    );
    Ok(())
}
