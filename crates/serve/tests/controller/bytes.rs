//! What hosts of tests send, as bytes, and what they send it to.

use stack::live::Stack;
use varve_serve::nvme::codec::{Place, Sqe, admin, fabrics};
use varve_serve::nvme::initiator::{Wish, connect_command};
use varve_serve::nvme::pdu::{Digests, command, initialize, kind, u32_at};

use super::{NQN, stack};

pub const SIZE: u64 = 1 << 20;

pub fn filled(byte: u8) -> Stack {
    let stack = stack("ram(1MiB)");
    stack.disk.write(0, &vec![byte; SIZE as usize], false).expect("written").wait().unwrap();
    stack
}

pub fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
    text.split(' ').nth(1).expect("a second field").parse::<u64>().expect("a number") * 4096
}

/// A command as bytes.
pub fn capsule(sqe: Sqe, data: &[u8]) -> Vec<u8> {
    let place = if data.is_empty() { sqe } else { sqe.moving(data.len() as u32, Place::Capsule) };
    let (head, count) = command(&place.0, data.len(), Digests::default());
    let mut all = head[..count].to_vec();
    all.extend_from_slice(data);
    all
}

/// The bytes of a connection until its queue is there.
pub fn begin(qid: u16, cntlid: u16, wish: &Wish) -> Vec<u8> {
    let mut all = initialize(kind::INITIALIZE_REQUEST, Digests::default(), 0).to_vec();
    let (sqe, data) = connect_command(NQN, wish, qid, 31, cntlid);
    all.extend(capsule(sqe.numbered(1), &data));
    all
}

pub fn configure(value: u32) -> Vec<u8> {
    let mut sqe = Sqe::new(admin::FABRICS, 0).word(11, 0x14).word(12, value).numbered(2);
    sqe.0[4] = fabrics::SET;
    capsule(sqe, &[])
}

/// How many PDUs of a controller came back, with nothing of another namespace, which is full of `others`: eight of
/// them in a row, because one stands in many an identity that was drawn.
pub fn judge(bytes: &[u8], others: u8) -> Result<u64, String> {
    let (mut at, mut count) = (0, 0);
    while at + 8 <= bytes.len() {
        let (kind, length) = (bytes[at], u32_at(bytes, at + 4) as usize);
        if !matches!(kind, 1 | 3 | 5 | 7 | 9) || length < 8 {
            return Err(format!("a PDU of kind {kind}, {length} bytes"));
        }
        let Some(pdu) = bytes.get(at..at + length) else { return Ok(count) };
        if kind == 7 && pdu[24..].windows(8).any(|part| part == [others; 8]) {
            return Err("bytes of another namespace".to_string());
        }
        at += length;
        count += 1;
    }
    Ok(count)
}
