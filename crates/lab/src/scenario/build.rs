//! What each key of a scenario means.

use std::collections::BTreeMap;

use block::Bytes;
use ssd::{Config, Origin as ValueOrigin};
use workload::read::ReadOptions;

use super::{Base, DEFAULT_DEPTH, Entry, FIT, Place, Scenario, Sweep};
use crate::input::{Origin, READING_KEYS, TenantSpec, TraceFile, set_reading};
use crate::replay::{MeasureAfter, Mode};
use stack::rules::{self, Top, World};
use stack::{Description, Layer, StackError};

use crate::fileload::FilesSpec;
use crate::{LabError, StackConfig};

const WORKLOAD_KEYS: &[&str] =
    &["trace", "gen", "files", "fit", "drop-flushes", "map", "ratio", "end"];
const REPLAY_KEYS: &[&str] = &[
    "mode",
    "qd",
    "per-app",
    "speed",
    "precondition",
    "preload",
    "measure-after",
    "flush-every",
    "share",
    "slowdown",
];
const TENANT_KEYS: &[&str] = &["trace", "gen", "stretch", "loop", "loop-discard"];
const TOP: &[&str] =
    &["title", "seed", "drive", "remap", "stack", "workload", "tenant", "replay", "sweep"];

/// Whether a key is the scenario's own: every other one belongs to the drive.
pub(super) fn is_scenario_key(key: &str) -> bool {
    TOP.contains(&key.split('.').next().unwrap_or(key))
}

