//! `varve sqlite`: what SQLite writes, and what it need not.

use std::path::Path;

use ::sqlite::measure::{Wear, measure as run};
use ::sqlite::source::{Place, Source, is_namespace};
use ::sqlite::stacked::Volume;
use ::sqlite::{crash, image, program};
use clap::CommandFactory;
use clap::error::ErrorKind;
use lab::LabError;
use report::json::{Json, Map, MapExt};
use stack::Description;

use crate::args::{
    Args, Backup, Check, Export, Import, Kept, Measure, Resize, RunOnStack, Sqlite, StackWorld,
};

use crate::serve::secrets;
use crate::{VERSION, note, print};

/// What every command that writes a store says first.
const FIRST: &str = "A store in an image file is durable at every COMMIT (fdatasync), unless group commit or \
     synchronous=OFF is asked for. Behind a file system on a real drive gains are smaller than in \
     the model.";

/// `varve sqlite`.
pub fn sqlite(command: &Sqlite) -> Result<(), LabError> {
    match command {
        Sqlite::Measure(args) => measure(args),
        Sqlite::Run(args) => on_stack(args),
        Sqlite::Import(args) => import(args),
        Sqlite::Export(args) => export(args),
        Sqlite::Backup(args) => backup(args),
        Sqlite::Check(args) => check(args),
        Sqlite::Resize(args) => resize(args),
    }
}

fn read(path: &Path) -> Result<String, LabError> {
    std::fs::read_to_string(path).map_err(|e| LabError::io(path, e))
}

/// A target that exists is a wrong call, like an unknown option: exit code 2.
fn must_not_exist(path: &Path) {
    if path.exists() {
        let text = format!("{}: exists already; expected a name for a new file", path.display());
        Args::command().error(ErrorKind::ValueValidation, text).exit();
    }
}

fn measure(args: &Measure) -> Result<(), LabError> {
    let (Some(database), Some(workload)) = (&args.database, &args.workload) else {
        return watch(args);
    };
    let sql = read(workload)?;
    if !database.is_file() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(LabError::io(database, missing));
    }
    let report = run(database, &sql, args.ssd.as_deref(), args.at.as_ref())?;
    if args.json {
        let (database, file) = (database.display(), workload.display());
        return print(&report.json(VERSION, &database.to_string(), &file.to_string()).pretty());
    }
    let wear = args.a_day.map(|a_day| Wear { a_day, card: args.card.zip(args.cycles) });
    print(&report.text(wear.as_ref()))
}

/// SQL on a volume on a stack.
fn on_stack(args: &RunOnStack) -> Result<(), LabError> {
    let sql = read(&args.workload)?;
    let stack: Description =
        args.stack.parse().map_err(|e| LabError::Input(format!("--stack: {e}")))?;
    let volume = match args.world {
        StackWorld::Modelled => Volume::modelled("run", &stack)?,
        StackWorld::Live => Volume::live("run", &stack)?,
    };
    let before = volume.cost();
    let database = volume.open(&args.database)?;
    let wrong = |error| LabError::Failed(format!("{}: {error}", args.workload.display()));
    database.execute_batch(&sql).map_err(wrong)?;
    let sound: String =
        database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).map_err(wrong)?;
    database.close().map_err(|(_, error)| wrong(error))?;
    let cost = volume.cost();
    volume.stop()?;
    if sound != "ok" {
        return Err(LabError::Check { contract: "C12".to_string(), what: sound });
    }
    let asked = cost.asked - before.asked;
    let programmed = cost.programmed.map(|all| all - before.programmed.unwrap_or(0));
    let took = cost.time.zip(before.time).map(|(end, start)| end.since(start));
    if args.json {
        let mut map = Map::new();
        map.put("schema", Json::text("varve.sqlite-run/1"));
        map.put("version", Json::text(VERSION));
        map.put("stack", Json::text(stack.to_string()));
        map.put("written_bytes", Json::Int(asked));
        if let Some(bytes) = programmed {
            map.put("programmed_bytes", Json::Int(bytes));
        }
        if let Some(took) = took {
            map.put("virtual_ns", Json::span(took));
        }
        return print(&Json::Map(map).pretty());
    }
    let mut text = format!("{stack}: {asked} bytes written to the stack");
    if let Some(bytes) = programmed {
        text += &format!(", {bytes} programmed on flash");
    }
    if let Some(took) = took {
        text += &format!(", {} us of virtual time", took.as_ns() / 1000);
    }
    print(&format!("{text}; integrity_check: ok\n"))
}

/// A program under the counting library.
fn watch(args: &Measure) -> Result<(), LabError> {
    let found = program::run(&args.program, args.library.as_deref(), args.json)?;
    match args.json {
        true => print(&found.json(VERSION).pretty())?,
        false => print(&found.text())?,
    }
    match found.success {
        true => Ok(()),
        false => Err(LabError::Failed(format!("the program failed: {}", found.status))),
    }
}

/// The store that is meant.
fn source(of: &Kept) -> Result<Source, LabError> {
    if !is_namespace(&of.store) {
        return match &of.secret {
            None => Ok(Source::Image(of.store.clone())),
            Some(path) => {
                let what = format!("--secret {}: only nvme-tcp:// has secrets", path.display());
                Err(LabError::Input(what))
            }
        };
    }
    let place: Place = of.store.to_string_lossy().parse().map_err(LabError::Input)?;
    let Some(path) = &of.secret else { return Ok(place.into()) };
    let place = place.knowing(secrets(path)?);
    place.map(Source::Namespace).map_err(|why| LabError::Input(why.to_string()))
}

/// What can be done with an image alone.
fn must_be_image(path: &Path, why: &str) -> Result<(), LabError> {
    match is_namespace(path) {
        true => Err(LabError::Input(format!("{}: {why}", path.display()))),
        false => Ok(()),
    }
}

