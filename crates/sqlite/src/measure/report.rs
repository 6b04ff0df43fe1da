//! The result of a measurement, for people and for programs.

use block::Bytes;
use report::json::{Json, Map, MapExt};
use report::round::quotient;
use report::study::{Section, Study};
use report::study::{Table, Value};
use report::values;
use varve_sqlite_vfs::KindCounts;
use varve_sqlite_vfs::vfs::Kind;

use super::{At, OnDevice, Row, advice};

/// What came out, a row for each mode.
#[derive(Clone, Debug)]
pub struct Report {
    /// The modes' rows, the database as it is first.
    pub rows: Vec<Row>,
    /// The drive that `flash` in the rows is of.
    pub ssd: Option<String>,
    /// The same on real files: where, and what reached the device, the database as it is first.
    pub device: Option<(At, Vec<OnDevice>)>,
}

/// What a reader wants to know of a device that wears out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wear {
    /// Transactions a day.
    pub a_day: u64,
    /// Bytes of the device, and how often each can be written.
    pub card: Option<(Bytes, u64)>,
}

impl Wear {
    /// Bytes a day, if so many transactions wrote so many bytes.
    fn daily(&self, bytes: u64, transactions: u64) -> u128 {
        u128::from(bytes) * u128::from(self.a_day) / u128::from(transactions.max(1))
    }
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Database, "database"),
    (Kind::Journal, "journal"),
    (Kind::Wal, "wal"),
    (Kind::Super, "super_journal"),
];

/// What is printed before anything else.
const FIRST: &str = "Runs on copies in memory; the database is not changed. Pages are those of 4 KiB \
                     that a host's page cache sends to a device, file-system metadata left out. \
                     Behind a file system on a real drive gains are smaller than in the model. A store \
                     is here one without a log of commits (`delta=off`), before cleaning: at 50 % full \
                     each page costs 1.25. What a device gets, from stores as they are made, too: `--at`.";

/// What is printed before the table of a device.
const REAL: &str = "Real files, SQLite as it is, each way from a database at rest to one at rest: checkpoints, and \
                    the pages that a store has not put in their places, are in it. What the kernel counts, the \
                    file system's journal with it, and what others wrote to that device meanwhile.";

impl Report {
    /// Advice, a line for each mode that writes less.
    pub fn advice(&self) -> Vec<String> {
        advice::lines(self)
    }

    /// Transactions of the workload.
    fn transactions(&self) -> u64 {
        self.rows.first().map_or(0, |row| row.counts.transactions)
    }

    /// What reached a device, as a table.
    fn on_device(&self, at: &At, rows: &[OnDevice], wear: Option<&Wear>) -> Section {
        let mut columns = vec![
            ("mode", "mode"),
            ("kib", "KiB"),
            ("kib_a_transaction", "KiB a transaction"),
            ("writes", "writes"),
            ("flushes", "flushes"),
            ("bytes_over_as_it_is", "bytes / as it is"),
        ];
        if wear.is_some() {
            columns.push(("gb_a_day", "GB a day"));
        }
        let card = wear.and_then(|wear| wear.card);
        if card.is_some() {
            columns.push(("years", "years at most"));
        }
        let mut table = Table::new(columns);
        let base = rows.first().map_or(0, |row| row.written.bytes);
        for row in rows {
            let bytes = row.written.bytes;
            let mut cells = Vec::from(values![
                row.way.name,
                bytes.div_ceil(1024),
                ratio(bytes, 1024 * self.transactions()),
                row.written.writes,
                row.written.flushes,
                ratio(bytes, base)
            ]);
            if let Some(wear) = wear {
                let daily = wear.daily(bytes, self.transactions());
                cells.push(quotient(clamp(daily), 1_000_000_000, 3));
                if let Some((room, cycles)) = wear.card {
                    let all = u128::from(room.0) * u128::from(cycles);
                    cells.push(quotient(clamp(all), clamp(daily * 365), 1));
                }
            }
            table.row(cells);
        }
        let mut note = REAL.to_string();
        if card.is_some() {
            note += " Years: the device's own copies come on top (`--ssd` says how many such a drive makes).";
        }
        Section::new("device", &format!("At the device: {at}"), &note, table)
    }

