//! Sweeps in parts: `varve run` into a folder of points, `varve points`, `varve merge`.

use std::path::{Path, PathBuf};

use lab::LabError;
use lab::files::keeps;
use lab::folder::Folder;
use lab::replay::Watch;
use lab::result::SCHEMA;
use lab::sim::named;
use lab::study::{ENGINE, INDEX, Merged, POINT, POINTS, Part, Store, Study, Table};
use report::json::{Json, Map, MapExt};

use crate::args::{MergeParts, Output, Points};
use crate::experiment::{bar, only_one_on_stdout, show, threads, write_out};
use crate::{VERSION, cost, note, print, stop, table};

/// Which part of a sweep is run.
#[derive(Default)]
pub struct Wanted<'a> {
    /// What is there is not run again.
    pub resume: bool,
    /// Only these points.
    pub points: &'a [String],
    /// Only this shard.
    pub shard: Option<&'a str>,
}

impl Wanted<'_> {
    /// Whether anything but a whole run is asked for.
    pub fn is_some(&self) -> bool {
        self.resume || self.is_part()
    }

    /// Whether it is less than a whole study, and ends without results.
    pub fn is_part(&self) -> bool {
        self.shard.is_some() || !self.points.is_empty()
    }

    fn part(&self, study: &Study) -> Result<Part, LabError> {
        match self.shard {
            Some(text) => Part::shard(text).map_err(|e| LabError::Input(format!("--shard: {e}"))),
            None if self.points.is_empty() => Ok(Part::All),
            None => Part::points(self.points, study.index()),
        }
    }
}

/// Runs a study, or a part of it, into a folder; each point is there as it ends.
pub fn run(
    study: Study,
    out: &Folder,
    output: &Output,
    wanted: &Wanted<'_>,
    clock: &cost::Watch,
) -> Result<(), LabError> {
    let (part, store) = (wanted.part(&study)?, Store::new(out.here()));
    if wanted.is_part() && output.csv.is_some() {
        return Err(LabError::Input("--csv: of a whole study; expected `varve merge`".to_string()));
    }
    let all = study.points(&part);
    let points = match wanted.is_some() {
        true => study.missing(&part, &store, &note)?,
        false => all.clone(),
    };
    let there = all.len() - points.len();
    let bar = bar(study.experiment(), &points, output);
    let progress = |requests: u64| bar.inc(requests);
    let watch = Watch { stop: stop::flag(), progress: &progress };
    let result = study.run(&points, &store, threads(output), watch);
    bar.finish_and_clear();
    if let Err(error) = result {
        let (kept, of) = (store.count(study.index()), study.experiment().points().len());
        if kept > 0 {
            let folder = out.here().display();
            note(&format!(
                "{kept} of {of} runs are finished and kept in {folder}; --resume goes on"
            ));
        }
        return Err(error);
    }
    if wanted.is_part() {
        return ended(&study, &store, there, points.len(), output);
    }
    let merged = Merged::of(study.index(), std::slice::from_ref(&store))?;
    merged.whole()?;
    let mut document = merged.document();
    // What earlier runs cost is not known.
    if !output.deterministic && there == 0 {
        document = document.with_cost(clock.cost());
    }
    let mut lines = write_out(out, &study.index().scenario, &document)?;
    store.clean(study.index())?;
    if there > 0 {
        lines.insert(0, format!("{there} of {} points were there", all.len()));
    }
    let columns = Table::of(&document, &merged.values());
    show(&document, &columns, output.json, output.csv.as_deref(), lines)
}

/// Says what a part of a study came to.
fn ended(
    study: &Study,
    store: &Store,
    there: usize,
    ran: usize,
    output: &Output,
) -> Result<(), LabError> {
    let (index, of) = (study.index(), study.experiment().points().len());
    let kept = store.count(index);
    if output.json {
        let mut map = Map::new();
        map.put("schema", Json::text("varve.part/1"));
        map.put("version", Json::text(VERSION));
        map.put("digest", Json::text(index.digest()));
        map.int("there", there as u64);
        map.int("ran", ran as u64);
        map.int("finished", kept as u64);
        map.int("of", of as u64);
        return print(&Json::Map(map).pretty());
    }
    let folder = store.folder().display();
    print(&format!("{ran} points run, {there} were there; {kept} of {of} are in {folder}\n"))
}

/// `varve points`.
pub fn points(args: &Points) -> Result<(), LabError> {
    let study = Study::new(&named(&args.scenario, &args.set)?, VERSION)?;
    let index = study.index();
    let store = match &args.out {
        Some(path) => {
            // It is known to take files, before anybody spends hours.
            drop(Folder::prepare(path)?);
            Some(Store::new(path))
        }
        None => None,
    };
    let is_there = |id: &str| store.as_ref().map(|store| store.path(id).exists());
    if args.ids {
        let missing = index.ids().filter(|(_, id)| is_there(id) != Some(true));
        return print(&missing.map(|(_, id)| format!("{id}\n")).collect::<String>());
    }
    if args.json {
        let mut json = index.to_json();
        if let (Json::Map(map), Some(store)) = (&mut json, &store) {
            map.int("finished", store.count(index) as u64);
        }
        return print(&json.pretty());
    }
    let mut out = table::plain(&["n", "id", "point"].map(str::to_string));
    for (place, entry) in index.entries.iter().enumerate() {
        let (id, mut name) = (entry.id(), entry.name().to_string());
        if let Some(reason) = entry.impossible() {
            name += &format!("  impossible: {reason}");
        }
        if id.and_then(is_there) == Some(true) {
            name += "  (there)";
        }
        out.add_row(vec![place.to_string(), id.unwrap_or("-").to_string(), name]);
    }
    print(&table::text(&out))
}

/// `varve merge`.
pub fn merge(args: &MergeParts) -> Result<(), LabError> {
    only_one_on_stdout(args.json, args.csv.as_deref())?;
    let out = args.out.as_deref().map(Folder::prepare).transpose()?;
    let csv = args.csv.iter().filter(|path| *path != "-").map(PathBuf::from);
    let writes: Vec<PathBuf> = csv.chain(out.iter().flat_map(Folder::files)).collect();
    let part =
        |path: &PathBuf| ("part", if path.is_dir() { path.join(INDEX) } else { path.clone() });
    keeps(&args.parts.iter().map(part).collect::<Vec<_>>(), &writes)?;
    let merged = Merged::read(&args.parts)?;
    if !args.partial {
        merged.whole()?;
    }
    if let Some(out) = &out {
        out.replaces(Some(&merged.index.scenario), SCHEMA)?.iter().for_each(|line| note(line));
    }
    let document = merged.document();
    let lines = match &out {
        Some(out) => write_out(out, &merged.index.scenario, &document)?,
        None => Vec::new(),
    };
    if merged.missing.is_empty() {
        for folder in args.parts.iter().filter(|path| Path::is_dir(path)) {
            Store::new(folder).clean(&merged.index)?;
        }
    }
    let columns = Table::of(&document, &merged.values());
    show(&document, &columns, args.json, args.csv.as_deref(), lines)
}

/// `varve --version --json`.
pub fn version() -> Result<(), LabError> {
    let mut map = Map::new();
    map.put("schema", Json::text("varve.version/1"));
    map.put("version", Json::text(VERSION));
    map.put("engine", Json::text(ENGINE));
    map.put("target", Json::text(env!("VARVE_TARGET")));
    let schemas = [SCHEMA, lab::hits::SCHEMA, POINTS, POINT, crate::prove::SCHEMA].map(Json::text);
    map.put("schemas", Json::List(schemas.to_vec()));
    print(&Json::Map(map).pretty())
}
