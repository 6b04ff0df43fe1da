//! What the threads of a live log share: the engine and what is on its way under one lock, and the
//! steps between that lock and the medium.
//!
//! Invariant: no I/O under the lock of `inner` but discards, which must come before anybody can take
//! the segment.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use block::{Lpn, Medium};

use super::clean::Victim;
use super::damage::Damage;
use super::error::{Halt, LiveError};
use super::feed::Feed;
use super::flight::Flight;
use super::group::Group;
use super::medium::at;
use super::turns::{Turns, Waits};
use crate::engine::Engine;
use crate::geometry::{BLOCK, Seg};
use crate::options::LogOptions;
use crate::planted::Planted;

/// Locks for writes of parts of blocks.
const PARTS: usize = 256;

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) engine: Engine,
    pub(super) flight: Flight,
    /// Contents of the slots of the buffer.
    pub(super) slots: Vec<u8>,
    /// The error after which nothing is written.
    pub(super) failed: Option<Halt>,
    /// No room can be made.
    pub(super) full: bool,
    /// Blocks for which somebody waits for room.
    pub(super) wanted: Vec<u32>,
    /// So many wait for `changed`.
    pub(super) waiting: u32,
    /// The keeper sleeps, and nobody has woken it since.
    pub(super) asleep: bool,
    pub(super) stop: bool,
    pub(super) freed: Vec<Seg>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) medium: Arc<dyn Medium>,
    pub(super) inner: Mutex<Inner>,
    /// A batch has ended, room was made, or something failed.
    pub(super) changed: Condvar,
    /// There is work for the keeper of the house.
    pub(super) work: Condvar,
    /// Held by whoever cleans or takes a checkpoint.
    pub(super) house: Mutex<Victim>,
    /// Held by whoever writes a part of a block, by its number.
    pub(super) parts: Vec<Mutex<()>>,
    pub(super) group: Group,
    /// Held by whoever makes the medium sync; the error of one that failed.
    syncs: Mutex<Option<Halt>>,
    pub(super) damage: Damage,
    pub(super) say: fn(&str),
    pub(super) waits: Waits,
    pub(super) logical: u32,
    pub(super) segment: u32,
    pub(super) options: LogOptions,
}

