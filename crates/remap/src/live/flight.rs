//! Blocks on their way to the medium.
//!
//! Whoever admits a write while a slot is free writes it himself, from where its bytes are: nothing
//! is copied. What is admitted while all slots are taken gathers here, copied, and goes out together
//! by whichever thread finds a slot free.
//!
//! Invariants: at most `slots` batches of clients are being written, and one of the cleaner beside
//! them; a place is found here until its block is on the medium; batches end in any order, and each
//! says when it has.

use std::collections::BTreeSet;
use std::sync::Arc;

use block::Medium;

use super::feed::Own;
use crate::geometry::{BLOCK, Pba};

/// Bytes of one write to the medium at most.
const MOST: usize = 1 << 20;

/// Places that lie together.
#[derive(Clone, Copy, Debug)]
struct Range {
    pba: u32,
    blocks: u32,
}

impl Range {
    fn holds(self, pba: u32) -> bool {
        (self.pba..self.pba + self.blocks).contains(&pba)
    }
}

/// Blocks with their bytes, which this holds.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub id: u64,
    /// Each with its first block in `bytes`.
    pieces: Vec<(Range, u32)>,
    bytes: Vec<u8>,
}

impl Batch {
    fn add(&mut self, pba: u32, bytes: &[u8]) {
        let (at, blocks) = ((self.bytes.len() / BLOCK) as u32, (bytes.len() / BLOCK) as u32);
        self.bytes.extend_from_slice(bytes);
        match self.pieces.last_mut() {
            Some((last, _)) if last.pba + last.blocks == pba => last.blocks += blocks,
            _ => self.pieces.push((Range { pba, blocks }, at)),
        }
    }

    fn blocks(&self) -> u64 {
        (self.bytes.len() / BLOCK) as u64
    }

    /// Writes all of it; neighbours as one.
    pub fn write(&self, medium: &dyn Medium) -> std::io::Result<()> {
        let bytes =
            |at: u32, blocks: u32| &self.bytes[at as usize * BLOCK..][..blocks as usize * BLOCK];
        let mut all: Vec<(u32, &[u8])> =
            self.pieces.iter().map(|(range, at)| (range.pba, bytes(*at, range.blocks))).collect();
        write_in_order(medium, &mut all)
    }

    /// The bytes of a block, by its first in `bytes`.
    fn find(&self, pba: u32) -> Option<usize> {
        let found = self.pieces.iter().rev().find(|(range, _)| range.holds(pba));
        found.map(|(range, at)| (at + pba - range.pba) as usize * BLOCK)
    }
}

/// Writes blocks; neighbours as one, as far as that is not too long.
pub(super) fn write_in_order(medium: &dyn Medium, all: &mut [(u32, &[u8])]) -> std::io::Result<()> {
    all.sort_unstable_by_key(|(pba, _)| *pba);
    let (mut rest, mut parts) = (&all[..], Vec::with_capacity(all.len()));
    while let Some((first, bytes)) = rest.first() {
        parts.clear();
        parts.push(*bytes);
        let mut length = bytes.len();
        for (pba, bytes) in &rest[1..] {
            if *pba as usize != *first as usize + length / BLOCK || length + bytes.len() > MOST {
                break;
            }
            parts.push(*bytes);
            length += bytes.len();
        }
        medium.write_parts(u64::from(*first) * BLOCK as u64, &parts)?;
        rest = &rest[parts.len()..];
    }
    Ok(())
}

/// A batch that is being written.
#[derive(Debug)]
enum Flying {
    /// Its bytes are here.
    Held(Arc<Batch>),
    /// Whoever admitted it writes it from its own bytes.
    Own { id: u64, ranges: Vec<Range>, slot: bool },
}

impl Flying {
    fn id(&self) -> u64 {
        match self {
            Flying::Held(batch) => batch.id,
            Flying::Own { id, .. } => *id,
        }
    }

    fn takes_slot(&self) -> bool {
        matches!(self, Flying::Held(_) | Flying::Own { slot: true, .. })
    }
}

