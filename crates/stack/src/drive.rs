//! The modelled drive at the bottom of a stack: a preset, and what of it is said otherwise.

use ssd::{Config, ConfigError, Origin, Params};

use crate::StackError;

/// A preset with keys set, `scale` among them; `from` is who says so, for errors. In whatever order they
/// stand, the scale is of the preset: a key that is named here is as it is named.
///
/// # Errors
/// A preset or a key that is not there, a scale that leaves no drive.
pub fn drive_config<'a>(
    preset: &str,
    keys: impl IntoIterator<Item = (&'a str, &'a str)>,
    from: &str,
) -> Result<Config, ConfigError> {
    let mut config = ssd::preset(preset)?.config;
    let (mut scale, mut named) = (None, Vec::new());
    for (key, value) in keys {
        if key == "scale" {
            scale = Some(value);
            continue;
        }
        let origin = Origin { from: from.to_string(), source: None, tag: None };
        config.set(key, value, origin)?;
        named.push(key);
    }
    if let Some(scale) = scale {
        config.scale_but(scale, from, &named)?;
    }
    Ok(config)
}

/// The drive of `drive(PRESET, KEY=VALUE..)`, which holds data and comes back after a power cut.
///
/// # Errors
/// A preset or a key that is not there, keys that make no drive.
pub fn drive_params(preset: &str, keys: &[(String, String)]) -> Result<Params, StackError> {
    let keys = keys.iter().map(|(key, value)| (&**key, &**value));
    let mut config = drive_config(preset, keys, "the stack")?;
    let origin = Origin { from: "serve".to_string(), source: None, tag: None };
    config.set("nand.oob", "full", origin)?;
    Ok(config.resolve()?)
}
