//! The device that is checked, by whichever way it is reached.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use live::FileMedium;

use super::stamp::SECTOR;
use crate::nbd::Address;
use crate::nbd::client::{ALL, Client, ClientError};
use crate::nbd::wire::{Errno, command, flag, how, state};
use crate::nvme::initiator::{Told, Wish};
use crate::nvme::{Initiator, InitiatorError};
use stack::disk::{Disk, MediumDisk};
use wire::nvme::place::{Place, SCHEME};

/// What is checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// An export of an NBD server.
    Nbd(Address, String),
    /// A namespace of an NVMe subsystem.
    Nvme(Place),
    /// A file or a block device.
    File(PathBuf),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        if let Some(rest) = text.strip_prefix("nbd+unix://") {
            let (name, socket) = rest
                .split_once("?socket=")
                .ok_or_else(|| format!("{text}: expected nbd+unix:///NAME?socket=PATH"))?;
            let name = name.trim_start_matches('/').to_string();
            return Ok(Target::Nbd(Address::Unix(PathBuf::from(socket)), name));
        }
        if let Some(rest) = text.strip_prefix("nbd://") {
            let (host, name) = rest.split_once('/').unwrap_or((rest, ""));
            return Ok(Target::Nbd(Address::resolve(host, 10809)?, name.to_string()));
        }
        if text.starts_with(SCHEME) {
            return Ok(Target::Nvme(text.parse()?));
        }
        match text.contains("://") {
            true => Err(format!(
                "{text}: expected nbd://, nbd+unix:// or nvme-tcp://, a file or a device"
            )),
            false => Ok(Target::File(PathBuf::from(text))),
        }
    }
}

/// Why a request did not come through.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// The device refuses it, and lives: the protocol's number, or none.
    Refused(Option<u32>),
    /// The connection or the device is lost.
    Lost(String),
}

impl From<Trouble> for String {
    fn from(trouble: Trouble) -> String {
        match trouble {
            Trouble::Refused(Some(errno)) => format!("refused with error {errno}"),
            Trouble::Refused(None) => "refused".to_string(),
            Trouble::Lost(why) => why,
        }
    }
}

impl From<InitiatorError> for Trouble {
    fn from(error: InitiatorError) -> Trouble {
        match error {
            InitiatorError::Failed { status, .. } => Trouble::Refused(Some(u32::from(status.0))),
            other => Trouble::Lost(other.to_string()),
        }
    }
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Trouble {
        match error {
            ClientError::Failed { errno, .. } => Trouble::Refused(Some(errno)),
            other => Trouble::Lost(other.to_string()),
        }
    }
}

/// One way to the device.
#[derive(Debug)]
pub enum Link {
    /// A connection.
    Nbd(Box<Client>),
    /// A host, and the namespace.
    Nvme(Box<Initiator>, Told),
    /// An open file.
    File(MediumDisk),
}

impl Target {
    /// Opens a way to it.
    ///
    /// # Errors
    /// Why there is none.
    pub fn link(&self) -> Result<Link, String> {
        match self {
            Target::Nbd(address, name) => Client::connect(address, name, ALL)
                .map(|client| Link::Nbd(Box::new(client)))
                .map_err(|error| format!("{address}: {error}")),
            Target::Nvme(place) => host(place).map_err(|why| format!("{place}: {why}")),
            Target::File(path) => {
                let open = OpenOptions::new().read(true).write(true).open(path);
                let file = open.map_err(|error| format!("{}: {error}", path.display()))?;
                MediumDisk::new(Arc::new(FileMedium(file)))
                    .map(Link::File)
                    .map_err(|error| format!("{}: {error}", path.display()))
            }
        }
    }
}

fn host(place: &Place) -> Result<Link, String> {
    let connected = place.connect(Wish::default());
    let (host, name) = connected.map_err(|error| error.to_string())?;
    let told = host.namespaces.iter().find(|told| told.nsid == place.nsid).copied();
    let told = told.ok_or_else(|| format!("{name} has no namespace {}", place.nsid))?;
    Ok(Link::Nvme(Box::new(host), told))
}

/// Logical blocks of a range; what is not whole blocks cannot be asked for.
fn blocks(of: Told, at: u64, bytes: u64) -> Result<(u64, u64), Trouble> {
    let odd = (at | bytes) & ((1 << of.shift) - 1) != 0;
    if odd { Err(Trouble::Refused(None)) } else { Ok((at >> of.shift, bytes >> of.shift)) }
}

fn refused<T>(result: Result<T, stack::disk::DiskError>) -> Result<(), Trouble> {
    result.map(drop).map_err(|_| Trouble::Refused(None))
}