/// Keys of a workload or a tenant, with those of how its traces are read.
fn with_reading(keys: &[&'static str]) -> Vec<&'static str> {
    [keys, &READING_KEYS].concat()
}

/// `found` among `known`, or the error that lists them.
fn unknown(entry: &Entry, found: &str, known: &[&str]) -> LabError {
    entry.place.error(format!("unknown key `{found}`; expected one of {}", known.join(", ")))
}

/// The first member of a list that is there twice.
pub fn twice<T: Ord>(list: &[T]) -> Option<&T> {
    let mut seen = std::collections::BTreeSet::new();
    list.iter().find(|member| !seen.insert(*member))
}

/// `3`, `1..5` (both ends included).
fn seeds(entry: &Entry) -> Result<Vec<u64>, LabError> {
    let mut seeds = Vec::new();
    for text in &entry.values {
        let wrong = || {
            entry.error(format!("found `{text}`, expected seeds such as `7`, `1..5` or `1,2,3`"))
        };
        match text.split_once("..") {
            None => seeds.push(text.parse().map_err(|_| wrong())?),
            Some((low, high)) => {
                let low: u64 = low.trim().parse().map_err(|_| wrong())?;
                let high: u64 = high.trim().trim_start_matches('=').parse().map_err(|_| wrong())?;
                if low > high || high - low >= 10_000 {
                    return Err(wrong());
                }
                seeds.extend(low..=high);
            }
        }
    }
    if seeds.is_empty() {
        return Err(entry.error("expected at least one seed"));
    }
    if let Some(seed) = twice(&seeds) {
        return Err(entry.error(format!(
            "seed {seed} is there twice: the same run again says nothing about the spread"
        )));
    }
    Ok(seeds)
}

impl Scenario {
    /// Takes in one key.
    pub(super) fn apply(&mut self, entry: Entry) -> Result<(), LabError> {
        let (head, rest) = entry.key.split_once('.').unwrap_or((&entry.key, ""));
        match (head, rest) {
            ("title", "") => self.title = entry.one()?.to_string(),
            ("seed", "") => self.seeds = seeds(&entry)?,
            ("drive", "preset") => {
                let name = entry.one()?.to_string();
                ssd::preset(&name).map_err(|e| entry.place.error(e.to_string()))?;
                self.base = Some((Base::Preset(name), entry.place.clone()));
            }
            ("drive", "file") => {
                let path = self.folder.join(entry.one()?);
                self.base = Some((Base::File(path), entry.place.clone()));
            }
            ("drive", "scale") => {
                self.scale = Some((entry.one()?.to_string(), entry.place.clone()));
            }
            ("drive", "scaled") => {
                let by = entry.one()?.to_string();
                Config::default().was_scaled(&by, "", &[]).map_err(|_| {
                    entry.error(format!("found `{by}`, expected 1/n, such as `1/64`"))
                })?;
                self.scaled = Some((by, entry.place.clone()));
            }
            ("drive", key) if !key.is_empty() => {
                let key = key.to_string();
                check_drive(&entry, &key)?;
                self.drive.push(Entry { key, ..entry });
            }
            ("remap", key) if !key.is_empty() => {
                self.stack.set(key, entry.one()?).map_err(|what| entry.error(what))?;
            }
            ("stack", "") => self.stack_text(&entry)?,
            ("workload", key) if with_reading(WORKLOAD_KEYS).contains(&key) => {
                self.workload_key(&entry, key)?;
            }
            ("workload", key) => return Err(unknown(&entry, key, &with_reading(WORKLOAD_KEYS))),
            ("tenant", rest) => self.tenant_key(&entry, rest)?,
            ("replay", key) if REPLAY_KEYS.contains(&key) => self.replay_key(&entry, key)?,
            ("replay", key) => return Err(unknown(&entry, key, REPLAY_KEYS)),
            ("sweep", key) if !key.is_empty() => {
                let sweep = Sweep::new(self, &entry, key)?;
                self.sweeps.push(sweep);
            }
            _ => return Err(unknown(&entry, &entry.key, TOP)),
        }
        Ok(())
    }

    /// A whole stack in one text: its drive as if written under `drive`, and the layers above it. One
    /// that begins with `+` has the drive that is written there.
    fn stack_text(&mut self, entry: &Entry) -> Result<(), LabError> {
        let wrong = |error: StackError| entry.place.error(error.to_string());
        let text = entry.one()?.trim();
        if text.starts_with('+') {
            self.stack.write(crate::layers::above(text).map_err(|what| entry.error(what))?);
            return Ok(());
        }
        let described: Description = text.parse().map_err(wrong)?;
        rules::check(&described, World::Modelled, Top::Files).map_err(wrong)?;
        let stack::Base::Drive { preset, keys } = described.base else {
            let what = format!("found `{}` at the bottom, expected drive(PRESET)", described.base);
            return Err(entry.error(what));
        };
        let as_if =
            |key: String, value: String| Entry { key, values: vec![value], ..entry.clone() };
        self.apply(as_if("drive.preset".to_string(), preset))?;
        for (key, value) in keys {
            self.apply(as_if(format!("drive.{key}"), value))?;
        }
        self.stack.write(described.layers);
        Ok(())
    }

    fn origin(&self, entry: &Entry, is_recipe: bool) -> Result<Origin, LabError> {
        if is_recipe {
            let text = entry.one()?.to_string();
            let parsed = workload::generate::parse_recipe(&text, 0);
            parsed.map_err(|e| entry.error(e))?;
            return Ok(Origin::Recipe(text));
        }
        match entry.values.as_slice() {
            [] => Err(entry.error("expected at least one file")),
            [one] => Origin::parse(one, &self.folder).map_err(|what| entry.error(what)),
            many => {
                let files = many.iter().map(|text| TraceFile::parse(text, &self.folder));
                let files = files.collect::<Result<_, _>>();
                Ok(Origin::Files(files.map_err(|what| entry.error(what))?))
            }
        }
    }

    fn workload_key(&mut self, entry: &Entry, key: &str) -> Result<(), LabError> {
        let text = || entry.one().map(str::to_string);
        match key {
            "trace" => self.workload.origin = Some(self.origin(entry, false)?),
            "gen" => self.workload.origin = Some(self.origin(entry, true)?),
            "files" => {
                let spec = FilesSpec::read(entry.one()?).map_err(|what| entry.error(what))?;
                self.workload.files = Some(spec);
            }
            "fit" => self.workload.fit = entry.parse()?,
            "drop-flushes" => self.workload.drop_flushes = entry.flag()?,
            "map" => self.workload.map = Some(text()?),
            "ratio" => self.workload.ratio = Some(text()?),
            "end" => self.workload.end = Some(text()?),
            _ => {}
        }
        if READING_KEYS.contains(&key) {
            let read = set_reading(&mut self.workload.options, key, entry.one()?);
            read.map_err(|what| entry.error(what))?;
        }
        Ok(())
    }

    fn tenant_key(&mut self, entry: &Entry, rest: &str) -> Result<(), LabError> {
        let Some((name, key)) = rest.rsplit_once('.') else {
            return Err(entry.place.error("expected tables `[tenant.NAME]`"));
        };
        let known = with_reading(TENANT_KEYS);
        if !known.contains(&key) {
            return Err(unknown(entry, key, &known));
        }
        let origin = match key {
            "trace" | "gen" => Some(self.origin(entry, key == "gen")?),
            _ => None,
        };
        let index = match self.workload.tenants.iter().position(|t| t.name == name) {
            Some(index) => index,
            None => {
                self.workload.tenants.push(TenantSpec {
                    name: name.to_string(),
                    origin: Origin::Files(Vec::new()),
                    reading: Vec::new(),
                    stretch: None,
                    rounds: 1,
                    round_discard: true,
                });
                self.workload.tenants.len() - 1
            }
        };
        let tenant = &mut self.workload.tenants[index];
        match key {
            "stretch" => tenant.stretch = Some(entry.one()?.to_string()),
            "loop" => tenant.rounds = entry.count(1)?,
            "loop-discard" => tenant.round_discard = entry.flag()?,
            key if READING_KEYS.contains(&key) => {
                let text = entry.one()?;
                let tried = set_reading(&mut ReadOptions::default(), key, text);
                tried.map_err(|what| entry.error(what))?;
                tenant.reading.retain(|(known, _)| known != key);
                tenant.reading.push((key.to_string(), text.to_string()));
            }
            _ => tenant.origin = origin.unwrap_or_else(|| tenant.origin.clone()),
        }
        Ok(())
    }

    fn replay_key(&mut self, entry: &Entry, key: &str) -> Result<(), LabError> {
        match key {
            "mode" => {
                let mode = entry.one()?;
                if !["open", "closed", "dependent", "untimed"].contains(&mode) {
                    let what = format!("found `{mode}`, expected open, closed, dependent, untimed");
                    return Err(entry.error(what));
                }
                self.mode = Some(mode.to_string());
            }
            "qd" => {
                let depth = entry.count(1)?;
                let depth = u32::try_from(depth).ok().filter(|d| *d <= 1 << 16);
                self.depth = Some(depth.ok_or_else(|| entry.error("expected at most 65536"))?);
            }
            "per-app" => self.per_app = entry.flag()?,
            "speed" => self.replay.speed = entry.parse()?,
            "precondition" => self.replay.precondition = entry.parse()?,
            "preload" => match entry.one()? {
                "none" => self.replay.preload = false,
                "reads" => self.replay.preload = true,
                other => {
                    return Err(entry.error(format!("found `{other}`, expected none or reads")));
                }
            },
            "measure-after" => self.replay.measure_after = Some(entry.parse()?),
            // Whose names these are is known with the workload.
            "share" => self.replay.share = Some(entry.one()?.to_string()),
            "slowdown" => self.replay.slowdown = entry.flag()?,
            _ => self.replay.flush_every = Some(entry.count(1)?),
        }
        self.settle_mode();
        Ok(())
    }

    /// A depth without a mode means closed; closed without a depth has the default one.
    fn settle_mode(&mut self) {
        let closed =
            Mode::Closed { depth: self.depth.unwrap_or(DEFAULT_DEPTH), per_app: self.per_app };
        self.replay.mode = match self.mode.as_deref() {
            Some("open") => Mode::Open,
            Some("dependent") => Mode::Dependent,
            Some("untimed") => Mode::Untimed,
            Some(_) => closed,
            None if self.depth.is_some() => closed,
            None => Mode::Open,
        };
    }

    /// Checks what only the whole can tell: knobs without an effect are refused.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        let closed = matches!(self.replay.mode, Mode::Closed { .. });
        let fail = |what: &str| Err(LabError::Input(what.to_string()));
        if !closed && (self.depth.is_some() || self.per_app) {
            return fail("`qd` and `per-app` have no effect: expected mode closed");
        }
        if self.replay.mode == Mode::Untimed && self.replay.share.is_some() {
            return fail("`share` has no effect: expected mode open, closed or dependent");
        }
        if self.replay.slowdown {
            if self.replay.mode == Mode::Untimed {
                return fail("`slowdown`: expected mode open, closed or dependent");
            }
            if let Some(MeasureAfter::Requests(_)) = self.replay.measure_after {
                return fail(
                    "`slowdown`: expected `measure-after` as a time, alone there are fewer requests",
                );
            }
        }
        let layers = self.stack.layers();
        if self.workload.files.is_some() {
            let replay = &self.replay;
            let replayed = self.mode.is_some()
                || replay.preload
                || replay.measure_after.is_some()
                || replay.flush_every.is_some()
                || replay.share.is_some()
                || replay.slowdown
                || replay.precondition != crate::replay::Precondition::None;
            if replayed {
                return fail("keys of `replay` have no effect: a load of files is no replay");
            }
        } else if layers.iter().any(|layer| matches!(layer, Layer::Lfs(_))) {
            return fail("lfs: it has files: expected a load of them, workload.files");
        }
        let one = self.replay.speed == crate::replay::Speed::ONE;
        if !one && !matches!(self.replay.mode, Mode::Open | Mode::Dependent) {
            return fail("`speed` has no effect: expected mode open or dependent");
        }
        for tenant in &self.workload.tenants {
            if matches!(&tenant.origin, Origin::Files(paths) if paths.is_empty()) {
                let what = format!("tenant `{}`: expected `trace` or `gen`", tenant.name);
                return Err(LabError::Input(what));
            }
        }
        if self.workload.tenants.is_empty() {
            for (what, name) in [(&self.workload.map, "map"), (&self.workload.ratio, "ratio")] {
                if what.is_some() {
                    let what = format!("`{name}` has no effect: expected [tenant.NAME] tables");
                    return Err(LabError::Input(what));
                }
            }
        }
        Ok(())
    }
}

/// A share of the drive instead of a size.
pub fn share_of(text: &str, capacity: Bytes) -> Option<Bytes> {
    let number = text.trim().strip_suffix('%')?.trim();
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let plain = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || part.len() > 4 || !plain(whole) || !plain(part) {
        return None;
    }
    let per_million: u64 = format!("{whole}{part:0<4}").parse().ok()?;
    let bytes = u128::from(capacity.0) * u128::from(per_million) / 1_000_000;
    Some(Bytes(u64::try_from(bytes).ok()? / 4096 * 4096))
}

fn value_origin(entry: &Entry) -> ValueOrigin {
    if entry.is_edited() {
        // Neither is what was said of the other value true of this one.
        return ValueOrigin { from: entry.place.to_string(), source: None, tag: None };
    }
    ValueOrigin {
        from: entry.by.clone().unwrap_or_else(|| entry.place.to_string()),
        source: entry.source.clone(),
        tag: entry.tag.clone(),
    }
}

/// A drive's key and its value are checked where they stand.
fn check_drive(entry: &Entry, key: &str) -> Result<(), LabError> {
    Config::default().set(key, &entry.values.join(", "), value_origin(entry))?;
    Ok(())
}

/// A swept key of the drive, or of what stands above it, and its values are checked where they stand.
pub(super) fn check_swept(entry: &Entry, key: &str) -> Result<(), LabError> {
    for value in &entry.values {
        if let Some(key) = key.strip_prefix("remap.") {
            StackConfig::default().set(key, value).map_err(|what| entry.error(what))?;
            continue;
        }
        if key == "stack" {
            crate::layers::above(value).map_err(|what| entry.error(what))?;
            continue;
        }
        let share = key.ends_with("size") && share_of(value, Bytes(1 << 30)).is_some();
        if !share {
            Config::default().set(key, value, value_origin(entry))?;
        }
    }
    Ok(())
}

/// MQSim's device configurations are XML; no other drive is.
fn is_mqsim(path: &std::path::Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("xml"))
}

