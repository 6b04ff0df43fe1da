//! The tree: levels of files, which files a compaction takes, and what merging them gives.
//!
//! A file is its key range and two numbers: which share of the range's records it holds from
//! inserts, and how many puts, drawn over all keys, its updates amount to. Both add up when files
//! are merged, so the size of a merge follows without any key. Invariants: files of a level from
//! 1 on are disjoint and in order; the sums of range × inserted and of range × puts over all files
//! change only by flushes.

use super::alloc::Extent;
use super::popularity::Popularity;

/// A file of the tree.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// Never used twice.
    pub id: u64,
    /// Key range, parts of the whole.
    pub low: f64,
    pub high: f64,
    /// Share of the range's records it holds since their insertion.
    pub inserted: f64,
    /// Its updates, as puts over all keys.
    pub puts: f64,
    /// Bytes of the file and where they lie.
    pub size: u64,
    pub extents: Vec<Extent>,
    /// A compaction holds it.
    pub busy: bool,
}

/// A file that a merge will write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub low: f64,
    pub high: f64,
    pub inserted: f64,
    pub puts: f64,
    pub size: u64,
}

/// The tree's shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Bytes of a file of level 1 on.
    pub file: u64,
    /// Bytes of level 1; each further level has `growth` times as many.
    pub base: u64,
    pub growth: u64,
    /// Files of level 0 that start a compaction.
    pub trigger: usize,
    /// Records, bytes of one in a file (its share of the index included).
    pub records: f64,
    pub record: f64,
}

/// What a compaction takes, from `level` and from the level below, and where its files go: the
/// level below, or level 0 itself.
#[derive(Debug)]
pub(super) struct Choice {
    pub level: usize,
    pub output: usize,
    pub upper: Vec<u64>,
    pub lower: Vec<u64>,
}

/// The levels.
pub(super) struct Tree {
    pub shape: Shape,
    pub levels: Vec<Vec<File>>,
    /// Where the next compaction of a level starts in the key range.
    cursors: Vec<f64>,
    next_id: u64,
}

/// Levels there can be, 0 included.
const LEVELS: usize = 7;
/// Fewest files that are merged within level 0.
const WITHIN: u64 = 4;

impl Tree {
    pub fn new(shape: Shape) -> Tree {
        let levels = (0..LEVELS).map(|_| Vec::new()).collect();
        Tree { shape, levels, cursors: vec![0.0; LEVELS], next_id: 0 }
    }

    fn target(&self, level: usize) -> f64 {
        let growth = self.shape.growth as f64;
        (1..level).fold(self.shape.base as f64, |bytes, _| bytes * growth)
    }

    /// Adds a file of level 0 (the newest is last) or of another level, in key order.
    pub fn add(&mut self, level: usize, planned: Planned, extents: Vec<Extent>) {
        let place = match level {
            0 => self.levels[0].len(),
            _ => self.levels[level].partition_point(|f| f.low < planned.low),
        };
        self.insert(level, place, planned, extents);
    }

    /// Puts the files that a compaction wrote in the place of those it took, which are returned.
    pub fn apply(&mut self, choice: Choice, files: Vec<(Planned, Vec<Extent>)>) -> Vec<File> {
        let place = self.levels[0].iter().position(|f| choice.upper.contains(&f.id));
        let mut gone = self.remove(choice.level, &choice.upper);
        gone.extend(self.remove(choice.level + 1, &choice.lower));
        for (planned, extents) in files {
            match (choice.output, place) {
                (0, Some(place)) => self.insert(0, place, planned, extents),
                (output, _) => self.add(output, planned, extents),
            }
        }
        gone
    }

    fn insert(&mut self, level: usize, place: usize, planned: Planned, extents: Vec<Extent>) {
        let Planned { low, high, inserted, puts, size } = planned;
        let id = self.next_id;
        self.next_id += 1;
        let file = File { id, low, high, inserted, puts, size, extents, busy: false };
        self.levels[level].insert(place, file);
    }

    /// Takes files out and hands them over.
    pub fn remove(&mut self, level: usize, ids: &[u64]) -> Vec<File> {
        let all = std::mem::take(&mut self.levels[level]);
        let (gone, kept) = all.into_iter().partition(|f| ids.contains(&f.id));
        self.levels[level] = kept;
        gone
    }

