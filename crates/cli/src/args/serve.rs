//! What `varve serve` and `varve ctl` accept.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args as ClapArgs, Subcommand};
use lab::LabError;

use super::size;

#[derive(Subcommand)]
pub enum Serve {
    /// Over NBD: for QEMU, fio, the libnbd tools, nbd-client
    Nbd(ServeNbd),
    /// Over NVMe/TCP: for Linux, as a drive with several queues, logs and vendor commands for transactions
    NvmeTcp(ServeNvme),
    /// As the virtio disk of a virtual machine, by vhost-user (in programs that were built with the feature `vhost-user`)
    VhostUser(ServeVhost),
    /// As a file in a directory, by FUSE, and with --loop as a block device of this kernel
    Fuse(ServeFuse),
}

/// What keeps the bytes, and what lies above it.
#[derive(Clone, ClapArgs)]
pub struct StackArgs {
    /// A stack in one text, the lowest first: `image(disk.img, size=1GiB)+log`. What there is: ram(SIZE),
    /// image(FILE, size=SIZE), device(DEV), drive(PRESET, KEY=VALUE..), drive-image(FILE, size=SIZE); above
    /// it log(OPTION=VALUE..), paper-log(..), cut(SEED[, witness=on]), record(FILE), read-only, real-time. The options
    /// below stand for parts of one
    #[arg(long, value_name = "STACK", group = "backing", conflicts_with_all = ["image", "size", "set", "remap",
          "verify", "timing", "cut_seed", "witness", "read_only", "record"])]
    pub stack: Option<String>,
    /// Memory of this size
    #[arg(long, value_name = "SIZE", group = "backing", conflicts_with = "image", value_parser = size)]
    pub ram: Option<block::Bytes>,
    /// A file as it is; with --size it is made if it is not there
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// A raw block device as it is, which nobody else uses
    #[arg(long, value_name = "DEV", group = "backing", conflicts_with = "image")]
    pub device: Option<PathBuf>,
    /// A modelled drive in memory (`varve list presets`), or `image`: the one that lives on --image
    #[arg(long, value_name = "PRESET", group = "backing")]
    pub ssd: Option<String>,
    /// Bytes of a file or drive that is made
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<block::Bytes>,
    /// Set a key of the modelled drive (`varve list keys`)
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "ssd")]
    pub set: Vec<String>,
    /// The layer that turns random writes into sequential ones
    #[arg(long, value_enum, default_value_t = Remap::Off)]
    pub remap: Remap,
    /// Whether what --remap log reads is compared with its checksums: off serves damage as data, and a
    /// log that has lost what was flushed, read-only
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub verify: Switch,
    /// When a modelled drive answers
    #[arg(long, value_enum, default_value_t = Timing::Off)]
    pub timing: Timing,
    /// The power can be cut (`varve ctl`); what is left of what was not flushed is drawn from this
    #[arg(long, value_name = "SEED")]
    pub cut_seed: Option<u64>,
    /// After each power cut, look whether all blocks that were durable are there; power-on fails by name if not
    #[arg(long, requires = "cut_seed")]
    pub witness: bool,
    /// Refuse whatever would change it
    #[arg(long)]
    pub read_only: bool,
    /// Listen for `varve ctl` at this path
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Write a trace of all requests to this new file, for `varve sim` and `varve run`
    #[arg(long, value_name = "FILE.vtr")]
    pub record: Option<PathBuf>,
}

