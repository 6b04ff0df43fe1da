//! The overwrite workload against tables measured with another SQLite (3.53.4) by another program:
//! bytes, writes and pages of a stock library, 16 MiB of values, 5,000 overwrites, a transaction
//! each. The bundled SQLite gives the same to the last digit; only groups, which end with a
//! transaction here and after exactly 1000 page writes there, differ, by less than 1 %.

use std::sync::Arc;

use varve_sqlite_host::files::{Both, Memory, Settings, Shared, Stage, Synchronous};
use varve_sqlite_host::pages::{PageCounter, Pages};
use varve_sqlite_host::workload::bench::{Overwrite, Shape};
use varve_sqlite_vfs::vfs::Kind;
use varve_sqlite_vfs::{Counter, Counts};

const COUNT: u64 = 5000;

/// Bytes a transaction, and hundredths of writes: WAL (log, database, writes), DELETE (journal,
/// database, writes), MEMORY (locking normal, exclusive).
type Bytes = ([u64; 3], [u64; 3], [u64; 2]);

const BYTES: [(usize, Bytes); 7] = [
    (256, ([13_004, 7_270, 809], [16_996, 16_732, 1813], [16_732, 12_929])),
    (512, ([13_630, 6_891, 830], [17_031, 17_060, 1823], [17_060, 13_551])),
    (1024, ([18_386, 8_644, 1104], [20_217, 20_618, 2143], [20_618, 18_280])),
    (2048, ([28_880, 14_140, 1748], [29_283, 28_711, 3003], [28_711, 28_711])),
    (4096, ([23_508, 9_082, 1364], [22_423, 23_359, 2371], [23_359, 23_359])),
    (8192, ([28_829, 12_533, 1706], [24_602, 28_635, 2659], [28_635, 28_635])),
    (16_384, ([37_694, 19_626, 2310], [27_152, 37_445, 3061], [37_445, 37_445])),
];

/// Hundredths of pages a transaction: WAL FULL and NORMAL, SW FULL and NORMAL, SW aligned, no log
/// with locking normal and exclusive, in groups.
const PAGES: [[u64; 8]; 7] = [
    [595, 495, 417, 318, 316, 408, 316, 184],
    [601, 501, 433, 333, 331, 417, 331, 176],
    [760, 660, 549, 449, 446, 503, 446, 216],
    [1150, 1051, 805, 706, 701, 701, 701, 346],
    [896, 796, 674, 575, 571, 570, 570, 222],
    [1110, 1011, 804, 705, 700, 699, 699, 306],
    [1499, 1400, 1020, 921, 915, 914, 914, 479],
];

/// Loads a table, as every run of it begins.
fn loaded(shape: Shape) -> (Memory, Overwrite) {
    let files = Memory::new(1);
    let stage = Stage::new(&files, Arc::new(Counter::default())).unwrap();
    let mut db = stage.open("bench", &Settings::new("delete", Synchronous::Off)).unwrap();
    let mut work = Overwrite::new(shape);
    work.load(&mut db).unwrap();
    db.close().unwrap();
    (files, work)
}

fn run(loaded: &(Memory, Overwrite), settings: Settings) -> (Counts, Pages) {
    let (files, mut work) = (loaded.0.fork(), loaded.1.clone());
    let (counter, pages) = (Counter::default(), Shared::new(PageCounter::new(1000)));
    let both = Both(Arc::new(counter.clone()), pages.clone());
    let stage = Stage::new(&files, Arc::new(both)).unwrap();
    let db = stage.open("bench", &settings).unwrap();
    let rows: u64 = db.query_row("SELECT count(*) FROM test", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, work.shape().keys);
    counter.reset();
    pages.get().reset();
    work.run(&db, COUNT, &mut || ()).unwrap();
    if settings.journal == "wal" {
        db.query_row("PRAGMA wal_checkpoint(FULL)", [], |row| row.get::<_, i64>(0)).unwrap();
    }
    let (counts, pages) = (counter.counts(), pages.get().finish());
    db.close().unwrap();
    (counts, pages)
}

/// `n` for each transaction, rounded.
fn per(n: u64) -> u64 {
    (n + COUNT / 2) / COUNT
}

/// `found` is `expected` for each transaction; what lies right between two may be either.
fn rounds(found: u64, expected: u64, what: &str) {
    let off = found.abs_diff(expected * COUNT);
    assert!(2 * off <= COUNT, "{what}: {found}, or {} and not {expected}", per(found));
}

/// The table's columns but the groups.
fn columns(full: &Pages, log: &Pages, memory: &Pages, exclusive: &Pages) -> [u64; 7] {
    [
        full.database + full.log,
        log.database + log.log,
        full.log,
        log.log,
        full.images,
        memory.database,
        exclusive.database,
    ]
}

