//! What was tried: totals, and distinct (operation, fault, phase) triples, which say more than
//! totals because the cuts of one run resemble each other.

use std::collections::BTreeMap;

use crate::cuts::FAULTS;
use crate::step::Class;

const CLASSES: usize = Class::Mount as usize + 1;
/// Nesting 0..=3, in recovery or in the work after it.
const PHASES: usize = 8;

/// Counts of a run, or of many.
#[derive(Clone, PartialEq, Eq, Debug)]
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

    /// Its counts, by name.
    pub fn counts(&self) -> [(&'static str, u64); 8] {
        [
            ("seeds", self.seeds),
            ("cuts", self.cuts),
            ("live", self.live),
            ("nested", self.nested),
            ("later", self.later),
            ("resumed", self.resumed),
            ("steps", self.steps),
            ("refused", self.refused),
        ]
    }

    /// A count by its name.
    pub fn count_mut(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            "seeds" => &mut self.seeds,
            "cuts" => &mut self.cuts,
            "live" => &mut self.live,
            "nested" => &mut self.nested,
            "later" => &mut self.later,
            "resumed" => &mut self.resumed,
            "steps" => &mut self.steps,
            "refused" => &mut self.refused,
            _ => return None,
        })
    }

    /// The triples tried, as hex digits: each stands for four, the first of them its lowest bit.
    pub fn bitmap(&self) -> String {
        let digit = |four: &[bool]| {
            let value = four.iter().rev().fold(0, |sum, seen| 2 * sum + u32::from(*seen));
            char::from_digit(value, 16).unwrap_or_default()
        };
        self.triples.chunks(4).map(digit).collect()
    }

    /// Takes the triples of a text of [`Tally::bitmap`] for tried.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn mark(&mut self, bitmap: &str) -> Result<(), String> {
        let digits = self.triples.len().div_ceil(4);
        let values: Option<Vec<u32>> = bitmap.chars().map(|digit| digit.to_digit(16)).collect();
        let values = values.filter(|values| values.len() == digits);
        let values = values.ok_or_else(|| {
            format!("found {} characters, expected {digits} hex digits", bitmap.len())
        })?;
        for (four, value) in self.triples.chunks_mut(4).zip(values) {
            four.iter_mut().enumerate().for_each(|(bit, seen)| *seen |= value >> bit & 1 == 1);
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triples_and_counts_are_read_again() {
        let mut tally = Tally { steps: 5, refused: 2, ..Tally::default() };
        tally.cut(Class::Mount, 0, 0, false);
        tally.cut(Class::Mount, 19, 3, true);
        let mut read = Tally::default();
        for (name, count) in tally.counts() {
            *read.count_mut(name).unwrap() = count;
        }
        read.mark(&tally.bitmap()).unwrap();
        assert_eq!(read, tally);
        assert_eq!(read.triples(), 2);
        // Marked again, nothing is unmarked.
        read.mark(&Tally::default().bitmap()).unwrap();
        assert_eq!(read.triples(), 2);
        assert!(read.mark("").is_err() && read.mark(&tally.bitmap().replace('0', "x")).is_err());
        assert!(read.count_mut("nothing").is_none());
    }
}
