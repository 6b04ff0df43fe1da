//! What was counted, as a document.

use super::{Hits, Sample};
use report::json::{Json, Map, MapExt};

/// The schema of [`document`].
pub const SCHEMA: &str = "varve.hits/1";

/// The rows and the curve of a count, after what the experiment says of itself.
pub fn document(mut map: Map, hits: &Hits) -> Json {
    map.int("accesses", hits.accesses);
    map.maybe("distinct_pages", hits.distinct.map(Json::Int));
    let rows = hits.rows.iter().map(|row| {
        let mut one = Map::new();
        one.put("policy", Json::text(row.cell.policy.text()));
        one.int("buffer_bytes", row.cell.size.0);
        one.int("entries", row.entries);
        let (units, hit) = row.accesses(None);
        one.int("unit_accesses", units);
        one.int("unit_hits", hit);
        one.int("nand_reads", row.reads());
        one.int("dirty_evictions", row.buffer.dirty_evictions);
        one.int("clean_evictions", row.buffer.clean_evictions);
        one.int("flushed", row.buffer.flushed);
        one.int("padded", row.buffer.padded);
        let each = row.apps.iter().enumerate().map(|(at, app)| {
            let mut one = Map::new();
            one.int("app", at as u64);
            one.int("read_units", app.read_units);
            one.int("read_hits", app.read_hits);
            one.int("write_units", app.write_units);
            one.int("write_hits", app.write_hits);
            Json::Map(one)
        });
        one.put("apps", Json::List(each.collect()));
        let lists = row.occupancy.iter().map(|(name, n)| {
            let mut one = Map::new();
            one.put("list", Json::text(*name));
            one.int("count", *n as u64);
            Json::Map(one)
        });
        one.put("occupancy", Json::List(lists.collect()));
        Json::Map(one)
    });
    map.put("results", Json::List(rows.collect()));
    if let Some(curve) = &hits.curve {
        let mut one = Map::new();
        one.put("policy", Json::text("lru"));
        match curve.sample() {
            Sample::All => one.put("sample", Json::text("all")),
            Sample::OneIn(n) => one.put("sample", Json::text(format!("1/{n}"))),
        }
        let points = curve.points().into_iter().map(|point| {
            let mut one = Map::new();
            one.int("entries", point.entries);
            one.int("misses", point.misses);
            one.put("standard_error", Json::Millionths(point.error));
            Json::Map(one)
        });
        one.put("points", Json::List(points.collect()));
        map.put("curve", Json::Map(one));
    }
    Json::Map(map)
}
