//! Where the requests of a run come from: a trace, the bundled demo, a recipe, or several of them
//! as tenants. A [`Workload`] is data; [`Prepared`] has looked at it once and opens it as often as
//! a sweep needs.

mod demo;
mod file;
mod fit;
pub mod pinned;
mod place;
mod reading;
mod survey;

use std::path::Path;

use block::Bytes;
use workload::generate::{parse_pass, parse_recipe};
use workload::read::{Carries, OpenTrace, ReadOptions, open, open_reader};
use workload::tenant::{
    AddressMap, Factor, Merge, MergeConfig, Order, Tenant, Volumes, parse_end, parse_map,
    parse_share,
};
use workload::{Source, SourceError};

use crate::LabError;
use crate::fileload::FilesSpec;
use crate::replay::Watch;
use report::json::{Json, Map, MapExt};

pub use demo::{DEMO_NAME, demo_trace};
pub use file::TraceFile;
pub use fit::Fit;
pub use place::Layout;
pub use reading::{READING_KEYS, set as set_reading, texts as reading_texts};
pub use survey::Survey;

/// Where records come from.
#[derive(Clone, Debug)]
pub enum Origin {
    /// Trace files, one after the other.
    Files(Vec<TraceFile>),
    /// The bundled trace, `@demo`.
    Demo,
    /// A generator's recipe.
    Recipe(String),
}

impl Origin {
    /// `@demo`, `gen:RECIPE`, `sha256:HEX` or a path as seen from a folder.
    ///
    /// # Errors
    /// A digest that is none.
    pub fn parse(text: &str, folder: &Path) -> Result<Origin, String> {
        Ok(match text.strip_prefix("gen:") {
            Some(recipe) => Origin::Recipe(recipe.to_string()),
            None if text == DEMO_NAME => Origin::Demo,
            None => Origin::Files(vec![TraceFile::parse(text, folder)?]),
        })
    }

    /// What has no file that could be read in one way or another; none for files.
    fn unread(&self) -> Option<String> {
        match self {
            Origin::Files(_) => None,
            Origin::Demo => Some(DEMO_NAME.to_string()),
            Origin::Recipe(recipe) => Some(format!("gen:{recipe}")),
        }
    }
}

/// One application of a workload of several.
#[derive(Clone, Debug)]
pub struct TenantSpec {
    /// Its name.
    pub name: String,
    /// Where its records come from.
    pub origin: Origin,
    /// How its trace files are read, where that is not how those of the whole workload are: keys of
    /// [`READING_KEYS`] and their texts.
    pub reading: Vec<(String, String)>,
    /// By what its times are multiplied, as text.
    pub stretch: Option<String>,
    /// How often it is repeated.
    pub rounds: u64,
    /// Whether its area is discarded between two rounds.
    pub round_discard: bool,
}

/// A workload, as described by a scenario or a command line.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// The one source, unless there are tenants.
    pub origin: Option<Origin>,
    /// Applications to merge, in order.
    pub tenants: Vec<TenantSpec>,
    /// How trace files are read.
    pub options: ReadOptions,
    /// Where tenants' addresses lie, as text.
    pub map: Option<String>,
    /// `A:B=1:60` instead of clocks.
    pub ratio: Option<String>,
    /// When the merged stream ends, as text.
    pub end: Option<String>,
    /// Addresses and the drive.
    pub fit: Fit,
    /// Leave flushes out.
    pub drop_flushes: bool,
    /// A load of files instead of requests.
    pub files: Option<FilesSpec>,
}

/// What a merged stream takes of a tenant before it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    /// Requests that it takes.
    used: u64,
    /// Requests that the tenant has, in all of its rounds.
    all: u64,
    /// What is known of each.
    carries: Carries,
}

/// A workload that was looked at once.
#[derive(Clone, Debug)]
pub struct Prepared {
    workload: Workload,
    /// Extents of the tenants, found by reading them.
    extents: Vec<Bytes>,
    /// What the tenants' part of the merged stream is.
    parts: Vec<Part>,
    /// What it holds.
    pub survey: Survey,
}

