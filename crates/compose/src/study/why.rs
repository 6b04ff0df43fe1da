//! Counters that explain what a run cost: where its flash pages come from, what SQLite waits for,
//! and whose pages the drive's buffer holds.

use block::Span;
use report::study::{Section, Table};

use super::Named;

/// Where the flash pages of some runs come from.
pub(super) fn pages(of: &str, runs: &[Named<'_>]) -> Section {
    let mut table = Table::new([
        "mechanisms",
        "SQLite sends",
        "file data",
        "moved by files' cleaning",
        "file metadata",
        "its journal",
        "cleanings",
        "checkpoints",
        "host log: copies",
        "host log: records",
        "store",
        "programmed for the host",
        "drive: copies",
        "drive: transactions",
        "drive: padding and records",
    ]);
    for (name, here) in runs {
        let layers = here.files.as_ref().map(|done| done.layers).unwrap_or_default();
        let [host, gc, tx, map, metadata, padding] = here.flash.programs;
        let numbers = [
            here.sqlite_sent(),
            layers.data,
            layers.moved,
            layers.metadata,
            layers.journal,
            layers.cleanings,
            layers.checkpoints,
            layers.log_copies,
            layers.log_records,
            here.store.as_ref().map_or(0, |done| done.user),
            host,
            gc,
            tx,
            map + metadata + padding,
        ];
        table.row([name.clone()].into_iter().chain(numbers.map(|n| n.to_string())));
    }
    Section::new(
        format!("Where the pages come from: {of}"),
        "Pages of 4 KiB. What is sent and written again, or discarded, before the buffer lets it go is not \
         programmed.",
        table,
    )
}

/// What SQLite waits for, and what the buffer holds.
pub(super) fn delays(of: &str, runs: &[Named<'_>]) -> Section {
    let mut table = Table::new([
        "mechanisms",
        "log accepted us",
        "log durable us",
        "database accepted us",
        "database durable us",
        "SQLite's writes found",
        "files' reads found",
        "files' writes found",
        "store's reads found",
        "store's writes found",
        "written out by flushes",
        "pushed out",
    ]);
    for (name, here) in runs {
        let spans = match &here.sqlite {
            Some(outcome) => {
                let t = &outcome.tally;
                let each =
                    |span: Span| (span.as_ns() / outcome.operations.max(1) / 1000).to_string();
                [t.log_write, t.log_sync, t.data_write, t.data_sync].map(each)
            }
            None => [(); 4].map(|()| "-".to_string()),
        };
        let [[_, sqlite], [file_reads, file_writes], [reads, writes]] = here.flash.hits;
        let found = [sqlite, file_reads, file_writes, reads, writes].map(share);
        let left = [here.flash.flushed, here.flash.evicted].map(|n| n.to_string());
        table.row([name.clone()].into_iter().chain(spans).chain(found).chain(left));
    }
    Section::new(
        format!("What SQLite waits for, and what the buffer holds: {of}"),
        "Microseconds of an operation, in the mean: until the drive took the pages, and until they were durable \
         (nolog: until the commit was). Pages that were found in the drive's buffer, of those read and written there; \
         pages of transactions pass it by. Pages that left it because of a flush, and for want of room.",
        table,
    )
}

/// Per cent with one decimal, of something that may not have happened.
fn share((part, whole): (u64, u64)) -> String {
    if whole == 0 {
        return "-".to_string();
    }
    let tenths = (part * 1000 + whole / 2) / whole;
    format!("{}.{} %", tenths / 10, tenths % 10)
}
