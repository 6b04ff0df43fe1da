//! What runs have in common beside the keys of their drive that are swept: a workload, a base of the
//! drive, a way to replay. A scenario that sweeps only keys of the drive has one setting; one that
//! sweeps traces, presets or the replay has one for each combination of these.
//!
//! A heading says once what all settings have in common, and of each setting the rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{Bytes, UNIT_BYTES};
use ssd::{Config, Origin};

use crate::LabError;
use crate::chosen::scale_json;
use crate::input::Prepared;
use crate::replay::{Mode, ONE_QUEUE, Shares, Watch};
use crate::result::{config_json, replay_json, stack_json};
use crate::scenario::{Replay, Scenario, Sweep};
use report::json::{Json, Map, MapExt};
use stack::description::text_of;

/// Grain of a drive sized to its workload.
const SIZED_GRAIN: u64 = 1 << 20;

/// A setting that was checked as far as it can be without the keys that are swept.
pub(crate) struct Setting {
    /// The swept keys that it is of, and their values.
    pub params: Vec<(String, String)>,
    /// The scenario without these sweeps, its drive settled.
    pub scenario: Scenario,
    /// Its workload.
    pub prepared: Arc<Prepared>,
    /// Its drive before keys of the drive are swept.
    pub base: Config,
    /// Commands that its drive takes at a time.
    pub queue_depth: u32,
}

/// Workloads that were read once, by what they are: presets that are swept share them.
pub(crate) struct Workloads<'w> {
    known: BTreeMap<String, Arc<Prepared>>,
    watch: Watch<'w>,
}

impl<'w> Workloads<'w> {
    /// None yet; reading one may be stopped.
    pub fn new(watch: Watch<'w>) -> Workloads<'w> {
        Workloads { known: BTreeMap::new(), watch }
    }

    fn prepare(&mut self, scenario: &Scenario, seed: u64) -> Result<Arc<Prepared>, LabError> {
        let key = format!("{:?}", scenario.workload);
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let prepared = Arc::new(scenario.workload.prepare_watched(seed, self.watch)?);
        self.known.insert(key, prepared.clone());
        Ok(prepared)
    }
}

impl Setting {
    /// Checks a setting: that of these values of the scenario's sweeps that are no drive's keys.
    ///
    /// # Errors
    /// Whatever is wrong with it.
    pub fn new(
        scenario: &Scenario,
        values: &[(&Sweep, &str)],
        workloads: &mut Workloads<'_>,
    ) -> Result<Setting, LabError> {
        let scenario = scenario.with(values)?;
        scenario.check()?;
        if !scenario.fits_drive() {
            // What is wrong with the drive is told before a long trace is read.
            scenario.config()?;
        }
        let first = scenario.seeds.first().copied().unwrap_or(1);
        let prepared = workloads.prepare(&scenario, first)?;
        let scenario = scenario.settled(prepared.extent())?;
        let mut base = scenario.config()?;
        prepared.check_mode(scenario.replay.mode)?;
        prepared.shares(&scenario.replay)?;
        if prepared.files().is_none() {
            size_to_workload(&mut base, prepared.extent())?;
        }
        let params = values.iter().map(|(sweep, text)| (sweep.key.clone(), sweep.label(text)));
        let params = params.collect();
        Ok(Setting { params, scenario, prepared, base, queue_depth: 0 })
    }

    /// What a document's heading says of it.
    fn facts(&self, with_replay: bool) -> Map {
        let mut map = Map::new();
        map.put("config", config_json(&self.base));
        map.maybe("scale", self.base.scaled().map(scale_json));
        let stack = &self.scenario.stack;
        if !stack.keys().is_empty() {
            map.put("remap", stack_json(stack));
        }
        if !stack.written().is_empty() {
            map.put("layers", Json::text(text_of(stack.written())));
        }
        map.put("workload", self.prepared.to_json());
        if with_replay && self.prepared.files().is_none() {
            map.put("replay", replay_json(&self.scenario.replay, self.queue_depth));
        }
        map
    }
}

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
pub(crate) fn capacity(config: &Config) -> Result<Bytes, LabError> {
    Ok(Bytes(u64::from(config.resolve()?.logical_pages) * UNIT_BYTES))
}

/// What the headings of all settings have in common stands in the document; the rest in `settings`.
pub(crate) fn heading(settings: &[&Setting], with_replay: bool) -> Map {
    let facts: Vec<Map> = settings.iter().map(|setting| setting.facts(with_replay)).collect();
    let [first, others @ ..] = facts.as_slice() else { return Map::new() };
    if others.is_empty() {
        return first.clone();
    }
    let common = |key: &str, value: &Json| others.iter().all(|map| map.get(key) == Some(value));
    let mut shared: Map = first
        .iter()
        .filter(|(key, value)| key.as_str() != "config" && common(key, value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let config = |map: &Map| map.get("config").and_then(Json::as_map).cloned().unwrap_or_default();
    let configs: Vec<Map> = facts.iter().map(config).collect();
    let mut same = configs[0].clone();
    same.retain(|key, value| configs.iter().all(|config| config.get(key) == Some(value)));
    let mut list = Vec::with_capacity(facts.len());
    for ((mut own, mut config), setting) in facts.into_iter().zip(configs).zip(settings) {
        own.retain(|key, _| !shared.contains_key(key));
        config.retain(|key, _| !same.contains_key(key));
        own.put("config", Json::Map(config));
        let params = setting.params.iter().map(|(key, text)| (key.clone(), Json::text(text)));
        own.put("params", Json::Map(params.collect()));
        list.push(Json::Map(own));
    }
    shared.put("config", Json::Map(same));
    shared.put("settings", Json::List(list));
    shared
}

impl Prepared {
    /// The queues that a replay has for its applications; `None`: one for all.
    pub(crate) fn shares(&self, replay: &Replay) -> Result<Option<Shares>, LabError> {
        let text = replay.share.as_deref().unwrap_or(ONE_QUEUE);
        Shares::parse(text, &self.survey.apps).map_err(LabError::Input)
    }

    /// Refuses a mode the workload cannot be replayed in.
    fn check_mode(&self, mode: Mode) -> Result<(), LabError> {
        if let (Mode::Open | Mode::Dependent, Some(what)) = (mode, self.untimed()?) {
            let what = format!("{what} has no times: expected mode closed or untimed");
            return Err(LabError::Input(what));
        }
        Ok(())
    }
}
