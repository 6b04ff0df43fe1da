//! How traces are read, as keys and texts: those of a whole workload, and those of one tenant beside them.
//!
//! A key means the same wherever it stands. A tenant's own value counts before the workload's; what the
//! workload says of several traces is for those whose format knows it, and refused where none does.

use block::{parse_switch, parse_time};
use workload::SourceError;
use workload::read::{Carries, OfFormats, ReadOptions, SizeUnit, TimeUnit};
use workload::tenant::Order;

use super::{Origin, Prepared, TenantSpec, Workload, open_trace};
use crate::LabError;

/// The keys, in the order in which they are written down.
pub const READING_KEYS: [&str; 10] = [
    "format",
    "columns",
    "op-map",
    "app",
    "skip-bad",
    "align-shift",
    "app-is-comm",
    "time-unit",
    "size-unit",
    "sort-window",
];

const TIME_UNITS: [&str; 6] = ["ps", "ns", "100ns", "us", "ms", "s"];
const SIZE_UNITS: [&str; 4] = ["byte", "sector", "kib", "page"];

/// Sets a key of [`READING_KEYS`].
///
/// # Errors
/// What was expected of its value, or that there is no such key.
pub fn set(options: &mut ReadOptions, key: &str, text: &str) -> Result<(), String> {
    let own = || Some(text.to_string());
    match key {
        "format" => options.format = own(),
        "columns" => options.columns = own(),
        "op-map" => options.op_map = own(),
        "app" => options.app = own(),
        "skip-bad" => {
            let count = text.replace('_', "").parse().ok();
            options.skip_bad = count
                .ok_or_else(|| format!("found `{text}`, expected a whole number of at least 0"))?;
        }
        "app-is-comm" => {
            let wrong =
                |e: block::ParseUnitError| format!("found `{text}`, expected {}", e.expected);
            options.app_is_comm = parse_switch(text).map_err(wrong)?;
        }
        "time-unit" => {
            let unit = TimeUnit::parse(text);
            options.time_unit = Some(unit.ok_or("expected ps, ns, 100ns, us, ms or s")?);
        }
        "size-unit" => {
            let unit = SizeUnit::parse(text);
            options.size_unit = Some(unit.ok_or("expected byte, sector, kib or page")?);
        }
        "align-shift" => {
            options.align_shift =
                text.parse().map_err(|_| "expected a whole number of bytes".to_string())?;
        }
        "sort-window" => {
            options.sort_window = Some(parse_time(text).map_err(|e| e.to_string())?);
        }
        _ => return Err(format!("expected one of {}", READING_KEYS.join(", "))),
    }
    Ok(())
}

/// The keys that are set, with texts that set the same.
pub fn texts(options: &ReadOptions) -> Vec<(&'static str, String)> {
    let o = options;
    let time = |unit| TIME_UNITS.iter().find(|name| TimeUnit::parse(name) == Some(unit));
    let size = |unit| SIZE_UNITS.iter().find(|name| SizeUnit::parse(name) == Some(unit));
    let of = |key: &str| match key {
        "format" => o.format.clone(),
        "columns" => o.columns.clone(),
        "op-map" => o.op_map.clone(),
        "app" => o.app.clone(),
        "skip-bad" => (o.skip_bad > 0).then(|| o.skip_bad.to_string()),
        "align-shift" => (o.align_shift != 0).then(|| o.align_shift.to_string()),
        "app-is-comm" => o.app_is_comm.then(|| "on".to_string()),
        "time-unit" => o.time_unit.and_then(time).map(|name| name.to_string()),
        "size-unit" => o.size_unit.and_then(size).map(|name| name.to_string()),
        _ => o.sort_window.map(|window| format!("{} ps", window.as_ps())),
    };
    READING_KEYS.into_iter().filter_map(|key| Some((key, of(key)?))).collect()
}

