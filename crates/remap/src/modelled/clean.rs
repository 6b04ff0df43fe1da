//! Cleaning in virtual time: a victim's headers and live blocks are read ahead, then moved when they
//! have arrived.

use std::collections::VecDeque;

use block::{BlockDevice, Data, DeviceError, Lpn, Time, crc32c};

use super::HostLog;
use super::below::Payload;
use super::gather::{Feed, HEADER, Names};
use crate::check::walk_segment;
use crate::geometry::{BLOCK, Pba, Seg};
use crate::options::{Ack, GcOrder};
use crate::record::{Entry, Form, stamp_crc};

/// A live block of the victim.
#[derive(Clone, Copy, Debug)]
struct Live {
    lpn: Lpn,
    from: Pba,
    crc: u32,
    form: Form,
}

/// The victim's list, and what of it was read.
#[derive(Debug, Default)]
pub(super) struct Cleaner {
    /// What was live in the victim when it was chosen.
    live: Vec<Live>,
    /// Its newest record.
    newest: u64,
    /// Blocks of the list that have been read.
    read: usize,
    /// Parts of the list that are read or being read, and not moved as a whole.
    ahead: VecDeque<Ahead>,
    /// Buffers of those that were.
    spare: Vec<Ahead>,
    /// When the last copies are written, and when the next may follow in a pause.
    done: Time,
    rested: Time,
}

impl Cleaner {
    /// When the next block to be moved has been read.
    pub fn ready(&self) -> Option<Time> {
        self.ahead.front().map(|ahead| ahead.ready)
    }
    pub fn done(&self) -> Time {
        self.done
    }
    pub fn rested(&self) -> Time {
        self.rested
    }
    pub fn rest_until(&mut self, at: Time) {
        self.rested = at;
    }
}

/// A part of the list whose contents are, or will be, there.
#[derive(Debug, Default)]
struct Ahead {
    from: usize,
    /// The next to be moved.
    next: usize,
    to: usize,
    ready: Time,
    bytes: Vec<u8>,
    stamps: Vec<u64>,
    names: Vec<Lpn>,
}

/// Parts that are read ahead of the one being moved.
const AHEAD: usize = 2;

impl<D: BlockDevice> HostLog<D> {
    /// Chooses the next victim, if one is worth it, and reads the first of its blocks.
    pub(super) fn begin_victim(&mut self) -> Result<(), DeviceError> {
        let Some((seg, meta, live)) = self.engine.pick_victim() else { return Ok(()) };
        if meta {
            while let Err((page, pba)) = self.engine.move_pages(seg) {
                self.scratch.resize(BLOCK, 0);
                self.below.get(pba, 1, Data::Read(&mut self.scratch[..BLOCK]))?;
                self.engine.install(page, &self.scratch[..BLOCK]);
            }
            return Ok(());
        }
        // Its newest blocks and headers may still be gathered here.
        self.issue()?;
        self.cleaner.newest = self.engine.newest_record(seg);
        if self.below.payload {
            self.list_live(seg)?
        } else {
            self.list_reverse(seg)?
        }
        if self.engine.options().gc_order == GcOrder::Lba {
            self.cleaner.live.sort_unstable_by_key(|live| live.lpn);
        }
        self.cleaner.read = 0;
        self.engine.listed(seg, live, self.cleaner.live.len(), &mut self.freed);
        self.discard_freed()?;
        self.read_ahead()
    }

    /// Reads on, so that what is moved next is there in time.
    fn read_ahead(&mut self) -> Result<(), DeviceError> {
        while self.cleaner.ahead.len() < AHEAD && self.cleaner.read < self.cleaner.live.len() {
            self.read_batch()?;
        }
        Ok(())
    }

    /// Moves blocks of the victim, `most` at most, as far as they have arrived; with `wait` time
    /// passes until they have. Says of how many of the list it is done with.
    pub(super) fn move_some(&mut self, most: usize, wait: bool) -> Result<usize, DeviceError> {
        let mut left = most;
        while left > 0
            && let Some(ahead) = self.cleaner.ahead.front()
        {
            if ahead.ready > self.below.clock {
                if !wait {
                    break;
                }
                self.below.clock = ahead.ready;
            }
            left -= self.move_batch(left)?;
            self.read_ahead()?;
        }
        if wait || self.engine.options().ack == Ack::Device {
            self.cleaner.done = self.issue()?;
        }
        self.engine.copied(most - left, &mut self.freed);
        self.discard_freed()?;
        Ok(most - left)
    }

    /// Lists what is live in a segment, from its headers.
    fn list_live(&mut self, seg: Seg) -> Result<(), DeviceError> {
        self.cleaner.live.clear();
        let (live, engine) = (&mut self.cleaner.live, &mut self.engine);
        let (geometry, instance) = (*engine.geometry(), engine.instance());
        let capped = engine.map_limit() != u32::MAX;
        let mut entries: Vec<Live> = Vec::new();
        walk_segment(&mut self.below, &geometry, instance, seg, |_, header, at, block| {
            for (entry, from) in header.entries(at, block) {
                if let Entry::Write { lpn, crc } | Entry::Move { lpn, crc, .. } = entry {
                    let found = Live { lpn, from, crc, form: header.form };
                    if capped {
                        entries.push(found);
                    } else if engine.is_live(lpn, from) {
                        live.push(found);
                    }
                }
            }
            Ok(())
        })?;
        for found in entries {
            if found.lpn.0 < self.engine.geometry().logical {
                self.load_pages(found.lpn, 1)?;
            }
            if self.engine.is_live(found.lpn, found.from) {
                self.cleaner.live.push(found);
            }
        }
        Ok(())
    }

