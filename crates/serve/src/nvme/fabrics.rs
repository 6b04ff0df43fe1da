//! Commands of fabrics: a connection becomes a queue, and the controller's properties.

use std::sync::Arc;
use std::time::Duration;

use stack::disk::Done;
use wire::nvme::auth::REQUIRED;

use super::DISCOVERY;
use super::association::{Association, Host};
use super::codec::{Sqe, fabrics};
use super::gate::Gate;
use super::pdu::{u16_at, u32_at};
use super::stats::Counts;
use super::status::{Failure, Status};
use super::work::{Outcome, Queue, Reply, Work};
use crate::stream::Transport;

/// Bytes that Connect brings.
const CONNECT: usize = 1024;
/// Any controller.
const ANY: u16 = u16::MAX;
/// Bytes of a qualified name, with the zero behind it.
const NAME: usize = 224;

/// Properties, by their offset.
mod property {
    /// Capabilities; of eight bytes.
    pub const CAPABILITIES: u32 = 0;
    /// Version.
    pub const VERSION: u32 = 8;
    /// Configuration.
    pub const CONFIGURATION: u32 = 0x14;
    /// Status.
    pub const STATUS: u32 = 0x1c;
}

/// 1.4.
pub(super) const VERSION: u32 = 0x0001_0400;
/// CSTS: a configuration that cannot be.
const FAILED: u32 = 1 << 1;
/// CSTS: the shutdown is complete.
const SHUT_DOWN: u32 = 2 << 2;

/// Connect fails because of a field of the command or (`true`) of its data.
fn invalid(at: u16, data: bool) -> Failure {
    let result = u64::from(at) | u64::from(data) << 16;
    Failure { result, ..Status::CONNECT_INVALID.into() }
}

/// A qualified name; `None`: it does not end, or is no text.
fn name(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().take(NAME).position(|byte| *byte == 0)?;
    std::str::from_utf8(&bytes[..end]).ok().filter(|name| !name.is_empty())
}