impl Link {
    /// Bytes.
    pub fn size(&self) -> u64 {
        match self {
            Link::Nbd(client) => client.size,
            Link::Nvme(_, told) => told.blocks << told.shift,
            Link::File(disk) => disk.capabilities().size,
        }
    }
    /// Bytes of the smallest piece that it can be asked for, a sector at least.
    pub fn grain(&self) -> u64 {
        match self {
            Link::Nbd(_) | Link::File(_) => SECTOR,
            Link::Nvme(_, told) => 1 << told.shift,
        }
    }
    /// The NBD connection, if it is one.
    pub fn client(&mut self) -> Option<&mut Client> {
        match self {
            Link::Nbd(client) => Some(client),
            Link::Nvme(..) | Link::File(_) => None,
        }
    }
    /// The NVMe host, if it is one, and the namespace.
    pub fn host(&mut self) -> Option<(&mut Initiator, Told)> {
        match self {
            Link::Nvme(host, told) => Some((host, *told)),
            Link::Nbd(_) | Link::File(_) => None,
        }
    }
    /// Whether the device says that it can do this (an NBD flag).
    pub fn can(&self, what: u16) -> bool {
        match self {
            Link::Nbd(client) => client.can(what),
            Link::Nvme(_, told) if told.read_only => {
                what & (flag::READ_ONLY | flag::FLUSH | flag::MULTI_CONN) != 0
            }
            Link::Nvme(host, _) => {
                let here = flag::FLUSH | flag::FUA | flag::MULTI_CONN;
                let trim = if host.offers(2) { flag::TRIM } else { 0 };
                let zero = if host.offers(3) { flag::WRITE_ZEROES } else { 0 };
                what & (here | trim | zero) != 0
            }
            // A file has no request that is durable by itself; the rest is there.
            Link::File(_) => what & (flag::FLUSH | flag::TRIM | flag::WRITE_ZEROES) != 0,
        }
    }
    /// Reads.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn read(&mut self, at: u64, bytes: u32) -> Result<Vec<u8>, Trouble> {
        match self {
            Link::Nbd(client) => Ok(client.read(at, bytes)?),
            Link::Nvme(host, told) => {
                let (first, count) = blocks(*told, at, u64::from(bytes))?;
                Ok(host.read(*told, first, count)?)
            }
            Link::File(disk) => {
                let mut data = vec![0; bytes as usize];
                refused(disk.read(at, &mut data)).map(|()| data)
            }
        }
    }
    /// Writes.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn write(&mut self, at: u64, data: &[u8], fua: bool) -> Result<(), Trouble> {
        match self {
            Link::Nbd(client) => Ok(client.write(at, data, if fua { how::FUA } else { 0 })?),
            Link::Nvme(host, told) => {
                let (first, _) = blocks(*told, at, data.len() as u64)?;
                Ok(host.write(*told, first, data, fua)?)
            }
            Link::File(disk) => refused(disk.write(at, data, fua)),
        }
    }
    /// Flushes.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn flush(&mut self) -> Result<(), Trouble> {
        match self {
            Link::Nbd(client) => Ok(client.flush()?),
            Link::Nvme(host, told) => Ok(host.flush(*told)?),
            Link::File(disk) => refused(disk.flush()),
        }
    }
    /// Trims.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn trim(&mut self, at: u64, bytes: u32) -> Result<(), Trouble> {
        match self {
            Link::Nbd(client) => Ok(client.trim(at, bytes, 0)?),
            Link::Nvme(host, told) => {
                let (first, count) = blocks(*told, at, u64::from(bytes))?;
                Ok(host.deallocate(*told, first, count as u32)?)
            }
            Link::File(disk) => refused(disk.trim(at, u64::from(bytes), false)),
        }
    }
    /// Zeroes; with `keep` the space stays taken.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn zero(&mut self, at: u64, bytes: u32, keep: bool) -> Result<(), Trouble> {
        match self {
            Link::Nbd(client) => Ok(client.zero(at, bytes, if keep { how::NO_HOLE } else { 0 })?),
            Link::Nvme(host, told) => {
                let (first, count) = blocks(*told, at, u64::from(bytes))?;
                Ok(host.zero(*told, first, count, keep)?)
            }
            Link::File(disk) => refused(disk.zero(at, u64::from(bytes), keep, false)),
        }
    }
    /// Zeroes fast, or not at all: `false`.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn zero_fast(&mut self, at: u64, bytes: u32) -> Result<bool, Trouble> {
        let Link::Nbd(client) = self else { return Err(Trouble::Refused(None)) };
        let reply = client.ask(command::WRITE_ZEROES, how::FAST_ZERO, at, bytes, &[])?;
        match reply.errno {
            0 => Ok(true),
            errno if errno == Errno::NotSup as u32 => Ok(false),
            errno => Err(Trouble::Refused(Some(errno))),
        }
    }
    /// Length of each extent, and whether it says that it reads as zeroes; `None`: it cannot say.
    ///
    /// # Errors
    /// [`Trouble`].
    pub fn extents(&mut self, at: u64, bytes: u32) -> Result<Option<Vec<(u64, bool)>>, Trouble> {
        match self {
            Link::Nvme(..) => Ok(None),
            Link::Nbd(client) if client.context.is_none() => Ok(None),
            Link::Nbd(client) => {
                let told = client.status(at, bytes)?;
                let pair = |(length, flags)| (u64::from(length), flags & state::ZERO != 0);
                Ok(Some(told.into_iter().map(pair).collect()))
            }
            Link::File(disk) => {
                let told = disk.extents(at, u64::from(bytes), 100_000);
                let told = told.map_err(|_| Trouble::Refused(None))?;
                Ok(Some(told.into_iter().map(|extent| (extent.bytes, extent.hole)).collect()))
            }
        }
    }
}
