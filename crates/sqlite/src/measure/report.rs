//! The result of a measurement, for people and for programs.

use report::json::{Json, Map, MapExt};
use report::round::quotient;
use report::study::{Section, Study};
use report::study::{Table, Value};
use report::values;
use varve_sqlite_vfs::KindCounts;
use varve_sqlite_vfs::vfs::Kind;

use super::{Row, advice};

/// What came out, a row for each mode.
#[derive(Clone, Debug)]
pub struct Report {
    /// The modes' rows, the database as it is first.
    pub rows: Vec<Row>,
    /// The drive that `flash` in the rows is of.
    pub ssd: Option<String>,
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
                     Behind a file system on a real drive gains are smaller than in the model; a \
                     store over a file cleans as well: at 50 % full each page costs 1.25.";

impl Report {
    /// Advice, a line for each mode that writes less.
    pub fn advice(&self) -> Vec<String> {
        advice::lines(self)
    }

    /// The report for a terminal.
    pub fn text(&self) -> String {
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
        let section = Section::new("modes", "", FIRST, table);
        let study = Study {
            title: "What the workload makes SQLite write".to_string(),
            command: String::new(),
            note: "Page floor: the distinct pages of each transaction, once.".to_string(),
            seed: 1,
            sections: vec![section],
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

fn ratio(n: u64, d: u64) -> Value {
    quotient(n, d, 2)
}
