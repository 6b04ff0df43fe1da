//! The FTL's own counts of time: sequence numbers, openings of lines, slots programmed.
//!
//! | what | promise |
//! | --- | --- |
//! | sequence number | grows with every slot that the host writes or discards; what power-on finds is never above the next one |
//! | epoch | grows with every line that is opened |
//! | slots | programmed so far, whatever for: the clock of ages |

/// See above.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    seq: u64,
    epoch: u64,
    slots: u64,
}

impl Clock {
    /// After power-on: the newest numbers that flash shows.
    pub fn resume(&mut self, seq: u64, epoch: u64) {
        (self.seq, self.epoch) = (seq, epoch);
    }
    /// The sequence number given last.
    #[inline]
    pub fn seq(&self) -> u64 {
        self.seq
    }
    /// A new sequence number.
    #[inline]
    pub fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }
    /// The number of the line opened last.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
    /// A line is opened: its number.
    pub fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch
    }
    /// Slots programmed so far.
    #[inline]
    pub fn slots(&self) -> u64 {
        self.slots
    }
    /// So many slots more are programmed.
    #[inline]
    pub fn programmed(&mut self, slots: u64) {
        self.slots += slots;
    }
}
