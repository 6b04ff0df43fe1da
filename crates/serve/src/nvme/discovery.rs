//! The log of a discovery controller: which subsystems there are, and where.

use std::net::{IpAddr, SocketAddr};

use super::pdu::put;
use super::subsystem::Subsystem;

/// Bytes of its head, and of an entry.
const ENTRY: usize = 1024;

/// One subsystem, at the address that the host has reached us at, or the one that hosts are to be told.
pub(super) fn log(shared: &Subsystem, local: Option<SocketAddr>) -> Vec<u8> {
    let mut all = vec![0; 2 * ENTRY];
    let Some(local) = local else {
        all.truncate(ENTRY);
        return all;
    };
    put(&mut all, 0, &1u64.to_le_bytes());
    put(&mut all, 8, &1u64.to_le_bytes());
    let (ip, port) = match shared.options.told {
        Some((ip, port)) => (ip, port.unwrap_or(local.port())),
        None => (local.ip(), local.port()),
    };
    let entry = &mut all[ENTRY..];
    // TCP; an NVM subsystem.
    (entry[0], entry[2]) = (3, 2);
    entry[1] = if ip.is_ipv4() { 1 } else { 2 };
    // Nothing of a secure channel: from "not required" hosts gather that there is one, and ask for it.
    entry[3] = 0;
    put(entry, 4, &1u16.to_le_bytes());
    put(entry, 6, &u16::MAX.to_le_bytes());
    // Commands of the admin queue at most.
    put(entry, 8, &32u16.to_le_bytes());
    entry[32..64].fill(b' ');
    put(entry, 32, port.to_string().as_bytes());
    put(entry, 256, shared.nqn.as_bytes());
    entry[512..768].fill(b' ');
    let address = match ip {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => address.to_string(),
    };
    put(entry, 512, address.as_bytes());
    all
}