impl<T: Transport> Work<'_, T> {
    /// A command of fabrics.
    pub(super) fn fabrics(&mut self, sqe: &Sqe, data: &[u8]) -> Outcome {
        match sqe.0[4] {
            fabrics::CONNECT => self.connect(sqe, data),
            fabrics::AUTH_SEND => self.auth_send(sqe, data),
            fabrics::AUTH_RECEIVE => self.auth_receive(sqe),
            _ if self.queue.as_ref().is_some_and(|queue| queue.gate.is_some()) => {
                Err(Status::AUTHENTICATION.into())
            }
            fabrics::GET => self.get_property(sqe),
            fabrics::SET => self.set_property(sqe),
            // An I/O queue leaves by closing its connection.
            _ => Err(Status::INVALID_OPCODE.into()),
        }
    }

    fn connect(&mut self, sqe: &Sqe, data: &[u8]) -> Outcome {
        if self.queue.is_some() {
            return Err(Status::SEQUENCE.into());
        }
        if u16_at(&sqe.0, 40) != 0 {
            return Err(Status::CONNECT_FORMAT.into());
        }
        if data.len() != CONNECT {
            return Err(Status::DATA_LENGTH.into());
        }
        let (qid, size) = (u16_at(&sqe.0, 42), u16_at(&sqe.0, 44));
        if size == 0 || (qid > 0 && size >= self.shared.options.depth) {
            return Err(invalid(44, false));
        }
        let subsystem = name(&data[256..512]).ok_or(invalid(256, true))?;
        let host_name = name(&data[512..768]).ok_or(invalid(512, true))?;
        let discovery = subsystem == DISCOVERY;
        if !discovery && subsystem != self.shared.nqn {
            return Err(invalid(256, true));
        }
        let hosts = &self.shared.options.hosts;
        if !hosts.is_empty() && !hosts.iter().any(|host| host == host_name) {
            return Err(Status::CONNECT_HOST.into());
        }
        // Who there is may be asked by strangers.
        let secrets = self.shared.options.secrets.as_ref().filter(|_| !discovery);
        if secrets.is_some_and(|secrets| secrets.of_host(host_name).is_none()) {
            return Err(Status::CONNECT_HOST.into());
        }
        let mut host = Host {
            nqn: host_name.to_string(),
            id: [0; 16],
            discovery,
            alive: Duration::from_millis(u64::from(u32_at(&sqe.0, 48))),
        };
        host.id.copy_from_slice(&data[..16]);
        let cntlid = u16_at(data, 16);
        let association = match qid {
            0 => self.connect_admin(host, cntlid)?,
            _ => self.connect_queue(&host, qid, cntlid)?,
        };
        // The host does not count what we take from its queue.
        let head = (sqe.0[46] & 4 == 0).then_some(1 % size.saturating_add(1).max(2));
        let (cntlid, size) = (association.cntlid, size.saturating_add(1));
        let gate = secrets.map(|secrets| Gate::new(secrets, host_name, subsystem));
        let asks = if gate.is_some() { REQUIRED } else { 0 };
        self.queue = Some(Queue { association, qid, size, head, gate, seated: false });
        if asks == 0
            && let Err(failure) = self.seat()
        {
            self.queue = None;
            return Err(failure);
        }
        Ok(Reply::Done(u64::from(cntlid) | asks, Done::NOW))
    }

    fn connect_admin(&mut self, host: Host, cntlid: u16) -> Result<Arc<Association>, Failure> {
        if cntlid != ANY {
            return Err(invalid(16, true));
        }
        let association = self.shared.begin(host).ok_or(Failure::from(Status::CONNECT_BUSY))?;
        self.shared.stats.take(&mut Counts { associations: 1, ..Counts::default() });
        Ok(association)
    }

    fn connect_queue(
        &mut self,
        host: &Host,
        qid: u16,
        cntlid: u16,
    ) -> Result<Arc<Association>, Failure> {
        let association = self.shared.association(cntlid).ok_or(invalid(16, true))?;
        let same = (&association.host.nqn, association.host.id) == (&host.nqn, host.id)
            && !association.host.discovery
            && !host.discovery;
        // What this host knows of the drive is older than a power cut that ends it.
        let before = self.shared.options.vanish && association.born != self.out.stream().cuts();
        // A number that somebody else has is as good as none.
        if !same || before {
            return Err(invalid(16, true));
        }
        if qid > self.shared.options.queues {
            return Err(invalid(42, false));
        }
        if !association.is_ready() {
            return Err(Status::SEQUENCE.into());
        }
        if association.has(qid) {
            return Err(invalid(42, false));
        }
        Ok(association)
    }

    /// The association of an I/O queue, whose host is known, looks after it from now on.
    pub(super) fn seat(&mut self) -> Result<(), Failure> {
        let Some(queue) = &mut self.queue else { return Err(Status::SEQUENCE.into()) };
        queue.association.hear();
        if queue.qid == 0 {
            return Ok(());
        }
        let (stream, patience) = (self.out.stream(), crate::stream::output::PATIENCE);
        let twin = stream.read_within(patience).and_then(|()| stream.twin());
        let twin = twin.map_err(|_| Failure::from(Status::INTERNAL))?;
        queue.seated = queue.association.join(queue.qid, Box::new(move || twin.end(false)));
        if queue.seated { Ok(()) } else { Err(invalid(42, false)) }
    }

    /// Bit 0 of the attributes: of eight bytes.
    fn get_property(&mut self, sqe: &Sqe) -> Outcome {
        let Some(queue) = self.queue.as_ref().filter(|queue| queue.qid == 0) else {
            return Err(Status::SEQUENCE.into());
        };
        let registers = *queue.association.registers();
        let (wide, at) = (sqe.0[40] & 7 == 1, sqe.dword(11));
        let value = match (wide, at) {
            (true, property::CAPABILITIES) => self.capabilities(),
            (false, property::VERSION) => u64::from(VERSION),
            (false, property::CONFIGURATION) => u64::from(registers.configuration),
            (false, property::STATUS) => u64::from(registers.status),
            _ => return Err(Status::INVALID_FIELD.into()),
        };
        Ok(Reply::Done(value, Done::NOW))
    }

    fn capabilities(&self) -> u64 {
        let entries = u64::from(self.shared.options.depth - 1);
        // Queues lie in one piece; ready within 7.5 s; NVM commands; pages of 4 KiB.
        entries | 1 << 16 | 0x0f << 24 | 1 << 37
    }

    fn set_property(&mut self, sqe: &Sqe) -> Outcome {
        let Some(queue) = self.queue.as_ref().filter(|queue| queue.qid == 0) else {
            return Err(Status::SEQUENCE.into());
        };
        if sqe.0[40] & 7 != 0 || sqe.dword(11) != property::CONFIGURATION {
            return Err(Status::INVALID_FIELD.into());
        }
        let value = sqe.dword(12);
        let mut done = Done::NOW;
        if value >> 14 & 3 != 0 {
            // "Shut down" says that the power may go: all that was answered is durable then.
            for namespace in &self.shared.namespaces {
                done = done.and(namespace.stack.disk.flush()?);
            }
        }
        let association = Arc::clone(&queue.association);
        if configure(&association, value) {
            // Events that were waited for are not answered any more.
            self.held.clear();
            self.shared.reset(&association);
        }
        Ok(Reply::Done(0, done))
    }
}

/// Sets CC; CSTS follows at once. Whether the controller was reset: what was open in the life before is over.
fn configure(association: &Association, value: u32) -> bool {
    let mut registers = association.registers();
    let enabled = registers.configuration & 1 != 0;
    registers.configuration = value;
    if value >> 14 & 3 != 0 {
        registers.status |= SHUT_DOWN;
    }
    match (enabled, value & 1 != 0) {
        (false, true) => {
            // Pages of 4 KiB, round robin, entries of 64 and 16 bytes; commands of NVM (0), or of all
            // sets that there are (6), which are those.
            let fits = value & 0x00ff_3f80 == 0x0046_0000 && matches!(value >> 4 & 7, 0 | 6);
            registers.status = if fits { 1 } else { FAILED };
        }
        // The host begins anew.
        (true, false) => registers.status = 0,
        _ => {}
    }
    enabled && value & 1 == 0
}
