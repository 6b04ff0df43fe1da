//! What the search of a range of seeds came to, as a document: whoever has those of all parts of a range has
//! that of the range.
//!
//! Invariants: the same range of the same search gives the same bytes, on any number of threads and in any process;
//! ranges are put together only if they are of one search by one program, and tile.

use std::path::{Path, PathBuf};

use lab::LabError;
use proof::Findings;
use report::format::grouped;
use report::json::{Json, Map, MapExt};

use crate::VERSION;
use crate::args::{Prove, Seeds};

/// Name and version of the document's layout.
pub const SCHEMA: &str = "varve.prove/1";

/// Letters of a stack in the name of a file.
const SHOWN: usize = 40;

/// A search, apart from its seeds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Search {
    /// Of what: drives, logs, file systems ..
    kind: String,
    /// A whole stack in one text.
    stack: Option<String>,
    /// How runs are drawn, as on the command line.
    flags: Vec<String>,
    /// The program, with its commit.
    version: String,
    /// What plans say of it.
    commit: String,
}

impl Search {
    /// What the command line asks for.
    pub fn of(o: &Prove) -> Search {
        let kind = match o {
            _ if o.stack.is_some() => "stack",
            _ if o.sequences => "sequences",
            _ if o.lfs => "lfs",
            _ if o.paper => "paper-log",
            _ if o.remap => "remap",
            _ if o.tx => "tx",
            _ => "drive",
        };
        let flags = [("healthy", o.healthy), ("faulty", o.faulty), ("long", o.long)];
        let flags = flags.into_iter().filter(|flag| flag.1);
        let mut flags: Vec<String> = flags.map(|(name, _)| name.to_string()).collect();
        flags.extend(o.bug.iter().map(|bug| format!("bug={bug}")));
        Search {
            kind: kind.to_string(),
            stack: o.stack.clone(),
            flags,
            version: VERSION.to_string(),
            commit: o.commit.clone(),
        }
    }

    /// Its kind and its flags, as a name.
    fn name(&self) -> String {
        let flags: String =
            self.flags.iter().map(|flag| format!("-{}", flag.replace('=', "-"))).collect();
        format!("{}{flags}", self.kind)
    }

    /// In what this differs from another, first of all.
    fn differs(&self, other: &Search) -> Option<String> {
        let stack = |search: &Search| search.stack.clone().unwrap_or_default();
        let flags = |search: &Search| format!("{:?}", search.flags);
        let named = [
            ("kind", self.kind.clone(), other.kind.clone()),
            ("stack", stack(self), stack(other)),
            ("flags", flags(self), flags(other)),
            ("version", self.version.clone(), other.version.clone()),
            ("commit", self.commit.clone(), other.commit.clone()),
        ];
        let found = named.into_iter().find(|(_, mine, theirs)| mine != theirs);
        found.map(|(what, mine, theirs)| format!("{what} `{theirs}`, expected `{mine}`"))
    }
}

/// A range of seeds, and what its search came to.
pub struct Range {
    /// Which search.
    pub search: Search,
    /// Its seeds.
    pub seeds: Seeds,
    /// What it came to.
    pub findings: Findings,
}

