//! Cleaning in virtual time: a victim's headers and live blocks are read, then moved when they have
//! arrived. In pace with the client's writes; whole victims at once when a write has no room.

use block::{BlockDevice, Data, DeviceError, Lpn, Time, crc32c};

use super::HostLog;
use super::below::Payload;
use super::gather::{Feed, HEADER, Names};
use crate::check::walk_segment;
use crate::geometry::{BLOCK, Pba, Seg};
use crate::options::GcOrder;
use crate::record::{Entry, Form, stamp_crc};

/// A live block of the victim.
#[derive(Clone, Copy, Debug)]
struct Live {
    lpn: Lpn,
    from: Pba,
    crc: u32,
    form: Form,
}

#[derive(Debug, Default)]
pub(super) struct Cleaner {
    victim: Option<Victim>,
    live: Vec<Live>,
    /// Contents of the batch that was read.
    bytes: Vec<u8>,
    stamps: Vec<u64>,
    names: Vec<Lpn>,
}

#[derive(Debug)]
struct Victim {
    seg: Seg,
    /// Its newest record.
    newest: u64,
    /// Blocks of the list that have been moved, and read.
    moved: usize,
    read: usize,
    /// When what was read is there.
    ready: Time,
    /// User blocks written when it was chosen.
    since: u64,
    /// Blocks that it will free.
    gain: u64,
    /// Blocks it had to move when it was chosen.
    cost: u64,
}

impl Victim {
    /// Copies due when the client has written `user` blocks.
    fn due(&self, user: u64) -> usize {
        let due = u128::from(user - self.since) * u128::from(self.cost);
        (due / u128::from(self.gain.max(1))).min(u128::from(self.cost)) as usize
    }
}

impl<D: BlockDevice> HostLog<D> {
    /// Cleans as much as the client's writes owe.
    pub(super) fn clean_in_pace(&mut self) -> Result<(), DeviceError> {
        if !self.engine.wants_cleaning() {
            return Ok(());
        }
        loop {
            if let Some(victim) = &self.cleaner.victim {
                let due = victim.due(self.engine.counters().user);
                if victim.moved >= due && victim.moved < self.cleaner.live.len() {
                    return Ok(());
                }
            }
            let began = self.cleaner.victim.is_none();
            if !self.clean_step(false)? {
                return Ok(());
            }
            if began || self.cleaner.victim.is_none() {
                return Ok(());
            }
        }
    }

    /// Makes room for a write of `blocks`: the client waits.
    pub(super) fn make_room(&mut self, blocks: u32) -> Result<(), DeviceError> {
        let segments = self.engine.geometry().segments;
        for _ in 0..4 * segments + 16 {
            if self.engine.room(blocks) {
                return Ok(());
            }
            let (flush, checkpoint) = self.engine.waiting();
            let done = if flush > 0 {
                self.sync()?
            } else if checkpoint > (segments / 128).max(2) {
                self.checkpoint_now()?
            } else if self.clean_whole()? {
                self.below.clock
            } else if checkpoint > 0 || self.staged.is_some() {
                // One under way frees the places of the map pages it has written anew.
                self.checkpoint_now()?
            } else {
                break;
            };
            self.below.clock = self.below.clock.max(done);
            self.settle()?;
        }
        Err(DeviceError::NoSpace("cleaning the log gains nothing"))
    }

    /// Ends the checkpoint under way, or makes one.
    fn checkpoint_now(&mut self) -> Result<Time, DeviceError> {
        match self.finish_checkpoint()? {
            true => Ok(self.below.clock),
            false => self.checkpoint(false),
        }
    }

    /// Cleans the current victim, or the next one, to its end.
    fn clean_whole(&mut self) -> Result<bool, DeviceError> {
        if !self.clean_step(true)? {
            return Ok(false);
        }
        while self.cleaner.victim.is_some() {
            self.clean_step(true)?;
        }
        Ok(true)
    }

    /// One step of cleaning; with `wait` time passes until what was read is there. Returns whether
    /// anything happened.
    fn clean_step(&mut self, wait: bool) -> Result<bool, DeviceError> {
        let Some(victim) = &self.cleaner.victim else { return self.begin_victim() };
        if victim.moved < victim.read || victim.ready > self.below.clock {
            let ready = victim.ready;
            if ready > self.below.clock {
                if !wait {
                    return Ok(false);
                }
                self.below.clock = ready;
            }
            self.move_batch()?;
            return Ok(true);
        }
        if victim.read < self.cleaner.live.len() {
            self.read_batch()?;
            return Ok(true);
        }
        let seg = victim.seg;
        self.cleaner.victim = None;
        self.engine.end_cleaning(seg);
        self.engine.reclaim(&mut self.freed);
        self.discard_freed()?;
        Ok(true)
    }

