//! The reference model of a device that promises order: it knows what was admitted, in which order,
//! and what of it a flush covered. It shares no code with any device.
//!
//! The host's requests are numbered pieces: whole requests, or parts of `atomic` pages of longer ones.
//! *State n* is what the device holds after the first n pieces. After a cut the device holds state n
//! for some n from the last piece covered by an acknowledged flush on (I2, I3); as a piece is one
//! number, it is there as a whole or not at all (I4). Trims are pieces (I5).

use block::Time;

use crate::failure::{Contract, Failure};
use crate::model::{Content, Point, Seen, ZERO};
use crate::stamp::SECTORS;

/// A page's content from piece `from` on, until its next one.
#[derive(Clone, Copy, Debug)]
struct Entry {
    from: u32,
    content: Content,
}

/// One piece, for messages.
#[derive(Clone, Copy, Debug)]
struct Piece {
    number: u32,
    request: u32,
    page: u32,
    count: u32,
}

/// An answer that makes the first `pieces` pieces durable.
#[derive(Clone, Copy, Debug)]
struct Barrier {
    ack: Time,
    request: u32,
    pieces: u32,
}

/// The pieces covered by the barriers that were answered before a cut.
fn newest(barriers: &[Barrier], point: &Point) -> u32 {
    let counts = |barrier: &&Barrier| {
        if barrier.request == point.request {
            point.complete && barrier.ack < point.instant
        } else {
            barrier.ack <= point.instant
        }
    };
    barriers.iter().filter(counts).map(|barrier| barrier.pieces).max().unwrap_or(0)
}

/// What the host knows of a device that promises order.
#[derive(Clone, Debug)]
pub struct Ledger {
    pages: Vec<Vec<Entry>>,
    pieces: Vec<Piece>,
    barriers: Vec<Barrier>,
    /// For each write since the last barrier, the pieces that were known to be durable when it came: the
    /// device says so beside it.
    spoken: Vec<u32>,
    /// Barriers that cover such a write, with what is said on the medium to be durable since then.
    announced: Vec<Barrier>,
    /// No state before this one is excused by damage any more.
    said: u32,
    /// Pages of a piece at most.
    atomic: u32,
    admitted: u32,
    versions: u32,
    /// No state before this one can be found any more.
    floor: u32,
    /// Scratch: how many pages agree with each state.
    votes: Vec<i32>,
}

impl Ledger {
    /// A device of `pages` pages of zeroes that keeps pieces of `atomic` pages whole.
    pub fn new(pages: u32, atomic: u32) -> Ledger {
        let blank = Entry { from: 0, content: ZERO };
        Ledger {
            pages: (0..pages).map(|_| vec![blank]).collect(),
            pieces: Vec::new(),
            barriers: Vec::new(),
            spoken: Vec::new(),
            announced: Vec::new(),
            said: 0,
            atomic: atomic.max(1),
            admitted: 0,
            versions: 0,
            floor: 0,
            votes: Vec::new(),
        }
    }

    /// Pages.
    pub fn pages(&self) -> u32 {
        self.pages.len() as u32
    }

    fn piece(&mut self, request: u32, page: u32, count: u32) -> u32 {
        self.admitted += 1;
        self.pieces.push(Piece { number: self.admitted, request, page, count });
        self.admitted
    }

    /// Request `request` writes sectors at `at`: the version they get.
    pub fn write(&mut self, at: Time, request: u32, sector: u32, count: u32) -> u32 {
        self.versions += 1;
        let before = self.barriers.iter().filter(|barrier| barrier.ack < at);
        let durable = before.map(|barrier| barrier.pieces).max().unwrap_or(0).max(self.floor);
        self.spoken.push(durable);
        let (per_page, end) = (SECTORS as u32, sector + count);
        let (first, last) = (sector / per_page, (end - 1) / per_page);
        let mut page = first;
        while page <= last {
            let pages = self.atomic.min(last + 1 - page);
            let number = self.piece(request, page, pages);
            for at in page..page + pages {
                let entries = &mut self.pages[at as usize];
                let mut content = entries[entries.len() - 1].content;
                for (i, token) in content.iter_mut().enumerate() {
                    if (sector..end).contains(&(at * per_page + i as u32)) {
                        *token = self.versions;
                    }
                }
                entries.push(Entry { from: number, content });
            }
            page += pages;
        }
        self.versions
    }