impl StackArgs {
    /// The same with an image or a device that was named otherwise.
    pub fn with_source(&self, source: Option<&Path>, device: bool) -> Result<StackArgs, LabError> {
        let mut stack = self.clone();
        let Some(source) = source else { return Ok(stack) };
        if self.stack.is_some()
            || self.ram.is_some()
            || self.image.is_some()
            || self.device.is_some()
        {
            let what =
                "SOURCE stands for --image or --device: not both, and not with --ram or --stack";
            return Err(LabError::Input(what.to_string()));
        }
        let place = if device { &mut stack.device } else { &mut stack.image };
        *place = Some(source.to_path_buf());
        Ok(stack)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Remap {
    /// None: pass-through
    Off,
    /// The host log
    Log,
    /// The log as paper 1 has it
    PaperLog,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    /// Yes
    On,
    /// No
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Timing {
    /// When the work is done
    Off,
    /// When the modelled drive would have done it, in real time
    Model,
}

/// Where a server runs.
#[derive(ClapArgs)]
pub struct Background {
    /// Go into the background when clients can come; it ends as any other server, by a signal or `varve ctl .. quit`
    #[arg(long)]
    pub background: bool,
    /// In the background, errors are written to the end of this file
    #[arg(long, value_name = "FILE", requires = "background")]
    pub log: Option<PathBuf>,
    /// Set by the program itself: it is in the background
    #[arg(long, hide = true, conflicts_with = "background")]
    pub detached: bool,
}

#[derive(ClapArgs)]
#[command(group(clap::ArgGroup::new("listen").required(true).args(["socket", "tcp"])))]
pub struct ServeNbd {
    #[command(flatten)]
    pub stack: StackArgs,
    /// Listen at this unix socket
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Listen at this address and port; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    pub tcp: Option<std::net::SocketAddr>,
    /// Allow an address that other machines reach
    #[arg(long, requires = "tcp")]
    pub listen_any: bool,
    /// Name of the export; the empty name finds it too
    #[arg(long, value_name = "NAME", default_value = "")]
    pub name: String,
    /// Bytes of the smallest request of clients that ask: 1, 512 or 4096
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = smallest)]
    pub min_block: u32,
    /// Clients at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub max_connections: u16,
    /// Write a line to this descriptor when clients can come (`READY=1` goes to $NOTIFY_SOCKET in any case)
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<u32>,
    #[command(flatten)]
    pub place: Background,
    /// Do not tell clients what exports there are
    #[arg(long)]
    pub no_list: bool,
}

/// Whether PDUs have digests (CRC32C).
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Digest {
    /// Never
    Off,
    /// As the host asks
    Allow,
    /// Always, of headers and data
    Require,
}

/// What hosts see of a power cut.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum OnCut {
    /// Commands fail: file systems stop at once
    Error,
    /// Nobody is answered, as by a drive without power; hosts wait, and connect again when it is on
    Vanish,
}

fn told(text: &str) -> Result<(std::net::IpAddr, Option<u16>), String> {
    if let Ok(both) = text.parse::<std::net::SocketAddr>() {
        return Ok((both.ip(), Some(both.port())));
    }
    let wrong = |_| {
        "expected an address of IPv4 or IPv6, and perhaps a port, as in 10.0.2.2:4420".to_string()
    };
    text.parse().map(|ip| (ip, None)).map_err(wrong)
}

#[derive(ClapArgs)]
#[command(group = ArgGroup::new("who").args(["host_nqn", "secret"]).multiple(true))]
pub struct ServeNvme {
    #[command(flatten)]
    pub stack: StackArgs,
    /// Listen at this address and port; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:4420")]
    pub listen: std::net::SocketAddr,
    /// Allow an address that other machines reach: for the hosts that --host-nqn names, or those that know a secret
    #[arg(long, requires = "who")]
    pub listen_any: bool,
    /// What discovery tells hosts where we are: for hosts whose way here has other addresses, as a guest's or a
    /// container's. Without it, what they have reached as we see it
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = told)]
    pub traddr: Option<(std::net::IpAddr, Option<u16>)>,
    /// Qualified name of the subsystem; without it, one made of the UUID of its first namespace
    #[arg(long, value_name = "NQN")]
    pub nqn: Option<String>,
    /// Name of the first namespace, which is of the stack above; its power is what `varve ctl` cuts
    #[arg(long, value_name = "NAME", default_value = "disk")]
    pub name: String,
    /// One more namespace, of a stack in one text (`--stack`); may be given several times
    #[arg(long, value_name = "NAME=STACK")]
    pub export: Vec<String>,
    /// I/O queues of a host
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub queues: u16,
    /// Commands of a queue
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(2..=1024))]
    pub depth: u16,
    /// Bytes of data that a command may bring with it: 4 KiB to 512 KiB
    #[arg(long, value_name = "SIZE", default_value = "132KiB", value_parser = size)]
    pub in_capsule: block::Bytes,
    /// Bytes that a command may move: 8 KiB to 256 KiB, a power of two
    #[arg(long, value_name = "SIZE", default_value = "128KiB", value_parser = size)]
    pub mdts: block::Bytes,
    /// Whether PDUs have digests
    #[arg(long, value_enum, default_value_t = Digest::Allow)]
    pub digest: Digest,
    /// A host that may connect, by its qualified name; may be given several times. Without it all may
    #[arg(long, value_name = "NQN")]
    pub host_nqn: Vec<String>,
    /// Only hosts that know a secret may connect (DH-HMAC-CHAP). On each line of the file stands a secret as `nvme
    /// gen-dhchap-key` prints it, of any host; behind a host's qualified name, of that host alone; or behind `controller`,
    /// by which hosts that ask for it know us
    #[arg(long, value_name = "FILE")]
    pub secret: Option<PathBuf>,
    /// What hosts see of a power cut
    #[arg(long, value_enum, default_value_t = OnCut::Error)]
    pub on_cut: OnCut,
    /// Connections at a time: one for each host, and one for each of its queues
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..))]
    pub max_connections: u16,
    /// Write a line to this descriptor when hosts can come (`READY=1` goes to $NOTIFY_SOCKET in any case)
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<u32>,
    #[command(flatten)]
    pub place: Background,
}

