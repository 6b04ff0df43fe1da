//! The result of one point, by itself: what a store holds, and what is carried from one machine to
//! another. A result that was damaged on the way is an error, not another result.

use report::json::{Json, Map, MapExt};

use super::identity::digest;

/// Name and version of a result's layout.
pub const POINT: &str = "varve.point/1";

/// The result of one point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The point's id.
    pub id: String,
    /// Its member of `results`.
    pub result: Json,
}

impl Finished {
    /// The result as text.
    pub fn text(&self) -> String {
        let mut map = Map::new();
        map.put("schema", Json::text(POINT));
        map.put("id", Json::text(&self.id));
        map.put("sha256", Json::text(digest(&self.result.pretty())));
        map.put("result", self.result.clone());
        Json::Map(map).pretty()
    }

    /// Reads a result.
    ///
    /// # Errors
    /// What is damaged, or no result.
    pub fn read(text: &str) -> Result<Finished, String> {
        let json = Json::read(text)?;
        let text = |key: &str| json.get(key).and_then(Json::as_text).unwrap_or_default();
        if text("schema") != POINT {
            return Err(format!("schema `{}`, expected `{POINT}`", text("schema")));
        }
        let result = json.get("result").ok_or("no `result`: expected the result of a point")?;
        let found = digest(&result.pretty());
        if found != text("sha256") {
            let said = text("sha256");
            return Err(format!("it is damaged: its digest is {found}, and it says {said}"));
        }
        Ok(Finished { id: text("id").to_string(), result: result.clone() })
    }
}
