//! What `varve remap` accepts.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(Subcommand)]
pub enum HostLog {
    /// Every live block against its CRC; what opening the log would find
    Check(Image),
    /// How full the log and its segments are
    Stats(Image),
    /// Its records, one a line
    Dump(Dump),
}

/// An image of a host log.
#[derive(ClapArgs)]
pub struct Image {
    /// The image, or the block device; it is only read
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct Dump {
    /// The image, or the block device; it is only read
    #[arg(value_name = "IMAGE")]
    pub image: PathBuf,
    /// Only this segment
    #[arg(long, value_name = "N")]
    pub segment: Option<u32>,
    /// Only records that name this block of 4 KiB of the client, and where it is now
    #[arg(long, value_name = "N")]
    pub block: Option<u32>,
    /// The entries of each record
    #[arg(long)]
    pub entries: bool,
}