    /// The report for a terminal.
    pub fn text(&self, wear: Option<&Wear>) -> String {
        let mut table = Table::new([
            ("mode", "mode"),
            ("transactions", "transactions"),
            ("writes", "writes"),
            ("bytes", "bytes"),
            ("syncs", "syncs"),
            ("deletes", "deletes"),
            ("page_floor", "page floor"),
            ("bytes_over_floor", "bytes / floor"),
            ("pages_to_device", "pages to device"),
            ("device_ms", "device ms"),
            ("flash_pages", "flash pages"),
            ("waf", "waf"),
        ]);
        for row in &self.rows {
            let total = row.counts.total();
            table.row(values![
                row.mode.name,
                row.counts.transactions,
                total.writes,
                total.bytes,
                total.syncs,
                total.deletes,
                row.counts.floor_bytes,
                ratio(total.bytes, row.counts.floor_bytes),
                row.pages,
                ratio(row.nanoseconds, 1_000_000),
                row.flash.map(|flash| flash.programs()),
                row.flash.map(|f| ratio(f.programs(), row.pages))
            ]);
        }
        let mut sections = vec![Section::new("modes", "", FIRST, table)];
        if let Some((at, rows)) = &self.device {
            sections.push(self.on_device(at, rows, wear));
        }
        let study = Study {
            title: "What the workload makes SQLite write".to_string(),
            command: String::new(),
            note: "Page floor: the distinct pages of each transaction, once.".to_string(),
            seed: 1,
            sections,
            ..Study::default()
        };
        let mut text = study.text();
        text.push_str("\nAdvice, each line from a run\n");
        for line in self.advice() {
            text.push_str(&line);
            text.push('\n');
        }
        text
    }

    /// The report as one document.
    pub fn json(&self, version: &str, database: &str, workload: &str) -> Json {
        let mut config = Map::new();
        config.put("database", Json::text(database));
        config.put("workload", Json::text(workload));
        if let Some(ssd) = &self.ssd {
            config.put("ssd", Json::text(ssd));
        }
        let rows = self.rows.iter().map(|row| {
            let mut one = Map::new();
            one.put("mode", Json::text(row.mode.name));
            one.put("durability", Json::text(row.mode.durability));
            one.int("transactions", row.counts.transactions);
            one.int("checkpoints", row.counts.checkpoints);
            one.int("floor_pages", row.counts.floor_pages);
            one.int("floor_bytes", row.counts.floor_bytes);
            one.int("device_pages", row.pages);
            one.int("device_ns", row.nanoseconds);
            if let Some(flash) = row.flash {
                one.int("flash_pages", flash.programs());
                one.int("flash_erases", flash.erases);
                if let Some(waf) = Json::ratio(flash.programs(), row.pages) {
                    one.put("waf", waf);
                }
            }
            if let Some(ratio) = Json::ratio(row.counts.total().bytes, row.counts.floor_bytes) {
                one.put("bytes_per_floor", ratio);
            }
            let mut files = Map::new();
            for (kind, name) in KINDS {
                files.put(name, kind_json(&row.counts.of(kind)));
            }
            one.put("files", Json::Map(files));
            Json::Map(one)
        });
        let mut results = Map::new();
        results.put("note", Json::text(FIRST));
        results.put("modes", Json::List(rows.collect()));
        if let Some((at, rows)) = &self.device {
            let rows = rows.iter().map(|row| {
                let mut one = Map::new();
                one.put("mode", Json::text(row.way.name));
                one.put("durability", Json::text(row.way.durability));
                one.int("bytes", row.written.bytes);
                one.int("writes", row.written.writes);
                one.int("flushes", row.written.flushes);
                Json::Map(one)
            });
            let mut device = Map::new();
            device.put("at", Json::text(at.to_string()));
            device.put("modes", Json::List(rows.collect()));
            results.put("device", Json::Map(device));
        }
        results.put("advice", Json::List(self.advice().into_iter().map(Json::Text).collect()));
        let mut map = Map::new();
        map.put("schema", Json::text("varve.sqlite-measure/1"));
        map.put("version", Json::text(version));
        map.put("config", Json::Map(config));
        map.int("seed", 1);
        map.put("results", Json::Map(results));
        Json::Map(map)
    }
}

/// Counts of a kind of file.
pub(crate) fn kind_json(count: &KindCounts) -> Json {
    let mut file = Map::new();
    file.int("reads", count.reads);
    file.int("read_bytes", count.read_bytes);
    file.int("writes", count.writes);
    file.int("bytes", count.bytes);
    file.int("syncs", count.syncs);
    file.int("deletes", count.deletes);
    file.int("truncates", count.truncates);
    Json::Map(file)
}

fn clamp(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn ratio(n: u64, d: u64) -> Value {
    quotient(n, d, 2)
}