/// A trace of a merge: what it is called, and its format.
type Read = (String, &'static str);

/// What the traces of one source say of their requests: whether their applications share one address space,
/// and what is known of each request.
pub(super) fn known(
    origin: &Origin,
    options: &ReadOptions,
) -> Result<(bool, Carries), SourceError> {
    let all = Carries::default();
    let Origin::Files(files) = origin else {
        return Ok((matches!(origin, Origin::Recipe(_)), all));
    };
    let (mut shared, mut carries) = (true, all);
    for file in files {
        let trace = open_trace(file, options)?;
        shared &= trace.is_shared();
        carries = carries.and(trace.carries());
    }
    Ok((shared, carries))
}

/// Refuses an option of some formats that none of the traces is in.
fn refuse_unknown(options: &ReadOptions, traces: &[Read]) -> Result<(), String> {
    let known = |(_, of): &OfFormats| traces.iter().any(|(_, format)| of.contains(format));
    let Some((option, of)) = options.of_some_formats().find(|option| !known(option)) else {
        return Ok(());
    };
    let found: Vec<String> =
        traces.iter().map(|(name, format)| format!("{name} in {format}")).collect();
    Err(format!("{option}: of {}; found {}", of.join(", "), found.join(", ")))
}

/// Sets what a tenant says of its traces.
fn own_reading(options: &mut ReadOptions, spec: &TenantSpec) -> Result<(), LabError> {
    for (key, text) in &spec.reading {
        let wrong = |what| LabError::Input(format!("tenant {}: `{key}`: {what}", spec.name));
        set(options, key, text).map_err(wrong)?;
    }
    Ok(())
}

impl Workload {
    /// How the files of a tenant are read.
    pub(super) fn reading(&self, spec: &TenantSpec) -> Result<ReadOptions, LabError> {
        let mut options = ReadOptions { for_several: true, ..self.options.clone() };
        own_reading(&mut options, spec)?;
        let named = |key| spec.reading.iter().any(|(own, _)| own == key);
        // Columns that are told of files of one source are those of each of them.
        let told = named("columns") && !named("format");
        if told || self.tenants.is_empty() && options.columns.is_some() && options.format.is_none()
        {
            options.format = Some("csv".to_string());
        }
        Ok(options)
    }

    /// Refuses to be told how something is read that no file is read for.
    pub(super) fn check_that_files_are_read(&self) -> Result<(), LabError> {
        let specs = self.specs();
        for spec in &specs {
            if let (Some(found), Some((key, _))) = (spec.origin.unread(), spec.reading.first()) {
                let what = format!("tenant {}: `{key}`: of trace files; found {found}", spec.name);
                return Err(LabError::Input(what));
            }
        }
        let found: Option<Vec<String>> = specs.iter().map(|spec| spec.origin.unread()).collect();
        match (found, texts(&self.options).first()) {
            (Some(found), Some((key, _))) if !found.is_empty() => {
                let what = format!("`{key}`: of trace files; found {}", found.join(", "));
                Err(LabError::Input(what))
            }
            _ => Ok(()),
        }
    }

    /// Refuses an option that no trace of the workload, or of the tenant that says it, is in a format for.
    pub(super) fn check_reading(&self) -> Result<(), LabError> {
        let mut all = Vec::new();
        for spec in self.specs() {
            let (mut own, mut read) = (ReadOptions::default(), Vec::new());
            own_reading(&mut own, &spec)?;
            let asked = self.options.of_some_formats().chain(own.of_some_formats()).next();
            if let (Origin::Files(files), Some(_)) = (&spec.origin, asked) {
                let options = self.reading(&spec)?;
                for file in files {
                    read.push((file.to_string(), open_trace(file, &options)?.format().name));
                }
            }
            let wrong = |what| LabError::Input(format!("tenant {}: {what}", spec.name));
            refuse_unknown(&own, &read).map_err(wrong)?;
            all.extend(read);
        }
        refuse_unknown(&self.options, &all).map_err(LabError::Input)
    }
}

impl Prepared {
    /// What is known of each request: of several applications, what is known of those of all.
    pub fn carries(&self) -> Carries {
        let first = self.survey.carries.unwrap_or_default();
        self.parts.iter().fold(first, |all, part| all.and(part.carries))
    }

    /// The trace whose requests have no times although they need some, for people. Where tenants take turns
    /// by a ratio, the times are those of the first.
    pub(crate) fn untimed(&self) -> Result<Option<String>, LabError> {
        if let Some(Carries { time: false, .. }) = self.survey.carries {
            let format = self.survey.format.unwrap_or("unknown");
            return Ok(Some(format!("a trace of format {format}")));
        }
        let specs = self.workload.specs();
        let leader = match self.workload.merge_config(&specs)?.order {
            Order::Ratio(share) => Some(share.leader),
            Order::Clock => None,
        };
        let mut parts = specs.iter().zip(&self.parts).enumerate();
        let untimed = parts.find(|(at, (_, part))| {
            !part.carries.time && leader.is_none_or(|leader| leader == *at)
        });
        Ok(untimed.map(|(_, (spec, _))| match self.workload.tenants.is_empty() {
            true => "a trace".to_string(),
            false => format!("tenant {}: its trace", spec.name),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_written_down_and_sets_the_same_again() {
        let given = [
            ("format", "csv"),
            ("columns", "off=1:byte,len=2:byte"),
            ("op-map", "R=0"),
            ("app", "a b"),
            ("skip-bad", "1000"),
            ("align-shift", "-512"),
            ("app-is-comm", "on"),
            ("time-unit", "100ns"),
            ("size-unit", "kib"),
            ("sort-window", "7000 ps"),
        ];
        let mut options = ReadOptions::default();
        assert!(texts(&options).is_empty());
        for (key, text) in given {
            set(&mut options, key, text).unwrap();
        }
        let written = texts(&options);
        let written: Vec<_> = written.iter().map(|(key, text)| (*key, text.as_str())).collect();
        assert_eq!(written, given);
        for (key, text) in
            [("skip-bad", "-1"), ("app-is-comm", "yes!"), ("size-unit", "x"), ("x", "")]
        {
            assert!(set(&mut options, key, text).unwrap_err().contains("expected"), "{key}");
        }
    }
}