    /// Request `request` discards pages.
    pub fn discard(&mut self, request: u32, page: u32, count: u32) {
        let number = self.piece(request, page, count);
        for at in page..page + count {
            self.pages[at as usize].push(Entry { from: number, content: ZERO });
        }
    }

    /// A flush or a forced write was answered, or is going to be at `ack`: everything admitted so
    /// far is durable then.
    pub fn durable(&mut self, request: u32, ack: Time) {
        self.barriers.push(Barrier { ack, request, pieces: self.admitted });
        let spoken = std::mem::take(&mut self.spoken);
        if let Some(pieces) = spoken.into_iter().max() {
            self.announced.push(Barrier { ack, request, pieces });
        }
    }

    /// No cut before `at` will be asked for: forgets what cannot be found any more. Where something is
    /// `damaged` that is only what the medium itself says was durable.
    pub fn settle(&mut self, at: Time, damaged: bool) {
        let least = |ledger: &Ledger| if damaged { ledger.said } else { ledger.floor };
        let before = least(self);
        self.barriers.retain(|barrier| {
            if barrier.ack <= at {
                self.floor = self.floor.max(barrier.pieces);
            }
            barrier.ack > at
        });
        self.announced.retain(|barrier| {
            if barrier.ack <= at {
                self.said = self.said.max(barrier.pieces);
            }
            barrier.ack > at
        });
        let floor = least(self);
        if floor > before {
            self.pieces.retain(|piece| piece.number > floor);
            for entries in &mut self.pages {
                let keep = entries.iter().rposition(|entry| entry.from <= floor).unwrap_or(0);
                entries.drain(..keep);
            }
        }
    }

    /// With the power on, a page reads as the newest write admitted (I1).
    ///
    /// # Errors
    /// The promise broken.
    pub fn expect_last(&self, page: u32, seen: Seen) -> Result<(), Failure> {
        let entries = &self.pages[page as usize];
        if seen == Seen::Page(entries[entries.len() - 1].content) {
            return Ok(());
        }
        Err(self.wrong(page, seen, u32::MAX, "I1: with the power on"))
    }

    /// The first state that may be found after a cut.
    pub fn floor(&self, point: &Point) -> u32 {
        newest(&self.barriers, point).max(self.floor)
    }

    /// The first state that may be found after a cut where one thing on the medium is damaged: of what was
    /// durable, that which something durable says was.
    pub fn announced(&self, point: &Point) -> u32 {
        newest(&self.announced, point).max(self.said)
    }

    /// Whether a page holds what it held in a state from `floor` on.
    pub fn fits(&self, page: u32, seen: Seen, floor: u32) -> bool {
        let entries = &self.pages[page as usize];
        entries.iter().enumerate().any(|(i, entry)| {
            let end = entries.get(i + 1).map_or(self.admitted + 1, |next| next.from);
            seen == Seen::Page(entry.content) && end > floor
        })
    }

    /// After a cut everything found is one state, from state `floor` on.
    ///
    /// # Errors
    /// The promise broken.
    pub fn expect_prefix(&mut self, found: &[Seen], floor: u32) -> Result<(), Failure> {
        let states = (self.admitted - floor + 1) as usize;
        self.votes.clear();
        self.votes.resize(states + 1, 0);
        let mut narrow = false;
        for (page, (seen, entries)) in found.iter().zip(&self.pages).enumerate() {
            if entries.len() == 1 {
                // Nothing happened to it.
                if *seen != Seen::Page(entries[0].content) {
                    return Err(self.wrong(page as u32, *seen, floor, "I2: after the cut"));
                }
                continue;
            }
            narrow = true;
            let mut fits = false;
            for (i, entry) in entries.iter().enumerate() {
                let end = entries.get(i + 1).map_or(self.admitted + 1, |next| next.from);
                if *seen == Seen::Page(entry.content) && end > floor {
                    fits = true;
                    self.votes[(entry.from.max(floor) - floor) as usize] += 1;
                    self.votes[(end - floor) as usize] -= 1;
                }
            }
            if !fits {
                return Err(self.wrong(page as u32, *seen, floor, "I2: after the cut"));
            }
        }
        if !narrow {
            return Ok(());
        }
        let needed = self.pages.iter().filter(|entries| entries.len() > 1).count() as i32;
        let mut votes = 0;
        for vote in &self.votes[..states] {
            votes += vote;
            if votes == needed {
                return Ok(());
            }
        }
        Err(self.hole(found, floor))
    }

