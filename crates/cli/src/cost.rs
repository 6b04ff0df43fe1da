//! What a run cost on this machine: a clock that no result depends on.

use std::time::Instant;

use lab::HostCost;

/// Ticks per second of `/proc/self/stat`: fixed at 100 by the kernel's interface.
const TICKS: u64 = 100;

/// A stopwatch.
pub struct Watch {
    start: Instant,
    cpu_ms: u64,
}

impl Watch {
    /// Starts now.
    pub fn start() -> Watch {
        Watch { start: Instant::now(), cpu_ms: cpu_ms().unwrap_or(0) }
    }

    /// Milliseconds since the start.
    pub fn ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Cost since the start; memory is the most of the whole process. What the system does not
    /// tell is 0 and left out of a document.
    pub fn cost(&self) -> HostCost {
        HostCost {
            wall_ms: self.ms(),
            cpu_ms: cpu_ms().unwrap_or(0).saturating_sub(self.cpu_ms),
            peak_rss: peak_rss().unwrap_or(0),
        }
    }
}

fn cpu_ms() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in parentheses, may hold anything: fields are counted from its end.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks * 1000 / TICKS)
}

fn peak_rss() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
