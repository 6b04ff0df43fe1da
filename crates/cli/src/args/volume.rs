//! What `varve mkfs`, `mount`, `umount`, `fsck` and `dump` accept.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::serve::{Remap, StackArgs, Switch};
use super::size;

/// Where a volume is.
#[derive(ClapArgs)]
pub struct Source {
    /// An image file, or a block device that nobody else uses
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,
    /// SOURCE is the image of a modelled drive, and the volume lies on that drive
    #[arg(long)]
    pub drive_image: bool,
    /// The layer between the volume and SOURCE
    #[arg(long, value_enum, default_value_t = Remap::Off, conflicts_with = "drive_image")]
    pub remap: Remap,
    /// Whether what --remap log reads is compared with its checksums
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub verify: Switch,
}

#[derive(ClapArgs)]
pub struct Mkfs {
    #[command(flatten)]
    pub source: Source,
    /// Bytes of an image that is made
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<block::Bytes>,
    #[command(flatten)]
    pub new: NewVolume,
    /// Overwrite what is there
    #[arg(long, short)]
    pub force: bool,
}

/// What is chosen of a new volume.
#[derive(ClapArgs)]
pub struct NewVolume {
    /// Its label, 511 UTF-16 units at most
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub label: String,
    /// Its identity; random if absent
    #[arg(long, value_name = "UUID", value_parser = uuid)]
    pub uuid: Option<[u8; 16]>,
    /// Bytes before segment 0, where the journal of cleaning lies: whole segments of 2 MiB
    #[arg(long, value_name = "SIZE", default_value = "2MiB", value_parser = size)]
    pub gap: block::Bytes,
}

#[derive(ClapArgs)]
#[command(after_help = after_mount())]
pub struct Mount {
    /// An image file or a block device (or one of the options below instead), and the directory
    #[arg(value_name = "[SOURCE] DIR", required = true, num_args = 1..=2)]
    pub paths: Vec<PathBuf>,
    /// How it is mounted; may be given several times
    #[arg(long = "options", short = 'o', value_name = "OPTION[,OPTION..]")]
    pub options: Vec<String>,
    /// Clean as kernel 6.1 does: nothing of the volume says that it is mounted
    #[arg(long)]
    pub no_scj: bool,
    /// Make a new volume first, unless one is there already
    #[arg(long)]
    pub mkfs: bool,
    #[command(flatten)]
    pub new: NewVolume,
    /// Do not go into the background
    #[arg(long, short)]
    pub foreground: bool,
    /// Say only what fails, not what the mount relies on
    #[arg(long, short)]
    pub quiet: bool,
    /// What mount(8) passes on as `-f`: everything but the mount
    #[arg(long, hide = true)]
    pub fake: bool,
    /// Set by the program itself: it is in the background
    #[arg(long, hide = true)]
    pub detached: bool,
    /// In the background, errors after the mount are written to the end of this file
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    #[command(flatten)]
    pub stack: StackArgs,
}

fn after_mount() -> String {
    format!(
        "-o takes {}.\n\nCounters: `varve ctl SOCKET stats` with --control SOCKET, and the attribute \
         {} of DIR.\nmount(8): a link `mount.fuse.varve` to this program in /sbin makes `mount -t \
         fuse.varve SOURCE DIR` and /etc/fstab work.",
        serve::mount::MountOptions::HELP,
        serve::mount::STATS,
    )
}

#[derive(ClapArgs)]
pub struct Umount {
    /// The directory, or what is mounted there
    #[arg(value_name = "DIR|SOURCE")]
    pub target: PathBuf,
    /// Wait for those who still use it, so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub wait: u64,
    /// Take it from whoever still uses it then: what they have not written is lost
    #[arg(long, short)]
    pub force: bool,
}

/// Exit codes: 0 clean, 1 corrected, 4 errors are left, 8 it could not be checked.
#[derive(ClapArgs)]
#[command(
    after_help = "Exit codes: 0 clean; 1 a volume that was not unmounted has been recovered \
    and is clean now; 4 errors are left (or it was not recovered); 8 it could not be checked."
)]
pub struct Fsck {
    #[command(flatten)]
    pub source: Source,
    /// Recover a volume that was not unmounted; without this nothing is written
    #[arg(long)]
    pub recover: bool,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(ClapArgs)]
pub struct DumpVolume {
    #[command(flatten)]
    pub source: Source,
    /// Only these parts; superblock, checkpoint and journal if nothing is asked for
    #[arg(long)]
    pub superblock: bool,
    /// The newest whole checkpoint
    #[arg(long)]
    pub checkpoint: bool,
    /// The records of cleaning that recovery would read
    #[arg(long)]
    pub journal: bool,
    /// A node: its table entry, its footer, and what an inode says
    #[arg(long, value_name = "NID")]
    pub inode: Vec<u32>,
    /// An entry of the node table (NAT)
    #[arg(long, value_name = "NID")]
    pub nat: Vec<u32>,
    /// An entry of the segment table (SIT)
    #[arg(long, value_name = "SEGMENT")]
    pub sit: Vec<u32>,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

fn uuid(text: &str) -> Result<[u8; 16], String> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32);
    number.map(u128::to_be_bytes).ok_or_else(|| "expected 32 hexadecimal digits".to_string())
}