/// Where a block is that is not on the medium yet.
pub(super) enum OnTheWay {
    /// At this byte of the batch.
    Held(Arc<Batch>, usize),
    /// These are its bytes.
    Copied(Vec<u8>),
    /// On the medium when this batch has ended.
    Ends(u64),
}

impl OnTheWay {
    /// Its bytes, unless they are on the medium.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            OnTheWay::Held(batch, at) => Some(&batch.bytes[*at..*at + BLOCK]),
            OnTheWay::Copied(bytes) => Some(bytes),
            OnTheWay::Ends(_) => None,
        }
    }
}

/// All batches that are not on the medium.
#[derive(Debug)]
pub(super) struct Flight {
    /// Has its number from its first piece on.
    gathered: Batch,
    flying: Vec<Flying>,
    /// The last number given.
    newest: u64,
    /// Batches up to this have ended, and these too.
    low: u64,
    ended: BTreeSet<u64>,
    slots: usize,
    /// Buffers for what gathers.
    spare: Vec<Vec<u8>>,
    /// Lists for what is written at once.
    ranges: Vec<Vec<Range>>,
    /// Batches written, and blocks in them.
    pub batches: u64,
    pub blocks: u64,
}

impl Flight {
    pub fn new(slots: u32) -> Flight {
        Flight {
            gathered: Batch::default(),
            flying: Vec::new(),
            newest: 0,
            low: 0,
            ended: BTreeSet::new(),
            slots: slots as usize,
            spare: Vec::new(),
            ranges: Vec::new(),
            batches: 0,
            blocks: 0,
        }
    }

    /// The batch that what was just gathered goes out with.
    pub fn ticket(&self) -> u64 {
        self.gathered.id
    }

    pub fn gather(&mut self, pba: u32, bytes: &[u8]) {
        if self.gathered.pieces.is_empty() {
            self.newest += 1;
            self.gathered.id = self.newest;
        }
        self.gathered.add(pba, bytes);
    }

    /// All batches up to this have ended when everything so far is on the medium.
    pub fn last(&self) -> u64 {
        self.newest
    }

    pub fn has_ended(&self, id: u64) -> bool {
        id <= self.low || self.ended.contains(&id)
    }

    /// Whether all batches up to `id` have ended.
    pub fn all_ended(&self, id: u64) -> bool {
        id <= self.low
    }

    /// Blocks that gather.
    pub fn gathering(&self) -> u64 {
        self.gathered.blocks()
    }

    /// Blocks that gather; none while any are being written, of which nobody knows how many are there.
    pub fn gathered(&self) -> Option<u64> {
        self.flying.is_empty().then(|| self.gathered.blocks())
    }

    fn slot_is_free(&self) -> bool {
        self.flying.iter().filter(|flying| flying.takes_slot()).count() < self.slots
    }

    /// Whether what is admitted now may be written at once by whoever admits it.
    pub fn may_go_at_once(&self) -> bool {
        self.gathered.pieces.is_empty() && self.slot_is_free()
    }

    /// Takes what is gathered, if a slot is free.
    pub fn depart(&mut self) -> Option<Arc<Batch>> {
        if self.gathered.pieces.is_empty() || !self.slot_is_free() {
            return None;
        }
        let bytes = self.spare.pop().unwrap_or_default();
        let next = Batch { id: 0, pieces: Vec::new(), bytes };
        let batch = Arc::new(std::mem::replace(&mut self.gathered, next));
        self.batches += 1;
        self.blocks += batch.blocks();
        self.flying.push(Flying::Held(batch.clone()));
        Some(batch)
    }

    /// A batch whose bytes stay with whoever writes it, beside what is gathered. `slot`: it is one
    /// of a client.
    pub fn depart_own(&mut self, own: &Own<'_>, slot: bool) -> u64 {
        self.newest += 1;
        let mut ranges = self.ranges.pop().unwrap_or_default();
        own.ranges(|pba, blocks| match ranges.last_mut() {
            Some(Range { pba: first, blocks: so_far }) if *first + *so_far == pba => {
                *so_far += blocks;
            }
            _ => ranges.push(Range { pba, blocks }),
        });
        self.batches += 1;
        self.blocks += ranges.iter().map(|range| u64::from(range.blocks)).sum::<u64>();
        self.flying.push(Flying::Own { id: self.newest, ranges, slot });
        self.newest
    }

