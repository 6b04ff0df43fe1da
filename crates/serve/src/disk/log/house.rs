//! Keeping house: flushes of its own, checkpoints and cleaning, by one thread in the background:
//! when each of them is due, and checkpoints.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use remap::Pba;

use super::super::Halt;
use super::flight::Feed;
use super::{DiskError, Inner, Shared, at};

/// Free segments above the reserve below which a flush or a checkpoint is made to get more.
const NEAR: u32 = 4;

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Flush,
    Checkpoint,
    Clean,
    /// Somebody waits for room, and only a reader who holds a segment keeps him from it.
    Rest,
    /// Somebody waits for room, and nothing gains any.
    Full,
    Nothing,
}

/// What was tried last, in vain.
#[derive(Clone, Copy, Default)]
struct Vain {
    /// No segment is worth cleaning at the moment.
    clean: bool,
    /// A flush frees nothing: what waits for one is held by a reader.
    flush: bool,
}

/// How long the keeper rests while a reader holds what it wants.
const REST: Duration = Duration::from_millis(1);

/// The keeper's thread.
pub(super) fn keep(shared: &Shared) {
    let nap = Duration::from_nanos(shared.options.seal_after.as_ps() / 1000);
    let mut vain = Vain::default();
    loop {
        let mut inner = shared.lock();
        let mut work = next(&inner, vain);
        while work == Work::Nothing && !inner.stop {
            inner.asleep = true;
            let (guard, slept) = shared
                .work
                .wait_timeout(inner, nap.max(Duration::from_millis(1)))
                .unwrap_or_else(PoisonError::into_inner);
            inner = guard;
            (inner.asleep, vain) = (false, Vain::default());
            shared.tick(&mut inner);
            let mut sealed = false;
            if slept.timed_out() && inner.failed.is_none() {
                let Inner { engine, flight, .. } = &mut *inner;
                sealed = engine.seal_old(&mut Feed::new(flight));
            }
            work = next(&inner, vain);
            if sealed && work == Work::Nothing {
                // Nobody writes, so nobody would take along what says how far the log is durable.
                work = Work::Flush;
            }
        }
        if inner.stop {
            return;
        }
        if !inner.wanted.is_empty() && work != Work::Rest {
            inner.tries += 1;
        }
        if work == Work::Full {
            inner.full = true;
        }
        let freed = inner.engine.counters().freed;
        drop(inner);
        let done = match work {
            Work::Flush => shared.flush().map(|()| true),
            Work::Checkpoint => shared.checkpoint(false).map(|()| true),
            Work::Clean => shared.clean(),
            Work::Rest => {
                std::thread::sleep(REST);
                Ok(true)
            }
            Work::Full | Work::Nothing => Ok(true),
        };
        let inner = shared.lock();
        vain = Vain {
            // An error has stopped the log: whoever writes next is told.
            clean: work != Work::Rest
                && (vain.clean && work == Work::Flush || !done.unwrap_or(false)),
            flush: work == Work::Flush && inner.engine.counters().freed == freed,
        };
        shared.tell(&inner);
    }
}

/// What is to be done next.
fn next(inner: &Inner, vain: Vain) -> Work {
    let engine = &inner.engine;
    // Whoever has room now gets it before more is taken for copies: he is awake, or about to be.
    if inner.failed.is_some() || inner.wanted.iter().any(|blocks| engine.room(*blocks)) {
        return Work::Nothing;
    }
    let waits = !inner.wanted.is_empty();
    if engine.wants_flush() {
        return Work::Flush;
    }
    if engine.wants_checkpoint() {
        return Work::Checkpoint;
    }
    // A victim gains a block at least, and a try or two more go to the flush behind it.
    let g = engine.geometry();
    if inner.tries > 16 * (g.segments + g.segment) && waits {
        return if inner.full { Work::Nothing } else { Work::Full };
    }
    let (flush, checkpoint) = engine.waiting();
    let (free, low) = (engine.free_segments(), engine.geometry().gc_reserve() + NEAR);
    let pressed = waits || free < low;
    if pressed && flush > 0 && !vain.flush {
        return Work::Flush;
    }
    if pressed && checkpoint > (engine.geometry().segments / 128).max(2) {
        return Work::Checkpoint;
    }
    if !vain.clean && (pressed || free + flush + checkpoint < engine.gc_start()) {
        return Work::Clean;
    }
    if pressed && checkpoint > 0 {
        return Work::Checkpoint;
    }
    match waits && !inner.full {
        true if flush > 0 => Work::Rest,
        true => Work::Full,
        false => Work::Nothing,
    }
}

impl Shared {
    /// Wakes the keeper if there is work.
    pub(super) fn call_keeper(&self, inner: &mut Inner) {
        if inner.asleep && next(inner, Vain::default()) != Work::Nothing {
            inner.asleep = false;
            self.work.notify_all();
        }
    }

    pub(super) fn alone_in_house(&self) -> MutexGuard<'_, ()> {
        self.house.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a checkpoint while others write on. `clean`: nothing is written after it.
    pub(super) fn checkpoint(&self, clean: bool) -> Result<(), DiskError> {
        let result = self.try_checkpoint(clean);
        self.fatal(result)
    }

    fn try_checkpoint(&self, clean: bool) -> Result<(), DiskError> {
        let _house = self.alone_in_house();
        let mut inner = self.lock();
        if let Some(why) = &inner.failed {
            return Err(DiskError::Stopped(why.clone()));
        }
        self.tick(&mut inner);
        let Inner { engine, flight, .. } = &mut *inner;
        engine.seal_all(&mut Feed::new(flight));
        engine.checkpoint_begin(clean);
        let last = inner.flight.last();
        let mut inner = self.see_off(inner, |flight| flight.all_ended(last))?;
        let mut buffer = Vec::new();
        while let Some(write) = inner.engine.checkpoint_pages(&mut buffer) {
            drop(inner);
            self.medium.write(at(write.pba), &buffer)?;
            inner = self.lock();
        }
        let (place, root) = inner.engine.checkpoint_root(&mut buffer);
        let end = Pba(place.0 + inner.engine.geometry().root - 1);
        drop(inner);
        self.medium.write(at(Pba(place.0 + 1)), &buffer)?;
        self.medium.sync()?;
        let header = root.encode();
        // One after the other: a cut may make anything of what is not flushed, but never of both.
        self.medium.write(at(place), &header)?;
        self.medium.sync()?;
        self.medium.write(at(end), &header)?;
        if clean {
            self.medium.sync()?;
        }
        let mut inner = self.lock();
        let Inner { engine, freed, .. } = &mut *inner;
        engine.checkpoint_commit(freed);
        self.discard_freed(&mut inner)
    }

    /// After an error of the house nothing is written any more.
    pub(super) fn fatal<T>(&self, result: Result<T, DiskError>) -> Result<T, DiskError> {
        result.map_err(|error| match error {
            stopped @ DiskError::Stopped(_) => stopped,
            other => self.fail(&mut self.lock(), Halt::from(other)),
        })
    }
}
