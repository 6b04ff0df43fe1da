//! Keeping house: flushes of its own, checkpoints and cleaning, by one thread in the background.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use block::{DeviceError, Lpn, crc32c};
use remap::{BLOCK, Entry, Form, GcOrder, Pba, Seg, Store, walk_segment};

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
    /// Somebody waits for room, and nothing gains any.
    Full,
    Nothing,
}

/// The keeper's thread.
pub(super) fn keep(shared: &Shared) {
    let nap = Duration::from_nanos(shared.options.seal_after.as_ps() / 1000);
    let mut barren = false;
    loop {
        let mut inner = shared.lock();
        let mut work = next(&inner, barren);
        while work == Work::Nothing && !inner.stop {
            let (guard, slept) = shared
                .work
                .wait_timeout(inner, nap.max(Duration::from_millis(1)))
                .unwrap_or_else(PoisonError::into_inner);
            inner = guard;
            barren = false;
            shared.tick(&mut inner);
            if slept.timed_out() && inner.failed.is_none() {
                let Inner { engine, flight, .. } = &mut *inner;
                engine.seal_old(&mut Feed::headers(flight));
            }
            work = next(&inner, barren);
        }
        if inner.stop {
            return;
        }
        if inner.pressed > 0 {
            inner.tries += 1;
        }
        if work == Work::Full {
            inner.full = true;
        }
        drop(inner);
        let done = match work {
            Work::Flush => shared.flush().map(|()| true),
            Work::Checkpoint => shared.checkpoint(false).map(|()| true),
            Work::Clean => shared.clean(),
            Work::Full | Work::Nothing => Ok(true),
        };
        // An error has stopped the log: whoever writes next is told.
        barren = !done.unwrap_or(false);
        let inner = shared.lock();
        shared.changed.notify_all();
        drop(inner);
    }
}

/// What is to be done next. `barren`: no segment is worth cleaning at the moment.
fn next(inner: &Inner, barren: bool) -> Work {
    let engine = &inner.engine;
    if inner.failed.is_some() {
        return Work::Nothing;
    }
    if engine.wants_flush() {
        return Work::Flush;
    }
    if engine.wants_checkpoint() {
        return Work::Checkpoint;
    }
    if inner.tries > 4 * engine.geometry().segments + 16 && inner.pressed > 0 {
        return if inner.full { Work::Nothing } else { Work::Full };
    }
    let (flush, checkpoint) = engine.waiting();
    let (free, low) = (engine.free_segments(), engine.geometry().gc_reserve() + NEAR);
    let pressed = inner.pressed > 0 || free < low;
    if pressed && flush > 0 {
        return Work::Flush;
    }
    if pressed && checkpoint > (engine.geometry().segments / 128).max(2) {
        return Work::Checkpoint;
    }
    if !barren && (pressed || free + flush + checkpoint < engine.gc_start()) {
        return Work::Clean;
    }
    if pressed && checkpoint > 0 {
        return Work::Checkpoint;
    }
    if inner.pressed > 0 && !inner.full { Work::Full } else { Work::Nothing }
}

/// A segment that was read as a whole.
struct Whole {
    base: u32,
    bytes: Arc<Vec<u8>>,
}

impl Store for Whole {
    fn blocks(&self) -> u64 {
        u64::from(self.base) + (self.bytes.len() / BLOCK) as u64
    }
    fn read(&mut self, pba: Pba, out: &mut [u8]) -> Result<(), DeviceError> {
        let from = (pba.0 - self.base) as usize * BLOCK;
        out.copy_from_slice(&self.bytes[from..from + out.len()]);
        Ok(())
    }
    fn read_stamps(&mut self, _: Pba, _: &mut [u64]) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported("bytes"))
    }
    fn write(&mut self, _: Pba, _: &[u8]) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported("a copy is not written"))
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported("a copy is not written"))
    }
}

/// A block that a victim's headers name.
#[derive(Clone, Copy)]
struct Named {
    lpn: Lpn,
    from: Pba,
    crc: u32,
    form: Form,
}

impl Shared {
    /// Wakes the keeper if there is work.
    pub(super) fn call_keeper(&self, inner: &Inner) {
        if next(inner, false) != Work::Nothing {
            self.work.notify_all();
        }
    }

