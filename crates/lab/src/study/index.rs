//! The index of a study: its points in order, each with its id, and all that its result document
//! says beside results. Whoever has the index and the results needs neither the scenario nor the traces.

use report::json::{Json, Map, MapExt};

use super::identity::{ENGINE, Input, digest};
use crate::LabError;
use crate::document::Document;

/// Name and version of the index's layout.
pub const POINTS: &str = "varve.points/1";

/// A point of a study.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name, and the swept keys with the seed: what its result begins with.
    head: Map,
    /// Values of swept keys as numbers.
    values: Map,
    /// Its id, or why it cannot be.
    state: Result<String, String>,
}

impl Entry {
    pub(super) fn new(head: Map, values: Map, state: Result<String, String>) -> Entry {
        Entry { head, values, state }
    }

    /// The keys that were swept, their values, and the seed.
    pub fn name(&self) -> &str {
        self.head.get("name").and_then(Json::as_text).unwrap_or_default()
    }

    /// Its id; `None` if it cannot be.
    pub fn id(&self) -> Option<&str> {
        self.state.as_ref().ok().map(String::as_str)
    }

    /// Why it cannot be; `None` if it can.
    pub fn impossible(&self) -> Option<&str> {
        self.state.as_ref().err().map(String::as_str)
    }

    /// Values of swept keys as numbers: `buffer.size.bytes`.
    pub fn values(&self) -> &Map {
        &self.values
    }

    fn to_json(&self, place: usize) -> Json {
        let mut map = self.head.clone();
        map.int("n", place as u64);
        match &self.state {
            Ok(id) => map.put("id", Json::text(id)),
            Err(reason) => map.put("impossible", Json::text(reason)),
        }
        if !self.values.is_empty() {
            map.put("values", Json::Map(self.values.clone()));
        }
        Json::Map(map)
    }

    fn read(json: &Json) -> Option<Entry> {
        let mut head = Map::new();
        for key in ["name", "params"] {
            head.put(key, json.get(key)?.clone());
        }
        let text = |key| json.get(key).and_then(Json::as_text).map(str::to_string);
        let values = json.get("values").and_then(Json::as_map).cloned().unwrap_or_default();
        let state = match text("id") {
            Some(id) => Ok(id),
            None => Err(text("impossible")?),
        };
        Some(Entry { head, values, state })
    }
}

/// The index of a study.
#[derive(Clone, Debug)]
pub struct Index {
    /// Version of the program.
    pub version: String,
    /// Fingerprint of the sources that results come from.
    pub engine: String,
    /// What the result document begins with.
    pub(super) heading: Map,
    /// The scenario that repeats it.
    pub scenario: String,
    /// The traces that it reads.
    pub inputs: Vec<Input>,
    /// Its points, in order.
    pub entries: Vec<Entry>,
}

impl Index {
    /// A digest of all its points: studies of one digest have one result.
    pub fn digest(&self) -> String {
        let line = |entry: &Entry| match &entry.state {
            Ok(id) => format!("{id}\n"),
            Err(reason) => format!("{} impossible {reason:?}\n", entry.name()),
        };
        format!("sha256:{}", digest(&self.entries.iter().map(line).collect::<String>()))
    }

    /// Places and ids of the points that can be run.
    pub fn ids(&self) -> impl Iterator<Item = (usize, &str)> {
        self.entries.iter().enumerate().filter_map(|(place, entry)| Some((place, entry.id()?)))
    }

    /// The index as a document.
    pub fn to_json(&self) -> Json {
        let mut map = Map::new();
        map.put("schema", Json::text(POINTS));
        map.put("version", Json::text(&self.version));
        map.put("engine", Json::text(&self.engine));
        map.put("digest", Json::text(self.digest()));
        map.put("heading", Json::Map(self.heading.clone()));
        map.put("scenario", Json::text(&self.scenario));
        let input = |input: &Input| {
            let mut map = Map::new();
            map.put("path", Json::text(&input.path));
            map.put("sha256", Json::text(&input.sha256));
            map.int("bytes", input.bytes);
            Json::Map(map)
        };
        map.put("inputs", Json::List(self.inputs.iter().map(input).collect()));
        let entries = self.entries.iter().enumerate();
        map.put("points", Json::List(entries.map(|(n, entry)| entry.to_json(n)).collect()));
        Json::Map(map)
    }

    /// Reads an index.
    ///
    /// # Errors
    /// What of the text is not as [`Index::to_json`] writes it.
    pub fn read(text: &str) -> Result<Index, String> {
        let json = Json::read(text)?;
        let of = |json: &Json, key: &str| json.get(key).and_then(Json::as_text).map(str::to_string);
        let found = of(&json, "schema").unwrap_or_default();
        if found != POINTS {
            return Err(format!("schema `{found}`, expected `{POINTS}`"));
        }
        let missing = |key: &str| format!("no `{key}`: expected the index of a study");
        let text = |key: &str| of(&json, key).ok_or_else(|| missing(key));
        let input = |json: &Json| {
            let bytes = json.get("bytes")?.whole()?;
            Some(Input { path: of(json, "path")?, sha256: of(json, "sha256")?, bytes })
        };
        let list = |key: &str| json.get(key).map(Json::items).ok_or_else(|| missing(key));
        let inputs: Option<Vec<Input>> = list("inputs")?.iter().map(input).collect();
        let entries: Option<Vec<Entry>> = list("points")?.iter().map(Entry::read).collect();
        let heading = json.get("heading").and_then(Json::as_map);
        let index = Index {
            version: text("version")?,
            engine: text("engine")?,
            heading: heading.ok_or_else(|| missing("heading"))?.clone(),
            scenario: text("scenario")?,
            inputs: inputs.ok_or_else(|| missing("inputs"))?,
            entries: entries.ok_or_else(|| missing("points"))?,
        };
        let (said, digest) = (text("digest")?, index.digest());
        if said != digest {
            return Err(format!("its points have the digest {digest}, and it says {said}"));
        }
        Ok(index)
    }

    /// The result document of some results, each with the place of its point.
    pub fn document(&self, mut results: Vec<(usize, Json)>) -> Document {
        for (place, entry) in self.entries.iter().enumerate() {
            if let Some(reason) = entry.impossible() {
                let mut map = entry.head.clone();
                map.put("impossible", Json::text(reason));
                results.push((place, Json::Map(map)));
            }
        }
        Document::of(self.heading.clone(), results, self.entries.len())
    }

    /// Refuses the index of another study.
    ///
    /// # Errors
    /// In what the two differ.
    pub fn same(&self, other: &Index, names: (&str, &str)) -> Result<(), LabError> {
        let differ = |what: &str, one: &str, two: &str| {
            let (a, b) = names;
            Err(LabError::Input(format!(
                "{a} and {b} are not of one study: {what} {one} and {two}; expected the same scenario, \
                 traces and program for all"
            )))
        };
        if self.version != other.version {
            return differ("versions", &self.version, &other.version);
        }
        if self.engine != other.engine {
            return differ("engines", &self.engine, &other.engine);
        }
        if self.digest() != other.digest() {
            return differ("digests", &self.digest(), &other.digest());
        }
        Ok(())
    }

    /// The engine of this program.
    pub fn engine_here() -> &'static str {
        ENGINE
    }
}
