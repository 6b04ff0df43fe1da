//! The result document of an experiment: its numbers, and its text.

use report::json::{Json, Map, MapExt};

use crate::metric::{self, Metric};
use crate::points::value;

/// What did not come from the inputs: left out of a deterministic document.
#[derive(Clone, Copy, Debug)]
pub struct HostCost {
    /// Wall-clock milliseconds.
    pub wall_ms: u64,
    /// Processor milliseconds, user and system, of all threads.
    pub cpu_ms: u64,
    /// Most memory ever resident, in bytes.
    pub peak_rss: u64,
}

/// The value at a path of keys, joined by dots.
pub(crate) fn find<'m>(map: &'m Map, path: &str) -> Option<&'m Json> {
    match path.split_once('.') {
        None => map.get(path),
        Some((key, rest)) => match map.get(key)? {
            Json::Map(inner) => find(inner, rest),
            _ => None,
        },
    }
}

/// A finished result document.
#[derive(Clone, Debug)]
pub struct Document {
    map: Map,
    page_ops: u64,
}

impl Document {
    /// The document of some runs, each with its place in the sweep. Of fewer than there are it says
    /// of itself that it is partial.
    pub(crate) fn of(mut heading: Map, mut results: Vec<(usize, Json)>, all: usize) -> Document {
        results.sort_by_key(|(place, _)| *place);
        if results.len() < all {
            let mut partial = Map::new();
            partial.int("finished", results.len() as u64);
            partial.int("of", all as u64);
            heading.put("partial", Json::Map(partial));
        }
        let results = results.into_iter().map(|(_, result)| result).collect();
        heading.put("results", Json::List(results));
        Document { map: heading, page_ops: 0 }.counted()
    }

    /// A document from its text; what its runs cost is left out, because it is of those who ran them.
    ///
    /// # Errors
    /// What of the text is no document.
    pub(crate) fn read(text: &str) -> Result<Document, String> {
        match Json::read(text)? {
            Json::Map(mut map) => {
                map.remove("run");
                Ok(Document { map, page_ops: 0 }.counted())
            }
            _ => Err("expected a result document".to_string()),
        }
    }

    /// The swept keys of each run as numbers, in their order, as far as their texts say them: a share
    /// of a drive is of which drive?
    pub fn values(&self) -> Vec<Map> {
        let of = |run: &Map| {
            let params = run.get("params").and_then(Json::as_map).into_iter().flatten();
            let texts = params.filter_map(|(key, text)| Some((key, text.as_text()?)));
            texts.filter_map(|(key, text)| value(key, text)).collect()
        };
        self.results().map(of).collect()
    }

    /// Counts host pages served and pages copied, for the speed in `run`.
    fn counted(mut self) -> Document {
        let of = |result: &Map| {
            let units = [metric::HOST_READ_UNITS, metric::HOST_WRITE_UNITS, metric::GC_PAGES];
            units.iter().filter_map(|m| find(result, m.id()).and_then(Json::whole)).sum::<u64>()
        };
        self.page_ops = self.results().map(of).fold(0, u64::saturating_add);
        self
    }

    /// What the document says beside its results, as a reader of its text has it.
    pub(crate) fn heading(&self) -> serde_json::Value {
        let mut heading = self.map.clone();
        heading.remove("results");
        (&Json::Map(heading)).into()
    }

    pub(crate) fn results(&self) -> impl Iterator<Item = &Map> {
        let all = match self.map.get("results") {
            Some(Json::List(results)) => &results[..],
            _ => &[],
        };
        all.iter().filter_map(|result| match result {
            Json::Map(map) => Some(map),
            _ => None,
        })
    }

    /// Names of the runs, in order: the keys that were swept, and the seed.
    pub fn runs(&self) -> Vec<String> {
        let name = |run: &Map| match run.get("name") {
            Some(Json::Text(name)) => name.clone(),
            _ => String::new(),
        };
        self.results().map(name).collect()
    }

    /// A number of run `run`, in its unit. `None` if it is not known, or there is no such run.
    pub fn number(&self, run: usize, metric: Metric) -> Option<f64> {
        find(self.results().nth(run)?, metric.id())?.number()
    }

    /// The document as a reader of its text has it.
    pub fn value(&self) -> serde_json::Value {
        (&Json::Map(self.map.clone())).into()
    }

    /// Adds what the run cost on this machine: the only part that differs between equal runs.
    pub fn with_cost(mut self, cost: HostCost) -> Document {
        let mut map = Map::new();
        let seconds = |ms: u64| Json::Millionths(ms.saturating_mul(1000));
        map.put("wall_s", seconds(cost.wall_ms));
        map.put("cpu_s", seconds(cost.cpu_ms));
        if cost.peak_rss > 0 {
            map.int("peak_rss", cost.peak_rss);
        }
        let rate = (u128::from(self.page_ops) * 1000).checked_div(u128::from(cost.cpu_ms));
        map.maybe("page_ops_per_cpu_s", rate.and_then(|r| u64::try_from(r).ok()).map(Json::Int));
        self.map.put("run", Json::Map(map));
        self
    }

    /// The document as text, ending in a newline.
    pub fn text(&self) -> String {
        Json::Map(self.map.clone()).pretty()
    }
}