    /// The same for a log without payload, from the reverse map; headers are read all the same.
    fn list_reverse(&mut self, seg: Seg) -> Result<(), DeviceError> {
        self.cleaner.live.clear();
        let g = *self.engine.geometry();
        let Some(reverse) = &self.reverse else { return Ok(()) };
        for i in 0..g.segment {
            let pba = Pba(g.base(seg).0 + i);
            let name = reverse[(pba.0 - g.first) as usize];
            if name == HEADER {
                self.below.get(pba, 1, Data::None)?;
            } else if self.engine.is_live(Lpn(name), pba) {
                let live = Live { lpn: Lpn(name), from: pba, crc: 0, form: Form::Nothing };
                self.cleaner.live.push(live);
            }
        }
        Ok(())
    }

    /// Reads the next part of the list; neighbours together.
    fn read_batch(&mut self) -> Result<(), DeviceError> {
        let most = self.engine.options().gc_batch as usize;
        let live = &self.cleaner.live;
        let from = self.cleaner.read;
        let to = (from + most).min(live.len());
        self.cleaner.read = to;
        let mut ahead = self.cleaner.spare.pop().unwrap_or_default();
        (ahead.from, ahead.next, ahead.to, ahead.ready) = (from, from, to, self.below.clock);
        let batch = &live[from..to];
        ahead.bytes.resize(batch.len() * BLOCK, 0);
        ahead.stamps.resize(batch.len(), 0);
        ahead.names.clear();
        ahead.names.extend(batch.iter().map(|live| live.lpn));
        let (mut at, mut again) = (0, Vec::new());
        while at < batch.len() {
            let first = batch[at];
            let follows =
                |(i, l): (u32, &Live)| l.from.0 == first.from.0 + i && l.form == first.form;
            let n = (0u32..).zip(&batch[at..]).take_while(|x| follows(*x)).count();
            let into = match first.form {
                Form::Nothing => Data::None,
                Form::Bytes => Data::Read(&mut ahead.bytes[at * BLOCK..(at + n) * BLOCK]),
                Form::Stamps => Data::ReadStamps(&mut ahead.stamps[at..at + n]),
            };
            match self.below.get(first.from, n as u32, into) {
                Ok(done) => ahead.ready = ahead.ready.max(done),
                Err(DeviceError::Unreadable(_)) => again.push(at..at + n),
                Err(error) => return Err(error),
            }
            at += n;
        }
        for slot in again.into_iter().flatten() {
            self.reread(slot, &mut ahead)?;
        }
        self.cleaner.ahead.push_back(ahead);
        Ok(())
    }

    /// Reads one block of a run that could not be read as a whole; a block that cannot be read is
    /// left as something its CRC does not fit.
    fn reread(&mut self, slot: usize, ahead: &mut Ahead) -> Result<(), DeviceError> {
        let index = ahead.from + slot;
        let live = self.cleaner.live[index];
        let block = &mut ahead.bytes[slot * BLOCK..(slot + 1) * BLOCK];
        let stamp = &mut ahead.stamps[slot];
        let read = match live.form {
            Form::Nothing => return Ok(()),
            Form::Bytes => self.below.get(live.from, 1, Data::Read(block)),
            Form::Stamps => {
                self.below.get(live.from, 1, Data::ReadStamps(std::slice::from_mut(stamp)))
            }
        };
        match read {
            Ok(_) => Ok(()),
            Err(DeviceError::Unreadable(_)) => {
                // A CRC that nothing has: the block is poisoned when it is moved.
                block.fill(0);
                *stamp = 0;
                let own = if live.form == Form::Bytes { crc32c(0, block) } else { stamp_crc(0) };
                self.cleaner.live[index].crc = !own;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Moves blocks of the first part that was read, `most` at most; returns how many of the list
    /// are done with.
    fn move_batch(&mut self, most: usize) -> Result<usize, DeviceError> {
        let Some(mut ahead) = self.cleaner.ahead.pop_front() else { return Ok(0) };
        let (from, newest) = (ahead.next, self.cleaner.newest);
        let to = ahead.to.min(from.saturating_add(most));
        ahead.next = to;
        for index in from..to {
            let lpn = self.cleaner.live[index].lpn;
            match self.load_pages(lpn, 1) {
                Ok(()) => self.move_one(index, &ahead, newest),
                // Its map page is damaged: the segment is set aside.
                Err(DeviceError::Unreadable(_)) => {}
                Err(error) => return Err(error),
            }
        }
        match to == ahead.to {
            true => self.cleaner.spare.push(ahead),
            false => self.cleaner.ahead.push_front(ahead),
        }
        Ok(to - from)
    }

    fn move_one(&mut self, index: usize, ahead: &Ahead, newest: u64) {
        let Live { lpn, from, crc, form } = self.cleaner.live[index];
        let slot = index - ahead.from;
        let (payload, sound) = match form {
            Form::Nothing => (Payload::Nothing, true),
            Form::Bytes => {
                let block = &ahead.bytes[slot * BLOCK..(slot + 1) * BLOCK];
                (Payload::Bytes(&ahead.bytes), crc32c(0, block) == crc)
            }
            Form::Stamps => (Payload::Stamps(&ahead.stamps), stamp_crc(ahead.stamps[slot]) == crc),
        };
        let mut feed = Feed {
            gather: &mut self.gather,
            payload,
            reverse: self.reverse.as_mut(),
            names: Names::List(&ahead.names),
            geometry: *self.engine.geometry(),
        };
        if sound {
            self.engine.relocate(lpn, from, crc, form, newest, slot as u32, &mut feed);
        } else {
            self.engine.poison(lpn, from, newest, &mut feed);
        }
    }
}
