//! One experiment: every combination of what a scenario sweeps, each run on a drive of its own.
//!
//! Runs are independent, so any number of threads gives the same bytes: results are put in the
//! order of the sweep, never in the order of completion.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use block::{BlockDevice, Bytes, UNIT_BYTES};
use ssd::{Config, Origin};

use crate::chosen::{lines_json, scale_json};
use crate::explain::{Probe, Wanted};
use crate::input::Prepared;
use crate::metric::{self, Metric};
use crate::replay::{Mode, ReplayPlan, Watch, precondition, preload, replay_probed};
use crate::result::{RunResult, SCHEMA, config_json, replay_json, stack_json};
use crate::scenario::{Replay, Scenario, Sweep, share_of};
use crate::{LabError, StackConfig};
use report::json::{Json, Map, MapExt};
use stack::Device;
use stack::description::text_of;

/// One run of an experiment.
#[derive(Clone, Debug)]
pub struct Point {
    /// The swept keys and their values here.
    pub params: Vec<(String, String)>,
    /// The seed of every draw.
    pub seed: u64,
    /// The drive.
    pub config: Config,
    /// What stands above it.
    pub stack: StackConfig,
}

/// An experiment that was checked as a whole: nothing of it is known to be wrong.
pub struct Experiment {
    scenario: Scenario,
    title: String,
    replay: Replay,
    prepared: Prepared,
    base: Config,
    stack: StackConfig,
    queue_depth: u32,
    seeds: Vec<u64>,
    points: Vec<Point>,
    wanted: Wanted,
}

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

/// Grain of a drive sized to its workload.
const SIZED_GRAIN: u64 = 1 << 20;

/// Gives the drive a size if nobody did: that of the workload.
fn size_to_workload(config: &mut Config, extent: Bytes) -> Result<(), LabError> {
    if config.text("capacity") != "0" || config.text("geometry.blocks") != "0" {
        return Ok(());
    }
    let size = extent.0.max(1).next_multiple_of(SIZED_GRAIN);
    let from = "sized to the workload".to_string();
    let origin = Origin { from, source: None, tag: None };
    Ok(config.set("capacity", &Bytes(size).human(), origin)?)
}

/// Bytes of the logical space of a drive.
fn capacity(config: &Config) -> Result<Bytes, LabError> {
    Ok(Bytes(u64::from(config.resolve()?.logical_pages) * UNIT_BYTES))
}

impl Experiment {
    /// Checks a scenario: reads its workload once, builds the configuration of every run.
    ///
    /// # Errors
    /// Whatever is wrong with it, before anything is run.
    pub fn new(scenario: &Scenario) -> Result<Experiment, LabError> {
        scenario.check()?;
        let first = scenario.seeds.first().copied().unwrap_or(1);
        if !scenario.fits_drive() {
            // What is wrong with the drive is told before a long trace is read.
            scenario.config()?;
        }
        let prepared = scenario.workload.prepare(first)?;
        let scenario = &scenario.settled(prepared.extent())?;
        let mut base = scenario.config()?;
        prepared.check_mode(scenario.replay.mode)?;
        if prepared.files().is_none() {
            size_to_workload(&mut base, prepared.extent())?;
        }
        let stack = scenario.stack.clone();
        let mut points = vec![Point { params: Vec::new(), seed: 0, config: base.clone(), stack }];
        for sweep in &scenario.sweeps {
            let mut next = Vec::with_capacity(points.len() * sweep.values.len());
            for point in &points {
                for value in &sweep.values {
                    next.push(swept(point, sweep, value)?);
                }
            }
            points = next;
        }
        let mut seeded = Vec::with_capacity(points.len() * scenario.seeds.len());
        let mut queue_depth = 0;
        for point in &points {
            let params = point.config.resolve()?;
            queue_depth = params.queue_depth;
            let capacity = point.stack.capacity(&params)?;
            match prepared.files() {
                Some(files) => drop(files.blocks(capacity)?),
                None => drop(prepared.open(first, capacity)?),
            }
            for seed in &scenario.seeds {
                seeded.push(Point { seed: *seed, ..point.clone() });
            }
        }
        Ok(Experiment {
            scenario: scenario.clone(),
            title: scenario.title.clone(),
            replay: scenario.replay.clone(),
            prepared,
            base,
            stack: scenario.stack.clone(),
            queue_depth,
            seeds: scenario.seeds.clone(),
            points: seeded,
            wanted: Wanted::default(),
        })
    }