    fn alone_in_house(&self) -> MutexGuard<'_, ()> {
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
        engine.seal_all(&mut Feed::headers(flight));
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
        self.medium.write(at(place), &header)?;
        self.medium.write(at(end), &header)?;
        self.medium.sync()?;
        let mut inner = self.lock();
        let Inner { engine, freed, .. } = &mut *inner;
        engine.checkpoint_commit(freed);
        self.discard_freed(&mut inner)
    }

    /// After an error of the house nothing is written any more.
    fn fatal<T>(&self, result: Result<T, DiskError>) -> Result<T, DiskError> {
        result.map_err(|error| match error {
            stopped @ DiskError::Stopped(_) => stopped,
            other => self.fail(&mut self.lock(), other.to_string()),
        })
    }

    /// Cleans one segment. Returns whether there was one to clean.
    pub(super) fn clean(&self) -> Result<bool, DiskError> {
        let result = self.try_clean();
        self.fatal(result)
    }

    fn try_clean(&self) -> Result<bool, DiskError> {
        let _house = self.alone_in_house();
        let mut inner = self.lock();
        let Some((seg, meta, _)) = inner.engine.pick_victim() else { return Ok(false) };
        if meta {
            return self.move_pages(inner, seg).map(|()| true);
        }
        let newest = inner.engine.newest_record(seg);
        // What is read must have been written.
        let last = inner.flight.last();
        let inner = self.see_off(inner, |flight| flight.all_ended(last))?;
        let (g, instance) = (*inner.engine.geometry(), inner.engine.instance());
        drop(inner);
        let mut bytes = vec![0; g.segment as usize * BLOCK];
        self.read_through(g.base(seg), &mut bytes)?;
        let bytes = Arc::new(bytes);
        let mut whole = Whole { base: g.base(seg).0, bytes: bytes.clone() };
        let mut named = Vec::new();
        let listed = walk_segment(&mut whole, &g, instance, seg, |_, header, place, block| {
            for (entry, from) in header.entries(place, block) {
                if let Entry::Write { lpn, crc } | Entry::Move { lpn, crc, .. } = entry
                    && lpn.0 < g.logical
                {
                    named.push(Named { lpn, from, crc, form: header.form });
                }
            }
            Ok(())
        });
        listed.map_err(|error| DiskError::Damaged(error.to_string()))?;
        if self.options.gc_order == GcOrder::Lba {
            named.sort_unstable_by_key(|n| n.lpn);
        }
        for part in named.chunks(self.options.gc_batch as usize) {
            self.move_blocks(part, newest, g.base(seg), &bytes)?;
        }
        let mut inner = self.lock();
        let Inner { engine, freed, .. } = &mut *inner;
        engine.end_cleaning(seg);
        engine.reclaim(freed);
        self.discard_freed(&mut inner)?;
        Ok(true)
    }

    /// Reads a segment; a block that cannot be read is left as zeroes, which its CRC does not fit.
    fn read_through(&self, base: Pba, bytes: &mut [u8]) -> Result<(), DiskError> {
        if self.medium.read(at(base), bytes).is_ok() {
            return Ok(());
        }
        let (mut place, mut good) = (base, 0);
        for block in bytes.chunks_exact_mut(BLOCK) {
            match self.medium.read(at(place), block) {
                Ok(()) => good += 1,
                Err(_) => block.fill(0),
            }
            place.0 += 1;
        }
        // A medium that reads nothing at all is not damaged but gone.
        if good == 0 {
            return Err(DiskError::Io(std::io::Error::other("a whole segment cannot be read")));
        }
        Ok(())
    }

    fn move_blocks(
        &self,
        part: &[Named],
        newest: u64,
        base: Pba,
        bytes: &Arc<Vec<u8>>,
    ) -> Result<(), DiskError> {
        let sound: Vec<bool> = part
            .iter()
            .map(|n| {
                let at = (n.from.0 - base.0) as usize * BLOCK;
                n.form == Form::Nothing || crc32c(0, &bytes[at..at + BLOCK]) == n.crc
            })
            .collect();
        let mut inner = self.lock();
        self.tick(&mut inner);
        for (n, sound) in part.iter().zip(sound) {
            inner = match self.pages(inner, n.lpn, 1) {
                Ok(inner) => inner,
                // Its map page is damaged: the segment is set aside.
                Err(DiskError::Damaged(_)) => {
                    inner = self.lock();
                    continue;
                }
                Err(error) => return Err(error),
            };
            let slot = n.from.0 - base.0;
            let Inner { engine, flight, .. } = &mut *inner;
            let mut feed = Feed { flight, data: bytes.clone(), from: 0 };
            match sound {
                true => {
                    engine.relocate(n.lpn, n.from, n.crc, n.form, newest, slot, &mut feed);
                }
                false => engine.poison(n.lpn, n.from, newest, &mut feed),
            }
        }
        let last = inner.flight.last();
        self.see_off(inner, |flight| flight.all_ended(last)).map(|_| ())
    }

    fn move_pages<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        seg: Seg,
    ) -> Result<(), DiskError> {
        while let Err((page, place)) = inner.engine.move_pages(seg) {
            drop(inner);
            let mut bytes = [0; BLOCK];
            self.medium.read(at(place), &mut bytes)?;
            inner = self.lock();
            // Another thread may have been faster, and the page may have changed since.
            if inner.engine.page_missing(page) == Some(place) && !inner.engine.install(page, &bytes)
            {
                return Err(DiskError::Damaged(format!("map page {page}")));
            }
        }
        Ok(())
    }
}
