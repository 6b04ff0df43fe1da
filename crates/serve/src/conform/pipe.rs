//! A connection with several requests in flight, by whichever protocol.

use std::fmt::Debug;

use super::link::Link;
use crate::nbd::Client;
use crate::nbd::wire::command;
use crate::nvme::Initiator;
use crate::nvme::codec::io;
use crate::nvme::initiator::{Told, blocks};

/// Whole blocks, in flight. Each request has a number of its own.
pub trait Pipe: Debug + Send {
    /// Begins to write.
    ///
    /// # Errors
    /// A text for people, as of all of these.
    fn put(&mut self, at: u64, data: &[u8]) -> Result<u64, String>;
    /// Begins to read.
    ///
    /// # Errors
    /// As [`Pipe::put`].
    fn get(&mut self, at: u64, bytes: u32) -> Result<u64, String>;
    /// What was done: its number, and what was read.
    ///
    /// # Errors
    /// As [`Pipe::put`]; it was refused.
    fn next(&mut self) -> Result<(u64, Vec<u8>), String>;
}

/// A client, lent for this.
#[derive(Debug)]
struct Lent<'a>(&'a mut Client);

impl Pipe for Lent<'_> {
    fn put(&mut self, at: u64, data: &[u8]) -> Result<u64, String> {
        let sent = self.0.send(command::WRITE, 0, at, data.len() as u32, data);
        sent.map_err(|error| error.to_string())
    }
    fn get(&mut self, at: u64, bytes: u32) -> Result<u64, String> {
        self.0.send(command::READ, 0, at, bytes, &[]).map_err(|error| error.to_string())
    }
    fn next(&mut self) -> Result<(u64, Vec<u8>), String> {
        let reply = self.0.receive().map_err(|error| error.to_string())?;
        match reply.errno {
            0 => Ok((reply.request.cookie, reply.data)),
            errno => Err(format!("error {errno}")),
        }
    }
}

/// A host's queue, and the namespace that it asks.
#[derive(Debug)]
pub struct Queued<'a>(pub &'a mut Initiator, pub Told);

impl Pipe for Queued<'_> {
    fn put(&mut self, at: u64, data: &[u8]) -> Result<u64, String> {
        let Queued(host, of) = self;
        let sqe = blocks(io::WRITE, *of, at >> of.shift, data.len() as u64 >> of.shift);
        host.line().send(sqe, data, 0).map(u64::from).map_err(|error| error.to_string())
    }
    fn get(&mut self, at: u64, bytes: u32) -> Result<u64, String> {
        let Queued(host, of) = self;
        let sqe = blocks(io::READ, *of, at >> of.shift, u64::from(bytes) >> of.shift);
        host.line().send(sqe, &[], bytes as usize).map(u64::from).map_err(|error| error.to_string())
    }
    fn next(&mut self) -> Result<(u64, Vec<u8>), String> {
        let done = self.0.line().receive().map_err(|error| error.to_string())?;
        match done.cqe.status.0 {
            0 => Ok((u64::from(done.cqe.cid), done.data)),
            _ => Err(done.cqe.status.to_string()),
        }
    }
}

impl Link {
    /// Several requests in flight, where there is a connection.
    pub fn pipe(&mut self) -> Option<Box<dyn Pipe + '_>> {
        match self {
            Link::Nbd(client) => Some(Box::new(Lent(client))),
            Link::Nvme(host, told) => Some(Box::new(Queued(host, *told))),
            Link::File(_) => None,
        }
    }
}
