//! Two logs in miniature, of a sample of the client's blocks and of nothing but their metadata: one places
//! blocks as `two` does, the other as `sepbit`. The one that copied less is what the log does next.
//!
//! Invariants: of each group of `every` neighbours one block is in the sample, by its number alone; both
//! see the same writes; a shadow is as full as the log, and keeps as much free.

use block::{Lpn, Rng};

use super::placement::{Life, SHORT, Times};
use crate::geometry::{Geometry, Seg};
use crate::segment::Segments;
use crate::victim::{Choice, Victim, VictimSpec};

/// Places of a shadow, about.
const PLACES: u64 = 16_384;
/// Blocks of its segments at least.
const LEAST: u32 = 16;
const NONE: u32 = u32::MAX;

/// One log in miniature.
#[derive(Debug)]
struct Shadow {
    separate: bool,
    /// Where each block of the sample is, and which block each place holds.
    places: Vec<u32>,
    names: Vec<u32>,
    blocks: u32,
    segments: Segments,
    /// Segment and next place in it of each head, those of the client first.
    heads: Vec<Option<(Seg, u32)>>,
    /// Free segments that it keeps.
    low: u32,
    life: Life,
    policy: Box<dyn Victim>,
    rng: Rng,
    /// Blocks written to segments: the clock of ages.
    written: u64,
    copies: u64,
}

impl Shadow {
    /// Writes a block of the sample with the sample's clock.
    fn write(&mut self, block: u32, times: &Times, clock: u64) {
        let head = match self.separate {
            false => 0,
            true => self.life.of_write(times.age(block, clock)),
        };
        self.put(block, head, clock);
        let mut tries = self.segments.closed();
        while self.segments.free() < self.low && tries > 0 && self.clean(times, clock) {
            tries -= 1;
        }
    }

    fn put(&mut self, block: u32, head: u8, clock: u64) {
        let at = &mut self.heads[usize::from(head)];
        let (seg, offset) = match *at {
            Some((seg, offset)) if offset < self.blocks => (seg, offset),
            full => {
                if let Some((seg, _)) = full {
                    self.segments.close(seg, self.written, 0);
                }
                *at = None;
                self.segments.reclaim(u64::MAX, u64::MAX, |_| ());
                // A sample may be fuller than the log: what finds no room costs what a copy does.
                let Some(seg) = self.segments.take() else {
                    self.copies += 1;
                    return;
                };
                let s = self.segments.get_mut(seg);
                (s.head, s.born) = (head, clock);
                (seg, 0)
            }
        };
        self.heads[usize::from(head)] = Some((seg, offset + 1));
        let place = seg.0 * self.blocks + offset;
        self.forget(block, clock);
        self.names[place as usize] = block;
        self.places[block as usize] = place;
        self.segments.gain(seg);
        self.written += 1;
    }

    /// The block is where it was no longer.
    fn forget(&mut self, block: u32, clock: u64) {
        let place = std::mem::replace(&mut self.places[block as usize], NONE);
        if place == NONE {
            return;
        }
        let seg = Seg(place / self.blocks);
        self.segments.lose(seg, 0);
        let s = *self.segments.get(seg);
        if s.state == crate::segment::State::Pending {
            self.ended(s.head, s.born, clock);
            self.segments.reclaim(u64::MAX, u64::MAX, |_| ());
        }
    }

    fn ended(&mut self, head: u8, born: u64, clock: u64) {
        if self.separate && head == SHORT {
            self.life.lived(clock - born);
        }
    }

    /// Moves what is alive out of a victim; false if none gains anything.
    fn clean(&mut self, times: &Times, clock: u64) -> bool {
        let cleaning = self.heads.len() as u32 - if self.separate { 2 } else { 1 };
        if self.segments.free() < cleaning {
            // Each head may need another segment for what is moved.
            return false;
        }
        let (segments, blocks) = (&self.segments, self.blocks);
        let choice = Choice { segments, blocks, now: self.written, rng: &mut self.rng };
        let chosen = self.policy.choose(choice).into_iter().chain(segments.emptiest());
        let gains = |seg: &Seg| segments.get(*seg).live < blocks;
        let Some(seg) = chosen.into_iter().find(gains) else { return false };
        let s = *self.segments.get(seg);
        self.segments.begin_cleaning(seg);
        self.ended(s.head, s.born, clock);
        for place in seg.0 * self.blocks..(seg.0 + 1) * self.blocks {
            let block = self.names[place as usize];
            if block == NONE || self.places[block as usize] != place {
                continue;
            }
            let head = match self.separate {
                false => 1,
                true => 2 + self.life.of_move(s.head == SHORT, times.age(block, clock)),
            };
            self.put(block, head, clock);
            self.copies += 1;
        }
        let empty = self.segments.end_cleaning(seg, 0);
        self.segments.reclaim(u64::MAX, u64::MAX, |_| ());
        empty
    }

    fn memory(&self) -> u64 {
        (self.places.len() + self.names.len()) as u64 * 4
            + self.segments.all().len() as u64 * size_of::<crate::segment::Segment>() as u64
    }
}

