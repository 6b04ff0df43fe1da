//! SQLite over every stack that the grammar can say: each pair works, in virtual time and live, or is
//! refused by the rule that refuses it everywhere, with the same text.

use std::path::{Path, PathBuf};

use lab::LabError;
use stack::Description;
use stack::rules::{Top, World, check};
use varve_sqlite_host::stacked::Volume;

const LAYERS: [&str; 7] = ["log", "paper-log", "lfs", "cut", "record", "read-only", "real-time"];
const BASES: [&str; 4] = ["ram", "image", "drive", "drive-image"];

/// A folder that goes with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("varve-sqlite-stacks-{}-{name}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&folder.0).expect("a folder");
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn base(name: &str, folder: &Path) -> String {
    let file = folder.join("image").display().to_string();
    match name {
        "ram" => "ram(32MiB)".to_string(),
        "drive" => "drive(mqsim-default, geometry.blocks=0, capacity=32 MiB, geometry.channels=2, \
                    geometry.dies=1, line=plane, op=80 %)"
            .to_string(),
        _ => format!("{name}({file}, size=32MiB)"),
    }
}

fn layer(name: &str, number: usize, folder: &Path) -> String {
    match name {
        "log" => "log(segment=64KiB)".to_string(),
        "cut" => "cut(1)".to_string(),
        "record" => format!("record({})", folder.join(format!("{number}.vtr")).display()),
        other => other.to_string(),
    }
}

const SQL: &str = "CREATE TABLE t(k INTEGER PRIMARY KEY, v TEXT);
    WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n WHERE k < 40)
        INSERT INTO t SELECT k, hex(randomblob(40)) FROM n;
    UPDATE t SET v = 'x' WHERE k % 3 = 0; DELETE FROM t WHERE k = 7;";

/// What a database that keeps its promises holds then.
fn rows(volume: &Volume) -> Result<(i64, String), LabError> {
    let db = volume.open("a.db")?;
    let get = |db: &rusqlite::Connection| {
        let count = db.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?;
        let sound = db.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        Ok::<_, rusqlite::Error>((count, sound))
    };
    get(&db).map_err(|e| LabError::Failed(e.to_string()))
}

fn work(volume: &Volume) {
    let db = volume.open("a.db").expect("a database");
    db.execute_batch(SQL).expect("SQL");
    assert!(volume.cost().asked > 0);
}

/// Whether SQLite works on a stack in a world, or what refuses it.
fn works(text: &str, world: World) -> Result<(), String> {
    let described: Description = text.parse().expect(text);
    let rule = check(&described, world, Top::Files).map_err(|e| e.to_string());
    let start = || match world {
        World::Live => Volume::live(text, &described),
        _ => Volume::modelled(text, &described),
    };
    let volume = match (start(), rule) {
        (Ok(volume), Ok(())) => volume,
        (Ok(_), Err(rule)) => panic!("{text}: started against the rule `{rule}`"),
        // What may only be read, and holds nothing, has no volume.
        (Err(error), Ok(())) if text.contains("read-only") => return Err(error.to_string()),
        (Err(error), Ok(())) => panic!("{text}: {error}"),
        (Err(error), Err(rule)) => {
            assert_eq!(error.to_string(), rule, "{text}");
            return Err(rule);
        }
    };
    work(&volume);
    assert_eq!(rows(&volume).expect(text), (39, "ok".to_string()), "{text}");
    volume.stop().unwrap_or_else(|e| panic!("{text}: {e}"));
    Ok(())
}

fn cell(base_name: &str, layers: &[&str]) -> String {
    let in_world = |world: World| {
        let folder = Folder::new(&format!("{base_name}-{}-{world:?}", layers.join("-")));
        let layers = layers.iter().enumerate().map(|(i, name)| layer(name, i, &folder.0));
        let text = layers.fold(base(base_name, &folder.0), |text, layer| format!("{text}+{layer}"));
        works(&text, world).is_ok()
    };
    match (in_world(World::Modelled), in_world(World::Live)) {
        (true, true) => "both",
        (false, true) => "live",
        (true, false) => "modelled",
        (false, false) => "-",
    }
    .to_string()
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| `{name}` | {} |\n", cells.join(" | "))
}

#[test]
fn every_pair_works_or_is_refused_as_the_document_says() {
    let layers = LAYERS.map(|layer| format!(" `+{layer}` |")).concat();
    let mut table = format!("| SQLite |{layers}\n|{}\n", " --- |".repeat(LAYERS.len() + 1));
    for base in BASES {
        table += &row(base, LAYERS.iter().map(|layer| cell(base, &[layer])));
    }
    for lower in LAYERS {
        let upper = LAYERS.iter().map(|upper| cell("drive", &[lower, upper]));
        table += &row(&format!("drive+{lower}"), upper);
    }
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/stack.md");
    let document = std::fs::read_to_string(document).expect("a document");
    assert!(document.contains(&table), "docs/stack.md does not have this table:\n{table}");
}

/// A live volume is there again when its stack is started anew.
#[test]
fn a_database_outlives_its_stack() {
    let folder = Folder::new("again");
    let text = format!("image({}, size=32MiB)+log+lfs", folder.0.join("disk").display());
    let stack: Description = text.parse().expect("a stack");
    let volume = Volume::live("again", &stack).expect("a volume");
    work(&volume);
    volume.stop().expect("stopped");
    let volume = Volume::live("again", &stack).expect("the same");
    assert_eq!(rows(&volume).expect("a database"), (39, "ok".to_string()));
    volume.stop().expect("stopped");
}

/// Connections of one process keep out of each other's way.
#[test]
fn a_second_writer_is_told_to_wait() {
    let volume =
        Volume::modelled("two", &"ram(32MiB)".parse().expect("a stack")).expect("a volume");
    work(&volume);
    let (one, two) = (volume.open("a.db").expect("one"), volume.open("a.db").expect("two"));
    one.execute_batch("BEGIN IMMEDIATE; UPDATE t SET v = 'one'").expect("it writes");
    two.busy_timeout(std::time::Duration::ZERO).expect("no waiting");
    let busy = two.execute_batch("BEGIN IMMEDIATE").expect_err("it is locked");
    assert!(busy.to_string().contains("locked"), "{busy}");
    one.execute_batch("COMMIT").expect("kept");
    two.execute_batch("UPDATE t SET v = 'two' WHERE k = 1").expect("its turn");
}
