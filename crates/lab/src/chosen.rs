//! What a drive came to from what was asked of it: its lines, and what scaling made smaller.

use ssd::{Config, Params, Scaled};

use report::json::{Json, Map, MapExt};

/// What the drive collects as a whole, how many of these there are and what for.
pub fn lines_json(config: &Config, params: &Params) -> Json {
    let mut map = Map::new();
    map.put("kind", Json::text(params.line.name()));
    let chosen = if config.text("line") == "auto" { "auto" } else { "named" };
    map.put("chosen", Json::text(chosen));
    map.int("count", u64::from(params.lines()));
    map.int("bytes", params.line_bytes());
    if let Some(budget) = params.line_budget() {
        map.int("needed", u64::from(budget.needed()));
        map.int("logical", u64::from(budget.logical));
        map.int("heads", u64::from(budget.heads));
        map.int("reserve", u64::from(budget.reserve));
        map.int("metadata", u64::from(budget.metadata));
    }
    Json::Map(map)
}

/// By what the drive was scaled, and each key with its text before and after.
pub fn scale_json(scaled: &Scaled) -> Json {
    let mut changed = Map::new();
    for (key, before, after) in &scaled.changed {
        let mut one = Map::new();
        one.put("from", Json::text(before));
        one.put("to", Json::text(after));
        changed.put(key, Json::Map(one));
    }
    let mut map = Map::new();
    map.put("by", Json::text(&scaled.by));
    map.put("changed", Json::Map(changed));
    Json::Map(map)
}