/// Both of them, and which is ahead.
#[derive(Debug)]
pub(super) struct Shadows {
    every: u32,
    logical: u32,
    times: Times,
    clock: u64,
    two: Shadow,
    sepbit: Shadow,
    separate: bool,
    /// Writes of the sample between two comparisons, and left until the next.
    window: u64,
    left: u64,
    /// Blocks written by the client in what is compared.
    user: u64,
}

impl Shadows {
    /// Those of a log; `keeps`: segments that `two` and `sepbit` keep free or reserved.
    pub fn new(g: &Geometry, policy: VictimSpec, keeps: [u32; 2]) -> Box<Shadows> {
        let all = u64::from(g.segments) * u64::from(g.segment);
        let every = (all / PLACES).max(1).next_power_of_two() as u32;
        let blocks = (g.segment / every).max(LEAST.min(g.segment));
        let segments = (all / u64::from(every) / u64::from(blocks)) as u32;
        let logical = g.logical.div_ceil(every);
        let shadow = |separate: bool, keeps: u32| {
            let heads = if separate { 6 } else { 2 };
            let low = (u64::from(keeps) * u64::from(segments)).div_ceil(u64::from(g.segments));
            let mut all = Segments::new(segments, blocks);
            (0..segments).for_each(|seg| all.release(Seg(seg)));
            Shadow {
                separate,
                places: vec![NONE; logical as usize],
                names: vec![NONE; (segments * blocks) as usize],
                blocks,
                segments: all,
                heads: vec![None; heads],
                low: (low as u32).max(heads as u32 - 1),
                life: Life::new(),
                policy: policy.build(),
                rng: Rng::stream(1, "remap/shadow"),
                written: 0,
                copies: 0,
            }
        };
        let (two, sepbit) = (shadow(false, keeps[0]), shadow(true, keeps[1]));
        let window = (u64::from(logical) / 4).max(256);
        let times = Times::new(logical);
        Box::new(Shadows {
            every,
            logical: g.logical,
            times,
            clock: 0,
            two,
            sepbit,
            separate: false,
            window,
            left: window,
            user: 0,
        })
    }

    /// Which block of its group is in the sample.
    fn of_group(&self, group: u32) -> u32 {
        let mixed = (u64::from(group) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let lpn = group * self.every + (mixed as u32 & (self.every - 1));
        lpn.min(self.logical - 1)
    }

    pub fn separate(&self) -> bool {
        self.separate
    }

    /// The client wrote a block. When `sepbit` is taken up: what it has learnt, for the log.
    pub fn wrote(&mut self, lpn: Lpn) -> Option<Life> {
        let group = lpn.0 / self.every;
        if self.of_group(group) != lpn.0 {
            return None;
        }
        self.two.write(group, &self.times, self.clock);
        self.sepbit.write(group, &self.times, self.clock);
        self.times.write(group, self.clock);
        (self.clock, self.user, self.left) = (self.clock + 1, self.user + 1, self.left - 1);
        if self.left > 0 {
            return None;
        }
        self.left = self.window;
        self.compare()
    }

    /// One per cent less has to be written by the other.
    fn compare(&mut self) -> Option<Life> {
        let [two, sepbit] = [self.two.copies, self.sepbit.copies].map(|copies| self.user + copies);
        let before = self.separate;
        match self.separate {
            false if sepbit * 100 < two * 99 => self.separate = true,
            true if two * 100 < sepbit * 99 => self.separate = false,
            _ => {}
        }
        // What was long ago counts less.
        for count in [&mut self.user, &mut self.two.copies, &mut self.sepbit.copies] {
            *count = *count * 3 / 4;
        }
        (self.separate && !before).then(|| self.sepbit.life.times(u64::from(self.every)))
    }

    /// The client has trimmed blocks.
    pub fn trimmed(&mut self, lpn: Lpn, count: u32) {
        for group in lpn.0 / self.every..=(lpn.0 + count - 1) / self.every {
            if (lpn.0..lpn.0 + count).contains(&self.of_group(group)) {
                self.two.forget(group, self.clock);
                self.sepbit.forget(group, self.clock);
            }
        }
    }

    pub fn memory(&self) -> u64 {
        self.two.memory() + self.sepbit.memory() + self.times.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that writes every eighth block, wherever it begins, is in the sample as everybody is.
    #[test]
    fn one_block_of_each_group_is_in_the_sample_and_not_always_the_same_one() {
        let options = crate::LogOptions::default();
        let g = Geometry::new(300_000, &options).unwrap();
        let mut shadows = Shadows::new(&g, options.gc_victim, [4, 8]);
        let every = shadows.every;
        assert!(every >= 8, "a group is some blocks: {every}");
        let mut places = vec![0; every as usize];
        let groups = 2_000;
        for group in 0..groups {
            let before = shadows.user;
            for lpn in group * every..(group + 1) * every {
                let of_this = shadows.user;
                shadows.wrote(Lpn(lpn));
                places[(lpn % every) as usize] += shadows.user - of_this;
            }
            assert_eq!(shadows.user, before + 1, "group {group}");
        }
        let even = u64::from(groups / every);
        let is_even = |count: &u64| (even / 2..2 * even).contains(count);
        assert!(places.iter().all(is_even), "about {even} of each: {places:?}");
    }
}
