//! What one line asks about a workload on a drive, as texts: the command line and Python say it in the same
//! words, and what comes of them is said here alone. All of it becomes a [`Scenario`], or a count of hits.

mod hits;

use std::path::{Path, PathBuf};

use crate::LabError;
use crate::input::DEMO_NAME;
use crate::scenario::Scenario;

pub use hits::HitCount;

/// The scenario behind `@demo`.
const DEMO: &str = include_str!("../../scenarios/demo.toml");

/// Options by their names, and the key of a scenario that each sets.
const OPTIONS: [(&str, &str); 25] = [
    ("scale", "drive.scale"),
    ("format", "workload.format"),
    ("time-unit", "workload.time-unit"),
    ("size-unit", "workload.size-unit"),
    ("columns", "workload.columns"),
    ("op-map", "workload.op-map"),
    ("skip-bad", "workload.skip-bad"),
    ("app", "workload.app"),
    ("app-is-comm", "workload.app-is-comm"),
    ("align-shift", "workload.align-shift"),
    ("sort-window", "workload.sort-window"),
    ("fit", "workload.fit"),
    ("title", "title"),
    ("seed", "seed"),
    ("mode", "replay.mode"),
    ("qd", "replay.qd"),
    ("speed", "replay.speed"),
    ("precondition", "replay.precondition"),
    ("preload", "replay.preload"),
    ("measure-after", "replay.measure-after"),
    ("flush-every", "replay.flush-every"),
    ("share", "replay.share"),
    ("slowdown", "replay.slowdown"),
    ("per-app", "replay.per-app"),
    ("drop-flushes", "workload.drop-flushes"),
];

/// A scenario by its name: of a file, or the demo's; with keys that are set.
///
/// # Errors
/// What is wrong with the file, or a key.
pub fn named(name: &str, set: &[String]) -> Result<Scenario, LabError> {
    let mut scenario = match name == DEMO_NAME {
        true => demo()?,
        false => Scenario::load(Path::new(name))?,
    };
    for pair in set {
        scenario.set_pair(pair)?;
    }
    Ok(scenario)
}

/// The demo comes with a drive of a size that makes its workload interesting.
fn demo() -> Result<Scenario, LabError> {
    Scenario::from_text(DEMO_NAME, DEMO, PathBuf::new())
}

/// A workload on a drive.
#[derive(Clone, Debug, Default)]
pub struct Sim {
    /// A trace file, `@demo` or `gen:RECIPE`.
    pub trace: String,
    /// The drive: a preset or a file; the demo's, or the default one.
    pub ssd: Option<String>,
    /// Policies of the buffer; several are swept.
    pub policies: Option<Vec<String>>,
    /// Sizes of the buffer; several are swept; `1%` is a share of the drive.
    pub buffers: Option<Vec<String>>,
    /// Keys of the drive or the scenario, each `KEY=VALUE`.
    pub set: Vec<String>,
    options: Vec<(&'static str, String)>,
}

impl Sim {
    /// A workload on the drive that it comes with.
    pub fn new(trace: &str) -> Sim {
        Sim { trace: trace.to_string(), ..Sim::default() }
    }

    /// Sets an option by its name. They are looked at in the order in which they are set.
    ///
    /// # Errors
    /// An option that there is not.
    pub fn option(&mut self, name: &str, text: &str) -> Result<(), LabError> {
        let Some((_, key)) = OPTIONS.iter().find(|(known, _)| *known == name) else {
            let names: Vec<&str> = OPTIONS.iter().map(|(name, _)| *name).collect();
            return Err(LabError::Input(format!(
                "option `{name}`: expected one of {}",
                names.join(", ")
            )));
        };
        self.options.push((key, text.to_string()));
        Ok(())
    }

    /// The scenario of its runs.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub fn scenario(&self) -> Result<Scenario, LabError> {
        let mut scenario = self.untitled(false)?;
        if scenario.title.is_empty() {
            let name = self.trace.rsplit('/').next().unwrap_or(&self.trace);
            let drive = self.ssd.as_deref().unwrap_or("the default drive");
            scenario.title = format!("{name} on {drive}");
        }
        Ok(scenario)
    }

