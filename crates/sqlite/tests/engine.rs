//! The host over a device, call by call.

use block::{DeviceError, RamDevice, Sectors, Span, Time, TxError, TxId, TxLimits};
use varve_sqlite_host::files::Heard::{
    self, CheckpointDone, CheckpointStart, Commit, Cut, Read, Sync, Write,
};
use varve_sqlite_host::host::{self, Engine, Ideal, Layout, System, Tally};
use varve_sqlite_vfs::vfs::Kind::{self, Database, Journal, Wal};

const LAYOUT: Layout = Layout { database: 0, pages: 100, log: 50 };
const PAGE: u64 = 4096;
const FRAME: u64 = 24 + PAGE;

fn host(system: System) -> Engine {
    let ram = RamDevice::new(Sectors(8 * u64::from(LAYOUT.total())));
    let device = Ideal::new(ram, 4, host::Commit::Counted);
    Engine::new(Box::new(device), system, LAYOUT, Span::from_us(30)).at(Time::ZERO)
}

fn run(mut host: Engine, calls: &[(Kind, Heard)]) -> Tally {
    host.hear(calls).unwrap();
    host.finish().unwrap();
    host.tally().clone()
}

#[test]
fn a_page_goes_down_once_a_sync_and_what_is_cut_off_never() {
    let tally = run(
        host(System::Files),
        &[
            (Journal, Write(0, 512)),
            (Journal, Write(512, PAGE)),
            (Journal, Write(0, 12)),
            (Journal, Sync),
            (Database, Write(0, PAGE)),
            (Database, Write(5 * PAGE, 2 * PAGE)),
            (Database, Cut(6 * PAGE)),
            (Database, Sync),
            (Journal, Write(0, 28)),
            (Journal, Cut(0)),
            (Database, Sync),
            (Database, Write(3 * PAGE, 1)),
        ],
    );
    // Two pages of the journal; pages 0 and 5; page 3 when all is over.
    assert_eq!((tally.log, tally.data, tally.flushes), (2, 3, 3));
    assert_eq!(tally.total, Span::from_us(1500), "three times four dies at once");
}

fn frame(n: u64) -> [(Kind, Heard); 2] {
    [(Wal, Write(32 + n * FRAME, 24)), (Wal, Write(32 + n * FRAME + 24, PAGE))]
}

/// Two commits of two frames, then a checkpoint of three pages.
fn logged() -> Vec<(Kind, Heard)> {
    let mut calls = vec![(Wal, Write(0, 32))];
    for n in 0..4 {
        calls.extend(frame(n));
        calls.extend((n % 2 == 1).then_some((Wal, Sync)));
    }
    calls.push((Database, CheckpointStart));
    for (frame, page) in [(0, 9), (2, 3), (3, 4)] {
        calls.push((Wal, Read(32 + frame * FRAME + 24, PAGE)));
        calls.push((Database, Write(page * PAGE, PAGE)));
    }
    calls.extend([(Database, Sync), (Database, CheckpointDone)]);
    calls
}

#[test]
fn a_checkpoint_copies_or_moves() {
    let copied = run(host(System::Files), &logged());
    // Four frames end on the fifth page; the second sync sends the third page again.
    assert_eq!((copied.log, copied.data, copied.remapped), (6, 3, 0));
    for (headers, pages) in [(true, 2), (false, 0)] {
        let moved = run(host(System::Remapped { headers }), &logged());
        assert_eq!((moved.log, moved.headers), (4, pages));
        assert_eq!((moved.data, moved.remapped, moved.reads), (0, 3, 0));
    }
}

#[test]
fn without_a_page_cache_reads_take_their_time() {
    let calls = [(Database, Read(0, PAGE)), (Database, Read(7 * PAGE, PAGE))];
    assert_eq!(run(host(System::Files), &calls).total, Span::ZERO);
    let tally = run(host(System::Files).uncached(), &calls);
    assert_eq!((tally.reads, tally.read, tally.total), (2, Span::from_us(100), tally.read));
    let tally = run(host(System::Files).uncached(), &logged());
    assert_eq!((tally.reads, tally.read), (3, Span::ZERO), "a checkpoint's reads of the log");
}

#[test]
fn transactions_end_where_sqlite_says() {
    let mut calls = Vec::new();
    for n in 0..6 {
        calls.extend([(Database, Write(0, PAGE)), (Database, Write((n + 1) * PAGE, PAGE))]);
        calls.extend([(Database, Sync), (Database, Commit)]);
    }
    let each = run(host(System::Transactions(None)), &calls);
    assert_eq!((each.data, each.commits, each.flushes), (12, 6, 0));
    // Groups end with the transaction that makes four page writes full: three times two.
    let grouped = run(host(System::Transactions(Some(3))), &calls);
    assert_eq!((grouped.data, grouped.commits), (9, 3));
    let all = run(host(System::Transactions(Some(1000))), &calls);
    assert_eq!((all.data, all.commits), (7, 1));
}

#[test]
fn a_device_that_refuses_is_heard() {
    let mut small = host(System::Files);
    let error = small.hear(&[(Database, Write(100 * PAGE, PAGE))]).unwrap_err();
    assert!(matches!(error, TxError::Device(DeviceError::NoSpace(_))), "{error}");
    let limits = TxLimits { max_open: 4, pages: 2, span: 100, next: TxId(1) };
    let ram = RamDevice::new(Sectors(8 * u64::from(LAYOUT.total()))).with_limits(limits);
    let system = System::Transactions(None);
    let mut full = Engine::new(Box::new(ram), system, LAYOUT, Span::ZERO);
    let error = full.hear(&[(Database, Write(0, 3 * PAGE))]).unwrap_err();
    assert_eq!(error, TxError::Full(2));
}

#[test]
fn operations_take_the_hosts_time_too() {
    let mut host = host(System::Files);
    for _ in 0..3 {
        host.hear(&[(Database, Write(0, PAGE)), (Database, Sync)]).unwrap();
        host.operation();
    }
    host.finish().unwrap();
    assert_eq!(host.tally().operations, [Span::from_us(530); 3]);
    assert_eq!(host.tally().total, Span::from_us(1590));
}
