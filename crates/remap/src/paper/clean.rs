//! Cleaning by filling holes (paper 1, section III-D): the last valid block goes into the first
//! hole, again and again, until they meet. No spare space is needed, and no move is logged.

use block::{BlockDevice, DeviceError, Time};

use super::media::BLOCK;
use super::{Kind, PaperLog};

impl<D: BlockDevice> PaperLog<D> {
    /// One turn: at most so many moves. Returns how many were made, and when the last ended.
    ///
    /// # Errors
    /// Of the device below; moves made so far are kept.
    pub fn clean(&mut self, at: Time, moves: u32) -> Result<(u32, Time), DeviceError> {
        self.stats.turns += 1;
        let (mut at, mut made) = (at.max(self.cleaned), 0);
        let mut bytes = vec![0; BLOCK];
        while made < moves {
            let Some((hole, tail)) = self.tables.ends() else { break };
            for trans in [tail.trans, hole] {
                let home = self.tables.home(tail.orig, trans);
                self.fetch(at, home)?;
            }
            at = self.read_blocks(at, tail.trans, &mut bytes)?;
            at = self.write_blocks(at, hole, &bytes, Kind::Moved)?;
            self.tables.moved(hole, tail);
            self.evict(at)?;
            made += 1;
        }
        self.cleaned = at;
        if made == 0 {
            self.stats.idle_turns += 1;
        }
        // Ends that are holes are free without a move.
        self.tables.ends();
        self.cursor = self.cursor.min(self.tables.end());
        Ok((made, at))
    }

    /// A turn when little is free and the last one has ended.
    pub(super) fn clean_if_low(&mut self, at: Time) -> Result<(), DeviceError> {
        let free = u64::from(self.layout.end() - self.cursor);
        let low = u64::from(self.layout.data_blocks) * u64::from(self.options.clean_below) / 100;
        if free < low && self.cleaned <= at {
            self.clean(at, self.options.clean_moves)?;
        }
        Ok(())
    }

    /// Cleans until a run of `count` blocks is free; returns from when on.
    pub(super) fn make_room(&mut self, at: Time, count: u32) -> Result<Time, DeviceError> {
        let mut at = at;
        while self.layout.end() - self.cursor < count {
            let before = self.cursor;
            let (made, done) = self.clean(at, self.options.clean_moves.max(1))?;
            at = done;
            if made == 0 && self.cursor == before {
                // The paper would go on looking for holes for ever.
                return Err(DeviceError::NoSpace("every block of the data area is valid"));
            }
        }
        Ok(at)
    }
}