    /// The same without a title of its own. To be counted together, policies and sizes are checked
    /// together: as a sweep of one value too.
    fn untitled(&self, together: bool) -> Result<Scenario, LabError> {
        let is_demo = self.trace == DEMO_NAME;
        let mut scenario = if is_demo { demo()? } else { Scenario::default() };
        match self.trace.strip_prefix("gen:") {
            Some(recipe) => scenario.set("workload.gen", recipe)?,
            None => scenario.set("workload.trace", &self.trace)?,
        }
        if let Some(ssd) = &self.ssd {
            let is_file = ssd.ends_with(".toml") || ssd.ends_with(".xml") || ssd.contains('/');
            if is_demo {
                scenario.forget_drive();
            }
            scenario.set(if is_file { "drive.file" } else { "drive.preset" }, ssd)?;
        }
        for (key, text) in &self.options {
            scenario.set(key, text)?;
        }
        for (key, list) in [("buffer.policy", &self.policies), ("buffer.size", &self.buffers)] {
            match list.as_deref() {
                // A share of the drive can only be swept, because it needs the drive's size first.
                Some([one]) if !together && !one.ends_with('%') => {
                    scenario.sweeps.retain(|sweep| sweep.key != key);
                    scenario.set(key, one)?;
                }
                Some(list) => scenario.set_list(&format!("sweep.{key}"), list.to_vec())?,
                None => {}
            }
        }
        for pair in &self.set {
            scenario.set_pair(pair)?;
        }
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_that_is_scaled_to_fit_takes_a_size_for_policies_that_are_swept() {
        let points = |policies: &[&str], size: &str| {
            let mut sim = Sim::new("gen:zipf,size=24MiB,count=2k");
            sim.ssd = Some("femu-default".to_string());
            sim.option("scale", "fit").unwrap();
            sim.policies = Some(policies.iter().map(|text| text.to_string()).collect());
            sim.buffers = Some(vec![size.to_string()]);
            let experiment = crate::Experiment::new(&sim.scenario()?)?;
            let by = |point: &crate::Point| point.config.scaled().map(|scaled| scaled.by.clone());
            let by: Vec<_> = experiment.points().iter().map(by).collect();
            assert!(by.iter().all(|by| *by == Some("1/512".to_string())), "{by:?}");
            Ok::<_, LabError>(by.len())
        };
        assert_eq!(points(&["lru", "fifo"], "1M").unwrap(), 2);
        assert_eq!(points(&["lru"], "10%").unwrap(), 1);
        let wrong = points(&["none", "lru"], "1M").unwrap_err().to_string();
        assert!(wrong.contains("policy `none` has no buffer"), "{wrong}");
    }

    #[test]
    fn a_drive_as_large_as_its_workload_is_not_scaled() {
        for scale in ["fit", "1/4"] {
            let scaled = |set: &[&str]| {
                let mut sim = Sim::new("gen:zipf,size=8MiB,count=2k");
                sim.option("scale", scale).unwrap();
                sim.set = set.iter().map(|pair| pair.to_string()).collect();
                crate::Experiment::new(&sim.scenario()?).map(|_| ())
            };
            let error = scaled(&[]).unwrap_err().to_string();
            assert!(
                error.contains(&format!("scale = {scale}")) && error.contains("--ssd"),
                "{error}"
            );
            scaled(&["capacity=1 GiB"]).unwrap();
        }
    }

    /// A policy that draws has the hits of its run: of the run's seed, not of none.
    #[test]
    fn hits_of_a_policy_that_draws_are_those_of_the_runs_seed() {
        let hits = |seed: &str| {
            let mut sim = Sim::new("gen:zipf,size=8MiB,read=0,seed=5,count=5k");
            sim.option("seed", seed).unwrap();
            sim.policies = Some(vec!["pt-lru".to_string()]);
            sim.buffers = Some(vec!["1M".to_string()]);
            let nobody = crate::replay::Watch::nobody();
            let alone = sim.hits(None, nobody).unwrap().count(1, nobody).unwrap();
            sim.option("mode", "closed").unwrap();
            let experiment = crate::Experiment::new(&sim.scenario().unwrap()).unwrap();
            let run = experiment.run(1, "test", nobody).unwrap().value();
            let (units, hits) = alone.rows[0].accesses(None);
            let total = run["results"][0]["hit_ratio"]["total"].as_f64().unwrap();
            assert!(
                (hits as f64 / units as f64 - total).abs() < 1e-6,
                "{hits} of {units}, {total}"
            );
            hits
        };
        assert_ne!(hits("1"), hits("2"));
    }

    #[test]
    fn every_option_sets_a_key_that_there_is() {
        let mut sim = Sim::new("@demo");
        assert!(
            sim.option("depth", "3").unwrap_err().to_string().contains("expected one of scale")
        );
        for (_, key) in OPTIONS {
            // A value that no key takes is refused for its value.
            let error = Scenario::default().set(key, "?").err().map(|e| e.to_string());
            assert!(error.is_none_or(|e| !e.contains("unknown key")), "{key}");
        }
    }

    #[test]
    fn a_drive_of_ones_own_takes_the_place_of_the_demos() {
        let mut sim = Sim::new(DEMO_NAME);
        assert!(sim.scenario().unwrap().to_toml().unwrap().contains("208 MiB"));
        sim.ssd = Some("femu-default".to_string());
        sim.option("scale", "1/64").unwrap();
        assert!(!sim.scenario().unwrap().to_toml().unwrap().contains("208 MiB"));
    }
}
