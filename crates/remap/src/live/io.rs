//! Reads, writes and trims of a live log.

use std::sync::MutexGuard;

use block::{Lpn, crc32c};

use super::buffer::Buffered;
use super::feed::{Feed, Load, Own};
use super::flight::OnTheWay;
use super::medium::at;
use super::shared::{Inner, Shared};
use super::{Extent, LiveError};
use crate::engine::{Engine, Place};
use crate::geometry::{BLOCK, Pba};
use crate::planted::Planted;
use crate::record::Form;

const SIZE: u64 = BLOCK as u64;
/// Blocks of a trim that are admitted at a time: 64 MiB.
const TRIM_BLOCKS: u64 = 16_384;
/// Blocks of a read that are planned at a time.
const READ_BLOCKS: u32 = 256;

/// A run of a read: where it is, and what was still on its way.
struct Run {
    pba: Option<Pba>,
    count: u32,
    /// What the buffer holds.
    held: Option<Vec<u8>>,
    on_the_way: Vec<(u32, OnTheWay)>,
}

/// Both end blocks of a write: where they are in the log, in the buffer, and their bytes.
type Ends = ([Place; 2], [Option<(u32, u64)>; 2], Vec<u8>);

/// A request for whole blocks: its first, and their bytes.
pub(super) type Blocks<'a> = (Lpn, &'a [u8]);

fn count(bytes: &[u8]) -> u32 {
    (bytes.len() / BLOCK) as u32
}

impl Shared {
    pub(super) fn atomic_blocks(&self) -> u32 {
        self.options.atomic_max.min(self.segment / 2)
    }

    pub(super) fn read(&self, from: u64, into: &mut [u8]) -> Result<(), LiveError> {
        let head = (from % SIZE) as usize;
        if head == 0 && into.len().is_multiple_of(BLOCK) {
            return self.read_blocks(Lpn((from / SIZE) as u32), into, false);
        }
        let count = (head + into.len()).div_ceil(BLOCK);
        let mut whole = vec![0; count * BLOCK];
        self.read_blocks(Lpn((from / SIZE) as u32), &mut whole, false)?;
        into.copy_from_slice(&whole[head..head + into.len()]);
        Ok(())
    }

    /// Reads whole blocks. They are compared with their CRCs if reads are verified, or with `always`
    /// wherever the log has CRCs.
    fn read_blocks(&self, lpn: Lpn, into: &mut [u8], always: bool) -> Result<(), LiveError> {
        let mut lpn = lpn;
        for part in into.chunks_mut(READ_BLOCKS as usize * BLOCK) {
            let count = (part.len() / BLOCK) as u32;
            let (runs, crcs) = self.plan_read(lpn, count, always)?;
            let result = self.fetch(&runs, &crcs, lpn, part);
            let mut inner = self.lock();
            for run in &runs {
                run.pba.into_iter().for_each(|pba| inner.engine.release(pba));
            }
            drop(inner);
            result?;
            lpn.0 += count;
        }
        Ok(())
    }

    /// Where the blocks are; their segments are held.
    fn plan_read(
        &self,
        lpn: Lpn,
        count: u32,
        always: bool,
    ) -> Result<(Vec<Run>, Vec<u32>), LiveError> {
        let mut inner = self.pages(self.lock(), lpn, count)?;
        let (mut runs, mut crcs, mut next) = (Vec::new(), Vec::new(), lpn.0);
        while next < lpn.0 + count {
            let (place, n) = inner.engine.run(Lpn(next), lpn.0 + count - next);
            let mut held = None;
            let pba = match place {
                Place::Unmapped => None,
                Place::At(pba) => Some(pba),
                Place::Held(slot) => {
                    if inner.failed.is_some() {
                        release(&mut inner, &runs);
                        return Err(LiveError::Damaged(format!("block {next} was not flushed")));
                    }
                    held = Some(inner.held(slot).to_vec());
                    None
                }
                Place::Damaged => {
                    release(&mut inner, &runs);
                    self.damage.found(u64::from(next), "it was written off by cleaning");
                    return Err(self.damage.refuse(format!("block {next}")));
                }
            };
            if let Some(pba) = pba
                && inner.failed.is_some()
                && (0..n).any(|i| !inner.engine.is_durable(Pba(pba.0 + i)))
            {
                release(&mut inner, &runs);
                return Err(LiveError::Damaged(format!("block {next} was not flushed")));
            }
            pba.into_iter().for_each(|pba| inner.engine.hold(pba));
            let on_the_way = pba.map_or(Vec::new(), |pba| inner.flight.on_the_way(pba, n));
            runs.push(Run { pba, count: n, held, on_the_way });
            next += n;
        }
        if always || inner.engine.verifies() {
            // None where the log keeps none.
            crcs.extend((lpn.0..lpn.0 + count).filter_map(|l| inner.engine.crc(Lpn(l))));
        }
        self.see_landed(inner, &runs)?;
        Ok((runs, crcs))
    }

