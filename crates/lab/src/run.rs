//! One experiment: every combination of what a scenario sweeps, each run on a drive of its own.
//!
//! Runs are independent, so any number of threads gives the same bytes: results are put in the
//! order of the sweep, never in the order of completion.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use block::BlockDevice;

use crate::LabError;
use crate::chosen::lines_json;
use crate::document::Document;
use crate::explain::{Probe, Wanted};
use crate::input::Prepared;
use crate::points::{Impossible, Point, Points};
use crate::replay::{
    Beside, Conditioning, Mode, ReplayPlan, Watch, precondition, preload, replay, replay_with,
};
use crate::result::{RunResult, SCHEMA, impossible};
use crate::scenario::Scenario;
use crate::setting::{Setting, heading};
use crate::slowdown::{Only, Slowdown};
use report::json::{Json, Map, MapExt};
use ssd::Params;
use stack::{Device, Modelled};

/// An experiment that was checked as a whole: nothing of it is known to be wrong.
pub struct Experiment {
    scenario: Scenario,
    settings: Vec<Setting>,
    points: Vec<Point>,
    impossible: Vec<Impossible>,
    wanted: Wanted,
    /// Why files that are wanted beside the results are not there.
    unwritten: Mutex<Vec<LabError>>,
}

/// What was written before a measured load.
struct Before {
    conditioning: Conditioning,
    preloaded: Option<u64>,
}

/// Who is given the result of each point as it ends, from the thread that ran it.
pub type Each<'a> = &'a (dyn Fn(&Point, Json) -> Result<(), LabError> + Sync);

impl Experiment {
    /// Checks a scenario: reads its workloads once, builds the configuration of every run.
    ///
    /// # Errors
    /// Whatever is wrong with it, before anything is run.
    pub fn new(scenario: &Scenario) -> Result<Experiment, LabError> {
        Experiment::watched(scenario, Watch::nobody())
    }

    /// The same, where somebody may want the reading of a long workload to stop.
    ///
    /// # Errors
    /// As [`Experiment::new`]; [`LabError::Interrupted`].
    pub fn watched(scenario: &Scenario, watch: Watch<'_>) -> Result<Experiment, LabError> {
        let Points { settings, points, impossible } = Points::new(scenario, watch)?;
        let scenario = match settings.as_slice() {
            [one] if one.params.is_empty() => one.scenario.clone(),
            _ => scenario.clone(),
        };
        let wanted = Wanted::default();
        let unwritten = Mutex::default();
        Ok(Experiment { scenario, settings, points, impossible, wanted, unwritten })
    }

