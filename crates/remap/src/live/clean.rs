//! Cleaning of one segment: its headers say what was written there; what is still there is read,
//! checked and moved, some blocks at a time, so that nobody waits long for the lock or for a place.
//!
//! A block whose CRC does not fit is written off: it reads as an error until it is written again. One
//! that cannot be read now may be read another time: it stays where it is, and its segment is set aside
//! until the next start.
//!
//! Invariants: what is read has been written; a block is moved only if it is still where the header
//! says when the lock is held; places that were given are on their way before the lock is let go.

use std::sync::{Arc, MutexGuard};

use block::{DeviceError, Lpn, Medium, crc32c};

use super::LiveError;
use super::feed::{Load, Own};
use super::medium::at;
use super::shared::{Inner, Shared};
use crate::check::walk_segment;
use crate::geometry::{BLOCK, Pba, Seg};
use crate::options::GcOrder;
use crate::record::{Entry, Form};
use crate::store::Store;

/// Blocks read together where headers lie close to each other, and blocks between two headers up to
/// which they do.
const NEAR: u32 = 16;
/// Dead blocks that are read along with the live ones on both sides.
const GAP: u32 = 4;

/// A block that a victim's headers name.
#[derive(Clone, Copy, Debug)]
struct Named {
    lpn: Lpn,
    from: Pba,
    crc: u32,
    form: Form,
}

/// Headers of a segment: far from each other they are read one by one, else some blocks at a time.
struct Headers {
    medium: Arc<dyn Medium>,
    bytes: Vec<u8>,
    base: u32,
    /// The end of the segment.
    end: u32,
    last: u32,
    /// Reads that did and did not succeed.
    good: u32,
    bad: u32,
}

impl Store for Headers {
    fn blocks(&self) -> u64 {
        u64::from(self.end)
    }
    fn read(&mut self, pba: Pba, out: &mut [u8]) -> Result<(), DeviceError> {
        let here = (self.bytes.len() / BLOCK) as u32;
        if !(self.base..self.base + here).contains(&pba.0) {
            let near = pba.0 - self.last <= NEAR && pba.0 != self.last;
            let count = if near { NEAR.min(self.end - pba.0) } else { 1 };
            self.bytes.resize(count as usize * BLOCK, 0);
            self.base = pba.0;
            let mut read = self.medium.read(at(pba), &mut self.bytes);
            if read.is_err() && count > 1 {
                self.bytes.truncate(BLOCK);
                read = self.medium.read(at(pba), &mut self.bytes);
            }
            *(if read.is_ok() { &mut self.good } else { &mut self.bad }) += 1;
            if let Err(error) = read {
                self.bytes.clear();
                return Err(DeviceError::Io(error.to_string()));
            }
        }
        self.last = pba.0;
        let from = (pba.0 - self.base) as usize * BLOCK;
        out.copy_from_slice(&self.bytes[from..from + BLOCK]);
        Ok(())
    }
    fn read_stamps(&mut self, _: Pba, _: &mut [u64]) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported("bytes"))
    }
    fn write(&mut self, _: Pba, _: &[u8]) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported("a victim is not written"))
    }
    fn flush(&mut self) -> Result<(), DeviceError> {
        Err(DeviceError::Unsupported("a victim is not written"))
    }
}

/// The victim's list, and how much of it is done with.
#[derive(Debug, Default)]
pub(super) struct Victim {
    live: Vec<Named>,
    /// Its newest record.
    newest: u64,
    next: usize,
    /// What of it was just read, and which blocks of it could be.
    bytes: Vec<u8>,
    there: Vec<bool>,
}

impl Shared {
    /// Chooses the next victim, if one is worth it, and lists what is live in it.
    pub(super) fn begin_victim(&self, victim: &mut Victim) -> Result<(), LiveError> {
        let mut inner = self.lock();
        let Some((seg, meta, live)) = inner.engine.pick_victim() else { return Ok(()) };
        if meta {
            return self.move_pages(inner, seg);
        }
        victim.newest = inner.engine.newest_record(seg);
        // What is read must have been written.
        let last = inner.flight.last();
        drop(self.see_off(inner, |flight| flight.all_ended(last))?);
        let named = self.named(seg)?;
        victim.next = 0;
        self.keep_live(&named, &mut victim.live)?;
        if self.options.gc_order == GcOrder::Lba {
            victim.live.sort_unstable_by_key(|n| n.lpn);
        }
        let mut inner = self.lock();
        let Inner { engine, freed, .. } = &mut *inner;
        engine.listed(seg, live, victim.live.len(), freed);
        self.discard_freed(&mut inner)
    }

    /// Moves so many blocks of the victim.
    pub(super) fn move_some(&self, victim: &mut Victim, most: u32) -> Result<(), LiveError> {
        let end = (victim.next + most as usize).min(victim.live.len());
        let batch = &victim.live[victim.next..end];
        self.read_blocks_of(batch, &mut victim.bytes, &mut victim.there);
        self.move_blocks(batch, victim.newest, &victim.bytes, &victim.there)?;
        let done = batch.len();
        victim.next = end;
        let mut inner = self.lock();
        let Inner { engine, freed, .. } = &mut *inner;
        engine.copied(done, freed);
        self.discard_freed(&mut inner)
    }