fn open_trace(file: &TraceFile, options: &ReadOptions) -> Result<OpenTrace, SourceError> {
    let path = file.located()?;
    if path.as_os_str() == "-" {
        return Err(SourceError::Unusable {
            path,
            reason: "a run reads its trace more than once; expected a file, not standard input"
                .to_string(),
        });
    }
    open(&path, options)
}

/// Opens one file of an origin. `Demo` and `Recipe` count as one file.
fn open_one(
    origin: &Origin,
    file: usize,
    options: &ReadOptions,
    seed: u64,
) -> Result<Box<dyn Source>, SourceError> {
    Ok(match origin {
        Origin::Files(paths) => Box::new(open_trace(&paths[file], options)?),
        Origin::Demo => {
            let bytes = Box::new(demo_trace());
            Box::new(open_reader(DEMO_NAME.as_ref(), bytes, &ReadOptions::default())?)
        }
        Origin::Recipe(text) => parse_recipe(text, seed)?.open(),
    })
}

fn files(origin: &Origin) -> usize {
    if let Origin::Files(paths) = origin { paths.len() } else { 1 }
}

impl Workload {
    /// Several files of one source are chained as one tenant; otherwise the source stands alone.
    fn is_merged(&self) -> bool {
        !self.tenants.is_empty() || self.origin.as_ref().is_some_and(|o| files(o) > 1)
    }

    /// Everything that records come from.
    pub(crate) fn origins(&self) -> impl Iterator<Item = &Origin> {
        self.origin.iter().chain(self.tenants.iter().map(|tenant| &tenant.origin))
    }

    fn specs(&self) -> Vec<TenantSpec> {
        if let (true, Some(origin)) = (self.tenants.is_empty(), &self.origin) {
            return vec![TenantSpec {
                name: "trace".to_string(),
                origin: origin.clone(),
                reading: Vec::new(),
                stretch: None,
                rounds: 1,
                round_discard: true,
            }];
        }
        self.tenants.clone()
    }

    fn tenant(&self, spec: &TenantSpec, seed: u64) -> Result<Tenant, LabError> {
        let mut tenant = Tenant::new(spec.name.clone());
        let options = self.reading(spec)?;
        let shared = reading::known(&spec.origin, &options)?.0;
        for file in 0..files(&spec.origin) {
            let (origin, options) = (spec.origin.clone(), options.clone());
            tenant = tenant.file(move || open_one(&origin, file, &options, seed));
        }
        if shared {
            tenant = tenant.volumes(Volumes::Shared);
        }
        if let Some(text) = &spec.stretch {
            tenant = tenant.stretch(text.parse::<Factor>()?);
        }
        if self.drop_flushes {
            tenant = tenant.drop_flushes();
        }
        Ok(tenant.rounds(spec.rounds, spec.round_discard))
    }

    fn merge_config(&self, specs: &[TenantSpec]) -> Result<MergeConfig, LabError> {
        let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
        let mut config = MergeConfig::default();
        if specs.len() == 1 {
            config.map = AddressMap::Identity;
        }
        if let Some(text) = &self.map {
            config.map = parse_map(text)?;
        }
        if let Some(text) = &self.ratio {
            config.order = Order::Ratio(parse_share(text, &names)?);
        }
        if let Some(text) = &self.end {
            config.end = parse_end(text, &names)?;
        }
        Ok(config)
    }

    /// Reads the workload once: how far it reaches, what it holds. A recipe knows that of itself.
    ///
    /// # Errors
    /// A wrong trace, recipe or combination.
    pub fn prepare(&self, seed: u64) -> Result<Prepared, LabError> {
        self.prepare_watched(seed, Watch::nobody())
    }

