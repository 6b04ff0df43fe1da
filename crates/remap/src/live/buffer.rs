//! Writes through the write-back buffer: they are answered when they are in it, and wait where it is full.

use std::sync::MutexGuard;

use block::{Lpn, crc32c};

use super::LiveError;
use super::feed::{Feed, Load};
use super::shared::{Inner, Shared};
use crate::engine::Buffering;
use crate::geometry::BLOCK;
use crate::record::Form;

/// Blocks that may have left the buffer and not be on their way: who makes more leave sends them first.
const TOGETHER: u64 = 256;

/// What became of a write.
pub(super) enum Buffered {
    /// It is buffered.
    Yes,
    /// Nothing was done: it fits no more.
    Unfit,
    /// It does not go through the buffer.
    Through,
}

impl Inner {
    /// What a slot of the buffer holds.
    pub(super) fn held(&self, slot: u32) -> &[u8] {
        &self.slots[slot as usize * BLOCK..][..BLOCK]
    }

    /// A buffered block leaves for the log.
    fn evict(&mut self, lpn: Lpn, slot: u32) {
        let Inner { engine, flight, slots, .. } = self;
        let mut feed = Feed::new(flight);
        feed.load(&slots[slot as usize * BLOCK..][..BLOCK]);
        engine.evict(lpn, &mut feed);
    }

    /// Empties the buffer, and ends the batch: nobody gets in between.
    pub(super) fn end_batch(&mut self) {
        loop {
            let Inner { engine, flight, .. } = self;
            let Some((lpn, slot)) = engine.batch_next(&mut Feed::new(flight)) else { break };
            self.evict(lpn, slot);
        }
        let Inner { engine, flight, .. } = self;
        engine.batch_end(&mut Feed::new(flight));
    }
}

impl Shared {
    /// Puts a write into the buffer, if `fits` says that it still holds.
    pub(super) fn buffer(
        &self,
        lpn: Lpn,
        bytes: &[u8],
        fits: impl Fn(&Inner) -> bool,
    ) -> Result<Buffered, LiveError> {
        let count = (bytes.len() / BLOCK) as u32;
        let mut inner = self.lock();
        if inner.engine.buffer_size() == 0 {
            return Ok(Buffered::Through);
        }
        drop(inner);
        let crcs: Vec<u32> = bytes.chunks_exact(BLOCK).map(|block| crc32c(0, block)).collect();
        inner = self.lock();
        self.tick(&mut inner);
        loop {
            if let Some(why) = &inner.failed {
                return Err(LiveError::Stopped(why.clone()));
            }
            match inner.engine.buffering(lpn, count) {
                Buffering::Through => return Ok(Buffered::Through),
                Buffering::Fits => break,
                Buffering::Room(blocks) => {
                    drop(inner);
                    inner = self.room(std::iter::empty, blocks)?;
                    self.tick(&mut inner);
                }
                Buffering::Evict(lpn, slot) => {
                    inner.evict(lpn, slot);
                    if inner.flight.gathering() >= TOGETHER {
                        inner = self.see_off(inner, |flight| flight.gathering() < TOGETHER)?;
                    }
                }
            }
        }
        inner.full = false;
        if !fits(&inner) {
            return Ok(Buffered::Unfit);
        }
        self.fill(&mut inner, lpn, bytes, &crcs);
        self.call_keeper(&mut inner);
        Ok(Buffered::Yes)
    }

    fn fill(&self, inner: &mut MutexGuard<'_, Inner>, lpn: Lpn, bytes: &[u8], crcs: &[u32]) {
        let Inner { engine, slots, .. } = &mut **inner;
        for ((i, block), crc) in (0..).zip(bytes.chunks_exact(BLOCK)).zip(crcs) {
            let slot = engine.buffer_put(Lpn(lpn.0 + i), Form::Bytes, *crc);
            slots[slot as usize * BLOCK..][..BLOCK].copy_from_slice(block);
        }
    }
}
