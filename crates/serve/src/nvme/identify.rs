//! What a controller and its namespaces are, as a host reads it.

use wire::nvme::identity::{BYTES, CLAIMS, DISCOVERY, MAGIC, NAMESPACE_VENDOR, VENDOR};

use super::association::ERRORS;
use super::codec::Sqe;
use super::connection::ADMIN_DATA;
use super::fabrics::VERSION;
use super::namespace::{Namespace, PAGE};
use super::pdu::{SQE, put};
use super::status::{Failure, Status};
use super::subsystem::Subsystem;
use super::work::{EVENTS, Outcome, Reply, Work};
use crate::stream::Transport;

/// A text of fixed length, filled with spaces.
fn padded(into: &mut [u8], at: usize, length: usize, text: &str) {
    into[at..at + length].fill(b' ');
    let text = &text.as_bytes()[..text.len().min(length)];
    put(into, at, text);
}

/// Units of 16 bytes.
fn units(bytes: usize) -> u32 {
    (bytes / 16) as u32
}

/// What the drive calls itself.
pub(super) const FIRMWARE: &str = env!("CARGO_PKG_VERSION");

/// Identify Controller.
fn controller(shared: &Subsystem, cntlid: u16, discovery: bool) -> Vec<u8> {
    let mut all = vec![0; BYTES];
    let serial = shared.namespaces.first().map_or_else(String::new, |namespace| {
        namespace.nguid[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    });
    padded(&mut all, 4, 20, &serial);
    padded(&mut all, 24, 40, "varve");
    padded(&mut all, 64, 8, FIRMWARE);
    // Several hosts; not several ports.
    all[76] = 1 << 1;
    all[77] = (shared.options.transfer / PAGE as u32).ilog2() as u8;
    put(&mut all, 78, &cntlid.to_le_bytes());
    put(&mut all, 80, &VERSION.to_le_bytes());
    // Hosts hear when attributes of namespaces change.
    let events: u32 = if discovery { 0 } else { 1 << 8 };
    put(&mut all, 92, &events.to_le_bytes());
    // Host identifiers of 16 bytes; any command shows that a host lives.
    put(&mut all, 96, &0x41u32.to_le_bytes());
    all[111] = if discovery { 2 } else { 1 };
    // Aborts and events at a time, less one.
    (all[258], all[259]) = (3, EVENTS as u8 - 1);
    // One firmware slot, which is read-only.
    all[260] = 0x03;
    // Logs have offsets.
    all[261] = 1 << 2;
    all[262] = ERRORS as u8 - 1;
    // Vendor commands have the standard form.
    all[264] = u8::from(!discovery);
    // Too warm, and critical, in kelvin: it is neither.
    put(&mut all, 266, &343u16.to_le_bytes());
    put(&mut all, 268, &353u16.to_le_bytes());
    // Keep alive in units of 100 ms.
    put(&mut all, 320, &10u16.to_le_bytes());
    (all[512], all[513]) = (0x66, 0x44);
    put(&mut all, 514, &shared.options.depth.to_le_bytes());
    if !discovery {
        nvm(&mut all, shared);
    }
    // Data in the capsule or by the transport, in one piece, and an offset in the capsule.
    put(&mut all, 536, &(1u32 | 1 << 20).to_le_bytes());
    let nqn = if discovery { DISCOVERY } else { &shared.nqn };
    put(&mut all, 768, nqn.as_bytes());
    let capsule = if discovery { ADMIN_DATA } else { shared.options.in_capsule as usize };
    put(&mut all, 1792, &units(SQE + capsule).to_le_bytes());
    put(&mut all, 1796, &1u32.to_le_bytes());
    // One descriptor of data.
    all[1803] = 1;
    all
}

/// What it says of its namespaces' commands.
fn nvm(all: &mut [u8], shared: &Subsystem) {
    let count = shared.namespaces.len() as u32;
    put(all, 516, &count.to_le_bytes());
    put(all, 540, &count.to_le_bytes());
    let any = |of: fn(&Namespace) -> bool| shared.namespaces.iter().any(of);
    // Compare, Write Zeroes; Dataset Management where something is forgotten.
    let trims = any(|namespace| namespace.capabilities.trim);
    put(all, 520, &(0x09 | u16::from(trims) << 2).to_le_bytes());
    // A cache that loses what it holds; Flush of all namespaces together.
    all[525] = u8::from(any(|namespace| namespace.capabilities.volatile)) | 3 << 1;
    // Blocks that a power cut leaves whole or not at all, less one: of the namespace that has fewest.
    let unit = |namespace: &Namespace| u64::from(namespace.capabilities.atomic) / namespace.block();
    let least = shared.namespaces.iter().map(unit).min().unwrap_or(1);
    let atomic = (least.clamp(1, 1 << 16) - 1) as u16;
    put(all, 526, &atomic.to_le_bytes());
    put(all, 528, &atomic.to_le_bytes());
    all[530] = 1;
    put(all, VENDOR, MAGIC);
    padded(all, VENDOR + 8, 24, FIRMWARE);
    let limits = shared.namespaces.iter().find_map(Namespace::transactions);
    if let Some(limits) = limits {
        put_limits(all, VENDOR + 32, limits);
        put(all, VENDOR + 48, &CLAIMS.to_le_bytes());
    }
}

fn put_limits(all: &mut [u8], at: usize, limits: block::TxLimits) {
    put(all, at, &limits.max_open.to_le_bytes());
    put(all, at + 4, &limits.pages.to_le_bytes());
    put(all, at + 8, &limits.span.to_le_bytes());
}

/// Identify Namespace.
fn namespace(of: &Namespace) -> Vec<u8> {
    let mut all = vec![0; BYTES];
    for at in [0, 8, 16] {
        put(&mut all, at, &of.blocks.to_le_bytes());
    }
    // Preferred granularity and alignment are told.
    all[24] = 1 << 4;
    // Several hosts may have it.
    all[30] = 1;
    // What is deallocated reads as zeroes, by Write Zeroes too.
    all[33] = if of.capabilities.trim { 0x09 } else { 0 };
    let preferred = (u64::from(of.capabilities.block) / of.block()).clamp(1, 1 << 16) - 1;
    for at in [64, 66, 68, 70, 72] {
        put(&mut all, at, &(preferred as u16).to_le_bytes());
    }
    all[99] = u8::from(of.capabilities.read_only);
    put(&mut all, 104, &of.nguid);
    all[128 + 2] = of.shift as u8;
    if let Some(limits) = of.transactions() {
        put(&mut all, NAMESPACE_VENDOR, MAGIC);
        put_limits(&mut all, NAMESPACE_VENDOR + 8, limits);
    }
    all
}

/// What names a namespace has.
fn descriptors(of: &Namespace) -> Vec<u8> {
    let mut all = vec![0; BYTES];
    put(&mut all, 0, &[2, 16]);
    put(&mut all, 4, &of.nguid);
    put(&mut all, 20, &[3, 16]);
    put(&mut all, 24, &of.uuid);
    put(&mut all, 40, &[4, 1]);
    all
}

impl<T: Transport> Work<'_, T> {
    /// Identify.
    pub(super) fn identify(&mut self, sqe: &Sqe) -> Outcome {
        if sqe.data()?.0 as usize != BYTES {
            return Err(Status::DATA_LENGTH.into());
        }
        let Some(queue) = &self.queue else { return Err(Status::SEQUENCE.into()) };
        let (cntlid, discovery) = (queue.association.cntlid, queue.association.host.discovery);
        let all = match (sqe.0[40], discovery) {
            (1, _) => controller(self.shared, cntlid, discovery),
            (0, false) => namespace(self.namespace(sqe)?.1),
            (2, false) => {
                let mut all = vec![0; BYTES];
                let count = self.shared.namespaces.len() as u32;
                let beyond = sqe.nsid().saturating_add(1)..=count;
                for (i, nsid) in beyond.take(BYTES / 4).enumerate() {
                    put(&mut all, i * 4, &nsid.to_le_bytes());
                }
                all
            }
            (3, false) => descriptors(self.namespace(sqe)?.1),
            _ => return Err(Failure::from(Status::INVALID_FIELD)),
        };
        Ok(Reply::Data(all))
    }
}
