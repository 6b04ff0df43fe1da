//! The points of an experiment: every combination of what is swept, with each seed.
//!
//! * The order is that of the file: the first key slowest, seeds fastest.
//! * A combination that cannot be is left out, with its reason, and the others stay: two traces and
//!   two presets may have one pair that does not fit. A value none of whose combinations can be is
//!   wrong itself: that is an error.

use report::json::{Json, Map};
use ssd::{Config, KeyKind, Origin};

use crate::replay::{Precondition, Watch};
use crate::scenario::{Scenario, Sweep, share_of};
use crate::setting::{Setting, Workloads, capacity};
use crate::{LabError, StackConfig};

/// Combinations and seeds at most.
const MOST: usize = 1 << 20;

/// One run of an experiment.
#[derive(Clone, Debug)]
pub struct Point {
    /// Its place in the sweep, from 0; points that cannot be have one too.
    pub place: usize,
    /// The swept keys and their values here.
    pub params: Vec<(String, String)>,
    /// The seed of every draw.
    pub seed: u64,
    /// The drive.
    pub config: Config,
    /// What stands above it.
    pub stack: StackConfig,
    /// Number of its setting.
    pub(crate) setting: usize,
}

/// A point that cannot be.
#[derive(Clone, Debug)]
pub struct Impossible {
    /// Its place in the sweep, from 0.
    pub place: usize,
    /// The swept keys and their values here.
    pub params: Vec<(String, String)>,
    /// The seed.
    pub seed: u64,
    /// Why it cannot be.
    pub reason: String,
}

/// What a scenario comes to.
pub(crate) struct Points {
    pub settings: Vec<Setting>,
    pub points: Vec<Point>,
    pub impossible: Vec<Impossible>,
}

/// Which value of each sweep, from the first to the last combination.
fn combinations(sweeps: &[Sweep], seeds: usize) -> Result<Vec<Vec<usize>>, LabError> {
    let counts = sweeps.iter().map(|sweep| sweep.values.len());
    let all = counts.clone().chain([seeds]).try_fold(1usize, usize::checked_mul);
    if all.is_none_or(|all| all > MOST) {
        return Err(LabError::Input(format!(
            "a sweep of {} combinations: expected at most {MOST}",
            counts.chain([seeds]).map(|n| n.to_string()).collect::<Vec<_>>().join(" x ")
        )));
    }
    let mut list = vec![Vec::new()];
    for sweep in sweeps {
        let with = |known: &Vec<usize>| {
            let known = known.clone();
            (0..sweep.values.len()).map(move |value| [&known[..], &[value]].concat())
        };
        list = list.iter().flat_map(with).collect();
    }
    Ok(list)
}

/// A setting, or why there is none.
type Tried = Result<Setting, String>;

/// Settings by the values of the sweeps that make them.
struct Settings<'a> {
    scenario: &'a Scenario,
    workloads: Workloads<'a>,
    known: Vec<(Vec<usize>, Tried)>,
}

impl Settings<'_> {
    /// The number of the setting of a combination.
    fn find(&mut self, combination: &[usize]) -> Result<usize, LabError> {
        let sweeps = &self.scenario.sweeps;
        let here = sweeps.iter().zip(combination).filter(|(sweep, _)| sweep.is_setting());
        let values: Vec<(&Sweep, &str)> =
            here.clone().map(|(sweep, value)| (sweep, sweep.values[*value].as_str())).collect();
        let key: Vec<usize> = here.map(|(_, value)| *value).collect();
        if let Some(number) = self.known.iter().position(|(known, _)| *known == key) {
            let told = |reason: &String| LabError::Input(reason.clone());
            return self.known[number].1.as_ref().map(|_| number).map_err(told);
        }
        let setting = Setting::new(self.scenario, &values, &mut self.workloads);
        let (kept, result) = match setting {
            Ok(setting) => (Ok(setting), Ok(self.known.len())),
            Err(error) => (Err(error.to_string()), Err(error)),
        };
        self.known.push((key, kept));
        result
    }

    /// The point of a combination, checked, without a seed.
    fn point(&mut self, combination: &[usize]) -> Result<Point, LabError> {
        let number = self.find(combination)?;
        let mut point = Point {
            place: 0,
            params: params(self.scenario, combination),
            seed: 0,
            config: Config::default(),
            stack: StackConfig::default(),
            setting: number,
        };
        if let Ok(setting) = &mut self.known[number].1 {
            point.settle(self.scenario, setting, combination)?;
        }
        Ok(point)
    }
}

/// A reason, if what is wrong is the combination and not the machine.
fn reason(error: LabError) -> Result<String, LabError> {
    if error.exit_code() == 3 { Ok(error.to_string()) } else { Err(error) }
}

impl Points {
    /// Checks every combination.
    ///
    /// # Errors
    /// Whatever is wrong with the scenario as a whole, or with all combinations of a value;
    /// [`LabError::Interrupted`].
    pub fn new(scenario: &Scenario, watch: Watch<'_>) -> Result<Points, LabError> {
        let combinations = combinations(&scenario.sweeps, scenario.seeds.len())?;
        let known = Vec::new();
        let mut settings = Settings { scenario, workloads: Workloads::new(watch), known };
        let mut cells: Vec<Result<Point, String>> = Vec::with_capacity(combinations.len());
        for combination in &combinations {
            match settings.point(combination) {
                Ok(point) => cells.push(Ok(point)),
                Err(error) if combinations.len() == 1 => return Err(error),
                Err(error) => cells.push(Err(reason(error)?)),
            }
        }
        refuse_values(scenario, &combinations, &cells)?;
        Ok(settings.seeded(&combinations, cells))
    }
}