    /// The same, where somebody may want the reading to stop.
    ///
    /// # Errors
    /// As [`Workload::prepare`]; [`LabError::Interrupted`].
    pub fn prepare_watched(&self, seed: u64, watch: Watch<'_>) -> Result<Prepared, LabError> {
        if self.files.is_some() {
            if self.origin.is_some() || !self.tenants.is_empty() {
                let what = "`files` and a source of requests: expected one of the two";
                return Err(LabError::Input(what.to_string()));
            }
            return Ok(Prepared::unread(self));
        }
        if self.origin.is_some() != self.tenants.is_empty() {
            return Err(LabError::Input(
                "a workload is either one source or several tenants: expected one of the two"
                    .to_string(),
            ));
        }
        self.check_that_files_are_read()?;
        let mut prepared = Prepared::unread(self);
        if self.is_merged() {
            self.check_reading()?;
            let specs = self.specs();
            for spec in &specs {
                let tenant = self.tenant(spec, seed)?.scan_extent()?;
                prepared.extents.push(tenant.known_extent().unwrap_or_default());
                let all = tenant.known_records().unwrap_or_default();
                let (_, carries) = reading::known(&spec.origin, &self.reading(spec)?)?;
                prepared.parts.push(Part { used: 0, all, carries });
            }
            prepared.survey.apps = specs.into_iter().map(|spec| spec.name).collect();
        }
        let chunk = if let Fit::Compact(chunk) = self.fit { Some(chunk) } else { None };
        match &self.origin {
            Some(Origin::Recipe(text)) if chunk.is_none() => {
                let recipe = parse_recipe(text, seed)?;
                prepared.survey.of_recipe(recipe.extent(), recipe.describe());
            }
            Some(origin) if !self.is_merged() => {
                let trace = match origin {
                    Origin::Files(paths) => Some(open_trace(&paths[0], &self.options)?),
                    _ => None,
                };
                prepared.survey = match trace {
                    Some(trace) => Survey::of_trace(trace, chunk, watch)?,
                    None => {
                        let mut source = open_one(origin, 0, &self.options, seed)?;
                        Survey::of_source(&mut *source, chunk, watch)?
                    }
                };
            }
            _ => {
                let apps = std::mem::take(&mut prepared.survey.apps);
                let mut source = prepared.merged(seed)?;
                prepared.survey = Survey::of_source(&mut source, chunk, watch)?;
                prepared.survey.apps = apps;
                for (part, stats) in prepared.parts.iter_mut().zip(source.stats()) {
                    part.used = stats.records;
                }
            }
        }
        Ok(prepared)
    }
}

impl Prepared {
    fn unread(workload: &Workload) -> Prepared {
        let (extents, parts, survey) = (Vec::new(), Vec::new(), Survey::default());
        Prepared { workload: workload.clone(), extents, parts, survey }
    }

    fn merged(&self, seed: u64) -> Result<Merge, LabError> {
        let specs = self.workload.specs();
        let config = self.workload.merge_config(&specs)?;
        let mut tenants = Vec::new();
        for (spec, extent) in specs.iter().zip(&self.extents) {
            tenants.push(self.workload.tenant(spec, seed)?.extent(*extent));
        }
        Ok(Merge::new(tenants, config)?)
    }

    /// Opens the workload at its first record, its addresses laid out for a drive of `capacity`.
    ///
    /// # Errors
    /// A wrong source; a workload that reaches beyond the drive and may not be wrapped.
    pub fn open(&self, seed: u64, capacity: Bytes) -> Result<Box<dyn Source>, LabError> {
        if let Some(files) = &self.workload.files {
            let what = format!("`{}` is a load of files: expected requests", files.text);
            return Err(LabError::Input(what));
        }
        let source = match &self.workload.origin {
            Some(origin) if !self.workload.is_merged() => {
                open_one(origin, 0, &self.workload.options, seed)?
            }
            _ => Box::new(self.merged(seed)?),
        };
        let layout = self.survey.layout(self.workload.fit, capacity)?;
        let drop = self.workload.drop_flushes && !self.workload.is_merged();
        Ok(layout.over(source, drop))
    }