    /// Finds out more about the requests of each run.
    ///
    /// # Errors
    /// A workload of which it cannot be found out.
    pub fn explain(&mut self, wanted: Wanted) -> Result<(), LabError> {
        let why = match (self.prepared.files().is_some(), self.replay.mode) {
            _ if wanted.is_nothing() => None,
            (true, _) => Some("the workload is one of files, whose calls are no requests"),
            (_, Mode::Untimed) => {
                Some("replay.mode is untimed: expected open, closed or dependent")
            }
            _ => None,
        };
        if let Some(why) = why {
            return Err(LabError::Input(format!("no request can be explained: {why}")));
        }
        if !wanted.is_of_all_runs() && self.points.len() > 1 {
            return Err(LabError::Input(format!(
                "a log or a timeline is of one run, and this is {}: expected one value for each \
                 swept key, and one seed",
                self.points.len()
            )));
        }
        wanted.check()?;
        self.wanted = wanted;
        Ok(())
    }

    /// The runs, in the order of the results.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The scenario with everything settled: what repeats this experiment.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The workload.
    pub fn workload(&self) -> &Prepared {
        &self.prepared
    }

    /// Runs everything on `threads` threads; `version` goes into the document. `each` is told
    /// after every run that ends well, from the thread that made it, and once more after the last
    /// one if something failed: what is finished by then need not be lost.
    ///
    /// # Errors
    /// The error of the first run, in order, that fails; then there is no document.
    pub fn run(
        &self,
        threads: usize,
        version: &str,
        watch: Watch<'_>,
        each: &(dyn Fn(&Finished<'_>) + Sync),
    ) -> Result<Document, LabError> {
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let results: Vec<Mutex<Outcome>> = self.points.iter().map(|_| Mutex::new(None)).collect();
        let finished = |last| Finished { experiment: self, version, results: &results, last };
        let work = || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(point) = self.points.get(i) else { return };
                // Points before a failed one are finished, so that the error is always the same.
                if failed.load(Ordering::Relaxed) {
                    return;
                }
                let result = self.run_point(point, watch);
                let well = result.is_ok();
                if let Ok(mut slot) = results[i].lock() {
                    *slot = Some(result);
                }
                match well {
                    true => each(&finished(false)),
                    false => failed.store(true, Ordering::Relaxed),
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(self.points.len()).max(1) {
                scope.spawn(work);
            }
            work();
        });
        if failed.load(Ordering::Relaxed) {
            each(&finished(true));
        }
        let mut list = Vec::with_capacity(results.len());
        for slot in results {
            match slot.into_inner().ok().flatten() {
                Some(result) => list.push(result?),
                None => return Err(LabError::Failed("a run ended without a result".to_string())),
            }
        }
        Ok(Document { map: self.document(list, version), page_ops: 0 }.counted())
    }

    fn run_point(&self, point: &Point, watch: Watch<'_>) -> Result<Json, LabError> {
        let mut params = point.config.resolve()?;
        params.seed = point.seed;
        if let Some(files) = self.prepared.files() {
            let mut map =
                files.run(params.clone(), &point.stack, &point.params, point.seed, watch)?;
            map.put("lines", lines_json(&point.config, &params));
            return Ok(Json::Map(map));
        }
        let mut drive = point.stack.build(&params)?;
        let capacity = drive.capacity().bytes();
        let unit = u64::from(params.unit_pages);
        let how = self.replay.precondition;
        let open = |pass| self.prepared.open_pass(pass, point.seed, capacity);
        let conditioning = precondition(&mut drive, how, unit, point.seed, &open, watch)?;
        let preloaded = if self.replay.preload {
            let mut source = self.prepared.open(point.seed, capacity)?;
            Some(preload(&mut drive, &mut *source, watch)?)
        } else {
            None
        };
        let plan = ReplayPlan {
            mode: self.replay.mode,
            speed: self.replay.speed,
            queue_depth: params.queue_depth,
            flush_every: self.replay.flush_every,
            measure_after: self.replay.measure_after,
        };
        let mut source = self.prepared.open(point.seed, capacity)?;
        let probe = Probe::new(&self.wanted)?;
        let outcome = replay_probed(&mut drive, &mut *source, &plan, watch, probe)?;
        drive.end()?;
        let result = RunResult {
            params: &point.params,
            seed: point.seed,
            drive: &params,
            outcome: &outcome,
            conditioning,
            preloaded,
        };
        let mut json = result.to_json();
        if let Json::Map(map) = &mut json {
            map.put("lines", lines_json(&point.config, &params));
        }
        Ok(json)
    }

    fn document(&self, results: Vec<Json>, version: &str) -> Map {
        let mut map = self.heading(SCHEMA, version);
        if self.prepared.files().is_none() {
            map.put("replay", replay_json(&self.replay, self.queue_depth));
        }
        map.put("results", Json::List(results));
        map
    }

    /// What every document of this experiment begins with: what it is, of what, from which seed.
    pub fn heading(&self, schema: &str, version: &str) -> Map {
        let mut map = Map::new();
        map.put("schema", Json::text(schema));
        map.put("version", Json::text(version));
        if !self.title.is_empty() {
            map.put("title", Json::text(&self.title));
        }
        map.put("config", config_json(&self.base));
        map.maybe("scale", self.base.scaled().map(scale_json));
        if !self.stack.keys().is_empty() {
            map.put("remap", stack_json(&self.stack));
        }
        if !self.stack.written().is_empty() {
            map.put("layers", Json::text(text_of(self.stack.written())));
        }
        map.put("workload", self.prepared.to_json());
        let seeds = |s: &u64| Json::Int(*s);
        map.put(
            "seed",
            match self.seeds.as_slice() {
                [one] => Json::Int(*one),
                many => Json::List(many.iter().map(seeds).collect()),
            },
        );
        map
    }
}

/// A point with one more key set.
fn swept(point: &Point, sweep: &Sweep, value: &str) -> Result<Point, LabError> {
    let (mut next, key) = (point.clone(), sweep.key.as_str());
    let origin = Origin { from: sweep.place.to_string(), source: None, tag: None };
    if let Some(key) = key.strip_prefix("remap.") {
        next.stack.set(key, value).map_err(|what| sweep.place.error(what))?;
        next.params.push((sweep.key.clone(), value.to_string()));
        return Ok(next);
    }
    if key == "stack" {
        let layers = crate::layers::above(value).map_err(|what| sweep.place.error(what))?;
        next.stack.write(layers);
        next.params.push((sweep.key.clone(), value.to_string()));
        return Ok(next);
    }
    let text = match value.ends_with('%') && key.ends_with("size") {
        true => {
            let of = capacity(&point.config)?;
            let expected = || sweep.place.error(format!("`{key}` = `{value}`: expected a share"));
            share_of(value, of).ok_or_else(expected)?.human()
        }
        false => value.to_string(),
    };
    next.config.set(key, &text, origin)?;
    next.params.push((key.to_string(), value.to_string()));
    Ok(next)
}

impl Prepared {
    /// Refuses a mode the workload cannot be replayed in.
    fn check_mode(&self, mode: Mode) -> Result<(), LabError> {
        let Some(carries) = &self.survey.carries else { return Ok(()) };
        if !carries.time && matches!(mode, Mode::Open | Mode::Dependent) {
            return Err(LabError::Input(format!(
                "a trace of format {} has no times: expected mode closed or untimed",
                self.survey.format.unwrap_or("unknown")
            )));
        }
        Ok(())
    }
}

/// What came of a run, once it has ended.
type Outcome = Option<Result<Json, LabError>>;

/// The runs of an experiment that have ended well so far.
pub struct Finished<'a> {
    experiment: &'a Experiment,
    version: &'a str,
    results: &'a [Mutex<Outcome>],
    /// The experiment has failed or was interrupted: no more will follow.
    pub last: bool,
}

