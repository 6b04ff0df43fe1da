//! Which cuts of a history are looked at.
//!
//! With everything lost that is not durable, the drive changes only when something becomes durable: at the
//! end of a flush, or at a forced change. Just before each of these the program has promised the most for
//! what is there: these are all the worst cases, and there are no others. Cuts between leave the same drive
//! and fewer promises. A forced change of several blocks is cut within as well: two cases stand for all of these.
//! Beside them any number of states is drawn, anywhere, with any part of what is pending.

use std::collections::BTreeSet;

use block::Rng;
use stack::datalog::Op;

use crate::history::{ENDED, History, READY, STARTED};
use crate::states::{Builder, Cut, Left, StateHash};

/// From when on the power may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum From {
    /// The program's first operation.
    Init,
    /// The program's `ready`; its first operation, if it never says so.
    Ready,
}

/// The cuts of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cuts {
    /// The worst case wherever something becomes durable, and at the end.
    pub worst: Vec<Cut>,
    /// Drawn ones, in the order in which they are built.
    pub drawn: Vec<Cut>,
    /// Something could be lost at one of the places where something becomes durable.
    pub pending: bool,
    /// The record from which on the power may go.
    pub first: usize,
    /// The record behind which it does not go any more.
    pub last: usize,
    /// Of the states of `worst`, then of `drawn`.
    pub hashes: Vec<StateHash>,
}

impl Cuts {
    /// The worst, then the drawn.
    pub fn all(&self) -> impl Iterator<Item = &Cut> {
        self.worst.iter().chain(&self.drawn)
    }
}

/// The records between which the power goes.
pub fn range(history: &History, from: From) -> (usize, usize) {
    let started = history.ours(STARTED).map_or(0, |at| at + 1);
    let ready = || history.ours(READY).map(|at| at + 1);
    let first = match from {
        From::Init => started,
        From::Ready => ready().unwrap_or(started),
    };
    let last = history.ours(ENDED).unwrap_or(history.records().len());
    (first, last.max(first))
}

/// What tells states apart: the drive, and what the program had said.
type Key = (u128, usize, Vec<String>);

/// The cuts of a history: all worst cases, or none, and so many drawn from a seed.
pub fn choose(
    history: &History,
    atomic: u64,
    from: From,
    all: bool,
    drawn: u64,
    seed: u64,
) -> Cuts {
    let (first, last) = range(history, from);
    let mut cuts = Cuts { first, last, ..Cuts::default() };
    let mut seen: BTreeSet<Key> = BTreeSet::new();
    let mut builder = Builder::new(history, atomic);
    let records = history.records();
    let changes = |at: &usize| {
        let record = &records[*at];
        let forced = record.fua && matches!(record.op, Op::Write | Op::Trim | Op::Zero);
        record.op == Op::FlushEnd || forced
    };
    for at in (first..last).filter(changes).chain([last]) {
        builder.forward(at);
        cuts.pending |= builder.pending().next().is_some();
        // What is not looked at here is not known: it may be drawn.
        let key = (builder.durable().0, builder.promised().len(), builder.begun().to_vec());
        if !all {
            continue;
        }
        if seen.insert(key) {
            cuts.worst.push(Cut { at, left: Left::Worst });
            cuts.hashes.push(builder.durable());
        }
        for left in torn(&builder) {
            let hash = builder.state(&left).hash;
            let key = (hash.0, builder.promised().len(), builder.begun().to_vec());
            if seen.insert(key) {
                cuts.worst.push(Cut { at, left });
                cuts.hashes.push(hash);
            }
        }
    }
    let found = draw(history, atomic, (first, last), drawn, seed, &mut seen);
    for (cut, hash) in found {
        cuts.drawn.push(cut);
        cuts.hashes.push(hash);
    }
    cuts
}

/// A forced change of several blocks that is cut within, with everything else lost: every other block of it is there, from
/// the first on or from the second.
fn torn(builder: &Builder<'_>) -> Vec<Left> {
    let blocks: Vec<(u64, u32)> = builder.under_way().collect();
    let from = |first: usize| Left::Keep(blocks.iter().skip(first).step_by(2).copied().collect());
    if blocks.is_empty() { Vec::new() } else { vec![from(0), from(1)] }
}

fn draw(
    history: &History,
    atomic: u64,
    (first, last): (usize, usize),
    count: u64,
    seed: u64,
    seen: &mut BTreeSet<Key>,
) -> Vec<(Cut, StateHash)> {
    let mut rng = Rng::stream(seed, "torture/cuts");
    // What was seen already is drawn again, so often.
    let most = count.saturating_mul(4);
    let mut places: Vec<(u64, u64)> =
        (0..most).map(|_| (rng.between(first as u64, last as u64), rng.next_u64())).collect();
    let mut found = Vec::new();
    // Built forward, in lots of as many as are still wanted.
    while !places.is_empty() && (found.len() as u64) < count {
        let wanted = (count as usize - found.len()).min(places.len());
        let mut lot: Vec<(u64, u64)> = places.drain(..wanted).collect();
        lot.sort_unstable();
        let mut builder = Builder::new(history, atomic);
        for (at, drawn) in lot {
            builder.forward(at as usize);
            let left = Left::Seed(drawn);
            let hash = builder.state(&left).hash;
            let key = (hash.0, builder.promised().len(), builder.begun().to_vec());
            if seen.insert(key) {
                found.push((Cut { at: at as usize, left }, hash));
            }
        }
    }
    found.sort_by_key(|(cut, _)| cut.at);
    found
}
