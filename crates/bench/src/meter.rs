//! What this process has cost so far: CPU time, memory, allocations.

use std::alloc::System;
use std::fs;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Ticks of `/proc/self/stat` in a second: fixed by the kernel's interface to user space.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU seconds of this process. The kernel's scheduler statistics count nanoseconds of the main
/// thread, which is the only one here; without them, user and system time in hundredths.
///
/// # Errors
/// Neither file can be read or understood.
pub fn cpu_seconds() -> Result<f64, String> {
    let first = |text: String| text.split_whitespace().next()?.parse::<u64>().ok();
    if let Some(ns) = fs::read_to_string("/proc/self/schedstat").ok().and_then(first) {
        return Ok(ns as f64 / 1e9);
    }
    let stat =
        fs::read_to_string("/proc/self/stat").map_err(|e| format!("/proc/self/stat: {e}"))?;
    // The name in parentheses may hold spaces: fields are counted from behind it. User and system
    // time are fields 14 and 15 of the line, so 12 and 13 from there.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: Vec<u64> = fields.skip(11).take(2).filter_map(|f| f.parse().ok()).collect();
    match ticks[..] {
        [user, system] => Ok((user + system) as f64 / TICKS_PER_SECOND),
        _ => Err("/proc/self/stat: expected user and system time as fields 14 and 15".to_string()),
    }
}

/// The largest resident set so far, in KiB.
///
/// # Errors
/// The kernel does not say.
pub fn peak_rss_kib() -> Result<u64, String> {
    let path = "/proc/self/status";
    let status = fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| format!("{path}: expected a line `VmHWM: N kB`"))
}

/// Calls of the allocator so far that asked for memory.
pub fn allocations() -> u64 {
    let stats = ALLOCATOR.stats();
    (stats.allocations + stats.reallocations) as u64
}

/// Bytes this process has given to write calls so far.
///
/// # Errors
/// The system does not tell.
pub fn written() -> Result<u64, String> {
    let path = "/proc/self/io";
    let text = fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("wchar:"));
    line.and_then(|rest| rest.trim().parse().ok())
        .ok_or_else(|| format!("{path}: expected a line `wchar: N`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_is_counted() {
        let before = allocations();
        let touched: Vec<u8> = (0..8 << 20).map(|i| i as u8).collect();
        assert!(allocations() > before);
        assert!(touched.iter().map(|b| u64::from(*b)).sum::<u64>() > 0);
        assert!(peak_rss_kib().is_ok_and(|kib| kib >= 8 << 10));
        assert!(cpu_seconds().is_ok_and(|s| s >= 0.0));
    }
}
