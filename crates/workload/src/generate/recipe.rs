//! The recipe: a text that names a generator and its parameters, and the registry of names.

use std::sync::Arc;

use block::{Bytes, Span};

use super::clock::Arrival;
use super::fields::Fields;
use super::simple::{Addresses, Mix, Simple};
use super::{Generator, Source, fio, kvstore, lsm, msr, sstables};
use crate::SourceError;
use crate::tenant::{Tenant, Volumes};

/// What the list says about a generator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GeneratorInfo {
    /// Its name; `msr:VOLUME` where an argument follows.
    pub name: &'static str,
    /// One line.
    pub doc: &'static str,
    /// Its keys with their defaults, apart by blanks; a default in brackets is a description.
    pub keys: &'static str,
}

/// Who asks for a generator: what its streams are seeded with and named after.
pub(super) struct Asked<'a> {
    pub seed: u64,
    /// First part of the names of streams that say where things lie.
    pub app: &'a str,
    /// First part of the names of all others.
    pub draws: &'a str,
    /// The text after the colon of the name, if there is one.
    pub argument: Option<&'a str>,
}

type Build = fn(&Asked<'_>, &mut Fields<'_>) -> Result<Arc<dyn Generator>, SourceError>;

struct Entry {
    info: GeneratorInfo,
    build: Build,
}

/// The keys of a plain generator: its own, then those all share.
macro_rules! keys {
    ($own:literal) => {
        concat!(
            $own,
            "size=1GiB bs=4KiB base=0 read=0 discard=0 flush=0 count=1M iat=10us arrival=fixed ",
            "seed app"
        )
    };
}

macro_rules! entry {
    ($name:literal, $doc:literal, $keys:expr, $build:expr) => {
        Entry { info: GeneratorInfo { name: $name, doc: $doc, keys: $keys }, build: $build }
    };
}

/// The registry: one line for each generator.
const ENTRIES: &[Entry] = &[
    entry!("sequential", "blocks one after the other, round and round", keys!(""), |a, f| {
        simple(a, f, "sequential", |_| Ok(Addresses::Sequential))
    }),
    entry!("uniform", "every block equally likely", keys!(""), |a, f| {
        simple(a, f, "uniform", |_| Ok(Addresses::Uniform))
    }),
    entry!(
        "zipf",
        "Zipf ranks, scattered over the space",
        keys!("theta=0.99 scatter=on "),
        |a, f| {
            simple(a, f, "zipf", |f| {
                Ok(Addresses::Zipf(f.real("theta", 0.99, 0.01, 10.0)?, f.switch("scatter", true)?))
            })
        }
    ),
    entry!(
        "hotcold",
        "hot percent of the space take hits percent of the accesses",
        keys!("hot=20 hits=80 scatter=off "),
        |a, f| {
            simple(a, f, "hotcold", |f| {
                let (hot, hits) = (f.percent("hot", 200_000)?, f.percent("hits", 800_000)?);
                Ok(Addresses::Hotspot(hot, hits, f.switch("scatter", false)?))
            })
        }
    ),
    entry!(
        "pareto",
        "1 − h of the accesses go to h of the space, at every scale",
        keys!("h=0.2 scatter=on "),
        |a, f| {
            simple(a, f, "pareto", |f| {
                Ok(Addresses::Pareto(f.real("h", 0.2, 0.001, 0.999)?, f.switch("scatter", true)?))
            })
        }
    ),
    entry!(
        "exponential",
        "exponential, with a mean in parts of the space",
        keys!("mean=0.1 scatter=on "),
        |a, f| {
            simple(a, f, "exponential", |f| {
                let mean = f.real("mean", 0.1, 1e-6, 10.0)?;
                Ok(Addresses::Exponential(mean, f.switch("scatter", true)?))
            })
        }
    ),
    entry!("latest", "writes append, reads prefer the newest", keys!("theta=0.99 "), |a, f| {
        simple(a, f, "latest", |f| Ok(Addresses::Latest(f.real("theta", 0.99, 0.01, 10.0)?)))
    }),
    entry!(
        "fio",
        "jobs on files of their own, as fio's: direct, or buffered with write-back",
        "rw=randwrite rwmixread=(50_where_mixed) bs=4KiB jobs=1 size=1GiB iodepth=1 distribution=random \
         norandommap=off fsync=0 fdatasync=0 prefill=off buffered=off ram=4GiB count=(one_pass) \
         iat=10us arrival=fixed seed app",
        fio::build
    ),
    entry!(
        "msr:VOLUME",
        "calibrated to the statistics of an MSR Cambridge volume, as HM_0",
        "count=1M theta=0.95 read=(volume's) readbytes=(unset) iat=(volume's) arrival=exp seed app",
        msr::build
    ),
    entry!(
        "ycsb:WORKLOAD",
        "YCSB A to F on a heap file updated in place, without a cache",
        "records=1M record=1000 count=1M iat=10us arrival=fixed seed app",
        kvstore::build
    ),
    entry!(
        "lsm",
        "a leveled LSM tree's files and requests, as RocksDB's: load, YCSB run, fillrandom",
        "preset=rocksdb-small phase=load workload=A records=(preset's) record=1164B \
         count=(records_or_a_fifth) memtable=(preset's) file=(preset's) level1=(preset's) growth=10 \
         trigger=4 slowdown=20 stop=36 io_read=512KiB io_write=1MiB ahead=2MiB cut=on cache=8MiB \
         filter=off area=(by_the_data) placement=next-fit discard=on threads=2 rate=190MB \
         insert_iat=17us iat=75us seed app",
        lsm::build
    ),
    entry!(
        "sstables",
        "files written front to back in large requests, the oldest deleted, point reads",
        "file=64MiB bs=512KiB live=2GiB read=0 discard=on flush=on count=1M iat=10us arrival=fixed \
         seed app",
        sstables::build
    ),
];

