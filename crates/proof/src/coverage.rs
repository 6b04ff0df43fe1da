//! What was tried: totals, and distinct (operation, fault, phase) triples, which say more than
//! totals because the cuts of one run resemble each other.

use std::collections::BTreeMap;

use crate::cuts::FAULTS;
use crate::step::Class;

const CLASSES: usize = Class::Mount as usize + 1;
/// Nesting 0..=3, in recovery or in the work after it.
const PHASES: usize = 8;

/// Counts of a run, or of many.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Seeds.
    pub seeds: u64,
    /// Power cuts made and checked.
    pub cuts: u64,
    /// Of them of a live log: threads that take turns.
    pub live: u64,
    /// Of them inside a recovery.
    pub nested: u64,
    /// Of them in the work after a recovery.
    pub later: u64,
    /// Recoveries after which work went on.
    pub resumed: u64,
    /// Steps performed, those after recoveries included.
    pub steps: u64,
    /// Media faults planted, by name and outcome promised.
    pub media: BTreeMap<String, u64>,
    /// Configurations drawn that the device refused.
    pub refused: u64,
    triples: Vec<bool>,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            seeds: 0,
            cuts: 0,
            live: 0,
            nested: 0,
            later: 0,
            resumed: 0,
            steps: 0,
            media: BTreeMap::new(),
            refused: 0,
            triples: vec![false; CLASSES * FAULTS * PHASES],
        }
    }
}

impl Tally {
    /// One cut: what the host was doing, how it was cut, how deep and whether in the work after
    /// a recovery.
    pub fn cut(&mut self, class: Class, fault: u8, depth: usize, later: bool) {
        self.cuts += 1;
        match (depth, later) {
            (0, _) => {}
            (_, true) => self.later += 1,
            (_, false) => self.nested += 1,
        }
        let phase = depth * 2 + usize::from(later);
        self.triples[(class as usize * FAULTS + usize::from(fault)) * PHASES + phase] = true;
    }

    /// Distinct (operation, fault, phase) triples tried.
    pub fn triples(&self) -> usize {
        self.triples.iter().filter(|seen| **seen).count()
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &Tally) {
        self.seeds += other.seeds;
        self.cuts += other.cuts;
        self.live += other.live;
        self.nested += other.nested;
        self.later += other.later;
        self.resumed += other.resumed;
        self.steps += other.steps;
        self.refused += other.refused;
        for (name, n) in &other.media {
            *self.media.entry(name.clone()).or_default() += n;
        }
        for (mine, theirs) in self.triples.iter_mut().zip(&other.triples) {
            *mine |= theirs;
        }
    }
}
