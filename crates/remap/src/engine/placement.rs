//! Placement: which head takes a block. Blocks that die together lie together, so that a victim has
//! little left to copy.
//!
//! `sepbit`: a block that was overwritten soon after it was written will be again. The time between is
//! compared with *l*, the mean life of the last segments of such blocks, in blocks of the client. What
//! cleaning finds alive goes by its age: out of segments of short-lived blocks; younger than 4 l; than
//! 16 l; older.
//!
//! Invariants: a class is a guess and decides nothing but where a block lies; what is kept here is lost with
//! the power and learnt again; times are 32 bits of blocks / 16 and compared modulo that.

use block::Lpn;

use super::Engine;
use super::head::Heads;
use super::shadow::Shadows;
use crate::options::Placed;

/// User blocks of one tick of the times kept.
const TICK: u64 = 16;
/// Segments whose lives are averaged.
const LIVES: u64 = 16;

/// What somebody else knows of the client's blocks.
pub trait Known: std::fmt::Debug + Send {
    /// The class, below [`KNOWN_CLASSES`], of a block that the client writes as its `clock`-th.
    fn written(&mut self, lpn: Lpn, clock: u64) -> u8;
    /// The class of a block that is moved when the client has written `clock` blocks.
    fn moved(&mut self, lpn: Lpn, clock: u64) -> u8;
}

/// Classes of [`Known`].
pub const KNOWN_CLASSES: u8 = 6;

/// Heads of `sepbit` for the client: short-lived, others.
pub(super) const SHORT: u8 = 0;
const LONG: u8 = 1;

/// Heads for the client and for cleaning.
pub(super) fn heads(placed: Placed) -> (u8, u8) {
    match placed {
        Placed::Two => (1, 1),
        Placed::Sepbit | Placed::Auto => (2, 4),
        Placed::Known => (KNOWN_CLASSES, KNOWN_CLASSES),
    }
}

/// The mean life of segments of short-lived blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    sum: u64,
    count: u64,
    mean: u64,
}

impl Life {
    pub fn new() -> Life {
        Life { sum: 0, count: 0, mean: u64::MAX }
    }
    pub fn lived(&mut self, blocks: u64) {
        (self.sum, self.count) = (self.sum + blocks, self.count + 1);
        if self.count == LIVES {
            (self.mean, self.sum, self.count) = (self.sum / LIVES, 0, 0);
        }
    }
    /// The same where a block stands for so many.
    pub fn times(self, every: u64) -> Life {
        let Life { sum, count, mean } = self;
        Life { sum: sum * every, count, mean: mean.saturating_mul(every) }
    }
    /// The class of a block that is overwritten at this age.
    pub fn of_write(&self, age: Option<u64>) -> u8 {
        if age.is_some_and(|age| age < self.mean) { SHORT } else { LONG }
    }
    /// The class of a block that cleaning finds alive.
    pub fn of_move(&self, short: bool, age: Option<u64>) -> u8 {
        let Some(age) = age else { return 3 };
        match () {
            () if short => 0,
            () if age < self.mean.saturating_mul(4) => 1,
            () if age < self.mean.saturating_mul(16) => 2,
            () => 3,
        }
    }
}

/// When each block was last written.
#[derive(Debug)]
pub(super) struct Times(Vec<u32>);

impl Times {
    pub fn new(blocks: u32) -> Times {
        Times(vec![0; blocks as usize])
    }
    pub fn age(&self, block: u32, clock: u64) -> Option<u64> {
        let at = self.0[block as usize];
        // Of the same tick: a block at least, half of them in the mean.
        let ticks = ((clock / TICK) as u32).wrapping_sub(at.wrapping_sub(1));
        (at != 0).then(|| u64::from(ticks) * TICK + TICK / 2)
    }
    pub fn write(&mut self, block: u32, clock: u64) {
        // 0 is never; a tick in 2^32 is taken for the one before it.
        self.0[block as usize] = ((clock / TICK) as u32).wrapping_add(1).max(1);
    }
    pub fn memory(&self) -> u64 {
        self.0.len() as u64 * 4
    }
}