#[derive(ClapArgs)]
pub struct ServeVhost {
    #[command(flatten)]
    pub stack: StackArgs,
    /// Listen at this unix socket: one virtual machine at a time, and the next when it has left
    #[arg(long, value_name = "PATH")]
    pub socket: PathBuf,
    /// Queues that a machine may use, each with a thread here
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub queues: u16,
    /// Bytes of the machine's logical block: 512 or 4096
    #[arg(long, value_name = "BYTES", default_value_t = 4096, value_parser = logical)]
    pub block: u32,
    /// Write a line to this descriptor when machines can come (`READY=1` goes to $NOTIFY_SOCKET in any case)
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<u32>,
    #[command(flatten)]
    pub place: Background,
}

#[derive(ClapArgs)]
pub struct ServeFuse {
    /// The directory to mount on; made if it is not there. It has disk.img, stats.json and control,
    /// which takes the commands of `varve ctl`
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub stack: StackArgs,
    /// Write a line to this descriptor when clients can come (`READY=1` goes to $NOTIFY_SOCKET in any case)
    #[arg(long, value_name = "N")]
    pub ready_fd: Option<u32>,
    #[command(flatten)]
    pub place: Background,
    /// Make a block device of disk.img (needs root)
    #[arg(long = "loop")]
    pub looped: bool,
    /// Take away a dead mount that is in the way; at the stop, after 5 s, cut off whoever still uses the
    /// device
    #[arg(long)]
    pub force: bool,
    /// Threads that serve requests
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
}

fn smallest(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(bytes @ (1 | 512 | 4096)) => Ok(bytes),
        _ => Err("expected 1, 512 or 4096".to_string()),
    }
}

fn logical(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(bytes @ (512 | 4096)) => Ok(bytes),
        _ => Err("expected 512 or 4096".to_string()),
    }
}

#[derive(ClapArgs)]
pub struct Ctl {
    /// The server's control socket
    #[arg(value_name = "SOCKET")]
    pub socket: PathBuf,
    #[command(subcommand)]
    pub command: CtlCommand,
}

#[derive(Subcommand)]
pub enum CtlCommand {
    /// What it counts
    Stats,
    /// What it counts, a line of JSON each interval until control-C
    Watch {
        /// Between two lines
        #[arg(long, value_name = "MS", default_value_t = 1000,
              value_parser = clap::value_parser!(u64).range(10..=3_600_000))]
        every: u64,
    },
    /// Every block of the modelled drive at its bottom: erases, and what is valid in it
    Blocks,
    /// Let the power go
    PowerCut {
        /// now, next-flush or op:N (counted from the start of the server)
        #[arg(long, value_name = "WHEN", default_value = "now")]
        at: String,
    },
    /// Switch it on again
    PowerOn,
    /// How the power is, and what the last cut left
    Report,
    /// Make the served disk fail: `add RULE`, `clear [NUMBER]`, `list`
    ///
    /// RULE: eio, enospc, latency, stale or flip, then any of ops=read,write,flush,trim range=FROM-TO nth=N from=N
    /// rate=N/M count=N time=MS (of latency) seed=N. Of several rules the first that strikes decides; latencies
    /// add up.
    Fault {
        /// add KIND [KEY=VALUE..], clear [NUMBER] or list
        #[arg(value_name = "WORDS", required = true, num_args = 1..)]
        words: Vec<String>,
    },
    /// Stop the server
    Quit,
}

#[derive(ClapArgs)]
pub struct ConformanceArgs {
    /// nbd://HOST[:PORT]/NAME, nbd+unix:///NAME?socket=PATH, nvme-tcp://HOST[:PORT][/NQN][?nsid=N], a file or a
    /// block device; what it holds is overwritten
    #[arg(value_name = "URI|FILE|DEVICE")]
    pub target: String,
    /// The control socket of its server, if it is one of ours: power cuts
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// What a controller is told that asks who connects: a secret as `nvme gen-dhchap-key` prints it, perhaps behind the
    /// name that this host is to have; with a line `controller SECRET` the controller has to show that it knows that one
    #[arg(long, value_name = "FILE")]
    pub secret: Option<PathBuf>,
    /// A shell command that starts the server again (check 18)
    #[arg(long, value_name = "COMMAND", requires = "control")]
    pub restart: Option<String>,
    /// A file or a device may be overwritten
    #[arg(long)]
    pub overwrite: bool,
    /// Draws places and lengths
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}
