//! The reference model of a transactional device under power cuts. It shares no code with any
//! device.
//!
//! Per page it keeps the committed versions submitted, oldest first, from the newest one that
//! must survive on. The versions of one commit are a *group*: after a cut all of them count, or
//! none (C4). What an open transaction has written is in no list at all: whoever finds it after a
//! cut, or reads it from outside, has found a broken promise.

use block::Time;

use crate::failure::{Contract, Failure};
use crate::model::Point;

/// One committed version of a page.
#[derive(Clone, Copy, Debug)]
struct Version {
    content: u64,
    request: u32,
    group: u32,
    /// Certainly took effect.
    firm: bool,
}

/// No group: a plain write or discard.
const PLAIN: u32 = 0;

/// The versions of one commit.
#[derive(Clone, Debug)]
struct Group {
    number: u32,
    request: u32,
    /// When it was acknowledged.
    ack: Option<Time>,
    pages: Vec<u32>,
}

/// Makes plain writes durable.
#[derive(Clone, Copy, Debug)]
struct Barrier {
    ack: Time,
    request: u32,
    only: Option<(u32, u32)>,
}

/// What the host knows.
#[derive(Clone, Debug)]
pub(super) struct TxModel {
    pages: Vec<Vec<Version>>,
    groups: Vec<Group>,
    barriers: Vec<Barrier>,
    last_group: u32,
    tokens: u32,
}

impl TxModel {
    /// A device of zeroes.
    pub fn new(pages: u32) -> TxModel {
        let blank = Version { content: 0, request: 0, group: PLAIN, firm: true };
        TxModel {
            pages: (0..pages).map(|_| vec![blank]).collect(),
            groups: Vec::new(),
            barriers: Vec::new(),
            last_group: PLAIN,
            tokens: 0,
        }
    }
    pub fn pages(&self) -> u32 {
        self.pages.len() as u32
    }
    /// Contents nobody has written before.
    pub fn token(&mut self, page: u32) -> u64 {
        self.tokens += 1;
        u64::from(page) << 32 | u64::from(self.tokens)
    }
    /// What a page holds with the power on.
    pub fn last(&self, page: u32) -> u64 {
        self.pages[page as usize].iter().rev().find(|v| v.firm).map_or(0, |v| v.content)
    }

    /// A plain write or discard.
    pub fn plain(&mut self, request: u32, page: u32, content: u64) {
        let version = Version { content, request, group: PLAIN, firm: true };
        self.pages[page as usize].push(version);
    }

    /// A commit of these pages is submitted.
    pub fn commit(&mut self, request: u32, pages: impl Iterator<Item = (u32, u64)>) {
        self.last_group += 1;
        let number = self.last_group;
        let mut list = Vec::new();
        for (page, content) in pages {
            self.pages[page as usize].push(Version { content, request, group: number, firm: true });
            list.push(page);
        }
        self.groups.push(Group { number, request, ack: None, pages: list });
    }
    /// The last commit was acknowledged.
    pub fn committed(&mut self, ack: Time) {
        if let Some(group) = self.groups.last_mut() {
            group.ack = Some(ack);
        }
    }
    /// Request `request` ended in an error: it may have taken effect or not.
    pub fn failed(&mut self, request: u32) {
        for versions in &mut self.pages {
            for version in versions.iter_mut().rev().take_while(|v| v.request == request) {
                version.firm = false;
            }
        }
    }
    /// A flush was acknowledged, or is going to be at `ack`.
    pub fn flushed(&mut self, request: u32, ack: Time) {
        self.barriers.push(Barrier { ack, request, only: None });
    }
    /// A write with force unit access was.
    pub fn forced(&mut self, request: u32, ack: Time, page: u32, count: u32) {
        self.barriers.push(Barrier { ack, request, only: Some((page, count)) });
    }

    /// No cut before `at` will be asked for: forgets what cannot be found any more.
    pub fn settle(&mut self, at: Time) {
        let settled: Vec<Barrier> = self.barriers.extract_if(.., |b| b.ack <= at).collect();
        for barrier in settled {
            let (page, count) = barrier.only.unwrap_or((0, self.pages()));
            for versions in &mut self.pages[page as usize..(page + count) as usize] {
                let floor = floor(versions, barrier.request);
                versions.drain(..floor);
            }
        }
        let done = |group: &mut Group| group.ack.is_some_and(|ack| ack <= at);
        let settled: Vec<Group> = self.groups.extract_if(.., done).collect();
        for group in settled {
            for page in group.pages {
                let versions = &mut self.pages[page as usize];
                let from = versions.iter().position(|v| v.group == group.number).unwrap_or(0);
                versions.drain(..from);
            }
        }
    }

    /// With the power on, a page reads as its last version, or as one after it that may have
    /// failed.
    pub fn expect_last(&self, page: u32, seen: Option<u64>) -> Result<(), Failure> {
        let versions = &self.pages[page as usize];
        let from = versions.iter().rposition(|v| v.firm).unwrap_or(0);
        self.expect(page, seen, from, "with the power on").map(|_| ())
    }

