//! Checks of an NVMe controller that are of its protocol.

use super::link::Link;
use super::stamp::{stamp, versions};
use super::{Check, Verdict, must, pass};
use crate::nvme::codec::{Place, Sqe, admin, io};
use crate::nvme::initiator::{Told, blocks};
use crate::nvme::{Initiator, InitiatorError, Status};

/// Whether a command is answered with an error, and the connection lives.
fn refused(host: &mut Initiator, sqe: Sqe, out: &[u8], wanted: usize) -> Result<Status, String> {
    let done = host.line().ask(sqe, out, wanted).map_err(|error| error.to_string())?;
    let what = || format!("command {:02x}h was taken", sqe.opcode());
    must(done.cqe.status != Status::OK, what)?;
    Ok(done.cqe.status)
}

/// 10: numbers of blocks near 2^64, and a Flush with an address.
pub fn bounds(host: &mut Initiator, of: Told) -> Verdict {
    let block = 1usize << of.shift;
    for first in [of.blocks, u64::MAX, u64::MAX - 7, 1 << 63, 1 << (64 - of.shift)] {
        refused(host, blocks(io::READ, of, first, 1), &[], block)?;
        refused(host, blocks(io::WRITE, of, first, 1), &vec![9; block], 0)?;
        refused(host, blocks(io::COMPARE, of, first, 1), &vec![9; block], 0)?;
        if host.offers(3) {
            refused(host, blocks(io::WRITE_ZEROES, of, first, 1), &[], 0)?;
        }
        if host.offers(2) {
            let deallocated = host.deallocate(of, first, 1);
            let what = || format!("block {first} was deallocated");
            must(matches!(deallocated, Err(InitiatorError::Failed { .. })), what)?;
        }
    }
    let flush = Sqe::new(io::FLUSH, of.nsid).words(10, u64::MAX - 5).word(12, u32::MAX);
    let done = host.line().ask(flush, &[], 0).map_err(|error| error.to_string())?;
    let what = || format!("Flush looks at its address: {}", done.cqe.status);
    must(done.cqe.status == Status::OK, what)?;
    pass("beyond the end; there is no length of nothing")
}

/// 13
pub fn read_only(host: &mut Initiator, of: Told) -> Result<(), String> {
    let block = 1usize << of.shift;
    refused(host, blocks(io::WRITE, of, 0, 1), &vec![7; block], 0)?;
    if host.offers(3) {
        refused(host, blocks(io::WRITE_ZEROES, of, 0, 1), &[], 0)?;
    }
    if host.offers(2) {
        let mut range = [0; 16];
        range[4] = 1;
        refused(host, Sqe::new(io::DATASET, of.nsid).word(11, 4), &range, 0)?;
    }
    Ok(())
}

/// 16
pub fn unknown(host: &mut Initiator, of: Told) -> Result<usize, String> {
    let block = 1usize << of.shift;
    let mut count = 0;
    for opcode in [0x03, 0x04, 0x0d, 0x11, 0x15, 0x7c, 0x7e, 0xf0, 0xfc] {
        let sqe = Sqe::new(opcode, of.nsid);
        let (out, wanted): (&[u8], usize) = match opcode & 3 {
            1 => (&vec![7; block], 0),
            2 => (&[], block),
            _ => (&[], 0),
        };
        refused(host, sqe, out, wanted)?;
        count += 1;
    }
    // A namespace that there is not, half of a fused pair, data elsewhere.
    let read = blocks(io::READ, Told { nsid: 0xffff_fffe, ..of }, 0, 1);
    refused(host, read, &[], block)?;
    let mut fused = blocks(io::READ, of, 0, 1);
    fused.0[1] |= 1;
    refused(host, fused, &[], block)?;
    let status = refused(host, blocks(io::READ, of, 0, 2), &[], block)?;
    must(status.0 & 0x7ff == 0x0f, || format!("too little room is {status}"))?;
    for sqe in [Sqe::new(0xc1, 0), Sqe::new(admin::IDENTIFY, 0).word(10, 0xee)] {
        let wanted = if sqe.opcode() == admin::IDENTIFY { 4096 } else { 0 };
        let done = host.admin.ask(sqe, &[], wanted).map_err(|error| error.to_string())?;
        must(done.cqe.status != Status::OK, || format!("admin {:02x}h", sqe.opcode()))?;
        count += 1;
    }
    Ok(count + 3)
}

/// 14: half of a command with its data, and half of the data that was asked for.
pub fn disconnect(c: &mut Check<'_>, mut link: Link) -> Verdict {
    let grain = link.grain();
    let (mut torn, first) = (0, c.fresh());
    for round in 0..20 {
        let (old, new) = (c.fresh(), c.fresh());
        let mut other = c.link()?;
        let Some((host, of)) = other.host() else { return Err("no host".to_string()) };
        let bytes = host.transfer().min(128 << 10).max(grain);
        link.write(0, &stamp(old, 0, bytes), false)?;
        let data = stamp(new, 0, bytes);
        let sqe = blocks(io::WRITE, of, 0, bytes >> of.shift).numbered(1);
        let line = host.line();
        let mut out = match round % 2 == 0 && line.capsule >= data.len() {
            true => {
                let whole = sqe.moving(bytes as u32, Place::Capsule);
                let (head, count) = crate::nvme::pdu::command(&whole.0, data.len(), line.digests);
                head[..count].to_vec()
            }
            false => {
                line.put_command(&sqe.moving(bytes as u32, Place::Transport), &[]);
                line.push().map_err(|error| error.to_string())?;
                let part = line.asked_for().map_err(|error| error.to_string())?;
                let (head, count) =
                    part.head(crate::nvme::pdu::kind::HOST_DATA, true, line.digests);
                head[..count].to_vec()
            }
        };
        let half = c.rng.below(bytes) as usize;
        out.extend_from_slice(&data[..half]);
        std::io::Write::write_all(line.stream(), &out).map_err(|error| error.to_string())?;
        drop(other);
        for version in versions(0, &link.read(0, bytes as u32)?)? {
            // What an earlier half announced may come late: nobody was told that it was over.
            must((first..=new).contains(&version), || format!("version {version} of {old}"))?;
            torn += u64::from(version == new);
        }
    }
    pass(format!("{torn} sectors of halves were written"))
}