impl Range {
    /// The document.
    pub fn to_json(&self) -> Json {
        let (search, tally) = (&self.search, &self.findings.tally);
        let mut map = Map::new();
        map.put("schema", Json::text(SCHEMA));
        map.put("version", Json::text(&search.version));
        map.put("commit", Json::text(&search.commit));
        map.put("kind", Json::text(&search.kind));
        map.maybe("stack", search.stack.as_deref().map(Json::text));
        map.put("flags", Json::List(search.flags.iter().map(Json::text).collect()));
        map.int("first", self.seeds.first);
        map.int("last", self.seeds.last);
        map.put("digest", Json::text(self.findings.digest.to_string()));
        map.int("violations", self.findings.violations);
        let broken = self.findings.first.iter().map(|(seed, what)| {
            let mut one = Map::new();
            one.int("seed", *seed);
            one.put("what", Json::text(what));
            Json::Map(one)
        });
        map.put("broken", Json::List(broken.collect()));
        let mut counts = Map::new();
        tally.counts().into_iter().for_each(|(name, count)| counts.int(name, count));
        map.put("tally", Json::Map(counts));
        let mut media = Map::new();
        tally.media.iter().for_each(|(name, count)| media.int(name, *count));
        map.put("media", Json::Map(media));
        map.put("triples", Json::text(tally.bitmap()));
        Json::Map(map)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Range, String> {
        let json = Json::read(text)?;
        let member = |key: &str| json.get(key).ok_or_else(|| format!("no `{key}`"));
        let word = |key: &str| {
            let text = member(key)?.as_text();
            text.map(str::to_string).ok_or_else(|| format!("`{key}`: expected a text"))
        };
        let count = |key: &str| {
            member(key)?.whole().ok_or_else(|| format!("`{key}`: expected a whole number"))
        };
        let schema = json.get("schema").and_then(Json::as_text).unwrap_or_default();
        if schema != SCHEMA {
            return Err(format!("schema `{schema}`, expected `{SCHEMA}`"));
        }
        let Json::List(flags) = member("flags")? else {
            return Err("`flags`: expected a list".into());
        };
        let flags = flags.iter().map(|flag| flag.as_text().unwrap_or_default().to_string());
        let search = Search {
            kind: word("kind")?,
            stack: json.get("stack").and_then(Json::as_text).map(str::to_string),
            flags: flags.collect(),
            version: word("version")?,
            commit: word("commit")?,
        };
        let seeds = Seeds::new(count("first")?, count("last")?)?;
        let mut findings = Findings { violations: count("violations")?, ..Findings::default() };
        findings.digest = word("digest")?.parse().map_err(|e| format!("`digest`: {e}"))?;
        let Json::List(broken) = member("broken")? else {
            return Err("`broken`: expected a list".into());
        };
        for one in broken {
            let seed = one.get("seed").and_then(Json::whole).ok_or("`broken`: expected seeds")?;
            let what = one.get("what").and_then(Json::as_text).unwrap_or_default();
            findings.first.insert(seed, what.to_string());
        }
        let tally = &mut findings.tally;
        tally.mark(&word("triples")?).map_err(|e| format!("`triples`: {e}"))?;
        for (name, _) in tally.counts() {
            let found = member("tally")?.get(name).and_then(Json::whole);
            let into = tally.count_mut(name).ok_or_else(|| format!("no count `{name}`"))?;
            *into = found.ok_or_else(|| format!("`tally.{name}`: expected a whole number"))?;
        }
        let Json::Map(media) = member("media")? else {
            return Err("`media`: expected a map".into());
        };
        for (name, count) in media {
            let count =
                count.whole().ok_or_else(|| format!("`media.{name}`: expected a whole number"))?;
            tally.media.insert(name.clone(), count);
        }
        if tally.seeds != seeds.count() {
            return Err(format!("{} runs, expected {} of {seeds}", tally.seeds, seeds.count()));
        }
        Ok(Range { search, seeds, findings })
    }

    /// The name of its file in a folder: a stack is told by its text, and by a digest of it, because a name
    /// takes only some of its letters.
    pub fn file(&self) -> String {
        let stack = self.search.stack.as_ref().map_or(String::new(), |stack| {
            let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
            let words: String = stack.chars().map(plain).take(SHOWN).collect();
            format!("-{}-{:08x}", words.trim_matches('-'), block::crc32c(0, stack.as_bytes()))
        });
        let (first, last) = (self.seeds.first, self.seeds.last);
        format!("{}{stack}-{first}-{last}.json", self.search.name())
    }

    /// What it came to in one line.
    pub fn line(&self) -> String {
        let (findings, seeds) = (&self.findings, self.seeds);
        format!(
            "{}: cuts {}, seeds {seeds}, {} violations, digest {}\n",
            self.search.name(),
            grouped(findings.tally.cuts),
            grouped(findings.violations),
            findings.digest
        )
    }
}

/// The documents that paths name: files, and all files `*.json` of folders.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, LabError> {
    let mut found = Vec::new();
    for path in paths {
        if !path.is_dir() {
            found.push(path.clone());
            continue;
        }
        let before = found.len();
        for entry in std::fs::read_dir(path).map_err(|e| LabError::io(path, e))? {
            let file = entry.map_err(|e| LabError::io(path, e))?.path();
            if file.extension().is_some_and(|end| end == "json") {
                found.push(file);
            }
        }
        if found.len() == before {
            let what = "no range of seeds; expected files of `varve prove --seeds A..B --out DIR`";
            return Err(LabError::Input(format!("{}: {what}", path.display())));
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<Range, LabError> {
    let text = std::fs::read_to_string(path).map_err(|e| LabError::io(path, e))?;
    Range::read(&text).map_err(|e| LabError::Input(format!("{}: {e}", path.display())))
}

/// Puts ranges together that tile one.
///
/// # Errors
/// Files that are no ranges, ranges of different searches, a gap, an overlap.
pub fn merge(paths: &[PathBuf]) -> Result<Range, LabError> {
    let mut whole: Option<(Range, PathBuf)> = None;
    let mut places: Vec<(Seeds, PathBuf)> = Vec::new();
    for path in files(paths)? {
        let range = read(&path)?;
        places.push((range.seeds, path.clone()));
        match &mut whole {
            None => whole = Some((range, path)),
            Some((all, first)) => {
                if let Some(what) = all.search.differs(&range.search) {
                    let (path, first) = (path.display(), first.display());
                    return Err(LabError::Input(format!("{path}: {what} as in {first}")));
                }
                all.findings.merge(&range.findings);
            }
        }
    }
    let (mut whole, _) =
        whole.ok_or_else(|| LabError::Input("--merge: expected ranges of seeds".into()))?;
    places.sort();
    for pair in places.windows(2) {
        let [(before, one), (after, two)] = pair else { continue };
        let (one, two) = (one.display(), two.display());
        if after.first <= before.last {
            return Err(LabError::Input(format!(
                "seeds {before} ({one}) and {after} ({two}) overlap; expected each seed once"
            )));
        }
        if after.first != before.last + 1 {
            let gap = Seeds { first: before.last + 1, last: after.first - 1 };
            return Err(LabError::Failed(format!(
                "seeds {gap} are missing between {one} and {two}"
            )));
        }
    }
    if let (Some((first, _)), Some((last, _))) = (places.first(), places.last()) {
        whole.seeds = Seeds { first: first.first, last: last.last };
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All stacks had one name, and the second took the place of the first.
    #[test]
    fn each_stack_has_a_file_of_its_own() {
        let file = |stack: Option<&str>| {
            let search = Search {
                kind: "stack".to_string(),
                stack: stack.map(str::to_string),
                flags: Vec::new(),
                version: String::new(),
                commit: String::new(),
            };
            let seeds = Seeds { first: 1, last: 9 };
            Range { search, seeds, findings: Findings::default() }.file()
        };
        let long = "drive(capacity=64MiB)+log(window=16,verify=off,chunk=4096)";
        let names: Vec<String> = ["drive+log", "drive log", long, &format!("{long}+cut(7)")]
            .map(|stack| file(Some(stack)))
            .into();
        assert!(
            names[0].starts_with("stack-drive-log-") && names[0].ends_with("-1-9.json"),
            "{names:?}"
        );
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{names:?}");
            assert!(
                name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b)),
                "{name}"
            );
        }
        assert_eq!(file(None), "stack-1-9.json");
    }
}