fn pages_are(found: [u64; 7], expected: [u64; 8], grouped: u64, value: usize) {
    for (found, expected) in found.into_iter().zip(expected) {
        rounds(100 * found, expected, &format!("pages, values of {value}"));
    }
    let off = (100 * grouped).abs_diff(expected[7] * COUNT);
    let most = expected[7] * COUNT / 100;
    assert!(off <= most, "groups of {value}: {grouped} for {}", expected[7]);
}

#[test]
fn bytes_writes_and_pages_are_those_of_the_tables() {
    for ((value, bytes), expected) in BYTES.into_iter().zip(PAGES) {
        let start = loaded(Shape::holding(16 << 20, value));
        let settings = Settings::new;
        let (wal, full) = run(&start, settings("wal", Synchronous::Full));
        let (normal, log) = run(&start, settings("wal", Synchronous::Normal));
        let (delete, journal) = run(&start, settings("delete", Synchronous::Full));
        let (memory, pages) = run(&start, settings("memory", Synchronous::Full));
        let (_, exclusive) = run(&start, settings("memory", Synchronous::Full).exclusive(true));
        let bytes_of = |counts: &Counts, kind| counts.of(kind).bytes;
        let writes = |counts: &Counts| 100 * counts.total().writes;
        let found = [
            bytes_of(&wal, Kind::Wal),
            bytes_of(&wal, Kind::Database),
            bytes_of(&delete, Kind::Journal),
            bytes_of(&delete, Kind::Database),
            bytes_of(&memory, Kind::Database),
            4096 * exclusive.database,
        ];
        let ([wal_log, wal_db, wal_writes], [journal_bytes, delete_db, delete_writes], ours) =
            bytes;
        let expected_bytes = [wal_log, wal_db, journal_bytes, delete_db, ours[0], ours[1]];
        for (found, expected) in found.into_iter().zip(expected_bytes) {
            rounds(found, expected, &format!("bytes, values of {value}"));
        }
        // A write or two of 5,000 transactions depend on where the last checkpoint is made.
        for (counts, expected) in [(&wal, wal_writes), (&delete, delete_writes)] {
            let off = writes(counts).abs_diff(expected * COUNT);
            assert!(off <= COUNT, "writes, values of {value}: {}", per(writes(counts)));
        }
        assert_eq!(normal.total().bytes, wal.total().bytes, "{value}");

        // Syncs: WAL 1.01 to 1.03 and 0.01 to 0.03, DELETE 3, ours 1.
        let syncs = |counts: &Counts| per(100 * counts.total().syncs);
        assert!((101..=103).contains(&syncs(&wal)), "{value}: {}", syncs(&wal));
        assert!((1..=3).contains(&syncs(&normal)), "{value}: {}", syncs(&normal));
        assert_eq!((syncs(&delete), syncs(&memory)), (300, 100), "{value}");

        // The journal's pages are in no table: each of its two syncs sends one page or more.
        assert!(journal.journal >= 2 * COUNT, "{value}");
        let found = columns(&full, &log, &pages, &exclusive);
        pages_are(found, expected, pages.grouped, value);
        let floor = per(memory.floor_bytes);
        assert_eq!(floor, bytes.2[0], "distinct pages of transactions, values of {value}");
    }
}

/// 200,000 keys: bytes of WAL, of ours with locking normal and exclusive; pages as above. The two
/// smallest sizes of the table; the largest makes a database of 3.3 GB.
const LARGE: [(usize, [u64; 3], [u64; 8]); 2] = [
    (256, [21_133, 16_754, 12_952], [616, 516, 418, 318, 316, 409, 316, 202]),
    (512, [22_112, 17_075, 13_564], [640, 540, 433, 333, 331, 417, 331, 209]),
];

#[test]
fn a_larger_database_has_the_larger_tables_numbers() {
    for (value, bytes, expected) in LARGE {
        let start = loaded(Shape { keys: 200_000, value });
        let (wal, full) = run(&start, Settings::new("wal", Synchronous::Full));
        let (_, log) = run(&start, Settings::new("wal", Synchronous::Normal));
        let (memory, pages) = run(&start, Settings::new("memory", Synchronous::Full));
        let settings = Settings::new("memory", Synchronous::Full).exclusive(true);
        let (alone, exclusive) = run(&start, settings);
        for (counts, expected) in [wal, memory, alone].iter().zip(bytes) {
            rounds(counts.total().bytes, expected, &format!("bytes, values of {value}"));
        }
        pages_are(columns(&full, &log, &pages, &exclusive), expected, pages.grouped, value);
    }
}
