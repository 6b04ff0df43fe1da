//! Blocks on their way to the medium: what gathers goes out together, by whichever thread finds a
//! slot free.
//!
//! Invariants: at most `slots` batches are being written; a block is readable from here until it is
//! on the medium; batches end in any order, and each says when it has.

use std::collections::BTreeSet;
use std::sync::Arc;

use live::Medium;
use remap::{BLOCK, HeadKind, Pba, Sink};

/// Bytes of one write to the medium at most.
const MOST: usize = 1 << 20;

/// Some blocks that lie together.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pba: u32,
    blocks: u32,
    data: Arc<Vec<u8>>,
    /// First block of it in `data`.
    from: u32,
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        &self.data[self.from as usize * BLOCK..(self.from + self.blocks) as usize * BLOCK]
    }
}

/// What goes out together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub id: u64,
    pieces: Vec<Piece>,
}

impl Batch {
    /// Writes all of it; neighbours as one.
    pub fn write(&self, medium: &dyn Medium) -> std::io::Result<()> {
        let mut order: Vec<&Piece> = self.pieces.iter().collect();
        order.sort_unstable_by_key(|p| p.pba);
        let (mut rest, mut joined) = (&order[..], Vec::new());
        while let Some(first) = rest.first() {
            let (mut n, mut blocks) = (1, first.blocks);
            while let Some(next) = rest.get(n) {
                let fits = (blocks + next.blocks) as usize * BLOCK <= MOST;
                if next.pba != first.pba + blocks || !fits {
                    break;
                }
                blocks += next.blocks;
                n += 1;
            }
            let at = u64::from(first.pba) * BLOCK as u64;
            if n == 1 {
                medium.write(at, first.bytes())?;
            } else {
                joined.clear();
                rest[..n].iter().for_each(|p| joined.extend_from_slice(p.bytes()));
                medium.write(at, &joined)?;
            }
            rest = &rest[n..];
        }
        Ok(())
    }

    fn find(&self, pba: u32) -> Option<&Piece> {
        self.pieces.iter().rev().find(|p| (p.pba..p.pba + p.blocks).contains(&pba))
    }
}

/// All batches that are not on the medium.
#[derive(Debug)]
pub(super) struct Flight {
    gathered: Batch,
    flying: Vec<Arc<Batch>>,
    /// Batches below this have ended, and these too.
    low: u64,
    ended: BTreeSet<u64>,
    slots: usize,
    /// Batches written, and blocks in them.
    pub batches: u64,
    pub blocks: u64,
}

impl Flight {
    pub fn new(slots: u32) -> Flight {
        Flight {
            gathered: Batch::default(),
            flying: Vec::new(),
            low: 0,
            ended: BTreeSet::new(),
            slots: slots as usize,
            batches: 0,
            blocks: 0,
        }
    }

    /// The batch that what is gathered now goes out with.
    pub fn ticket(&self) -> u64 {
        self.gathered.id
    }

    /// The batch that must have ended for everything so far to be on the medium.
    pub fn last(&self) -> u64 {
        match self.gathered.pieces.is_empty() {
            true => self.gathered.id.saturating_sub(1),
            false => self.gathered.id,
        }
    }

    pub fn has_ended(&self, id: u64) -> bool {
        id < self.low || self.ended.contains(&id) || (id == 0 && self.nothing_yet())
    }

    /// Whether all batches up to `id` have ended.
    pub fn all_ended(&self, id: u64) -> bool {
        id < self.low || self.nothing_yet()
    }

    fn nothing_yet(&self) -> bool {
        self.gathered.id == 0 && self.gathered.pieces.is_empty()
    }

    /// Takes what is gathered, if a slot is free.
    pub fn depart(&mut self) -> Option<Arc<Batch>> {
        if self.gathered.pieces.is_empty() || self.flying.len() >= self.slots {
            return None;
        }
        let next = Batch { id: self.gathered.id + 1, pieces: Vec::new() };
        let batch = Arc::new(std::mem::replace(&mut self.gathered, next));
        self.batches += 1;
        self.blocks += batch.pieces.iter().map(|p| u64::from(p.blocks)).sum::<u64>();
        self.flying.push(batch.clone());
        Some(batch)
    }

    pub fn arrive(&mut self, id: u64) {
        self.flying.retain(|batch| batch.id != id);
        self.ended.insert(id);
        while self.ended.remove(&self.low) {
            self.low += 1;
        }
    }

    /// The bytes of `count` blocks from `pba` on that are still on their way: for each its number
    /// and where its bytes are.
    pub fn copies(&self, pba: Pba, count: u32) -> Vec<(u32, Arc<Vec<u8>>, u32)> {
        let batches = || self.flying.iter().map(|b| &**b).chain([&self.gathered]);
        if batches().all(|batch| batch.pieces.is_empty()) {
            return Vec::new();
        }
        let mut found = Vec::new();
        for i in 0..count {
            if let Some(p) = batches().find_map(|batch| batch.find(pba.0 + i)) {
                found.push((i, p.data.clone(), p.from + pba.0 + i - p.pba));
            }
        }
        found
    }
}

/// Feeds the engine's output into the batch that gathers.
pub(super) struct Feed<'a> {
    pub flight: &'a mut Flight,
    /// The request's blocks, one after the other.
    pub data: Arc<Vec<u8>>,
    /// Block of `data` that the request's first is.
    pub from: u32,
}

impl Feed<'_> {
    /// For headers alone.
    pub fn headers(flight: &mut Flight) -> Feed<'_> {
        Feed { flight, data: Arc::new(Vec::new()), from: 0 }
    }
}

impl Sink for Feed<'_> {
    fn data(&mut self, _: HeadKind, pba: Pba, first: u32, count: u32) {
        let piece =
            Piece { pba: pba.0, blocks: count, data: self.data.clone(), from: self.from + first };
        self.flight.gathered.pieces.push(piece);
    }
    fn header(&mut self, _: HeadKind, pba: Pba, block: &[u8; BLOCK]) {
        let data = Arc::new(block.to_vec());
        self.flight.gathered.pieces.push(Piece { pba: pba.0, blocks: 1, data, from: 0 });
    }
}