    /// What the headers of a segment name.
    fn named(&self, seg: Seg) -> Result<Vec<Named>, LiveError> {
        let (g, instance) = {
            let inner = self.lock();
            (*inner.engine.geometry(), inner.engine.instance())
        };
        let base = g.base(seg).0;
        let mut headers = Headers {
            medium: self.medium.clone(),
            bytes: Vec::new(),
            base,
            end: base + g.segment,
            last: base,
            good: 0,
            bad: 0,
        };
        let mut named = Vec::with_capacity(g.segment as usize);
        let listed = walk_segment(&mut headers, &g, instance, seg, |_, header, place, block| {
            for (entry, from) in header.entries(place, block) {
                if let Entry::Write { lpn, crc } | Entry::Move { lpn, crc, .. } = entry
                    && lpn.0 < g.logical
                {
                    named.push(Named { lpn, from, crc, form: header.form });
                }
            }
            Ok(())
        });
        listed.map_err(|error| LiveError::Damaged(error.to_string()))?;
        // A medium that reads nothing at all is not damaged but gone.
        if headers.good == 0 && headers.bad > 0 {
            let mut rest = vec![0; g.segment as usize * BLOCK];
            let all = rest.chunks_exact_mut(BLOCK);
            if !(base..).zip(all).any(|(pba, out)| self.medium.read(at(Pba(pba)), out).is_ok()) {
                let why = "a whole segment cannot be read";
                return Err(LiveError::Io(std::io::Error::other(why)));
            }
        }
        Ok(named)
    }

    /// Those of a victim's blocks that are still where they were.
    fn keep_live(&self, named: &[Named], live: &mut Vec<Named>) -> Result<(), LiveError> {
        live.clear();
        let mut inner = self.lock();
        for n in named {
            inner = match self.pages(inner, n.lpn, 1) {
                Ok(inner) => inner,
                // Its map page is damaged: the segment is set aside.
                Err(LiveError::Damaged(_)) => self.lock(),
                Err(error) => return Err(error),
            };
            if inner.engine.is_live(n.lpn, n.from) {
                live.push(*n);
            }
        }
        Ok(())
    }

    /// Reads blocks one behind the other into `bytes`, neighbours together; `there` tells which of
    /// them could be read.
    fn read_blocks_of(&self, batch: &[Named], bytes: &mut Vec<u8>, there: &mut Vec<bool>) {
        bytes.resize(batch.len() * BLOCK, 0);
        there.clear();
        let (mut rest, mut out, mut run) = (batch, &mut bytes[..], Vec::new());
        while let Some(first) = rest.first() {
            let mut n = 1;
            while let Some(next) = rest.get(n)
                && next.from > rest[n - 1].from
                && next.from.0 - rest[n - 1].from.0 <= 1 + GAP
            {
                n += 1;
            }
            let (part, later) = rest.split_at(n);
            let (into, after) = out.split_at_mut(n * BLOCK);
            let span = (part[n - 1].from.0 - first.from.0 + 1) as usize;
            if span == n && self.medium.read(at(first.from), into).is_ok() {
                // As it lies.
                there.resize(there.len() + n, true);
            } else {
                run.resize(span * BLOCK, 0);
                let whole = self.medium.read(at(first.from), &mut run).is_ok();
                for (named, block) in part.iter().zip(into.chunks_exact_mut(BLOCK)) {
                    let from = (named.from.0 - first.from.0) as usize * BLOCK;
                    if whole {
                        block.copy_from_slice(&run[from..from + BLOCK]);
                    }
                    there.push(whole || self.medium.read(at(named.from), block).is_ok());
                }
            }
            (rest, out) = (later, after);
        }
    }

    /// Moves blocks, those that could be read.
    fn move_blocks(
        &self,
        batch: &[Named],
        newest: u64,
        bytes: &[u8],
        there: &[bool],
    ) -> Result<(), LiveError> {
        let sound =
            |(n, block): (&Named, &[u8])| n.form == Form::Nothing || crc32c(0, block) == n.crc;
        let sound: Vec<bool> = batch.iter().zip(bytes.chunks_exact(BLOCK)).map(sound).collect();
        let mut inner = self.lock();
        self.tick(&mut inner);
        let mut own = Own::default();
        let read = (0..).zip(batch.iter().zip(sound)).zip(there).filter(|(_, there)| **there);
        for ((slot, (n, sound)), _) in read {
            if inner.engine.missing(n.lpn, 1).is_some() {
                // The lock is let go to read it.
                inner = self.send(inner, std::mem::take(&mut own))?;
            }
            inner = match self.pages(inner, n.lpn, 1) {
                Ok(inner) => inner,
                Err(LiveError::Damaged(_)) => {
                    inner = self.lock();
                    continue;
                }
                Err(error) => return Err(error),
            };
            own.load(bytes);
            match sound {
                true => {
                    let Named { lpn, from, crc, form } = *n;
                    inner.engine.relocate(lpn, from, crc, form, newest, slot, &mut own);
                }
                false => {
                    if inner.engine.is_live(n.lpn, n.from) {
                        let cause = format!("cleaning found other bytes at {}", n.from.0);
                        self.damage.found(n.lpn.index() as u64, &cause);
                    }
                    inner.engine.poison(n.lpn, n.from, newest, &mut own);
                }
            }
        }
        drop(self.send(inner, own)?);
        Ok(())
    }

    /// Writes what was given its places under this lock.
    fn send<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        own: Own<'_>,
    ) -> Result<MutexGuard<'a, Inner>, LiveError> {
        if own.is_empty() {
            return Ok(inner);
        }
        let id = inner.flight.depart_own(&own, false);
        drop(inner);
        self.arrive(id, own.write(&*self.medium))
    }

    fn move_pages<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        seg: Seg,
    ) -> Result<(), LiveError> {
        while let Err((page, place)) = inner.engine.move_pages(seg) {
            drop(inner);
            let mut bytes = [0; BLOCK];
            self.medium.read(at(place), &mut bytes)?;
            inner = self.lock();
            // Another thread may have been faster, and the page may have changed since.
            if inner.engine.page_missing(page) == Some(place) {
                inner.engine.install(page, &bytes);
            }
        }
        Ok(())
    }
}
