//! Counters that explain what a run cost: where its flash pages come from, what SQLite waits for,
//! and whose pages the drive's buffer holds.

use block::Span;
use report::round::share;
use report::study::{Section, Table, Value};
use report::values;

use super::Named;

/// Where the flash pages of some runs come from.
pub(super) fn pages(id: &str, of: &str, runs: &[Named<'_>]) -> Section {
    let mut table = Table::new([
        ("mechanisms", "mechanisms"),
        ("sqlite_sends", "SQLite sends"),
        ("file_data", "file data"),
        ("moved_by_files_cleaning", "moved by files' cleaning"),
        ("file_metadata", "file metadata"),
        ("its_journal", "its journal"),
        ("cleanings", "cleanings"),
        ("checkpoints", "checkpoints"),
        ("host_log_copies", "host log: copies"),
        ("host_log_records", "host log: records"),
        ("store", "store"),
        ("programmed_for_the_host", "programmed for the host"),
        ("drive_copies", "drive: copies"),
        ("drive_transactions", "drive: transactions"),
        ("drive_padding_and_records", "drive: padding and records"),
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
        table.row(values![name].into_iter().chain(numbers.map(Value::from)));
    }
    Section::new(
        format!("pages_{id}"),
        format!("Where the pages come from: {of}"),
        "Pages of 4 KiB. What is sent and written again, or discarded, before the buffer lets it go is not \
         programmed.",
        table,
    )
}

/// What SQLite waits for, and what the buffer holds.
pub(super) fn delays(id: &str, of: &str, runs: &[Named<'_>]) -> Section {
    let mut table = Table::new([
        ("mechanisms", "mechanisms"),
        ("log_accepted_us", "log accepted us"),
        ("log_durable_us", "log durable us"),
        ("database_accepted_us", "database accepted us"),
        ("database_durable_us", "database durable us"),
        ("sqlite_writes_found", "SQLite's writes found"),
        ("files_reads_found", "files' reads found"),
        ("files_writes_found", "files' writes found"),
        ("store_reads_found", "store's reads found"),
        ("store_writes_found", "store's writes found"),
        ("written_out_by_flushes", "written out by flushes"),
        ("pushed_out", "pushed out"),
    ]);
    for (name, here) in runs {
        let spans = match &here.sqlite {
            Some(outcome) => {
                let t = &outcome.tally;
                let each =
                    |span: Span| Value::from(span.as_ns() / outcome.operations.max(1) / 1000);
                [t.log_write, t.log_sync, t.data_write, t.data_sync].map(each)
            }
            None => [const { Value::Absent }; 4],
        };
        let [[_, sqlite], [file_reads, file_writes], [reads, writes]] = here.flash.hits;
        let found = [sqlite, file_reads, file_writes, reads, writes]
            .map(|(part, whole)| share(part, whole));
        let left = [here.flash.flushed, here.flash.evicted].map(Value::from);
        table.row(values![name].into_iter().chain(spans).chain(found).chain(left));
    }
    Section::new(
        format!("waits_{id}"),
        format!("What SQLite waits for, and what the buffer holds: {of}"),
        "Microseconds of an operation, in the mean: until the drive took the pages, and until they were durable \
         (nolog: until the commit was). Pages that were found in the drive's buffer, of those read and written there; \
         pages of transactions pass it by. Pages that left it because of a flush, and for want of room.",
        table,
    )
}
