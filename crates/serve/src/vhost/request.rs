//! One chain of descriptors: a header of 16 bytes, data, and a byte of status at the very end.

use std::io::{Read, Write};

use stack::disk::{Disk, DiskError, Done, inside};
use virtio_queue::{DescriptorChain, Reader, Writer};
use vm_memory::{GuestMemoryLoadGuard, GuestMemoryMmap};

use super::config::{RANGES, SECTOR, SEG_MAX};
use super::stats::Counts;

/// Bytes that are copied at a time.
const PIECE: usize = 1 << 20;
/// Bytes of the answer to GET ID.
const ID_BYTES: usize = 20;
/// Bytes of a range of DISCARD and WRITE ZEROES.
const RANGE_BYTES: usize = 16;
/// Of a range to be zeroed: its space may be given up.
const UNMAP: u32 = 1;

mod kind {
    pub const IN: u32 = 0;
    pub const OUT: u32 = 1;
    pub const FLUSH: u32 = 4;
    pub const GET_ID: u32 = 8;
    pub const DISCARD: u32 = 11;
    pub const WRITE_ZEROES: u32 = 13;
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Ok = 0,
    Error = 1,
    Unsupported = 2,
}

/// Of all that a disk can say there is one word for the driver.
impl From<DiskError> for Status {
    fn from(_: DiskError) -> Status {
        Status::Error
    }
}

/// The driver's memory does not hold what a chain says, if that fails.
fn copied(result: std::io::Result<()>) -> Result<(), Status> {
    result.map_err(|_| Status::Error)
}

/// A chain of a queue.
pub type Chain = DescriptorChain<GuestMemoryLoadGuard<GuestMemoryMmap>>;

/// Writes into a chain that was served that its request failed; bytes that are there then.
pub fn failed(memory: &GuestMemoryMmap, chain: &Chain) -> u32 {
    let place = chain
        .clone()
        .writer(memory)
        .ok()
        .and_then(|mut writer| writer.split_at(writer.available_bytes().checked_sub(1)?).ok());
    let written = place.map(|mut place| place.write_all(&[Status::Error as u8]));
    u32::from(matches!(written, Some(Ok(()))))
}

/// What is served, and how.
#[derive(Debug)]
pub struct Target<'a> {
    pub disk: &'a dyn Disk,
    /// The driver's logical block, in bytes.
    pub block: u32,
    /// Whatever changes the disk is durable when it is answered.
    pub forced: bool,
}

/// A range of DISCARD or WRITE ZEROES.
struct Range {
    at: u64,
    bytes: u64,
    flags: u32,
}