    /// The compaction of the highest score that is at least 1 and not hindered by another.
    pub fn choose(&mut self) -> Option<Choice> {
        let mut scores: Vec<(f64, usize)> = Vec::new();
        for level in 0..LEVELS - 1 {
            let idle = self.levels[level].iter().filter(|f| !f.busy);
            let score = match level {
                0 => idle.count() as f64 / self.shape.trigger as f64,
                _ => idle.map(|f| f.size).sum::<u64>() as f64 / self.target(level),
            };
            if score >= 1.0 {
                scores.push((score, level));
            }
        }
        scores.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut waits = false;
        let found = scores.into_iter().find_map(|(_, level)| {
            // Level 1 gives way to a compaction of level 0 that waits for it.
            let found = if waits && level == 1 { None } else { self.pick(level) };
            waits |= level == 0 && found.is_none();
            found.or_else(|| if level == 0 { self.pick_within() } else { None })
        })?;
        for (level, ids) in [(found.level, &found.upper), (found.level + 1, &found.lower)] {
            for file in &mut self.levels[level] {
                file.busy |= ids.contains(&file.id);
            }
        }
        Some(found)
    }

    fn pick(&mut self, level: usize) -> Option<Choice> {
        let below = |low: f64, high: f64| {
            let files = self.levels[level + 1].iter();
            let hit: Vec<&File> = files.filter(|f| f.low < high && f.high > low).collect();
            let ids = hit.iter().map(|f| f.id).collect::<Vec<u64>>();
            (!hit.iter().any(|f| f.busy)).then_some(ids)
        };
        let files = &self.levels[level];
        if level == 0 {
            // One at a time: all files of level 0 overlap.
            if files.iter().any(|f| f.busy) {
                return None;
            }
            let lower = below(0.0, 1.0)?;
            let upper = files.iter().map(|f| f.id).collect();
            return Some(Choice { level, output: 1, upper, lower });
        }
        let start = files.partition_point(|f| f.low < self.cursors[level]);
        let order = (start..files.len()).chain(0..start);
        for index in order {
            let file = &files[index];
            if file.busy {
                continue;
            }
            if let Some(lower) = below(file.low, file.high) {
                self.cursors[level] = file.high;
                return Some(Choice { level, output: level + 1, upper: vec![file.id], lower });
            }
        }
        None
    }

    /// Where level 0 cannot go down: its newest files become one, as many as make the bytes for
    /// each file that disappears fewer.
    fn pick_within(&self) -> Option<Choice> {
        let files = &self.levels[0];
        if files.len() < self.shape.trigger + 2 {
            return None;
        }
        let (mut bytes, mut least, mut taken) = (0u64, u64::MAX, 0u64);
        for file in files.iter().rev() {
            bytes += file.size;
            let each = bytes.checked_div(taken).unwrap_or(u64::MAX);
            if file.busy || each > least {
                break;
            }
            (least, taken) = (each, taken + 1);
        }
        let upper: Vec<u64> = files.iter().rev().take(taken as usize).map(|f| f.id).collect();
        let choice = Choice { level: 0, output: 0, upper, lower: Vec::new() };
        (taken >= WITHIN).then_some(choice)
    }

    /// The files of one level that a compaction holds.
    pub fn held(&self, level: usize, ids: &[u64]) -> Vec<&File> {
        self.levels[level].iter().filter(|f| ids.contains(&f.id)).collect()
    }

    /// What merging `inputs` gives for a level: cut at the size of a file, but in level 0.
    pub fn merge(&self, inputs: &[&File], output: usize, law: &Popularity) -> Vec<Planned> {
        let most = if output == 0 { f64::INFINITY } else { self.shape.file as f64 };
        let mut cuts: Vec<f64> = inputs.iter().flat_map(|f| [f.low, f.high]).collect();
        cuts.sort_by(f64::total_cmp);
        cuts.dedup();
        let (shape, mut out) = (self.shape, Vec::new());
        let mut now: Option<Planned> = None;
        let mut bytes = 0.0;
        for range in cuts.windows(2) {
            let (mut low, high) = (range[0], range[1]);
            let over = || inputs.iter().filter(|f| f.low <= low && f.high >= high);
            if over().next().is_none() {
                continue;
            }
            let inserted = over().map(|f| f.inserted).sum::<f64>().min(1.0);
            let puts = over().map(|f| f.puts).sum::<f64>();
            let held = inserted + (1.0 - inserted) * law.share(puts);
            let density = held * shape.records * shape.record;
            while low < high {
                let planned = now.get_or_insert(Planned {
                    low,
                    high: low,
                    inserted: 0.0,
                    puts: 0.0,
                    size: 0,
                });
                let room = (most - bytes) / density;
                let end = if low + room < high { low + room } else { high };
                // Sums first; they become means at the end.
                planned.inserted += (end - low) * inserted;
                planned.puts += (end - low) * puts;
                planned.high = end;
                bytes += (end - low) * density;
                low = end;
                if low < high {
                    out.push(finish(*planned, bytes));
                    (now, bytes) = (None, 0.0);
                }
            }
        }
        out.extend(now.map(|planned| finish(planned, bytes)));
        out
    }
}