    /// Whether the page may hold this whatever a fault took away: any content it ever had.
    pub fn was_submitted(&self, seen: Seen) -> bool {
        matches!(seen, Seen::Page(content) if content.iter().all(|v| *v <= self.versions))
    }

    /// The states in which a page holds what was found there: the first and the last.
    fn states(&self, page: u32, seen: Seen) -> Option<(u32, u32)> {
        let entries = &self.pages[page as usize];
        let fits = |entry: &&Entry| Seen::Page(entry.content) == seen;
        let first = entries.iter().find(fits)?.from;
        let last = entries.iter().rposition(|entry| fits(&entry))?;
        Some((first, entries.get(last + 1).map_or(self.admitted, |next| next.from - 1)))
    }

    /// Every page holds something that it may hold, but no state holds all of it.
    #[cold]
    fn hole(&self, found: &[Seen], floor: u32) -> Failure {
        for piece in self.pieces.iter().filter(|piece| piece.number > floor) {
            let pages = piece.page..piece.page + piece.count;
            let states = |page: u32| self.states(page, found[page as usize]);
            let newer = pages.clone().find(|p| states(*p).is_some_and(|(a, _)| a >= piece.number));
            let older = pages.clone().find(|p| states(*p).is_some_and(|(_, b)| b < piece.number));
            if let (Some(newer), Some(older)) = (newer, older) {
                return Failure::new(
                    Contract::C4,
                    format!(
                        "I4: piece {} of request {} is half there: in page {newer}, not in {older}",
                        piece.number, piece.request
                    ),
                );
            }
        }
        let all = (0..self.pages()).filter_map(|p| Some((p, self.states(p, found[p as usize])?)));
        let newest = all.clone().max_by_key(|(_, (first, _))| *first);
        let oldest = all.min_by_key(|(_, (_, last))| *last);
        let what = match (newest, oldest) {
            (Some((p, (first, _))), Some((q, (_, last)))) => {
                format!("page {p} holds piece {first} or later, page {q} piece {last} at most")
            }
            _ => "nothing fits".to_string(),
        };
        Failure::new(Contract::C3, format!("I3: no prefix of {} pieces: {what}", self.admitted))
    }

    /// Which promise a page broke that holds nothing it may hold.
    #[cold]
    fn wrong(&self, page: u32, seen: Seen, floor: u32, when: &str) -> Failure {
        let entries = &self.pages[page as usize];
        let from = entries.iter().rposition(|entry| entry.from <= floor).unwrap_or(0);
        let allowed = &entries[from..];
        let contract = match seen {
            Seen::Unreadable => Contract::C6,
            Seen::Garbage => Contract::C2,
            Seen::Elsewhere { .. } => Contract::C6,
            Seen::Page(content) if content.iter().any(|v| *v > self.versions) => Contract::C6,
            Seen::Page(content)
                if content.iter().any(|v| *v != content[0])
                    && entries.iter().all(|entry| entry.content != content) =>
            {
                Contract::C2
            }
            Seen::Page(_) if floor == u32::MAX => Contract::C6,
            Seen::Page(_) if allowed[0].content == ZERO => Contract::C5,
            Seen::Page(_) => Contract::C1,
        };
        let may: Vec<String> = allowed.iter().map(|entry| short(&entry.content)).collect();
        let found = match seen {
            Seen::Page(content) => short(&content),
            other => format!("{other:?}"),
        };
        let may = may.join(" or ");
        Failure::new(contract, format!("{when} page {page} holds {found}, may hold {may}"))
    }

