//! Logs: what failed, how the drive is, and what it has done.
//!
//! What is not known is not made up: a stack without a modelled drive has no log of the media, and no drive
//! here states how often it may be erased, so that the part of its life that is used stays 0.

use std::collections::BTreeMap;

use super::codec::Sqe;
use super::discovery;
use super::identify::FIRMWARE;
use super::pdu::put;
use super::status::{Failure, Status};
use super::subsystem::Subsystem;
use super::work::{Outcome, Reply, Work};
use crate::control::stats;
use crate::stream::Transport;

/// Numbers of logs.
mod log {
    pub const ERRORS: u8 = 0x01;
    pub const HEALTH: u8 = 0x02;
    pub const FIRMWARE: u8 = 0x03;
    pub const CHANGED: u8 = 0x04;
    pub const DISCOVERY: u8 = 0x70;
    /// Of the Open Compute Project: the media.
    pub const MEDIA: u8 = 0xc0;
    /// Our own: all that is counted, as a document.
    pub const DOCUMENT: u8 = 0xd0;
}

/// Names the log of the media, in the order of its bytes there.
const MEDIA_NAME: u128 = 0xafd5_14c9_7c6f_4f9c_a4f2_bfea_2810_afc5;
/// Bytes of a unit of data in the log of health.
const UNIT: u64 = 512_000;
/// 300 K.
const TEMPERATURE: u16 = 300;

fn health(shared: &Subsystem, errors: u64) -> Vec<u8> {
    let mut all = vec![0; 512];
    let mut asked = [(0, 0); 4];
    for namespace in &shared.namespaces {
        for (sum, (count, bytes)) in asked.iter_mut().zip(namespace.stack.meter.totals()) {
            *sum = (sum.0 + count, sum.1 + bytes);
        }
    }
    let [(reads, read), (writes, written), ..] = asked;
    put(&mut all, 1, &TEMPERATURE.to_le_bytes());
    // All of its spare is there, and below a tenth it would warn.
    (all[3], all[4]) = (100, 10);
    put(&mut all, 32, &read.div_ceil(UNIT).to_le_bytes());
    put(&mut all, 48, &written.div_ceil(UNIT).to_le_bytes());
    put(&mut all, 64, &reads.to_le_bytes());
    put(&mut all, 80, &writes.to_le_bytes());
    let cuts = shared.power().1;
    put(&mut all, 112, &(cuts + 1).to_le_bytes());
    put(&mut all, 144, &cuts.to_le_bytes());
    put(&mut all, 176, &errors.to_le_bytes());
    put(&mut all, 200, &TEMPERATURE.to_le_bytes());
    all
}

/// What the drives below have done to their media; `None`: there is no drive whose media is known.
fn media(shared: &Subsystem) -> Option<Vec<u8>> {
    let mut all = vec![0; 512];
    let (mut written, mut read, mut bad) = (0, 0, 0);
    let (mut most, mut least, mut any) = (0, u64::MAX, false);
    let (mut free, mut total) = (0, 0);
    for namespace in &shared.namespaces {
        let counted: BTreeMap<&str, u64> = namespace.stack.disk.counters().into_iter().collect();
        let of = |name: &str| counted.get(name).copied();
        let (Some(programs), Some(slot)) = (of("nand_programs"), of("slot_bytes")) else {
            continue;
        };
        any = true;
        written += u128::from(programs) * u128::from(slot);
        read += u128::from(of("nand_reads").unwrap_or(0)) * u128::from(slot);
        bad += of("bad_blocks").unwrap_or(0);
        most = most.max(of("erases_most").unwrap_or(0));
        least = least.min(of("erases_least").unwrap_or(0));
        free += of("free_blocks").unwrap_or(0);
        total += of("good_blocks").unwrap_or(0);
    }
    any.then(|| {
        put(&mut all, 0, &written.to_le_bytes());
        put(&mut all, 16, &read.to_le_bytes());
        // A count of six bytes, and in percent what is left of the spare.
        put(&mut all, 32, &bad.to_le_bytes()[..6]);
        put(&mut all, 38, &100u16.to_le_bytes());
        put(&mut all, 46, &100u16.to_le_bytes());
        put(&mut all, 88, &(most as u32).to_le_bytes());
        put(&mut all, 92, &(least as u32).to_le_bytes());
        put(&mut all, 112, &(shared.power().1 as u32).to_le_bytes());
        all[120] = (free * 100).checked_div(total).unwrap_or(0).min(100) as u8;
        put(&mut all, 494, &3u16.to_le_bytes());
        put(&mut all, 496, &MEDIA_NAME.to_le_bytes());
        all
    })
}

fn firmware() -> Vec<u8> {
    let mut all = vec![0; 512];
    all[0] = 1;
    all[8..16].fill(b' ');
    put(&mut all, 8, &FIRMWARE.as_bytes()[..FIRMWARE.len().min(8)]);
    all
}

fn document(shared: &Subsystem) -> Vec<u8> {
    let all = shared.namespaces.iter().map(|namespace| {
        let mut one = stats(&namespace.stack);
        one["name"] = namespace.name.clone().into();
        one
    });
    serde_json::Value::Array(all.collect()).to_string().into_bytes()
}

impl<T: Transport> Work<'_, T> {
    /// Get Log Page. What lies beyond the end of a log reads as zeroes.
    pub(super) fn log(&mut self, sqe: &Sqe) -> Outcome {
        let words = u64::from(sqe.dword(10) >> 16) | u64::from(sqe.dword(11) & 0xffff) << 16;
        let (bytes, at) = ((words + 1) * 4, sqe.qword(12));
        if bytes > u64::from(self.shared.options.transfer) || !at.is_multiple_of(4) {
            return Err(Status::INVALID_FIELD.into());
        }
        if u64::from(sqe.data()?.0) != bytes {
            return Err(Status::DATA_LENGTH.into());
        }
        let keep = sqe.dword(10) >> 15 & 1 != 0;
        let mut all = self.whole_log(sqe.0[40], keep)?;
        let at = usize::try_from(at).ok().filter(|at| *at <= all.len());
        let at = at.ok_or(Failure::from(Status::INVALID_FIELD))?;
        all.drain(..at);
        all.resize(bytes as usize, 0);
        Ok(Reply::Data(all))
    }

    fn whole_log(&mut self, number: u8, keep: bool) -> Result<Vec<u8>, Failure> {
        let Some(queue) = &self.queue else { return Err(Status::SEQUENCE.into()) };
        let association = &queue.association;
        let shared = self.shared;
        Ok(match (number, association.host.discovery) {
            (log::DISCOVERY, true) => discovery::log(shared, self.local),
            (log::ERRORS, _) => association.errors().1,
            (log::HEALTH, _) => health(shared, association.errors().0),
            (log::FIRMWARE, _) => firmware(),
            (log::CHANGED, false) => {
                let mut all = vec![0; 4096];
                if association.changed(keep) {
                    for (i, _) in shared.namespaces.iter().enumerate().take(1024) {
                        put(&mut all, i * 4, &(i as u32 + 1).to_le_bytes());
                    }
                }
                all
            }
            (log::MEDIA, false) => media(shared).ok_or(Failure::from(Status::INVALID_LOG))?,
            (log::DOCUMENT, false) => document(shared),
            _ => return Err(Status::INVALID_LOG.into()),
        })
    }
}
