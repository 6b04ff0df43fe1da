//! House-keeping by one thread in the background: it does what [`crate::Engine::next`] says, a piece at a
//! time. Requests go on beside it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::MutexGuard;
use std::time::Duration;

use super::clean::Victim;
use super::feed::Feed;
use super::medium::at;
use super::shared::{Inner, Shared};
use super::{Halt, LiveError};
use crate::engine::{Occasion, Work};
use crate::options::Ack;

/// How long the keeper rests while a reader holds what it wants.
const REST: Duration = Duration::from_millis(1);

/// The keeper's thread. If it panics the log writes nothing any more, and whoever waits for room is told.
pub(super) fn keep_or_stop(shared: &Shared) {
    if catch_unwind(AssertUnwindSafe(|| keep(shared))).is_err() {
        let why = "the thread that keeps house panicked".to_string();
        shared.fail(&mut shared.lock(), Halt { why, full: false });
    }
}

pub(super) fn keep(shared: &Shared) {
    let nap = Duration::from_nanos(shared.options.seal_after.as_ps() / 1000);
    loop {
        let mut inner = shared.lock();
        if inner.stop {
            return;
        }
        shared.tick(&mut inner);
        match due(&mut inner) {
            Work::Nothing => {
                inner.asleep = true;
                inner = shared.rest(inner, nap.max(Duration::from_millis(1)));
                inner.asleep = false;
            }
            Work::Wait => {
                let Inner { engine, freed, .. } = &mut *inner;
                engine.reclaim(freed);
                // An error has stopped the log: whoever writes next is told.
                let _told = shared.discard_freed(&mut inner);
                drop(shared.rest(inner, REST));
            }
            Work::Full => {
                inner.full = true;
                shared.tell(&inner);
            }
            work => {
                drop(inner);
                let _told = shared.keep_house(work);
                shared.tell(&shared.lock());
            }
        }
    }
}

/// Does what is due until nothing is: for one thread that does all.
pub(super) fn keep_quiet(shared: &Shared, occasion: Occasion) {
    loop {
        let mut inner = shared.lock();
        shared.tick(&mut inner);
        let wanted = !inner.wanted.is_empty();
        let work = match inner.failed.is_some() {
            false if !wanted => inner.engine.next(occasion),
            _ => due(&mut inner),
        };
        inner.full |= work == Work::Full;
        if matches!(work, Work::Nothing | Work::Wait | Work::Full) {
            // A trim leaves what it says to whoever writes next.
            let last = inner.flight.last();
            let _told = shared.see_off(inner, |flight| flight.all_ended(last));
            return;
        }
        drop(inner);
        if shared.keep_house(work).is_err() {
            return;
        }
    }
}

/// What is due next.
fn due(inner: &mut Inner) -> Work {
    let Inner { engine, wanted, .. } = inner;
    // Whoever has room now gets it before more is taken for copies: he is awake, or about to be.
    if inner.failed.is_some() || wanted.iter().any(|blocks| engine.room(*blocks)) {
        return Work::Nothing;
    }
    match wanted.iter().min() {
        Some(_) if inner.full => Work::Nothing,
        Some(blocks) => engine.next(Occasion::Room(*blocks)),
        None => engine.next(Occasion::Pause),
    }
}

impl Shared {
    /// Wakes the keeper if there is work that is worth it: copies that are due wait for company.
    pub(super) fn call_keeper(&self, inner: &mut Inner) {
        if !inner.asleep {
            return;
        }
        let worth = match due(inner) {
            Work::Nothing => false,
            Work::Copy(most) => most >= self.options.gc_batch || inner.engine.runs_short(),
            _ => true,
        };
        if worth {
            inner.asleep = false;
            self.waits.tell(&self.work);
        }
    }

    /// Waits until the keeper is called, and not longer than `most`.
    fn rest<'a>(&'a self, inner: MutexGuard<'a, Inner>, most: Duration) -> MutexGuard<'a, Inner> {
        self.waits.wait(&self.inner, inner, &self.work, Some(most))
    }

