//! What `varve top` accepts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

#[derive(ClapArgs)]
#[command(
    after_help = "On a terminal it redraws in place, with a line of bars for the last 60 intervals of each \
    number; otherwise it prints a line each interval. Latencies are upper edges of histogram buckets: at \
    most a quarter too high, never too low. What a source does not count is not shown."
)]
pub struct Top {
    /// The control socket of a server or a mount, the directory of a mounted volume, or that of
    /// `varve serve fuse`
    #[arg(value_name = "SOCKET|DIR")]
    pub source: PathBuf,
    /// Seconds between looks, such as 1, 0.2 or 500ms
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// One interval, then end
    #[arg(long)]
    pub once: bool,
    /// One interval as one JSON document on standard output, then end
    #[arg(long)]
    pub json: bool,
    /// What is counted now as Prometheus metrics in text, then end
    #[arg(long, conflicts_with_all = ["json", "once", "listen"])]
    pub metrics: bool,
    /// Answer `GET /metrics` at this address of this machine until control-C; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["json", "once"])]
    pub listen: Option<SocketAddr>,
}

/// From 10 ms to an hour; without a unit it is seconds.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    let bare = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let text = if bare { format!("{text}s") } else { text.to_string() };
    let ns =
        block::parse_time(&text).map_err(|wrong| format!("expected {}", wrong.expected))?.as_ns();
    let found = Duration::from_nanos(ns);
    match (Duration::from_millis(10)..=Duration::from_secs(3600)).contains(&found) {
        true => Ok(found),
        false => Err("expected 10 ms to 3600 s".to_string()),
    }
}
