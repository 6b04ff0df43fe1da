//! The host's page cache, without pages: which blocks of which file it would hold, and which of
//! them are not written yet.
//!
//! Invariants: a file's blocks in the cache are all of it or none; its dirty blocks are one range;
//! `dirty` and `resident` are the sums over the files; `queue` has the dirty files and no others. What is
//! in use longest ago goes first, dirty files first became dirty are written first.

use std::collections::BTreeMap;
use std::ops::Range;

use lfs::Nid;

/// A file in the cache.
#[derive(Clone, Debug, Default)]
struct Cached {
    resident: u64,
    dirty: Range<u64>,
    used: u64,
    /// Its place in the queue while it is dirty.
    since: u64,
}

/// The cache.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    files: BTreeMap<Nid, Cached>,
    by_use: BTreeMap<u64, Nid>,
    queue: BTreeMap<u64, Nid>,
    dirty: u64,
    resident: u64,
    ticks: u64,
    /// Times that a file became dirty.
    soiled: u64,
    dirty_most: u64,
    resident_most: u64,
}

impl Cache {
    /// A cache of so many blocks, of which so many may be dirty before they are written.
    pub fn new(resident_most: u64, dirty_most: u64) -> Cache {
        Cache { dirty_most, resident_most, ..Cache::default() }
    }

    /// Blocks that are not written yet.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }
    /// Whether a file is in the cache.
    pub fn holds(&self, ino: Nid) -> bool {
        self.files.contains_key(&ino)
    }

    /// A file of so many blocks was used; it is in the cache now.
    pub fn touch(&mut self, ino: Nid, blocks: u64) {
        self.ticks += 1;
        let file = self.files.entry(ino).or_default();
        self.by_use.remove(&file.used);
        self.by_use.insert(self.ticks, ino);
        self.resident = self.resident - file.resident + blocks;
        (file.used, file.resident) = (self.ticks, blocks);
        // What is dirty is not let go; it is soon written.
        let mut kept = Vec::new();
        while self.resident > self.resident_most {
            let Some((tick, oldest)) = self.by_use.pop_first() else { break };
            match self.files.get(&oldest) {
                Some(file) if file.dirty.is_empty() && oldest != ino => {
                    self.resident -= file.resident;
                    self.files.remove(&oldest);
                }
                _ => kept.push((tick, oldest)),
            }
        }
        self.by_use.extend(kept);
    }

    /// Blocks of a file become dirty. Returns what must be written first: dirty blocks that these
    /// do not adjoin.
    pub fn soil(&mut self, ino: Nid, blocks: Range<u64>) -> Option<Range<u64>> {
        let file = self.files.entry(ino).or_default();
        let old = file.dirty.clone();
        let adjoin = blocks.start <= old.end && old.start <= blocks.end;
        let new = match old.is_empty() || !adjoin {
            true => blocks,
            false => old.start.min(blocks.start)..old.end.max(blocks.end),
        };
        self.dirty = self.dirty + (new.end - new.start) - (old.end - old.start);
        file.dirty = new;
        if old.is_empty() {
            self.soiled += 1;
            file.since = self.soiled;
            self.queue.insert(file.since, ino);
        }
        (!adjoin && !old.is_empty()).then_some(old)
    }

    /// Takes the dirty blocks of a file: they are about to be written.
    pub fn clean(&mut self, ino: Nid) -> Range<u64> {
        let Some(file) = self.files.get_mut(&ino) else { return 0..0 };
        let dirty = std::mem::take(&mut file.dirty);
        if !dirty.is_empty() {
            self.queue.remove(&file.since);
        }
        self.dirty -= dirty.end - dirty.start;
        dirty
    }

    /// A file that must be written now, because too much is dirty.
    pub fn due(&self) -> Option<Nid> {
        if self.dirty > self.dirty_most { self.any_dirty() } else { None }
    }

    /// The file that became dirty longest ago.
    pub fn any_dirty(&self) -> Option<Nid> {
        self.queue.first_key_value().map(|(_, ino)| *ino)
    }

    /// A file is gone, or empty.
    pub fn forget(&mut self, ino: Nid) {
        if let Some(file) = self.files.remove(&ino) {
            self.by_use.remove(&file.used);
            self.resident -= file.resident;
            if !file.dirty.is_empty() {
                self.queue.remove(&file.since);
            }
            self.dirty -= file.dirty.end - file.dirty.start;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_deleted_before_it_is_written_is_never_written() {
        let mut cache = Cache::new(100, 10);
        let (a, b) = (Nid(4), Nid(5));
        cache.touch(a, 8);
        assert_eq!(cache.soil(a, 0..8), None);
        cache.forget(a);
        cache.touch(b, 12);
        assert_eq!(cache.soil(b, 0..12), None);
        assert_eq!(cache.due(), Some(b));
        assert_eq!(cache.clean(b), 0..12);
        assert_eq!((cache.dirty(), cache.due(), cache.holds(a)), (0, None, false));
    }

    #[test]
    fn a_file_that_was_written_and_becomes_dirty_again_waits_for_its_turn() {
        let mut cache = Cache::new(100, 10);
        let (a, b) = (Nid(4), Nid(5));
        let write = |cache: &mut Cache, ino| {
            cache.touch(ino, 8);
            assert_eq!(cache.soil(ino, 0..8), None);
        };
        write(&mut cache, a);
        assert_eq!(cache.clean(a), 0..8);
        write(&mut cache, b);
        write(&mut cache, a);
        assert_eq!(cache.due(), Some(b));
        assert_eq!((cache.clean(b), cache.clean(a)), (0..8, 0..8));
        assert_eq!((cache.any_dirty(), cache.queue.len()), (None, 0));
    }

    #[test]
    fn neighbours_become_one_range_and_others_are_written_first() {
        let mut cache = Cache::new(100, 100);
        cache.touch(Nid(4), 8);
        assert_eq!(cache.soil(Nid(4), 0..4), None);
        assert_eq!(cache.soil(Nid(4), 4..8), None);
        assert_eq!(cache.soil(Nid(4), 20..24), Some(0..8));
        assert_eq!(cache.dirty(), 4);
    }

    #[test]
    fn the_file_used_longest_ago_goes_first() {
        let mut cache = Cache::new(10, 0);
        (4..8).for_each(|ino| cache.touch(Nid(ino), 4));
        let held: Vec<bool> = (4..8).map(|ino| cache.holds(Nid(ino))).collect();
        assert_eq!(held, [false, false, true, true]);
    }
}
