//! What a database was before others committed, for connections that still read it as it was.
//!
//! A connection whose COMMIT waits for its flush holds a shared lock, and is passed by the next writer (`locks`).
//! If it goes on to read under that lock, it must read what it saw.
//!
//! Invariants:
//! * whenever somebody is passed who was not yet, a new version begins; before a page or a size changes while anybody is passed, what
//!   it was is kept under the version of that time, once;
//! * who was passed at a version reads the oldest that was kept since, else what everybody sees;
//! * what nobody who was passed, and still holds his lock, reads is not kept; such a one cannot write.

use std::collections::{BTreeMap, BTreeSet};

use super::Bug;
use super::core::{Core, Done, Id, PAGE_BYTES};
use super::objects::Owner;
use super::table::PAGE;

#[derive(Default)]
pub(super) struct Past {
    /// By page and version.
    pages: BTreeMap<(u64, u64), Box<[u8]>>,
    /// By version.
    sizes: BTreeMap<u64, u64>,
}

impl Past {
    fn page(&self, since: u64, page: u64) -> Option<&[u8]> {
        self.pages.range((page, since)..=(page, u64::MAX)).next().map(|(_, bytes)| &**bytes)
    }

    fn size(&self, since: u64) -> Option<u64> {
        self.sizes.range(since..).next().map(|(_, size)| *size)
    }
}

impl Past {
    /// Lets go of what nobody reads who was passed at one of these versions.
    fn keep_for(&mut self, since: &BTreeSet<u64>) {
        // Who was passed reads the first that was kept since.
        let mut before = None;
        self.pages.retain(|(page, version), _| {
            let from = before.take_if(|(last, _)| last == page).map_or(0, |(_, last)| last + 1);
            before = Some((*page, *version));
            since.range(from..=*version).next().is_some()
        });
        let mut from = 0;
        self.sizes.retain(|version, _| {
            let needed = since.range(from..=*version).next().is_some();
            from = version + 1;
            needed
        });
    }
}

impl Core {
    /// The version that a file of `id` reads; `None`: what everybody sees.
    pub(super) fn passed_at(&self, id: Id, file: u64) -> Option<u64> {
        self.objects.get(&id)?.locks.passed_at(file)
    }

    /// Whether anybody reads `id` as it was.
    pub(super) fn is_passed(&self, id: Id) -> bool {
        self.objects.get(&id).is_some_and(|object| object.locks.is_passed())
    }

    /// Somebody has let go of his lock: what only he read is needed no more.
    pub(super) fn forget_past(&mut self, id: Id) {
        if let Some(object) = self.objects.get_mut(&id) {
            object.past.keep_for(&object.locks.passed());
        }
    }

    /// Keeps pages of `id` as everybody sees them, and its size, before they change.
    pub(super) fn keep_past(&mut self, id: Id, pages: impl IntoIterator<Item = u64>) -> Done<()> {
        if !self.is_passed(id) || self.has_bug(Bug::PastForgotten) {
            return Ok(());
        }
        let size = self.size_of(None, id);
        let Some(object) = self.objects.get_mut(&id) else { return Ok(()) };
        let version = object.locks.version();
        object.past.sizes.entry(version).or_insert(size);
        for page in pages.into_iter().filter(|page| *page < size.div_ceil(PAGE_BYTES)) {
            let kept = |core: &Core| {
                core.objects.get(&id).is_some_and(|o| o.past.pages.contains_key(&(page, version)))
            };
            if kept(self) {
                continue;
            }
            let mut bytes = vec![0; PAGE];
            self.read_page(None, id, page, &mut bytes)?;
            if let Some(object) = self.objects.get_mut(&id) {
                object.past.pages.insert((page, version), bytes.into());
            }
        }
        Ok(())
    }