/// The placement of a log.
#[derive(Debug)]
pub(super) struct Placement {
    placed: Placed,
    /// Blocks that the client has written.
    clock: u64,
    times: Option<Times>,
    life: Life,
    shadows: Option<Box<Shadows>>,
    known: Option<Box<dyn Known>>,
    /// The class that was last hinted for each block, and that of the request at hand.
    hinted: Vec<u8>,
    hint: u8,
}

impl Placement {
    pub fn new(placed: Placed, blocks: u32, shadows: Option<Box<Shadows>>) -> Placement {
        let times = matches!(placed, Placed::Sepbit | Placed::Auto).then(|| Times::new(blocks));
        let hinted = vec![0; if placed == Placed::Known { blocks as usize } else { 0 }];
        let life = Life::new();
        Placement { placed, clock: 0, times, life, shadows, known: None, hinted, hint: 0 }
    }

    pub fn placed(&self) -> Placed {
        self.placed
    }

    pub fn clock(&self) -> u64 {
        self.clock
    }

    /// Whether classes are told apart now.
    pub fn separates(&self) -> bool {
        match self.placed {
            Placed::Two => false,
            Placed::Sepbit | Placed::Known => true,
            Placed::Auto => self.shadows.as_ref().is_some_and(|shadows| shadows.separate()),
        }
    }

    pub fn know(&mut self, known: Box<dyn Known>) {
        self.known = Some(known);
    }

    /// What the client hints about what it writes next: 1 and more, or nothing.
    pub fn hint(&mut self, stream: u8) {
        self.hint = stream.saturating_sub(1);
    }

    /// The head of the client's next block.
    #[inline]
    pub fn of_write(&mut self, lpn: Lpn, ahead: u32) -> u8 {
        match self.placed {
            Placed::Two => 0,
            Placed::Known => {
                let (clock, hint) = (self.clock + u64::from(ahead), self.hint);
                let told = self.known.as_mut().map(|known| known.written(lpn, clock));
                told.unwrap_or(hint).min(KNOWN_CLASSES - 1)
            }
            Placed::Auto if !self.separates() => LONG,
            Placed::Sepbit | Placed::Auto => {
                let age = self.times.as_ref().and_then(|times| times.age(lpn.0, self.clock));
                self.life.of_write(age)
            }
        }
    }

    /// The head of a block that is moved out of a segment of this head of the client.
    pub fn of_move(&mut self, lpn: Lpn, short: bool) -> u8 {
        match self.placed {
            Placed::Two => 0,
            Placed::Known => {
                let (clock, hint) = (self.clock, self.hinted[lpn.index()]);
                let told = self.known.as_mut().map(|known| known.moved(lpn, clock));
                told.unwrap_or(hint).min(KNOWN_CLASSES - 1)
            }
            Placed::Auto if !self.separates() => 3,
            Placed::Sepbit | Placed::Auto => {
                let age = self.times.as_ref().and_then(|times| times.age(lpn.0, self.clock));
                self.life.of_move(short, age)
            }
        }
    }

    /// The client wrote a block.
    #[inline]
    pub fn wrote(&mut self, lpn: Lpn) {
        if let Some(times) = &mut self.times {
            times.write(lpn.0, self.clock);
        }
        if let Some(hinted) = self.hinted.get_mut(lpn.index()) {
            *hinted = self.hint;
        }
        self.clock += 1;
        if let Some(shadows) = &mut self.shadows
            && let Some(life) = shadows.wrote(lpn)
        {
            // What it has learnt where the log itself had no segments to learn from.
            self.life = life;
        }
    }

    /// The client has trimmed blocks.
    pub fn trimmed(&mut self, lpn: Lpn, count: u32) {
        if let Some(shadows) = &mut self.shadows {
            shadows.trimmed(lpn, count);
        }
    }

    /// A segment of short-lived blocks has ended.
    pub fn lived(&mut self, born: u64) {
        if self.separates() {
            self.life.lived(self.clock - born);
        }
    }

    pub fn memory(&self) -> u64 {
        let shadows = self.shadows.as_ref().map_or(0, |shadows| shadows.memory());
        self.times.as_ref().map_or(0, Times::memory) + shadows + self.hinted.len() as u64
    }
}

