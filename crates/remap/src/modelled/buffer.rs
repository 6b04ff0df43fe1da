//! The contents of the write-back buffer in virtual time, and the writes that go through it.

use std::collections::VecDeque;

use block::{BlockDevice, DeviceError, Lpn, Time, crc32c};

use super::HostLog;
use super::below::Payload;
use super::gather::{Feed, Names};
use crate::engine::Buffering;
use crate::geometry::{BLOCK, Pba};
use crate::record::{Form, stamp_crc};

/// What leaves early goes out when so many blocks of it have come together.
const TOGETHER: u32 = 256;

/// What a slot holds.
#[derive(Clone, Debug, Default)]
enum Held {
    #[default]
    Nothing,
    Bytes(Box<[u8]>),
    Stamp(u64),
}

/// The contents of the slots, and the writes below that have not ended.
#[derive(Debug, Default)]
pub(super) struct Contents {
    slots: Vec<Held>,
    under_way: VecDeque<Time>,
}

impl Contents {
    pub fn new(slots: u32) -> Contents {
        Contents { slots: vec![Held::Nothing; slots as usize], under_way: VecDeque::new() }
    }

    pub fn bytes(&self, slot: u32) -> Option<&[u8]> {
        match &self.slots[slot as usize] {
            Held::Bytes(bytes) => Some(bytes),
            Held::Nothing | Held::Stamp(_) => None,
        }
    }

    pub fn stamp(&self, slot: u32) -> Option<u64> {
        match self.slots[slot as usize] {
            Held::Stamp(stamp) => Some(stamp),
            Held::Nothing | Held::Bytes(_) => None,
        }
    }

    /// Keeps block `i` of a payload.
    fn keep(&mut self, slot: u32, payload: Payload<'_>, i: usize) {
        let held = &mut self.slots[slot as usize];
        match (payload, &mut *held) {
            (Payload::Nothing, held) => *held = Held::Nothing,
            (Payload::Stamps(stamps), held) => *held = Held::Stamp(stamps[i]),
            (Payload::Bytes(all), Held::Bytes(bytes)) => {
                bytes.copy_from_slice(&all[i * BLOCK..(i + 1) * BLOCK]);
            }
            (Payload::Bytes(all), held) => {
                *held = Held::Bytes(all[i * BLOCK..(i + 1) * BLOCK].into());
            }
        }
    }
}

/// Form of a payload, and the CRC of its blocks.
pub(super) fn form(payload: Payload<'_>) -> Form {
    match payload {
        Payload::Nothing => Form::Nothing,
        Payload::Bytes(_) => Form::Bytes,
        Payload::Stamps(_) => Form::Stamps,
    }
}

pub(super) fn crc(payload: Payload<'_>, i: usize) -> u32 {
    match payload {
        Payload::Nothing => 0,
        Payload::Bytes(bytes) => crc32c(0, &bytes[i * BLOCK..(i + 1) * BLOCK]),
        Payload::Stamps(stamps) => stamp_crc(stamps[i]),
    }
}

impl<D: BlockDevice> HostLog<D> {
    /// Puts a write into the buffer: when it is answered. `None` if it does not go through it.
    pub(super) fn buffer(
        &mut self,
        lpn: Lpn,
        count: u32,
        payload: Payload<'_>,
    ) -> Result<Option<Time>, DeviceError> {
        loop {
            match self.engine.buffering(lpn, count) {
                Buffering::Through => return Ok(None),
                Buffering::Fits => break,
                Buffering::Room(blocks) => self.make_room(blocks)?,
                Buffering::Evict(lpn, slot) => self.evict(lpn, slot),
            }
        }
        for i in 0..count {
            let (form, crc) = (form(payload), crc(payload, i as usize));
            let slot = self.engine.buffer_put(Lpn(lpn.0 + i), form, crc);
            self.contents.keep(slot, payload, i as usize);
        }
        let mut answered = self.below.clock;
        if self.gather.blocks() >= TOGETHER {
            // Somebody waits for the place of what is on its way, as far as others did not.
            let done = self.issue()?;
            self.contents.under_way.push_back(done);
            let most = self.engine.options().inflight as usize;
            while self.contents.under_way.len() > most {
                let ended = self.contents.under_way.pop_front();
                answered = answered.max(ended.unwrap_or(answered));
            }
        }
        Ok(Some(answered))
    }

    /// A block leaves for the log.
    fn evict(&mut self, lpn: Lpn, slot: u32) {
        let stamp;
        let payload = match &self.contents.slots[slot as usize] {
            Held::Nothing => Payload::Nothing,
            Held::Bytes(bytes) => Payload::Bytes(bytes),
            Held::Stamp(held) => {
                stamp = [*held];
                Payload::Stamps(&stamp)
            }
        };
        let mut feed = Feed {
            gather: &mut self.gather,
            payload,
            reverse: self.reverse.as_mut(),
            names: Names::From(lpn),
            geometry: *self.engine.geometry(),
        };
        self.engine.evict(lpn, &mut feed);
    }

    /// Empties the buffer, and ends the batch.
    pub(super) fn end_batch(&mut self) -> Result<(), DeviceError> {
        loop {
            let mut feed = Self::feed(&mut self.gather, &mut self.reverse, &self.engine);
            let Some((lpn, slot)) = self.engine.batch_next(&mut feed) else { break };
            self.evict(lpn, slot);
            if self.gather.blocks() >= TOGETHER {
                self.issue()?;
            }
        }
        let mut feed = Self::feed(&mut self.gather, &mut self.reverse, &self.engine);
        self.engine.batch_end(&mut feed);
        Ok(())
    }

    /// Whether a place is on its way below, or its block buffered.
    pub(super) fn is_here(&self, lpn: Lpn, pba: Pba) -> bool {
        self.engine.buffered(lpn).is_some() || self.gather.holds(pba)
    }
}