    /// Keeps what transactions are about to change for everybody.
    pub(super) fn keep_before(&mut self, owners: &[Owner]) -> Done<()> {
        if !self.objects.values().any(|object| object.locks.is_passed()) {
            return Ok(());
        }
        let mut changed: BTreeMap<Id, BTreeSet<u64>> = BTreeMap::new();
        for tx in owners.iter().filter_map(|owner| self.open.get(owner)) {
            for (id, page) in tx.kept.keys().chain(&tx.pages) {
                changed.entry(*id).or_default().insert(*page);
            }
            for (id, meta) in &tx.metas {
                let (new, old) = (meta.size, self.size_of(None, *id));
                let cut = new.div_ceil(PAGE_BYTES)..old.div_ceil(PAGE_BYTES);
                changed.entry(*id).or_default().extend(cut);
            }
        }
        changed.into_iter().try_for_each(|(id, pages)| self.keep_past(id, pages))
    }

    /// The size of `id` as it was.
    pub(super) fn size_since(&self, id: Id, since: u64) -> u64 {
        let past = self.objects.get(&id).and_then(|object| object.past.size(since));
        past.unwrap_or_else(|| self.size_of(None, id))
    }

    /// Reads `id` as it was; answers how many bytes there were.
    pub(super) fn read_since(
        &mut self,
        id: Id,
        since: u64,
        out: &mut [u8],
        at: u64,
    ) -> Done<usize> {
        let size = self.size_since(id, since);
        let there = size.saturating_sub(at).min(out.len() as u64) as usize;
        let (mut buffer, mut done) = (vec![0u8; PAGE], 0);
        while done < there {
            let from = at + done as u64;
            let (page, inside) = (from / PAGE_BYTES, (from % PAGE_BYTES) as usize);
            let take = (PAGE - inside).min(there - done);
            match self.objects.get(&id).and_then(|object| object.past.page(since, page)) {
                Some(kept) => buffer.copy_from_slice(kept),
                None => self.read_page(None, id, page, &mut buffer)?,
            }
            out[done..done + take].copy_from_slice(&buffer[inside..inside + take]);
            done += take;
        }
        Ok(there)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_was_kept_since_counts() {
        let mut past = Past::default();
        for (page, version, fill) in [(7, 2, 1), (7, 5, 2), (8, 5, 3)] {
            past.pages.insert((page, version), vec![fill].into());
        }
        past.sizes.extend([(2, 100), (5, 200)]);
        let fill = |since, page| past.page(since, page).map(|bytes| bytes[0]);
        assert_eq!(
            [fill(1, 7), fill(2, 7), fill(3, 7), fill(6, 7)],
            [Some(1), Some(1), Some(2), None]
        );
        assert_eq!([fill(2, 8), fill(2, 6)], [Some(3), None]);
        assert_eq!([past.size(1), past.size(3), past.size(6)], [Some(100), Some(200), None]);
    }

    #[test]
    fn only_what_somebody_reads_is_kept() {
        let mut past = Past::default();
        for key in [(1, 2), (1, 4), (1, 6), (2, 6), (3, 3)] {
            past.pages.insert(key, Box::default());
        }
        past.sizes = BTreeMap::from([(2, 20), (4, 40), (6, 60)]);
        past.keep_for(&BTreeSet::from([1, 5]));
        let pages: Vec<(u64, u64)> = past.pages.keys().copied().collect();
        assert_eq!(pages, [(1, 2), (1, 6), (2, 6), (3, 3)], "the first since 1, and since 5");
        assert_eq!(past.sizes.keys().copied().collect::<Vec<_>>(), [2, 6]);
        past.keep_for(&BTreeSet::from([4]));
        let pages: Vec<(u64, u64)> = past.pages.keys().copied().collect();
        assert_eq!((pages, past.size(4)), (vec![(1, 6), (2, 6)], Some(60)));
        past.keep_for(&BTreeSet::new());
        assert!(past.pages.is_empty() && past.sizes.is_empty());
    }
}
