//! Free lines by erase count, both ends in O(log lines) without allocation.

use super::lines::NONE;

/// A tournament over all lines: the free line erased least, and the one erased most. Ties go to
/// the lower number.
#[derive(Clone, Debug)]
pub(crate) struct FreeLines {
    leaves: usize,
    least: Vec<u32>,
    most: Vec<u32>,
    erases: Vec<u32>,
    count: u32,
}

impl FreeLines {
    /// Room for `lines`, none of them free.
    pub fn new(lines: u32) -> FreeLines {
        let leaves = (lines as usize).next_power_of_two();
        FreeLines {
            leaves,
            least: vec![NONE; 2 * leaves],
            most: vec![NONE; 2 * leaves],
            erases: vec![0; lines as usize],
            count: 0,
        }
    }
    pub fn count(&self) -> u32 {
        self.count
    }
    /// Adds a line erased `erases` times.
    pub fn add(&mut self, line: u32, erases: u32) {
        self.erases[line as usize] = erases;
        self.set(line, line);
        self.count += 1;
    }
    /// Takes the line erased least (`true`) or most.
    pub fn take(&mut self, least: bool) -> Option<u32> {
        let line = if least { self.least[1] } else { self.most[1] };
        if line == NONE {
            return None;
        }
        self.set(line, NONE);
        self.count -= 1;
        Some(line)
    }
    /// The line erased least, left in place.
    #[cfg(test)]
    pub fn peek(&self) -> Option<u32> {
        (self.least[1] != NONE).then_some(self.least[1])
    }
    fn set(&mut self, line: u32, value: u32) {
        let mut at = self.leaves + line as usize;
        self.least[at] = value;
        self.most[at] = value;
        while at > 1 {
            at /= 2;
            let (l, r) = (2 * at, 2 * at + 1);
            self.least[at] = self.better(self.least[l], self.least[r], |a, b| a <= b);
            self.most[at] = self.better(self.most[l], self.most[r], |a, b| a >= b);
        }
    }
    fn better(&self, left: u32, right: u32, wins: impl Fn(u32, u32) -> bool) -> u32 {
        match (left, right) {
            (NONE, other) | (other, NONE) => other,
            _ if wins(self.erases[left as usize], self.erases[right as usize]) => left,
            _ => right,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_agree_with_a_sorted_list() {
        let mut rng = block::Rng::new(5);
        let mut free = FreeLines::new(37);
        let mut model: Vec<(u32, u32)> = Vec::new();
        for _ in 0..5000 {
            let line = rng.below(37) as u32;
            if !model.iter().any(|(_, l)| *l == line) && rng.ratio(1, 2) {
                let erases = rng.below(6) as u32;
                free.add(line, erases);
                model.push((erases, line));
            } else if !model.is_empty() {
                let least = rng.ratio(1, 2);
                let want = if least {
                    *model.iter().min().unwrap()
                } else {
                    *model.iter().max_by_key(|(e, l)| (*e, std::cmp::Reverse(*l))).unwrap()
                };
                assert_eq!(free.take(least), Some(want.1));
                model.retain(|entry| *entry != want);
            }
            assert_eq!(free.count() as usize, model.len());
            assert_eq!(free.peek(), model.iter().min().map(|(_, l)| *l));
        }
    }
}