impl Engine {
    /// The placement asked for, if there is room for its heads beside what cleaning and checkpoints need.
    pub(super) fn fitting(&self) -> Placed {
        let placed = self.options.placement;
        match self.spare_beside(placed) > 0 || placed == Placed::Two {
            true => placed,
            false => Placed::Two,
        }
    }

    /// Segments that are spare beside the heads of a placement, and beside what cleaning and checkpoints need.
    fn spare_beside(&self, placed: Placed) -> u32 {
        let g = &self.geometry;
        let (users, gcs) = heads(placed);
        let count = 1 + u32::from(users) + u32::from(gcs);
        let data = g.segment - 4 - g.segment / 337;
        let needed = 3 * count - 3 + g.gc_reserve() + 2 * g.checkpoint_segments() + 3;
        g.segments.saturating_sub(g.logical.div_ceil(data) + needed)
    }

    /// The same for the placement in force, in blocks of data.
    pub(super) fn extra_blocks(&self) -> u32 {
        let data = self.geometry.segment - 4 - self.geometry.segment / 337;
        self.spare_beside(self.placement.placed()).saturating_mul(data)
    }

    /// Places blocks so from now on: no head is in use yet.
    pub(super) fn place_as(&mut self, placed: Placed) {
        let (users, gcs) = heads(placed);
        self.heads = Heads::new(users, gcs);
        let shadows = (placed == Placed::Auto).then(|| {
            let kept = self.gc_start();
            // What the heads have reserved beside the segment that each writes.
            let keeps = [kept.saturating_sub(4) + 2, kept + 6];
            Shadows::new(&self.geometry, self.options.gc_victim, keeps)
        });
        self.placement = Placement::new(placed, self.geometry.logical, shadows);
        self.place_buffer();
    }

    /// How blocks are placed: what was asked for, or `two` where there was no room for more heads. And
    /// whether classes are told apart now, which `auto` decides again and again.
    pub fn placement(&self) -> (Placed, bool) {
        (self.placement.placed(), self.placement.separates())
    }

    /// Tells what is known of the client's blocks, for `placement = known`: instead of what requests hint.
    pub fn know(&mut self, known: Box<dyn Known>) {
        self.placement.know(known);
    }

    /// What the client hints about what it writes next: 1 to [`KNOWN_CLASSES`], or 0.
    pub fn hint(&mut self, stream: u8) {
        self.placement.hint(stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_blocks_is_counted() {
        let bytes = |placed| Placement::new(placed, 1_000, None).memory();
        assert_eq!(bytes(Placed::Two), 0);
        assert_eq!(bytes(Placed::Sepbit), 4 * 1_000);
        assert_eq!(bytes(Placed::Known), 1_000);
        let options = crate::LogOptions::default();
        let g = crate::geometry::Geometry::new(60_000, &options).unwrap();
        let shadows = || Some(Shadows::new(&g, options.gc_victim, [4, 8]));
        let alone = shadows().unwrap().memory();
        assert!(alone > 0);
        assert_eq!(Placement::new(Placed::Auto, 1_000, shadows()).memory(), 4_000 + alone);
    }

    #[test]
    fn ages_are_right_beyond_32_bits() {
        let mut times = Times::new(4);
        assert_eq!(times.age(1, 1 << 40), None);
        let near = (u64::from(u32::MAX) - 1) * TICK;
        times.write(1, near);
        assert_eq!(times.age(1, near + 5 * TICK), Some(5 * TICK + TICK / 2));
        times.write(2, 0);
        assert_eq!(times.age(2, 1600), Some(1600 + TICK / 2));
    }

    #[test]
    fn the_mean_is_of_the_last_segments() {
        let mut life = Life::new();
        assert_eq!((life.of_write(Some(1 << 40)), life.of_write(None)), (SHORT, LONG));
        (0..LIVES).for_each(|_| life.lived(100));
        assert_eq!(life.mean, 100);
        let ages = [50, 100, 399, 400, 1599, 1600].map(Some);
        assert_eq!(ages.map(|age| life.of_write(age)), [0, 1, 1, 1, 1, 1]);
        assert_eq!(ages.map(|age| life.of_move(false, age)), [1, 1, 1, 2, 2, 3]);
        assert_eq!((life.of_move(true, Some(9999)), life.of_move(false, None)), (0, 3));
    }
}
