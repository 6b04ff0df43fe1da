//! What both ends know of an answer to Identify.

use super::pdu::{u16_at, u32_at, u64_at};

/// The subsystem that tells which others there are.
pub const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// Bytes of any answer.
pub const BYTES: usize = 4096;
/// Where the area of the vendor begins.
pub const VENDOR: usize = 3072;
/// What it begins with.
pub const MAGIC: &[u8; 8] = b"varve\0\0\x01";

/// What a host finds in an answer to Identify Controller; `None`: it is not ours.
pub fn limits(controller: &[u8]) -> Option<(u32, u32, u64)> {
    let ours = controller.len() == BYTES && controller[VENDOR..VENDOR + 8] == MAGIC[..];
    let open = ours.then(|| u32_at(controller, VENDOR + 32)).filter(|open| *open > 0)?;
    Some((open, u32_at(controller, VENDOR + 36), u64_at(controller, VENDOR + 40)))
}

/// The number of the controller, in an answer to Identify Controller.
pub fn cntlid(controller: &[u8]) -> u16 {
    u16_at(controller, 78)
}