    pub fn arrive(&mut self, id: u64) {
        if let Some(i) = self.flying.iter().position(|flying| flying.id() == id) {
            match self.flying.swap_remove(i) {
                Flying::Own { mut ranges, .. } => {
                    ranges.clear();
                    self.ranges.push(ranges);
                }
                Flying::Held(batch) => {
                    // Unless a reader or the writer still has it.
                    if let Ok(Batch { mut bytes, .. }) = Arc::try_unwrap(batch)
                        && self.spare.len() <= self.slots
                    {
                        bytes.clear();
                        self.spare.push(bytes);
                    }
                }
            }
        }
        self.ended.insert(id);
        while self.ended.remove(&(self.low + 1)) {
            self.low += 1;
        }
    }

    /// Which of `count` blocks from `pba` on are still on their way, by their number.
    pub fn on_the_way(&self, pba: Pba, count: u32) -> Vec<(u32, OnTheWay)> {
        let mut found = Vec::new();
        if self.flying.is_empty() && self.gathered.pieces.is_empty() {
            return found;
        }
        for i in 0..count {
            found.extend(self.find(pba.0 + i).map(|way| (i, way)));
        }
        found
    }

    fn find(&self, pba: u32) -> Option<OnTheWay> {
        if let Some(at) = self.gathered.find(pba) {
            return Some(OnTheWay::Copied(self.gathered.bytes[at..at + BLOCK].to_vec()));
        }
        self.flying.iter().find_map(|flying| match flying {
            Flying::Held(batch) => batch.find(pba).map(|at| OnTheWay::Held(batch.clone(), at)),
            Flying::Own { id, ranges, .. } => {
                ranges.iter().any(|range| range.holds(pba)).then_some(OnTheWay::Ends(*id))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::feed::{Feed, Load};
    use super::*;
    use crate::engine::{HeadKind, Sink};

    /// Remembers what was written, one entry for each call.
    #[derive(Debug, Default)]
    struct Seen(Mutex<Vec<(u64, Vec<u8>)>>);

    impl Medium for Seen {
        fn read(&self, _: u64, _: &mut [u8]) -> std::io::Result<()> {
            Err(std::io::ErrorKind::Unsupported.into())
        }
        fn write(&self, at: u64, bytes: &[u8]) -> std::io::Result<()> {
            self.0.lock().unwrap().push((at, bytes.to_vec()));
            Ok(())
        }
        fn sync(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    const HEAD: HeadKind = HeadKind::User(0);

    fn own(data: &[u8], pba: u32) -> Own<'_> {
        let mut own = Own::default();
        own.load(data);
        own.data(HEAD, Pba(pba), 0, (data.len() / BLOCK) as u32);
        own
    }

    fn gather(flight: &mut Flight, data: &[u8], pba: u32) {
        let mut feed = Feed::new(flight);
        feed.load(data);
        feed.data(HEAD, Pba(pba), 0, (data.len() / BLOCK) as u32);
    }

    #[test]
    fn who_finds_no_slot_gathers_and_goes_with_the_next() {
        let (mut flight, data) = (Flight::new(2), vec![1; 2 * BLOCK]);
        assert!(flight.may_go_at_once() && flight.depart().is_none());
        let first = flight.depart_own(&own(&data, 10), true);
        assert!(flight.may_go_at_once(), "there are two slots");
        let second = flight.depart_own(&own(&data, 20), true);
        assert!(!flight.may_go_at_once());
        // The cleaner needs none.
        let cleaner = flight.depart_own(&own(&data[..BLOCK], 30), false);
        gather(&mut flight, &data, 40);
        gather(&mut flight, &data[..BLOCK], 42);
        let ticket = flight.ticket();
        assert_eq!((first, second, cleaner, ticket, flight.last()), (1, 2, 3, 4, 4));
        assert_eq!((flight.gathering(), flight.gathered()), (3, None));
        assert!(flight.depart().is_none(), "no slot is free");
        flight.arrive(cleaner);
        assert!(flight.depart().is_none(), "that freed none");
        flight.arrive(second);
        assert!(flight.has_ended(second) && !flight.has_ended(first) && !flight.all_ended(second));
        assert!(!flight.may_go_at_once(), "those that gather go first");
        let batch = flight.depart().expect("a slot is free");
        assert_eq!((batch.id, flight.gathering()), (ticket, 0));
        assert!(!flight.may_go_at_once() && flight.depart().is_none());
        flight.arrive(first);
        assert!(flight.all_ended(cleaner) && !flight.all_ended(ticket) && flight.may_go_at_once());
        drop(batch);
        flight.arrive(ticket);
        assert!(flight.all_ended(flight.last()));
        assert_eq!((flight.batches, flight.blocks, flight.gathered()), (4, 8, Some(0)));
    }

    #[test]
    fn a_block_is_found_until_it_is_on_the_medium() {
        let (mut flight, old, new) = (Flight::new(1), vec![1; 2 * BLOCK], vec![2; BLOCK]);
        let first = flight.depart_own(&own(&old, 10), true);
        gather(&mut flight, &old, 50);
        gather(&mut flight, &new, 51);
        let way = |flight: &Flight, pba: u32| -> Vec<(u32, Option<u8>)> {
            let found = flight.on_the_way(Pba(pba), 3);
            found.iter().map(|(i, way)| (*i, way.bytes().map(|bytes| bytes[0]))).collect()
        };
        // Whoever writes from his own bytes has them; the newest of a place counts.
        assert_eq!(way(&flight, 9), [(1, None), (2, None)]);
        assert_eq!(way(&flight, 11), [(0, None)]);
        assert_eq!(way(&flight, 50), [(0, Some(1)), (1, Some(2))]);
        flight.arrive(first);
        assert_eq!(way(&flight, 9), []);
        let batch = flight.depart().expect("a slot is free");
        assert_eq!(way(&flight, 50), [(0, Some(1)), (1, Some(2))], "it is being written");
        flight.arrive(batch.id);
        assert_eq!(way(&flight, 50), []);
    }

    #[test]
    fn neighbours_are_one_write_up_to_a_length() {
        let (seen, data) = (Seen::default(), vec![7; MOST]);
        let mut own = own(&data[..2 * BLOCK], 12);
        own.header(HEAD, Pba(11), &[5; BLOCK]);
        own.header(HEAD, Pba(30), &[6; BLOCK]);
        own.data(HEAD, Pba(14), 1, 1);
        assert!(!own.is_empty() && Own::default().is_empty());
        own.write(&seen).unwrap();
        let calls = |seen: &Seen| -> Vec<(u64, usize, u8)> {
            let calls = std::mem::take(&mut *seen.0.lock().unwrap());
            calls
                .iter()
                .map(|(at, bytes)| (at / BLOCK as u64, bytes.len() / BLOCK, bytes[0]))
                .collect()
        };
        assert_eq!(calls(&seen), [(11, 4, 5), (30, 1, 6)]);
        let mut flight = Flight::new(1);
        gather(&mut flight, &data, 100);
        gather(&mut flight, &data[..BLOCK], 100 + (MOST / BLOCK) as u32);
        gather(&mut flight, &data[..BLOCK], 40);
        flight.depart().expect("a slot is free").write(&seen).unwrap();
        let most = MOST / BLOCK;
        // What was gathered in one piece is not taken apart.
        assert_eq!(calls(&seen), [(40, 1, 7), (100, most + 1, 7)]);
        let mut parts =
            [(100, &data[..]), (100 + most as u32, &data[..BLOCK]), (99, &data[..BLOCK])];
        write_in_order(&seen, &mut parts).unwrap();
        assert_eq!(calls(&seen), [(99, 1, 7), (100, most, 7), (100 + most as u64, 1, 7)]);
    }
}
