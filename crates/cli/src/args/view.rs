//! What `varve view` accepts.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(ClapArgs)]
#[command(
    after_help = "It prints the address to open and answers at it until control-C, on this machine \
    only; each opening reads the documents again. The page asks for nothing over a network, and without \
    a script its numbers are in tables."
)]
pub struct View {
    /// Result documents, or folders with a results.json
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<PathBuf>,
    /// Write the page to this file instead: what report.html of a run is
    #[arg(long, value_name = "FILE", conflicts_with = "listen")]
    pub save: Option<PathBuf>,
    /// Where to answer; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    pub listen: SocketAddr,
}
