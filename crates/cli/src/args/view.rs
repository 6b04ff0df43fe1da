//! What `varve view` accepts.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::top::interval;

#[derive(ClapArgs)]
#[command(
    after_help = "It prints the address to open and answers at it until control-C, on this machine \
    only; each opening reads the documents again. The page asks for nothing over a network, and without \
    a script its numbers are in tables. Of what is live it keeps the last 1,200 intervals, so that a page that \
    is opened again has lost nothing."
)]
pub struct View {
    /// Result documents, or folders with a results.json; or one timeline, a file of --timeline-out called
    /// *.pftrace; or, live, the one control socket of a server, directory of a mounted volume, or folder of
    /// `varve serve fuse`
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// Write the page to this file instead: what report.html of a run is
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    pub save: Option<PathBuf>,
    /// Live: seconds between looks, such as 1, 0.2 or 500ms
    #[arg(long, value_name = "TIME", default_value = "1", value_parser = interval)]
    pub interval: Duration,
    /// Where to answer; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    pub listen: SocketAddr,
}
