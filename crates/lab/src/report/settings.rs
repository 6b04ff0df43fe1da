//! What a document says of the setting of a run: common to all settings, or of this one alone.

use serde_json::Value;

/// The part of a document that holds for the setting of a run, beside what holds for all.
pub fn setting_of<'a>(document: &'a Value, run: &Value) -> Option<&'a Value> {
    let settings = document["settings"].as_array()?;
    settings.iter().find(|setting| {
        let mut params = setting["params"].as_object().into_iter().flatten();
        params.all(|(key, value)| run["params"].get(key) == Some(value))
    })
}

/// The value of a key of the drive in a run, if it is not swept.
pub fn config_text<'a>(document: &'a Value, run: &Value, key: &str) -> Option<&'a str> {
    let value = |of: &'a Value| of["config"][key]["value"].as_str();
    value(document).or_else(|| value(setting_of(document, run)?))
}

/// By what the drive of a run was scaled, if it was.
pub fn scaled_by<'a>(document: &'a Value, run: &Value) -> Option<&'a str> {
    let by = |of: &'a Value| of["scale"]["by"].as_str();
    by(document).or_else(|| by(setting_of(document, run)?))
}

/// The document, or each of its settings if it has several: whoever has a workload and a replay.
pub fn parts(document: &Value) -> Vec<&Value> {
    let settings = document["settings"].as_array().into_iter().flatten();
    std::iter::once(document).chain(settings).collect()
}

/// Runs that cannot be: their names, and why.
pub fn impossible(document: &Value) -> Vec<(&str, &str)> {
    let runs = document["results"].as_array().into_iter().flatten();
    runs.filter_map(|run| Some((run["name"].as_str()?, run["impossible"].as_str()?))).collect()
}

/// What a setting is called: its swept keys and their values.
pub fn setting_name(setting: &Value) -> String {
    let params = setting["params"].as_object().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    params.map(|(key, value)| format!("{key}={}", text(value))).collect::<Vec<_>>().join(" ")
}