    fn begin_victim(&mut self) -> Result<bool, DeviceError> {
        let Some((seg, meta, live)) = self.engine.pick_victim() else { return Ok(false) };
        if meta {
            while let Err((page, pba)) = self.engine.move_pages(seg) {
                self.scratch.resize(BLOCK, 0);
                self.below.get(pba, 1, Data::Read(&mut self.scratch[..BLOCK]))?;
                if !self.engine.install(page, &self.scratch[..BLOCK]) {
                    return Err(DeviceError::Io(format!("map page {page} is damaged")));
                }
            }
            return Ok(true);
        }
        // Its newest blocks and headers may still be gathered here.
        self.issue()?;
        let (newest, clock) = (self.engine.newest_record(seg), self.below.clock);
        let before = std::mem::replace(&mut self.below.done, clock);
        let listed = if self.below.payload { self.list_live(seg) } else { self.list_reverse(seg) };
        let ready = self.below.done;
        self.below.done = before.max(ready);
        listed?;
        if self.engine.options().gc_order == GcOrder::Lba {
            self.cleaner.live.sort_unstable_by_key(|live| live.lpn);
        }
        let gain = u64::from(self.engine.geometry().segment - live);
        let (since, cost) = (self.engine.counters().user, self.cleaner.live.len() as u64);
        let victim = Victim { seg, newest, moved: 0, read: 0, ready, since, gain, cost };
        self.cleaner.victim = Some(victim);
        Ok(true)
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

    /// Reads the next batch; neighbours together.
    fn read_batch(&mut self) -> Result<(), DeviceError> {
        let Some(victim) = &mut self.cleaner.victim else { return Ok(()) };
        let most = self.engine.options().gc_batch as usize;
        let live = &self.cleaner.live;
        let to = (victim.read + most).min(live.len());
        let batch = &live[victim.read..to];
        victim.read = to;
        self.cleaner.bytes.resize(batch.len() * BLOCK, 0);
        self.cleaner.stamps.resize(batch.len(), 0);
        let (mut from, mut again) = (0, Vec::new());
        while from < batch.len() {
            let first = batch[from];
            let follows =
                |(i, l): (u32, &Live)| l.from.0 == first.from.0 + i && l.form == first.form;
            let n = (0u32..).zip(&batch[from..]).take_while(|x| follows(*x)).count();
            let into = match first.form {
                Form::Nothing => Data::None,
                Form::Bytes => {
                    Data::Read(&mut self.cleaner.bytes[from * BLOCK..(from + n) * BLOCK])
                }
                Form::Stamps => Data::ReadStamps(&mut self.cleaner.stamps[from..from + n]),
            };
            match self.below.get(first.from, n as u32, into) {
                Ok(done) => victim.ready = victim.ready.max(done),
                Err(DeviceError::Unreadable(_)) => again.push(from..from + n),
                Err(error) => return Err(error),
            }
            from += n;
        }
        let start = to - batch.len();
        for slot in again.into_iter().flatten() {
            self.reread(slot, start + slot)?;
        }
        Ok(())
    }

    /// Reads one block of a run that could not be read as a whole; a block that cannot be read is
    /// left as something its CRC does not fit.
    fn reread(&mut self, slot: usize, index: usize) -> Result<(), DeviceError> {
        let live = self.cleaner.live[index];
        let block = &mut self.cleaner.bytes[slot * BLOCK..(slot + 1) * BLOCK];
        let stamp = &mut self.cleaner.stamps[slot];
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

    /// Moves the batch that was read.
    fn move_batch(&mut self) -> Result<(), DeviceError> {
        let Some(victim) = &mut self.cleaner.victim else { return Ok(()) };
        let (from, to, newest) = (victim.moved, victim.read, victim.newest);
        (victim.moved, victim.ready) = (to, self.below.clock);
        self.cleaner.names.clear();
        self.cleaner.names.extend(self.cleaner.live[from..to].iter().map(|live| live.lpn));
        for index in from..to {
            let lpn = self.cleaner.live[index].lpn;
            match self.load_pages(lpn, 1) {
                Ok(()) => self.move_one(index, index - from, newest),
                // Its map page is damaged: the segment is set aside.
                Err(DeviceError::Unreadable(_)) => {}
                Err(error) => return Err(error),
            }
        }
        self.issue()?;
        Ok(())
    }

    fn move_one(&mut self, index: usize, slot: usize, newest: u64) {
        let Live { lpn, from, crc, form } = self.cleaner.live[index];
        let (bytes, stamps) = (&self.cleaner.bytes, &self.cleaner.stamps);
        let (payload, sound) = match form {
            Form::Nothing => (Payload::Nothing, true),
            Form::Bytes => {
                let block = &bytes[slot * BLOCK..(slot + 1) * BLOCK];
                (Payload::Bytes(bytes), crc32c(0, block) == crc)
            }
            Form::Stamps => (Payload::Stamps(stamps), stamp_crc(stamps[slot]) == crc),
        };
        let mut feed = Feed {
            gather: &mut self.gather,
            payload,
            reverse: self.reverse.as_mut(),
            names: Names::List(&self.cleaner.names),
            geometry: *self.engine.geometry(),
        };
        if sound {
            self.engine.relocate(lpn, from, crc, form, newest, slot as u32, &mut feed);
        } else {
            self.engine.poison(lpn, from, newest, &mut feed);
        }
    }
}