    /// After a cut: every page holds what was promised, and every commit is there or not.
    pub fn expect_after(&self, seen: &[Option<u64>], point: &Point) -> Result<(), Failure> {
        let counts = |request: u32, ack: Time| {
            if request == point.request {
                point.complete && ack < point.instant
            } else {
                ack <= point.instant
            }
        };
        let mut floors = vec![0; self.pages.len()];
        for barrier in self.barriers.iter().filter(|b| counts(b.request, b.ack)) {
            let (page, count) = barrier.only.unwrap_or((0, self.pages()));
            let range = page as usize..(page + count) as usize;
            for (least, versions) in floors[range.clone()].iter_mut().zip(&self.pages[range]) {
                *least = (*least).max(floor(versions, barrier.request));
            }
        }
        let durable = |group: &&Group| group.ack.is_some_and(|ack| counts(group.request, ack));
        for group in self.groups.iter().filter(durable) {
            for page in &group.pages {
                let here = self.index(group, *page);
                let floor = &mut floors[*page as usize];
                *floor = (*floor).max(here);
            }
        }
        let mut found = Vec::with_capacity(seen.len());
        for (page, (seen, floor)) in seen.iter().zip(&floors).enumerate() {
            found.push(self.expect(page as u32, *seen, *floor, "after the cut")?);
        }
        for group in &self.groups {
            self.expect_whole(group, &found)?;
        }
        Ok(())
    }

    fn index(&self, group: &Group, page: u32) -> usize {
        let versions = &self.pages[page as usize];
        versions.iter().position(|v| v.group == group.number).unwrap_or(0)
    }

    /// The versions that a page may hold and that look like what was seen.
    fn expect(
        &self,
        page: u32,
        seen: Option<u64>,
        from: usize,
        when: &str,
    ) -> Result<Vec<usize>, Failure> {
        let versions = &self.pages[page as usize];
        let found: Vec<usize> =
            (from..versions.len()).filter(|i| Some(versions[*i].content) == seen).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let may: Vec<String> =
            versions[from..].iter().map(|v| format!("{:x}", v.content)).collect();
        let (contract, held) = match seen {
            None => (Contract::C6, "nothing readable".to_string()),
            Some(content) => {
                let known = versions.iter().any(|v| v.content == content);
                let group = versions[from].group != PLAIN || !known;
                (if group { Contract::C4 } else { Contract::C1 }, format!("{content:x}"))
            }
        };
        let what = format!("{when} page {page} holds {held}, may hold {}", may.join(" or "));
        Err(Failure::new(contract, what))
    }

    /// All pages of a commit show it, or none does. One that a later version has hidden says
    /// nothing.
    fn expect_whole(&self, group: &Group, found: &[Vec<usize>]) -> Result<(), Failure> {
        let (mut inside, mut outside) = (None, None);
        for page in &group.pages {
            let here = self.index(group, *page);
            let seen = &found[*page as usize];
            if seen.iter().all(|i| *i < here) {
                outside = Some(*page);
            }
            if seen.iter().all(|i| *i == here) {
                inside = Some(*page);
            }
        }
        match (inside, outside) {
            (Some(new), Some(old)) => Err(Failure::new(
                Contract::C4,
                format!("after the cut page {new} shows a commit that page {old} does not"),
            )),
            _ => Ok(()),
        }
    }

    /// The host of `other` found this after a mount and starts over from it.
    pub fn restart(&mut self, other: &TxModel, found: &[Option<u64>]) {
        self.barriers.clear();
        self.groups.clear();
        self.tokens = other.tokens;
        self.last_group = other.last_group;
        self.pages.clear();
        for content in found {
            let content = content.unwrap_or(0);
            let version = Version { content, request: 0, group: PLAIN, firm: true };
            self.pages.push(vec![version]);
        }
    }
}

/// The newest certain version submitted by `request` or before.
fn floor(versions: &[Version], request: u32) -> usize {
    versions.iter().rposition(|v| v.firm && v.request <= request).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::from_us(us)
    }

    #[test]
    fn a_commit_is_whole_or_not_there() {
        let mut model = TxModel::new(3);
        model.plain(1, 0, 10);
        model.plain(1, 1, 11);
        model.flushed(2, at(5));
        model.commit(3, [(0, 20), (1, 21), (2, 22)].into_iter());
        let cut = Point { instant: at(9), request: 3, complete: false };
        let look = |model: &TxModel, a, b, c| {
            model.expect_after(&[Some(a), Some(b), Some(c)], &cut).map_err(|f| f.contract)
        };
        assert_eq!(look(&model, 10, 11, 0), Ok(()));
        assert_eq!(look(&model, 20, 21, 22), Ok(()));
        assert_eq!(look(&model, 20, 11, 22), Err(Contract::C4));
        assert_eq!(look(&model, 20, 21, 0), Err(Contract::C4));
        assert_eq!(look(&model, 0, 11, 0), Err(Contract::C1));
        // What was written and never committed.
        assert_eq!(look(&model, 10, 99, 0), Err(Contract::C4));
        model.committed(at(8));
        model.settle(at(8));
        assert_eq!(look(&model, 10, 11, 0), Err(Contract::C4));
        assert_eq!(look(&model, 20, 21, 22), Ok(()));
    }

    #[test]
    fn a_later_version_hides_a_commit() {
        let mut model = TxModel::new(2);
        model.commit(1, [(0, 1), (1, 2)].into_iter());
        model.plain(2, 0, 3);
        let cut = Point { instant: at(1), request: 2, complete: false };
        assert!(model.expect_after(&[Some(3), Some(0)], &cut).is_ok());
        assert!(model.expect_after(&[Some(3), Some(2)], &cut).is_ok());
        assert!(model.expect_after(&[Some(1), Some(0)], &cut).is_err());
        assert!(model.expect_last(0, Some(3)).is_ok() && model.expect_last(0, Some(1)).is_err());
    }
}