    /// The host of `other` found this and starts over from it. Pages that could not be read stay
    /// open: whatever they may have held is still possible.
    pub fn restart(&mut self, other: &Ledger, found: &[Seen]) {
        self.pieces.clear();
        self.barriers.clear();
        self.spoken.clear();
        self.announced.clear();
        (self.admitted, self.floor, self.said) = (0, 0, 0);
        (self.versions, self.atomic) = (other.versions, other.atomic);
        self.pages.resize_with(other.pages.len(), Vec::new);
        for ((entries, old), seen) in self.pages.iter_mut().zip(&other.pages).zip(found) {
            entries.clear();
            let last = old[old.len() - 1].content;
            let content = if let Seen::Page(content) = seen { *content } else { last };
            entries.push(Entry { from: 0, content });
        }
    }
}

fn short(content: &Content) -> String {
    match content.iter().all(|v| *v == content[0]) {
        true if content[0] == 0 => "zeroes".to_string(),
        true => format!("v{}", content[0]),
        false => format!("v{content:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(version: u32) -> Seen {
        Seen::Page([version; SECTORS])
    }
    fn point(us: u64, request: u32) -> Point {
        Point { instant: Time::from_us(us), request, complete: true }
    }
    fn line(result: Result<(), Failure>) -> Contract {
        result.unwrap_err().contract
    }

    #[test]
    fn only_prefixes_from_the_last_flush_on_are_states() {
        let mut ledger = Ledger::new(3, 2);
        let a = ledger.write(Time::ZERO, 1, 0, 16);
        ledger.durable(2, Time::from_us(5));
        let b = ledger.write(Time::ZERO, 3, 8, 16);
        ledger.discard(4, 0, 1);
        let floor = ledger.floor(&point(9, 4));
        assert_eq!((floor, ledger.floor(&point(4, 4))), (1, 0));
        for good in [[a, a, 0], [a, b, b], [0, b, b]] {
            assert!(ledger.expect_prefix(&good.map(page), floor).is_ok(), "{good:?}");
        }
        for (bad, contract) in [
            ([a, b, 0], Contract::C4),
            ([0, a, 0], Contract::C3),
            ([a, 0, 0], Contract::C1),
            ([a, a, 77], Contract::C6),
        ] {
            let found = bad.map(page);
            assert_eq!(line(ledger.expect_prefix(&found, floor)), contract, "{bad:?}");
        }
        assert!(ledger.expect_prefix(&[0, 0, 0].map(page), 0).is_ok(), "nothing was covered yet");
        let found = [page(a), Seen::Garbage, page(b)];
        assert_eq!(line(ledger.expect_prefix(&found, floor)), Contract::C2);
        ledger.settle(Time::from_us(5), false);
        assert!(ledger.expect_prefix(&[a, b, b].map(page), 1).is_ok());
        assert_eq!(line(ledger.expect_prefix(&[0, 0, 0].map(page), 1)), Contract::C1);
        assert!(ledger.expect_last(0, page(0)).is_ok() && ledger.expect_last(2, page(b)).is_ok());
        assert_eq!(line(ledger.expect_last(1, page(a))), Contract::C6);
    }

    #[test]
    fn long_requests_are_pieces_and_parts_of_pages_keep_the_rest() {
        let mut ledger = Ledger::new(4, 2);
        let a = ledger.write(Time::ZERO, 1, 0, 32);
        assert!(ledger.expect_prefix(&[a, a, 0, 0].map(page), 0).is_ok());
        assert_eq!(line(ledger.expect_prefix(&[a, 0, 0, 0].map(page), 0)), Contract::C4);
        assert_eq!(line(ledger.expect_prefix(&[0, 0, a, a].map(page), 0)), Contract::C3);
        let b = ledger.write(Time::ZERO, 2, 3, 2);
        let mixed = Seen::Page([a, a, a, b, b, a, a, a]);
        assert!(ledger.expect_prefix(&[mixed, page(a), page(a), page(a)], 0).is_ok());
        let torn = Seen::Page([a, a, a, b, a, a, a, a]);
        let found = [torn, page(a), page(a), page(a)];
        assert_eq!(line(ledger.expect_prefix(&found, 0)), Contract::C2);
        let mut after = Ledger::new(4, 2);
        after.restart(&ledger, &[mixed, page(a), page(a), page(0)]);
        assert!(after.expect_last(0, mixed).is_ok() && after.expect_last(3, page(0)).is_ok());
        assert!(after.write(Time::ZERO, 1, 0, 8) > b);
    }
}