pub(super) fn notes(scenario: &Scenario) -> Result<Vec<String>, LabError> {
    match &scenario.base {
        Some((Base::File(path), _)) if is_mqsim(path) => {
            let imported = ssd::load_mqsim(path)?;
            let note = |u: ssd::Unmatched| {
                format!("{}:{}: {} = {}: {}", path.display(), u.line, u.key, u.value, u.reason)
            };
            Ok(imported.unmatched.into_iter().map(note).collect())
        }
        _ => Ok(Vec::new()),
    }
}

/// The drive: its base, then its own keys in order.
pub(super) fn config(scenario: &Scenario) -> Result<Config, LabError> {
    let mut config = match &scenario.base {
        None => Config::default(),
        Some((Base::Preset(name), _)) => ssd::preset(name)?.config,
        Some((Base::File(path), _)) if is_mqsim(path) => ssd::load_mqsim(path)?.config,
        Some((Base::File(path), _)) => ssd::load_file(path)?,
    };
    if let (Some(_), Some((by, place))) = (&scenario.scale, &scenario.scaled) {
        return Err(place.error(format!(
            "`scaled` = `{by}`: the values here are those of a drive that was scaled; expected no \
             other `scale`: scale the drive that it was made from"
        )));
    }
    if let Some((_, place)) = scenario.scale.as_ref().filter(|(text, _)| text == FIT) {
        return Err(place.error(format!(
            "scale = {FIT} is settled when a workload is run: expected 1/n, such as 1/64"
        )));
    }
    for entry in &scenario.drive {
        config.set(&entry.key, &entry.values.join(", "), value_origin(entry))?;
    }
    if let Some((text, place)) = &scenario.scale {
        has_size(&config, text, place)?;
        let named: Vec<&str> = scenario.drive.iter().map(|entry| entry.key.as_str()).collect();
        config.scale_but(text, &place.to_string(), &named)?;
    }
    mark_scaled(scenario, &mut config)?;
    Ok(config)
}