    /// Waits for what somebody is just writing from bytes of his own. What the runs hold stays what
    /// it is meanwhile, so a block that is written again and again stops nobody.
    fn see_landed(&self, inner: MutexGuard<'_, Inner>, runs: &[Run]) -> Result<(), LiveError> {
        let ends = |way: &(u32, OnTheWay)| match &way.1 {
            OnTheWay::Ends(id) => Some(*id),
            OnTheWay::Held(..) | OnTheWay::Copied(_) => None,
        };
        let mut ids: Vec<u64> = runs.iter().flat_map(|r| &r.on_the_way).filter_map(ends).collect();
        if ids.is_empty() {
            return Ok(());
        }
        ids.dedup();
        match self.see_off(inner, |flight| ids.iter().all(|id| flight.has_ended(*id))) {
            Ok(_) => Ok(()),
            Err(error) => {
                release(&mut self.lock(), runs);
                Err(error)
            }
        }
    }

    fn fetch(
        &self,
        runs: &[Run],
        crcs: &[u32],
        lpn: Lpn,
        into: &mut [u8],
    ) -> Result<(), LiveError> {
        let mut from = 0;
        for run in runs {
            let part = &mut into[from..from + run.count as usize * BLOCK];
            from += part.len();
            let Some(pba) = run.pba else {
                match &run.held {
                    Some(held) => part.copy_from_slice(held),
                    None => part.fill(0),
                }
                continue;
            };
            let copies = || run.on_the_way.iter().filter_map(|(i, way)| Some((i, way.bytes()?)));
            if copies().count() < run.count as usize {
                self.medium.read(at(pba), part)?;
            }
            for (i, bytes) in copies() {
                let i = *i as usize * BLOCK;
                part[i..i + BLOCK].copy_from_slice(bytes);
            }
        }
        if crcs.is_empty() { Ok(()) } else { self.compare(runs, crcs, lpn, into) }
    }