fn import(args: &Import) -> Result<(), LabError> {
    must_be_image(
        &args.store,
        "expected an image to make; a database in a namespace is filled by SQL, as in VACUUM INTO on a connection by URI",
    )?;
    must_not_exist(&args.store);
    note(FIRST);
    let made = image::import(&args.database, &args.store, args.page_size, args.capacity)?;
    if made.moved.page != 4096 {
        note(&format!("pages of {} bytes: 4096 write least; see --page-size", made.moved.page));
    }
    print(&format!(
        "{}: {} bytes in pages of {}, verified; the store holds {}, its image is {} long\n",
        args.store.display(),
        made.moved.bytes,
        made.moved.page,
        made.capacity.human(),
        made.image.human()
    ))
}

fn export(args: &Export) -> Result<(), LabError> {
    must_not_exist(&args.database);
    if args.salvage {
        return salvage(args);
    }
    let moved = image::export_named(&source(&args.from)?, args.name.as_deref(), &args.database)?;
    print(&format!(
        "{}: {} bytes in pages of {}, verified\n",
        args.database.display(),
        moved.bytes,
        moved.page
    ))
}

/// A damaged database, as far as it can be read.
fn salvage(args: &Export) -> Result<(), LabError> {
    let saved = image::salvage(&source(&args.from)?, args.name.as_deref(), &args.database)?;
    let name = args.database.display();
    let mut text =
        format!("{name}: {} bytes in pages of {}, not verified", saved.bytes, saved.page);
    for (path, _) in &saved.beside {
        text += &format!("; {}", path.display());
    }
    print(&format!("{text}\n"))?;
    let Some(why) = saved.why else { return Ok(()) };
    let pages = saved.lost.iter().map(|range| match range.start() == range.end() {
        true => range.start().to_string(),
        false => format!("{} to {}", range.start(), range.end()),
    });
    let pages: Vec<String> = pages.collect();
    let mut lost = format!("pages {} of the database", pages.join(", "));
    if pages.is_empty() {
        lost = "all of the database is there, not all of what lies beside it".to_string();
    }
    for (path, bytes) in saved.beside.iter().filter(|(_, bytes)| *bytes > 0) {
        lost += &format!("; {bytes} bytes of {}", path.display());
    }
    Err(LabError::Check {
        contract: "C6".to_string(),
        what: format!(
            "{}: could not be read, and are zeroes in {name}: {lost} ({why}); `sqlite3 {name} .recover` shows the rows of \
             the others",
            args.from.store.display()
        ),
    })
}

fn backup(args: &Backup) -> Result<(), LabError> {
    must_be_image(
        &args.store,
        "expected an image; databases in a namespace are exported one by one",
    )?;
    must_be_image(&args.copy, "expected an image to make")?;
    must_not_exist(&args.copy);
    let made = image::backup(&args.store, &args.copy)?;
    let list: Vec<String> =
        made.databases.iter().map(|(name, bytes)| format!("{name} ({bytes} bytes)")).collect();
    print(&format!(
        "{}: {}, verified; its image is {} long\n",
        args.copy.display(),
        if list.is_empty() { "no database".to_string() } else { list.join(", ") },
        made.image.human()
    ))
}

fn resize(args: &Resize) -> Result<(), LabError> {
    must_be_image(
        &args.store,
        "it cannot be resized over the wire: a store has all of its namespace, whose size is the server's; where that is a \
         drive on an image, stop the server and resize the image",
    )?;
    let made = image::resize(&args.store, args.capacity)?;
    print(&format!(
        "{}: held {}, holds {}, verified; its image is {} long\n",
        args.store.display(),
        made.before.human(),
        args.capacity.human(),
        made.image.human()
    ))
}

fn check(args: &Check) -> Result<(), LabError> {
    let (name, source) = (args.of.store.display(), source(&args.of)?);
    if args.crash.is_some() || args.at.is_some() {
        let why = "--crash and --at cut the power of a copy of an image; a served drive loses it by `varve ctl`";
        must_be_image(&args.of.store, why)?;
    }
    let sound = image::check(source)?;
    let list: Vec<String> =
        sound.databases.iter().map(|(name, bytes)| format!("{name} ({bytes} bytes)")).collect();
    let below = match sound.drive {
        Some(drive) => (
            format!("image version {}, ", drive.version),
            format!("drive and {} pages sound", drive.pages),
        ),
        None => (String::new(), "the drive is its server's".to_string()),
    };
    print(&format!(
        "{name}: {}{}; {}; databases intact: {}\n",
        below.0,
        sound.size(),
        below.1,
        if list.is_empty() { "none".to_string() } else { list.join(", ") }
    ))?;
    for said in [sound.left(), sound.blind()].into_iter().flatten() {
        note(said);
    }
    if args.crash.is_none() && args.at.is_none() {
        return Ok(());
    }
    let mut again = format!("varve sqlite check {name}");
    let workload = match &args.workload {
        Some(file) => {
            again += &format!(" --workload {}", file.display());
            read(file)?
        }
        None => crash::workload(),
    };
    let plan = crash::Plan {
        cuts: args.crash.unwrap_or(1),
        seed: args.seed,
        only: args.at,
        workload,
        again,
    };
    let report = crash::check(&args.of.store, &plan)?;
    print(&format!(
        "{} power cuts, of {} possible, in a run of {} commits: every acknowledged commit was \
         there{}; {} times the one under way was, too; nothing else\n",
        report.cuts,
        report.calls,
        report.commits,
        if report.relaxed { " or, as the SQL allows, missing at the end" } else { "" },
        report.beyond
    ))
}