impl Shared {
    pub(super) fn new(
        medium: Arc<dyn Medium>,
        engine: Engine,
        options: &LogOptions,
        say: fn(&str),
        turns: Option<Arc<dyn Turns>>,
    ) -> Shared {
        let g = *engine.geometry();
        let inner = Inner {
            flight: Flight::new(options.inflight),
            slots: vec![0; engine.buffer_size() as usize * BLOCK],
            engine,
            failed: None,
            full: false,
            wanted: Vec::new(),
            waiting: 0,
            asleep: false,
            stop: false,
            freed: Vec::new(),
        };
        Shared {
            medium,
            inner: Mutex::new(inner),
            changed: Condvar::new(),
            work: Condvar::new(),
            house: Mutex::default(),
            parts: (0..PARTS).map(|_| Mutex::new(())).collect(),
            group: Group::among(turns.clone()),
            syncs: Mutex::default(),
            damage: Damage::new(say),
            say,
            waits: Waits::new(turns.clone()),
            logical: g.logical,
            segment: g.segment,
            options: options.clone(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait<'a>(&'a self, inner: MutexGuard<'a, Inner>) -> MutexGuard<'a, Inner> {
        let mut inner = inner;
        inner.waiting += 1;
        inner = self.waits.wait(&self.inner, inner, &self.changed, None);
        inner.waiting -= 1;
        inner
    }

    /// Tells those who wait that something has changed; a call of the system is saved where nobody
    /// does.
    pub(super) fn tell(&self, inner: &Inner) {
        if inner.waiting > 0 {
            self.changed.notify_all();
        }
    }

    pub(super) fn tick(&self, inner: &mut Inner) {
        inner.engine.set_now(self.waits.now());
    }

    pub(super) fn fail(&self, inner: &mut Inner, why: Halt) -> LiveError {
        if inner.failed.is_none() {
            (self.say)(&format!("the host log writes nothing any more: {why}"));
        }
        let why = inner.failed.get_or_insert(why).clone();
        self.tell(inner);
        self.waits.tell(&self.work);
        LiveError::Stopped(why)
    }

    /// Makes the map pages of these blocks be in memory, for as long as the lock is held.
    pub(super) fn pages<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        lpn: Lpn,
        count: u32,
    ) -> Result<MutexGuard<'a, Inner>, LiveError> {
        while let Some(wanted) = inner.engine.missing(lpn, count) {
            drop(inner);
            let mut bytes = [0; BLOCK];
            self.medium.read(at(wanted.1), &mut bytes)?;
            inner = self.lock();
            // Another thread may have been faster, and the page may have changed since.
            if inner.engine.missing(lpn, count) == Some(wanted) {
                inner.engine.install(wanted.0, &bytes);
            }
        }
        inner.engine.trim_memory(lpn, count);
        if inner.engine.damaged_map(lpn, count) {
            self.damage.found(lpn.index() as u64, "its page of the map cannot be believed");
            return Err(self.damage.refuse(format!("the map of block {lpn}")));
        }
        Ok(inner)
    }

    /// Waits until a batch has ended; sends what is gathered whenever a slot is free.
    pub(super) fn see_off<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        ended: impl Fn(&Flight) -> bool,
    ) -> Result<MutexGuard<'a, Inner>, LiveError> {
        loop {
            if let Some(why) = &inner.failed {
                return Err(LiveError::Stopped(why.clone()));
            }
            if ended(&inner.flight) {
                return Ok(inner);
            }
            inner = match inner.flight.depart() {
                None => self.wait(inner),
                Some(batch) => {
                    drop(inner);
                    let (id, result) = (batch.id, batch.write(&*self.medium));
                    // Its buffer is used again if nobody else has it.
                    drop(batch);
                    self.arrive(id, result)?
                }
            };
        }
    }

    /// A batch has ended.
    pub(super) fn arrive(
        &self,
        id: u64,
        result: std::io::Result<()>,
    ) -> Result<MutexGuard<'_, Inner>, LiveError> {
        let mut inner = self.lock();
        inner.flight.arrive(id);
        self.tell(&inner);
        match result {
            Ok(()) => Ok(inner),
            Err(error) => Err(self.fail(&mut inner, Halt::from(&error))),
        }
    }

    /// Makes everything admitted durable.
    pub(super) fn flush(&self) -> Result<(), LiveError> {
        let result = self.group.flush(|| self.flush_now(true).map_err(Halt::from));
        result.map_err(|why| LiveError::Stopped(self.lock().failed.clone().unwrap_or(why)))
    }

    /// Flushes what is in the log, with `all` what is buffered too.
    pub(super) fn flush_now(&self, all: bool) -> Result<(), LiveError> {
        let mut inner = self.lock();
        self.tick(&mut inner);
        if let Some(why) = &inner.failed {
            return Err(LiveError::Stopped(why.clone()));
        }
        if all {
            inner.end_batch();
        }
        if !inner.engine.dirty() {
            // A segment that a reader held may be free by now.
            let Inner { engine, freed, .. } = &mut *inner;
            engine.reclaim(freed);
            return self.discard_freed(&mut inner);
        }
        let Inner { engine, flight, .. } = &mut *inner;
        let seq = engine.flush_begin(&mut Feed::new(flight));
        let last = inner.flight.last();
        let inner = self.see_off(inner, |flight| flight.all_ended(last))?;
        let sync = !inner.engine.has(Planted::AckBeforeFlush);
        drop(inner);
        let synced = if sync { self.sync() } else { Ok(()) };
        let mut inner = self.lock();
        if let Err(why) = synced {
            return Err(self.fail(&mut inner, why));
        }
        let Inner { engine, freed, .. } = &mut *inner;
        engine.flush_end(seq, freed);
        self.discard_freed(&mut inner)
    }

    /// Makes the medium sync, one at a time: a system tells the error of what it could not write to the first who asks, and
    /// to nobody else. After that no sync says anything of what was written before.
    pub(super) fn sync(&self) -> Result<(), Halt> {
        let mut failed = self.waits.lock_long(&self.syncs);
        if let Some(why) = &*failed {
            return Err(why.clone());
        }
        self.medium.sync().map_err(|error| failed.insert(Halt::from(&error)).clone())
    }

    /// Discards what became free, before anybody can take it: the lock is held.
    pub(super) fn discard_freed(&self, inner: &mut Inner) -> Result<(), LiveError> {
        let g = *inner.engine.geometry();
        let any = !inner.freed.is_empty();
        while let Some(seg) = inner.freed.pop() {
            let bytes = u64::from(self.segment) * BLOCK as u64;
            if self.options.discard
                && self.medium.discard_is_fast()
                && let Err(error) = self.medium.discard(at(g.base(seg)), bytes)
            {
                return Err(self.fail(inner, Halt::from(&error)));
            }
        }
        if any {
            self.tell(inner);
        }
        Ok(())
    }
}
