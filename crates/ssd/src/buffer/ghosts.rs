//! Pages that a policy remembers without their data, in lists of their own.
//!
//! Invariants: a page is in at most one list, and there once; never more pages than the capacity
//! given at the start; the index holds exactly the pages remembered.

use super::index::Index;

const NONE: u32 = u32::MAX;

/// The place of a remembered page, below the capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ghost(pub u32);

#[derive(Clone, Copy, Debug)]
struct Node {
    page: u32,
    prev: u32,
    next: u32,
    list: u32,
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    head: u32,
    tail: u32,
    len: usize,
}

/// A fixed number of places for pages, in `LISTS` lists from the newest to the oldest.
#[derive(Clone, Debug)]
pub(super) struct Ghosts<const LISTS: usize> {
    nodes: Vec<Node>,
    index: Index,
    free: u32,
    lists: [Ends; LISTS],
}

impl<const LISTS: usize> Ghosts<LISTS> {
    /// Room for `capacity` pages of a space of `pages`.
    pub fn new(capacity: usize, pages: u32) -> Self {
        let node = |i| Node { page: 0, prev: NONE, next: i + 1, list: 0 };
        let mut nodes: Vec<Node> = (0..capacity as u32).map(node).collect();
        if let Some(last) = nodes.last_mut() {
            last.next = NONE;
        }
        Ghosts {
            free: if nodes.is_empty() { NONE } else { 0 },
            index: Index::new(capacity, pages),
            nodes,
            lists: [Ends { head: NONE, tail: NONE, len: 0 }; LISTS],
        }
    }

    /// Where a page is remembered.
    #[inline]
    pub fn find(&self, page: u32) -> Option<Ghost> {
        let at = self.index.get(page);
        (at != NONE).then_some(Ghost(at))
    }
    /// The list it is in.
    #[inline]
    pub fn list(&self, ghost: Ghost) -> usize {
        self.nodes[ghost.0 as usize].list as usize
    }
    /// Pages in a list.
    #[inline]
    pub fn len(&self, list: usize) -> usize {
        self.lists[list].len
    }
    /// Pages in all lists.
    pub fn total(&self) -> usize {
        self.lists.iter().map(|ends| ends.len).sum()
    }
    /// The oldest page of a list.
    pub fn oldest(&self, list: usize) -> Option<Ghost> {
        let tail = self.lists[list].tail;
        (tail != NONE).then_some(Ghost(tail))
    }

    /// Remembers a page that is in no list; there is room.
    #[inline]
    pub fn push(&mut self, list: usize, page: u32) -> Ghost {
        let at = self.free;
        assert!(at != NONE, "no room to remember page {page}");
        self.free = self.nodes[at as usize].next;
        let ends = &mut self.lists[list];
        let head = std::mem::replace(&mut ends.head, at);
        ends.len += 1;
        match head {
            NONE => ends.tail = at,
            head => self.nodes[head as usize].prev = at,
        }
        self.nodes[at as usize] = Node { page, prev: NONE, next: head, list: list as u32 };
        self.index.insert(page, at);
        Ghost(at)
    }
    /// Remembers a page in a list of at most `limit`; the oldest are forgotten for it.
    #[inline]
    pub fn push_limited(&mut self, list: usize, page: u32, limit: usize) {
        while self.len(list) >= limit {
            let Some(oldest) = self.oldest(list) else { return };
            self.remove(oldest);
        }
        self.push(list, page);
    }
    /// Forgets a page.
    #[inline]
    pub fn remove(&mut self, ghost: Ghost) {
        let Node { page, prev, next, list } = self.nodes[ghost.0 as usize];
        let ends = &mut self.lists[list as usize];
        ends.len -= 1;
        match prev {
            NONE => ends.head = next,
            prev => self.nodes[prev as usize].next = next,
        }
        match next {
            NONE => ends.tail = prev,
            next => self.nodes[next as usize].prev = prev,
        }
        self.index.remove(page);
        self.nodes[ghost.0 as usize].next = self.free;
        self.free = ghost.0;
    }
    /// Forgets the oldest page of a list, if there is one.
    #[inline]
    pub fn pop(&mut self, list: usize) -> Option<Ghost> {
        let oldest = self.oldest(list)?;
        self.remove(oldest);
        Some(oldest)
    }
    /// Forgets some pages, wherever they are, and tells their places.
    pub fn forget(&mut self, pages: std::ops::Range<u32>, mut each: impl FnMut(Ghost)) {
        if pages.len() <= self.total() {
            for page in pages {
                if let Some(ghost) = self.find(page) {
                    each(ghost);
                    self.remove(ghost);
                }
            }
            return;
        }
        for list in 0..LISTS {
            let mut at = self.lists[list].head;
            while at != NONE {
                let Node { page, next, .. } = self.nodes[at as usize];
                if pages.contains(&page) {
                    each(Ghost(at));
                    self.remove(Ghost(at));
                }
                at = next;
            }
        }
    }

    /// Checks lists, lengths and index; `resident` says which pages must not be remembered.
    ///
    /// # Errors
    /// What does not hold.
    pub fn check(&self, resident: impl Fn(u32) -> bool) -> Result<(), String> {
        for (list, ends) in self.lists.iter().enumerate() {
            let (mut at, mut prev, mut walked) = (ends.head, NONE, 0);
            while at != NONE && walked <= ends.len {
                let node = self.nodes[at as usize];
                if node.prev != prev || node.list as usize != list {
                    return Err(format!("ghost {} is linked wrongly", node.page));
                }
                if self.find(node.page) != Some(Ghost(at)) {
                    return Err(format!("ghost {} is not found", node.page));
                }
                if resident(node.page) {
                    return Err(format!("page {} is a ghost and resident", node.page));
                }
                (prev, at, walked) = (at, node.next, walked + 1);
            }
            if walked != ends.len || prev != ends.tail {
                return Err(format!("ghost list {list}: {walked} linked, {} counted", ends.len));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_agree_with_vectors() {
        let mut rng = block::Rng::new(7);
        let mut ghosts: Ghosts<2> = Ghosts::new(20, 64);
        let mut model: [Vec<u32>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..20_000 {
            let (page, list) = (rng.below(64) as u32, rng.below(2) as usize);
            let known = model.iter().any(|list| list.contains(&page));
            match rng.below(8) {
                0 => {
                    let end = rng.between(u64::from(page), 64) as u32;
                    ghosts.forget(page..end, |_| {});
                    model.iter_mut().for_each(|l| l.retain(|p| !(page..end).contains(p)));
                }
                1 => {
                    ghosts.pop(list);
                    if !model[list].is_empty() {
                        model[list].remove(0);
                    }
                }
                _ if known => {
                    let ghost = ghosts.find(page).expect("the model knows it");
                    assert!(model[ghosts.list(ghost)].contains(&page));
                    ghosts.remove(ghost);
                    model.iter_mut().for_each(|l| l.retain(|p| *p != page));
                }
                _ => {
                    ghosts.push_limited(list, page, 10);
                    if model[list].len() == 10 {
                        model[list].remove(0);
                    }
                    model[list].push(page);
                }
            }
            ghosts.check(|_| false).unwrap();
            for (list, pages) in model.iter().enumerate() {
                assert_eq!(ghosts.len(list), pages.len());
                let oldest = ghosts.oldest(list).map(|g| ghosts.nodes[g.0 as usize].page);
                assert_eq!(oldest, pages.first().copied());
            }
        }
    }
}