    /// Compares what was read with its CRCs. What does not fit is read once more: the way here may have
    /// been at fault.
    fn compare(
        &self,
        runs: &[Run],
        crcs: &[u32],
        lpn: Lpn,
        into: &mut [u8],
    ) -> Result<(), LiveError> {
        let places =
            runs.iter().flat_map(|run| (0..run.count).map(|i| run.pba.map(|pba| Pba(pba.0 + i))));
        let mut first = None;
        let blocks = into.chunks_exact_mut(BLOCK).zip(crcs);
        for ((lpn, place), (block, crc)) in (lpn.index() as u64..).zip(places).zip(blocks) {
            let Some(pba) = place.filter(|_| crc32c(0, block) != *crc) else { continue };
            let found = self.medium.read(at(pba), block).map(|()| crc32c(0, block));
            if matches!(found, Ok(found) if found == *crc) {
                continue;
            }
            let cause = match found {
                Ok(found) => format!("CRC32C {found:08x} at {}, expected {crc:08x}", pba.0),
                Err(error) => error.to_string(),
            };
            self.damage.found(lpn, &cause);
            first = first.or(Some(lpn));
        }
        first.map_or(Ok(()), |lpn| Err(self.damage.refuse(format!("block {lpn}"))))
    }

    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> Result<(), LiveError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let most = u64::from(self.atomic_blocks());
        let (mut at, mut rest) = (at, bytes);
        while !rest.is_empty() {
            // Pieces end where blocks do.
            let end = ((at / SIZE) + most) * SIZE;
            let n = (end - at).min(rest.len() as u64) as usize;
            let (piece, more) = rest.split_at(n);
            self.write_piece(at, piece)?;
            at += n as u64;
            rest = more;
        }
        Ok(())
    }

    fn write_piece(&self, at: u64, bytes: &[u8]) -> Result<(), LiveError> {
        let (lpn, head) = (Lpn((at / SIZE) as u32), (at % SIZE) as usize);
        let count = (head + bytes.len()).div_ceil(BLOCK) as u32;
        if head == 0 && bytes.len() == count as usize * BLOCK {
            return self.admit(&[(lpn, bytes)], |_| true).map(|_| ());
        }
        // Others that write parts of these blocks wait; whoever writes them whole may get in
        // between, and this one tries again.
        let _locks = self.lock_parts(lpn, Lpn(lpn.0 + count - 1));
        while !self.write_part(lpn, count, head, bytes)? {}
        Ok(())
    }

    /// The locks of both end blocks of a write, always in the same order.
    fn lock_parts(&self, first: Lpn, last: Lpn) -> [Option<MutexGuard<'_, ()>>; 2] {
        if self.lock().engine.has(Planted::RmwWithoutLock) {
            return [None, None];
        }
        let n = self.parts.len();
        let (a, b) = (first.index() % n, last.index() % n);
        let lock = |i: usize| self.waits.lock_long(&self.parts[i]);
        let low = lock(a.min(b));
        [Some(low), (a != b).then(|| lock(a.max(b)))]
    }

    /// A write of parts of its first or last block. Their old contents are read first; if they have
    /// changed when the write is admitted nothing is done and `false` is returned. With `alone`
    /// nobody else gets in between.
    fn write_part(
        &self,
        lpn: Lpn,
        count: u32,
        head: usize,
        bytes: &[u8],
    ) -> Result<bool, LiveError> {
        let ends = [lpn, Lpn(lpn.0 + count - 1)];
        let (places, held, old) = self.read_ends(&ends)?;
        let mut whole = vec![0; count as usize * BLOCK];
        let last = (count as usize - 1) * BLOCK;
        whole[..BLOCK].copy_from_slice(&old[..BLOCK]);
        whole[last..].copy_from_slice(&old[BLOCK..]);
        whole[head..head + bytes.len()].copy_from_slice(bytes);
        let admitted = self.admit(&[(lpn, &whole)], |inner| {
            let same = ends.map(|end| inner.engine.lookup(end)) == places
                && ends.map(|end| inner.engine.buffered(end)) == held;
            same || inner.engine.has(Planted::RmwWithoutLock)
        });
        let mut inner = self.lock();
        release_places(&mut inner, &places);
        drop(inner);
        admitted
    }

    /// Reads both end blocks of a write and holds their places, so that they cannot come to mean
    /// something else. They are compared even where reads are not: damage would get a CRC that fits.
    fn read_ends(&self, ends: &[Lpn; 2]) -> Result<Ends, LiveError> {
        let mut inner = self.pages(self.lock(), ends[0], ends[1].0 - ends[0].0 + 1)?;
        let places = ends.map(|end| inner.engine.lookup(end));
        let held = ends.map(|end| inner.engine.buffered(end));
        for place in places {
            if let Place::At(pba) = place {
                inner.engine.hold(pba);
            }
        }
        drop(inner);
        let mut old = vec![0; 2 * BLOCK];
        let (a, b) = old.split_at_mut(BLOCK);
        let read =
            self.read_blocks(ends[0], a, true).and_then(|()| self.read_blocks(ends[1], b, true));
        match read {
            Ok(()) => Ok((places, held, old)),
            Err(error) => {
                let mut inner = self.lock();
                release_places(&mut inner, &places);
                // Of a log that has stopped nothing else counts: what was not flushed is not read any
                // more, and is no damage.
                Err(inner.failed.clone().map_or(error, LiveError::Stopped))
            }
        }
    }

    /// Admits requests for whole blocks together and waits until they are on the medium. If `fits`
    /// says no at admission nothing is done and `false` is returned. All errors but
    /// [`LiveError::Stopped`] come before anything is done.
    pub(super) fn admit(
        &self,
        requests: &[Blocks<'_>],
        fits: impl Fn(&Inner) -> bool,
    ) -> Result<bool, LiveError> {
        if let [(lpn, bytes)] = requests {
            match self.buffer(*lpn, bytes, &fits)? {
                Buffered::Yes => return Ok(true),
                Buffered::Unfit => return Ok(false),
                Buffered::Through => {}
            }
        }
        let blocks = requests.iter().flat_map(|(_, bytes)| bytes.chunks_exact(BLOCK));
        let crcs: Vec<u32> = blocks.map(|block| crc32c(0, block)).collect();
        let ranges = || requests.iter().map(|(lpn, bytes)| (*lpn, count(bytes)));
        let mut inner = self.room(ranges, crcs.len() as u32)?;
        if !fits(&inner) {
            return Ok(false);
        }
        self.tick(&mut inner);
        let Inner { engine, flight, .. } = &mut *inner;
        if !flight.may_go_at_once() {
            lay_down(engine, requests, &crcs, &mut Feed::new(flight));
            let ticket = flight.ticket();
            self.call_keeper(&mut inner);
            return self.see_off(inner, |flight| flight.has_ended(ticket)).map(|_| true);
        }
        let mut own = Own::default();
        lay_down(engine, requests, &crcs, &mut own);
        let id = flight.depart_own(&own, true);
        self.call_keeper(&mut inner);
        drop(inner);
        self.arrive(id, own.write(&*self.medium)).map(|_| true)
    }

    /// Waits until there is room for `blocks`, and the map pages of the ranges are in memory: of one
    /// range, or of several where the memory of the map has no limit.
    pub(super) fn room<R: Iterator<Item = (Lpn, u32)>>(
        &self,
        ranges: impl Fn() -> R,
        blocks: u32,
    ) -> Result<MutexGuard<'_, Inner>, LiveError> {
        let mut inner = self.lock();
        loop {
            if let Some(why) = &inner.failed {
                return Err(LiveError::Stopped(why.clone()));
            }
            for (lpn, count) in ranges() {
                inner = self.pages(inner, lpn, count)?;
            }
            if inner.engine.room(blocks) {
                inner.full = false;
                return Ok(inner);
            }
            if inner.full {
                return Err(LiveError::NoSpace("cleaning the log gains nothing".to_string()));
            }
            inner.wanted.push(blocks);
            self.waits.tell(&self.work);
            inner = self.wait(inner);
            if let Some(mine) = inner.wanted.iter().position(|wanted| *wanted == blocks) {
                inner.wanted.swap_remove(mine);
            }
        }
    }

    pub(super) fn trim(&self, from: u64, bytes: u64) -> Result<(), LiveError> {
        let (mut next, end) = (from.div_ceil(SIZE), (from + bytes) / SIZE);
        while next < end {
            // One map page after the other may have to be read: not more than a short range.
            let most = if self.options.map_memory.0 == 0 { TRIM_BLOCKS } else { 1024 };
            let count = (end - next).min(most) as u32;
            let lpn = Lpn(next as u32);
            let mut inner = self.room(|| std::iter::once((lpn, count)), 1)?;
            self.tick(&mut inner);
            let Inner { engine, flight, .. } = &mut *inner;
            engine.trim(lpn, count, &mut Feed::new(flight));
            self.call_keeper(&mut inner);
            drop(inner);
            next += u64::from(count);
        }
        Ok(())
    }

    pub(super) fn zero(&self, from: u64, bytes: u64, keep: bool) -> Result<(), LiveError> {
        let end = from + bytes;
        let (first, last) = (from.next_multiple_of(SIZE), end / SIZE * SIZE);
        if keep || first >= last {
            return self.write_zeroes(from, bytes);
        }
        self.write_zeroes(from, first - from)?;
        self.trim(first, last - first)?;
        self.write_zeroes(last, end - last)
    }

    fn write_zeroes(&self, from: u64, bytes: u64) -> Result<(), LiveError> {
        let zeroes = vec![0; bytes.min(1 << 20) as usize];
        let mut done = 0;
        while done < bytes {
            let n = (bytes - done).min(zeroes.len() as u64);
            self.write(from + done, &zeroes[..n as usize])?;
            done += n;
        }
        Ok(())
    }

    pub(super) fn extents(
        &self,
        from: u64,
        bytes: u64,
        most: usize,
    ) -> Result<Vec<Extent>, LiveError> {
        let (mut found, mut next, end) = (Vec::<Extent>::new(), from, from + bytes);
        while next < end {
            let lpn = Lpn((next / SIZE) as u32);
            let left =
                (end.div_ceil(SIZE) - next / SIZE).min(1024 - u64::from(lpn.0) % 1024) as u32;
            let inner = self.pages(self.lock(), lpn, left)?;
            let is_hole = |lpn: Lpn| {
                inner.engine.lookup(lpn) == Place::Unmapped && inner.engine.buffered(lpn).is_none()
            };
            let hole = is_hole(lpn);
            let same = |i: &u32| is_hole(Lpn(lpn.0 + i)) == hole;
            let count = u64::from((0..left).take_while(same).count() as u32);
            drop(inner);
            let stop = ((u64::from(lpn.0) + count) * SIZE).min(end);
            let (bytes, taken) = (stop - next, found.len());
            match found.last_mut().filter(|last| last.hole == hole) {
                Some(last) => last.bytes += bytes,
                None if taken == most => return Ok(found),
                None => found.push(Extent { bytes, hole }),
            }
            next = stop;
        }
        Ok(found)
    }
}

/// Gives requests their places, in this order.
fn lay_down<'b>(
    engine: &mut Engine,
    requests: &[Blocks<'b>],
    crcs: &[u32],
    sink: &mut impl Load<'b>,
) {
    let mut crcs = crcs;
    for (lpn, bytes) in requests {
        let (own, rest) = crcs.split_at(count(bytes) as usize);
        sink.load(bytes);
        engine.write(*lpn, count(bytes), Form::Bytes, |i| own[i as usize], sink);
        crcs = rest;
    }
}

fn release(inner: &mut Inner, runs: &[Run]) {
    for run in runs {
        run.pba.into_iter().for_each(|pba| inner.engine.release(pba));
    }
}

fn release_places(inner: &mut Inner, places: &[Place; 2]) {
    for place in places {
        if let Place::At(pba) = place {
            inner.engine.release(*pba);
        }
    }
}