    pub(super) fn keep_house(&self, work: Work) -> Result<(), LiveError> {
        let result = match work {
            // Whoever shares a flush wants what is buffered too.
            Work::Flush if self.options.ack == Ack::Buffer => self.flush_now(false),
            Work::Flush | Work::Batch => return self.flush(),
            work => self.keep(&mut self.waits.lock_long(&self.house), work),
        };
        self.fatal(result)
    }

    fn keep(&self, victim: &mut Victim, work: Work) -> Result<(), LiveError> {
        match work {
            Work::Seal => {
                let mut inner = self.lock();
                let Inner { engine, flight, .. } = &mut *inner;
                engine.seal_old(&mut Feed::new(flight));
                let last = inner.flight.last();
                self.see_off(inner, |flight| flight.all_ended(last)).map(|_| ())
            }
            Work::Checkpoint => self.begin_checkpoint(false),
            Work::Victim => self.begin_victim(victim),
            Work::Copy(most) => self.move_some(victim, most),
            step => self.step_checkpoint(step),
        }
    }

    fn begin_checkpoint(&self, clean: bool) -> Result<(), LiveError> {
        let mut inner = self.lock();
        if let Some(why) = &inner.failed {
            return Err(LiveError::Stopped(why.clone()));
        }
        self.tick(&mut inner);
        inner.end_batch();
        let Inner { engine, flight, .. } = &mut *inner;
        engine.seal_all(&mut Feed::new(flight));
        engine.checkpoint_begin(clean);
        let last = inner.flight.last();
        self.see_off(inner, |flight| flight.all_ended(last)).map(|_| ())
    }

    fn step_checkpoint(&self, step: Work) -> Result<(), LiveError> {
        let mut inner = self.lock();
        match step {
            Work::Write(most) => {
                let (mut left, mut buffer) = (most, Vec::new());
                while let Some(write) = inner.engine.checkpoint_write(left, &mut buffer) {
                    drop(inner);
                    self.medium.write(at(write.pba), &buffer)?;
                    left -= write.blocks;
                    inner = self.lock();
                }
                Ok(())
            }
            Work::RootFlush => {
                // What the root says is there has to be on its way, and to have arrived.
                let last = inner.flight.last();
                inner = self.see_off(inner, |flight| flight.all_ended(last))?;
                inner.engine.root_flush_begin();
                drop(inner);
                let synced = self.sync();
                inner = self.lock();
                if let Err(why) = synced {
                    return Err(self.fail(&mut inner, why));
                }
                let Inner { engine, freed, .. } = &mut *inner;
                engine.root_flush_end(freed);
                self.discard_freed(&mut inner)
            }
            _ => {
                if let Some((pba, header)) = inner.engine.root_header() {
                    drop(inner);
                    self.medium.write(at(pba), &header[..])?;
                    inner = self.lock();
                }
                let Inner { engine, freed, .. } = &mut *inner;
                engine.root_header_written(freed);
                self.discard_freed(&mut inner)
            }
        }
    }

    /// A checkpoint after which nothing is written.
    pub(super) fn last_checkpoint(&self) -> Result<(), LiveError> {
        let result = self.finish_checkpoint().and_then(|()| {
            self.begin_checkpoint(true)?;
            self.finish_checkpoint()
        });
        self.fatal(result)
    }

    fn finish_checkpoint(&self) -> Result<(), LiveError> {
        let _house = self.waits.lock_long(&self.house);
        loop {
            let mut inner = self.lock();
            if let Some(why) = &inner.failed {
                return Err(LiveError::Stopped(why.clone()));
            }
            let Some(step) = inner.engine.checkpoint_next(true) else { return Ok(()) };
            drop(inner);
            self.step_checkpoint(step)?;
        }
    }

    /// After an error of the house nothing is written any more.
    fn fatal<T>(&self, result: Result<T, LiveError>) -> Result<T, LiveError> {
        result.map_err(|error| match error {
            stopped @ LiveError::Stopped(_) => stopped,
            other => self.fail(&mut self.lock(), Halt::from(other)),
        })
    }
}
