//! Drives and loads of the self-check.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use block::{BlockDevice, DeviceError, Lba, Request, SECTOR_BYTES, Sectors, Span, Time};
use ssd::{Config, ConfigError, Drive};

/// A configuration of the given `key=value` pairs over the defaults.
pub fn config(pairs: &[&str]) -> Result<Config, ConfigError> {
    let mut config = Config::default();
    for pair in pairs {
        config.set_pair(pair)?;
    }
    Ok(config)
}

/// Sets more `key=value` pairs.
pub fn with(config: &Config, pairs: &[&str]) -> Result<Config, ConfigError> {
    let mut config = config.clone();
    for pair in pairs {
        config.set_pair(pair)?;
    }
    Ok(config)
}

/// A drive of a configuration.
pub fn drive(config: &Config) -> Result<Drive, ConfigError> {
    Drive::new(&config.resolve()?)
}

/// The array, buses, link and firmware of a preset, without its buffer, map cache and cleaning:
/// the parts the closed forms of time speak of. Small, and every write goes through.
pub fn media(preset: &str) -> Result<Config, ConfigError> {
    let source = ssd::preset(preset)?.config;
    let mut config = Config::default();
    let parts = ["geometry.", "nand.", "bus.", "link.", "fw."];
    for (key, text, origin) in source.entries() {
        let part = parts.iter().any(|part| key.starts_with(part));
        if part && origin.from != "default" {
            config.set(key, text, origin.clone())?;
        }
    }
    let small = [
        "geometry.blocks=16",
        "op=100 %",
        "line=superblock",
        "nand.suspend=none",
        "buffer.policy=none",
        "buffer.write=through",
    ];
    with(&config, &small)
}

/// A read or a write of bytes.
pub fn request(read: bool, first: u64, bytes: u64) -> Request<'static> {
    let (lba, sectors) = (Lba(first / SECTOR_BYTES), Sectors(bytes / SECTOR_BYTES));
    if read { Request::read(lba, sectors) } else { Request::write(lba, sectors) }
}

/// Writes the first `bytes` of the drive in order, in requests of `grain`, taking no time.
pub fn fill(drive: &mut Drive, bytes: u64, grain: u64) -> Result<(), DeviceError> {
    drive.set_timing(false);
    let at = drive.now();
    for first in (0..bytes).step_by(grain as usize) {
        drive.submit(at, request(false, first, grain.min(bytes - first)))?;
    }
    drive.submit(at, Request::flush())?;
    drive.set_timing(true);
    Ok(())
}

/// Serves requests `(read, first byte, bytes)` with `depth` of them in flight, from `start` on;
/// the end of each.
pub fn serve(
    drive: &mut Drive,
    start: Time,
    depth: usize,
    requests: impl IntoIterator<Item = (bool, u64, u64)>,
) -> Result<Vec<Time>, DeviceError> {
    let mut flight = BinaryHeap::with_capacity(depth);
    let mut ends = Vec::new();
    for (read, first, bytes) in requests {
        let mut at = start;
        if flight.len() == depth
            && let Some(Reverse(end)) = flight.pop()
        {
            at = end;
        }
        let end = drive.submit(at, request(read, first, bytes))?;
        flight.push(Reverse(end));
        ends.push(end);
    }
    Ok(ends)
}

/// A moment when everything booked so far is over.
pub fn quiet(drive: &Drive) -> Time {
    drive.now().max(drive.nand().programs_end()) + Span::from_us(1_000_000)
}
