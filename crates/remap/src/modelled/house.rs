//! House-keeping in virtual time: behind each request, in the pauses between them, and while a request
//! waits for room.

use block::{BlockDevice, DeviceError, Lpn, Time};

use super::HostLog;
use crate::engine::{Occasion, Work};

impl<D: BlockDevice> HostLog<D> {
    /// What is due behind a request.
    pub(super) fn keep_house(&mut self) -> Result<(), DeviceError> {
        loop {
            match self.engine.next(Occasion::Request) {
                Work::Nothing | Work::Wait | Work::Full => return Ok(()),
                Work::Copy(most) => {
                    if self.move_some(most as usize, false)? == 0 {
                        // Not read yet.
                        return Ok(());
                    }
                }
                work => self.keep(work)?,
            }
            self.settle()?;
        }
    }

    /// Keeps house in a pause that ends at `until`. Blocks are moved one at a time, and each is followed
    /// by a pause as long as it took: a request that comes waits behind one of them.
    pub(super) fn keep_house_until(&mut self, until: Time) -> Result<(), DeviceError> {
        let mut next = self.cleaner.rested().max(self.below.clock);
        // Of a number of blocks that was asked for, those not moved yet.
        let mut copies = 0;
        loop {
            if self.below.clock >= until {
                return Ok(());
            }
            if copies == 0 {
                match self.engine.next(Occasion::Pause) {
                    Work::Copy(most) => copies = most,
                    Work::Nothing | Work::Wait | Work::Full => {}
                    work => {
                        self.keep(work)?;
                        self.settle()?;
                        continue;
                    }
                }
            }
            // What happens first: a flush ends, or a block may be moved.
            let ready = self.cleaner.ready().filter(|_| copies > 0);
            let moved = ready.map(|ready| next.max(ready));
            match (self.next_end(), moved) {
                (Some(ends), moved) if moved.is_none_or(|moved| ends <= moved) && ends < until => {
                    self.below.clock = self.below.clock.max(ends);
                    self.settle()?;
                }
                (_, Some(at)) if at < until => {
                    self.below.clock = self.below.clock.max(at);
                    self.move_some(1, false)?;
                    copies -= 1;
                    let done = self.cleaner.done().max(at);
                    next = done.checked_add(done.since(at)).unwrap_or(done);
                    self.cleaner.rest_until(next);
                    self.settle()?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Makes room for a write of `blocks`: the client waits.
    pub(super) fn make_room(&mut self, blocks: u32) -> Result<(), DeviceError> {
        loop {
            match self.engine.next(Occasion::Room(blocks)) {
                Work::Nothing => return Ok(()),
                work @ (Work::Flush | Work::Batch) => {
                    let done = if work == Work::Flush { self.sync_log()? } else { self.sync()? };
                    self.below.clock = self.below.clock.max(done);
                }
                Work::Copy(most) => {
                    if self.move_some(most as usize, true)? == 0 {
                        return Err(FULL);
                    }
                }
                Work::Wait => match self.next_end() {
                    Some(ends) => self.below.clock = self.below.clock.max(ends),
                    None => return Err(FULL),
                },
                Work::Full => return Err(FULL),
                work => self.keep(work)?,
            }
            self.settle()?;
        }
    }

    /// Makes room, with the map pages of these blocks in memory: cleaning looks others up, which may take
    /// their place.
    pub(super) fn load_and_make_room(
        &mut self,
        lpn: Lpn,
        count: u32,
        blocks: u32,
    ) -> Result<(), DeviceError> {
        self.load_pages(lpn, count)?;
        self.make_room(blocks)?;
        match self.engine.missing(lpn, count) {
            Some(_) => self.load_pages(lpn, count),
            None => Ok(()),
        }
    }

    /// Does what is neither waited for nor spread.
    fn keep(&mut self, work: Work) -> Result<(), DeviceError> {
        match work {
            Work::Seal => {
                let mut feed = Self::feed(&mut self.gather, &mut self.reverse, &self.engine);
                self.engine.seal_old(&mut feed);
                self.issue().map(|_| ())
            }
            Work::Flush => self.sync_log().map(|_| ()),
            Work::Batch => self.sync().map(|_| ()),
            Work::Checkpoint => self.begin_checkpoint(false),
            Work::Victim => self.begin_victim(),
            step => self.step_checkpoint(step),
        }
    }
}

const FULL: DeviceError = DeviceError::NoSpace("cleaning the log gains nothing");