impl Settings<'_> {
    /// All points, each with each seed; settings without a point are left out.
    fn seeded(self, combinations: &[Vec<usize>], cells: Vec<Result<Point, String>>) -> Points {
        let used = |number: usize| cells.iter().flatten().any(|point| point.setting == number);
        let used: Vec<bool> = (0..self.known.len()).map(used).collect();
        // Numbers of settings once the unused ones are gone.
        let left: Vec<usize> = (0..used.len())
            .map(|number| used[..number].iter().filter(|used| **used).count())
            .collect();
        let settings = self.known.into_iter().zip(&used).filter(|(_, used)| **used);
        let settings = settings.filter_map(|((_, setting), _)| setting.ok()).collect();
        let (mut points, mut impossible) = (Vec::new(), Vec::new());
        let mut place = 0;
        for (combination, cell) in combinations.iter().zip(cells) {
            for seed in &self.scenario.seeds {
                match &cell {
                    Ok(point) => {
                        let setting = left[point.setting];
                        points.push(Point { place, seed: *seed, setting, ..point.clone() });
                    }
                    Err(reason) => impossible.push(Impossible {
                        place,
                        params: params(self.scenario, combination),
                        seed: *seed,
                        reason: reason.clone(),
                    }),
                }
                place += 1;
            }
        }
        Points { settings, points, impossible }
    }
}

/// The swept keys and their values in a combination.
fn params(scenario: &Scenario, combination: &[usize]) -> Vec<(String, String)> {
    let pair =
        |(sweep, value): (&Sweep, &usize)| (sweep.key.clone(), sweep.label(&sweep.values[*value]));
    scenario.sweeps.iter().zip(combination).map(pair).collect()
}

/// The value of a key of the drive as a number, under a name that says its unit.
pub(crate) fn value(key: &str, text: &str) -> Option<(String, Json)> {
    let (unit, value) = match ssd::key(key)?.kind {
        KeyKind::Size => ("bytes", Json::Int(block::parse_size(text).ok()?.0)),
        KeyKind::Time => ("ns", Json::span(block::parse_time(text).ok()?)),
        KeyKind::Share => ("share", Json::Millionths(ssd::parse_share(text).ok()?)),
        _ => return None,
    };
    Some((format!("{key}.{unit}"), value))
}

impl Point {
    /// Values of the swept keys of its drive as numbers, under names that say their units.
    pub fn values(&self) -> Map {
        let of = |(key, _): &(String, String)| value(key, self.config.text(key));
        self.params.iter().filter(|(key, _)| ssd::key(key).is_some()).filter_map(of).collect()
    }

    /// Gives it its drive and what stands above it, and checks that the workload fits.
    fn settle(
        &mut self,
        scenario: &Scenario,
        setting: &mut Setting,
        combination: &[usize],
    ) -> Result<(), LabError> {
        self.config = setting.base.clone();
        self.stack = setting.scenario.stack.clone();
        for (sweep, value) in scenario.sweeps.iter().zip(combination) {
            if !sweep.is_setting() {
                set(self, sweep, &sweep.values[*value])?;
            }
        }
        let params = self.config.resolve()?;
        let filled = setting.scenario.replay.precondition != Precondition::None;
        crate::memory::check(&params, filled)?;
        setting.queue_depth = params.queue_depth;
        let capacity = self.stack.capacity(&params)?;
        match setting.prepared.files() {
            Some(files) => drop(files.blocks(capacity)?),
            None => {
                let first = scenario.seeds.first().copied().unwrap_or(1);
                drop(setting.prepared.open(first, capacity)?);
            }
        }
        Ok(())
    }
}

/// Sets a swept key of the drive, or of what stands above it.
fn set(point: &mut Point, sweep: &Sweep, value: &str) -> Result<(), LabError> {
    let key = sweep.key.as_str();
    let origin = Origin { from: sweep.place.to_string(), source: None, tag: None };
    if let Some(key) = key.strip_prefix("remap.") {
        return point.stack.set(key, value).map_err(|what| sweep.place.error(what));
    }
    if key == "stack" {
        let layers = crate::layers::above(value).map_err(|what| sweep.place.error(what))?;
        point.stack.write(layers);
        return Ok(());
    }
    let text = match value.ends_with('%') && key.ends_with("size") {
        true => {
            let of = capacity(&point.config)?;
            let expected = || sweep.place.error(format!("`{key}` = `{value}`: expected a share"));
            share_of(value, of).ok_or_else(expected)?.human()
        }
        false => value.to_string(),
    };
    Ok(point.config.set(key, &text, origin)?)
}

/// Refuses a value that fits with nothing.
fn refuse_values(
    scenario: &Scenario,
    combinations: &[Vec<usize>],
    cells: &[Result<Point, String>],
) -> Result<(), LabError> {
    for (at, sweep) in scenario.sweeps.iter().enumerate() {
        for value in 0..sweep.values.len() {
            let with = || combinations.iter().zip(cells).filter(|(c, _)| c[at] == value);
            if let (false, Some((_, Err(reason)))) =
                (with().any(|(_, cell)| cell.is_ok()), with().next())
            {
                return Err(LabError::Input(reason.clone()));
            }
        }
    }
    Ok(())
}