    /// As [`Prepared::open`], for another pass of the same load: a recipe draws anew over the same
    /// blocks (the same draws again would meet data in the order in which they left it). A trace,
    /// tenants, and what is made compact by its addresses are repeated as they are.
    ///
    /// # Errors
    /// As [`Prepared::open`].
    pub fn open_pass(
        &self,
        pass: u64,
        seed: u64,
        capacity: Bytes,
    ) -> Result<Box<dyn Source>, LabError> {
        let workload = &self.workload;
        match &workload.origin {
            Some(Origin::Recipe(text)) if !workload.is_merged() => {
                if let Fit::Compact(_) = workload.fit {
                    return self.open(seed, capacity);
                }
                let layout = self.survey.layout(workload.fit, capacity)?;
                Ok(layout.over(parse_pass(text, seed, pass)?.open(), workload.drop_flushes))
            }
            _ => self.open(seed, capacity),
        }
    }

    /// What was prepared.
    pub(crate) fn workload(&self) -> &Workload {
        &self.workload
    }

    /// The load of files, if it is one.
    pub fn files(&self) -> Option<&FilesSpec> {
        self.workload.files.as_ref()
    }

    /// Bytes of address space the workload needs, laid out as asked.
    pub fn extent(&self) -> Bytes {
        self.survey.extent(self.workload.fit)
    }

    /// Requests, if they were counted.
    pub fn requests(&self) -> Option<u64> {
        (self.survey.records > 0).then_some(self.survey.records)
    }

    /// Of each tenant that the merged stream ends without, how much of it is used: a line for people. The
    /// shortest ends it where nobody says otherwise, and what is measured is then of a few requests.
    pub fn unused(&self) -> Vec<String> {
        let end = self.workload.end.as_deref().unwrap_or("shortest");
        let line = |(spec, part): (&TenantSpec, &Part)| {
            let Part { used, all, .. } = part;
            let rounds = match spec.rounds {
                1 => String::new(),
                rounds => format!(" in {rounds} rounds"),
            };
            let name = &spec.name;
            (used < all).then(|| {
                format!(
                    "{name}: {used} of {all} requests{rounds} used, because the stream ends with the {end}; \
                     `end` longest or first:{name} uses all"
                )
            })
        };
        self.workload.tenants.iter().zip(&self.parts).filter_map(line).collect()
    }

    /// What a result document says about the workload.
    pub fn to_json(&self) -> Json {
        let mut map = self.survey.to_json();
        if let Some(files) = &self.workload.files {
            map.put("files", Json::text(&files.text));
            return Json::Map(map);
        }
        map.put("extent_bytes", Json::Int(self.extent().0));
        let source = |origin: &Origin| match origin {
            Origin::Files(paths) => {
                let name = |file: &TraceFile| Json::text(file.to_string());
                Json::List(paths.iter().map(name).collect())
            }
            Origin::Demo => Json::List(vec![Json::text(DEMO_NAME)]),
            Origin::Recipe(text) => Json::List(vec![Json::text(format!("gen:{text}"))]),
        };
        map.maybe("source", self.workload.origin.as_ref().map(source));
        map.put("fit", Json::text(self.workload.fit.to_string()));
        map.put("drop_flushes", Json::Bool(self.workload.drop_flushes));
        if !self.workload.tenants.is_empty() {
            let tenant = |(at, spec): (usize, &TenantSpec)| {
                let mut map = Map::new();
                map.put("name", Json::text(&spec.name));
                map.put("source", source(&spec.origin));
                for (key, text) in &spec.reading {
                    map.put(key, Json::text(text));
                }
                map.maybe("stretch", spec.stretch.as_ref().map(Json::text));
                map.int("rounds", spec.rounds);
                let part = self.parts.get(at);
                map.maybe("requests", part.map(|part| Json::Int(part.all)));
                map.maybe("requests_used", part.map(|part| Json::Int(part.used)));
                Json::Map(map)
            };
            let tenants = self.workload.tenants.iter().enumerate().map(tenant).collect();
            map.put("tenants", Json::List(tenants));
        }
        let (map_text, ratio, end) = (&self.workload.map, &self.workload.ratio, &self.workload.end);
        map.maybe("map", map_text.as_ref().map(Json::text));
        map.maybe("ratio", ratio.as_ref().map(Json::text));
        map.maybe("end", end.as_ref().map(Json::text));
        Json::Map(map)
    }
}