fn finish(planned: Planned, bytes: f64) -> Planned {
    let width = planned.high - planned.low;
    let (inserted, puts) = (planned.inserted / width, planned.puts / width);
    Planned { inserted, puts, size: (bytes as u64).max(1), ..planned }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape { file: 1 << 20, base: 4 << 20, growth: 10, trigger: 4, records: 1e5, record: 1000.0 }
    }

    #[test]
    fn merges_keep_what_was_put_and_cut_at_the_size_of_a_file() {
        let (mut tree, law) = (Tree::new(shape()), Popularity::uniform(100_000));
        for _ in 0..4 {
            let planned =
                Planned { low: 0.0, high: 1.0, inserted: 0.01, puts: 500.0, size: 1_500_000 };
            tree.add(0, planned, Vec::new());
        }
        let inputs: Vec<&File> = tree.levels[0].iter().collect();
        let out = tree.merge(&inputs, 1, &law);
        let total: u64 = out.iter().map(|p| p.size).sum();
        // 4 % inserted, 2 % updated: 0.04 + 0.96 × 0.0198.
        assert!((total as f64 / 5_900_894.0 - 1.0).abs() < 1e-3, "{total}");
        assert_eq!(out.len(), 6);
        assert!(out[..5].iter().all(|p| p.size.abs_diff(1 << 20) < 2), "{out:?}");
        assert!(out.windows(2).all(|w| w[0].high == w[1].low));
        let sum = |f: fn(&Planned) -> f64| out.iter().map(|p| (p.high - p.low) * f(p)).sum::<f64>();
        assert!((sum(|p| p.inserted) - 0.04).abs() < 1e-9);
        assert!((sum(|p| p.puts) - 2000.0).abs() < 1e-6);
    }

    #[test]
    fn compactions_never_share_a_file() {
        let (mut tree, law) = (Tree::new(shape()), Popularity::uniform(100_000));
        for _ in 0..4 {
            tree.add(
                0,
                Planned { low: 0.0, high: 1.0, inserted: 0.02, puts: 0.0, size: 2 << 20 },
                Vec::new(),
            );
        }
        let first = tree.choose().unwrap();
        assert_eq!((first.level, first.upper.len(), first.lower.len()), (0, 4, 0));
        assert!(tree.choose().is_none(), "level 0 is busy");
        let out = tree.merge(&tree.held(0, &first.upper), 1, &law);
        tree.remove(0, &first.upper);
        out.into_iter().for_each(|planned| tree.add(1, planned, Vec::new()));
        let one = tree.choose().unwrap();
        let two = tree.choose().unwrap();
        assert_eq!((one.level, two.level), (1, 1));
        assert_ne!(one.upper, two.upper, "round robin");
        assert!(one.lower.is_empty());
    }

    #[test]
    fn level_0_is_merged_within_while_it_waits() {
        let mut tree = Tree::new(shape());
        let file = Planned { low: 0.0, high: 1.0, inserted: 0.02, puts: 0.0, size: 2 << 20 };
        (0..4).for_each(|_| tree.add(0, file, Vec::new()));
        let down = tree.choose().unwrap();
        (0..3).for_each(|_| tree.add(0, file, Vec::new()));
        assert!(tree.choose().is_none(), "three idle files");
        tree.add(0, file, Vec::new());
        let within = tree.choose().unwrap();
        assert_eq!((within.output, &within.upper[..]), (0, &[7, 6, 5, 4][..]));
        tree.add(0, file, Vec::new());
        tree.apply(within, vec![(Planned { size: 8 << 20, ..file }, Vec::new())]);
        let ids = |tree: &Tree| tree.levels[0].iter().map(|f| f.id).collect::<Vec<_>>();
        assert_eq!(ids(&tree), [0, 1, 2, 3, 9, 8], "older than what came meanwhile");
        assert_eq!(tree.apply(down, vec![(file, Vec::new())]).len(), 4);
        assert_eq!((ids(&tree), tree.levels[1].len()), (vec![9, 8], 1));
    }
}
