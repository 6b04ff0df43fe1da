//! Hits alone: all policies and sizes over one reading of the workload.

use block::Bytes;
use report::json::Json;
use ssd::PolicySpec;
use stack::description::text_of;

use super::Sim;
use crate::files::Reads;
use crate::hits::{Cell, HitPlan, Hits, SCHEMA, Sample, count, document};
use crate::replay::Watch;
use crate::scenario::{Scenario, share_of, twice};
use crate::{Experiment, LabError};

/// A count of hits that was checked as a whole.
pub struct HitCount {
    experiment: Experiment,
    plan: HitPlan,
    seed: u64,
}

impl Sim {
    /// What counts its hits: of the policies and sizes that are asked for, else of those of the
    /// drive; with `curve`, the miss-ratio curve of LRU too (`exact`, or of a sample such as
    /// `1/100`).
    ///
    /// # Errors
    /// What was found and what was expected; [`LabError::Interrupted`].
    pub fn hits(&self, curve: Option<&str>, watch: Watch<'_>) -> Result<HitCount, LabError> {
        let mut scenario = self.untitled(true)?;
        self.only_what_counts(&scenario)?;
        scenario.sweeps.clear();
        let seed = scenario.seeds.first().copied().unwrap_or(1);
        let experiment = Experiment::watched(&scenario, watch)?;
        let mut params = experiment.points()[0].config.resolve()?;
        // A drive may say it, too.
        if params.buffer.write_through {
            return Err(of_runs("buffer.write", "through"));
        }
        // Policies draw as they do in a run of that seed.
        params.seed = seed;
        let capacity = Bytes(u64::from(params.logical_pages) * 4096);
        let policies = match &self.policies {
            Some(policies) => policies.clone(),
            None => vec![params.buffer.policy.to_string()],
        };
        let mut sizes = Vec::new();
        for text in self.buffers.iter().flatten() {
            sizes.push(size(text, capacity)?);
        }
        if sizes.is_empty() {
            sizes.push(params.buffer.size);
        }
        // None of them is in the scenario that was checked.
        let mut largest = params.clone();
        largest.buffer.size = sizes.iter().copied().max().unwrap_or(largest.buffer.size);
        crate::memory::check(&largest, false)?;
        if let Some(policy) = twice(&policies) {
            return Err(LabError::Input(format!("--policy {policy}: it is there twice")));
        }
        if let Some(size) = twice(&sizes) {
            return Err(LabError::Input(format!("--buffer {}: it is there twice", size.human())));
        }
        let read = |text: &String| {
            PolicySpec::parse(text).map_err(|e| LabError::Input(format!("--policy {text}: {e}")))
        };
        let policies = policies.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let cells = policies.iter().flat_map(|policy| {
            sizes.iter().map(|size| Cell { policy: policy.clone(), size: *size })
        });
        let plan = HitPlan {
            cells: cells.collect(),
            capacity,
            shape: params.buffer_shape(),
            discards: true,
            threads: 1,
            curve: curve.map(sample).transpose()?,
        };
        Ok(HitCount { experiment, plan, seed })
    }
}

impl Sim {
    /// What would be another number in a run, and is none here, is not passed over in silence.
    fn only_what_counts(&self, scenario: &Scenario) -> Result<(), LabError> {
        let options = self.options.iter().map(|(key, text)| (*key, text.as_str()));
        let pairs = self.set.iter().filter_map(|pair| pair.split_once('='));
        for (key, text) in options.chain(pairs.map(|(key, text)| (key.trim(), text.trim()))) {
            let is_of_runs = match key.strip_prefix("drive.").unwrap_or(key) {
                // The order of accesses is all that counts, and the buffer begins empty.
                "replay.slowdown" | "replay.per-app" => text == "on",
                key if key.starts_with("replay.") => true,
                "buffer.write" => text == "through",
                key => key.starts_with("sweep."),
            };
            if is_of_runs {
                return Err(of_runs(key, text));
            }
        }
        // What is above the drive asks it for other blocks.
        let layers = scenario.stack.layers();
        if !layers.is_empty() {
            return Err(of_runs("stack", &text_of(&layers)));
        }
        match scenario.seeds.len() {
            0 | 1 => Ok(()),
            n => Err(LabError::Input(format!("--seed: --hits counts one, found {n}"))),
        }
    }
}

fn of_runs(key: &str, text: &str) -> LabError {
    LabError::Input(format!("{key} = {text}: of runs; --hits counts all accesses, once"))
}

impl HitCount {
    /// The files that it reads.
    pub fn reads(&self) -> Vec<Reads> {
        self.experiment.scenario().reads()
    }

    /// Requests that the workload has, if that is known.
    pub fn requests(&self) -> Option<u64> {
        self.experiment.workload(&self.experiment.points()[0]).requests()
    }

    /// Counts on `threads` threads.
    ///
    /// # Errors
    /// As [`count`].
    pub fn count(&self, threads: usize, watch: Watch<'_>) -> Result<Hits, LabError> {
        let plan = HitPlan { threads, ..self.plan.clone() };
        let workload = self.experiment.workload(&self.experiment.points()[0]);
        count(&plan, &|| workload.open(self.seed, plan.capacity), watch)
    }

    /// The document of what was counted; `version` goes into it.
    pub fn document(&self, found: &Hits, version: &str) -> Json {
        document(self.experiment.heading(SCHEMA, version), found)
    }
}

fn size(text: &str, capacity: Bytes) -> Result<Bytes, LabError> {
    match text.ends_with('%') {
        true => share_of(text, capacity).ok_or_else(|| {
            LabError::Input(format!("--buffer {text}: expected a share such as 1 %"))
        }),
        false => block::parse_size(text)
            .map_err(|e| LabError::Input(format!("--buffer {text}: expected {}", e.expected))),
    }
}

fn sample(text: &str) -> Result<Sample, LabError> {
    if text == "exact" {
        return Ok(Sample::All);
    }
    let one_in = text.strip_prefix("1/").and_then(|n| n.parse().ok()).filter(|n| *n > 1);
    one_in.map(Sample::OneIn).ok_or_else(|| {
        LabError::Input(format!("--curve {text}: expected exact, or a share such as 1/100"))
    })
}
