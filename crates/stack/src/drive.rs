//! The modelled drive at the bottom of a stack that holds data.

use ssd::{Config, Origin, Params};

use crate::StackError;

/// The drive of `drive(PRESET, KEY=VALUE..)`, which comes back after a power cut.
///
/// # Errors
/// A preset or a key that is not there, keys that make no drive.
pub fn drive_params(preset: &str, keys: &[(String, String)]) -> Result<Params, StackError> {
    let mut config: Config = ssd::preset(preset)?.config;
    let origin = |from: &str| Origin { from: from.to_string(), source: None, tag: None };
    for (key, value) in keys {
        match &**key {
            "scale" => config.scale(value, "the stack")?,
            _ => config.set(key, value, origin("the stack"))?,
        }
    }
    config.set("nand.oob", "full", origin("serve"))?;
    Ok(config.resolve()?)
}
