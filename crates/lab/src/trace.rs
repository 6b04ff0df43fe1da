//! A trace by itself: opened by its name, and what it holds as a document.

use std::path::{Path, PathBuf};

use report::json::{Json, Map, MapExt};
use workload::info::{AppInfo, Counts, SizeClass, TraceInfo};
use workload::read::{OpenTrace, ReadOptions};

use crate::LabError;
use crate::input::{DEMO_NAME, TraceFile, demo_trace};

/// Name and version of [`document`].
const SCHEMA: &str = "varve.trace/1";

/// Opens a file, by its path or its digest, or `@demo`.
///
/// # Errors
/// What of it is no trace.
pub fn open(name: &str, options: &ReadOptions) -> Result<OpenTrace, LabError> {
    if name == DEMO_NAME {
        let bytes = Box::new(demo_trace());
        return Ok(workload::read::open_reader(Path::new(DEMO_NAME), bytes, options)?);
    }
    let file = TraceFile::parse(name, Path::new("")).map_err(LabError::Input)?;
    Ok(workload::read::open(&file.located()?, options)?)
}

/// The files that [`open`] reads for a name: none for the demo.
///
/// # Errors
/// A digest that cannot be had, a folder that cannot be read.
pub fn files(name: &str) -> Result<Vec<PathBuf>, LabError> {
    if name == DEMO_NAME {
        return Ok(Vec::new());
    }
    let file = TraceFile::parse(name, Path::new("")).map_err(LabError::Input)?;
    Ok(workload::read::files(&file.located()?)?)
}

fn counts_json(c: &Counts) -> Map {
    let mut map = Map::new();
    let kinds = [
        ("read", &c.read),
        ("write", &c.write),
        ("flush", &c.flush),
        ("discard", &c.discard),
        ("zero", &c.zero),
    ];
    for (name, tally) in kinds {
        let mut one = Map::new();
        one.int("requests", tally.requests);
        one.int("bytes", tally.bytes);
        map.put(name, Json::Map(one));
    }
    map.int("requests", c.requests());
    map.int("footprint_pages", c.footprint_pages);
    map.int("read_pages", c.read_pages);
    map.int("written_pages", c.written_pages);
    map.int("page_writes", c.page_writes);
    map.int("page_rewrites", c.page_rewrites);
    map.int("sequential", c.sequential);
    map.int("aligned", c.aligned);
    map.int("end_bytes", c.end.0);
    map
}

/// What is known of requests beside themselves.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The format that they are read as.
    pub format: &'a str,
    /// How they are packed.
    pub compression: &'a str,
    /// Bad lines left out.
    pub skipped: u64,
    /// Names of applications, by number.
    pub apps: &'a [String],
}

impl<'a> About<'a> {
    /// A trace, once it is read.
    pub fn of(trace: &'a OpenTrace) -> About<'a> {
        let (format, compression) = (trace.format().name, trace.compression().name());
        About { format, compression, skipped: trace.summary().skipped, apps: trace.apps() }
    }

    /// What a generator makes.
    pub fn recipe() -> About<'static> {
        About { format: "recipe", compression: "none", skipped: 0, apps: &[] }
    }
}

/// What a trace holds, as a document; `source` is the name that it was opened by.
pub fn document(source: &str, trace: &OpenTrace, info: &TraceInfo, version: &str) -> Json {
    about(source, &About::of(trace), info, version)
}

/// What any requests are, as such a document.
pub fn about(source: &str, about: &About<'_>, info: &TraceInfo, version: &str) -> Json {
    let mut map = Map::new();
    map.put("schema", Json::text(SCHEMA));
    map.put("version", Json::text(version));
    let mut config = Map::new();
    config.put("source", Json::text(source));
    config.put("format", Json::text(about.format));
    config.put("compression", Json::text(about.compression));
    map.put("config", Json::Map(config));
    let mut results = counts_json(&info.total);
    results.put("span_ns", Json::span(info.span()));
    results.int("skipped_bad", about.skipped);
    results.int("untracked_pages", info.untracked_pages);
    let size = |class: &SizeClass| {
        let mut one = Map::new();
        one.maybe("up_to_bytes", class.up_to.map(|b| Json::Int(b.0)));
        one.int("reads", class.read.requests);
        one.int("writes", class.write.requests);
        Json::Map(one)
    };
    results.put("sizes", Json::List(info.sizes.iter().map(size).collect()));
    let mut set = Map::new();
    set.put("window_ns", Json::span(info.working_set.window));
    set.int("windows", info.working_set.windows);
    set.int("total_pages", info.working_set.total_pages);
    set.int("max_pages", info.working_set.max_pages);
    results.put("working_set", Json::Map(set));
    let app = |app: &AppInfo| {
        let mut one = counts_json(&app.counts);
        one.maybe("name", about.apps.get(usize::from(app.app.0)).map(Json::text));
        Json::Map(one)
    };
    results.put("apps", Json::List(info.apps.iter().map(app).collect()));
    map.put("results", Json::Map(results));
    Json::Map(map)
}

#[cfg(test)]
mod tests {
    use workload::generate::parse_recipe;
    use workload::info::{InfoOptions, trace_info};

    use super::*;

    #[test]
    fn a_recipe_has_the_document_of_a_trace() {
        let mut source = parse_recipe("uniform,size=1MiB,read=0,count=100", 1).unwrap().open();
        let info = trace_info(&mut *source, &InfoOptions::default()).unwrap();
        let text = about("gen:uniform", &About::recipe(), &info, "1").pretty();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["results"]["write"]["requests"], 100);
        assert_eq!(json["config"]["format"], "recipe");
    }
}
