//! `varve sqlite measure -- PROGRAM`: what a program's own SQLite does, counted from inside it.
//!
//! Invariant: a program that was not reached is never reported as one that writes nothing.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lab::LabError;
use report::json::{Json, Map, MapExt};
use report::round::quotient;
use report::study::{Section, Study, Table, Value};
use report::values;
use varve_sqlite_vfs::Counts;
use varve_sqlite_vfs::tally::VARIABLE;
use varve_sqlite_vfs::vfs::Kind;

const LIBRARY: &str = "libvarve_sqlite_count.so";
/// A text in every build of SQLite.
const MARK: &[u8] = b"SQLite format 3\0";

/// What a program did.
#[derive(Clone, Debug)]
pub struct Watched {
    /// The program with its arguments.
    pub program: String,
    /// What all its processes asked of SQLite's files.
    pub counts: Counts,
    /// Processes that opened a database.
    pub processes: u64,
    /// Whether the program ended well.
    pub success: bool,
    /// How it ended.
    pub status: String,
}

/// The library to preload: as named, or beside this program.
fn library(named: Option<&Path>) -> Result<PathBuf, LabError> {
    if let Some(path) = named {
        return std::fs::canonicalize(path).map_err(|e| LabError::io(path, e));
    }
    let here = std::env::current_exe().map_err(|e| LabError::io("this program", e))?;
    let folder = here.parent().unwrap_or(Path::new("."));
    let places = [folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)];
    let found = places.iter().find(|path| path.is_file()).cloned();
    found.ok_or_else(|| {
        LabError::Failed(format!(
            "{LIBRARY} is not at {} nor at {}: `cargo build --release -p varve-sqlite-count` makes \
             it, --library names it",
            places[0].display(),
            places[1].display()
        ))
    })
}

/// The file that the system would run for a name.
fn file_of(program: &OsString) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return Some(path.to_path_buf());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| path.is_file())
}

/// Why nothing was seen, and what to do.
fn unseen(program: &OsString) -> String {
    let name = program.to_string_lossy();
    let carries = file_of(program)
        .and_then(|file| std::fs::read(file).ok())
        .is_some_and(|bytes| bytes.windows(MARK.len()).any(|part| part == MARK));
    let reason = match carries {
        true => "it carries an SQLite of its own (static), which a preloaded library cannot reach",
        false => {
            "it opened no database, or its SQLite is static (in another file of it), or it does \
             not honour LD_PRELOAD"
        }
    };
    format!(
        "no SQLite call of {name} was seen: {reason}. Let it use the shared libsqlite3.so.0, or put \
         its SQL into a file: varve sqlite measure DB --workload FILE"
    )
}

/// Runs a program with the counting library before its SQLite. With `quiet` what it prints goes to
/// standard error.
///
/// # Errors
/// A program that does not start; [`LabError::Failed`] if no call to SQLite was seen.
pub fn run(program: &[OsString], named: Option<&Path>, quiet: bool) -> Result<Watched, LabError> {
    let Some((name, arguments)) = program.split_first() else {
        return Err(LabError::Input("found no program: expected one after `--`".to_string()));
    };
    let library = library(named)?;
    let folder = std::env::temp_dir().join(format!("varve-measure-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|e| LabError::io(&folder, e))?;
    let gathered = watch(name, arguments, &library, &folder, quiet);
    // Counts are read; a folder that stays does no harm.
    let _ = std::fs::remove_dir_all(&folder);
    gathered
}

fn watch(
    name: &OsString,
    arguments: &[OsString],
    library: &Path,
    folder: &Path,
    quiet: bool,
) -> Result<Watched, LabError> {
    let mut preload = library.as_os_str().to_os_string();
    if let Some(more) = std::env::var_os("LD_PRELOAD").filter(|more| !more.is_empty()) {
        preload.push(":");
        preload.push(more);
    }
    let mut command = Command::new(name);
    command.args(arguments).env("LD_PRELOAD", preload).env(VARIABLE, folder.join("counts"));
    if quiet {
        command.stdout(Stdio::from(std::io::stderr()));
    }
    let status = command.status().map_err(|e| LabError::io(PathBuf::from(name), e))?;
    let (mut counts, mut processes) = (Counts::default(), 0);
    let wrong = |e| LabError::io(folder, e);
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        let text = std::fs::read_to_string(&path).map_err(|e| LabError::io(&path, e))?;
        counts
            .add_text(&text)
            .map_err(|reason| LabError::Input(format!("{}: {reason}", path.display())))?;
        processes += 1;
    }
    if counts.opens == 0 {
        return Err(LabError::Failed(unseen(name)));
    }
    let words = std::iter::once(name).chain(arguments);
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    Ok(Watched {
        program: words.join(" "),
        counts,
        processes,
        success: status.success(),
        status: status.to_string(),
    })
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::Database, "database"),
    (Kind::Journal, "journal"),
    (Kind::Wal, "wal"),
    (Kind::Super, "super_journal"),
    (Kind::Temp, "temp"),
];

impl Watched {
    /// For a terminal.
    pub fn text(&self) -> String {
        let mut table = Table::new([
            ("files", "files"),
            ("reads", "reads"),
            ("bytes_read", "bytes read"),
            ("writes", "writes"),
            ("bytes", "bytes"),
            ("syncs", "syncs"),
            ("deletes", "deletes"),
            ("truncates", "truncates"),
        ]);
        for (kind, name) in KINDS.iter().filter(|(kind, _)| self.counts.kinds.contains_key(kind)) {
            let n = self.counts.of(*kind);
            let numbers =
                [n.reads, n.read_bytes, n.writes, n.bytes, n.syncs, n.deletes, n.truncates];
            table.row(values![*name].into_iter().chain(numbers.map(Value::from)));
        }
        let (total, floor) = (self.counts.total().bytes, self.counts.floor_bytes);
        let ratio = match floor {
            0 => "no page was committed".to_string(),
            _ => format!("{} bytes written for each", quotient(total, floor, 2)),
        };
        let section = Section::new(
            "files",
            "",
            format!(
                "{} transactions in {} processes, {} checkpoints. Page floor, the distinct pages \
                 of each transaction: {floor} bytes; {ratio}.",
                self.counts.transactions, self.processes, self.counts.checkpoints
            ),
            table,
        );
        let study = Study {
            title: format!("What SQLite wrote in: {}", self.program),
            command: String::new(),
            note: "Counted between SQLite and its files; what the program printed is above."
                .to_string(),
            seed: 1,
            sections: vec![section],
            ..Study::default()
        };
        study.text()
    }

    /// As one document.
    pub fn json(&self, version: &str) -> Json {
        let mut config = Map::new();
        config.put("program", Json::text(&self.program));
        let mut results = Map::new();
        results.int("processes", self.processes);
        results.int("transactions", self.counts.transactions);
        results.int("checkpoints", self.counts.checkpoints);
        results.int("floor_pages", self.counts.floor_pages);
        results.int("floor_bytes", self.counts.floor_bytes);
        let total = self.counts.total().bytes;
        if let Some(ratio) = Json::ratio(total, self.counts.floor_bytes) {
            results.put("bytes_per_floor", ratio);
        }
        let mut files = Map::new();
        for (kind, name) in KINDS {
            files.put(name, crate::measure::kind_json(&self.counts.of(kind)));
        }
        results.put("files", Json::Map(files));
        let mut map = Map::new();
        map.put("schema", Json::text("varve.sqlite-program/1"));
        map.put("version", Json::text(version));
        map.put("config", Json::Map(config));
        map.int("seed", 1);
        map.put("results", Json::Map(results));
        Json::Map(map)
    }
}