/// The keys all plain generators share, and the law's own.
fn simple(
    asked: &Asked<'_>,
    fields: &mut Fields<'_>,
    name: &'static str,
    law: impl FnOnce(&mut Fields<'_>) -> Result<Addresses, SourceError>,
) -> Result<Arc<dyn Generator>, SourceError> {
    let addresses = law(fields)?;
    let block = fields.size("bs", 4096, 512, 512)?;
    let size = fields.size("size", 1 << 30, block.0, 1)?;
    let base = fields.size("base", 0, 0, 512)?;
    if size.0 / block.0 > 1 << 48 {
        return Err(fields.wrong("size", &size.human(), "at most 2^48 blocks"));
    }
    let mix = Mix {
        read_ppm: fields.percent("read", 0)?,
        discard_ppm: fields.percent("discard", 0)?,
        flush_every: fields.count("flush", 0, 0)?,
    };
    if mix.read_ppm + mix.discard_ppm > 1_000_000 {
        let sum = super::fields::percent_text(mix.read_ppm + mix.discard_ppm);
        return Err(fields.wrong("read and discard", &sum, "at most 100 % together"));
    }
    let count = fields.count("count", 1_000_000, 1)?;
    let arrival = fields.arrival(Arrival::Fixed(Span::from_us(10)), count)?;
    Ok(Arc::new(Simple {
        name,
        seed: asked.seed,
        app: asked.app.to_string(),
        draws: asked.draws.to_string(),
        addresses,
        base,
        blocks: size.0 / block.0,
        block,
        mix,
        count,
        arrival,
    }))
}

/// The names, one-line descriptions and keys of all generators.
pub fn list() -> Vec<GeneratorInfo> {
    ENTRIES.iter().map(|entry| entry.info).collect()
}

/// A parsed recipe. Cloning is cheap; [`Recipe::open`] gives the same records every time.
#[derive(Clone)]
pub struct Recipe {
    text: String,
    name: &'static str,
    seed: u64,
    app: String,
    generator: Arc<dyn Generator>,
}

impl Recipe {
    /// The text it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A source at the first record.
    pub fn open(&self) -> Box<dyn Source + Send> {
        self.generator.open()
    }

    /// Its effective parameters, for the result; the first says that it is synthetic.
    pub fn describe(&self) -> Vec<(String, String)> {
        let own = [
            ("source", "synthetic".to_string()),
            ("generator", self.name.to_string()),
            ("recipe", self.text.clone()),
            ("seed", self.seed.to_string()),
            ("app", self.app.clone()),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_string(), value));
        own.chain(self.generator.describe()).collect()
    }

    /// No record reaches beyond this byte.
    pub fn extent(&self) -> Bytes {
        self.generator.extent()
    }

    /// A tenant with this recipe as its one file and its extent known.
    pub fn tenant(&self, name: impl Into<String>) -> Tenant {
        let recipe = self.clone();
        let tenant = Tenant::new(name).file(move || Ok(recipe.open()));
        tenant.extent(self.extent()).volumes(Volumes::Shared)
    }
}

/// Parses a recipe.
///
/// ```text
/// recipe = name [ ":" argument ] { "," key [ "=" value ] }
/// ```
///
/// A key without a value means `on`. Sizes have binary units (`4k`, `16KiB`, `1GiB`) or decimal
/// ones (`2GB`); counts are decimal (`100k` = 100,000); shares are percent; times have a unit
/// (`10us`). `seed=N` overrides `seed`; `app=NAME` names the random streams, so that two recipes
/// of one run draw differently. [`list`] has the names and keys.
///
/// # Errors
/// [`SourceError::Recipe`] with the key, the value found and what was expected.
pub fn parse_recipe(text: &str, seed: u64) -> Result<Recipe, SourceError> {
    parse_pass(text, seed, 0)
}

/// As [`parse_recipe`], of a pass over the same blocks: what is hot stays where it is, and everything
/// is drawn anew. Pass 0 is the recipe itself.
///
/// # Errors
/// As [`parse_recipe`].
pub fn parse_pass(text: &str, seed: u64, pass: u64) -> Result<Recipe, SourceError> {
    let (head, rest) = text.split_once(',').unwrap_or((text, ""));
    let (name, argument) = match head.trim().split_once(':') {
        Some((name, argument)) => (name.trim(), Some(argument.trim())),
        None => (head.trim(), None),
    };
    let plain = |entry: &&Entry| entry.info.name.split(':').next() == Some(name);
    let Some(entry) = ENTRIES.iter().find(plain) else {
        let names: Vec<_> = ENTRIES.iter().map(|entry| entry.info.name).collect();
        let names = names.join(", ");
        return Err(SourceError::Recipe(format!("no generator `{name}`: there are {names}")));
    };
    if argument.is_some() != entry.info.name.contains(':') {
        let form = entry.info.name;
        return Err(SourceError::Recipe(format!("`{}`: expected `{form}`", head.trim())));
    }
    let mut fields = Fields::parse(name, rest)?;
    let seed = fields.take("seed", seed, "a whole number below 2^64", |text| text.parse().ok())?;
    let app = fields.text("app").unwrap_or("app").to_string();
    let draws = if pass == 0 { app.clone() } else { format!("{app}, pass {pass}") };
    let asked = Asked { seed, app: &app, draws: &draws, argument };
    let generator = (entry.build)(&asked, &mut fields)?;
    fields.finish()?;
    Ok(Recipe { text: text.to_string(), name: entry.info.name, seed, app, generator })
}
