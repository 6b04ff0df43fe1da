//! Whether a modelled drive fits into the memory of the machine that models it: asked before anything of it
//! is allocated, because what does not fit is killed without a word.

use ssd::Params;

use crate::LabError;

/// Bytes that an entry of the buffer takes at least: its frame, and its place in the index.
const ENTRY: u64 = 24;
/// Bytes of a 4 KiB page of the drive that are there from the start, and those of one that holds data.
const PAGE: u64 = 1;
const FILLED: u64 = 8;

/// Refuses a drive that takes more than there is. What is counted is the least that it takes, so that nothing is
/// refused that could be run; `filled`: all of it is written before the run.
pub(crate) fn check(params: &Params, filled: bool) -> Result<(), LabError> {
    match machine() {
        Some(have) => fits(params, filled, have),
        // Nobody knows.
        None => Ok(()),
    }
}

fn fits(params: &Params, filled: bool, have: u64) -> Result<(), LabError> {
    let pages = u64::from(params.logical_pages) * if filled { PAGE + FILLED } else { PAGE };
    let entries = params.buffer.size.0 / 4096 * ENTRY;
    if pages + entries <= have {
        return Ok(());
    }
    let (key, size) = match entries > pages {
        true => ("buffer.size", params.buffer.size),
        false => ("capacity", block::Bytes(u64::from(params.logical_pages) * 4096)),
    };
    Err(LabError::Input(format!(
        "{key} = {}: its tables take {} GB of memory or more, and there are {}; expected less",
        size.human(),
        (pages + entries).div_ceil(1_000_000_000),
        have / 1_000_000_000
    )))
}

/// Bytes of memory and of swap, or fewer, if this process may not have as many.
fn machine() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max address space"));
    let limit = limit.and_then(|line| line.split_whitespace().next()?.parse().ok());
    Some(memory()?.min(limit.unwrap_or(u64::MAX)))
}

fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let of = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.strip_prefix(':')?.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    Some((of("MemTotal")? + of("SwapTotal").unwrap_or(0)) * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_named_and_what_fits_is_not_refused() {
        let params = |pairs: &[&str]| {
            let mut config = ssd::Config::default();
            pairs.iter().for_each(|pair| config.set_pair(pair).unwrap());
            config.resolve().unwrap()
        };
        let buffer =
            params(&["capacity=64 MiB", "op=28 %", "buffer.policy=lru", "buffer.size=64 GiB"]);
        fits(&buffer, false, 1 << 30).unwrap();
        let error = fits(&buffer, false, 256 << 20).unwrap_err().to_string();
        assert!(error.contains("buffer.size = 64 GiB: its tables take 1 GB"), "{error}");
        let drive = params(&["capacity=256 GiB", "op=28 %", "buffer.policy=none"]);
        fits(&drive, false, 256 << 20).unwrap();
        let error = fits(&drive, true, 256 << 20).unwrap_err().to_string();
        assert!(error.contains("capacity = 256 GiB"), "{error}");
        assert!(machine().is_none_or(|bytes| bytes > 64 << 20));
    }
}