/// A drive that takes the size of its workload has none of its own to be made smaller.
pub(super) fn has_size(config: &Config, scale: &str, place: &Place) -> Result<(), LabError> {
    match config.text("capacity") == "0" && config.text("geometry.blocks") == "0" {
        true => Err(place.error(format!(
            "scale = {scale}: the drive takes the size of its workload, which leaves nothing to scale; expected a \
             drive of a size (`--ssd PRESET`, or `capacity`)"
        ))),
        false => Ok(()),
    }
}

/// A drive whose values were written down after it was scaled says so again.
fn mark_scaled(scenario: &Scenario, config: &mut Config) -> Result<(), LabError> {
    let mut before: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for entry in &scenario.drive {
        if scenario.scaled.is_none() && entry.was.is_some() {
            let expected = "expected `scaled = \"1/n\"` beside it";
            return Err(entry.error(format!("`was` without a scaled drive; {expected}")));
        }
        // The last one counts.
        let was = entry.was.as_deref().filter(|_| !entry.is_edited());
        before.insert(&entry.key, was);
    }
    let Some((by, place)) = &scenario.scaled else { return Ok(()) };
    let before: Vec<(String, String)> = before
        .into_iter()
        .filter_map(|(key, was)| Some((key.to_string(), was?.to_string())))
        .collect();
    config.was_scaled(by, &place.to_string(), &before)?;
    Ok(())
}