impl Finished<'_> {
    fn list(&self) -> Vec<Json> {
        let result = |slot: &Mutex<Outcome>| match &*slot.lock().ok()? {
            Some(Ok(result)) => Some(result.clone()),
            _ => None,
        };
        self.results.iter().filter_map(result).collect()
    }

    /// All runs of the experiment.
    pub fn of(&self) -> usize {
        self.results.len()
    }

    /// How many have ended, and a result document of just these, in the order of the sweep. It says
    /// of itself that it is partial.
    pub fn document(&self) -> (usize, Document) {
        let list = self.list();
        let count = list.len();
        let mut map = self.experiment.document(list, self.version);
        let mut partial = Map::new();
        partial.int("finished", count as u64);
        partial.int("of", self.of() as u64);
        map.put("partial", Json::Map(partial));
        (count, Document { map, page_ops: 0 }.counted())
    }
}

/// The value at a path of keys, joined by dots.
fn find<'m>(map: &'m Map, path: &str) -> Option<&'m Json> {
    match path.split_once('.') {
        None => map.get(path),
        Some((key, rest)) => match map.get(key)? {
            Json::Map(inner) => find(inner, rest),
            _ => None,
        },
    }
}

/// A finished result document.
pub struct Document {
    map: Map,
    page_ops: u64,
}

impl Document {
    /// Counts host pages served and pages copied, for the speed in `run`.
    fn counted(mut self) -> Document {
        let of = |result: &Map| {
            let units = [metric::HOST_READ_UNITS, metric::HOST_WRITE_UNITS, metric::GC_PAGES];
            units.iter().filter_map(|m| find(result, m.id()).and_then(Json::whole)).sum::<u64>()
        };
        self.page_ops = self.results().map(of).fold(0, u64::saturating_add);
        self
    }

    fn results(&self) -> impl Iterator<Item = &Map> {
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
