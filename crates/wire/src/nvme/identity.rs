//! What both ends know of an answer to Identify.

use super::pdu::{u16_at, u32_at, u64_at};

/// The subsystem that tells which others there are.
pub const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// Bytes of any answer.
pub const BYTES: usize = 4096;
/// Where the area of the vendor begins.
pub const VENDOR: usize = 3072;
/// The same in an answer to Identify Namespace.
pub const NAMESPACE_VENDOR: usize = 384;
/// What both begin with.
pub const MAGIC: &[u8; 8] = b"varve\0\0\x01";
/// In its word at byte 48: namespaces can be claimed.
pub const CLAIMS: u32 = 1;

/// Transactions: open at once, their pages, the span.
pub type Limits = (u32, u32, u64);

fn limits_at(all: &[u8], area: usize, at: usize) -> Option<Limits> {
    let ours = all.len() == BYTES && all[area..area + 8] == MAGIC[..];
    let open = ours.then(|| u32_at(all, at)).filter(|open| *open > 0)?;
    Some((open, u32_at(all, at + 4), u64_at(all, at + 8)))
}

/// What a host finds in an answer to Identify Controller; `None`: it is not ours, or has no transactions.
pub fn limits(controller: &[u8]) -> Option<Limits> {
    limits_at(controller, VENDOR, VENDOR + 32)
}

/// The same of one namespace.
pub fn limits_of(namespace: &[u8]) -> Option<Limits> {
    limits_at(namespace, NAMESPACE_VENDOR, NAMESPACE_VENDOR + 8)
}

/// The number of the controller, in an answer to Identify Controller.
pub fn cntlid(controller: &[u8]) -> u16 {
    u16_at(controller, 78)
}

/// Whether namespaces can be claimed, by an answer to Identify Controller.
pub fn claims(controller: &[u8]) -> bool {
    limits(controller).is_some() && u32_at(controller, VENDOR + 48) & CLAIMS != 0
}
