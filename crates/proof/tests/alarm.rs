//! The alarm works: a toy translation layer that is right passes every cut, and each way of
//! breaking it is caught.

mod breaks;
mod toy;

use block::Rng;
use toy::{Break, Spec, Toy};
use varve_proof::{Action, Broken, Contract, PageOracle, Step};

const PAGES: u32 = 16;

fn steps(seed: u64, count: usize) -> Vec<Step> {
    let mut rng = Rng::stream(seed, "steps");
    let page = |rng: &mut Rng| {
        if rng.ratio(1, 2) { rng.below(3) as u32 } else { rng.below(u64::from(PAGES) - 1) as u32 }
    };
    (0..count)
        .map(|_| {
            let (page, count) = (page(&mut rng), 1 + rng.below(2) as u32);
            let action = match rng.below(20) {
                0..12 => Action::Write { page, count, fua: rng.ratio(1, 8) },
                12..14 => Action::Discard { page, count },
                14..16 => Action::Flush,
                _ => Action::Read { page, count },
            };
            Step { action, overlap: rng.ratio(1, 3), app: 0 }
        })
        .collect()
}

fn hunt(broken: Break, seeds: u64) -> (u64, Option<Broken>) {
    let spec = Spec { broken, pages: PAGES };
    let work = |seed| (steps(seed, 80), steps(seed ^ 0xFFFF, 12));
    breaks::hunt::<Toy, PageOracle>(&spec, work, seeds)
}

#[test]
fn a_right_one_passes_every_cut() {
    let (cuts, broken) = hunt(Break::Nothing, 20);
    assert!(broken.is_none(), "{broken:?}");
    assert!(cuts > 10_000, "{cuts} cuts are too few to mean anything");
}

#[test]
fn each_way_of_breaking_it_is_caught() {
    let ways: [(Break, &[Contract]); 6] = [
        (Break::AckBeforeProgram, &[Contract::C1, Contract::C5]),
        (Break::EraseBeforeCopies, &[Contract::C1, Contract::C5]),
        (Break::NewestByAddress, &[Contract::C1, Contract::C5, Contract::C6]),
        (Break::TrimForgotten, &[Contract::C5, Contract::C1]),
        (Break::FreshSeqOnCopy, &[Contract::C1, Contract::C5]),
        (Break::WrongPlace, &[Contract::C6, Contract::C5]),
    ];
    breaks::all_are_caught(ways, |broken| hunt(broken, 50));
}
