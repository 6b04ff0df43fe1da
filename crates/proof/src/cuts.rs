//! Where the power can go: every operation, at every instant, in every way of tearing it.

use block::Rng;
use nand::{Cut, Instant, Left, Torn};

use crate::subject::DurableKind;

/// One loss of power of a run. Operations are numbered from 0 at each power-on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PowerCut {
    /// At an operation.
    At(Cut),
    /// After so many steps, with everything begun done.
    After(u64),
}

/// Ways a program can be cut, as coverage counts them; see [`fault_index`].
pub const FAULTS: usize = 20;

const TORN: [Torn; 4] = [Torn::Nothing, Torn::Prefix, Torn::Garbage, Torn::Mixed(0)];
const LEFT: [Left; 4] = [Left::Old, Left::Blank, Left::Garbage, Left::Mixed(0)];

/// Seeds are 31 bits so that a plan file can hold them.
fn seed(rng: &mut Rng) -> u64 {
    rng.next_u64() >> 33
}

fn torn(rng: &mut Rng, which: usize) -> Torn {
    match TORN[which] {
        Torn::Mixed(_) => Torn::Mixed(seed(rng)),
        fixed => fixed,
    }
}

fn left(rng: &mut Rng, which: usize) -> Left {
    match LEFT[which] {
        Left::Mixed(_) => Left::Mixed(seed(rng)),
        fixed => fixed,
    }
}

/// Number of ways to cut an operation.
pub fn variants(kind: DurableKind, pairs: bool) -> usize {
    match kind {
        // Before it; inside it, torn in four ways, with the paired page unhurt or damaged.
        DurableKind::Program if pairs => 9,
        DurableKind::Program => 5,
        // Before it; inside it, with four kinds of leftovers.
        DurableKind::Erase => 5,
        // Before it, inside it.
        DurableKind::MarkBad | DurableKind::Flush => 2,
    }
}

/// The `n`-th way to cut operation `op`. What the cut does to other operations under way is
/// drawn, as are the seeds.
pub fn variant(kind: DurableKind, op: u64, n: usize, pairs: bool, rng: &mut Rng) -> Cut {
    let any = |rng: &mut Rng| rng.below(4) as usize;
    let instant = if n == 0 { Instant::Before } else { Instant::Inside };
    let (torn, pair, left) = match kind {
        DurableKind::Program if n > 0 => {
            let torn = torn(rng, (n - 1) % 4);
            let other = any(rng);
            (torn, n > 4, left(rng, other))
        }
        DurableKind::Erase if n > 0 => {
            let (own, other) = (left(rng, n - 1), any(rng));
            (torn(rng, other), pairs && rng.ratio(1, 2), own)
        }
        _ => {
            let (a, b) = (any(rng), any(rng));
            (torn(rng, a), pairs && rng.ratio(1, 2), left(rng, b))
        }
    };
    Cut { op, instant, torn, pair, left }
}

/// At the moment the request that booked `op` was submitted: all that is still under way is torn.
pub fn booked(op: u64, pairs: bool, rng: &mut Rng) -> Cut {
    Cut { instant: Instant::Booked, ..variant(DurableKind::Program, op, 0, pairs, rng) }
}

/// The number of a kind of cut, for coverage: below [`FAULTS`].
pub fn fault_index(kind: Option<DurableKind>, cut: &PowerCut) -> u8 {
    let PowerCut::At(cut) = cut else { return 0 };
    let torn = match cut.torn {
        Torn::Nothing => 0,
        Torn::Prefix => 1,
        Torn::Garbage => 2,
        Torn::Mixed(_) => 3,
    };
    let left = match cut.left {
        Left::Old => 0,
        Left::Blank => 1,
        Left::Garbage => 2,
        Left::Mixed(_) => 3,
    };
    match (cut.instant, kind) {
        (Instant::Booked, _) => 1,
        (Instant::Before, Some(DurableKind::Program)) => 2,
        (Instant::Before, Some(DurableKind::Erase)) => 3,
        (Instant::Before, Some(DurableKind::Flush)) => 19,
        (Instant::Before, _) => 4,
        (Instant::Inside, Some(DurableKind::Program)) => 5 + torn + if cut.pair { 4 } else { 0 },
        (Instant::Inside, Some(DurableKind::Erase)) => 13 + left,
        (Instant::Inside, Some(DurableKind::Flush)) => 18,
        (Instant::Inside, _) => 17,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_variant_is_another_kind_of_cut() {
        let mut rng = Rng::new(1);
        for pairs in [false, true] {
            for kind in
                [DurableKind::Program, DurableKind::Erase, DurableKind::MarkBad, DurableKind::Flush]
            {
                let kinds: BTreeSet<u8> = (0..variants(kind, pairs))
                    .map(|n| PowerCut::At(variant(kind, 7, n, pairs, &mut rng)))
                    .map(|cut| fault_index(Some(kind), &cut))
                    .collect();
                assert_eq!(kinds.len(), variants(kind, pairs), "{kind:?}");
                assert!(kinds.iter().all(|k| usize::from(*k) < FAULTS));
            }
        }
    }
}