    /// Finds out more about the requests of each run.
    ///
    /// # Errors
    /// A workload of which it cannot be found out.
    pub fn explain(&mut self, wanted: Wanted) -> Result<(), LabError> {
        for setting in self.settings.iter().filter(|_| !wanted.is_nothing()) {
            let why = match (setting.prepared.files(), setting.scenario.replay.mode) {
                (Some(_), _) => "the workload is one of files, whose calls are no requests",
                (_, Mode::Untimed) => "replay.mode is untimed: expected open, closed or dependent",
                _ => continue,
            };
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

    /// Why files of [`Experiment::explain`] were not written, of the runs since this was asked last. Only a
    /// run can tell that a timeline would have too many slices, or a disk no room; its results are there
    /// nevertheless, and whoever shows them shows this after them.
    pub fn unwritten(&self) -> Vec<LabError> {
        std::mem::take(&mut self.unwritten.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The runs, in the order of the results.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// What is swept and cannot be, in the order of the results.
    pub fn impossible(&self) -> &[Impossible] {
        &self.impossible
    }

    /// The scenario with everything settled that is the same in all runs: what repeats this
    /// experiment.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The workload of a point.
    pub fn workload(&self, point: &Point) -> &Prepared {
        &self.settings[point.setting].prepared
    }

    /// What is replayed, and how, of a point.
    pub(crate) fn setting(&self, point: &Point) -> &Scenario {
        &self.settings[point.setting].scenario
    }

    /// The swept keys of every member of the results as numbers, in their order.
    pub fn values(&self) -> Vec<Map> {
        let mut values = vec![Map::new(); self.all()];
        for point in &self.points {
            values[point.place] = point.values();
        }
        values
    }

    /// What the user should know before a run: values of imported configurations that have no
    /// counterpart here, and tenants of which a part is left out.
    ///
    /// # Errors
    /// A configuration that cannot be read.
    pub fn notes(&self) -> Result<Vec<String>, LabError> {
        let mut notes: Vec<String> = Vec::new();
        for setting in &self.settings {
            let new = setting.scenario.notes()?.into_iter().chain(setting.prepared.unused());
            let new: Vec<String> = new.filter(|note| !notes.contains(note)).collect();
            notes.extend(new);
        }
        Ok(notes)
    }

    /// Runs everything on `threads` threads; `version` goes into the document.
    ///
    /// # Errors
    /// The error of the first run, in order, that fails; then there is no document.
    pub fn run(
        &self,
        threads: usize,
        version: &str,
        watch: Watch<'_>,
    ) -> Result<Document, LabError> {
        let results = Mutex::new(Vec::with_capacity(self.points.len()));
        let points: Vec<&Point> = self.points.iter().collect();
        self.run_each(&points, threads, watch, &|point, result| {
            results.lock().unwrap_or_else(PoisonError::into_inner).push((point.place, result));
            Ok(())
        })?;
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(self.document(results, version))
    }

    /// Runs some of the points on `threads` threads, and gives each result to `each`.
    ///
    /// # Errors
    /// The error of the first run, in order, that fails, or whose result is not taken.
    pub fn run_each(
        &self,
        points: &[&Point],
        threads: usize,
        watch: Watch<'_>,
        each: Each<'_>,
    ) -> Result<(), LabError> {
        for point in points {
            self.check_timed(point)?;
        }
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let first: Mutex<Option<(usize, LabError)>> = Mutex::new(None);
        let work = || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(point) = points.get(i) else { return };
                // Points before a failed one are finished, so that the error is always the same.
                if failed.load(Ordering::Relaxed) {
                    return;
                }
                let result = self.run_point(point, watch).and_then(|result| each(point, result));
                if let Err(error) = result {
                    failed.store(true, Ordering::Relaxed);
                    let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                    if first.as_ref().is_none_or(|(before, _)| i < *before) {
                        *first = Some((i, error));
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(points.len()).max(1) {
                scope.spawn(work);
            }
            work();
        });
        match first.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Refuses to measure times of a drive that has none.
    fn check_timed(&self, point: &Point) -> Result<(), LabError> {
        let (scenario, prepared) = (self.setting(point), self.workload(point));
        let timed = prepared.files().is_some() || scenario.replay.mode != Mode::Untimed;
        if !timed || point.config.text("timing") == "on" {
            return Ok(());
        }
        let of = if prepared.files().is_some() { "files" } else { "requests" };
        Err(LabError::Input(format!(
            "drive.timing = off: a drive without time, where times of {of} are measured: \
             expected on, or replay.mode = untimed"
        )))
    }

    /// Runs one point: the member of `results`. A drive that runs out of room in the course of one
    /// of several points makes that point impossible, and no other.
    ///
    /// # Errors
    /// A run that fails, or is interrupted.
    pub fn run_point(&self, point: &Point, watch: Watch<'_>) -> Result<Json, LabError> {
        match self.measure(point, watch) {
            Err(error) if self.points.len() > 1 && error.is_full() => {
                Ok(impossible(&point.params, point.seed, &error.to_string()))
            }
            result => result,
        }
    }

    fn measure(&self, point: &Point, watch: Watch<'_>) -> Result<Json, LabError> {
        let mut params = point.config.resolve()?;
        params.seed = point.seed;
        let Setting { scenario, prepared, .. } = &self.settings[point.setting];
        let wanted = &scenario.replay;
        if let Some(files) = prepared.files() {
            let mut map =
                files.run(params.clone(), &point.stack, &point.params, point.seed, watch)?;
            map.put("lines", lines_json(&point.config, &params));
            return Ok(Json::Map(map));
        }
        let shares = prepared.shares(wanted)?;
        let plan = ReplayPlan {
            mode: wanted.mode,
            speed: wanted.speed,
            queue_depth: params.queue_depth,
            flush_every: wanted.flush_every,
            measure_after: wanted.measure_after,
        };
        let (mut drive, before) = self.conditioned(point, &params, watch)?;
        let capacity = drive.capacity().bytes();
        let mut source = prepared.open(point.seed, capacity)?;
        let beside = Beside { shares: shares.as_ref(), probe: Probe::new(&self.wanted) };
        let mut outcome = replay_with(&mut drive, &mut *source, &plan, watch, beside)?;
        let mut unwritten = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner);
        unwritten.append(&mut outcome.unwritten);
        drop(unwritten);
        drive.end()?;
        let alone = |app| {
            let (mut drive, _) = self.conditioned(point, &params, watch)?;
            let mut source = Only { source: prepared.open(point.seed, capacity)?, app };
            replay(&mut drive, &mut source, &plan, watch)
        };
        let slowdown = wanted.slowdown.then(|| Slowdown::of(&outcome, alone)).transpose()?;
        let result = RunResult {
            params: &point.params,
            seed: point.seed,
            drive: &params,
            outcome: &outcome,
            conditioning: before.conditioning,
            preloaded: before.preloaded,
        };
        let mut json = result.to_json();
        if let Json::Map(map) = &mut json {
            map.put("lines", lines_json(&point.config, &params));
            map.maybe("slowdown", slowdown.map(|slowdown| slowdown.to_json()));
        }
        Ok(json)
    }

    /// A drive of a point, with what is written to it before its measured load.
    fn conditioned(
        &self,
        point: &Point,
        params: &Params,
        watch: Watch<'_>,
    ) -> Result<(Modelled, Before), LabError> {
        let Setting { scenario, prepared, .. } = &self.settings[point.setting];
        let wanted = &scenario.replay;
        let mut drive = point.stack.build(params)?;
        let capacity = drive.capacity().bytes();
        let unit = u64::from(params.unit_pages);
        let open = |pass| prepared.open_pass(pass, point.seed, capacity);
        let how = wanted.precondition;
        let conditioning = precondition(&mut drive, how, unit, point.seed, &open, watch)?;
        let preloaded = if wanted.preload {
            let mut source = prepared.open(point.seed, capacity)?;
            Some(preload(&mut drive, &mut *source, watch)?)
        } else {
            None
        };
        Ok((drive, Before { conditioning, preloaded }))
    }

    /// The document of some results, each with the place of its point.
    pub(crate) fn document(&self, mut results: Vec<(usize, Json)>, version: &str) -> Document {
        let cell =
            |cell: &Impossible| (cell.place, impossible(&cell.params, cell.seed, &cell.reason));
        results.extend(self.impossible.iter().map(cell));
        Document::of(self.document_heading(version), results, self.all())
    }

    /// Points, those that cannot be included.
    pub(crate) fn all(&self) -> usize {
        self.points.len() + self.impossible.len()
    }

    /// What the result document begins with.
    pub(crate) fn document_heading(&self, version: &str) -> Map {
        self.heading_with(SCHEMA, version, true)
    }

    /// What every document of this experiment begins with: what it is, of what, from which seed.
    pub fn heading(&self, schema: &str, version: &str) -> Map {
        self.heading_with(schema, version, false)
    }

    fn heading_with(&self, schema: &str, version: &str, with_replay: bool) -> Map {
        let mut map = heading(&self.settings.iter().collect::<Vec<_>>(), with_replay);
        map.put("schema", Json::text(schema));
        map.put("version", Json::text(version));
        if !self.scenario.title.is_empty() {
            map.put("title", Json::text(&self.scenario.title));
        }
        let seeds = |s: &u64| Json::Int(*s);
        map.put(
            "seed",
            match self.scenario.seeds.as_slice() {
                [one] => Json::Int(*one),
                many => Json::List(many.iter().map(seeds).collect()),
            },
        );
        map
    }
}