impl Target<'_> {
    /// Does what a chain asks for: bytes that were written into it, and when it may be handed back.
    pub fn serve(
        &self,
        memory: &GuestMemoryMmap,
        chain: &Chain,
        buffer: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> (u32, Done) {
        let place = chain.clone().writer(memory).ok().and_then(|mut writer| {
            let place = writer.split_at(writer.available_bytes().checked_sub(1)?).ok()?;
            Some((writer, place))
        });
        let Some((mut writer, mut place)) = place else {
            counts.broken += 1;
            return (0, Done::NOW);
        };
        let long = chain.clone().count() > SEG_MAX as usize + 2;
        let ended = match chain.clone().reader(memory) {
            Ok(mut reader) if !long => self.run(&mut reader, &mut writer, buffer, counts),
            _ => Err(Status::Error),
        };
        let (status, done) = match ended {
            Ok(done) => (Status::Ok, done),
            Err(status) => {
                counts.errors += 1;
                (status, Done::NOW)
            }
        };
        let written = match (status, u32::try_from(writer.bytes_written())) {
            (Status::Ok, Ok(data)) => data + 1,
            // Nothing of the data is to be believed.
            _ => 1,
        };
        match place.write_all(&[status as u8]) {
            Ok(()) => (written, done),
            Err(_) => (0, done),
        }
    }

    fn run(
        &self,
        reader: &mut Reader<'_>,
        writer: &mut Writer<'_>,
        buffer: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> Result<Done, Status> {
        let mut header = [0; 16];
        copied(reader.read_exact(&mut header))?;
        let [kind, _, low, high] = words(&header);
        let sector = u64::from(low) | u64::from(high) << 32;
        match kind {
            // Has no address: the driver may leave anything there.
            kind::FLUSH => {
                counts.flushes += 1;
                Ok(self.disk.flush()?)
            }
            kind::IN => self.read(sector, writer, buffer, counts),
            kind::OUT => self.write(sector, reader, buffer, counts),
            kind::DISCARD | kind::WRITE_ZEROES => self.ranges(kind, reader, counts),
            kind::GET_ID => {
                let mut id = [0; ID_BYTES];
                id[..5].copy_from_slice(b"varve");
                let length = writer.available_bytes().min(ID_BYTES);
                copied(writer.write_all(&id[..length]))?;
                Ok(Done::NOW)
            }
            _ => Err(Status::Unsupported),
        }
    }

    /// The place of a request for data.
    fn place(&self, sector: u64, bytes: usize) -> Result<u64, Status> {
        let at = sector.checked_mul(SECTOR).ok_or(Status::Error)?;
        let block = u64::from(self.block);
        if !at.is_multiple_of(block) || !(bytes as u64).is_multiple_of(block) {
            return Err(Status::Error);
        }
        inside(at, bytes as u64, self.disk.capabilities().size)?;
        Ok(at)
    }

    fn read(
        &self,
        sector: u64,
        writer: &mut Writer<'_>,
        buffer: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> Result<Done, Status> {
        let mut left = writer.available_bytes();
        let (mut at, mut done) = (self.place(sector, left)?, Done::NOW);
        counts.reads += 1;
        counts.read_bytes += left as u64;
        while left > 0 {
            let piece = room(buffer, left);
            done = done.and(self.disk.read(at, piece)?);
            copied(writer.write_all(piece))?;
            (at, left) = (at + piece.len() as u64, left - piece.len());
        }
        Ok(done)
    }

    fn write(
        &self,
        sector: u64,
        reader: &mut Reader<'_>,
        buffer: &mut Vec<u8>,
        counts: &mut Counts,
    ) -> Result<Done, Status> {
        let mut left = reader.available_bytes();
        let (mut at, mut done) = (self.place(sector, left)?, Done::NOW);
        counts.writes += 1;
        counts.write_bytes += left as u64;
        counts.forced += u64::from(self.forced);
        while left > 0 {
            let piece = room(buffer, left);
            copied(reader.read_exact(piece))?;
            done = done.and(self.disk.write(at, piece, self.forced)?);
            (at, left) = (at + piece.len() as u64, left - piece.len());
        }
        Ok(done)
    }

    fn ranges(
        &self,
        kind: u32,
        reader: &mut Reader<'_>,
        counts: &mut Counts,
    ) -> Result<Done, Status> {
        let bytes = reader.available_bytes();
        if bytes == 0 || !bytes.is_multiple_of(RANGE_BYTES) || bytes / RANGE_BYTES > RANGES as usize
        {
            return Err(Status::Error);
        }
        let allowed = if kind == kind::WRITE_ZEROES { UNMAP } else { 0 };
        let mut all = Vec::with_capacity(bytes / RANGE_BYTES);
        // All of them are looked at before anything is done.
        for _ in 0..bytes / RANGE_BYTES {
            let mut range = [0; RANGE_BYTES];
            copied(reader.read_exact(&mut range))?;
            let [low, high, sectors, flags] = words(&range);
            let bytes = u64::from(sectors) * SECTOR;
            let at = self.place(u64::from(low) | u64::from(high) << 32, bytes as usize)?;
            if flags & !allowed != 0 {
                return Err(Status::Unsupported);
            }
            all.push(Range { at, bytes, flags });
        }
        let mut done = Done::NOW;
        for Range { at, bytes, flags } in all {
            done = done.and(match kind {
                kind::DISCARD => {
                    counts.trims += 1;
                    self.disk.trim(at, bytes, false)?
                }
                _ => {
                    counts.zeroes += 1;
                    counts.forced += u64::from(self.forced);
                    self.disk.zero(at, bytes, flags & UNMAP == 0, self.forced)?
                }
            });
        }
        Ok(done)
    }
}

fn words(bytes: &[u8; 16]) -> [u32; 4] {
    let word =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    [word(0), word(4), word(8), word(12)]
}

/// Room for the next piece of so many bytes.
fn room(buffer: &mut Vec<u8>, left: usize) -> &mut [u8] {
    let piece = left.min(PIECE);
    if buffer.len() < piece {
        buffer.resize(piece, 0);
    }
    &mut buffer[..piece]
}
